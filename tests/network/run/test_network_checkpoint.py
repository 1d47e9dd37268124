# SPDX-License-Identifier: Apache-2.0
"""A simulation goes on from a file as if it had not stopped; what is no file of its network is said in words."""

import dataclasses
import io
import json
import pickle
import re
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
import small_plans
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import ROOT

from brainevent.errors import CheckpointError
from brainevent.network.engines import ENGINES, make_engine
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.checkpoint import FORMAT
from brainevent.network.run.simulation import Simulation

PLAN = small_plans.plan()
KEPT = ROOT / "tests" / "data"
ALL = ["a.spikes", "b.spikes", "a.counts", "b.v"]


def simulation(plan=PLAN):
    return Simulation(plan, Interpreted(plan))


def spikes(result):
    return [array for name in "ab" for array in (result[f"{name}.spikes"].times, result[f"{name}.spikes"].neurons)]


def snapshot(sim):
    return jax.tree.map(np.array, (sim.state, sim.params))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return a file after 30 steps, with a parameter that was changed."""
    sim = simulation()
    sim.set("a", threshold=7.5)
    sim.run(30)
    path = tmp_path_factory.mktemp("saved") / "day1.npz"
    sim.save(path)
    return path


def rewritten(file, path, drop=(), **changes):
    """Write a file again with other arrays; `header` is a dictionary of what to change there."""
    with np.load(file) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"])) | changes.pop("header", {})
    arrays |= {"header": np.array(json.dumps(header)), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if name not in drop})
    return path


# ---- going on


@settings(max_examples=6)
@given(st.integers(1, 50))
def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path_factory, stop):
    whole, first, second = simulation(), simulation(), simulation()
    for sim in (whole, first):
        sim.set("a", threshold=7.5)
    expected = whole.run(60, ALL)
    path = tmp_path_factory.mktemp("saved") / "x.npz"
    one = first.run(stop, ALL)
    first.save(path)
    second.run(5)
    second.load(path)
    assert (second.steps, second.params["a"]["threshold"]) == (stop, np.float32(7.5))
    both = one + second.run(60 - stop, ALL)
    for found, array in zip(spikes(both), spikes(expected), strict=True):
        np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(both["b.v"], expected["b.v"])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_file_does_not_depend_on_threads(file, parts):
    one, other = simulation(), simulation(small_plans.plan(parts))
    one.load(file)
    other.load(str(file))
    for found, array in zip(spikes(one.run(30, ALL)), spikes(other.run(30, ALL)), strict=True):
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("backend", [name for name in ENGINES if name != "cuda"])
def test_every_engine_goes_on_from_a_file_of_another(file, tmp_path, backend):
    plan = small_plans.plan(2)
    first, sim, last = simulation(plan), Simulation(plan, make_engine(plan, backend)), simulation(plan)
    first.load(file)
    sim.load(file)
    jax.tree.map(np.testing.assert_array_equal, snapshot(sim), snapshot(first))
    sim.run(20)
    sim.save(tmp_path / "x.npz")
    last.load(tmp_path / "x.npz")
    jax.tree.map(np.testing.assert_array_equal, snapshot(last), snapshot(sim))
    if backend != "jax":  # which rounds in its own way
        first.run(20)
        jax.tree.map(np.testing.assert_array_equal, snapshot(first), snapshot(sim))


def test_a_file_holds_plain_arrays_in_a_documented_layout(file):
    with np.load(file, allow_pickle=False) as archive:
        header = json.loads(str(archive["header"]))
        assert set(archive.files) == {
            "header",
            "step",
            *(f"neurons/{name}/{state}" for name in "ab" for state in ("v", "pause")),
            *(f"arriving/{name}/syn" for name in "ab"),
            *(f"params/{name}/{param}" for name in "ab" for param in ("decay", "drive", "threshold")),
        }
        assert (archive["step"], archive["step"].dtype) == (30, np.uint32)
        assert archive["arriving/a/syn"].shape == (8, 37)
    assert {key: header[key] for key in ("format", "fingerprint", "seed", "scheme")} == {
        "format": FORMAT,
        "fingerprint": "small",
        "seed": 1,
        "scheme": 1,
    }
    with zipfile.ZipFile(file) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_a_file_is_replaced_in_one_piece(tmp_path, monkeypatch):
    sim, path = simulation(), tmp_path / "x.npz"
    sim.run(3)
    sim.save(path)
    before = path.read_bytes()
    sim.run(3)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            sim.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]
    sim.save(path)
    again = simulation()
    again.load(path)
    assert again.steps == 6


@pytest.mark.parametrize("path", sorted(KEPT.glob("network-checkpoint-*.npz")), ids=lambda path: path.stem)
def test_files_of_every_format_are_read(path):
    """Each was written after 40 steps with another threshold, by the version of brainevent that made the format."""
    sim, whole = simulation(), simulation()
    sim.load(path)
    assert sim.steps == 40
    whole.set("a", threshold=7.5)
    whole.run(40)
    jax.tree.map(np.testing.assert_array_equal, snapshot(sim), snapshot(whole))
    expected = spikes(whole.run(80, ALL))
    assert expected[0].size > 20
    for found, array in zip(spikes(sim.run(80, ALL)), expected, strict=True):
        np.testing.assert_array_equal(found, array)


def test_there_is_a_file_of_every_format():
    assert [path.stem for path in sorted(KEPT.glob("network-checkpoint-*.npz"))] == [
        f"network-checkpoint-{number}" for number in range(1, FORMAT + 1)
    ]


# ---- what is refused


def other_rule(s, arriving, p):
    new, spike = small_plans.leaky(s, arriving, p)
    return new.replace(v=new.v * p.decay), spike


def with_population(**changes):
    """Return the plan with another population a, and another fingerprint."""
    changed = small_plans.population("a", 37, 1, **changes)
    return dataclasses.replace(PLAN, populations=(changed, PLAN.populations[1]), fingerprint="other")


def renamed():
    populations = (dataclasses.replace(PLAN.populations[0], name="c"), PLAN.populations[1])
    return dataclasses.replace(PLAN, populations=populations, synapses=(), fingerprint="other")


OTHERS = {
    "seed": (dataclasses.replace(PLAN, seed=2, fingerprint="other"), "it has the seed 1, and this network 2"),
    "rule": (with_population(rule=other_rule), "the rule of a has changed since"),
    "params": (
        with_population(decay=np.float32(0.5)),
        "sizes, initial states, parameters or synapses are not those of",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_network_is_refused_unless_forced(file, kind):
    plan, words = OTHERS[kind]
    sim = simulation(plan)
    sim.run(3)
    before = snapshot(sim)
    with pytest.raises(CheckpointError, match=re.escape(words)) as refused:
        sim.load(file)
    assert "pass force=True to go on from its state" in str(refused.value)
    assert str(file) in str(refused.value)
    assert sim.steps == 3
    jax.tree.map(np.testing.assert_array_equal, snapshot(sim), before)
    sim.load(file, force=True)
    assert sim.steps == 30
    expected = simulation()
    expected.load(file)
    jax.tree.map(np.testing.assert_array_equal, sim.state, expected.state)
    assert sim.params["a"]["threshold"] == np.float32(8)
    sim.run(5)


LAYOUTS = {
    "sizes": (
        dataclasses.replace(PLAN, populations=(small_plans.population("a", 36, 1), PLAN.populations[1]), synapses=()),
        "a.v is float32 (37,), but here float32 (36,); pass a state of this network",
    ),
    "names": (renamed(), "c has nothing, but here it has v, pause"),
    "delays": (
        dataclasses.replace(PLAN, synapses=()),
        "arriving: a.syn is int32 (8, 37), but here int32 (1, 37)",
    ),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_another_layout_is_refused_also_if_forced(file, kind, tmp_path):
    plan, words = LAYOUTS[kind]
    sim = simulation(dataclasses.replace(plan, fingerprint="other"))
    with pytest.raises(CheckpointError, match=r"pass force=True"):
        sim.load(file)
    same = {population.name: {"syn": float(population.quanta["syn"])} for population in plan.populations}
    path = rewritten(file, tmp_path / "x.npz", header={"quanta": same})
    with pytest.raises(CheckpointError, match=re.escape(words)):
        sim.load(path, force=True)
    assert sim.steps == 0


def test_populations_of_other_names_are_named(file):
    with pytest.raises(CheckpointError, match=r"it has the populations a, b, and this network c, b"):
        simulation(renamed()).load(file)


HEADERS = {
    "scheme": ({"scheme": 7}, "its random number scheme is 7, and that of this brainevent is 1"),
    "format": (
        {"format": 9, "brainevent": "9.1"},
        "the file has format 9, written by brainevent 9.1; brainevent ",
    ),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_files_of_other_versions_are_refused(file, tmp_path, kind):
    header, words = HEADERS[kind]
    path = rewritten(file, tmp_path / "x.npz", header=header)
    with pytest.raises(CheckpointError, match=re.escape(words)):
        simulation().load(path)


def without_header(file, path):
    np.savez(path, step=np.uint32(3))


def pickled(file, path):
    np.savez(path, header=np.array({"format": 1}, object), allow_pickle=True)


def one_array(file, path):
    with open(path, "wb") as out:
        np.save(out, np.zeros(3))


def damaged(file, path):
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        at = archive.getinfo("neurons/a/v.npy").header_offset + 100
    data[at] ^= 0xFF
    path.write_bytes(data)


def with_more_bytes(file, path):
    """Let one array be followed by a byte that is none of it."""
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(path, "w") as out:
        for name in archive.namelist():
            out.writestr(name, archive.read(name) + (b"x" if name == "neurons/a/v.npy" else b""))


class Touch:
    """An object that makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


FOREIGN = {
    "empty": lambda file, path: path.write_bytes(b""),
    "text": lambda file, path: path.write_text("threshold = -50\n"),
    "cut": lambda file, path: path.write_bytes(file.read_bytes()[:-100]),
    "half": lambda file, path: path.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "damaged": damaged,
    "one array": one_array,
    "other npz": without_header,
    "pickled": pickled,
    "an array with more bytes": with_more_bytes,
    "header is no JSON": lambda file, path: np.savez(path, header=np.array("{")),
    "header is a list": lambda file, path: np.savez(path, header=np.array("[1]")),
    "header is too deep": lambda file, path: np.savez(path, header=np.array("[" * 100_000)),
    "header is large": lambda file, path: np.savez_compressed(path, header=np.array(" " * 2**24)),
    "no zip": lambda file, path: path.write_bytes(pickle.dumps({"format": 1})),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_cut_and_foreign_files_are_refused(file, tmp_path, kind):
    path = tmp_path / "x.npz"
    FOREIGN[kind](file, path)
    sim = simulation()
    sim.run(4)
    before = snapshot(sim)
    for force in (False, True):
        with pytest.raises(
            CheckpointError, match=r"the file is incomplete, damaged, or not a checkpoint of brainevent \("
        ):
            sim.load(path, force=force)
    jax.tree.map(np.testing.assert_array_equal, snapshot(sim), before)
    assert sim.run(3).first == 4


def test_every_cut_is_found(file, tmp_path):
    data, path = file.read_bytes(), tmp_path / "x.npz"
    for length in range(0, len(data), 97):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError):
            simulation().load(path)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_damaged_is_refused_or_does_not_matter(file, tmp_path_factory, data):
    """Some bytes of a file, such as dates, mean nothing."""
    damaged = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "x.npz"
    path.write_bytes(damaged)
    sim, right = simulation(), simulation()
    before = snapshot(sim)
    right.load(file)
    try:
        sim.load(path)
    except CheckpointError:
        jax.tree.map(np.testing.assert_array_equal, snapshot(sim), before)
    else:
        jax.tree.map(np.testing.assert_array_equal, snapshot(sim), snapshot(right))


def claimed(path, name, size):
    """Add a member that says it is an array of so many elements, and has none of them."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (size,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", head.getvalue())
    return path


HOSTILE = {
    "no array of the network": (["neurons/a/v"], "neurons/a/v", 2**40, "a.v is float32 (1099511627776,)"),
    "no state of the network": ([], "neurons/a/w", 2**40, "a has v, pause, w, but here it has v, pause"),
    "no population": ([], "neurons/c/v", 2**40, "there is no population 'c'; populations: a, b"),
    "no parameter": ([], "params/a/w", 2**40, "parameters of a do not have the shapes of this network"),
    "parameters of others": ([], "params/c/w", 2**40, "it has parameters of 'c'; populations: a, b"),
    "no weights": ([], "weights/a->b.syn", 2**40, "weights/a->b.syn does not have the shape of this network"),
    "no bytes": (["neurons/a/v"], "neurons/a/v", 37, "the file is incomplete, damaged, or not a checkpoint"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_arrays_that_do_not_belong_there_are_not_read(file, tmp_path, kind):
    drop, name, size, words = HOSTILE[kind]
    path = claimed(rewritten(file, tmp_path / "x.npz", drop=drop), name, size)
    sim = simulation()
    before = snapshot(sim)
    with pytest.raises(CheckpointError, match=re.escape(words)):
        sim.load(path)
    jax.tree.map(np.testing.assert_array_equal, snapshot(sim), before)


def test_no_object_is_made(file, tmp_path):
    path, seen = tmp_path / "x.npz", tmp_path / "seen"
    with np.load(file) as archive:
        np.savez(path, **dict(archive) | {"neurons/a/v": np.array([Touch(seen)] * 37)}, allow_pickle=True)
    with pytest.raises(CheckpointError, match=re.escape("a.v is object (37,), but here float32 (37,)")):
        simulation().load(path)
    assert not seen.exists()


@pytest.mark.parametrize(("key", "value"), [("rules", ["a", "b"]), ("quanta", 3), ("seed", "1"), ("fingerprint", None)])
def test_headers_of_other_kinds_are_refused(file, tmp_path, key, value):
    path = rewritten(file, tmp_path / "x.npz", header={key: value})
    with pytest.raises(
        CheckpointError, match=re.escape(f"{key} in its header is {value!r}: the file is damaged; pass another one")
    ):
        simulation().load(path, force=True)


MISSING = {
    "neurons/a/v": "a has pause, but here it has v, pause",
    "params/b/drive": "parameters of b do not have the shapes of this network: the file is damaged; pass another one",
    "arriving/b/syn": "arriving: b has nothing, but here it has syn",
    "step": "the array step is missing: the file is damaged; pass another one",
}


@pytest.mark.parametrize("name", MISSING)
def test_files_that_lack_an_array_are_refused(file, tmp_path, name):
    path = rewritten(file, tmp_path / "x.npz", drop=[name])
    with pytest.raises(CheckpointError, match=re.escape(MISSING[name])):
        simulation().load(path)


def test_headers_that_lack_an_entry_are_refused(file, tmp_path):
    with np.load(file) as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "x.npz", **arrays | {"header": np.array('{"format": 1, "seed": 1}')})
    with pytest.raises(CheckpointError, match=r"its header lacks fingerprint, quanta, rules, scheme: the file is dam"):
        simulation().load(tmp_path / "x.npz")


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        simulation().load(tmp_path / "none.npz")
