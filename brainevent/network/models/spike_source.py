# SPDX-License-Identifier: Apache-2.0
"""Neurons that spike at given times: up to 64 spikes a neuron as parameters, or any number as an input."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value

__all__ = ["MOST_TIMES", "relay", "relay_rule", "spike_input", "spike_source", "spike_source_rule"]

MOST_TIMES = 64
_NEVER = -1

Array = Any
Times = Sequence[Any]  # of each neuron, the times of its spikes


def spike_source_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Let one neuron spike in the steps that its parameters at0, at1, ... name.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.spike_source("cells", [[1.0], [2.0]]).rule is brainevent.models.spike_source_rule
        True
    """
    steps = [getattr(p, name) for name in p if name.startswith("at")]
    return s.replace(step=s.step + 1), functools.reduce(operator.or_, (s.step == step for step in steps))


@model
def spike_source(name: str, times: Times, *, dt: Value = 0.1) -> Population:
    """Return neurons that spike at given times, of which each has at most 64.

    Each step compares its number with all of them, so a neuron with many takes longer; see `relay` for long trains.

    Args:
        name: Name of the population.
        times: For each neuron, the times of its spikes (ms), rounded to whole steps.
        dt: Time step of the network (ms).

    Returns:
        A population without a receptor, with a neuron for each element of `times`.

    Raises:
        NetworkError: A time is negative, or beyond 2**31 - 1 steps, or a neuron has two spikes in one step, or more
            than 64.

    Examples:
        >>> import brainevent as be
        >>> inputs = be.models.spike_source("inputs", [[1.0, 2.5], [4.0], []])
        >>> inputs.size, inputs.params["at0"], inputs.params["at1"]
        (3, array([10, 40, -1], dtype=int32), array([25, -1, -1], dtype=int32))
    """
    read = Physical(name, dt)
    steps = _steps(read, times)
    most = max((row.size for row in steps), default=0)
    if most > MOST_TIMES:
        at = next(neuron for neuron, row in enumerate(steps) if row.size == most)
        raise NetworkError(f"population {name}: neuron {at} has {most} spikes; give at most {MOST_TIMES}, or use relay")
    table = np.full((max(most, 1), len(steps)), _NEVER, np.int32)
    for neuron, row in enumerate(steps):
        table[: row.size, neuron] = row
    params = {"dt": read.dt, **{f"at{k}": row for k, row in enumerate(table)}}
    return Population(name, len(steps), spike_source_rule, {"step": 0}, params)


def relay_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Let one neuron spike when something arrives.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.relay("cells", 5).rule is brainevent.models.relay_rule
        True
    """
    return s, arriving.spikes > 0


@model
def relay(name: str, size: int) -> Population:
    """Return neurons that spike in each step in which anything above 0 arrives.

    With `spike_input` they spike at any number of given times. As the target of a projection, they repeat its spikes.

    Args:
        name: Name of the population.
        size: Number of neurons.

    Returns:
        A population with the receptor "spikes" (a number of spikes).

    Examples:
        >>> import brainevent as be
        >>> be.models.relay("inputs", 100).size
        100
    """
    return Population(name, size, relay_rule, {}, {}, units={"spikes": "1"})


def spike_input(times: Times, steps: int, *, dt: Value = 0.1, start: int = 0) -> Array:
    """Return spikes at given times as an input of the receptor "spikes" of `relay`.

    Args:
        times: For each neuron, the times of its spikes (ms), rounded to whole steps.
        steps: How many steps run.
        dt: Time step of the network (ms).
        start: Number of the first step that runs. Spikes before it, and after the last one, are left out.

    Returns:
        How many spikes each neuron has in each step, as float32 (steps, neurons).

    Raises:
        NetworkError: A time is negative or beyond 2**31 - 1 steps, or a neuron has two spikes in one step.

    Examples:
        >>> import brainevent as be
        >>> be.models.spike_input([[0.1], [0.0, 0.2]], 3)
        array([[0., 1.],
               [1., 0.],
               [0., 1.]], dtype=float32)
    """
    result = np.zeros((steps, len(times)), np.float32)
    for neuron, row in enumerate(_steps(Physical("spike_input", dt), times)):
        result[row[(row >= start) & (row < start + steps)] - start, neuron] = 1
    return result


def _steps(read: Physical, times: Iterable[Any]) -> list[Array]:
    """Return the numbers of steps in which each neuron spikes, in order."""
    rows = [np.sort(read.steps(**{f"times[{k}]": row})[0].reshape(-1)) for k, row in enumerate(times)]
    for neuron, row in enumerate(rows):
        if (twice := row[1:][np.diff(row) == 0]).size:
            raise NetworkError(
                f"population {read.population}: neuron {neuron} has two spikes in step {twice[0]}; a neuron spikes at "
                "most once in a step"
            )
    return rows
