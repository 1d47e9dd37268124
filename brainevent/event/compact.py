# SPDX-License-Identifier: Apache-2.0
"""Events as bits, with a list of who is active, of a shape that does not depend on how many are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..errors import MathError
from .activity import is_active
from .arrays import EventRepresentation, numbers_of
from .bitpack import bitpack, unpack
from .saved import savable

__all__ = ["CompactBinary"]


@savable
@jax.tree_util.register_pytree_with_keys_class
class CompactBinary(EventRepresentation):
    """Events of n neurons, or of n neurons in a batch: (n,) or (n, batch); made by `from_array`.

    `packed` holds 32 events per word along the last axis. `active_ids`, of n elements, begins with the neurons that
    have an event, in a batch in any column, in order; there are `n_active`, and the rest is n. `n_orig` is n, and
    `batch_size` that of the batch, or None. Products are those of `BinaryArray`; `value` is boolean.

    >>> import jax.numpy as jnp, brainevent
    >>> events = brainevent.CompactBinary.from_array(jnp.array([False, True, False, True]))
    >>> events.active_ids, events.n_active
    (Array([1, 3, 4, 4], dtype=int32), Array(2, dtype=int32))
    >>> events @ jnp.ones((4, 2))
    Array([2., 2.], dtype=float32)
    """

    packed: jax.Array
    active_ids: jax.Array
    n_active: jax.Array
    n_orig: int
    batch_size: int | None

    def __init__(
        self, packed: jax.Array, active_ids: jax.Array, n_active: jax.Array, n_orig: int, batch_size: int | None = None
    ):
        self.packed, self.active_ids, self.n_active = packed, active_ids, n_active
        self.n_orig, self.batch_size = n_orig, batch_size

    @classmethod
    def from_array(cls, x: Any) -> CompactBinary:
        """Find and pack the events of a vector, or of a matrix with one column per element of a batch."""
        active = is_active(numbers_of(x))
        if active.ndim not in (1, 2):
            raise MathError(f"CompactBinary: the events have shape {active.shape}; pass a vector, or a matrix")
        neurons = active if active.ndim == 1 else active.any(1)
        size = neurons.shape[0]
        place = jnp.where(neurons, jnp.cumsum(neurons, dtype=jnp.int32) - 1, size)  # beyond the list: dropped
        ids = jnp.full(size, size, jnp.int32).at[place].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
        count = neurons.sum(dtype=jnp.int32)
        return cls(bitpack(active, -1), ids, count, size, None if active.ndim == 1 else active.shape[1])

    @property
    def value(self) -> jax.Array:
        """Which elements are events, as booleans."""
        return unpack(self.packed, -1, self.n_orig if self.batch_size is None else self.batch_size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the events: (n,), or (n, batch)."""
        return (*self.packed.shape[:-1], self.n_orig if self.batch_size is None else self.batch_size)

    @property
    def dtype(self) -> Any:
        """The type of `value`: boolean."""
        return jnp.dtype(bool)

    def with_value(self, value: Any) -> CompactBinary:
        """Return other events, found and packed."""
        return CompactBinary.from_array(value)

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[int, int | None]]:
        """Take apart for JAX: arrays are leaves, sizes are static."""
        names = ("packed", "active_ids", "n_active")
        leaves = tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in names)
        return leaves, (self.n_orig, self.batch_size)

    @classmethod
    def tree_unflatten(cls, sizes: tuple[int, int | None], children: tuple[Any, ...]) -> CompactBinary:
        """Put together again what JAX took apart, whatever the leaves are."""
        packed, active_ids, n_active = children
        return cls(packed, active_ids, n_active, *sizes)
