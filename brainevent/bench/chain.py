# SPDX-License-Identifier: Apache-2.0
"""Chain the calls of a function in one compiled loop, so that XLA can neither hoist nor drop one of them.

Every call depends on the one before by data. A word of each result, masked by a number that is zero when the loop runs
(which XLA cannot know), decides over the first element of each operand of the next call. State goes around in donated
buffers, so a turn of the loop costs two small kernels and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Chain", "as_arrays", "unfilled"]

_MASK = np.uint32(0)  # an operand of the loop, hence unknown to the compiler


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic))


def _plain(leaf: Any) -> bool:
    """Say whether an array has a first element that can be read and written as bits."""
    return leaf.size > 0 and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)


def as_arrays(
    function: Callable[..., Any], operands: Sequence[Any]
) -> tuple[Callable[[Sequence[Any]], Any], list[jax.Array]]:
    """Return the function of the arrays in `operands`, and the arrays; other leaves, such as numbers, are built in."""
    leaves: list[Any]
    tree: Any
    leaves, tree = jax.tree.flatten(tuple(operands))
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

    def of_arrays(arrays: Sequence[Any]) -> Any:
        mixed = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            mixed[place] = array
        return function(*tree.unflatten(mixed))

    return of_arrays, [jnp.asarray(leaves[place]) for place in places]


def _word(results: Sequence[Any]) -> jax.Array:
    """Make one number of the first element of every result."""
    word = jnp.uint32(0)
    for result in filter(_plain, results):
        first = result[(0,) * result.ndim]
        if jnp.issubdtype(first.dtype, jnp.complexfloating):
            first = first.real
        word = word ^ (first != 0).astype(jnp.uint32)
    return word + 1


def _touched(array: Any, gate: jax.Array) -> Any:
    """Return the array, whose first element depends on `gate` for all that XLA knows."""
    if not _plain(array):
        return array
    place = (0,) * array.ndim
    first = array[place]
    return array.at[place].set(jnp.where(gate != 0, jnp.zeros_like(first), first))


def unfilled(avals: Sequence[Any]) -> list[jax.Array]:
    """Return room for results."""
    return [jnp.empty(aval.shape, aval.dtype) for aval in avals]


@dataclass(frozen=True)
class Chain:
    """`calls` calls of a function in one compiled program: `state = chain.run(*state)`, which uses the old state up."""

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

        def run(arrays: list[Any], results: list[Any], word: jax.Array, mask: jax.Array) -> Any:
            def turn(_: Any, carry: Any) -> Any:
                arrays, _, word = carry
                gate = word & mask
                arrays = [_touched(array, gate) for array in arrays]
                if any(map(_plain, arrays)):
                    results = call(arrays)
                else:  # nothing to carry the dependence: branch on it
                    results = jax.lax.cond(gate == 0, call, lambda _: unfilled(shapes), arrays)
                results = jax.lax.optimization_barrier(results)  # whole results, not the element that is read
                return arrays, results, _word(results or arrays)

            arrays, results, word = jax.lax.fori_loop(0, calls, turn, (arrays, results, word))
            return arrays, results, word

        jitted = jax.jit(run, donate_argnums=(0, 1, 2))
        # Copies: the operands belong to the caller, and the state is used up.
        state = ([jnp.copy(array) for array in arrays], unfilled(shapes), jnp.uint32(1))
        return cls(lambda *state: jitted(*state, _MASK), state, calls)

    @classmethod
    def empty(cls, operands: Sequence[Any], calls: int) -> Chain:
        """Build the same loop around no work: what the loop itself costs."""
        return cls.of(lambda *operands: (), operands, calls)


def _outputs(of_arrays: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    return jax.tree.leaves(jax.eval_shape(lambda arrays: jax.tree.map(jnp.asarray, of_arrays(arrays)), arrays))
