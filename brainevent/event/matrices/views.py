# SPDX-License-Identifier: Apache-2.0
"""A matrix as a pytree has two views: functions over leaves see its weights, programs also its indices.

`jax.tree.map`, optimizers and `jax.grad` change numbers, and must not reach indices, on which kernels rely. `jax.jit`
and its relatives must take indices as operands: as constants, 10 million of them are 80 MB of program text, and a
program could not serve another structure. JAX has a registry of pytrees for each of the two, and `register_pair` adds a
class to both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from ..._compat import ShapedArray, is_batched
from ..marks import Kept, Mark, OfTangent, Structure, mark_of, no_derivative, share
from .attributes import Attributes
from .buffers import TURNED

__all__ = ["Views"]

_BATCHES = ("flatten_fun_for_vmap", "flatten_fun")  # the functions of JAX that take results of `vmap` apart
_MOVES = ("device_put", "block_until_ready", "copy_to_host_async")  # those that move or await arrays
_TANGENTS = ("_lift_linearized", "_jvp")  # those that take tangents apart
_COTANGENTS = "_vjp3_bwd"  # the one that takes cotangents apart
_CALLS = ("callback.py", "debugging.py")  # its files that call Python functions from a program


class Views(Attributes):
    """A matrix as a pytree."""

    _rank: ClassVar[int] = 1  # of the arrays of indices
    _hold: Any  # takes over all parts; `base.py` defines it
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
        arrays = self._indices()
        who = _asking()
        if who == _COTANGENTS:
            name = type(self).__name__
            raise TypeError(f"jax.vjp: a cotangent is a {name}; return its data from the function, and pass theirs")
        called = who in _CALLS and self._is_traced(arrays)
        if "_taken" in self.__dict__ or (arrays and who in _MOVES) or called or self._is_batch(arrays, who):
            return self._operands(known=who not in _CALLS)
        names = tuple(self._buffers)
        floating: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in self._buffers.items():
            (floating if name not in TURNED and _is_floating(value) else rest)[name] = value
        static = (self.shape, self.backend, tuple(floating), self._facts)
        known = (self.indices_sorted, self.indices_within)
        return (self.data, *floating.values()), Structure(static, arrays, known, names, rest)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        """Make the matrix from its children, which may be other objects than arrays."""
        if not isinstance(aux_data, Structure):
            return (cls._of_operands if isinstance(aux_data[-2], Mark) else cls._placeholder)(aux_data, children)
        (shape, backend, floating, facts), (data, *values) = aux_data.static, children
        buffers = aux_data.buffers | dict(zip(floating, values, strict=True))
        buffers = {name: buffers[name] for name in aux_data.names}
        share(aux_data.arrays)
        return cls._put_together(data, aux_data.arrays, buffers, (shape, backend, *aux_data.known), facts)

    def _given(self) -> tuple[tuple[Any, ...], Any]:
        """Return what a transformation of JAX takes: all arrays, or those of a tangent."""
        return self._tangents() if _is_tangent() else self._operands()

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
        mark = mark_of(arrays) if known else mark_of(arrays).alone()
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
        return cls._put_together(leaves[0], arrays, buffers, kept, facts)

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
        share(self._indices(), with_equal=True)

    def _indices(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._structure)

    def _is_traced(self, arrays: Sequence[Any]) -> bool:
        """Say whether data and indices are values of a program that is traced."""
        return all(any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(each)) for each in (self.data, arrays))

    def _is_batch(self, arrays: Sequence[Any], who: str | None) -> bool:
        """Say whether each matrix of a batch has its own structure."""
        if any(isinstance(array, ShapedArray) or getattr(array, "ndim", 0) > self._rank for array in arrays):
            return True  # also of the types of operands, as `jax.export` handles them
        return who in _BATCHES and any(map(is_batched, arrays))


def _asking() -> str | None:
    """Return the function of JAX that is taking a matrix apart, if it needs all arrays, or the name of its file.

    JAX has no hook for this, so the calling frame is inspected: what called a function over leaves, which called a
    method of the matrix. If JAX renames its functions, `jax.device_put` moves only the weights.
    """
    frame: Any = sys._getframe(1)
    for _ in range(3):
        frame = frame and frame.f_back
    if frame is None or not frame.f_globals.get("__name__", "").startswith("jax."):
        return None
    name, file = frame.f_code.co_name, Path(frame.f_code.co_filename).name
    return name if name in (*_MOVES, *_BATCHES, _COTANGENTS) else file if file in _CALLS else None


def _is_tangent() -> bool:
    """Say whether JAX is taking tangents apart, which it does with the same function as primals."""
    frame: Any = sys._getframe(1)
    for _ in range(3):
        frame = frame and frame.f_back
    if frame is None or frame.f_code.co_name not in _TANGENTS or frame.f_globals.get("__name__") != "jax._src.api":
        return False
    return frame.f_code.co_name != "_jvp" or "ps_ft" in frame.f_locals  # the primals, which come first


def _is_floating(buffer: Any) -> bool:
    return all(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in jax.tree.leaves(buffer))
