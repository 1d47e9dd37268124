# SPDX-License-Identifier: Apache-2.0
"""What calls of `simulate` give: parameters of now where they say none; parts of populations as all neurons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import ShapeError
from ..plan.numbers import as_numbers, check_fit
from ..plan.plan import Plan
from ..run.checked import found_receptor
from ..run.neurons import Label, is_pair, names_part, shown_label, split_label
from ..run.of_parts import PartValues, names_neurons, parted, refuse_one_for_all, replaced_at
from ..run.recorded import Wanted
from ..run.requests import Request, parsed, wanted
from .params import check_mapping, check_name, check_plain, check_shape

__all__ = ["changed_params", "records_of", "whole_inputs", "whole_params", "whole_populations"]

Array = Any


def whole_populations(
    sim: Any, params: Any, steps: int, inputs: Any, record: Any
) -> tuple[Any, Any, Any, tuple[Request, ...]]:
    """Return what is given of whole populations, and what is to be recorded; all requests, if some are of parts."""
    plan = sim if isinstance(sim, Plan) else getattr(getattr(sim, "engine", None), "plan", None)
    if not isinstance(plan, Plan):
        return params, inputs, record, ()
    requests = () if isinstance(record, Wanted) else parsed(plan, record)
    if all(request.numbers is None for request in requests):
        requests = ()
    record = wanted(requests) if requests else record
    return whole_params(plan, params, changed_params(sim)), whole_inputs(plan, inputs, steps), record, requests


def changed_params(sim: Any) -> dict[str, dict[str, Array]]:
    """Return the parameters of a simulation that differ from those of its build, by population or projection."""
    built = {} if isinstance(sim, Plan) else sim.engine.plan.params
    found = {
        name: {key: value for key, value in sim._params[name].items() if value is not own[key]}
        for name, own in built.items()
    }
    return {name: values for name, values in found.items() if values}


def whole_params(plan: Plan, params: Any, changed: Mapping[str, Mapping[str, Array]] = MappingProxyType({})) -> Any:
    """Return parameters by name of a population, in which those of its parts replace some; others are as they are.

    Those that `changed` has are of now, if they are not given.
    """
    if not isinstance(params, Mapping) or not (changed or any(names_neurons(plan, key) for key in params)):
        return params
    whole, parts = parted(plan, "simulate: params", params)
    with jax.enable_x64(plan.dtype == "float64"):
        for name, values in changed.items():
            given = whole.get(name, {})
            check_mapping(f"params[{name!r}]", given)
            whole[name] = {**values, **given}
        for part in parts:
            before = whole.get(part.population, {})
            check_mapping(f"params[{part.population!r}]", before)
            whole[part.population] = {**before, **_merged(part, before)}
    return whole


def _merged(part: PartValues, before: Mapping[str, Any]) -> dict[str, Array]:
    """Return the parameters of all neurons that a part gives, in which those of the other neurons are as before."""
    population, size, found = part.neurons.population, part.neurons.size, {}
    for key, value in part.values.items():
        where = f"params[{part.label!r}]"
        check_name(where, key, population.params)
        where, built = f"{where}[{key!r}]", population.params[key]
        if not np.ndim(built):
            refuse_one_for_all(f"simulate: {where}", key, part.neurons)
        own = _numbers(where, value, built.dtype, size)
        others = _numbers(f"params[{population.name!r}][{key!r}]", before.get(key, built), built.dtype, population.size)
        found[key] = replaced_at(others, part.numbers, own)
    return found


def _numbers(where: str, value: Any, dtype: Any, size: int) -> Array:
    """Return parameters of so many neurons, checked: of NumPy if they are known."""
    check_plain(where, value)
    check_fit(where, value, dtype)
    known = value if isinstance(value, Tracer) else np.asarray(value).astype(dtype)
    check_shape(where, known, ((), (size,)))
    return (jnp if isinstance(value, Tracer) else np).broadcast_to(known.astype(dtype), (size,))


def whole_inputs(plan: Plan, inputs: Any, steps: int) -> Any:
    """Return inputs by "population.receptor", of which those of a part are zero for the other neurons."""
    if not isinstance(inputs, Mapping) or not any(_is_of_part(plan, label) for label in inputs):
        return inputs
    with jax.enable_x64(plan.dtype == "float64"):
        return _added(plan, inputs, steps)


def _added(plan: Plan, inputs: Mapping[Label, Any], steps: int) -> dict[str, Array]:
    """Return the inputs of each population and receptor, added up."""
    found: dict[str, Array] = {}
    for label, value in inputs.items():
        name, rows = _of_population(plan, label, value, steps) if _is_of_part(plan, label) else (label, value)
        found[name] = _floats(plan, name, found[name]) + _floats(plan, name, rows) if name in found else rows
    return found


def _of_population(plan: Plan, label: Label, value: Any, steps: int) -> tuple[str, Array]:
    """Return the input of a part as one of all neurons, with its label."""
    neurons, receptor = found_receptor(plan, label)
    shown = shown_label(label)
    rows = _floats(plan, shown, value)
    if rows.shape not in ((steps, neurons.size), (steps, 1)):
        raise ShapeError(
            f"simulate: inputs[{shown!r}] has shape {rows.shape}; pass ({steps}, {neurons.size}), a row for each step, "
            f"or ({steps},), the same for all neurons"
        )
    columns = slice(None) if neurons.numbers is None else neurons.numbers
    rows = jnp.broadcast_to(rows, (steps, neurons.size))
    whole = jnp.zeros((steps, neurons.population.size), plan.dtype)
    return f"{neurons.population.name}.{receptor}", whole.at[:, columns].set(rows)


def _is_of_part(plan: Plan, label: Label) -> bool:
    return is_pair(label) or (isinstance(label, str) and names_part(plan, split_label(label)[0]))


def _floats(plan: Plan, label: str, value: Any) -> Array:
    rows = as_numbers(f"inputs[{label!r}]", value, plan.dtype)
    return rows[:, None] if rows.ndim == 1 else rows


def records_of(requests: Sequence[Request], recorded: Mapping[str, Array]) -> dict[str, Array]:
    """Return what was requested, of what was recorded of whole populations: of a part, its neurons in their order."""
    found = {}
    for request in requests:
        if request.numbers is None:
            found[request.label] = recorded[request.label]
        elif request.kind == "counts":
            found[request.label] = recorded[f"{request.population}.counts"][request.numbers]
        else:
            spikes = recorded[f"{request.population}.spikes"][:, request.numbers]
            found[request.label] = spikes.sum(1) if request.kind == "rate" else spikes
    return found
