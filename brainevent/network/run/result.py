# SPDX-License-Identifier: Apache-2.0
"""`Result`: what a run recorded, by the labels of its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._html import document, paragraph, table
from ...bench.words import columns
from ...errors import NetworkError, did_you_mean
from ...spikes.plots import plot_traces
from ...spikes.trains import ListedSpikes, Spikes, joined
from ..plan.plan import Plan
from .neurons import Label, is_pair, rate_of, shown_label, spikes_of
from .recorded import Recorded
from .requests import Request

if TYPE_CHECKING:
    from ...bench.plot.draw import Figure

__all__ = ["Result", "nothing", "result_of", "value_of"]

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class Result(Mapping[str, Any]):
    """What a run recorded: `result["exc.spikes"]`.

    | Label | Value |
    | --- | --- |
    | `"exc.spikes"` | all spikes: `Spikes` |
    | `"exc.counts"` | how often each neuron spiked: int32 (neurons,) |
    | `"exc.rate"` | how many neurons of the population spiked in each step: int32 (steps,) |
    | `"exc.v"` | a state, after each step or those of `every`: (records, neurons) |

    Of a part of a population there is the same, by its label `"exc[:100].spikes"` or by the pair `(exc[mask],
    "spikes")`. Its spikes keep the numbers of the population, as those of `Spikes.of` do; arrays have its neurons only,
    in its order. Results of consecutive runs add up: `first + second`.

    Attributes:
        requests: What should be recorded.
        recorded: What was recorded, by label.
        first: Number of the first step.
        steps: How many steps ran.
        dt: Length of a step in milliseconds.
        interrupted: Whether Ctrl-C was pressed or memory was full; then fewer steps may have run.
        reason: Why the run ended before its last step, if memory was full; else nothing.

    Examples:
        >>> import brainevent as be
        >>> cells = be.Population("cells", 5, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> result = be.Network([cells], dt=0.1).build(seed=1).run(3, ["cells.rate"], {"cells.syn": [0, 2, 0]})
        >>> result["cells.rate"], result.times("cells.rate")
        (array([0, 5, 0], dtype=int32), array([0. , 0.1, 0.2]))
    """

    requests: tuple[Request, ...]
    recorded: Mapping[str, Any]
    first: int
    steps: int
    dt: float
    interrupted: bool = False
    reason: str = ""

    def __getitem__(self, label: Label) -> Any:
        """Return what was recorded under a label."""
        return self.recorded[self._request(label).label]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the labels."""
        return iter(self.recorded)

    def __len__(self) -> int:
        """Return how many labels there are."""
        return len(self.recorded)

    def times(self, label: Label) -> Array:
        """Return the time of each row of a record, or of each spike, in milliseconds.

        What happens in step t has the time t x dt: a spike, and a state that is recorded after the step.

        Args:
            label: The label of the record.

        Returns:
            The times, float64.

        Raises:
            NetworkError: If nothing was recorded under the label, or it has one value for the whole run.
        """
        request = self._request(label)
        if request.kind == "spikes":
            return self.recorded[request.label].times
        if request.kind == "counts":
            raise NetworkError(
                f"result.times: {request.label} has one value for the whole run; pass a label with values over time"
            )
        period = 1 if request.sample is None else request.sample.every
        begin = -(-self.first // period) * period
        return np.arange(begin, self.first + self.steps, period) * self.dt

    def plot(self, figure: Figure | None = None, **keywords: Any) -> Figure:
        """Draw the spikes of all populations that were recorded, each as a band, and their rates below.

        Args:
            figure: Figure of matplotlib to draw into, which should be empty; None for a new one.
            **keywords: As for `Spikes.plot`: `sample`, `sort_by`, `heights`, `kind`, `bin`, `smooth`, `theme`, `title`.

        Returns:
            The figure, with two axes: raster and rate.

        Raises:
            NetworkError: No spikes were recorded, or `figure` is a label.
            ImportError: matplotlib is not installed.

        Examples:
            >>> import brainevent as be
            >>> sim = be.Network([be.models.lif_delta("cells", 5, current=30.0)], dt=0.1).build(seed=1)
            >>> result = sim.run(200, ["cells.spikes", "cells.v"])
            >>> len(result.plot().axes), len(result.plot_traces("cells.v").axes)
            (2, 1)
        """
        if isinstance(figure, (str, tuple)):
            raise NetworkError(
                f"result.plot: found {figure!r}; pass a figure to draw into, or nothing. "
                f"result[{figure!r}].plot() draws spikes, and result.plot_traces({figure!r}) a state"
            )
        found = {r.shown: self.recorded[r.label] for r in self.requests if r.kind == "spikes"}
        if not found:
            raise NetworkError(
                "result.plot: no spikes were recorded; pass record= the spikes of a population, such as 'exc.spikes'"
            )
        spikes, groups = Spikes.stack(found)
        return spikes.plot(figure, **{"groups": groups if len(groups) > 1 else None, **keywords})

    def plot_traces(self, record: Label, /, **keywords: Any) -> Figure:
        """Draw a state that was recorded, over time; with a mark for each spike, if spikes were recorded, too.

        Args:
            record: Label of the record, such as `"exc.v"`.
            **keywords: As for `plot_traces`: `threshold`, `label`, `ax`, `theme`, `title` and others.

        Returns:
            The figure.

        Raises:
            NetworkError: This was not recorded, or is not a state.
            ImportError: matplotlib is not installed.
        """
        request = self._request(record)
        if request.sample is None:
            raise NetworkError(f"result.plot_traces: {request.label} is not a state; record one, such as 'exc.v'")
        same = [r.label for r in self.requests if r.kind == "spikes" and _has_neurons(r, request)]
        state = request.sample.state
        usual = {"names": request.sample.neurons, "label": f"{state} ({request.unit})" if request.unit else state}
        usual |= {"spikes": self.recorded[same[0]]} if same else {}
        return plot_traces(self.times(request.label), self.recorded[request.label], **{**usual, **keywords})

    def __add__(self, later: Result) -> Result:
        """Return this run and the one after it as one."""
        if not isinstance(later, Result):
            return NotImplemented
        if later.first != self.first + self.steps or later.dt != self.dt:
            raise NetworkError(
                f"result + result: one is {self._when()}, the other {later._when()}; "
                "add results of consecutive runs, in order"
            )
        different = [f"{label!r}" for label in {**self.recorded, **later.recorded} if not self._same(later, label)]
        if different:
            raise NetworkError(
                f"result + result: {', '.join(different)} was recorded in one run only, or differently; "
                "pass the same record= to both runs"
            )
        values = {r.label: _joined(r.kind, [self.recorded[r.label], later.recorded[r.label]]) for r in self.requests}
        steps = self.steps + later.steps
        return Result(self.requests, values, self.first, steps, self.dt, later.interrupted, later.reason)

    def __repr__(self) -> str:
        rows = [(f"  {label}", _described(value)) for label, value in self.recorded.items()]
        table = "\n" + columns(rows) if rows else ""
        return f"Result({self._when()}{self._ended()}){table}"

    def _repr_html_(self) -> str:
        """Return what notebooks show: a row for each label."""
        rows = [(label, _described(value)) for label, value in self.recorded.items()]
        title = f"result of {self._when()}{self._ended()}"
        return document(title, table(("label", "recorded"), rows) if rows else paragraph("nothing was recorded"))

    def _ended(self) -> str:
        return ", interrupted" * self.interrupted + f": {self.reason}" * bool(self.reason)

    def _when(self) -> str:
        return f"{self.steps} steps of {self.dt:g} ms from step {self.first}"

    def _request(self, label: Label) -> Request:
        label = shown_label(label) if is_pair(label) else label
        found = {request.label: request for request in self.requests}
        if label not in found:
            raise _NotRecordedError(
                f"result: {label!r} was not recorded{did_you_mean(label, found)}; "
                f"recorded: {', '.join(found) or 'nothing'}"
            )
        return found[label]

    def _same(self, other: Result, label: str) -> bool:
        """Say whether a label means the same in both."""
        if label not in self.recorded or label not in other.recorded:
            return False
        one, two = self._request(label), other._request(label)
        if one.sample is None or two.sample is None:
            return one == two
        return (
            (one.population, one.sample.state, one.sample.every) == (two.population, two.sample.state, two.sample.every)
        ) and np.array_equal(one.sample.neurons, two.sample.neurons)


def _has_neurons(spikes: Request, states: Request) -> bool:
    """Say whether spikes are those of all neurons of which states were recorded."""
    if spikes.population != states.population or states.sample is None:
        return False
    return spikes.numbers is None or bool(np.isin(states.sample.neurons, spikes.numbers).all())


class _NotRecordedError(NetworkError, KeyError):
    """A label that a result does not have: of a mapping, a `KeyError` as well."""

    __str__ = Exception.__str__  # that of KeyError puts the message in quotes


def result_of(
    plan: Plan, requests: tuple[Request, ...], parts: Sequence[Recorded], first: int, *, interrupted: bool = False
) -> Result:
    """Return what consecutive runs of an engine recorded, from step `first` on, as one result."""
    values = {}
    for request in requests:
        pieces = [value_of(plan, request, part) for part in parts] or [nothing(plan, request, first)]
        values[request.label] = pieces[0] if len(pieces) == 1 else _joined(request.kind, pieces)
    return Result(requests, values, first, sum(part.steps for part in parts), plan.dt, interrupted)


def value_of(plan: Plan, request: Request, part: Recorded) -> Any:
    """Return the value of a request from what an engine recorded."""
    some = request.numbers is not None
    if request.kind == "counts":
        counts = part.counts[request.population]
        return counts[request.numbers] if some else counts
    if request.kind == "rate":
        return rate_of(request.neurons(plan), part) if some else part.rates[request.population]
    if request.kind == "sample":
        return part.samples[request.label]
    return spikes_of(request.neurons(plan), part, plan.dt)


def nothing(plan: Plan, request: Request, first: int) -> Any:
    """Return what is recorded in no steps."""
    if request.sample is not None:
        return np.empty((0, request.sample.neurons.size), request.sample.dtype(plan))
    if request.kind == "spikes":
        events = np.empty(0, np.uint32), np.empty(0, np.int32)
        none = Recorded(first, 0, {request.population: events}, {}, {}, {})
        return spikes_of(request.neurons(plan), none, plan.dt)
    return np.zeros(request.neurons(plan).size if request.kind == "counts" else 0, np.int32)


def _joined(kind: str, pieces: list[Any]) -> Any:
    if kind == "spikes":
        return joined(pieces)
    return np.sum(pieces, axis=0, dtype=np.int32) if kind == "counts" else np.concatenate(pieces)


def _described(value: Any) -> str:
    return repr(value) if isinstance(value, ListedSpikes) else f"{value.dtype} {value.shape}"
