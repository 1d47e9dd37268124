# SPDX-License-Identifier: Apache-2.0
"""`Stepper`: a step of a simulation that is prepared once, for a loop in Python that looks at the network and acts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import NetworkError, did_you_mean
from ...event.room import check_room
from ..description.units import unit_of
from ..engine import Engine, Prepared
from ..plan.plan import Plan
from .checked import as_dtype, found_receptor, refuse_infinite
from .collected import check_room_for
from .duration import MOST_STEPS
from .neurons import Label, Neurons, is_pair, shown_label
from .recorded import Recorded, RecordedStep
from .requests import Every, Request, parsed, wanted
from .result import result_of
from .shown import Shown

__all__ = ["Stepper"]

Array = Any
_FAST = "bf"  # kinds of arrays that become floats by a copy
_WHOLE = 2**24  # integers up to here are floats of any dtype
_PLACES = {"spikes": 0, "counts": 1, "rate": 2, "sample": 3}  # in a `RecordedStep`


class _Input(NamedTuple):
    """An input, its array (steps, neurons), and the part of it that values are written to; `numbers` are of a part."""

    label: Label
    place: tuple[str, str]
    array: Array
    target: Array
    unit: Any
    numbers: Array | None

    @property
    def shown(self) -> str:
        """The label as a string."""
        return shown_label(self.label)


class Stepper:
    """A step of a simulation that can be repeated quickly, as `Simulation.stepper` returns it.

    It is called with the inputs of a step, runs the step, and returns what was recorded. Between calls, the simulation
    may be changed in any way, by `run`, `set`, `reset`, `load`, `state` or other steppers: a step is the next step of
    the simulation as it is then, with the same bits as `run`.

    Args:
        sim: The simulation.
        record: What a call returns, as for `Simulation.run`.
        inputs: Names of the inputs that each call is given: one or several of `"population.receptor"`.
        steps: How many steps a call runs; None for one, whose results have no axis of steps.

    Attributes:
        steps: As given.

    Examples:
        >>> import brainevent as be
        >>> cells = be.models.lif_delta("cells", 3)
        >>> sim = be.Network([cells], dt=0.1).build(seed=1)
        >>> step = sim.stepper(record=["cells.spikes", "cells.counts"], inputs="cells.syn")
        >>> step({"cells.syn": [0.0, 50.0, 0.0]})
        {'cells.spikes': array([1], dtype=int32), 'cells.counts': array([0, 1, 0], dtype=int32)}
        >>> sim.steps
        1
    """

    def __init__(
        self,
        sim: Shown,
        record: Label | Every | Iterable[Label | Every],
        inputs: Label | Iterable[Label],
        steps: int | None,
    ):
        self.steps = steps
        self._sim, self._plan, self._count = sim, sim.plan, steps or 1
        self._requests = parsed(sim.plan, record)
        if steps is None:
            _check_each_step(self._requests)
        check_room_for(sim.plan, self._requests, 0, self._count, "stepper")
        self._inputs = [_input(sim.plan, label, steps) for label in _labels(inputs)]
        self._arrays, self._sums = _arrays(sim.plan, self._inputs, self._count)
        self._largest = float(np.finfo(sim.plan.dtype).max)
        some = [r for r in self._requests if r.numbers is not None]
        self._of_parts = {r.label: (r.kind, r.population, r.neurons(sim.plan)) for r in some}
        whole = [r for r in self._requests if r.numbers is None]
        self._values = [(r.label, _PLACES[r.kind], r.label if r.sample else r.population) for r in whole]
        self._lock = threading.Lock()  # of the arrays of inputs
        self._engine: Engine | None = None
        self._prepared: Prepared

    def __call__(self, inputs: Mapping[Label, Any] | None = None) -> Mapping[str, Any]:
        """Run the next step, or the next `steps` steps, and return what was recorded.

        Ctrl-C raises `KeyboardInterrupt` after a whole step; `Simulation.steps` then says which step comes next.

        Args:
            inputs: What to add to that which arrives: a value for each input of the stepper, by its name. A number is
                for all neurons, an array (neurons,) has one for each. Of a stepper with `steps`, the value is a number,
                or an array (steps,) of one for all neurons in each step, (steps, neurons), or (1, neurons) of one for
                each neuron in all steps.

        Returns:
            By the labels of `record`, in arrays of their own, which no later call changes. One step returns a
            dictionary: spikes are the numbers of the neurons that spiked, int32, rising; counts are int32 (neurons,), 1
            for each neuron that spiked; a rate is an integer; states are (neurons,), after the step. Several steps
            return a `Result`, as `Simulation.run` does.

        Raises:
            NetworkError: An input is missing, unknown, not finite, or of another shape. In this case nothing runs.
            NotFiniteError: A state became NaN or infinite, if the network was built with `check_finite=True`; or the
                value of a spike was outside the `value_range` of its population.

        Examples:
            >>> import brainevent as be
            >>> cells = be.models.lif_delta("cells", 3)
            >>> step = be.Network([cells], dt=0.1).build(seed=1).stepper("cells.rate", "cells.syn", steps=2)
            >>> step({"cells.syn": [50.0, 0.0]})["cells.rate"]
            array([3, 0], dtype=int32)
        """
        with self._lock:
            self._write(inputs)
            engine = self._sim.engine
            if engine is not self._engine:
                self._prepared = engine.prepared(self._count, wanted(self._requests), self._arrays)
                self._engine = engine
            if engine.step + self._count > MOST_STEPS:
                raise NetworkError(
                    f"step: {self._count} steps after {engine.step} are too many; a simulation has at most "
                    f"{MOST_STEPS} steps"
                )
            if self.steps is None:
                one = self._prepared.step()
                return self._refused(inputs) if one is None else self._by_label(one)
            recorded = self._prepared.run()
            return self._refused(inputs) if recorded is None else self._result(recorded)

    def __repr__(self) -> str:
        inputs, record = (
            ", ".join(labels) or "nothing" for labels in (self._labels(), (r.label for r in self._requests))
        )
        return f"Stepper({self._count} step{'s'[: self._count - 1]}, inputs: {inputs}, record: {record})"

    def __getstate__(self) -> Any:
        raise TypeError("a Stepper cannot be copied or pickled; make another one by sim.stepper(...)")

    def _labels(self) -> list[str]:
        return [one.shown for one in self._inputs]

    def _by_label(self, recorded: RecordedStep) -> dict[str, Any]:
        found = {label: recorded[place][key] for label, place, key in self._values}
        if not self._of_parts:
            return found
        found |= {label: _of_part(recorded, *one) for label, one in self._of_parts.items()}
        return {request.label: found[request.label] for request in self._requests}

    def _result(self, recorded: Recorded) -> Mapping[str, Any]:
        return result_of(self._plan, self._requests, [recorded], recorded.first)

    # ---- inputs

    def _write(self, inputs: Mapping[Label, Any] | None) -> None:
        """Write the values of all inputs to their arrays; engines find out whether they are finite."""
        self._write_each(inputs)
        for array, added in self._sums:
            array.fill(0)
            for one in added:
                with np.errstate(over="ignore"):
                    array[:, slice(None) if one.numbers is None else one.numbers] += one.array

    def _write_each(self, inputs: Mapping[Label, Any] | None) -> None:
        given = {} if inputs is None else inputs
        try:
            for one in self._inputs:
                value = given[one.label]
                if type(value) in (float, int) and abs(value) <= (self._largest if type(value) is float else _WHOLE):
                    one.array.fill(value)
                elif type(value) is np.ndarray and value.dtype == one.array.dtype and value.shape == one.target.shape:
                    one.target[...] = value
                else:
                    self._write_other(one, value)
            if len(given) == len(self._inputs):
                return
        except (KeyError, TypeError, IndexError):
            self._check_names(inputs)
            raise
        self._check_names(inputs)

    def _write_other(self, one: _Input, value: Any) -> None:
        """Write a value of another kind, shape or dtype."""
        array = value
        if not (type(value) is np.ndarray and value.dtype.kind in _FAST):
            array = as_dtype(f"step: {one.shown!r}", value, one.array.dtype, one.unit)
        steps, size = one.array.shape
        if self.steps is not None and array.shape == (steps,):
            array = array[:, None]
        allowed = ((size,), (1,)) if self.steps is None else ((steps, size), (steps, 1), (1, size))
        if array.shape not in ((), *allowed):
            raise NetworkError(f"step: {one.shown!r} has shape {array.shape}; pass {self._shapes(steps, size)}")
        with np.errstate(over="ignore"):
            one.target[...] = array

    def _shapes(self, steps: int, size: int) -> str:
        if self.steps is None:
            return f"a number for all neurons, or an array ({size},)"
        return (
            f"a number, or an array ({steps},) of one for all neurons in each step, ({steps}, {size}), or (1, {size}) "
            "of one for each neuron in all steps"
        )

    def _check_names(self, inputs: Any) -> None:
        """Raise if values are not given by the names of the inputs."""
        labels = self._labels()
        if inputs is not None and not isinstance(inputs, Mapping):
            raise NetworkError(f"step: found {type(inputs).__name__}; pass {{'population.receptor': value}}")
        given = {} if inputs is None else {shown_label(label): value for label, value in inputs.items()}
        for label in given:
            if label not in labels:
                raise NetworkError(
                    f"step: {label!r} is not an input of this stepper{did_you_mean(str(label), labels)}; inputs: "
                    f"{', '.join(labels) or 'none'}; name it in sim.stepper(inputs=...)"
                )
        if missing := [label for label in labels if label not in given]:
            raise NetworkError(f"step: {missing[0]!r} is missing; pass a value for each input, 0.0 for none")

    def _refused(self, inputs: Mapping[Label, Any] | None) -> Any:
        """Raise for an input that is not finite."""
        for one in self._inputs:
            where, value = f"step: {one.shown!r}", (inputs or {})[one.label]
            refuse_infinite(where, as_dtype(where, value, one.array.dtype, one.unit))
        for array, added in self._sums:
            refuse_infinite(f"step: {', '.join(repr(one.shown) for one in added)}, added up", array)
        raise NetworkError("step: an input that is not finite was changed while it was used; pass an array of its own")


def _labels(inputs: Any) -> list[Label]:
    """Return the names of inputs, or raise."""
    one = isinstance(inputs, str) or is_pair(inputs)
    labels = [inputs] if one else list(inputs) if isinstance(inputs, Iterable) else None
    if labels is None or isinstance(inputs, Mapping):
        raise NetworkError(f"stepper: inputs is {inputs!r}; pass names such as 'exc.syn', and values to each step")
    names = [shown_label(label) for label in labels]
    for name in names:
        if names.count(name) > 1:
            raise NetworkError(f"stepper: the input {name!r} is named twice; name it once")
    return labels


def _input(plan: Plan, label: Label, steps: int | None) -> _Input:
    neurons, receptor = found_receptor(plan, label)
    population = neurons.population
    array = _zeros(plan, shown_label(label), steps or 1, neurons.size)
    unit = unit_of(population.name, population.units, receptor)
    target = array[0] if steps is None else array
    return _Input(label, (population.name, receptor), array, target, unit, neurons.numbers)


def _zeros(plan: Plan, label: str, steps: int, neurons: int) -> Array:
    size = steps * neurons * np.dtype(plan.dtype).itemsize
    check_room("stepper", f"the input {label!r} of {steps} steps and {neurons} neurons", size, on_host=True)
    return np.zeros((steps, neurons), plan.dtype)


def _arrays(
    plan: Plan, inputs: Sequence[_Input], steps: int
) -> tuple[dict[tuple[str, str], Array], list[tuple[Array, list[_Input]]]]:
    """Return what engines read, by population and receptor; and of those that are sums, which inputs add up to them."""
    by_place: dict[tuple[str, str], list[_Input]] = {}
    for one in inputs:
        by_place.setdefault(one.place, []).append(one)
    arrays, sums = {}, []
    for place, some in by_place.items():
        if len(some) == 1 and some[0].numbers is None:
            arrays[place] = some[0].array
        else:
            arrays[place] = _zeros(plan, ".".join(place), steps, plan.population(place[0]).size)
            sums.append((arrays[place], some))
    return arrays, sums


def _of_part(recorded: RecordedStep, kind: str, population: str, neurons: Neurons) -> Any:
    """Return what one step recorded of a part."""
    if kind == "counts":
        return recorded.counts[population][neurons.numbers]
    who = recorded.spikes[population]
    here = neurons.mask[who]
    return int(here.sum()) if kind == "rate" else who[here]


def _check_each_step(requests: Iterable[Request]) -> None:
    """Raise if a state is not recorded in each step."""
    for request in requests:
        if request.sample is not None and request.sample.every > 1:
            raise NetworkError(
                f"stepper: {request.label!r} is recorded every {request.sample.every} steps, and a call runs one; pass "
                "every(1, ...), or steps= to run several"
            )
