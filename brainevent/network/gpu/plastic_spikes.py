# SPDX-License-Identifier: Apache-2.0
"""The text of what spikes of sources do: they are queued, reach synapses, and are remembered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .plastic_deferred import piece_lines
from .plastic_writer import OF_BLOCK, OF_THREAD, TARGET, Writer
from .text import value_of

__all__ = ["SETTLED", "SYNAPSES", "arrives_with", "gather", "reached", "reads_traces", "texts_of_spikes"]

SYNAPSES = (
    "const Net& net, const Ring& ring, const Reached* spikes, u32 count, u32 share, u32 shares, u32 block, u32 t, "
    "u32 warp"
)
SETTLED = "const Net& net, const Reached& spike, u32 block, u32 t"
_OF_SPIKE = "const Net& net, u32 source, u32 row, u32 block, u32 t"


def texts_of_spikes(of: Writer) -> list[str]:
    """Return all functions but `gather`, which calls those of other projections."""
    return [_act(of), _settle(of), _reach(of), _walk(of)]


def arrives_with(of: Writer, other: Writer) -> bool:
    """Whether spikes reach synapses of both projections in the same steps."""
    ours, theirs = of.plastic, other.plastic
    same = of.axon == other.axon and ours.source == theirs.source
    return same and (not of.axon or np.array_equal(ours.distinct, theirs.distinct))


def reads_traces(of: Writer) -> bool:
    """Whether a rule reads traces of a source when a spike of it arrives."""
    if of.deferred:
        return True
    traces = {f"pre_{one.name}" for one in of.rules.pre}
    return of.rules.on_pre is not None and any(name.text in traces for name in of.rules.on_pre.form.inputs)


def gather(of: Writer, together: Sequence[Writer]) -> str:
    """Return `gather`, by which threads queue the spikes that reach synapses in a step.

    It does so for all projections `together`, in which spikes of the same neurons arrive in the same steps.
    """
    row = "row" if of.axon else "0"
    inner = [f"reach{one.number}(net, source, {row}, block, t);" for one in together]
    return of.function("gather", OF_THREAD, _of_spikes(of, "counted_from(tid, 3)", "ACTING * 32", inner))


def _reach(of: Writer) -> str:
    """Return `reach`, by which a thread queues a spike."""
    body = [f"enqueue({{source, row | {of.number}u << 16 | FIRST, 0, 0}}, begin, end, t);", *_asked(of)]
    return of.function("reach", _OF_SPIKE, reached(of, body))


def _asked(of: Writer) -> list[str]:
    """Return lines that ask for what a spike will need, if it acts in a later step than this one."""
    at = "row * sources + source" if of.axon else "source"
    arrays = ["weights", "targets", *(f"s_{name}" for name in of.rules.states)]
    lines = [f"ask_for_all({name} + base + begin, end - begin);" for name in arrays]
    traces = [f"ask_for(pre_{one.name} + {at});" for one in of.rules.pre]
    traces += [f"ask_for(last_pre + {at});"] if traces else []
    return ["if (!EARLY || INSIDE) return;", *lines, *traces]


def _walk(of: Writer) -> str:
    """Return `walk`, by which warps let them act where there is no room in the queue."""
    where = f"{'row' if of.axon else '0u'} | {of.number}u << 16"
    act = f"act_alone(net, ring, {{source, {where}, begin, end}}, block, t, warp);"
    body = [
        "WARPS_DO(0, ACTING)",
        *(f"    {line}" for line in _of_spikes(of, "warp", "ACTING", reached(of, [act]))),
        "WARPS_END",
    ]
    return of.function("walk", OF_BLOCK, body)


def _of_spikes(of: Writer, first: str, stride: str, inner: Sequence[str]) -> list[str]:
    """Return lines for the spikes that reach synapses in step t, in turns of one delay and block."""
    rows, row = "rows * " if of.axon else "", ["const u32 step = t;"]
    if of.axon:
        row = [f"const u32 row = {'k / all_blocks(net)' if of.many else '0'}, step = t - fixed(distinct + row);"]
    number = of.words.list_of(of.plastic.source)
    return [
        f"const List list = list_of(net, {number});",
        f"for (u32 k = {first}; k < {rows}all_blocks(net); k += {stride}) {{",
        *(f"    {line}" for line in row),
        f"    const u32 from = {'k % all_blocks(net)' if of.axon and of.many else 'k'};",
        f"    const Line line = read_told(net, list, told_place({number}), step, from);",
        "    for (u32 j = 0; j < line.first.x; ++j) {",
        "        const u32 source = neuron_of(line, j);",
        *(f"        {line}" for line in inner),
        "    }",
        "}",
    ]


def reached(of: Writer, inner: Sequence[str]) -> list[str]:
    """Return lines that do something with the synapses of a spike, from `begin` to `end`."""
    stretched = ["stretch(which + base, row, begin, end);"] if of.axon and of.many else []
    return ["u32 begin = fixed(starts + source), end = fixed(starts + source + 1);", *stretched, *inner]


def _act(of: Writer) -> str:
    """Return `act`: spikes are delivered with the weights of their synapses, and then change them.

    Deferred calls come first.
    """
    rule = of.rules.on_pre
    slot = "ring.now" if of.axon else "slot_after(ring, fixed(distinct + fixed(which + e)) - BEHIND)"
    if not of.axon and not of.many:
        slot = "slot_after(ring, fixed(distinct) - BEHIND)"
    fixed, amount = list[str](), "be_delivered(w, per_unit)"
    if of.plastic.graded:
        fixed.append(f"const float value = {value_of(of.arriving('values'), 'float32')};")
        amount = "be_graded(w, value, per_unit)"
    each = [f"add_to_sum(ring, {slot}, reach + place, {amount});"]
    if rule is not None:
        fixed += of.values("pre", rule.form, "at", arriving=True)
        each += [f"const u32 there = {of.at_post('own')};", *of.values("post", rule.form, "there")]
        each += of.called("on_pre", rule)
    each = [*(of.loaded() if rule else of.loaded()[:1]), *TARGET, *each]
    body = _in_pieces(of, [*fixed, *each]) if of.deferred else _by_spike(of, fixed, each)
    return of.function("act", SYNAPSES, body, pins=of.deferred)


def _by_spike(of: Writer, fixed: Sequence[str], each: Sequence[str]) -> list[str]:
    """Return lines that do something for the synapses of each spike, and note whether a result was strange."""
    return [
        "NOT_UNROLLED",
        "for (u32 k = 0; k < count; ++k) {",
        "    const Reached spike = share_of(spikes[k], share, shares);",
        "    const u32 source = spike.source, row = row_of(spike);",
        f"    const u32 at = {'row * sources + source' if of.axon else 'source'};",
        "    bool strange = false;",
        *(f"    {line}" for line in fixed),
        "    LANES_DO",
        "        for (Place e = base + spike.begin + lane; e < base + spike.end; e += 32) {",
        *(f"            {line}" for line in each),
        "        }",
        *([f"        {of.noted(0)}"] if of.rules.on_pre is not None else []),
        "    LANES_END",
        "    LANES_MEET;",
        "}",
    ]


def _in_pieces(of: Writer, each: Sequence[str]) -> list[str]:
    """Return lines that do something for the synapses of some spikes, after their deferred calls."""
    written = [] if of.rules.on_pre else ["weights[e] = w;"]
    return [
        "Later& later = later_of(warp);",
        "const Reached one = share_of(spikes[0], share, shares);  // if there are more, all have room",
        "NOT_UNROLLED",
        "for (u32 done = one.begin; done == one.begin || done < one.end; done += ROOM_LATER) {",
        "    const u32 left = one.end - done;",
        "    Pieces pieces = first_piece(later, one.source, base + done, left < ROOM_LATER ? left : ROOM_LATER);",
        "    for (u32 k = 1; k < count; ++k)",
        "        add_piece(later, pieces, k, spikes[k].source, base + spikes[k].begin, length_of(spikes[k]));",
        f"    catch_up{of.number}(net, later, pieces, block);",
        "    LANES_DO",
        "        for (u32 j = lane; j < pieces.n; j += 32) {",
        *(f"            {line}" for line in piece_lines(of)),
        f"            const u32 row = {'fixed(which + e)' if of.axon and of.many else '0u'};",
        *(f"            {line}" for line in (*each, *written)),
        "        }",
        "    LANES_END",
        "    LANES_MEET;",
        "}",
    ]


def _settle(of: Writer) -> str:
    """Return `settle`: what rules remember of a source takes its spike."""
    body = [
        "const u32 source = spike.source, row = row_of(spike);",
        f"const u32 at = {'row * sources + source' if of.axon else 'source'};",
        *(f"pre_{name}[at] = {of.arriving(f'kept_{name}')};" for name, _ in of.rules.carried),
        *of.spiked("pre", "at"),
    ]
    return of.function("settle", SETTLED, body)
