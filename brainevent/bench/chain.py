# SPDX-License-Identifier: Apache-2.0
"""Chain the calls of a function in one compiled loop, so that XLA can neither hoist nor remove a call.

Between two calls is a barrier, which the results of one and the operands of the next pass together. The compiler moves
nothing across it: each call waits for the one before, is executed, and all its results count as used. The barrier costs
nothing when the loop runs, and the state is in donated buffers, so nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import program_leaves

__all__ = ["Chain", "as_arrays", "device_of", "unfilled"]

# XLA launches the kernels of an iteration as one graph, even if they are few: one by one, they take 7 us and more.
_COMPILER_OPTIONS = {"gpu": {"xla_gpu_graph_min_graph_size": 1}}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic))


def as_arrays(
    function: Callable[..., Any], operands: Sequence[Any]
) -> tuple[Callable[[Sequence[Any]], Any], list[jax.Array]]:
    """Return a function of the arrays in `operands`, and the arrays; other leaves, such as numbers, are constants."""
    leaves: list[Any]
    tree: Any
    leaves, tree = program_leaves(tuple(operands))  # the indices of matrices are operands, too
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

    def of_arrays(arrays: Sequence[Any]) -> Any:
        mixed = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            mixed[place] = array
        return function(*tree.unflatten(mixed))

    return of_arrays, [jnp.asarray(leaves[place]) for place in places]


def unfilled(avals: Sequence[Any]) -> list[jax.Array]:
    """Return memory for results."""
    return [jnp.empty(aval.shape, aval.dtype) for aval in avals]


@dataclass(frozen=True)
class Chain:
    """`calls` calls of a function in one compiled loop: `state = chain.run(*state)`, which uses the old state up."""

    run: Callable[..., Any]
    state: tuple[Any, ...]
    calls: int

    @classmethod
    def of(cls, function: Callable[..., Any], operands: Sequence[Any], calls: int) -> Chain:
        """Build the loop for a function; it is compiled by the first run."""
        of_arrays, arrays = as_arrays(function, operands)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in _outputs(of_arrays, arrays)]

        def call(arrays: Sequence[Any]) -> list[Any]:
            return [jnp.asarray(leaf) for leaf in jax.tree.leaves(of_arrays(arrays))]

        def turn(counted: Any) -> Any:
            count, state = counted
            arrays, _, live = jax.lax.optimization_barrier(state)
            if any(array.size for array in arrays):
                return count + 1, (arrays, call(arrays), live)
            # Without an operand for the barrier, a value that is always true passes it, and the call depends on it.
            return count + 1, (arrays, jax.lax.cond(live, call, lambda _: unfilled(shapes), arrays), live)

        def run(arrays: list[Any], results: list[Any], live: jax.Array) -> Any:
            # No scan: with `config.fuse_loops`, that would be another loop than the one described above.
            start = np.int32(0), (arrays, results, live)
            return jax.lax.while_loop(lambda counted: counted[0] < calls, turn, start)[1]

        # Copies: the operands belong to the caller, and the state is used up.
        state = ([jnp.copy(array) for array in arrays], unfilled(shapes), jnp.asarray(True))
        options = _COMPILER_OPTIONS.get(device_of(arrays).platform)
        return cls(jax.jit(run, donate_argnums=(0, 1, 2), compiler_options=options), state, calls)

    @classmethod
    def empty(cls, operands: Sequence[Any], calls: int) -> Chain:
        """Build the same loop with a single addition, to measure the cost of the loop."""
        return cls.of(lambda x: x + 1, (jnp.zeros((), device=device_of(operands)),), calls)


def device_of(operands: Sequence[Any]) -> jax.Device:
    """Return the first device of the operands, or the default device."""
    arrays = [leaf for leaf in jax.tree.leaves(operands) if isinstance(leaf, jax.Array)]
    devices = {device for array in (arrays or [jnp.zeros(())]) for device in array.devices()}
    return min(devices, key=lambda device: device.id)


def _outputs(of_arrays: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    return jax.tree.leaves(jax.eval_shape(lambda arrays: jax.tree.map(jnp.asarray, of_arrays(arrays)), arrays))
