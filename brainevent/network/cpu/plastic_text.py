# SPDX-License-Identifier: Apache-2.0
"""The text of a plastic projection: what arrives at its synapses in a step, and what else happens to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...scalar.form import Form
from ...scalar.synapse import DECAYED, DELIVERED, SCALED, SPIKED, TracedSynapseRule, forms_of_synapses
from ..plan.plastic import SPIKE, PlasticPlan
from .tables import EVENTS, LINE, LIST, PLASTIC, STRETCH

__all__ = ["ARRIVE", "FINISH", "PlasticText", "Small", "late_dtypes", "plastic_text", "small_of", "words_of_plastic"]

ARRIVE, FINISH = "arrive", "finish"


@dataclass(frozen=True)
class PlasticText:
    """The text of `arrive(table, step, how)` or `finish(table, step, _)`, and the forms that it calls.

    Where events wait, `arrive` brings all synapses up to date if `how` is negative, and does nothing else.
    """

    name: str
    text: str
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Small:
    """The smallest dtypes that hold the numbers of a projection.

    Attributes:
        targets: Of targets.
        entries: Of the places of synapses.
        which: Of the places of their delays among the different ones; None if there is one at most.
    """

    targets: Any
    entries: Any
    which: Any


def small_of(plastic: PlasticPlan) -> Small:
    """Return the smallest dtypes for a projection."""
    entries = np.int32 if plastic.entries < 2**31 else np.int64
    many = plastic.distinct.size
    return Small(plastic.target_dtype, entries, None if many < 2 else np.uint8 if many <= 2**8 else np.uint16)


def late_dtypes(plastic: PlasticPlan, states: Mapping[str, str], dtype: str, *, watched: bool) -> dict[str, str] | None:
    """Return the dtypes of what waits with an event of a target; None if all events act at once.

    Events wait for spikes of the source if there is one rule for events, and nothing but these spikes reads synapses;
    and if 32 bits hold the places of all that wait.
    """
    rules = plastic.rules
    fits = EVENTS * plastic.sizes[1] < 2**31
    if watched or not plastic.at_axon or len(rules.on_post) != 1 or rules.every or not fits:
        return None
    traces = {one.name for one in rules.post}
    ((_, rule),) = rules.on_post
    return {name: dtype if name in traces else states[name] for name in _inputs(rule.form, "post_")}


def words_of_plastic(plastic: PlasticPlan, late: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the words of the table of a plastic projection, of which `late` waits: a name, or a kind and a name."""
    rules = plastic.rules
    words = [
        *PLASTIC._fields,
        "found",
        "what",
        *(f"state:{name}" for name in rules.states),
        *(f"param:{name}" for name in rules.params),
    ]
    for side, traces in (("pre", rules.pre), ("post", rules.post)):
        words.append(f"last:{side}")
        words += [f"{kind}:{side}.{one.name}" for one in traces for kind in ("trace", "factors", "count", "constants")]
    for name, state in rules.carried:
        words += [f"carried:{name}", f"kept:{state}"]
    words += [f"target:{name}" for name in _read_of_target(plastic)]
    if late:
        words += [f"late:{name}" for name in late]
    events = dict.fromkeys([*(event for event, _ in rules.on_post), *[SPIKE] * bool(rules.post)])
    words += [f"event:{event}" for event in events]
    return tuple(dict.fromkeys(words))


def _read_of_target(plastic: PlasticPlan) -> list[str]:
    """Return the states of the target that rules read."""
    traces = {one.name for one in plastic.rules.post}
    read = {name for _, rule in plastic.rules.all for name in _inputs(rule.form, "post_") if name not in traces}
    return sorted(read)


def _inputs(form: Form, prefix: str) -> list[str]:
    return [one.text.removeprefix(prefix) for one in form.inputs if one.text.startswith(prefix)]


class _Writer:
    """Writes the functions of one projection.

    `states` are dtypes of the states of the target. With `watched`, calls of rules whose results are not finite are
    noted: bit k of the word `faulty` is that of rule k.
    """

    def __init__(self, plastic: PlasticPlan, states: Mapping[str, str], dtype: str, *, watched: bool):
        self.plastic, self.rules, self.dtype, self.watched = plastic, plastic.rules, dtype, watched
        self.small = small_of(plastic)
        self.late = late_dtypes(plastic, states, dtype, watched=watched)
        self.words = {name: place for place, name in enumerate(words_of_plastic(plastic, self.late))}
        self.arrays = self._arrays(states)
        self.scalars = {f"p_{name}": (f"param:{name}", dtype) for name in self.rules.params}
        self.functions: list[str] = []
        self.forms: dict[str, Form] = {}

    def _arrays(self, states: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
        """Return all arrays by the names of the text: their words, sizes and dtypes."""
        f, rules, small = self.dtype, self.rules, self.small
        rows = {"pre": f"{'rows' if self.plastic.at_axon else 1} * sources"}
        rows["post"] = f"{1 if self.plastic.at_axon else 'rows'} * size"
        found = {
            "starts": ("starts", "sources * parts + 1", "int64"),
            "distinct": ("distinct", "rows", "int64"),
            "targets": ("targets", "starts[sources * parts]", small.targets.__name__),
            "weights": ("weights", "starts[sources * parts]", f),
            "into": ("into", f"{rows['post']} + 1", "int64"),
            "entries": ("entries", "starts[sources * parts]", small.entries.__name__),
            "origins": ("origins", "starts[sources * parts]", "int32"),
        }
        if small.which is not None:
            found["which"] = ("which", "starts[sources * parts]", small.which.__name__)
        found |= {f"s_{name}": (f"state:{name}", "starts[sources * parts]", f) for name in rules.states}
        for side, traces in (("pre", rules.pre), ("post", rules.post)):
            found[f"last_{side}"] = (f"last:{side}", rows[side], "uint32")
            for one in traces:
                key = f"{side}.{one.name}"
                found[f"{side}_{one.name}"] = (f"trace:{key}", rows[side], f)
                found[f"f_{side}_{one.name}"] = (f"factors:{key}", self._word(f"count:{key}"), f)
                found[f"k_{side}_{one.name}"] = (f"constants:{key}", "2", f)
        for name, state in rules.carried:
            kind = _element(rules.dtypes[name])
            found[f"pre_{name}"] = (f"carried:{name}", rows["pre"], kind)
            found[f"kept_{name}"] = (f"kept:{state}", "slots * sources", kind)
        notes = str(len(rules.all) * (1 + len(rules.states)))
        found |= {"found": ("found", notes, "int64"), "what": ("what", notes, f)}
        for name in _read_of_target(self.plastic):
            found[f"post_{name}"] = (f"target:{name}", "size", _element(states[name]))
        if self.late is not None:
            found |= {"seen": ("seen", rows["pre"], "uint32"), "times": ("times", f"{EVENTS} * size", "uint32")}
            found |= {"held": ("held", "size", "uint8"), "most": ("most", "size", "uint8")}
            found["some"] = ("some", f"{STRETCH}", "int64")
            for name, kind in self.late.items():
                found[f"late_{name}"] = (f"late:{name}", f"{EVENTS} * size", _element(kind))
        return found

    def _word(self, name: str) -> str:
        return f"word(table, {self.words[name]})"

    def form(self, name: str, form: Form) -> str:
        """Return the name of the function of a form, which becomes part of the text."""
        self.forms[name] = replace(form, name=name)
        return f"be_{name}"

    def helper(self, name: str) -> str:
        """Return the name of the function of a form that all projections share."""
        return self.form(name, forms_of_synapses(self.dtype)[name])

    def named_in(self, lines: Sequence[str]) -> list[str]:
        """Return the arrays and scalars that lines read, and numbers that setup defines."""
        words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))
        known = ["sources", "size", "now", *self.arrays, *self.scalars]
        return [name for name in known if name in words]

    def function(self, name: str, own: Sequence[str], body: Sequence[str]) -> str:
        """Write a function, and return its call for arguments of the same names."""
        arguments = [*own, *self.named_in(body)]
        self.functions += [f"def {name}({', '.join(arguments)}):", *(f"    {line}" for line in body), ""]
        return f"{name}({', '.join(arguments)})"

    def setup(self, body: Sequence[str]) -> list[str]:
        """Return the lines that define what a body reads."""
        fields = ("parts", "part", "sources", "size", "rows")
        lines = [f"{name} = word(table, {getattr(PLASTIC, name)})" for name in fields]
        lines += ["now = np.uint32(step)", f"slots = word(word(table, {PLASTIC.spikes}), {LIST.mask}) + 1"]
        for name in ["starts", *(n for n in self.named_in(body) if n in self.arrays and n != "starts")]:
            word, size, dtype = self.arrays[name]
            lines.append(f"{name} = array_at({self._word(word)}, {size}, np.{dtype})")
        for name in (n for n in self.named_in(body) if n in self.scalars):
            word, dtype = self.scalars[name]
            lines.append(f"{name} = array_at({self._word(word)}, 1, np.{dtype})[0]")
        return lines

    # Places of traces of source and target, for a synapse e.

    def at_pre(self, source: str) -> str:
        """Return the place of traces of a source as synapse e sees them."""
        many = self.plastic.at_axon and self.small.which is not None
        return f"np.int64(which[e]) * sources + {source}" if many else source

    def at_post(self, target: str) -> str:
        """Return the place of traces of a target as synapse e sees them."""
        many = not self.plastic.at_axon and self.small.which is not None
        return f"np.int64(which[e]) * size + {target}" if many else target

    def traced(self, side: str, name: str, at: str, now: str = "now") -> str:
        """Return the value of a trace in a step."""
        key = f"{side}_{name}"
        for form in (SCALED, DECAYED):
            self.helper(form)
        return f"decayed_trace({key}[{at}], last_{side}[{at}], {now}, f_{key}, k_{key}[0])"

    def values(self, side: str, form: Form, at: str, neuron: str, now: str = "now") -> list[str]:
        """Return lines that define the inputs of a rule which are of one side, of a neuron with traces at a place."""
        traces = {one.name for one in (self.rules.pre if side == "pre" else self.rules.post)}
        lines = []
        for name in _inputs(form, f"{side}_"):
            if name in traces:
                lines.append(f"x_{side}_{name} = {self.traced(side, name, at, now)}")
            else:
                lines.append(f"x_{side}_{name} = {side}_{name}[{at if side == 'pre' else neuron}]")
        return lines

    def changed(self) -> dict[str, str]:
        """Return what rules change of synapse e, by the names of their inputs."""
        return {"w": "weights[e]"} | {f"s_{name}": f"s_{name}[e]" for name in self.rules.states}

    def called(self, function: str, form: Form) -> list[str]:
        """Return lines that call a rule for synapse e."""
        own = self.changed()
        given = [
            own.get(one.text) or (one.text if one.text in self.scalars else f"x_{one.text}") for one in form.inputs
        ]
        new = ["new_w", *(f"new_{name}" for name in self.rules.states)]
        lines = [f"{', '.join(new)} = {function}({', '.join(given)})"]
        lines += [f"{array} = {value}" for array, value in zip(own.values(), new, strict=True)]
        if self.watched:
            lines += [f"bad |= ({value} - {value}) != 0" for value in new]
        return lines

    def walk(
        self, name: str, rule: TracedSynapseRule, own: Sequence[str], fixed: Sequence[str], each: Sequence[str]
    ) -> str:
        """Write a function that calls a rule for synapses; its call says whether a result is not finite."""
        function = self.form(name, rule.form)
        body = [
            *fixed,
            "bad = False",
            "for k in range(begin, end):",
            *(f"    {line}" for line in (*each, *self.called(function, rule.form))),
            "return bad",
        ]
        return self.function(f"walk_{name}", ["begin", "end", *own], body)

    def of_source(self, name: str, rule: TracedSynapseRule, *, stretch: bool) -> str:
        """Write a walk along synapses of `source`; those of a `stretch` have the traces at the place `at`."""
        pre = self.values("pre", rule.form, "at" if stretch else self.at_pre("source"), "source")
        varies = not stretch and self.plastic.at_axon and self.small.which is not None
        each = ["e = k", "target = np.int64(targets[e])", f"there = {self.at_post('target')}"]
        each += (pre if varies else []) + self.values("post", rule.form, "there", "target")
        return self.walk(name, rule, ["source", "at"], [] if varies else pre, each)

    def of_target(self, name: str, rule: TracedSynapseRule) -> str:
        """Write a walk along synapses of `target`, whose traces are at the place `there`."""
        fixed = self.values("post", rule.form, "there", "target")
        each = self.entry()
        if _inputs(rule.form, "pre_"):
            each += ["source = np.int64(origins[k])", f"at = {self.at_pre('source')}"]
            each += self.values("pre", rule.form, "at", "source")
        return self.walk(name, rule, ["target", "there"], fixed, each)

    def entry(self) -> list[str]:
        """Return lines that define synapse e, number k of a target: they are far from each other in memory."""
        lines = [f"ahead = np.int64(entries[min(k + {_AHEAD}, end - 1)])", "prefetch(weights, ahead)"]
        return [*lines, *(f"prefetch(s_{name}, ahead)" for name in self.rules.states), "e = np.int64(entries[k])"]

    # Events that wait for a spike of the source, which brings its synapses up to date.

    def waited(self) -> list[str]:
        """Return lines that let one event act, of which `event` is the place, on synapse e."""
        ((_, rule),) = self.rules.on_post
        lines = ["then = times[event]", *self.values("pre", rule.form, "at", "source", "then")]
        lines += [f"x_post_{name} = late_{name}[event]" for name in _inputs(rule.form, "post_")]
        return [*lines, *self.called(self.form("on_post_0", rule.form), rule.form)]

    def late_of_source(self) -> str:
        """Write a walk that lets what waits act on synapses of `source`: turn by turn, one event of each of them."""
        body = [
            "since, span = seen[at], np.uint32(now - seen[at])",
            f"for first in range(begin, end, {STRETCH}):",
            "    many = np.int64(0)",
            f"    for k in range(min({STRETCH}, end - first)):",
            "        target = np.int64(targets[first + k])",
            f"        count = count_within(times, {EVENTS} * target, np.uint32(held[target]), since, span)",
            f"        event = {EVENTS} * target + np.int64(held[target]) - count",
            "        some[many] = event << 32 | k << 16 | count",
            "        many += np.int64(count > 0)",
            "    while many > 0:",
            "        again = np.int64(0)",
            "        for turn in range(many):",
            "            own = some[turn]",
            "            e, event = first + (own >> 16 & 0xFFFF), own >> 32",
            *(f"            {line}" for line in self.waited()),
            "            some[again] = own + 0xFFFFFFFF",
            "            again += np.int64(own & 0xFFFF > 1)",
            "        many = again",
        ]
        return self.function("late_of_source", ["begin", "end", "source", "at"], body)

    def late_of_target(self) -> str:
        """Write a walk that lets what waits act on all synapses of `target`."""
        body = [
            f"last = {EVENTS} * target + np.int64(held[target])",
            "for k in range(begin, end):",
            *(f"    {line}" for line in self.entry()),
            "    source = np.int64(origins[k])",
            f"    at = {self.at_pre('source')}",
            "    since, span = seen[at], np.uint32(now - seen[at])",
            f"    count = count_within(times, {EVENTS} * target, np.uint32(held[target]), since, span)",
            "    for event in range(last - count, last):",
            *(f"        {line}" for line in self.waited()),
        ]
        return self.function("late_of_target", ["begin", "end", "target"], body)

    def wait(self) -> list[str]:
        """Return lines that let an event of `target` wait; if its place was the last one, all that waits acts."""
        ((_, rule),) = self.rules.on_post
        return [
            f"event = {EVENTS} * target + np.int64(held[target])",
            "times[event] = now",
            *self.values("post", rule.form, "there", "target"),
            *(f"late_{name}[event] = x_post_{name}" for name in _inputs(rule.form, "post_")),
            "held[target] += np.uint8(1)",
            "if held[target] >= most[target]:",
            "    begin, end = into[target], into[target + 1]",
            f"    {self.late_of_target()}",
            "    held[target] = np.uint8(0)",
        ]

    def up_to_date(self, late: str) -> list[str]:
        """Return lines that bring all synapses of this part up to date, if that is all to be done."""
        inner = [*self.reached(), late]
        return [
            "if how < 0:",
            "    for source in range(sources):",
            "        for row in range(rows):",
            *(f"            {line}" for line in inner),
            "    return 0",
        ]

    def reached(self) -> list[str]:
        """Return lines that define the synapses of `source` with the delay of `row`, and the place of its traces."""
        lines = ["at = row * sources + source", _ROW]
        return lines if self.small.which is None else [*lines, "begin, end = stretch(which, begin, end, row)"]

    def spiked(self, side: str, at: str) -> list[str]:
        """Return lines that let traces at a place take a spike."""
        lines = []
        for one in self.rules.pre if side == "pre" else self.rules.post:
            key = f"{side}_{one.name}"
            add = f"k_{key}[1]"
            if not one.nearest:
                add = f"{self.helper(SPIKED)}({key}[{at}], last_{side}[{at}], now, k_{key}[0], {add})"
            lines.append(f"{key}[{at}] = {add}")
        return [*lines, f"last_{side}[{at}] = now"] if lines else []

    def of_spikes(self, delay: str, *, axon: bool, late: str = "") -> list[str]:
        """Return lines for all spikes of the source of step `step - delay`: they are delivered, and change synapses."""
        rule = self.rules.on_pre
        deliver = self.function(
            "deliver",
            ["begin", "end", "ring", "place", *([] if axon else ["mask", "ring_row", "step"]), "per_unit"],
            self._deliver(axon=axon),
        )
        inner = ["source = np.int64(spikes[k])", *(self.reached() if axon else ["at = source", _ROW])]
        inner += [*([late, "seen[at] = now"] if late else []), deliver]
        for name, _ in self.rules.carried:
            inner.append(f"pre_{name}[at] = kept_{name}[((step - {delay}) & (slots - 1)) * sources + source]")
        if rule is not None:
            inner += self.noted(self.of_source("on_pre", rule, stretch=True), 0)
        inner += self.spiked("pre", "at")
        return [
            "for other in range(parts):",
            f"    line = word(table, {PLASTIC.spikes}) + {8 * LINE} * other",
            f"    count = count_of(line, step - {delay})",
            f"    spikes = spikes_of(line, step - {delay}, count)",
            "    for k in range(count):",
            *(f"        {line}" for line in inner),
        ]

    def _deliver(self, *, axon: bool) -> list[str]:
        deliver = self.helper(DELIVERED)
        row = "0" if self.small.which is None else "np.int64(which[e])"
        later = f"place = ((step + distinct[{row}]) & mask) * ring_row"
        return [
            "for e in range(begin, end):",
            *([] if axon else [f"    {later}"]),
            f"    ring[place + np.int64(targets[e])] += {deliver}(weights[e], per_unit)",
        ]

    def noted(self, call: str, rule: int, entry: str = "k") -> list[str]:
        """Return lines that call a walk, and note faults if they are watched; `entry` is that of its place k.

        Of each number that rule k changes, `found` has 1 plus the first entry, and `what` the number.
        """
        if not self.watched:
            return [call]
        body = ["for k in range(begin, end):", f"    e = np.int64({entry})"]
        for place, number in enumerate(self.changed().values(), rule * (1 + len(self.rules.states))):
            body += [
                f"    if ({number} - {number}) != 0 and (found[{place}] == 0 or e + 1 < found[{place}]):",
                f"        found[{place}], what[{place}] = e + 1, {number}",
            ]
        note = self.function(f"note_{rule}", ["begin", "end"], body)
        return [f"if {call}:", f"    faults |= {1 << rule}", f"    {note}"]

    def ring(self) -> list[str]:
        """Return the lines that define where sums are."""
        return [
            f"mask, ring_row = word(table, {PLASTIC.mask}), word(table, {PLASTIC.row})",
            f"first = word(table, {PLASTIC.ring}) + word(table, {PLASTIC.shift})",
            "ring = array_at(first, (mask + 1) * ring_row, np.int32)",
            f"per_unit = array_at(word(table, {PLASTIC.per_unit}), 1, np.{self.dtype})[0]",
        ]

    def arrive(self) -> list[str]:
        """Return the body of `arrive`: at the axon, spikes reach synapses after their delays."""
        late = self.late_of_source() if self.late is not None else ""
        spikes = self.of_spikes("delay", axon=True, late=late)
        return [
            *(self.up_to_date(late) if late else []),
            *self.ring(),
            "place = (step & mask) * ring_row",
            "for row in range(rows):",
            "    delay = distinct[row]",
            *(f"    {line}" for line in spikes),
        ]

    def finish(self) -> list[str]:
        """Return the body of `finish`: all that happens after the neurons of a step were updated."""
        axon, rules = self.plastic.at_axon, self.rules
        lines = [] if axon else [*self.ring(), "place = 0", *self.of_spikes("0", axon=False)]
        first = int(rules.on_pre is not None)
        if self.late is not None:
            lines += self.of_event(rules.on_post[0][0], self.wait())
        for k, (event, rule) in enumerate(rules.on_post if self.late is None else ()):
            call = self.of_target(f"on_post_{k}", rule)
            place = "target" if axon else "target * rows + row"
            inner = [f"begin, end = into[{place}], into[{place} + 1]"]
            lines += self.of_event(event, [*inner, *self.noted(call, first + k, "entries[k]")])
        if rules.post:
            lines += self.of_event(SPIKE, self.spiked("post", "there"))
        for k, (steps, rule) in enumerate(rules.every):
            call = self.of_source(f"every_{k}", rule, stretch=False)
            inner = ["at = source", _ROW, *self.noted(call, first + len(rules.on_post) + k)]
            lines += [
                f"if (step + 1) % {steps} == 0:",
                "    for source in range(sources):",
                *(f"        {line}" for line in inner),
            ]
        return lines

    def of_event(self, event: str, inner: Sequence[str]) -> list[str]:
        """Return lines for all neurons of this part whose event reaches synapses now, with traces at `there`."""
        at = "0" if self.plastic.at_axon else "distinct[row]"
        there = "target" if self.plastic.at_axon else "row * size + target"
        lines = [
            f"line = {self._word(f'event:{event}')} + {8 * LINE} * part",
            f"count = count_of(line, step - {at})",
            f"acting = spikes_of(line, step - {at}, count)",
            "for k in range(count):",
            "    target = np.int64(acting[k])",
            f"    there = {there}",
            *(f"    {line}" for line in inner),
        ]
        return lines if self.plastic.at_axon else ["for row in range(rows):", *(f"    {line}" for line in lines)]

    def written(self, name: str) -> PlasticText:
        """Return the text of a function."""
        body = getattr(self, name)()
        if self.watched:
            body = ["faults = np.int64(0)", *body, *_FAULTS]
        lines = [*self.setup([*body, *self.functions]), *body, "return 0"]
        whole = [*self.functions, f"def {name}(table, step, how):", *(f"    {line}" for line in lines)]
        return PlasticText(name, "\n".join(whole) + "\n", tuple(self.forms.values()))


_AHEAD = 24  # synapses between asking for one and changing it
_ROW = "begin, end = starts[source * parts + part], starts[source * parts + part + 1]"
_FAULTS = ("if faults != 0:", f"    at = word(table, {PLASTIC.faulty})", "    put(at, 0, word(at, 0) | faults)")


def _element(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def plastic_text(
    name: str, plastic: PlasticPlan, states: Mapping[str, str], dtype: str, *, watched: bool
) -> PlasticText | None:
    """Return the text of `arrive` or `finish` for a projection; None if it has nothing to do.

    Args:
        name: Which of both.
        plastic: The projection.
        states: The dtypes of the states of its target.
        dtype: That of floats.
        watched: Whether results that are not finite are noted.

    Returns:
        The text, for tables of the words that `words_of_plastic` returns.
    """
    if name == ARRIVE and not plastic.at_axon:
        return None
    return _Writer(plastic, states, dtype, watched=watched).written(name)
