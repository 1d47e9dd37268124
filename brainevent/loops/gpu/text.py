# SPDX-License-Identifier: Apache-2.0
"""The text of a loop as CUDA C++: one kernel, whose threads meet where they read what others wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...scalar.cuda_text import TYPES, cuda_text
from ..plan import Plan
from ..values import Array, Texts
from .device import text_of_file
from .nests import KEPT, each_kept
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


def text_of(plan: Plan, launches: int, kept: Mapping[int, Array] | None = None) -> LoopText:
    """Write a plan that at most so many launches run; `kept` are carries in registers, by the numbers of results."""
    return _Writer(plan, launches, kept or {}).written()


class _Writer(Stages):
    def __init__(self, plan: Plan, launches: int, kept: Mapping[int, Array]):
        super().__init__(plan, Common(Memory(launches)))
        self.kept = {f"o{i}": array for i, array in kept.items()}
        self.turning: dict[str, Array] = {}  # memory that is zero in each step: one half in this step, one in the next
        self._repeats = False
        self._of_place = {f"b{array.number}": array for array in plan.memory}

    def written(self) -> LoopText:
        plan, common = self.plan, self.common
        before = [*self._entry(), *self._stages(plan.before)]
        self._repeats = True
        stages = self._stages((*plan.head, *plan.step))
        counter = f"{plan.length - 1}u - step" if plan.reverse else "step"  # type: ignore[operator]
        begins = Phase([f"const size_t t = {counter};", *self._halves()])
        step = [begins, *self._beginning(), *stages, *self._end()]
        head = "for (unsigned step = given.first; step < given.first + given.steps; ++step) {"
        lines, meetings = with_meetings([*before, Loop("", head, step, 1, later=self._later), *self._exit()])
        for name, array in self._of_place.items():
            turns = name in self.turning
            common.memory.add(f"{'m' if turns else 'b'}{array.number}", array.dtype, array.size * (1 + turns))
        pointers = (*(f"p{a.number}" for a in plan.inputs), *(f"o{i}" for i in plan.outs), "memory")
        text = "\n".join([*self._before_kernel(pointers), *_indented([*self._start(), *lines]), "}", ""])
        return LoopText(text, pointers, common.memory.nbytes, common.widest, meetings, common.elements, common.of_block)

    # ---- what calls need

    def zeroed(self, arrays: Sequence[str], sizes: Sequence[int]) -> tuple[list[Phase], list[Phase]]:
        """Return what sets arrays to zero before a call, or after it for the next step."""
        before, after = list[Phase](), list[Phase]()
        for name, size in zip(arrays, sizes, strict=True):
            sharing = [array for array, places in self.plan.places.items() if name in places]
            turns = self._repeats and name in self._of_place and len(sharing) == 1
            if turns:
                self.turning[name] = self._of_place[name]
            (after if turns else before).append(self._zero(f"{name}n" if turns else name, size))
        return before, after

    def _own(self, place: str) -> tuple[str, str]:
        return (f"q{place}", KEPT) if place in self.kept else super()._own(place)

    def _later(self, access: Access) -> Access | None:
        """Return an access as the next step knows it."""
        place = access.place
        if place.startswith("y"):
            return None
        if place.removesuffix("n") in self.turning:
            place = place.removesuffix("n") if place.endswith("n") else f"{place}n"
        return access._replace(place=place)

    # ---- the parts of the kernel

    def _before_kernel(self, pointers: Sequence[str]) -> Texts:
        """Return the functions that the kernel calls, and its head."""
        kernels = self.common.kernels
        texts = [cuda_text(self.common.forms), text_of_file("within.cu") if kernels else ""]
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
                f"const {TYPES[a.dtype]}* const p{a.number} = (const {TYPES[a.dtype]}*)given.p{a.number};"
                for a in inputs
            ),
            *(f"{TYPES[a.dtype]}* const o{i} = ({TYPES[a.dtype]}*)given.o{i};" for i, a in self.plan.outs.items()),
            *self.common.memory.lines,
        ]

    def _halves(self) -> Texts:
        lines = []
        for name, array in self.turning.items():
            kind = TYPES[array.dtype]
            lines += [
                f"{kind}* const {name} = m{array.number} + (step & 1u) * {array.size}ull;",
                f"{kind}* const {name}n = m{array.number} + (~step & 1u) * {array.size}ull;",
            ]
        return lines

    def _entry(self) -> list[Phase]:
        """Load scalars; carries are in the results already."""
        phases = []
        for array in self.plan.inputs:
            if array.home != "row" and array.shape == ():
                carried = array.home == "carry"
                source = f"o{self.plan.carries[array.number]}" if carried else f"p{array.number}"
                kind = f"{'' if carried else 'const '}{TYPES[array.dtype]}"
                phases.append(Phase([f"{kind} c{array.number} = {source}[0];"], shared([source])))
        for place, array in self.kept.items():
            size, loads = array.size, each_kept(array.size, [f"q{place}[k] = {place}[i];"])
            declared = f"{TYPES[array.dtype]} q{place}[({size}u + threads - 1) / threads];"
            phases.append(Phase([declared, *loads], owned([place])))
        return phases

    def _exit(self) -> list[Item]:
        scalars = [(n, i) for n, i in self.plan.carries.items() if not self.plan.inputs[n].shape]
        stores: list[Item] = [
            Phase(each_kept(array.size, [f"{place}[i] = q{place}[k];"]), owned(writes=[place]))
            for place, array in self.kept.items()
        ]
        return stores + [Phase([f"if (tid == 0) o{i}[0] = c{n};"], shared(writes=[f"o{i}"])) for n, i in scalars]


def _indented(lines: Sequence[str]) -> Texts:
    return [f"    {line}" for line in lines]
