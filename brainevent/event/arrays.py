# SPDX-License-Identifier: Apache-2.0
"""`BinaryArray` and `WeightedArray`: arrays whose nonzero elements are events."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from .. import _units as units
from ..typing import EventLike
from .activity import is_active
from .bitpack import BitPackedBinary
from .representation import EventRepresentation
from .saved import savable

__all__ = ["BinaryArray", "WeightedArray"]


class _Held(EventRepresentation):
    """Events that are held as the array that they were made of."""

    def __init__(self, value: Any):
        value = value.value if isinstance(value, EventRepresentation) else value
        self._value = value if units.is_quantity(value) else jnp.asarray(value)

    @property
    def value(self) -> Any:
        """The array, or quantity, whose nonzero elements are events."""
        return self._value

    def with_value(self, value: EventLike) -> Self:
        return type(self)(value)

    @property
    def T(self) -> Self:  # noqa: N802 - as arrays call it
        """The events with their axes reversed."""
        return type(self)(self.value.T)

    def transpose(self, *axes: int) -> Self:
        """Return the events with their axes in another order, or reversed.

        Args:
            *axes: The axes in their new order; none to reverse them.

        Returns:
            The events, in this form.
        """
        return type(self)(self.value.transpose(*axes))

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        """Take apart for JAX: `value` is the leaf, or the tree."""
        return ((jax.tree_util.GetAttrKey("value"), self._value),), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, flat_contents: tuple[Any, ...]) -> Self:
        """Put together again what JAX took apart, whatever the leaf is."""
        events = object.__new__(cls)
        (events._value,) = flat_contents
        return events


@savable
@jax.tree_util.register_pytree_with_keys_class
class BinaryArray(_Held):
    """An array whose elements are events where they are True, or not zero; an event counts as one.

    Args:
        value: Booleans or real numbers of any shape, a quantity, or events in another form.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> spikes = brainevent.BinaryArray(jnp.array([0.0, 2.0, 1.0]))
        >>> spikes @ jnp.array([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
        Array([20., 40.], dtype=float32)
        >>> spikes.with_value(jnp.eye(2)).T.transpose(1, 0).shape, spikes.bitpack().packed
        ((2, 2), (Array([6], dtype=uint32),))
    """

    def bitpack(self) -> BitPackedBinary:
        """Return the events as bits.

        Returns:
            The events, in a `BitPackedBinary`.

        Raises:
            MathError: If there are neither one dimension nor two.
        """
        return BitPackedBinary(self)


@savable
@jax.tree_util.register_pytree_with_keys_class
class WeightedArray(_Held):
    """An array whose elements are events where they are not zero; an event counts as its value.

    Products and their derivatives are those of numbers, but weights that meet a zero are ignored, even if they are NaN
    or infinite. So spikes may be graded, counted, or scaled by short-term plasticity.

    Args:
        value: Booleans or real numbers of any shape, a quantity, or events in another form.

    Raises:
        TypeError: If the value is complex.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> spikes = brainevent.WeightedArray(jnp.array([0.0, 2.0, 0.5]))
        >>> spikes @ jnp.array([[jnp.nan, 2.0], [4.0, 8.0], [16.0, 32.0]])
        Array([16., 32.], dtype=float32)
    """

    graded: ClassVar[bool] = True

    def __init__(self, value: Any):
        super().__init__(value)
        is_active(units.split(self._value)[0])  # complex numbers are refused
