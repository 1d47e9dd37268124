# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons, in the order in which a matrix stores its elements."""

from __future__ import annotations

import warnings
from typing import Any

import jax

from ...typing import ArrayLike

__all__ = ["PerSynapse"]


class PerSynapse:
    """Methods for programs that have a value for each synapse, such as an eligibility trace."""

    def dt2t(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Multiply the value of each synapse with that of its row: `w[j] * y[row of j]`.

        Batches go through `jax.vmap`.

        Args:
            y_dim_arr: Real numbers, one for each row, (m,).
            w_dim_arr: Floating values in the shape of the stored elements, such as eligibility traces, or one number
                for all.

        Returns:
            The products, in the order of `data`. The unit is that of `w_dim_arr` alone; with rows or columns of equal
            length, and for drawn matrices, it is the product of both.

        Raises:
            ShapeError: If the shapes do not fit the matrix.
            TypeError: If `w_dim_arr` is not floating.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]]))
            >>> matrix.dt2t(jnp.array([10.0, 100.0]), matrix.data)
            Array([ 10.,  20., 400.], dtype=float32)
        """
        return self._per_synapse(y_dim_arr, w_dim_arr, of_columns=False)

    def dt2t_transposed(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Multiply the value of each synapse with that of its column: `w[j] * y[column of j]`.

        Args:
            y_dim_arr: Real numbers, one for each column, (k,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`, with the unit that `dt2t` gives them.

        Raises:
            ShapeError: If the shapes do not fit the matrix.
            TypeError: If `w_dim_arr` is not floating.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]]))
            >>> matrix.dt2t_transposed(jnp.array([1.0, 10.0, 100.0]), matrix.data)
            Array([  1., 200., 400.], dtype=float32)
        """
        return self._per_synapse(y_dim_arr, w_dim_arr, of_columns=True)

    def yw_to_w(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Return what `dt2t` does: its deprecated name.

        Args:
            y_dim_arr: Real numbers, one for each row, (m,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`.

        Examples:
            >>> import warnings
            >>> import jax.numpy as jnp, brainevent
            >>> with warnings.catch_warnings(action="ignore"):
            ...     brainevent.CSR.fromdense(2 * jnp.eye(2)).yw_to_w(jnp.array([1.0, 10.0]), 3.0)
            Array([ 3., 30.], dtype=float32)
        """
        _warn(type(self).__name__, "yw_to_w", "dt2t")
        return self.dt2t(y_dim_arr, w_dim_arr)

    def yw_to_w_transposed(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Return what `dt2t_transposed` does: its deprecated name.

        Args:
            y_dim_arr: Real numbers, one for each column, (k,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`.

        Examples:
            >>> import warnings
            >>> import jax.numpy as jnp, brainevent
            >>> with warnings.catch_warnings(action="ignore"):
            ...     brainevent.CSR.fromdense(2 * jnp.eye(2)).yw_to_w_transposed(jnp.array([1.0, 10.0]), 3.0)
            Array([ 3., 30.], dtype=float32)
        """
        _warn(type(self).__name__, "yw_to_w_transposed", "dt2t_transposed")
        return self.dt2t_transposed(y_dim_arr, w_dim_arr)

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool) -> Any:
        """Return w times the values of rows, or of columns."""
        raise NotImplementedError


def _warn(kind: str, old: str, new: str) -> None:
    warnings.warn(f"{kind}.{old} is now called {kind}.{new}", DeprecationWarning, stacklevel=3)
