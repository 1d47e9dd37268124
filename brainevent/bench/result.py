# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark: records as tables, pictures and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..typing import PyTree
from . import files
from .record import BenchmarkRecord
from .table import Layout, as_html, table

if TYPE_CHECKING:
    from .plot.draw import Axes, Figure

__all__ = ["BenchmarkResult"]


class BenchmarkResult:
    """The result of a benchmark: one record for each configuration and backend.

    Args:
        records: The records.
        primitive_name: The name of the operator that was measured.

    Examples:
        >>> import brainevent
        >>> record = brainevent.BenchmarkRecord("cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3})
        >>> result = brainevent.BenchmarkResult([record], "my_operator")
        >>> result
        platform | backend | n | label | mean_ms | std_ms | min_ms
        ---------+---------+---+-------+---------+--------+-------
        cpu      | numba   | 3 | n=3   |  0.2000 | 0.0100 | 0.1900
        >>> result.fastest().backend, result.to_dict()["primitive_name"]
        ('numba', 'my_operator')
    """

    def __init__(self, records: Iterable[BenchmarkRecord], primitive_name: str = ""):
        self._records = list(records)
        self._primitive_name = primitive_name

    @property
    def records(self) -> list[BenchmarkRecord]:
        """The records, in a new list."""
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

    def _repr_html_(self) -> str:
        """Return what notebooks show: the table, with the fastest of each label marked."""
        return as_html(self._records, self._primitive_name)

    def fastest(self, label: str | None = None) -> BenchmarkRecord | None:
        """Return the record with the least `typical_ms`; records with a mismatch are ignored.

        Args:
            label: The label of a configuration; None for all records.

        Returns:
            The record; None if nothing succeeded.
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
        """Print the records as a table, and remarks on their results.

        `order_by` and `vary_by` override the other columns. Names in them that are not columns are ignored, with a
        note.

        Args:
            sort_by: The column to sort by.
            group_by: The columns that define groups; the best record of each is marked.
            compare_by: The baseline of a column `speedup`: a condition such as "backend == 'numba'", or a function of a
                row.
            highlight_best: Whether to mark the best record.
            order_by: Columns of a hierarchy, the outermost first.
            speedup_vs: The value of the innermost column to compare with; without other columns, a backend.
            vary_by: The innermost columns of a hierarchy of all columns.

        Raises:
            ValueError: If a column or condition is unknown.

        Examples:
            >>> import brainevent
            >>> record = brainevent.BenchmarkRecord(
            ...     "cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3}
            ... )
            >>> brainevent.BenchmarkResult([record], "my_operator").print(sort_by="mean_ms", highlight_best=False)
            platform | backend | n | label | mean_ms | std_ms | min_ms
            ---------+---------+---+-------+---------+--------+-------
            cpu      | numba   | 3 | n=3   |  0.2000 | 0.0100 | 0.1900
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
        """Draw the records.

        Args:
            ax: Axes of matplotlib to draw into; None for a new figure.
            x: The column of the horizontal axis; None for the only numeric keyword that varies, or else the label.
            y: The column of the vertical axis; None for the median time with its quartiles, or the mean.
            hue: The column of colours; None for the backend.
            style: The column of line styles and markers.
            kind: "line", "bar", "scatter", "speedup" (how many times faster than the `baseline`) or "roofline".
            show: Whether to show the figure.
            baseline: The value of the column of colours to compare with.
            theme: "light" or "dark"; None for that of matplotlib.
            title: A title; None for the name of the operator.
            facet: The columns, one or two, that make panels; () for none. By default, many configurations without a
                single size are rows of points in panels.
            **kw: Keywords for the lines, points or bars of matplotlib.

        Returns:
            The figure.

        Raises:
            ValueError: If a column or kind is unknown, or there is nothing to draw.
            ImportError: If matplotlib is not installed.

        Examples:
            >>> import brainevent
            >>> record = brainevent.BenchmarkRecord(
            ...     "cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3}
            ... )
            >>> figure = brainevent.BenchmarkResult([record], "my_operator").plot(x="n")
            >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
            ('n', 'mean time of a call')
        """
        try:
            from .plot.draw import draw  # imported when used: it needs matplotlib
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise ImportError(
                "BenchmarkResult.plot needs matplotlib, which is not installed; run: pip install matplotlib",
                name=error.name,
            ) from error
        from .plot.series import Options

        options = Options(kind, x, y, hue, style, baseline, facet)
        return draw(self._records, self._primitive_name, options, ax=ax, theme=theme, title=title, show=show, artist=kw)

    def to_dict(self) -> dict[str, PyTree]:
        """Return the result as a dictionary that JSON can hold; other values of keywords become text.

        Returns:
            The name of the operator and a list of records.
        """
        return files.as_dict(self._records, self._primitive_name)

    def save(self, path: str | PathLike[str], format: str | None = None) -> None:  # noqa: A002
        """Write the result to a file, in folders that are made as needed.

        Args:
            path: The path of the file.
            format: "json", "csv" or "pkl"; None for the suffix of the path.

        Raises:
            ValueError: If there is no such format.

        Examples:
            >>> import pathlib, tempfile, brainevent
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "results.json"
            >>> brainevent.BenchmarkResult([], "my_operator").save(file)
            >>> brainevent.BenchmarkResult.load(file)
            BenchmarkResult(primitive='my_operator', 0 records)
        """
        place = Path(path)
        files.write(
            place, files.kind_of(place) if format is None else format, self._records, self._primitive_name, self
        )

    @classmethod
    def load(cls, path: str | PathLike[str], *, allow_pickle: bool = False) -> BenchmarkResult:
        """Read a file that `save` wrote.

        Args:
            path: The path of the file, whose suffix gives the format: .pkl, .csv, otherwise JSON.
            allow_pickle: Whether a pickle may be read, which runs any code that is in it.

        Returns:
            The result.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file holds anything else, or is a pickle and `allow_pickle` is False.
        """
        place = _file(path, "load")
        kind = files.kind_of(place)
        if kind == "pkl":
            found: BenchmarkResult = files.read_pickle(place, cls, allow_pickle)
            return found
        return cls(*(files.read_csv(place) if kind == "csv" else files.read_json(place)))

    @classmethod
    def load_run(cls, path: str | PathLike[str]) -> list[BenchmarkResult]:
        """Read a file that `brainevent benchmark --output` wrote.

        Args:
            path: The path of the file.

        Returns:
            A result for each operator.

        Raises:
            FileNotFoundError: If there is no such file.
            ForeignFileError: If the file holds anything else.

        Examples:
            >>> import brainevent
            >>> brainevent.BenchmarkResult.load_run("missing.json")
            Traceback (most recent call last):
                ...
            FileNotFoundError: BenchmarkResult.load_run: there is no file missing.json
        """
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
