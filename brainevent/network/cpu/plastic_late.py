# SPDX-License-Identifier: Apache-2.0
"""Events of targets that wait for spikes of the source, which bring synapses up to date: their memory, and the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..pages import aligned
from ..plan.plan import Plan
from ..plan.plastic import PlasticPlan
from .plastic_words import inputs_of
from .plastic_writer import Writer
from .tables import EVENTS, STRETCH, address

__all__ = ["Waiting", "late_of_source", "up_to_date", "wait"]

Array = Any


class Waiting:
    """The events of the targets of a projection that wait for spikes of its sources.

    Args:
        plan: The network.
        plastic: The projection.
        dtypes: Of the values of the target that its rule reads, by their names.
    """

    def __init__(self, plan: Plan, plastic: PlasticPlan, dtypes: Mapping[str, str]):
        size, rows = plastic.sizes[1], plastic.pre_rows
        self.held, self.most = aligned((size,), np.uint8), aligned((size,), np.uint8)
        self.most[...] = EVENTS
        self._times = aligned((size * EVENTS,), np.uint32)
        self._values = {name: aligned((size * EVENTS,), dtype) for name, dtype in dtypes.items()}
        self.seen = [aligned((rows * plastic.sizes[0],), np.uint32) for _ in range(plan.parts)]
        self._scratch = [aligned((STRETCH,), np.int64) for _ in range(plan.parts)]

    def clear(self, step: int) -> None:
        """Let nothing wait before a step."""
        self.held[...] = 0
        for seen in self.seen:
            seen[...] = np.uint32(step)

    @property
    def blank(self) -> list[Array]:
        """The arrays that are filled before anything reads them, once a state is loaded."""
        return [self._times, *self._values.values(), *self.seen, *self._scratch]

    def words(self, part: int) -> dict[str, int]:
        """Return what the text of a part needs."""
        names, own = ("seen", "held", "most", "times"), (self.seen[part], self.held, self.most, self._times)
        words = {name: address(array) for name, array in zip(names, own, strict=True)}
        return (
            words
            | {"some": address(self._scratch[part])}
            | {f"late:{name}": address(array) for name, array in self._values.items()}
        )


def _waited(writer: Writer) -> list[str]:
    """Return lines that let one event act, of which `event` is the place, on synapse e."""
    ((_, rule),) = writer.rules.on_post
    lines = ["then = times[event]", *writer.values("pre", rule.form, "at", "source", "then")]
    lines += [f"x_post_{name} = late_{name}[event]" for name in inputs_of(rule.form, "post_")]
    return [*lines, *writer.called(writer.form("on_post_0", rule.form), rule.form)]


def late_of_source(writer: Writer) -> str:
    """Write a walk that lets what waits act on synapses of `source`: turn by turn, one event of each of them."""
    body = [
        "since, span = seen[at], np.uint32(now - seen[at])",
        f"for first in range(np.uint64(begin), np.uint64(end), np.uint64({STRETCH})):",
        "    many = np.uint64(0)",
        f"    for k in range(min(np.uint64({STRETCH}), np.uint64(end) - first)):",
        f"        begins = np.uint64({EVENTS}) * np.uint64(np.uint32(targets[first + k]))",
        "        kept = held[np.uint32(targets[first + k])]",
        "        count = np.uint64(count_within(times, np.int64(begins), np.uint32(kept), since, span))",
        "        event = begins + np.uint64(kept) - count",
        "        some[many] = event << np.uint64(32) | k << np.uint64(16) | count",
        "        many += np.uint64(count > 0)",
        "    while many > 0:",
        "        again = np.uint64(0)",
        "        for turn in range(many):",
        "            own = some[turn]",
        "            e, event = first + (own >> np.uint64(16) & np.uint64(0xFFFF)), own >> np.uint64(32)",
        *(f"            {line}" for line in _waited(writer)),
        "            some[again] = own + np.uint64(0xFFFFFFFF)",
        "            again += np.uint64(own & np.uint64(0xFFFF) > 1)",
        "        many = again",
    ]
    return writer.function("late_of_source", ["begin", "end", "source", "at"], body)


def _late_of_target(writer: Writer) -> str:
    """Write a walk that lets the first `oldest` events that wait at `target` act on its synapses.

    Sources that have spiked since have seen to that already: of most synapses, only `seen` is read.
    """
    body = [
        f"last = {EVENTS} * target + oldest",
        "for k in range(np.uint64(begin), np.uint64(end)):",
        "    e = np.int64(entries[k])",
        "    source = np.int64(np.uint32(origins[k]))",
        f"    at = {writer.at_pre('source')}",
        "    since, span = seen[at], np.uint32(now - seen[at])",
        f"    count = count_within(times, {EVENTS} * target, np.uint32(oldest), since, span)",
        "    for event in range(last - count, last):",
        *(f"        {line}" for line in _waited(writer)),
    ]
    return writer.function("late_of_target", ["begin", "end", "target", "oldest"], body)


def wait(writer: Writer) -> list[str]:
    """Return lines that let an event of `target` wait; if its place was the last one, the older half acts."""
    ((_, rule),) = writer.rules.on_post
    values = inputs_of(rule.form, "post_")
    return [
        f"event = {EVENTS} * target + np.int64(held[target])",
        "times[event] = now",
        *writer.values("post", rule.form, "there", "target"),
        *(f"late_{name}[event] = x_post_{name}" for name in values),
        "held[target] += np.uint8(1)",
        "if held[target] >= most[target]:",
        "    begin, end = into[target], into[target + 1]",
        "    oldest = np.int64(most[target]) - np.int64(most[target]) // 2",
        f"    {_late_of_target(writer)}",
        "    held[target] -= np.uint8(oldest)",
        f"    for event in range({EVENTS} * target, {EVENTS} * target + np.int64(held[target])):",
        "        times[event] = times[event + oldest]",
        *(f"        late_{name}[event] = late_{name}[event + oldest]" for name in values),
    ]


def up_to_date(writer: Writer, late: str) -> list[str]:
    """Return lines that bring all synapses of this part up to date, if that is all to be done."""
    inner = [*writer.reached(), late]
    return [
        "if how < 0:",
        "    for source in range(sources):",
        "        for row in range(rows):",
        *(f"            {line}" for line in inner),
        "    return 0",
    ]
