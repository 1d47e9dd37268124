# SPDX-License-Identifier: Apache-2.0
"""Levels of vmap: carried by a bind, applied to a function later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import ShapedArray
from ..typing import PyTree

__all__ = [
    "Level",
    "Levels",
    "batched",
    "batched_transpose",
    "general_batching_rule",
    "scanned",
    "without_levels",
]


@dataclass(frozen=True)
class Level:
    """One vmap: its size, and for each operand the axis it maps (None: not mapped). Results are mapped on axis 0."""

    size: int
    axes: tuple[int | None, ...]


Levels = tuple[Level, ...]  # innermost first


def without_levels(aval: Any, operand: int, levels: Levels) -> ShapedArray:
    """Remove the batch axes, outermost level first, from an operand's type."""
    shape = list(aval.shape)
    for level in reversed(levels):
        axis = level.axes[operand]
        if axis is not None:
            del shape[axis]
    return ShapedArray(tuple(shape), aval.dtype)


def batched(function: Callable[..., Any], levels: Levels) -> Callable[..., Any]:
    """Apply the levels to a function of the operands."""
    for level in levels:
        function = jax.vmap(function, in_axes=level.axes, out_axes=0, axis_size=level.size)
    return function


def scanned(function: Callable[..., list[Any]], levels: Levels) -> Callable[..., list[Any]]:
    """Apply the levels to a function without vmap, by one scan each."""
    for level in levels:
        function = _scan_over(function, level)
    return function


def _scan_over(function: Callable[..., list[Any]], level: Level) -> Callable[..., list[Any]]:
    def run(*operands: Any) -> list[Any]:
        moved = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(operands, level.axes, strict=True)]
        mapped = [x for x, a in zip(moved, level.axes, strict=True) if a is not None]

        def step(_: None, slices: Sequence[Any]) -> tuple[None, list[Any]]:
            taken = iter(slices)
            return None, function(*(x if a is None else next(taken) for x, a in zip(moved, level.axes, strict=True)))

        return jax.lax.scan(step, None, mapped, length=level.size)[1]

    return run


def batched_transpose(
    function: Callable[[list[Any], list[Any]], list[Any]], levels: Levels, linear: Sequence[bool], cotangents: int
) -> Callable[[list[Any], list[Any]], list[Any]]:
    """Apply the levels to a transpose `(cotangents, known operands) -> cotangents of the linear operands`.

    A linear operand that a level does not map was used by every element: its cotangents are summed.
    """
    for level in levels:
        function = _transpose_level(function, level, linear, cotangents)
    return function


def _transpose_level(
    function: Callable[[list[Any], list[Any]], list[Any]], level: Level, linear: Sequence[bool], cotangents: int
) -> Callable[[list[Any], list[Any]], list[Any]]:
    known_axes = [a for a, is_linear in zip(level.axes, linear, strict=True) if not is_linear]
    linear_axes = [a for a, is_linear in zip(level.axes, linear, strict=True) if is_linear]
    mapped = jax.vmap(
        function,
        in_axes=([0] * cotangents, known_axes),
        out_axes=[0 if a is None else a for a in linear_axes],
        axis_size=level.size,
    )

    def run(cts: list[Any], known: list[Any]) -> list[Any]:
        results = mapped(cts, known)
        return [x.sum(0) if a is None else x for x, a in zip(results, linear_axes, strict=True)]

    return run


def general_batching_rule(
    prim: Callable[..., PyTree], args: Sequence[jax.Array], axes: Sequence[int | None], **kwargs: Any
) -> tuple[Any, Any]:
    """Batch an operator by a scan over the mapped operands, which works for every operator and function.

    It is slower than the batching of kernels.

    Args:
        prim: An `XLACustomKernel`, a primitive of JAX, or a function.
        args: The operands, with an axis for the batch where they are mapped.
        axes: The axis of the batch of each operand; None for operands that all elements share.
        **kwargs: The keyword arguments of the call.

    Returns:
        The results, with the batch as their first axis, and these axes: 0 for each result, None if nothing is mapped.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.general_batching_rule(jnp.dot, (jnp.eye(2), jnp.array([3.0, 4.0])), (0, None))
        (Array([3., 4.], dtype=float32), 0)
    """
    call = getattr(prim, "bind", prim)
    if all(axis is None for axis in axes):
        results = call(*args, **kwargs)
        return results, jax.tree.map(lambda _: None, results)
    size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    level = Level(size, tuple(axes))
    results = _scan_over(lambda *operands: call(*operands, **kwargs), level)(*args)
    return results, jax.tree.map(lambda _: 0, results)
