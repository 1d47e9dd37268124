# SPDX-License-Identifier: Apache-2.0
"""`eprop`: gradients of weights by eligibility traces, forward in time, in memory that no number of steps enlarges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import NetworkError
from ..typing import ArrayLike, PyTree
from .learner import Learner, Synapses, names_of_floats, scalar_step
from .plan.connections import in_one_part
from .plan.matrices import as_matrix
from .plan.plan import Plan, PopulationPlan
from .reference.integers import exact_integers
from .reference.limits import resolved
from .reference.params import check_names, given_weights, initial_params, neuron_params, step_holds
from .reference.parted import changed_params, whole_inputs, whole_params
from .reference.prepare import check_surrogate, checked_count, checked_inputs, checked_state
from .reference.quanta import in_quanta_of
from .run.neurons import Label
from .state import NetworkState
from .surrogate import fast_sigmoid
from .training.blocks import in_blocks, in_plain_jax
from .training.runner import NativeRunner

__all__ = ["eprop"]

Array = Any
Tree = dict[str, Any]
_USUAL = fast_sigmoid()


def eprop(
    sim: PyTree,
    state: NetworkState,
    params: Mapping[Label, Any],
    steps: int,
    loss: Callable[[jax.Array, jax.Array], jax.Array],
    readout: str,
    inputs: Mapping[Label, ArrayLike] | None = None,
    feedback: Mapping[str, ArrayLike] | None = None,
    surrogate: Callable[[jax.Array], jax.Array] = _USUAL,
) -> tuple[jax.Array, dict[str, jax.Array], NetworkState]:
    """Return the loss of a run and its gradients by e-prop, for which nothing of earlier steps is kept.

    E-prop (Bellec et al., 2020) multiplies, in each step, an eligibility trace of each synapse by a learning signal of
    its target neuron. The trace is how the neuron's states, and through the surrogate its spikes, depend on the weight;
    the signal is how the loss depends on its spikes through the readout. What is left out, compared with
    backpropagation through time, is that a spike changes later spikes of other neurons. Where neurons have no such
    influence, as in one layer without connections within it, the gradients are those of `jax.grad`; those of weights
    into the readout always are.

    The rules of neurons may be any that have a surrogate gradient: the traces are made of their derivatives.
    `jax.jit` and `jax.vmap` work. A run can be cut: the loss and gradients of a piece leave out what earlier pieces
    contribute to traces.

    A simulation with `backend="numba"` or `backend="cuda"` learns in native code, block by block of some steps: the
    gradients are the same but for rounding, on a GPU with stored margins of 11 bits, and have no derivatives. What
    native code lacks is computed in plain JAX; `Simulation.report` says so.

    Args:
        sim: A simulation, of any backend, or a plan, which learns in plain JAX. It does not change.
        state: The state before the first step. What is on its way has no derivative.
        params: Parameters and weights, as for `simulate`.
        steps: How many steps, a Python integer.
        loss: The loss of a step: a function of its number within the run, int32 from 0 on, and of the readout,
            (neurons,), that returns a scalar. The loss of a run is the sum.
        readout: "population.state" of the neurons that are read, such as "out.v". Their rule must be linear in its
            states and what arrives, with the same coefficients for all neurons, and spikes must reach them with a delay
            of one step.
        inputs: What is added to what arrives, as for `simulate`.
        feedback: By population the weights of its learning signal, (neurons of the readout, neurons): fixed random
            ones, for example. Populations left out have those of their projections into the readout.
        surrogate: The derivative of a spike with respect to its margin.

    Returns:
        The loss; by projection the gradients of the weights, in the shapes of `params`, or of `Simulation.params`, of
        all projections into the readout and into populations with a learning signal; and the state after the run, whose
        sums are floats.

    Raises:
        NetworkError: The rule of the readout is not linear, or a delay to it is longer than a step; `loss` returns no
            scalar.
        RuleError: No comparison of floats decides the spikes of a population that learns.
        UnknownNameError: A population, state, parameter, projection or receptor does not exist.
        ShapeError: An array has another shape.

    Examples:
        >>> import brainevent as be, jax.numpy as jnp
        >>> def lif(s, arriving, p):
        ...     v = 0.9 * s.v + arriving.syn
        ...     return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1
        >>> def leaky(s, arriving, p):
        ...     v = 0.8 * s.v + arriving.syn
        ...     return s.replace(v=v), False
        >>> hidden = be.Population("hidden", 5, lif, state={"v": 0.0})
        >>> out = be.Population("out", 1, leaky, state={"v": 0.0})
        >>> to_out = be.Projection(hidden, out, be.connect.all_to_all(weight=be.normal(0, 1)), into="syn")
        >>> sim = be.Network([hidden, out], [to_out], dt=1.0).build(backend="jax", seed=1)
        >>> drive = {"hidden.syn": jnp.full((20, 5), 0.3)}
        >>> value, gradients, _ = be.eprop(
        ...     sim, sim.state, sim.params, 20, lambda step, y: ((y - 1) ** 2).sum(), "out.v", drive
        ... )
        >>> {name: gradient.shape for name, gradient in gradients.items()}
        {'hidden->out.syn': (5,)}
    """
    plan = sim if isinstance(sim, Plan) else in_one_part(_plan(sim))
    if plan.plastic:
        raise NetworkError(
            f"eprop: synapses of {', '.join(plan.plastic_by_name)} change by rules of their own; build a network "
            "without plasticity=, or differentiate simulate"
        )
    if plan.couplings:
        raise NetworkError(
            f"eprop: coupling {plan.couplings[0].name} carries a state in every step, and eligibility traces follow "
            "spikes alone; leave it out, or differentiate simulate"
        )
    steps = checked_count("steps", steps)
    exact = exact_integers(plan, state, params, inputs)
    params, inputs = whole_params(plan, params, changed_params(sim)), whole_inputs(plan, inputs, steps)
    check_names(plan, params)
    check_surrogate("eprop", surrogate)
    with jax.enable_x64(plan.dtype == "float64"):
        state = checked_state(plan, in_quanta_of(plan, state))
        weights = initial_params(plan) | given_weights(plan, params)
        learner = Learner.of(plan, neuron_params(plan, params), weights, readout, feedback, loss, surrogate)
        rows = checked_inputs(plan, inputs or {}, steps)
        runner = _runner(sim)
        native = isinstance(runner, NativeRunner) and not in_plain_jax(learner, runner)
        value, found, after = (
            in_blocks(learner, runner, state, rows, steps) if native else _Steps(learner).run(state, rows, steps)
        )
        for about in plan.projections:
            if about.name in found and jnp.ndim(params.get(about.name, 0)) == 2:
                found[about.name] = as_matrix("eprop", plan, about, found[about.name])
        after, (value, found) = resolved(step_holds(plan, params, exact), after, (value, found))
        return value, found, after


def _plan(sim: Any) -> Plan:
    if not isinstance(plan := getattr(getattr(sim, "engine", None), "plan", None), Plan):
        raise NetworkError(f"eprop: sim is {type(sim).__name__}; pass what network.build() returns")
    return plan


def _runner(sim: Any) -> Any:
    """Return what runs the components of a simulation natively; None if nothing does."""
    return getattr(getattr(sim, "engine", None), "runner", None)


@dataclass(frozen=True, eq=False)
class _Steps:
    """E-prop in plain JAX: one step of all populations at a time, and the traces of all synapses in it."""

    learner: Learner

    @property
    def plan(self) -> Plan:
        """The network."""
        return self.learner.plan

    def run(
        self, state: NetworkState, rows: Mapping[str, Array], steps: int
    ) -> tuple[Array, dict[str, Array], NetworkState]:
        """Return the loss, the gradients in the shapes of the weights, and the state after some steps."""
        turns = jnp.arange(steps, dtype=np.int32)
        carry, losses = jax.lax.scan(self.step, self.start(state), (turns, rows))
        return losses.sum(), self.gradients(carry), self.state(carry, steps)

    def start(self, state: NetworkState) -> Tree:
        """Return what the first step begins with: spikes by age, pending input, and traces and gradients of zero."""
        plan, dtype = self.plan, self.plan.dtype
        ages = {
            p.name: max((int(s.delays.max(initial=1)) for s in self._from(p.name)), default=1) for p in plan.populations
        }
        pending = {
            f"{name}.{receptor}": jnp.asarray(state.arriving[name][receptor]).astype(dtype)
            * plan.population(name).quanta[receptor]
            for name, receptor in plan.receptors()
        }
        traces = {
            s.name: self._zeros(s, len(names_of_floats(plan.population(s.plan.target)))) for s in self.learner.learning
        }
        hidden = self.learner.hidden
        return {
            "step": jnp.asarray(state.step, np.uint32),
            "neurons": {
                p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
                for p in plan.populations
            },
            "spikes": {p.name: jnp.zeros((ages[p.name], p.size), dtype) for p in plan.populations},
            "pending": pending,
            "traces": traces,
            "last": {s.name: self._zeros(s) for s in hidden},
            "filtered": {s.name: self._zeros(s, len(names_of_floats(self.learner.readout))) for s in hidden},
            "gradients": {s.name: self._zeros(s) for s in self.learner.learning},
        }

    def step(self, carry: Tree, given: tuple[Array, Mapping[str, Array]]) -> tuple[Tree, Array]:
        """Run a step, and add to the gradients what it gives."""
        turn, inputs = given
        sent = {
            s.name: carry["spikes"][s.plan.source][(turn - s.delays) % self._ages(carry, s), s.sources]
            for s in self.learner.synapses
        }
        arriving, pending = self._arriving(carry, turn, inputs, sent)
        neurons, spikes, slopes = {}, {}, {}
        for p in self.plan.populations:
            learns = p.name == self.learner.readout.name or p.name in self.learner.signals
            neurons[p.name], spike, slopes[p.name] = self._updated(p, carry, arriving[p.name], with_slopes=learns)
            ring = carry["spikes"][p.name]
            spikes[p.name] = ring.at[turn % len(ring)].set(spike.astype(ring.dtype))
        y = neurons[self.learner.readout.name][names_of_floats(self.learner.readout)[self.learner.read]]
        value, error = self.learner.error_of(turn, y)
        parts = self._learned(carry, sent, slopes, error)
        after = {"step": carry["step"] + np.uint32(1), "neurons": neurons, "spikes": spikes, "pending": pending}
        return {**after, **parts}, value

    def _learned(self, carry: Tree, sent: Tree, slopes: Tree, error: Array) -> Tree:
        """Return traces and gradients after a step, given how states and spikes depend on states and what arrives."""
        traces, last, filtered, gradients = {}, {}, {}, {}
        out_states, out_arriving = (x[0] for x in slopes[self.learner.readout.name][:2])  # the same for all neurons
        for s in self.learner.learning:
            name, target = s.name, self.plan.population(s.plan.target)
            place = list(target.quanta).index(s.plan.receptor)
            by_states, by_arriving, spike_by_states, spike_by_arriving = (x[s.targets] for x in slopes[target.name])
            trace, x = carry["traces"][name], sent[name]
            traces[name] = jnp.einsum("ekl,el->ek", by_states, trace) + by_arriving[:, :, place] * x[:, None]
            if target.name == self.learner.readout.name:
                gradients[name] = carry["gradients"][name] + traces[name][:, self.learner.read] * error[s.targets]
                continue
            # A spike reaches the readout one step later, and is forgotten there as the readout forgets.
            gain = out_arriving[:, self.learner.receptor_of(target.name)]
            filtered[name] = carry["filtered"][name] @ out_states.T + carry["last"][name][:, None] * gain
            last[name] = (spike_by_states * trace).sum(-1) + spike_by_arriving[:, place] * x
            signal = self._signal(target, error)[s.targets]
            gradients[name] = carry["gradients"][name] + filtered[name][:, self.learner.read] * signal
        return {"traces": traces, "last": last, "filtered": filtered, "gradients": gradients}

    def gradients(self, carry: Tree) -> dict[str, Array]:
        """Return the gradients in the shapes of the weights."""
        return {
            name: gradient.sum(keepdims=True) if self.learner.weights[name].shape == (1,) else gradient
            for name, gradient in carry["gradients"].items()
        }

    def state(self, carry: Tree, steps: int) -> NetworkState:
        """Return the state after the run: spikes that are on their way as sums, in quanta."""
        plan, arriving = self.plan, {p.name: {} for p in self.plan.populations}  # type: ignore[var-annotated]
        for name, receptor in plan.receptors():
            arriving[name][receptor] = jnp.roll(carry["pending"][f"{name}.{receptor}"], -steps, axis=0)
        for s in self.learner.synapses:
            ring, weights, place = carry["spikes"][s.plan.source], self._weights_of(s), s.plan.receptor
            size, rows = plan.population(s.plan.target).size, np.arange(plan.rows(s.plan.target, place))

            def came(
                ahead: Array, s: Synapses = s, ring: Array = ring, weights: Array = weights, size: int = size
            ) -> Array:
                since = s.delays - 1 - ahead  # steps between the spike and the last step of the run
                spikes = jnp.where(since >= 0, ring[(steps - 1 - since) % len(ring), s.sources], 0)
                return jax.ops.segment_sum(spikes * weights, s.targets, size)

            arriving[s.plan.target][place] += jax.lax.map(came, rows)
        for name, receptor in plan.receptors():
            arriving[name][receptor] /= plan.population(name).quanta[receptor]
        return NetworkState(carry["step"], carry["neurons"], arriving, plan.quanta)

    def _arriving(self, carry: Tree, turn: Array, inputs: Mapping[str, Array], sent: Tree) -> tuple[Tree, Tree]:
        """Return what arrives, by population and receptor, and the pending input of before without it."""
        arriving: Tree = {p.name: {} for p in self.plan.populations}
        pending = dict(carry["pending"])
        for name, receptor in self.plan.receptors():
            place, size = f"{name}.{receptor}", self.plan.population(name).size
            row = turn % len(pending[place])
            came = pending[place][row] + inputs.get(place, 0)
            pending[place] = pending[place].at[row].set(0)
            for s in self.learner.synapses:
                if (s.plan.target, s.plan.receptor) == (name, receptor):
                    came = came + jax.ops.segment_sum(sent[s.name] * self._weights_of(s), s.targets, size)
            arriving[name][receptor] = jnp.broadcast_to(came, (size,))
        return arriving, pending

    def _updated(
        self, p: PopulationPlan, carry: Tree, arriving: Mapping[str, Array], *, with_slopes: bool
    ) -> tuple[dict[str, Array], Array, tuple[Array, ...]]:
        """Run the rule; return states, spikes, and how new states and the spike depend on states and what arrives."""
        states, params, names = carry["neurons"][p.name], self.learner.params[p.name], names_of_floats(p)
        others: list[Array] = [states[name] for name in p.state if name not in names]
        others += [params[name] for name in p.params]
        if p.rule.random:
            others += [jnp.arange(p.size, dtype=np.uint32), carry["step"], *(jnp.uint32(key) for key in p.key)]
        of_spikes = with_slopes and p.name != self.learner.readout.name
        run = scalar_step(p, self.learner.surrogate if of_spikes else None)
        floats = jnp.stack([states[name] for name in names], -1) if names else jnp.zeros((p.size, 0), p.rule.dtype)
        came = jnp.stack([arriving[r].astype(p.rule.dtype) for r in p.quanta], -1) if p.quanta else floats[:, :0]
        axes = 0, 0, *(0 if jnp.ndim(x) else None for x in others)
        new, spike, _ = jax.vmap(run, axes, axis_size=p.size)(floats, came, *others)
        slopes: tuple[Array, ...] = ()
        if with_slopes:

            def derived(h: Array, a: Array, *rest: Array) -> tuple[Array, Array]:
                values, _, margin = run(h, a, *rest)
                return jnp.stack([values[name] for name in names]) if names else h, margin

            (by_states, by_arriving), (spike_by_states, spike_by_arriving) = jax.vmap(
                jax.jacfwd(derived, (0, 1)), axes, axis_size=p.size
            )(floats, came, *others)
            slopes = by_states, by_arriving, spike_by_states, spike_by_arriving
        return {name: new[name] for name in p.state}, spike, slopes

    def _signal(self, p: PopulationPlan, error: Array) -> Array:
        """Return the learning signal of each neuron."""
        how = self.learner.signals[p.name]
        if not isinstance(how, list):
            return error @ how
        return sum(jax.ops.segment_sum(self._weights_of(s) * error[s.targets], s.sources, p.size) for s in how)

    def _from(self, population: str) -> list[Synapses]:
        return [s for s in self.learner.synapses if s.plan.source == population]

    def _weights_of(self, s: Synapses) -> Array:
        return jnp.broadcast_to(self.learner.weights[s.name], s.targets.shape)

    def _ages(self, carry: Tree, s: Synapses) -> int:
        return len(carry["spikes"][s.plan.source])

    def _zeros(self, s: Synapses, *states: int) -> Array:
        return jnp.zeros((*s.targets.shape, *states), self.plan.dtype)
