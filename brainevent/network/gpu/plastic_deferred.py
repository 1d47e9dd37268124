# SPDX-License-Identifier: Apache-2.0
"""Rules for events of targets, deferred until a spike of the source reaches the synapse: whether, and the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...scalar.synapse import TracedSynapseRule
from ..plan.plastic import SPIKE, PlasticPlan
from .partition import Partition
from .text import HISTORY, value_of

if TYPE_CHECKING:
    from .plastic_writer import Writer

__all__ = ["deferred_texts", "is_deferred", "kept_bytes", "piece_lines", "sampled_text"]

_INDEX = 4  # bytes of a synapse in the second index, at least
_PLACES = 2**16  # targets of a block, of which 16 bits of a call say which one
_LEAST_ROW = 32  # synapses of a source in a block, on average: less leave most lanes of a warp idle
_SAMPLED = "const Net& net, u64 e, u32 state, u32 block"


def kept_bytes(plastic: PlasticPlan, partition: Partition) -> int:
    """Return how much memory the lists of events take, with the last ones of each target."""
    places = -(-plastic.sizes[1] // partition.blocks)
    return (16 + 4 * HISTORY) * plastic.post_rows * places * partition.blocks


def is_deferred(plastic: PlasticPlan, partition: Partition) -> bool:
    """Say whether calls of `on_post` can wait for the next spike of the source.

    Nothing else may change synapses meanwhile, and what the rule reads must be known later: traces of the source, and
    what its last spike carried. It pays if rows are long; lists of events take no more memory than a second index.
    """
    rules = plastic.rules
    if [event for event, _ in rules.on_post] != [SPIKE] or rules.every or not rules.pre:
        return False
    reads_target = any(name.text.startswith("post_") for name in rules.on_post[0][1].form.inputs)
    long = plastic.entries >= _LEAST_ROW * plastic.sizes[0] * partition.blocks
    if -(-plastic.sizes[1] // partition.blocks) > _PLACES:
        return False
    return not reads_target and long and kept_bytes(plastic, partition) <= _INDEX * plastic.entries


def deferred_texts(writer: Writer) -> list[str]:
    """Return the functions of a projection whose calls are deferred, besides those that all have."""
    (_, rule), *_ = writer.rules.on_post
    return [_begin(writer), _catch_up(writer, rule), _treat(writer), _sampled(writer, rule)]


def sampled_text(writers: Sequence[Writer]) -> str:
    """Return `sampled`: the value of a synapse, of which calls may be deferred, or which is in shared memory."""
    lines = [
        f"    if ({'' if one.deferred else 'INSIDE && '}of.projection == {one.number}) "
        f"return {'sampled' if one.deferred else 'found'}{one.number}(net, synapse, of.state, block);"
        for one in writers
    ]
    head = "BE u32 sampled(const Net& net, const SynapseSample& of, u64 synapse, u32 block) {"
    return "\n".join([head, *lines, "    return of.values[synapse];", "}", ""])


def _begin(writer: Writer) -> str:
    """Return `begin_deferring`: there are no events yet."""
    rows = "" if writer.axon else "rows * "
    body = [
        "ACTING_DO",
        f"    for (u32 k = tid; k < {rows}places; k += ACTING * 32)",
        "        newest[k] = uint4{step - 1, step - 1, step - 1, 0};",
        "ACTING_END",
    ]
    return writer.function("begin_deferring", "const Net& net, u32 block, u32 step", body)


def _kept(writer: Writer, rule: TracedSynapseRule) -> list[str]:
    """Return lines that load what the rule reads of a source, from place `at`."""
    traces = {one.name for one in writer.rules.pre}
    kinds = ((name, "float" if name in traces else "u32") for name in _read(rule))
    return ["const u32 last = last_pre[at];", *(f"const {kind} of_{name} = pre_{name}[at];" for name, kind in kinds)]


def _read(rule: TracedSynapseRule) -> list[str]:
    """Return the names of what a rule reads of a source."""
    return [given.text.removeprefix("pre_") for given in rule.form.inputs if given.text.startswith("pre_")]


def _called(writer: Writer, rule: TracedSynapseRule, own: dict[str, str]) -> list[str]:
    """Return lines that call the rule for an event of step `then`, of which results go to arrays."""
    dtypes = {given.text: given.dtype for given in rule.form.inputs}
    traces = {one.name for one in writer.rules.pre}
    lines = []
    for name in _read(rule):
        if name in traces:
            value, kind = f"be_decayed(of_{name}, last, then, rate_pre_{name})", "float"
        else:
            value, kind = value_of(f"of_{name}", dtypes[f"pre_{name}"]), writer.type_of(dtypes[f"pre_{name}"])
        lines.append(f"const {kind} x_pre_{name} = {value};")
    return [*lines, *writer.called("on_post_0", rule, own)]


def _catch_up(writer: Writer, rule: TracedSynapseRule) -> str:
    """Return `catch_up`: a warp calls the rule for synapses of some sources.

    Those with most events would keep the other lanes waiting; so lanes take calls from a queue, one after another.
    Where few spikes arrive, and each lane has one synapse, it makes all calls of that: that takes less time.
    """
    body = [
        "LANES_MEET;  // one lane has written what pieces there are",
        "if (pieces.n <= 32) {",
        "    LANES_DO",
        "        if (const u32 j = lane; j < pieces.n) {",
        *(f"            {line}" for line in _all_calls(writer, rule)),
        "        }",
        "    LANES_END",
        "    LANES_MEET;",
        "    return;",
        "}",
        "OfLane<u32> has, calls;",
        "u32 begin = 0, end = 0;",
        *_collected(writer),
        "NOT_UNROLLED",
        "while (begin != end) {",
        "    const u32 some = end - begin < 32 ? end - begin : 32;",
        "    LANES_DO",
        "        has[lane] = 0;",
        "        if (lane < some) {",
        "            const u32 call = later.queue[(begin + lane) % ROOM_LATER], j = call & 0xFF;",
        *(f"            {line}" for line in _call(writer, rule)),
        "            calls[lane] = call + 0x100;",
        "            has[lane] = (calls[lane] >> 8 & 0xFF) < last_events.w;",
        "        }",
        "    LANES_END",
        "    LANES_MEET;",
        "    begin += some;",
        "    end = queue_calls(later, has, calls, end);",
        "}",
    ]
    return writer.function("catch_up", "const Net& net, Later& later, const Pieces& pieces, u32 block", body, pins=True)


def _collected(writer: Writer) -> list[str]:
    """Return lines that load weights, and queue a call for each synapse that has any; 64 are on their way at once."""
    return [
        "OfLane<float> weight[2];",
        "OfLane<u32> target[2];",
        "NOT_UNROLLED",
        "for (u32 from = 0; from < pieces.n; from += 64) {",
        "    UNROLLED",
        "    for (u32 k = 0; k < 2; ++k) {",
        "        LANES_DO",
        "            const u32 j = from + k * 32 + lane;",
        "            const u64 e = later.shift[piece_of(pieces, j)] + j;",
        "            if (j < pieces.n) weight[k][lane] = weights[e];",
        "            if (j < pieces.n) target[k][lane] = fixed(targets + e);",
        "        LANES_END",
        "    }",
        "    UNROLLED",
        "    for (u32 k = 0; k < 2; ++k) {",
        "        LANES_DO",
        "            const u32 j = from + k * 32 + lane;",
        "            has[lane] = 0;",
        "            if (j < pieces.n) {",
        *(f"                {line}" for line in piece_lines(writer)),
        f"                const u32 own = target[k][lane], there = {writer.at_post('own')};",
        "                const uint4 last = newest[there];",
        "                const u32 some = pending(last, since(last_pre[at]), steps + (u64)there * HISTORY);",
        "                later.w[j] = weight[k][lane];",
        "                calls[lane] = own << 16 | (last.w - some) << 8 | j;",
        "                has[lane] = some != 0;",
        "            }",
        "        LANES_END",
        "        end = queue_calls(later, has, calls, end);",
        "    }",
        "}",
    ]


def _all_calls(writer: Writer, rule: TracedSynapseRule) -> list[str]:
    """Return lines that make all calls of synapse j."""
    return [
        *piece_lines(writer),
        f"const u32 own = fixed(targets + e), there = {writer.at_post('own')};",
        *_made(writer, rule),
        "later.w[j] = now_w;",
        *(f"s_{name}[e] = now_{name};" for name in writer.rules.states),
    ]


def _made(writer: Writer, rule: TracedSynapseRule) -> list[str]:
    """Return lines that define the weight and the states of synapse e after all calls, given its source and target."""
    own = {"w": "now_w"} | {f"s_{name}": f"now_{name}" for name in writer.rules.states}
    return [
        "float now_w = weights[e];",
        *(f"float now_{name} = s_{name}[e];" for name in writer.rules.states),
        *_kept(writer, rule),
        "const uint4 last_events = newest[there];",
        "const u32* const listed = steps + (u64)there * HISTORY;",
        "NOT_UNROLLED",
        "for (u32 k = last_events.w - pending(last_events, since(last), listed); k < last_events.w; ++k) {",
        "    const u32 then = step_of(last_events, listed, k);",
        "    const float w = now_w;",
        *(f"    const float x_s_{name} = now_{name};" for name in writer.rules.states),
        *(f"    {line}" for line in _called(writer, rule, own)),
        "}",
    ]


def _call(writer: Writer, rule: TracedSynapseRule) -> list[str]:
    """Return lines that make a call from the queue."""
    own = {"w": "later.w[j]"} | {f"s_{name}": f"s_{name}[e]" for name in writer.rules.states}
    return [
        *piece_lines(writer),
        f"const u32 own = call >> 16, there = {writer.at_post('own')};",
        *_kept(writer, rule),
        "const uint4 last_events = newest[there];",
        "const u32 then = step_of(last_events, steps + (u64)there * HISTORY, call >> 8 & 0xFF);",
        "const float w = later.w[j];",
        *(f"const float x_s_{name} = s_{name}[e];" for name in writer.rules.states),
        *_called(writer, rule, own),
    ]


def piece_lines(writer: Writer) -> list[str]:
    """Return lines that define of synapse j of some pieces what its number is, and where traces of its source are."""
    return [
        "const u32 piece = piece_of(pieces, j), source = later.source[piece];",
        "const u64 e = later.shift[piece] + j;",
        f"const u32 at = {writer.at_pre('source')};",
    ]


def _treat(writer: Writer) -> str:
    """Return `treat`: all calls that were deferred are done; each warp has rows of its own."""
    body = [
        "WARPS_DO(0, THREADS / 32)",
        "    Later& later = later_of(warp);",
        "    NOT_UNROLLED",
        "    for (u32 k = warp * PIECES; k < sources; k += THREADS / 32 * PIECES) {",
        "        const u32 end = k + PIECES < sources ? k + PIECES : sources;",
        f"        ask_for_rows{writer.number}(net, k + THREADS / 32 * PIECES, block);",
        "        NOT_UNROLLED",
        "        for (u32 source = k, n; source < end; source += n) {",
        "            const u32 begin = fixed(starts + source), end_of_first = fixed(starts + source + 1);",
        "            n = 1;",
        "            while (source + n < end && fixed(starts + source + n + 1) - begin <= ROOM_LATER) ++n;",
        "            NOT_UNROLLED",
        "            for (u32 done = begin; done == begin || done < end_of_first; done += ROOM_LATER) {",
        "                const u32 left = end_of_first - done;",
        "                const u32 some = left < ROOM_LATER ? left : ROOM_LATER;",
        "                Pieces pieces = first_piece(later, source, base + done, some);",
        "                for (u32 j = 1; j < n; ++j) {",
        "                    const u32 from = fixed(starts + source + j);",
        "                    const u32 length = fixed(starts + source + j + 1) - from;",
        "                    add_piece(later, pieces, j, source + j, base + from, length);",
        "                }",
        f"                catch_up{writer.number}(net, later, pieces, block);",
        "                LANES_DO",
        "                    for (u32 j = lane; j < pieces.n; j += 32) weights[base + done + j] = later.w[j];",
        "                LANES_END",
        "                LANES_MEET;",
        "            }",
        "        }",
        "    }",
        "WARPS_END",
    ]
    return _ask_for_rows(writer) + writer.function("treat", "const Net& net, u32 block", body)


def _ask_for_rows(writer: Writer) -> str:
    """Return `ask_for_rows`: a lane asks for rows of some sources that come next."""
    body = [
        "ONE_LANE_DO",
        "    const u32 from = k < sources ? k : sources, end = from + PIECES < sources ? from + PIECES : sources;",
        "    const u32 begin = fixed(starts + from), length = fixed(starts + end) - begin;",
        "    ask_for_all(weights + base + begin, length);",
        "    ask_for_all(targets + base + begin, length);",
        "LANES_END",
    ]
    return writer.function("ask_for_rows", "const Net& net, u32 k, u32 block", body)


def _sampled(writer: Writer, rule: TracedSynapseRule) -> str:
    """Return `sampled`: weight or state of a synapse, after calls that stay deferred."""
    states = [f"state == {k + 1} ? now_{name} : " for k, name in enumerate(writer.rules.states)]
    body = [
        "const u32 source = source_of(starts, sources, (u32)(e - base)), own = fixed(targets + e);",
        f"const u32 there = {writer.at_post('own')}, at = {writer.at_pre('source')};",
        *_made(writer, rule),
        f"return __float_as_uint({''.join(states)}now_w);",
    ]
    return writer.function("sampled", _SAMPLED, body, kind="u32")
