# SPDX-License-Identifier: Apache-2.0
"""Spikes of one process for the others, as one message: packed, and unpacked into lists of spikes from afar.

A message has words of 32 bits: two for Python, of which the second is how many there are; then the number of spikes of
each step and population; then, likewise, the neurons of each, followed by the words of their values, if they have some.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, call, word
from .on_lists import count_of, put_count, spikes_of
from .tables import EXCHANGE, LINE, LIST

__all__ = ["HEAD", "pack", "unpack"]

HEAD = 2  # words before the counts

_compile = inner(error_model="numpy", later=True)


@_compile
def values_at(line, step, count, itemsize):  # type: ignore[no-untyped-def]
    """Return the words of the values of spikes of a list in a step."""
    stride = word(line, LIST.stride) // 4 * itemsize
    return array_at(word(line, LIST.values) + stride * (step & word(line, LIST.mask)), count * itemsize // 4, np.uint32)


@_compile
def size_of(table):  # type: ignore[no-untyped-def]
    """Return how many words the message of the own spikes has."""
    populations, begin, end = word(table, EXCHANGE.populations), word(table, EXCHANGE.begin), word(table, EXCHANGE.end)
    size = HEAD + (end - begin) * populations
    for population in range(populations):
        first = word(word(table, EXCHANGE.lines), population)
        for part in range(word(table, EXCHANGE.parts)):
            for step in range(begin, end):
                count = count_of(first + 8 * LINE * part, step)
                size += count + count * word(word(table, EXCHANGE.itemsizes), population) // 4
    return size


@numba.njit(error_model="numpy", nogil=True)
def pack(table: Any) -> Any:
    """Write the message of the own spikes if there is room for it; return how many words it has."""
    size = size_of(table)
    if size > word(table, EXCHANGE.row):
        return size
    populations, parts = word(table, EXCHANGE.populations), word(table, EXCHANGE.parts)
    begin, end = word(table, EXCHANGE.begin), word(table, EXCHANGE.end)
    message = array_at(word(table, EXCHANGE.buffer), word(table, EXCHANGE.row), np.uint32)
    at = HEAD + (end - begin) * populations
    for step in range(begin, end):
        for population in range(populations):
            first, total = word(word(table, EXCHANGE.lines), population), np.int64(0)
            itemsize = word(word(table, EXCHANGE.itemsizes), population)
            for part in range(parts):
                line = first + 8 * LINE * part
                count = count_of(line, step)
                spikes = spikes_of(line, step, count)
                for k in range(count):
                    message[at + total + k] = np.uint32(spikes[k])
                total += count
            message[HEAD + (step - begin) * populations + population] = np.uint32(total)
            at += total
            for part in range(parts if itemsize > 0 else 0):
                line = first + 8 * LINE * part
                values = values_at(line, step, count_of(line, step), itemsize)
                for k in range(values.size):
                    message[at + k] = values[k]
                at += values.size
    return size


@numba.njit(error_model="numpy", nogil=True)
def unpack(table: Any) -> Any:
    """Write the spikes of all other processes into lists, and deliver those that do not wait there."""
    populations, hosts = word(table, EXCHANGE.populations), word(table, EXCHANGE.hosts)
    begin, end, row = word(table, EXCHANGE.begin), word(table, EXCHANGE.end), word(table, EXCHANGE.row)
    messages = array_at(word(table, EXCHANGE.buffer), hosts * row, np.uint32)
    at = array_at(word(table, EXCHANGE.at), hosts, np.int64)
    for host in range(hosts):
        at[host] = host * row + HEAD + (end - begin) * populations
    for step in range(begin, end):
        for population in range(populations):
            line = word(word(table, EXCHANGE.lines), population) + 8 * LINE * word(table, EXCHANGE.parts)
            itemsize, total = word(word(table, EXCHANGE.itemsizes), population), np.int64(0)
            for host in range(hosts):
                if host == word(table, EXCHANGE.own):
                    continue
                place = host * row + HEAD + (step - begin) * populations + population
                count = np.int64(messages[place])
                spikes = spikes_of(line, step, total + count)
                for k in range(count):
                    spikes[total + k] = np.int32(messages[at[host] + k])
                at[host] += count
                if itemsize > 0:
                    values, before = values_at(line, step, total + count, itemsize), total * itemsize // 4
                    for k in range(values.size - before):
                        values[before + k] = messages[at[host] + k]
                    at[host] += values.size - before
                total += count
            put_count(line, step, total)
        for k in range(word(table, EXCHANGE.deliveries)):
            call(word(word(table, EXCHANGE.afar), 2 * k), word(word(table, EXCHANGE.afar), 2 * k + 1), step, 0)
    return 0
