# SPDX-License-Identifier: Apache-2.0
"""Turn records into the content of a picture: axes, a series of points for each hue and style, and remarks."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import did_you_mean
from ..record import BenchmarkRecord
from ..rows import METRICS, Row, Rows, check_column, flat_rows, key_of
from .quantity import axis_words, column, is_number, number_text, performance, speedup
from .style import WHERE

__all__ = ["Axis", "Chart", "Options", "Point", "Series", "chart", "in_panels"]

CASE = "_case"  # the column of a row that holds its category
_FIXED = ("platform", "label")
_MOST_ROWS = 6  # categories that need no panels
_MOST_PANELS = 4  # values of a column that makes panels
Facet = str | Sequence[str] | None
_GROUPED = ("bar", "speedup")
_DECADE = 10
_MOST_LABELS = 4  # in a remark


@dataclass(frozen=True)
class Cases:
    """Configurations in order: the text of each in each of the columns."""

    columns: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]


def independent(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the columns without those that another one determines; the shortest name stays."""
    kept: list[str] = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        if not any(_count(rows, (name, other)) == _count(rows, (name,)) == _count(rows, (other,)) for other in kept):
            kept.append(name)
    return [name for name in names if name in kept]


def cases(rows: Rows, taken: Collection[str | None]) -> Cases | None:
    """Return the configurations, each with its columns that vary; None if these do not distinguish all labels.

    Each row gets its position among them, in the column `CASE`.
    """
    own = [name for name in rows.names if name not in (*_FIXED, "backend", *taken)]
    varying = [name for name in own if _count(rows.rows, (name,)) > 1]
    columns = sorted(independent(rows.rows, varying), key=lambda name: _rank(rows.rows, name))
    if len(columns) < 2 or _count(rows.rows, columns) < _count(rows.rows, (*columns, "label")):
        return None
    keys = {key_of(row, columns): row for row in rows.rows}
    ordered = sorted(keys, key=lambda key: [_order(keys[key].get(name)) for name in columns])
    for row in rows.rows:
        row[CASE] = ordered.index(key_of(row, columns))
    return Cases(tuple(columns), tuple(tuple(_words(keys[key], name) for name in columns) for key in ordered))


def panel_columns(found: Cases, wanted: Facet, known: Collection[str]) -> list[str]:
    """Return the columns that make panels: the requested ones, or up to two, until few categories are left."""
    if wanted is not None:
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            if name not in found.columns:
                raise ValueError(
                    f"{WHERE}: facet: {name!r} does not distinguish configurations{did_you_mean(name, known)}; "
                    f"columns that do: {', '.join(found.columns)}"
                )
        if len(names) > 2:
            raise ValueError(f"{WHERE}: facet has {len(names)} columns; pass at most two")
        return names
    chosen: list[str] = []
    for i, name in enumerate(found.columns):
        left = len({_without(found, parts, chosen) for parts in found.parts})
        if left > _MOST_ROWS and len(chosen) < 2 and len({parts[i] for parts in found.parts}) <= _MOST_PANELS:
            chosen.append(name)
    return chosen


def _without(found: Cases, parts: Sequence[str], columns: Collection[str]) -> tuple[str, ...]:
    return tuple(part for name, part in zip(found.columns, parts, strict=True) if name not in columns)


@dataclass(frozen=True)
class Panels:
    """A grid of panels: titles of its columns and rows, the categories in them, and the place of each case.

    A place is the column and the row of a panel, and the number of the category in it.
    """

    across: tuple[str, ...]
    down: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, int, int], ...]


def panels(found: Cases, columns: Sequence[str]) -> Panels:
    """Return the grid with the first of the columns horizontally, and the second vertically."""
    at = [found.columns.index(name) for name in columns]
    across, down = (
        list(dict.fromkeys(parts[i] for parts in found.parts)) if i is not None else []
        for i in (at[0] if at else None, at[1] if len(at) > 1 else None)
    )
    names = list(dict.fromkeys(_without(found, parts, columns) for parts in found.parts))
    places = tuple(
        (
            across.index(parts[at[0]]) if across else 0,
            down.index(parts[at[1]]) if down else 0,
            names.index(_without(found, parts, columns)),
        )
        for parts in found.parts
    )
    return Panels(tuple(across), tuple(down), tuple(names), places)


def _count(rows: Sequence[Row], columns: Sequence[str]) -> int:
    return len({key_of(row, columns) for row in rows})


def _rank(rows: Sequence[Row], name: str) -> tuple[int, float]:
    """Rank the size first, which has the largest numbers; then booleans, text, and other numbers."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if values and all(map(is_number, values)):
        largest = max(map(abs, values))
        return (0, -largest) if largest >= _MOST_ROWS else (3, 0.0)
    return (1 if all(isinstance(value, bool) for value in values) else 2, 0.0)


def _order(value: Any) -> tuple[int, float, str]:
    if is_number(value) and not math.isnan(value):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def _words(row: Row, name: str) -> str:
    value: Any = row.get(name)
    return f"{name}={number_text(value) if is_number(value) else value}"


@dataclass(frozen=True)
class Options:
    """The keywords of `BenchmarkResult.plot`."""

    kind: str = "line"
    x: str | None = None
    y: str | None = None
    hue: str | None = None
    style: str | None = None
    baseline: Any = None
    facet: Facet = None


@dataclass(frozen=True)
class Point:
    """A point of a picture, the ends of its spread, and its configuration; y is NaN if nothing was measured."""

    x: float
    y: float
    low: float
    high: float
    label: str = ""


@dataclass(frozen=True)
class Series:
    """Points that belong together; `hue` is the position of its colour, and `mark` that of its marker and line."""

    name: str
    hue: int
    mark: int
    points: tuple[Point, ...]

    @property
    def mark_id(self) -> str:
        """The identifier of the series in an SVG file."""
        return f"series-{self.hue}-{self.mark}"


@dataclass(frozen=True)
class Axis:
    """The label of an axis, the format of its numbers, and the names of its categories, if any."""

    words: str
    text: Callable[[float], str]
    log: bool = False
    categories: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()  # that it should show, if there is room


@dataclass(frozen=True)
class Chart:
    """The content of a picture; `roofs` are the measured bytes and operations per second of each platform."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    spread: str
    remarks: tuple[str, ...]
    baseline: str = ""
    roofs: tuple[tuple[str, float, float], ...] = ()
    cases: Cases | None = None  # the categories, if they are configurations that columns distinguish
    facet: tuple[str, ...] = ()  # the columns that make panels
    ends: tuple[float, float] | None = None  # of the values in all panels, in a panel

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest value that is shown, with spreads; in a panel, those of all panels."""
        if self.ends is not None:
            return self.ends
        points = [point for series in self.series for point in series.points if not math.isnan(point.y)]
        return min(point.low for point in points), max(point.high for point in points)


def in_panels(whole: Chart) -> list[list[tuple[str, Chart]]]:
    """Return the rows of panels of a chart, each with its title."""
    assert whole.cases is not None
    grid = panels(whole.cases, whole.facet)
    between = (whole.x.categories[0].count("\n") and "\n") or ", "
    axis = replace(whole.x, categories=tuple(between.join(parts) for parts in grid.names))

    def panel(to_right: int, down: int) -> Chart:
        here = {i: place for i, (*at, place) in enumerate(grid.places) if at == [to_right, down]}
        series = tuple(
            replace(one, points=tuple(replace(p, x=here[int(p.x)]) for p in one.points if int(p.x) in here))
            for one in whole.series
        )
        return replace(whole, x=axis, series=series, ends=whole.span)

    return [
        [(", ".join(filter(None, (above, beside))), panel(i, k)) for i, above in enumerate(grid.across or ("",))]
        for k, beside in enumerate(grid.down or ("",))
    ]


def chart(records: Sequence[BenchmarkRecord], name: str, options: Options) -> Chart:
    """Return the chart of the records, or raise with the reason why there is none."""
    rows = _rows(records, options)
    if not any(record.success for record in records):
        raise ValueError(f"{WHERE}: no measurement can be drawn{_why(records)}")
    hue, baseline = options.hue or _default_hue(rows, options), ""
    if options.kind == "speedup":
        quantity, baseline = speedup(options.y, rows, hue, options.baseline)
    else:
        quantity = performance(options.y, rows) if options.kind == "roofline" else column(options.y, rows)
    place = "intensity" if options.kind == "roofline" else options.x or _size(rows, (hue, options.style))
    found_cases = cases(rows, (hue, options.style)) if place == "label" and options.x is None else None
    facet = _facet(options, found_cases, rows)
    place = CASE if found_cases is not None else place
    x, position = _placed([row for row in rows.rows if _has(row, place)], place, options.kind in _GROUPED)
    if found_cases is not None:
        between = "\n" if options.kind in _GROUPED else ", "
        x, position = Axis("", str, categories=tuple(map(between.join, found_cases.parts))), lambda row: row[CASE]
    series = _series(
        rows, options, hue, place, lambda row: Point(position(row), *quantity.of(row), row["label"]), baseline
    )
    points = [point for one in series for point in one.points if not math.isnan(point.y)]
    if not points:
        raise ValueError(f"{WHERE}: no record has both {place} and {quantity.words}{_why(records)}")
    return Chart(
        " on ".join(filter(None, (name, ", ".join(_values(rows.rows, "platform"))))),
        replace(x, log=True, numbers=()) if options.kind == "roofline" else x,
        Axis(quantity.words, quantity.text, options.kind in ("speedup", "roofline") or _wide(p.y for p in points)),
        tuple(series),
        quantity.spread,
        tuple(_remarks(records, rows.rows, place)),
        baseline,
        tuple(_roofs(rows.rows)) if options.kind == "roofline" else (),
        found_cases,
        facet,
    )


def _facet(options: Options, found_cases: Cases | None, rows: Rows) -> tuple[str, ...]:
    """Return the columns that make panels, if columns distinguish the configurations."""
    if found_cases is not None:
        return tuple(panel_columns(found_cases, options.facet, rows.names))
    if options.facet:
        raise ValueError(
            f"{WHERE}: facet={options.facet!r} needs configurations that differ in several keywords, and no x"
        )
    return ()


def _rows(records: Sequence[BenchmarkRecord], options: Options) -> Rows:
    """Return the rows; raise if there are none, or if a requested column does not exist."""
    if not records:
        raise ValueError(f"{WHERE}: there are no records to draw; measure something first")
    rows = flat_rows(records, all_columns=True)
    for role in ("x", "y", "hue", "style"):
        if (name := getattr(options, role)) is not None:
            check_column(f"{WHERE}: {role}", name, dict.fromkeys([*rows.columns, *METRICS]), rows.columns)
    if options.baseline is not None and options.kind != "speedup":
        raise ValueError(
            f"{WHERE}: baseline={options.baseline!r} is for kind='speedup', found kind={options.kind!r}; leave it out"
        )
    if options.kind != "roofline":
        return rows
    if options.x is not None:
        raise ValueError(f"{WHERE}: kind='roofline' has its own x, operations per byte; leave x={options.x!r} out")
    for row in rows.rows:
        row["intensity"] = row["flops"] / row["bytes"] if row["flops"] and row["bytes"] else None
    return rows


# ---- to the right ----------------------------------------------------------------------------------------------------


def _size(rows: Rows, taken: Sequence[str | None]) -> str:
    """Return the only numeric keyword that varies, or else the label."""
    fixed = ("platform", "backend", "label", *taken)
    found = [name for name in rows.names if name not in fixed and _numeric(rows.rows, name) and _varies(rows, name)]
    sizes = independent(rows.rows, found)
    return sizes[0] if len(sizes) == 1 else "label"


def _default_hue(rows: Rows, options: Options) -> str:
    """Return the backend, or another column that varies if the backend is on the horizontal axis."""
    if options.x != "backend" or options.kind == "speedup":
        return "backend"
    found = _size(rows, (options.style,))
    return found if _varies(rows, found) else "backend"


def _placed(rows: Sequence[Row], name: str, grouped: bool) -> tuple[Axis, Callable[[Row], float]]:
    """Return the axis of a column, and the function of a row's position on it: its number, or that of its category."""
    words = "FLOP per byte" if name == "intensity" else axis_words(name)
    if not _numeric(rows, name):
        categories = list(dict.fromkeys(str(row[name]) for row in rows))
        return Axis(words, str, categories=tuple(categories)), lambda row: categories.index(str(row[name]))
    numbers = sorted({float(row[name]) for row in rows})
    if grouped:
        texts = tuple(map(number_text, numbers))
        return Axis(words, number_text, categories=texts), lambda row: numbers.index(float(row[name]))
    return Axis(words, number_text, _wide(numbers), numbers=tuple(numbers)), lambda row: float(row[name])


def _numeric(rows: Iterable[Row], name: str) -> bool:
    return all(is_number(row[name]) for row in rows if row.get(name) is not None)


def _has(row: Row, name: str) -> bool:
    value = row.get(name)
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _varies(rows: Rows, name: str) -> bool:
    return len(_values(rows.rows, name)) > 1


def _values(rows: Iterable[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def _wide(numbers: Iterable[float]) -> bool:
    found = list(numbers)
    return bool(found) and min(found) > 0 and max(found) > _DECADE * min(found)


# ---- series ----------------------------------------------------------------------------------------------------------


def _series(
    rows: Rows, options: Options, hue: str, place: str, point: Callable[[Row], Point], baseline: str
) -> list[Series]:
    """Return a series for each hue and style but the baseline; their positions are those in all records."""
    pooled = options.kind not in ("scatter", "roofline")
    styles = [options.style] if options.style else _left_over(rows, hue, place) if pooled else []
    keys = [(str(row.get(hue)), _style_name(row, styles)) for row in rows.rows]
    colours, marks = (list(dict.fromkeys(names)) for names in zip(*keys, strict=True))
    members: dict[tuple[str, str], list[Row]] = {}
    for key, row in zip(keys, rows.rows, strict=True):
        if key[0] != baseline and _has(row, place):
            members.setdefault(key, []).append(row)
    found = []
    for (shade, kind), own in members.items():
        points = sorted(map(point, own), key=lambda point: point.x)
        mark = marks.index(kind) if styles else colours.index(shade)
        words = _style_name(own[0], [hue])
        name = (words if kind in ("", words) else f"{words}, {kind}") + _state(own)
        found.append(Series(name, colours.index(shade), mark, tuple(_pooled(points) if pooled else points)))
    return found


def _left_over(rows: Rows, hue: str, place: str) -> list[str]:
    """Return the columns that distinguish rows with the same hue and place."""
    seen = Counter((str(row.get(hue)), str(row.get(place))) for row in rows.rows)
    if max(seen.values(), default=1) == 1:
        return []
    names = [name for name in rows.names if name not in (hue, place, "label") and _varies(rows, name)]
    kept = independent(rows.rows, names)
    return [name for name in kept if len(independent(rows.rows, [place, name])) > 1]


def _style_name(row: Row, styles: Sequence[str]) -> str:
    said = ((name, row.get(name)) for name in styles)
    return ", ".join(str(v) if name in ("platform", "backend", "label") else f"{name}={v}" for name, v in said)


def _state(rows: Sequence[Row]) -> str:
    if not any(row["success"] for row in rows):
        return " (failed)"
    return " (wrong results)" if any(row["mismatch"] for row in rows) else ""


def _pooled(points: Iterable[Point]) -> list[Point]:
    """Combine points at the same place into one: they are repeated measurements."""
    places: dict[float, list[Point]] = {}
    for point in points:
        places.setdefault(point.x, []).append(point)
    found = []
    for x, here in places.items():
        there = [point for point in here if not math.isnan(point.y)] or here
        middle = statistics.median(point.y for point in there)
        found.append(Point(x, middle, min(p.low for p in there), max(p.high for p in there)))
    return found


# ---- remarks ---------------------------------------------------------------------------------------------------------


def _remarks(records: Sequence[BenchmarkRecord], rows: Sequence[Row], place: str) -> Iterable[str]:
    """Return remarks: failures, wrong results, and records that the picture does not show."""
    yield from _listed("Failed", [record for record in records if not record.success])
    yield from _listed("Wrong results", [record for record in records if record.mismatch is not None])
    pairs = zip(records, rows, strict=True)
    missing = [record for record, row in pairs if record.success and not _has(row, place)]
    yield from _listed("Without bytes and flops" if place == "intensity" else f"Without {place}", missing)


def _listed(what: str, records: Sequence[BenchmarkRecord]) -> Iterable[str]:
    labels: dict[str, list[str]] = {}
    for record in records:
        labels.setdefault(record.backend, []).append(record.label)
    said = [f"{backend} ({_few(names)})" for backend, names in labels.items()]
    if said:
        yield f"{what}: {', '.join(said)}."


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LABELS
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_LABELS])} and {more} more"


def _why(records: Sequence[BenchmarkRecord]) -> str:
    error = next((record for record in records if record.error), None)
    return f": {error.backend!r} failed with {str(error.error).splitlines()[0]}" if error else ""


def _roofs(rows: Sequence[Row]) -> Iterable[tuple[str, float, float]]:
    """Yield each platform with its bytes and operations per second, infinite if they were not measured."""
    for platform in _values(rows, "platform"):
        own = [row for row in rows if row["platform"] == platform]
        bandwidth, flops = (
            max((row[name] for row in own if row[name]), default=math.inf) for name in ("peak_bandwidth", "peak_flops")
        )
        if min(bandwidth, flops) < math.inf:
            yield platform, bandwidth, flops
