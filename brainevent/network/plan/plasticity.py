# SPDX-License-Identifier: Apache-2.0
"""Trace the rules of plastic projections, and check what they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import NetworkError, RuleError, did_you_mean
from ...scalar.primitives import flushed
from ...scalar.synapse import TracedSynapseRule, trace_synapse
from ...scalar.trace import TracedRule
from ..description.exact import refuse_rounded
from ..description.plasticity import Plasticity, Trace
from ..description.populations import Projection
from ..description.units import plain, unit_of

__all__ = ["PlasticRules", "TracePlan", "called_by", "called_every", "plastic_rules"]

_STEP = "dt"
_NEAR = 1e-6  # of a step, and of the number of steps

Names = Mapping[str, str]  # dtypes by name


@dataclass(frozen=True)
class TracePlan:
    """A trace: what rules call it, dt / tau, what a spike adds, and whether it sets the trace to that instead."""

    name: str
    rate: np.floating[Any]
    add: np.floating[Any]
    nearest: bool


@dataclass(frozen=True, eq=False)
class PlasticRules:
    """The rules of the synapses of one projection, without its synapses.

    `on_post` are rules by events of the target, in the order in which they are called; `every` rules by numbers of
    steps, likewise. `carried` are the names by which rules read states of the source, with these states. `states` are
    those of a synapse, and `params` of the rules, in the dtype of the plan. What a rule returns is clipped to `bounds`
    by its form. `delay_at` is "axon" or "dendrite". `value_range` is that of spikes of the source, None if they have
    no values.
    """

    on_pre: TracedSynapseRule | None
    on_post: tuple[tuple[str, TracedSynapseRule], ...]
    every: tuple[tuple[int, TracedSynapseRule], ...]
    pre: tuple[TracePlan, ...]
    carried: tuple[tuple[str, str], ...]
    post: tuple[TracePlan, ...]
    states: tuple[str, ...]
    params: Mapping[str, np.floating[Any]]
    bounds: tuple[float, float]
    delay_at: str
    dtypes: Names = field(default_factory=dict)  # of `carried`, by the names that rules read
    value_range: tuple[float, float] | None = None

    @property
    def all(self) -> list[tuple[str, TracedSynapseRule]]:
        """All rules by what calls them, in the order in which they are called within a step."""
        found = [("on_pre", self.on_pre)] if self.on_pre is not None else []
        found += [(called_by(event), rule) for event, rule in self.on_post]
        return found + [(called_every(steps), rule) for steps, rule in self.every]

    @property
    def largest(self) -> float:
        """The largest |weight|."""
        return max(map(abs, self.bounds))


def called_by(event: str) -> str:
    """Return what calls a rule for an event of the target, in words."""
    return "on_post" if event == "spike" else f"on_post[{event!r}]"


def called_every(steps: int) -> str:
    """Return what calls a rule at intervals, in words."""
    return "every step" if steps == 1 else f"every {steps} steps"


def plastic_rules(
    name: str, projection: Projection, rules: Mapping[str, TracedRule], dt: float, dtype: str
) -> PlasticRules:
    """Return the rules of a projection as forms; raise for what they read and does not exist."""
    given = projection.plasticity
    assert given is not None
    where, (source, target) = f"projection {name}", projection.populations
    states = {end: {one.text[2:]: one.dtype for one in rules[end].states} for end in (source.name, target.name)}
    dtypes = _carried(where, given, source.name, states[source.name])
    post = _post(where, given, target.name, states[target.name], dtype)
    params = _params(where, given, dt, np.dtype(dtype).type)
    groups = {
        "synapse": dict.fromkeys(given.state, dtype),
        "pre": {key: dtypes.get(key, dtype) for key in given.pre},
        "post": post,
        "params": dict.fromkeys(params, dtype),
    }
    bounds = _bounds(where, projection, dtype)
    hints = _hints(states[source.name], rules[target.name])

    def traced(rule: Any) -> TracedSynapseRule:
        try:
            return trace_synapse(rule, groups, bounds, dtype=dtype, hints=hints)
        except RuleError as error:
            error.args = (f"{where}: {error}",)
            raise

    _check_events(where, given, target.name, rules)
    found = PlasticRules(
        None if given.on_pre is None else traced(given.on_pre),
        tuple((event, traced(rule)) for event, rule in given.events),
        tuple((_steps(where, ms, dt), traced(rule)) for ms, rule in given.intervals),
        _traces(f"{where}: pre", given.pre, dt, dtype),
        tuple(given.carried.items()),
        _traces(f"{where}: post", given.post, dt, dtype),
        tuple(given.state),
        params,
        bounds,
        given.delay_at,
        dtypes,
        rules[source.name].value_range,
    )
    _check_used(where, given, [rule for _, rule in found.all])
    return _without_step(found, given)


def _post(where: str, given: Plasticity, target: str, states: Names, dtype: str) -> dict[str, str]:
    """Return the dtypes of what rules read of the target: its states, and traces, which have other names."""
    for key in given.post:
        if key in states:
            raise NetworkError(f"{where}: post has the trace {key!r}, which is a state of {target}; rename it")
    return {**states, **dict.fromkeys(given.post, dtype)}


def _without_step(found: PlasticRules, given: Plasticity) -> PlasticRules:
    """Leave the time step out of the parameters, unless it was given, or a rule reads it."""
    if _STEP in given.params or any(_STEP in rule.read["params"] for _, rule in found.all):
        return found
    return replace(found, params={name: value for name, value in found.params.items() if name != _STEP})


def _hints(states: Names, target: TracedRule) -> dict[tuple[str, str], str]:
    """Return what to do about names that a record does not have, given states of the source and the target's rule."""
    hints = {("pre", one): f"declare it: pre=dict({one}={one!r})" for one in states}
    hints |= {("params", one): f"declare it, with the same number: params=dict({one}=...)" for one in ("low", "high")}
    hints |= {("post", one.text[2:]): _of_receptor(one.text[2:]) for one in target.arriving}
    return hints


def _of_receptor(name: str) -> str:
    return f"{name} is a receptor of the target: let its rule store what arrives in a state, and read that"


def _carried(where: str, given: Plasticity, source: str, states: Names) -> dict[str, str]:
    """Return the dtypes of the states of the source that travel with spikes."""
    for name, state in given.carried.items():
        if state not in states:
            raise NetworkError(
                f"{where}: pre {name} is the state {state!r}, which {source} does not have"
                f"{did_you_mean(state, states)}; states: {', '.join(states) or 'none'}; for a trace, pass trace(tau)"
            )
    return {name: states[state] for name, state in given.carried.items()}


def _params(where: str, given: Plasticity, dt: float, dtype: Any) -> dict[str, np.floating[Any]]:
    """Return parameters, with the step of the network."""
    if _STEP in given.params and abs(given.params[_STEP] - dt) > _NEAR * dt:
        raise NetworkError(
            f"{where}: params dt is {given.params[_STEP]:g}, but p.dt is the time step of the network, {dt:g} ms; "
            "leave it out, or rename a parameter that means another dt"
        )
    params = {**given.params, _STEP: dt}
    return {name: _fitting(f"{where}: params {name}", value, dtype) for name, value in params.items()}


def _fitting(where: str, number: float, dtype: Any) -> Any:
    """Return a number in a dtype; raise if it becomes infinite."""
    refuse_rounded(where, np.asarray(number), dtype)
    with np.errstate(over="ignore"):
        found = dtype(number)
    if not np.isfinite(found):
        raise NetworkError(f"{where} is {number:g}, which does not fit in {np.dtype(dtype)}; pass a smaller number")
    return found


def _bounds(where: str, projection: Projection, dtype: str) -> tuple[float, float]:
    """Return the smallest and the largest weight, as the dtype holds them."""
    given, target = projection.plasticity, projection.populations[1]
    unit = unit_of(target.name, target.units, projection.into)
    numbers = {key: plain(f"{where}: plasticity {key}", getattr(given, key), unit) for key in ("low", "high")}
    low, high = (
        float(_fitting(f"{where}: plasticity {key}", number, np.dtype(dtype).type)) for key, number in numbers.items()
    )
    if low > high:
        raise NetworkError(f"{where}: plasticity: low is {low:g} and high is {high:g}; pass low <= high")
    if high == low == 0:
        raise NetworkError(f"{where}: plasticity: low and high are 0; pass the largest weight as high=")
    return low, high


def _check_events(where: str, given: Plasticity, target: str, rules: Mapping[str, TracedRule]) -> None:
    """Raise for events that the target does not have."""
    events = rules[target].events
    for event, _ in given.events:
        if event not in events:
            raise NetworkError(
                f"{where}: on_post has the event {event!r}, which the rule of {target} does not return"
                f"{did_you_mean(event, events)}; events: {', '.join(events)}"
            )


def _steps(where: str, ms: float, dt: float) -> int:
    """Return an interval in steps."""
    steps = round(ms / dt)
    if ms / dt < 1 - _NEAR:
        raise NetworkError(f"{where}: every has the interval {ms:g} ms, below one step; pass {dt:g} ms or more")
    if abs(ms / dt - steps) > _NEAR * steps:
        raise NetworkError(
            f"{where}: every has the interval {ms:g} ms, not a multiple of dt={dt:g} ms; pass a multiple"
        )
    if steps >= 2**31:
        raise NetworkError(f"{where}: every has the interval {ms:g} ms, {steps} steps; pass fewer than 2**31 steps")
    return steps


def _traces(where: str, given: Any, dt: float, dtype: str) -> tuple[TracePlan, ...]:
    of, fastest = np.dtype(dtype).type, float(np.finfo(dtype).max)  # 0 steps times an infinite rate would be NaN
    traces = {name: one for name, one in given.items() if isinstance(one, Trace)}
    added = {name: np.full(1, _fitting(f"{where} {name}: add", one.add, of)) for name, one in traces.items()}
    return tuple(
        TracePlan(name, of(min(dt / one.tau, fastest)), flushed(added[name])[0], one.nearest)
        for name, one in traces.items()
    )


def _check_used(where: str, given: Plasticity, rules: Iterable[TracedSynapseRule]) -> None:
    """Raise for what is declared, and no rule reads or changes."""
    used = {kind: frozenset[str]().union(*(rule.read[kind] for rule in rules)) for kind in ("synapse", "pre", "post")}
    used["params"] = frozenset[str]().union(*(rule.read["params"] for rule in rules)) | {_STEP}
    used["synapse"] = used["synapse"].union(*(rule.changed for rule in rules))
    declared = {"synapse": given.state, "pre": given.pre, "post": given.post, "params": given.params}
    for kind, names in declared.items():
        for name in names:
            if name not in used[kind]:
                what, letter = ("state", "s") if kind == "synapse" else (kind, "p" if kind == "params" else kind)
                raise NetworkError(
                    f"{where}: {what} has {name!r}, which no rule of its plasticity "
                    f"{'reads or changes' if kind == 'synapse' else 'reads'}{did_you_mean(name, used[kind])}; leave it "
                    f"out, or read {letter}.{name}"
                )
