# SPDX-License-Identifier: Apache-2.0
"""What a loop computes with: arrays, ways to read them, nodes, which make arrays of others, and plans of all nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..scalar.form import DTYPES, HALVES, WIDE_INTEGERS, Constant, constant, held_dtype

__all__ = [
    "Array",
    "Call",
    "Node",
    "Plan",
    "Stage",
    "Texts",
    "Tools",
    "UnfitError",
    "View",
    "as_scalar",
    "broadcast",
    "check_dtype",
]
__all__ += ["HALVES", "LOOP_DTYPES", "NARROW", "as_held", "held", "is_packed", "is_whole", "packed_strides"]
__all__ += ["reads_own", "whole"]

NARROW = ("int8", "int16", "uint8", "uint16")  # integers that are computed with in 32 bits
LOOP_DTYPES = (*DTYPES, *WIDE_INTEGERS, *NARROW, *HALVES)

Texts = list[str]  # lines or expressions of Python


class UnfitError(Exception):
    """A loop has something that is not compiled natively: what, in plain words, and the user's line if it is known."""

    def __init__(self, problem: str, where: str = ""):
        super().__init__(problem)
        self.problem, self.where = problem, where


@dataclass(frozen=True, eq=False)
class Array:
    """A value of the loop. Its home is "const" or "carry" or "row" (of an array that is scanned), or "made" by a node.

    `number` is that of the input, or counts those that are made. One without axes is a scalar, in a register.
    """

    shape: tuple[int, ...]
    dtype: str
    home: str
    number: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class View:
    """How an array is read: at `offset + sum(index * stride)`. A constant, or a scalar, is the same at each index."""

    base: Array | Constant
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are one scalar that is known before a loop over elements begins."""
        return isinstance(self.base, Constant) or self.base.shape == ()

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return self.base.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class Tools(Protocol):
    """What writes the text of a loop, as far as calls need it."""

    def function(self, kind: str, thing: Any) -> str:
        """Return the name of a function that the text calls."""

    def once(self, text: str) -> str:
        """Return the name of a value that is made before the first step, if it is made of arrays that are there."""

    def nested(self, plan: Any) -> str:
        """Return the name of the function that a plan becomes: of its inputs, results and memory."""


@dataclass(frozen=True)
class Call:
    """What runs between loops over elements: `write(operands, results, tools)` returns lines, or phases on a GPU.

    Operands whose places are in `scalars` are passed as scalars, all others as arrays, also those without axes.
    `reuses` are pairs of an operand and a result that begins with its content: it may have the same memory. On a GPU,
    `zeroes` are results that are zero when it begins; on the CPU, `of_zeros` is the same call for a result that is.
    `plans` are those of loops and branches within it.
    """

    name: str
    write: Callable[..., list[Any]]
    scalars: frozenset[int] = frozenset()
    reuses: tuple[tuple[int, int], ...] = ()
    zeroes: tuple[int, ...] = ()
    work: int = 0  # multiplications of a dense product
    is_kernel: bool = False  # of an operator
    is_foreign: bool = False  # its code is another library's
    plans: tuple[Any, ...] = ()
    may_fail: bool = False  # or never end: it runs only where the program runs it
    of_zeros: Call | None = None


@dataclass(frozen=True, eq=False)
class Node:
    """An equation: elementwise, a *lane*, or a call. A lane without a JAX equation copies."""

    ins: tuple[View, ...]
    outs: tuple[Array, ...]
    equation: Any = None
    call: Call | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a lane; that of a scalar has no axes."""
        return self.outs[0].shape

    @property
    def is_scalar(self) -> bool:
        """Whether this computes a scalar, without a loop."""
        return self.call is None and self.shape == ()


@dataclass(frozen=True)
class Stage:
    """What runs in this order: scalars, loops over elements (lanes of one shape each), and calls."""

    scalars: tuple[Node, ...]
    loops: tuple[tuple[Node, ...], ...]
    calls: tuple[Node, ...]

    def nodes(self) -> Iterable[Node]:
        """Yield all of them."""
        yield from self.scalars
        for loop in self.loops:
            yield from loop
        yield from self.calls


@dataclass(frozen=True, eq=False)
class Plan:
    """A loop as stages: those `before` the first step, those at the `head` of each step, and the `step` itself.

    With a `length` of None, there are steps as long as the scalar `go` holds after the head. `inputs` are constants,
    carries, scanned arrays, and then the constants `closed` of the body. `outs` are arrays by the number of the result;
    a carry that does not change is none of them, but the input `kept`. `carries` are results by the number of the
    input, and `rows` results that have a row for each step. `places` says where arrays are stored: "o3" is result 3 (or
    its row of this step), "b7" memory of array 7; the first is where it is read. `late` are results that are copied at
    the end of a step.
    """

    length: int | None
    reverse: bool
    inputs: tuple[Array, ...]
    closed: tuple[Any, ...]
    before: tuple[Stage, ...]
    head: tuple[Stage, ...]
    go: View | None
    step: tuple[Stage, ...]
    outs: Mapping[int, Array]
    kept: Mapping[int, int]
    carries: Mapping[int, int]
    rows: frozenset[int]
    places: Mapping[Array, tuple[str, ...]]
    late: tuple[tuple[int, Array], ...]
    random_words: int  # that are drawn in a step
    may_fail: bool  # or never end
    is_foreign: bool  # code of another library is called

    def nodes(self) -> Iterable[Node]:
        """Yield all nodes."""
        for stage in (*self.before, *self.head, *self.step):
            yield from stage.nodes()

    @property
    def memory(self) -> tuple[Array, ...]:
        """The arrays that need memory of their own."""
        return tuple(a for node in self.nodes() for a in node.outs if f"b{a.number}" in self.places.get(a, ()))


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def whole(array: Array | Constant) -> View:
    """Return all of an array."""
    shape = () if isinstance(array, Constant) else array.shape
    return View(array, shape, 0, packed_strides(shape))


def as_scalar(scalar: Array | Constant, shape: Sequence[int]) -> View:
    """Return a scalar as an array of a shape."""
    return View(scalar, tuple(shape), 0, (0,) * len(shape))


def broadcast(view: View, shape: tuple[int, ...]) -> View:
    """Return a view whose axes of size 1 are as long as those of a shape; a scalar stays what it is."""
    if view.shape in (shape, ()):
        return view
    strides = (0 if n == 1 else stride for n, stride in zip(view.shape, view.strides, strict=True))
    return View(view.base, shape, view.offset, tuple(strides))


def is_packed(view: View) -> bool:
    """Say whether the elements follow each other in memory, in the order of the view."""
    if view.is_uniform:
        return view.shape == ()
    wanted = packed_strides(view.shape)
    return all(have == want for have, want, n in zip(view.strides, wanted, view.shape, strict=True) if n > 1)


def is_whole(view: View) -> bool:
    """Say whether the view is all of its array, in order."""
    return is_packed(view) and not isinstance(view.base, Constant) and view.offset == 0 and view.size == view.base.size


def reads_own(view: View, shape: tuple[int, ...]) -> bool:
    """Say whether a loop over elements of a shape reads an array at its own element, and all of it."""
    return view.shape == shape and is_whole(view)


def check_dtype(dtype: Any, what: str) -> str:
    """Return a dtype of JAX as one that loops compute with; raise if they do not."""
    name = str(dtype)
    if name not in LOOP_DTYPES:
        raise UnfitError(f"{what} of {name}; loops compute with {', '.join(LOOP_DTYPES)}")
    return name


def held(dtype: str) -> str:
    """Return the dtype in which elements of a dtype are computed: narrow ones in 32 bits."""
    return dtype if dtype in WIDE_INTEGERS else "float32" if dtype in HALVES else held_dtype(dtype)


def as_held(number: Constant) -> Constant:
    """Return a constant as it is computed with."""
    return constant(number.value, held(number.dtype))
