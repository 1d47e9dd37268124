# SPDX-License-Identifier: Apache-2.0
"""Drawn numbers, as arithmetic of uint32 in `jax.numpy`: words, gaps between elements, and weights.

Row i of a matrix is cut into segments of 2^width columns. Each has a stream of 64-bit words: hashes of the seed, the
row, the segment and a counter. A word gives two gaps, to the next two elements. Gaps are geometric, logarithms of
uniform words times -1 / log2(1 - prob), so elements are distributed as by an independent draw for each column. Words of
a second stream give the weights.

A 64-bit number is a pair of uint32, the low half first.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..precision import precise
from .tables import CELLS, FRACTION, NORMAL_CELLS, NORMAL_FRACTION, logarithms

__all__ = [
    "DRAWN_FROM",
    "NORMAL",
    "SCALAR",
    "UNIFORM",
    "column_of",
    "cut_tables",
    "drawn_of",
    "element_weights",
    "gap",
    "hashed",
]
__all__ += ["line_of", "stepped", "stream_of", "sums", "weight_word", "width_of"]

SCALAR, UNIFORM, NORMAL = range(3)
_UNITS = {UNIFORM: 2.0**-24, NORMAL: 2.0**-NORMAL_FRACTION}  # of weight words
DRAWN_FROM = ("scale", "shift", "width", "key_low", "key_high", "row", "column", "prob", "seed_low", "seed_high")
_STEP = (0x7F4A7C15, 0x9E3779B9)
_FIRST, _SECOND = (0x1CE4E5B9, 0xBF58476D), (0x133111EB, 0x94D049BB)
_LN2 = 0xB17217F8  # in units of 2^-32
_SERIES = (1 << 31, (1 << 32) // 12, (1 << 32) // 24, 19 * (1 << 32) // 720, 3 * (1 << 32) // 160)
_SMALL = 4  # below 2^-4, a series is more exact than a table
_FEWEST = 57  # below about 2^-57, nothing is drawn
_MEAN = 5  # a segment has from 2^5 to 2^6 elements, on average
_FARTHEST = 31  # bits of a column, and of a gap that leaves the row

Word = Any
Pair = tuple[Any, Any]


def _u32(x: Any) -> jax.Array:
    return jnp.asarray(x, jnp.uint32)


def _high(a: Word, b: Word) -> Word:
    """Return the high half of a product."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    rest = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (rest >> half)


def _added(a: Pair, b: Pair) -> Pair:
    low = a[0] + b[0]
    return low, a[1] + b[1] + (low < a[0]).astype(jnp.uint32)


def _times(a: Pair, b: tuple[int, int]) -> Pair:
    c0, c1 = _u32(b[0]), _u32(b[1])
    return a[0] * c0, _high(a[0], c0) + a[0] * c1 + a[1] * c0


def _folded(a: Pair, by: int) -> Pair:
    """Return a ^ (a >> by)."""
    left, right = np.uint32(32 - by), np.uint32(by)
    return a[0] ^ (a[0] >> right | a[1] << left), a[1] ^ a[1] >> right


def hashed(a: Pair) -> Pair:
    """Return the hash of SplitMix64: 64 bits that look random."""
    return _folded(_times(_folded(_times(_folded(a, 30), _FIRST), 27), _SECOND), 31)


def stepped(a: Pair) -> Pair:
    """Return the next state of a stream; its hash is a word."""
    return _added(a, (_u32(_STEP[0]), _u32(_STEP[1])))


def line_of(drawn: jax.Array, rows: Word) -> Pair:
    """Return the states of rows, from which the streams of their segments follow."""
    return hashed(_added((drawn[3], drawn[4]), (rows + drawn[5], jnp.zeros_like(rows))))


def stream_of(line: Pair, segment: Word) -> Pair:
    """Return the numbers whose hashes are the first states of a segment's streams."""
    return _added(line, (jnp.broadcast_to(segment, line[0].shape), jnp.zeros_like(line[0])))


def width_of(drawn: jax.Array) -> Word:
    """Return the logarithm to base 2 of the number of columns of a segment."""
    return drawn[2] & np.uint32(31)


def column_of(drawn: jax.Array) -> Word:
    """Return the column with which a matrix begins."""
    return drawn[6] & np.uint32(2**_FARTHEST - 1)


def _leading(x: Word) -> Word:
    return lax.clz(x)


def cut_tables(tables: Any) -> tuple[Any, Any]:
    """Return the table of logarithms and that of quantiles, each of its own shape."""
    size = 2 << CELLS
    return tables[:size].astype(jnp.uint32).reshape(-1, 2), tables[size:].reshape(31 << NORMAL_CELLS, 3)


def _negative_log2(logarithms: Any, word: Word) -> Word:
    """Return -log2(word / 2^32), in units of 2^-26."""
    word = word | np.uint32(1)
    zeros = _leading(word)
    whole = word << zeros
    cell = logarithms[whole >> np.uint32(31 - CELLS) & np.uint32((1 << CELLS) - 1)]
    behind = cell[..., 0] + _high(cell[..., 1], whole << np.uint32(CELLS + 1))
    return (zeros + np.uint32(1) << np.uint32(FRACTION)) - behind


def gap(drawn: jax.Array, logarithms: Any, word: Word) -> Word:
    """Return how many columns are skipped: less than 2^31."""
    size = _negative_log2(logarithms, word)
    low, high, shift = size * drawn[0], _high(size, drawn[0]), drawn[1] & np.uint32(63)
    by = shift & np.uint32(31)
    right = jnp.where(by > 0, high << (np.uint32(32) - by & np.uint32(31)), np.uint32(0)) | low >> by
    found = jnp.where(shift < 32, right, high >> by)
    most = np.uint32(2**_FARTHEST - 1)
    far = (shift < 32) & (high >> by > 0)
    return jnp.where(far, most, jnp.minimum(found, most))


@jax.jit
def drawn_of(bits: Word, low: Word, high: Word) -> jax.Array:
    """Return the operand `drawn`, given the bits of the probability and both halves of the seed: uint32 (10,).

    If the probability is 0, negative or NaN, the first gap leaves the row; from 1 on, all gaps are 0.
    """
    exponent, fraction = bits >> np.uint32(23) & np.uint32(255), bits & np.uint32(2**23 - 1)
    negative, is_nan = bits >> np.uint32(31) > 0, (exponent == 255) & (fraction > 0)
    none, all_ = negative | is_nan | (exponent < 127 - _FEWEST), ~negative & ~is_nan & (exponent >= 127)
    below = np.uint32(127) - jnp.clip(exponent, 127 - _FEWEST, 126)  # prob is from 2^-below to twice that
    scale, shift = _scale(fraction | np.uint32(2**23), below)
    scale = jnp.where(none, np.uint32(2**32 - 1), jnp.where(all_, np.uint32(0), scale))
    shift = jnp.where(none, np.uint32(0), shift)
    width = jnp.where(none, np.uint32(_FARTHEST), jnp.where(all_, np.uint32(_MEAN), below + np.uint32(_MEAN)))
    width = jnp.minimum(width, np.uint32(_FARTHEST))
    key, zero = hashed(stepped((low, high))), np.uint32(0)
    return jnp.stack([_u32(x) for x in (scale, shift, width, *key, zero, zero, bits, low, high)])


def _scale(mantissa: Word, below: Word) -> Pair:
    """Return -1 / log2(1 - prob), of prob = mantissa * 2^-(below + 23), as a factor of logarithms.

    The second result is the number of bits of their product behind the point.
    """
    # For small prob, ln(2) / prob * (1 - prob / 2 - prob^2 / 12 - ...).
    left, right = (jnp.clip(x.astype(jnp.int32), 0, 31).astype(jnp.uint32) for x in (9 - below, below - 9))
    prob = mantissa << left >> right  # in units of 2^-32
    rest, power = jnp.zeros_like(prob), prob
    for factor in _SERIES:
        rest, power = rest + _high(power, _u32(factor)), _high(power, prob)
    near = _u32(_LN2) - _high(_u32(_LN2), rest)
    small, small_shift = _divided(near >> np.uint32(1), mantissa), np.uint32(FRACTION + 32) - below
    # Else the inverse of the logarithm of 1 - prob, which uint32 holds exactly.
    size = _negative_log2(_u32(logarithms()), np.uint32(0) - prob)
    zeros = _leading(size)
    large, large_shift = _divided(_u32(2**30), size << zeros >> np.uint32(8)), np.uint32(62) - zeros
    is_small = below > _SMALL
    return jnp.where(is_small, small, large), jnp.where(is_small, small_shift, large_shift)


def _divided(a: Word, b: Word) -> Word:
    """Return a / b of at most 31 bits by 24, in units of 2^-24."""
    quotient, rest = a // b, a % b
    for _ in range(3):
        rest = rest << np.uint32(8)
        quotient, rest = quotient << np.uint32(8) | rest // b, rest % b
    return quotient


def weight_word(kind: int, quantiles: Any, word: Word) -> Word:
    """Return a number of the weights' distribution as an integer: of the uniform one from 0 to 1 in units of 2^-24.

    Of the normal one, in units of 2^-20; the sign is the lowest bit of the word.
    """
    if kind == UNIFORM:
        return (word >> np.uint32(8)).astype(jnp.int32)
    above = word >> np.uint32(1) | np.uint32(1)
    zeros = _leading(above)
    whole = above << zeros
    cell = (zeros - np.uint32(1) << np.uint32(NORMAL_CELLS)) | whole >> np.uint32(31 - NORMAL_CELLS) & np.uint32(63)
    at = (whole << np.uint32(NORMAL_CELLS + 1) >> np.uint32(17)).astype(jnp.int32)
    begin, slope, bend = jnp.moveaxis(quantiles[cell], -1, 0)
    size = begin + ((slope + (bend * at >> 15)) * at >> 15)
    return jnp.where(word & np.uint32(1) > 0, -size, size)


def sums(kind: int, weights: jax.Array, dtype: Any) -> jax.Array:
    """Return the parts of which weights are sums: one, or three in a dtype.

    These are the first number, and the second one cut into two parts whose products with parts of a drawn number are
    exact: so it does not matter whether products and sums are rounded one by one.
    """
    weights = weights.astype(dtype)
    if kind == SCALAR:
        return weights
    base, spread = weights
    spread = spread * np.asarray(_UNITS[kind], dtype)
    bits, cut = (jnp.uint64, 27) if dtype == jnp.float64 else (jnp.uint32, 12)
    kept = lax.bitcast_convert_type(spread, bits) >> cut << cut
    high = lax.bitcast_convert_type(kept, dtype)
    return jnp.stack([base, high, spread - high])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def element_weights(kind: int, weights: jax.Array, quantiles: Any, words: Word) -> jax.Array:
    """Return the weights of elements with these words, in the dtype of `weights`."""
    parts = sums(kind, weights, precise(weights.dtype))
    if kind == SCALAR:
        return jnp.broadcast_to(weights[0], words.shape)
    (base, high, low), drawn = parts, weight_word(kind, quantiles, words)
    first, last = ((drawn & mask).astype(parts.dtype) for mask in (-4096, 4095))
    return (base + (high * first + (low * first + high * last))).astype(weights.dtype)


@element_weights.defjvp
def _tangent(kind: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """Weights are linear in `weights`; their parts are not."""
    (weights, quantiles, words), change = primals, tangents[0]
    found = jnp.broadcast_to(change[0], words.shape)
    if kind != SCALAR:
        found = found + change[1] * (weight_word(kind, quantiles, words).astype(change.dtype) * _UNITS[kind])
    return element_weights(kind, weights, quantiles, words), found.astype(weights.dtype)
