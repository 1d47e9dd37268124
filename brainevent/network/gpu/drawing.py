# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of descriptions on a device: the same as the host, to the last bit, but not in order.

A block of threads draws a row: the synapses of a source, or of a target for `in_degree`. Sorting and summing do not
depend on the order within a row, so that synapses go straight into the rows of `layout.py`. They are drawn whenever
they are needed: to be measured, for the plan; to be counted; and to be placed.

Between parts of populations, rows and ends are numbers within the parts. Where a part is a range of neurons, these
begin at its first one; else kernels look the numbers of its neurons up in a table.

Matrices, and weights or delays that are given one by one, are the host's to lay out.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.lower import called_form
from ...scalar.pair import SIDES, TracedPair
from ...scalar.samplers import portion_form, sampler_forms
from ..description.parts import slice_of
from ..plan.delays import LARGEST_DELAY
from ..plan.distribution import Distribution
from ..plan.drawing import Description, Placed, drawn_of, drawn_on_host, dtypes_of, law_of, same_for_all, synapse_keys
from ..plan.loop_arguments import DISTINCT
from ..plan.mapped import MAPPED, Mapped, inputs_of, numbers_of
from ..plan.pair_drawing import delay_law, is_mapped
from ..plan.pairs import Pairs, pairs_of
from ..plan.plastic import PlasticPlan
from ..plan.plastic_drawing import HostDrawn, plan_with
from ..plan.plasticity import PlasticRules
from ..plan.projections import ProjectionPlan
from ..plan.quantum import in_quanta, largest_rounding
from ..plan.wiring import Wiring
from .device import Device, Memory, cleared, held
from .kernels import Kernels
from .structs import GIVEN, RECIPE, RECIPE_OF_PARTS, ROWS, filled
from .text import other_text

__all__ = ["Drawing", "DrawnRows", "drawing_text", "functions_of", "needs_tables"]

_THREADS = 128
_MOST_BLOCKS = 2048
_MOST_TURNS = 2**27  # of `DISTINCT`: words for all blocks
_LEAST_BYTES = 4  # of a synapse in a row
_LEAST_PLASTIC = 9  # of a plastic one: place of its target, weight, and place in the second index
_SMALL = 2**26  # bytes that need no check of free memory
_LARGEST_TOTAL = 2**32 - 1  # synapses of `total`
_WORD, _SIGN = 2**32 - 1, 2**31
_NAMES = ("chance", "weight", "delay")  # of functions of both neurons
_pairs: weakref.WeakKeyDictionary[Wiring, tuple[int, Pairs]] = weakref.WeakKeyDictionary()  # of the last seed

Array = Any


_Functions = tuple[TracedPair | None, TracedPair | None, TracedPair | None]  # of a probability, weights and delays


@functools.lru_cache(64)
def drawing_text(
    words: str | None = None,
    *,
    several: bool = False,
    parts: bool = False,
    functions: _Functions = (None, None, None),
) -> str:
    """Return the text of the kernels, for one GPU or several; `words` are those of a machine, None for a GPU.

    With `parts`, kernels look up numbers of neurons; they call `functions` of both neurons.
    """
    forms = [called_form("be_bits"), called_form("be_more_bits"), *sampler_forms(), portion_form()]
    of_pairs = ""
    for name, pair in zip(_NAMES, functions, strict=True):
        if pair is not None:
            forms.append(dataclasses.replace(pair.form, name=name))
        of_pairs += _of_pair(name, pair)
    names = ["rows.cu", "drawn_values.cu", "drawing.cu"]
    return other_text(names, _THREADS, words, forms, several=several, parts=parts, own=of_pairs)


def _of_pair(name: str, pair: TracedPair | None) -> str:
    """Return `NAME_of`: the value of a function for two neurons, or 0 without one."""
    value = "0.0f"
    if pair is not None:
        sides = [side for side, _ in pair.names]
        places = [(side, sides[:k].count(side)) for k, side in enumerate(sides)]
        ends = {"pre": ("sources", "source"), "post": ("targets", "target")}
        given = [f"of.{name}_{side}[{k}ull * of.{ends[side][0]} + {ends[side][1]}]" for side, k in places]
        value = f"be_{name}({', '.join(given)})"
    return f"BE float {name}_of(const Recipe& of, u32 source, u32 target) {{ return {value}; }}\n"


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A description as kernels read it, and what all its synapses share.

    `begins` are the first neurons of the parts at both ends; 0 where a part has a table. `turns` is how many words with
    turns the kernels need. `memories` are what they read: the numbers of synapses of each source, if they are drawn,
    such tables, and what functions of both neurons read.
    """

    drawing: Drawing
    structure: Any
    blocks: int
    weight: int
    delay: int
    begins: tuple[int, int]
    memories: tuple[Memory, ...]
    turns: int
    kernels: Kernels

    def draw(self, given: Any, to: Any) -> None:
        """Draw all synapses, to be measured, counted or placed."""
        if self.turns:
            self.structure["turns"] = self.drawing.turns(self.turns)
        if self.structure["rows"]:
            self.kernels.launch("draw_rows", self.blocks, self.structure, given, to)


class Drawing:
    """Draws synapses on a device: a `Measure` for a plan, and rows for an engine, perhaps on one of several GPUs."""

    def __init__(self, device: Device, *, several: bool = False, parts: bool = False):
        self.device, self.several, self.parts = device, several, parts
        self._recipe = RECIPE_OF_PARTS if parts else RECIPE
        self._kernels: dict[_Functions, Kernels] = {}
        self._turns: Memory | None = None
        self._shared: dict[
            int, tuple[Array, Memory]
        ] = {}  # by the array, which is kept, so that no other has its number

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
        return Placed(description, about, loads if wiring.ends is None else wiring.ends.loads(loads), off + rounded)

    def plastic(self, wiring: Wiring, rules: PlasticRules, seed: int) -> PlasticPlan | None:
        """Measure the synapses of a plastic projection, if they can be drawn here: those of whole populations."""
        if wiring.ends is not None or not _can_draw(wiring) or is_mapped(wiring):
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
        if wiring.chance is None and (size := least * int(wiring.expected)) > _SMALL:
            self.device.memory(size, what)

    def _measured(self, description: Description, rows: DrawnRows) -> tuple[Array, list[int], list[int]]:
        """Return sums of |weight| by target, the numbers of synapses and of rounded ones, and the words of `Limits`."""
        name, targets = description.wiring.name, description.wiring.shape[1]
        loads = cleared(self.device, 8 * targets, f"sums of weights of {name}")
        found = cleared(self.device, 48, f"measures of {name}")
        one = rows.structure
        one["wrong"] = found.address + 36
        one["loads"], one["totals"], one["limits"] = loads.address, found.address, found.address + 16
        rows.draw(filled(GIVEN, weight=rows.weight, delay=rows.delay), filled(ROWS))
        totals, limits = found.download(np.uint64, 2), found.download(np.uint32, 5, 16)
        one["wrong"] = 0
        if found.download(np.uint32, 3, 36).any():
            drawn_on_host(description)  # raises, and names the pair
            raise AssertionError(f"{name}: the host draws what is wrong on the device")
        return loads.download(np.int64, targets), [int(total) for total in totals], [int(limit) for limit in limits]

    def kernels(self, functions: _Functions = (None, None, None)) -> Kernels:
        """Return the kernels that call some functions of both neurons."""
        if functions not in self._kernels:
            text = drawing_text(self.device.words, several=self.several, parts=self.parts, functions=functions)
            self._kernels[functions] = Kernels(self.device, text, _THREADS)
        return self._kernels[functions]

    def done(self) -> None:
        """Give back the memory that is kept from one description to the next."""
        self._turns = None
        self._shared.clear()

    def rows(self, description: Description) -> DrawnRows:
        """Return a description, ready to be drawn."""
        wiring, by_target = description.wiring, description.wiring.kind == "in_degree"
        keys = synapse_keys(wiring, description.seed)
        drawn = drawn_of(wiring, description.quantum, keys)
        laws = law_of(wiring, description.quantum), _law_of_delays(wiring)
        own_weights, own_delays = (law.size > 0 for law in laws)
        number = wiring.shape[by_target] if wiring.expected else 0
        one = filled(self._recipe, kind=drawn.kind, rows=number, ends=drawn.ends, skip=drawn.skip, by_target=by_target)
        one["own_weights"], one["own_delays"], one["scale"] = own_weights, own_delays, drawn.scale
        one["times"] = description.times
        for name, (key0, key1) in zip(("key", "delay_key", "source_key"), keys, strict=True):
            one[f"{name}0"], one[f"{name}1"] = key0, key1
        for name, law in zip(("weights", "delays"), laws, strict=True):
            if law.size:
                last = law[5:].view(np.uint32)[0] if law[0] == MAPPED else int(law[5])
                one[name] = (int(law[0]), *law[1:5], last)
        blocks = max(1, min(number, _MOST_BLOCKS))
        begins, memories = self._numbered(one, wiring)
        turns = 0
        if wiring.kind == "total":
            memories += (self._counted(one, wiring),)
        elif wiring.grouped is not None:
            memories += self._of_groups(one, wiring)
        else:
            one["number"] = _number(wiring)
        if drawn.kind == DISTINCT:
            blocks = max(1, min(blocks, _MOST_TURNS // drawn.ends))
            turns = blocks * drawn.ends
        functions = functions_of(wiring)
        memories += self._space(one, description, functions)
        weight = 0
        if not own_weights and description.quantum is not None:
            weight = int(in_quanta(wiring.weights, description.quantum)[0][0]) * description.times
        delay = 0 if own_delays else int(wiring.steps)
        return DrawnRows(self, one, blocks, weight, delay, begins, memories, turns, self.kernels(functions))

    def _space(self, one: Any, description: Description, functions: _Functions) -> tuple[Memory, ...]:
        """Copy what functions of both neurons read to the device, and return the memory."""
        wiring, memories = description.wiring, list[Memory]()

        def copied(name: str, array: Array) -> None:
            memories.append(self._held(array, f"attributes for {wiring.name}"))
            one[name] = memories[-1].address

        one["sources"], one["targets"] = wiring.shape
        for name, pair in zip(_NAMES, functions, strict=True):
            if pair is not None:
                for side, array in zip(SIDES, inputs_of(pair, wiring, description.seed), strict=True):
                    copied(f"{name}_{side}", array)
        if wiring.chance is not None:
            pairs = _pairs_of(wiring, description.seed)
            copied("starts", pairs.starts.astype(np.uint64))
            copied("most", pairs.limits)
            arrays = {"order": pairs.order, "group": pairs.group, "begins": pairs.begins, "ends_of_runs": pairs.ends}
            for name, array in arrays.items():
                copied(name, array.astype(np.uint32))
        return tuple(memories)

    def _held(self, array: Array, what: str) -> Memory:
        """Return memory with the elements of an array, which is that of all descriptions that read the same array."""
        if id(array) not in self._shared:
            self._shared[id(array)] = array, held(self.device, array, what)
        return self._shared[id(array)][1]

    def turns(self, words: int) -> int:
        """Return the address of the given number of words of zero, which kernels leave zero."""
        if self._turns is None or self._turns.nbytes < 4 * words:
            self.device.wait()
            self._turns = None  # given back before more is taken
            self._turns = cleared(self.device, 4 * words, "ends of synapses that are drawn already")
        return self._turns.address

    def _numbered(self, one: Any, wiring: Wiring) -> tuple[tuple[int, int], tuple[Memory, ...]]:
        """Return where the parts at both ends begin; give kernels that place synapses the numbers of other parts."""
        begins, memories = [0, 0], []
        for end, what in enumerate(("source", "target")):
            numbers, table = numbers_of(wiring)[end], f"{what}_numbers"
            if numbers is None or not numbers.size:
                continue
            if is_range(numbers):
                begins[end] = int(numbers[0])
            elif table in one.dtype.fields:
                memories.append(held(self.device, numbers.astype(np.uint32), f"{what}s of {wiring.name}"))
                one[table] = memories[-1].address
        return (begins[0], begins[1]), tuple(memories)

    def _of_groups(self, one: Any, wiring: Wiring) -> tuple[Memory, ...]:
        """Copy the groups of neurons to the device, and how many synapses there are between them."""
        grouped = wiring.grouped
        assert grouped is not None
        one["number"] = grouped.table.shape[1]
        arrays = {"group": grouped.group, "order": grouped.order}  # of populations: no number is below 0
        own = {"begins": grouped.begins.astype(np.uint32), "ends_of_runs": grouped.edges.astype(np.uint32)}
        memories = []
        for name, array in {**arrays, **own}.items():
            what = f"groups of neurons for {wiring.name}"
            memories.append(self._held(array, what) if name in arrays else held(self.device, array, what))
            one[name] = memories[-1].address
        return tuple(memories)

    def _counted(self, one: Any, wiring: Wiring) -> Memory:
        """Count how many synapses of `total` each source has."""
        counts = cleared(self.device, 4 * wiring.shape[0], f"numbers of synapses of {wiring.name}")
        one["total"], one["counts"] = int(wiring.number), counts.address
        if wiring.number:
            blocks = -(-int(wiring.number) // (2 * _THREADS))
            self.kernels().launch("count_sources", min(blocks, _MOST_BLOCKS), one)
        return counts


def _pairs_of(wiring: Wiring, seed: int) -> Pairs:
    """Return the pairs of a wiring, which synapses are drawn from twice: to be measured, and for their rows."""
    known = _pairs.get(wiring)
    if known is None or known[0] != seed:
        known = _pairs[wiring] = seed, pairs_of(wiring, seed)
    return known[1]


def functions_of(wiring: Wiring) -> _Functions:
    """Return the functions of both neurons that decide synapses: of a probability, of weights and of delays."""
    weights, steps = (of.pair if isinstance(of, Mapped) else None for of in (wiring.weights, wiring.steps))
    return wiring.chance, weights, steps


def _law_of_delays(wiring: Wiring) -> Array:
    """Return the law of delays as numbers; nothing if they have none."""
    if isinstance(wiring.steps, Mapped):
        return delay_law(wiring.steps)
    return wiring.steps.numbers(1, LARGEST_DELAY) if isinstance(wiring.steps, Distribution) else np.zeros(0, np.float32)


def _can_draw(wiring: Wiring) -> bool:
    apart = wiring.own is not None  # rows leave out neurons of other numbers
    return wiring.listed is None and not apart and not (wiring.kind == "total" and wiring.number > _LARGEST_TOTAL)


def is_range(numbers: Array) -> bool:
    """Say whether numbers of neurons follow each other."""
    found = slice_of(numbers)
    return found is not None and found.step == 1


def needs_tables(source: Any) -> bool:
    """Say whether synapses are drawn between neurons whose numbers do not follow each other."""
    ends = source.wiring.ends if isinstance(source, Description) else None
    found = () if ends is None else (ends.sources, ends.targets)
    return any(numbers is not None and not is_range(numbers) for numbers in found)


def _number(wiring: Wiring) -> int:
    """Return how many synapses each row has, if it does not depend on the row."""
    kinds = {"all_to_all": wiring.shape[1] - wiring.skip, "one_to_one": 1, "prob": 0, "pairs": 0}
    return int(kinds.get(wiring.kind, wiring.number))


def _about(description: Description, entries: int, farthest: list[int]) -> ProjectionPlan:
    """Return what is known of a projection, of which these words are those of `Limits`."""
    wiring, quantum = description.wiring, description.quantum
    assert quantum is not None
    source, target = wiring.projection.populations
    ends = source.name, target.name, wiring.projection.into
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
