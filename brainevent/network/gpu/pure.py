# SPDX-License-Identifier: Apache-2.0
"""`simulated`: steps of the kernel as a pure function of JAX's arrays, within a program and on XLA's stream."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray
from ..calls.forward import checked_params, refuse_derivatives
from ..run.recorded import Wanted
from ..state import NetworkState
from .arrays import values_of
from .couplings import shown_words
from .program import Call, Resident, called
from .shape import list_words
from .structs import SAMPLE

__all__ = ["Arguments", "Results", "columns_of", "operands_of", "outs_of", "results_of", "simulated", "widths_of"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]
Arguments = tuple[NetworkState, Params, Mapping[str, Array]]
Results = tuple[NetworkState, dict[str, Array]]


def simulated(
    resident: Resident,
    beside: Callable[[int], Resident],
    state: NetworkState,
    params: Params,
    steps: int,
    given: Mapping[str, Array],
    wanted: Wanted,
) -> tuple[NetworkState, dict[str, Array]]:
    """Return the state after some steps, and what was recorded, in the forms of the reference.

    State and inputs `given`, by "population.receptor", are checked, and so are the names of parameters. Under
    `jax.vmap` networks run side by side, with what `beside` returns for their number.
    """
    drawn = {p.name: kind.drawn for p, kind in zip(resident.plan.populations, resident.kinds, strict=True)}
    own = checked_params(resident.plan, drawn, params)
    begin = jax.device_put(jnp.asarray(state.step, np.uint32), resident.device.of_jax)
    arguments = refuse_derivatives("cuda", (dataclasses.replace(state, step=begin), own, given))

    @jax.custom_batching.custom_vmap
    def run(arguments: Arguments) -> Results:
        return _one(resident, steps, wanted, arguments)

    @run.def_vmap  # type: ignore[untyped-decorator]
    def batched(size: int, mapped: Any, arguments: Arguments) -> tuple[Results, Any]:
        found = _many(beside, size, steps, wanted, mapped[0], arguments)
        return found, jax.tree.map(lambda _: True, found)

    results: Results = run(arguments)
    return results


def _many(
    beside: Callable[[int], Resident], size: int, steps: int, wanted: Wanted, mapped: Arguments, arguments: Arguments
) -> Results:
    """Return the results of several networks, whose arguments have a first axis where they are `mapped`.

    Another `jax.vmap` around it makes one batch of all.
    """
    resident = beside(size)

    @jax.custom_batching.custom_vmap
    def run(arguments: Arguments) -> Results:
        return _beside(resident, size, steps, wanted, mapped, arguments)

    @run.def_vmap  # type: ignore[untyped-decorator]
    def batched(outer: int, over: Any, arguments: Arguments) -> tuple[Results, Any]:
        def merged(x: Array, outside: bool, inside: bool) -> Array:
            if not outside and not inside:
                return x
            whole = x if outside else x[None]
            whole = whole if inside else whole[:, None]
            return jnp.broadcast_to(whole, (outer, size, *whole.shape[2:])).reshape(outer * size, *whole.shape[2:])

        flat = jax.tree.map(merged, arguments, over[0], mapped)
        either = jax.tree.map(lambda a, b: a or b, over[0], mapped)
        found = _many(beside, outer * size, steps, wanted, either, flat)
        apart = jax.tree.map(lambda x: x.reshape(outer, size, *x.shape[1:]), found)
        return apart, jax.tree.map(lambda _: True, apart)

    results: Results = run(arguments)
    return results


def _one(resident: Resident, steps: int, wanted: Wanted, arguments: Arguments) -> Results:
    """Return the results of one network alone."""
    operands, columns = operands_of(resident, arguments), columns_of(resident, wanted)
    operands |= dict(resident.rows)
    if columns:
        operands["columns"] = np.stack([table for table, *_ in columns.values()])
    outs, zeroed = outs_of(resident, steps, wanted, {label: width for label, (*_, width) in columns.items()}, operands)
    found = called(Call(resident, steps, wanted, widths_of(arguments), operands, outs, zeroed))
    return results_of(resident, steps, wanted, arguments[0], found)


def _beside(
    resident: Resident, size: int, steps: int, wanted: Wanted, mapped: Arguments, arguments: Arguments
) -> Results:
    """Return the results of several networks side by side."""
    axes = jax.tree.map(lambda x: 0 if x else None, mapped)
    one = jax.eval_shape(lambda k: operands_of(resident, _element(arguments, mapped, k)), 0)
    each = jax.vmap(lambda x: operands_of(resident, x), (axes,), axis_size=size)(arguments)
    shared = operands_of(resident, _element(arguments, mapped, 0))
    several = {"begin", "states", "ring"} | {f"input {name}" for name, own in mapped[2].items() if own}
    several |= {"scalars", "arrays"} if any(jax.tree.leaves(mapped[1])) else set()
    operands = {name: each[name] if name in several else shared[name] for name in each}
    columns = columns_of(resident, wanted)
    operands |= dict(resident.rows)
    if columns:
        operands["columns"] = np.stack([table for table, *_ in columns.values()])
    outs, zeroed = outs_of(resident, steps, wanted, {label: width for label, (*_, width) in columns.items()}, one)
    outs = {name: ShapedArray((size, *out.shape), out.dtype) for name, out in outs.items()}
    outs["nets"] = ShapedArray((size, resident.net.nbytes // 4), jnp.dtype(np.uint32))
    strides = {name: 4 * math.prod(x.shape[1:]) for name, x in outs.items()}
    strides |= {name: 4 * math.prod(jnp.shape(operands[name])[1:]) for name in several}
    widths = {_place(name): one[f"input {name}"].shape[-1] for name in arguments[2]}
    found = called(Call(resident, steps, wanted, widths, operands, outs, zeroed, size, strides))
    after = jax.vmap(
        lambda state, found: results_of(resident, steps, wanted, state, found), (axes[0], 0), axis_size=size
    )
    results: Results = after(arguments[0], found)
    return results


def _element(arguments: Arguments, mapped: Arguments, k: Any) -> Arguments:
    """Return the arguments of one of several networks."""
    found: Arguments = jax.tree.map(lambda x, own: x[k] if own else x, arguments, mapped)
    return found


def columns_of(resident: Resident, wanted: Wanted) -> dict[str, Any]:
    """Return the columns of each sample, by its label: see `Partition.columns`."""
    return {
        label: resident.partition.whole.columns(s.population, resident.plan.population(s.population).size, s.neurons)
        for label, s in wanted.samples.items()
    }


def widths_of(arguments: Arguments) -> dict[tuple[str, str], int]:
    """Return how many numbers a step of each input has."""
    return {_place(name): array.shape[1] for name, array in arguments[2].items()}


def operands_of(resident: Resident, arguments: Arguments) -> dict[str, Array]:
    """Return what a call of one network is given, by name."""
    state, own, given = arguments
    in_order = {p.name: {key: own[p.name][key] for key in p.params} for p in resident.plan.populations}  # JAX sorts
    scalars, arrays = resident.places.params(in_order)
    return {
        "begin": jnp.asarray(state.step, np.uint32),
        "scalars": scalars,
        "arrays": arrays,
        "states": resident.places.states(state),
        "ring": resident.places.ring(state),
        **{f"input {name}": array for name, array in given.items()},
    }


def results_of(
    resident: Resident, steps: int, wanted: Wanted, state: NetworkState, found: Mapping[str, Array]
) -> Results:
    """Return the state after some steps from a state, and what was recorded, of one network."""
    step = state.step + np.uint32(steps)

    def dtype_of(name: str, receptor: str) -> Any:
        return jnp.result_type(state.arriving[name][receptor])

    arriving = resident.places.arriving(found["ring"], step, dtype_of)
    after = NetworkState(step, resident.places.neurons(found["states"]), arriving, state.quanta)
    return after, _recorded(resident, steps, wanted, found)


def _place(name: str) -> tuple[str, str]:
    population, _, receptor = name.rpartition(".")
    return population, receptor


def outs_of(
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
        "list": list_words(resident.shape, blocks, int(net["list_size"])),
        "ends": 4 * resident.partition.here,
    }
    if plan.couplings:
        zeroed["met"] = (blocks,), np.uint32
        tables["shown"] = 2 * len(shown_words(plan)) * blocks * per
    outs: dict[str, tuple[tuple[int, ...], Any]] = {
        "states": (jnp.shape(operands["states"]), np.uint32),
        "ring": (jnp.shape(operands["ring"]), np.int32),
        **{name: ((words,), np.uint32) for name, words in tables.items()},
        **zeroed,
    }
    outs = {name: out for name, out in outs.items() if name not in resident.own}
    types = {name: ShapedArray(shape, jnp.dtype(dtype)) for name, (shape, dtype) in outs.items()}
    return types, tuple(name for name, (shape, _) in zeroed.items() if math.prod(shape) and name in outs)


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
