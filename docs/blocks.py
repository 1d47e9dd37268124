# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of a Markdown page and what they print; needs the standard library alone.

A block that begins with ```python runs anywhere, one that begins with ```python gpu where there is a GPU, and one that
begins with ```python optional where the packages that it imports are installed.
"""

import contextlib
import doctest
import io
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "Block", "blocks", "difference", "failures", "printed_by"]

KINDS = ("python gpu", "python optional", "python", "output")
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(rf"^```({'|'.join(KINDS)})\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A Python block; `expected` is the output block that comes next, if one does.

    An `optional` one imports packages that may be missing.
    """

    source: str
    line: int
    expected: str | None = None
    optional: bool = False


def blocks(page: str) -> Iterator[Block]:
    """Yield the Python blocks of a page, all kinds of them."""
    code = None
    for fence in _FENCE.finditer(page):
        kind, source = fence.groups()
        line = page.count("\n", 0, fence.start(2))
        if kind != "output":
            if code:
                yield code
            code = Block(source, line, optional=kind == "python optional")
        elif code is None:
            raise ValueError(f"line {line}: output without a Python block")
        else:
            yield replace(code, expected=source)
            code = None
    if code:
        yield code


def printed_by(run: Callable[[], object], expected: str | None) -> str:
    """Return what a block prints; an exception, but for a missing package, is printed if an output is expected."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            run()
        except Exception as error:
            if expected is None or (isinstance(error, ModuleNotFoundError) and "ModuleNotFoundError" not in expected):
                raise
            printed.write("".join(traceback.format_exception_only(error)))
    return printed.getvalue()


def difference(expected: str | None, printed: str) -> str | None:
    """Return how the output differs from what the page shows, or None."""
    checker = doctest.OutputChecker()
    if expected is None or checker.check_output(expected, printed, _OPTIONS):
        return None
    return checker.output_difference(doctest.Example("", expected), printed, _OPTIONS)


def failures(page: Path) -> list[str]:
    """Run every block of a page, in order, and return what differs."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for block in blocks(page.read_text(encoding="utf-8")):
        code = compile("\n" * block.line + block.source, str(page), "exec")
        try:
            printed = printed_by(lambda code=code: exec(code, namespace), block.expected)
        except ModuleNotFoundError:
            if not block.optional:
                raise
            continue
        if differs := difference(block.expected, printed):
            found.append(f"{page.name}, line {block.line}: {differs}")
    return found
