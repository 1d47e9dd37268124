# SPDX-License-Identifier: Apache-2.0
"""Indices in CUDA C++: where an element of a view is, and loops whose elements threads share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..values import Texts, View, packed_strides

__all__ = ["KEPT", "OWN", "coordinates", "each", "each_kept", "each_read_first", "index_of", "nested", "place_in"]

# The element that a loop over elements is at: of an array in memory, and of one in registers.
OWN, KEPT = "[i]", "[k]"

_READ_FIRST = 16  # registers of a thread for what it reads before it computes


def index_of(view: View) -> str:
    """Return where the element `i` of a view, counted in row-major order, is in its array."""
    axes: list[list[int]] = []  # size and stride of axes, joined where elements follow each other
    for n, stride in zip(view.shape, view.strides, strict=True):
        if axes and axes[-1][1] == stride * n:
            axes[-1] = [axes[-1][0] * n, stride]
        elif n != 1:
            axes.append([n, stride])
    text, inner = "", math.prod(n for n, _ in axes)
    for k, (n, stride) in enumerate(axes):
        inner //= n
        if stride:
            index = f"i / {inner}u" if inner > 1 else "i"
            index = f"{index} % {n}u" if k else index
            term = f"({index}) * {abs(stride)}u" if abs(stride) > 1 else index
            text += f" {'-' if stride < 0 else '+'} {term}"
    if view.offset or not text.startswith(" +"):
        return f"{view.offset}u{text}"
    return text.removeprefix(" + ")


def each(size: int, body: Sequence[str], index: str = "i") -> Texts:
    """Return a loop over elements, of which each thread takes its own."""
    head = f"for (unsigned {index} = tid; {index} < {size}u; {index} += threads) {{"
    return [head, *(f"    {line}" for line in body), "}"]


def each_kept(size: int, body: Sequence[str]) -> Texts:
    """Return the same loop, unrolled: the element `i` is number `k` of a thread, which has it in registers."""
    head = f"for (unsigned k = 0; k < ({size}u + threads - 1) / threads; ++k) {{"
    lines = ["const unsigned i = tid + k * threads;", f"if (i < {size}u) {{", *(f"    {line}" for line in body), "}"]
    return ["#pragma unroll", head, *(f"    {line}" for line in lines), "}"]


def each_read_first(size: int, reads: Mapping[str, tuple[str, str]], body: Sequence[str], *, kept: bool) -> Texts:
    """Return a loop over elements that reads what some of them need before it computes the first.

    `reads` are types and texts by the names of arrays whose element `j` is read. If carries are `kept`, it is unrolled.
    """
    together = max(1, _READ_FIRST // len(reads))
    count = f"({size}u + threads - 1) / threads"

    def some(lines: Sequence[str]) -> Texts:
        head = f"for (unsigned j = 0; j < {together}u && first + j < {count}; ++j) {{"
        inside = [
            "const unsigned k = first + j, i = tid + k * threads;",
            f"if (i < {size}u) {{",
            *_indented(lines),
            "}",
        ]
        return ["#pragma unroll", head, *_indented(inside), "}"]

    declared = [f"{kind} {name}[{together}];" for name, (kind, _) in reads.items()]
    lines = [*declared, *some([f"{name}[j] = {text};" for name, (_, text) in reads.items()]), *some(body)]
    head = f"for (unsigned first = 0; first < {count}; first += {together}u) {{"
    return [*["#pragma unroll"] * kept, head, *_indented(lines), "}"]


def _indented(lines: Sequence[str]) -> Texts:
    return [f"    {line}" for line in lines]


def coordinates(shape: Sequence[int], letter: str = "i", of: str = "i") -> Texts:
    """Return lines that define the index along each axis of element `of` of an array of a shape."""
    strides = packed_strides(shape)
    texts = (
        of if len(shape) == 1 else f"{of} / {s}u % {n}u" if s > 1 else f"{of} % {n}u"
        for s, n in zip(strides, shape, strict=True)
    )
    return [f"const int {letter}{axis} = {text};" for axis, text in enumerate(texts)]


def place_in(shape: Sequence[int], indices: Sequence[str]) -> str:
    """Return the place of an element in an array of a shape, in row-major order."""
    terms = [
        f"({i}) * {s}" if s > 1 else f"({i})"
        for i, s, n in zip(indices, packed_strides(shape), shape, strict=True)
        if n > 1
    ]
    return " + ".join(terms) or "0"


def nested(indices: Sequence[str], sizes: Sequence[int], body: Sequence[str]) -> Texts:
    """Return loops within each other, which one thread runs."""
    heads = [
        "    " * depth + f"for (int {i} = 0; {i} < {n}; ++{i}) {{"
        for depth, (i, n) in enumerate(zip(indices, sizes, strict=True))
    ]
    return [
        *heads,
        *("    " * len(heads) + line for line in body),
        *("    " * k + "}" for k in reversed(range(len(heads)))),
    ]
