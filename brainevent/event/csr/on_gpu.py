# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of matrices in compressed sparse rows: how those in the `.cu` files are compiled and launched."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.nvrtc.clusters import most_clusters
from ...backends.nvrtc.kernel import cuda_kernel
from ...backends.nvrtc.within import is_within_loop
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Limits
from ...toolchain.architectures import gpu_architectures
from ..on_gpu import WARP, cut, definitions, operand, power_of_two, source, whole_warps
from ..precision import precise

__all__ = ["cuda_product", "cuda_product_of_equal_rows"]

_WARPS = 2**13  # about those that a large GPU holds: with fewer, each takes fewer rows
_ROWS = 64  # from which a warp takes the active ones, at most
_WAVES = 4  # times the warps that a GPU holds, at most, if several share a row: each tests its rows again
_CLUSTER = 8  # blocks: the most that every GPU with clusters has
_WITH_CLUSTERS = 9  # the first major compute capability with clusters
_LONG = 256  # elements of a row from which on parts of the columns have enough of them
_RESERVED = 34 * 1024  # bytes of a block's memory that are not for sums
_THREADS = 1024  # of a block
_AT_ONCE = 8  # elements that a thread reads at once
_LEAST_OWN = 256  # rows of which, within a loop, a warp takes 32

# If active rows are listed first:
_SMALL_CLUSTER = 4  # blocks: so there are more parts, of more columns together
_RESERVED_BY_LISTED = 8 * 1024  # bytes of a block's memory that are not for sums
_LOOKING = 512  # threads of a block that looks at rows
_LISTING = 1024  # such blocks, at most; not more than _THREADS
_NEIGHBOURS = 4  # blocks that all list their rows, or all do not
_MOST_EACH = 8  # rows of a thread: a list of more does not fit a block
_STAGE = 4096  # bytes of a row that a warp searches at once
_PLANES = 4  # of the list, besides those of the parts
_MOST_PARTS = 256  # for which a block that lists rows has memory
_RUN = 16  # elements of a row in a part, on average, from which on a second kernel saves more than it costs
_WORTH = 4  # additions for each column, from which on summing parts is faster than adding to the result
_SURELY_MANY = 14  # active rows of neighbours that are not by chance: if one block lists rows, parts are summed

_Arrays = Mapping[str, jax.Array]
_Types = Mapping[str, Any]
_Numbers = Mapping[str, int]


_PRODUCTS = ("rows.cu", "laws.cu", "walks.cu")


@functools.cache
def _source(*names: str) -> str:
    """Return the texts that all products need, followed by texts of this folder."""
    return source(*_PRODUCTS) + "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)


def cuda_product(
    outs: Sequence[Any],
    *,
    transpose: bool,
    event: bool,
    indexed: bool,
    silent: bool = False,
    indices_sorted: bool = False,
    indices_within: bool = False,
    clustered: bool,
    per_slice: int,
    wide: bool,
    connections: int = 0,
) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices, row pointers, permutation if any, and x.

    If `clustered`, clusters of blocks sum parts of the columns where rows are sorted and long. Else a warp takes about
    `per_slice` elements of an active row; if `wide`, it reads four at once. With `connections`, that is the number of
    elements of each row, and row pointers are not read. Unless `indices_within`, each index is tested. If `silent`,
    zeros of x are left out.
    """
    (out,) = outs

    def product(weights: Any, indices: Any, indptr: Any, *rest: Any) -> list[Any]:
        perm, x = rest if indexed else (indptr, *rest)
        sums = precise(weights.dtype)
        x = operand(x, sums, event=event)
        rows, columns = x.shape[0] if transpose else out.shape[0], x.shape[1] if x.ndim == 2 else 1
        rows *= indices.size > 0  # no thread runs where nothing is stored
        mean = indices.size // max(1, rows)
        across, lanes = power_of_two(columns), power_of_two(mean)
        few, slices = _shares(rows, mean, per_slice)
        by_parts = clustered and indices_sorted and transpose and x.ndim == 1
        parts = _parts(rows, out.shape[0], sums, indices.size, per_slice) if by_parts else None
        operands = {"W": weights, "I": indices, "P": indptr, "Q": perm, "E": x}
        types = {**{name: array.dtype for name, array in operands.items()}, "A": sums, "O": out.dtype}
        flags = {"EVENTS": event, "ONE": weights.size == 1, "INDEXED": indexed, "WIDE": wide, "WITHIN": indices_within}
        flags |= {"SILENT": silent, "CONNECTIONS": connections, "LANES": lanes, "FEW": few, "ACROSS": across}
        numbers = {"rows": rows, "stored": indices.size, "held": weights.size}
        if parts:
            found = parts.product(out, operands, types, flags, numbers)
        else:
            found = _by_warps(out, operands, types, flags, numbers, transpose=transpose, slices=slices)
        return [found.astype(out.dtype)]

    return product


def cuda_product_of_equal_rows(
    outs: Sequence[Any], *, transpose: bool, event: bool, **variant: Any
) -> Callable[..., Any]:
    """Return the product with equally long rows as a JAX function of weights, indices and x."""

    def product(weights: Any, indices: Any, x: Any) -> list[Any]:
        how = {"transpose": transpose, "event": event, "indexed": False, "connections": indices.shape[1]}
        flat = indices.reshape(indices.size)
        return cuda_product(outs, **how, **variant)(weights.reshape(weights.size), flat, flat, x)

    return product


def _by_warps(
    out: Any, operands: _Arrays, types: _Types, flags: _Numbers, numbers: _Numbers, *, transpose: bool, slices: int
) -> Any:
    """Launch the kernel whose warps each take some rows; sums of columns are added to the result one by one."""
    x, rows = operands["E"], numbers["rows"]
    tiles = -(-x.shape[1] // flags["ACROSS"]) if x.ndim == 2 else 1
    threads = {
        "scatter": WARP * -(-rows // flags["FEW"]) * slices,
        "gather": whole_warps(rows * flags["LANES"]),
        "scatter_matrix": WARP * rows * tiles * slices,
        "gather_matrix": WARP * rows * tiles,
    }
    entry = ("scatter" if transpose else "gather") + "_matrix" * (x.ndim == 2)
    how = {"size": out.shape[0], "slices": slices} if transpose else {"size": x.shape[0]}
    how |= {"columns": x.shape[1]} if x.ndim == 2 else {}
    texts = _source()
    if entry == "scatter" and slices == 1 and rows >= _LEAST_OWN and is_within_loop():
        entry, texts = "scatter_own", texts + source("own.cu")
        threads[entry] = whole_warps(rows)
        del how["slices"]
    kernel = cuda_kernel(
        texts,
        entry,
        jax.ShapeDtypeStruct(out.shape, types["A"] if transpose else out.dtype),
        launch_dims=threads[entry],
        types=types,
        options=definitions(flags),
        zeroed=transpose,
    )
    return kernel(*operands.values(), **numbers, **how)


def _shares(rows: int, mean: int, per_slice: int) -> tuple[int, int]:
    """Return the number of rows from which a warp takes the active ones, and the number of warps that share a row.

    >>> _shares(4_000, 80, 128), _shares(100_000, 1_000, 128), _shares(1_000_000, 1_000, 128)
    ((4, 1), (64, 7), (64, 2))
    """
    slices = max(1, min(mean // per_slice, _WAVES * _ROWS * _WARPS // max(1, rows)))
    return max(4, power_of_two(rows * slices // _WARPS, _ROWS)), slices


def _parts(rows: int, columns: int, sums: Any, stored: int, per_slice: int) -> _Parts | _Listed | None:
    """Return how columns are cut into parts that clusters of blocks sum, or None if they are not."""
    mean = stored // max(1, rows)
    return _Parts.of(columns, sums, mean) or _Listed.of(rows, columns, sums, stored, per_slice)


def _has_clusters(capability: str) -> bool:
    return int(capability.split(".", maxsplit=1)[0]) >= _WITH_CLUSTERS


@dataclass(frozen=True)
class _Parts:
    """How the columns are cut into parts of a `width`, each of which a cluster of blocks sums."""

    columns: int
    parts: int
    width: int
    memory: int  # bytes, of a block
    sharing: int  # threads that go through the elements of a row in one part

    @classmethod
    def of(cls, columns: int, sums: Any, mean: int) -> _Parts | None:
        """Return the parts for rows of about `mean` elements; None if that is not faster, or not possible.

        If there are enough columns, there is a part for each cluster that runs at once: one more takes twice the time.
        """
        least = gpu_architectures(None, cuda_capabilities)[0]
        if mean < _LONG or not _has_clusters(least):
            return None
        parts, width = cut(columns, most_clusters(_CLUSTER))
        if (memory := width * sums.itemsize) > Limits.of(least).shared - _RESERVED:
            return None
        run = mean / parts + 2 * math.sqrt(mean)  # what chance adds to a row's share on both sides
        return cls(columns, parts, width, memory, power_of_two(int(run / _AT_ONCE)))

    def product(self, out: Any, operands: _Arrays, types: _Types, flags: _Numbers, numbers: _Numbers) -> Any:
        """Launch the kernel."""
        kernel = cuda_kernel(
            _source("looking.cu", "clusters.cu", "sorted.cu"),
            "scatter_sorted",
            jax.ShapeDtypeStruct(out.shape, out.dtype),
            grid=self.parts * _CLUSTER,
            block=_THREADS,
            shared_mem=self.memory,
            types=types,
            options=definitions({**flags, "CLUSTER": _CLUSTER, "SHARING": self.sharing}),
        )
        return kernel(*operands.values(), **numbers, columns=self.columns, width=self.width)


@dataclass(frozen=True)
class _Listed:
    """How more columns are cut, for smaller clusters: one kernel lists the active rows, another one sums them."""

    columns: int
    parts: int
    width: int
    memory: int  # bytes, of a block
    each: int  # rows that a thread tests
    blocks: int  # of the first kernel
    enough: int  # active rows of neighbours from which on they are listed: fewer are added to the result one by one
    slices: int  # warps that share a row that is not listed

    @classmethod
    def of(cls, rows: int, columns: int, sums: Any, stored: int, per_slice: int) -> _Listed | None:
        """Return the parts; None if that is not faster, or not possible.

        Summing parts takes as long as some additions to the result for each column: with fewer, it is slower.
        The list takes four bytes for each row and part, in which the row has _RUN elements.
        """
        least, mean = gpu_architectures(None, cuda_capabilities)[0], stored // max(1, rows)
        if not _has_clusters(least):
            return None
        parts, width = cut(columns, most_clusters(_SMALL_CLUSTER))
        most = (Limits.of(least).shared - _RESERVED_BY_LISTED) // sums.itemsize
        if width > most:
            parts, width = cut(columns, -(-columns // most))
        each = max(1, -(-rows // (_LOOKING * _LISTING)))
        blocks = -(-rows // (_LOOKING * each))
        together = _NEIGHBOURS * _LOOKING * each
        enough = max(_SURELY_MANY, -(-together * _WORTH * columns // max(1, stored)))
        if mean < _RUN * parts or parts > _MOST_PARTS or each > _MOST_EACH or enough > together:
            return None
        slices = max(1, min(-(-mean // per_slice), _LOOKING // WARP))
        memory = -(-width * sums.itemsize // 16) * 16
        return cls(columns, parts, width, memory, each, blocks, enough, slices)

    def product(self, out: Any, operands: _Arrays, types: _Types, flags: _Numbers, numbers: _Numbers) -> Any:
        """Launch the kernels."""
        flags = {**flags, "EACH": self.each, "NEIGHBOURS": _NEIGHBOURS, "PARTS": self.parts, "CLUSTER": _SMALL_CLUSTER}
        options = definitions(flags)
        begun = jax.ShapeDtypeStruct(out.shape, types["A"])
        counted = jax.ShapeDtypeStruct((self.blocks,), jnp.int32)
        listed = jax.ShapeDtypeStruct((self.blocks, self.parts + _PLANES, self.each * _LOOKING), jnp.uint32)
        begin = cuda_kernel(
            _source("looking.cu", "listing.cu"),
            "scatter_or_list",
            (begun, counted, listed),
            grid=self.blocks,
            block=_LOOKING,
            shared_mem=_STAGE * _LOOKING // WARP,
            types=types,
            options=options,
            zeroed=("out",),
        )
        how = {"size": self.columns, "slices": self.slices, "enough": self.enough, "width": self.width}
        first, *found = begin(*operands.values(), **numbers, **how)
        finish = cuda_kernel(
            _source("looking.cu", "clusters.cu", "listing.cu", "listed.cu"),
            "sum_listed",
            begun,
            grid=self.parts * _SMALL_CLUSTER,
            block=_THREADS,
            shared_mem=self.memory,
            types=types,
            options=options,
            input_output_aliases={6: 0},
        )
        weights, indices, _, perm, x = operands.values()
        how = {"columns": self.columns, "blocks": self.blocks, "width": self.width}
        how |= {"stored": numbers["stored"], "held": numbers["held"]}
        return finish(weights, indices, perm, x, *found, first, **how)
