# SPDX-License-Identifier: Apache-2.0
"""The network of 32 areas: its sizes, its rates at small scale, and areas that a folder describes."""

import re
import subprocess
import sys

import numpy as np
import pytest
from programs import ROOT, program_environment

from examples.networks import area_tables, areas, report

SCALE = 0.002


@pytest.fixture(scope="module")
def made():
    return areas.made()


def test_areas_have_the_published_orders_of_magnitude(made):
    others = made.inputs.copy()
    k = np.arange(32)
    others[k, :, k] = 0
    synapses = (made.inputs.sum((2, 3)) * made.sizes).sum()
    assert made.sizes.sum() == pytest.approx(4.13e6, rel=1e-3)
    assert synapses == pytest.approx(24.2e9, rel=0.01)
    assert (others.sum((2, 3)) * made.sizes).sum() / made.sizes.sum() == pytest.approx(2000)
    between = made.delays[~np.eye(32, dtype=bool)]
    assert 1 < between.min() < 5
    assert 12 < between.max() < 25
    assert made.external.min() > 0
    np.testing.assert_array_equal(made.delays, made.delays.T)


def test_rounding_keeps_what_a_neuron_has_in_total(made):
    for share in (0.002, 0.03, 1):
        found = areas.rounded(share * made.inputs)
        assert found.min() >= 0
        assert abs(found - share * made.inputs).max() < 1
        for sign in (slice(0, None, 2), slice(1, None, 2)):
            expected = share * made.inputs[..., sign].sum((2, 3))
            assert abs(found[..., sign].sum((2, 3)) - expected).max() <= 0.5


def test_it_is_described_by_few_projections():
    network = areas.network(SCALE)
    assert len(network.populations) == 8
    assert len(network.projections) < 90
    numbers = areas.rounded(SCALE * areas.made().inputs)
    sim = network.build(seed=1, backend="numba")
    within, between = (sim.connections(f"4E->4E {kind}") if kind == "within" else sim.connections(f"23E->4E {kind}")
                       for kind in ("within", "between"))  # fmt: skip
    of = {name: sim.at(name)["area"].astype(int) for name in ("23E", "4E")}
    assert (of["4E"][within.sources] == of["4E"][within.targets]).all()
    counts = np.zeros((32, 32), int)
    np.add.at(counts, (of["4E"][between.targets], of["23E"][between.sources]), 1)
    expected = numbers[:, 2, :, 0] * np.bincount(of["4E"])[:, None]
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(counts, expected)
    late = areas.made().delays[of["4E"][between.targets], of["23E"][between.sources]]
    assert abs(between.delays - late).max() < 0.051


def test_all_areas_fire_at_small_scale_with_the_same_bits_on_any_number_of_threads():
    network = areas.network(SCALE)
    record = [f"{name}.counts" for name in areas.NAMES]
    first, second = (network.build(seed=1, backend="numba", threads=threads) for threads in (1, 2))
    first.run(1000)
    second.run(1000)
    one, two = (sim.run(2000, record=record) for sim in (first, second))
    for name in record:
        np.testing.assert_array_equal(one[name], two[name])
    found = areas.rates(network, one, 200)
    sizes = np.stack([np.bincount(p.at["area"].astype(int)) for p in network.populations], axis=1)
    of_areas = (found * sizes).sum(1) / sizes.sum(1)
    assert of_areas.min() > 1
    assert of_areas.max() < 6
    mean = (found * sizes).sum(0) / sizes.sum(0)
    assert np.argsort(mean)[:2].tolist() in ([0, 6], [6, 0])
    assert mean[5] > mean[4] > mean[0]


@pytest.mark.thorough
def test_areas_with_all_inputs_do_not_explode():
    """Two areas of a tenth of the neurons, each with all of its inputs: what they send each other comes back."""
    made = areas.made()
    pair = areas.Areas(
        made.names[:2], made.sizes[:2], made.inputs[:2, :, :2].copy(), made.external[:2], made.delays[:2, :2]
    )
    lost = (made.inputs[:2].sum((2, 3)) - pair.inputs.sum((2, 3)))[:, :, None]
    share = pair.inputs * ~np.eye(2, dtype=bool)[:, None, :, None]
    pair.inputs[...] += lost[..., None] * share / share.sum((2, 3), keepdims=True)
    sim = (network := areas.network(0.1, 1.0, pair)).build(seed=1, backend="numba")
    sim.run(2000)
    found = areas.rates(network, sim.run(3000, record=[f"{name}.counts" for name in areas.NAMES]), 300)
    mean = (found * made.sizes[:2]).sum() / made.sizes[:2].sum()
    assert 1 < mean < 10


# ---- areas of a folder


def write(folder, areas_, inputs="number", late="delays"):
    """Write `Areas` as tables."""

    def rows(name, head, values):
        (folder / name).write_text("\n".join([",".join(head), *(",".join(map(str, row)) for row in values)]) + "\n")

    names = areas_.names
    for name, values in (("sizes", areas_.sizes), ("external", areas_.external)):
        rows(f"{name}.csv", ["area", *areas.NAMES], [[a, *row] for a, row in zip(names, values.tolist(), strict=True)])
    head = ["area", *names]
    factor = 1 if late == "delays" else areas.SPEED
    rows(f"{late}.csv", head, [[a, *row] for a, row in zip(names, (factor * areas_.delays).tolist(), strict=True)])
    pairs = [
        [names[i], areas.NAMES[j], names[k], areas.NAMES[m], number]
        for (i, j, k, m), value in np.ndenumerate(areas_.inputs)
        if (number := float(value if inputs == "number" else value * areas_.sizes[i, j]))
    ]
    rows("inputs.csv", [*area_tables.PAIRS, inputs], pairs)


@pytest.fixture
def few(made):
    """Three areas, of which the last has no layer 4."""
    sizes, inputs = made.sizes[:3].copy(), made.inputs[:3, :, :3].copy()
    sizes[2, 2:4] = 0
    inputs[2, 2:4], inputs[:, :, 2, 2:4] = 0, 0
    external = made.external[:3] * np.linspace(1, 1.1, 3)[:, None]
    return areas.Areas(["V1", "V2", "TH"], sizes, inputs, external, made.delays[:3, :3])


@pytest.mark.parametrize(("inputs", "late"), [("number", "delays"), ("synapses", "distances")])
def test_a_folder_describes_areas(tmp_path, few, inputs, late):
    write(tmp_path, few, inputs, late)
    found = area_tables.read(tmp_path)
    assert found.names == few.names
    np.testing.assert_array_equal(found.sizes, few.sizes)
    for name in ("inputs", "external", "delays"):
        np.testing.assert_allclose(getattr(found, name), getattr(few, name), rtol=1e-12)


def test_areas_of_a_folder_run(tmp_path, few):
    write(tmp_path, few)
    network = areas.network(0.01, areas=area_tables.read(tmp_path))
    four = network.populations[2]
    assert not (four.at["area"] == 2).any()
    sim = network.build(seed=1, backend="numba")
    one = sim.connections("23E->5E between")
    of = {name: sim.at(name)["area"].astype(int) for name in ("23E", "5E")}
    expected = few.delays[of["5E"][one.targets], of["23E"][one.sources]]
    assert abs(one.delays - expected).max() < 0.051
    sim.run(1000)
    found = areas.rates(network, sim.run(2000, record=[f"{name}.counts" for name in areas.NAMES]), 200)
    assert np.isnan(found[2, 2:4]).all()
    assert 1 < np.nanmean(found) < 12


def broken(folder, name, edit):
    path = folder / name
    lines = path.read_text().splitlines()
    edit(lines)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("sizes.csv", lambda lines: lines.clear(), r"sizes.csv has no column 'area'"),
        ("sizes.csv", lambda lines: lines.__delitem__(slice(1, None)), "sizes.csv has no rows"),
        ("sizes.csv", lambda lines: lines.append(lines[1]), "line 5: area 'V1' is there twice"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,1,2"), "line 2: has another number of values"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,1,2,3,4,5,6.5,7,8"), "line 2: 5I of V1 has 6.5 neurons"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,1_0,2,3,4,5,6,7,8"), "line 2: found '1_0'"),
        (
            "sizes.csv",
            lambda lines: lines.__setitem__(1, "V1,1e30,2,3,4,5,6,7,8"),
            r"line 2: found '1e30'.* below 2\*\*31",
        ),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,,2,3,4,5,6,7,8"), "line 2: found ''"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, ",1,2,3,4,5,6,7,8"), "line 2: has no name of an area"),
        ("sizes.csv", lambda lines: lines.extend(["", "X,-1,2,3,4,5,6,7,8"]), "line 6: found '-1'"),
        ("sizes.csv", lambda lines: more(lines, "1E", "5"), "sizes.csv: column '1E' is no population"),
        ("sizes.csv", lambda lines: more(lines, "23E", "5"), "sizes.csv: column '23E' is there twice"),
        ("external.csv", lambda lines: more(lines, "23e", "5"), "external.csv: column '23e' is no population"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,-1,2,3,4,5,6,7,8"), "line 2: found '-1'"),
        ("sizes.csv", lambda lines: lines.__setitem__(1, "V1,nan,2,3,4,5,6,7,8"), "line 2: found 'nan'"),
        ("external.csv", lambda lines: lines.pop(), "external.csv: area 'TH' is missing"),
        ("external.csv", lambda lines: lines.append("X" + lines[1][2:]), "area 'X' is not in sizes.csv"),
        ("delays.csv", lambda lines: lines.__setitem__(0, "area,V1,V2,V3"), "has no column 'TH'"),
        ("delays.csv", lambda lines: more(lines, "V3", "1"), "delays.csv: column 'V3' is no area in sizes.csv"),
        ("delays.csv", lambda lines: more(lines, "V2", "1"), "delays.csv: column 'V2' is there twice"),
        ("inputs.csv", lambda lines: more(lines, "number", "1"), "inputs.csv: column 'number' is there twice"),
        ("inputs.csv", lambda lines: lines.__setitem__(1, "V1,23E,V1,23E,1e30"), "line 2: found '1e30'"),
        ("inputs.csv", lambda lines: lines.__setitem__(0, lines[0] + "s"), "needs one of the columns"),
        ("inputs.csv", lambda lines: lines.append("V9,4E,V1,4E,1"), "target_area is 'V9', which is no area"),
        ("inputs.csv", lambda lines: lines.append("V1,4E,V1,4X,1"), "source is '4X', which is no population"),
        ("inputs.csv", lambda lines: lines.append(lines[1]), "these two populations are there twice"),
        ("inputs.csv", lambda lines: lines.append("V1,23E,TH,4E,1"), "the source has no neurons in sizes.csv"),
    ],
)
def test_what_is_wrong_in_a_folder_is_named(tmp_path, few, name, edit, words):
    write(tmp_path, few)
    broken(tmp_path, name, edit)
    with pytest.raises(ValueError, match=words):
        area_tables.read(tmp_path)


def more(lines, name, value):
    """Add a column."""
    lines[:] = [f"{line},{value if number else name}" for number, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("sizes.csv", "area,23E\nV\xe9,1\n".encode("latin-1"), "sizes.csv is not text in UTF-8"),
        ("inputs.csv", bytes(range(256)), "inputs.csv is not text in UTF-8"),
        ("delays.csv", b"area,V1\nV1," + b"1" * 200_000, r"delays.csv, line 2: field larger than field limit"),
        ("external.csv", b"area;23E\nV1;1\n", r"external.csv has no column 'area'; it has area;23E"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, few, name, text, words):
    write(tmp_path, few)
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ValueError, match=words):
        area_tables.read(tmp_path)


def test_tables_as_other_programs_write_them(tmp_path, few):
    """With a mark at the beginning, spaces after commas, blank lines, and columns of inputs that are notes."""
    write(tmp_path, few)
    for path in tmp_path.iterdir():
        lines = path.read_text().replace(",", ", ").splitlines()
        if path.stem == "inputs":
            more(lines, "seen in", "a study")
        path.write_text("\ufeff" + "\r\n\r\n".join(lines), encoding="utf-8")
    found = area_tables.read(tmp_path)
    for name in ("sizes", "inputs", "external", "delays"):
        np.testing.assert_array_equal(getattr(found, name), getattr(few, name))


def test_the_program_says_what_is_wrong(tmp_path):
    command = [sys.executable, "-m", "examples.networks.area_tables", str(tmp_path / "nowhere")]
    done = subprocess.run(command, cwd=ROOT, env=program_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(
        r"error: areas: \S+nowhere is no folder; pass one with sizes.csv, inputs.csv and others\n$", done.stderr
    )
    assert "Traceback" not in done.stderr


def test_missing_files_are_named(tmp_path, few):
    with pytest.raises(ValueError, match="is no folder"):
        area_tables.read(tmp_path / "nowhere")
    write(tmp_path, few)
    for name in ("sizes", "inputs", "external"):
        path = tmp_path / f"{name}.csv"
        text = path.read_text()
        path.unlink()
        with pytest.raises(ValueError, match=rf"{name}.csv does not exist"):
            area_tables.read(tmp_path)
        path.write_text(text)
    (tmp_path / "distances.csv").write_text("")
    with pytest.raises(ValueError, match=r"needs one of delays.csv and distances.csv; it has both"):
        area_tables.read(tmp_path)
    for name in ("distances", "delays"):
        (tmp_path / f"{name}.csv").unlink()
    with pytest.raises(ValueError, match="it has none"):
        area_tables.read(tmp_path)


@pytest.mark.parametrize("number", ["-1", "0", "nan", "inf", "some"])
def test_numbers_that_are_not_above_0_are_refused(monkeypatch, capsys, number):
    monkeypatch.setattr("sys.argv", ["areas", "--scale", number])
    with pytest.raises(SystemExit):
        report.main("areas", areas.network, scale=0.005)
    assert f"argument --scale: invalid float above 0 value: '{number}'" in capsys.readouterr().err
