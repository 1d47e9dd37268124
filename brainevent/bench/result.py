# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark: records that print and draw themselves, and last in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import files
from .record import BenchmarkRecord
from .table import Layout, table

if TYPE_CHECKING:
    from .plot.draw import Axes, Figure

__all__ = ["BenchmarkResult"]


class BenchmarkResult:
    """What a benchmark found: one record per configuration and backend.

    >>> import brainevent
    >>> record = brainevent.BenchmarkRecord("cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3})
    >>> brainevent.BenchmarkResult([record], "my_operator")
    platform | backend | n | label | mean_ms | std_ms | min_ms
    ---------+---------+---+-------+---------+--------+-------
    cpu      | numba   | 3 | n=3   |  0.2000 | 0.0100 | 0.1900
    """

    def __init__(self, records: Iterable[BenchmarkRecord], primitive_name: str = ""):
        self._records = list(records)
        self._primitive_name = primitive_name

    @property
    def records(self) -> list[BenchmarkRecord]:
        """The records, in a list of your own."""
        return list(self._records)

    @property
    def primitive_name(self) -> str:
        """The name of the operator that was measured."""
        return self._primitive_name

    @property
    def mismatches(self) -> list[BenchmarkRecord]:
        """The records whose results differ from the reference's, or from the first backend's if there is none."""
        return [record for record in self._records if record.mismatch is not None]

    def __repr__(self) -> str:
        if not self._records:
            return f"BenchmarkResult(primitive={self._primitive_name!r}, 0 records)"
        return table(self._records, Layout())

    def fastest(self, label: str | None = None) -> BenchmarkRecord | None:
        """Return the record with the least `typical_ms`, of all or of one label; None if nothing succeeded.

        A record with a mismatch is not it: to be fast and wrong is no merit.
        """
        found = [
            record
            for record in self._records
            if record.success and record.mismatch is None and not math.isnan(record.typical_ms)
            and label in (None, record.label)
        ]  # fmt: skip
        return min(found, key=lambda record: record.typical_ms, default=None)

    def print(
        self,
        sort_by: str | None = None,
        group_by: str | Sequence[str] | None = None,
        compare_by: str | Callable[[Mapping[str, Any]], Any] | None = None,
        highlight_best: bool = True,
        order_by: str | Sequence[str] | None = None,
        speedup_vs: str | None = None,
        vary_by: str | Sequence[str] | None = None,
    ) -> None:
        """Print the records as a table, and what is to be said of their results.

        `compare_by` tells the baseline of a column `speedup`: a condition such as "backend == 'numba'", or a function
        of a row. `group_by` marks the best of each group. `order_by` makes a hierarchy of columns and overrides these;
        `vary_by` is a hierarchy of all columns, with these innermost. In both, `speedup_vs` names a value of the
        innermost column to compare with. Names in them that are no columns are left out, and told.
        """
        if not self._records:
            print(repr(self))  # noqa: T201
            return
        layout = Layout(sort_by, group_by, compare_by, highlight_best, order_by, speedup_vs, vary_by)
        print(table(self._records, layout))  # noqa: T201

    def plot(
        self,
        ax: Axes | None = None,
        x: str | None = None,
        y: str | None = None,
        hue: str | None = None,
        style: str | None = None,
        kind: str = "line",
        show: bool = False,
        *,
        baseline: object = None,
        theme: str | None = None,
        title: str | None = None,
        facet: str | Sequence[str] | None = None,
        **kw: Any,
    ) -> Figure:
        """Draw the records, and return the figure; `kw` goes to the lines, points or bars that matplotlib makes.

        `kind` is 'line', 'bar', 'scatter', 'speedup' (how many times faster than the `baseline`) or 'roofline'. `x` is
        the only keyword that varies and is a number, else the label; `y` the median time with its quartiles, or the
        mean where there are no medians; `hue` the backend. `theme` is 'light' or 'dark'. Given `ax`, it is drawn into.

        Configurations without a single size are rows of points, and of many, panels: `facet` names the columns, one or
        two, that make panels; () makes none.

        >>> import brainevent
        >>> record = brainevent.BenchmarkRecord("cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3})
        >>> figure = brainevent.BenchmarkResult([record], "my_operator").plot(x="n")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('n', 'mean time of a call')
        """
        try:
            from .plot.draw import draw  # when used: it needs matplotlib
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise ImportError(
                "BenchmarkResult.plot needs matplotlib, which is not installed; pip install 'brainevent[plot]'",
                name=error.name,
            ) from error
        from .plot.series import Wish

        wish = Wish(kind, x, y, hue, style, baseline, facet)
        return draw(self._records, self._primitive_name, wish, ax=ax, theme=theme, title=title, show=show, artist=kw)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: `{"primitive_name": ..., "records": [...]}`; other keyword values as text."""
        return files.as_dict(self._records, self._primitive_name)

    def save(self, path: str | PathLike[str], format: str | None = None) -> None:  # noqa: A002
        """Write a file as 'json', 'csv' or 'pkl', in folders that are made as needed.

        Without `format`, it is what the name ends in, else JSON. CSV is for other programs: `load` does not restore
        keywords and the operator's name from it.
        """
        place = Path(path)
        files.write(
            place, files.kind_of(place) if format is None else format, self._records, self._primitive_name, self
        )

    @classmethod
    def load(cls, path: str | PathLike[str], *, allow_pickle: bool = False) -> BenchmarkResult:
        """Read a file that `save` wrote: a pickle if it ends in .pkl, CSV if in .csv, else JSON.

        Reading a pickle runs whatever code is in it, so it needs `allow_pickle=True`.
        """
        place = _file(path, "load")
        kind = files.kind_of(place)
        if kind == "pkl":
            found: BenchmarkResult = files.read_pickle(place, cls, allow_pickle)
            return found
        return cls(*(files.read_csv(place) if kind == "csv" else files.read_json(place)))

    @classmethod
    def load_run(cls, path: str | PathLike[str]) -> list[BenchmarkResult]:
        """Read a file that `brainevent benchmark-performance --output` wrote: a result for each operator."""
        place = _file(path, "load_run")
        try:
            _, results = files.read_run(place)
        except files.ForeignFileError as error:
            raise files.ForeignFileError(place, error.why, "load_run") from None
        return [BenchmarkResult(*result) for result in results]


def _file(path: str | PathLike[str], reader: str) -> Path:
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"BenchmarkResult.{reader}: there is no file {place}")
    return place


BenchmarkResult.__module__ = "brainevent"
