# SPDX-License-Identifier: Apache-2.0
"""The tables for drawing: logarithms, and quantiles of the normal distribution, as integers.

With them each language, on each device, draws the same bits, without functions of a mathematical library.
"""

from __future__ import annotations

import functools
from statistics import NormalDist

import numpy as np

__all__ = ["CELLS", "FRACTION", "NORMAL_CELLS", "NORMAL_FRACTION", "both_tables", "logarithms", "quantiles"]

FRACTION = 26  # bits of a logarithm behind the point
CELLS = 9  # bits: 512 cells between two powers of two
NORMAL_FRACTION = 20  # bits of a normal number behind the point
NORMAL_CELLS = 6  # bits: 64 cells between two powers of two
_OCTAVES = 31


@functools.cache
def logarithms() -> np.ndarray:
    """Return log2(1 + i / 512), and its increase up to the next i: uint32 (512, 2), in units of 2^-26."""
    size = 1 << CELLS
    begins = np.array([_log2((size + i) << 62 - CELLS) for i in range(size)] + [1 << FRACTION])
    return np.stack([begins[:-1], np.diff(begins)], 1).astype(np.uint32)


def _log2(x: int) -> int:
    """Return the logarithm of x / 2^62, from 1 to 2, in units of 2^-26, rounded down: bit by bit, by squares.

    >>> _log2(3 << 61) / 2**26  # of 1.5
    0.5849624872207642
    """
    found = 0
    for _ in range(FRACTION):
        x = x * x >> 62
        found = found << 1 | x >> 63
        x >>= x >> 63
    return found


@functools.cache
def quantiles() -> np.ndarray:
    """Return parabolas through quantiles, at three places of each cell: int32 (31 * 64, 3), in units of 2^-20.

    Octave k has the probabilities, of numbers above the quantile, from 2^-(k + 2) to 2^-(k + 1).
    """
    size = 1 << NORMAL_CELLS
    places = 1 + np.arange(2 * size + 1) / (2 * size)
    inverse = NormalDist().inv_cdf
    octaves = [[-inverse(place * 2.0 ** -(k + 2)) for place in places] for k in range(_OCTAVES)]
    z = np.rint(np.array(octaves) * 2.0**NORMAL_FRACTION)
    begin, middle, end = z[:, :-1:2], z[:, 1::2], z[:, 2::2]
    slope, bend = 4 * middle - 3 * begin - end, 2 * begin - 4 * middle + 2 * end
    return np.stack([begin, slope, bend], -1).reshape(-1, 3).astype(np.int32)


@functools.cache
def both_tables() -> np.ndarray:
    """Return both tables as operators take them, one after the other: int32."""
    return np.concatenate([logarithms().view(np.int32).reshape(-1), quantiles().reshape(-1)])
