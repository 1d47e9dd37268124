# SPDX-License-Identifier: Apache-2.0
"""`run_natively`: a call of `simulate` with a native engine, also with each of the weights that `jax.vmap` maps over.

Native code has the weights and the state of a call exactly; else there is an error, or NaN if JAX traces them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer, runs_at_once
from ...errors import NetworkError
from ..description.units import plain
from ..plan.pending import NO_SUM, check_pending, fit, in_place_of, largest_load, room_by_row
from ..plan.plan import Plan
from ..plan.quantum import LARGEST_SUM
from ..plan.replaced import Weights
from ..run.checked import checked_weights
from ..run.recorded import Wanted
from ..state import NetworkState
from .forward import refuse_derivatives
from .rebuilds import Places, Rebuilds, Rebuilt, Resident
from .sweep import swept

__all__ = ["CallStart", "given_weights", "placed", "run_natively"]

Array = Any
Results = tuple[NetworkState, dict[str, Array]]


def run_natively(
    engine: Engine,
    now: Weights,
    state: NetworkState,
    params: Mapping[str, Any],
    given: Mapping[str, Array],
    keys: Mapping[str, Array],
    steps: int,
    wanted: Wanted,
) -> Results:
    """Return the state after some steps, and what was recorded, with the weights of now where none are in `params`.

    The state, names of parameters and inputs `given` are checked; keys are empty where the engine takes none.
    """

    def run(asked: Sequence[tuple[Mapping[str, Array], Any]]) -> Sequence[Results]:
        for weights, arguments in asked:
            if any(isinstance(one, Tracer) for one in weights.values()):
                return [swept(run, weights, arguments, now.plan.quanta, engine.name)]
        return _run(engine, now, asked, steps, wanted)

    own = {link.name for link in engine.plan.links()} & params.keys()
    weights = {name: params[name] for name in params if name in own}
    neurons = {name: values for name, values in params.items() if name not in own}
    (results,) = run([(weights, (state, neurons, given, keys))])
    return results


def _run(
    engine: Engine, now: Weights, asked: Sequence[tuple[Mapping[str, Array], Any]], steps: int, wanted: Wanted
) -> list[Results]:
    """Run with weights that are not traced, all at once."""
    begun = [placed(engine, now, given_weights(now, weights), state) for weights, (state, *_) in asked]
    starts = [(one.resident, one.state, *rest) for one, (_, (_, *rest)) in zip(begun, asked, strict=True)]
    results = []
    for one, (_, (before, *_)), (after, out) in zip(begun, asked, engine.simulated(starts, steps, wanted), strict=True):
        arriving = {
            name: {key: sums.astype(_dtype(before.arriving[name][key])) for key, sums in receptors.items()}
            for name, receptors in after.arriving.items()
        }
        results.append(one.resolved(dataclasses.replace(after, arriving=arriving), out))
    return results


def _dtype(sums: Array) -> Any:
    """Return the dtype in which sums leave a call that was given some: floats if those were, which hold as much."""
    dtype = jnp.result_type(sums)
    return jnp.promote_types(dtype, np.float32) if jnp.issubdtype(dtype, np.floating) else np.int32


Receptor = tuple[str, str]
_HALF = 2**30  # quanta: sums of a run, and those that waited before it, then fit 32 bits together
_EXACT = 2**-20  # of itself, by which a ratio of quanta may differ from a whole number: those are rounded to float32


class Engine(Places, Protocol):
    """An engine whose native code runs in programs."""

    name: str
    plan: Plan
    rebuilds: Rebuilds
    resident: Any

    def simulated(self, starts: Sequence[Any], steps: int, wanted: Wanted) -> Sequence[Results]:
        """Run some steps from each of several starts: what programs share, state, parameters, inputs and keys."""


@dataclass(frozen=True, eq=False)
class CallStart:
    """What programs share with the weights of a call, and the state before it, in the quanta of these.

    `fine` says whether all sums that are traced are whole numbers of quanta, and cannot leave 32 bits; None if no sum
    is traced.
    """

    resident: Resident
    state: NetworkState
    fine: Array | None

    def resolved(self, after: NetworkState, results: Any) -> tuple[NetworkState, Any]:
        """Return results with NaN in place of floats, and sums that no call takes, if the sums before are not fine."""
        if self.fine is None:
            return after, results
        replaced, results = in_place_of(self.fine, (after, results))
        return dataclasses.replace(replaced, arriving=in_place_of(self.fine, after.arriving, NO_SUM)), results


def given_weights(now: Weights, params: Mapping[str, Any]) -> dict[str, Array]:
    """Return the weights in `params`, none of which is traced, that are not those of now: float64 () or (entries,)."""
    found = {}
    for about in now.plan.links():
        if about.name in params:
            value = plain(f"simulate: params[{about.name!r}]", params[about.name])
            given = checked_weights("simulate", now.plan, about, value, None)
            if not now.has(about.name, given):
                found[about.name] = given
    return found


def placed(engine: Engine, now: Weights, replaced: Mapping[str, Array], state: NetworkState) -> CallStart:
    """Return what a call runs with, whose weights are those of now but for some that are replaced.

    It does what a build with these weights does. If nothing is on its way, that begins with no quanta but its own; else
    with a state that was assigned to it.
    """
    quanta = now.plan.quanta if state.quanta is None else state.quanta
    if [tuple(one[:2]) for one in quanta] != list(now.plan.receptors()):
        raise NetworkError(
            f"simulate: the quanta of the state are {quanta}; pass a state of this network, or quanta=None"
        )
    sums = {place: state.arriving[place[0]][place[1]] for place in now.plan.receptors()}
    # before they become whole numbers, which have no derivatives
    sums = {place: refuse_derivatives(engine.name, x) if isinstance(x, Tracer) else x for place, x in sums.items()}
    known = {place: one if isinstance(one, Tracer) else _whole(place, np.asarray(one)) for place, one in sums.items()}
    traced = [place for place, one in known.items() if isinstance(one, Tracer)]
    rebuilt = engine.rebuilds.of(now, replaced, lambda: _made(now, replaced)) if replaced else None
    if rebuilt is not None:
        rebuilt.weights.warn()
    empty = not any(np.any(one) for place, one in known.items() if place not in traced)
    same = not empty or tuple(quanta) != now.plan.quanta
    ones = _by_name({**known, **{place: np.ones((1, 1), np.int32) for place in traced}})
    of = now if rebuilt is None else rebuilt.in_quanta(quanta) if same else rebuilt.weights
    weights, found = of.with_({}, ones, quanta, "simulate", same=same)
    arriving = {name: dict(receptors) for name, receptors in found.items()}
    factors = {place: int(arriving[place[0]][place[1]][0, 0]) for place in traced}
    for place, factor in factors.items():
        _check_traced(weights.plan, place, sums[place], quanta, weights.parts.get(place, 1), factor)
        arriving[place[0]][place[1]] = np.zeros((1, 1), np.int32)
    check_pending("simulate: state", weights.plan, arriving)
    fine = [_is_fine(weights.plan, place, sums[place], factor) for place, factor in factors.items()]
    after = {place: arriving[place[0]][place[1]] for place in sums}
    after |= {place: _as_whole(sums[place]) * np.int32(factor) for place, factor in factors.items()}
    state = dataclasses.replace(state, arriving=_by_name(after), quanta=weights.plan.quanta)
    return CallStart(_resident(engine, now, weights, rebuilt), state, jnp.stack(fine).all() if fine else None)


def _made(now: Weights, replaced: Mapping[str, Array]) -> Weights:
    """Return weights as a build makes them: with nothing on its way."""
    nothing = {p.name: {receptor: np.zeros((1, 1), np.int32) for receptor in p.quanta} for p in now.plan.populations}
    found, _ = now.with_(replaced, nothing, now.plan.quanta, "simulate", same=False)
    return dataclasses.replace(found, parts={}, plan=found.base)


def _resident(engine: Engine, now: Weights, weights: Weights, rebuilt: Rebuilt | None) -> Any:
    """Return what programs share; in those of JAX that are run at once, rows are operands."""
    if weights.plan is engine.plan:
        return engine.resident
    if rebuilt is None:  # the weights of now, in other quanta
        rebuilt = engine.rebuilds.of(now, {}, lambda: now)
    return engine.rebuilds.resident(engine, rebuilt, weights, as_operands=runs_at_once())


def _whole(place: Receptor, sums: Array) -> Array:
    """Return sums as int32, or raise if they are no whole numbers of quanta."""
    wrong = ~((np.abs(sums.astype(np.float64)) <= LARGEST_SUM) & (sums == np.rint(sums)))
    if wrong.any():
        raise NetworkError(
            f"simulate: state: {sums[wrong][0]} is on its way to {'.'.join(place)}; pass sums that are whole numbers "
            f"of quanta, from {-LARGEST_SUM} to {LARGEST_SUM}"
        )
    return sums.astype(np.int32)


def _as_whole(sums: Array) -> Array:
    """Return traced sums as int32; those that are none, which are not fine, as others."""
    if sums.dtype == np.int32:
        return sums
    return jnp.where(jnp.abs(sums) < 2.0**31, sums, 0).astype(np.int32)


def _is_fine(plan: Plan, place: Receptor, sums: Array, factor: int) -> Array:
    """Say whether traced sums are whole, and a run cannot leave 32 bits with so many times of them."""
    if largest_load(plan, *place) < _HALF:
        room = np.full((1, 1), LARGEST_SUM - largest_load(plan, *place), np.int32)
    else:
        room = room_by_row(plan, place)
    fine = fit(_as_whole(sums), room // np.int32(factor))
    return fine if sums.dtype == np.int32 else fine & (jnp.abs(sums) < 2.0**31).all() & (sums == jnp.rint(sums)).all()


def _check_traced(plan: Plan, place: Receptor, sums: Array, quanta: Any, parts: int, factor: int) -> None:
    """Raise unless traced sums, so many times, are exactly those in the quanta of a plan, and floats are the same."""
    if sums.dtype != np.int32 and not jnp.issubdtype(sums.dtype, np.floating):
        name, receptor = place
        raise NetworkError(
            f"simulate: state.arriving[{name!r}][{receptor!r}] is {sums.dtype}; pass quanta as int32, or as float32: "
            "state.with_floats()"
        )
    before = next(quantum for name, receptor, quantum in quanta if (name, receptor) == place)
    now = float(plan.population(place[0]).quanta[place[1]])
    exact = factor and abs(before / now - factor) <= _EXACT * factor
    if before != now and not (exact and parts.bit_count() == 1):
        raise NetworkError(
            f"simulate: what is on its way to {'.'.join(place)} is traced by JAX, in quanta of {before:g}, which are "
            f"no whole numbers of those of the weights in params, {now * parts:g}; let JAX not trace the state, pass "
            "one that a call with these weights returned, or call sim.set(..., weights=...) and pass sim.state"
        )


def _by_name(found: Mapping[Receptor, Array]) -> dict[str, dict[str, Array]]:
    tree: dict[str, dict[str, Array]] = {}
    for (name, receptor), one in found.items():
        tree.setdefault(name, {})[receptor] = one
    return tree
