# SPDX-License-Identifier: Apache-2.0
"""Run a network for many steps in one program, and keep every spike on the device."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from ..errors import ShapeError
from ..event.activity import is_active
from ..event.form import numbers_of
from ..event.room import check_room
from ..typing import EventLike, PyTree
from .statistics import milliseconds
from .trains import Spikes

__all__ = ["record"]

State = TypeVar("State")
_MOST_STEPS = 2**31 - 1
_MOST_UNROLLED = 1000  # steps: they take minutes to compile


def record(
    step: Callable[..., tuple[State, EventLike]],
    state: State,
    steps: int,
    *operands: PyTree,
    dt: float,
    unroll: int = 1,
) -> tuple[State, Spikes]:
    """Run a step function many times in a compiled loop, and keep all spikes.

    Each step takes one bit per neuron, on the device; nothing is copied to the host before it is needed. A program is
    compiled once for each `step` and shapes, and runs again with other numbers.

    Args:
        step: `step(state, i, *operands)` returns the new state, and the spikes of all neurons, (n,), for i from 0 on.
        state: The state before the first step, a tree of arrays.
        steps: The number of steps, at most 2**31 - 1. What is kept must fit into memory: record longer runs in parts.
        *operands: Operands that are the same in all steps, such as a matrix.
        dt: The length of a step in milliseconds.
        unroll: Steps of one turn of the compiled loop, at most 1000: on a GPU ten or so of them save launches.

    Returns:
        The last state, and the spikes.

    Raises:
        ValueError: If a number of steps is out of range, or `dt` is not positive.
        TypeError: If `step` does not return a pair, or a number of steps is not an integer.
        ShapeError: If `step` does not return a vector of spikes.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> def step(v, i, current):
        ...     v = v + current
        ...     spikes = v >= 1
        ...     return jnp.where(spikes, 0, v), spikes
        >>> v, spikes = brainevent.record(step, jnp.zeros(3), 8, jnp.array([0.0, 0.25, 0.5]), dt=0.1)
        >>> spikes.counts
        array([0, 2, 4])
    """
    steps, unroll = _counted("steps", steps, 0), _counted("unroll", unroll, 1)
    if steps > _MOST_STEPS:
        raise ValueError(
            f"record: steps is {steps}; pass at most {_MOST_STEPS}, the largest int32, and continue from "
            "the returned state"
        )
    unroll = min(unroll, max(1, steps))
    if unroll > _MOST_UNROLLED:
        raise ValueError(
            f"record: unroll is {unroll}, and each of these steps is compiled separately; "
            f"pass at most {_MOST_UNROLLED} (more than about ten gain little)"
        )
    dt = milliseconds("record", dt)
    state, bits, sized = _run(step, steps, unroll, state, operands)
    return state, Spikes(bits, sized.shape[1], dt)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _run(step: Callable[..., Any], steps: int, unroll: int, state: Any, operands: tuple[Any, ...]) -> Any:
    """Return the last state, the bits of all spikes, and an array without elements that is as wide as the spikes."""

    def one(state: Any, i: Any) -> Any:
        return _checked(step(state, i, *operands))

    def turn(state: Any, numbers: Any) -> Any:
        state, spikes = jax.lax.scan(one, state, numbers, unroll=True)
        return state, jnp.packbits(spikes, axis=1, bitorder="little")  # of all at once: a launch for many steps

    spikes = jax.eval_shape(lambda: _checked(step(state, jnp.int32(0), *operands))[1])
    check_room("record", f"{steps} steps of {spikes.size} neurons", steps * (-(-spikes.size // 8) + 4))
    whole, numbers = steps // unroll * unroll, jnp.arange(steps, dtype=jnp.int32)
    state, bits = jax.lax.scan(turn, state, numbers[:whole].reshape(-1, unroll))
    bits = bits.reshape(whole, bits.shape[2])
    if whole < steps:
        state, rest = turn(state, numbers[whole:])
        bits = jnp.concatenate([bits, rest])
    return state, bits, jnp.zeros((0, spikes.size), bool)


def _counted(name: str, number: Any, least: int) -> int:
    try:
        count = operator.index(number)
    except TypeError:
        raise TypeError(f"record: {name} is {number!r}; pass an integer") from None
    if count < least:
        raise ValueError(f"record: {name} is {count}; pass at least {least}")
    return count


def _checked(returned: Any) -> tuple[Any, jax.Array]:
    """Return the state and which neurons spiked, of what a step returned."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(f"record: step returned {type(returned).__name__}; return a pair, (state, spikes)")
    state, spikes = returned[0], is_active(numbers_of(returned[1]))
    if spikes.ndim != 1:
        raise ShapeError(f"record: a step's spikes have shape {spikes.shape}; pass a vector, one element per neuron")
    return state, spikes
