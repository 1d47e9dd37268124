# SPDX-License-Identifier: Apache-2.0
"""Recordings with classes: read, drawn, chosen, and as input of a network."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent
from brainevent import LabelledSpikes, ShapeError

spike = st.tuples(st.floats(0, 20, width=32), st.integers(0, 4))
recordings = st.lists(st.tuples(st.lists(spike, max_size=12), st.integers(0, 3)), min_size=1, max_size=6)


def made(drawn):
    times = [[time for time, _ in spikes] for spikes, _ in drawn]
    units = [[unit for _, unit in spikes] for spikes, _ in drawn]
    return LabelledSpikes.from_lists(times, units, [label for _, label in drawn], 5)


def binned(some, steps, dt):
    """Bin recordings that may be cut: most spikes may be lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return some.binned(steps, dt)


@given(recordings, st.sampled_from([0.5, 1.0, 3.0]), st.integers(1, 12))
def test_an_input_is_1_in_the_steps_in_which_it_spiked(drawn, dt, steps):
    expected = np.zeros((len(drawn), steps, 5), np.uint8)
    for k, (spikes, _) in enumerate(drawn):
        for time, unit in spikes:
            if time // dt < steps:
                expected[k, int(time // dt), unit] = 1
    np.testing.assert_array_equal(binned(made(drawn), steps, dt), expected)


@given(
    st.integers(0, 1 << 20),
    st.integers(1, 400),
    st.sampled_from([0.1, 0.05, 0.2, 0.3, 0.7, 1.0, 2.5, 10.0, 1 / 3, 0.025]),
    st.sampled_from([
        lambda k, dt: k * dt,
        lambda k, dt: np.float32(k * dt),
        lambda k, dt: np.float32(k) * np.float32(dt),
        lambda k, dt: np.float32(k * dt / 1000) * np.float32(1000),
    ]),
    st.sampled_from([float, np.float32]),
)  # fmt: skip
def test_a_multiple_of_a_step_is_in_its_step_in_every_precision(first, number, dt, product, of_type):
    """Also where a product is below the exact one, as 0.7 in float32 is."""
    recorded = [[product(k, dt) for k in range(first, first + number)]]
    one = LabelledSpikes.from_lists(recorded, [[0] * number], [0], 1)
    assert binned(one, first + number, of_type(dt))[0, first:, 0].all()
    inner = LabelledSpikes.from_lists([[(k + 0.5) * dt for k in range(50)]], [[0] * 50], [0], 1)
    assert inner.binned(50, dt).all()  # what is between two steps is in the first of them
    assert not LabelledSpikes.from_lists([[(5 - 1e-5) * dt]], [[0]], [0], 1).binned(6, dt)[0, 5, 0]


def test_spikes_that_are_lost_are_reported():
    in_seconds = LabelledSpikes.from_lists([[0.001, 0.5], [0.002]], [[0, 1], [0]], [0, 1], 2)
    with pytest.warns(
        UserWarning, match="binned: all 3 spikes are in the first of 100 steps, which has 1 ms; .* 0.5 ms"
    ):
        in_seconds.binned(100, 1.0)
    late = LabelledSpikes.from_lists([[1.0, 500.0], [2000.0]], [[0, 1], [0]], [0, 1], 2)
    words = "2 of 3 spikes come after the last step, at 100 ms, and are left out; the last spike is at 2000 ms: check"
    with pytest.warns(UserWarning, match=words):
        late.binned(100, 1.0)
    with pytest.warns(UserWarning, match=f"LabelledSpikes.batches: {words}") as caught:
        assert len(list(late.batches(1, 100, 1.0))) == 2
    assert len(caught) == 1  # for all batches
    assert late.binned(1000, 1.0).sum() == 2  # one that is late is not worth a warning
    assert late[0].binned(1, 2000.0).sum() == 2  # neither is one step


@given(recordings, st.data())
def test_chosen_recordings_are_those_with_their_classes(drawn, data):
    all_, whole = made(drawn), binned(made(drawn), 8, 2.5)
    chosen = data.draw(st.lists(st.integers(0, len(drawn) - 1), max_size=5))
    some = all_[np.array(chosen, int)]
    np.testing.assert_array_equal(binned(some, 8, 2.5), whole[np.array(chosen, int)])
    assert some.labels.tolist() == [drawn[k][1] for k in chosen]
    np.testing.assert_array_equal(binned(all_[1:], 8, 2.5), whole[1:])
    np.testing.assert_array_equal(binned(all_[-1], 8, 2.5), whole[-1:])


def test_batches_hold_each_recording_at_most_once_in_the_order_of_the_seed():
    digits = LabelledSpikes.synthetic(21, classes=3, inputs=30, seed=2)
    found = list(digits.batches(4, 50, 20.0, seed=5))
    assert [y.shape for _, y in found] == [(4,)] * 5
    order = np.random.default_rng(5).permutation(21)[:20]
    np.testing.assert_array_equal(np.concatenate([y for _, y in found]), digits.labels[order])
    np.testing.assert_array_equal(np.concatenate([x for x, _ in found]), digits[order].binned(50, 20.0))
    plain = np.concatenate([y for _, y in digits.batches(7, 50, 20.0)])
    np.testing.assert_array_equal(plain, digits.labels)


def test_drawn_recordings_are_the_same_for_a_seed_and_of_the_size_of_shd():
    first, second = (LabelledSpikes.synthetic(40, seed=3) for _ in range(2))
    for name in ("times", "units", "bounds", "labels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.inputs == 700
    assert len(first) == 40
    assert sorted(set(first.labels)) == list(range(20))
    assert np.diff(first.bounds).tolist() == [8000] * 40
    assert first.times.min() >= 0
    assert first.times.max() < 1000
    assert first.units.max() < 700
    assert not np.array_equal(first.times, LabelledSpikes.synthetic(40, seed=4).times)


def test_classes_are_told_apart_by_time_and_input_together_better_than_by_chance_alone():
    digits = LabelledSpikes.synthetic(120, classes=6, inputs=70, seed=1)
    x = digits.binned(50, 20.0).reshape(120, -1).astype(float)
    means = np.stack([x[:60][digits.labels[:60] == k].mean(0) for k in range(6)])
    guessed = ((x[60:, None] - means) ** 2).sum(-1).argmin(-1)
    assert (guessed == digits.labels[60:]).mean() > 0.5


def test_a_file_of_shd_is_read(tmp_path, monkeypatch):
    class Files(dict):
        """Behaves as a file of h5py does."""

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    class Dataset(list):
        def __getitem__(self, key):
            assert key == ()
            return np.array([None, *self], object)[1:]

    halves = [np.array([0.5, 0.001], np.float16), np.array([], np.float16)]
    content = Files({
        "spikes/times": Dataset(halves),
        "spikes/units": Dataset([np.array([699, 3], np.uint16), np.array([], np.uint16)]),
        "labels": np.array([7, 19], np.uint16),
    })  # fmt: skip
    monkeypatch.setitem(sys.modules, "h5py", type(sys)("h5py"))
    sys.modules["h5py"].File = lambda path, mode: content
    sys.modules["h5py"].is_hdf5 = lambda path: Path(path).suffix == ".h5"
    for name in ("shd_train.h5", "other.h5", "shd_train.h5.gz"):
        (tmp_path / name).touch()
    read = LabelledSpikes.from_hdf5(tmp_path / "shd_train.h5")
    assert (len(read), read.inputs, read.labels.tolist()) == (2, 700, [7, 19])
    np.testing.assert_allclose(read.times, [500, 1], rtol=1e-3)
    assert read[0].binned(501, 1.0)[0, 500, 699] == 1
    del content["labels"]
    with pytest.raises(ValueError, match="has no 'labels'; pass a file of SHD or SSC"):
        LabelledSpikes.from_hdf5(tmp_path / "other.h5")
    with pytest.raises(ValueError, match=r"shd_train\.h5\.gz is not an HDF5 file; .* unpack it with gunzip"):
        LabelledSpikes.from_hdf5(tmp_path / "shd_train.h5.gz")
    with pytest.raises(FileNotFoundError, match=r"nothing\.h5 does not exist; pass the path of a file"):
        LabelledSpikes.from_hdf5(tmp_path / "nothing.h5")


def test_without_h5py_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="from_hdf5: needs the package h5py; install it with `pip install h5py`"):
        LabelledSpikes.from_hdf5("shd_train.h5")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([[1.0]], [[0, 1]], [0], 2), ShapeError, "recording 0 has 1 times but 2 units"),
        (([[1.0], []], [[0]], [0, 0], 2), ShapeError, "2 recordings of times but 1 of units"),
        (([[1.0]], [[0]], [0, 1], 2), ShapeError, r"labels has shape \(2,\); pass one for each, \(1,\)"),
        (([[1.0]], [[2]], [0], 2), ValueError, "a unit is not in the range 0 to 1"),
        (([[1.0]], [[0]], [-1], 2), ValueError, "a label is not in the range"),
        (([[1.0]], [[0.5]], [0], 2), ValueError, "units are float64; pass integers"),
        (([[-1.0]], [[0]], [0], 2), ValueError, "times must be finite and at least 0 ms"),
        (([[float("nan")]], [[0]], [0], 2), ValueError, "times must be finite and at least 0 ms"),
        (([[1e39]], [[0]], [0], 2), ValueError, "times must be finite and at least 0 ms"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        LabelledSpikes.from_lists(*arguments)


def test_numbers_out_of_range_are_refused():
    digits = LabelledSpikes.synthetic(3, classes=2, inputs=7)
    with pytest.raises(ValueError, match="size is 4; pass 1 to 3"):
        digits.batches(4, 10, 1.0)
    with pytest.raises(ValueError, match=r"LabelledSpikes\.binned: steps is 0; pass a number above 0"):
        digits.binned(0, 1.0)
    for name, call in (("binned", digits.binned), ("batches", lambda *given: digits.batches(2, *given))):
        with pytest.raises(TypeError, match=rf"LabelledSpikes\.{name}: steps is 100\.0; pass an integer"):
            call(100.0, 1.0)
        for dt in (0.0, float("inf"), float("nan"), "1", None):
            with pytest.raises(ValueError, match=rf"{name}: dt is {dt!r}; pass the length of a step in milliseconds"):
                call(100, dt)
    with pytest.raises(TypeError, match=r"LabelledSpikes\.batches: size is 2\.0; pass an integer"):
        digits.batches(2.0, 10, 1.0)
    with pytest.raises(TypeError, match=r"LabelledSpikes\.synthetic: recordings is 2\.5; pass an integer"):
        LabelledSpikes.synthetic(2.5)
    with pytest.raises(TypeError, match=r"LabelledSpikes: inputs is 2\.5; pass an integer"):
        LabelledSpikes.from_lists([[1.0]], [[0]], [0], 2.5)
    with pytest.raises(ValueError, match="classes is 0; pass a number above 0"):
        LabelledSpikes.synthetic(3, classes=0)
    with pytest.raises(MemoryError, match=r"LabelledSpikes\.binned: 3 recordings of 1000000000000 steps and 7 inputs"):
        digits.binned(10**12, 1e-3)


def test_recordings_of_no_spikes_are_empty():
    silent = LabelledSpikes.from_lists([[], []], [[], []], [0, 1], 4)
    assert not silent.binned(3, 1.0).any()
    assert repr(silent).startswith("LabelledSpikes(2 recordings, 2 classes")
    assert brainevent.LabelledSpikes is LabelledSpikes


def test_the_classes_of_chosen_recordings_are_those_that_they_have():
    several = LabelledSpikes.from_lists([[]] * 4, [[]] * 4, [0, 14, 3, 3], 4)
    assert repr(several[:2]).startswith("LabelledSpikes(2 recordings, 2 classes with labels up to 14, 4 inputs")
    assert repr(several[2:]).startswith("LabelledSpikes(2 recordings, 1 class with labels up to 3, 4 inputs")
    assert repr(several[:0]).startswith("LabelledSpikes(0 recordings, 0 classes, 4 inputs")
