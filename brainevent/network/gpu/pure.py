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
from ..calls.forward import checked_params, refuse_derivatives
from ..run.recorded import Wanted
from ..state import NetworkState
from .arrays import values_of
from .program import Call, Resident, called
from .structs import SAMPLE

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
    drawn = {p.name: kind.drawn for p, kind in zip(resident.plan.populations, resident.kinds, strict=True)}
    own = checked_params(resident.plan, drawn, params)
    state, own, given = refuse_derivatives("cuda", (state, own, given))
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
