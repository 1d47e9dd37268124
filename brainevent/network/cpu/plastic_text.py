# SPDX-License-Identifier: Apache-2.0
"""The text of a plastic projection: what arrives at its synapses in a step, and what else happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...scalar.form import Form
from ...scalar.synapse import DELIVERED, GRADED, SPIKED, TracedSynapseRule
from ..plan.plastic import SPIKE, PlasticPlan
from .plastic_late import late_of_source, up_to_date, wait
from .plastic_words import inputs_of
from .plastic_writer import ROW, Writer
from .tables import LINE, PLASTIC, STRETCH

__all__ = ["ARRIVE", "FINISH", "PlasticText", "plastic_text"]

ARRIVE, FINISH = "arrive", "finish"


@dataclass(frozen=True)
class PlasticText:
    """The text of `arrive(table, step, how)` or `finish(table, step, _)`, and the forms that it calls.

    Where events wait, `arrive` brings all synapses up to date if `how` is negative, and does nothing else.
    """

    name: str
    text: str
    forms: tuple[Form, ...]


class _Steps(Writer):
    """Writes what happens to the synapses of one projection in a step."""

    def of_source(self, name: str, rule: TracedSynapseRule, *, stretch: bool) -> str:
        """Write a walk along synapses of `source`; those of a `stretch` have the traces at the place `at`."""
        pre = self.values("pre", rule.form, "at" if stretch else self.at_pre("source"), "source")
        varies = not stretch and self.plastic.at_axon and self.small.which is not None
        each = ["e = k", "target = np.int64(np.uint32(targets[e]))", f"there = {self.at_post('target')}"]
        each += (pre if varies else []) + self.values("post", rule.form, "there", "target")
        return self.walk(name, rule, ["source", "at"], [] if varies else pre, each)

    def of_target(self, name: str, rule: TracedSynapseRule) -> str:
        """Write a walk along synapses of `target`, whose traces are at the place `there`."""
        fixed = self.values("post", rule.form, "there", "target")
        each = self.entry()
        if inputs_of(rule.form, "pre_"):
            each += ["source = np.int64(np.uint32(origins[k]))", f"at = {self.at_pre('source')}"]
            each += self.values("pre", rule.form, "at", "source")
        return self.walk(name, rule, ["target", "there"], fixed, each)

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
        rule, value = self.rules.on_pre, ["value"] * self.plastic.graded
        deliver = self.function(
            "deliver",
            ["begin", "end", "ring", "place", *([] if axon else ["mask", "ring_row", "step"]), "per_unit", *value],
            self._deliver(axon=axon),
        )
        inner = ["source = np.int64(spikes[k])", *(self.reached() if axon else ["at = source", ROW])]
        sent = f"[((step - {delay}) & (slots - 1)) * sources + source]"
        inner += [*([late, "seen[at] = now"] if late else []), *(f"{one} = values{sent}" for one in value), deliver]
        inner += [f"pre_{name}[at] = kept_{name}{sent}" for name, _ in self.rules.carried]
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
        deliver = self.helper(GRADED if self.plastic.graded else DELIVERED)
        given = "weights[first + k], value, per_unit" if self.plastic.graded else "weights[first + k], per_unit"
        row = "0" if self.small.which is None else "np.int64(which[e])"
        later = f"place = ((step + distinct[{row}]) & mask) * ring_row"
        return [
            f"for first in range(np.uint64(begin), np.uint64(end), np.uint64({STRETCH})):",
            f"    many = min(np.uint64({STRETCH}), np.uint64(end) - first)",
            "    for k in range(many):",
            f"        units[k] = {deliver}({given})",
            "    for k in range(many):",
            "        e = first + k",
            *([] if axon else [f"        {later}"]),
            "        ring[place + np.int64(np.uint32(targets[e]))] += units[k]",
        ]

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
        late = late_of_source(self) if self.late is not None else ""
        spikes = self.of_spikes("delay", axon=True, late=late)
        return [
            *(up_to_date(self, late) if late else []),
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
            lines += self.of_event(rules.on_post[0][0], wait(self))
        for k, (event, rule) in enumerate(rules.on_post if self.late is None else ()):
            call = self.of_target(f"on_post_{k}", rule)
            place = "target" if axon else "target * rows + row"
            inner = [f"begin, end = into[{place}], into[{place} + 1]"]
            lines += self.of_event(event, [*inner, *self.noted(call, first + k, "entries[k]")])
        if rules.post:
            lines += self.of_event(SPIKE, self.spiked("post", "there"))
        for k, (steps, rule) in enumerate(rules.every):
            call = self.of_source(f"every_{k}", rule, stretch=False)
            inner = ["at = source", ROW, *self.noted(call, first + len(rules.on_post) + k)]
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


_FAULTS = ("if faults != 0:", f"    at = word(table, {PLASTIC.faulty})", "    put(at, 0, word(at, 0) | faults)")


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
    return _Steps(plastic, states, dtype, watched=watched).written(name)
