# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in the shared memory of their block, where a network is small: how much they take, and the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..plan.plastic import PlasticPlan, traces_of
from .plastic_layout import PlasticLayout
from .plastic_writer import Writer

__all__ = ["bytes_inside", "texts_of_inside"]

_OF_SYNAPSES = ("targets", "which", "incoming", "more")
_SIZES = ("sources", "rows", "places")


class _Part(NamedTuple):
    """What a block has of an array: the words of its name, bytes of an element, and where it begins, and its size."""

    name: tuple[str, ...]
    itemsize: int
    size: str
    most: int
    by_base: bool = False
    changes: bool = False


def _parts(plastic: PlasticPlan, layout: PlasticLayout) -> Iterator[_Part]:
    """Yield what a block has; `most` is for the block with most of it."""
    rules, sources, rows, places = plastic.rules, plastic.sizes[0], plastic.distinct.size, layout.places
    entries = max((int(end - begin) for begin, end in zip(layout.bases, layout.bases[1:], strict=False)), default=0)
    yield _Part(("distinct",), 4, "rows", rows)
    yield _Part(("starts",), 4, "sources + 1", sources + 1)
    for name, array in layout.arrays.items():
        if name in _OF_SYNAPSES:
            yield _Part((name,), array.itemsize, "entries", entries, by_base=True)
    if "into" in layout.arrays:
        lines = rows if layout.which is not None and not plastic.at_axon else 1
        yield _Part(("into",), 4, f"places{' * rows' if lines > 1 else ''} + 1", places * lines + 1)
    values: list[tuple[str, ...]] = [("weights",), *(("s", state) for state in rules.states)]
    yield from (_Part(value, 4, "entries", entries, by_base=True, changes=True) for value in values)
    of_source, of_target = ("rows * sources", "places") if plastic.at_axon else ("sources", "rows * places")
    own = {"pre": (of_source, sources * (rows if plastic.at_axon else 1))}
    own["post"] = (of_target, places * (1 if plastic.at_axon else rows))
    traces: list[tuple[str, tuple[str, ...]]]
    traces = [(side, ("last", side)) for side, some in (("pre", rules.pre), ("post", rules.post)) if some]
    traces += [(key.partition(".")[0], ("trace", key)) for key, _ in traces_of(plastic)]
    traces += [("pre", ("carried", name)) for name, _ in rules.carried]
    yield from (_Part(trace, 4, *own[side], changes=True) for side, trace in traces)


def bytes_inside(plastic: PlasticPlan, layout: PlasticLayout) -> int:
    """Return how many bytes of shared memory a block needs for its synapses and traces of a projection at most."""
    return sum(-(-part.itemsize * part.most // 8) * 8 for part in _parts(plastic, layout))


def texts_of_inside(writers: Sequence[Writer]) -> list[str]:
    """Return functions by which a block takes its synapses into shared memory, brings them back, and finds values."""
    into, back = list[str](), list[str]()
    for one in writers:
        word = {name: f"fetch_slot(net.plastic + {one.at(name)})" for name in (*_SIZES, "bases", "starts")}
        lines = [
            "{",
            *(f"    const u32 {name} = (u32){word[name]};" for name in _SIZES),
            f"    const u64 base = ((const u64*){word['bases']})[block];",
            f"    const u32 entries = ((const u32*){word['starts']})[(u64)block * (sources + 1) + sources];",
        ]
        into, back = [*into, *lines], [*back, *lines]
        for part in _parts(one.plastic, one.layout):
            begin = "base" if part.by_base else "0" if part.name == ("distinct",) else f"(u64)block * ({part.size})"
            into.append(f"    at = move_in(net, {one.at(*part.name)}, {part.itemsize}, {begin}, {part.size}, at, tid);")
            if part.changes:
                back.append(f"    move_out(net, {one.at(*part.name)}, {begin}, {part.size}, tid);")
        into.append("}")
        back.append("}")
    return [
        _function("void enter_synapses(const Net& net, u64* at, u32 block, u32 tid)", into),
        _function("void leave_synapses(const Net& net, u32 block, u32 tid)", back),
        *(_found(one) for one in writers if not one.deferred),
    ]


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"BE {head} {{", *(f"    {line}" for line in lines), "}", ""])


def _found(of: Writer) -> str:
    """Return `found`: the weight or a state of a synapse."""
    states = [f"state == {k + 1} ? s_{name}[e] : " for k, name in enumerate(of.rules.states)]
    base = f"((const u64*)fetch_slot(net.plastic + {of.at('bases')}))[block]"
    body = [f"const Place e = synapse - {base};", f"return __float_as_uint({''.join(states)}weights[e]);"]
    return of.function("found", "const Net& net, u64 synapse, u32 state, u32 block", body, kind="u32")
