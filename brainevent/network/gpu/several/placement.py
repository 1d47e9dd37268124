# SPDX-License-Identifier: Apache-2.0
"""`placement_for`: populations, or groups of neurons by a label, on GPUs, so that short delays are within one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...hosts.areas import NEURON, Link, placed_areas
from ...plan.drawing import Description
from ...plan.plan import Plan
from ..partition import Group, Partition, Placement
from .exchange import MOST_LAG, delivers_at_once, lag_for, least_delay

__all__ = ["grouped", "placement_for", "said_of", "said_of_groups"]

_UNEVEN = 1.15  # times the mean work of a GPU that one of them may have
_WITHIN = 0.5  # of all synapses, that are within labels, at least, if each has blocks of its own
_NAMED = 8  # populations of a GPU that are named in a report

Array = Any
Ranges = Sequence[Mapping[str, tuple[int, int]]]


def placement_for(plan: Plan, count: int) -> Placement | None:
    """Return which neurons each of several GPUs has; None if all of them have a share of each population.

    That is so if spikes need not arrive earlier from other GPUs than they do with such shares, or if some GPU would
    have much more work than others: work is in proportion to neurons, and to the synapses that end on them.
    """
    if count == 1 or plan.plastic or delivers_at_once(plan) or lag_for(least_delay(plan)) == MOST_LAG:
        return None
    for ranges in (_by_label(plan, count), _by_population(plan, count)):
        if ranges is not None:
            near, far, between = _delays(plan, ranges)
            lag, late = lag_for(near), lag_for(far)
            if late > lag:
                return Placement(tuple(ranges), lag, late - lag, between)
    return None


def said_of(plan: Plan, ranges: Mapping[str, tuple[int, int]]) -> str:
    """Say which neurons a GPU has: whole populations by name, else as a part, such as exc[0:400]."""
    own = [(p, *ranges[p.name]) for p in plan.populations if ranges[p.name][0] < ranges[p.name][1]]
    named = [p.name if high - low == p.size else f"{p.name}[{low}:{high}]" for p, low, high in own[:_NAMED]]
    more = [f"{len(own) - _NAMED} more populations"] if len(own) > _NAMED else []
    return ", ".join(named + more)


def said_of_groups(partition: Partition) -> str:
    """Say which blocks of a GPU have which of its groups of neurons, if there are any."""
    found = []
    for group in partition.parts:
        first = partition.first + group.first
        last = first + group.blocks - 1
        found.append(f"{group.name} on block{f' {first}' if first == last else f's {first} to {last}'}")
    return ", ".join(found)


def _by_population(plan: Plan, count: int) -> Ranges | None:
    """Return ranges of whole populations."""
    links = [Link(one.source, one.target, one.entries, one.delays[0]) for one in plan.projections if one.entries]
    placed = placed_areas({p.name: p.size for p in plan.populations}, links, count, uneven=_UNEVEN)
    work = np.zeros(count)
    for p in plan.populations:
        work[placed[p.name]] += NEURON * p.size
    for link in links:
        work[placed[link.target]] += link.synapses
    if work.min() <= 0 or work.max() > _UNEVEN * work.mean():
        return None
    return [{p.name: (0, p.size if placed[p.name] == gpu else 0) for p in plan.populations} for gpu in range(count)]


# ---- groups of neurons by a label, such as their area


def _by_label(plan: Plan, count: int) -> Ranges | None:
    """Return ranges of neurons, if all have labels in ascending order between which synapses are drawn."""
    if (known := _ordered_labels(plan)) is None:
        return None
    _, labels = known
    number = 1 + max(int(own[-1]) for own in labels.values() if own.size)
    work: Array = sum(NEURON * np.bincount(own, minlength=number) for own in labels.values())
    links: list[tuple[Array, int]] = []  # which label has synapses from which, and their least delay
    for about, source in zip(plan.projections, plan.synapses.sources, strict=True):
        if not about.entries:
            continue
        grouped = _grouped(source)
        if grouped is None:
            into, out = (np.bincount(labels[name], minlength=number) for name in (about.target, about.source))
            work = work + about.entries * into / max(1, into.sum())
            links.append((np.outer(into > 0, out > 0), about.delays[0]))
        else:
            table = np.zeros((number, number), bool)
            table[: grouped.table.shape[0], : grouped.table.shape[1]] = grouped.table[:number, :number] > 0
            some = np.zeros(number)
            some[: grouped.sizes.size] = (grouped.table.sum(1) * grouped.sizes)[:number]
            work = work + some
            links.append((table, about.delays[0]))
    for delay in range(MOST_LAG + 1, lag_for(least_delay(plan)) + 1, -1):
        cuts = _cuts(work, _allowed(links, delay, number), count)
        if cuts is not None:
            edges = [0, *cuts, number]
            return [_between(labels, edges[gpu], edges[gpu + 1]) for gpu in range(count)]
    return None


def grouped(plan: Plan, placement: Placement, blocks: int) -> Placement | None:
    """Return the same with the neurons of each label on some of the blocks of their GPU; None if that does not suit.

    Most synapses are then within labels, and no block has much more work than others: blocks are in proportion to it.
    All neurons of a label are on one GPU.
    """
    if (known := _ordered_labels(plan)) is None:
        return None
    by, labels = known
    number = 1 + max(int(own[-1]) for own in labels.values() if own.size)
    work: Array = sum(NEURON * np.bincount(own, minlength=number) for own in labels.values())
    within, least = 0.0, 2**30  # delay between labels
    for about, source in zip(plan.projections, plan.synapses.sources, strict=True):
        if about.entries and (of := _grouped(source)) is None:
            return None
        if about.entries:
            synapses = of.table * of.sizes[:, None]
            work[: synapses.shape[0]] += synapses.sum(1)[:number]
            within += np.trace(synapses)
            if (np.where(np.eye(*synapses.shape), 0, synapses) > 0).any():
                least = min(least, about.delays[0])
    if within < _WITHIN * sum(one.entries for one in plan.projections):
        return None
    groups = []
    for ranges in placement.ranges:
        own = [k for k in range(number) if any(low <= _first(labels[p], k) < high for p, (low, high) in ranges.items())]
        if not 1 <= len(own) <= blocks:
            return None
        if not all(_holds(ranges, _between(labels, label, label + 1)) for label in own):
            return None
        shares = _shared(work[own], blocks)
        if (work[own] / shares).max() > _UNEVEN * work[own].sum() / blocks:
            return None
        found = zip(own, shares.tolist(), np.cumsum([0, *shares[:-1]]).tolist(), strict=True)
        groups.append(
            tuple(
                Group(f"{by} {label}", first, share, _between(labels, label, label + 1))
                for label, share, first in found
            )
        )
    return replace(placement, groups=tuple(groups), apart=least > placement.lag + placement.extra)


def _first(own: Array, label: int) -> int:
    """Return the first neuron with a label; a number beyond all neurons if there is none."""
    found = int(np.searchsorted(own, label))
    return found if found < own.size and own[found] == label else own.size


def _holds(ranges: Mapping[str, tuple[int, int]], others: Mapping[str, tuple[int, int]]) -> bool:
    """Say whether all neurons of some ranges are in others."""
    return all(low == high or ranges[name][0] <= low < high <= ranges[name][1] for name, (low, high) in others.items())


def _shared(work: Array, blocks: int) -> Array:
    """Return how many of some blocks have each share of the work, one at least: the most of a block is least."""
    shares = np.ones(work.size, int)
    for _ in range(blocks - work.size):
        shares[np.argmax(work / shares)] += 1
    return shares


def _between(labels: Mapping[str, Array], low: int, high: int) -> dict[str, tuple[int, int]]:
    """Return which neurons of each population have labels from one to before another one."""
    return {name: (int(np.searchsorted(own, low)), int(np.searchsorted(own, high))) for name, own in labels.items()}


def _ordered_labels(plan: Plan) -> tuple[str, dict[str, Array]] | None:
    """Return an attribute, and the label of each neuron by population, if all have that alone, in ascending order."""
    known = _labels(plan)
    labels, attributes = {name: own for (name, _), own in known.items()}, {by for _, by in known}
    all_known = all(p.name in labels for p in plan.populations)
    if len(attributes) != 1 or not all_known or any((np.diff(own) < 0).any() for own in labels.values()):
        return None
    return attributes.pop(), {p.name: labels[p.name] for p in plan.populations}


def _grouped(source: Any) -> Any:
    """Return the groups between which synapses of a source are drawn, if they are those of whole populations."""
    wiring = source.wiring if isinstance(source, Description) else None
    return wiring.grouped if wiring is not None and wiring.ends is None else None


def _labels(plan: Plan) -> dict[tuple[str, str], Array]:
    """Return the group of each neuron by population and attribute."""
    labels: dict[tuple[str, str], Array] = {}
    for about, source in zip(plan.projections, plan.synapses.sources, strict=True):
        if (grouped := _grouped(source)) is not None:
            if (about.target, grouped.by) not in labels:
                labels[about.target, grouped.by] = grouped.group
            if (about.source, grouped.by) not in labels:
                labels[about.source, grouped.by] = of_sources = np.empty(grouped.order.size, np.int64)
                of_sources[grouped.order] = np.repeat(np.arange(grouped.begins.size - 1), np.diff(grouped.begins))
    return labels


def _allowed(links: Sequence[tuple[Array, int]], delay: int, number: int) -> Array:
    """Say before which labels a GPU may begin: no synapse of less than a delay is from one side to the other."""
    allowed = np.ones(number + 1, bool)
    for table, least in links:
        if least < delay:
            for one, other in np.argwhere(table | table.T):
                allowed[one + 1 : other + 1] = False
    return allowed


def _cuts(work: Array, allowed: Array, count: int) -> list[int] | None:
    """Return where labels of the next GPU begin, so that the most work of one is least; None if that is too much."""
    ends = np.cumsum(work)
    places = [k for k in range(1, work.size) if allowed[k]] + [work.size]
    low, high = ends[-1] / count, _UNEVEN * ends[-1] / count
    found = None
    for _ in range(40):
        middle = (low + high) / 2 if found is not None else high
        cuts = _filled(ends, places, middle)
        if cuts is None or len(cuts) > count:
            if found is None:
                return None
            low = middle
        else:
            found, high = cuts, middle
    assert found is not None
    return found[:-1] if len(found) == count else None


def _filled(ends: Array, places: Sequence[int], most: float) -> list[int] | None:
    """Return where labels end of which each GPU has as many as have at most so much work."""
    cuts, begin = list[int](), 0.0
    for before, place in zip([0, *places], places, strict=False):
        if ends[place - 1] - begin > most:
            if before == 0 or before in cuts:
                return None
            cuts.append(before)
            begin = ends[before - 1]
            if ends[place - 1] - begin > most:
                return None
    return [*cuts, places[-1]]


# ---- delays


def _delays(plan: Plan, ranges: Ranges) -> tuple[int, int, float]:
    """Return the least delay within GPUs and between them, and which share of synapses is between them.

    Delays are very long where there are no synapses.
    """
    least, synapses = [2**30, 2**30], [0.0, 0.0]
    groups = [_grouped(source) for source in plan.synapses.sources]
    number = max((size for of in groups if of is not None for size in of.table.shape), default=1)
    held: dict[tuple[str, str | None], Array] = {  # which part of a group a GPU has: (groups, GPUs)
        (p.name, None): np.array([[(one[p.name][1] - one[p.name][0]) / p.size for one in ranges]])
        for p in plan.populations
    }
    for (name, by), own in _labels(plan).items():
        counts = np.stack([np.bincount(own[slice(*one[name])], minlength=number) for one in ranges], 1)
        held[name, by] = counts / np.maximum(1, counts.sum(1, keepdims=True))
    for about, of in zip(plan.projections, groups, strict=True):
        if not about.entries:
            continue
        group = None if of is None else of.by
        table = np.full((1, 1), about.entries) if of is None else of.table * of.sizes[:, None]
        into, out = held[about.target, group][: table.shape[0]], held[about.source, group][: table.shape[1]]
        pairs = into.T @ table @ out  # synapses of a GPU from each GPU
        own = np.trace(pairs)
        for k, some in enumerate((own, np.where(np.eye(len(ranges)), 0, pairs).sum())):
            synapses[k] += some
            if some > 0:
                least[k] = min(least[k], about.delays[0])
    return least[0], least[1], synapses[1] / max(1.0, sum(synapses))
