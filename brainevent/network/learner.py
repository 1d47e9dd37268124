# SPDX-License-Identifier: Apache-2.0
"""`Learner`: a network that learns by e-prop: which synapses do, what is read, and where learning signals come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import NetworkError, ShapeError
from ..scalar.form import FLOATS
from ..scalar.margin import with_margin
from ..scalar.trace import flat_rule
from ..typing import ArrayLike
from .description.populations import whole_name
from .plan.plan import Plan, PopulationPlan, SynapsePlan
from .reference.params import check_mapping, check_name

__all__ = ["Learner", "Synapses", "linear", "names_of_floats", "scalar_step"]

Array = Any


@dataclass(frozen=True, eq=False)
class Synapses:
    """The synapses of a projection: source and target of each, and its delay in steps."""

    plan: SynapsePlan
    sources: Array
    targets: Array
    delays: Array

    @property
    def name(self) -> str:
        """The name of the projection."""
        return self.plan.name


@dataclass(frozen=True, eq=False)
class Learner:
    """A network that learns: its synapses, and by what the signal of each population comes.

    Attributes:
        plan: The network.
        params: The parameters of neurons, by population and name.
        weights: Weights by projection, floats (1,) or (entries,).
        synapses: The synapses of all projections.
        readout: The population that is read.
        read: The place of the state that is read among its floats.
        signals: By population an array (neurons of the readout, neurons), or the projections into the readout.
        loss: The loss of a step.
        surrogate: The derivative of a spike by its margin.
    """

    plan: Plan
    params: Mapping[str, Mapping[str, Array]]
    weights: Mapping[str, Array]
    synapses: tuple[Synapses, ...]
    readout: PopulationPlan
    read: int
    signals: Mapping[str, Any]
    loss: Callable[[Array, Array], Array]
    surrogate: Callable[[Array], Array] | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        params: Mapping[str, Mapping[str, Array]],
        weights: Mapping[str, Any],
        readout: str,
        feedback: Mapping[str, ArrayLike] | None,
        loss: Callable[[Array, Array], Array],
        surrogate: Callable[[Array], Array] | None,
    ) -> Learner:
        """Check what `eprop` is given, and return what learns."""
        if graded := [p.name for p in plan.populations if p.rule.value]:
            raise NetworkError(
                f"eprop: spikes of {', '.join(graded)} have values, whose traces it does not have; use jax.grad of "
                "simulate, or a rule that returns a bool"
            )
        name, _, state = str(readout).rpartition(".")
        check_name("readout", name, [p.name for p in plan.populations])
        out = plan.population(name)
        check_name(f"readout {name!r}", state, names_of_floats(out))
        synapses = tuple(_synapses(plan, one) for one in plan.synapses)
        into: dict[str, list[Synapses]] = {}
        for s in synapses:
            if s.plan.target == name and s.plan.source != name:
                into.setdefault(s.plan.source, []).append(s)
        signals = {**into, **_fed_back(plan, out, feedback or {})}
        _check_readout(out, params[name], readout, [s for all_ in into.values() for s in all_])
        arrays = {s.name: jnp.asarray(weights[s.name], plan.dtype) for s in synapses}
        read = names_of_floats(out).index(state)
        return cls(plan, params, arrays, synapses, out, read, signals, loss, surrogate)

    @cached_property
    def learning(self) -> tuple[Synapses, ...]:
        """The synapses that learn: those into the readout, and into populations with a learning signal."""
        return tuple(s for s in self.synapses if s.plan.target == self.readout.name or s.plan.target in self.signals)

    @property
    def hidden(self) -> tuple[Synapses, ...]:
        """Those of them that do not end in the readout."""
        return tuple(s for s in self.learning if s.plan.target != self.readout.name)

    @property
    def feedback(self) -> dict[str, Array]:
        """The weights of learning signals that are given."""
        return {name: how for name, how in self.signals.items() if not isinstance(how, list)}

    def receptor_of(self, population: str) -> int:
        """Return the place of the receptor at which spikes of a population reach the readout."""
        how = self.signals[population]
        to_readout = [s for s in self.synapses if s.plan.target == self.readout.name]
        receptors = [s.plan.receptor for s in (how if isinstance(how, list) else to_readout)]
        return list(self.readout.quanta).index(receptors[0])

    def error_of(self, turn: Array, y: Array) -> tuple[Array, Array]:
        """Return the loss of a step and its derivative by what is read."""
        return jax.value_and_grad(self._checked_loss, 1)(turn, y)

    def _checked_loss(self, turn: Array, y: Array) -> Array:
        value = self.loss(turn, y)
        if jnp.shape(value) != ():
            raise NetworkError(f"eprop: loss returns shape {jnp.shape(value)}; return a scalar, such as (...).sum()")
        return value


def _synapses(plan: Plan, one: SynapsePlan) -> Synapses:
    starts = one.starts[:: plan.parts]
    sources = np.repeat(np.arange(plan.population(one.source).size), np.diff(starts))
    targets = one.targets.astype(np.int32)
    return Synapses(one, sources.astype(np.int32), targets, np.broadcast_to(one.delays, targets.shape).astype(np.int32))


def _fed_back(plan: Plan, out: PopulationPlan, feedback: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return weights of learning signals, checked."""
    check_mapping("feedback", feedback)
    found = {}
    for owner, given in feedback.items():
        key = whole_name("eprop: feedback", owner, "a learning signal reaches those")
        check_name("feedback", key, [p.name for p in plan.populations if p.name != out.name])
        found[key] = jnp.asarray(given, plan.dtype)
        if found[key].shape != (expected := (out.size, plan.population(key).size)):
            raise ShapeError(f"eprop: feedback[{key!r}] has shape {found[key].shape}; pass {expected}")
    return found


def names_of_floats(p: PopulationPlan) -> list[str]:
    """Return the names of the states that have derivatives."""
    return [name for name, array in p.state.items() if str(array.dtype) in FLOATS]


def scalar_step(p: PopulationPlan, surrogate: Callable[[Array], Array] | None) -> Callable[..., Any]:
    """Return the step of one neuron: float states, what arrives, all else -> states by name, spike, spike to derive.

    The last one has the derivative that the surrogate gives the spike, and no value; without a surrogate it is 0.
    """
    assert p.rule.function is not None
    flat, names = flat_rule(p.rule.function, p.rule), names_of_floats(p)

    def run(floats: Array, came: Array, *others: Array) -> tuple[dict[str, Array], Array, Array]:
        rest = iter(others)
        states = [floats[names.index(name)] if name in names else next(rest) for name in p.state]
        scalars = [*states, *(came[k] for k in range(len(p.quanta))), *rest]
        if surrogate is None:
            *new, spike = flat(*scalars)
            return dict(zip(p.state, new, strict=True)), spike, jnp.zeros((), p.rule.dtype)
        (*new, spike), margin, gate = with_margin(flat)(*scalars)
        slope = jax.lax.stop_gradient(jnp.where(gate, surrogate(margin), 0))
        return dict(zip(p.state, new, strict=True)), spike, (slope * margin).astype(p.rule.dtype)

    return run


def linear(p: PopulationPlan, params: Mapping[str, Array]) -> tuple[Array, Array] | None:
    """Return how new float states depend on states and on what arrives, if that is the same for all neurons and steps.

    These are matrices (states, states) and (states, receptors); None if they depend on states, on what arrives, on
    random numbers, or on parameters of single neurons.
    """
    names, run = names_of_floats(p), scalar_step(p, None)
    others: list[Array] = [np.zeros((), x.dtype) for name, x in p.state.items() if name not in names]
    own = [jnp.asarray(params[name]) for name in p.params]
    shared = [x.ndim == 0 for x in own]
    others += [x if one else jnp.zeros((), x.dtype) for x, one in zip(own, shared, strict=True)]
    others += [np.zeros((), np.uint32)] * len(p.rule.random)

    def derivatives(h: Array, a: Array, *rest: Array) -> Any:
        def new(h: Array, a: Array) -> Array:
            states = run(h, a, *rest)[0]
            return jnp.stack([states[name] for name in names]) if names else h

        return jax.jacfwd(new, (0, 1))(h, a)

    zeros = [np.zeros(size, p.rule.dtype) for size in (len(names), len(p.quanta))]
    needed = _needed(jax.make_jaxpr(derivatives)(*zeros, *others).jaxpr)
    states = len(p.state) - len(names)
    allowed = [False] * (2 + states) + shared + [False] * len(p.rule.random)
    if any(use and not one for use, one in zip(needed, allowed, strict=True)):
        return None
    by_states, by_arriving = derivatives(*zeros, *others)
    return by_states, by_arriving


def _check_readout(out: PopulationPlan, params: Mapping[str, Array], readout: str, into: Sequence[Synapses]) -> None:
    """Raise unless spikes reach the readout after one step, at one receptor, and its rule is linear, for all alike."""
    if late := [s for s in into if s.delays.max(initial=1) > 1]:
        raise NetworkError(
            f"eprop: projection {late[0].name} reaches the readout after {late[0].delays.max()} steps; give it a delay "
            "of one step"
        )
    if len(receptors := sorted({s.plan.receptor for s in into})) > 1:
        raise NetworkError(
            f"eprop: spikes reach the readout at {' and '.join(receptors)}; connect them to one receptor"
        )
    if linear(out, params) is None:
        raise NetworkError(
            f"eprop: the rule of {readout} is not linear in its states and what arrives, with the same coefficients "
            "for all neurons; read a leaky sum, such as v = p.keep * s.v + arriving.syn, with one p.keep"
        )


def _needed(jaxpr: Any) -> list[bool]:
    """Say of each input of a jaxpr whether an output may depend on it."""
    needed = {var for var in jaxpr.outvars if not hasattr(var, "val")}
    for eqn in reversed(jaxpr.eqns):
        if needed & set(eqn.outvars):
            needed |= {atom for atom in eqn.invars if not hasattr(atom, "val")}
    return [var in needed for var in jaxpr.invars]
