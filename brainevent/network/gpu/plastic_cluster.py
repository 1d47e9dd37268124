# SPDX-License-Identifier: Apache-2.0
"""The text of what spikes do to plastic synapses in a cluster, whose blocks hand each other the spikes of a step.

All warps that act see which blocks had spikes, and share out what these do: a warp lets the spikes of a block act on
the synapses of a projection, another one lets what rules remember of sources take them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .plastic_events import interval_numbers
from .plastic_spikes import reached, reads_traces
from .plastic_writer import TARGET, Writer

__all__ = ["brings", "texts_of_cluster"]

_OF_ALL = "const Net& net, const Ring& ring, u32 block, u32 t, bool parted, u32 busy"
_OF_SPIKE = "const Net& net, const Ring& ring, u32 source, u32 row, u32 block, u32 t, bool parts"


def brings(of: Writer) -> bool:
    """Say whether synapses may change while neurons are updated: not if their rule reads a state of the target."""
    rule, traces = of.rules.on_pre, {f"post_{one.name}" for one in of.rules.post}
    names = {name.text for name in rule.form.inputs} if rule else set[str]()
    of_target = any(name.startswith("post_") and name not in traces for name in names)
    return of.axon and not of.deferred and not of.plastic.graded and not of_target


def texts_of_cluster(groups: Sequence[Sequence[Writer]], *, prompt: bool) -> list[str]:
    """Return functions for projections in groups whose spikes arrive together, and `bring_all`, which calls them.

    It does nothing if events are not `prompt`.
    """
    groups = groups if prompt else []
    writers = [one for group in groups for one in group]
    lines = []
    for axon in (True, False):
        own = [group[0].number for group in groups if group[0].axon == axon]
        calls = [
            f"bring{number}(net, ring, block, t, {'parted' if number == own[-1] else 'false'}, busy);" for number in own
        ]
        lines += [f"if ({'' if axon else '!'}arriving) {{", *(f"    {call}" for call in calls), "}"]
    head = f"BE void bring_all({_OF_ALL}, bool arriving) {{"
    return [
        *map(_touch, writers),
        *map(_bring, groups),
        "\n".join([head, *(f"    {line}" for line in lines), "}", ""]),
        _due(writers),
    ]


def _due(writers: Sequence[Writer]) -> str:
    """Return `due_at`: which rules are called at intervals that end with a step, as bits."""
    lines = [
        f"    bits |= (u32)ends_interval(t, word_of(net, {one.at('every', str(k))})) << {number};"
        for one in writers
        for k, number in interval_numbers(writers, one)
    ]
    return "\n".join(
        ["BE u32 due_at(const Net& net, u32 t) {", "    u32 bits = 0;", *lines, "    return bits;", "}", ""]
    )


def _touch(of: Writer) -> str:
    """Return `touch`: a spike is delivered with the weights of its synapses, and then changes them.

    If it `parts` them, the warp says in between that it has delivered all.
    """
    rule = of.rules.on_pre
    slot = "ring.now" if of.axon else f"slot_after(ring, fixed(distinct{' + fixed(which + e)' if of.many else ''}))"
    names = ["w", *(f"x_s_{name}" for name in of.rules.states)] if rule else ["w"]
    arrays = ["weights", *(f"s_{name}" for name in of.rules.states)][: len(names)]
    kept = [f"OfLane<float> all_{name};" for name in names]
    read = [
        "const float w = all_w[lane];",
        *TARGET,
        f"add_to_sum(ring, {slot}, reach + place, be_delivered(w, per_unit));",
    ]
    read = [*(f"all_{name}[lane] = {array}[e];" for name, array in zip(names, arrays, strict=True)), *read]
    fixed, then = list[str](), list[str]()
    if rule is not None:
        fixed = of.values("pre", rule.form, "at", arriving=True)
        called = [f"const float {name} = all_{name}[lane];" for name in names]
        called += [*TARGET, f"const u32 there = {of.at_post('own')};", *of.values("post", rule.form, "there")]
        then = _of_lanes([*called, *of.called("on_pre", rule)])
    body = [
        f"const u32 at = {'row * sources + source' if of.axon else 'source'};",
        "bool strange = false;",
        *fixed,
        "NOT_UNROLLED",
        "for (Place first_one = base + begin; first_one < base + end; first_one += 32) {",
        *(f"    {line}" for line in (*kept, *_of_lanes(read))),
        "    if (parts && first_one + 32 >= base + end) has_delivered();",
        *(f"    {line}" for line in then),
        "}",
        "if (parts && begin == end) has_delivered();",
        *(["LANES_DO", f"    {of.noted(0)}", "LANES_END"] if rule is not None else []),
        "LANES_MEET;",
    ]
    return of.function("touch", _OF_SPIKE, reached(of, body))


def _of_lanes(each: Sequence[str]) -> list[str]:
    """Return lines that do something for a synapse of each lane."""
    head = ["LANES_DO", "    const Place e = first_one + lane;", "    if (e < base + end) {"]
    return [*head, *(f"        {line}" for line in each), "    }", "LANES_END"]


def _tasks(group: Sequence[Writer]) -> list[str]:
    """Return what a spike does: it acts on the synapses of each projection; what rules remember takes it."""
    tasks = [f"touch{one.number}(net, ring, source, row, block, t, parts);" for one in group]
    for one, task in zip(group, list(tasks), strict=True):
        settle = f"settle{one.number}(net, {{source, row, 0, 0}}, block, t);"
        settle = f"{{ ONE_LANE_DO {settle} LANES_END LANES_MEET; }}"
        if not one.rules.pre and not one.rules.carried:
            continue
        if reads_traces(one):
            tasks[tasks.index(task)] = f"{{ {task} {settle} }}"
        else:
            tasks.append(settle)
    return tasks


def _seen(number: int, place: Sequence[str]) -> list[str]:
    """Return lines by which lanes see which blocks had spikes in a step."""
    return [
        "LANES_DO",
        "    const u32 k = chunk + lane;",
        "    has[lane] = 0;",
        "    if (k < lines) {",
        *(f"        {line}" for line in place),
        f"        has[lane] = count_told(list, told_place({number}), step, from) != 0;",
        "    }",
        "LANES_END",
    ]


def _bring(group: Sequence[Writer]) -> str:
    """Return `bring`: warps share out what spikes do, from the last warp on, since the first ones have neurons.

    If there is not more than one task for each warp, those warps say as early as they can that they have delivered.
    """
    of = group[0]
    number = of.words.list_of(of.plastic.source)
    row = "k / all_blocks(net)" if of.axon and of.many else "0"
    late = " - fixed(distinct + row)" if of.axon else ""
    place = [f"const u32 row = {row}, from = k - row * all_blocks(net), step = t{late};"]
    tasks = _tasks(group)
    chosen = [f"{'else ' * (k > 0)}if (own == {k}) {task}" for k, task in enumerate(tasks)]
    body = [
        f"constexpr u32 ACTS = {len(group)}, TASKS = {len(tasks)};",
        f"const List list = list_of(net, {number});",
        f"const u32 lines = {'rows * ' if of.axon else ''}all_blocks(net);",
        "WARPS_DO(0, ACTING)",
        "    OfLane<u32> has;",
        "    u32 own = ACTING - 1 - warp;",
        "    bool gone = !parted || warp < busy;  // it says no more that it has delivered",
        "    NOT_UNROLLED",
        "    for (u32 chunk = 0; chunk < lines; chunk += 32) {",
        *(f"        {line}" for line in _seen(number, place)),
        "        u32 bits = lanes_with(has);",
        "        const bool few = parted && lines <= 32 && count_bits(bits) * TASKS + busy <= ACTING;",
        "        NOT_UNROLLED",
        "        while (bits) {",
        "            const u32 k = chunk + lowest_bit(bits);",
        "            bits &= bits - 1;",
        *(f"            {line}" for line in place),
        "            NOT_UNROLLED",
        "            for (; own < TASKS; own += ACTING) {",
        f"                const Line line = read_told(net, list, told_place({number}), step, from);",
        "                const bool early = few && !gone;",
        "                if (early && own >= ACTS) has_delivered();",
        "                NOT_UNROLLED",
        "                for (u32 j = 0; j < line.first.x; ++j) {",
        "                    const u32 source = neuron_of(line, j);",
        "                    const bool parts = early && j + 1 == line.first.x;",
        *(f"                    {line}" for line in chosen),
        "                }",
        "                gone = gone || early;",
        "            }",
        "            own -= TASKS;",
        "        }",
        "    }",
        "    if (!gone) has_delivered();",
        "WARPS_END",
    ]
    return of.function("bring", _OF_ALL, body)
