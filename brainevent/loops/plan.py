# SPDX-License-Identifier: Apache-2.0
"""The order in which the nodes of a body run, and where each array lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax import lax

from .._compat import closed_jaxpr, scan_counts
from .body import Body, users_line, words_of
from .places import Layout
from .rotated import rotated
from .schedule import Ranks
from .values import Array, Node, Plan, Stage, UnfitError, View, is_whole, whole

__all__ = ["Plan", "Stage", "plan_of"]


def plan_of(params: Mapping[str, Any], platform: str) -> Plan:
    """Return the loop of a scan with these parameters as a plan; raise `UnfitError` if it cannot be one."""
    closed = params["jaxpr"]
    consts, carried = scan_counts(dict(params))
    types = [words_of(aval) for aval in closed.in_avals]
    homes = ["const"] * consts + ["carry"] * carried + ["row"] * (len(types) - consts - carried)
    planner = _Planner(platform, types, homes, {consts + i: i for i in range(carried)}, closed)
    views = planner.body.walk(closed, planner.views)
    rows = frozenset(range(carried, len(views)))
    return planner.planned(views, params["length"], reverse=params["reverse"], rows=rows)


def _plan_of_while(params: Mapping[str, Any], platform: str) -> Plan:
    """Return a while_loop as a plan: its inputs are the constants of the condition and of the body, and carries."""
    cond, body = (closed_jaxpr(params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    _check_effects(cond)
    counts = params["cond_nconsts"], params["body_nconsts"]
    of_cond = [words_of(aval) for aval in cond.in_avals[: counts[0]]]
    types = of_cond + [words_of(aval) for aval in body.in_avals]
    first = sum(counts)
    homes = ["const"] * first + ["carry"] * (len(types) - first)
    carries = {number: number - first for number in range(first, len(types))}
    planner = _Planner(platform, types, homes, carries, body, offset=counts[0])
    known = planner.views
    (each,) = planner.body.walk(cond, [*known[: counts[0]], *known[first:]])
    go = each
    if each.shape:
        (go,) = planner.body.traced(lambda x: (lax.reduce_or(x, tuple(range(x.ndim))),), [each])
    go = planner.body.scalar(go) if isinstance(go.base, Array) else go
    head = len(planner.body.nodes)
    views = planner.body.walk(body, known[counts[0] :])
    if each.shape:  # a batch: elements that are done keep their values
        views = [_chosen(planner.body, each, new, old) for new, old in zip(views, known[first:], strict=True)]
    return planner.planned(views, None, head=head, go=go)


def _chosen(body: Body, go: View, new: View, old: View) -> View:
    def choose(go: Any, new: Any, old: Any) -> tuple[Any]:
        return (lax.select(lax.broadcast_in_dim(go, new.shape, tuple(range(go.ndim))), new, old),)

    return new if new == old else body.traced(choose, [go, new, old])[0]


def _plan_of_branch(closed: Any, pairs: Mapping[int, int], platform: str) -> Plan:
    """Return a branch as a plan of one step; `pairs` are results by the number of the operand in whose memory they are.

    They are numbers of operands and results of the jaxpr.
    """
    types = [words_of(aval) for aval in closed.in_avals]
    homes = ["carry" if number in pairs else "const" for number in range(len(types))]
    planner = _Planner(platform, types, homes, pairs, closed)
    return planner.planned(planner.body.walk(closed, planner.views), 1)


class _Planner:
    """The inputs of a jaxpr as arrays, its body, and the plan that they become."""

    def __init__(
        self,
        platform: str,
        types: Sequence[Any],
        homes: Sequence[str],
        carries: Mapping[int, int],
        closed: Any,
        offset: int = 0,
    ):
        _check_effects(closed)
        jaxpr = closed.jaxpr
        outs = jaxpr.outvars
        self.kept = {i: number for number, i in carries.items() if outs[i] is jaxpr.invars[number - offset]}
        self.carries = {number: i for number, i in carries.items() if i not in self.kept}
        same = set(self.kept.values())
        self.inputs = [
            Array(tuple(each.shape), str(each.dtype), "const" if number in same else home, number)
            for number, (each, home) in enumerate(zip(types, homes, strict=True))
        ]
        self.views = [whole(array) for array in self.inputs]
        self.body = Body(platform, len(self.inputs), PLANNERS)

    def planned(
        self,
        views: Sequence[View],
        length: int | None,
        *,
        reverse: bool = False,
        rows: frozenset[int] = frozenset(),
        head: int = 0,
        go: View | None = None,
    ) -> Plan:
        """Return the plan of a loop with these results; its first `head` nodes decide whether to `go` on."""
        body = self.body
        outs = {i: _own(body, view) for i, view in enumerate(views) if i not in self.kept}
        inputs = [*self.inputs, *(array for array, _ in body.closed)]
        more = [go.base] if go is not None and isinstance(go.base, Array) else []
        is_scan = length is not None
        layout = Layout(body.nodes, head, inputs, outs, self.carries, more, body.barred, hoists_kernels=is_scan)
        calls = [node.call for node in layout.maker.values() if node.call is not None]
        plan = Plan(
            length=length,
            reverse=reverse,
            inputs=tuple(inputs),
            closed=tuple(value for _, value in body.closed),
            before=_stages(layout.before, layout.ranks),
            head=_stages(layout.head, layout.ranks),
            go=go,
            step=_stages(layout.step, layout.ranks),
            outs=outs,
            kept=self.kept,
            carries=self.carries,
            rows=rows & outs.keys(),
            places=layout.places,
            late=tuple(layout.late),
            random_words=body.random_words,
            may_fail=not is_scan or any(call.may_fail for call in calls),
            is_foreign=any(call.is_foreign or any(plan.is_foreign for plan in call.plans) for call in calls),
        )
        return rotated(plan) if body.platform == "cpu" else plan


# How loops and branches within a body become plans.
PLANNERS: dict[str, Callable[..., Plan]] = {"scan": plan_of, "while": _plan_of_while, "branch": _plan_of_branch}


def _check_effects(closed: Any) -> None:
    if closed.effects:
        names = {type(effect).__name__ for effect in closed.effects}
        debug = not names.isdisjoint(("DebugEffect", "OrderedDebugEffect"))
        where = next((users_line(eqn) for eqn in closed.jaxpr.eqns if eqn.effects), "")
        raise UnfitError("jax.debug.print or a callback, which calls Python" if debug else f"effects ({names})", where)


def _own(body: Body, view: View) -> Array:
    """Return an array of the body that is all of a view: a copy, unless the view is one."""
    if (
        isinstance(view.base, Array)
        and view.base.home == "made"
        and (is_whole(view) if view.shape else not view.base.shape)
    ):
        return view.base
    copied = body.lane([view], view.shape, view.dtype).base
    assert isinstance(copied, Array)
    return copied


def _stages(nodes: Sequence[Node], ranks: Ranks) -> tuple[Stage, ...]:
    stages = []
    for number in range(max([ranks[node] for node in nodes], default=-1) + 1):
        here = [node for node in nodes if ranks[node] == number]
        lanes = [node for node in here if node.call is None and not node.is_scalar]
        loops = (tuple(n for n in lanes if n.shape == shape) for shape in dict.fromkeys(n.shape for n in lanes))
        calls = tuple(node for node in here if node.call is not None)
        stages.append(Stage(tuple(node for node in here if node.is_scalar), tuple(loops), calls))
    return tuple(stages)
