# SPDX-License-Identifier: Apache-2.0
"""`Shown`: a simulation as text: its report, its repr, and its rules line by line, as engines run them."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ...scalar.form import Assign, Form, Line, Loop, Name
from ...scalar.numba_text import numba_text
from ...scalar.synapse import TracedSynapseRule
from ...scalar.trace import TracedRule
from ..engine import Engine
from ..engines import engine_name
from ..plan.couplings import CouplingPlan
from ..plan.plan import Plan, PopulationPlan
from ..plan.plastic import PlasticPlan
from ..plan.replaced import Weights
from ..training.rules import in_training
from ..training.words import training_in_words
from .report import Text, reported

__all__ = ["Shown", "beside_in_words", "explained"]


class Shown:
    """The part of `Simulation` that describes it in words."""

    plan: Plan
    engine: Engine
    _weights: Weights

    @property
    def steps(self) -> int:
        """How many steps ran: the number of the step that comes next."""
        return self.engine.step

    @property
    def time(self) -> float:
        """How long the network ran, in milliseconds."""
        return self.steps * self.plan.dt

    def report(self) -> Text:
        """Return the network in tables: populations, synapses, memory, and by how much weights are rounded.

        Weights that were replaced are named, and quanta that changed with them. For each population there is what
        `simulate` trains it with, native code or plain JAX, why, and how weights are rounded then; and for the network
        what `eprop` runs.

        Returns:
            A string that prints as it is.
        """
        weights, name = self._weights, engine_name(self.engine)
        lines = [weights.said, self._beside(), self._training()]
        return reported(weights.plan, name, self.steps, *self._where(), [line for line in lines if line])

    def explain(self) -> Text:
        """Return each rule, line by line, with the lines that are run for it; how it is trained, and sweeps run.

        Returns:
            A string that prints as it is.
        """
        name = engine_name(self.engine)
        parts = explained(self.plan, name), self._training(), self._beside()
        return Text("\n\n".join(part for part in parts if part))

    def _beside(self) -> str:
        """Say how the elements of a sweep run, or what the engine says of them."""
        in_words = beside_in_words(engine_name(self.engine), plastic=bool(self.plan.plastic))
        return getattr(self.engine, "said_of_sweeps", in_words)

    def _training(self) -> str:
        """Say how populations are trained; nothing if the backend is not one of `simulate`."""
        if engine_name(self.engine) == "interpreted":
            return ""
        return training_in_words(self._weights.plan, getattr(self.engine, "runner", None))

    def __repr__(self) -> str:
        neurons = sum(population.size for population in self.plan.populations)
        synapses = self.plan.entries
        backend, units = engine_name(self.engine), self._where()[0]
        return f"Simulation({neurons} neurons, {synapses} synapses, at step {self.steps}, {backend} on {units})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the report."""
        return self.report()._repr_html_()

    def _where(self) -> tuple[str, str | None]:
        """Return what runs the network, and where its memory is, if the engine reports it."""
        threads = f"{self.plan.parts} thread{'' if self.plan.parts == 1 else 's'}"
        return getattr(self.engine, "units", threads), getattr(self.engine, "placement", None)


def beside_in_words(backend: str, *, plastic: bool) -> str:
    """Return how the elements of a sweep run, and those of `jax.vmap`; with `plastic` synapses."""
    if plastic and backend != "jax":
        one = "side by side, one a thread" if backend == "numba" else "one after another"
        return f"elements of sweeps run {one}"
    how = {
        "numba": "side by side, one a thread",
        "cuda": "side by side, each on blocks of its own, which are the fewer the more elements there are",
        "jax": "one after another in a sweep, as one batch under jax.vmap",
    }
    return f"elements of sweeps and batches run {how.get(backend, 'one after another')}"


def explained(plan: Plan, backend: str) -> str:
    """Return the text of all rules; populations that share one are named together."""
    groups: list[tuple[TracedRule, list[PopulationPlan]]] = []
    for population in plan.populations:
        own = population.rule.form, population.rule.told
        same = next((members for rule, members in groups if (rule.form, rule.told) == own), None)
        if same is None:
            groups.append((population.rule, [population]))
        else:
            same.append(population)
    coupled = {end for one in plan.couplings for end in (one.source, one.target)}
    texts = []
    for rule, members in groups:
        names = [p.name for p in members]
        text = _rule_text(rule, names, backend)
        if backend == "numba":
            text += f"\ngradients: {_gradients(rule, plastic=bool(plan.plastic), coupled=bool(coupled & {*names}))}"
        texts.append(text)
    texts += [_synapse_text(one, called, rule, backend) for one in plan.plastic for called, rule in one.rules.all]
    return "\n\n".join([*texts, *(_coupling_text(coupling) for coupling in plan.couplings)])


def _synapse_text(plastic: PlasticPlan, called: str, rule: TracedSynapseRule, backend: str) -> str:
    """Return the text of a rule of synapses."""
    low, high = plastic.rules.bounds
    names = ", ".join(f"{name.text} {name.dtype}" for name in rule.form.inputs)
    results = zip(["w", *plastic.rules.states], _results(rule.form), strict=True)
    return "\n".join(
        [
            f"rule {rule.name} of projection {plastic.name}, called {_when(called)}, run by {backend!r}",
            f"  reads: {names}",
            f"  weights are clipped to {low:g} to {high:g}; delays are those of the {plastic.rules.delay_at}",
            *_body(rule.form),
            f"returns {', '.join(f'{name}={value}' for name, value in results)}",
        ]
    )


def _when(called: str) -> str:
    return called if called.startswith("every") else f"by {called}"


def _coupling_text(coupling: CouplingPlan) -> str:
    state = coupling.state
    carried = f"(source's {state} - own {state})" if coupling.difference else f"source's {state}"
    return (
        f"coupling {coupling.name}\n  arriving.{coupling.receptor} of {coupling.target} += sum of weight * {carried} "
        f"before the step, over {coupling.entries} synapses by source"
    )


def _gradients(rule: TracedRule, *, plastic: bool, coupled: bool) -> str:
    if plastic:
        return "in plain JAX, because synapses of the network are plastic"
    return "in plain JAX, because couplings carry states in every step" if coupled else in_training(rule)


def _rule_text(rule: TracedRule, populations: list[str], backend: str) -> str:
    form = rule.form
    one = len(populations) == 1
    head = [
        f"rule {rule.name} of population{'' if one else 's'} {', '.join(populations)}, run by {backend!r}",
        *(f"  {what}: {_inputs(names)}" for what, names in _kinds(rule) if names),
        f"  {_random(rule)}",
    ]
    body = _body(form)
    names = [*(name.text.removeprefix("s_") for name in rule.states), *rule.events, *(["value"] if rule.value else [])]
    results = (f"{name}={value}" for name, value in zip(names, _results(form), strict=True))
    tail = [f"returns {', '.join(results)}"]
    if form.functions:
        counts = [f"be_{f.name} ({len(list(f.all_lines()))} lines)" for f in form.functions]
        tail.append(f"functions: {', '.join(counts)}")
    return "\n".join([*head, *body, *tail])


def _body(form: Form) -> list[str]:
    """Return the lines of a form, below those of the user's rule."""
    return [text for source, lines in _by_source(form.lines) for text in _source_text(form, source, lines)]


def _kinds(rule: TracedRule) -> tuple[tuple[str, tuple[Name, ...]], ...]:
    return (("state", rule.states), ("arriving", rule.arriving), ("parameters", rule.params))


def _inputs(names: Iterable[Name]) -> str:
    return ", ".join(f"{name.text} {name.dtype}" for name in names)


def _random(rule: TracedRule) -> str:
    if not rule.random:
        return "random: nothing"
    return f"random: functions of {_inputs(rule.random)}"


def _by_source(lines: Iterable[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Yield lines in their order, those of one line of the user's rule together."""
    for source, some in groupby(lines, _source_of):
        yield source, list(some)


def _source_of(line: Line) -> str:
    """Return file:line of the rule that a line comes from: of a loop or branch, that of its first line."""
    if isinstance(line, Assign):
        return line.source
    inner = (*line.head, *line.body) if isinstance(line, Loop) else (*line.then, *line.otherwise)
    return next((source for part in inner if (source := _source_of(part))), "")


def _source_text(form: Form, source: str, lines: list[Line]) -> list[str]:
    name, _, number = source.rpartition(":")
    written = linecache.getline(name, int(number)).strip() if number.isdigit() else ""
    place = f"{Path(name).name}:{number}" if name else "(no line of the rule)"
    return [f"{place}  {written}".rstrip(), *(f"    {text}" for text in _printed(form, lines))]


def _printed(form: Form, lines: list[Line]) -> list[str]:
    """Return lines as Numba compiles them."""
    part = replace(form, name="part", inputs=(), lines=tuple(lines), outputs=())
    body = numba_text([part]).rpartition("def be_part():\n")[2].splitlines()
    return [text.removeprefix("    ") for text in body[:-1]]  # the last one returns nothing


def _results(form: Form) -> list[str]:
    part = replace(form, name="part", inputs=(), lines=())
    returned = numba_text([part]).rpartition("return ")[2].strip()
    return returned.split(", ")
