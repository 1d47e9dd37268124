# SPDX-License-Identifier: Apache-2.0
"""`simulated`: steps in native code as a pure function of JAX's arrays; `jax.vmap` runs in threads."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray, Tracer, behind
from ...errors import NetworkError
from ...ffi.call import native_call
from ...ffi.targets import register_once
from ..calls.forward import checked_params, refuse_derivatives
from ..placed import OnCpu
from ..plan.plan import Plan
from ..run.recorded import Wanted
from ..state import NetworkState
from .jobs import Job
from .native import handler_address
from .plastic_pure import Plastic, after_run, given_to, plastic_of, results_of

__all__ = ["Resident", "simulated"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]
_TARGET = "brainevent_network"
_kept: dict[int, Job] = {}  # XLA may keep a program for any time, so jobs that it has are never freed


class Resident:
    """What programs share with the weights of a plan: a job for each number of steps and record."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._jobs: dict[Hashable, Job] = {}

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take."""
        return self.plan.synapse_bytes

    def of_operands(self) -> Resident:
        """Return itself: a job is always an operand."""
        return self

    def job(self, steps: int, wanted: Wanted, widths: Mapping[tuple[str, str], int], numbers: Mapping[str, int]) -> Job:
        """Return the job of a call."""
        samples = ((k, s.population, s.state, s.every, s.neurons.tobytes()) for k, s in wanted.samples.items())
        key = steps, wanted.spikes, wanted.counts, wanted.rates, tuple(samples), tuple(widths.items())
        if key not in self._jobs:
            self._jobs[key] = Job(self.plan, steps, wanted, widths, numbers)
        return self._jobs[key]


@dataclass(frozen=True)
class _Target(OnCpu):
    """The handler of all networks."""

    name: str = _TARGET
    title: str = "network"
    platform: str = "cpu"

    @property
    def attributes(self) -> Mapping[str, Any]:
        """None but those of all kernels."""
        return {}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Raise: the synapses are not in the program."""
        raise NetworkError(
            "simulate: a program with a network of backend='numba' cannot be exported, since the synapses are in the "
            'memory of this process; build the network with backend="jax"'
        )

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> _Target:
        """Return itself: it reads operands as bytes."""
        return self


def simulated(
    residents: Sequence[Resident],
    state: NetworkState,
    params: Params,
    steps: int,
    given: Mapping[str, Array],
    wanted: Wanted,
    keys: Mapping[str, Array],
) -> tuple[NetworkState, dict[str, Array]]:
    """Return the state after some steps, and what was recorded, in the forms of the reference.

    With several residents, all arguments but keys have a first axis over them, and so have all results. State and
    inputs `given`, by "population.receptor", are checked, and so are the names of parameters.
    """
    plan = residents[0].plan
    register_once(_TARGET, "cpu", handler_address)
    operands, outs = _operands(plan, state, given, keys), _outs(plan, steps, wanted)
    plastic = refuse_derivatives("numba", plastic_of(plan, state, params))
    names = ["job", "begin", "keys", *operands, *(f"param {p.name}.{k}" for p in plan.populations for k in p.params)]
    names += _names_given(plan, plastic, len(residents) > 1)
    numbers = {name: k for k, name in enumerate([*names, *outs])}
    widths = {(name.rpartition(".")[0], name.rpartition(".")[2]): jnp.shape(x)[-1] for name, x in given.items()}
    jobs = [resident.job(steps, wanted, widths, numbers) for resident in residents]
    begin = jax.device_put(jnp.asarray(state.step, np.uint32), jax.local_devices(backend="cpu")[0])

    def call(
        job: Array, begin: Array, params: Params, arrays: Sequence[Array], plastic: Plastic
    ) -> tuple[list[Array], dict[str, Any]]:
        own = refuse_derivatives("numba", checked_params(plan, jobs[0].drawn, params))
        flat = [own[p.name][key] for p in plan.populations for key in p.params]
        passed = [job, begin, _keys(plan, keys), *refuse_derivatives("numba", list(arrays)), *flat]
        rest = given_to(plan, plastic, begin)
        found = native_call(_Target(), [*passed, *(rest[name] for name in sorted(rest))], list(outs.values()))
        return found, after_run(plan, dict(zip(outs, found, strict=True)), begin + np.uint32(steps))

    arrays = list(operands.values())
    if len(jobs) == 1:
        found, parts = call(jobs[0].words, begin, params, arrays, plastic)
    else:
        found, parts = jax.vmap(call)(np.stack([job.words for job in jobs]), begin, params, arrays, plastic)
    results = [behind(x) for x in found]
    if any(isinstance(x, Tracer) for x in results):
        _kept.update((id(job), job) for job in jobs)
    else:
        jax.block_until_ready(results)  # while jobs live
    after, recorded = _results(plan, state, begin + np.uint32(steps), wanted, dict(zip(outs, found, strict=True)))
    return replace(after, **parts), recorded


def _names_given(plan: Plan, plastic: Plastic, several: bool) -> list[str]:
    """Return the names of the operands for plastic synapses."""
    alike = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[int(several) :], jnp.result_type(x)), plastic)
    begin = jax.ShapeDtypeStruct((), np.uint32)
    return sorted(jax.eval_shape(lambda plastic, begin: given_to(plan, plastic, begin), alike, begin))


def _keys(plan: Plan, keys: Mapping[str, Array]) -> Array:
    rows = [jnp.asarray(keys.get(p.name, np.array(p.key, np.uint32)), np.uint32) for p in plan.populations]
    return jnp.stack(rows)


def _operands(
    plan: Plan, state: NetworkState, given: Mapping[str, Array], keys: Mapping[str, Array]
) -> dict[str, Array]:
    """Return states, pending input and inputs as they are passed, by name."""
    states = {
        f"state {p.name}.{key}": jnp.asarray(state.neurons[p.name][key], array.dtype)
        for p in plan.populations
        for key, array in p.state.items()
    }
    sums = {f"sums {name}.{r}": jnp.asarray(state.arriving[name][r]).astype(np.int32) for name, r in plan.receptors()}
    return {**states, **sums, **{f"input {name}": array for name, array in given.items()}}


def _outs(plan: Plan, steps: int, wanted: Wanted) -> dict[str, ShapedArray]:
    """Return the types of results, by name."""
    sizes = {p.name: p.size for p in plan.populations}
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        f"after {p.name}.{key}": ((p.size,), array.dtype) for p in plan.populations for key, array in p.state.items()
    }
    for name, receptor in plan.receptors():
        shapes[f"pending {name}.{receptor}"] = (plan.rows(name, receptor), sizes[name]), np.int32
    shapes |= {f"spikes {name}": ((steps, sizes[name]), plan.dtype) for name in wanted.spikes}
    shapes |= {f"counts {name}": ((sizes[name],), plan.dtype) for name in wanted.counts}
    shapes |= {f"rate {name}": ((steps,), plan.dtype) for name in wanted.rates}
    for label, sample in wanted.samples.items():
        shapes[f"sample {label}"] = (-(-steps // sample.every), sample.neurons.size), sample.dtype(plan)
    shapes |= results_of(plan)
    return {name: ShapedArray(shape, jnp.dtype(dtype)) for name, (shape, dtype) in shapes.items()}


def _results(
    plan: Plan, state: NetworkState, step: Array, wanted: Wanted, found: Mapping[str, Array]
) -> tuple[NetworkState, dict[str, Array]]:
    neurons = {p.name: {key: found[f"after {p.name}.{key}"] for key in p.state} for p in plan.populations}
    arriving = {p.name: {key: found[f"pending {p.name}.{key}"] for key in p.quanta} for p in plan.populations}
    recorded = {
        **{f"{name}.spikes": found[f"spikes {name}"] for name in wanted.spikes},
        **{f"{name}.counts": found[f"counts {name}"] for name in wanted.counts},
        **{f"{name}.rate": found[f"rate {name}"] for name in wanted.rates},
        **{label: found[f"sample {label}"] for label in wanted.samples},
    }
    return NetworkState(step, neurons, arriving, state.quanta), recorded
