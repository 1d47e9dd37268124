# SPDX-License-Identifier: Apache-2.0
"""The text of a network's plastic synapses: what arrives at them in a step, and what else happens to them."""

from __future__ import annotations

from collections.abc import Sequence

from ...scalar.synapse import DECAYED, DELIVERED, GRADED, SPIKED, forms_of_synapses
from ..plan.plan import Plan
from ..plan.plastic import VALUE
from .plastic_cluster import brings, texts_of_cluster
from .plastic_deferred import deferred_texts, sampled_text
from .plastic_events import (
    called_at_once,
    intervals_of,
    lists_of_target,
    reads_taken,
    takes_events,
    texts_of_events,
)
from .plastic_inside import texts_of_inside
from .plastic_layout import PlasticLayout
from .plastic_spikes import SETTLED, SYNAPSES, arrives_with, gather, reads_traces, texts_of_spikes
from .plastic_words import PlasticWords
from .plastic_writer import OF_BLOCK, OF_SOME, OF_THREAD, Writer
from .text import PlasticText

__all__ = ["plastic_text"]

_OF_STEP = "const Net& net, Desk& desk, const Ring& ring, u32 block, u32 t"
_LAZY = 3  # steps of delay, of which there are more where lists may be released late, and be seen late
_EARLY = 4  # the same where they are seen a step earlier than they are needed
_EMPTIED = ("ACTING_DO", "    if (tid == 0) empty_queue(t);", "ACTING_END")
_MOST_BEHIND = 16  # steps that synapses are late
_ENDING = 8  # steps until a launch ends, besides those by which packets and synapses are late
_MOST_LAG, _MOST_FENCED = 7, 4  # steps after theirs in which packets are read; of which lists are released at once


def plastic_text(
    plan: Plan, layouts: Sequence[PlasticLayout], words: PlasticWords, *, prompt: bool = False
) -> PlasticText:
    """Return the text of the plastic synapses of a network.

    If it is `prompt`, blocks hand each other the events of a step in that step, as those of a cluster do.
    """
    helpers = forms_of_synapses()
    # Blocks learn that a value or a state is wrong from the packets of its step, after which the run stops. And values
    # for fixed synapses are kept for two steps.
    watched = plan.check_finite or any(population.rule.value for population in plan.populations)
    writers = [
        Writer(k, plan, one, layout, words) for k, (one, layout) in enumerate(zip(plan.plastic, layouts, strict=True))
    ]
    beside: dict[int, list[Writer]] = {}  # by the first of those whose spikes arrive together
    for one in writers:
        beside.setdefault(next(other.number for other in writers if arrives_with(other, one)), []).append(one)
    texts = [text for one in writers if one.deferred for text in deferred_texts(one)]
    texts += [text for one in writers for text in (*texts_of_spikes(one), *texts_of_events(one))]
    texts += [gather(writers[first], together) for first, together in beside.items()]
    texts += texts_of_inside(writers)
    texts += [_by_projection(writers, "act", SYNAPSES), _by_projection(writers, "settle", SETTLED)]
    behind = 0 if watched or prompt else _behind(plan)
    texts += texts_of_cluster(list(beside.values()), prompt=prompt)
    texts += _of_launch(writers) + _of_step(writers, [writers[first] for first in beside], behind)
    texts += [sampled_text(writers)]
    forms = (
        *(helpers[name] for name in (DECAYED, SPIKED, DELIVERED)),
        *[helpers[GRADED]] * any(one.graded for one in plan.plastic),
        *(form for one in writers for form in one.forms),
    )
    apart = all(one.axon for one in writers) or behind > 0  # from what others send and listen to
    least = behind or min((int(p.distinct[0]) for p in plan.plastic if p.entries), default=1)
    ahead = apart and least > 1 and not watched
    constants = {
        "WINDOWED": apart,
        "AHEAD": ahead,
        "LAZY": apart and least > _LAZY and not prompt,
        "EARLY": ahead and least > _EARLY and not prompt,
        "READS_TRACES": any(reads_traces(one) for one in writers),
        "DEFERRED": any(one.deferred for one in writers),
        "BETWEEN": _is_between(writers, behind),
    }
    lag, fenced = _lateness(plan, least - _EARLY) if constants["EARLY"] else (0, 1)
    spare = _ENDING + lag + behind
    told = words.told, 0 if words.carried else 3, _splits(writers)
    return PlasticText(forms, constants, lag, fenced, _tell(plan, words), "\n".join(texts), behind, spare, *told)


def _behind(plan: Plan) -> int:
    """Return how many steps late synapses with delays at the dendrite may be, if all are such; 0 if they may not."""
    drawn = [one for one in plan.plastic if one.entries]
    names = {name.text for one in drawn for _, rule in one.rules.all for name in rule.form.inputs}
    traces = {f"post_{trace.name}" for one in drawn for trace in one.rules.post}
    of_targets = any(name.startswith("post_") and name not in traces for name in names)
    if not drawn or any(one.at_axon for one in plan.plastic) or of_targets:
        return 0
    least = min(int(one.distinct[0]) for one in drawn)
    return min(least, _MOST_BEHIND) if least > _EARLY else 0


def _lateness(plan: Plan, spare: int) -> tuple[int, int]:
    """Return how many steps after theirs packets are read, and of how many steps lists are released at once.

    Together, they are at most the `spare` steps of the least delay of plastic synapses. Spikes of fixed synapses arrive
    later than packets are read. What couplings read is kept for two steps.
    """
    fixed = min((p.delays[0] for p in plan.projections if p.entries), default=spare)
    lag = max(0, min(_MOST_LAG, spare - 1, fixed - 1))
    if plan.couplings:
        lag = 0
    return lag, min(_MOST_FENCED, 1 << (spare - lag).bit_length() - 1)


def _by_projection(writers: Sequence[Writer], name: str, parameters: str) -> str:
    """Return a function that chooses by the projection of a spike, or of some that have the same."""
    passed = ", ".join(parameter.split()[-1].lstrip("&*") for parameter in parameters.split(", "))
    first = "spikes[0]" if "spikes" in parameters else "spike"
    lines = [f"    if (projection_of({first}) == {one.number}) {name}{one.number}({passed});" for one in writers]
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


def _of_launch(writers: Sequence[Writer]) -> list[str]:
    """Return what a launch does at its beginning or its end about deferred calls, and `take_all`: functions."""
    numbers = [one.number for one in writers if one.deferred]
    begun = [f"begin_deferring{number}(net, block, step);" for number in numbers]
    calls = (f"take_events{one.number}(net, ring, block, tid, t, threads);" for one in writers if takes_events(one))
    return [
        _of_block("take_all", list(calls), OF_SOME),
        _of_block("begin_deferring", begun, "const Net& net, u32 block, u32 step"),
        _of_block("treat_deferred", [f"treat{number}(net, block);" for number in numbers], "const Net& net, u32 block"),
    ]


def _brought(otherwise: Sequence[str], *, arriving: bool) -> list[str]:
    """Return lines by which warps of a cluster let spikes act as they find them, since these are at hand."""
    call = f"bring_all(net, ring, block, t, false, 0, {str(arriving).lower()});"
    if arriving:
        call = "bring_beside(net, ring, block, t);"
    return [
        "if (CLUSTER) {",
        f"    {call}",
        f"    {_marked('SETTLED')}",
        "} else {",
        *(f"    {x}" for x in otherwise),
        "}",
    ]


def _late(gathering: Sequence[str]) -> list[str]:
    """Return what happens while others send and listen, where synapses are behind."""
    return [
        "const u32 now = t - BEHIND;  // the step that ends for synapses",
        "const auto has = [&](u32 step) { return step - plastic_desk.first < steps; };",
        "if (has(now)) change(net, desk, ring, block, now);",
        "if (has(now + 2)) {  // by other warps than most of those that let spikes act",
        *(f"    {line}" for line in gathering),
        "}",
        "if (has(now + 1)) act_all(net, desk, after_step(ring), block, now + 1, false);",
    ]


def _of_step(writers: Sequence[Writer], gathering: Sequence[Writer], behind: int) -> list[str]:
    """Return what happens before and after the update of neurons, and while others send and listen: functions."""
    names = {axon: [f"gather{one.number}" for one in gathering if one.axon == axon] for axon in (True, False)}
    walks = [f"if ({'' if one.axon else '!'}arriving) walk{one.number}(net, ring, block, t);" for one in writers]
    acting = ["ACTING_MEET;", _marked("QUEUED"), "act_all(net, desk, ring, block, t, {});"]
    arrive = [line.format("true") for line in (*_phase(names[True]), *acting)]
    changes = ["change(net, desk, ring, block, t);"]
    if behind:
        react, finish = _late(_gathering("now + 2")), list[str]()
    elif names[False]:
        acted = [*_phase(names[False]), *(line.format("false") for line in acting)]
        acted = [*_brought(acted, arriving=False), "ACTING_MEET;"]
        acted += _EMPTIED if names[True] else []  # the next ones are queued before that is done at the begin of a step
        react, finish = [], [*acted, *changes, "BLOCK_MEET;"]
    else:
        queue = ["if (AHEAD && !EARLY && !CLUSTER && goes_on) {", *_gathering("t + 1"), "}"]
        act = [
            "if (AHEAD && CLUSTER && goes_on) {",
            "    bring_all(net, after_step(ring), block, t + 1, false, 0, true);",
            "    mark_acting(desk, SETTLED);",
            "} else if (AHEAD && goes_on) {",
            "    if (EARLY) {  // by other warps than most of those that let spikes act",
            *(f"    {line}" for line in _gathering("t + 2")),
            "    } else ACTING_MEET;",
            "    act_all(net, desk, after_step(ring), block, t + 1, true);",
            "}",
        ]
        arrive.insert(0, "if (EARLY) {")
        arrive[1:1] = [*_gathering("t + 1"), "}"]
        react, finish = [*queue, *changes, *act], []
    arrive = _brought([*arrive, "BLOCK_MEET;"], arriving=True) if names[True] else []
    gathered = [f"    {name}(net, ring, block, tid, t);" for name in names[not behind]]
    return [
        _of_block("change", [*_changes(writers, behind), _marked("CHANGED")], _OF_STEP),
        _of_block("walk_all", walks, f"{OF_BLOCK}, bool arriving"),
        "\n".join([f"BE void gather_all({OF_THREAD}) {{", *gathered, "}", ""]),
        _of_block("arrive", arrive, _OF_STEP),
        _of_block("react", react, f"{_OF_STEP}, bool goes_on, u32 steps"),
        _of_block("finish", finish, _OF_STEP),
    ]


def _splits(writers: Sequence[Writer]) -> bool:
    """Say whether spikes arrive at the ends of axons, and can change synapses while neurons are updated."""
    own = [one for one in writers if one.axon]
    return bool(own) and all(brings(one) for one in own)


def _is_between(writers: Sequence[Writer], behind: int) -> bool:
    """Say whether traces take spikes and events while neurons are updated: nothing else happens in between."""
    return behind > 0 and all(one.deferred for one in writers)


def _changes(writers: Sequence[Writer], behind: int) -> list[str]:
    """Return lines for all that happens to synapses after spikes of their sources have acted."""
    phases = [
        _phase([f"on_post{k}_{o.number}" for o in writers if k < called_at_once(o)])
        for k in range(max(called_at_once(one) for one in writers))
    ]
    if any(takes_events(one) for one in writers) and not _is_between(writers, behind):
        # From the last thread on: others have the synapses of events.
        take = "    take_all(net, ring, block, ACTING * 32 - 1 - tid, t, ACTING * 32);"
        if not phases or any(reads_taken(one) for one in writers):
            phases.append([])
        phases[-1] = [*phases[-1], "ACTING_DO", take, "ACTING_END"]
    lines = [line for phase in phases for line in ("ACTING_MEET;", *phase)][1:]
    intervals = [_at_interval(writers, k) for k in range(max(len(one.rules.every) for one in writers))]
    due = " || ".join(["!ENDS", "net.synapse_samples", *(due for due, _ in intervals)])
    lines += [f"if ({due}) ACTING_MEET;"] * bool(lines)
    if lines and all(one.axon for one in writers):  # all threads see the same numbers
        lists = sorted({number for one in writers for number in lists_of_target(one)})
        some = " | ".join(f"plastic_desk.listed[t & 1][{number}]" for number in lists)
        lines = [f"if ({some}) {{", *(f"    {line}" for line in lines), "}"]
    for k, (is_due, calls) in enumerate(intervals):
        then = " || ".join(["!ENDS", "net.synapse_samples", *(due for due, _ in intervals[k + 1 :])])
        lines += [f"if ({is_due}) {{", *(f"    {call}" for call in calls), f"    if ({then}) ACTING_MEET;", "}"]
    known = [line for one in writers for line in intervals_of(writers, one)]
    lines = [*known, *lines, "if (net.synapse_samples) {", "    ACTING_DO"]
    lines += ["        sample_synapses(net, block, tid, t);", "    ACTING_END", "    if (!ENDS) ACTING_MEET;", "}"]
    return lines


def _at_interval(writers: Sequence[Writer], k: int) -> tuple[str, list[str]]:
    """Return whether a rule of any projection is called at an interval that ends, and those calls."""
    own = [one for one in writers if k < len(one.rules.every)]
    calls = [f"if (due{k}_{one.number}) every{k}_{one.number}(net, ring, block, t);" for one in own]
    return " || ".join(f"due{k}_{one.number}" for one in own), calls


def _tell(plan: Plan, words: PlasticWords) -> str:
    """Return `tell`: the events of a neuron are listed, and what rules read of it is written to memory."""
    lines = []
    for number, population in enumerate(plan.populations):
        kept, states = words.kept.get(population.name), list(population.state)
        own = []
        for event in kept.events if kept else ():
            place, bit = words.list_of(population.name, event), population.rule.events.index(event)
            own.append(f"if (events >> {bit} & 1) note(net, {place}, own.neuron, block, t);")
        for kind in kept.numbers if kept else ():
            word = "own.value" if kind == VALUE else f"s[{states.index(kind.removeprefix('state.'))}]"
            mask = f"list_of(net, {words.list_of(population.name)}).mask"
            size = f"net.population[{number}].size"
            kept_at: tuple[str, ...] = ("kept", population.name, kind)
            for where in [(*kept_at, gpu) for gpu in words.others] or [kept_at]:
                at = f"array_of<u32>(net, {words.of(*where)})"
                own.append(f"if (events & 1) {at}[(u64)(t & {mask}) * {size} + own.neuron] = {word};")
        own += [
            f"net.states[(u64){states.index(state)} * all_blocks(net) * net.per + block * net.per + own.place] = "
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
