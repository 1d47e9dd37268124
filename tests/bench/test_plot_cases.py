# SPDX-License-Identifier: Apache-2.0
"""Pictures of configurations that differ in several ways: rows of points, panels, and short names."""

import pytest
from test_plot import RESULT, lines, record, result, texts


def test_columns_that_tell_the_same_are_one_size():
    records = [record("a", i, label=label, density=i, kernel={"block": i}) for i, label in ((1, "small"), (2, "large"))]
    assert result(*records).plot().axes[0].get_xlabel() == "block"
    figure = result(*(record(b, n, n=n, density=n / 10, mode=m) for b in "ab" for n in (1, 2) for m in "xy")).plot()
    assert list(lines(figure)) == ["a, mode=x", "a, mode=y", "b, mode=x", "b, mode=y"]


def cases(sizes=(10, 200), modes=("x", "y"), densities=(0.1, 0.2)):
    """Return a result whose configurations differ in several ways."""
    return result(
        *(
            record(b, (1 + i) * n * d, n=n, density=d, mode=mode, label=f"{n} {d} {mode}")
            for i, b in enumerate(("numba", "cpp")) for n in sizes for mode in modes for d in densities
        )
    )  # fmt: skip


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def offsets(ax):
    """Return the points of each series by row: where a value is."""
    return {
        dots.get_label(): {round(float(y)): float(x) for x, y in dots.get_offsets()}
        for dots in ax.collections if dots.get_gid()
    }  # fmt: skip


def test_configurations_that_several_columns_tell_apart_are_rows_by_their_words():
    figure = cases(modes="x").plot()
    [ax] = figure.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        "n=10, density=0.1", "n=10, density=0.2", "n=200, density=0.1", "n=200, density=0.2",
    ]  # fmt: skip
    found = offsets(ax)
    assert list(found) == ["numba", "cpp"]
    assert found["cpp"] == pytest.approx({0: 1.8, 1: 3.6, 2: 36, 3: 72})


def test_many_configurations_are_panels_that_share_their_axes():
    figure = cases().plot()
    assert titles(figure) == ["n=10", "n=200"]
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == [
        "mode=x, density=0.1", "mode=x, density=0.2", "mode=y, density=0.1", "mode=y, density=0.2",
    ]  # fmt: skip
    assert left.get_xlim() == right.get_xlim()
    assert offsets(left)["numba"] == pytest.approx({0: 0.9, 1: 1.8, 2: 0.9, 3: 1.8})
    assert offsets(right)["numba"] == pytest.approx({0: 18, 1: 36, 2: 18, 3: 36})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["numba", "cpp"]
    assert "op on cpu" in texts(figure)
    assert titles(cases(densities=(0.1, 0.2, 0.3, 0.4)).plot()) == [f"n={n}, mode={m}" for m in "xy" for n in (10, 200)]


def test_panels_are_chosen_by_name():
    assert titles(cases().plot(facet="mode")) == ["mode=x", "mode=y"]
    assert titles(cases().plot(facet=["density", "n"])) == [
        f"density={d}, n={n}" for n in (10, 200) for d in (0.1, 0.2)
    ]
    figure = cases().plot(facet=())
    assert titles(figure) == [""]
    assert len(figure.axes[0].get_yticklabels()) == 8


@pytest.mark.parametrize("kind", ["bar", "speedup"])
def test_bars_in_panels_stand_on_one_floor(kind):
    figure = cases().plot(kind=kind)
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    bottoms = {round(float(bar.get_y() if kind == "bar" else 1), 6) for ax in (left, right) for bar in ax.patches}
    assert len(bottoms) == 1
    assert [tick.get_text() for tick in left.get_xticklabels()][:2] == ["mode=x\ndensity=0.1", "mode=x\ndensity=0.2"]


def test_a_configuration_that_no_column_tells_apart_is_shown_by_its_label():
    more = record("numba", 1, n=10, density=0.1, mode="x", label="again")
    more.label = "again"
    ax = result(*cases().records, more).plot().axes[0]
    assert "again" in [tick.get_text() for tick in ax.get_yticklabels()]


def test_categories_that_are_asked_for_to_the_right_are_points_too():
    figure = RESULT.plot(x="backend")
    assert lines(figure) == {}
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["numba", "cpp"]


BAD = {
    "unknown": (cases(), "mod", "facet: 'mod' does not distinguish configurations; did you mean 'mode'?; columns that"),
    "several": (cases(), ["n", "mode", "density"], "facet has 3 columns; pass at most two"),
    "one size": (RESULT, "n", "facet='n' needs configurations that differ in several keywords, and no x"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_make_no_panels(case):
    results, facet, words = BAD[case]
    with pytest.raises(ValueError, match=r"BenchmarkResult\.plot: ") as raised:
        results.plot(facet=facet)
    assert words in str(raised.value)


def test_a_legend_of_many_names_covers_neither_the_title_nor_a_panel():
    names = [f"a backend of a long name {i}" for i in range(9)]
    figure = result(
        *(record(b, n * d, n=n, density=d, mode=m) for b in names for n in (1, 90) for d in (1, 2, 3) for m in "xy")
    ).plot()
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    title = next(text for text in figure.texts if text.get_text() == "op on cpu").get_window_extent()
    assert box.y1 <= title.y0
    assert box.x1 <= figure.bbox.x1
    assert all(box.y0 >= ax.title.get_window_extent().y0 for ax in figure.axes)
    assert all(box.y0 >= ax.bbox.y1 for ax in figure.axes)
