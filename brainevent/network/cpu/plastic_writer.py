# SPDX-License-Identifier: Apache-2.0
"""`Writer`: the words of which the text of a plastic projection consists: its arrays, traces and calls of rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...scalar.form import Form
from ...scalar.synapse import DECAYED, SCALED, TracedSynapseRule, forms_of_synapses
from ..plan.plastic import PlasticPlan
from .plastic_words import decays_in, inputs_of, late_dtypes, read_of_target, small_of, words_of_plastic
from .tables import EVENTS, LIST, PLASTIC, STRETCH

__all__ = ["ROW", "Writer"]

ROW = "begin, end = starts[source * parts + part], starts[source * parts + part + 1]"
_AHEAD = 24  # synapses between asking for one and changing it


class Writer:
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
        f, small = self.dtype, self.small
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
            "units": ("units", f"{STRETCH}", "int32"),
        }
        if small.which is not None:
            found["which"] = ("which", "starts[sources * parts]", small.which.__name__)
        found |= {f"s_{name}": (f"state:{name}", "starts[sources * parts]", f) for name in self.rules.states}
        found |= self._arrays_of_traces(rows)
        if self.plastic.graded:
            found["values"] = ("values", "slots * sources", f)
        notes = str(len(self.rules.all) * (1 + len(self.rules.states)))
        found |= {"found": ("found", notes, "int64"), "what": ("what", notes, f)}
        for name in read_of_target(self.plastic):
            found[f"post_{name}"] = (f"target:{name}", "size", _element(states[name]))
        return found | self._arrays_of_late_calls(rows["pre"])

    def _arrays_of_traces(self, rows: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
        """Return the arrays of traces on both sides, and of states that travel with spikes."""
        f, found = self.dtype, {}
        for side, traces in (("pre", self.rules.pre), ("post", self.rules.post)):
            found[f"last_{side}"] = (f"last:{side}", rows[side], "uint32")
            for one in traces:
                key = f"{side}.{one.name}"
                found[f"{side}_{one.name}"] = (f"trace:{key}", rows[side], f)
                found[f"f_{side}_{one.name}"] = (f"factors:{key}", self._word(f"count:{key}"), f)
                found[f"k_{side}_{one.name}"] = (f"constants:{key}", "2", f)
        for name, state in self.rules.carried:
            kind = _element(self.rules.dtypes[name])
            found[f"pre_{name}"] = (f"carried:{name}", rows["pre"], kind)
            found[f"kept_{name}"] = (f"kept:{state}", "slots * sources", kind)
        return found

    def _arrays_of_late_calls(self, rows: str) -> dict[str, tuple[str, str, str]]:
        """Return the arrays of events of the target whose calls wait for a spike of the source, if they do."""
        if self.late is None:
            return {}
        found = {"seen": ("seen", rows, "uint32"), "times": ("times", f"{EVENTS} * size", "uint32")}
        found |= {"held": ("held", "size", "uint8"), "most": ("most", "size", "uint8")}
        found["some"] = ("some", f"{STRETCH}", "uint64")
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

    def reached(self) -> list[str]:
        """Return lines that define the synapses of `source` with the delay of `row`, and the place of its traces."""
        lines = ["at = row * sources + source", ROW]
        return lines if self.small.which is None else [*lines, "begin, end = stretch(which, begin, end, row)"]

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
        (one,) = (one for one in (self.rules.pre if side == "pre" else self.rules.post) if one.name == name)
        self.helper(SCALED)
        given = f"{key}[{at}], last_{side}[{at}], {now}, f_{key}"
        if decays_in(one, self.dtype) is not None:
            return f"trace_of_factors({given})"
        self.helper(DECAYED)
        return f"decayed_trace({given}, k_{key}[0])"

    def values(self, side: str, form: Form, at: str, neuron: str, now: str = "now") -> list[str]:
        """Return lines that define the inputs of a rule which are of one side, of a neuron with traces at a place."""
        traces = {one.name for one in (self.rules.pre if side == "pre" else self.rules.post)}
        lines = []
        for name in inputs_of(form, f"{side}_"):
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
            "for k in range(np.uint64(begin), np.uint64(end)):",
            *(f"    {line}" for line in (*each, *self.called(function, rule.form))),
            "return bad",
        ]
        return self.function(f"walk_{name}", ["begin", "end", *own], body)

    def entry(self) -> list[str]:
        """Return lines that define synapse e, number k of a target: they are far from each other in memory."""
        ahead = f"entries[min(k + np.uint64({_AHEAD}), np.uint64(end - 1))]"
        lines = [f"ahead = np.int64({ahead})", "prefetch(weights, ahead)"]
        return [*lines, *(f"prefetch(s_{name}, ahead)" for name in self.rules.states), "e = np.int64(entries[k])"]

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


def _element(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
