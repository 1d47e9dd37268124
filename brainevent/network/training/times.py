# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes of a run with a dense matrix, and their gradients, as primitives that platforms lower."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import (
    Primitive,
    ShapedArray,
    Zero,
    abstract_result,
    directly,
    is_undefined_primal,
    mlir,
    new_primitive,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
    symbolic_zero_like,
)

__all__ = ["all_digits", "earlier", "lower_on", "plain_outer", "plain_times", "times"]

Array = Any
Run = Callable[..., Array]

_FEWER_DIGITS = (None, "default", "fastest", "bfloat16", "tensorfloat32", "BF16_BF16_F32", "TF32_TF32_F32")


def all_digits() -> bool:
    """Return whether JAX is asked for products with more digits than GPUs have by themselves: some 11 bits."""
    return jax.config.jax_default_matmul_precision not in _FEWER_DIGITS  # type: ignore[attr-defined]


def times(spikes: Array, matrix: Array, delay: int = 0) -> Array:
    """Return spikes (steps, sources) times a matrix (sources, neurons), `delay` steps later; spikes are 0, 1 or NaN.

    GPUs multiply with fewer digits unless `jax_default_matmul_precision` asks for more.
    """
    exact = all_digits()
    alone = jax.lax.expand_dims(spikes, (0, 1)), jax.lax.expand_dims(matrix, (0,))
    (found,) = _times.bind(*alone, delay=delay, exact=exact)
    return jax.lax.squeeze(found, (0, 1))


def earlier(spikes: Array, delay: int) -> Array:
    """Return spikes (networks, samples, steps, sources) some steps later: before them there are none."""
    steps = spikes.shape[2]
    if delay == 0:
        return spikes
    return jnp.pad(spikes[:, :, : max(0, steps - delay)], ((0, 0), (0, 0), (min(steps, delay), 0), (0, 0)))


def _precision(exact: bool) -> Any:
    return jax.lax.Precision.HIGHEST if exact else None


def plain_times(spikes: Array, matrix: Array, *, delay: int, exact: bool) -> Array:
    """Multiply spikes with a matrix of each network, (networks, sources, neurons), in JAX."""
    return jnp.matmul(earlier(spikes, delay), matrix[:, None], precision=_precision(exact))


def plain_outer(spikes: Array, arrived: Array, *, delay: int, exact: bool) -> Array:
    """Multiply spikes with what arrived (networks, samples, steps, neurons), over samples and steps, in JAX."""
    return jnp.einsum("gbti,gbtj->gij", earlier(spikes, delay), arrived, precision=_precision(exact))


def _primitive(title: str, run: Run, shape: Callable[[Any, Any], tuple[int, ...]]) -> Primitive:
    def results(*operands: Any, **_: Any) -> list[ShapedArray]:
        return [abstract_result(primitive.name, operands, shape(*(x.shape for x in operands)), np.dtype("float32"))]

    primitive = new_primitive(f"spikes_{title}", results)
    _lower(primitive, run, None)
    return primitive


def _lower(primitive: Primitive, run: Run, platform: str | None) -> None:
    mlir.register_lowering(primitive, mlir.lower_fun(lambda *x, **settings: [run(*x, **settings)]), platform=platform)


_times = _primitive("times", plain_times, lambda spikes, matrix: (*spikes[:3], matrix[2]))
_outer = _primitive("outer", plain_outer, lambda spikes, arrived: (spikes[0], spikes[3], arrived[3]))


def lower_on(platform: str, times: Run, outer: Run) -> None:
    """Let both products run in another way on a platform."""
    _lower(_times, times, platform)
    _lower(_outer, outer, platform)


def _jvp(primitive: Primitive, plain: Run, primals: Sequence[Any], tangents: Sequence[Any], **settings: Any) -> Any:
    """Differentiate a product: tangents of spikes are not sparse."""
    (spikes, other), (of_spikes, of_other) = primals, tangents
    results = primitive.bind(spikes, other, **settings)
    parts = [] if isinstance(of_spikes, Zero) else [plain(of_spikes, other, **settings)]
    parts += [] if isinstance(of_other, Zero) else primitive.bind(spikes, of_other, **settings)
    return results, [functools.reduce(jnp.add, parts) if parts else symbolic_zero_like(results[0])]


def _transpose(primitive: Primitive, cotangents: Sequence[Any], spikes: Any, other: Any, **settings: Any) -> list[Any]:
    """Return the cotangents of the matrix, or of what arrived, in which products are linear; spikes are known."""
    assert is_undefined_primal(other)
    (cotangent,) = cotangents
    if isinstance(cotangent, Zero):
        return [None, Zero(other.aval)]
    return [None, primitive.bind(spikes, cotangent, **settings)[0]]


def _batch(
    primitive: Primitive, shared: bool, operands: Sequence[Any], axes: Sequence[Any], **settings: Any
) -> tuple[list[Array], list[int]]:
    """Add samples to networks that share a matrix, or networks."""
    (spikes, other), (of_spikes, of_other) = operands, axes
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    if shared and of_other is None:
        networks, samples, *rows = (n for axis, n in enumerate(spikes.shape) if axis != of_spikes)
        first = of_spikes == 0 and networks == 1  # nothing moves
        moved = spikes if first else directly(jnp.moveaxis)(spikes, of_spikes, 1)
        (found,) = primitive.bind(moved.reshape(networks, size * samples, *rows), other, **settings)
        if first:
            return [found.reshape(size, networks, samples, *found.shape[2:])], [0]
        return [found.reshape(networks, size, samples, *found.shape[2:])], [1]
    each = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    (found,) = primitive.bind(*(x.reshape(size * x.shape[1], *x.shape[2:]) for x in each), **settings)
    return [found.reshape(size, each[0].shape[1], *found.shape[1:])], [0]


primitive_jvps[_times] = functools.partial(_jvp, _times, plain_times)
primitive_jvps[_outer] = functools.partial(_jvp, _outer, plain_outer)
primitive_transposes[_times] = functools.partial(_transpose, _outer)
primitive_transposes[_outer] = functools.partial(_transpose, _times)
primitive_batchers[_times] = functools.partial(_batch, _times, True)
primitive_batchers[_outer] = functools.partial(_batch, _outer, False)
