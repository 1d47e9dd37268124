# SPDX-License-Identifier: Apache-2.0
"""Draw synapses pair by pair, with a probability that is a function of both neurons; and compute values of synapses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._system import cores
from ...event.room import check_room
from ..description.coupling import Coupling
from .delays import LARGEST_DELAY
from .loop_arguments import Looked, Sight
from .loops import find_pairs, map_pairs
from .mapped import Mapped, inputs_of, numbers_of, refuse_pair, values_of
from .pairs import Pairs, pairs_of
from .threads import in_threads, row_edges
from .wiring import Wiring

__all__ = ["Found", "delay_law", "found_pairs", "is_mapped", "map_synapses", "mapped_delays", "refuse_chance"]
__all__ += ["refuse_value"]

_BUFFER = 2**22  # targets
_MARKS = 256  # pairs that are looked at at a time
_FEW = 2**20  # pairs for which one thread does
_SAMPLE = 32  # sources from which the number of synapses is estimated
_CHUNKS = 4  # for each thread
_RIGHT_DELAYS = f"pass delays from 0 ms to {LARGEST_DELAY} steps"

Array = Any


@dataclass(frozen=True, eq=False)
class Found:
    """The targets of all sources: `counts` int64 (1, sources), and `pieces` int32 by the first source of each."""

    counts: Array
    edges: list[int]
    pieces: dict[int, Array]


def found_pairs(wiring: Wiring, seed: int, key: Array) -> Found:
    """Return the targets of each source, group by group."""
    assert wiring.chance is not None
    pairs = pairs_of(wiring, seed)
    where = pairs.pre, pairs.post, pairs.order, pairs.group, pairs.starts, pairs.begins, pairs.ends, pairs.limits
    looked = Looked(key, int(wiring.skip), *where)
    counts, widths = np.zeros((1, wiring.shape[0]), np.int64), pairs.widths()
    find = find_pairs(wiring.chance)

    def found(first: int, last: int) -> list[tuple[int, Array]]:
        sight = Sight(np.empty(_MARKS, np.float32), np.empty(_MARKS, np.uint8), np.empty(_MARKS + 1, np.int32))
        wrong, pieces = np.full(1, -1), []
        while first < last:
            size = int(max(min(widths[first:last].sum(), _BUFFER), widths[first:last].max(initial=1), 1))
            targets = np.empty(size, np.int32)
            end = find(first, last, looked, sight, targets, counts[0], wrong)
            if wrong[0] >= 0:
                return [(-1, wrong)]
            own = targets[: counts[0, first:end].sum()]
            pieces.append((first, own if 2 * own.size > size else own.copy()))
            first = end
        return pieces

    _check_room(wiring, found, counts[0])
    many = [piece for pieces in in_threads(found, _edges(widths)) for piece in pieces]
    if wrong := [int(row[0]) for first, row in many if first < 0]:
        refuse_chance(wiring, pairs, min(wrong))
    return Found(counts, [first for first, _ in many] + [wiring.shape[0]], dict(many))


def _check_room(wiring: Wiring, found: Any, counts: Array) -> None:
    """Raise if there is no room for as many synapses as some sources let expect."""
    sources, targets = wiring.shape
    if sources * targets < _FEW * _SAMPLE:
        return
    some = np.linspace(0, sources - 1, _SAMPLE).astype(int)
    for row in some:
        found(int(row), int(row) + 1)
    expected = float(counts[some].mean()) * sources
    check_room(where_of(wiring), f"{expected:.3g} synapses", int(6 * expected), on_host=True)


def _edges(widths: Array) -> list[int]:
    """Return where chunks of sources begin and end that look at about equally many targets."""
    total = np.concatenate([[0], np.cumsum(widths)])
    if total[-1] < _FEW or widths.size < 2:
        return [0, widths.size]
    marks = np.linspace(0, total[-1], cores() * _CHUNKS + 1)[1:-1]
    return [0, *np.unique(np.searchsorted(total, marks).clip(1, widths.size - 1)).tolist(), widths.size]


def where_of(wiring: Wiring) -> str:
    """Return what a wiring is of, in errors."""
    return f"{'coupling' if isinstance(wiring.projection, Coupling) else 'projection'} {wiring.name}"


def refuse_chance(wiring: Wiring, pairs: Pairs, row: int) -> None:
    """Raise for a pair whose probability is none."""
    runs = range(pairs.starts[pairs.group[row]], pairs.starts[pairs.group[row] + 1])
    targets = np.concatenate([pairs.order[pairs.begins[run] : pairs.ends[run]] for run in runs])
    targets = targets[(targets != row) | (not wiring.skip)]
    assert wiring.chance is not None
    hint = "return a probability from 0 to 1, such as jnp.clip(p, 0, 1)"
    where = f"{where_of(wiring)}: the probability"
    right, numbers = lambda p: (p >= 0) & (p <= 1), numbers_of(wiring)
    refuse_pair(where, wiring.chance, pairs.inputs, row, targets, right, hint, numbers)


def is_mapped(wiring: Wiring) -> bool:
    """Say whether weights or delays are functions of the attributes of both neurons."""
    return isinstance(wiring.weights, Mapped) or isinstance(wiring.steps, Mapped)


def delay_law(steps: Mapped) -> Array:
    """Return a law of delays as numbers, of which those that are none are wrong."""
    found = steps.numbers(1, LARGEST_DELAY)
    found[2], found[5] = 0, LARGEST_DELAY
    return found


def map_synapses(wiring: Wiring, weight_law: Array, seed: int, rows: Array, room: Any) -> int:
    """Write the values of functions of all synapses; return how many weights are off by rounding.

    `rows` says where the synapses of each source begin.
    """
    off = 0
    if isinstance(wiring.weights, Mapped):
        law, bits = weight_law, room.as_floats
        off = _mapped(wiring, wiring.weights, law, seed, rows, room.targets, room.weights, bits=bits)
    if isinstance(wiring.steps, Mapped):
        law = delay_law(wiring.steps)
        _mapped(wiring, wiring.steps, law, seed, rows, room.targets, room.delays, bits=False)
    return off


def _mapped(
    wiring: Wiring, of: Mapped, law: Array, seed: int, rows: Array, targets: Array, to: Array, *, bits: bool
) -> int:
    """Write values, or the bits of float32 numbers; return how many are off by rounding."""
    inputs, run = inputs_of(of.pair, wiring, seed), map_pairs(of.pair)

    def written(first: int, last: int) -> tuple[int, int]:
        begin, end = int(rows[first]), int(rows[last])
        values, wrong = np.empty(end - begin, np.float32), np.full(1, -1)
        if run(first, last, rows, law, targets, *inputs, values, wrong):
            return int(wrong[0]), 0
        if bits:
            to[begin:end] = values.view(np.int32)
            return -1, 0
        whole = np.rint(values)
        to[begin:end] = whole
        np.subtract(values, whole, out=whole)
        return -1, int((np.abs(whole) > np.abs(values) * np.float32(2**-9)).sum())

    found = in_threads(written, row_edges(rows))
    if wrong := [row for row, _ in found if row >= 0]:
        row = min(wrong)
        refuse_value(wiring, of, law, inputs, row, targets[rows[row] : rows[row + 1]])
    return sum(off for _, off in found)


def refuse_value(wiring: Wiring, of: Mapped, law: Array, inputs: tuple[Array, Array], row: int, targets: Array) -> None:
    """Raise for a synapse of a source whose weight or delay is not right."""
    what, hint = ("delay", _RIGHT_DELAYS) if of is wiring.steps else ("weight", "return one within bounds")

    def right(values: Array) -> Array:
        scaled = values * law[1]
        return (scaled >= law[2]) & (scaled <= law[5])

    where, targets = f"{where_of(wiring)}: the {what}", np.asarray(targets, np.int64)
    refuse_pair(where, of.pair, inputs, row, targets, right, hint, numbers_of(wiring))


def mapped_delays(wiring: Wiring, seed: int) -> Array:
    """Return the delays of synapses in a list, int32."""
    of, listed = wiring.steps, wiring.listed
    assert listed is not None
    law, inputs = delay_law(of), inputs_of(of.pair, wiring, seed)
    values = values_of(of.pair, inputs, listed.sources, listed.targets) * law[1]
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~((values >= law[2]) & (values <= law[5])))
    if wrong.size:
        row = listed.sources[wrong].min()
        refuse_value(wiring, of, law, inputs, int(row), listed.targets[listed.sources == row])
    return np.rint(np.clip(values, law[3], law[4])).astype(np.int32)
