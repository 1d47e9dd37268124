# SPDX-License-Identifier: Apache-2.0
"""`CSRDelayLayout`: compressed rows whose elements are sorted by delay."""

from __future__ import annotations

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
from ..marks import Mark, Structure, mark_of, share
from ..saved import register_pair
from ..structure import checked_count, checked_shape, checked_weights
from .calls import IN_ORDER, ROWS, checked_delays, delivered

__all__ = ["CSRDelayLayout"]

_FIELDS = ("data", "indices", "indptr", "delays", "delay_ptr", "perm")


@register_pair
class CSRDelayLayout:
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
    _within: bool
    _taken: Any  # what a placeholder consists of

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
        return cls._of((None, *found), (shape, slots, within)).with_data(units.join(weights, unit))

    @classmethod
    def _of(cls, leaves: Any, static: Any) -> Self:
        self = object.__new__(cls)
        for name, value in zip(_FIELDS, leaves, strict=True):
            setattr(self, name, value)
        self.shape, self.n_slots, self._within = static
        return self

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the weights, and the rest, as functions over leaves see them."""
        if "_taken" in self.__dict__:
            return self._taken
        arrays = self._places()
        return (self.data,), Structure((self.shape, self.n_slots), arrays, self._within, (), {})

    @classmethod
    def tree_unflatten(cls, shape: Any, children: Any) -> Self:
        """Return a layout of its weights."""
        if not isinstance(shape, Structure):
            return (cls._of_operands if isinstance(shape[-1], Mark) else cls._placeholder)(shape, children)
        share(shape.arrays)
        return cls._of((*children, *shape.arrays), (*shape.static, shape.known))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        share(self._places(), with_equal=True)

    def _places(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _FIELDS[1:])

    def _given(self) -> tuple[tuple[Any, ...], Any]:
        """Return all arrays, and the static rest, as programs take them."""
        if "_taken" in self.__dict__:
            return self._taken
        arrays = self._places()
        return (self.data, *arrays), (self.shape, self.n_slots, self._within, mark_of(arrays))

    @classmethod
    def _of_operands(cls, static: Any, leaves: Any) -> Self:
        (*rest, within, mark), (data, *arrays), known = static, leaves, True
        if isinstance(mark, Mark):
            arrays, known = mark.restored("CSRDelayLayout", arrays)
        return cls._of((data, *arrays), (*rest, within and known))

    @classmethod
    def _placeholder(cls, static: Any, leaves: Any) -> Self:
        """Return a layout that only says how operands of a saved program are nested."""
        made = cls._of_operands(static, leaves)
        made._taken = tuple(leaves), static
        return made

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
        rest = tuple(getattr(self, name) for name in _FIELDS[1:])
        return self._of((units.join(weights, unit), *rest), (self.shape, self.n_slots, self._within))

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
        how = (self.shape, weighted, backend, self._within)
        return delivered(IN_ORDER, where, ring, events, self.data, structure, self.delay_ptr, t, *how)

    def __repr__(self) -> str:
        return f"CSRDelayLayout({self.shape}, nse={self.nse}, n_slots={self.n_slots})"
