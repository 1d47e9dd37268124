# SPDX-License-Identifier: Apache-2.0
"""The report of `check`: a table with one row per backend and promise."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..._html import document, table
from ...errors import CheckFailedError

__all__ = ["FAILED", "OK", "SKIPPED", "CheckReport", "CheckRow"]

_HEAD = ("backend", "promise", "status", "detail")
OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class CheckRow(NamedTuple):
    """One promise of one backend.

    Attributes:
        backend: The name of the backend.
        promise: What was checked, such as "jit" or "gradients".
        status: "ok", "failed" or "skipped".
        detail: What was found.

    Examples:
        >>> import brainevent
        >>> brainevent.CheckRow("numba", "jit", "ok").status
        'ok'
    """

    backend: str
    promise: str
    status: str
    detail: str = ""


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of `check`; it prints as a table.

    Attributes:
        operator: The name of the operator.
        platform: The platform on which it was checked.
        rows: A row for each backend and promise.

    Examples:
        >>> import brainevent
        >>> rows = (brainevent.CheckReport("double", "cpu", ()),)
        >>> print(rows[0])
        operator 'double' on cpu: nothing was checked
    """

    operator: str
    platform: str
    rows: tuple[CheckRow, ...]

    @property
    def failures(self) -> tuple[CheckRow, ...]:
        """The rows of broken promises."""
        return tuple(row for row in self.rows if row.status == FAILED)

    @property
    def ok(self) -> bool:
        """Whether promises were checked, and none is broken."""
        return not self.failures and any(row.status == OK for row in self.rows)

    def raise_if_failed(self) -> None:
        """Raise an error that lists the broken promises, unless `ok`.

        Raises:
            CheckFailedError: If a promise is broken, or none was checked.

        Examples:
            >>> import brainevent
            >>> rows = (brainevent.CheckRow("numba", "jit", "ok"),)
            >>> brainevent.CheckReport("double", "cpu", rows).raise_if_failed()
        """
        if self.ok:
            return
        if not self.failures:
            reasons = (
                "; ".join(f"{row.backend}: {row.detail}" for row in self.rows) or "it has no kernel and no reference"
            )
            raise CheckFailedError(
                f"operator {self.operator!r}: nothing could be checked on {self.platform} ({reasons}); "
                "register a kernel that runs here, or a reference with def_reference"
            )
        listed = "\n".join(f"  {row.backend}, {row.promise}: {row.detail}" for row in self.failures)
        count = "a promise" if len(self.failures) == 1 else f"{len(self.failures)} promises"
        raise CheckFailedError(f"operator {self.operator!r} breaks {count} on {self.platform}:\n{listed}")

    def __str__(self) -> str:
        return "\n".join([self._title, *(["", *_table([_HEAD, *self.rows])] if self.rows else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return what notebooks show, the broken promises marked."""
        marked = [i for i, row in enumerate(self.rows) if row.status == FAILED]
        return document(self._title, table(_HEAD, self.rows, marked=marked) if self.rows else "")

    @property
    def _title(self) -> str:
        counts = [(sum(row.status == status for row in self.rows), status) for status in (OK, FAILED, SKIPPED)]
        found = ", ".join(f"{count} {status}" for count, status in counts if count) or "nothing was checked"
        return f"operator {self.operator!r} on {self.platform}: {found}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns, and wrap the last one."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    indent = sum(widths) + 6
    room = max(40, min(shutil.get_terminal_size((120, 24)).columns, 160) - indent)
    lines = []
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        detail = textwrap.wrap(row[3], room) or [""]
        lines.append(f"{cells}  {detail[0]}".rstrip())
        lines += [" " * indent + more for more in detail[1:]]
    return lines
