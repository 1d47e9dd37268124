# SPDX-License-Identifier: Apache-2.0
"""`simulated` on several GPUs: one `shard_map` over them, in which each has its own blocks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from ....errors import NetworkError
from ...calls.forward import checked_params, refuse_derivatives
from ...run.recorded import Wanted
from ...state import NetworkState
from ..program import Call
from ..pure import Arguments, Results, columns_of, operands_of, outs_of, results_of, widths_of
from .program import AXIS, SeveralResident, called

__all__ = ["simulated"]

Array = Any


def simulated(
    resident: SeveralResident,
    state: NetworkState,
    params: Mapping[str, Mapping[str, Array]],
    steps: int,
    given: Mapping[str, Array],
    wanted: Wanted,
) -> Results:
    """Return the state after some steps, and what was recorded, in the forms of the reference.

    State and inputs `given`, by "population.receptor", are checked, and so are the names of parameters. The elements of
    `jax.vmap` run one after another.
    """
    first = resident.parts[0]
    drawn = {p.name: kind.drawn for p, kind in zip(resident.plan.populations, first.kinds, strict=True)}
    own = checked_params(resident.plan, drawn, params)
    begun = NetworkState(jnp.asarray(state.step, np.uint32), state.neurons, state.arriving, state.quanta)
    _check_mesh((begun, own, given))
    arguments = jax.tree.map(resident.whole, refuse_derivatives("cuda", (begun, own, given)))
    key = steps, wanted.key
    if key not in resident.programs:
        resident.programs[key] = jax.jit(functools.partial(_program, resident, steps, wanted))
    run = _batched(resident.programs[key])
    results: Results = run(arguments, resident.rows)
    return results


def _check_mesh(arguments: Arguments) -> None:
    """Raise if a program is within a map over devices, or has arrays whose type says where they are."""
    around = jax.sharding.get_abstract_mesh()
    if around.manual_axes:
        raise NetworkError(
            "simulate: a network on several GPUs runs on all of them, and not within jax.shard_map (of axes "
            f"{', '.join(map(str, around.manual_axes))}); call simulate outside of it"
        )
    meshes = [around]
    meshes += [jax.typeof(x).sharding.mesh for x in jax.tree.leaves(arguments) if isinstance(x, jax.core.Tracer)]
    for mesh in meshes:
        if mesh.explicit_axes:
            raise NetworkError(
                f"simulate: an array is on a mesh whose axes ({', '.join(map(str, mesh.explicit_axes))}) are explicit, "
                "and a network on several GPUs needs automatic ones; make it with jax.make_mesh(..., "
                "axis_types=(jax.sharding.AxisType.Auto,))"
            )


def _batched(program: Any) -> Any:
    """Return a program whose elements under `jax.vmap` run one after another."""

    @jax.custom_batching.custom_vmap
    def run(arguments: Arguments, rows: Mapping[str, Array]) -> Results:
        results: Results = program(arguments, rows)
        return results

    @run.def_vmap  # type: ignore[untyped-decorator]
    def batched(size: int, mapped: Any, arguments: Arguments, rows: Mapping[str, Array]) -> tuple[Results, Any]:
        leaves, tree = jax.tree.flatten(arguments)
        over = jax.tree.leaves(mapped[0])
        each = [x for x, own in zip(leaves, over, strict=True) if own]

        def one(element: list[Array]) -> Results:
            own = iter(element)
            chosen = [next(own) if is_mapped else x for x, is_mapped in zip(leaves, over, strict=True)]
            results: Results = run(jax.tree.unflatten(tree, chosen), rows)
            return results

        found = jax.lax.map(one, each)
        return found, jax.tree.map(lambda _: True, found)

    return run


def _program(
    resident: SeveralResident, steps: int, wanted: Wanted, arguments: Arguments, rows: Mapping[str, Array]
) -> Results:
    """Return the results of one network."""
    first, gpus = resident.parts[0], len(resident.parts)
    operands, columns, widths = operands_of(first, arguments), columns_of(first, wanted), widths_of(arguments)
    if columns:
        operands["columns"] = np.stack([table for table, *_ in columns.values()])
    whole, ring = PartitionSpec(), _of_ring(resident)
    places = {"states": PartitionSpec(None, AXIS), "ring": ring} | dict.fromkeys(rows, PartitionSpec(AXIS))
    in_order = {**operands, **rows}
    names = list(in_order)
    scattered = {p: resident.plan.population(p).size % gpus == 0 for p in wanted.spikes}
    results = {"states": places["states"], "ring": ring, "counts": PartitionSpec(AXIS), "rates": whole}
    results |= {f"spikes {p}": PartitionSpec(None, AXIS) if cut else whole for p, cut in scattered.items()}
    results |= {f"sample {label}": whole for label in wanted.samples}

    def here(*given: Array) -> dict[str, Array]:
        found = _on_one_gpu(resident, steps, wanted, widths, columns, dict(zip(names, given, strict=True)))
        return {
            **{name: found[name] for name in ("states", "ring", "counts")},
            "rates": _summed(found["rates"], cut=False),
            **{f"spikes {p}": _summed(found[f"spikes {p}"], cut=cut) for p, cut in scattered.items()},
            **{f"sample {label}": _summed(found[f"sample {label}"], cut=False) for label in wanted.samples},
        }

    specs = tuple(places.get(name, whole) for name in names)
    mapped = jax.shard_map(here, mesh=resident.mesh, in_specs=specs, out_specs=results, check_vma=False)
    found = mapped(*in_order.values())
    after, recorded = results_of(first, steps, wanted, arguments[0], found)
    return _split(resident, after), recorded


def _of_ring(resident: SeveralResident) -> PartitionSpec:
    """Return on which axis sums are those of a GPU."""
    return PartitionSpec(None, AXIS) if resident.parts[0].partition.pushed else PartitionSpec(AXIS)


def _summed(found: Array, *, cut: bool) -> Array:
    """Return what all GPUs have found, each of its own neurons, which is zero elsewhere; `cut` by neurons."""
    if not found.size:
        return found
    return jax.lax.psum_scatter(found, AXIS, scatter_dimension=1, tiled=True) if cut else jax.lax.psum(found, AXIS)


def _on_one_gpu(
    resident: SeveralResident,
    steps: int,
    wanted: Wanted,
    widths: Mapping[tuple[str, str], int],
    columns: Mapping[str, Any],
    operands: dict[str, Array],
) -> dict[str, Array]:
    """Return the results of one GPU: its kernel has the states of all neurons, and changes those of its own."""
    first = resident.parts[0]
    partition = first.partition
    own, slots = partition.here * partition.per, partition.blocks * partition.per
    begin = jax.lax.axis_index(AXIS) * own
    states = jnp.zeros((operands["states"].shape[0], slots), np.uint32)
    operands["states"] = jax.lax.dynamic_update_slice(states, operands["states"], (0, begin))
    outs, zeroed = outs_of(first, steps, wanted, {label: width for label, (*_, width) in columns.items()}, operands)
    found = called(resident, Call(first, steps, wanted, widths, operands, outs, zeroed))
    found["states"] = jax.lax.dynamic_slice_in_dim(found["states"], begin, own, 1)
    found["counts"] = jax.lax.dynamic_slice_in_dim(found["counts"], begin, own) if wanted.counts else found["counts"]
    return found


def _split(resident: SeveralResident, state: NetworkState) -> NetworkState:
    """Return a state whose neurons are divided among the GPUs, where their number can be."""
    gpus = len(resident.parts)

    def split(x: Array) -> Array:
        axes = (*[None] * (x.ndim - 1), AXIS) if x.shape[-1] % gpus == 0 else ()
        return jax.lax.with_sharding_constraint(x, resident.split(*axes))

    neurons, arriving = jax.tree.map(split, (state.neurons, state.arriving))
    return NetworkState(state.step, neurons, arriving, state.quanta)
