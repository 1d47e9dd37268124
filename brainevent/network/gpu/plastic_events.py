# SPDX-License-Identifier: Apache-2.0
"""The text of what events of targets do, and of what happens to synapses at intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..plan.plastic import SPIKE
from .plastic_writer import OF_BLOCK, OF_SOME, OF_THREAD, PLACE, TARGET, Writer

__all__ = [
    "called_at_once",
    "interval_numbers",
    "intervals_of",
    "lists_of_target",
    "reads_taken",
    "takes_events",
    "texts_of_events",
]

_VALUE = re.compile(r"const (\w+) (w|x_\w+) = (.*);")  # what a rule reads


def texts_of_events(of: Writer) -> list[str]:
    """Return all functions."""
    found = [_on_post(of, k) for k in range(called_at_once(of))]
    found += [_take_events(of)] if takes_events(of) else []
    return found + [_every(of, k) for k in range(len(of.rules.every))]


def takes_events(of: Writer) -> bool:
    """Say whether there is `take_events`."""
    return bool(of.rules.post) or of.deferred


def called_at_once(of: Writer) -> int:
    """Return how many rules are called by events of targets in their steps."""
    return 0 if of.deferred else len(of.rules.on_post)


def lists_of_target(of: Writer) -> list[int]:
    """Return the numbers of the lists of events of the target that change synapses, or what they remember."""
    events = {event for event, _ in of.rules.on_post} | ({SPIKE} if of.rules.post else set())
    return [of.words.list_of(of.plastic.target, event) for event in events]


def reads_taken(of: Writer) -> bool:
    """Say whether rules that events of targets call read traces of these, which take the events after that."""
    traces = {f"post_{one.name}" for one in of.rules.post}
    return any(name.text in traces for _, rule in of.rules.on_post for name in rule.form.inputs)


def interval_numbers(writers: Sequence[Writer], of: Writer) -> list[tuple[int, int]]:
    """Return the intervals of rules of a projection, and their numbers among those of all."""
    before = sum(len(one.rules.every) for one in writers if one.number < of.number)
    return [(k, before + k) for k in range(len(of.rules.every))]


def intervals_of(writers: Sequence[Writer], of: Writer) -> list[str]:
    """Return lines that say whether the intervals of rules end with a step. Of a cluster, the sender has found that."""
    return [
        f"const bool due{k}_{of.number} = CLUSTER ? plastic_desk.due[t & 1] >> {number} & 1 : "
        f"ends_interval(t, word_of(net, {of.at('every', str(k))}));"
        for k, number in interval_numbers(writers, of)
    ]


def _on_post(of: Writer, k: int) -> str:
    """Return `on_post<k>_`: a rule is called for events of targets of this block."""
    event, rule = of.rules.on_post[k]
    fixed = [f"const u32 there = {_there(of)};"]
    fixed += of.values("post", rule.form, "there")
    each = [
        "const u64 entry = fixed(incoming + i)"
        + (" | (u64)fixed(more + i) << 32;" if of.layout.more is not None else ";")
    ]
    each += ["const Place e = base + (Place)(entry & ((1ull << entry_bits) - 1));", *of.loaded()]
    if any(name.text.startswith("pre_") for name in rule.form.inputs):
        each += ["const u32 source = (u32)(entry >> entry_bits);", f"const u32 at = {of.at_pre('source')};"]
        each += of.values("pre", rule.form, "at")
    each += of.called(f"on_post_{k}", rule)
    place = f"own{' * rows + row' if of.times_rows else ''}"
    inner = [
        *PLACE,
        *fixed,
        f"const u32 begin = fixed(into + {place}), end = fixed(into + {place} + 1);",
        "TWICE_UNROLLED",
        "for (Place i = base + begin + tid; i < base + end; i += ACTING * 32) {",
        *(f"    {line}" for line in each),
        "}",
    ]
    body = ["bool strange = false;", *_of_events(of, event, inner), of.noted(of.rule("on_post", k))]
    return of.function(f"on_post{k}_", OF_THREAD, body)


def _there(of: Writer) -> str:
    """Return the place of traces of a target with an event, given its place among those of the block."""
    return "own" if of.axon else "row * places + own"


def _take_events(of: Writer) -> str:
    """Return `take_events`: traces of targets take spikes, which are kept for calls that are deferred."""
    inner = [*PLACE, f"const u32 there = {_there(of)};"]
    if of.deferred:
        inner.append("keep_event(newest[there], steps + (u64)there * HISTORY, t);")
    inner += of.spiked("post", "there")
    return of.function("take_events", OF_SOME, _of_events(of, SPIKE, inner, by_thread=True))


def _of_events(of: Writer, event: str, inner: Sequence[str], *, by_thread: bool = False) -> list[str]:
    """Return lines for all events of neurons of this block that reach synapses in step t."""
    number = of.words.list_of(of.plastic.target, event)
    turns, count = list[str](), f"plastic_desk.listed[t & 1][{number}]"
    neuron = f"own_neuron(net, {number}, j, block, t)"
    if not of.axon:
        turns = ["const Line line = read_line(net, list, t - fixed(distinct + row), block);"]
        count, neuron = "line.first.x", "neuron_of(line, j)"
    loop = "u32 j = tid; j < count; j += threads" if by_thread else "u32 j = 0; j < count; ++j"
    lines = [
        *turns,
        f"const u32 count = {count};",
        f"for ({loop}) {{",
        f"    const u32 neuron = {neuron};",
        *(f"    {line}" for line in inner),
        "}",
    ]
    if of.axon:
        return lines
    listed = [f"const List list = list_of(net, {number});", "for (u32 row = 0; row < rows; ++row) {"]
    return [*listed, *(f"    {line}" for line in lines), "}"]


def _every(of: Writer, k: int) -> str:
    """Return `every<k>_`: at intervals, a rule is called for all synapses.

    A warp has those of a source, if the rule reads something of that; else threads have one after another.
    """
    rule = of.rules.every[k][1]
    given = [*of.loaded(), *TARGET, f"const u32 there = {of.at_post('own')};"]
    reads = any(name.text.startswith("pre_") for name in rule.form.inputs)
    if reads:
        given += [f"const u32 at = {of.at_pre('source')};", *of.values("pre", rule.form, "at")]
    given += of.values("post", rule.form, "there")
    called = of.called(f"every_{k}", rule)
    body = [
        "bool strange = false;",
        *(_by_source([*given, *called]) if reads else _in_turn(given, called)),
        of.noted(of.rule("every", k)),
    ]
    return of.function(f"every{k}_", OF_BLOCK, body)


def _by_source(each: Sequence[str]) -> list[str]:
    """Return lines that do something for all synapses of a block, by source."""
    return [
        "WARPS_DO(0, ACTING)",
        "    for (u32 source = warp; source < sources; source += ACTING) {",
        "        LANES_DO",
        "            for (Place e = base + starts[source] + lane; e < base + starts[source + 1]; e += 32) {",
        *(f"                {line}" for line in each),
        "            }",
        "        LANES_END",
        "    }",
        "WARPS_END",
    ]


def _in_turn(given: Sequence[str], called: Sequence[str]) -> list[str]:
    """Return lines that do something for all synapses of a block: a thread reads some before it changes the first."""
    read, kept, known = list[str](), list[str](), list[str]()
    for line in given:
        found = _VALUE.fullmatch(line)
        if found is None:
            read.append(line)
            continue
        kind, name, value = found.groups()
        kept.append(f"{kind} all_{name}[AT_ONCE_EACH];")
        read.append(f"all_{name}[k] = {value};")
        known.append(f"const {kind} {name} = all_{name}[k];")
    return [
        "const Place end = base + fixed(starts + sources);",
        "constexpr u32 AT_ONCE_EACH = 4;",
        "ACTING_DO",
        "    NOT_UNROLLED",
        "    for (Place first_one = base + tid; first_one < end; first_one += AT_ONCE_EACH * ACTING * 32) {",
        *(f"        {line}" for line in kept),
        "        UNROLLED",
        "        for (u32 k = 0; k < AT_ONCE_EACH; ++k) {",
        "            const Place e = first_one + k * ACTING * 32;",
        "            if (e >= end) break;",
        *(f"            {line}" for line in read),
        "        }",
        "        UNROLLED",
        "        for (u32 k = 0; k < AT_ONCE_EACH; ++k) {",
        "            const Place e = first_one + k * ACTING * 32;",
        "            if (e >= end) break;",
        *(f"            {line}" for line in (*known, *called)),
        "        }",
        "    }",
        "ACTING_END",
    ]
