# SPDX-License-Identifier: Apache-2.0
"""What an operator on a matrix is: a format, a law, columns or not, weights in order or by a permutation.

A *format* says how stored elements are found, a *law* what happens at each, and a *language* has kernels that do both.
Everything else about an operator follows from its description: see `table.py`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..bench.record import BenchmarkConfig
from ..operator.custom_kernel import XLACustomKernel
from .elements import Elements

if TYPE_CHECKING:
    from ..operator.variants import Declared

__all__ = ["Checked", "Cut", "Description", "Format", "Generator", "Language", "Law", "Others", "Shape"]

Generator = Callable[..., Any]
Shape = tuple[int, int]
Checked = tuple[list[Any], bool]  # arrays of indices, and whether all are known to be in range


class _Described:
    """What kernels are made of: it is identified by its class and by its fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def content_parts(self) -> tuple[Any, ...]:
        """The parts that identify it."""
        return type(self), {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, repr=False)
class Language:
    """A kernel language: `make(description)` returns a generator of kernels, or None if the language has no kernel.

    `variants(description)` are sets of keyword arguments, of which `tune` finds the fastest. `language` is what kernels
    are written in, if that is not the name of the backend.
    """

    backend: str
    platform: str
    make: Callable[[Description], Generator | None]
    variants: Callable[[Description], Declared | None] = lambda of: None
    language: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Cut:
    """How devices may share a matrix, in factors of sharding rules.

    `arrays` are the factors of each array of indices, and `stored` those of an array with a value for each element.
    `row` and `column` are those of vectors with a value for each row or column, where these are cut with the elements.
    Sums over parts of what is `reduced` are partial, and what is `whole` is never cut. Where elements are cut and rows
    are not, `pointers` is the number of the array that says where rows begin. `moved(places, *operands)` returns the
    operands of a part where they depend on its place: see `def_sharding_rule`.
    """

    arrays: tuple[str, ...]
    stored: str
    row: str | None = None
    column: str | None = None
    reduced: tuple[str, ...] = ()
    pointers: int | None = None
    whole: tuple[str, ...] = ()
    moved: Callable[..., Any] | None = None

    def directed(self, *, transpose: bool) -> tuple[str, str]:
        """Return the factors of what a product takes, and of its result."""
        taken, result = (self.row, self.column) if transpose else (self.column, self.row)
        return taken or "k", result or "m"


def _no_other_way(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("this format does not define this")


@dataclass(frozen=True, eq=False, repr=False)
class Format:
    """How the elements of a matrix are stored.

    `elements(structure, shape)` returns the places of elements, given arrays of indices and the shape of the matrix.
    `stored(structure, shape)` is the shape of an array with a value for each element. `checked(where, structure, shape,
    within)` returns arrays that users pass, if they fit together, and whether all indices are known to be in range:
    `within`, or if that is None, the result of a check. `draw(n, number, in_order)` makes the arrays of a square matrix
    with a number of elements in each row, for benchmarks. `one_side(structure, transpose)` returns the arrays of a
    matrix with one column, or one row, and the same elements. `own(description)` is a faster way in `jax.numpy` than by
    elements, for descriptions without an operator. `rows(within=...)` says how Numba finds elements, which are known to
    be in range or not: see `event/on_cpu/rows.py`. `reference(description)` is an operator in `jax.numpy` if elements
    are not stored. For matrices that are `drawn`, that is the number of the distribution of weights; their operators
    take a few numbers in which the weights of all elements are linear.
    """

    name: str  # in the names of its operators
    tag: str
    arrays: tuple[str, ...]  # the names of arrays of indices
    elements: Callable[[Sequence[Any], Shape], Elements]
    checked: Callable[[str, Sequence[Any], Shape, bool | None], Checked]
    draw: Callable[..., tuple[Any, ...]]
    cut: Cut
    stored: Callable[[Sequence[Any], Shape], tuple[int, ...]] = lambda structure, shape: tuple(structure[0].shape)
    one_side: Callable[..., Sequence[Any]] = _no_other_way
    turned: Callable[..., tuple[Any, ...]] = _no_other_way
    own: Callable[[Description], Callable[..., list[Any]] | None] = lambda of: None
    rows: Callable[..., Any] | None = None
    reference: Callable[[Description], Callable[..., list[Any]] | None] = lambda of: None
    drawn: int | None = None
    weights: str = "data"  # the name of the array of weights
    sizes: tuple[tuple[int, int], ...] = ((4000, 80), (10_000, 200))  # of benchmarks: neurons, and elements of each
    bytes: int = 4  # of the indices of an element
    by_rows: bool = True  # whether kernels visit the rows of events alone

    @property
    def content_parts(self) -> tuple[Any, ...]:
        """The parts on which kernels may depend."""
        return self.name, self.arrays, self.elements, self.own, self.rows, self.reference, self.drawn

    def sized(self, shape: Shape) -> dict[str, Any]:
        """Return the shape as a keyword argument of operators; without indices, weights have it already."""
        return {"shape": shape} if self.arrays else {}


class Others(Protocol):
    """The operators of other descriptions."""

    def __call__(self, of: Description, *operands: Any, **keywords: Any) -> Any:
        """Call an operator, or do what it would do if none is defined."""

    def operator(self, of: Description) -> XLACustomKernel | None:
        """Return an operator, or None if none is defined."""


@dataclass(frozen=True, eq=False, repr=False)
class Law(ABC, _Described):
    """What happens at the elements of a matrix.

    Names of operators follow from a `title`: "{format}{mv}_dt2t" is "csrmm_dt2t" for matrices in compressed rows. The
    docstring of an operator without a public function follows from the `summary` in the same way.
    """

    title: str
    labels: tuple[str, ...]  # tags of its operators
    summary: str = ""
    kind: ClassVar[str]  # the same for all laws of a class
    event: ClassVar[bool] = False  # whether a value counts only as zero or not zero
    in_numba: ClassVar[Callable[..., Any] | None] = None

    def name(self, of: Description) -> str:
        """Return the name of an operator, and of the function that users call."""
        return self._of(self.title, of)

    def doc(self, of: Description) -> str:
        """Return the docstring of an operator without a public function."""
        return self._of(self.summary, of)

    def _of(self, text: str, of: Description) -> str:
        side = {"side": "post", "own": "column", "other": "row"} if of.post else {}
        words = {"side": "pre", "own": "row", "other": "column", "format": of.format.name, **side}
        return text.format(**words, mv="mm" if of.columns else "mv", indexed="_indexed" * of.indexed)

    def tags(self, of: Description) -> tuple[str, ...]:
        """Return the tags of an operator."""
        return (of.format.tag, *self.labels)

    @abstractmethod
    def reference(self, of: Description) -> Callable[..., list[Any]]:
        """Return the operator in `jax.numpy`."""

    @abstractmethod
    def cut(self, of: Description) -> dict[str, Any]:
        """Return the arguments of `def_sharding_rule`."""

    @abstractmethod
    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its rules; `apply` calls others."""

    @abstractmethod
    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Return an operator's benchmark data."""

    def call(self, operator: XLACustomKernel, of: Description) -> Callable[..., Any]:
        """Return what is measured for an operator without a public function: the operator itself."""
        return operator


@dataclass(frozen=True, repr=False)
class Description(_Described):
    """What an operator is. `columns`: it takes matrices in place of vectors. `indexed`: element j has weight `perm[j]`.

    `post`: the matrix is cut by postsynaptic neurons, for laws in which both sides of a synapse differ.
    """

    format: Format
    law: Law
    columns: bool = False
    indexed: bool = False
    post: bool = False

    @functools.cached_property
    def name(self) -> str:
        """The name of the function that users call, and of the operator unless `table.py` has another one for it."""
        return self.law.name(self)

    def __repr__(self) -> str:
        return f"Description({self.name})"

    def also(self, **changes: Any) -> Description:
        """Return a description with changes."""
        return replace(self, **changes)

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays of indices."""
        return (*self.format.arrays, *(("perm",) if self.indexed else ()))

    def reference(self) -> Callable[..., list[Any]]:
        """Return the operator in `jax.numpy`."""
        return self.format.reference(self) or self.law.reference(self)

    def elements(self, structure: Sequence[Any], weights: Any, shape: Shape | None) -> Elements:
        """Return the places of elements; matrices without indices have the shape of their weights."""
        return self.format.elements(structure, shape or weights.shape)

    def stored(self, structure: Sequence[Any], weights: Any, shape: Shape | None) -> tuple[int, ...]:
        """Return the shape of an array with a value for each element."""
        return self.format.stored(structure, shape or weights.shape)
