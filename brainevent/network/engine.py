# SPDX-License-Identifier: Apache-2.0
"""`Engine`: what runs a plan, step by step, and holds its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import NetworkError
from .plan.plan import Plan
from .run.recorded import Recorded, RecordedStep, Wanted
from .state import NetworkState

__all__ = [
    "Engine",
    "Joined",
    "Keyed",
    "Prepared",
    "Repeated",
    "Stopped",
    "all_finite",
    "check_whole",
    "input_rows",
    "never",
]

Array = Any
Stopped = Callable[[], bool]


def never() -> bool:
    """Return False: a run is not to be stopped."""
    return False


def check_whole(torn: bool) -> None:
    """Raise if the last run was interrupted within a step."""
    if torn:
        raise NetworkError(
            "network: a run was interrupted within a step; call sim.reset(), or load a checkpoint with sim.load(...)"
        )


def input_rows(plan: Plan, place: tuple[str, str], given: Array, steps: int) -> Array:
    """Return the inputs of a population and receptor as native code reads them, or raise if their shape is wrong."""
    array, size = np.ascontiguousarray(given, plan.dtype), plan.population(place[0]).size
    if array.shape not in ((steps, size), (steps, 1)):
        raise NetworkError(
            f"inputs {'.'.join(place)}: have shape {array.shape}; pass ({steps}, {size}), or ({steps}, 1) for all"
        )
    return array


def all_finite(inputs: Mapping[tuple[str, str], Array]) -> bool:
    """Say whether no input is NaN or infinite."""
    return all(np.isfinite(array).all() for array in inputs.values())


class Prepared(Protocol):
    """A run of an engine with the same steps, records and arrays of inputs, which is repeated.

    Of the inputs, (steps, neurons), the elements of the moment of a call are used. If one of those is not finite,
    nothing runs, and both methods return None. No array that they return is written again.
    """

    def run(self) -> Recorded | None:
        """Run the steps."""

    def step(self) -> RecordedStep | None:
        """Run the only step, of which all records are."""


class Repeated:
    """A `Prepared` of engines that gain nothing by preparation."""

    def __init__(self, engine: Engine, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._engine, self._steps, self._wanted, self._inputs = engine, steps, wanted, inputs

    def run(self) -> Recorded | None:
        """Run the steps."""
        given = self._inputs
        return self._engine.run(self._steps, self._wanted, given) if all_finite(given) else None

    def step(self) -> RecordedStep | None:
        """Run the only step."""
        recorded = self.run()
        return None if recorded is None else recorded.of_one_step()


class Engine(Protocol):
    """A network that runs.

    Step t reads what arrives at t, runs the rules, and sends the spikes of t: each adds its weight to what arrives at
    t + delay. What happens to plastic synapses in a step, and in which order, is written in `interpreted_synapses.py`:
    their weights and states are those of the state, in the order of `Simulation.connections`, for any number of parts.
    All engines but the reference return the same bits. After an exception, also one that a signal raises
    anywhere, an engine has the state after a whole step, or `run` and `state` raise until a state is loaded.

    Attributes:
        plan: The network, with the weights of now.
        paces_itself: Whether `run` calls `stopped` about twice a second, for any number of steps. Then a run is not cut
            into chunks, except for callbacks and progress, or if it has inputs or samples, which are held on the
            device.
    """

    plan: Plan
    paces_itself: bool

    @property
    def step(self) -> int:
        """The number of the step that comes next."""

    @property
    def state(self) -> NetworkState:
        """The state before the next step, as arrays of NumPy that do not change when the engine runs."""

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter: a scalar () or an array (neurons,), whichever it had before.

        Parameters of a plastic projection, scalars (), are replaced by its name.
        """

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights and quanta of a plan that differs in nothing else, and from a state in its quanta."""

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps; `inputs` are (steps, neurons) or (steps, 1) by population and receptor, of the plan's dtype.

        They are added to what arrives. The engine calls `stopped` from time to time: if it returns True, the run ends
        after a whole step, with all that was recorded. If the plan has `check_finite`, the first state that is not
        finite raises `NotFiniteError`, and is then the state of the engine.
        """

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated; inputs are (steps, neurons), of the plan's dtype."""


@runtime_checkable
class Joined(Protocol):
    """An engine that several processes run together, which do the same in the same order.

    Its `run` may run fewer steps than it is asked for, as many in each process; if `full` then says why, no process
    goes on. Each of its methods, and `state`, is called in all processes.
    """

    def agree(self, what: str, values: Mapping[str, Any]) -> None:
        """Raise unless all processes are about to do the same with the same values."""


@runtime_checkable
class Keyed(Protocol):
    """An engine that can draw other random numbers without being made anew."""

    def set_keys(self, plan: Plan) -> None:
        """Draw random numbers with the keys of a plan that differs in them, in states and parameters alone."""
