# SPDX-License-Identifier: Apache-2.0
"""`simulated`: steps of the kernel as a pure function of JAX's arrays, within a program and on XLA's stream."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray
from ...errors import NetworkError, ShapeError
from ..plan.plan import PopulationPlan
from ..run.recorded import Wanted
from ..state import NetworkState
from .arrays import values_of
from .program import Call, Resident, called
from .structs import SAMPLE
from .text import Kind

__all__ = ["simulated"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]


def simulated(
    resident: Resident,
    state: NetworkState,
    params: Params,
    steps: int,
    given: Mapping[str, Array],
    wanted: Wanted,
) -> tuple[NetworkState, dict[str, Array]]:
    """Return the state after some steps, and what was recorded, in the forms of the reference.

    State and inputs `given`, by "population.receptor", are checked, and so are the names of parameters.
    """
    own = _checked_params(resident, params)
    state, own, given = _refuse_derivatives((state, own, given))
    columns = {
        label: resident.partition.columns(s.population, resident.plan.population(s.population).size, s.neurons)
        for label, s in wanted.samples.items()
    }
    scalars, arrays = resident.places.params(own)
    begin = jax.device_put(jnp.asarray(state.step, np.uint32), resident.device.of_jax)
    operands = {
        "begin": begin,
        "scalars": scalars,
        "arrays": arrays,
        "states": resident.places.states(state),
        "ring": resident.places.ring(state),
        **{f"input {name}": array for name, array in given.items()},
    }
    operands |= resident.rows
    if columns:
        operands["columns"] = np.stack([table for table, *_ in columns.values()])
    outs, zeroed = _outs(resident, steps, wanted, {label: width for label, (*_, width) in columns.items()}, operands)
    widths = {_place(name): array.shape[1] for name, array in given.items()}
    found = called(Call(resident, steps, wanted, widths, operands, outs, zeroed))
    step = begin + np.uint32(steps)

    def dtype_of(name: str, receptor: str) -> Any:
        return jnp.result_type(state.arriving[name][receptor])

    arriving = resident.places.arriving(found["ring"], step, dtype_of)
    after = NetworkState(step, resident.places.neurons(found["states"]), arriving, state.quanta)
    return after, _recorded(resident, steps, wanted, found)


def _place(name: str) -> tuple[str, str]:
    population, _, receptor = name.rpartition(".")
    return population, receptor


def _outs(
    resident: Resident, steps: int, wanted: Wanted, widths: Mapping[str, int], operands: Mapping[str, Array]
) -> tuple[dict[str, ShapedArray], tuple[str, ...]]:
    """Return the types of results and temporary arrays, and those that begin as zeros."""
    plan, net = resident.plan, resident.net
    blocks, per = resident.partition.blocks, resident.partition.per
    zeroed = {
        "packets": ((resident.shape.packets // 4,), np.uint32),
        "counts": ((blocks * per if wanted.counts else 0,), np.int32),
        "rates": ((len(wanted.rates), steps), np.int32),
        **{f"spikes {name}": ((steps, plan.population(name).size), np.float32) for name in wanted.spikes},
        **{
            f"sample {label}": ((-(-steps // sample.every), widths[label]), np.uint32)
            for label, sample in wanted.samples.items()
        },
    }
    tables = {
        "populations": resident.tables.nbytes // 4,
        "samples": len(wanted.samples) * SAMPLE.itemsize // 4,
        "list": 3 * blocks * int(net["list_size"]),
        "ends": 4 * blocks,
    }
    outs: dict[str, tuple[tuple[int, ...], Any]] = {
        "states": (jnp.shape(operands["states"]), np.uint32),
        "ring": (jnp.shape(operands["ring"]), np.int32),
        **{name: ((words,), np.uint32) for name, words in tables.items()},
        **zeroed,
    }
    types = {name: ShapedArray(shape, jnp.dtype(dtype)) for name, (shape, dtype) in outs.items()}
    return types, tuple(name for name, (shape, _) in zeroed.items() if math.prod(shape))


def _recorded(resident: Resident, steps: int, wanted: Wanted, found: Mapping[str, Array]) -> dict[str, Array]:
    places, plan = resident.places, resident.plan
    samples = {}
    for label, sample in wanted.samples.items():
        dtype = plan.population(sample.population).state[sample.state].dtype
        _, columns = np.unique(sample.neurons, return_inverse=True)
        samples[label] = values_of(found[f"sample {label}"][:, columns.reshape(-1)], dtype)
    return {
        **{f"{name}.spikes": found[f"spikes {name}"] for name in wanted.spikes},
        **{f"{name}.counts": places.of_population(found["counts"], name).astype(np.float32) for name in wanted.counts},
        **{f"{name}.rate": found["rates"][k].astype(np.float32) for k, name in enumerate(wanted.rates)},
        **samples,
    }


def _checked_params(resident: Resident, params: Params) -> dict[str, dict[str, Array]]:
    """Return all parameters of neurons: the given ones, checked, and those of the build."""
    found = {}
    for p, kind in zip(resident.plan.populations, resident.kinds, strict=True):
        own = params.get(p.name, {})
        found[p.name] = {key: _checked_param(p, kind, key, own.get(key, built)) for key, built in p.params.items()}
    return found


def _checked_param(population: PopulationPlan, kind: Kind, key: str, value: Array) -> Array:
    """Return a parameter in the shape that it was built with."""
    where, built = f"params[{population.name!r}][{key!r}]", population.params[key]
    shape = jnp.shape(value)
    if shape not in ((), np.shape(built)):
        advice = "" if np.ndim(built) else f", or build the network with an array ({population.size},)"
        raise ShapeError(f"simulate: {where} has shape {shape}; pass {np.shape(built)} as it was built{advice}")
    if key in _of_means(population, kind) and not _is(value, built):
        raise NetworkError(
            f"simulate: {where} sets the mean of random.poisson, for which build makes a table; leave it out, pass "
            "the value of the build (not traced by jax.jit or jax.vmap), or build the network with "
            'backend="jax"'
        )
    return jnp.broadcast_to(jnp.asarray(value, built.dtype), np.shape(built))


def _of_means(population: PopulationPlan, kind: Kind) -> set[str]:
    """Return the parameters that means of counted Poisson numbers follow from."""
    names = {name.text: key for name, key in zip(population.rule.params, population.params, strict=True)}
    return {names[name.text] for one in kind.drawn for name in one.mean.inputs}


def _is(value: Array, built: Array) -> bool:
    """Say whether a value is known, and the built one."""
    return not isinstance(value, jax.core.Tracer) and bool(np.all(np.asarray(value, built.dtype) == built))


@jax.custom_jvp
def _undifferentiated(x: Array) -> Array:
    return x


@_undifferentiated.defjvp
def _raises(primals: Any, tangents: Any) -> Any:
    raise NetworkError(
        "simulate: the network was built with backend='cuda', which has no derivatives; build it with backend=\"jax\""
    )


def _refuse_derivatives(tree: Any) -> Any:
    """Return arrays that raise when they are differentiated."""
    return jax.tree.map(lambda x: _undifferentiated(x) if jnp.issubdtype(jnp.result_type(x), np.floating) else x, tree)
