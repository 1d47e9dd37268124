# SPDX-License-Identifier: Apache-2.0
"""Write the functions of one plastic projection: names that bodies use, what rules read, and calls of rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...scalar.form import Form
from ...scalar.synapse import TracedSynapseRule
from ..plan.plan import Plan
from ..plan.plastic import VALUE, PlasticPlan
from .plastic_layout import PlasticLayout
from .plastic_words import PlasticWords
from .text import value_of

__all__ = ["OF_BLOCK", "OF_SOME", "OF_THREAD", "PLACE", "TARGET", "Writer"]

OF_BLOCK = "const Net& net, const Ring& ring, u32 block, u32 t"
OF_THREAD = "const Net& net, const Ring& ring, u32 block, u32 tid, u32 t"
OF_SOME = f"{OF_THREAD}, u32 threads"
TARGET = ("const u32 own = fixed(targets + e), place = first + own;",)  # among targets of the block; in the block
PLACE = ("const u32 place = (neuron + first_number) / all_blocks(net), own = place - first;",)
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "u32"}
_TYPES = {"float32": "float", "int32": "int", "uint32": "u32", "bool": "bool"}
_WORDS = re.compile(r"(?<![\w.])[^\W\d]\w*")


class Writer:
    """Writes the text of one projection, of a number."""

    def __init__(self, number: int, plan: Plan, plastic: PlasticPlan, layout: PlasticLayout, words: PlasticWords):
        self.number, self.plan, self.plastic, self.layout, self.words = number, plan, plastic, layout, words
        self.rules, self.forms = plastic.rules, list[Form]()
        self.many = layout.which is not None
        self.axon, self.deferred = plastic.at_axon, layout.deferred
        states = plan.population(plastic.target).state
        self._post = {name: (place, array.dtype.name) for place, (name, array) in enumerate(states.items())}
        self._known = self._definitions()

    def at(self, *name: str) -> int:
        """Return the place of a word of this projection in the table."""
        return self.words.of("projection", self.plastic.name, *name)

    def _definitions(self) -> dict[str, str]:
        """Return the lines that define names which bodies may use, in an order in which they can stand."""
        found = {
            name: f"const u32 {name} = (u32)word_of(net, {self.at(name)});"
            for name in ("sources", "size", "rows", "reach", "first_number", "places", "entry_bits")
        }
        found["first"] = "const u32 first = (first_number + all_blocks(net) - 1 - block) / all_blocks(net);"
        found["per_unit"] = f"const float per_unit = float_of(net, {self.at('per_unit')});"
        found["base"] = f"const Place base = INSIDE ? 0 : array_of<const u64>(net, {self.at('bases')})[block];"
        found["starts"] = self._array("starts", "const u32", "(u64)block * (sources + 1)")
        found["distinct"] = self._array("distinct", "const u32")
        for name, array in self.layout.arrays.items():
            if name in ("targets", "which", "incoming", "more"):
                found[name] = self._array(name, f"const {_UNSIGNED[array.itemsize]}")
        found["into"] = self._array("into", "const u32", f"(u64)block * (places{self.times_rows} + 1)")
        found["weights"] = self._array("weights", "float")
        found |= {f"s_{name}": self._array(f"s_{name}", "float", of=("s", name)) for name in self.rules.states}
        for name in self.rules.params:
            found[f"p_{name}"] = f"const float p_{name} = float_of(net, {self.at('p', name)});"
        own = "(u64)block * " + ("rows * sources" if self.axon else "sources")
        of_targets = "(u64)block * " + ("places" if self.axon else "rows * places")
        for name, kind, shift in (("newest", "uint4", ""), ("steps", "u32", " * HISTORY")) if self.deferred else ():
            found[name] = self._array(name, kind, of_targets + shift)
        for side, traces, shift in (("pre", self.rules.pre, own), ("post", self.rules.post, of_targets)):
            found[f"last_{side}"] = self._array(f"last_{side}", "u32", shift, of=("last", side))
            for one in traces:
                key, of = f"{side}_{one.name}", f"{side}.{one.name}"
                found[key] = self._array(key, "float", shift, of=("trace", of))
                for kind in ("rate", "add"):
                    found[f"{kind}_{key}"] = f"const float {kind}_{key} = float_of(net, {self.at(kind, of)});"
        for name, state in self.rules.carried:
            found[f"pre_{name}"] = self._array(f"pre_{name}", "u32", own, of=("carried", name))
            found[f"kept_{name}"] = self._kept(f"kept_{name}", f"state.{state}")
        if self.plastic.graded:
            found["values"] = self._kept("values", VALUE)
        return found

    @property
    def _pinned(self) -> set[str]:
        """Return the names of arrays that are read for each synapse."""
        traces = {f"{side}_{one.name}" for side in ("pre", "post") for one in getattr(self.rules, side)}
        carried = {f"pre_{name}" for name, _ in self.rules.carried}
        return {"weights", "targets", "newest", "last_pre", "last_post"} | traces | carried

    def _kept(self, name: str, number: str) -> str:
        """Return the line that defines what travels with spikes: a state, or the value."""
        return (
            f"const u32* const {name} = array_of<const u32>(net, {self.words.of('kept', self.plastic.source, number)});"
        )

    def _array(self, name: str, kind: str, shift: str = "0", of: tuple[str, ...] = ()) -> str:
        return f"{kind}* const {name} = own_array<{kind}>(net, {self.at(*(of or (name,)))}, {shift});"

    @property
    def times_rows(self) -> str:
        """How many lines of the second index a target has: what follows its number, if these are several."""
        return " * rows" if self.many and not self.axon else ""

    def function(
        self, name: str, parameters: str, body: Sequence[str], kind: str = "void", *, pins: bool = False
    ) -> str:
        """Return a function of this projection, with the names that its body uses.

        If it `pins`, addresses of arrays that it reads for each synapse stay in registers.
        """
        words, defined = set(_WORDS.findall("\n".join(body))), []
        for key, line in reversed(self._known.items()):
            if key in words:
                defined.append(_pinned(key, line) if pins and key in self._pinned else line)
                words |= {*_WORDS.findall(line)}
        lines = [*reversed(defined), *body]
        head = f"BE {kind} {name}{self.number}({parameters}) {{"
        return "\n".join([head, *(f"    {line}" for line in lines), "}", ""])

    # Values that rules read.

    def at_pre(self, source: str) -> str:
        """Return the place of traces of a source as synapse e sees them."""
        return f"fixed(which + e) * sources + {source}" if self.axon and self.many else source

    def at_post(self, target: str) -> str:
        """Return the place of traces of a target, given its place among those of the block, as synapse e sees them."""
        return f"fixed(which + e) * places + {target}" if not self.axon and self.many else target

    def type_of(self, dtype: str) -> str:
        """Return the name of a type."""
        return _TYPES[dtype]

    def values(self, side: str, form: Form, at: str, *, arriving: bool = False) -> list[str]:
        """Return lines that define what a rule reads of one side, with traces at a place.

        States of a target are those of the neuron in `place`; what travels with a spike is that of the spike, where
        it is `arriving`.
        """
        traces = {one.name for one in (self.rules.pre if side == "pre" else self.rules.post)}
        lines = []
        for given in form.inputs:
            kind, _, name = given.text.partition("_")
            if kind != side:
                continue
            if name in traces:
                key = f"{side}_{name}"
                value = f"be_decayed({key}[{at}], last_{side}[{at}], t, rate_{key})"
            elif side == "pre":
                value = value_of(self.arriving(f"kept_{name}") if arriving else f"pre_{name}[{at}]", given.dtype)
            else:
                word = f"net.states[(u64){self._post[name][0]} * all_blocks(net) * net.per + block * net.per + place]"
                value = value_of(word, given.dtype)
            lines.append(f"const {_TYPES[given.dtype]} x_{side}_{name} = {value};")
        return lines

    def arriving(self, kept: str) -> str:
        """Return the word of what travels with the spike that arrives, given where that is kept."""
        number = self.words.list_of(self.plastic.source)
        delay = "fixed(distinct + row)" if self.axon else "0"
        return f"{kept}[(u64)((t - {delay}) & list_of(net, {number}).mask) * sources + source]"

    def called(self, name: str, rule: TracedSynapseRule, own: dict[str, str] | None = None) -> list[str]:
        """Return lines that call a rule for synapse e, and where its weight and states go: to their arrays."""
        form = replace(rule.form, name=f"plastic{self.number}_{name}")
        if form not in self.forms:
            self.forms.append(form)
        own = own or {"w": "weights[e]"} | {f"s_{name}": f"s_{name}[e]" for name in self.rules.states}
        given = [x.text if x.text == "w" or x.text.startswith("p_") else f"x_{x.text}" for x in form.inputs]
        new = [f"new_{k}" for k in range(len(own))]
        if len(new) == 1:
            lines = [f"const float new_0 = be_{form.name}({', '.join(given)});"]
        else:
            lines = [f"float {', '.join(new)};", f"be_{form.name}({', '.join([*given, *new])});"]
        lines += [f"{array} = {value};" for array, value in zip(own.values(), new, strict=True)]
        if self.deferred:  # not where synapses are watched
            return lines
        strange = " || ".join(f"is_strange({value})" for value in new)
        return [*lines, f"if (CHECKED) strange = strange || {strange};"]

    def loaded(self) -> list[str]:
        """Return lines that read weight and states of synapse e: before all else, since memory is far away."""
        states = [f"const float x_s_{name} = s_{name}[e];" for name in self.rules.states]
        return [f"const float w = {'later.w[j]' if self.deferred else 'weights[e]'};", *states]

    def noted(self, rule: int) -> str:
        """Return the line that notes that a result of a rule was not finite."""
        return f"if (CHECKED && strange) or_for_all(array_of<u64>(net, {self.at('faults')}), {1 << rule}ull);"

    def rule(self, called: str, k: int) -> int:
        """Return the number of a rule among all."""
        before = int(self.rules.on_pre is not None) + (len(self.rules.on_post) if called == "every" else 0)
        return before + k

    def spiked(self, side: str, at: str) -> list[str]:
        """Return lines that let traces at a place take a spike."""
        lines = []
        for one in self.rules.pre if side == "pre" else self.rules.post:
            key = f"{side}_{one.name}"
            new = f"be_spiked({key}[{at}], last_{side}[{at}], t, rate_{key}, add_{key})"
            lines.append(f"{key}[{at}] = {f'add_{key}' if one.nearest else new};")
        return [*lines, f"last_{side}[{at}] = t;"] if lines else []


def _pinned(name: str, line: str) -> str:
    """Return the definition of an array whose address stays in registers.

    The compiler would add where a block begins to the index of each element, in 64 bits.
    """
    return line.replace(f"* const {name} =", f"* {name} =") + f" pin({name});"
