# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes of a run with a dense matrix, on the CPU: only spikes are visited, forward and backward."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import (
    Primitive,
    ShapedArray,
    Zero,
    abstract_result,
    is_undefined_primal,
    mlir,
    new_primitive,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
    symbolic_zero_like,
)
from ....ffi.call import NativeTarget, native_call

__all__ = ["times"]

Array = Any


def times(spikes: Array, matrix: Array) -> Array:
    """Return spikes (rows, sources) times a matrix (sources, neurons): both float32, and spikes mostly zero."""
    return _times.bind(spikes, matrix)[0]


@dataclass(frozen=True)
class _Target:
    """One of the two kernels, compiled when a program that runs it is."""

    title: str

    platforms: ClassVar[tuple[str, ...]] = ("cpu",)

    def on(self, platform: str) -> NativeTarget:
        """Return the target."""
        return _compiled(self.title)


@functools.cache
def _compiled(title: str) -> NativeTarget:
    from ....backends.numba import target_of

    matrix = ShapedArray((1, 1), np.dtype("float32"))
    return target_of(getattr(importlib.import_module(f"{__package__}.on_events"), title), [matrix] * 2, [matrix])


def _plain_times(spikes: Array, matrix: Array) -> Array:
    return jnp.matmul(spikes, matrix, precision=jax.lax.Precision.HIGHEST)


def _plain_outer(spikes: Array, arrived: Array) -> Array:
    return jnp.matmul(spikes.T, arrived, precision=jax.lax.Precision.HIGHEST)


def _primitive(kernel: str, shape: Callable[[Any, Any], tuple[int, ...]]) -> Primitive:
    def types(spikes: Any, other: Any) -> list[ShapedArray]:
        return [ShapedArray(shape(spikes.shape, other.shape), np.dtype("float32"))]

    def run(spikes: Array, other: Array) -> list[Array]:
        return native_call(_Target(f"{kernel}_kernel"), [spikes, other], types(spikes, other))

    def results(*operands: Any) -> list[ShapedArray]:
        return [abstract_result(primitive.name, operands, one.shape, one.dtype) for one in types(*operands)]

    primitive = new_primitive(f"spikes_{kernel}", results)
    mlir.register_lowering(primitive, mlir.lower_fun(run))
    return primitive


_times = _primitive("times", lambda spikes, matrix: (spikes[0], matrix[1]))
_outer = _primitive("outer", lambda spikes, arrived: (spikes[1], arrived[1]))


def _jvp(primitive: Primitive, plain: Callable[..., Array], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Differentiate a product: tangents of spikes are not sparse."""
    (spikes, other), (of_spikes, of_other) = primals, tangents
    results = primitive.bind(spikes, other)
    parts = [] if isinstance(of_spikes, Zero) else [plain(of_spikes, other)]
    parts += [] if isinstance(of_other, Zero) else primitive.bind(spikes, of_other)
    return results, [functools.reduce(jnp.add, parts) if parts else symbolic_zero_like(results[0])]


def _transpose(primitive: Primitive, cotangents: Sequence[Any], spikes: Any, other: Any) -> list[Any]:
    """Return the cotangents of the matrix, or of what arrived, in which products are linear; spikes are known."""
    assert is_undefined_primal(other)
    (cotangent,) = cotangents
    return [None, Zero(other.aval) if isinstance(cotangent, Zero) else primitive.bind(spikes, cotangent)[0]]


def _batch_times(operands: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Array], list[int]]:
    """Multiply all rows of a batch at once, if they share the matrix."""
    (spikes, matrix), (axis, of_matrix) = operands, axes
    if of_matrix is not None:
        return [jax.vmap(_plain_times, tuple(axes))(spikes, matrix)], [0]
    moved = jnp.moveaxis(spikes, axis, 0)
    (found,) = _times.bind(moved.reshape(-1, moved.shape[2]), matrix)
    return [found.reshape(*moved.shape[:2], -1)], [0]


def _batch_outer(operands: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Array], list[int]]:
    return [jax.vmap(_plain_outer, tuple(axes))(*operands)], [0]


primitive_jvps[_times] = functools.partial(_jvp, _times, _plain_times)
primitive_jvps[_outer] = functools.partial(_jvp, _outer, _plain_outer)
primitive_transposes[_times] = functools.partial(_transpose, _outer)
primitive_transposes[_outer] = functools.partial(_transpose, _times)
primitive_batchers[_times] = _batch_times
primitive_batchers[_outer] = _batch_outer
