# SPDX-License-Identifier: Apache-2.0
"""The model of cost of networks on several hosts: what it says, and that the page shows what follows from it."""

import json
import re
from pathlib import Path

import pytest
from programs import ROOT

from benchmarks import hosts

PAGE = (ROOT / "docs" / "several-hosts.md").read_text()
RESULTS = Path(hosts.RESULTS)


def result(name):
    """Return what was measured, and the predictions that were written with it."""
    found = json.loads((RESULTS / name).read_text())
    return found["measured on one machine"], found["predicted, not measured"]


def rows(head):
    """Return the rows of the table of the page whose head begins with some words."""
    _, rest = PAGE.split(f"| {head} |", 1)
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"hosts": 1, "delay": 15, "fixed": 1e-3, "spikes": 1e6}, 1e-3),  # one host exchanges nothing
        ({"hosts": 2, "delay": 1, "fixed": 4e-3, "spikes": 0}, 0.5e-3 + 4e-3 + 1e-5),
        ({"hosts": 2, "delay": 10, "fixed": 4e-3, "spikes": 0}, 0.5e-3 + 4e-4 + 1e-6),
        ({"hosts": 1024, "delay": 10, "fixed": 0, "spikes": 0}, 1e-3 / 1024 + 1023e-6),
        ({"hosts": 1024, "delay": 10, "fixed": 0, "spikes": 0, "tree": True}, 1e-3 / 1024 + 10e-6),
        ({"hosts": 4, "delay": 10, "fixed": 0, "spikes": 1e6}, 0.25e-3 + 3e-6 + 3e-4),  # bytes grow with the delay
        ({"hosts": 4, "delay": 10, "fixed": 0, "spikes": 1e6, "padding": 2}, 0.25e-3 + 3e-6 + 6e-4),
    ],
)
def test_a_step_is_a_share_and_an_exchange(how, expected):
    how = {"step": 1e-3, "latency": 1e-5, "bandwidth": 1e10, **how}
    assert hosts.predicted(**how) == pytest.approx(expected)


def test_predictions_follow_from_what_was_measured():
    measured, written = result("2026-11-27-nvidia-h200-hosts.json")
    assert hosts.prediction_of(measured) == written
    measured, written = result("2026-11-27-hosts-cpu.json")
    assert hosts.prediction_on_cpus(measured) == written


def test_predictions_go_to_a_thousand_gpus():
    assert hosts.HOSTS[0] == 1
    assert hosts.HOSTS[-1] >= 1000


def test_the_page_shows_the_predictions_for_cpus():
    _, written = result("2026-11-27-hosts-cpu.json")
    known = {(one["network"], one["delay"], one["hosts"]): one["step_us"] for one in written["steps"]}
    found = rows("network | delay | 1 host | 2 | 8 | 32 | 128 | 1024")
    assert len(found) == 6
    for network, delay, *times in found:
        expected = [known[network, int(delay), count] for count in (1, 2, 8, 32, 128, 1024)]
        assert [float(time) for time in times] == [float(f"{x:.3g}") if x < 1000 else round(x) for x in expected]


def test_the_page_shows_the_predictions_for_gpus():
    """Those of a ring and of a tree."""
    _, written = result("2026-11-27-nvidia-h200-hosts.json")
    known = {(one["scale"], one["delay"], one["gpus"]): (one["ring_us"], one["tree_us"]) for one in written["steps"]}
    found = rows("neurons | delay | 1 GPU | 2 | 8 | 64 | 1024")
    assert len(found) == 6
    for neurons, delay, *times in found:
        scale = round(float(neurons.split()[0]) * 1e6 / written["neurons"])
        for cell, count in zip(times, (1, 2, 8, 64, 1024), strict=True):
            ring, tree = (float(f"{x:.3g}") if x < 1000 else round(x) for x in known[scale, int(delay), count])
            assert [float(x) for x in cell.split(",")] == ([ring, tree] if count > 2 else [ring])


def test_the_page_says_what_is_a_prediction_and_from_which_delay_hosts_gain():
    for title in ("### On CPUs", "### On GPUs"):
        part = re.split(r"\n##", PAGE.split(title, 1)[1], maxsplit=1)[0]
        assert "**A prediction, not a measurement**" in part
    _, written = result("2026-11-27-nvidia-h200-hosts.json")
    least = 2e6 * written["fixed_s"]  # E / (T (1 - 1/H)) for two GPUs
    assert re.search(rf"if the delay is larger than {least:.0f} .s over the time of a step on one", PAGE)
