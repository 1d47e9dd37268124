# SPDX-License-Identifier: Apache-2.0
"""The same number of elements in each row, `FixedNumPerPre`, or in each column, `FixedNumPerPost`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ... import _units as units
from ...typing import IndexLike
from ..saved import register_pair
from ..structure import are_known
from .csc import CSC
from .csr import CSR
from .fixed_base import FixedNumConn
from .indexing import chosen_rows

__all__ = ["FixedNumPerPost", "FixedNumPerPre"]


@register_pair
class FixedNumPerPre(FixedNumConn):
    """A matrix in which each presynaptic neuron has c connections: `indices`, (m, c), are their columns.

    `x @ matrix` reads only the connections of neurons that spiked, `matrix @ x` all.

    Args:
        data: Floating weights, (m, c), or one weight for all elements.
        indices: The columns of the elements of each row, int32 or int64, (m, c).
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.
        check_structure: Whether to validate the indices.
        indices_sorted: Whether the columns of each row are known to ascend; None to look.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them; None to look.
        precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or do not have m rows.
        ShapeError: If the number of weights is neither one nor that of the elements.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.FixedNumPerPre((1.5, jnp.array([[0, 2], [1, 2]])), shape=(2, 3))
        >>> jnp.array([True, True]) @ matrix
        Array([1.5, 1.5, 3. ], dtype=float32)
        >>> matrix.num_pre, matrix.num_post, matrix.num_conn, matrix.tocsr()
        (2, 3, 2, CSR(float32[2, 3], nse=4))
        >>> brainevent.FixedNumPerPre.random((100, 50), 10, seed=0).build_weight_indices()
        FixedNumPerPre(float32[100, 50], nse=1000)
        >>> brainevent.FixedNumPerPre.fromdense(jnp.eye(3), num_conn=2).precompute_weight_indices().nse
        6
        >>> brainevent.FixedNumPerPre.fromsparse(brainevent.CSR.fromdense(jnp.eye(3))).nse
        3
        >>> import numpy as np, scipy.sparse
        >>> brainevent.FixedNumPerPre.fromscipy(scipy.sparse.eye_array(3, dtype=np.float32))
        FixedNumPerPre(float32[3, 3], nse=3)
    """

    _axis = 0
    _compressed = CSR

    def slice_rows(self, index: IndexLike | slice) -> FixedNumPerPre:
        chosen = chosen_rows("FixedNumPerPre.slice_rows", index, self.shape[0])
        numbers, unit = units.split(self.data)
        if numbers.size != 1 or not are_known(chosen):  # rows that are out of range get weights of zero
            weights = jnp.broadcast_to(numbers, self.indices.shape)
            numbers = jnp.take(weights, chosen, axis=0, mode="fill", fill_value=0)
        structure = (jnp.take(self.indices, chosen, axis=0, mode="clip"),)
        how: dict[str, Any] = {**self._kept, "indices_sorted": self.indices_sorted}
        return FixedNumPerPre._of(units.join(numbers, unit), structure, (chosen.size, self.shape[1]), **how)

    def tocsr(self) -> CSR:
        return self._cut()


@register_pair
class FixedNumPerPost(FixedNumConn):
    """A matrix in which each postsynaptic neuron has c connections: `indices`, (k, c), are their rows.

    `matrix @ x` reads only the connections of neurons that spiked, `x @ matrix` all.

    Args:
        data: Floating weights, (k, c), or one weight for all elements.
        indices: The rows of the elements of each column, int32 or int64, (k, c).
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.
        check_structure: Whether to validate the indices.
        indices_sorted: Whether the rows of each column are known to ascend; None to look.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them; None to look.
        precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or do not have k rows.
        ShapeError: If the number of weights is neither one nor that of the elements.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.FixedNumPerPost((1.5, jnp.array([[0, 1], [0, 1], [1, 0]])), shape=(2, 3))
        >>> matrix @ brainevent.BinaryArray(jnp.array([True, False, True]))
        Array([3., 3.], dtype=float32)
        >>> matrix.slice_rows([1]).tocsc(), matrix.tocsr()
        (CSC(float32[1, 3], nse=3), CSR(float32[2, 3], nse=6))
    """

    _axis = 1
    _compressed = CSC

    def tocsr(self) -> CSR:
        return self._cut().tocsr()

    def tocsc(self) -> CSC:
        return self._cut()


FixedNumPerPre._turned_class, FixedNumPerPost._turned_class = FixedNumPerPost, FixedNumPerPre
