# SPDX-License-Identifier: Apache-2.0
"""Which matrices share a structure: a mark for the arrays of indices, which a compiled program knows instead of them.

A program takes indices as operands, so it serves matrices of any structure, and does not know their values. A function
over leaves, such as the update of an optimizer, must know within a program that two matrices have the same structure.
So structures that several matrices share have numbers: the smallest that no other existing structure of these shapes
has. The number is static in the program, the arrays are not. In one call all arrays exist, so operands with one number
have one structure, in every call of the program.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import first_of_batch
from .structure import are_known

__all__ = [
    "Kept",
    "Mark",
    "OfTangent",
    "Structure",
    "are_same",
    "can_be_marked",
    "copied",
    "mark_of",
    "no_derivative",
    "share",
    "share_with_equal",
]

_marks: dict[tuple[int, ...], Mark] = {}  # by the identities of arrays, while all of them exist
_numbered: dict[Hashable, dict[int | None, dict[int, Mark]]] = {}  # of concrete arrays, by shapes, number and identity
_retired: set[tuple[Hashable, int]] = set()  # numbers on which a program relies beyond its operands
_numbering = threading.RLock()  # of additions; what is gone is removed in single steps, at any time


class Mark:
    """What is static about arrays of indices: their number, if they have one. Marks with the same number are equal."""

    __slots__ = ("arrays", "kind", "number")

    def __init__(self, arrays: Sequence[Any], kind: Hashable, number: int | None):
        self.arrays, self.kind, self.number = arrays, kind, number  # weak references to the arrays

    def __eq__(self, other: object) -> bool:
        return self.number == (other.number if isinstance(other, Mark) else other)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return (
            "a structure of one matrix" if self.number is None else f"structure {self.number} of those that are shared"
        )

    def __reduce__(self) -> Any:
        return Mark, ((), self.kind, self.number)

    def saved(self) -> int | None:
        """Return what a saved program knows."""
        return self.number

    def alone(self) -> Mark:
        """Return the mark of copies of the arrays that are handed over at a later time."""
        return Mark((), self.kind, None)

    def restored(self, where: str, leaves: Sequence[Any]) -> tuple[Sequence[Any], bool]:
        """Return arrays of indices of leaves that a program took or returned, and whether they fit what is known.

        Where JAX has no derivative by indices, they are those of the matrix by which it differentiates.
        """
        if any(map(_has_no_derivative, leaves)):
            arrays = [get() for get in self.arrays]
            if not arrays or any(array is None for array in arrays):
                raise RuntimeError(f"{where}: the matrix by which this is the derivative exists no more; keep it")
            return arrays, True
        for leaf in leaves:
            if hasattr(leaf, "dtype") and not jnp.issubdtype(leaf.dtype, jnp.integer):
                raise TypeError(f"{where}: a function over leaves made indices of {leaf.dtype}; change the data only")
        if _kind(leaves) != self.kind and any(hasattr(leaf, "dtype") for leaf in leaves):
            return leaves, False
        if self.number is None or not can_be_marked(leaves):
            return leaves, True
        leaves = [first_of_batch(leaf) for leaf in leaves]  # `cond` under `vmap` returns a batch of one structure
        if all(isinstance(leaf, jax.Array) for leaf in leaves) and not any(map(_is_traced, leaves)):
            existing = _existing(self.kind, self.number, [leaf.sharding for leaf in leaves])
            if existing:
                return existing, True  # for copies that a program returned
        _marked(leaves, self.number)
        return leaves, True


class OfTangent(Mark):
    """The mark of a tangent, which is equal to that of a matrix if they are known to have one structure."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mark):
            return super().__eq__(other)
        mine, theirs = ([get() for get in mark.arrays] for mark in (self, other))
        if len(mine) != len(theirs) or any(array is None for array in (*mine, *theirs)):
            return self.number is not None and self.number == other.number
        return are_same(mine, theirs)

    __hash__ = Mark.__hash__


class Kept:
    """The arrays of buffers, which are equal for JAX whatever they are."""

    __slots__ = ("leaves",)

    def __init__(self, buffers: Sequence[Any]):
        self.leaves = [[_reference(leaf) for leaf in jax.tree.leaves(buffer)] for buffer in buffers]

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> Any:
        return Kept, ((),)

    def saved(self) -> None:
        """Return what a saved program knows: nothing."""

    def restored(self, buffers: Sequence[Any]) -> list[Any]:
        """Return buffers with the former arrays where JAX has no derivative by them."""
        return [self._restored(buffer, known) for buffer, known in zip(buffers, self.leaves, strict=True)]

    @staticmethod
    def _restored(buffer: Any, known: Sequence[Any]) -> Any:
        tree: Any
        leaves, tree = jax.tree.flatten(buffer)
        if not any(map(_has_no_derivative, leaves)):
            return buffer
        pairs = zip(leaves, known, strict=True)
        return tree.unflatten([get() if _has_no_derivative(leaf) else leaf for leaf, get in pairs])


class Structure:
    """What functions over leaves do not change: the static rest of a matrix, with its arrays of indices."""

    __slots__ = ("arrays", "buffers", "known", "mark", "names", "static")

    def __init__(
        self,
        static: Any,
        arrays: Sequence[Any],
        known: Any,
        names: tuple[str, ...],
        buffers: dict[str, Any],
        mark: Mark | None = None,  # of what stands for arrays
    ):
        self.static, self.arrays, self.known, self.names, self.buffers = static, arrays, known, names, buffers
        self.mark = mark

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or len(self.arrays) != len(other.arrays):
            return False
        mine, theirs = ((x.static, x.names, tuple(x.buffers)) for x in (self, other))
        if self.mark is not None and other.mark is not None:
            return mine == theirs and (self.known, self.mark) == (other.known, other.mark)
        return mine == theirs and are_same(self.arrays, other.arrays)

    def __hash__(self) -> int:
        return hash((self.static, self.names))

    def __repr__(self) -> str:
        if self.mark is not None:
            return f"{self.mark!r}, of shape {self.static[0]}; indices known to be sorted, in range: {self.known}"
        traced = any(map(_is_traced, self.arrays))
        how = "traced, so pass matrices that jax.tree.map or jax.grad made of one another" if traced else "known"
        return f"a structure of shape {self.static[0]} ({how})"


def mark_of(arrays: Sequence[Any]) -> Mark:
    """Return the mark of arrays of indices, or of what JAX puts in their place."""
    found = _marks.get(tuple(map(id, arrays)))
    return _marked(arrays, None) if found is None else found


def can_be_marked(arrays: Sequence[Any]) -> bool:
    """Say whether these are arrays, concrete or traced, and not what JAX puts in their place."""
    return all(isinstance(array, (jax.Array, np.ndarray)) for array in arrays)


def copied(arrays: Sequence[Any], shardings: Sequence[Any]) -> Sequence[Any]:
    """Return arrays that are shared, with other shardings: existing ones with their number, or copies that get it."""
    mark = mark_of(arrays)
    found = _existing(mark.kind, mark.number, shardings) if mark.number is not None else None
    if found is None:
        found = jax.device_put(list(arrays), list(shardings))
        _marked(found, mark.number)
    return found


def _existing(kind: Hashable, number: int | None, shardings: Sequence[Any]) -> Sequence[Any] | None:
    """Return existing arrays with a number and these shardings."""
    for mark in _with_number(kind, number):
        arrays = [get() for get in mark.arrays]
        if all(
            array is not None and not array.is_deleted() and array.sharding == sharding
            for array, sharding in zip(arrays, shardings, strict=True)
        ):
            return arrays
    return None


def share(arrays: Sequence[Any]) -> None:
    """Give arrays of indices a number, as several matrices have them."""
    if not arrays or mark_of(arrays).number is not None or any(map(_is_traced, arrays)):
        return
    if all(isinstance(array, jax.Array) for array in arrays):
        kind = _kind(arrays)
        with _numbering:
            if mark_of(arrays).number is None:
                used = _numbered.get(kind, {})
                free = (i for i in itertools.count() if not used.get(i) and (kind, i) not in _retired)
                _marked(arrays, next(free))


def share_with_equal(arrays: Sequence[Any]) -> None:
    """Give arrays of indices, which were copied or read, one number with existing ones that have the same values.

    Where there are none, they get no number: a program then serves them and other structures without a number.
    """
    if not arrays or mark_of(arrays).number is not None or any(map(_is_traced, arrays)):
        return
    if not any(map(functools.partial(_take_number, arrays), _with_number(_kind(arrays)))):
        _marked(arrays, None, is_listed=True)


def _take_number(arrays: Sequence[Any], mark: Mark) -> bool:
    """Give arrays the number of a mark if its arrays have the same values."""
    others = [get() for get in mark.arrays]
    return all(isinstance(x, jax.Array) and not x.is_deleted() for x in others) and are_same(others, arrays)


def _with_number(kind: Hashable, number: int | None = None) -> list[Mark]:
    """Return the marks of existing arrays of a kind with this number, or with any."""
    with _numbering:
        by_number = _numbered.get(kind, {})
        found = by_number.values() if number is None else [by_number.get(number, {})]
        return [mark for marks in found for mark in list(marks.values())]


def are_same(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    """Say whether two structures are known to be equal: by identity, by number, or as all values are known."""
    if all(x is y for x, y in zip(arrays, others, strict=True)):
        return True
    if _kind(arrays) != _kind(others):
        return False
    mine, theirs = mark_of(arrays), mark_of(others)
    traced = [any(map(_is_traced, each)) for each in (arrays, others)]
    if any(traced):
        found = mine.number is not None and mine.number == theirs.number
        if found and not all(traced):
            _retired.add(
                (mine.kind, mine.number or 0)
            )  # the program has the arrays of one, and an operand for the other
        return found
    if not are_known(*arrays, *others):
        return mine.number is not None and mine.number == theirs.number
    if not all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(arrays, others, strict=True)):
        return False
    share(arrays)
    number = mark_of(arrays).number
    if number is not None and theirs.number != number:  # either may be new, or read from a file
        _marked(others, number)
    return True


def _marked(arrays: Sequence[Any], number: int | None, *, is_listed: bool = False) -> Mark:
    """Return a new mark of arrays, which is kept while they exist; it is listed if it has a number, too."""
    key, kind = tuple(map(id, arrays)), _kind(arrays)

    def forget(_: Any, marks: Any = _marks, numbered: Any = _numbered) -> None:  # also when Python ends
        if marks.get(key) is mark:
            marks.pop(key, None)
        numbered.get(kind, {}).get(number, {}).pop(id(mark), None)

    references = []
    for array in arrays:
        try:
            references.append(weakref.ref(array, forget))
        except TypeError:  # an object that JAX put in the place of an array
            return Mark((), kind, None)
    mark = Mark(references, kind, number)
    with _numbering:
        _marks[key] = mark
        if (is_listed or number is not None) and all(isinstance(x, jax.Array) and not _is_traced(x) for x in arrays):
            if kind not in _numbered:
                _drop_unused()
            _numbered.setdefault(kind, {}).setdefault(number, {})[id(mark)] = mark
    return mark


def _drop_unused() -> None:
    """Forget kinds of arrays of which none exists, whenever the number of kinds has doubled."""
    if len(_numbered) & (len(_numbered) - 1) == 0:
        for kind in [kind for kind, by_number in _numbered.items() if not any(by_number.values())]:
            del _numbered[kind]


def _kind(arrays: Sequence[Any]) -> Hashable:
    return tuple((x.shape, x.dtype) if hasattr(x, "dtype") else None for x in arrays)


def _is_traced(x: Any) -> bool:
    return isinstance(x, jax.core.Tracer)


def no_derivative(x: Any) -> Any:
    """Return the tangent of an array if it has integers, which is nothing, or the array itself."""
    integer = hasattr(x, "dtype") and not jnp.issubdtype(x.dtype, jnp.inexact)
    return np.zeros(x.shape, jax.dtypes.float0) if integer else x


def _has_no_derivative(x: Any) -> bool:
    return getattr(x, "dtype", None) == jax.dtypes.float0


def _reference(x: Any) -> Any:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: None
