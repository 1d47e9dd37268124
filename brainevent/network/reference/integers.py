# SPDX-License-Identifier: Apache-2.0
"""Integers that JAX traces, where numbers are floats: whether floats have all of them is known when a program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer, behind
from ..plan.plan import Plan
from ..run.neurons import found_neurons
from ..run.of_parts import names_neurons

__all__ = ["exact_integers"]

Array = Any


def exact_integers(sim: Any, state: Any, params: Any, inputs: Any) -> Array | None:
    """Say whether floats have all integers that are traced, of a call as it is given; None if none is in question.

    What is wrong with the call otherwise is found later.
    """
    plan = sim if isinstance(sim, Plan) else getattr(getattr(sim, "engine", None), "plan", None)
    if not isinstance(plan, Plan) or not any(map(_in_question, _leaves((state, params, inputs)))):
        return None
    given = [*_of_params(plan, params), *_of_state(plan, state)]
    given += [(rows, plan.dtype) for rows in inputs.values()] if isinstance(inputs, Mapping) else []
    fine = [_is_exact(value, dtype) for value, dtype in given if _in_question(value) and np.dtype(dtype).kind == "f"]
    return jnp.stack(fine).all() if fine else None


def _leaves(given: Any) -> Iterator[Any]:
    """Yield all arrays of what is given, whose labels may be names and parts: JAX cannot sort these."""
    if isinstance(given, Mapping | tuple) and not hasattr(given, "_fields"):
        for one in given.values() if isinstance(given, Mapping) else given:
            yield from _leaves(one)
    else:
        yield from jax.tree.leaves(given)


def _in_question(value: Any) -> bool:
    return isinstance(behind(value), Tracer) and value.dtype in ("int32", "uint32", "int64", "uint64")


def _is_exact(value: Array, dtype: Any) -> Array:
    """Say whether all integers of an array are floats of a dtype."""
    with jax.enable_x64(8 in (np.dtype(dtype).itemsize, value.dtype.itemsize)):
        near = value.astype(dtype)
        within = near < float(np.iinfo(value.dtype).max)  # which is no float32: integers above have another float
        return (within & (near.astype(value.dtype) == value)).all()


def _of_params(plan: Plan, params: Any) -> Iterator[tuple[Array, Any]]:
    """Yield each parameter, and weights, with the dtype that they become."""
    for key, values in params.items() if isinstance(params, Mapping) else ():
        if not isinstance(values, Mapping):
            yield values, plan.dtype
            continue
        known = {p.name: p for p in plan.populations}
        name = found_neurons(plan, "simulate: params", key).population.name if names_neurons(plan, key) else key
        for own, value in values.items():
            population = known.get(name)
            if population is None or own not in population.params:
                yield value, plan.dtype
            else:
                yield value, population.rule.as_floats.get(own, population.params[own].dtype)


def _of_state(plan: Plan, state: Any) -> Iterator[tuple[Array, Any]]:
    """Yield each state of neurons, with the dtype that it becomes."""
    neurons = getattr(state, "neurons", {})
    for p in plan.populations:
        for key, array in p.state.items():
            if key in neurons.get(p.name, {}):
                yield neurons[p.name][key], array.dtype
