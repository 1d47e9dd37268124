# SPDX-License-Identifier: Apache-2.0
"""Every spike of a run is recorded, and what is counted of it is what a dense array says."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import brainevent
from brainevent import Spikes
from brainevent.bench.plot.style import THEMES

DENSE = hnp.arrays(bool, st.tuples(st.integers(0, 12), st.integers(0, 37)))


def replay(dense):
    """Return a step whose spikes are the rows of an array."""
    return lambda state, i: (state + 1, dense[i])


def events(dense, dt=1.0):
    steps, neurons = np.nonzero(dense)
    return steps * dt, neurons


# ---- recording


@settings(max_examples=6)
@given(
    hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(0, 37))),
    st.sampled_from(["bool", "float32", "float16", "int32"]),
    st.sampled_from([1, 2, 5]),
)
def test_every_spike_is_recorded(dense, dtype, unroll):
    rows = jnp.asarray(dense).astype(dtype) * (3 if dtype != "bool" else True)
    last, spikes = brainevent.record(replay(rows), jnp.int32(0), len(dense), dt=0.5, unroll=unroll)
    assert last == len(dense)
    assert (spikes.size, spikes.steps, spikes.duration) == (dense.shape[1], len(dense), len(dense) * 0.5)
    np.testing.assert_array_equal(spikes.todense(), dense)
    times, neurons = events(dense, 0.5)
    np.testing.assert_array_equal(spikes.neurons, neurons)
    np.testing.assert_allclose(spikes.times, times)


def test_what_is_not_zero_is_a_spike():
    rows = jnp.array([[-1.0, 0.0, 2.0, jnp.nan]])
    _, spikes = brainevent.record(replay(rows), jnp.int32(0), 1, dt=1)
    assert spikes.counts.tolist() == [1, 0, 1, 1]
    _, wrapped = brainevent.record(lambda s, i: (s, brainevent.BinaryArray(rows[0])), 0, 2, dt=1)
    assert wrapped.counts.tolist() == [2, 0, 2, 2]


def test_a_step_takes_one_bit_per_neuron_on_the_device():
    _, spikes = brainevent.record(lambda s, i: (s, jnp.ones(33, bool)), 0, 10, dt=1)
    assert isinstance(spikes.bits, jax.Array)
    assert (spikes.bits.shape, spikes.bits.dtype) == ((10, 5), np.uint8)


def test_state_and_operands_are_trees_and_one_program_serves_all_values():
    traces = []

    def step(state, i, current, gain):
        traces.append(i)
        v = state["v"] + gain["g"] * current
        return {"v": jnp.where(v >= 1, 0, v)}, v >= 1

    counts = []
    for g in (0.25, 0.5, 0.125):
        last, spikes = brainevent.record(step, {"v": jnp.zeros(2)}, 8, jnp.array([1.0, 2]), {"g": jnp.float32(g)}, dt=1)
        counts.append(spikes.counts.tolist())
        assert last["v"].shape == (2,)
    assert counts == [[2, 4], [4, 8], [1, 2]]
    assert len(traces) <= 2  # one for the program, one for the number of neurons


def test_under_jit_and_vmap_spikes_are_a_tree():
    def step(v, i, current):
        v = v + current
        return jnp.where(v >= 1, 0.0, v), v >= 1

    def run(current):
        return brainevent.record(step, jnp.zeros(3), 8, current, dt=0.1)[1]

    currents = jnp.array([[0.0, 0.25, 0.5], [1.0, 0.125, 0.25]])
    batch = jax.jit(jax.vmap(run))(currents)
    assert repr(batch) == "Spikes(2 runs, 3 neurons, 8 steps of 0.1 ms)"
    for k, current in enumerate(currents):
        np.testing.assert_array_equal(batch[k].counts, run(current).counts)
    assert batch[1].counts.tolist() == [8, 1, 2]
    assert jax.tree.leaves(batch)[0].shape == (2, 8, 1)
    with pytest.raises(brainevent.errors.ShapeError, match=r"a batch of \(2,\) runs; take one, as in spikes\[0\]"):
        batch.times  # noqa: B018


def test_no_steps_and_no_neurons():
    _, none = brainevent.record(lambda s, i: (s, jnp.ones(3, bool)), 0, 0, dt=1)
    assert (none.times.size, none.counts.tolist(), none.intervals().size) == (0, [0, 0, 0], 0)
    _, nobody = brainevent.record(lambda s, i: (s, jnp.ones(0, bool)), 0, 5, dt=1)
    assert (nobody.counts.size, nobody.rates().size) == (0, 0)
    np.testing.assert_array_equal(nobody.population_rate(1)[1], np.zeros(5))
    with pytest.raises(ValueError, match=r"Spikes.rates: the run has no steps, so there is no rate"):
        none.rates()


QUIET = (lambda s, i: (s, jnp.zeros(3, bool)), 0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: brainevent.record(*QUIET, 2.5, dt=1), TypeError, "record: steps is 2.5; pass an integer"),
        (lambda: brainevent.record(*QUIET, -1, dt=1), ValueError, "record: steps is -1; pass at least 0"),
        (lambda: brainevent.record(*QUIET, 1, dt=1, unroll=0), ValueError, "record: unroll is 0; pass at least 1"),
        (
            lambda: brainevent.record(*QUIET, 2**31, dt=1),
            ValueError,
            "steps is 2147483648; pass at most 2147483647",
        ),
        (
            lambda: brainevent.record(*QUIET, 10**6, dt=1, unroll=10**6),
            ValueError,
            "record: unroll is 1000000, and each of these steps is compiled separately; pass at most 1000",
        ),
        (lambda: brainevent.record(*QUIET, float("inf"), dt=1), TypeError, "record: steps is inf; pass an integer"),
        (lambda: brainevent.record(*QUIET, 1, dt=10**400), ValueError, "record: dt is 1000000"),
        (lambda: brainevent.record(*QUIET, 1, dt=float("nan")), ValueError, "record: dt is nan; pass the length"),
        (lambda: brainevent.record(*QUIET, 1, dt=0), ValueError, "record: dt is 0; pass the length of a step in milli"),
        (lambda: brainevent.record(*QUIET, 1, dt="1"), ValueError, "record: dt is '1'; pass"),
        (lambda: brainevent.record(lambda s, i: s, 0, 1, dt=1), TypeError, "return a pair, (state, spikes)"),
        (
            lambda: brainevent.record(lambda s, i: (s, jnp.ones((2, 3))), 0, 1, dt=1),
            ValueError,
            "record: a step's spikes have shape (2, 3); pass a vector, one element per neuron",
        ),
        (lambda: Spikes.from_dense(jnp.ones(3), 1.0), ValueError, "has shape (3,); pass (steps, neurons)"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_a_reason(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


# ---- counting


@given(DENSE, st.sampled_from([0.1, 1.0]))
def test_counts_and_rates_are_those_of_the_array(dense, dt):
    spikes = Spikes.from_dense(dense, dt)
    np.testing.assert_array_equal(spikes.counts, dense.sum(0))
    if len(dense):
        np.testing.assert_allclose(spikes.rates(), dense.mean(0) * 1e3 / dt)


@given(DENSE.filter(len), st.integers(1, 5))
def test_the_population_rate_is_the_mean_of_each_bin(dense, wide):
    spikes = Spikes.from_dense(dense, 0.1)
    times, rate = spikes.population_rate(wide * 0.1)
    pieces = [dense[start : start + wide] for start in range(0, len(dense), wide)]
    means = [piece.mean() * 1e4 if piece.size else 0 for piece in pieces]
    np.testing.assert_allclose(rate, means)
    np.testing.assert_allclose(times, [(k * wide + len(piece) / 2) * 0.1 for k, piece in enumerate(pieces)])


@given(DENSE)
def test_intervals_are_between_spikes_of_one_neuron(dense):
    expected = [np.diff(np.flatnonzero(column)) * 0.5 for column in dense.T]
    np.testing.assert_allclose(Spikes.from_dense(dense, 0.5).intervals(), np.concatenate([*expected, []]))


@given(st.integers(0, 99_000), st.integers(1, 900), st.sampled_from([0.1, 0.3, 1 / 3, 2.5]))
def test_a_part_begins_in_the_step_of_a_time_in_every_precision(start, steps, dt):
    run = Spikes.from_events([start], [0], 1, dt, n_steps=100_000)
    for precise in (float, np.float32, jnp.float32):
        part = run.between(precise(start * dt), precise((start + steps) * dt))
        assert (part.first, part.steps) == (start, steps)


@settings(max_examples=6)
@given(DENSE.filter(lambda dense: dense.size), st.data())
def test_parts_keep_numbers_and_times(dense, data):
    steps, size = dense.shape
    chosen = data.draw(hnp.arrays(bool, size))
    start = data.draw(st.integers(0, steps - 1))
    stop = data.draw(st.integers(start + 1, steps))
    part = Spikes.from_dense(dense, 0.1).of(chosen).between(start * 0.1, stop * 0.1)
    kept = np.zeros_like(dense)
    kept[start:stop] = dense[start:stop] & chosen
    times, neurons = events(kept, 0.1)
    np.testing.assert_allclose(part.times, times)
    np.testing.assert_array_equal(part.neurons, neurons)
    np.testing.assert_array_equal(part.members, np.flatnonzero(chosen))
    np.testing.assert_array_equal(part.counts, kept.sum(0)[chosen])
    assert part.steps == stop - start
    if chosen.any():
        assert part.population_rate(0.1)[1].sum() == pytest.approx(kept.sum() / chosen.sum() * 1e4)
        assert part.population_rate(0.1)[0][0] == pytest.approx((start + 0.5) * 0.1)


def test_neurons_are_chosen_by_slice_number_and_twice():
    spikes = Spikes.from_dense(np.ones((2, 10), bool), 1.0)
    assert spikes.of(slice(2, 5)).members.tolist() == [2, 3, 4]
    assert spikes.of([7, 1, -1]).members.tolist() == [1, 7, 9]
    assert spikes.of(3).counts.tolist() == [2]
    assert spikes.of(slice(2, 5)).of([4, 8]).members.tolist() == [4]
    assert spikes.of([]).counts.size == 0


def test_many_spikes_are_unpacked_in_portions(monkeypatch):
    monkeypatch.setattr("brainevent.spikes.events._AT_ONCE", 3)
    dense = np.random.default_rng(0).random((9, 50)) < 0.5
    spikes = Spikes.from_dense(dense, 1.0)
    np.testing.assert_array_equal(spikes.times, events(dense)[0])
    np.testing.assert_array_equal(spikes.neurons, events(dense)[1])


RUN = Spikes.from_dense(np.random.default_rng(0).random((200, 40)) < 0.1, 0.5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: RUN.of([40]), IndexError, "there are 40 neurons"),
        (lambda: RUN.between(90, 10), ValueError, "no step is between 90 and 10 ms; the run is from 0 to 100 ms"),
        (lambda: RUN.between(200, 300), ValueError, "no step is between 200 and 300 ms"),
        (lambda: RUN.population_rate(0.7), ValueError, "bin is 0.7 ms; pass a multiple of dt, which is 0.5"),
        (lambda: RUN.population_rate(0), ValueError, "bin is 0 ms; pass a multiple"),
        (lambda: RUN.population_rate(-1.0), ValueError, "bin is -1 ms; pass a multiple"),
        (lambda: RUN.population_rate(10**400), ValueError, "bin is inf ms; pass a multiple"),
        (lambda: RUN.between(10**400, 10**400), ValueError, "no step is between inf and inf ms"),
        (lambda: RUN.population_rate(float("inf")), ValueError, "bin is inf ms; pass a multiple"),
        (lambda: RUN.population_rate(float("nan")), ValueError, "bin is nan ms; pass a multiple"),
        (lambda: RUN.population_rate("1"), TypeError, "Spikes.population_rate: bin is '1'; pass a number of millisec"),
        (lambda: RUN.between(float("nan"), 1), ValueError, "Spikes.between: start is nan; pass a time in milliseconds"),
        (lambda: RUN.between(0, "1"), ValueError, "Spikes.between: stop is '1'; pass a time in milliseconds; the run"),
        (
            lambda: RUN.between(np.inf, np.inf),
            ValueError,
            "no step is between inf and inf ms; the run is from 0",
        ),
        (lambda: RUN.of([10**30]), IndexError, "there are 40 neurons"),
        (lambda: RUN.of(float("inf")), IndexError, "there are 40 neurons"),
        (lambda: RUN.plot_intervals(bins=2.5), TypeError, "Spikes.plot_intervals: bins is 2.5; pass an integer"),
        (lambda: RUN[0], TypeError, "this is one run, not a batch; take neurons by of(...)"),
        (lambda: RUN.raster(theme="drak"), ValueError, "Spikes.raster: unknown theme 'drak'; did you mean 'dark'?"),
        (lambda: RUN.plot_rate(7), TypeError, "Spikes.plot_rate: ax is int; pass axes of matplotlib"),
        (lambda: RUN.plot_intervals(bins=0), ValueError, "Spikes.plot_intervals: bins is 0; pass at least 1"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_a_reason(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


@given(
    st.sampled_from([-np.inf, -(10**400), -1e300, -7, 20, 1e300, np.inf]),
    st.sampled_from([-np.inf, 20.5, 1e300, np.inf]),
)
def test_times_beyond_the_run_are_its_ends(start, stop):
    low, high = (0 if time < 0 else 200 if time > 100 else int(time * 2) for time in (start, stop))
    if low >= high:
        with pytest.raises(ValueError, match="no step is between"):
            RUN.between(start, stop)
        return
    part = RUN.between(start, stop)
    assert (part.first, part.steps) == (low, high - low)
    np.testing.assert_array_equal(part.todense(), RUN.todense()[low:high])


@pytest.mark.parametrize("wide", [1e300, 1e6, 100.0])
def test_a_bin_that_is_longer_than_the_run_is_the_run(wide):
    middle, rate = RUN.population_rate(wide)
    np.testing.assert_allclose(middle, [50.0])
    np.testing.assert_allclose(rate, [RUN.rates().mean()])


def test_more_bins_than_steps_are_one_for_each_step():
    figures = [RUN.plot_intervals(bins=bins) for bins in (10**4, 10**15)]
    one, other = (figure.axes[0].patches[0].get_data() for figure in figures)
    np.testing.assert_array_equal(one.edges, other.edges)
    np.testing.assert_allclose(np.diff(one.edges), 0.5)
    np.testing.assert_array_equal(one.values, other.values)


# ---- pictures

GROUPS = {"low": slice(0, 30), "high": slice(30, 40)}


def named(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []


@pytest.mark.parametrize("theme", [None, "light", "dark"])
def test_a_raster_has_a_mark_for_each_spike(theme):
    figure = RUN.raster(groups=GROUPS, theme=theme, title="Who")
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_xdata().size]
    points = np.concatenate([line.get_xydata() for line in marks])
    expected = np.stack([RUN.times, RUN.neurons], 1)
    assert {tuple(p) for p in points} == {tuple(p) for p in expected}
    assert len(points) == len(expected)
    colours = THEMES[theme or "light"]
    assert [line.get_color() for line in marks] == list(colours.colours[:2])
    assert named(axes) == ["low", "high"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (ms)", "neuron")
    assert axes.get_xlim() == (0, 100)
    assert figure.get_suptitle() == "Who"


def test_a_raster_of_many_spikes_is_pixels(monkeypatch, tmp_path):
    (few,) = RUN.raster().axes[0].lines
    monkeypatch.setattr(importlib.import_module("brainevent.spikes.pictures.raster"), "_MOST_MARKS", 10)
    (many,) = RUN.raster().axes[0].lines
    assert (few.get_rasterized(), many.get_rasterized()) == (False, True)
    RUN.raster().savefig(tmp_path / "a.svg")
    RUN.raster().savefig(tmp_path / "b.svg")
    assert b"<image" in (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_rates_and_intervals_are_drawn_for_each_group():
    (axes,) = RUN.plot_rate(bin=5, groups=GROUPS).axes
    for line, part in zip(axes.lines, GROUPS.values(), strict=True):
        np.testing.assert_allclose(line.get_xydata().T, RUN.of(part).population_rate(5))
    assert named(axes) == ["low", "high"]
    (axes,) = RUN.plot_intervals(groups=GROUPS, bins=10).axes
    heights = [patch.get_data().values for patch in axes.patches]
    np.testing.assert_allclose(axes.patches[0].get_data().edges / RUN.dt % 1, 0.5)  # between steps
    assert [sum(found) for found in heights] == pytest.approx([1, 1])
    assert named(axes) == ["low", "high"]
    assert "share of intervals" in axes.get_ylabel()


@pytest.mark.parametrize(("shortest", "longest"), [(1, 12), (13, 150), (1, 3000)])
def test_intervals_over_decades_have_ticks_in_plain_numbers(shortest, longest):
    times = np.cumsum([0, *np.geomspace(shortest, longest, 40).astype(int)])
    (axes,) = Spikes.from_dense(np.isin(np.arange(times[-1] + 1), times)[:, None], dt=1.0).plot_intervals().axes
    axes.figure.canvas.draw()
    ticks = [*axes.get_xticklabels(minor=False), *axes.get_xticklabels(minor=True)]
    low, high = axes.get_xlim()
    words = [tick.get_text() for tick in ticks if low <= tick.get_position()[0] <= high and tick.get_text()]
    assert 2 <= len(words) <= 15
    assert all(word == f"{float(word):g}" for word in words)


def test_pictures_go_into_axes_that_are_there():
    outer = RUN.raster()
    axes = outer.axes[0]
    axes.clear()
    axes.set_facecolor("black")
    assert RUN.plot_rate(axes, title="Rate", linewidth=3) is outer
    assert axes.get_title() == "Rate"
    assert axes.lines[0].get_linewidth() == 3
    assert axes.lines[0].get_color() == THEMES["dark"].colours[0]


@pytest.mark.parametrize(
    "dense",
    [
        np.zeros((0, 0), bool),
        pytest.param(np.zeros((3, 0), bool), marks=pytest.mark.thorough),
        np.zeros((4, 2), bool),
        pytest.param(np.eye(5) > 0, marks=pytest.mark.thorough),
    ],
)
def test_silence_can_be_drawn(dense, tmp_path):
    spikes = Spikes.from_dense(dense, 0.1)
    for figure in (spikes.raster(), spikes.plot_intervals(), *([spikes.plot_rate(bin=0.1)] if len(dense) else [])):
        figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
