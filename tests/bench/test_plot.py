# SPDX-License-Identifier: Apache-2.0
"""Results draw themselves: what is shown, where it stands, that it can be read, and what is said of bad input."""

import inspect
import io
import itertools
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from colours import SIGHTS, contrast, distance

from brainevent import BenchmarkRecord, BenchmarkResult
from brainevent.bench.plot.quantity import axis_words, number_text, times_text
from brainevent.bench.plot.style import DASHES, HATCHES, MARKERS, THEMES, Look
from brainevent.bench.words import time_text
from docs import draw

mpl = pytest.importorskip("matplotlib")
Figure = pytest.importorskip("matplotlib.figure").Figure
spread_out = pytest.importorskip("brainevent.bench.plot.lines").spread_out

from overlaps import beyond_paper, overlaps  # noqa: E402 - it needs what the lines above look for

NAN = math.nan
KINDS = ("line", "bar", "scatter", "speedup", "roofline")


def record(backend, mean, label="a", platform="cpu", kernel=None, **more):
    data = {key: more.pop(key) for key in ("n", "density", "mode") if key in more}
    timing = {"median_ms": mean * 0.9, "low_ms": mean * 0.8, "high_ms": mean * 1.2} | more
    label = f"n={data['n']}" if "n" in data else label
    return BenchmarkRecord(
        platform, backend, label, mean, mean / 10, mean * 0.7, None, True, None, kernel or {}, data, **timing
    )


def failed(backend, n):
    return BenchmarkRecord("cpu", backend, f"n={n}", NAN, NAN, NAN, None, False, "KeyError: 'x'\nmore", {}, {"n": n})


def result(*records):
    return BenchmarkResult(records, "op")


RESULT = result(
    *(record(b, factor * n, n=n) for b, factor in (("numba", 0.01), ("cpp", 0.004)) for n in (10, 100, 1000))
)
WORK = {"bytes": 4e6, "flops": 2e6, "peak_bandwidth": 2e10, "peak_flops": 1e11}
ROOF = result(*(record(b, t, n=1, **WORK) for b, t in (("numba", 2.0), ("cpp", 1.0))))
BROKEN = result(
    record("numba", 0.1, n=10), record("numba", 0.2, n=20), record("numba", 0.4, n=40),
    record("cpp", 0.05, n=10), failed("cpp", 20), record("cpp", 0.1, n=40),
    *(failed("warp", n) for n in (10, 20, 40)),
    *(record("hasty", 0.001 * n, n=n, mismatch="differs") for n in (10, 20, 40)),
)  # fmt: skip


def lines(figure):
    """Return the series that are lines, by name."""
    return {line.get_label(): line for line in figure.axes[0].lines if line.get_gid()}


def texts(figure):
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def caption(figure):
    return next((text for text in texts(figure) if text.endswith(".")), "")


def bars(figure):
    """Return the ends of the bars of each series, from low to high x."""
    found = {}
    for group in figure.axes[0].containers:
        ordered = sorted(group, key=lambda bar: bar.get_x())
        found[group.get_label()] = [round(float(bar.get_y() + bar.get_height()), 6) for bar in ordered]
    return found


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_the_leading_parameters_are_those_that_programs_pass_by_position():
    names = list(inspect.signature(BenchmarkResult.plot).parameters)
    assert names[:8] == ["self", "ax", "x", "y", "hue", "style", "kind", "show"]


def test_a_picture_shows_medians_of_each_backend_over_the_only_size():
    figure = RESULT.plot()
    assert isinstance(figure, Figure)
    ax, found = figure.axes[0], lines(figure)
    assert list(found) == ["numba", "cpp"]
    np.testing.assert_allclose(found["cpp"].get_xydata(), [[10, 0.036], [100, 0.36], [1000, 3.6]])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("n", "median time of a call")
    assert {"op on cpu", "numba", "cpp", "The bands hold the middle half of the runs."} <= set(texts(figure))
    band = ax.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((0.08, 12))


def test_means_are_shown_on_demand_and_where_there_are_no_medians():
    bare = result(*(record("a", n, n=n, median_ms=NAN, low_ms=NAN, high_ms=NAN) for n in (1, 2)))
    for figure in (RESULT.plot(y="mean_ms"), bare.plot()):
        assert figure.axes[0].get_ylabel() == "mean time of a call"
        assert caption(figure) == "The bands reach one standard deviation to each side."
    assert lines(bare.plot())["a"].get_ydata() == pytest.approx([1, 2])
    band = bare.plot().axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((0.9, 2.2))


def test_records_with_and_without_medians_are_drawn_together():
    mixed = result(record("a", 1.0, n=1), record("a", 2.0, n=2, median_ms=NAN, low_ms=NAN, high_ms=NAN))
    figure = mixed.plot()
    assert lines(figure)["a"].get_ydata() == pytest.approx([0.9, 2.0])
    assert figure.axes[0].get_ylabel() == "typical time of a call"
    assert caption(figure).startswith("The bands hold the middle half of the runs, or reach one standard deviation")


def test_scales_are_linear_within_a_decade_and_one_number_needs_no_spread():
    figure = result(*(record("a", n, n=n, low_ms=NAN) for n in (2, 4, 20))).plot()
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("linear", "linear")
    assert caption(figure) == ""


def test_other_columns_are_drawn_by_name():
    both = result(*(record("a", n, n=n) for n in (1, 2)))
    for one, throughput in zip(both.records, (3.0, 5.0), strict=True):
        one.throughput, one.unit = throughput, "GB/s"
    figure = both.plot(y="throughput", x="n")
    assert lines(figure)["a"].get_ydata() == pytest.approx([3, 5])
    assert figure.axes[0].get_ylabel() == "throughput (GB/s)"


@pytest.mark.parametrize(
    "records",
    [
        [record("a", 1, label="small"), record("a", 2, label="large")],
        [record("a", 1, label="small", mode="x"), record("a", 2, label="large", mode="y")],
        [record("a", 1, label="small", mode=True), record("a", 2, label="large", mode=False)],
    ],
)  # fmt: skip
def test_without_one_size_the_labels_are_rows_of_points(records):
    figure = result(*records).plot()
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["small", "large"]
    assert ax.get_xlabel() == "median time of a call"
    assert lines(figure) == {}
    assert ax.yaxis_inverted()


def test_columns_beyond_hue_and_position_choose_the_style():
    both = result(*(record(b, n * d, n=n, density=d) for b in ("numba", "cpp") for n in (1, 2) for d in (0.1, 0.2)))
    found = lines(both.plot(x="n"))
    assert list(found) == [f"{b}, density={d}" for b in ("numba", "cpp") for d in (0.1, 0.2)]
    colours, markers = ([getattr(line, f"get_{what}")() for line in found.values()] for what in ("color", "marker"))
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert markers[0] == markers[2] != markers[1] == markers[3]
    assert lines(both.plot(x="n", hue="density", style="backend")).keys() == {
        f"density={d}, {b}" for b in ("numba", "cpp") for d in (0.1, 0.2)
    }


def test_what_was_measured_twice_is_one_point():
    twice = result(*(record("a", mean, n=n) for n, mean in ((1, 1.0), (1, 3.0), (2, 4.0))))
    assert lines(twice.plot(y="mean_ms"))["a"].get_ydata() == pytest.approx([2, 4])


def test_a_failure_is_a_gap_and_is_named():
    figure = BROKEN.plot(y="mean_ms")
    np.testing.assert_array_equal(lines(figure)["cpp"].get_ydata(), [0.05, NAN, 0.1])
    assert "Failed: cpp (n=20), warp (n=10, n=20, n=40).\nWrong results: hasty (n=10, n=20, n=40)." in caption(figure)
    assert "hasty (wrong results)" in texts(figure)
    assert "warp (failed)" in texts(BROKEN.plot(kind="bar"))
    assert (
        lines(figure)["hasty (wrong results)"].get_color() == THEMES["light"].colours[3]
    )  # its place, though warp failed before it


def test_long_remarks_are_shortened():
    many = result(record("a", 1, n=1), *(failed("b", n) for n in range(7)))
    assert "Failed: b (n=0, n=1, n=2, n=3 and 3 more)." in caption(many.plot())


def test_records_without_the_column_are_named():
    some = result(record("a", 1, n=1), record("a", 2, n=2), record("b", 3))
    assert "Without n: b (a)." in caption(some.plot(x="n"))


# ---- kinds -----------------------------------------------------------------------------------------------------------


def test_bars_stand_in_groups_with_their_numbers():
    figure = result(*(record(b, m * n, n=n) for b, m in (("numba", 1), ("cpp", 2)) for n in (1, 2))).plot(
        kind="bar", y="mean_ms"
    )
    assert bars(figure) == {"numba": [1, 2], "cpp": [2, 4]}
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2"]
    assert {"1 ms", "2 ms", "4 ms"} <= set(texts(figure))
    assert figure.axes[0].get_ylim()[0] == 0
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in figure.axes[0].patches)
    assert all(end <= start + 1e-9 for (_, end), (start, _) in itertools.pairwise(edges))


def test_bars_of_many_sizes_are_logarithmic():
    ax = RESULT.plot(kind="bar").axes[0]
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] == pytest.approx(0.01)


def test_bars_of_backends_are_coloured_by_size():
    figure = RESULT.plot(kind="bar", x="backend")
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["numba", "cpp"]
    assert list(bars(figure)) == ["n=10", "n=100", "n=1000"]
    alone = result(record("numba", 1), record("cpp", 2)).plot(kind="bar", x="backend")
    assert [bar.get_x() + bar.get_width() / 2 for bar in alone.axes[0].patches] == pytest.approx([0, 1])


def test_points_are_points():
    figure = RESULT.plot(kind="scatter")
    points = next(c for c in figure.axes[0].collections if c.get_label() == "cpp")
    np.testing.assert_allclose(points.get_offsets(), [[10, 0.036], [100, 0.36], [1000, 3.6]])
    assert caption(figure) == "The whiskers hold the middle half of the runs."


def test_speedups_rise_from_a_baseline():
    figure = BROKEN.plot(kind="speedup", baseline="numba", y="mean_ms")
    found = bars(figure)
    assert list(found) == ["cpp", "warp (failed)", "hasty (wrong results)"]
    np.testing.assert_allclose(found["cpp"], [2, NAN, 4])
    np.testing.assert_allclose(found["hasty (wrong results)"], [10, 10, 10])
    assert {"1\N{MULTIPLICATION SIGN} = numba", "2\N{MULTIPLICATION SIGN}", "speed-up over numba"} <= set(texts(figure))
    assert figure.axes[0].lines[0].get_ydata() == [1, 1]


def test_bars_of_slower_backends_hang_below_the_baseline():
    figure = RESULT.plot(kind="speedup", baseline="cpp")
    assert bars(figure) == {"numba": [0.4, 0.4, 0.4]}
    assert all(bar.get_height() < 0 for bar in figure.axes[0].patches)
    low, high = figure.axes[0].get_ylim()
    assert low < 0.4
    assert high > 1


def test_the_reference_is_the_baseline_if_it_was_measured_else_the_first():
    with_reference = result(record("numba", 1), record("reference", 2))
    assert with_reference.plot(kind="speedup").axes[0].get_ylabel() == "speed-up over reference"
    assert RESULT.plot(kind="speedup").axes[0].get_ylabel() == "speed-up over numba"


def test_a_roofline_has_operations_under_the_ceilings():
    figure = ROOF.plot(kind="roofline", y="mean_ms")
    ax = figure.axes[0]
    offsets = {c.get_label(): c.get_offsets()[0] for c in ax.collections if c.get_gid()}
    np.testing.assert_allclose(offsets["numba"], [0.5, 1])  # 2e6 operations in 2 ms are 1 GFLOP/s
    np.testing.assert_allclose(offsets["cpp"], [0.5, 2])
    roof = next(line for line in ax.lines if line.get_gid() == "roof")
    xs, ys = roof.get_xdata(), roof.get_ydata()
    assert (xs[1], ys[1]) == pytest.approx((5, 100))  # where 20 GB/s meet 100 GFLOP/s
    assert ys[0] == pytest.approx(20 * xs[0])
    assert ys[2] == pytest.approx(100)
    assert {"memory, 20 GB/s", "float32 matrix product, 100 GFLOP/s"} <= set(texts(figure))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("FLOP per byte", "GFLOP/s")


def test_a_roofline_does_with_what_was_measured():
    def words(**lacking):
        one = record("a", 1.0, n=1, **(WORK | lacking))
        return texts(result(one, record("b", 1.0, n=2)).plot(kind="roofline"))

    assert "memory, 20 GB/s" in words(peak_flops=None)
    assert "float32 matrix product, 100 GFLOP/s" in words(peak_bandwidth=None)
    bare = words(peak_flops=None, peak_bandwidth=None)
    assert not [text for text in bare if "memory" in text]
    assert any("No ceilings were measured." in text and "Without bytes and flops: b (n=2)." in text for text in bare)


SIZES = (10, 100, 1000, 10_000)
FAR = {"peak_bandwidth": 2e10, "peak_flops": 4e11}  # the lines meet far to the right of what is measured


def at_one_intensity(backends=("numba", "cpp"), sizes=SIZES, **more):
    work = {"bytes": 8.0, "flops": 2.0} | FAR | more
    scaled = ((b, n, i) for i, b in enumerate(backends) for n in sizes)
    return result(
        *(
            record(b, n / 1e5 * (1 + i) + 1e-4, n=n, **work | {k: work[k] * n * 100 for k in ("bytes", "flops")})
            for b, n, i in scaled
        )
    )


def boxes(figure, which):
    figure.draw_without_rendering()
    return [text.get_window_extent() for text in which if text.get_text()]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("more", [{}, {"peak_flops": None}, {"flops": 30.0}, {"flops": 200.0}, {"bytes": 0.02}])
def test_ticks_of_a_roofline_do_not_collide(more):
    figure = at_one_intensity(**more).plot(kind="roofline")
    ax = figure.axes[0]
    figure.draw_without_rendering()
    for side in (ax.xaxis, ax.yaxis):
        low, high = sorted(side.get_view_interval())
        inside = [tick.label1 for tick in side.get_major_ticks() if low <= tick.get_loc() <= high]
        assert len(inside) >= 2
        shown = boxes(figure, inside)
        assert not any(a.overlaps(b) for a, b in itertools.combinations(shown, 2))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    ("backends", "sizes", "named"),
    [
        ("ab", SIZES, [f"n={n}" for n in SIZES] * 2),
        ("abcd", SIZES, ["n=10", "n=10000"] * 4),
        ("a", SIZES[:1], ["n=10"]),
    ],
)
def test_sizes_at_one_intensity_are_named(backends, sizes, named):
    figure = at_one_intensity(backends, sizes).plot(kind="roofline")
    names = [text for text in figure.findobj(mpl.text.Text) if text.get_text().startswith("n=")]
    assert sorted(text.get_text() for text in names) == sorted(named)
    figure.draw_without_rendering()
    shown = [mpl.text.Text.get_window_extent(text) for text in names]  # without arrows
    assert not any(a.overlaps(b) for a, b in itertools.combinations(shown, 2))


def test_sizes_at_many_intensities_are_read_from_their_place():
    spread = result(*(record("a", 1.0, n=n, **(WORK | {"flops": n * 1e6})) for n in (1, 4, 16)))
    assert not [text for text in texts(spread.plot(kind="roofline")) if text.startswith("n=")]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("more", [{}, {"peak_flops": None}, {"flops": 30.0}, {"flops": 200.0}, {"bytes": 0.02}])
def test_points_and_names_do_not_overlap_the_label_of_the_memory_line(more):
    figure = at_one_intensity(**more).plot(kind="roofline")
    figure.draw_without_rendering()
    ax = figure.axes[0]
    name = next(text for text in ax.texts if text.get_text().startswith("memory"))
    angle = math.radians(name.get_rotation())
    start = np.array(name.get_transform().transform(name.get_position()))
    length = mpl.text.Text(text=name.get_text(), fontsize=9, figure=figure).get_window_extent().width
    along, across = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    points = [c for c in ax.collections if c.get_gid()]
    places = [ax.transData.transform(xy) for c in points for xy in c.get_offsets()]
    assert len(places) == 8
    for place in places:
        s, h = (place - start) @ along, (place - start) @ across
        assert not (-3 < s < length + 3 and -3 < h < 15)
    sizes = [text for text in ax.texts if text.get_text().startswith("n=")]
    assert not any(_turned_overlaps(start, along, across, length, mpl.text.Text.get_window_extent(t)) for t in sizes)


def _turned_overlaps(start, along, across, length, box):
    corners = [(np.array(c) - start) for c in ((box.x0, box.y0), (box.x0, box.y1), (box.x1, box.y0), (box.x1, box.y1))]
    ss, hs = [c @ along for c in corners], [c @ across for c in corners]
    return min(ss) < length and max(ss) > 0 and min(hs) < 12 and max(hs) > 0


def test_each_platform_has_its_roof():
    both = result(record("a", 1.0, **WORK), record("b", 1.0, platform="gpu", **(WORK | {"peak_flops": 6e13})))
    found = texts(both.plot(kind="roofline"))
    assert {"cpu: float32 matrix product, 100 GFLOP/s", "gpu: float32 matrix product, 60000 GFLOP/s"} <= set(found)


def test_numbers_that_were_measured_can_be_to_the_right():
    figure = BROKEN.plot(kind="scatter", x="mean_ms", y="std_ms")
    points = {c.get_label(): c.get_offsets() for c in figure.axes[0].collections if c.get_gid()}
    np.testing.assert_allclose(points["cpp"], [[0.05, 0.005], [0.1, 0.01]])
    assert "Without" not in caption(figure)


# ---- bad input -------------------------------------------------------------------------------------------------------

BAD = {
    "no records": (result(), {}, "there are no records to draw"),
    "all failed": (result(failed("a", 1)), {}, "no measurement can be drawn: 'a' failed with KeyError"),
    "no place": (RESULT, {"x": "throughput"}, "no record has both throughput and median time of a call"),
    "kind": (RESULT, {"kind": "lines"}, "unknown kind 'lines'; did you mean 'line'?; kinds: line, bar, scatter, sp"),
    "theme": (RESULT, {"theme": "drak"}, "unknown theme 'drak'; did you mean 'dark'?; themes: light, dark"),
    "x": (RESULT, {"x": "m"}, "x: there is no column 'm'; columns: platform, backend, n, label, mean_ms"),
    "y": (RESULT, {"y": "mean"}, "y: there is no column 'mean'; did you mean 'mean_ms'?; columns: platform"),
    "hue": (RESULT, {"hue": "backed"}, "hue: there is no column 'backed'; did you mean 'backend'?"),
    "style": (RESULT, {"style": "platfrom"}, "style: there is no column 'platfrom'; did you mean 'platform'?"),
    "y is text": (RESULT, {"y": "label"}, "y='label' is not a number: it is 'n=10' in a record; numbers: mean_ms"),
    "y is empty": (RESULT, {"y": "throughput"}, "no record has a number for y='throughput'; columns that do: mean_ms"),
    "baseline": (RESULT, {"kind": "speedup", "baseline": "cp"}, "baseline='cp' is not a backend; did you mean 'cpp'?"),
    "baseline elsewhere": (RESULT, {"baseline": "cpp"}, "baseline='cpp' is for kind='speedup', found kind='line'"),
    "alone": (result(record("a", 1)), {"kind": "speedup"}, "compares with 'a', and the records have no other backend"),
    "no time": (RESULT, {"kind": "speedup", "y": "loop_ms"}, "shows times, and y='loop_ms' is not a time; use one of"),
    "no work": (RESULT, {"kind": "roofline"}, "no record has both bytes and flops; measure with BenchmarkConfig("),
    "roofline x": (ROOF, {"kind": "roofline", "x": "n"}, "has its own x, operations per byte; leave x='n' out"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_reported_in_words(case):
    results, keywords, words = BAD[case]
    with pytest.raises(ValueError, match=r"BenchmarkResult\.plot: ") as raised:
        results.plot(**keywords)
    assert words in str(raised.value)


def test_axes_must_be_axes():
    with pytest.raises(TypeError, match=r"ax must be axes of matplotlib, found Figure"):
        RESULT.plot(ax=Figure())


def test_matplotlib_is_asked_for_where_it_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("brainevent.bench.plot", "matplotlib"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"needs matplotlib, which is not installed; run: pip install matplotlib"):
        RESULT.plot()


# ---- manners ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_picture_leaves_no_trace_in_matplotlib():
    program = (
        "import sys, brainevent\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib as mpl\n"
        "before = mpl.rcParams.copy()\n"
        "one = brainevent.BenchmarkRecord('cpu', 'a', 'n', 1.0, 0.1, 0.9, None, True, None, {}, {})\n"
        "import io; brainevent.BenchmarkResult([one]).plot().savefig(io.BytesIO(), format='svg')\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'pandas' not in sys.modules\n"
        "print(mpl.rcParams.copy() == before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.parametrize("colour", ["white", "black"])
def test_axes_that_are_passed_are_drawn_into(colour):
    figure = Figure(layout="constrained")
    ax = figure.subplots(1, 2)[1]
    ax.set_facecolor(colour)
    assert RESULT.plot(ax, title="mine") is figure
    theme = THEMES["light" if colour == "white" else "dark"]
    assert [line.get_color() for line in ax.lines] == list(theme.colours[:2])
    assert ax.get_title() == "mine"
    assert mpl.colors.to_hex(ax.get_facecolor()) == mpl.colors.to_hex(colour)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["numba", "cpp"]
    assert RESULT.plot(ax, theme="dark").get_facecolor() == mpl.colors.to_rgba(THEMES["dark"].background)


def test_a_picture_is_shown_on_demand(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
    before = plt.get_fignums()
    figure = RESULT.plot(show=True)
    assert len(shown[0]) == len(before) + 1
    plt.close(figure)


def test_keywords_go_to_what_is_drawn():
    assert {line.get_linewidth() for line in lines(RESULT.plot(lw=5)).values()} == {5}
    assert {bar.get_alpha() for bar in RESULT.plot(kind="bar", alpha=0.5).axes[0].patches} == {0.5}
    points = RESULT.plot(kind="scatter", color="red", s=9).axes[0].collections[0]
    assert (points.get_facecolor()[0].tolist(), points.get_sizes().tolist()) == ([1, 0, 0, 1], [9])
    with pytest.raises(AttributeError, match="basline"):
        RESULT.plot(basline="numba")


@pytest.mark.thorough
def test_files_are_the_same_each_time_and_their_text_is_text(tmp_path):
    for name in ("a", "b"):
        RESULT.plot().savefig(tmp_path / f"{name}.svg")
    written = (tmp_path / "a.svg").read_text()
    assert written == (tmp_path / "b.svg").read_text()
    assert ">median time of a call</text>" in written
    assert "<dc:date>" not in written
    RESULT.plot().savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert RESULT.plot()._repr_png_()[:4] == b"\x89PNG"


def test_a_picture_goes_to_streams_too():
    stream = io.BytesIO()
    RESULT.plot().savefig(stream, format="svg", metadata={"Title": "mine"})
    assert b"<dc:title>mine</dc:title>" in stream.getvalue()


# ---- legible ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_against_the_background_and_apart(theme):
    palette = THEMES[theme]
    assert min(contrast(colour, palette.background) for colour in palette.colours) >= 3
    assert min(contrast(text, palette.background) for text in (palette.ink, palette.muted)) >= 4.5
    ring = list(zip(palette.colours, palette.colours[1:] + palette.colours[:1], strict=True))
    for sight in SIGHTS:
        assert min(distance(a, b, sight) for a, b in ring) >= 30, sight
        assert min(distance(a, b, sight) for a, b in itertools.combinations(palette.colours, 2)) >= 15, sight


def test_bad_colours_would_be_found():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#f0e442", "#ffffff") < 3
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert distance("#d62728", "#2ca02c") > 100
    assert distance("#a05000", "#608000", "deuteranopia") < 20


def test_series_differ_in_more_than_colour():
    looks = [Look.of(THEMES["light"], i, i) for i in range(60)]
    assert len({(look.colour, look.marker, look.dash) for look in looks}) == 60
    assert len({(look.marker, look.dash) for look in looks[:30]}) == 30
    assert min(map(len, map(set, (MARKERS, DASHES, HATCHES)))) >= 5


WORDS = ("small", "large", "dense", "sparse", "empty")
WIDE = (*WORDS, *(f"{word} and large" for word in WORDS[2:]))
CROWDS = {
    "ten lines": result(*(record(f"backend {i}", 0.01 * n * (1 + i / 9), n=n) for i in range(10) for n in (10, 1000))),
    "long labels": result(*(record(b, 0.2, label=f"a matrix that is {word}") for b in "ab" for word in WORDS)),
    "long names and labels": result(
        *(record(f"a long backend {b}", 0.2 * b, label=f"{w}, a label of words") for b in (1, 2, 3, 4) for w in WIDE)
    ),
    "failures": BROKEN,
    "panels": result(
        *(record(b, n * d, n=n, density=d, mode=m) for b in "ab" for n in (1, 90) for d in (1, 2, 3) for m in "xy")
    ),
}  # fmt: skip


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("crowd", CROWDS)
def test_no_text_is_cut_and_no_name_covers_another(crowd, kind, theme):
    figure = CROWDS[crowd].plot(kind=kind, theme=theme)
    assert beyond_paper(figure) == []
    assert overlaps(figure) == []
    if box := figure.axes[0].get_legend():
        assert box.get_window_extent().y0 >= figure.axes[0].bbox.y1


def test_names_move_apart_no_more_than_they_must():
    assert spread_out([0, 100, 50], 10) == [0, 100, 50]
    assert spread_out([5, 5, 5], 10) == [-5, 5, 15]
    rng = np.random.default_rng(0)
    for _ in range(50):
        places = rng.uniform(0, 60, 8).tolist()
        moved = spread_out(places, 10)
        assert min(np.diff(sorted(moved))) >= 10 - 1e-9
        assert np.argsort(places).tolist() == np.argsort(moved).tolist()
        assert sum(moved) == pytest.approx(sum(places))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (time_text(2.5e-4, "\N{MICRO SIGN}"), "250 \N{MICRO SIGN}s"),
        (times_text(0.0361), "0.036\N{MULTIPLICATION SIGN}"), (times_text(1234), "1200\N{MULTIPLICATION SIGN}"),
        (number_text(4000), "4000"), (number_text(2.5e6), "2.5M"), (number_text(0.125), "0.125"),
        (number_text(-3), "-3"),
        (axis_words("label"), ""), (axis_words("block"), "block"),
    ],
)  # fmt: skip
def test_numbers_are_short(text, expected):
    assert text == expected


# ---- the pictures of the documentation -------------------------------------------------------------------------------


def structure(svg):
    """Return which series an SVG file shows, and what it says."""
    return (
        Counter(re.findall(r'id="(series-[^"]+|roof[^"]*|baseline)"', svg)),
        Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg)),
    )


@pytest.mark.thorough
def test_the_pictures_on_the_page_are_those_of_the_numbers_beside_them(tmp_path):
    page = Path(draw.__file__).with_name("plots.md").read_text()
    drawn = draw.draw(tmp_path)
    assert len(drawn) == 2 * len(draw.PICTURES) == 10
    for path in drawn:
        marks, words = structure((draw.FOLDER / path.name).read_text())
        assert (marks, words) == structure(path.read_text())
        assert sum(marks.values()) >= 4
        assert words["binary_csrmv on cpu" if path.stem.startswith("panels") else "spike_input on cpu"] == 1
        assert f"_static/plots/{path.name}\n:class: only-{path.stem.split('-')[1]}\n:alt: " in page
    assert {path.suffix for path in draw.FOLDER.iterdir()} == {".svg", ".json"}
    assert len(list(draw.FOLDER.glob("*.svg"))) == len(drawn)


def test_the_numbers_of_the_page_are_of_kernels_that_agree():
    for name, count in (("spike_input", 24), ("spike_batches", 20)):
        found = BenchmarkResult.load(draw.FOLDER / f"{name}.json")
        assert len(found.records) == count
        assert found.mismatches == []
        assert all(record.success and record.bytes and record.flops for record in found.records)


@pytest.mark.thorough
def test_the_kernels_of_the_page_agree():
    operator = draw.spike_input()
    operands = draw.config({"batch": 3}, n=20, batch=3).args
    expected = np.asarray(operands[0]) @ np.asarray(operands[1])
    for backend in operator.available_backends("cpu"):
        np.testing.assert_allclose(operator(*operands, backend=backend), expected, rtol=1e-5)
    assert operator.available_backends("cpu") == ["numba rows", "numba columns", "C++"]
