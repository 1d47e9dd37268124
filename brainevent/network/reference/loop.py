# SPDX-License-Identifier: Apache-2.0
"""A piece of a run: any number of steps up to the size of its records, which is compiled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..run.recorded import Wanted
from ..state import NetworkState
from .outputs import Outputs
from .prepare import program_of
from .program import Carry
from .quanta import dtypes_of_sums, in_dtypes

__all__ = ["Piece", "piece"]

Array = Any
Piece = Callable[[NetworkState, Any, Any, Mapping[str, Array], int], tuple[NetworkState, dict[str, Array], Array]]


def piece(plan: Plan, wanted: Wanted, length: int) -> Piece:
    """Return a function of state, parameters, weights, inputs (length, ...) and a count of steps, compiled when called.

    Weights are those of all projections, in quanta, of any dtype. It returns the state after the steps, what was
    recorded, and for each step whether all states were finite: that is only looked at if the plan asks for it.
    """
    dtypes = dtypes_of_sums(plan)

    def run(
        state: NetworkState, params: Any, weights: Any, inputs: Mapping[str, Array], count: Array
    ) -> tuple[NetworkState, dict[str, Array], Array]:
        outputs = Outputs(plan, wanted, length, jnp.asarray(state.step, np.uint32))
        program = program_of(plan, outputs, params, in_dtypes(plan, weights, dtypes), None, {}, dtypes)

        def step(carry: Carry, turn: Array) -> tuple[Carry, Any]:
            carry, row = program.step(carry, (turn, {name: array[turn] for name, array in inputs.items()}))
            return carry, (row, _finite(carry) if plan.check_finite else np.True_)

        def body(turn: Array, both: Any) -> Any:
            carry, row = step(both[0], turn)
            return carry, jax.tree.map(lambda rows, value: rows.at[turn].set(value), both[1], row)

        start = program.start(state)
        shapes = jax.eval_shape(step, start, jnp.int32(0))[1]
        rows = jax.tree.map(lambda one: jnp.ones((length, *one.shape), one.dtype), shapes)
        carry, (recorded, finite) = jax.lax.fori_loop(jnp.int32(0), count, body, (start, rows))
        return program.state(carry, count, state, dict.fromkeys(dtypes, np.int32)), {**recorded, **carry.filled}, finite

    compiled = jax.jit(run)

    def called(
        state: NetworkState, params: Any, weights: Any, inputs: Mapping[str, Array], count: int
    ) -> tuple[NetworkState, dict[str, Array], Array]:
        with jax.enable_x64(plan.dtype == "float64"):
            return compiled(state, params, weights, inputs, np.int32(count))

    return called


def _finite(carry: Carry) -> Array:
    arrays = [x for x in jax.tree.leaves(carry.neurons) if jnp.issubdtype(x.dtype, np.floating)]
    return jnp.array([jnp.isfinite(x).all() for x in arrays]).all()
