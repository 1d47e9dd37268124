# SPDX-License-Identifier: Apache-2.0
"""Pictures of spikes, states and weights show what is there, in rows, bands and densities, and say where nothing is."""

import itertools
import re
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import Spikes
from brainevent.bench.plot.style import THEMES

pytest.importorskip("matplotlib")
from matplotlib.colors import to_rgba

from brainevent.bench.plot.picture import Picture

RANDOM = np.random.default_rng(0)
RUN = Spikes.from_dense(RANDOM.random((200, 40)) < 0.1, 0.5)
GROUPS = {"low": slice(0, 30), "high": slice(30, 40)}
SILENT = Spikes.from_dense(np.zeros((20, 3), bool), 1.0)


def many(n=2000, steps=500, share=0.1):
    """Return spikes that marks would cover the axes with."""
    which = RANDOM.choice(n * steps, int(share * n * steps), replace=False)
    return Spikes.from_events(which // n, which % n, n, 0.5, n_steps=steps)


MANY = many()


def points(axes):
    return np.concatenate([line.get_xydata() for line in axes.lines if len(line.get_xdata()) > 2])


def meshes(axes):
    return [found for found in axes.collections if hasattr(found, "get_coordinates")]


def words(axes):
    return [text.get_text() for text in axes.texts]


def ticks(axes):
    axes.figure.draw_without_rendering()
    return {text.get_text(): text.get_position()[1] for text in axes.get_yticklabels()}


# ---- rasters


def test_rows_are_sorted_within_groups():
    (axes,) = RUN.raster(groups=GROUPS, sort_by="rate").axes
    rows = np.concatenate([np.arange(0, 30)[np.argsort(RUN.counts[:30], kind="stable")],
                           np.arange(30, 40)[np.argsort(RUN.counts[30:], kind="stable")]])  # fmt: skip
    expected = {(time, float(np.flatnonzero(rows == n)[0])) for time, n in zip(RUN.times, RUN.neurons, strict=True)}
    assert {(time, round(y, 6)) for time, y in points(axes)} == expected
    assert words(axes)[-1] == "Sorted by rate."
    assert list(ticks(axes)) == ["low", "high"]


@pytest.mark.parametrize("sort_by", ["first", np.arange(40)[::-1]])
def test_rows_are_sorted_by_the_first_spike_or_by_numbers(sort_by):
    (axes,) = RUN.raster(sort_by=sort_by).axes
    key = [RUN.of([n]).times.min(initial=np.inf) for n in range(40)] if isinstance(sort_by, str) else sort_by
    place = np.argsort(np.argsort(key, kind="stable"))
    assert {(t, float(place[n])) for t, n in zip(RUN.times, RUN.neurons, strict=True)} == {
        tuple(p) for p in points(axes)
    }
    assert axes.get_ylabel().startswith("neurons, by ")


def test_a_sample_is_of_all_parts_the_same_each_time():
    one, other = (MANY.raster(sample=100, groups={"a": slice(0, 1500), "b": slice(1500, 2000)}).axes[0] for _ in "12")
    np.testing.assert_array_equal(points(one), points(other))
    assert words(one) == ["100 of 2000 neurons."]
    rows = np.unique(np.round(points(one)[:, 1], 6))
    assert len(rows) == 100
    (axes,) = MANY.raster(sample=100, kind="marks").axes
    assert {500, 1000, 1500} <= {int(word) for word in ticks(axes)}
    assert ticks(axes)["1000"] == pytest.approx(50, abs=1)


def test_a_sample_as_large_as_the_run_is_the_run():
    assert words(RUN.raster(sample=40).axes[0]) == []


@pytest.mark.parametrize(
    ("heights", "high"),
    [("neurons", 0.25), ("equal", 0.5), ({"low": 1, "high": 3}, 0.75), ({"high": 4}, 0.8)],
)
def test_groups_have_heights(heights, high):
    (axes,) = RUN.raster(groups=GROUPS, heights=heights).axes
    (low_line, high_line) = (line for line in axes.lines if len(line.get_xdata()) > 2)
    bottom, top = axes.get_ylim()
    part = (top - high_line.get_ydata().min()) / (top - bottom)
    assert part == pytest.approx(high, abs=0.05)
    assert low_line.get_ydata().max() < high_line.get_ydata().min()


def test_no_group_is_thinner_than_its_name():
    groups = {f"group {k}": slice(k, k + 1) for k in range(7)} | {"rest": slice(7, 2000)}
    (axes,) = MANY.raster(groups=groups, sample=200).axes
    axes.figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in axes.get_yticklabels()), key=lambda box: box.y0)
    assert len(boxes) == 8
    assert all(one.y1 <= other.y0 + 1 for one, other in itertools.pairwise(boxes))


def test_few_neurons_are_rows_with_their_numbers():
    (axes,) = RUN.of([3, 20, 7]).raster().axes
    assert ticks(axes) == {"3": 0, "7": 1, "20": 2}


@pytest.mark.parametrize(("kind", "dense"), [(None, True), ("density", True), ("marks", False)])
def test_many_spikes_are_a_density(kind, dense):
    (axes,) = MANY.raster(kind=kind).axes
    assert bool(meshes(axes)) is dense
    assert bool([line for line in axes.lines if len(line.get_xdata()) > 2]) is not dense
    assert axes.get_ylim() == (-0.5, 1999.5)
    assert axes.get_xlim() == (0, 250)


def test_few_spikes_are_marks_and_keywords_ask_for_them():
    assert not meshes(RUN.raster().axes[0])
    assert not meshes(MANY.raster(color="black").axes[0])
    assert meshes(RUN.raster(kind="density", cmap="magma").axes[0])


def test_a_density_is_in_hertz():
    """All groups have one scale, and cells at the ends, which are smaller, count for what they are."""
    figure = MANY.raster(groups={"a": slice(0, 1990), "b": slice(1990, 2000)}, heights="equal")
    one, two = meshes(figure.axes[0])
    for mesh, part in ((one, MANY.of(slice(0, 1990))), (two, MANY.of(slice(1990, 2000)))):
        x, y = mesh.get_coordinates()[0, :, 0], mesh.get_coordinates()[:, 0, 1]
        weights = np.outer(np.diff(y), np.diff(x))
        assert np.average(mesh.get_array(), weights=weights) == pytest.approx(part.rates().mean(), rel=1e-6)
    assert one.get_clim() == two.get_clim()
    assert one.get_clim()[0] == 0
    assert list(ticks(figure.axes[0])) == ["a", "b"]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_files_in_both_themes(theme, suffix, tmp_path):
    for name in "ab":
        figure = MANY.plot(theme=theme, groups={"a": slice(0, 1500), "b": slice(1500, 2000)}, title="All")
        figure.savefig(tmp_path / f"{name}.{suffix}", dpi=40)
    assert all(axes.get_facecolor() == to_rgba(THEMES[theme].background) for axes in figure.axes)
    assert figure.axes[1].xaxis.label.get_color() == THEMES[theme].ink
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    assert (tmp_path / f"a.{suffix}").stat().st_size < 300_000


# ---- several axes


def test_a_raster_has_the_rate_below():
    figure = RUN.plot(groups=GROUPS, bin=5, smooth=10, title="All", sample=20)
    above, below = figure.axes
    assert figure.get_suptitle() == "All"
    assert above.get_xlim() == below.get_xlim() == (0, 100)
    assert (above.get_xlabel(), below.get_xlabel()) == ("", "time (ms)")
    for line, part in zip(below.lines, GROUPS.values(), strict=True):
        np.testing.assert_allclose(line.get_xydata().T, RUN.of(part).population_rate(5, smooth=10))
    figure.draw_without_rendering()
    left, right = above.get_window_extent(), below.get_window_extent()
    assert (left.x0, left.x1) == pytest.approx((right.x0, right.x1))


def test_a_density_and_the_rate_below_are_aligned():
    figure = MANY.plot()
    figure.draw_without_rendering()
    above, below = (axes.get_window_extent() for axes in figure.axes)
    assert (above.x0, above.x1) == pytest.approx((below.x0, below.x1))


def test_axes_that_share_time_show_all_and_name_it_once():
    figure = Picture(layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    RUN.between(0, 60).raster(ax=above, theme="light", title="Above", groups=GROUPS)
    RUN.between(40, 100).plot_rate(ax=below, theme="light", title="Below", groups=GROUPS)
    assert above.get_xlim() == below.get_xlim() == (0, 100)
    assert (above.get_xlabel(), below.get_xlabel()) == ("", "time (ms)")
    figure.draw_without_rendering()
    for axes in (above, below):
        title, names = axes.title.get_window_extent(), axes.get_legend().get_window_extent()
        assert title.y0 >= names.y1 - 1
    assert below.title.get_window_extent().y1 <= above.get_window_extent().y0


def test_rasters_that_share_neurons_show_all():
    one, two = Picture(layout="constrained").subplots(1, 2, sharey=True)
    RUN.raster(ax=one)
    RUN.of(slice(0, 5)).raster(ax=two)
    assert one.get_ylim() == (-0.5, 39.5)


def test_remarks_are_no_wider_than_their_axes():
    figure = Picture(figsize=(8, 3), layout="constrained")
    for axes in figure.subplots(1, 2):
        RUN.plot_intervals(ax=axes, groups=GROUPS)
    figure.draw_without_rendering()
    left, right = (axes.texts[0].get_window_extent() for axes in figure.axes)
    assert left.x1 < right.x0


# ---- nothing to show, and mistakes


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda: SILENT.raster(), "no spikes of 3 neurons in 20 ms"),
        (lambda: SILENT.raster(kind="density"), "no spikes of 3 neurons in 20 ms"),
        (lambda: SILENT.of([]).raster(), "no neurons"),
        (lambda: Spikes.from_dense(np.zeros((0, 3)), 1.0).raster(), "no steps"),
        (lambda: Spikes.from_dense(np.zeros((0, 3)), 1.0).plot_rate(), "no steps"),
        (lambda: SILENT.plot_rate(), "no spikes in 20 ms"),
        (lambda: SILENT.plot_intervals(), "no intervals: no neuron spiked twice"),
        (lambda: SILENT.plot_correlations(), "no pairs: fewer than two neurons spiked"),
        (lambda: SILENT.plot_fano(), "no spikes in 20 ms"),
        (lambda: RUN.between(0, 2).plot_fano(), "fewer than 10 steps in 2 ms"),
        (lambda: brainevent.plot_traces([], np.zeros((0, 2))), "no values"),
        (lambda: brainevent.plot_traces([0, 1], [np.nan, np.nan]), "no finite values"),
        (lambda: brainevent.plot_weights(np.zeros((0, 4))), "no synapses in a matrix of 0 x 4"),
    ],
)
def test_an_empty_picture_says_so(draw, text):
    figure = draw()
    figure.draw_without_rendering()
    assert text in words(figure.axes[0])


METHODS = ["raster", "plot", "plot_rate", "plot_intervals", "plot_correlations", "plot_fano"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        ([slice(0, 3)], TypeError, "groups is list; pass names and their neurons, such as {'exc': slice(0, 800)"),
        ({}, ValueError, "groups is empty; pass at least one group, or None"),
        ({7: [0]}, TypeError, "the name of a group is 7; pass a string"),
        ({"a": [0], "b": []}, ValueError, "group 'b' has no neurons; pass some of 0 to 39"),
        ({"a": slice(0, 41)}, IndexError, "group 'a' ends at 41, but there are 40 neurons; pass at most 40"),
        ({"a": [0, 40]}, IndexError, "group 'a': index 40 is out of bounds"),
        ({"a": np.ones(39, bool)}, IndexError, "group 'a': boolean index did not match"),
        ({"a": [0.5]}, IndexError, "group 'a': "),
    ],
)
def test_mistaken_groups_raise(method, groups, error, text):
    with pytest.raises(error, match=re.escape(f"Spikes.{method}: {text}")):
        getattr(RUN, method)(groups=groups)


def test_a_neuron_has_one_row_and_may_be_in_two_lines():
    both = {"all": slice(0, 40), "some": [3, 4]}
    with pytest.raises(ValueError, match=r"Spikes.raster: neuron 3 is in the groups 'all' and 'some'; put it into one"):
        RUN.raster(groups=both)
    assert len(RUN.plot_rate(groups=both).axes[0].lines) == 2


def test_groups_of_which_no_neuron_counts_are_left_out():
    (axes,) = RUN.of(slice(0, 10)).plot_rate(groups=GROUPS).axes
    assert [line.get_label() for line in axes.lines] == ["low"]
    with pytest.raises(
        ValueError, match=r"Spikes.raster: none of these neurons is in the groups high; pass other groups"
    ):
        RUN.of(slice(0, 10)).raster(groups={"high": slice(30, 40)})


TIMES = np.arange(50) * 0.1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: RUN.raster(kind="dots"), ValueError, "Spikes.raster: unknown kind 'dots'; kinds: marks, density"),
        (lambda: RUN.raster(sample=0), ValueError, "Spikes.raster: sample is 0; pass at least 1, or None"),
        (lambda: RUN.raster(sample=2.5), TypeError, "Spikes.raster: sample is 2.5; pass an integer"),
        (lambda: RUN.raster(sort_by="rates"), ValueError, "sort_by is 'rates'; did you mean 'rate'?; pass 'rate'"),
        (lambda: RUN.raster(sort_by=[1, 2]), ValueError, "sort_by is an array of int64 of shape (2,); pass 'rate'"),
        (lambda: RUN.raster(heights="equa"), ValueError, "heights is 'equa'; did you mean 'equal'?; pass 'neurons'"),
        (
            lambda: RUN.raster(groups=GROUPS, heights={"hig": 2}),
            ValueError,
            "heights has 'hig', which is not a group; did you mean 'high'?; groups: low, high",
        ),
        (lambda: RUN.raster(groups=GROUPS, heights={"low": 0}), ValueError, "the height of 'low' is 0; pass a number"),
        (lambda: RUN.plot(7), TypeError, "Spikes.plot: figure is int; pass a figure of matplotlib"),
        (lambda: RUN.plot(theme="drak"), ValueError, "Spikes.plot: unknown theme 'drak'; did you mean 'dark'?"),
        (lambda: RUN.plot_correlations(bins=0), ValueError, "Spikes.plot_correlations: bins is 0; pass at least 1"),
        (lambda: brainevent.plot_traces(TIMES, np.zeros(3)), ValueError, "times have shape (50,) and values (3,)"),
        (
            lambda: brainevent.plot_traces(TIMES, np.zeros((50, 2)), names=["a"]),
            ValueError,
            "plot_traces: 1 names for 2 traces; pass one for each",
        ),
        (
            lambda: brainevent.plot_traces(TIMES, np.zeros(50), names=["a"], spikes=RUN),
            ValueError,
            "plot_traces: the name 'a' is not the number of a neuron of spikes; pass names from 0 to 39",
        ),
        (lambda: brainevent.plot_traces(TIMES, TIMES, spikes=7), TypeError, "plot_traces: spikes is int; pass Spikes"),
        (lambda: brainevent.plot_traces(TIMES, TIMES, threshold="1"), TypeError, "threshold is '1'; pass a number"),
        (lambda: brainevent.plot_weights("w"), TypeError, "plot_weights: found str; pass a matrix, an array or connec"),
        (lambda: brainevent.plot_weights(np.zeros(3)), ValueError, "the array has shape (3,); pass (sources, targets)"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_reason(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()


@pytest.mark.parametrize("call", [lambda: RUN.plot(), lambda: brainevent.plot_weights(np.eye(2))])
def test_matplotlib_is_asked_for_where_it_is_missing(call, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("brainevent.spikes.pictures", "matplotlib"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"needs matplotlib, which is not installed; run: pip install matplotlib"):
        call()


# ---- correlations, Fano factors, states, weights


def test_intervals_come_with_their_cv():
    (axes,) = RUN.plot_intervals(groups=GROUPS).axes
    low, high = (f"{np.nanmean(RUN.of(part).cv()):.2f}" for part in GROUPS.values())
    assert f"CV of the intervals of a neuron: low {low}, high {high}." in " ".join(words(axes)[0].split())


def test_correlations_are_of_pairs_within_groups():
    (axes,) = RUN.plot_correlations(bin=2, groups=GROUPS).axes
    found = RUN.of(GROUPS["low"]).correlations(2)[np.triu_indices(30, 1)]
    heights = axes.patches[0].get_data()
    np.testing.assert_allclose(heights.values, np.histogram(found, heights.edges)[0] / found.size)
    assert f"Mean: low {found.mean():.3f}, high" in " ".join(words(axes)[0].split())


def test_fano_factors_are_drawn_over_windows():
    (axes,) = RUN.plot_fano().axes
    windows, means = axes.lines[0].get_data()
    assert (windows[0], windows[-1]) == (0.5, 10.0)
    for window, mean in zip(windows, means, strict=True):
        assert mean == pytest.approx(np.nanmean(RUN.fano_factors(window)))


def test_traces_are_one_above_the_other_in_one_scale():
    values = np.stack([np.sin(TIMES), 3 * np.cos(TIMES), np.full(50, np.nan)], 1)
    (axes,) = brainevent.plot_traces(TIMES, values, names=[3, 7, 9], spikes=RUN, threshold=1, label="v (mV)").axes
    lines = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 1.1]
    first, second = lines[:2]
    assert np.ptp(first - values[:, 0]) < 1e-9
    assert np.ptp(second - values[:, 1]) < 1e-9
    assert first.min() > second.max()
    marks = [line.get_xdata() for line in axes.lines if line.get_marker() == "|"]
    np.testing.assert_array_equal(marks[0], RUN.of([3]).between(0, 4.95).times)
    assert list(ticks(axes)) == ["3", "7", "9"]
    assert axes.get_ylabel() == "v"
    assert words(axes) == ["2 mV"]


@pytest.mark.parametrize("traces", [1, 2])
def test_labels_of_states_are_horizontal(traces):
    values = np.zeros((50, traces))
    (axes,) = brainevent.plot_traces(TIMES, values, label="membrane potential (mV)").axes
    assert axes.yaxis.label.get_rotation() == 0
    axes.figure.draw_without_rendering()
    boxes = [axes.yaxis.label.get_window_extent(), *(tick.get_window_extent() for tick in axes.get_yticklabels())]
    assert boxes[0].x0 >= 0
    assert all(boxes[0].x1 < box.x0 for box in boxes[1:])


def test_long_traces_keep_their_extremes():
    values = RANDOM.normal(size=100_000)
    values[77_777] = 50
    (axes,) = brainevent.plot_traces(np.arange(100_000) * 0.1, values).axes
    (line,) = axes.lines
    assert line.get_xdata().size <= 5000
    assert (line.get_ydata().min(), line.get_ydata().max()) == (values.min(), 50)
    assert line.get_xdata()[np.argmax(line.get_ydata())] == pytest.approx(7777.7)


def test_many_traces_are_an_image():
    values = RANDOM.normal(size=(1000, 30)) + 5
    (mesh,) = meshes(brainevent.plot_traces(np.arange(1000.0), values, label="v").axes[0])
    np.testing.assert_allclose(mesh.get_array(), values.reshape(500, 2, 30).mean(1).T)


def test_states_of_a_result_are_drawn_with_their_spikes():
    def rule(s, arriving, p):
        spike = s.v > 1
        return s.replace(v=jnp.where(spike, 0.0, s.v + 0.3)), spike

    population = brainevent.Population("exc", 4, rule, state={"v": 0.0}, units={"v": "mV"})
    other = brainevent.Population("inh", 2, rule, state={"v": 0.5})
    result = brainevent.Network([population, other], [], dt=0.5).build(backend="jax").run(
        20, record=["exc.spikes", "inh.spikes", brainevent.every(2, "exc.v", neurons=[1, 3])]
    )  # fmt: skip
    (axes,) = result.plot_traces("exc.v", title="v").axes
    assert axes.texts[0].get_text() == "0.5 mV"
    marks = [line.get_xdata() for line in axes.lines if line.get_marker() == "|"]
    np.testing.assert_array_equal(marks[1], result["exc.spikes"].of([3]).between(0, 9.5).times)
    assert list(ticks(axes)) == ["1", "3"]
    figure = result.plot(bin=1, theme="dark")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["exc", "inh"]
    with pytest.raises(brainevent.NetworkError, match=r"result.plot_traces: exc.spikes is not a state; record one"):
        result.plot_traces("exc.spikes")
    with pytest.raises(brainevent.NetworkError, match=r"result\['exc.v'\].plot\(\) draws spikes, and"):
        result.plot("exc.v")


MATRIX = np.where(RANDOM.random((6, 9)) < 0.5, RANDOM.normal(size=(6, 9)), 0).astype(np.float32)


@pytest.mark.parametrize(
    "matrix", [MATRIX, jnp.asarray(MATRIX), brainevent.CSR.fromdense(MATRIX), brainevent.CSR.fromdense(MATRIX).T.T]
)
def test_weights_are_drawn_with_sources_down(matrix):
    figure = brainevent.plot_weights(matrix, title="W")
    (mesh,) = meshes(figure.axes[0])
    np.testing.assert_allclose(mesh.get_array(), MATRIX)
    assert figure.axes[0].get_ylim() == (5.5, -0.5)
    assert mesh.get_clim()[0] == -mesh.get_clim()[1]


DRAWN = brainevent.JITCScalarR((1.5, 0.3, 7), shape=(6, 9))


@pytest.mark.parametrize(
    "matrix",
    [
        brainevent.CSR.fromdense(MATRIX), brainevent.CSC.fromdense(MATRIX), brainevent.COO.fromdense(MATRIX),
        brainevent.Dense(MATRIX), brainevent.FixedNumPerPre.fromdense(MATRIX, num_conn=6), DRAWN,
    ],
    ids=lambda matrix: type(matrix).__name__,
)  # fmt: skip
def test_matrices_draw_themselves(matrix):
    (own,) = matrix.plot(title="W", names=("from", "to"), vmax=2).axes
    (mesh,) = meshes(own)
    np.testing.assert_allclose(mesh.get_array(), matrix.todense())
    assert (own.get_ylabel(), own.get_xlabel(), mesh.get_clim()[1]) == ("from", "to", 2)


def test_a_large_matrix_is_drawn_in_blocks():
    matrix = brainevent.COO((np.float32(2), jnp.array([0, 1, 999]), jnp.array([0, 0, 700])), shape=(1000, 701))
    (axes,) = brainevent.plot_weights(matrix).axes
    (mesh,) = meshes(axes)
    cells = np.asarray(mesh.get_array())
    assert cells.shape == (334, 234)
    assert (cells[0, 0], cells[333, 233]) == pytest.approx((4 / 9, 2 / 2))
    assert "3 synapses (0.000428 % of the pairs), weight 2." in " ".join(words(axes)[0].split())
