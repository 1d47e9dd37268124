# SPDX-License-Identifier: Apache-2.0
"""Pending input: whether 32 bits hold it with all that weights can still add, and its value in other quanta."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import directly
from ..._warned import warn_each_time
from ...errors import NetworkError
from .graded import delivered_at_most
from .plan import Plan, SynapsePlan
from .plastic import PlasticPlan
from .projections import projection_of
from .quantum import LARGEST_SUM, ROUNDED, SMALLEST, RoundedWeightsWarning

__all__ = [
    "NO_SUM",
    "Held",
    "beyond",
    "check_pending",
    "divided",
    "fit",
    "held_in",
    "in_place_of",
    "into",
    "largest_load",
    "plastic_into",
    "room_by_row",
]

_CHUNK = 2**22  # synapses
_ADVICE = "pass a state of a run with these weights"
Array = Any


def check_pending(where: str, plan: Plan, arriving: Mapping[str, Mapping[str, Array]], advice: str = _ADVICE) -> None:
    """Raise, with advice, if sums (rows, neurons) of a state, by population and receptor, may leave 32 bits in a run.

    Row k arrives k steps after the next one. Until then each synapse with a delay of at most k steps can add its weight
    once. So the pending input of a run of the plan itself always fits.
    """
    for population, receptor in plan.receptors():
        rows = arriving[population][receptor]
        if (most := _largest(rows).max(initial=0)) and most + largest_load(plan, population, receptor) > LARGEST_SUM:
            _check_each(where, plan, population, receptor, rows, advice)


def largest_load(plan: Plan, population: str, receptor: str) -> int:
    """Return the largest sum of what is delivered to a neuron, in quanta; it is added up once for each plan."""
    place = population, receptor
    if place not in plan.loads:
        loads = np.zeros(plan.population(population).size, np.int64)
        for synapses in into(plan, population, receptor):
            for targets, weights, _ in _chunks(plan, synapses):
                np.add.at(loads, targets, weights)
        for plastic in plastic_into(plan, population, receptor):
            loads += plastic.loads(plan.population(population).quanta[receptor])
        plan.loads[place] = int(loads.max(initial=0))
    return plan.loads[place]


def _check_each(where: str, plan: Plan, population: str, receptor: str, rows: Array, advice: str) -> None:
    """Raise if the sums of a neuron do not fit; looks only at neurons whose sums are that large."""
    suspects = np.flatnonzero(_largest(rows) > LARGEST_SUM - largest_load(plan, population, receptor))
    column = np.full(plan.population(population).size, -1)
    column[suspects] = np.arange(suspects.size)
    added = np.zeros((len(rows), suspects.size), np.int64)
    for synapses in into(plan, population, receptor):
        for targets, weights, delays in _chunks(plan, synapses):
            chosen = (column[targets] >= 0) & (delays < len(rows))
            np.add.at(added, (delays[chosen], column[targets[chosen]]), weights[chosen])
    for plastic in plastic_into(plan, population, receptor):
        bound = plastic.bound(plan.population(population).quanta[receptor])
        for delay, counts in _counts_by_delay(plastic):
            if delay < len(rows):
                added[delay] += bound * counts[suspects]
    added = added.cumsum(0)
    sums = np.abs(rows[:, suspects].astype(np.int64))
    row, place = np.unravel_index(int((sums + added).argmax()), added.shape)
    if (total := sums[row, place] + added[row, place]) > LARGEST_SUM:
        raise NetworkError(
            f"{where}: pending input of neuron {suspects[place]} of {population} by {receptor} may add up to {total} "
            f"quanta: {sums[row, place]} arrive in {row + 1} steps, and spikes until then may add {added[row, place]}; "
            f"sums have 32 bits, up to {LARGEST_SUM}: {advice}"
        )


def _largest(rows: Array) -> Array:
    """Return the largest |sum| of each neuron: int64 (neurons,)."""
    low, high = (end(0, initial=0).astype(np.int64) for end in (rows.min, rows.max))
    return np.maximum(high, -low)


def into(plan: Plan, population: str, receptor: str) -> Iterator[SynapsePlan]:
    """Yield the synapses of all projections into a receptor."""
    for place, projection in enumerate(plan.projections):
        if (projection.target, projection.receptor) == (population, receptor) and projection.entries:
            yield plan.synapses[place]


def plastic_into(plan: Plan, population: str, receptor: str) -> Iterator[PlasticPlan]:
    """Yield the plastic projections into a receptor."""
    return (one for one in plan.plastic if (one.target, one.receptor) == (population, receptor))


def _counts_by_delay(plastic: PlasticPlan) -> Iterator[tuple[int, Array]]:
    """Yield delays, and how many synapses with each may add to targets; at the axon, they may in any step."""
    if plastic.at_axon or plastic.distinct.size < 2:
        delay = 0 if plastic.at_axon else plastic.largest_delay
        yield from [(delay, plastic.degrees)] if plastic.entries else []
        return
    synapses = plastic.synapses
    for delay in plastic.distinct.tolist():
        yield delay, np.bincount(synapses.targets[synapses.delays == delay], minlength=plastic.sizes[1])


def _chunks(plan: Plan, synapses: SynapsePlan) -> Iterator[tuple[Array, Array, Array]]:
    """Yield targets, what they deliver at most as int64 and delays of some synapses at a time."""
    factor = plan.reach(synapses.source, projection_of(synapses).least)
    entries = synapses.targets.size
    weights, delays = (np.broadcast_to(part, entries) for part in (synapses.weights, synapses.delays))
    for begin in range(0, entries, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        sizes = delivered_at_most(np.abs(weights[some].astype(np.int64)), factor)
        yield synapses.targets[some], sizes, delays[some].astype(np.int64)


_MOST_PARTS = 1024  # into which a quantum is divided, unless by a power of two
_SOME = 64  # sums that are checked before all others
_WHOLE = 2**-7  # parts, from a whole number, at most: large values are near one by chance


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


NO_SUM = -(2**31)  # calls that get it raise, or return NaN


def room_by_row(plan: Plan, place: tuple[str, str]) -> Array:
    """Return how large |sums| of a state may be, int32 (rows, neurons); weights of longer delays do not count."""
    rows = np.zeros((plan.rows(*place), plan.population(place[0]).size))
    for s in into(plan, *place):
        delays, weights = (np.broadcast_to(x, s.targets.shape) for x in (s.delays, s.weights))
        factor = plan.reach(s.source, projection_of(s).least)
        for delay in np.unique(s.delays):
            chosen = delays == delay
            sizes = delivered_at_most(np.abs(weights[chosen].astype(float)), factor)
            rows[delay:] += np.bincount(s.targets[chosen], sizes, rows.shape[1])
    for one in plastic_into(plan, *place):
        bound = one.bound(plan.population(place[0]).quanta[place[1]])
        for delay, counts in _counts_by_delay(one):
            rows[delay:] += bound * counts
    return (LARGEST_SUM - rows).astype(np.int32)


def fit(sums: Array, room: Array) -> Array:
    """Say whether there is room for all sums of a state, which may be traced."""
    if len(room) == 1:  # XLA reduces rows much faster than all elements
        sums = jnp.stack([sums.min(0), sums.max(0)])
    return ~beyond(sums, room).any()


def beyond(sums: Array, room: Array) -> Array:
    """Return which sums of a state are larger than there is room for."""
    return (sums > room) | (sums < -room)


@directly
def in_place_of(fine: Array, tree: Any, integer: int | None = None) -> Any:
    """Return arrays; if not `fine`, NaN in place of floats, and of integers `integer` unless it is None."""

    def chosen(x: Array) -> Array:
        if jnp.issubdtype(x.dtype, np.floating):
            # NaN is made of it, so `jax.vmap` leaves the axis of a batch where it is.
            return jax.lax.select(fine, x, x + np.nan)
        return x if integer is None else jax.lax.select(fine, x, jnp.full_like(x, integer))

    return jax.tree.map(chosen, tree)
