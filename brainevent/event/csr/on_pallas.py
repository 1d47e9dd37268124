# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in Pallas: for GPUs through Triton, with a program for each row, and for TPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as on_triton

from ... import config
from ..operands import is_within
from .conversions import row_of_each

__all__ = ["gpu_product", "tpu_product"]

_TILE = 512  # results that a TPU sums at once
_TERMS = 1024  # terms that it tests together


def gpu_product(weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, transpose: bool, **_: Any) -> Any:
    """Return the sums of weights, indices, row pointers and events."""
    # JAX's interpreter keeps one of several additions of a block to an element, and has no masks.
    block = 1 if config.is_emulating() else 256
    rows, zeros = events.size if transpose else sums.size, jnp.zeros(sums.shape, sums.dtype)
    if rows == 0 or indices.size == 0:
        return zeros
    many = int(weights.size != 1)  # 0 if all elements have one weight
    call = pl.pallas_call(
        _scatter(block, many) if transpose else _gather(block, many),
        grid=(rows,),
        out_shape=sums,
        input_output_aliases={4: 0},  # the sums start as zeros
        compiler_params=on_triton.CompilerParams(),
    )
    return call(weights.astype(sums.dtype), indices, indptr, events.astype(jnp.int8), zeros)


def _over_row(indptr: Any, stored: int, row: Any, block: int, step: Callable[[Any, Any, Any], Any], first: Any) -> Any:
    """Go through the stored elements of a row: `step(j, whether they are within, what it returned before)`."""
    end = jnp.clip(indptr[row + 1], 0, stored)  # pointers are clipped to the stored elements
    begin = jnp.clip(indptr[row], 0, end)

    def one_block(i: Any, carried: Any) -> Any:
        j = begin + i * block + jnp.arange(block, dtype=begin.dtype)
        return step(j, j < end, carried)

    blocks = jax.lax.div(end - begin + (block - 1), begin.dtype.type(block))
    return jax.lax.fori_loop(begin.dtype.type(0), blocks, one_block, first)


def _scatter(block: int, many: int) -> Callable[..., None]:
    def kernel(weights: Any, indices: Any, indptr: Any, x: Any, zeros: Any, out: Any) -> None:
        def add(j: Any, inside: Any, _: Any) -> None:
            target = on_triton.load(indices.at[j], mask=inside, other=-1)
            there = is_within(target, out.size)
            weight = on_triton.load(weights.at[j * many], mask=there, other=0)
            if block == 1:
                target, weight = jnp.where(there, target, 0), jnp.where(there, weight, 0)
            on_triton.atomic_add(out, (target,), weight, mask=None if block == 1 else there)

        row = pl.program_id(0)

        @pl.when(x[row] != 0)
        def _() -> None:
            _over_row(indptr, indices.size, row, block, add, None)

    return kernel


def _gather(block: int, many: int) -> Callable[..., None]:
    def kernel(weights: Any, indices: Any, indptr: Any, x: Any, zeros: Any, out: Any) -> None:
        def add(j: Any, inside: Any, total: Any) -> Any:
            source = on_triton.load(indices.at[j], mask=inside, other=-1)
            active = on_triton.load(x.at[source], mask=is_within(source, x.size), other=0) != 0
            weight = on_triton.load(weights.at[j * many], mask=inside, other=0)
            return total + jnp.where(active, weight, 0)

        row = pl.program_id(0)
        out[row] = _over_row(indptr, indices.size, row, block, add, jnp.zeros(block, out.dtype)).sum()

    return kernel


def tpu_product(
    weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, shape: tuple[int, int], transpose: bool
) -> Any:
    """Return the sums of weights, indices, row pointers and events.

    A TPU cannot add to elements by index: each result picks its own terms from a block. Blocks without events are left
    out.
    """
    if indices.size == 0 or sums.size == 0:
        return jnp.zeros(sums.shape, sums.dtype)
    rows = row_of_each(indptr, indices.size).astype(indices.dtype)
    sources, targets = (rows, indices) if transpose else (indices, rows)
    there = is_within(indices, shape[1]) & (rows < shape[0])  # out-of-range indices are ignored
    terms = jnp.where(events[sources] & there, weights.astype(sums.dtype), 0)
    blocks, tiles = pl.cdiv(indices.size, _TERMS), pl.cdiv(sums.size, _TILE)
    missing = (0, blocks * _TERMS - indices.size)
    terms, targets = (jnp.pad(each, missing).reshape(blocks, 1, _TERMS) for each in (terms, targets))
    block = pl.BlockSpec((1, 1, _TERMS), lambda tile, i: (i, 0, 0))
    found = pl.pallas_call(
        _sum_tile,
        grid=(tiles, blocks),
        in_specs=[block, block],
        out_specs=pl.BlockSpec((1, _TILE), lambda tile, i: (0, tile)),
        out_shape=jax.ShapeDtypeStruct((1, tiles * _TILE), sums.dtype),
    )(terms, targets)
    return found[0, : sums.size]


def _sum_tile(terms: Any, targets: Any, out: Any) -> None:
    tile, block = pl.program_id(0), pl.program_id(1)

    @pl.when(block == 0)
    def _() -> None:
        out[...] = jnp.zeros_like(out)

    @pl.when(jnp.any(terms[...] != 0))
    def _() -> None:
        here = targets[0] - tile * _TILE
        chosen = jax.lax.broadcasted_iota(here.dtype, (_TILE, _TERMS), 0) == here
        out[...] += jnp.where(chosen, terms[0], 0).sum(1)[None]  # a product with ones would spread NaN
