# SPDX-License-Identifier: Apache-2.0
"""Steps of a network with plastic synapses as a loop of JAX, which can be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import varying_alike
from ..plan.plan import Plan
from ..state import NetworkState
from .carried import operands_of
from .delivery import deliveries
from .outputs import Outputs
from .program import Carry, Program
from .quanta import Receptor, in_dtypes, in_quanta

__all__ = ["plastic_program", "run_steps"]

Array = Any


def plastic_program(
    plan: Plan,
    outputs: Outputs,
    params: Mapping[str, Mapping[str, Array]],
    weights: Mapping[str, Array],
    keys: Mapping[str, Array],
    surrogate: Callable[[Array], Array] | None,
) -> Program:
    """Return a network whose sums are floats, so that all that arrives has derivatives; `weights` are those given."""
    dtypes = dict.fromkeys(plan.receptors(), plan.dtype)
    fixed = in_dtypes(plan, {**weights, **in_quanta(plan, weights)}, dtypes)
    own = plan, deliveries(plan), params, fixed, keys, outputs, dtypes, surrogate
    return Program(*own, whole=False, carried=operands_of(plan, weights))


def run_steps(
    program: Program,
    state: NetworkState,
    inputs: Mapping[str, Array],
    steps: int,
    every: int | None,
    dtypes: Mapping[Receptor, Any],
) -> tuple[NetworkState, dict[str, Array]]:
    """Run steps from a state; for gradients, keep only the state after each `every` steps, unless that is None.

    Sums that leave as integers are rounded.
    """
    chunk = every or steps
    whole = steps // chunk * chunk

    def run(carry: Carry, given: Any) -> tuple[Carry, Any]:
        return jax.lax.scan(program.step, carry, given)

    turns = jnp.arange(steps, dtype=np.int32)
    given = turns, dict(inputs)
    carry = varying_alike(program.start(state), program.params, program.weights, program.keys, dict(inputs))
    if chunk == steps:
        carry, rows = (jax.checkpoint(run) if every else run)(carry, given)
    else:
        cut = jax.tree.map(lambda x: x[:whole].reshape(-1, chunk, *x.shape[1:]), given)
        carry, rows = jax.lax.scan(jax.checkpoint(run, prevent_cse=False), carry, cut)
        rows = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), rows)
        if whole < steps:
            carry, rest = jax.checkpoint(run)(carry, jax.tree.map(lambda x: x[whole:], given))
            rows = jax.tree.map(lambda *x: jnp.concatenate(x), rows, rest)
    rings = {place: jnp.rint(ring) if dtypes[place] == np.int32 else ring for place, ring in carry.rings.items()}
    after = Carry(carry.step, carry.neurons, rings, carry.filled, carry.plastic)
    return program.state(after, np.int32(steps), state, dtypes), {**rows, **carry.filled}
