# SPDX-License-Identifier: Apache-2.0
"""Loops and branches within a loop: each is a function with a plan of its own, which the loop calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from .._compat import closed_jaxpr, scan_counts
from .copies import copied
from .keys import words_of
from .values import Array, Call, Texts, Tools, View

__all__ = ["WITHIN", "BranchesWithin", "LoopWithin", "branches_call", "loop_call"]


class Walks(Protocol):
    """The body of the loop around them, as far as they need it."""

    platform: str
    planners: Mapping[str, Callable[..., Any]]
    tables: Any  # what differs between platforms
    random_words: int

    def of_value(self, value: Any) -> View: ...
    def walk(self, closed: Any, arguments: Sequence[View], *, follow: bool = True) -> list[View]: ...
    def call(self, call: Call, x: Sequence[View], outs: Sequence[Any]) -> list[View]: ...


def _scan(body: Walks, eqn: Any, x: list[View]) -> list[View]:
    p = eqn.params
    consts, carried = scan_counts(dict(p))
    if p["length"] == 0:
        return [*x[consts : consts + carried], *map(body.of_value, _empty(eqn.outvars[carried:]))]
    plan = body.planners["scan"](p, body.platform)
    body.random_words += plan.random_words * p["length"]
    return _called(body, f"a loop of {p['length']} step{'s' * (p['length'] != 1)}", plan, x, eqn.outvars)


def _while(body: Walks, eqn: Any, x: list[View]) -> list[View]:
    plan = body.planners["while"](eqn.params, body.platform)
    body.random_words += plan.random_words
    return _called(body, "a while_loop", plan, x, eqn.outvars)


def _empty(outs: Sequence[Any]) -> list[Any]:
    return [jax.numpy.zeros(var.aval.shape, var.aval.dtype) for var in outs]


@dataclass(frozen=True, eq=False)
class LoopWithin:
    """A loop within the body: operands of its call are the inputs of its plan, and results those of it, then memory."""

    name: str
    plan: Any
    types: tuple[Any, ...]  # of the results

    @property
    def place(self) -> dict[int, int]:
        """The place of each result of the plan among those of the call."""
        return {i: k for k, i in enumerate(self.plan.outs)}

    @property
    def reuses(self) -> tuple[tuple[int, int], ...]:
        """Carries and their results."""
        plan, place = self.plan, self.place
        return tuple((number, place[i]) for number, i in plan.carries.items() if plan.inputs[number].shape)


def _called(body: Walks, name: str, plan: Any, x: list[View], outs: Sequence[Any]) -> list[View]:
    """Add the call of a loop; carries that it does not change are returned as they are."""
    operands = [*x, *map(body.of_value, plan.closed)]
    types = [words_of(outs[i].aval) for i in plan.outs]
    call = body.tables.loop(LoopWithin(name, plan, tuple(types)))
    made = iter(body.call(call, operands, [*types, *map(_flat_type, plan.memory)])) if types else iter(())
    return [x[plan.kept[i]] if i in plan.kept else next(made) for i in range(len(outs))]


def loop_call(loop: LoopWithin) -> Call:
    """Return the call of a loop on the CPU."""
    plan, place = loop.plan, loop.place

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        starts = [
            copied(tools, out[place[i]], x[number], plan.inputs[number].shape)
            for number, i in plan.carries.items()
            if x[number] != out[place[i]]
        ]
        return [*starts, _line(tools, plan, x, out[: len(place)], loop.types, out[len(place) :])]

    return Call(loop.name, write, reuses=loop.reuses, plans=(plan,), may_fail=plan.may_fail)


def _line(
    tools: Tools, plan: Any, x: Sequence[str], outs: Sequence[str], types: Sequence[Any], memory: Sequence[str]
) -> str:
    """Return the line that calls the function of a plan; arrays without a row for each step have one axis."""
    given = [
        text if array.home == "row" else _flat(tools, text, array.shape)
        for text, array in zip(x, plan.inputs, strict=True)
        if array.home != "carry"
    ]
    results = [
        text if i in plan.rows else _flat(tools, text, each.shape)
        for text, i, each in zip(outs, plan.outs, types, strict=True)
    ]
    return f"{tools.nested(plan)}({', '.join([*given, *results, *memory])})"


def _flat(tools: Tools, text: str, shape: Sequence[int]) -> str:
    return text if len(shape) < 2 else tools.once(f"part({text}, 0, ({math.prod(shape)},))")


def _flat_type(array: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((array.size,) if array.shape else (), array.dtype)


@dataclass(frozen=True, eq=False)
class BranchesWithin:
    """Branches of a body: operands of their call are the number of one, operands of all, and constants of each plan.

    `pairs` are results by the number of an operand. After the results, the call has memory of each plan.
    """

    plans: tuple[Any, ...]
    pairs: Mapping[int, int]
    common: int  # operands of all
    types: tuple[Any, ...]  # of the results

    @property
    def results(self) -> int:
        """The number of results."""
        return len(self.types)

    @property
    def reuses(self) -> tuple[tuple[int, int], ...]:
        """Operands and results of the call that may share memory."""
        return tuple((number + 1, i) for number, i in self.pairs.items())

    def inputs(self, k: int) -> list[tuple[int, Array]]:
        """Return the inputs of a plan, with their places among the operands of the call."""
        before = sum(len(plan.closed) for plan in self.plans[:k])
        return [(1 + a.number + before * (a.number >= self.common), a) for a in self.plans[k].inputs]

    def operands(self, k: int, x: Sequence[str]) -> list[str]:
        """Return those of a plan."""
        return [x[place] for place, _ in self.inputs(k)]

    def memory(self, k: int, out: Sequence[str]) -> Sequence[str]:
        """Return that of a plan."""
        first = self.results + sum(len(plan.memory) for plan in self.plans[:k])
        return out[first : first + len(self.plans[k].memory)]


def _cond(body: Walks, eqn: Any, x: list[View]) -> list[View]:
    branches = [closed_jaxpr(branch) for branch in eqn.params["branches"]]
    if not isinstance(x[0].base, Array):
        chosen = int(x[0].base.value)
        return body.walk(branches[chosen if 0 <= chosen < len(branches) else -1], x[1:])
    pairs = _pairs(branches)
    plans = [body.planners["branch"](branch, pairs, body.platform) for branch in branches]
    body.random_words += max(plan.random_words for plan in plans)
    types = [words_of(var.aval) for var in eqn.outvars]
    found = BranchesWithin(tuple(plans), pairs, len(x) - 1, tuple(types))
    closed = [body.of_value(value) for plan in plans for value in plan.closed]
    memory = [_flat_type(array) for plan in plans for array in plan.memory]
    if not types:
        return []
    return body.call(body.tables.branches(found), [*x, *closed], [*types, *memory])[: len(types)]


def branches_call(branches: BranchesWithin) -> Call:
    """Return the call of one of some branches on the CPU."""
    plans, pairs, types = branches.plans, branches.pairs, branches.types

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        lines = [
            copied(tools, out[i], x[number + 1], plans[0].inputs[number].shape)
            for number, i in pairs.items()
            if x[number + 1] != out[i]
        ]
        for k, plan in enumerate(plans):
            head = "else:" if k == len(plans) - 1 else f"{'el' * (k > 0)}if {x[0]} == {k}:"
            given, made = branches.operands(k, x), [types[i] for i in plan.outs]
            own = branches.memory(k, out)
            line = _line(tools, plan, given, [out[i] for i in plan.outs], made, own) if plan.outs else "pass"
            lines += [head, f"    {line}"]
        return lines

    fails = any(plan.may_fail for plan in plans)
    return Call("a branch", write, frozenset((0,)), reuses=branches.reuses, plans=plans, may_fail=fails)


def _pairs(branches: Sequence[Any]) -> dict[int, int]:
    """Return results, by the number of an operand, that are this operand in a branch: they may have its memory."""
    pairs: dict[int, int] = {}
    for jaxpr in (branch.jaxpr for branch in branches):
        numbers = {var: number for number, var in enumerate(jaxpr.invars)}
        for i, var in enumerate(jaxpr.outvars):
            number = None if hasattr(var, "val") else numbers.get(var)
            if number is not None and var.aval.shape and number not in pairs and i not in pairs.values():
                pairs[number] = i
    return pairs


# By primitive of JAX: functions of the body, an equation and its operands.
WITHIN: dict[str, Callable[[Walks, Any, list[View]], list[View]]] = {"scan": _scan, "while": _while, "cond": _cond}
