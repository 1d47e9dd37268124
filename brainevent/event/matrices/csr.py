# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows, `CSR`, whose transpose is a `CSC` of the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._documented import documented
from ...typing import ArrayLike, IndexLike, PyTree
from .. import entries
from ..description import Description
from ..saved import register_pair
from ..structure import as_indices, known_on_host
from .base import TURNED
from .compressed import Compressed
from .conversions import named_format, pick
from .diagonal import checked_diagonal, positions_with_diagonal, with_diagonal
from .indexing import chosen_rows

if TYPE_CHECKING:
    from ..delays.layout import CSRDelayLayout

__all__ = ["CSR"]


_applied = documented(
    entries.EDGES,
    {
        "ValueError": "If `edge_state` is None, and one weight serves all synapses.",
        "TypeError": entries.RULES["TypeError"],
        "ShapeError": "If the shapes do not fit the matrix.",
    },
    "The tree of `edge_state`, with the same dtypes and units.",
)


@named_format
@register_pair
@documented(entries.STORED, entries.OF_STORED | entries.INDPTR)
class CSR(Compressed):
    """A matrix in compressed sparse rows: row i has the columns `indices[indptr[i]:indptr[i + 1]]`.

    `x @ matrix` reads only the rows of events, `matrix @ x` all elements. It is made by `CSR(data, indices, indptr,
    shape=...)`, `CSR((data, indices, indptr), shape=...)`, `CSR(scipy_matrix)`, `fromdense`, `fromscipy` or `random`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements.
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        indices_sorted: Whether the columns of each row are known to ascend; None to look.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]]))
        >>> matrix.indices, matrix.indptr
        (Array([1, 2, 0], dtype=int32), Array([0, 2, 3], dtype=int32))
        >>> jnp.array([True, False]) @ matrix
        Array([0., 2., 3.], dtype=float32)
        >>> matrix.tocsc().tocsr()
        CSR(float32[2, 3], nse=3)
    """

    _axis = 0
    _called = ("csrmv_dt2t", "csrmm_dt2t")

    @_applied
    def apply_on_pre(
        self, rule: Callable[..., PyTree], pre_spike: ArrayLike, *, edge_state: PyTree = None, **values: Any
    ) -> PyTree:
        """Apply a user's rule to the synapses of presynaptic neurons that spiked.

        The result is a state, and not a matrix: pass it to `with_data` if it is one of weights.

        Args:
            pre_spike: Booleans, or real numbers whose nonzero values are spikes, (m,).
            **values: `pre_vals`, `post_vals` and `params`, as for `csr_apply_on_pre`.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]]))
            >>> double = lambda weight, pre, post, params: 2 * weight
            >>> matrix.with_data(matrix.apply_on_pre(double, jnp.array([False, True]))).todense()
            Array([[1., 0.],
                   [4., 6.]], dtype=float32)
        """
        from ..plasticity.by_rule import csr_apply_on_pre

        state = self._state("CSR.apply_on_pre", edge_state)
        return csr_apply_on_pre(rule, state, self.indices, self.indptr, pre_spike, shape=self.shape, **values)

    @_applied
    def apply_on_post(
        self, rule: Callable[..., PyTree], post_spike: ArrayLike, *, edge_state: PyTree = None, **values: Any
    ) -> PyTree:
        """Apply a user's rule to the synapses of postsynaptic neurons that spiked.

        After `precompute_weight_indices()` the rule is computed for these synapses alone, if there are many.

        Args:
            post_spike: Booleans, or real numbers whose nonzero values are spikes, (k,).
            **values: `pre_vals`, `post_vals` and `params`, as for `csr_apply_on_post`.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]]))
            >>> matrix.apply_on_post(lambda weight, pre, post, params: 2 * weight, jnp.array([False, True]))
            Array([1., 2., 6.], dtype=float32)
        """
        from ..plasticity.by_rule import applied_by_columns, csr_apply_on_post

        state = self._state("CSR.apply_on_post", edge_state)
        given = (rule, state, self.indices, self.indptr, post_spike)
        if TURNED[0] in self._buffers:
            return applied_by_columns(self._places(), *given, shape=self.shape, **values)
        return csr_apply_on_post(*given, shape=self.shape, **values)

    def _state(self, where: str, given: Any) -> Any:
        if given is None and self.data.shape != self.indices.shape:
            raise ValueError(
                f"{where}: all synapses have one weight; pass edge_state, or a matrix with a weight for each"
            )
        return self.data if given is None else given

    def tocsr(self) -> CSR:
        return self

    def _rows(self, chosen: jax.Array) -> Any:
        from ..calls import sliced_rows
        from ..laws.copies import COPIED

        how = (self.shape, self.backend, self.indices_within)
        return sliced_rows(Description(self._format, COPIED), self.data, self._arrays, chosen, *how)

    def slice_rows(self, index: IndexLike | slice) -> CSR:
        self._look("CSR.slice_rows")
        indptr = known_on_host("CSR.slice_rows", self.indptr)
        if not isinstance(index, slice):
            known_on_host("CSR.slice_rows", as_indices(index))
        with jax.ensure_compile_time_eval():
            chosen = np.asarray(chosen_rows("CSR.slice_rows", index, self.shape[0]))
        counts = np.diff(indptr)[chosen]
        starts = np.concatenate([np.zeros(1, indptr.dtype), np.cumsum(counts, dtype=indptr.dtype)])
        places = np.repeat(indptr[:-1][chosen] - starts[:-1], counts) + np.arange(starts[-1])
        structure = (self.indices[places], jnp.asarray(starts))
        how: dict[str, Any] = {**self._kept, "indices_sorted": self.indices_sorted}
        return CSR._of(pick(self.data, places), structure, (chosen.size, self.shape[1]), **how)

    def delay_layout(self, delays: IndexLike, n_slots: int) -> CSRDelayLayout:
        """Return the matrix with its elements sorted by their delays, for deliveries into a ring.

        Args:
            delays: Whole numbers of steps from 1 to `n_slots - 1`, (nse,), or a single one for all elements.
            n_slots: The number of slots of the ring, at least 2.

        Returns:
            The layout, whose `deliver` does what `delay_deliver` does, and is faster.

        Raises:
            TypeError: If it is called under `jax.jit`, where the arrays are unknown.
            ValueError: If delays or the number of slots are out of range.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.array([[5.0, 6.0]])).delay_layout(jnp.array([2, 1]), 3).delays
            Array([1, 2], dtype=int32)
        """
        from ..delays.layout import CSRDelayLayout

        return CSRDelayLayout.build(self.data, self.indices, self.indptr, delays, n_slots=n_slots, shape=self.shape)

    def diag_add(self, other: ArrayLike) -> CSR:
        checked_diagonal("CSR.diag_add", other, self.shape)
        self._look("CSR.diag_add")
        found = with_diagonal(self.data, self.indices, self.indptr, self.shape, other, in_order=self.indices_sorted)
        return CSR._of(found.data, found[1:], self.shape, indices_sorted=True, **self._kept)

    @property
    def diag_positions(self) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The structure of `diag_add(...)`: `indptr`, `indices`, the place of each element, and of the diagonal.

        Not available under `jax.jit` for traced indices.
        """
        indptr, indices = (known_on_host("CSR.diag_positions", x) for x in (self.indptr, self.indices))
        self._look("CSR.diag_positions")
        found = positions_with_diagonal(indices, indptr, self.shape, in_order=self.indices_sorted)
        return found.indptr, found.indices, jnp.asarray(found.stored), jnp.asarray(found.diagonal)
