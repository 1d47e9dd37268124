# SPDX-License-Identifier: Apache-2.0
"""The page on speed shows the figures of committed results, and pictures of them; runs draw their own."""

import json
import re

import pytest
from drawn_pages import words

import benchmarks.__main__ as program

pytest.importorskip("matplotlib")
speed = pytest.importorskip("docs.speed")
pictures = pytest.importorskip("benchmarks.pictures")

from overlaps import beyond_paper, overlaps  # noqa: E402 - it needs what the lines above look for

MARKS = ("neurons updated", "spikes sent", "spikes of all blocks there", "delivered")


def row(benchmark, name, median, samples=()):
    return {"benchmark": benchmark, "name": name, "value": {"median": median}, "samples": list(samples)}


def test_all_figures_of_the_page_are_those_of_the_results():
    page = speed.PAGE.read_text()
    named = re.findall(r"<!-- figures of (\w+) -->", page)
    assert named == ["gpu", "large", "start", "energy", "onegpu", "pd14", "cpu", "connectome", "steps", "fires"]
    assert speed.with_figures(page) == page


def test_published_factors_are_those_of_the_picture():
    page = speed.PAGE.read_text()
    table = page.split("## Beside other simulators")[1]
    shown = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) \|$", table, re.MULTILINE)
    factors = {name.split(" (")[0]: float(factor) for name, _, factor in shown}
    assert factors.pop("`brainevent`, spikes recorded") == round(speed.load("gpu")["rows"][0]["value"]["median"], 4)
    assert factors == {name.split(",")[0]: factor for name, factor in pictures.PUBLISHED_FACTORS.items()}


def test_each_picture_is_shown_in_both_themes():
    page = speed.PAGE.read_text()
    files = sorted(path.name for path in speed.FOLDER.iterdir())
    assert files == sorted(f"{name}-{theme}.svg" for name in pictures.PICTURES for theme in ("dark", "light"))
    for name in files:
        theme = name[:-4].rpartition("-")[2]
        assert re.search(rf"_static/speed/{name}\n:class: only-{theme}\n:alt: .+\n", page), name


def test_every_machine_finds_the_same_spikes():
    found = {}
    for path in (speed.BENCHMARKS / "results").glob("*microcircuit_statistics*.json"):
        for name, digests in json.loads(path.read_text()).get("data", {}).items():
            if name.endswith("digests"):
                found.setdefault(name, []).append(digests)
    assert sorted(found) == ["PD14, dc drive: digests", "PD14, poisson drive: digests"]
    for all_digests in found.values():
        for of_a_seed in zip(*all_digests, strict=False):
            assert len(set(of_a_seed)) == 1
        assert len(set(all_digests[0])) == len(all_digests[0])


@pytest.mark.thorough
def test_no_text_of_a_picture_covers_another():
    results = [speed.load(name) for name in ("gpu", "steps", "pd14", "fires", "connectome", "onegpu")]
    for name, make in pictures.PICTURES.items():
        figure = make(results, pictures.THEMES["light"])
        assert (overlaps(figure), beyond_paper(figure)) == ([], []), name


def test_pictures_are_of_the_results(tmp_path):
    for path in speed.draw(tmp_path):
        assert words(path.read_text()) == words((speed.FOLDER / path.name).read_text())


def test_a_run_draws_what_it_has_the_data_for(tmp_path):
    rows = [row("gpu_engine", f"CUBA, 5 neurons: {mark}", 100.0 * (k + 1)) for k, mark in enumerate(MARKS)]
    rows.append(row("gpu_engine", "CUBA, 9 neurons: delivered", 7.0))  # its other marks are missing
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"machine": {}, "rows": rows}))
    assert program._draw(file) == [f"drew {tmp_path}/run/steps-{theme}.svg\n" for theme in ("light", "dark")]
    texts = words((tmp_path / "run" / "steps-light.svg").read_text())[0]
    assert {"CUBA, 5 neurons", "400", "deliver"} <= set(texts)
    assert "CUBA, 9 neurons" not in texts


def test_a_run_without_such_data_draws_nothing(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"machine": {}, "rows": [row("overhead", "a row", 1.0)]}))
    assert program._draw(file) == []
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_connectome_is_drawn_beside_other_programs(tmp_path):
    title = "FlyWire-class connectome: the network engine"
    rows = [row("flywire", f"{title}, 1 thread", 0.77), row("flywire", f"{title}, 2 threads", 0.123)]
    result = {"machine": {"cpu": "AMD EPYC"}, "rows": rows}
    paths = pictures.draw([result], tmp_path)
    assert [path.name for path in paths] == ["connectome-light.svg", "connectome-dark.svg"]
    texts = words(paths[0].read_text())[0]
    assert {"brainevent, AMD EPYC, 2 threads", "0.123", "GeNN", "0.5", "PyTorch", "10"} <= set(texts)
    assert "0.77" not in texts


def test_factors_are_named_by_machine_and_by_what_is_recorded():
    machine = {"cpu": "AMD EPYC", "gpu": "NVIDIA H100 80GB HBM3, driver 580.1"}
    names = [
        ("gpu_microcircuit", "PD14, poisson drive: the network engine, spikes recorded", 0.5),
        ("gpu_microcircuit", "PD14, dc drive: the network engine, spikes recorded", 9.0),
        ("microcircuit", "PD14, poisson drive: the network engine, 1 thread", 9.0),
        ("microcircuit", "PD14, poisson drive: the network engine, 2 threads", 2.0),
        ("microcircuit", "PD14, poisson drive: C++ by hand, 1 thread", 9.0),
    ]
    results = [{"machine": machine, "rows": [row(*one) for one in names]}, {"rows": []}]
    found = pictures._our_factors(results, "PD14, poisson drive: ", "microcircuit")
    assert found == {"brainevent, H100, spikes recorded": 0.5, "brainevent, AMD EPYC, 2 threads": 2.0}
