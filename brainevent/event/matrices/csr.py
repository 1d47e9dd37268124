# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows, `CSR`, whose transpose is a `CSC` of the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...typing import ArrayLike, IndexLike, PyTree
from .. import random as connectivity
from ..saved import savable
from ..structure import as_indices, checked_shape, known_on_host
from .buffers import TURNED
from .build import pick
from .compressed import Compressed
from .diagonal import checked_diagonal, with_diagonal
from .formats import format_named, named_format

if TYPE_CHECKING:
    from ..delays.layout import CSRDelayLayout

__all__ = ["CSR"]


@named_format
@savable
@jax.tree_util.register_pytree_node_class
class CSR(Compressed):
    """A matrix in compressed sparse rows: row i has the columns `indices[indptr[i]:indptr[i + 1]]`.

    `x @ matrix` reads only the rows of events, `matrix @ x` all elements. It is made by `CSR(data, indices, indptr,
    shape=...)`, `CSR((data, indices, indptr), shape=...)`, `CSR(scipy_matrix)`, `fromdense`, `fromscipy` or `random`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements.
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        check_structure: Whether to validate the indices.
        indices_sorted: Whether the columns of each row are known to ascend; None to look.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them; None to look.
        precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If there is not one weight for each element.

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
    _called = ("update_csr_on_binary_pre", "update_csr_on_binary_post", "csrmv_dt2t", "csrmm_dt2t")

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        *,
        prob: float | None = None,
        num_per_row: int | None = None,
        num_per_column: int | None = None,
        weights: ArrayLike | Callable[..., ArrayLike] = 1.0,
        seed: int | None = None,
    ) -> CSR:
        """Connect neurons at random; no pair is connected twice.

        Pass one of `prob`, `num_per_row` and `num_per_column`.

        Args:
            shape: The shape of the matrix, (m, k).
            prob: The probability of each element.
            num_per_row: How many elements each row has, all equally likely.
            num_per_column: How many elements each column has, all equally likely.
            weights: A number for all, or a function of a key and a shape, such as `jax.random.normal`.
            seed: An integer; None for a new one.

        Returns:
            The matrix.

        Raises:
            TypeError: If not one of the three is passed.
            ValueError: If a probability or a number is out of range.

        Examples:
            >>> import brainevent
            >>> brainevent.CSR.random((100, 50), num_per_row=10, weights=0.5, seed=0)
            CSR(float32[100, 50], nse=1000)
        """
        rows, columns = checked_shape("CSR.random", shape)
        if sum(given is not None for given in (prob, num_per_row, num_per_column)) != 1:
            raise TypeError("CSR.random: pass one of prob, num_per_row and num_per_column")
        start = connectivity.checked_seed(seed)
        if prob is not None:
            indices, indptr = connectivity.bernoulli_rows(rows, columns, prob, start)
        elif num_per_column is not None:
            indices, indptr = connectivity.fixed_columns(rows, columns, num_per_column, start)
        else:
            indices = connectivity.fixed_rows(rows, columns, num_per_row or 0, start, pointers=True)
            indptr = np.arange(rows + 1, dtype=np.int64) * indices.shape[1]
        data = connectivity.drawn_weights(weights, (indices.size,), start)
        # device_put keeps the memory that was drawn into, on a CPU; asarray would copy it.
        structure = (jax.device_put(indices.reshape(-1)), indptr)
        known: dict[str, Any] = {"indices_sorted": True, "indices_within": True}
        return cls(data, *structure, shape=shape, check_structure=False, **known)

    def _transposed(self) -> Any:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return format_named("CSC")._of(self.data, structure, shape, **self._shared)

    def apply_on_pre(
        self, rule: Callable[..., PyTree], pre_spike: ArrayLike, *, edge_state: PyTree = None, **values: Any
    ) -> PyTree:
        """Apply a user's rule to the synapses of presynaptic neurons that spiked.

        The result is a state, and not a matrix: pass it to `with_data` if it is one of weights.

        Args:
            rule: `rule(state, pre, post, params)` returns the new state of one synapse, with the structure of the old
                one.
            pre_spike: Booleans or real numbers, of which every nonzero one is a spike, (m,).
            edge_state: A tree of arrays, (nse, ...), in the order of `data`; None for the data.
            **values: `pre_vals`, `post_vals` and `params`, as for `csr_apply_on_pre`.

        Returns:
            The tree of `edge_state`, with the same dtypes and units.

        Raises:
            ValueError: If `edge_state` is None, and one weight serves all synapses.
            TypeError: If the rule returns another structure.
            ShapeError: If the shapes do not fit the matrix.

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

    def apply_on_post(
        self, rule: Callable[..., PyTree], post_spike: ArrayLike, *, edge_state: PyTree = None, **values: Any
    ) -> PyTree:
        """Apply a user's rule to the synapses of postsynaptic neurons that spiked.

        After `precompute_weight_indices()` the rule is computed for these synapses alone, if there are many.

        Args:
            rule: `rule(state, pre, post, params)` returns the new state of one synapse, with the structure of the old
                one.
            post_spike: Booleans or real numbers, of which every nonzero one is a spike, (k,).
            edge_state: A tree of arrays, (nse, ...), in the order of `data`; None for the data.
            **values: `pre_vals`, `post_vals` and `params`, as for `csr_apply_on_post`.

        Returns:
            The tree of `edge_state`, with the same dtypes and units.

        Raises:
            ValueError: If `edge_state` is None, and one weight serves all synapses.
            TypeError: If the rule returns another structure.
            ShapeError: If the shapes do not fit the matrix.

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
        """Return the matrix itself.

        Returns:
            The matrix.
        """
        return self

    def tocsc(self) -> Compressed:
        """Return the matrix in compressed sparse columns, whose rows ascend.

        Returns:
            The matrix; its weights are a copy.
        """
        data, structure = self._turned()
        return format_named("CSC")._of(data, structure, self.shape, indices_sorted=True, **self._kept)

    def _rows(self, chosen: jax.Array) -> Any:
        from ..csr.rows import sliced_rows

        how = (self.shape, self.backend, self.indices_within)
        return sliced_rows(self.data, self.indices, self.indptr, chosen, *how)

    def slice_rows(self, rows: IndexLike | slice) -> CSR:
        """Return the matrix of chosen rows, in the order given.

        Args:
            rows: The rows: a slice, a mask, (m,), or numbers, (r,).

        Returns:
            The matrix, of shape (r, k).

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the size of the result is unknown.
            IndexError: If a row is out of range.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.eye(4)).slice_rows([2, 0])
            CSR(float32[2, 4], nse=2)
        """
        self._look("CSR.slice_rows")
        indptr = known_on_host("CSR.slice_rows", self.indptr)
        wanted = rows if isinstance(rows, slice) else known_on_host("CSR.slice_rows", as_indices(rows))
        chosen = np.atleast_1d(np.arange(self.shape[0])[wanted])
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

    def diag_add(self, diagonal: ArrayLike) -> CSR:
        """Add a diagonal matrix; the columns of each row then ascend.

        Diagonal elements that were not stored are stored in the result. Under `jax.jit` an element is added to each
        row, with weight zero where the diagonal is stored already.

        Args:
            diagonal: A number, or a number for each element of the diagonal, (min(m, k),).

        Returns:
            The sum.

        Raises:
            ShapeError: If the diagonal has another length.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 4.0]]))
            >>> matrix.diag_add(1.0), jnp.asarray(matrix.diag_add(jnp.array([1.0, 10.0])).todense())
            (CSR(float32[2, 2], nse=4), Array([[ 1.,  2.],
                   [ 3., 14.]], dtype=float32))
        """
        checked_diagonal("CSR.diag_add", diagonal, self.shape)
        self._look("CSR.diag_add")
        found = with_diagonal(self.data, self.indices, self.indptr, self.shape, diagonal, in_order=self.indices_sorted)
        return CSR._of(found.data, found[1:], self.shape, indices_sorted=True, **self._kept)
