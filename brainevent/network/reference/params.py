# SPDX-License-Identifier: Apache-2.0
"""The parameters of a network as one tree: those of its neurons, and the weights of its synapses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._units import is_quantity
from ...errors import NetworkError, ShapeError, UnknownNameError, did_you_mean
from ..plan.matrices import shapes_of_weights, weights_of_matrix
from ..plan.plan import Plan

__all__ = ["check_mapping", "check_name", "check_names", "given_weights", "initial_params", "neuron_params"]

Array = Any
Params = Mapping[str, Any]


def initial_params(plan: Plan) -> dict[str, Any]:
    """Return the parameters with which a network was built.

    Args:
        plan: The network.

    Returns:
        By population the parameters by name, each () or (neurons,); by projection its weights, floats (1,) if it has
        one for all, else (entries,) in the order of the plan, in the unit of what arrives.

    Examples:
        >>> from brainevent.network.plan.plan import Plan
        >>> initial_params(Plan((), (), 0.1, 0, 1, ""))
        {}
    """
    weights = {
        s.name: s.weights.astype(plan.dtype) * plan.population(s.target).quanta[s.receptor] for s in plan.synapses
    }
    return {**{p.name: dict(p.params) for p in plan.populations}, **weights}


def neuron_params(plan: Plan, params: Params) -> dict[str, dict[str, Array]]:
    """Return all parameters of neurons: the given ones, checked, and the initial ones of what is not given."""
    result = {p.name: dict(p.params) for p in plan.populations}
    for p in plan.populations:
        own = params.get(p.name, {})
        given = {key: jnp.asarray(value, p.params[key].dtype) for key, value in own.items()}
        for key, value in given.items():
            _check_shape(f"params[{p.name!r}][{key!r}]", value, ((), (p.size,)))
        result[p.name] |= given
    return result


def given_weights(plan: Plan, params: Params) -> dict[str, Array]:
    """Return the weights that are given, checked: floats of the plan, (1,) or (entries,), also those of matrices."""
    found = {}
    for p in plan.projections:
        if p.name in params:
            where, value = f"params[{p.name!r}]", params[p.name]
            _check_plain(where, value)
            dtype = getattr(value, "dtype", np.dtype(plan.dtype))
            if not any(jnp.issubdtype(dtype, kind) for kind in (np.floating, np.integer, np.bool_)):
                raise NetworkError(f"simulate: {where} is {dtype}; pass real numbers")
            with np.errstate(over="ignore"):  # what becomes infinite is refused where it is known
                weights = jnp.asarray(value, plan.dtype)
            found[p.name] = weights_of_matrix(f"simulate: {where}", plan, p, weights)
            if (shape := found[p.name].shape) not in ((1,), (p.entries,)):
                one_or = f"(1,) or {shapes_of_weights(plan, p, shape)}"
                raise ShapeError(f"simulate: {where} has shape {shape}; pass {one_or}")
    return found


def check_names(plan: Plan, params: Params) -> None:
    """Raise unless all populations, projections and parameters that are named exist."""
    check_mapping("params", params)
    for name in params:
        check_name("params", name, [*(p.name for p in plan.populations), *(p.name for p in plan.projections)])
    for p in plan.populations:
        own = params.get(p.name, {})
        check_mapping(f"params[{p.name!r}]", own)
        for key, value in own.items():
            check_name(f"params[{p.name!r}]", key, p.params)
            _check_plain(f"params[{p.name!r}][{key!r}]", value)


def check_mapping(where: str, given: Any) -> None:
    """Raise if what is given by name is not."""
    if not isinstance(given, Mapping):
        raise NetworkError(f"simulate: {where} is {type(given).__name__}; pass values by name: a dictionary")


def check_name(where: str, name: str, names: Iterable[str]) -> None:
    """Raise if a name does not exist."""
    names = list(names)
    if name not in names:
        guess = did_you_mean(name, names)
        raise UnknownNameError(f"simulate: {where} has no {name!r}{guess}; names: {', '.join(names) or 'none'}")


def _check_plain(where: str, value: Any) -> None:
    if is_quantity(value):
        raise NetworkError(f"simulate: {where} has the unit {value.unit}; pass numbers without a unit")


def _check_shape(where: str, value: Array, shapes: tuple[tuple[int, ...], ...]) -> None:
    if value.shape not in shapes:
        raise ShapeError(f"simulate: {where} has shape {value.shape}; pass {' or '.join(map(str, shapes))}")
