# SPDX-License-Identifier: Apache-2.0
"""Weights as whole numbers of quanta: in floats with a derivative where sums stay exact, else in int32."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import NetworkError
from ..plan.plan import Plan

__all__ = ["exact_in_floats", "in_quanta", "refuse_derivatives"]

Array = Any
_EXACT = 2**24  # whole numbers up to here are exact in float32
_ROOMY = 2**20  # quanta: weights that are learned may grow 16-fold


def _inexact(plan: Plan) -> dict[tuple[str, str], float]:
    """Return the receptors where sums of |weight| into a neuron are not exact in float32, and the largest in quanta."""
    if plan.dtype == "float64":
        return {}
    sums = {(name, receptor): np.zeros(plan.population(name).size) for name, receptor in plan.receptors()}
    for s in plan.synapses:
        weights = np.abs(np.broadcast_to(s.weights, s.targets.shape).astype(float))
        sums[s.target, s.receptor] += np.bincount(s.targets, weights, plan.population(s.target).size)
    largest = {place: float(into.max(initial=0)) for place, into in sums.items()}
    return {place: quanta for place, quanta in largest.items() if quanta >= _EXACT}


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
    return not _inexact(plan)


def refuse_derivatives(tree: Any, plan: Plan) -> Any:
    """Return arrays; if sums in float32 are not exact, those that raise when they are differentiated."""
    inexact = _inexact(plan)
    if not inexact:
        return tree
    quanta = {
        f"{name}.{receptor}": 2.0 ** math.ceil(math.log2(plan.population(name).quanta[receptor] * largest / _ROOMY))
        for (name, receptor), largest in inexact.items()
    }
    (place, largest), *_ = inexact.items()

    @jax.custom_jvp
    def undifferentiated(x: Array) -> Array:
        return x

    @undifferentiated.defjvp
    def raises(primals: Any, tangents: Any) -> Any:
        raise NetworkError(
            f"simulate: weights into a neuron of {'.'.join(place)} add up to {largest:.0f} quanta; float32 is exact "
            "only below 2^24 quanta, so these sums are integers, which have no derivative; pass larger quanta, "
            f"build(quantum={quanta}), or build(dtype='float64')"
        )

    return jax.tree.map(lambda x: undifferentiated(x) if _is_float(x) else x, tree)


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(jnp.result_type(x), np.floating)
