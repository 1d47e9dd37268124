# SPDX-License-Identifier: Apache-2.0
"""Matrices whose weights change by spikes: a new matrix of the same structure, and nothing kept in the old one."""

from __future__ import annotations

from typing import Any, Self

from .per_synapse import PerSynapse

__all__ = ["Plastic"]


class Plastic(PerSynapse):
    """What plastic matrices share."""

    data: Any
    shape: tuple[int, int]
    backend: str | None

    def update_on_pre(
        self, pre_spike: Any, post_trace: Any, w_min: Any = None, w_max: Any = None, *, after: Any = None
    ) -> Self:
        """Return a matrix in which each synapse of a row that spikes has the trace of its column added.

        Then weights are held between `w_min` and `w_max`, where these are given. Pass `after=` what a product with
        this matrix has just given, and a compiled loop changes the weights in place.

        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]]))
        >>> changed = matrix.update_on_pre(jnp.array([True, False]), jnp.array([0.1, 0.2, 0.3]), 0.0, 2.2)
        >>> changed.todense()
        Array([[1.1, 0. , 2.2],
               [0. , 2.2, 2.2]], dtype=float32)
        """
        data = self._on_pre(pre_spike, post_trace, w_min, w_max, backend=self.backend, after=after)
        return self._with_changed(data)

    def update_on_post(
        self, pre_trace: Any, post_spike: Any, w_min: Any = None, w_max: Any = None, *, after: Any = None
    ) -> Self:
        """Return a matrix in which each synapse of a column that spikes has the trace of its row added.

        As `update_on_pre`. Where elements are stored row by row, their places in columns are needed: in a compiled
        loop, call `precompute_weight_indices()` before, or they are sorted in each step.
        """
        data = self._on_post(pre_trace, post_spike, w_min, w_max, backend=self.backend, after=after)
        return self._with_changed(data)

    def _with_changed(self, data: Any) -> Self:
        changed: Self = self.with_data(data)  # type: ignore[attr-defined]
        return changed

    def _on_pre(self, *operands: Any, **how: Any) -> Any:
        """Return the data after spikes of rows: spikes, a trace and bounds are given."""
        raise NotImplementedError

    def _on_post(self, *operands: Any, **how: Any) -> Any:
        """Return the data after spikes of columns: a trace, spikes and bounds are given."""
        raise NotImplementedError
