# SPDX-License-Identifier: Apache-2.0
"""Loops and branches within the loop on a GPU: all threads run the same steps of them, so that they can meet there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..values import Array, Plan
from ..within import BranchesWithin, LoopWithin
from .numbers import STORED, computed
from .phases import Access, Branches, Item, Loop, Phase, place_of, renamed
from .stages import CallWithin, Stages, steps_of

__all__ = ["branches_call", "loop_call"]


def loop_call(loop: LoopWithin) -> CallWithin:
    """Return the call of a loop within the loop."""
    plan, place = loop.plan, loop.place

    def write(x: Sequence[str], out: Sequence[str], tools: Stages) -> list[Item]:
        starts = [
            tools.copied(out[place[i]], x[number], plan.inputs[number].size)
            for number, i in plan.carries.items()
            if plan.inputs[number].shape and x[number] != out[place[i]]
        ]
        results = dict(zip(plan.outs, out, strict=False))
        return [*starts, *_Within(plan, tools, x, results, out[len(results) :]).items()]

    scalars = frozenset(a.number for a in plan.inputs if a.shape == () and a.home != "row")
    return CallWithin(
        loop.name, write, scalars, loop.reuses, plans=(plan,), may_fail=plan.may_fail, results=len(plan.outs)
    )


def branches_call(branches: BranchesWithin) -> CallWithin:
    """Return the call of one of some branches."""
    plans, pairs = branches.plans, branches.pairs

    def write(x: Sequence[str], out: Sequence[str], tools: Stages) -> list[Item]:
        starts = [
            tools.copied(out[i], x[number + 1], plans[0].inputs[number].size)
            for number, i in pairs.items()
            if x[number + 1] != out[i]
        ]
        cases = []
        for k, plan in enumerate(plans):
            head = "else" if k == len(plans) - 1 else f"{'else ' * (k > 0)}if ({x[0]} == {k})"
            given, memory = branches.operands(k, x), branches.memory(k, out)
            cases.append((head, _Within(plan, tools, given, {i: out[i] for i in plan.outs}, memory).items()))
        return [*starts, Branches(tuple(cases))]

    of_inputs = ({place for place, array in branches.inputs(k) if array.shape == ()} for k in range(len(plans)))
    scalars = frozenset({0}.union(*of_inputs))
    fails = any(plan.may_fail for plan in plans)
    return CallWithin(
        "a branch", write, scalars, branches.reuses, plans=tuple(plans), may_fail=fails, results=branches.results
    )


class _Within(Stages):
    """What writes a plan within another one: its operands and results are expressions of that."""

    def __init__(self, plan: Plan, around: Stages, x: Sequence[str], results: Mapping[int, str], memory: Sequence[str]):
        self.loop = f"w{around.common.loops}"
        around.common.loops += 1
        super().__init__(plan, around.common, self.loop, around.times * steps_of(plan))
        self._results = results  # by their numbers: where an array begins, or the name of a scalar
        arrays = [(f"p{a.number}", x[a.number], a, "const ") for a in plan.inputs if self._is_array_of_input(a)]
        arrays += [(f"o{i}", results[i], array, "") for i, array in plan.outs.items() if array.shape or i in plan.rows]
        arrays += [(f"b{a.number}", text, a, "") for a, text in zip(plan.memory, memory, strict=True)]
        self._pointers = [
            f"{const}{STORED[a.dtype]}* const {self.loop}{name} = {text};" for name, text, a, const in arrays
        ]
        self._outer = {f"{self.loop}{name}": (text, False) for name, text, _, _ in arrays}
        rows = {f"r{a.number}": f"p{a.number}" for a in plan.inputs if a.home == "row"}
        rows |= {f"y{i}": f"o{i}" for i in plan.rows}
        self._outer |= {self.loop + row: (self._outer[self.loop + whole][0], True) for row, whole in rows.items()}
        self._given = [(a, x[a.number]) for a in plan.inputs if a.home != "row" and a.shape == ()]

    def items(self) -> list[Item]:
        """Return the phases of the plan, whose accesses are those of the plan around it."""
        plan, p = self.plan, self.loop
        start = [*self._entry(), *self._stages(plan.before)]
        head, step = self._stages(plan.head), [*self._beginning(), *self._stages(plan.step), *self._end()]
        if plan.length is None:
            leaves = f"if (!({self._go()})) break;"
            items = [*start, Loop(p, "for (;;) {", step, steps_of(plan), head, leaves)]
        elif self._is_branch():
            items = [*start, *head, *step]
        else:
            opening = f"for (unsigned {p}step = 0; {p}step < {plan.length}u; ++{p}step) {{"
            counter = f"{plan.length - 1}u - {p}step" if plan.reverse else f"{p}step"
            items = [*start, Loop(p, opening, [Phase([f"const size_t {p}t = {counter};"]), *step], steps_of(plan))]
        return renamed([*items, *self._exit()], self._around)

    def _is_branch(self) -> bool:
        return self.plan.length == 1 and not self.plan.rows and all(a.home != "row" for a in self.plan.inputs)

    @staticmethod
    def _is_array_of_input(array: Array) -> bool:
        return array.home == "row" or (array.home == "const" and array.shape != ())

    def _entry(self) -> list[Phase]:
        """Name operands and results; scalars are in registers, and those that calls read, in memory, too."""
        p, lines = self.loop, list(self._pointers)
        for array, text in self._given:
            const = "" if array.home == "carry" else "const "
            lines.append(f"{const}{computed(array.dtype)} {p}c{array.number} = {text};")
        boxes = []
        for array in (array for array, _ in self._given if array in self._read_by_calls()):
            memory, kind = self.scratch(array.dtype, 1), STORED[array.dtype]
            lines.append(f"{kind}* const {self._boxed(array)} = {memory};")
            self._outer[self._boxed(array)] = memory, False
            boxes.append(self._box(self._boxed(array), self._scalar_text(array)))
        return [Phase(lines), *boxes]

    def _go(self) -> str:
        base = None if self.plan.go is None else self.plan.go.base
        if isinstance(base, Array):
            return self._scalar_text(base)
        return "true" if base is None or bool(base.value) else "false"

    def _exit(self) -> list[Phase]:
        """Let scalars have their names of the plan around."""
        plan = self.plan
        number = {i: number for number, i in plan.carries.items()}
        scalars = [(i, array) for i, array in plan.outs.items() if array.shape == () and i not in plan.rows]
        return [
            Phase([f"{self._results[i]} = {f'{self.loop}c{number[i]}' if i in number else self._scalar_text(array)};"])
            for i, array in scalars
        ]

    def _around(self, access: Access) -> Access:
        """Return what an access is called in the plan around."""
        if access.place not in self._outer:
            return access
        text, is_row = self._outer[access.place]
        place = place_of(text)
        assert place is not None, "an array has a place"
        found = access._replace(place=place, rows=(self.loop,) * is_row + access.rows)
        return found if text == place else found.of_any()
