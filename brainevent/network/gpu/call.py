# SPDX-License-Identifier: Apache-2.0
"""`run_on_gpu`: one call of `simulate` on a GPU, or one for each of the weights that `jax.vmap` maps over."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ..plan.replaced import Weights
from ..run.recorded import Wanted
from ..state import NetworkState
from .given import Engine, given_weights, placed
from .pure import simulated
from .sweep import swept

__all__ = ["run_on_gpu"]

Array = Any
Results = tuple[NetworkState, dict[str, Array]]


def run_on_gpu(
    engine: Engine,
    now: Weights,
    state: NetworkState,
    params: Mapping[str, Any],
    given: Mapping[str, Array],
    steps: int,
    wanted: Wanted,
) -> Results:
    """Return the state after some steps, and what was recorded, with the weights of now where none are in `params`.

    The state, names of parameters and inputs `given` are checked.
    """

    def run(weights: Mapping[str, Array], arguments: tuple[NetworkState, Any, Any]) -> Results:
        if any(isinstance(one, Tracer) for one in weights.values()):
            return swept(run, weights, arguments, now.plan.quanta)
        return _run(engine, now, weights, *arguments, steps, wanted)

    own = {p.name for p in engine.plan.projections} & params.keys()
    weights = {name: params[name] for name in params if name in own}
    neurons = {name: values for name, values in params.items() if name not in own}
    return run(weights, (state, neurons, given))


def _run(
    engine: Engine,
    now: Weights,
    weights: Mapping[str, Array],
    state: NetworkState,
    params: Mapping[str, Mapping[str, Array]],
    given: Mapping[str, Array],
    steps: int,
    wanted: Wanted,
) -> Results:
    """Run with weights that are not traced."""
    begin = placed(engine, now, given_weights(now, weights), state)
    after, out = simulated(begin.resident, begin.state, params, steps, given, wanted)
    arriving = {
        name: {key: sums.astype(_dtype(state.arriving[name][key])) for key, sums in receptors.items()}
        for name, receptors in after.arriving.items()
    }
    return begin.resolved(dataclasses.replace(after, arriving=arriving), out)


def _dtype(sums: Array) -> Any:
    """Return the dtype in which sums leave a call that was given some: floats if those were, which hold as much."""
    dtype = jnp.result_type(sums)
    return jnp.promote_types(dtype, np.float32) if jnp.issubdtype(dtype, np.floating) else np.int32
