# SPDX-License-Identifier: Apache-2.0
"""Choose the columns of a table if there is no room for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from .rows import Row

__all__ = ["narrowed"]

_SEPARATOR, _MARK = 3, 3  # characters between columns, and behind the best row
# Measurements that others can replace, the least important first.
_SPARE = ("std_ms", "peak_fraction", "loop_ms", "min_ms", "mean_ms", "throughput")
_TIMES = ("median_ms", "mean_ms")


def narrowed(
    columns: Sequence[str], keys: Sequence[str], body: Sequence[Row], cell: Callable[[Row, str], str], width: int
) -> list[str]:
    """Return the columns with which the table has at most this width; all if none can be omitted.

    Columns of `keys` that distinguish no rows are omitted first, the widest first, but never the last one; then
    measurements.
    """
    widths = {name: max([len(name), *(len(cell(row, name)) for row in body)]) for name in columns}
    left = list(columns)

    def fits() -> bool:
        return sum(widths[name] for name in left) + _SEPARATOR * (len(left) - 1) + _MARK <= width

    for name in sorted(keys[:-1], key=lambda name: -widths[name]):
        others = [key for key in keys if key in left and key != name]
        if not fits() and _groups(body, others) == _groups(body, [*others, name]):
            left.remove(name)
    time = next((name for name in _TIMES if name in left), None)
    for name in _SPARE:
        if name in left and name != time and not fits():
            left.remove(name)
    return left


def _groups(body: Sequence[Row], columns: Collection[str]) -> int:
    return len({tuple(repr(row.get(name)) for name in columns) for row in body})
