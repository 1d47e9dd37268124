# SPDX-License-Identifier: Apache-2.0
"""What the sums of each receptor are: floats where these are exact or weights are given, else integers of 32 bits."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError
from ..plan.graded import delivered_at_most
from ..plan.pending import largest_load, plastic_into
from ..plan.plan import Plan, SynapsePlan
from ..plan.projections import projection_of
from ..state import NetworkState

__all__ = [
    "Receptor",
    "dtypes_after",
    "dtypes_of_sums",
    "exact_in_floats",
    "fractional",
    "in_dtypes",
    "in_quanta",
    "in_quanta_of",
    "into",
    "is_float",
    "loads_of",
]

Array = Any
Receptor = tuple[str, str]  # population and name
_EXACT = 2**24  # whole numbers up to here are exact in float32


def in_quanta_of(plan: Plan, state: Any) -> Any:
    """Return a state whose sums are in the quanta of a plan: those in others become floats, and keep their value."""
    if not isinstance(state, NetworkState) or state.quanta in (None, plan.quanta):
        return state
    before = {(name, receptor): quantum for name, receptor, quantum in state.quanta}
    arriving = {name: dict(sums) for name, sums in state.arriving.items()}
    for name, receptor, quantum in plan.quanta:
        found = before.get((name, receptor), quantum)
        sums: Any = arriving.get(name, {}).get(receptor)
        if found != quantum and hasattr(sums, "dtype") and (is_float(sums) or sums.dtype == np.int32):
            dtype = sums.dtype if is_float(sums) else plan.dtype
            own = jnp.asarray(sums).astype(dtype)
            arriving[name][receptor] = new = own * np.asarray(found / quantum, np.float64).astype(dtype)
            if _overflows(own, new):
                raise NetworkError(
                    f"simulate: the sums of what arrives in {name} by {receptor} are in quanta of {found:g} in the "
                    f"state, and too large for {dtype} in quanta of {quantum:g}, which are those of the network"
                )
    return replace(state, arriving=arriving, quanta=plan.quanta)


def _overflows(before: Array, after: Array) -> bool:
    """Say whether sums became infinite or NaN that were not."""
    return not isinstance(after, Tracer) and bool((jnp.isfinite(before) & ~jnp.isfinite(after)).any())


def fractional(plan: Plan, given: Container[str], state: NetworkState) -> set[Receptor]:
    """Return the receptors whose sums need not be whole numbers of quanta.

    These are those of projections whose weights are `given`, and those where a state has floats.
    """
    of_state = {place for place in plan.receptors() if is_float(state.arriving[place[0]][place[1]])}
    return of_state | {(p.target, p.receptor) for p in plan.projections if p.name in given}


def dtypes_of_sums(plan: Plan) -> dict[Receptor, str]:
    """Return the dtype in which a run adds up what arrives, by receptor."""
    return {place: plan.dtype if exact_in_floats(plan, place) else "int32" for place in plan.receptors()}


def dtypes_after(plan: Plan, floats: Container[Receptor], state: NetworkState) -> dict[Receptor, Any]:
    """Return the dtypes in which sums leave a run from a state: integers do so as floats if they must be."""
    sums = {(name, receptor): state.arriving[name][receptor] for name, receptor in plan.receptors()}
    return {
        place: plan.dtype if place in floats and not is_float(one) else jnp.result_type(one)
        for place, one in sums.items()
    }


def exact_in_floats(plan: Plan, place: Receptor) -> bool:
    """Say whether all sums into a receptor are exact in the floats of a plan: those of float64 always are."""
    return plan.dtype == "float64" or largest_load(plan, *place) < _EXACT


def in_quanta(plan: Plan, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return the weights of all projections in quanta: whole numbers, but those that are given are not rounded."""
    quanta = {p.name: plan.population(p.target).quanta[p.receptor] for p in plan.projections}
    return {s.name: given[s.name] / quanta[s.name] if s.name in given else s.weights for s in plan.synapses}


def in_dtypes(plan: Plan, weights: Mapping[str, Array], dtypes: Mapping[Receptor, str]) -> dict[str, Array]:
    """Return the weights of all projections in the dtypes of their receptors, and those of couplings."""
    found = {p.name: jnp.asarray(weights[p.name]).astype(dtypes[p.target, p.receptor]) for p in plan.projections}
    return found | {one.name: jnp.asarray(weights[one.name]) for one in plan.couplings}


def is_float(x: Array) -> bool:
    """Say whether an array has floats."""
    return bool(jnp.issubdtype(jnp.result_type(x), np.floating))


def loads_of(plan: Plan, place: Receptor) -> Array:
    """Return the largest sum of what is delivered to each neuron of a receptor, in quanta: float64 (neurons,)."""
    loads = np.zeros(plan.population(place[0]).size)
    for s in into(plan, place):
        weights = np.abs(np.broadcast_to(s.weights, s.targets.shape).astype(float))
        weights = delivered_at_most(weights, plan.reach(s.source, projection_of(s).least))
        loads += np.bincount(s.targets, weights, loads.size)
    for one in plastic_into(plan, *place):
        loads += one.loads(plan.population(place[0]).quanta[place[1]])
    return loads


def into(plan: Plan, place: Receptor) -> Iterator[SynapsePlan]:
    """Yield the synapses into a receptor."""
    return (plan.synapses[k] for k, p in enumerate(plan.projections) if (p.target, p.receptor) == place)
