# SPDX-License-Identifier: Apache-2.0
"""`CSRDelayLayout`: compressed rows whose elements are sorted by delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import ShapeError
from ...typing import ArrayLike, EventLike, IndexLike
from ..calls import checked_structure
from ..csr.conversions import turned_once
from ..description import Shape
from ..saved import register_pair
from ..structure import checked_count, checked_shape, checked_weights
from ..views import Views
from .calls import IN_ORDER, ROWS, checked_delays, delivered

__all__ = ["CSRDelayLayout"]


@register_pair
class CSRDelayLayout(Views):
    """A matrix in compressed sparse rows with a delay for each element, sorted for deliveries into a ring.

    It is made by `build`, or by `CSR.delay_layout`.

    Attributes:
        data: The weights, in the order of the layout, (nse,), or one weight for all.
        indices: The column of each element, (nse,).
        indptr: Where each row begins among the elements, (m + 1,).
        delays: The delay of each element, ascending in each row, (nse,).
        delay_ptr: (m, n_slots). The elements of row i with delay d lie from `[i, d - 1]` to `[i, d]`.
        perm: The place of each element in the order in which elements were given, (nse,).
        shape: The shape of the matrix, (m, k).
        n_slots: The number of slots of the ring.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 1]), jnp.array([0, 2, 3])
        >>> layout = brainevent.CSRDelayLayout.build(
        ...     jnp.array([5.0, 6.0, 7.0]), indices, indptr, jnp.array([2, 1, 1]), n_slots=3, shape=(2, 3)
        ... )
        >>> layout.deliver(jnp.zeros((3, 3)), jnp.array([True, False]), 0)
        Array([[0., 0., 0.],
               [0., 0., 6.],
               [5., 0., 0.]], dtype=float32)
        >>> layout.with_data(jnp.array([1.0, 2.0, 3.0])).original_data()
        Array([1., 2., 3.], dtype=float32)
    """

    data: Any
    indices: jax.Array
    indptr: jax.Array
    delays: jax.Array
    delay_ptr: jax.Array
    perm: jax.Array
    shape: Shape
    n_slots: int
    backend = None
    indices_sorted = False  # they are sorted by delay
    _structure = ("indices", "indptr", "delays", "delay_ptr", "perm")
    _ranks = (1, 1, 1, 2, 1)

    @classmethod
    def build(
        cls, data: ArrayLike, indices: IndexLike, indptr: IndexLike, delays: IndexLike, *, n_slots: int, shape: Shape
    ) -> CSRDelayLayout:
        """Sort the elements of each row by delay; elements with the same delay keep their order.

        Args:
            data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
            indices: The column of each stored element, int32 or int64, (nse,).
            indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
            delays: Whole numbers of steps, int32 or int64, from 1 to `n_slots - 1`: (nse,), or a single one for all
                elements.
            n_slots: The number of slots of the ring, at least 2.
            shape: The shape of the matrix, (m, k).

        Returns:
            The layout.

        Raises:
            TypeError: If it is called under `jax.jit`, where the arrays are unknown.
            ValueError: If delays or the number of slots are out of range.
        """
        where, shape = "CSRDelayLayout.build", checked_shape("CSRDelayLayout.build", shape)
        slots = checked_count(where, "n_slots", n_slots)
        if slots < 2:
            raise ValueError(f"{where}: n_slots is {slots}; pass at least 2, one more than the longest delay")
        if any(isinstance(x, jax.core.Tracer) for x in (indices, indptr, delays)):
            raise TypeError(f"{where}: indices, indptr and delays must be known; build the layout outside of jit")
        (columns, starts), within = checked_structure(ROWS, (indices, indptr), shape, None, where=where)
        steps = jnp.broadcast_to(checked_delays(where, delays, columns.shape, slots).astype("int32"), columns.shape)
        # Two stable sorts: by delay, and then by row.
        rows, by_delay, first = turned_once(starts, steps, (shape[0], slots))
        then = turned_once(by_delay, rows, (slots, shape[0]))[2]
        order = first[then]
        begins = np.asarray(starts).astype(np.int64)
        keys = np.repeat(np.arange(shape[0]) * slots, np.diff(begins)) + np.asarray(steps)
        counts = np.bincount(keys, minlength=shape[0] * slots).reshape(shape[0], slots)
        ends = jnp.asarray((begins[:-1, None] + counts.cumsum(1)).astype(starts.dtype))
        found = (columns[order], starts, steps[order], ends, order)
        numbers, unit = units.split(data)
        weights = checked_weights(where, numbers, columns.shape)
        made = cls._put_together(None, found, {}, (shape, None, False, within), slots)
        return made.with_data(units.join(weights, unit))

    def _hold(
        self,
        data: Any,
        structure: Sequence[Any],
        shape: Shape,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        *,
        in_order: bool = False,
        within: bool = False,
    ) -> None:
        self.data, self.shape, self.indices_within, self._buffers = data, shape, within, {}
        for name, array in zip(self._structure, structure, strict=True):
            setattr(self, name, array)

    @property
    def _facts(self) -> Any:
        return self.n_slots

    def _recall(self, facts: Any) -> None:
        self.n_slots = facts

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return int(self.indices.shape[0])

    def with_data(self, data: ArrayLike) -> Self:
        """Return the layout with other weights.

        Args:
            data: Floating weights in the order in which elements were given, (nse,), or one weight for all.

        Returns:
            The layout with these weights.

        Raises:
            ShapeError: If the number of weights is neither one nor that of the elements.
        """
        numbers, unit = units.split(data)
        weights = checked_weights("CSRDelayLayout.with_data", numbers, self.indices.shape)
        weights = weights if weights.size != self.nse or weights.ndim != 1 else weights[self.perm]
        kept = (self.shape, None, False, self.indices_within)
        return self._put_together(units.join(weights, unit), self._indices(), {}, kept, self.n_slots)

    def original_data(self) -> jax.Array:
        """Return the weights in the order in which elements were given.

        Returns:
            The weights, (nse,), or the one weight for all.
        """
        numbers, unit = units.split(self.data)
        if numbers.shape != self.indices.shape:
            return self.data
        return units.join(jnp.zeros_like(numbers).at[self.perm].set(numbers), unit)

    def deliver(
        self,
        ring: ArrayLike,
        events: EventLike,
        t: ArrayLike,
        *,
        weighted: bool | None = None,
        backend: str | None = None,
    ) -> jax.Array:
        """Add the weights of active rows to a ring of sums, as `csr_delay_deliver` does.

        Args:
            ring: Floating sums of what is on its way, (n_slots, k).
            events: Events in any form, booleans, or real numbers whose nonzero values are events, (m,).
            t: The number of the step, an integer scalar.
            weighted: Whether the values of events count; None for what their form says.
            backend: The name of the kernel to use; None for the default.

        Returns:
            The new ring, (n_slots, k).

        Raises:
            ShapeError: If the ring has another number of slots.
            TypeError: If the ring is not floating, or `t` is not an integer.
        """
        where, slots = "CSRDelayLayout.deliver", np.shape(units.split(ring)[0])[:1]
        if slots != (self.n_slots,):
            raise ShapeError(
                f"{where}: ring has {slots[0] if slots else 'no'} slots; this layout is for {self.n_slots}"
            )
        structure = self.indices, self.indptr
        how = (self.shape, weighted, backend, self.indices_within)
        return delivered(IN_ORDER, where, ring, events, self.data, structure, self.delay_ptr, t, *how)

    def __repr__(self) -> str:
        return f"CSRDelayLayout({self.shape}, nse={self.nse}, n_slots={self.n_slots})"
