# SPDX-License-Identifier: Apache-2.0
"""Operators on drawn matrices in `jax.numpy`, the reference of kernels: all rows draw at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..description import Description, Shape
from ..precision import precise
from .numbers import SCALAR, column_of, cut_tables, element_weights, gap, hashed, line_of, stepped, stream_of, width_of

__all__ = ["product", "whole"]

_MERGED = {"add": jnp.add, "max": jnp.maximum, "min": jnp.minimum}
_FEWEST = 32  # columns of a segment, at least


def _through(
    drawn: Any, logarithms: Any, shape: Shape, kind: int, found: Any, at: Callable[..., Any], *, all_steps: bool
) -> Any:
    """Go through all elements of a matrix: `found = at(found, columns, words, there)` gets two of each row, (2, rows).

    With `all_steps`, the number of steps is fixed, and enough for any matrix of this shape: for reverse mode.
    """
    width, begin, one = width_of(drawn), column_of(drawn), np.uint32(1)
    line, end = line_of(drawn, jnp.arange(shape[0], dtype=jnp.uint32)), begin + np.uint32(shape[1])

    def step(state: Any) -> Any:
        segments, columns, streams, found = state
        stop = jnp.minimum((segments + one) << width, end)
        streams, following = stepped(streams), stream_of(line, segments + one)
        low, high = (jnp.concatenate([x, y[None]]) for x, y in zip(streams, following, strict=True))
        words = hashed((low, high))
        gaps = gap(drawn, logarithms, jnp.stack([half[0] for half in words]))
        first = columns + jnp.where(columns < stop, gaps[0], 0)
        second = first + jnp.where(first < stop, gaps[1] + one, 0)
        both = jnp.stack([first, second])
        there = (both < stop) & (both >= begin)
        found = at(found, (both - begin).astype(jnp.int32), jnp.stack([half[-2] for half in words]), there)
        over = (second >= stop) & (stop < end)  # of a segment that is not the last
        columns = jnp.where(over, stop, second + (second < stop))
        streams = tuple(jnp.where(over, x, y) for x, y in zip(_streams(kind, words), streams, strict=True))
        return segments + over, columns, streams, found

    if not min(shape):
        return found
    segments = jnp.broadcast_to(begin >> width, line[0].shape)
    streams = _streams(kind, tuple(half[None] for half in hashed(stream_of(line, segments))))
    state = segments, segments << width, streams, found
    if all_steps:
        most = shape[1] // 2 + shape[1] // _FEWEST + 3
        return jax.lax.fori_loop(0, most, lambda _, state: step(state), state)[-1]
    return jax.lax.while_loop(lambda state: (state[1] < end).any(), step, state)[-1]


def _streams(kind: int, words: Any) -> Any:
    """Return the starts of the streams of a segment: the last of the words for gaps, and its complement for weights."""
    return tuple(jnp.stack([half[-1]] if kind == SCALAR else [half[-1], ~half[-1]]) for half in words)


def _reference(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `run(weights, drawn, *rest, all_steps=...)` with the steps that it needs; derivatives use all steps."""

    @jax.custom_jvp
    def result(weights: Any, drawn: Any, *rest: Any) -> Any:
        return run(weights, drawn, *rest, all_steps=False)

    @result.defjvp
    def tangent(primals: Any, tangents: Any) -> Any:
        return result(*primals), jax.jvp(lambda *given: run(*given, all_steps=True), primals, tangents)[1]

    return result


def product(of: Description, kind: int) -> Callable[..., list[Any]]:
    """Return a product: `A @ x` or `A.T @ x`."""
    law: Any = of.law

    def product(weights: Any, drawn: Any, tables: Any, x: Any, *, shape: Shape, transpose: bool, **_: Any) -> list[Any]:
        dtype, size = precise(weights.dtype), shape[transpose]

        def run(weights: Any, drawn: Any, tables: Any, x: Any, *, all_steps: bool) -> Any:
            logarithms, quantiles = cut_tables(tables)
            cut = (x.shape[0], size) if transpose else (size, x.shape[0])
            start = jnp.full((size, *x.shape[1:]), law.start, dtype)

            def at(found: Any, columns: Any, words: Any, there: Any) -> Any:
                weight = element_weights(kind, weights, quantiles, words).astype(dtype)
                source = x[None] if transpose else x[jnp.where(there, columns, 0)]
                weight, is_there = (jnp.expand_dims(each, range(2, x.ndim + 1)) for each in (weight, there))
                terms = jnp.where(is_there, law.terms(weight, source), jnp.asarray(law.start, dtype)).astype(dtype)
                if not transpose:
                    return functools.reduce(_MERGED[law.merge], terms, found)
                return getattr(found.at[jnp.where(there, columns, size)], law.merge)(terms, mode="drop")

            return _through(drawn, logarithms, cut, kind, start, at, all_steps=all_steps).astype(weights.dtype)

        return [_reference(run)(weights, drawn, tables, x)]

    return product


def whole(of: Description, kind: int) -> Callable[..., list[Any]]:
    """Return the matrix as a dense one."""

    def whole(weights: Any, drawn: Any, tables: Any, *, shape: Shape, **_: Any) -> list[Any]:
        def run(weights: Any, drawn: Any, tables: Any, *, all_steps: bool) -> Any:
            logarithms, quantiles = cut_tables(tables)

            def at(found: Any, columns: Any, words: Any, there: Any) -> Any:
                weight = element_weights(kind, weights, quantiles, words)
                return found.at[np.arange(shape[0]), jnp.where(there, columns, shape[1])].set(weight, mode="drop")

            return _through(drawn, logarithms, shape, kind, jnp.zeros(shape, weights.dtype), at, all_steps=all_steps)

        return [_reference(run)(weights, drawn, tables)]

    return whole
