# SPDX-License-Identifier: Apache-2.0
"""Weights as whole numbers of quanta: in floats with a derivative where sums stay exact, else in int32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import NetworkError
from ..plan.plan import Plan

__all__ = ["exact_in_floats", "in_quanta", "refuse_derivatives"]

Array = Any
_EXACT = 2**24  # whole numbers up to here are exact in float32


def largest_sum(plan: Plan) -> tuple[float, str]:
    """Return the largest sum of |weight| into a neuron, in quanta, and the receptor in which it is."""
    sums = {(name, receptor): np.zeros(plan.population(name).size) for name, receptor in plan.receptors()}
    for s in plan.synapses:
        weights = np.abs(np.broadcast_to(s.weights, s.targets.shape).astype(float))
        sums[s.target, s.receptor] += np.bincount(s.targets, weights, plan.population(s.target).size)
    largest = {f"{name}.{receptor}": float(into.max(initial=0)) for (name, receptor), into in sums.items()}
    place = max(largest, key=largest.__getitem__, default="")
    return largest.get(place, 0.0), place


@jax.custom_jvp
def _rounded(x: Array) -> Array:
    """Round; the derivative is 1."""
    return jnp.round(x)


@_rounded.defjvp
def _rounded_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return _rounded(*primals), tangents[0]


def in_quanta(weights: Array, quantum: np.floating[Any], *, exact_floats: bool) -> Array:
    """Return weights in whole quanta."""
    rounded = _rounded(jnp.asarray(weights, quantum.dtype) / quantum)
    return rounded if exact_floats else rounded.astype(np.int32)


def exact_in_floats(plan: Plan) -> bool:
    """Say whether all sums of quanta are exact in the floats of a plan: those of float64 always are."""
    return plan.dtype == "float64" or largest_sum(plan)[0] < _EXACT


def refuse_derivatives(tree: Any, plan: Plan) -> Any:
    """Return arrays; if sums in float32 are not exact, those that raise when they are differentiated."""
    if exact_in_floats(plan):
        return tree
    largest, place = largest_sum(plan)

    @jax.custom_jvp
    def undifferentiated(x: Array) -> Array:
        return x

    @undifferentiated.defjvp
    def raises(primals: Any, tangents: Any) -> Any:
        raise NetworkError(
            f"simulate: weights of {largest:.0f} quanta in all reach a neuron of {place}; float32 is exact only below "
            "2^24 quanta, so sums are integers here, which have no derivative; build the network with weights that "
            "are multiples of a larger number, with fewer synapses a neuron, or with dtype='float64'"
        )

    return jax.tree.map(lambda x: undifferentiated(x) if _is_float(x) else x, tree)


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(jnp.result_type(x), np.floating)
