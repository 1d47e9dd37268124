# SPDX-License-Identifier: Apache-2.0
"""Pending input of neurons keeps its value when the quantum of its receptor changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._warned import warn_each_time
from ...errors import NetworkError
from .quantum import LARGEST_SUM, ROUNDED, SMALLEST, RoundedWeightsWarning

__all__ = ["Held", "divided", "held_in"]

_MOST_PARTS = 1024  # into which a quantum is divided, unless by a power of two
_SOME = 64  # sums that are checked before all others
_WHOLE = 2**-7  # parts, from a whole number, at most: large values are near one by chance

Array = Any


@dataclass(frozen=True, eq=False)
class Held:
    """Pending sums of a receptor, int32 (rows, neurons), in a quantum that is divided by `parts`."""

    parts: int
    sums: Array


def held_in(
    what: str, place: str, sums: Array, before: float, quantum: np.floating[Any], loads: Array, *, same: bool
) -> Held:
    """Return sums, in quanta `before`, in other quanta, which are divided into as few parts as sums need to be whole.

    With `same`, they are divided into quanta `before` if that is possible. Else powers of two come first: with these,
    weights in finer quanta are delivered as the same floats. If no number of parts does, sums are rounded, by 2**-9 of
    themselves at most, or there is a warning. `loads` are sums of |weight| into each neuron, in the new quanta. Sums
    that 32 bits do not hold raise; whether they do with what weights can still add to them is for `check_pending`.
    """
    ratio, heaviest = before / float(quantum), float(loads.max(initial=0))
    largest = np.abs(sums.astype(np.int64)).max(0, initial=0) * ratio
    for found, said, advice in (
        (loads, "weights into", "pass smaller weights, weights that differ less, or a larger quantum= to build"),
        (
            largest,
            "pending input of",
            "pass weights that differ less from those before, or set them when no input is pending",
        ),
    ):
        if float(found.max(initial=0)) > LARGEST_SUM:
            neuron, (population, _, receptor) = int(found.argmax()), place.rpartition(".")
            raise NetworkError(
                f"{what}: {said} neuron {neuron} of {population} by {receptor} may add up to {found[neuron]:.0f} times "
                f"the quantum of weights there, {quantum:g}, but sums have 32 bits, up to {LARGEST_SUM}; {advice}"
            )
    parts = round(1 / ratio) if ratio else 0
    if same and 1 <= parts <= _room(quantum, heaviest) and float(divided(quantum, parts)) == before:
        return Held(parts, sums)
    room = _room(quantum, float((largest + loads).max(initial=0)))
    values = np.unique(np.abs(sums[sums != 0].astype(np.int64))) * ratio
    parts, errors = _fewest_parts(values, room, 4 * float(np.finfo(quantum.dtype).eps))
    _check(f"{what}: pending input of {place}", values, errors, quantum / parts)
    return Held(parts, np.rint(sums * (ratio * parts)).astype(np.int32))


def _room(quantum: np.floating[Any], most: float) -> int:
    """Return into how many parts a quantum can be divided for `most` of it to fit in 32 bits, at least one."""
    return max(1, int(min(LARGEST_SUM / max(most, 1), float(quantum) / SMALLEST)))


def _fewest_parts(values: Array, room: int, exact: float) -> tuple[int, Array]:
    """Return into how many parts quanta are divided for values to be whole, or nearly, and by how much they change.

    A value that changes by `exact` of itself counts as whole.
    """
    powers = [2**k for k in range(room.bit_length())]
    others, some = range(3, 1 + min(room, _MOST_PARTS)), values[:: max(1, values.size // _SOME)]
    near = ((exact, _WHOLE, powers), (exact, _WHOLE, others), (exact, np.inf, powers), (ROUNDED, np.inf, powers))
    for allowed, most, numbers in near:
        for parts in numbers:
            if all((_errors(x, parts) <= np.minimum(allowed * x, most / parts)).all() for x in (some, values)):
                return parts, _errors(values, parts)
    return powers[-1], _errors(values, powers[-1])


def divided(quantum: np.floating[Any], parts: int) -> np.floating[Any]:
    """Return a part of a quantum, in its dtype."""
    part: np.floating[Any] = quantum.dtype.type(float(quantum) / parts)
    return part


def _errors(values: Array, parts: int) -> Array:
    return np.abs(np.rint(values * parts) / parts - values)


def _check(what: str, values: Array, errors: Array, quantum: np.floating[Any]) -> None:
    """Warn if some values change by more than 2**-9 of themselves; raise if one does by so much of the largest."""
    rounded = errors > ROUNDED * values
    if not rounded.any():
        return
    found = f"{what}, sent with earlier weights, is rounded to multiples of {quantum:g} beside the present ones"
    advice = "set weights when no input is pending, or weights that differ less from the earlier ones"
    if errors.max() > ROUNDED * values.max():
        raise NetworkError(f"{found}, by more than 2**-9 of the largest sum; {advice}")
    warn_each_time(
        f"{found}: {int(rounded.sum())} of {values.size} different sums by more than 2**-9 of their value; {advice}",
        RoundedWeightsWarning,
    )
