# SPDX-License-Identifier: Apache-2.0
"""Numba loops that connect neurons pair by pair, and compute values of synapses from the attributes of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES
from ...backends.numba.inner import inner
from ...scalar.on_numba import compiled_forms
from ...scalar.pair import TracedPair
from ...scalar.samplers import portion_form
from .on_cpu_rows import whole_into
from .on_cpu_sorting import copy_row, finish_row
from .on_cpu_values import F, U, clipped, loop, threefry, values_into

__all__ = ["draw_pairs", "finding", "mapping"]

_vector = inner(error_model="numpy", flushes=HARDWARE_FLUSHES, apart=True)
_portion = compiled_forms([portion_form()], inlined=True)["portion"]

# Arguments of the loops are those of `pair_drawing.py`. Loops in which arrays do not overlap are vectorized.
_FIND = """
def draw(row, begin, count, pairs, units):
    k0, k1, at, order = U(pairs.key[0]), U(pairs.key[1]), U(row), pairs.order[begin : begin + count]
    for i in range(count):
        units[i] = portion(threefry(k0, k1, at, U(order[i]))[0])


def mark(row, own, begin, count, pairs, units, marks):
    order = pairs.order[begin : begin + count]
    {own}
    for i in range(count):
        chance = function({arguments})
        right = (chance >= F(0)) & (chance <= F(1))
        mark = ONE if units[i] < chance else NONE
        marks[i] = (mark if right else WRONG) if order[i] != own else NONE


def mark_some(row, own, begin, count, pairs, units, places, marks):
    order = pairs.order[begin:]
    {own_some}
    for k in range(count):
        i = places[k]
        marks[k] = ONE if (units[i] < function({arguments})) & (order[i] != own) else NONE


def find(first, last, pairs, room, found, counts, wrong):
    order, units, marks, places = pairs.order, room.units, room.marks, room.places
    many = np.int64(0)
    for row in range(first, last):
        group, before, width = pairs.group[row], many, 0
        for run in range(pairs.starts[group], pairs.starts[group + 1]):
            width += pairs.ends[run] - pairs.begins[run]
        if width > found.size - many:
            return row
        own = np.int32(row if pairs.skip else -1)
        for run in range(pairs.starts[group], pairs.starts[group + 1]):
            begin, end, limit = np.int64(pairs.begins[run]), np.int64(pairs.ends[run]), pairs.limits[run]
            while begin < end:
                count = end - begin if end - begin < marks.size else marks.size
                draw(row, begin, count, pairs, units)
                both, some = NONE, np.int64(0)
                if limit < F(0.5):  # no probability is larger
                    for i in range(count):
                        places[some] = i
                        some += np.int64(units[i] < limit)
                    mark_some(row, own, begin, some, pairs, units, places, marks)
                    for k in range(some):
                        found[many] = order[begin + places[k]]
                        many += np.int64(marks[k])
                else:
                    mark(row, own, begin, count, pairs, units, marks)
                    for i in range(count):
                        found[many] = order[begin + i]
                        many += np.int64(marks[i] & ONE)
                        both |= marks[i]
                if both & WRONG:
                    wrong[0] = row
                    return last
                begin += count
        counts[row] = many - before
    return last
"""
_MAP = """
def values(row, begin, count, law, targets, pre, post, out):
    factor, least, most, low, high, wrong = law[1], law[2], law[5], law[3], law[4], np.int32(0)
    {own}
    for i in range(count):
        target = targets[begin + i]
        x = function({arguments}) * factor
        wrong |= np.int32(~((x >= least) & (x <= most)))
        out[i] = clipped(x, low, high)
    return wrong


def map_rows(first, last, rows, law, targets, pre, post, out, wrong):
    start = rows[first]
    for row in range(first, last):
        begin = rows[row]
        if values(row, begin, rows[row + 1] - begin, law, targets, pre, post, out[begin - start :]):
            wrong[0] = row
            return 1
    return 0
"""


def _made(text: str, inner_names: tuple[str, ...], name: str, pair: TracedPair, **places: str) -> Any:
    """Return a loop in which a function stands, and functions that it calls."""
    function = compiled_forms([pair.form], inlined=True)[pair.form.name]
    scope: dict[str, Any] = {"np": np, "U": U, "F": F, "function": function, "threefry": threefry}
    scope |= {"NONE": np.uint8(0), "ONE": np.uint8(1), "WRONG": np.uint8(2)}
    scope |= {"portion": _portion, "clipped": clipped}
    exec(compile(text.format(**places), f"<{name}>", "exec"), scope)
    for called in inner_names:
        scope[called] = _vector(scope[called])
    return loop(scope[name])


def _sides(pair: TracedPair) -> tuple[range, range]:
    """Return the numbers of the attributes of sources, and of targets, that a function reads."""
    own = sum(side == "pre" for side, _ in pair.names)
    return range(own), range(len(pair.names) - own)


def finding(pair: TracedPair) -> Any:
    """Return the loop that finds the targets of sources, by a probability."""
    own, others = _sides(pair)
    lines = ["pre = pairs.pre", *(f"own{k} = pre[{k}, row]" for k in own)]
    whole = "; ".join([*lines, *(f"post{k} = pairs.post[{k}][begin : begin + count]" for k in others)])
    some = "; ".join([*lines, *(f"post{k} = pairs.post[{k}][begin:]" for k in others)])
    arguments = ", ".join([*(f"own{k}" for k in own), *(f"post{k}[i]" for k in others)])
    names = ("draw", "mark", "mark_some")
    return _made(_FIND, names, "find", pair, own=whole, own_some=some, arguments=arguments)


def mapping(pair: TracedPair) -> Any:
    """Return the loop that computes values of synapses."""
    own, others = _sides(pair)
    lines = "; ".join(f"own{k} = pre[{k}, row]" for k in own) or "pass"
    arguments = ", ".join([*(f"own{k}" for k in own), *(f"post[{k}, target]" for k in others)])
    return _made(_MAP, ("values",), "map_rows", pair, own=lines, arguments=arguments)


@loop
def draw_pairs(
    first: int, last: int, drawn: Any, rows: Any, found: Any, sorts: int, scratch: Any, entries: Any, loads: Any
) -> int:
    """Draw weights and delays of the synapses of some sources; write them, in order or not, as `draw_rows` does.

    `found` are their targets. A synapse takes the words that belong to its pair.
    """
    off, base = 0, rows[first]
    keys, ends, words = drawn.keys, scratch.ends, scratch.words
    for row in range(first, last):
        start, count = rows[row], rows[row + 1] - rows[row]
        for i in range(count):
            ends[i] = found[start - base + i]
        if drawn.weights.size:
            for i in range(count):
                words[i] = threefry(U(keys[0, 0]), U(keys[0, 1]), U(row), U(ends[i]))[1]
            if drawn.floats:
                values_into(drawn.weights, words, count, scratch.weights.view(F))
            else:
                off += whole_into(drawn.weights, words, count, scratch.floats, scratch.weights)
        if drawn.delays.size:
            for i in range(count):
                words[i] = threefry(U(keys[1, 0]), U(keys[1, 1]), U(row), U(ends[i]))[0]
            whole_into(drawn.delays, words, count, scratch.floats, scratch.delays)
        if sorts:
            finish_row(row, count, start, scratch, entries, loads)
        else:
            copy_row(count, start, scratch, entries)
    return off
