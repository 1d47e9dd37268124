# SPDX-License-Identifier: Apache-2.0
"""The text of a network's plastic synapses: what arrives at them in a step, and what else happens to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...scalar.form import Form
from ...scalar.synapse import DECAYED, DELIVERED, SPIKED, TracedSynapseRule, forms_of_synapses
from ..plan.plan import Plan
from ..plan.plastic import SPIKE, PlasticPlan
from .plastic_layout import PlasticLayout
from .plastic_words import PlasticWords
from .text import PlasticText, value_of

__all__ = ["plastic_text"]

_SYNAPSES = "const Net& net, const Ring& ring, const Reached& spike, u32 block, u32 t, u32 lane, u32 lanes"
_SETTLED = "const Net& net, const Reached& spike, u32 block, u32 t"
_OF_BLOCK = "const Net& net, const Ring& ring, u32 block, u32 t"
_OF_STEP = "const Net& net, Desk& desk, const Ring& ring, u32 block, u32 t"
_OF_SPIKE = "const Net& net, u32 source, u32 row, u32 block, u32 t"
_OF_THREAD = "const Net& net, const Ring& ring, u32 block, u32 tid, u32 t"


class _Writer:
    """Writes the text of one projection, of a number."""

    def __init__(self, number: int, plan: Plan, plastic: PlasticPlan, layout: PlasticLayout, words: PlasticWords):
        self.number, self.plan, self.plastic, self.layout, self.words = number, plan, plastic, layout, words
        self.rules, self.forms = plastic.rules, list[Form]()
        self.beside = list[_Writer]()  # projections of which this one gathers spikes
        self.many = layout.which is not None
        self.axon = plastic.at_axon
        states = plan.population(plastic.target).state
        self._post = {name: (place, array.dtype.name) for place, (name, array) in enumerate(states.items())}
        self._known = self._definitions()

    def _at(self, *name: str) -> int:
        return self.words.of("projection", self.plastic.name, *name)

    def _definitions(self) -> dict[str, str]:
        """Return the lines that define names which bodies may use, in an order in which they can stand."""
        found = {
            name: f"const u32 {name} = (u32)word_of(net, {self._at(name)});"
            for name in ("sources", "size", "rows", "reach", "first_number", "places", "entry_bits")
        }
        found["first"] = "const u32 first = (first_number + net.blocks - 1 - block) / net.blocks;"
        found["per_unit"] = f"const float per_unit = float_of(net, {self._at('per_unit')});"
        found["base"] = f"const u64 base = array_of<const u64>(net, {self._at('bases')})[block];"
        found["starts"] = self._array("starts", "const u32", "(u64)block * (sources + 1)")
        found["distinct"] = self._array("distinct", "const u32")
        for name, array in self.layout.arrays.items():
            if name in ("targets", "which", "incoming", "more"):
                found[name] = self._array(name, f"const {_UNSIGNED[array.itemsize]}")
        found["into"] = self._array("into", "const u32", f"(u64)block * (places{self._times_rows()} + 1)")
        found["weights"] = self._array("weights", "float")
        found |= {f"s_{name}": self._array(f"s_{name}", "float", of=("s", name)) for name in self.rules.states}
        for name in self.rules.params:
            found[f"p_{name}"] = f"const float p_{name} = float_of(net, {self._at('p', name)});"
        own = "(u64)block * " + ("rows * sources" if self.axon else "sources")
        for side, traces, shift in (("pre", self.rules.pre, own), ("post", self.rules.post, "0")):
            found[f"last_{side}"] = self._array(f"last_{side}", "u32", shift, of=("last", side))
            for one in traces:
                key, of = f"{side}_{one.name}", f"{side}.{one.name}"
                found[key] = self._array(key, "float", shift, of=("trace", of))
                for kind in ("rate", "add"):
                    found[f"{kind}_{key}"] = f"const float {kind}_{key} = float_of(net, {self._at(kind, of)});"
        for name, state in self.rules.carried:
            found[f"pre_{name}"] = self._array(f"pre_{name}", "u32", own, of=("carried", name))
            place = self.words.of("kept", self.plastic.source, state)
            found[f"kept_{name}"] = f"const u32* const kept_{name} = array_of<const u32>(net, {place});"
        return found

    def _array(self, name: str, kind: str, shift: str = "0", of: tuple[str, ...] = ()) -> str:
        added = "" if shift == "0" else f" + {shift}"
        return f"{kind}* const {name} = array_of<{kind}>(net, {self._at(*(of or (name,)))}){added};"

    def _times_rows(self) -> str:
        return " * rows" if self.many and not self.axon else ""

    def function(self, name: str, parameters: str, body: Sequence[str], kind: str = "void") -> str:
        """Return a function of this projection, with the names that its body uses."""
        words, defined = set(_WORDS.findall("\n".join(body))), []
        for key, line in reversed(self._known.items()):
            if key in words:
                defined.append(line)
                words |= {*_WORDS.findall(line)}
        lines = [*reversed(defined), *body]
        head = f"BE {kind} {name}{self.number}({parameters}) {{"
        return "\n".join([head, *(f"    {line}" for line in lines), "}", ""])

    # Values that rules read.

    def at_pre(self, source: str) -> str:
        """Return the place of traces of a source as synapse e sees them."""
        return f"fixed(which + e) * sources + {source}" if self.axon and self.many else source

    def at_post(self, target: str) -> str:
        """Return the place of traces of a target as synapse e sees them."""
        return f"fixed(which + e) * size + {target}" if not self.axon and self.many else target

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
                value = value_of(self._kept(name) if arriving else f"pre_{name}[{at}]", given.dtype)
            else:
                word = f"net.states[(u64){self._post[name][0]} * net.blocks * net.per + block * net.per + place]"
                value = value_of(word, given.dtype)
            lines.append(f"const {_TYPES[given.dtype]} x_{side}_{name} = {value};")
        return lines

    def _kept(self, name: str) -> str:
        """Return the word of a state that travels with the spike that arrives."""
        number = self.words.list_of(self.plastic.source)
        delay = "fixed(distinct + row)" if self.axon else "0"
        return f"kept_{name}[(u64)((t - {delay}) & list_of(net, {number}).mask) * sources + source]"

    def called(self, name: str, rule: TracedSynapseRule) -> list[str]:
        """Return lines that call a rule for synapse e."""
        form = replace(rule.form, name=f"plastic{self.number}_{name}")
        self.forms.append(form)
        own = {"w": "weights[e]"} | {f"s_{name}": f"s_{name}[e]" for name in self.rules.states}
        given = [x.text if x.text == "w" or x.text.startswith("p_") else f"x_{x.text}" for x in form.inputs]
        new = [f"new_{k}" for k in range(len(own))]
        if len(new) == 1:
            lines = [f"const float new_0 = be_{form.name}({', '.join(given)});"]
        else:
            lines = [f"float {', '.join(new)};", f"be_{form.name}({', '.join([*given, *new])});"]
        lines += [f"{array} = {value};" for array, value in zip(own.values(), new, strict=True)]
        strange = " || ".join(f"is_strange({value})" for value in new)
        return [*lines, f"if (CHECKED) strange = strange || {strange};"]

    def loaded(self) -> list[str]:
        """Return lines that read weight and states of synapse e: before all else, since memory is far away."""
        states = [f"const float x_s_{name} = s_{name}[e];" for name in self.rules.states]
        return ["const float w = weights[e];", *states]

    def noted(self, rule: int) -> str:
        """Return the line that notes that a result of a rule was not finite."""
        return f"if (CHECKED && strange) or_for_all(array_of<u64>(net, {self._at('faults')}), {1 << rule}ull);"

    def spiked(self, side: str, at: str) -> list[str]:
        """Return lines that let traces at a place take a spike."""
        lines = []
        for one in self.rules.pre if side == "pre" else self.rules.post:
            key = f"{side}_{one.name}"
            new = f"be_spiked({key}[{at}], last_{side}[{at}], t, rate_{key}, add_{key})"
            lines.append(f"{key}[{at}] = {f'add_{key}' if one.nearest else new};")
        return [*lines, f"last_{side}[{at}] = t;"] if lines else []

    # What happens to synapses.

    def gather(self) -> str:
        """Return `gather`, by which threads queue the spikes that reach synapses in a step.

        It does so for all projections in which spikes of the same neurons arrive in the same steps.
        """
        row = "row" if self.axon else "0"
        inner = [f"reach{one.number}(net, source, {row}, block, t);" for one in self.beside]
        return self.function("gather", _OF_THREAD, self.of_spikes("counted_from(tid, 3)", "ACTING * 32", inner))

    def reach(self) -> str:
        """Return `reach`, by which a thread queues a spike."""
        body = [f"enqueue({{source, row | {self.number}u << 16 | FIRST, 0, 0}}, begin, end, t);", *self.asked()]
        return self.function("reach", _OF_SPIKE, self.reached(body))

    def arrives_with(self, other: _Writer) -> bool:
        """Whether spikes reach synapses of both projections in the same steps."""
        ours, theirs = self.plastic, other.plastic
        same = self.axon == other.axon and ours.source == theirs.source
        return same and (not self.axon or np.array_equal(ours.distinct, theirs.distinct))

    def asked(self) -> list[str]:
        """Return lines that ask for what a spike will need, if it acts in a later step than this one."""
        at = "row * sources + source" if self.axon else "source"
        arrays = ["weights", "targets", *(f"s_{name}" for name in self.rules.states)]
        lines = [f"for (u64 e = base + begin; e < base + end; e += 32) ask_for({name} + e);" for name in arrays]
        traces = [f"ask_for(pre_{one.name} + {at});" for one in self.rules.pre]
        traces += [f"ask_for(last_pre + {at});"] if traces else []
        return ["if (!EARLY) return;", *lines, *traces]

    def walk(self) -> str:
        """Return `walk`, by which warps let them act where there is no room in the queue."""
        where = f"{'row' if self.axon else '0u'} | {self.number}u << 16"
        act = f"act_alone(net, ring, {{source, {where}, begin, end}}, block, t);"
        body = [
            "WARPS_DO(0, ACTING)",
            *(f"    {line}" for line in self.of_spikes("warp", "ACTING", self.reached([act]))),
            "WARPS_END",
        ]
        return self.function("walk", _OF_BLOCK, body)

    def of_spikes(self, first: str, stride: str, inner: Sequence[str]) -> list[str]:
        """Return lines for the spikes that reach synapses in step t, in turns of one delay and block."""
        row = (
            ["const u32 row = k / net.blocks, step = t - fixed(distinct + row);"]
            if self.axon
            else ["const u32 step = t;"]
        )
        return [
            f"const List list = list_of(net, {self.words.list_of(self.plastic.source)});",
            f"for (u32 k = {first}; k < {'rows * ' if self.axon else ''}net.blocks; k += {stride}) {{",
            *(f"    {line}" for line in row),
            "    const u32 from = k % net.blocks;",
            "    const Line line = read_line(net, list, step, from);",
            "    for (u32 j = 0; j < line.first.x; ++j) {",
            "        const u32 source = neuron_of(line, j);",
            *(f"        {line}" for line in inner),
            "    }",
            "}",
        ]

    def reached(self, inner: Sequence[str]) -> list[str]:
        """Return lines that do something with the synapses of a spike, from `begin` to `end`."""
        stretched = ["stretch(which + base, row, begin, end);"] if self.axon and self.many else []
        return ["u32 begin = fixed(starts + source), end = fixed(starts + source + 1);", *stretched, *inner]

    @property
    def reads_traces(self) -> bool:
        """Whether a rule reads traces of a source when a spike of it arrives."""
        traces = {f"pre_{one.name}" for one in self.rules.pre}
        return self.rules.on_pre is not None and any(name.text in traces for name in self.rules.on_pre.form.inputs)

    def act(self) -> str:
        """Return `act`: a spike is delivered with the weights of its synapses, and then changes them."""
        rule = self.rules.on_pre
        slot = "ring.now" if self.axon else "slot_after(ring, fixed(distinct + fixed(which + e)))"
        if not self.axon and not self.many:
            slot = "slot_after(ring, fixed(distinct))"
        fixed, each = ["bool strange = false;"], [f"add_to_sum(ring, {slot}, reach + place, {_QUANTA});"]
        if rule is not None:
            fixed += self.values("pre", rule.form, "at", arriving=True)
            each += [f"const u32 there = {self.at_post('neuron')};", *self.values("post", rule.form, "there")]
            each += self.called("on_pre", rule)
        body = [
            "const u32 source = spike.source, row = row_of(spike);",
            f"const u32 at = {'row * sources + source' if self.axon else 'source'};",
            *fixed,
            "for (u64 e = base + spike.begin + lane; e < base + spike.end; e += lanes) {",
            *(f"    {line}" for line in (*(self.loaded() if rule else self.loaded()[:1]), *_TARGET, *each)),
            "}",
            *([self.noted(0)] if rule is not None else []),
        ]
        return self.function("act", _SYNAPSES, body)

    def settle(self) -> str:
        """Return `settle`: what rules remember of a source takes its spike."""
        body = [
            "const u32 source = spike.source, row = row_of(spike);",
            f"const u32 at = {'row * sources + source' if self.axon else 'source'};",
            *(f"pre_{name}[at] = {self._kept(name)};" for name, _ in self.rules.carried),
            *self.spiked("pre", "at"),
        ]
        return self.function("settle", _SETTLED, body)

    def on_post(self, k: int) -> str:
        """Return `on_post<k>_`: a rule is called for events of targets of this block."""
        event, rule = self.rules.on_post[k]
        fixed = ["const u32 there = " + ("neuron" if self.axon else "row * size + neuron") + ";"]
        fixed += self.values("post", rule.form, "there")
        each = [
            "const u64 entry = fixed(incoming + i)"
            + (" | (u64)fixed(more + i) << 32;" if self.layout.more is not None else ";")
        ]
        each += ["const u64 e = base + (entry & ((1ull << entry_bits) - 1));", *self.loaded()]
        if any(name.text.startswith("pre_") for name in rule.form.inputs):
            each += ["const u32 source = (u32)(entry >> entry_bits);", f"const u32 at = {self.at_pre('source')};"]
            each += self.values("pre", rule.form, "at")
        each += self.called(f"on_post_{k}", rule)
        place = f"(place - first){' * rows + row' if self._times_rows() else ''}"
        inner = [
            "const u32 place = (neuron + first_number) / net.blocks;",
            *fixed,
            f"const u32 begin = fixed(into + {place}), end = fixed(into + {place} + 1);",
            "TWICE_UNROLLED",
            "for (u64 i = base + begin + tid; i < base + end; i += ACTING * 32) {",
            *(f"    {line}" for line in each),
            "}",
        ]
        body = ["bool strange = false;", *self.of_events(event, inner), self.noted(self._rule("on_post", k))]
        return self.function(f"on_post{k}_", _OF_THREAD, body)

    def take_events(self) -> str:
        """Return `take_events`: traces of targets take spikes."""
        there = "neuron" if self.axon else "row * size + neuron"
        inner = [f"const u32 there = {there};", *self.spiked("post", "there")]
        return self.function("take_events", _OF_THREAD, self.of_events(SPIKE, inner, by_thread=True))

    def of_events(self, event: str, inner: Sequence[str], *, by_thread: bool = False) -> list[str]:
        """Return lines for all events of neurons of this block that reach synapses in step t."""
        number = self.words.list_of(self.plastic.target, event)
        turns, count = list[str](), f"plastic_desk.listed[t & 1][{number}]"
        neuron = f"own_neuron(net, {number}, j, block, t)"
        if not self.axon:
            turns = ["const Line line = read_line(net, list, t - fixed(distinct + row), block);"]
            count, neuron = "line.first.x", "neuron_of(line, j)"
        loop = "u32 j = tid; j < count; j += ACTING * 32" if by_thread else "u32 j = 0; j < count; ++j"
        lines = [
            *turns,
            f"const u32 count = {count};",
            f"for ({loop}) {{",
            f"    const u32 neuron = {neuron};",
            *(f"    {line}" for line in inner),
            "}",
        ]
        if self.axon:
            return lines
        listed = [f"const List list = list_of(net, {number});", "for (u32 row = 0; row < rows; ++row) {"]
        return [*listed, *(f"    {line}" for line in lines), "}"]

    def lists_of_target(self) -> list[int]:
        """Return the numbers of the lists of events of the target that change synapses, or what they remember."""
        events = {event for event, _ in self.rules.on_post} | ({SPIKE} if self.rules.post else set())
        return [self.words.list_of(self.plastic.target, event) for event in events]

    def every(self, k: int) -> str:
        """Return `every<k>_`: at intervals, a rule is called for all synapses.

        A warp has those of a source, if the rule reads something of that; else threads have one after another.
        """
        rule = self.rules.every[k][1]
        each = [*self.loaded(), *_TARGET, f"const u32 there = {self.at_post('neuron')};"]
        reads = any(name.text.startswith("pre_") for name in rule.form.inputs)
        if reads:
            each += [f"const u32 at = {self.at_pre('source')};", *self.values("pre", rule.form, "at")]
        each += [*self.values("post", rule.form, "there"), *self.called(f"every_{k}", rule)]
        body = [
            f"if (((u64)t + 1) % word_of(net, {self._at('every', str(k))})) return;",
            "bool strange = false;",
            *(_by_source if reads else _in_turn)(each),
            self.noted(self._rule("every", k)),
        ]
        return self.function(f"every{k}_", _OF_BLOCK, body)

    def _rule(self, called: str, k: int) -> int:
        """Return the number of a rule among all."""
        before = int(self.rules.on_pre is not None) + (len(self.rules.on_post) if called == "every" else 0)
        return before + k

    def texts(self) -> list[str]:
        """Return all functions but `gather`, which calls those of other projections."""
        found = [self.act(), self.settle(), self.reach(), self.walk()]
        found += [self.on_post(k) for k in range(len(self.rules.on_post))]
        found += [self.take_events()] * bool(self.rules.post)
        return found + [self.every(k) for k in range(len(self.rules.every))]


def _by_source(each: Sequence[str]) -> list[str]:
    """Return lines that do something for all synapses of a block, by source."""
    return [
        "WARPS_DO(0, ACTING)",
        "    for (u32 source = warp; source < sources; source += ACTING) {",
        "        LANES_DO",
        "            for (u64 e = base + starts[source] + lane; e < base + starts[source + 1]; e += 32) {",
        *(f"                {line}" for line in each),
        "            }",
        "        LANES_END",
        "    }",
        "WARPS_END",
    ]


def _in_turn(each: Sequence[str]) -> list[str]:
    """Return lines that do something for all synapses of a block, one after another."""
    return [
        "const u64 end = base + fixed(starts + sources);",
        "ACTING_DO",
        "    for (u64 e = base + tid; e < end; e += ACTING * 32) {",
        *(f"        {line}" for line in each),
        "    }",
        "ACTING_END",
    ]


_LAZY = 3  # steps of delay, of which there are more where lists may be released late, and be seen late
_EARLY = 4  # the same where they are seen a step earlier than they are needed
_MOST_LAG, _MOST_FENCED = 7, 4  # steps after theirs in which packets are read; of which lists are released at once
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "u32"}
_TYPES = {"float32": "float", "int32": "int", "uint32": "u32", "bool": "bool"}
_WORDS = re.compile(r"(?<![\w.])[^\W\d]\w*")
_QUANTA = "be_delivered(w, per_unit)"
_TARGET = (
    "const u32 place = first + fixed(targets + e);",
    "const u32 neuron = place * net.blocks + block - first_number;",
)


def plastic_text(plan: Plan, layouts: Sequence[PlasticLayout], words: PlasticWords) -> PlasticText:
    """Return the text of the plastic synapses of a network."""
    helpers = forms_of_synapses()
    writers = [
        _Writer(k, plan, one, layout, words) for k, (one, layout) in enumerate(zip(plan.plastic, layouts, strict=True))
    ]
    for one in writers:
        next(other for other in writers if other.arrives_with(one)).beside.append(one)
    texts = [text for one in writers for text in one.texts()]
    texts += [one.gather() for one in writers if one.beside]
    texts += [_by_projection(writers, "act", _SYNAPSES), _by_projection(writers, "settle", _SETTLED)]
    texts += _of_step(writers)
    forms = (
        *(helpers[name] for name in (DECAYED, SPIKED, DELIVERED)),
        *(form for one in writers for form in one.forms),
    )
    axon, least = (
        all(one.axon for one in writers),
        min((int(p.distinct[0]) for p in plan.plastic if p.entries), default=1),
    )
    ahead = axon and least > 1 and not plan.check_finite
    constants = {
        "WINDOWED": axon,
        "AHEAD": ahead,
        "LAZY": axon and least > _LAZY,
        "EARLY": ahead and least > _EARLY,
        "READS_TRACES": any(one.reads_traces for one in writers),
    }
    lag, fenced = _lateness(plan, least - _EARLY) if constants["EARLY"] else (0, 1)
    return PlasticText(forms, constants, lag, fenced, _tell(plan, words), "\n".join(texts))


def _lateness(plan: Plan, spare: int) -> tuple[int, int]:
    """Return how many steps after theirs packets are read, and of how many steps lists are released at once.

    Together, they are at most the `spare` steps of the least delay of plastic synapses. Spikes of fixed synapses arrive
    later than packets are read. Values of spikes and what couplings read are kept for two steps.
    """
    fixed = min((p.delays[0] for p in plan.projections if p.entries), default=spare)
    lag = max(0, min(_MOST_LAG, spare - 1, fixed - 1))
    if plan.couplings or any(population.rule.value for population in plan.populations):
        lag = 0
    return lag, min(_MOST_FENCED, 1 << (spare - lag).bit_length() - 1)


def _by_projection(writers: Sequence[_Writer], name: str, parameters: str) -> str:
    """Return a function that chooses by the projection of a spike."""
    passed = ", ".join(parameter.split()[-1].lstrip("&") for parameter in parameters.split(", "))
    lines = [f"    if (projection_of(spike) == {one.number}) {name}{one.number}({passed});" for one in writers]
    return "\n".join([f"BE void {name}({parameters}) {{", *lines, "}", ""])


def _of_block(name: str, lines: Sequence[str], parameters: str) -> str:
    return "\n".join([f"BE void {name}({parameters}) {{", *(f"    {line}" for line in lines), "}", ""])


def _gathering(step: str) -> list[str]:
    """Return lines that queue what arrives in a step."""
    call = f"        gather_all(net, ring, block, tid, {step});"
    return ["    ACTING_DO", call, "    ACTING_END", "    mark_acting(desk, QUEUED);"]


def _marked(which: str) -> str:
    return f"mark_acting(desk, {which});"


def _phase(calls: Sequence[str]) -> list[str]:
    """Return lines in which each thread that acts does something; no lines for nothing."""
    inner = [f"    {call}(net, ring, block, tid, t);" for call in calls]
    return ["ACTING_DO", *inner, "ACTING_END"] if calls else []


def _of_step(writers: Sequence[_Writer]) -> list[str]:
    """Return what happens before and after the update of neurons, and while others send and listen: functions."""
    gathering = [one for one in writers if one.beside]
    names = {axon: [f"gather{one.number}" for one in gathering if one.axon == axon] for axon in (True, False)}
    walks = [f"if ({'' if one.axon else '!'}arriving) walk{one.number}(net, ring, block, t);" for one in writers]
    acting = ["ACTING_MEET;", _marked("QUEUED"), "act_all(net, desk, ring, block, t, {});"]
    arrive = [*_phase(names[True]), *acting, "BLOCK_MEET;"] if names[True] else []
    arrive = [line.format("true") for line in arrive]
    changes = [*_changes(writers), _marked("CHANGED")]
    if names[False]:
        acted = [*_phase(names[False]), *(line.format("false") for line in acting), "ACTING_MEET;"]
        react, finish = list[str](), [*acted, *changes, "BLOCK_MEET;"]
    else:
        queue = ["if (AHEAD && !EARLY && goes_on) {", *_gathering("t + 1"), "}"]
        act = [
            "if (AHEAD && goes_on) {",
            "    if (EARLY) {  // by other warps than most of those that let spikes act",
            *(f"    {line}" for line in _gathering("t + 2")),
            "    } else ACTING_MEET;",
            "    act_all(net, desk, after_step(ring), block, t + 1, true);",
            "}",
        ]
        arrive.insert(0, "if (EARLY) {")
        arrive[1:1] = [*_gathering("t + 1"), "}"]
        react, finish = [*queue, *changes, *act], []
    gathered = [f"    {name}(net, ring, block, tid, t);" for name in names[True]]
    return [
        _of_block("walk_all", walks, f"{_OF_BLOCK}, bool arriving"),
        "\n".join([f"BE void gather_all({_OF_THREAD}) {{", *gathered, "}", ""]),
        _of_block("arrive", arrive, _OF_STEP),
        _of_block("react", react, f"{_OF_STEP}, bool goes_on"),
        _of_block("finish", finish, _OF_STEP),
    ]


def _changes(writers: Sequence[_Writer]) -> list[str]:
    """Return lines for all that happens to synapses after spikes of their sources have acted."""
    lines = []
    for k in range(max(len(one.rules.on_post) for one in writers)):
        lines += [*_phase([f"on_post{k}_{o.number}" for o in writers if k < len(o.rules.on_post)]), "ACTING_MEET;"]
    if taken := _phase([f"take_events{one.number}" for one in writers if one.rules.post]):
        lines += [*taken, "ACTING_MEET;"]
    if lines and all(one.axon for one in writers):  # all threads see the same numbers
        lists = sorted({number for one in writers for number in one.lists_of_target()})
        some = " | ".join(f"plastic_desk.listed[t & 1][{number}]" for number in lists)
        lines = [f"if ({some}) {{", *(f"    {line}" for line in lines), "}"]
    for k in range(max(len(one.rules.every) for one in writers)):
        lines += [f"every{k}_{o.number}(net, ring, block, t);" for o in writers if k < len(o.rules.every)]
        lines.append("ACTING_MEET;")
    lines += ["if (net.synapse_samples) {", "    ACTING_DO", "        sample_synapses(net, block, tid, t);"]
    return [*lines, "    ACTING_END", "    ACTING_MEET;", "}"]


def _tell(plan: Plan, words: PlasticWords) -> str:
    """Return `tell`: the events of a neuron are listed, and what rules read of it is written to memory."""
    lines = []
    for number, population in enumerate(plan.populations):
        kept, states = words.kept.get(population.name), list(population.state)
        own = []
        for event in kept.events if kept else ():
            place, bit = words.list_of(population.name, event), population.rule.events.index(event)
            own.append(f"if (events >> {bit} & 1) note(net, {place}, own.neuron, block, t);")
        for state in kept.states if kept else ():
            mask = f"list_of(net, {words.list_of(population.name)}).mask"
            at = f"array_of<u32>(net, {words.of('kept', population.name, state)})"
            size = f"net.population[{number}].size"
            own.append(f"if (events & 1) {at}[(u64)(t & {mask}) * {size} + own.neuron] = s[{states.index(state)}];")
        own += [
            f"net.states[(u64){states.index(state)} * net.blocks * net.per + block * net.per + own.place] = "
            f"s[{states.index(state)}];"
            for state in _read(plan, population.name)
        ]
        if own:
            lines += [f"    if (own.population == {number}) {{", *(f"        {line}" for line in own), "    }"]
    head = "BE void tell(const Net& net, const Own& own, const u32* s, u32 events, u32 block, u32 t) {"
    return "\n".join([head, *lines, "}", ""])


def _read(plan: Plan, population: str) -> list[str]:
    """Return the states of a population that rules of synapses read."""
    names = {
        name.text.removeprefix("post_")
        for one in plan.plastic
        if one.target == population
        for _, rule in one.rules.all
        for name in rule.form.inputs
        if name.text.startswith("post_")
    }
    return [state for state in plan.population(population).state if state in names]
