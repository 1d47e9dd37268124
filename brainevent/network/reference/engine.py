# SPDX-License-Identifier: Apache-2.0
"""`ReferenceEngine`: the reference as an engine that holds its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import NotFiniteError
from ..engine import Prepared, Repeated, Stopped, never
from ..interpreted import Interpreted
from ..plan.plan import Plan
from ..run.finite import check_finite, check_synapses_of
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState, copied, initial_state
from .outputs import Outputs
from .prepare import checked_state, program_of
from .program import Carry
from .quanta import Receptor, dtypes_of_sums, in_dtypes

__all__ = ["Piece", "ReferenceEngine", "piece"]

Array = Any
_SPIKES = 2**24  # neurons times steps that one piece records
_LONG, _SHORT = 1024, 16  # steps of a piece


class ReferenceEngine:
    """Plain JAX, on any platform. It differs from the other engines by rounding, and may be slow.

    A run is cut into pieces of two lengths, so another number of steps needs no compilation. A run that raises changes
    nothing.
    """

    paces_itself = False

    def __init__(self, plan: Plan):
        self.plan = plan
        self.params = {name: dict(params) for name, params in plan.params.items()}
        self._weights = _weights(plan)
        self._pieces: dict[Any, Piece] = {}
        self.load(initial_state(plan))

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return int(self._state.step)

    @property
    def state(self) -> NetworkState:
        """The state before the next step, copied."""
        return copied(self.plan, self._state)

    @property
    def units(self) -> str:
        """What runs the network: JAX's platform, which has threads of its own."""
        return jax.default_backend()

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        self._state = copied(self.plan, checked_state(self.plan, state))

    def set(self, name: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        self.params[name][param] = np.array(value, self.params[name][param].dtype)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with other weights: programs stay, since weights and quanta are arguments of them."""
        self._weights = _weights(plan)
        self.plan = plan
        self.load(state)

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps."""
        given = {f"{name}.{receptor}": np.asarray(array, self.plan.dtype) for (name, receptor), array in inputs.items()}
        longest = min(_LONG, max(1, _SPIKES // max(1, sum(p.size for p in self.plan.populations))))
        length = longest if steps > _SHORT else min(_SHORT, longest)
        state, outs, done = self._state, list[dict[str, Array]](), 0
        while done < steps and not (done and stopped()):
            count = min(length, steps - done)
            rows = {name: array[done : done + count] for name, array in given.items()}
            state, out = self._run_piece(length, count, wanted, state, rows)
            outs.append(out)
            done += count
        recorded = _recorded(int(self._state.step), done, wanted, outs, self.plan)
        self._state = state
        return recorded

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    def _run_piece(
        self, length: int, count: int, wanted: Wanted, state: NetworkState, rows: Mapping[str, Array]
    ) -> tuple[NetworkState, dict[str, Array]]:
        """Run `count` steps of a program that has room for `length`."""
        dtypes = dtypes_of_sums(self.plan)
        key = length, wanted.key, tuple(dtypes.items()), self.plan.plastic and self.plan.quanta
        if key not in self._pieces:
            self._pieces[key] = piece(self.plan, wanted, length, dtypes)
        padded = {name: np.pad(array, ((0, length - count), (0, 0))) for name, array in rows.items()}
        own = state, self.params, (self._weights, _quanta(self.plan)), padded
        after, recorded, finite = self._pieces[key](*own, count)
        fine = np.asarray(finite)[:count]
        if not fine.all():
            bad = int(np.argmin(fine))
            before, _, _ = self._pieces[key](*own, bad)
            after, _, _ = self._pieces[key](*own, bad + 1)
            self.load(after)
            check_finite(self.plan, int(state.step) + bad, self._state.neurons)
            self._raise_for_synapses(
                copied(self.plan, before), {name: row[bad : bad + 1] for name, row in rows.items()}
            )
        return copied(self.plan, after), _trimmed(wanted, int(state.step), count, recorded)

    def _raise_for_synapses(self, before: NetworkState, rows: Mapping[str, Array]) -> NoReturn:
        """Raise for plastic synapses that a step makes infinite or NaN: the interpreter finds the rule."""
        interpreted = Interpreted(self.plan)
        interpreted.params = self.params
        interpreted.load(before)
        places = {tuple(label.rsplit(".", 1)): row for label, row in rows.items()}
        interpreted.run(1, Wanted(), {(name, receptor): row for (name, receptor), row in places.items()})
        check_synapses_of(self.plan, int(before.step), self._state.synapses)
        raise NotFiniteError(
            f"a rule of plastic synapses returned NaN or infinity in step {before.step}, which another one replaced, "
            'and only here: numbers near the end of their range are rounded; build with backend="numba"'
        )


def _weights(plan: Plan) -> dict[str, Array]:
    """Return the weights of all projections in quanta, of one dtype, so that others need no compilation.

    Those of couplings are floats.
    """
    of_projections = {s.name: s.weights.astype(np.int32) for s in plan.synapses}
    return of_projections | {one.name: one.weights for one in plan.couplings}


def _quanta(plan: Plan) -> dict[str, dict[str, Array]]:
    """Return the quantum of each receptor, by population."""
    return {p.name: dict(p.quanta) for p in plan.populations}


def _trimmed(wanted: Wanted, first: int, count: int, recorded: Mapping[str, Array]) -> dict[str, Array]:
    """Return what `count` steps recorded, of outputs that have room for more."""
    rows = {label: sample.rows(first, first + count) for label, sample in wanted.samples.items()}
    whole = {f"{name}.counts" for name in wanted.counts}
    return {
        label: np.asarray(array) if label in whole else np.asarray(array)[: rows.get(label, count)]
        for label, array in recorded.items()
    }


def _recorded(first: int, steps: int, wanted: Wanted, outs: list[dict[str, Array]], plan: Plan) -> Recorded:
    """Join what pieces recorded."""
    spikes = {}
    for name in wanted.spikes:
        at, who = np.nonzero(np.concatenate([out[f"{name}.spikes"] for out in outs]))
        spikes[name] = (at + first).astype(np.uint32), who.astype(np.int32)
    return Recorded(
        first,
        steps,
        spikes,
        {name: sum(out[f"{name}.counts"].astype(np.int32) for out in outs) for name in wanted.counts},
        {name: np.concatenate([out[f"{name}.rate"] for out in outs]).astype(np.int32) for name in wanted.rates},
        {label: np.concatenate([out[label] for out in outs]) for label in wanted.samples},
    )


Piece = Callable[[NetworkState, Any, Any, Mapping[str, Array], int], tuple[NetworkState, dict[str, Array], Array]]


def piece(plan: Plan, wanted: Wanted, length: int, dtypes: Mapping[Receptor, str]) -> Piece:
    """Return a function of state, parameters, weights, inputs (length, ...) and a count of steps, compiled when called.

    Weights are those of all projections, in quanta, of any dtype, and of couplings; and the quanta, which other weights
    may change. `dtypes` are those of sums. It returns the state after the steps, what was recorded, and for each step
    whether all states were finite, as far as `check_finite` looks at them.
    """

    def run(
        state: NetworkState, params: Any, weights: Any, inputs: Mapping[str, Array], count: Array
    ) -> tuple[NetworkState, dict[str, Array], Array]:
        outputs, (numbers, quanta) = Outputs(plan, wanted, length, jnp.asarray(state.step, np.uint32)), weights
        of_plan = plan.replaced({}, {(name, key): one for name, own in quanta.items() for key, one in own.items()})
        own = outputs, params, in_dtypes(plan, numbers, dtypes), dtypes
        program = program_of(plan if plan.plastic else of_plan, *own)  # rules of synapses divide by quanta, exactly

        def step(carry: Carry, turn: Array) -> tuple[Carry, Any]:
            carry, row = program.step(carry, (turn, {name: array[turn] for name, array in inputs.items()}))
            return carry, (row, _finite(plan, carry))

        def body(turn: Array, both: Any) -> Any:
            carry, row = step(both[0], turn)
            return carry, jax.tree.map(lambda rows, value: rows.at[turn].set(value), both[1], row)

        start = program.start(state)
        shapes = jax.eval_shape(step, start, jnp.int32(0))[1]
        rows = jax.tree.map(lambda one: jnp.ones((length, *one.shape), one.dtype), shapes)
        carry, (recorded, finite) = jax.lax.fori_loop(jnp.int32(0), count, body, (start, rows))
        return program.state(carry, count, state, dict.fromkeys(dtypes, np.int32)), {**recorded, **carry.filled}, finite

    compiled = jax.jit(run)

    def called(
        state: NetworkState, params: Any, weights: Any, inputs: Mapping[str, Array], count: int
    ) -> tuple[NetworkState, dict[str, Array], Array]:
        without = replace(state, quanta=None)  # they are static: other ones would compile it again
        with jax.enable_x64(plan.dtype == "float64"):
            after, recorded, finite = compiled(without, params, weights, inputs, np.int32(count))
        return replace(after, quanta=state.quanta), recorded, finite

    return called


def _finite(plan: Plan, carry: Carry) -> Array:
    """Say whether no state is wrong: see `check_finite` in `run/finite.py`."""
    found = []
    for p in plan.populations:
        if plan.check_finite or p.rule.value:
            arrays = [x for x in carry.neurons[p.name].values() if jnp.issubdtype(x.dtype, np.floating)]
            found += [(jnp.isfinite(x) if plan.check_finite else ~jnp.isnan(x)).all() for x in arrays]
    if plan.check_finite:
        found.append(carry.plastic.finite)
    return jnp.array(found).all() if found else np.True_
