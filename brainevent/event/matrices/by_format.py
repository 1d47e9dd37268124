# SPDX-License-Identifier: Apache-2.0
"""What follows for a matrix from its format: products, updates by spikes, values of synapses, places of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeVar

import jax
import numpy as np

from ... import _units as units
from ..._documented import documented
from ...typing import ArrayLike, EventLike, IndexLike, PyTree
from .. import entries
from ..csr.format import CSR
from ..description import Description, Format, Law, Shape
from .base import TURNED, DataRepresentation

__all__ = ["ByFormat", "build_weight_indices", "precompute_weight_indices"]

CutMatrix = TypeVar("CutMatrix", bound="ByFormat")


_of_updates = documented(
    entries.BOUNDS,
    {
        "TypeError": "If traces are complex.",
        "ShapeError": "If the shapes do not fit the matrix.",
        "ValueError": "If the matrix has one weight for all elements.",
    },
    "The matrix with the new weights.",
)


class ByFormat(DataRepresentation):
    """A matrix in a format, which is cut along an axis into slices: the rows of the format."""

    _format: ClassVar[Format]
    _axis: ClassVar[int] = 0
    _turned_class: ClassVar[Any]  # of the transposed matrix
    _called: ClassVar[tuple[str, str]]  # for messages: values, and batches of these

    @classmethod
    def fromscipy(cls, matrix: PyTree, *, backend: str | None = None) -> Self:
        """Convert a sparse matrix or array of SciPy.

        Args:
            matrix: A sparse matrix or array of `scipy.sparse`, in any format.
            backend: The name of the kernel for products; None for the default.

        Returns:
            The matrix.

        Raises:
            TypeError: If its data are not floating.

        Examples:
            >>> import numpy as np, scipy.sparse, brainevent
            >>> brainevent.CSR.fromscipy(scipy.sparse.eye_array(3, dtype=np.float32))
            CSR(float32[3, 3], nse=3)
        """
        return cls(matrix, backend=backend)  # type: ignore[call-arg]

    @property
    def _cut_shape(self) -> Shape:
        """The shape of the matrix whose rows the format stores."""
        return (self.shape[1], self.shape[0]) if self._axis else self.shape

    @property
    def _arrays(self) -> list[Any]:
        return [getattr(self, name) for name in self._structure]

    @property
    def _stored(self) -> tuple[int, ...]:
        return self._format.stored(self._arrays, self._cut_shape)

    def _coordinates(self) -> tuple[jax.Array, jax.Array]:
        elements = self._format.elements(self._arrays, self._cut_shape)
        found = elements.numbers(elements.row), elements.numbers(elements.column)
        return (found[1], found[0]) if self._axis else found

    def _transposed(self) -> Any:
        return self._turned_class._of(self.data, self._arrays, self.shape[::-1], **self._shared)

    def _check_structure(self, where: str) -> None:
        self._format.checked(where, self._arrays, self._cut_shape, None)

    # ---- products

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        from ..laws.products import EVENTS, NUMBERS

        return self._by_law(EVENTS if event else NUMBERS, x, transpose=transpose, visits=event)

    def _multiply_values(self, x: Any, *, transpose: bool) -> Any:
        from ..laws.products import VALUED

        return self._by_law(VALUED, x, transpose=transpose, visits=True)

    def _by_law(self, law: Law, x: Any, *, transpose: bool, visits: bool) -> Any:
        """Return a product with a law; with `visits`, only the rows or columns of events are visited if possible."""
        shape, across = self._cut_shape, transpose ^ bool(self._axis)
        if visits and not across and TURNED[0] in self._buffers:  # by the structure that is cut along the other axis
            arrays = [self._buffers[name] for name in TURNED]
            how: dict[str, Any] = {"shape": shape[::-1], "transpose": True, "indices_sorted": True}
            return self._product(CSR, self._flat(), arrays, x, law=law, indexed=True, **how)
        return self._product(self._format, self.data, self._arrays, x, law=law, shape=shape, transpose=across)

    def _product(
        self, form: Format, data: Any, arrays: Sequence[Any], x: Any, *, law: Law, indexed: bool = False, **how: Any
    ) -> Any:
        """Return a product in a format; `how` has its direction, and the shape of the matrix in that format."""
        from ..calls import multiplied

        of = Description(form, law, columns=x.ndim == 2, indexed=indexed)
        known = {"indices_sorted": self.indices_sorted, "indices_within": self.indices_within} | how
        return multiplied(of, data, arrays, x, backend=self.backend, **known)

    # ---- plasticity

    @_of_updates
    def update_on_pre(
        self,
        pre_spike: ArrayLike,
        post_trace: ArrayLike,
        w_min: ArrayLike | None = None,
        w_max: ArrayLike | None = None,
        *,
        after: ArrayLike | None = None,
    ) -> Self:
        """Add the postsynaptic trace to the weights of presynaptic neurons that spiked.

        A spike counts as one, whatever its value. Then all weights are clipped to the bounds.

        Args:
            pre_spike: Booleans, or real numbers whose nonzero values are spikes, (m,).
            post_trace: The trace of each postsynaptic neuron, with amplitude and sign, (k,).

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]]))
            >>> changed = matrix.update_on_pre(jnp.array([True, False]), jnp.array([0.1, 0.2, 0.3]), 0.0, 2.2)
            >>> changed.todense()
            Array([[1.1, 0. , 2.2],
                   [0. , 2.2, 2.2]], dtype=float32)
        """
        return self._updated(False, pre_spike, post_trace, (w_min, w_max), after)

    @_of_updates
    def update_on_post(
        self,
        pre_trace: ArrayLike,
        post_spike: ArrayLike,
        w_min: ArrayLike | None = None,
        w_max: ArrayLike | None = None,
        *,
        after: ArrayLike | None = None,
    ) -> Self:
        """Add the presynaptic trace to the weights of postsynaptic neurons that spiked.

        Where elements are stored row by row, their places in columns are needed. Call `precompute_weight_indices()`
        before a compiled loop, or the elements are sorted in each step.

        Args:
            pre_trace: The trace of each presynaptic neuron, with amplitude and sign, (m,).
            post_spike: Booleans, or real numbers whose nonzero values are spikes, (k,).

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]]))
            >>> matrix.update_on_post(jnp.array([0.1, 0.2]), jnp.array([False, False, True])).todense()
            Array([[1. , 0. , 2.1],
                   [0. , 3. , 4.2]], dtype=float32)
        """
        return self._updated(True, post_spike, pre_trace, (w_min, w_max), after)

    def _updated(self, post: bool, spikes: Any, trace: Any, bounds: tuple[Any, Any], after: Any) -> Any:
        """Return the matrix after an update by presynaptic spikes, or with `post` by postsynaptic ones."""
        from ..laws.updates import UPDATES
        from ..plasticity.calls import updated

        own = Description(self._format, UPDATES), self._arrays
        of, arrays = self._of_other_side() if post ^ bool(self._axis) else own
        given = (self.data, arrays, spikes, trace, bounds, self.shape, self.backend, after)
        where = f"{type(self).__name__}.update_on_{'post' if post else 'pre'}"
        data = updated(of, where, *given, post=post, within=self.indices_within)
        return self.with_data(data)

    # ---- delays

    def delay_deliver(
        self,
        ring: ArrayLike,
        events: EventLike,
        delays: IndexLike,
        t: ArrayLike,
        *,
        weighted: bool | None = None,
        backend: str | None = None,
    ) -> jax.Array:
        """Add the weights of the neurons that spiked to a ring of sums, each as many steps ahead as its delay.

        Rows without an event are not read, and their weights have a gradient of exactly zero. Where elements are stored
        by columns, call `precompute_weight_indices()` before a compiled loop, or they are sorted in each step.

        Args:
            ring: Floating sums of what is on its way, (slots, k).
            events: Events in any form, booleans, or real numbers whose nonzero values are events, (m,).
            delays: Whole numbers of steps from 1 to `slots - 1`, in the shape of `data`, or a single one for all
                elements.
            t: The number of the step, an integer scalar.
            weighted: Whether the values of events count; None for what their form says.
            backend: The name of the kernel to use; None for that of the matrix.

        Returns:
            The new ring, in which element (i, j) of an active row was added at `[(t + delay) % slots, j]`.

        Raises:
            TypeError: If the ring is not floating, or `delays` or `t` are not integers.
            ValueError: If delays are out of range.
            ShapeError: If the shapes do not fit the matrix.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[5.0, 0.0, 6.0], [0.0, 7.0, 0.0]]))
            >>> matrix.delay_deliver(jnp.zeros((3, 3)), jnp.array([True, False]), jnp.array([1, 2, 1]), 0)
            Array([[0., 0., 0.],
                   [5., 0., 0.],
                   [0., 0., 6.]], dtype=float32)
        """
        from ..delays.calls import INDEXED, checked_delays, delivered
        from ..laws.deliveries import DELIVERIES

        where, of, data = f"{type(self).__name__}.delay_deliver", INDEXED, self.data
        given: Sequence[Any]
        if self._axis:
            slots = (*np.shape(units.split(ring)[0]), 1)[0]
            delays = checked_delays(where, delays, self._stored, slots).reshape(-1)
            delays = delays if delays.size > 1 else delays.reshape(())
            given, data = self._by_rows(), self._flat()
        else:
            of, given = Description(self._format, DELIVERIES), self._arrays
        how = (t, self.shape, weighted, backend or self.backend, self.indices_within)
        return delivered(of, where, ring, events, data, given, delays, *how)

    def _by_rows(self) -> Sequence[Any]:
        """Return columns, pointers and places of weights of the rows of a matrix that is stored column by column."""
        return self._of_other_side()[1]

    def _of_other_side(self) -> tuple[Description, Sequence[Any]]:
        """Return the operator that updates elements of a column of the format, and its arrays of indices."""
        raise NotImplementedError

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool) -> Any:
        from ..laws.values import VALUES
        from ..synapses.calls import values

        of, by_columns = Description(self._format, VALUES), of_columns ^ bool(self._axis)
        how: dict[str, Any] = {"within": self.indices_within, **self._of_values}
        return values(of, self._called, y, w, self._arrays, self._cut_shape, by_columns, self.backend, **how)

    _of_values: ClassVar[dict[str, Any]] = {}

    def _sorted_places(self) -> Sequence[Any]:
        """Return indices, pointers and places of weights of the structure that is cut along the other axis, sorted."""
        raise NotImplementedError


# Methods of matrices that are cut along an axis: their classes name them.


def precompute_weight_indices(self: CutMatrix) -> CutMatrix:
    """Store where each element lies when the matrix is cut along the other axis, at 8 bytes an element.

    Then products with events read only the elements of events in both directions, and use the same weights.

    Returns:
        The matrix itself.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]])).precompute_weight_indices()
        >>> matrix @ brainevent.BinaryArray(jnp.array([False, True]))
        Array([0., 3.], dtype=float32)
    """
    self._buffers.update(zip(TURNED, self._sorted_places(), strict=True))
    return self


def build_weight_indices(self: CutMatrix) -> CutMatrix:
    """Return the same matrix with what `precompute_weight_indices` stores; this one stays as it is.

    Returns:
        Another matrix, which shares data and indices.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> list(brainevent.CSR.fromdense(jnp.eye(2)).build_weight_indices().buffers)
        ['turned_indices', 'turned_indptr', 'turned_perm']
    """
    copy: CutMatrix = self._like(self.data)
    return precompute_weight_indices(copy)
