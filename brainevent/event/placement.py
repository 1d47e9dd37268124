# SPDX-License-Identifier: Apache-2.0
"""Indices follow weights: `jax.device_put`, and other functions over leaves, move weights, and indices go with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .._compat import is_tracing
from .marks import copied

__all__ = ["beside"]


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
