# SPDX-License-Identifier: Apache-2.0
"""Events as bits: 32 in a word, the first in its lowest bit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .. import errors
from ..typing import EventLike
from .activity import WORD, in_words, is_active
from .form import numbers_of
from .representation import EventRepresentation
from .saved import savable
from .structure import checked_count

__all__ = ["BitPackedBinary", "bitpack", "unpack"]


def bitpack(arr: EventLike, axis: int) -> jax.Array:
    """Pack events into bits along an axis: 32 of them in a word, the first in its lowest bit.

    Args:
        arr: Events in any form, booleans, or real numbers whose nonzero values are events.
        axis: The axis to pack, of n elements.

    Returns:
        uint32 words, in the shape of `arr` but with ceil(n / 32) elements along the axis.

    Raises:
        TypeError: If `arr` is complex, or `axis` is not an integer.
        ShapeError: If the array has no such axis.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.bitpack(jnp.array([True, False, True]), axis=0)
        Array([5], dtype=uint32)
    """
    active = is_active(numbers_of(arr))
    return in_words(active, _checked_axis(axis, active.ndim))


def unpack(words: jax.Array, axis: int, size: int) -> jax.Array:
    """Return which of `size` elements along an axis are events: the inverse of `bitpack`."""
    dtype = getattr(words, "dtype", type(words).__name__)
    if dtype != jnp.uint32:
        raise TypeError(f"events as bits: a function over leaves made words of {dtype}; words are uint32")
    axis = _checked_axis(axis, words.ndim)
    if words.shape[axis] != -(-size // WORD):
        raise errors.ShapeError(f"events as bits: {words.shape[axis]} words are given along an axis of {size} events")
    places = jnp.arange(WORD, dtype=jnp.uint32).reshape(WORD, *[1] * (words.ndim - axis - 1))
    bits = (jnp.expand_dims(words, axis + 1) >> places) & 1
    whole = bits.reshape(*words.shape[:axis], words.shape[axis] * WORD, *words.shape[axis + 1 :])
    return jax.lax.slice_in_dim(whole, 0, size, axis=axis).astype(bool)


def _checked_axis(axis: int, ndim: int) -> int:
    axis = checked_count("bitpack", "axis", axis)
    if not -ndim <= axis < ndim:
        raise errors.ShapeError(f"bitpack: axis is {axis}, but the array has {ndim} dimensions")
    return axis % ndim


@savable
@jax.tree_util.register_pytree_with_keys_class
class BitPackedBinary(EventRepresentation):
    """Events as bits, packed along each axis: an eighth of the memory of booleans for one axis.

    Products are those of `BinaryArray`; `value` is boolean.

    Args:
        arr: Events in any form, or booleans or real numbers, (n,) or (n, m).

    Attributes:
        packed: For each axis, uint32 words of 32 events along it.
        original_shape: The shape of the events.

    Raises:
        MathError: If there are neither one dimension nor two.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> events = brainevent.BitPackedBinary(jnp.array([0.0, 3.0, -1.0, 1.0]))
        >>> events.packed
        (Array([14], dtype=uint32),)
        >>> events @ jnp.ones((4, 2))
        Array([3., 3.], dtype=float32)
        >>> events.with_value(jnp.array([True])).value
        Array([ True], dtype=bool)
        >>> events.with_value(jnp.eye(2, 3)).T.transpose(1, 0).shape
        (2, 3)
    """

    packed: tuple[jax.Array, ...]
    original_shape: tuple[int, ...]

    def __init__(self, arr: Any):
        active = is_active(numbers_of(arr))
        if active.ndim not in (1, 2):
            raise errors.MathError(f"BitPackedBinary: the events have shape {active.shape}; pass a vector, or a matrix")
        self.packed = tuple(bitpack(active, axis) for axis in range(active.ndim))
        self.original_shape = active.shape

    @property
    def value(self) -> jax.Array:
        """Which elements are events, as booleans."""
        return unpack(self.packed[-1], -1, self.original_shape[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the events, as they were before they were packed."""
        return (*self.packed[-1].shape[:-1], self.original_shape[-1])

    @property
    def dtype(self) -> Any:
        """The dtype of `value`, which is boolean."""
        return jnp.dtype(bool)

    @property
    def T(self) -> BitPackedBinary:  # noqa: N802 - as arrays call it
        """The events with their axes reversed."""
        return self.tree_unflatten(self.original_shape[::-1], (tuple(words.T for words in self.packed[::-1]),))

    def transpose(self, *axes: Any) -> BitPackedBinary:
        """Return the events with their axes in another order, or reversed.

        Args:
            *axes: The axes in their new order; none to reverse them.

        Returns:
            The events, in this form.
        """
        return BitPackedBinary(self.value.transpose(*axes)) if axes else self.T

    def with_value(self, value: EventLike) -> BitPackedBinary:
        return BitPackedBinary(value)

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[int, ...]]:
        """Take apart for JAX: the words are leaves, the shape is static."""
        return ((jax.tree_util.GetAttrKey("packed"), self.packed),), self.original_shape

    @classmethod
    def tree_unflatten(cls, aux_data: tuple[int, ...], flat_contents: tuple[Any, ...]) -> BitPackedBinary:
        """Put together again what JAX took apart, whatever the leaves are."""
        events = object.__new__(cls)
        (events.packed,), events.original_shape = flat_contents, aux_data
        return events
