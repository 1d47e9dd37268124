# SPDX-License-Identifier: Apache-2.0
"""The rows of training: bars for ours, none for other packages, and why one of these is absent."""

import sys

import pytest

from benchmarks import training
from benchmarks.options import Options
from benchmarks.probes import training as probe
from benchmarks.probes import training_peers
from benchmarks.process import ProbeError
from benchmarks.row import Absent, Failed, Row

LOOP, SPYX = "a scan by hand, unrolled 1", "spyx 1.0.0"


def rows(monkeypatch, *, here, peers=True):
    asked = []

    def run(name, arguments, platform):
        asked.append(arguments)
        ways = {"backend jax": [2e-3], "backend numba": [1e-3], LOOP: [4e-3]} | ({SPYX: [8e-3]} if here else {})
        absent = {} if here else {"spyx": "spyx is not installed here"}
        absent = absent if arguments["peers"] else {}
        return {"seconds": ways, "bytes": {name: [2**20] for name in ways}, "absent": absent}

    monkeypatch.setattr(training, "run_probe", run)
    return list(training.measure_rows(Options(quick=True, peers=peers))), asked


def test_another_package_is_compared_and_has_no_bar(monkeypatch):
    found, asked = rows(monkeypatch, here=True)
    assert all(isinstance(row, Row) for row in found)
    assert all(list(one["peers"]) == ["spyx"] for one in asked)
    [row, *_] = [row for row in found if row.name.endswith(SPYX)]
    assert (row.bar, row.ratio.median) == (None, 2)
    assert len([row for row in found if row.bar]) == 8


@pytest.mark.parametrize(("peers", "why"), [(True, "spyx is not installed here"), (False, "--no-peers was given")])
def test_a_package_that_is_not_there_is_named_once(monkeypatch, peers, why):
    found, asked = rows(monkeypatch, here=False, peers=peers)
    assert [one for one in found if isinstance(one, Absent)] == [Absent("spyx", why)]
    assert all(bool(one["peers"]) == peers for one in asked)


@pytest.mark.parametrize(
    ("missing", "why"), [("spyx", "spyx is not installed here"), ("grain", "it cannot be imported: no grain")]
)
def test_reasons_name_what_is_missing(monkeypatch, missing, why):
    def loss_of(package, **how):
        raise ImportError(f"no {missing}", name=missing)

    monkeypatch.setattr(probe, "loss_of", loss_of)
    assert probe._peers(["spyx"], 8) == ({}, {"spyx": why})


@pytest.mark.parametrize("here", [True, False])
def test_pytorch_has_a_process_of_its_own_on_a_gpu(monkeypatch, here):
    def run(name, arguments, platform):
        ways = {"torch 2.12": [9e-3]} if name == "training_torch" else {"backend cuda": [1e-3], LOOP: [4e-3]}
        if "torch 2.12" in ways and not here:
            raise ProbeError("no memory")
        assert (platform, "peers" in arguments) == (("cpu", False) if "torch 2.12" in ways else ("gpu", True))
        absent = {"spikingjelly": "it cannot be imported"} if "torch 2.12" in ways else {}
        return {"seconds": ways, "bytes": {way: [2**20] for way in ways}, "absent": absent}

    monkeypatch.setattr(training, "run_probe", run)
    found = list(training.measure_gpu_rows(Options(quick=True)))
    of_torch = [row for row in found if isinstance(row, Row) and row.name.endswith("torch 2.12")]
    assert [(row.bar, row.ratio.median) for row in of_torch] == [(None, 2.25), (None, 1)] * 6 * here
    assert len([row for row in found if isinstance(row, Row) and row.bar]) == 12
    failed = [one for one in found if isinstance(one, Failed)]
    assert [one.what.endswith("torch and spikingjelly") for one in failed] == [True] * 6 * (not here)
    assert [one for one in found if isinstance(one, Absent)] == [Absent("spikingjelly", "it cannot be imported")] * here


def test_spyx_is_not_imported_unless_it_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "spyx", None)
    with pytest.raises(ImportError, match="spyx"):
        training_peers.loss_of("spyx", inputs=2, hidden=2, classes=2, keep=1.0, leak=1.0, slope=1.0)
