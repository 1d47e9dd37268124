# SPDX-License-Identifier: Apache-2.0
"""Numba code of training: spikes that are listed and delivered, and the products of the step back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.numba.inner import inner
from ....backends.numba.vectors import TALL, WIDE, add_multiples, add_rows, address, byte_at, first_of, nonzero_of_64

__all__ = [
    "back_dense",
    "back_sparse",
    "copy_row",
    "deliver_dense",
    "deliver_others",
    "deliver_sparse",
    "fill_row",
    "list_ones",
    "sum_rows",
]

_one, _four, _most = add_multiples(1), add_multiples(4), add_multiples(TALL)
_FEW = 4


@inner(later=True)
def copy_row(row: Any, into: Any) -> None:
    """Copy a row to the begin of another one: Numba takes longer to compile an assignment of slices."""
    for k in range(row.size):
        into[k] = row[k]


@inner(later=True)
def fill_row(value: Any, into: Any) -> None:
    """Set all elements of a row."""
    for k in range(into.size):
        into[k] = value


@inner(later=True)
def list_ones(bytes_: Any, size: Any, places: Any) -> Any:
    """List which of some bytes at an address are not zero, ascending; return how many there are."""
    count, first = np.int64(0), np.int64(0)
    while first < size:
        start = min(first, size - 64)  # the last bytes are read twice
        if start < 0:
            for k in range(size):
                places[count] = k
                count += np.int64(byte_at(bytes_ + k) != 0)
            return count
        bits = (nonzero_of_64(bytes_ + start) >> np.uint64(first - start)) << np.uint64(first - start)
        while bits != 0:
            places[count] = start + first_of(bits)
            count += 1
            bits &= bits - np.uint64(1)
        first += 64
    return count


@inner(later=True)
def sum_rows(sums: Any, matrix: Any, width: Any, places: Any, count: Any) -> None:
    """Add rows of a matrix, at places, to sums, all given by addresses: one after another."""
    add_rows(sums, matrix, width, places, count)


@inner(later=True)
def deliver_dense(weights: Any, delays: Any, found: Any, count: Any, turn: Any, ring: Any) -> None:
    """Add rows of neurons that spiked, of a matrix for each delay, to the sums of the steps in which they arrive."""
    for which in range(len(delays)):
        sums = ring[(turn + delays[which]) % ring.shape[0]]
        sum_rows(address(sums), address(weights[which]), ring.shape[1], address(found), count)


@inner(apart=True)
def add_row(row: Any, sums: Any) -> None:
    """Add a row to sums of any type."""
    for k in range(sums.size):
        sums[k] += row[k]


@inner(later=True)
def deliver_others(weights: Any, delays: Any, found: Any, count: Any, turn: Any, ring: Any) -> None:
    """Do what `deliver_dense` does with other numbers than float32: integers, or sums in float64."""
    for which in range(len(delays)):
        sums = ring[(turn + delays[which]) % ring.shape[0]]
        for k in range(count):
            add_row(weights[which, found[k]], sums)


@inner(later=True)
def deliver_sparse(weights: Any, delays: Any, structure: Any, found: Any, count: Any, turn: Any, ring: Any) -> None:
    """Add the weights of the synapses of neurons that spiked to the sums of the steps in which they arrive."""
    starts, targets, which = structure
    stride = np.int64(weights.size > 1)
    for k in range(count):
        for entry in range(starts[found[k]], starts[found[k] + 1]):
            row = (turn + delays[which[entry]]) % ring.shape[0]
            ring[row, targets[entry]] += weights[entry * stride]


@inner(later=True)
def back_of_some(sums: Any, stride: Any, factors: Any, apart: Any, panel: Any, terms: Any, count: Any) -> None:
    """Add a panel of a product to the sums of some samples, all given by addresses."""
    done = np.int64(0)
    while done < count:
        rest = count - done
        into, of = sums + 4 * done * stride, factors + 4 * done * apart
        if rest >= TALL:
            _most(into, stride, of, apart, panel, terms)
            done += TALL
        elif rest >= _FEW:
            _four(into, stride, of, apart, panel, terms)
            done += _FEW
        else:
            _one(into, stride, of, apart, panel, terms)
            done += 1


@inner(later=True)
def back_dense(panels: Any, arrived: Any, sample: Any, count: Any, at: Any, out: Any) -> None:
    """Add to `out` (samples, sources) the products of a matrix with the cotangents of a step, of `count` samples.

    `arrived` is (samples, steps, neurons), and the matrix is in panels (panels, neurons, WIDE) of sources.
    """
    neurons = panels.shape[1]
    apart, factors = arrived.shape[1] * neurons, address(arrived[sample, at])
    for k in range(panels.shape[0]):
        sums = address(out) + 4 * WIDE * k
        back_of_some(sums, out.shape[1], factors, apart, address(panels[k]), neurons, count)


@inner(later=True)
def back_sparse(
    weights: Any, delays: Any, structure: Any, arrived: Any, sample: Any, count: Any, turn: Any, out: Any
) -> None:
    """Add to `out` (samples, sources) what cotangents of later steps are worth to the spikes of a turn, by synapses."""
    starts, targets, which = structure
    stride = np.int64(weights.size > 1)
    steps = arrived.shape[1]
    for q in range(count):
        for source in range(starts.size - 1):
            total = np.float32(0)
            for entry in range(starts[source], starts[source + 1]):
                at = turn + delays[which[entry]]
                if at < steps:
                    total += weights[entry * stride] * arrived[sample + q, at, targets[entry]]
            out[q, source] += total
