# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of descriptions on a device: the same as the host, to the last bit, but not in order.

A block of threads draws a row: the synapses of a source, or of a target for `in_degree`. Sorting and summing do not
depend on the order within a row, so that synapses go straight into the rows of `layout.py`. They are drawn whenever
they are needed: to be measured, for the plan; to be counted; and to be placed.

Matrices, and weights or delays that are given one by one, are the host's to lay out.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.lower import called_form
from ...scalar.samplers import sampler_forms
from ..plan.delays import LARGEST_DELAY
from ..plan.drawing import Description, Placed, drawn_of, dtypes_of, same_for_all, synapse_keys
from ..plan.loop_arguments import DISTINCT
from ..plan.plastic import PlasticPlan
from ..plan.plastic_drawing import HostDrawn, plan_with
from ..plan.plasticity import PlasticRules
from ..plan.projections import ProjectionPlan
from ..plan.quantum import in_quanta, largest_rounding
from ..plan.wiring import Wiring
from .device import Device, Kernels, Memory, cleared
from .structs import GIVEN, RECIPE, ROWS, filled
from .text import other_text

__all__ = ["Drawing", "DrawnRows", "drawing_text"]

_THREADS = 128
_MOST_BLOCKS = 2048
_MOST_TURNS = 2**27  # of `DISTINCT`: words for all blocks
_LEAST_BYTES = 4  # of a synapse in a row
_LEAST_PLASTIC = 9  # of a plastic one: place of its target, weight, and place in the second index
_SMALL = 2**26  # bytes that need no check of free memory
_LARGEST_TOTAL = 2**32 - 1  # synapses of `total`
_WORD, _SIGN = 2**32 - 1, 2**31

Array = Any


@functools.cache
def drawing_text(words: str | None = None) -> str:
    """Return the text of the kernels; `words` are the words in which it is written, None for those of a GPU."""
    forms = (called_form("be_bits"), called_form("be_more_bits"), *sampler_forms())
    return other_text(["rows.cu", "drawn_values.cu", "drawing.cu"], _THREADS, words, forms)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A description as kernels read it, and what all its synapses share.

    `counts` is the memory with the numbers of synapses of each source, if they are drawn; `turns` is how many words
    with turns the kernels need.
    """

    drawing: Drawing
    structure: Any
    blocks: int
    weight: int
    delay: int
    counts: Memory | None
    turns: int

    def draw(self, given: Any, to: Any) -> None:
        """Draw all synapses, to be measured, counted or placed."""
        if self.turns:
            self.structure["turns"] = self.drawing.turns(self.turns)
        if self.structure["rows"]:
            self.drawing.kernels.launch("draw_rows", self.blocks, self.structure, given, to)


class Drawing:
    """Draws synapses on a device: a `Measure` for a plan, and rows for an engine."""

    def __init__(self, device: Device):
        self.device = device
        self.kernels = Kernels(device, drawing_text(device.words), _THREADS)
        self._turns: Memory | None = None

    def __call__(self, description: Description) -> Placed | None:
        """Measure the synapses of a description, if they can be drawn here."""
        wiring = description.wiring
        if not _can_draw(wiring):
            return None
        self._check_room(f"synapses of {wiring.name}", _LEAST_BYTES, wiring)
        rows = self.rows(description)
        loads, (entries, off), limits = self._measured(description, rows)
        about = _about(description, entries, limits)
        assert description.quantum is not None
        rounded = 0 if rows.structure["own_weights"] else in_quanta(wiring.weights, description.quantum)[1]
        return Placed(description, about, loads, off + rounded)

    def plastic(self, wiring: Wiring, rules: PlasticRules, seed: int) -> PlasticPlan | None:
        """Measure the synapses of a plastic projection, if they can be drawn here."""
        if not _can_draw(wiring):
            return None
        self._check_room(f"plastic synapses of {wiring.name}", _LEAST_PLASTIC + 4 * len(rules.states), wiring)
        # As many synapses of the weight 1 end at a target as their sum says.
        counting = Description(dataclasses.replace(wiring, weights=np.ones(1)), np.float64(1), seed, 1)
        rows = self.rows(counting)
        delayed = cleared(self.device, 4 * (LARGEST_DELAY + 1), f"delays of {wiring.name}")
        rows.structure["delayed"] = delayed.address
        degrees = self._measured(counting, rows)[0]
        distinct = np.flatnonzero(delayed.download(np.uint32, LARGEST_DELAY + 1)).astype(np.int64)
        return plan_with(wiring, rules, distinct, degrees, HostDrawn(wiring, rules, seed), 1, "float32")

    def _check_room(self, what: str, least: int, wiring: Wiring) -> None:
        """Raise before synapses are drawn which do not fit; the memory is given back at once."""
        if (size := least * int(wiring.expected)) > _SMALL:
            self.device.memory(size, what)

    def _measured(self, description: Description, rows: DrawnRows) -> tuple[Array, list[int], list[int]]:
        """Return sums of |weight| by target, the numbers of synapses and of rounded ones, and the words of `Limits`."""
        name, targets = description.wiring.name, description.wiring.shape[1]
        loads = cleared(self.device, 8 * targets, f"sums of weights of {name}")
        found = cleared(self.device, 36, f"measures of {name}")
        one = rows.structure
        one["loads"], one["totals"], one["limits"] = loads.address, found.address, found.address + 16
        rows.draw(filled(GIVEN, weight=rows.weight, delay=rows.delay), filled(ROWS))
        totals, limits = found.download(np.uint64, 2), found.download(np.uint32, 5, 16)
        return loads.download(np.int64, targets), [int(total) for total in totals], [int(limit) for limit in limits]

    def done(self) -> None:
        """Give back the memory that is kept from one description to the next."""
        self._turns = None

    def rows(self, description: Description) -> DrawnRows:
        """Return a description, ready to be drawn."""
        wiring, by_target = description.wiring, description.wiring.kind == "in_degree"
        keys = synapse_keys(wiring, description.seed)
        drawn = drawn_of(wiring, description.quantum, keys)
        own_weights, own_delays = drawn.weights.size > 0, drawn.delays.size > 0
        number = wiring.shape[by_target] if wiring.expected else 0
        one = filled(RECIPE, kind=drawn.kind, rows=number, ends=drawn.ends, skip=drawn.skip, by_target=by_target)
        one["own_weights"], one["own_delays"], one["scale"] = own_weights, own_delays, drawn.scale
        one["times"] = description.times
        for name, (key0, key1) in zip(("key", "delay_key", "source_key"), keys, strict=True):
            one[f"{name}0"], one[f"{name}1"] = key0, key1
        for name, law in (("weights", drawn.weights), ("delays", drawn.delays)):
            if law.size:
                one[name] = (int(law[0]), *law[1:5], int(law[5]))
        blocks = max(1, min(number, _MOST_BLOCKS))
        counts, turns = None, 0
        if wiring.kind == "total":
            counts = self._counted(one, wiring)
        else:
            one["number"] = _number(wiring)
        if drawn.kind == DISTINCT:
            blocks = max(1, min(blocks, _MOST_TURNS // drawn.ends))
            turns = blocks * drawn.ends
        weight = 0
        if not own_weights and description.quantum is not None:
            weight = int(in_quanta(wiring.weights, description.quantum)[0][0]) * description.times
        return DrawnRows(self, one, blocks, weight, 0 if own_delays else int(wiring.steps), counts, turns)

    def turns(self, words: int) -> int:
        """Return the address of the given number of words of zero, which kernels leave zero."""
        if self._turns is None or self._turns.nbytes < 4 * words:
            self.device.wait()
            self._turns = None  # given back before more is taken
            self._turns = cleared(self.device, 4 * words, "ends of synapses that are drawn already")
        return self._turns.address

    def _counted(self, one: Any, wiring: Wiring) -> Memory:
        """Count how many synapses of `total` each source has."""
        counts = cleared(self.device, 4 * wiring.shape[0], f"numbers of synapses of {wiring.name}")
        one["total"], one["counts"] = int(wiring.number), counts.address
        if wiring.number:
            blocks = -(-int(wiring.number) // (2 * _THREADS))
            self.kernels.launch("count_sources", min(blocks, _MOST_BLOCKS), one)
        return counts


def _can_draw(wiring: Wiring) -> bool:
    return wiring.listed is None and not (wiring.kind == "total" and wiring.number > _LARGEST_TOTAL)


def _number(wiring: Wiring) -> int:
    """Return how many synapses each row has, if it does not depend on the row."""
    kinds = {"all_to_all": wiring.shape[1] - wiring.skip, "one_to_one": 1, "prob": 0}
    return int(kinds.get(wiring.kind, wiring.number))


def _about(description: Description, entries: int, farthest: list[int]) -> ProjectionPlan:
    """Return what is known of a projection, of which these words are those of `Limits`."""
    wiring, quantum = description.wiring, description.quantum
    assert quantum is not None
    ends = wiring.projection.source.name, wiring.projection.target.name, wiring.projection.into
    weights = delays = (0, 0)
    least = 0
    if entries:
        high, low, near, late, soon = farthest
        weights, delays = (_WORD - low - _SIGN, high - _SIGN), (_WORD - soon, late)
        least = _WORD - near if near else 0
    targets, kept_weights, kept_delays = (np.dtype(dtype).name for dtype in dtypes_of(wiring, quantum))
    weight_is_same, delay_is_same = (same or entries == 1 for same in same_for_all(wiring))
    return ProjectionPlan(
        wiring.name,
        *ends,
        entries,
        weights,
        least,
        delays,
        (weight_is_same, delay_is_same),
        (targets, kept_weights, kept_delays),
        largest_rounding(wiring.weights, quantum),
    )
