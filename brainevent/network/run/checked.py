# SPDX-License-Identifier: Apache-2.0
"""Numbers that a user gives to a simulation, as arrays that engines take: or what is wrong with them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError, did_you_mean
from ...event.room import check_room
from ...scalar.primitives import flushed
from ..description.exact import refuse_rounded
from ..description.units import plain, unit_of, weights_unit
from ..plan.build import wirings_of
from ..plan.connections import in_one_part
from ..plan.couplings import CouplingPlan
from ..plan.matrices import shapes_of_weights, weights_of_matrix
from ..plan.pending import check_pending
from ..plan.plan import Link, Plan, PopulationPlan
from ..plan.plastic import PlasticPlan
from ..plan.quantum import SMALLEST
from ..plan.replaced import Weights, weights_as_built
from ..state import GROUPS, NetworkState, like_state
from .neurons import Label, Neurons, found_neurons, shown_label, split_label
from .of_parts import PartValues, refuse_one_for_all
from .requests import found_link

__all__ = [
    "as_dtype",
    "check_bounds",
    "checked_inputs",
    "checked_state",
    "checked_weights",
    "first_weights",
    "found_receptor",
    "given_weights",
    "going_on",
    "refuse_infinite",
    "refuse_nan",
    "split_plastic",
    "split_values",
    "values_of_part",
    "weights_to_set",
]

Array = Any
Arrays = Mapping[str, Mapping[str, Array]]
_TAKEN = {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}  # kinds of dtypes that a kind takes


def as_dtype(where: str, value: Any, dtype: Any, unit: Any = None, hint: str = "", exact: Any = None) -> Array:
    """Return numbers, without their unit, in a dtype of the form: none is NaN, or changes but for rounding of floats.

    `exact` is another dtype that must not round integers.
    """
    value = plain(where, value, unit)
    if isinstance(value, Tracer):
        raise NetworkError(
            f"{where}: found an array that JAX traces; within jax.jit, jax.vmap and jax.grad, call be.simulate instead "
            "of methods of the simulation"
        )
    if np.ma.is_masked(value):
        raise NetworkError(f"{where}: has masked elements; pass numbers (values.filled(0))")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    dtype = np.dtype(dtype)
    if array.dtype.kind not in _TAKEN[dtype.kind]:
        kind = {"b": "booleans", "f": "real numbers"}.get(dtype.kind, "integers")
        raise NetworkError(f"{where}: found {_shown(value, array)}; pass {kind}, which become {dtype}{hint}")
    refuse_nan(where, array)
    with np.errstate(over="ignore"):
        new = array.astype(dtype)
    if dtype.kind == "f":
        beyond = np.isinf(new) & np.isfinite(array)
    elif dtype.kind == "b":
        beyond = np.zeros(array.shape, bool)
    else:
        beyond = (array < np.iinfo(dtype).min) | (array > np.iinfo(dtype).max)
    if beyond.any():
        raise NetworkError(f"{where}: {array[beyond][0]} does not fit in {dtype}; pass numbers that do")
    refuse_rounded(where, array, exact or dtype)
    return new


def split_values(
    population: PopulationPlan, values: Mapping[str, Any], what: str = "set"
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the new parameters and the new states of `Simulation.set`, checked; errors begin with `what`."""
    params, states = {}, {}
    for name, value in values.items():
        where = f"{what}: {name} of {population.name}"
        if name in population.params and name in population.state:
            raise NetworkError(f"{where} is a parameter and a state; give one of them another name in the rule")
        if name in population.params:
            params[name] = _param(where, population, name, value)
        elif name in population.state:
            array = as_dtype(
                where, value, population.state[name].dtype, unit_of(population.name, population.units, name)
            )
            states[name] = _spread(where, population, array)
        else:
            names = [*population.params, *population.state]
            raise NetworkError(
                f"{what}: {population.name} has no {name!r}{did_you_mean(name, names)}; "
                f"parameters: {', '.join(population.params) or 'none'}; states: {', '.join(population.state) or 'none'}"
            )
    return params, states


def weights_to_set(plan: Plan, link: Link, values: Mapping[str, Any], unit: Any, what: str = "set") -> Array:
    """Return the new weights of `Simulation.set`: float64, () or (synapses,); `unit` is their unit."""
    for name in values:
        if name != "weights":
            guess = did_you_mean(name, ["weights"])
            kind = "coupling" if isinstance(link, CouplingPlan) else "projection"
            raise NetworkError(f"{what}: {link.name} has no {name!r}{guess}; only the weights of a {kind} can be set")
    if "weights" not in values:
        raise NetworkError(f"{what}: weights of {link.name} are missing; pass weights=")
    return checked_weights(what, plan, link, values["weights"], unit)


def checked_weights(what: str, plan: Plan, link: Link, value: Any, unit: Any) -> Array:
    """Return new weights of a link or coupling: float64, () or (synapses,); `unit` is their unit."""
    where = f"{what}: weights of {link.name}"
    array = as_dtype(where, value, np.float64, unit, exact=plan.dtype)
    array = weights_of_matrix(where, in_one_part(plan), link, array)
    if array.shape not in ((), (1,), (link.entries,)):
        shapes = shapes_of_weights(plan, link, array.shape)
        raise NetworkError(f"{where} have the shape {array.shape}; pass a number, or an array {shapes}")
    if not np.isfinite(array).all():
        raise NetworkError(f"{where}: {_where_true(np.isinf(array))}is infinite; pass finite numbers")
    return array.reshape(()) if array.shape == (1,) else array


def split_plastic(
    plan: Plan, name: str, values: Mapping[str, Any], what: str = "set"
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the new parameters of a plastic projection, and its new weights, as "w", and states, checked."""
    plastic = plan.plastic_by_name[name]
    unit = unit_of(plastic.target, plan.population(plastic.target).units, plastic.receptor)
    params, states = {}, {}
    for key, value in values.items():
        where = f"{what}: {key} of {name}"
        if key in plastic.rules.params:
            params[key] = _plastic_param(where, plastic, key, value)
        elif key == "weights" or key in plastic.rules.states:
            array = as_dtype(where, value, plan.dtype, unit if key == "weights" else None)
            if array.shape not in ((), (1,), (plastic.entries,)):
                raise NetworkError(
                    f"{where} has the shape {array.shape}; pass a number, or an array ({plastic.entries},) in the "
                    "order of connections"
                )
            refuse_infinite(where, array)
            if key == "weights":
                check_bounds(where, plastic, array)
            states["w" if key == "weights" else key] = flushed(np.broadcast_to(array, plastic.entries))
        else:
            names = ["weights", *plastic.rules.params, *plastic.rules.states]
            guess = "; did you mean 'weights'?" if key == "w" else did_you_mean(key, names)
            if key in ("low", "high"):
                guess = ", which is part of its rules; build a network with other bounds"
            raise NetworkError(
                f"{what}: {name} has no {key!r}{guess}; parameters: "
                f"{', '.join(plastic.rules.params) or 'none'}; of its synapses: weights"
                f"{''.join(f', {state}' for state in plastic.rules.states)}"
            )
    return params, states


def check_bounds(where: str, plastic: PlasticPlan, weights: Array) -> None:
    """Raise if weights, of which some may be NaN, are not within the bounds of a plastic projection."""
    low, high = plastic.rules.bounds
    wrong = (weights < low) | (weights > high)
    if wrong.any():
        raise NetworkError(
            f"{where}: {_where_true(wrong)}is {weights[wrong].flat[0]:g}, outside of low={low:g} to high={high:g} of "
            "its plasticity; pass weights within them"
        )


def _plastic_param(where: str, plastic: PlasticPlan, name: str, value: Any) -> Array:
    before = plastic.rules.params[name]
    array = as_dtype(where, value, before.dtype)
    if array.shape not in ((), (1,)):
        raise NetworkError(f"{where} has shape {array.shape}; pass a number, the same for all synapses")
    refuse_infinite(where, array)
    if name == "dt" and np.any(array != before):
        raise NetworkError(f"{where} is the time step of the network, {before:g} ms; build a network with another dt")
    return array.reshape(())


def checked_inputs(plan: Plan, inputs: Mapping[Label, Any] | None, steps: int) -> dict[tuple[str, str], Array]:
    """Return `inputs=` by population and receptor, in the dtype of the plan: (steps, neurons) or (steps, 1).

    Those of parts of a population, and of all of it, add up.
    """
    checked: dict[tuple[str, str], Array] = {}
    if inputs is not None and not isinstance(inputs, Mapping):
        raise NetworkError(f"inputs: found {type(inputs).__name__}; pass {{'population.receptor': array}}")
    for label, value in (inputs or {}).items():
        neurons, receptor = found_receptor(plan, label)
        population, where = neurons.population, f"inputs: {shown_label(label)!r}"
        array = as_dtype(where, value, plan.dtype, unit_of(population.name, population.units, receptor))
        array = array[:, None] if array.ndim == 1 else array
        if array.shape not in ((steps, neurons.size), (steps, 1)):
            raise NetworkError(
                f"{where} has shape {np.shape(value)}; pass ({steps}, {neurons.size}), a row for each "
                f"step, or ({steps},), the same for all neurons"
            )
        refuse_infinite(where, array)
        place = population.name, receptor
        before = checked.get(place)
        checked[place] = (
            _added(where, neurons, before, array) if before is not None or neurons.numbers is not None else array
        )
    return checked


def _added(where: str, neurons: Neurons, before: Array | None, rows: Array) -> Array:
    """Return inputs of a population, with those of some neurons added to them."""
    size, (steps, dtype) = neurons.population.size, (len(rows), rows.dtype)
    check_room("run", f"inputs of {steps} steps and {size} neurons", steps * size * dtype.itemsize, on_host=True)
    whole = np.zeros((steps, size), dtype)
    if before is not None:
        whole += before
    with np.errstate(over="ignore"):
        if neurons.numbers is None:
            whole += rows
        else:
            whole[:, neurons.numbers] += rows
    refuse_infinite(f"{where} and other inputs of its neurons, added up", whole)
    return whole


def found_receptor(plan: Plan, label: Label) -> tuple[Neurons, str]:
    """Return the neurons and the receptor that an input names, or raise."""
    owner, receptor = split_label(label)
    shown = shown_label(label)
    if owner == "":
        first = next((f"{name}.{receptor}" for name, receptor in plan.receptors()), "population.receptor")
        raise NetworkError(f"inputs: {label!r} names no receptor; pass for example {first!r}")
    neurons = found_neurons(plan, f"inputs: {shown!r}", owner)
    quanta, name = neurons.population.quanta, neurons.population.name
    if receptor not in quanta:
        guess = did_you_mean(receptor, quanta)
        there = ", ".join(quanta) or "none"
        raise NetworkError(f"inputs: {name} has no receptor {receptor!r}{guess}; receptors: {there}")
    return neurons, receptor


def values_of_part(part: PartValues, what: str = "set") -> dict[str, Array]:
    """Return the values of a part by name, checked: () or one for each of its neurons; errors begin with `what`."""
    neurons, found = part.neurons, {}
    population, size = neurons.population, neurons.size
    for name, value in part.values.items():
        own = population.params.get(name, population.state.get(name))
        if own is None or name == "dt" or (name in population.params and name in population.state):
            split_values(population, {name: value}, what)  # raises, but for the time step as it is
            continue
        where = f"{what}: {name} of {part.label}"
        if not np.ndim(own):
            refuse_one_for_all(where, name, neurons)
        exact = population.rule.as_floats.get(name) if name in population.params else None
        array = as_dtype(where, value, own.dtype, unit_of(population.name, population.units, name), exact=exact)
        if array.shape not in ((), (1,), (size,)):
            raise NetworkError(f"{where} has shape {array.shape}; pass a number or an array ({size},)")
        found[name] = array
    return found


def refuse_nan(where: str, array: Array) -> None:
    """Raise if a number is NaN, in an array of any dtype."""
    if array.dtype.kind not in "biuUSO" and (wrong := np.isnan(array)).any():
        raise NetworkError(f"{where}: {_where_true(wrong)}is NaN; pass numbers")


def refuse_infinite(where: str, array: Array) -> None:
    """Raise if a number, which is not NaN, is not finite."""
    if not np.isfinite(array).all():
        raise NetworkError(f"{where}: {_where_true(np.isinf(array))}is infinite; pass finite numbers")


def checked_state(plan: Plan, state: NetworkState, where: str) -> NetworkState:
    """Return a state as arrays of NumPy, if it has the layout of the plan; else raise."""
    if not isinstance(state, NetworkState):
        raise NetworkError(f"{where}: found {type(state).__name__}; pass a state such as that of sim.state")
    neurons = {p.name: {key: (array.dtype, array.shape) for key, array in p.state.items()} for p in plan.populations}
    arriving = {
        p.name: {key: (np.dtype(np.int32), (plan.rows(p.name, key), p.size)) for key in p.quanta}
        for p in plan.populations
    }
    if state.quanta is not None and [tuple(one[:2]) for one in state.quanta] != list(plan.receptors()):
        raise NetworkError(f"{where}: its quanta are {state.quanta}; pass a state of this network, or quanta=None")
    for name, receptor, quantum in state.quanta or ():
        if not SMALLEST <= quantum <= np.finfo(np.float32).max:  # NaN neither
            raise NetworkError(f"{where}: the quantum of {name}.{receptor} is {quantum}; pass a positive number")
    step = np.asarray(state.step)
    if step.shape != () or step.dtype.kind not in "iu" or not 0 <= int(step) < 2**32:
        raise NetworkError(f"{where}: step is {step}; pass an integer from 0 to {2**32 - 1}")
    plastic = {}
    like = like_state(plan)
    for group in GROUPS:
        expected = {
            name: {key: (array.dtype, array.shape) for key, array in parts.items()}
            for name, parts in getattr(like, group).items()
        }
        plastic[group] = _fitting(f"{where}: {group}", getattr(state, group), expected, "name")
    for name, one in plan.plastic_by_name.items():
        check_bounds(f"{where}: synapses: w of {name}", one, plastic["synapses"][name]["w"])
    return NetworkState(
        np.uint32(step),
        _fitting(where, state.neurons, neurons),
        _fitting(f"{where}: arriving", state.arriving, arriving),
        state.quanta,
        **plastic,
    )


def _fitting(
    where: str, given: Arrays, expected: Mapping[str, Mapping[str, tuple[Any, Any]]], what: str = "population"
) -> Arrays:
    found: dict[str, dict[str, Array]] = {}
    for name, parts in expected.items():
        if set(given.get(name, ())) != set(parts):
            there = ", ".join(given.get(name, ())) or "nothing"
            own = ", ".join(parts) or "nothing"
            raise NetworkError(f"{where}: {name} has {there}, but here it has {own}; pass a state of this network")
        found[name] = {}
        for key, (dtype, shape) in parts.items():
            array = np.asarray(given[name][key])
            if (array.dtype, array.shape) != (dtype, shape):
                raise NetworkError(
                    f"{where}: {name}.{key} is {array.dtype} {array.shape}, but here {dtype} {shape}; "
                    "pass a state of this network"
                )
            found[name][key] = array
    if extra := [name for name in given if name not in expected]:
        raise NetworkError(f"{where}: there is no {what} {extra[0]!r}; {what}s: {', '.join(expected) or 'none'}")
    return found


def _param(where: str, population: PopulationPlan, name: str, value: Any) -> Array:
    before = population.params[name]
    hint = f", or build the network with floats such as {float(before.flat[0])}" if before.dtype.kind in "iu" else ""
    unit = unit_of(population.name, population.units, name)
    array = as_dtype(where, value, before.dtype, unit, hint, population.rule.as_floats.get(name))
    if name == "dt" and np.any(array != before):
        raise NetworkError(f"{where} is the time step of the network, {before:g} ms; build a network with another dt")
    if np.ndim(before):
        return _spread(where, population, array)
    if array.shape not in ((), (1,)):
        raise NetworkError(
            f"{where} has shape {array.shape}, but was built as one number for all neurons; pass a number, or build "
            f"the network with an array ({population.size},)"
        )
    return array.reshape(())


def _spread(where: str, population: PopulationPlan, array: Array) -> Array:
    if array.shape not in ((), (1,), (population.size,)):
        raise NetworkError(f"{where} has shape {array.shape}; pass a number or an array ({population.size},)")
    return np.broadcast_to(array, population.size).copy()


def _shown(value: Any, array: Array) -> str:
    return repr(value) if not array.ndim else f"{type(value).__name__} of {array.dtype}"


def _where_true(wrong: Array) -> str:
    """Return "[3, 0] " for the first place of an array, nothing for a number."""
    return f"element {[int(index[0]) for index in np.nonzero(wrong)]} " if wrong.ndim else ""


def first_weights(plan: Plan, network: Any) -> Weights:
    """Return the weights of a build, from a description or None."""
    return weights_as_built(plan, None if network is None else functools.cache(lambda: wirings_of(network, plan)))


def given_weights(weights: Weights, name: str, values: Mapping[str, Any], what: str = "set") -> dict[str, Array]:
    """Return the new weights of a projection or coupling, checked, by its name; nothing if they are those of now."""
    about = found_link(weights.plan, what, name)
    unit = unit_of(about.target, weights.plan.population(about.target).units, about.receptor)
    if isinstance(about, CouplingPlan):
        source = weights.plan.population(about.source)
        unit = weights_unit(unit_of(source.name, source.units, about.state), unit)
    given = weights_to_set(weights.plan, about, values, unit, what)
    return {} if weights.has(name, given) else {name: given}


def going_on(
    what: str, weights: Weights, state: NetworkState, quanta: Any, replaced: Mapping[str, Array], *, setting: bool
) -> tuple[Weights, NetworkState]:
    """Return weights, of which some are replaced, and a state in their quanta, in which pending input has its value.

    `quanta` are those of a state that does not have any; errors begin with `what`. With `setting`, quanta become as
    large as they can; else those of the state stay if they can.
    """
    given = quanta if state.quanta is None else state.quanta
    weights, arriving = weights.with_(replaced, state.arriving, given, what, same=not setting)
    if replaced:
        weights.warn()
    if setting:
        check_pending(what, weights.plan, arriving, "pass smaller weights, or set them when no spikes are on their way")
    else:
        check_pending(what, weights.plan, arriving)
    return weights, dataclasses.replace(state, arriving=arriving, quanta=weights.plan.quanta)
