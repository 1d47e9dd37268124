# SPDX-License-Identifier: Apache-2.0
"""`CSRDelayLayout`: compressed rows whose elements lie in the order of their delays."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ShapeError
from .. import units
from ..calls import checked_structure
from ..csr.conversions import csr_to_csc_index
from ..description import Shape
from ..saved import savable
from ..structure import checked_count, checked_shape, checked_weights
from .calls import IN_ORDER, ROWS, checked_delays, delivered

__all__ = ["CSRDelayLayout"]

_FIELDS = ("data", "indices", "indptr", "delays", "delay_ptr", "perm")


@savable
@jax.tree_util.register_pytree_node_class
class CSRDelayLayout:
    """A matrix in compressed rows with a delay for each element, laid out for deliveries into a ring of `n_slots`.

    Attributes:
        data: The weights, in the order of the layout; one for all stays one.
        indices: The column of each element.
        indptr: Where the elements of each row begin and end.
        delays: The delay of each element, which ascend in each row.
        delay_ptr: (rows, n_slots): elements of row i with a delay of d lie from `[i, d - 1]` to `[i, d]`.
        perm: Where each element was in the order in which it was given.
        shape: (rows, columns).
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
    """

    data: Any
    indices: jax.Array
    indptr: jax.Array
    delays: jax.Array
    delay_ptr: jax.Array
    perm: jax.Array
    shape: Shape
    n_slots: int
    _within: bool

    @classmethod
    def build(cls, data: Any, indices: Any, indptr: Any, delays: Any, *, n_slots: int, shape: Shape) -> CSRDelayLayout:
        """Sort the elements of each row by delay, outside of `jit`; columns of one delay stay in their order.

        Args:
            data: The weights: one for each stored element, or one for all.
            indices: The column of each stored element.
            indptr: Where the elements of each row begin and end.
            delays: Whole numbers of steps, from 1 to less than `n_slots`: one for each element, or one for all.
            n_slots: The number of slots of the ring, at least 2.
            shape: (rows, columns) of the matrix.

        Returns:
            The layout.

        Raises:
            TypeError: It is called in a trace, where the arrays are not known.
            ValueError: Delays or the number of slots are out of range.
        """
        where, shape = "CSRDelayLayout.build", checked_shape("CSRDelayLayout.build", shape)
        slots = checked_count(where, "n_slots", n_slots)
        if slots < 2:
            raise ValueError(f"{where}: n_slots is {slots}; pass at least 2, one more than the longest delay")
        if any(isinstance(x, jax.core.Tracer) for x in (indices, indptr, delays)):
            raise TypeError(f"{where}: indices, indptr and delays must be known; build the layout outside of jit")
        (columns, starts), within = checked_structure(ROWS, (indices, indptr), shape, None, where=where)
        steps = jnp.broadcast_to(checked_delays(where, delays, columns.shape, slots).astype("int32"), columns.shape)
        # Sorted by delay and then by row, of which each keeps the order that it finds.
        by_delay, rows, first = csr_to_csc_index(starts, steps, shape=(shape[0], slots))
        _, _, then = csr_to_csc_index(by_delay, rows, shape=(slots, shape[0]))
        order = first[then]
        begins = np.asarray(starts).astype(np.int64)
        keys = np.repeat(np.arange(shape[0]) * slots, np.diff(begins)) + np.asarray(steps)
        counts = np.bincount(keys, minlength=shape[0] * slots).reshape(shape[0], slots)
        ends = jnp.asarray((begins[:-1, None] + counts.cumsum(1)).astype(starts.dtype))
        found = (columns[order], starts, steps[order], ends, order)
        numbers, unit = units.split(data)
        weights = checked_weights(where, numbers, columns.shape)
        return cls._of((None, *found), (shape, slots, within)).with_data(units.join(weights, unit))

    @classmethod
    def _of(cls, leaves: Any, static: Any) -> Self:
        self = object.__new__(cls)
        for name, value in zip(_FIELDS, leaves, strict=True):
            setattr(self, name, value)
        self.shape, self.n_slots, self._within = static
        return self

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays, and what is static."""
        return tuple(getattr(self, name) for name in _FIELDS), (self.shape, self.n_slots, self._within)

    @classmethod
    def tree_unflatten(cls, static: Any, leaves: Any) -> Self:
        """Return a layout of its arrays."""
        return cls._of(leaves, static)

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return int(self.indices.shape[0])

    def with_data(self, data: Any) -> Self:
        """Return the layout with other weights, in the order in which elements were given.

        Args:
            data: One weight for each stored element, or one for all.

        Returns:
            The layout with these weights.
        """
        numbers, unit = units.split(data)
        weights = checked_weights("CSRDelayLayout.with_data", numbers, self.indices.shape)
        weights = weights if weights.size != self.nse or weights.ndim != 1 else weights[self.perm]
        rest = tuple(getattr(self, name) for name in _FIELDS[1:])
        return self._of((units.join(weights, unit), *rest), (self.shape, self.n_slots, self._within))

    def original_data(self) -> Any:
        """Return the weights in the order in which elements were given."""
        numbers, unit = units.split(self.data)
        if numbers.shape != self.indices.shape:
            return self.data
        return units.join(jnp.zeros_like(numbers).at[self.perm].set(numbers), unit)

    def deliver(
        self, ring: Any, events: Any, t: Any, *, weighted: bool | None = None, backend: str | None = None
    ) -> Any:
        """Return the ring with the weights of active rows added, as `csr_delay_deliver`.

        Args:
            ring: (n_slots, columns), of floating numbers.
            events: (rows,): events in any form, or an array of which all that is not zero is one.
            t: The number of the step, any integer.
            weighted: Whether the values of events count; None for what their form says.
            backend: The kernel language; None for the default.

        Returns:
            The new ring.
        """
        where, slots = "CSRDelayLayout.deliver", np.shape(units.split(ring)[0])[:1]
        if slots != (self.n_slots,):
            raise ShapeError(
                f"{where}: ring has {slots[0] if slots else 'no'} slots; this layout is for {self.n_slots}"
            )
        structure = self.indices, self.indptr
        how = (self.shape, weighted, backend, self._within)
        return delivered(IN_ORDER, where, ring, events, self.data, structure, self.delay_ptr, t, *how)

    def __repr__(self) -> str:
        return f"CSRDelayLayout({self.shape}, nse={self.nse}, n_slots={self.n_slots})"
