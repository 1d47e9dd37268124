# SPDX-License-Identifier: Apache-2.0
"""`Plasticity` and `trace`: how the synapses of a projection change, as a user writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from .checks import check_key, check_numbers, is_number
from .units import plain, split
from .values import Values, in_unit

__all__ = ["MOST_CARRIED", "Plasticity", "Trace", "trace"]

MOST_CARRIED = 4  # states of the source that travel with its spikes
_PLACES = ("axon", "dendrite")
_RULE = "write rule(w, s, pre, post, p), which returns w or (w, s)"

Number = Any  # a number, or a quantity of one


@dataclass(frozen=True)
class Trace:
    """A trace of spikes, as `trace` returns it; `tau` is in ms."""

    tau: float
    add: float = 1.0
    nearest: bool = False

    def __repr__(self) -> str:
        more = f", add={self.add:g}" * (self.add != 1) + ", nearest=True" * self.nearest
        return f"trace({self.tau:g}{more})"


def trace(tau: Number, add: float = 1.0, nearest: bool = False) -> Trace:
    """Describe a trace of the spikes of a neuron: it decays exponentially, and each spike adds to it.

    Args:
        tau: Time constant of the decay, in ms.
        add: What each spike adds.
        nearest: Whether a spike sets the trace to `add` instead of adding it: then only the last spike counts.

    Returns:
        What `Plasticity` takes in `pre` and `post`.

    Raises:
        NetworkError: tau is not positive, or add is no number.

    Examples:
        >>> import brainevent as be
        >>> be.trace(20.0)
        trace(20)
    """
    tau = plain("trace: tau", tau, "ms")
    if not is_number(tau) or not (math.isfinite(tau) and tau > 0):
        raise NetworkError(f"trace: tau is {tau!r}; pass a positive number of ms")
    if not is_number(add) or not math.isfinite(add):
        raise NetworkError(f"trace: add is {add!r}; pass a number")
    if not isinstance(nearest, bool):
        raise NetworkError(f"trace: nearest is {nearest!r}; pass True or False")
    return Trace(float(tau), float(add), nearest)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plasticity:
    """How the synapses of a projection change: rules of one synapse, written once for all engines.

    Each rule is a function `rule(w, s, pre, post, p)` in `jax.numpy` that returns the new weight, or the new weight and
    the new states of the synapse: `w` or `(w, s.replace(...))`. `w` is the weight, `s` has the states of the synapse,
    `pre` what is declared for the source, `post` the states of the target neuron and its traces, and `p` the
    parameters, of which `p.dt` is the time step.

    Args:
        on_pre: The rule for a spike of the source. The spike itself is delivered with the weight before.
        on_post: The rule for a spike of the target neuron; or rules by the names of events that the rule of the target
            returns, such as `{"spike": f, "upstate": g}`.
        every: Rules that are applied to all synapses at regular intervals: `(ms, rule)`, or a list of such pairs.
        state: States of a synapse, and where they begin: a number, values that are drawn, such as `uniform(0, 1)`,
            or for a matrix an array with one number for each stored element.
        params: Parameters of the rules, numbers. `Simulation.set` changes them.
        pre: What rules see of the source, by name: `trace(tau)`, or the name of one of its states, up to four of them.
            States are those after the step of the spike, and travel with it. A list of names of states will do.
        post: Traces of the target's spikes, by name. Its states need no declaration.
        low: The smallest weight. After each call of a rule, weights are clipped.
        high: The largest weight. It bounds the sums that neurons receive.
        delay_at: Where the delay of the projection is: "axon" or "dendrite". At the axon, what a spike of the source
            does to the synapse happens when it arrives. At the dendrite, it happens at once, its effect on the target
            arrives after the delay, and spikes of the target reach the synapse after the delay. Rules read the states
            of the target as they are now, also for an event that took place a delay ago.

    Raises:
        NetworkError: Something is not of these kinds; low is above high; or there is no rule.

    Examples:
        >>> import brainevent as be
        >>> stdp = be.Plasticity(
        ...     on_pre=lambda w, s, pre, post, p: w - 0.012 * post.y,
        ...     on_post=lambda w, s, pre, post, p: w + 0.01 * pre.x,
        ...     pre={"x": be.trace(20.0)},
        ...     post={"y": be.trace(20.0)},
        ...     high=1.0,
        ... )
        >>> stdp.pre
        {'x': trace(20)}
    """

    on_pre: Callable[..., Any] | None = None
    on_post: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None
    every: tuple[Number, Callable[..., Any]] | Sequence[tuple[Number, Callable[..., Any]]] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    pre: Mapping[str, Trace | str] | Sequence[str] = field(default_factory=dict)
    post: Mapping[str, Trace] = field(default_factory=dict)
    low: Number = 0.0
    high: Number = None
    delay_at: str = "axon"

    def __post_init__(self) -> None:
        if self.on_pre is not None:
            _check_rule("on_pre", self.on_pre)
        object.__setattr__(self, "on_post", _events(self.on_post))
        object.__setattr__(self, "every", _intervals(self.every))
        if self.on_pre is None and not self.on_post and not self.every:
            raise NetworkError("Plasticity: there is no rule; pass on_pre=, on_post= or every=")
        pre = self.pre if isinstance(self.pre, Mapping) else _by_name(self.pre)
        for what, given in (("state", self.state), ("params", self.params), ("pre", pre), ("post", self.post)):
            object.__setattr__(self, what, _named(what, given))
        self._check_values()
        self._check_declared()
        if self.delay_at not in _PLACES:
            raise NetworkError(
                f"Plasticity: delay_at is {self.delay_at!r}{did_you_mean(str(self.delay_at), _PLACES)}; pass 'axon' or "
                "'dendrite'"
            )
        if self.high is None:
            raise NetworkError(
                "Plasticity: high is missing; pass the largest weight, which bounds the sums of a neuron"
            )
        self._check_bounds()

    def _check_bounds(self) -> None:
        bounds = {name: split(f"Plasticity: {name}", getattr(self, name)) for name in ("low", "high")}
        for name, (number, _) in bounds.items():
            if not is_number(number) or not math.isfinite(number):
                raise NetworkError(f"Plasticity: {name} is {getattr(self, name)!r}; pass a finite number")
        (low, unit), (high, other) = bounds.values()
        if low > high and (unit == other or 0 in (low, high)):
            raise NetworkError(f"Plasticity: low is {low:g} and high is {high:g}; pass low <= high")

    def _check_values(self) -> None:
        """Raise unless states are numbers or values that are drawn, and parameters numbers."""
        for name in ("w", "weights"):
            for what, given in (("state", self.state), ("params", self.params)):
                if name in given:
                    raise NetworkError(f"Plasticity: {what} has {name!r}, which is the weight; pass another name")
        for name in self.state:
            if name in self.params:
                raise NetworkError(f"Plasticity: {name!r} is a state and a parameter; give one of them another name")
        for name, value in self.state.items():
            if isinstance(value, Values):
                in_unit(f"Plasticity: state {name}", value, None)
            else:
                check_numbers(f"Plasticity: state {name}", value, "a number, values such as uniform(0, 1), or an array")
        for name, value in self.params.items():
            given = plain(f"Plasticity: params {name}", value, "ms" if name == "dt" else None)
            if not is_number(given) or not math.isfinite(given):
                raise NetworkError(f"Plasticity: params {name} is {value!r}; pass a number, the same for all synapses")
            self.params[name] = np.asarray(given).item()  # type: ignore[index]

    def _check_declared(self) -> None:
        for name, one in self.pre.items():  # type: ignore[union-attr]
            if not isinstance(one, (Trace, str)):
                raise NetworkError(
                    f"Plasticity: pre {name} is {one!r}; pass trace(tau), or the name of a state of the source"
                )
        if len(self.carried) > MOST_CARRIED:
            raise NetworkError(
                f"Plasticity: pre has {len(self.carried)} states of the source, {', '.join(self.carried)}; at most "
                f"{MOST_CARRIED} travel with a spike"
            )
        for name, one in self.post.items():
            if not isinstance(one, Trace):
                raise NetworkError(
                    f"Plasticity: post {name} is {one!r}; pass trace(tau): rules read the states of the target as they "
                    f"are, without a declaration, such as post.{name}"
                )

    @property
    def carried(self) -> dict[str, str]:
        """The names of states of the source that travel with its spikes, by the names that rules read."""
        return {name: one for name, one in self.pre.items() if isinstance(one, str)}  # type: ignore[union-attr]

    def __repr__(self) -> str:
        rules = [_name_of("on_pre", self.on_pre)] if self.on_pre is not None else []
        rules += [_name_of("on_post" if event == "spike" else f"on_post[{event!r}]", f) for event, f in self.events]
        rules += [f"every=({ms:g}, {getattr(f, '__name__', 'rule')})" for ms, f in self.intervals]
        return f"Plasticity({', '.join(rules)})"

    @property
    def events(self) -> list[tuple[str, Callable[..., Any]]]:
        """Events of the target, with their rules."""
        return list(self.on_post.items())  # type: ignore[union-attr]

    @property
    def intervals(self) -> list[tuple[float, Callable[..., Any]]]:
        """Intervals in ms, with their rules."""
        return list(self.every)


def _name_of(what: str, rule: Any) -> str:
    return f"{what}={getattr(rule, '__name__', type(rule).__name__)}"


def _check_rule(where: str, rule: Any) -> None:
    if not callable(rule):
        raise NetworkError(f"Plasticity: {where} is {rule!r}; {_RULE}")


def _events(on_post: Any) -> dict[str, Any]:
    """Return rules by event of the target."""
    if on_post is None:
        return {}
    found = dict(on_post) if isinstance(on_post, Mapping) else {"spike": on_post}
    for event, rule in found.items():
        if not isinstance(event, str):
            raise NetworkError(f"Plasticity: on_post has the event {event!r}; pass names of events, such as 'spike'")
        _check_rule("on_post" if event == "spike" else f"on_post[{event!r}]", rule)
    return found


def _intervals(every: Any) -> tuple[tuple[float, Any], ...]:
    """Return intervals in ms, with their rules."""
    pairs = [every] if isinstance(every, tuple) and len(every) == 2 and callable(every[1]) else every
    if isinstance(pairs, (str, Mapping)) or not isinstance(pairs, Sequence):
        raise NetworkError(f"Plasticity: every is {every!r}; pass (ms, rule), or a list of such pairs")
    found = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise NetworkError(f"Plasticity: every has {pair!r}; pass (ms, rule), or a list of such pairs")
        ms = plain("Plasticity: every", pair[0], "ms")
        if not is_number(ms) or not (math.isfinite(ms) and ms > 0):
            raise NetworkError(f"Plasticity: every has the interval {pair[0]!r}; pass a positive number of ms")
        _check_rule("every", pair[1])
        found.append((float(ms), pair[1]))
    return tuple(found)


def _by_name(states: Any) -> dict[str, str]:
    """Return names of states by themselves."""
    if isinstance(states, str) or not isinstance(states, Sequence) or not all(isinstance(x, str) for x in states):
        raise NetworkError(
            f"Plasticity: pre is {states!r}; pass dict(name=trace(tau)), or names of states of the source"
        )
    return {name: name for name in states}


def _named(what: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise NetworkError(f"Plasticity: {what} is {given!r}; pass dict(name=value)")
    for name in given:
        check_key(f"Plasticity: {what} {name!r}", name)
    return dict(given)
