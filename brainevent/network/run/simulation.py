# SPDX-License-Identifier: Apache-2.0
"""`Simulation`: run a built network, record it, change it, save it and continue."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...bench.progress import counted
from ...errors import CheckpointError, NetworkError
from ...typing import Quantity
from ..description.parts import Part
from ..description.populations import Population
from ..engine import Engine, Joined
from ..plan.connections import Connections, connections, plastic_connections, weights_of
from ..plan.mapped import attributes_of, described_population
from ..plan.plan import Plan
from ..plan.replaced import Weights
from ..state import NetworkState, begun_state
from .checked import (
    checked_inputs,
    checked_state,
    first_weights,
    given_weights,
    going_on,
    split_plastic,
    split_values,
    values_of_part,
)
from .checkpoint import read_checkpoint, write_checkpoint
from .chunks import chunks, needs_no_chunks
from .collected import Collected, check_room_for
from .duration import MOST_STEPS, counted_run, counted_steps
from .elements import Elements, Now, Swept
from .neurons import Label, found_neurons
from .of_parts import PartValues, names_neurons, replaced_at, shown_owner
from .pace import Pace, Stop, stopped_by_ctrl_c
from .requests import Every, parsed, wanted
from .result import Result, result_of
from .shown import Shown
from .stepper import Stepper
from .sweep import swept
from .swept import SweepResult

__all__ = ["Simulation"]

Array = Any


class Simulation(Shown):
    """A network that is built, as `Network.build` returns it.

    Attributes:
        plan: The network as engines run it.
        engine: The engine that runs it.
        network: The description that it was built from, or None.

    Examples:
        >>> import brainevent as be
        >>> cells = be.Population("cells", 5, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> sim = be.Network([cells], dt=0.1).build(seed=1)
        >>> sim.run(3, record=["cells.rate"], inputs={"cells.syn": [0, 2, 0]})["cells.rate"]
        array([0, 5, 0], dtype=int32)
        >>> isinstance(sim.report(), str), isinstance(sim.explain(), str)
        (True, True)
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "day1.npz"
        >>> sim.save(file)
        >>> sim.reset()
        >>> sim.load(file)
        >>> sim.steps
        3
    """

    def __init__(self, plan: Plan, engine: Engine, *, network: Any = None):
        self.plan, self.engine, self.network = plan, engine, network
        self._params = {name: dict(params) for name, params in plan.params.items()}
        self._weights = first_weights(plan, network)
        self._pace = Pace()

    # ---- running

    def run(
        self,
        steps: int | Quantity | None = None,
        record: Label | Every | Iterable[Label | Every] = (),
        inputs: Mapping[Label, Any] | None = None,
        progress: bool = False,
        callback: Callable[[Simulation, Result], object] | None = None,
        chunk: int | Quantity | None = None,
        *,
        ms: float | Quantity | None = None,
    ) -> Result:
        """Run the network, and return what was recorded.

        A long run is cut into chunks of about half a second if the engine needs it, or for `progress` and `callback`.
        No result depends on the chunks. Ctrl-C ends the run after a whole step: what was recorded until then is
        returned, with `interrupted=True`, and another run continues from there; likewise if memory becomes full, and
        then `result.reason` says so. After an exception, from the callback or from a second Ctrl-C if the engine hangs,
        the state is that after a whole step.

        Args:
            steps: How many steps to run, at least 1; or a time with a unit, such as `500 * brainunit.ms`; or None, with
                `ms`.
            record: What to record: `"exc.spikes"`, `"exc.counts"` (spikes of each neuron), `"exc.rate"` (spikes of the
                population in each step), a state such as `"exc.v"`, or `every(5, "exc.v", neurons=slice(0, 10))`. A
                state that is called `spikes`, `counts` or `rate` is recorded by `every(1, "exc.rate")`. Of a part of a
                population: `"exc[:100].spikes"`, or a pair such as `(exc[mask], "spikes")`.
            inputs: What to add to that which arrives, by `"population.receptor"`: (steps, neurons), or (steps,) for the
                same to all neurons. A part is named as in `record`; inputs of the same neurons add up.
            progress: Whether to show the progress of the run on stderr.
            callback: Called after each chunk, with the simulation and the result of this chunk. It may change
                parameters and states, and save; `KeyboardInterrupt` from it ends the run as Ctrl-C does. With any
                other exception, what was recorded is lost.
            chunk: Steps of a chunk, or its time; None for what half a second takes.
            ms: How many milliseconds to run, a multiple of the time step, instead of `steps`.

        Returns:
            The result: a mapping from each label of `record` to what was recorded.

        Raises:
            NetworkError: A number of steps, a request or an input does not fit. In this case nothing runs.
            NotFiniteError: A state became NaN or infinite, if the network was built with `check_finite=True`; or the
                value of a spike was outside the `value_range` of its population.
            MemoryError: What would be recorded, without spikes, does not fit in memory. In this case nothing runs.
            RoundedWeightsWarning: A warning, with `backend="jax"`, which does not warn when it builds: weights were
                rounded by more than 2**-9 of their value.
        """
        total = counted_run(steps, ms, self.plan.dt)
        fixed = None if chunk is None else counted_steps("run: chunk", chunk, self.plan.dt)
        if callback is not None and not callable(callback):
            raise NetworkError(f"run: callback is {callback!r}; pass a function of the simulation and a result")
        if self.steps + total > MOST_STEPS:
            raise NetworkError(
                f"run: steps is {total}, after {self.steps}; a simulation has at most {MOST_STEPS} steps"
            )
        if isinstance(self.engine, Joined):
            self.engine.agree("run", {"steps": total, "chunk": fixed})
        requests, given = parsed(self.plan, record), checked_inputs(self.plan, inputs, total)
        check_room_for(self.plan, requests, self.steps, total)
        self.engine.plan.warn_of_rounding()
        collected = Collected(self.plan, requests, self.steps, total)
        if fixed is None and needs_no_chunks(self.engine, requests, given) and not progress and callback is None:
            fixed = total
        with stopped_by_ctrl_c() as stop, counted(total, "network", "steps", quiet=not progress) as update:
            with collected.until_full(lambda: self.steps):
                for part in chunks(self.engine, self._pace, total, fixed, wanted(requests), given, stop):
                    collected.add(part)
                    update(part.steps)
                    if callback is not None:
                        self._call_back(callback, result_of(self.plan, requests, [part], part.first), stop)
                    stop.pressed |= bool(collected.full)
            return collected.result(interrupted=stop.pressed)

    def sweep(
        self,
        steps: int | Quantity | None = None,
        record: Label | Every | Iterable[Label | Every] = (),
        values: Mapping[Label, Mapping[str, Any]] | None = None,
        inputs: Mapping[Label, Any] | None = None,
        seeds: Iterable[int] | None = None,
        progress: bool = False,
        threads: int | None = None,
        *,
        redraw: bool = True,
        ms: float | Quantity | None = None,
    ) -> SweepResult:
        """Run the network many times side by side, each time with other values, and return what each run recorded.

        Each of these elements is a run of its own, with the same bits as `run` after `set` with its values, or as
        `net.build(seed=...)` with them. The simulation itself does not change. Elements begin with the state,
        parameters and weights of now; with `seeds`, they begin at step 0 as a build with their seed does, and what was
        set since the build of this simulation is set in them, too, but for states.

        On a CPU each thread runs one element at a time. Synapses that do not differ are shared, in memory.

        Args:
            steps: How many steps each element runs; or a time with a unit; or None, with `ms`.
            record: What to record, as for `run`.
            values: Parameters and states by population or part, and weights by projection, as `set` takes them, such as
                `{"exc": {"threshold": [-52.0, -50.0]}, "exc->inh": {"weights": [0.1, 0.2]}}`. The first axis of each
                is over elements, or has length 1 for all of them; then come those that `set` takes. Values of a part,
                such as `{exc[:100]: {"current": [[0.0], [9.0]]}}`, replace those of its population, in any order; two
                parts that give the same neuron the same value are an error.
            inputs: What to add to that which arrives, by `"population.receptor"`: (elements, steps, neurons), or
                (elements, steps) for the same to all neurons; the first axis may have length 1.
            seeds: A seed for each element: from it follow random numbers, initial states and parameters that are
                drawn, and with `redraw` synapses that are drawn, their weights and their delays.
            progress: Whether to show the progress on stderr.
            threads: With backend "numba", how many threads run elements; None takes one for each core that the process
                may use, or what the environment variable BRAINEVENT_THREADS says.
            redraw: With `seeds`, whether synapses are drawn anew, as `build(seed=...)` does. False keeps those of this
                simulation, shared by all elements: trials of one network.
            ms: How many milliseconds to run, a multiple of the time step, instead of `steps`.

        Returns:
            The results: `swept[3]` is that of element 3, `swept["exc.counts"]` an array (elements, neurons). After
            Ctrl-C, elements have what they recorded until then.

        Raises:
            NetworkError: A name does not exist, a value does not fit, or arrays differ in the number of elements.
            NotFiniteError: A state became NaN or infinite, if the network was built with `check_finite=True`; or the
                value of a spike was outside the `value_range` of its population.
            MemoryError: What would be recorded, without spikes, does not fit in memory. In this case nothing runs.
            RoundedWeightsWarning: A warning: weights were rounded by more than 2**-9 of their value.

        Examples:
            >>> import brainevent as be
            >>> sim = be.Network([be.models.lif_delta("cells", 5)], dt=0.1).build(seed=1)
            >>> swept = sim.sweep(200, "cells.rate", {"cells": {"current": [10.0, 30.0, 50.0]}})
            >>> swept["cells.rate"].shape
            (3, 200)
        """
        total = counted_run(steps, ms, self.plan.dt, "sweep")
        requests = parsed(self.plan, record)
        now = Now(self._weights, self._params, self.plan.params, self.state, self.network)
        elements = Elements(now, Swept.of(values, inputs, seeds, redraw), total)
        check_room_for(self.plan, requests, elements.first, total, "sweep", len(elements))
        if elements.first + total > MOST_STEPS:
            raise NetworkError(f"sweep: steps is {total}, after {elements.first}; a run has at most {MOST_STEPS} steps")
        with (
            stopped_by_ctrl_c() as stop,
            counted(total * len(elements), "networks", "steps", quiet=not progress) as update,
        ):
            return SweepResult(swept(self.engine, elements, requests, total, threads, stop, update))

    def stepper(
        self,
        record: Label | Every | Iterable[Label | Every] = (),
        inputs: Label | Iterable[Label] = (),
        steps: int | Quantity | None = None,
    ) -> Stepper:
        """Prepare a step, for a loop that looks at the network and acts on it in each step.

        Args:
            record: What a step returns, as for `run`.
            inputs: Names of the inputs that each step is given: one or several of `"population.receptor"`.
            steps: How many steps a call runs, or their time; None for one, whose results have no axis of steps.

        Returns:
            A function of the inputs: it runs, and returns what was recorded.

        Raises:
            NetworkError: A request, an input or the number of steps does not fit.

        Examples:
            >>> import brainevent as be
            >>> sim = be.Network([be.models.lif_delta("cells", 5)], dt=0.1).build(seed=1)
            >>> step = sim.stepper(record="cells.v", inputs="cells.syn")
            >>> v = 0.0
            >>> while v < 12:
            ...     v = step({"cells.syn": 0.1})["cells.v"].mean()
            >>> sim.steps > 100
            True
        """
        self.engine.plan.warn_of_rounding()
        count = None if steps is None else counted_steps("stepper: steps", steps, self.plan.dt)
        return Stepper(self, record, inputs, count)

    def _call_back(self, callback: Callable[[Simulation, Result], object], result: Result, stop: Stop) -> None:
        step = self.steps
        try:
            callback(self, result)
        except KeyboardInterrupt:
            stop.pressed = True
        if self.steps != step:
            raise NetworkError(
                f"run: the callback moved the simulation from step {step} to {self.steps}; "
                "run, load and reset it after the run"
            )

    # ---- looking

    @property
    def state(self) -> NetworkState:
        """The state before the next step, as arrays of NumPy that do not change; one that fits can be assigned.

        Pending input keeps its value, also if weights were set since.
        """
        return self.engine.state

    @state.setter
    def state(self, state: NetworkState) -> None:
        self._go_on("state", self._weights, checked_state(self.plan, state, "state"))

    @property
    def params(self) -> dict[str, Any]:
        """Copies of all parameters by population, and of the weights by projection or coupling, for `simulate`.

        Weights are one for each synapse in the order of `connections`, or one for all: (1,). Those of projections are
        multiples of the receptor's quantum, in float32, or in float64 if float32 would round them. `set` accepts them:
        they change nothing. Of a plastic projection, there are the weights of now, as "weights", and the parameters of
        its rules.
        """
        params: dict[str, Any] = {
            name: {key: np.array(value) for key, value in values.items()} for name, values in self._params.items()
        }
        params |= {synapses.name: weights_of(self._now, synapses) for synapses in self._now.synapses}
        params |= {coupling.name: coupling.weights.copy() for coupling in self._now.couplings}
        synapses = self.engine.state.synapses if self.plan.plastic else {}
        return params | {name: {"weights": own["w"], **params[name]} for name, own in synapses.items()}

    def connections(self, name: str) -> Connections:
        """Return the synapses of a projection or coupling.

        Args:
            name: The name of the projection or coupling.

        Returns:
            Arrays of sources, targets and weights, and of delays in milliseconds. Weights of plastic synapses are those
            of now.

        Raises:
            NetworkError: If there is no such projection or coupling.
        """
        if name in self.plan.plastic_by_name:
            return plastic_connections(self.plan, name, self.engine.state.synapses[name]["w"])
        return connections(self._now, name)

    def at(self, population: str | Population | Part) -> dict[str, Array]:
        """Return the attributes of neurons: what `Population(..., at=...)` describes.

        Args:
            population: Name of the population, or the population itself; or a part of it, such as `exc[:100]`.

        Returns:
            Arrays (neurons,) by name: float32, in the units that the population declares.

        Raises:
            NetworkError: If there is no such population.
        """
        neurons = found_neurons(self.plan, "at", population)
        found = attributes_of(described_population(self.network, neurons.population.name), self.plan.seed)
        return found if neurons.numbers is None else {key: one[neurons.numbers] for key, one in found.items()}

    def __getstate__(self) -> Any:
        raise TypeError(
            "a Simulation cannot be copied or pickled; build another one from the network, and let it go on from "
            "sim.state or from a file of sim.save(...)"
        )

    @property
    def _now(self) -> Plan:
        """The plan with the weights of now."""
        return self._weights.plan

    # ---- changing

    def set(self, name: str | Population | Part, /, **values: Any) -> None:
        """Replace parameters and states of a population, or weights of its synapses: all, or none if one does not fit.

        Args:
            name: Name of the population, projection or coupling, or the population itself; or a part of a population,
                such as `exc[:100]` or its name `"exc[:100]"`: the other neurons keep their values.
            **values: Of a population, a number, or an array with one element for each neuron, by name. A parameter that
                was built as one number for all neurons stays one. Of a projection or coupling, `weights`: a number, an
                array with one element for each synapse in the order of `connections`, or a matrix (sources, targets),
                which is zero where there is no synapse; spikes that have not arrived yet keep their weights. The
                network then does what one does that is built with these weights, to the last bit: quantum and layout
                are chosen anew. Of a plastic projection, parameters of its rules, and `weights` and states of its
                synapses: a number, or an array in that order.

        Raises:
            NetworkError: A name does not exist, a value does not fit, or sums of the new weights and of pending input
                do not fit into 32 bits.
            RoundedWeightsWarning: A warning: weights were rounded by more than 2**-9 of their value.

        Examples:
            >>> import brainevent as be
            >>> cells = be.models.lif_delta("cells", 5)
            >>> synapses = be.Projection(cells, cells, be.connect.one_to_one(weight=1.0), into="syn")
            >>> sim = be.Network([cells], [synapses], dt=0.1).build(seed=1)
            >>> sim.set("cells", current=30.0)
            >>> sim.connections(synapses.usual_name).sources
            array([0, 1, 2, 3, 4], dtype=int32)
        """
        if names_neurons(self.plan, name):
            neurons = found_neurons(self.plan, "set", name)
            if neurons.numbers is not None:
                self._set_part(PartValues(neurons, shown_owner(name), values))
                return
            name = neurons.population.name
        assert isinstance(name, str)
        if name in self.plan.plastic_by_name:
            self._set_plastic(name, values)
            return
        if name not in [population.name for population in self.plan.populations]:
            if replaced := given_weights(self._weights, name, values):
                self._go_on("set", self._weights, self.engine.state, replaced)
            return
        self._set_neurons(name, *split_values(self.plan.population(name), values))

    def _set_part(self, part: PartValues) -> None:
        name, given = part.population, values_of_part(part)
        params, states = self._params[name], self.engine.state.neurons[name]
        of_all = {key: replaced_at({**states, **params}[key], part.numbers, x) for key, x in given.items()}
        self._set_neurons(name, *({key: of_all[key] for key in of_all if key in own} for own in (params, states)))

    def _set_neurons(self, name: str, params: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        """Replace parameters and states of a population, which are checked."""
        for param, value in params.items():
            self._set_param(name, param, value)
        if states:
            state = self.engine.state
            neurons = {**state.neurons, name: {**state.neurons[name], **states}}
            self.engine.load(dataclasses.replace(state, neurons=neurons))

    def _set_plastic(self, name: str, values: Mapping[str, Any]) -> None:
        params, states = split_plastic(self.plan, name, values)
        for param, value in params.items():
            self._set_param(name, param, value)
        if states:
            state = self.engine.state
            synapses = {**state.synapses, name: {**state.synapses[name], **states}}
            self.engine.load(dataclasses.replace(state, synapses=synapses))

    def _go_on(
        self, what: str, weights: Weights, state: NetworkState, replaced: Mapping[str, Array] = MappingProxyType({})
    ) -> None:
        """Go on with weights, of which some are replaced, from a state: its pending input keeps its value."""
        weights, state = going_on(what, weights, state, self._now.quanta, replaced, setting=what == "set")
        if weights.plan is self.engine.plan:
            self.engine.load(state)
        else:
            self.engine.set_weights(weights.plan, state)
        self._weights = weights

    def reset(self) -> None:
        """Go back to step 0, and to the states, parameters and weights of the build."""
        self._go_on("reset", self._weights.as_built(), begun_state(self.plan))
        for owner, params in self.plan.params.items():
            for name, value in params.items():
                if self._params[owner][name] is not value:
                    self._set_param(owner, name, value)

    def _set_param(self, owner: str, name: str, value: Array) -> None:
        """Replace a parameter of a population, or of a plastic projection."""
        self.engine.set(owner, name, value)
        self._params[owner][name] = value

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write state, parameters and replaced weights to a file, atomically; every engine can continue from it.

        Args:
            path: Name of the file, such as `"day1.npz"`.
        """
        write_checkpoint(path, self.plan, self.engine.state, self._params, self._weights.replaced)

    def load(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Continue from a file that `save` wrote.

        Args:
            path: Name of the file.
            force: Whether to take the state of a file with another rule, other parameters, synapses or seed: then
                parameters and weights stay as they are here, and pending input keeps its value. The layout must be
                the same in any case.

        Raises:
            CheckpointError: The file is incomplete, not a checkpoint, of another network, or has sums that may leave 32
                bits. Nothing changes then.
        """
        state, params, replaced = read_checkpoint(path, self.plan, force=force)
        where, weights = f"checkpoint {os.fspath(path)}", self._weights
        try:
            self._go_on(where, weights if replaced is None else weights.as_built(), state, replaced or {})
        except NetworkError as error:
            raise CheckpointError(f"{where}: {str(error).removeprefix(f'{where}: ')}") from None
        for owner, values in params.items():
            for name, value in values.items():
                self._set_param(owner, name, value)
