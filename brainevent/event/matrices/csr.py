# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows, `CSR`, and columns, `CSC`: each is the other's transpose, with the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import random as connectivity
from ..saved import savable
from ..structure import as_indices, checked_shape, known_on_host
from .build import pick
from .compressed import Compressed
from .diagonal import checked_diagonal, with_diagonal
from .formats import named_format

__all__ = ["CSC", "CSR"]


@named_format
@savable
@jax.tree_util.register_pytree_node_class
class CSR(Compressed):
    """A matrix in compressed sparse rows: row i has the columns `indices[indptr[i]:indptr[i + 1]]`.

    `x @ matrix` visits the rows of events alone, `matrix @ x` all elements. `CSR(data, indices, indptr, shape=...)`,
    `CSR((data, indices, indptr), shape=...)` and `CSR(scipy_matrix)` check the structure, and look whether the columns
    of each row ascend. `indices_sorted` tells that, and `indices_within` that all are known to be within the shape:
    kernels need not test them then. Both may be passed, too, for indices whose values are not known yet.

    >>> import jax.numpy as jnp, brainevent
    >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]]))
    >>> jnp.array([True, False]) @ matrix
    Array([0., 2., 3.], dtype=float32)
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
        weights: Any = 1.0,
        seed: int | None = None,
    ) -> CSR:
        """Connect at random, with a fixed probability, or to so many different columns a row or rows a column.

        `weights` is a number, or a function of a key and a shape like `jax.random.normal`.
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

    def _transposed(self) -> CSC:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return CSC._of(self.data, structure, shape, **self._shared)

    def apply_on_pre(self, rule: Any, pre_spike: Any, *, edge_state: Any = None, **values: Any) -> Any:
        """Return the state of all synapses after a rule for one, where the presynaptic neuron spikes.

        `edge_state` is a tree of arrays in the order of `data`, and the data if it is left out. `pre_vals`, `post_vals`
        and `params` are those of `csr_apply_on_pre`, which says more. The result is a state, and not a matrix.

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

    def apply_on_post(self, rule: Any, post_spike: Any, *, edge_state: Any = None, **values: Any) -> Any:
        """Do what `apply_on_pre` does where the postsynaptic neuron spikes."""
        from ..plasticity.by_rule import csr_apply_on_post

        state = self._state("CSR.apply_on_post", edge_state)
        return csr_apply_on_post(rule, state, self.indices, self.indptr, post_spike, shape=self.shape, **values)

    def _state(self, where: str, given: Any) -> Any:
        if given is None and self.data.shape != self.indices.shape:
            raise ValueError(
                f"{where}: all synapses have one weight; pass edge_state, or a matrix with a weight for each"
            )
        return self.data if given is None else given

    def tocsr(self) -> CSR:
        """Return the matrix itself."""
        return self

    def tocsc(self) -> CSC:
        """Return the matrix in compressed sparse columns; rows are in order in each."""
        data, structure = self._turned()
        return CSC._of(data, structure, self.shape, indices_sorted=True, **self._kept)

    def _rows(self, chosen: jax.Array) -> Any:
        from ..csr.functions import sliced_rows

        how = (self.shape, self.backend, self.indices_within)
        return sliced_rows(self.data, self.indices, self.indptr, chosen, *how)

    def slice_rows(self, rows: Any) -> CSR:
        """Return the matrix of some of its rows, in the order given; its structure must be known, outside of a trace.

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

    def delay_layout(self, delays: Any, n_slots: int) -> Any:
        """Return the matrix with its elements in the order of their delays, for deliveries into a ring.

        Args:
            delays: Whole numbers of steps, from 1 to less than `n_slots`: one for each stored element, or one for all.
            n_slots: The number of slots of the ring.

        Returns:
            A `CSRDelayLayout`, whose `deliver` does what `delay_deliver` does, and is quicker.
        """
        from ..delays.layout import CSRDelayLayout

        return CSRDelayLayout.build(self.data, self.indices, self.indptr, delays, n_slots=n_slots, shape=self.shape)

    def diag_add(self, diagonal: Any) -> CSR:
        """Return the matrix plus a diagonal one, of a number or a vector; the columns of each row then ascend.

        What of the diagonal is not stored, is from then on. In a trace that does not know the structure, an element
        comes in for each row: of weight zero where the diagonal is stored already.

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


@savable
@jax.tree_util.register_pytree_node_class
class CSC(Compressed):
    """A matrix in compressed sparse columns: column j has the rows `indices[indptr[j]:indptr[j + 1]]`.

    `matrix @ x` visits the columns of events alone, `x @ matrix` all elements. It is made as a `CSR` is.
    """

    _axis = 1
    _called = ("update_csc_on_binary_pre", "update_csc_on_binary_post", "cscmv_dt2t", "cscmm_dt2t")

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        *,
        prob: float | None = None,
        num_per_row: int | None = None,
        num_per_column: int | None = None,
        weights: Any = 1.0,
        seed: int | None = None,
    ) -> CSC:
        """Connect at random as `CSR.random` does, column by column."""
        turned = checked_shape("CSC.random", shape)[::-1]
        of_rows = CSR.random(
            turned, prob=prob, num_per_row=num_per_column, num_per_column=num_per_row, weights=weights, seed=seed
        )
        return of_rows.transpose()

    def _transposed(self) -> CSR:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return CSR._of(self.data, structure, shape, **self._shared)

    def tocsc(self) -> CSC:
        """Return the matrix itself."""
        return self

    def slice_rows(self, rows: Any) -> CSC:
        """Do what `CSR.slice_rows` does; the elements are sorted for it, and back."""
        return self.tocsr().slice_rows(rows).tocsc()

    def diag_add(self, diagonal: Any) -> CSC:
        """Do what `CSR.diag_add` does."""
        return self.transpose().diag_add(diagonal).transpose()

    def tocsr(self) -> CSR:
        """Return the matrix in compressed sparse rows; columns are in order in each."""
        data, structure = self._turned()
        return CSR._of(data, structure, self.shape, indices_sorted=True, **self._kept)
