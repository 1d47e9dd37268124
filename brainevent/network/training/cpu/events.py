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
from ...placed import OnCpu

__all__ = ["times"]

Array = Any
_RANKS = {"times_kernel": (3, 4), "outer_kernel": (4, 3)}  # of what spikes are multiplied with, and of results


def times(spikes: Array, matrix: Array, delay: int = 0) -> Array:
    """Return spikes (steps, sources) times a matrix (sources, neurons), `delay` steps later; spikes are 0, 1 or NaN."""
    return _times.bind(spikes[None, None], matrix[None], delay=delay)[0][0, 0]


@dataclass(frozen=True)
class _Target(OnCpu):
    """One of the two kernels, compiled when a program that runs it is."""

    title: str

    platforms: ClassVar[tuple[str, ...]] = ("cpu",)

    def on(self, platform: str) -> NativeTarget:
        """Return the target."""
        return _compiled(self.title)


@functools.cache
def _compiled(title: str) -> NativeTarget:
    from ....backends.numba import target_of

    spikes, delay = ShapedArray((1,) * 4, np.dtype("uint8")), ShapedArray((1,), np.dtype("int32"))
    other, out = (ShapedArray((1,) * n, np.dtype("float32")) for n in _RANKS[title])
    return target_of(getattr(importlib.import_module(f"{__package__}.on_events"), title), [spikes, other, delay], [out])


def _plain_times(spikes: Array, matrix: Array, delay: int) -> Array:
    sums = jnp.matmul(spikes, matrix[:, None], precision=jax.lax.Precision.HIGHEST)
    return _late(sums, delay)


def _late(sums: Array, delay: int) -> Array:
    """Return sums (networks, samples, steps, neurons) as they arrive some steps later."""
    steps = sums.shape[2]
    return jnp.pad(sums[:, :, : max(0, steps - delay)], ((0, 0), (0, 0), (min(steps, delay), 0), (0, 0)))


def _plain_outer(spikes: Array, arrived: Array, delay: int) -> Array:
    of_later = spikes[:, :, : max(0, spikes.shape[2] - delay)], arrived[:, :, delay:]
    return jnp.einsum("gbti,gbtj->gij", *of_later, precision=jax.lax.Precision.HIGHEST)


def _as_bytes(spikes: Array) -> Array:
    """Return spikes as kernels read them; XLA does this where it computes them."""
    return jnp.where(jnp.isnan(spikes), np.uint8(2), (spikes != 0).astype(np.uint8))


def _primitive(kernel: str, shape: Callable[[Any, Any], tuple[int, ...]]) -> Primitive:
    def types(spikes: Any, other: Any, **_: Any) -> list[ShapedArray]:
        return [ShapedArray(shape(spikes.shape, other.shape), np.dtype("float32"))]

    def run(spikes: Array, other: Array, *, delay: int) -> list[Array]:
        operands = [_as_bytes(spikes), other, np.array([delay], np.int32)]
        return native_call(_Target(f"{kernel}_kernel"), operands, types(spikes, other))

    def results(*operands: Any, **_: Any) -> list[ShapedArray]:
        return [abstract_result(primitive.name, operands, one.shape, one.dtype) for one in types(*operands)]

    primitive = new_primitive(f"spikes_{kernel}", results)
    mlir.register_lowering(primitive, mlir.lower_fun(run))
    return primitive


_times = _primitive("times", lambda spikes, matrix: (*spikes[:3], matrix[2]))
_outer = _primitive("outer", lambda spikes, arrived: (spikes[0], spikes[3], arrived[3]))


def _jvp(
    primitive: Primitive,
    plain: Callable[..., Array],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    delay: int,
) -> Any:
    """Differentiate a product: tangents of spikes are not sparse."""
    (spikes, other), (of_spikes, of_other) = primals, tangents
    results = primitive.bind(spikes, other, delay=delay)
    parts = [] if isinstance(of_spikes, Zero) else [plain(of_spikes, other, delay)]
    parts += [] if isinstance(of_other, Zero) else primitive.bind(spikes, of_other, delay=delay)
    return results, [functools.reduce(jnp.add, parts) if parts else symbolic_zero_like(results[0])]


def _transpose(primitive: Primitive, cotangents: Sequence[Any], spikes: Any, other: Any, *, delay: int) -> list[Any]:
    """Return the cotangents of the matrix, or of what arrived, in which products are linear; spikes are known."""
    assert is_undefined_primal(other)
    (cotangent,) = cotangents
    if isinstance(cotangent, Zero):
        return [None, Zero(other.aval)]
    return [None, primitive.bind(spikes, cotangent, delay=delay)[0]]


def _batch(
    primitive: Primitive, shared: bool, operands: Sequence[Any], axes: Sequence[Any], *, delay: int
) -> tuple[list[Array], list[int]]:
    """Add samples to networks that share a matrix, or networks."""
    (spikes, other), (of_spikes, of_other) = operands, axes
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    if shared and of_other is None:
        moved = jnp.moveaxis(spikes, of_spikes, 1)
        (found,) = primitive.bind(moved.reshape(len(moved), -1, *moved.shape[3:]), other, delay=delay)
        return [found.reshape(*moved.shape[:3], *found.shape[2:])], [1]
    each = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    (found,) = primitive.bind(*(x.reshape(-1, *x.shape[2:]) for x in each), delay=delay)
    return [found.reshape(size, -1, *found.shape[1:])], [0]


primitive_jvps[_times] = functools.partial(_jvp, _times, _plain_times)
primitive_jvps[_outer] = functools.partial(_jvp, _outer, _plain_outer)
primitive_transposes[_times] = functools.partial(_transpose, _outer)
primitive_transposes[_outer] = functools.partial(_transpose, _times)
primitive_batchers[_times] = functools.partial(_batch, _times, True)
primitive_batchers[_outer] = functools.partial(_batch, _outer, False)
