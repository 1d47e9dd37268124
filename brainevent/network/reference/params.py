# SPDX-License-Identifier: Apache-2.0
"""The parameters of a network as one tree: those of its neurons, and the weights of its synapses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer, behind
from ..._units import is_quantity
from ...errors import NetworkError, ShapeError, UnknownNameError, did_you_mean
from ..plan.matrices import shapes_of_weights, weights_of_matrix
from ..plan.numbers import as_numbers, check_whole
from ..plan.plan import Plan
from ..plan.plastic import PlasticPlan
from ..run.checked import refuse_infinite, refuse_nan
from ..state import NetworkState

__all__ = ["as_numbers", "check_mapping", "check_name", "check_names", "check_plain", "check_shape", "given_weights"]
__all__ += ["initial_params", "loop_of", "neuron_params", "plastic_params", "step_holds", "with_initial_weights"]

Array = Any
Params = Mapping[str, Any]


def initial_params(plan: Plan) -> dict[str, Any]:
    """Return the parameters with which a network was built.

    Args:
        plan: The network.

    Returns:
        By population the parameters by name, each () or (neurons,); by projection or coupling its weights, floats (1,)
        if it has one for all, else (entries,) in the order of the plan, in the unit of what arrives; by plastic
        projection the weights of the build, as "weights", and the parameters of its rules.

    Examples:
        >>> from brainevent.network.plan.plan import Plan
        >>> initial_params(Plan((), (), 0.1, 0, 1, ""))
        {}
    """
    weights = {
        s.name: s.weights.astype(plan.dtype) * plan.population(s.target).quanta[s.receptor] for s in plan.synapses
    }
    coupled = {one.name: one.weights for one in plan.couplings}
    plastic = {one.name: {"weights": one.synapses.in_order()["w"], **one.rules.params} for one in plan.plastic}
    return {**{p.name: dict(p.params) for p in plan.populations}, **weights, **coupled, **plastic}


def neuron_params(plan: Plan, params: Params) -> dict[str, dict[str, Array]]:
    """Return all parameters of neurons: the given ones, checked, and the initial ones of what is not given."""
    result = {p.name: dict(p.params) for p in plan.populations}
    for p in plan.populations:
        own = params.get(p.name, {})
        given = {
            key: as_numbers(f"params[{p.name!r}][{key!r}]", x, p.params[key].dtype, p.rule.as_floats.get(key))
            for key, x in own.items()
        }
        for key, value in given.items():
            check_shape(f"params[{p.name!r}][{key!r}]", value, ((), (p.size,)))
        result[p.name] |= {key: _as_step(key, value, p.params[key]) for key, value in given.items()}
    return result


def plastic_params(plan: Plan, params: Params) -> dict[str, dict[str, Array]]:
    """Return all parameters of plastic projections, checked."""
    result: dict[str, dict[str, Array]] = {one.name: dict(one.rules.params) for one in plan.plastic}
    for one in plan.plastic:
        for key in [key for key in params.get(one.name, {}) if key != "weights"]:
            value = as_numbers(f"params[{one.name!r}][{key!r}]", params[one.name][key], plan.dtype)
            check_shape(f"params[{one.name!r}][{key!r}]", value, ((),))
            result[one.name][key] = _as_step(key, value, one.rules.params[key])
    return result


def with_initial_weights(plan: Plan, params: Params, state: NetworkState) -> tuple[NetworkState, Array | None]:
    """Return a state with the weights of plastic synapses that `params` give; only one before step 0 takes others.

    All weights are within the bounds of their projection. Where that is known when the call is made, others raise; else
    a bool comes with the state that says whether all is fine.
    """
    synapses, fine = dict(state.synapses), list[Array]()
    for one in plan.plastic:
        before = synapses[one.name]["w"]
        if "weights" not in params.get(one.name, {}):
            fine += _within_bounds(f"state.synapses[{one.name!r}]['w']", one, before, beyond=True)
            continue
        where = f"params[{one.name!r}]['weights']"
        given = as_numbers(where, params[one.name]["weights"], plan.dtype)
        check_shape(where, given, ((one.entries,),))
        fine += _within_bounds(where, one, given, beyond=False)
        if loop := loop_of(before):
            _refuse_weights(where, one.name, f"in a loop of JAX ({loop})")
        if any(isinstance(x, Tracer) for x in (given, before, state.step)):
            fine.append((jnp.asarray(state.step) == 0) | (jnp.asarray(given) == before).all())
        elif int(state.step) and not np.array_equal(given, before, equal_nan=True):
            _refuse_weights(where, one.name, f"after step {int(state.step)}")
        synapses[one.name] = {**synapses[one.name], "w": given}
    return replace(state, synapses=synapses), jnp.array(fine).all() if fine else None


def _within_bounds(where: str, plastic: PlasticPlan, weights: Array, *, beyond: bool) -> list[Array]:
    """Raise if weights that are known are not within bounds; else return whether they are: nothing, or one bool.

    With `beyond`, NaN is fine: a rule may have returned it in a step before.
    """
    low, high = plastic.rules.bounds

    def wrong_of(x: Array) -> Array:
        return (x < low) | (x > high) if beyond else ~((x >= low) & (x <= high))

    known = behind(weights)
    if isinstance(known, Tracer):
        return [~wrong_of(weights).any()]
    numbers = np.asarray(known)
    if (wrong := wrong_of(numbers)).any():
        at = f"element [{int(np.flatnonzero(wrong)[0])}] " if wrong.ndim == 1 else ""  # else of which batch, too
        raise NetworkError(
            f"simulate: {where}: {at}is {numbers[wrong][0]:g}, outside of low={low:g} to high={high:g} of its "
            "plasticity; pass weights within them"
        )
    return []


def _refuse_weights(where: str, name: str, when: str) -> NoReturn:
    raise NetworkError(
        f"simulate: {where}: {when} the weights of plastic synapses are part of the state, "
        f"state.synapses[{name!r}]['w'], and these would replace what they have become; leave them out of params, or "
        "replace those of the state"
    )


def loop_of(x: Array) -> str | None:
    """Return the name of the loop of JAX that carries a traced array; None if there is none, or JAX does not tell."""
    frame = getattr(getattr(x, "_trace", None), "frame", None)
    name = getattr(getattr(frame, "debug_info", None), "traced_for", None)
    return name if name in ("fori_loop", "scan", "while_body") else None


def given_weights(plan: Plan, params: Params) -> dict[str, Array]:
    """Return the weights that are given, checked: floats of the plan, (1,) or (entries,), also those of matrices."""
    found = {}
    for p in plan.links():
        if p.name in params:
            where, value = f"params[{p.name!r}]", params[p.name]
            check_plain(where, value)
            dtype = getattr(value, "dtype", np.dtype(plan.dtype))
            if not any(jnp.issubdtype(dtype, kind) for kind in (np.floating, np.integer, np.bool_)):
                raise NetworkError(f"simulate: {where} is {dtype}; pass real numbers")
            _check_known(where, value)
            check_whole(where, value, plan.dtype)
            with np.errstate(over="ignore"):  # what becomes infinite is refused where it is known
                weights = jnp.asarray(value, plan.dtype)
            given = weights_of_matrix(f"simulate: {where}", plan, p, weights)
            if given.shape not in ((), (1,), (p.entries,)):
                shapes = f"(), (1,), {shapes_of_weights(plan, p, given.shape)}"
                raise ShapeError(f"simulate: {where} has shape {given.shape}; pass {shapes}")
            found[p.name] = given if given.ndim else given.reshape(1)
    return found


def check_names(plan: Plan, params: Params) -> None:
    """Raise unless all populations, projections, couplings and parameters that are named exist."""
    check_mapping("params", params)
    for name in params:
        known = [*(p.name for p in plan.populations), *(link.name for link in plan.links()), *plan.plastic_by_name]
        check_name("params", name, known)
    for link in plan.links():
        if isinstance(params.get(link.name), Mapping):
            raise NetworkError(
                f"simulate: params[{link.name!r}] is {type(params[link.name]).__name__}; pass its weights: a number or "
                "an array, without a name"
            )
    for p in plan.populations:
        own = params.get(p.name, {})
        check_mapping(f"params[{p.name!r}]", own)
        for key, value in own.items():
            check_name(f"params[{p.name!r}]", key, p.params)
            check_plain(f"params[{p.name!r}][{key!r}]", value)
            _check_known(f"params[{p.name!r}][{key!r}]", value, may_be_infinite=True)
            _check_step(f"params[{p.name!r}][{key!r}]", key, value, p.params[key])
    for one in plan.plastic:
        own = params.get(one.name, {})
        check_mapping(f"params[{one.name!r}]", own, ", such as {'weights': ...}")
        for key, value in own.items():
            check_name(f"params[{one.name!r}]", key, ["weights", *one.rules.params])
            check_plain(f"params[{one.name!r}][{key!r}]", value)
            _check_known(f"params[{one.name!r}][{key!r}]", value)
            if key != "weights":
                _check_step(f"params[{one.name!r}][{key!r}]", key, value, one.rules.params[key])


def _check_known(where: str, value: Any, *, may_be_infinite: bool = False) -> None:
    """Raise for numbers that `Simulation.set` refuses, too: NaN and, unless they may be, infinite ones; if known."""
    if isinstance(value, Tracer):
        return
    numbers = np.asarray(value)
    refuse_nan(f"simulate: {where}", numbers)
    if not may_be_infinite and numbers.dtype.kind not in "USO":
        refuse_infinite(f"simulate: {where}", numbers)


def _check_step(where: str, key: str, value: Any, step: Array) -> None:
    """Raise for another time step than that of the network, where it is known."""
    known = behind(value)
    if key == "dt" and not isinstance(known, Tracer) and np.any(np.asarray(known, step.dtype) != step):
        raise NetworkError(
            f"simulate: {where} is the time step of the network, {step:g} ms; build a network with another dt"
        )


def _as_step(key: str, value: Array, step: Array) -> Array:
    """Return the time step of the network in place of a traced one, with the derivatives of that; else the value."""
    return step + (value - jax.lax.stop_gradient(value)) if key == "dt" and isinstance(value, Tracer) else value


def step_holds(plan: Plan, params: Params, others: Array | None = None) -> Array | None:
    """Return whether traced time steps are that of the network, and others hold; None if that is known.

    Delays, and numbers that models compute, are in steps of the network: results with another step would be wrong.
    """
    owners = [(p.name, p.params) for p in plan.populations] + [(one.name, one.rules.params) for one in plan.plastic]
    fine = [] if others is None else [others]
    for name, built in owners:
        value = params.get(name, {}).get("dt", 0)
        if isinstance(behind(value), Tracer):
            fine.append((jnp.asarray(value, built["dt"].dtype) == built["dt"]).all())
    return jnp.array(fine).all() if fine else None


def check_mapping(where: str, given: Any, hint: str = "") -> None:
    """Raise if what is given by name is not."""
    if not isinstance(given, Mapping):
        raise NetworkError(f"simulate: {where} is {type(given).__name__}; pass values by name: a dictionary{hint}")


def check_name(where: str, name: str, names: Iterable[str]) -> None:
    """Raise if a name does not exist."""
    names = list(names)
    if name not in names:
        guess = did_you_mean(name, names)
        raise UnknownNameError(f"simulate: {where} has no {name!r}{guess}; names: {', '.join(names) or 'none'}")


def check_plain(where: str, value: Any) -> None:
    """Raise if a value has a unit."""
    if is_quantity(value):
        raise NetworkError(f"simulate: {where} has the unit {value.unit}; pass numbers without a unit")


def check_shape(where: str, value: Array, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Raise unless an array has one of the shapes."""
    if value.shape not in shapes:
        raise ShapeError(f"simulate: {where} has shape {value.shape}; pass {' or '.join(map(str, shapes))}")
