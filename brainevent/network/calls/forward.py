# SPDX-License-Identifier: Apache-2.0
"""What native engines can do in programs of JAX, and what raises: derivatives, and means of counted Poisson numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import canonical
from ...errors import NetworkError, ShapeError
from ...scalar.poisson_table import PoissonDraw
from ..plan.numbers import as_numbers
from ..plan.plan import Plan, PopulationPlan

__all__ = ["checked_params", "refuse_derivatives"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]


def checked_params(
    plan: Plan, drawn: Mapping[str, Sequence[PoissonDraw]], params: Params
) -> dict[str, dict[str, Array]]:
    """Return all parameters of neurons: the given ones, checked, and those of the build.

    `drawn` are the Poisson numbers of each population that are counted in tables.
    """
    found = {}
    for p in plan.populations:
        own, means = params.get(p.name, {}), _of_means(p, drawn[p.name])
        found[p.name] = {key: _checked_param(p, means, key, own.get(key, built)) for key, built in p.params.items()}
    return found


def _checked_param(population: PopulationPlan, means: set[str], key: str, value: Array) -> Array:
    """Return a parameter in the shape that it was built with."""
    where, built = f"params[{population.name!r}][{key!r}]", population.params[key]
    shape = jnp.shape(value)
    if shape not in ((), np.shape(built)):
        advice = "" if np.ndim(built) else f", or build the network with an array ({population.size},)"
        raise ShapeError(f"simulate: {where} has shape {shape}; pass {np.shape(built)} as it was built{advice}")
    if key in means and not _is(value, built):
        raise NetworkError(
            f"simulate: {where} sets the mean of random.poisson, for which build makes a table, here or by "
            "Simulation.set; leave it out, pass the value of the build (not traced by jax.jit or jax.vmap), or build "
            f'the network with an array of means ({population.size},), or with backend="jax"; sim.sweep varies such '
            "a mean as well"
        )
    exact = population.rule.as_floats.get(key)
    return jnp.broadcast_to(as_numbers(where.removeprefix("simulate: "), value, built.dtype, exact), np.shape(built))


def _of_means(population: PopulationPlan, drawn: Sequence[PoissonDraw]) -> set[str]:
    """Return the parameters that means of counted Poisson numbers follow from."""
    names = {name.text: key for name, key in zip(population.rule.params, population.params, strict=True)}
    return {names[name.text] for one in drawn for name in one.mean.inputs}


def _is(value: Array, built: Array) -> bool:
    """Say whether a value is known, and the built one."""
    return not isinstance(value, jax.core.Tracer) and bool(np.all(np.asarray(value, built.dtype) == built))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _undifferentiated(backend: str, x: Array) -> Array:
    return x


@_undifferentiated.defjvp
def _raises(backend: str, primals: Any, tangents: Any) -> Any:
    raise NetworkError(
        "simulate: this call runs the code of Simulation.run, which has no derivatives, since all its weights are "
        "known and jax.jit traced it without one; take jax.jit(jax.grad(f)) instead of jax.grad(jax.jit(f)), or build "
        f'the network with backend="jax" instead of {backend!r}'
    )


def refuse_derivatives(backend: str, tree: Any) -> Any:
    """Return arrays that raise when they are differentiated."""
    return jax.tree.map(
        lambda x: _undifferentiated(backend, canonical(x)) if jnp.issubdtype(jnp.result_type(x), np.floating) else x,
        tree,
    )
