# SPDX-License-Identifier: Apache-2.0
"""A network in numbers: populations, synapses, receptors, and the memory that they take."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from ..._html import document, paragraph, table
from ...bench.words import columns, short
from ..plan.connections import span
from ..plan.plan import Plan, PopulationPlan
from ..plan.plastic import PlasticPlan
from ..plan.projections import ProjectionPlan

__all__ = ["Text", "in_bytes", "reported"]


class Text(str):
    """A text that an interactive session shows as it is, without quotes, and a notebook as tables if it has some."""

    __slots__ = ("_html",)
    _html: str

    def __new__(cls, text: str, shown: str = "") -> Self:
        """Take the text, and the HTML that notebooks show, by default the same text."""
        made = super().__new__(cls, text)
        made._html = shown or f'<pre style="color: inherit; background: none">{html.escape(text)}</pre>'
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return self._html


def reported(
    plan: Plan,
    backend: str,
    step: int,
    units: str,
    placement: str | None,
    more: Sequence[str] = (),
) -> Text:
    """Return the network in tables; `units` run it, at `placement`; `more` are lines of other rooms about it."""
    entries = plan.entries
    neurons = sum(p.size for p in plan.populations)
    held = plan.synapse_bytes, sum(_nbytes(plan, p) for p in plan.populations)
    head = (
        f"{neurons} neurons, {entries} synapses, dt {plan.dt:g} ms, seed {plan.seed}, "
        f"at step {step} ({step * plan.dt:g} ms)\n"
        f"backend {backend}, {units}; synapses take {in_bytes(held[0])}, "
        f"neurons and pending input {in_bytes(held[1])}"
    )
    head += "".join(f"\n{line}" for line in (placement, *more) if line)
    head += "".join(f"\n{_repeated(plan, names)}" for names in plan.repeats)
    head += "".join(f"\n{_looked(name, *pairs)}" for name, pairs in plan.looked.items())
    head += "".join(f"\n{_rules(one)}" for one in plan.plastic)
    parts = _populations(plan), _synapses(plan), _couplings(plan), _receptors(plan)
    tables = [part for part in parts if len(part.rows) > 1]
    text = "\n\n".join([head, *(columns(part.rows, right=part.right) for part in tables)])
    shown = "".join(table(part.rows[0], part.rows[1:], right=part.right) for part in tables)
    return Text(text, document("network", paragraph(head), shown))


class _Table(NamedTuple):
    """Rows, the first of which names the columns, and which columns are flush right."""

    rows: list[tuple[str, ...]]
    right: tuple[int, ...] = ()


def in_bytes(size: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, max(0, (len(str(size)) - 1) // 3))
    return f"{short(size / 1000**power, 3)} {units[power]}"


def _nbytes(plan: Plan, population: PopulationPlan) -> int:
    """Return the bytes of states, parameters and sums of a population."""
    arrays = [*population.state.values(), *population.params.values()]
    rows = sum(plan.rows(population.name, receptor) for receptor in population.quanta)
    return sum(int(np.asarray(array).nbytes) for array in arrays) + 4 * rows * population.size


def _repeated(plan: Plan, names: tuple[str, ...]) -> str:
    one = plan.projections[plan.place(names[0])]
    return (
        f"{len(names)} projections from {one.source} to {one.target} by {one.receptor} are identical: "
        "their synapses add up"
    )


def _looked(name: str, pairs: int, many: int) -> str:
    """Return what the synapses of a probability that is a function cost."""
    share = f"{short(100 * pairs / many, 3)} % of all" if pairs < many else "all; a cut-off would save some"
    return f"{name}: the probability was computed for {short(pairs, 3)} pairs of neurons, {share}"


def _rules(plastic: PlasticPlan) -> str:
    """Return what changes the synapses of a projection."""
    rules = ", ".join(f"{called}: {rule.name}" for called, rule in plastic.rules.all)
    delays = f"; delays are those of the {plastic.rules.delay_at}"
    return f"synapses of {plastic.name} are plastic: {rules}{delays}"


def _populations(plan: Plan) -> _Table:
    rows: list[tuple[str, ...]] = [("population", "neurons", "rule", "states", "random", "memory")]
    for p in plan.populations:
        states = ", ".join(f"{key} {array.dtype}" for key, array in p.state.items())
        random = "yes" if p.rule.random else "no"
        rows.append((p.name, str(p.size), p.rule.name, states or "none", random, in_bytes(_nbytes(plan, p))))
    return _Table(rows, (1,))


def _synapses(plan: Plan) -> _Table:
    rows: list[tuple[str, ...]] = [
        ("projection", "synapses", "per source", "weights", "delays (ms)", "memory", "bytes a synapse")
    ]
    rows += [_projection(plan, projection) for projection in plan.projections]
    rows += [_plastic(plan, one) for one in plan.plastic]
    return _Table(rows, (1, 2))


def _projection(plan: Plan, projection: ProjectionPlan) -> tuple[str, ...]:
    entries, sources = projection.entries, plan.population(projection.source).size
    if not entries:
        return (projection.name, "0", "0", "-", "-", in_bytes(projection.nbytes), "-")
    quantum = plan.population(projection.target).quanta[projection.receptor]
    low, high = (float(end * quantum) for end in projection.weights)
    return (
        projection.name,
        str(entries),
        short(entries / sources, 3),
        f"{span(low, high)} ({projection.dtypes[1]})",
        span(*(end * plan.dt for end in projection.delays)),
        in_bytes(projection.nbytes),
        short(projection.nbytes / entries, 3),
    )


def _plastic(plan: Plan, plastic: PlasticPlan) -> tuple[str, ...]:
    low, high = plastic.rules.bounds
    delays = plastic.distinct
    return (
        plastic.name,
        str(plastic.entries),
        short(plastic.entries / plastic.sizes[0], 3),
        f"{span(low, high)} ({plastic.dtype}, plastic)",
        span(delays[0] * plan.dt, delays[-1] * plan.dt) if plastic.entries else "-",
        in_bytes(plastic.nbytes),
        short(plastic.nbytes / plastic.entries, 3) if plastic.entries else "-",
    )


def _couplings(plan: Plan) -> _Table:
    rows: list[tuple[str, ...]] = [("coupling", "synapses", "per target", "weights", "carries", "memory")]
    for one in plan.couplings:
        ends = (float(one.weights.min()), float(one.weights.max())) if one.entries else None
        rows.append(
            (
                one.name,
                str(one.entries),
                short(one.entries / one.neurons, 3),
                span(*ends) if ends else "-",
                f"difference of {one.state}" if one.difference else one.state,
                in_bytes(one.nbytes),
            )
        )
    return _Table(rows, (1, 2))


def _receptors(plan: Plan) -> _Table:
    rows: list[tuple[str, ...]] = [("receptor", "quantum", "rounding at most", "of the smallest weight", "steps held")]
    for name, receptor in plan.receptors():
        quantum = float(plan.population(name).quanta[receptor])
        into = [p for p in plan.projections if (p.target, p.receptor) == (name, receptor)]
        smallest = quantum * min((p.least for p in into if p.least), default=0)
        rounding = max((p.rounding for p in into), default=0)
        share = f"{100 * rounding / smallest:.2g} %" if smallest else "-"
        rows.append((f"{name}.{receptor}", f"{quantum:g}", f"{rounding:g}", share, str(plan.rows(name, receptor))))
    return _Table(rows)
