# SPDX-License-Identifier: Apache-2.0
"""Functions that the text of a loop calls, as text; among them, those that copy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .values import Texts, Tools

__all__ = ["Helper", "bound", "copied", "element", "indented", "nest"]

_LEAST, _MOST = 12, 32  # elements of rows that LLVM would unroll before it makes vectors of them, and then makes none


@dataclass(frozen=True)
class Helper:
    """A function that the text of a loop calls, as lines.

    `apart` promises that its arrays do not overlap. Its loops are `interleaved` if they compute several vectors at a
    time.
    """

    arguments: str
    body: tuple[str, ...]
    fastmath: frozenset[str] = frozenset()
    apart: bool = True
    interleaved: bool = False

    def text(self, name: str) -> str:
        """Return the function with a name."""
        return "\n".join([f"def {name}({self.arguments}):", *indented(self.body)])


def indented(lines: Iterable[str]) -> Texts:
    """Return lines of a block."""
    return [f"    {line}" for line in lines]


def bound(n: int, most: int = _MOST) -> str:
    """Return the text of the end of an innermost loop: one that LLVM does not know, where that makes it faster."""
    return f"unknown({n})" if _LEAST <= n <= most else str(n)


def nest(indices: Sequence[str], shape: Sequence[int], body: Sequence[str], most: int = _MOST) -> Texts:
    """Return loops within each other; LLVM does not know the end of an innermost one of up to `most` elements."""
    ends = [*map(str, shape[:-1]), *(bound(n, most) for n in shape[-1:])]
    heads = [f"{'    ' * depth}for {i} in range({n}):" for depth, (i, n) in enumerate(zip(indices, ends, strict=True))]
    return [*heads, *("    " * len(heads) + line for line in body)]


def element(array: str, begins: Sequence[str], rank: int) -> str:
    """Return an element of an array, at indices that are counted from the beginnings of a part of it."""
    # Unsigned numbers index arrays without a test.
    indices = [f"np.uint64({begins[axis]} + i{axis})" if begins else f"np.uint64(i{axis})" for axis in range(rank)]
    return f"{array}[{', '.join(indices) or '()'}]"


def copied(
    tools: Tools, to: str, source: str, shape: Sequence[int], at: Sequence[str] = (), of: Sequence[str] = ()
) -> str:
    """Return a line that copies an array of a shape, into a part that begins `at`, and from one that begins at `of`.

    It calls loops: Numba compiles an assignment of arrays slowly, and looks for overlaps when it runs.
    """
    rank = len(shape)
    into, out_of = (
        [f"{letter}{axis}" for axis in range(rank if places else 0)] for letter, places in (("k", at), ("l", of))
    )
    line = f"{element('to', into, rank)} = {element('source', out_of, rank)}"
    body = nest([f"i{axis}" for axis in range(rank)], shape, [line])
    name = tools.function("copy", Helper(", ".join(["to", "source", *into, *out_of]), tuple(body)))
    return f"{name}({', '.join([to, source, *at, *of])})"
