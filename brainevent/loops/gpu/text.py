# SPDX-License-Identifier: Apache-2.0
"""The text of a loop as CUDA C++: one kernel, whose threads meet where they read what others wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...scalar.cuda_text import cuda_text
from ..plan import Plan
from ..values import Array, Texts
from .device import text_of_file
from .nests import KEPT, each, each_kept
from .numbers import STORED, computed
from .phases import Access, Item, Loop, Phase, owned, shared, with_meetings
from .stages import Common, Memory, Stages

__all__ = ["LoopText", "text_of"]


@dataclass(frozen=True)
class LoopText:
    """The kernel `loop(Given)`: pointers to inputs, results and memory, then the words `first`, `steps` and `launch`.

    The memory begins with a word for each launch, `words` in all, and has `nbytes` in all; all of it starts as zeros.
    It is written for any number of threads; `widest` is about how many have something to do.
    """

    text: str
    pointers: tuple[str, ...]
    nbytes: int
    widest: int
    meetings: int  # in a step, about
    elements: int  # that a step computes, or reads in calls
    of_block: int  # threads that a block has at least


_THIRDS = 3
_NEXT, _LAST = "n", "l"  # suffixes of memory that turns: what the next step has, and what the last one had


def text_of(plan: Plan, launches: int, kept: Mapping[int, Array] | None = None) -> LoopText:
    """Write a plan that at most so many launches run; `kept` are carries in registers, by the numbers of results."""
    return _Writer(plan, launches, kept or {}).written()


def _turning(plan: Plan) -> dict[str, Array]:
    """Return the memory that calls begin with zeros in each step, by places.

    It has three thirds, of this step, the next one and the last one, so that no thread waits before it is set to zero.
    """
    found = {}
    for node in (node for stage in plan.step for node in stage.calls):
        for array in (node.outs[k] for k in node.call.zeroes if node.outs[k].shape):  # type: ignore[union-attr]
            place = plan.places[array][0]
            is_alone = sum(place in places for places in plan.places.values()) == 1
            carries = [f"o{i}" for i in plan.carries.values() if all(i != late for late, _ in plan.late)]
            if is_alone and (place.startswith("b") or place in carries):
                found[place] = array
    return found


def _third(place: str, array: Array, step: str) -> str:
    """Return where the part of memory that a step has begins."""
    return f"m{place} + ({step}) % {_THIRDS}u * {array.size}ull"


class _Writer(Stages):
    def __init__(self, plan: Plan, launches: int, kept: Mapping[int, Array]):
        super().__init__(plan, Common(Memory(launches)))
        self.kept = {f"o{i}": array for i, array in kept.items()}
        self.turning = _turning(plan)
        self._repeats = False
        self._of_place = {f"b{array.number}": array for array in plan.memory}

    def written(self) -> LoopText:
        plan, common = self.plan, self.common
        before = [*self._entry(), *self._stages(plan.before)]
        self._repeats = True
        stages = self._stages((*plan.head, *plan.step))
        counter = f"{plan.length - 1}u - step" if plan.reverse else "step"  # type: ignore[operator]
        begins = Phase([f"const size_t t = {counter};", *self._thirds()])
        step = [begins, *self._beginning(), *stages, *self._end()]
        head = "for (unsigned step = given.first; step < given.first + given.steps; ++step) {"
        lines, meetings = with_meetings([*before, Loop("", head, step, 1, later=self._later), *self._exit()])
        for name, array in (self._of_place | self.turning).items():
            turns = name in self.turning
            common.memory.add(f"m{name}" if turns else name, array.dtype, array.size * (_THIRDS if turns else 1))
        pointers = (*(f"p{a.number}" for a in plan.inputs), *(f"o{i}" for i in plan.outs), "memory")
        text = "\n".join([*self._before_kernel(pointers), *_indented([*self._start(), *lines]), "}", ""])
        return LoopText(text, pointers, common.memory.nbytes, common.widest, meetings, common.elements, common.of_block)

    # ---- what calls need

    def zeroed(self, arrays: Sequence[str], sizes: Sequence[int]) -> tuple[list[Phase], list[Phase]]:
        """Return what sets arrays to zero before a call, or after it for the next step."""
        before, after = list[Phase](), list[Phase]()
        for name, size in zip(arrays, sizes, strict=True):
            turns = self._repeats and name in self.turning
            (after if turns else before).append(self._zero(f"{name}n" if turns else name, size))
        return before, after

    def _own(self, place: str) -> tuple[str, str]:
        return (f"q{place}", KEPT) if place in self.kept else super()._own(place)

    def _later(self, access: Access) -> Access | None:
        """Return an access as the next step knows it."""
        place = access.place
        if place.startswith("y"):
            return None
        name = place.rstrip(_NEXT + _LAST)
        if name in self.turning:
            place = name if place.endswith(_NEXT) else f"{name}{_NEXT if place.endswith(_LAST) else _LAST}"
        return access._replace(place=place)

    def _flat(self, array: Array) -> str:
        text = super()._flat(array)
        return f"{text}{_LAST}" if array.home == "carry" and text in self.turning else text

    # ---- the parts of the kernel

    def _before_kernel(self, pointers: Sequence[str]) -> Texts:
        """Return the functions that the kernel calls, and its head."""
        kernels = self.common.kernels
        texts = [cuda_text(self.common.forms, wide=self.common.is_wide), text_of_file("within.cu") if kernels else ""]
        texts += [kernel.text(name) for kernel, name in kernels.items()]
        fields = [*(f"void* {name};" for name in pointers[:-1]), "unsigned char* memory;"]
        given = ["struct Given {", *_indented([*fields, "unsigned first, steps, launch;"]), "};"]
        return [*texts, *given, 'extern "C" __global__ void LOOP_KERNEL loop(const Given given) {']

    def _start(self) -> Texts:
        inputs = [array for array in self.plan.inputs if array.home != "carry"]
        return [
            "const unsigned tid = blockIdx.x * LOOP_THREADS + threadIdx.x;",
            "constexpr unsigned threads = LOOP_BLOCKS * LOOP_THREADS;",
            "unsigned* const met = (unsigned*)given.memory + given.launch;",
            "unsigned turn = 0;",
            *(
                f"const {STORED[a.dtype]}* const p{a.number} = (const {STORED[a.dtype]}*)given.p{a.number};"
                for a in inputs
            ),
            *(f"{STORED[a.dtype]}* const o{i} = ({STORED[a.dtype]}*)given.o{i};" for i, a in self.plan.outs.items()),
            *self.common.memory.lines,
        ]

    def _thirds(self) -> Texts:
        return [
            f"{STORED[array.dtype]}* const {name}{suffix} = {_third(name, array, f'step + {ahead}u')};"
            for name, array in self.turning.items()
            for suffix, ahead in (("", 0), (_NEXT, 1), (_LAST, 2))
        ]

    def _entry(self) -> list[Phase]:
        """Load scalars; carries are in the results already."""
        phases = []
        for array in self.plan.inputs:
            if array.home != "row" and array.shape == ():
                carried = array.home == "carry"
                source = f"o{self.plan.carries[array.number]}" if carried else f"p{array.number}"
                kind = f"{'' if carried else 'const '}{computed(array.dtype)}"
                phases.append(Phase([f"{kind} c{array.number} = {source}[0];"], shared([source])))
        for place, array in self.kept.items():
            size, loads = array.size, each_kept(array.size, [f"q{place}[k] = {place}[i];"])
            declared = f"{computed(array.dtype)} q{place}[({size}u + threads - 1) / threads];"
            phases.append(Phase([declared, *loads], owned([place])))
        for place, array in self._turning_carries():
            to = _third(place, array, "given.first + 2u")
            phases.append(Phase(each(array.size, [f"({to})[i] = {place}[i];"]), owned(writes=[place + _LAST])))
        return phases

    def _turning_carries(self) -> list[tuple[str, Array]]:
        return [(place, array) for place, array in self.turning.items() if place not in self._of_place]

    def _exit(self) -> list[Item]:
        scalars = [(n, i) for n, i in self.plan.carries.items() if not self.plan.inputs[n].shape]
        stores: list[Item] = [
            Phase(each_kept(array.size, [f"{place}[i] = q{place}[k];"]), owned(writes=[place]))
            for place, array in self.kept.items()
        ]
        for place, array in self._turning_carries():
            source = _third(place, array, "given.first + given.steps - 1u")
            stores.append(Phase(each(array.size, [f"{place}[i] = ({source})[i];"]), shared([place])))
        return stores + [Phase([f"if (tid == 0) o{i}[0] = c{n};"], shared(writes=[f"o{i}"])) for n, i in scalars]


def _indented(lines: Sequence[str]) -> Texts:
    return [f"    {line}" for line in lines]
