# SPDX-License-Identifier: Apache-2.0
"""What a user asks to record, as requests that are checked against the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ...typing import IndexLike, Quantity
from ..description.parts import Part
from ..description.populations import Population
from ..description.units import array_in
from ..plan.plan import Link, Plan, PopulationPlan
from .duration import counted_steps
from .neurons import Label, Neurons, are_of, found_neurons, is_pair, shown_label, split_label
from .recorded import Sample, Wanted

__all__ = ["Every", "Request", "every", "found_link", "of_other_synapses", "parsed", "wanted"]

KINDS = ("spikes", "counts", "rate")


@dataclass(frozen=True, eq=False)
class Every:
    """A state to record at regular intervals, as `every` returns it."""

    steps: int | Quantity
    what: Label
    neurons: IndexLike | slice | None = None
    label: str | None = None
    synapses: IndexLike | slice | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Request:
    """One thing to record: spikes, counts or the rate of neurons, or, if there is a sample, a state.

    `numbers` are those of a part of the population; None for all neurons and for samples. `asked` is what was asked of
    synapses, whose numbers follow from a plan.
    """

    label: str
    kind: str  # one of KINDS, or "sample"
    population: str
    sample: Sample | None = None
    unit: str = ""  # of the state, if it is declared
    numbers: Any = field(default=None, compare=False)
    asked: Every | None = field(default=None, compare=False, repr=False)
    chosen: bytes = field(default=b"", init=False, repr=False)  # for comparisons

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen", b"" if self.numbers is None else b"of" + self.numbers.tobytes())

    def neurons(self, plan: Plan) -> Neurons:
        """Return the neurons of which spikes are recorded."""
        return Neurons(plan.population(self.population), self.numbers)

    @property
    def shown(self) -> str:
        """What is recorded, in words: the population, or that and the name of the part."""
        return self.label.rpartition(".")[0] if self.numbers is not None else self.population


def every(
    steps: int | Quantity,
    what: Label,
    neurons: IndexLike | slice | None = None,
    label: str | None = None,
    *,
    synapses: IndexLike | slice | None = None,
) -> Every:
    """Request a state of some neurons, or of some plastic synapses, at regular intervals.

    It is recorded after each step whose number is a multiple of `steps`, counted from the beginning of the simulation,
    so that runs in pieces record what one run records.

    Args:
        steps: How many steps there are from one record to the next, at least 1; or a time with a unit.
        what: Population and state, such as `"exc.v"`. Here `spikes`, `counts` and `rate` mean states of the rule with
            these names; the string `"exc.rate"` alone means the rate of the population. Or a plastic projection and
            `w`, its weights, or a state of its synapses, such as `"exc->inh.syn.w"`. Or of a part of a population, such
            as `"exc[:100].v"` or `(exc[mask], "v")`.
        neurons: Slice, numbers or mask of neurons, in this order, or a part of the population; None for all.
        label: Name of the record in the result; None for `what`.
        synapses: Slice, numbers or mask of synapses, in the order of `Simulation.connections`; None for all.

    Returns:
        A request for `Simulation.run`.

    Examples:
        >>> import brainevent as be
        >>> be.every(5, "exc.v", neurons=slice(0, 10))
        Every(steps=5, what='exc.v', neurons=slice(0, 10, None), label=None)
    """
    return Every(steps, what, neurons, label, synapses)


def parsed(plan: Plan, record: Label | Every | Iterable[Label | Every]) -> tuple[Request, ...]:
    """Return the requests of `record=`, or raise for one that is not there."""
    record = (record,) if is_pair(record) or isinstance(record, Part) else record
    if not isinstance(record, str | Every) and not isinstance(record, Iterable):
        raise NetworkError(f"record: found {record!r}; pass strings such as 'exc.spikes', or every(5, 'exc.v')")
    requests = tuple(_request(plan, one) for one in ((record,) if isinstance(record, str | Every) else record))
    seen: set[str] = set()
    for request in requests:
        if request.label in seen:
            raise NetworkError(
                f"record: {request.label!r} is requested twice; pass every(..., label=...) to one of them"
            )
        seen.add(request.label)
    return requests


def wanted(requests: Iterable[Request]) -> Wanted:
    """Return requests as engines take them."""
    names: dict[str, list[str]] = {kind: [] for kind in KINDS}
    samples: dict[str, Sample] = {}
    for request in requests:
        if request.sample is None:
            of_part = request.kind == "rate" and request.numbers is not None  # engines count all neurons
            names["spikes" if of_part else request.kind].append(request.population)
        else:
            samples[request.label] = request.sample
    spikes, counts, rates = (tuple(dict.fromkeys(names[kind])) for kind in KINDS)
    return Wanted(spikes, counts, rates, samples)


def of_other_synapses(plan: Plan, requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Return the same requests of a network whose synapses were drawn with another seed: there may be more or fewer."""
    return tuple(
        one
        if one.asked is None or one.sample is None
        else _request_of_synapses(plan, one.asked, one.population, one.sample.state)
        for one in requests
    )


def found_link(plan: Plan, where: str, name: str) -> Link:
    """Return what is known of the projection or coupling of a name, or raise: no population has that name either."""
    populations, couplings = ([one.name for one in many] for many in (plan.populations, plan.couplings))
    projections = plan.projection_names
    if name not in (*projections, *couplings):
        raise NetworkError(
            f"{where}: there is no population {name!r}, nor a projection{' or coupling' if couplings else ''}"
            f"{did_you_mean(name, [*populations, *projections, *couplings])}; populations: {', '.join(populations)}; "
            f"projections: {', '.join(projections) or 'none'}"
            + (f"; couplings: {', '.join(couplings)}" if couplings else "")
        )
    return next(link for link in plan.links() if link.name == name)


def _request(plan: Plan, one: Any) -> Request:
    asked = one if isinstance(one, Every) else Every(1, one)
    if isinstance(asked.what, (Part, Population)):
        name = asked.what.name
        raise NetworkError(f"record: {name} are neurons; add what to record, for example ({name}, 'spikes')")
    if not isinstance(asked.what, str) and not is_pair(asked.what):
        raise NetworkError(f"record: found {one!r}; pass strings such as 'exc.spikes', or every(5, 'exc.v')")
    if asked.what in plan.plastic_by_name:
        raise NetworkError(f"record: {asked.what!r} is a projection; add what to record, for example '{asked.what}.w'")
    owner, what = split_label(asked.what)
    where = f"record: {shown_label(asked.what)!r}"
    if owner == "":
        if any(what == population.name for population in plan.populations):
            raise NetworkError(f"record: {what!r} is a population; add what to record, for example '{what}.spikes'")
        first = plan.populations[0].name
        raise NetworkError(f"{where} names no population; pass one, for example '{first}.{what or 'spikes'}'")
    _check_no_index(where, owner, what)
    if owner in plan.projection_names:
        return _request_of_synapses(plan, asked, owner, what)
    neurons = found_neurons(plan, where, owner, [*plan.plastic_by_name])
    population, label = neurons.population, _label(asked)
    if asked.synapses is not None:
        raise NetworkError(f"every: {asked.what!r} is a state of neurons; pass neurons= instead of synapses=")
    if not isinstance(one, Every) and what in KINDS:
        return Request(label, what, population.name, numbers=neurons.numbers)
    _check_state(population, shown_label(asked.what), what)
    if neurons.numbers is not None and asked.neurons is not None:
        raise NetworkError(f"every: {asked.what!r} is of a part, and neurons= names some, too; pass one of them")
    are_of(plan, f"every: neurons of {shown_label(asked.what)!r}", asked.neurons, population)
    chosen = neurons.numbers
    if chosen is None:
        chosen = _chosen(asked.what, asked.neurons, "neurons", population.size, population.name)
    sample = Sample(population.name, what, _interval(plan, asked), chosen)
    unit = str(population.units.get(what, ""))
    return Request(label, "sample", population.name, sample, "" if unit == "1" else unit)


def _label(asked: Every) -> str:
    label: Any = asked.label
    if label is not None and not (isinstance(label, str) and label):
        raise NetworkError(f"every: label is {label!r}; pass a string that is not empty, or None")
    return shown_label(asked.what) if label is None else label


def _interval(plan: Plan, asked: Every) -> int:
    return counted_steps("every: steps", asked.steps, plan.dt, least="of at least 1")


def _request_of_synapses(plan: Plan, asked: Every, name: str, what: str) -> Request:
    """Return a request of weights or states of plastic synapses."""
    where = f"record: {asked.what!r}"
    plastic = plan.plastic_by_name.get(name)
    if plastic is None:
        raise NetworkError(
            f"{where}: the synapses of {name} do not change; pass plasticity= to its Projection, or take its weights "
            f"from sim.connections({name!r})"
        )
    there = ["w", *plastic.rules.states]
    if what not in there:
        guess = "; did you mean 'w'?" if what in ("weight", "weights") else did_you_mean(what, there)
        raise NetworkError(f"{where} is not there{guess}; synapses of {name} have {', '.join(there)}")
    if asked.neurons is not None:
        raise NetworkError(f"every: {asked.what!r} is of synapses; pass synapses= instead of neurons=")
    chosen = _chosen(asked.what, asked.synapses, "synapses", plastic.entries, name)
    sample = Sample(name, what, _interval(plan, asked), chosen, of_synapses=True)
    return Request(_label(asked), "sample", name, sample, asked=asked)


def _check_no_index(where: str, owner: Any, what: str) -> None:
    """Raise if a request takes neurons in brackets at its end, as in 'exc.v[0]'."""
    kind, bracket, _ = what.partition("[")
    if not bracket:
        return
    name = owner if isinstance(owner, str) else owner.name
    if kind in KINDS:
        raise NetworkError(
            f"{where} names neurons; record '{name}.spikes', and take those of some neurons from the result: "
            f"result['{name}.spikes'].of([0, 1]); or record a part, such as '{name}[:2].{kind}'"
        )
    raise NetworkError(f"{where} names neurons; pass every(1, '{name}.{kind}', neurons=[0, 1])")


def _check_state(population: PopulationPlan, asked: str, what: str) -> None:
    if what in population.state:
        return
    there = list(dict.fromkeys((*KINDS, *population.state)))
    if what in KINDS:
        raise NetworkError(f"record: {what} cannot be sampled by every(...); pass {asked!r} itself")
    if what in population.quanta or what in population.params:
        kind = "a receptor" if what in population.quanta else "a parameter"
        hint = f" is {kind}, and only states are recorded; store it in a state of the rule"
    else:
        hint = f" is not there{did_you_mean(what, there)}"
    raise NetworkError(f"record: {asked!r}{hint}; {population.name} has {', '.join(there)}")


def _chosen(what: str, given: Any, kind: str, size: int, owner: str) -> Any:
    """Return the numbers of the chosen neurons or synapses."""
    all_ = np.arange(size)
    if given is None:
        return all_
    numbers = given if isinstance(given, slice) else np.atleast_1d(array_in(f"every: {kind} of {what!r}", given))
    if not isinstance(numbers, slice):
        if numbers.ndim > 1:
            raise NetworkError(
                f"every: {kind} of {what!r} have the shape {numbers.shape}; pass a slice, integers, or a mask"
            )
        if not numbers.size:
            return all_[:0]
    try:
        return np.ascontiguousarray(all_[numbers])
    except IndexError as error:
        raise NetworkError(
            f"every: {kind} of {what!r}: {error}; {owner} has {size} {kind}: pass a slice, integers, or a mask"
        ) from None
