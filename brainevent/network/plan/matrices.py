# SPDX-License-Identifier: Apache-2.0
"""Weights as a matrix (sources, targets), whose elements without a synapse are zero, in place of one for each synapse.

Of synapses between parts of populations, rows and columns are the neurons of the parts, in their order. A matrix that
JAX traces may have other numbers where there is no synapse: then all weights are NaN.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError
from .plan import Link, Plan
from .projections import ProjectionPlan

__all__ = ["as_matrix", "shapes_of_weights", "weights_of_matrix"]

Array = Any

_WRITTEN = "zeros of a matrix in a description are not synapses: connect.all_to_all(weight=matrix) makes one of each"


def _shape(plan: Plan, about: Link) -> tuple[int, int]:
    """Return how many sources and targets a matrix has: of parts of populations, only their neurons."""
    sizes = plan.population(about.source).size, plan.population(about.target).size
    sources, targets = (
        size if numbers is None else numbers.size
        for size, numbers in zip(sizes, plan.ends.get(about.name, (None, None)), strict=True)
    )
    return sources, targets


def _in_parts(plan: Plan, about: Link, *given: Array) -> list[Array]:
    """Return numbers of sources and of targets in their populations as rows and columns of a matrix."""
    found = []
    ends = zip((about.source, about.target), plan.ends.get(about.name, (None, None)), given, strict=True)
    for name, numbers, whole in ends:
        places = np.arange(plan.population(name).size)
        if numbers is not None:
            places[numbers] = np.arange(numbers.size)
        found.append(whole if numbers is None else places[whole])
    return found


def shapes_of_weights(plan: Plan, about: Link, found: tuple[int, ...]) -> str:
    """Say which arrays are weights, in an error about one of another shape."""
    shape = _shape(plan, about)
    full = f"; {_WRITTEN}" if math.prod(found) == math.prod(shape) != about.entries else ""
    return f"({about.entries},) in the order of connections, or a matrix {shape}{full}"


def weights_of_matrix(where: str, plan: Plan, about: Link, matrix: Array) -> Array:
    """Return one weight for each synapse, in the order of the plan, of a matrix (sources, targets).

    Arrays of other shapes are returned as they are.
    """
    if matrix.shape != _shape(plan, about):
        return matrix
    places, flat = _places(where, plan, about), matrix.reshape(-1)
    if about.entries == flat.size:
        return flat if (places == np.arange(flat.size)).all() else flat[places]
    others = np.ones(flat.size, bool)
    others[places] = False
    if isinstance(flat, Tracer):
        return jnp.where((jnp.where(others, flat, 0) == 0).all(), flat[places], jnp.nan)
    wrong = others & (np.asarray(flat) != 0)
    if wrong.any():
        source, target = (int(k) for k in np.argwhere(wrong.reshape(matrix.shape))[0])
        raise NetworkError(
            f"{where}: element ({source}, {target}) is {matrix[source, target]:g}, but there is no synapse; pass 0 "
            f"there; {_WRITTEN}"
        )
    return flat[places]


def as_matrix(where: str, plan: Plan, about: Link, weights: Array) -> Array:
    """Return a matrix (sources, targets) of one number for each synapse; it is zero where there is none."""
    shape = _shape(plan, about)
    return jnp.zeros(shape[0] * shape[1], weights.dtype).at[_places(where, plan, about)].set(weights).reshape(shape)


def _places(where: str, plan: Plan, about: Link) -> Array:
    """Return the place of each synapse among the elements of a matrix; raise if two have the same."""
    targets = _shape(plan, about)[1]
    if isinstance(about, ProjectionPlan):
        synapses = plan.synapses[plan.place(about.name)]
        starts = synapses.starts[:: plan.parts].astype(np.int64)
        rows, columns = np.repeat(np.arange(starts.size - 1), np.diff(starts)), synapses.targets
    else:
        rows, columns = about.sources.astype(np.int64), about.targets
    rows, columns = _in_parts(plan, about, rows, columns)
    places = rows * targets + columns
    ordered = np.sort(places)
    if (same := ordered[1:] == ordered[:-1]).any():
        twice = int(ordered[1:][same][0])
        raise NetworkError(
            f"{where}: {about.name} has several synapses from neuron {twice // targets} to neuron {twice % targets}, "
            f"which a matrix does not tell apart; pass one weight for each synapse, ({about.entries},), in the order "
            "of sim.connections"
        )
    return places
