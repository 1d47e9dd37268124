# SPDX-License-Identifier: Apache-2.0
"""Numba code of training: spikes that are listed and delivered, and the products of the step back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.numba import inner

__all__ = ["add_four", "add_row", "back_dense", "back_sparse", "deliver_dense", "deliver_sparse", "list_spikes"]

_ANY_ORDER = {"reassoc", "contract", "nsz"}  # a sum in vectors: the same order in every run


@inner(apart=True)
def list_spikes(flags: Any, found: Any) -> Any:
    """List the neurons that spiked, ascending; return how many there are."""
    count = np.int64(0)
    for k in range(flags.size):
        found[count] = k
        count += np.int64(flags[k])
    return count


@inner(apart=True)
def add_row(row: Any, sums: Any) -> None:
    """Add a row to sums."""
    for k in range(sums.size):
        sums[k] += row[k]


@inner(apart=True)
def add_four(a: Any, b: Any, c: Any, d: Any, sums: Any) -> None:
    """Add four rows to sums, one after another."""
    for k in range(sums.size):
        sums[k] = (((sums[k] + a[k]) + b[k]) + c[k]) + d[k]


@inner
def deliver_dense(weights: Any, delays: Any, found: Any, count: Any, turn: Any, ring: Any) -> None:
    """Add rows of neurons that spiked, of a matrix for each delay, to the sums of the steps in which they arrive."""
    whole = count - count % 4
    for which in range(len(delays)):
        matrix, sums = weights[which], ring[(turn + delays[which]) % ring.shape[0]]
        for k in range(0, whole, 4):
            add_four(matrix[found[k]], matrix[found[k + 1]], matrix[found[k + 2]], matrix[found[k + 3]], sums)
        for k in range(whole, count):
            add_row(matrix[found[k]], sums)


@inner
def deliver_sparse(weights: Any, delays: Any, structure: Any, found: Any, count: Any, turn: Any, ring: Any) -> None:
    """Add the weights of the synapses of neurons that spiked to the sums of the steps in which they arrive."""
    starts, targets, which = structure
    stride = np.int64(weights.size > 1)
    for k in range(count):
        for entry in range(starts[found[k]], starts[found[k] + 1]):
            row = (turn + delays[which[entry]]) % ring.shape[0]
            ring[row, targets[entry]] += weights[entry * stride]


@inner(apart=True, fastmath=_ANY_ORDER)
def back_of_four(w0: Any, w1: Any, w2: Any, w3: Any, a: Any, b: Any, c: Any, d: Any, out: Any, first: Any) -> None:
    """Add to four samples of four neurons what the cotangents of four samples are worth to their spikes."""
    zero = np.float32(0)
    a0, b0, c0, d0 = zero, zero, zero, zero
    a1, b1, c1, d1 = zero, zero, zero, zero
    a2, b2, c2, d2 = zero, zero, zero, zero
    a3, b3, c3, d3 = zero, zero, zero, zero
    for k in range(w0.size):
        w, x, y, z = w0[k], w1[k], w2[k], w3[k]
        e, f, g, h = a[k], b[k], c[k], d[k]
        a0 += w * e
        b0 += w * f
        c0 += w * g
        d0 += w * h
        a1 += x * e
        b1 += x * f
        c1 += x * g
        d1 += x * h
        a2 += y * e
        b2 += y * f
        c2 += y * g
        d2 += y * h
        a3 += z * e
        b3 += z * f
        c3 += z * g
        d3 += z * h
    out[0, first] += a0
    out[0, first + 1] += a1
    out[0, first + 2] += a2
    out[0, first + 3] += a3
    out[1, first] += b0
    out[1, first + 1] += b1
    out[1, first + 2] += b2
    out[1, first + 3] += b3
    out[2, first] += c0
    out[2, first + 1] += c1
    out[2, first + 2] += c2
    out[2, first + 3] += c3
    out[3, first] += d0
    out[3, first + 1] += d1
    out[3, first + 2] += d2
    out[3, first + 3] += d3


@inner(apart=True, fastmath=_ANY_ORDER)
def dot(a: Any, b: Any) -> Any:
    """Return a scalar product."""
    total = np.float32(0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@inner
def back_dense(matrix: Any, arrived: Any, sample: Any, count: Any, at: Any, out: Any) -> None:
    """Add to `out` (4, sources) the products of a matrix (sources, neurons) with the cotangents of a step.

    `arrived` is (samples, steps, neurons). Fewer than four samples are filled up with the last one of them, so that a
    sample has the same bits in every batch.
    """
    last = sample + count - 1
    a, b = arrived[sample, at], arrived[min(sample + 1, last), at]
    c, d = arrived[min(sample + 2, last), at], arrived[min(sample + 3, last), at]
    sources = matrix.shape[0]
    whole = sources - sources % 4
    for first in range(0, whole, 4):
        back_of_four(matrix[first], matrix[first + 1], matrix[first + 2], matrix[first + 3], a, b, c, d, out, first)
    for source in range(whole, sources):
        row = matrix[source]
        out[0, source] += dot(row, a)
        out[1, source] += dot(row, b)
        out[2, source] += dot(row, c)
        out[3, source] += dot(row, d)


@inner
def back_sparse(
    weights: Any, delays: Any, structure: Any, arrived: Any, sample: Any, count: Any, turn: Any, out: Any
) -> None:
    """Add to `out` (4, sources) what cotangents of later steps are worth to the spikes of a turn, by their synapses."""
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
