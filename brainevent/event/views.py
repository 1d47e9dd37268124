# SPDX-License-Identifier: Apache-2.0
"""A matrix as a pytree has two views: functions over leaves see its weights, programs also its indices.

`jax.tree.map`, optimizers and `jax.grad` change numbers, and must not reach indices, on which kernels rely. `jax.jit`
and its relatives must take indices as operands: as constants, 10 million of them are 80 MB of program text, and a
program could not serve another structure. JAX has a registry of pytrees for each of the two, and `register_pair` adds a
class to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from .._compat import BatchTracer, ShapedArray, is_tracing
from .marks import (
    Kept,
    Mark,
    OfTangent,
    Structure,
    can_be_marked,
    copied,
    mark_of,
    no_derivative,
    share,
    share_with_equal,
)
from .purposes import AWAITED, BATCH, CALLBACK, COTANGENT, TANGENT, purpose

__all__ = ["Views"]


class Views:
    """A matrix as a pytree."""

    data: Any
    shape: tuple[int, int]
    backend: str | None
    indices_sorted: bool
    indices_within: bool
    _buffers: dict[str, Any]
    _structure: ClassVar[tuple[str, ...]] = ()  # the attributes that hold indices
    _ranks: ClassVar[tuple[int, ...]] = (1, 1, 1)  # of these arrays
    _hold: Any  # takes over all parts; each class defines it
    _known_mark: Any  # of indices that are no arrays, but what JAX puts in their place
    _taken: Any  # what a placeholder consists of

    @property
    def _facts(self) -> Any:
        """What else is static in this class."""
        return None

    def _recall(self, facts: Any) -> None:
        """Take over what `_facts` returned."""

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the weights and floating buffers, and the rest, as functions over leaves see them.

        Indices of a batch of structures, as `jax.vmap` returns it, are leaves, too.
        """
        arrays, why = self._indices(), purpose()
        if why == COTANGENT:
            where = f"jax.vjp: the cotangent of a {type(self).__name__}"
            raise TypeError(f"{where} is given; let the function return its data, and pass the cotangent of those")
        called = why == CALLBACK and self._is_traced(arrays)
        awaited = why == AWAITED and bool(arrays)
        if "_taken" in self.__dict__ or awaited or called or self._is_batch(arrays, why):
            return self._operands(known=why != CALLBACK)
        names = tuple(self._buffers)
        floating: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in self._buffers.items():
            (floating if _is_floating(value) else rest)[name] = value
        static = (self.shape, self.backend, tuple(floating), self._facts)
        known = (self.indices_sorted, self.indices_within)
        mark = None if can_be_marked(arrays) else self.__dict__.get("_known_mark")
        return (self.data, *floating.values()), Structure(static, arrays, known, names, rest, mark)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        """Make the matrix from its children, which may be other objects than arrays."""
        if not isinstance(aux_data, Structure):
            return (cls._of_operands if isinstance(aux_data[-2], Mark) else cls._placeholder)(aux_data, children)
        (shape, backend, floating, facts), (data, *values) = aux_data.static, children
        share(aux_data.arrays)
        arrays, rest = beside(data, aux_data.arrays, aux_data.buffers)
        buffers = rest | dict(zip(floating, values, strict=True))
        buffers = {name: buffers[name] for name in aux_data.names}
        made = cls._put_together(data, arrays, buffers, (shape, backend, *aux_data.known), facts)
        if aux_data.mark is not None:
            made._known_mark = aux_data.mark
        return made

    def _given(self) -> tuple[tuple[Any, ...], Any]:
        """Return what a transformation of JAX takes: all arrays, or those of a tangent."""
        why = purpose()
        return self._tangents() if why == TANGENT else self._operands(known=why != CALLBACK)

    def _tangents(self) -> tuple[tuple[Any, ...], Any]:
        """Return the parts of the matrix as a tangent, in which integers have none."""
        leaves, (*static, mark, rest) = self._operands()
        if not isinstance(mark, Mark):
            return leaves, (*static, mark, rest)
        static.append(OfTangent(mark.arrays, mark.kind, mark.number))
        return jax.tree.map(no_derivative, leaves), (*static, rest)

    def _operands(self, *, known: bool = True) -> tuple[tuple[Any, ...], Any]:
        """Return all arrays, and the static rest, as programs take them."""
        if "_taken" in self.__dict__:
            return self._taken  # type: ignore[no-any-return]
        arrays = self._indices()
        flags = (self.indices_sorted and known, self.indices_within and known)
        rest = Kept(tuple(self._buffers.values())) if self._buffers else None
        standing = None if can_be_marked(arrays) else self.__dict__.get("_known_mark")
        mark = standing or mark_of(arrays)
        mark = mark if known else mark.alone()
        static = (self.shape, self.backend, *flags, tuple(self._buffers), self._facts, mark, rest)
        return (self.data, *arrays, *self._buffers.values()), static

    @classmethod
    def _of_operands(cls, static: Any, leaves: Sequence[Any]) -> Self:
        *kept, names, facts, mark, rest = static
        count = 1 + len(cls._structure)
        arrays, known = leaves[1:count], True
        if isinstance(mark, Mark) and arrays:
            arrays, known = mark.restored(cls.__name__, arrays)
        kept[2:] = (flag and known for flag in kept[2:])
        buffers = dict(zip(names, rest.restored(leaves[count:]) if rest else leaves[count:], strict=True))
        made = cls._put_together(leaves[0], arrays, buffers, kept, facts)
        if isinstance(mark, Mark) and not can_be_marked(arrays):
            made._known_mark = mark
        return made

    @classmethod
    def _placeholder(cls, static: Any, leaves: Sequence[Any]) -> Self:
        """Return a matrix that only says how operands of a saved program are nested."""
        made = cls._of_operands(static, leaves)
        made._taken = tuple(leaves), static
        return made

    @classmethod
    def _put_together(
        cls, data: Any, arrays: Sequence[Any], buffers: dict[str, Any], kept: Sequence[Any], facts: Any
    ) -> Self:
        shape, backend, in_order, within = kept
        made = object.__new__(cls)
        made._hold(data, arrays, shape, backend, buffers, in_order=in_order, within=within)
        made._recall(facts)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was pickled or copied; matrices that had one structure have one again."""
        self.__dict__.update(state)
        share_with_equal(self._indices())

    def _indices(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._structure)

    def _is_traced(self, arrays: Sequence[Any]) -> bool:
        """Say whether data and indices are values of a program that is traced."""
        return all(any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(each)) for each in (self.data, arrays))

    def _is_batch(self, arrays: Sequence[Any], why: str | None) -> bool:
        """Say whether each matrix of a batch has its own structure."""
        ranks = zip(arrays, self._ranks, strict=False)
        if any(isinstance(array, ShapedArray) or getattr(array, "ndim", 0) > rank for array, rank in ranks):
            return True  # also of the types of operands, as `jax.export` handles them
        return why == BATCH and any(isinstance(x, BatchTracer) for x in arrays)


def _is_floating(buffer: Any) -> bool:
    return all(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in jax.tree.leaves(buffer))


# ---- indices follow weights, which `jax.device_put` and other functions over leaves move


def beside(data: Any, arrays: Sequence[Any], buffers: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return arrays of indices, and buffers, in the memory of the weights if those are bound to one.

    An array in the shape of the weights is split over devices as they are; other arrays are copied to each device.
    """
    weights: Any = data if isinstance(data, jax.Array) else next(iter(jax.tree.leaves(data)), None)
    if not _is_concrete(weights) or not weights.committed:
        return arrays, buffers

    def moved(x: Any) -> Any:
        return jax.device_put(x, _target(x, weights)) if _is_elsewhere(x, weights) else x

    if not any(_is_elsewhere(x, weights) for x in jax.tree.leaves((tuple(arrays), buffers))) or is_tracing():
        return arrays, buffers
    if all(map(_is_concrete, arrays)) and any(_is_elsewhere(x, weights) for x in arrays):
        arrays = copied(arrays, [_target(x, weights) for x in arrays])
    return arrays, {name: jax.tree.map(moved, buffer) for name, buffer in buffers.items()}


def _is_concrete(x: Any) -> bool:
    return isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) and not x.is_deleted()


def _is_elsewhere(x: Any, weights: jax.Array) -> bool:
    mine, theirs = (getattr(each, "sharding", None) if _is_concrete(each) else None for each in (x, weights))
    if mine is None or theirs is None:
        return False
    return bool(mine.device_set != theirs.device_set or mine.memory_kind != theirs.memory_kind)


def _target(x: jax.Array, weights: jax.Array) -> Any:
    sharding = weights.sharding
    if x.shape == weights.shape or not isinstance(sharding, jax.sharding.NamedSharding):
        return sharding if len(sharding.device_set) == 1 or x.shape == weights.shape else x.sharding
    whole = jax.sharding.PartitionSpec()
    return jax.sharding.NamedSharding(sharding.mesh, whole, memory_kind=sharding.memory_kind)
