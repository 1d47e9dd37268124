# SPDX-License-Identifier: Apache-2.0
"""`BinaryArray`: an array as it is, of which every element that is not zero is an event."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from . import units
from .bitpack import BitPackedBinary
from .representation import EventRepresentation
from .saved import savable

__all__ = ["BinaryArray"]


@savable
@jax.tree_util.register_pytree_with_keys_class
class BinaryArray(EventRepresentation):
    """An array whose elements are events where they are True, or not zero; an event counts as one.

    >>> import jax.numpy as jnp, brainevent
    >>> spikes = brainevent.BinaryArray(jnp.array([0.0, 2.0, 1.0]))
    >>> spikes @ jnp.array([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
    Array([20., 40.], dtype=float32)
    """

    def __init__(self, value: Any):
        value = value.value if isinstance(value, EventRepresentation) else value
        self._value = value if units.is_quantity(value) else jnp.asarray(value)

    @property
    def value(self) -> Any:
        """The array, or quantity, of which the elements that are not zero are events."""
        return self._value

    def with_value(self, value: Any) -> BinaryArray:
        """Return other events."""
        return BinaryArray(value)

    @property
    def T(self) -> BinaryArray:  # noqa: N802 - as arrays call it
        """The events with their axes reversed."""
        return BinaryArray(self.value.T)

    def transpose(self, *axes: Any) -> BinaryArray:
        """Return the events with their axes in another order, or reversed."""
        return BinaryArray(self.value.transpose(*axes))

    def bitpack(self) -> BitPackedBinary:
        """Return the events as bits."""
        return BitPackedBinary(self)

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        """Take apart for JAX: `value` is the leaf, or the tree."""
        return ((jax.tree_util.GetAttrKey("value"), self._value),), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any, ...]) -> BinaryArray:
        """Put together again what JAX took apart, whatever the leaf is."""
        events = object.__new__(cls)
        (events._value,) = children
        return events
