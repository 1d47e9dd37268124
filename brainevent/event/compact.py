# SPDX-License-Identifier: Apache-2.0
"""Events as bits, with a list of the active neurons; no shape depends on the number of events."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._documented import documented
from ..errors import MathError, ShapeError
from ..typing import ArrayLike, EventLike
from .activity import is_active
from .bitpack import bitpack, unpack
from .form import numbers_of
from .representation import EventRepresentation
from .saved import savable
from .structure import checked_count

__all__ = ["CompactBinary"]

_BITS = 32  # of a word


_documented = documented(
    {
        "bit_width": "The number of bits in a word, 32.",
        "x": "Events in any form, or booleans or real numbers, (n,) or (n, batch).",
    },
    {"ValueError": "If the width is not 32.", "MathError": "If there are neither one dimension nor two."},
    "The events.",
)


@savable
@jax.tree_util.register_pytree_with_keys_class
class CompactBinary(EventRepresentation):
    """Events as bits, with a list of the active neurons: of n neurons, (n,), or of a batch, (n, batch).

    It is made by `from_array`. Products are those of `BinaryArray`; `value` is boolean. Where only one of bits and list
    is needed, `from_array_light` leaves out the list, and `compacy_only_vector` the bits. No shape depends on the
    number of events.

    Args:
        packed: uint32 words of 32 events along the last axis.
        active_ids: int32, (n,). It begins with the neurons that have an event in any column, in order; the rest is n.
        n_active: How many neurons have an event, an int32 scalar.
        value: Ignored: it follows from the bits or the list.
        n_orig: The number of neurons, n.
        batch_size: The size of the batch; None without one.
        bit_width: The number of bits in a word, 32.

    Raises:
        TypeError: If `n_orig` is missing.
        ValueError: If the width is not 32.
        ShapeError: If there are too few or too many words.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> events = brainevent.CompactBinary.from_array(jnp.array([False, True, False, True]))
        >>> events.active_ids, events.n_active
        (Array([1, 3, 4, 4], dtype=int32), Array(2, dtype=int32))
        >>> events @ jnp.ones((4, 2))
        Array([2., 2.], dtype=float32)
        >>> events.with_value(jnp.array([True, False])).to_dense()
        Array([ True, False], dtype=bool)
    """

    packed: jax.Array
    active_ids: jax.Array
    n_active: jax.Array
    n_orig: int
    batch_size: int | None

    def __init__(
        self,
        packed: ArrayLike,
        active_ids: ArrayLike,
        n_active: ArrayLike,
        value: ArrayLike | None = None,
        n_orig: int | None = None,
        batch_size: int | None = None,
        bit_width: int = _BITS,
    ):
        where = "CompactBinary"
        _check_width(bit_width)
        if n_orig is None:
            raise TypeError(f"{where}: n_orig is not given; pass the number of neurons")
        self.n_orig = checked_count(where, "n_orig", n_orig)
        self.batch_size = None if batch_size is None else checked_count(where, "batch_size", batch_size)
        words = jnp.asarray(packed, jnp.uint32)
        size, batch = self.n_orig, self.batch_size
        wanted = (-(-size // _BITS),) if batch is None else (size, -(-batch // _BITS))
        if words.shape != wanted and (batch is not None or words.shape != (0,)):
            raise ShapeError(f"{where}: packed has shape {words.shape}; pass words of shape {wanted}")
        count = jnp.asarray(n_active)
        self.packed, self.active_ids = words, jnp.asarray(active_ids)
        self.n_active = count.reshape(()) if count.size == 1 else count

    @classmethod
    @_documented
    def from_array(cls, x: EventLike, bit_width: int = _BITS) -> CompactBinary:
        """Find and pack the events of a vector, or of a matrix with one column per element of a batch."""
        _check_width(bit_width)
        active = _active(x)
        ids, count = _listed(active if active.ndim == 1 else active.any(1))
        return cls(bitpack(active, -1), ids, count, None, *_sizes(active))

    @classmethod
    @_documented
    def from_array_light(cls, x: EventLike, bit_width: int = _BITS) -> CompactBinary:
        """Pack the events of a vector, and list none: `n_active` is 0.

        A matrix is treated as by `from_array`.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CompactBinary.from_array_light(jnp.array([True, False, True])).packed
            Array([5], dtype=uint32)
        """
        _check_width(bit_width)
        active = _active(x)
        if active.ndim == 2:
            return cls.from_array(active)
        ids, count = _listed(jnp.zeros_like(active))
        return cls(bitpack(active, -1), ids, count, None, *_sizes(active))

    @classmethod
    @_documented
    def compacy_only_vector(cls, x: EventLike, bit_width: int = _BITS) -> CompactBinary:
        """List the events of a vector, and pack none: `packed` is empty.

        The name is spelt as other releases spell it.

        Args:
            x: Events in any form, or booleans or real numbers, (n,).

        Raises:
            MathError: If `x` is not a vector.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CompactBinary.compacy_only_vector(jnp.array([True, False, True])).active_ids
            Array([0, 2, 3], dtype=int32)
        """
        _check_width(bit_width)
        active = _active(x)
        if active.ndim != 1:
            raise MathError(f"CompactBinary: the events have shape {active.shape}; pass a vector, or call from_array")
        return cls(jnp.zeros(0, jnp.uint32), *_listed(active), None, *_sizes(active))

    @classmethod
    def from_packed(
        cls,
        packed: ArrayLike,
        active_ids: ArrayLike,
        n_active: ArrayLike,
        value: ArrayLike | None = None,
        n_orig: int | None = None,
        batch_size: int | None = None,
        bit_width: int = _BITS,
    ) -> CompactBinary:
        """Make events from their bits and their list.

        Args:
            packed: uint32 words of 32 events along the last axis; (0,) if there is only a list.
            active_ids: The neurons with an event in order, then n, (n,).
            n_active: How many neurons have an event, a scalar.
            value: Ignored: it follows from the bits or the list.
            n_orig: The number of neurons, n.
            batch_size: The size of the batch; None without one.
            bit_width: The number of bits in a word, 32.

        Returns:
            The events.

        Raises:
            TypeError: If `n_orig` is missing.
            ValueError: If the width is not 32.
            ShapeError: If there are too few or too many words.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> words, ids = jnp.array([5], jnp.uint32), jnp.array([0, 2, 3])
            >>> brainevent.CompactBinary.from_packed(words, ids, 2, n_orig=3).value
            Array([ True, False,  True], dtype=bool)
        """
        return cls(packed, active_ids, n_active, value, n_orig, batch_size, bit_width)

    @property
    def bit_width(self) -> int:
        """The number of events in a word of `packed`: 32."""
        return _BITS

    @property
    def value(self) -> jax.Array:
        """Which elements are events, as booleans."""
        if self.batch_size is None and self.packed.shape == (0,):
            for name in ("active_ids", "n_active"):
                dtype = getattr(getattr(self, name), "dtype", None)
                if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
                    raise TypeError(f"CompactBinary: {name} is {dtype}; a function over leaves must not change it")
            places = jnp.arange(self.active_ids.shape[0])
            listed = jnp.where((places < self.n_active) & (self.active_ids >= 0), self.active_ids, self.n_orig)
            return jnp.zeros(self.n_orig, bool).at[listed].set(True, mode="drop")
        return unpack(self.packed, -1, self.n_orig if self.batch_size is None else self.batch_size)

    def to_dense(self) -> jax.Array:
        """Return `value`.

        Returns:
            Booleans, (n,) or (n, batch).
        """
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the events: (n,), or (n, batch)."""
        return (*self.packed.shape[:-1], self.n_orig if self.batch_size is None else self.batch_size)

    @property
    def dtype(self) -> Any:
        """The dtype of `value`, which is boolean."""
        return jnp.dtype(bool)

    def with_value(self, value: EventLike) -> CompactBinary:
        return CompactBinary.from_array(value)

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[int, int | None]]:
        """Take apart for JAX: arrays are leaves, sizes are static."""
        names = ("packed", "active_ids", "n_active")
        leaves = tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in names)
        return leaves, (self.n_orig, self.batch_size)

    @classmethod
    def tree_unflatten(cls, aux_data: tuple[int, int | None], flat_contents: tuple[Any, ...]) -> CompactBinary:
        """Put together again what JAX took apart, whatever the leaves are."""
        events = object.__new__(cls)
        events.packed, events.active_ids, events.n_active = flat_contents
        events.n_orig, events.batch_size = aux_data
        return events


def _check_width(bit_width: int) -> None:
    if bit_width != _BITS:
        raise ValueError(f"CompactBinary: bit_width is {bit_width}; words have {_BITS} bits")


def _active(x: Any) -> jax.Array:
    active = is_active(numbers_of(x))
    if active.ndim not in (1, 2):
        raise MathError(f"CompactBinary: the events have shape {active.shape}; pass a vector, or a matrix")
    return active


def _sizes(active: jax.Array) -> tuple[int, int | None]:
    return active.shape[0], None if active.ndim == 1 else active.shape[1]


def _listed(neurons: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the active neurons in order, padded with the number of neurons, and the number of active neurons."""
    size = neurons.shape[0]
    place = jnp.where(neurons, jnp.cumsum(neurons, dtype=jnp.int32) - 1, size)  # beyond the list: dropped
    ids = jnp.full(size, size, jnp.int32).at[place].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
    return ids, neurons.sum(dtype=jnp.int32)
