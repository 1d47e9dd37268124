# SPDX-License-Identifier: Apache-2.0
"""Weights and sums that a run cannot add up: an error where they are known, NaN where they are traced."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer, directly
from ...errors import NetworkError
from ..plan.pending import NO_SUM, beyond, fit, in_place_of, largest_load, room_by_row
from ..plan.plan import Plan
from ..plan.quantum import LARGEST_SUM
from ..state import NetworkState
from .params import loop_of
from .quanta import Receptor, is_float, loads_of

__all__ = ["Doubts", "check_sums", "doubts", "resolved"]

Array = Any
_HALF = 2**30  # quanta: sums of a run, and those that waited before it, then fit 32 bits together
_SLACK = 2**7  # by how much float32 rounds sums below 2^31


def check_sums(plan: Plan, state: NetworkState, given: Container[str]) -> None:
    """Raise if sums of a state are of another dtype than those of states, or would change it in a loop."""
    usual, advice = np.dtype(plan.dtype), "" if plan.dtype == "float32" else "'float64'"
    weights = {(p.target, p.receptor): p.name for p in plan.projections if p.name in given}
    for name, receptor in plan.receptors():
        where = f"simulate: state.arriving[{name!r}][{receptor!r}] is"
        sums = state.arriving[name][receptor]
        dtype = sums.dtype if hasattr(sums, "dtype") else np.asarray(sums).dtype
        if dtype != np.int32 and not (is_float(sums) and jnp.promote_types(dtype, usual) == dtype):
            raise NetworkError(f"{where} {dtype}; pass quanta as int32, or as {usual}: state.with_floats({advice})")
        if dtype == np.int32 and (name, receptor) in weights and (loop := loop_of(sums)):
            raise NetworkError(
                f"{where} int32 in a loop ({loop}), but with weights of {weights[name, receptor]} in params sums leave "
                f"as {usual}, and a loop must not change dtypes; begin it with state.with_floats({advice})"
            )


@dataclass(frozen=True)
class Doubts:
    """Weights and sums that are traced: whether a run can add them up is known when it runs."""

    plan: Plan
    weights: Sequence[str]
    sums: Sequence[Receptor]

    @directly
    def fine(self, state: NetworkState, weights: Mapping[str, Array]) -> Array | None:
        """Say whether weights are finite, also in quanta, and sums of a state not too large; None if that is known."""
        quanta = {p.name: self.plan.population(p.target).quanta[p.receptor] for p in self.plan.projections}
        numbers = ((jax.lax.stop_gradient(weights[name]), quanta.get(name, 1)) for name in self.weights)
        fine = [jnp.isfinite(x / quantum).all() for x, quantum in numbers]
        fine += [fit(state.arriving[place[0]][place[1]], _room(self.plan, place)) for place in self.sums]
        return functools.reduce(jnp.logical_and, fine) if fine else None


def resolved(fine: Array | None, after: NetworkState, filled: Any) -> Any:
    """Return a state and records: unless they are fine, floats are NaN, and sums that are integers `NO_SUM`."""
    if fine is None:
        return after, filled
    others, filled = in_place_of(fine, (replace(after, arriving={}), filled))
    return replace(others, arriving=in_place_of(fine, after.arriving, NO_SUM)), filled


def doubts(plan: Plan, given: Mapping[str, Array], state: NetworkState, floats: Container[Receptor]) -> Doubts:
    """Raise if a weight that is given is not finite, or a sum too large; return what is traced.

    Sums of the receptors in `floats` cannot be too large.
    """
    for p in plan.projections:
        if p.name in given and not isinstance(given[p.name], Tracer):
            _check_weights(p.name, given[p.name], plan.population(p.target).quanta[p.receptor])
    for one in plan.couplings:
        if one.name in given and not isinstance(given[one.name], Tracer):
            _check_weights(one.name, given[one.name], np.dtype(plan.dtype).type(1))
    traced = []
    for place in plan.receptors():
        sums = state.arriving[place[0]][place[1]]
        if place in floats:
            continue
        if isinstance(sums, Tracer):
            traced.append(place)
        elif np.any(sums):
            _check_room(place, np.asarray(sums), _room(plan, place))
    return Doubts(plan, [name for name, weights in given.items() if isinstance(weights, Tracer)], traced)


def _check_weights(name: str, weights: Array, quantum: np.floating[Any]) -> None:
    numbers = np.asarray(weights)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(numbers / quantum)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        found = f"simulate: params[{name!r}]: element [{place}] is {numbers[place]:g} in {numbers.dtype}"
        if np.isfinite(numbers[place]):
            raise NetworkError(
                f"{found}, but sums are {numbers.dtype} numbers of quanta of {quantum:g}; build the network with a "
                "larger weight, or with quantum="
            )
        raise NetworkError(f"{found}; pass finite numbers")


def _check_room(place: Receptor, sums: Array, room: Array) -> None:
    if (wrong := beyond(sums, room)).any():
        row, neuron = (int(k[0]) for k in np.nonzero(wrong))
        name, receptor = place
        raise NetworkError(
            f"simulate: state.arriving[{name!r}][{receptor!r}]: {sums[row, neuron]} quanta wait for neuron {neuron}; "
            "with the weights of this network they may leave 32 bits; pass floats: state.with_floats()"
        )


def _room(plan: Plan, place: Receptor) -> Array:
    """Return how large |sums| of a state may be: then none leaves 32 bits later. int32 (rows, neurons) or (1, neurons).

    The row that arrives k steps after the next one still gets weights of delays up to k.
    """
    if largest_load(plan, *place) < _HALF - _SLACK:
        return plan.fact("room", place, lambda: (LARGEST_SUM - _SLACK - loads_of(plan, place))[None].astype(np.int32))
    return room_by_row(plan, place)
