# SPDX-License-Identifier: Apache-2.0
"""Check what a simulation is given, and make it the program that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import NetworkError, ShapeError
from ..description.checks import as_count
from ..description.populations import whole_name
from ..plan.numbers import as_numbers, check_fit
from ..plan.plan import Plan
from ..state import GROUPS, NetworkState, like_state
from ..surrogate import SpikeTimes, Surrogate, arctan, fast_sigmoid, spike_times, triangle
from .carried import operands_of
from .delivery import deliveries
from .outputs import Outputs
from .params import check_mapping, check_name
from .program import Program
from .quanta import Receptor

__all__ = [
    "check_keys",
    "check_surrogate",
    "checked_count",
    "checked_inputs",
    "checked_keys",
    "checked_state",
    "named_keys",
    "program_of",
]

Array = Any


def program_of(
    plan: Plan,
    outputs: Outputs,
    params: Mapping[str, Mapping[str, Array]],
    weights: Mapping[str, Array],
    dtypes: Mapping[Receptor, str],
) -> Program:
    """Return the program of a network with all parameters, and weights in quanta; those of couplings are floats."""
    own = plan, deliveries(plan), params, weights, checked_keys(plan, {}), outputs, dtypes
    return Program(*own, carried=operands_of(plan, weights))


def checked_keys(plan: Plan, keys: Mapping[str, Array]) -> dict[str, Array]:
    """Return where random numbers of each population begin: the keys that are given, and those of the network."""
    check_keys(plan, keys)
    return {p.name: jnp.asarray(keys.get(p.name, np.array(p.key, np.uint32)), np.uint32) for p in plan.populations}


def named_keys(keys: Mapping[Any, Array]) -> dict[str, Array]:
    """Return keys by the names of populations, which may be given themselves."""
    check_mapping("keys", keys)
    return {whole_name("simulate: keys", key, "random numbers are those"): one for key, one in keys.items()}


def check_keys(plan: Plan, keys: Mapping[str, Array]) -> None:
    """Raise unless keys are two words each, of populations that are there."""
    check_mapping("keys", keys)
    for name in keys:
        check_name("keys", name, [p.name for p in plan.populations])
        if jnp.shape(keys[name]) != (2,):
            raise ShapeError(f"simulate: keys[{name!r}] has shape {jnp.shape(keys[name])}; pass uint32 (2,)")
        as_numbers(f"keys[{name!r}]", keys[name], np.uint32)


def checked_count(what: str, value: Any) -> int:
    """Return a number of steps."""
    count = as_count(value, 2**31 - 1)
    if count is None:
        raise NetworkError(f"simulate: {what} is {value!r}; pass a Python integer from 1 to 2**31 - 1")
    return count


def checked_inputs(plan: Plan, inputs: Mapping[str, Array], steps: int, *, narrow: bool = False) -> dict[str, Array]:
    """Return inputs as floats of the plan, by "population.receptor"; if `narrow`, bools and small integers as such."""
    check_mapping("inputs", inputs)
    sizes = {f"{name}.{receptor}": plan.population(name).size for name, receptor in plan.receptors()}
    for name in inputs:
        check_name("inputs", name, sizes)
    dtypes = {name: np.dtype(getattr(array, "dtype", plan.dtype)) for name, array in inputs.items()}
    small = {name for name, dtype in dtypes.items() if narrow and dtype.kind in "biu" and dtype.itemsize <= 2}
    arrays = {
        name: jnp.asarray(array) if name in small else as_numbers(f"inputs[{name!r}]", array, plan.dtype)
        for name, array in inputs.items()
    }
    arrays = {name: array[:, None] if array.ndim == 1 else array for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.shape not in ((steps, sizes[name]), (steps, 1)):
            raise ShapeError(
                f"simulate: inputs[{name!r}] has shape {array.shape}; pass ({steps}, {sizes[name]}), a row for each "
                f"step, or ({steps},), the same for all neurons"
            )
    return arrays


def checked_state(plan: Plan, state: NetworkState) -> NetworkState:
    """Raise unless a state has the arrays of a network, in their shapes."""
    if not isinstance(state, NetworkState):
        raise NetworkError(f"simulate: state is {type(state).__name__}; pass a state such as that of sim.state")
    if state.quanta not in (None, plan.quanta):
        raise NetworkError(
            "simulate: what is on its way in the state is in other quanta than those of this network, whose weights "
            "were set before or since; assign the state, sim.state = state, and pass sim.state"
        )
    for p in plan.populations:
        shapes = {
            f"neurons[{p.name!r}]": (state.neurons.get(p.name, {}), dict.fromkeys(p.state, (p.size,))),
            f"arriving[{p.name!r}]": (
                state.arriving.get(p.name, {}),
                {receptor: (plan.rows(p.name, receptor), p.size) for receptor in p.quanta},
            ),
        }
        for where, (arrays, expected) in shapes.items():
            found = {name: jnp.shape(array) for name, array in arrays.items()}
            if found != expected:
                raise ShapeError(
                    f"simulate: state.{where} has the shapes {found}, but this network has {expected}; "
                    "pass a state of this network"
                )
        for key, array in p.state.items():
            check_fit(f"state.neurons[{p.name!r}][{key!r}]", state.neurons[p.name][key], array.dtype)
    if jnp.shape(state.step):
        raise ShapeError(f"simulate: state.step has shape {jnp.shape(state.step)}; pass one number, ()")
    check_fit("state.step", state.step, np.uint32)
    _check_plastic(plan, state)
    return state


def check_surrogate(where: str, surrogate: Any) -> None:
    """Raise unless a surrogate is None, a named one, or a function of one number that JAX can trace."""
    if surrogate is None or isinstance(surrogate, Surrogate | SpikeTimes):
        return
    if not callable(surrogate):
        raise NetworkError(
            f"{where}: surrogate is {surrogate!r}; pass a function of the margin, such as fast_sigmoid(25), or None"
        )
    name = getattr(surrogate, "__name__", repr(surrogate))
    if surrogate in (arctan, fast_sigmoid, spike_times, triangle):
        raise NetworkError(f"{where}: surrogate {name} makes one; call it: surrogate={name}()")
    try:
        slope = jax.eval_shape(lambda margin: jnp.asarray(surrogate(margin)), jax.ShapeDtypeStruct((), np.float32))
    except (TypeError, ValueError) as error:  # errors of tracing are of these kinds
        raise NetworkError(
            f"{where}: surrogate {name} raises {type(error).__name__}: {str(error).splitlines()[0]}; pass a "
            "function of one number, the margin, that uses jnp instead of np and math, and jnp.where instead of if"
        ) from error
    if slope.shape != () or not any(jnp.issubdtype(slope.dtype, kind) for kind in (np.floating, np.integer)):
        raise NetworkError(
            f"{where}: surrogate {name} returns {slope.dtype} {slope.shape}; return one real number for a margin"
        )


def _check_plastic(plan: Plan, state: NetworkState) -> None:
    """Raise unless a state has what plastic synapses need."""
    expected = like_state(plan) if plan.plastic else None
    for group in GROUPS if expected is not None else ():
        like, given = ({name: _shapes(own) for name, own in getattr(x, group).items()} for x in (expected, state))
        for name, shapes in like.items():
            if given.get(name) != shapes:
                raise ShapeError(
                    f"simulate: state.{group}[{name!r}] has the shapes {given.get(name)}, but this network has "
                    f"{shapes}; pass a state of this network"
                )


def _shapes(arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {key: jnp.shape(array) for key, array in arrays.items()}
