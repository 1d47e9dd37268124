# SPDX-License-Identifier: Apache-2.0
"""Plasticity in `jax.numpy`: by this, kernels are judged."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..activity import is_active
from ..csr.reference import row_of_each
from ..operands import is_within
from ..precision import precise

__all__ = ["of_columns", "of_coordinates", "of_equal_slices", "of_indexed_slices", "of_rows", "of_slices"]


def _added(weights: Any, changes: Any, where: Any) -> jax.Array:
    """Add changes where something is true; elsewhere not even the sign of a zero changes."""
    sums = precise(weights.dtype)
    return jnp.where(where, (weights.astype(sums) + changes.astype(sums)).astype(weights.dtype), weights)


def _at(x: Any, places: Any) -> jax.Array:
    """Return what of a vector is at places, and anything for a place that there is not."""
    return x[jnp.where(is_within(places, x.shape[0]), places, 0)] if x.shape[0] else jnp.zeros(places.shape, x.dtype)


def of_coordinates(weights: Any, own: Any, other: Any, spikes: Any, trace: Any) -> jax.Array:
    """Return weights in any order, where `own` are the neurons that may spike, and `other` those with a trace."""
    touched = is_within(own, spikes.shape[0]) & is_within(other, trace.shape[0]) & _at(is_active(spikes), own)
    return _added(weights, _at(trace, other), touched)


def of_slices(weights: Any, indices: Any, indptr: Any, spikes: Any, trace: Any, after: Any, **_: Any) -> list[Any]:
    """Return weights stored row by row, where a row's neuron may spike."""
    rows = row_of_each(indptr, indices.shape[0])
    touched = is_within(indices, trace.shape[0]) & (rows < spikes.shape[0]) & _at(is_active(spikes), rows)
    return [_added(weights, _at(trace, indices), touched)]


def of_indexed_slices(
    weights: Any, indices: Any, indptr: Any, perm: Any, trace: Any, spikes: Any, after: Any, **_: Any
) -> list[Any]:
    """Return weights whose places `perm` names, where a column's neuron may spike."""
    columns = row_of_each(indptr, indices.shape[0])
    touched = is_within(indices, trace.shape[0]) & (columns < spikes.shape[0]) & _at(is_active(spikes), columns)
    touched &= is_within(perm, weights.shape[0])
    found = _added(_at(weights, perm), _at(trace, indices), touched)
    return [weights.at[jnp.where(touched, perm, weights.shape[0])].set(found, mode="drop")]


def of_equal_slices(weights: Any, indices: Any, spikes: Any, trace: Any, after: Any, **_: Any) -> list[Any]:
    """Return weights of rows of equal length, where a row's neuron may spike."""
    touched = is_within(indices, trace.shape[0]) & is_active(spikes)[:, None]
    return [_added(weights, _at(trace, indices), touched)]


def of_rows(weights: Any, spikes: Any, trace: Any, after: Any) -> list[Any]:
    """Return a dense matrix after spikes of its rows."""
    return [_added(weights, trace, is_active(spikes)[:, None])]


def of_columns(weights: Any, trace: Any, spikes: Any, after: Any) -> list[Any]:
    """Return a dense matrix after spikes of its columns."""
    return [_added(weights, trace[:, None], is_active(spikes))]
