# SPDX-License-Identifier: Apache-2.0
"""Drive a network through many steps: deliveries, updates, records; each part in its own thread, or all in one."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.floats import flush_floats, restore_floats
from ...backends.numba.inner import inner
from ...backends.numba.memory import acquire, array_at, call, put, release, word, yield_thread
from .on_lists import count_of, put_count, spikes_of
from .tables import ALONE, FAULTY, FINITE, GO_ON, LINE, NO_ROOM, NOT_FINITE, RECORD, RUN, SAMPLE

__all__ = ["drive", "drive_alone"]

_SPINS = 200

_compile = inner(error_model="numpy", later=True)


@_compile
def meet(meeting, abort, part, parts, turn):  # type: ignore[no-untyped-def]
    """Wait until all parts have come to this turn; return whether they have."""
    release(meeting + 8 * LINE * part, turn)
    for other in range(parts):
        spins = 0
        while acquire(meeting + 8 * LINE * other) < turn:
            spins += 1
            if spins > _SPINS:
                if acquire(abort) != 0:
                    return False
                yield_thread()
    return True


@_compile
def keep_spikes(table, step, turn):  # type: ignore[no-untyped-def]
    """Record the spikes of one population in this step; return whether there is no room for those of another."""
    line = word(table, RECORD.list)
    count = count_of(line, step)
    listed = spikes_of(line, step, count)
    if word(table, RECORD.counts) != 0:
        counts = array_at(word(table, RECORD.counts), count, np.int32)
        for k in range(count):
            counts[np.int64(listed[k])] += np.int32(1)
    if word(table, RECORD.rates) != 0:
        array_at(word(table, RECORD.rates), turn + 1, np.int32)[turn] = np.int32(count)
    if word(table, RECORD.spikes) == 0:
        return False
    used = word(table, RECORD.used)
    kept = array_at(word(table, RECORD.spikes) + 4 * used, count, np.int32)
    for k in range(count):
        kept[k] = listed[k]
    put(table, RECORD.used, used + count)
    return word(table, RECORD.room) - used - count < word(table, RECORD.size)


@_compile
def sample(table, step):  # type: ignore[no-untyped-def]
    """Record a state of chosen neurons."""
    every = word(table, SAMPLE.every)
    if step % every != 0:
        return
    chosen, row = word(table, SAMPLE.chosen), step // every - word(table, SAMPLE.before)
    out = word(table, SAMPLE.out) + row * word(table, SAMPLE.row)
    neurons = array_at(word(table, SAMPLE.neurons), chosen, np.int64)
    places = array_at(word(table, SAMPLE.places), chosen, np.int64)
    if word(table, SAMPLE.itemsize) == 8:
        doubles, double = array_at(word(table, SAMPLE.state), chosen, np.int64), array_at(out, chosen, np.int64)
        for k in range(chosen):
            double[places[k]] = doubles[neurons[k]]
    elif word(table, SAMPLE.itemsize) == 4:
        values, wide = array_at(word(table, SAMPLE.state), chosen, np.int32), array_at(out, chosen, np.int32)
        for k in range(chosen):
            wide[places[k]] = values[neurons[k]]
    else:
        flags, narrow = array_at(word(table, SAMPLE.state), chosen, np.uint8), array_at(out, chosen, np.uint8)
        for k in range(chosen):
            narrow[places[k]] = flags[neurons[k]]


@_compile
def not_finite(table):  # type: ignore[no-untyped-def]
    """Say whether a float state has a number that is not finite, or, if infinite ones are fine, NaN."""
    found = np.uint32(0)
    if word(table, FINITE.itemsize) == 8:
        least = np.uint64((0x7FF << 52) + word(table, FINITE.nan))
        doubles = array_at(word(table, FINITE.state), word(table, FINITE.size), np.uint64)
        for k in range(doubles.size):
            found |= np.uint32((doubles[k] & np.uint64(2**63 - 1)) >= least)
        return found != 0
    least_word = np.uint32(0x7F800000 + word(table, FINITE.nan))
    values = array_at(word(table, FINITE.state), word(table, FINITE.size), np.uint32)
    for k in range(values.size):
        found |= np.uint32((values[k] & np.uint32(2**31 - 1)) >= least_word)
    return found != 0


@_compile
def gathered(run, step):  # type: ignore[no-untyped-def]
    """Add to the sums of a part, in a step, what arrives in it from lists of spikes."""
    bundled = word(run, RUN.bundled)
    for k in range(word(run, RUN.bundles)):
        call(word(bundled, 2 * k), word(bundled, 2 * k + 1), step, step)


@_compile
def delivered(run, step):  # type: ignore[no-untyped-def]
    """Add to the sums of a part, for later steps, what the spikes of a step send; change and record its synapses.

    Return why all must stop.
    """
    deliveries = word(run, RUN.deliveries)
    for k in range(word(run, RUN.projections)):
        call(word(deliveries, 2 * k), word(deliveries, 2 * k + 1), step, 0)
    first = word(run, RUN.samples)
    for k in range(first, first + word(run, RUN.of_synapses)):
        sample(word(word(run, RUN.sampled), k), step)
    for k in range(word(run, RUN.faults)):
        if word(word(word(run, RUN.faulty), k), 0) != 0:
            return np.int64(NOT_FINITE)
    return np.int64(GO_ON)


@_compile
def updated(run, step, turn):  # type: ignore[no-untyped-def]
    """Run all rules of a part, and record; return why all must stop."""
    why = np.int64(GO_ON)
    updates, records = word(run, RUN.updates), word(run, RUN.records)
    for population in range(word(run, RUN.populations)):
        record = word(records, population)
        count = call(word(updates, 2 * population), word(updates, 2 * population + 1), step, turn)
        put_count(word(record, RECORD.list), step, count)
        if keep_spikes(record, step, turn):
            why |= NO_ROOM
    for k in range(word(run, RUN.samples)):
        sample(word(word(run, RUN.sampled), k), step)
    for k in range(word(run, RUN.states)):
        if not_finite(word(word(run, RUN.finite), k)):
            why |= NOT_FINITE
    return why


@_compile
def stopped(stops, parts, parity):  # type: ignore[no-untyped-def]
    """Return why some part wants all to stop, as it said in a word of its line."""
    why = np.int64(GO_ON)
    for part in range(parts):
        why |= word(stops, LINE * part + parity)
    return why


@numba.njit(error_model="numpy", nogil=True)
def drive(run: Any, part: Any) -> Any:
    """Drive a part of a network, turn by turn; return the turn it came to, or -1 if aborted.

    A turn is a step of this run. The reasons to stop are kept twice, for even and for odd steps, and spikes for one
    step more than any is delayed: so parts need to meet only once a step, after their updates. Whoever writes for step
    t + 2 has met all others in t + 1, so they have read what was written for t.
    """
    before = flush_floats()
    parts, stops = word(run, RUN.parts), word(run, RUN.stops)
    turn, end = word(run, RUN.begin), word(run, RUN.end)
    why = np.int64(GO_ON)
    while turn < end and why == GO_ON:
        step = word(run, RUN.first) + turn
        gathered(run, step)
        why = updated(run, step, turn)
        put(stops, LINE * part + (step & 1), why)
        turn += 1
        if parts > 1:
            if not meet(word(run, RUN.meeting), word(run, RUN.abort), part, parts, turn):
                turn = -1
                break
            why = stopped(stops, parts, step & 1)
        why |= delivered(run, step)
        if word(run, RUN.faults) != 0:
            put(stops, LINE * part + FAULTY + (step & 1), why)
        if word(run, RUN.faults) != 0 and parts > 1:  # no part may be ahead of one that stops
            if not meet(word(run, RUN.meeting) + 8, word(run, RUN.abort), part, parts, turn):
                turn = -1
                break
            why |= stopped(stops, parts, FAULTY + (step & 1))
    restore_floats(before)
    return turn


@_compile
def begun(run, step):  # type: ignore[no-untyped-def]
    """Let the records of a part begin with a step."""
    records = word(run, RUN.records)
    for population in range(word(run, RUN.populations)):
        record = word(records, population)
        put(record, RECORD.used, 0)
        if word(record, RECORD.counts) != 0:
            size = word(record, RECORD.size)
            counts = array_at(word(record, RECORD.counts) + 4 * word(record, RECORD.low), size, np.int32)
            for k in range(size):
                counts[k] = 0
    for k in range(word(run, RUN.samples) + word(run, RUN.of_synapses)):
        table = word(word(run, RUN.sampled), k)
        every = word(table, SAMPLE.every)
        put(table, SAMPLE.before, (step + every - 1) // every)


@numba.njit(error_model="numpy", nogil=True)
def drive_alone(table: Any, turn: Any, end: Any) -> Any:
    """Drive all parts of a network in this thread, from a turn to another; return the turn it came to.

    The clock of the network, which holds the next step, is advanced with each step: whatever interrupts Python after
    the call, the clock is right. With turn 0, records begin anew; if an input is not finite, nothing runs, and -1 is
    returned.
    """
    runs, parts, clock = word(table, ALONE.runs), word(table, ALONE.parts), word(table, ALONE.clock)
    if turn == 0:
        for k in range(word(table, ALONE.inputs)):
            if not_finite(word(word(table, ALONE.given), k)):
                return np.int64(-1)
        for part in range(parts):
            begun(word(runs, part), word(clock, 0))
    before = flush_floats()
    why = np.int64(GO_ON)
    while turn < end and why == GO_ON:
        step = word(clock, 0)
        for part in range(parts):
            gathered(word(runs, part), step)
            why |= updated(word(runs, part), step, turn)
        for part in range(parts):
            why |= delivered(word(runs, part), step)
        turn += 1
        put(clock, 0, step + 1)
    restore_floats(before)
    put(table, ALONE.why, why)
    return turn
