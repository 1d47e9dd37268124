# SPDX-License-Identifier: Apache-2.0
"""`Own` and `OwnRun`: what one of several processes has of a network, and runs between two exchanges of spikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState

__all__ = ["FAILED", "FULL", "NOT_FINITE", "STOPPED", "Own", "OwnRun"]

STOPPED, FULL, NOT_FINITE, FAILED = 1, 2, 4, 8  # bits of what a process tells the others with its spikes

Array = Any


class OwnRun(Protocol):
    """A run of the neurons that a process owns."""

    @property
    def turn(self) -> int:
        """How many steps ran."""

    def until(self, turn: int, begin: int) -> int:
        """Run until so many steps have been, or a state is not finite; return a status: bits.

        Spikes of steps before `begin` have been exchanged.
        """

    def recorded(self) -> Recorded:
        """Return what was recorded of own neurons, among all; of others there may be anything."""


class Own(Protocol):
    """The neurons that a process owns, the synapses that end there, and their state.

    Attributes:
        name: The backend that runs them.
        said_of_sweeps: What is said of sweeps.
    """

    name: str
    said_of_sweeps: str

    @property
    def least_delays(self) -> Sequence[int]:
        """The least delay of each projection from neurons of other processes or GPUs; 0 if it has none."""

    @property
    def sharers(self) -> str:
        """What the neurons are shared out to: "processes" or "GPUs"."""

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes the synapses take, and how many units run them."""

    @property
    def most_apart(self) -> int:
        """How many steps there may be between two exchanges."""

    @property
    def said(self) -> str:
        """What lies where in this process, in words; nothing if there is nothing to say."""

    def units(self, numbers: Array) -> str:
        """What runs each process, in words, given the number of units of each."""

    def join(self, crossing: Sequence[str], apart: int) -> None:
        """Be ready to run: spikes of some populations are exchanged every so many steps."""

    @property
    def step(self) -> int:
        """The number of the step that comes next."""

    @property
    def state(self) -> NetworkState:
        """The state of own neurons, among those of all; of others there may be anything."""

    def load(self, state: NetworkState) -> None:
        """Go on from a state of the whole network."""

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter of a whole population."""

    def with_weights(self, plan: Plan, state: NetworkState) -> Own:
        """Return the same with the weights of a plan, and a state in its quanta; if it raises, nothing changed.

        Then either this one is not used any more, or that one is given up.
        """

    def give_up(self, plan: Plan) -> None:
        """Let what this was made from, with the weights of a plan, be as it was."""

    def begin(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> OwnRun:
        """Begin a run of some steps, with inputs of the whole network."""

    def ahead(self, run: OwnRun, done: int, steps: int) -> int:
        """Run and exchange as often as no one needs to look at it; return how many steps of a run are done then.

        So many are done already. At least one exchange is left for `told`, which comes next.
        """

    def told(self, begin: int, end: int, status: int) -> list[int]:
        """Exchange the spikes of the steps from one to before another; return the status of each process.

        If one has failed, no spikes are taken.
        """
