# SPDX-License-Identifier: Apache-2.0
"""Launch configurations: from users' arguments to grid and block."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

__all__ = ["Configuration", "Extents", "on_three_axes"]

Dim3 = tuple[int, int, int]
_BLOCKS = {2: (16, 16), 3: (8, 8, 4)}  # threads along each axis, for launch_dims of two and three axes


@dataclass(frozen=True)
class Configuration:
    """Grid, block and dynamic shared memory of a launch."""

    grid: Dim3
    block: Dim3
    shared: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the grid or block is empty."""
        return 0 in self.grid

    @classmethod
    def checked(
        cls,
        where: str,
        grid: int | Sequence[int] | None,
        block: int | Sequence[int] | None,
        launch_dims: int | Sequence[int] | None,
        threads_per_block: int,
        shared: int,
    ) -> Configuration:
        """Return the configuration of a user's arguments, or raise."""
        if not _is_whole(shared) or shared < 0:
            raise ValueError(f"{where}: shared_mem is {shared!r}; pass a number of bytes, 0 or more")
        shared = operator.index(shared)  # NumPy's integers cannot be written into programs
        if launch_dims is not None:
            if grid is not None or block is not None:
                raise ValueError(f"{where}: both launch_dims and grid or block are given; pass one or the other")
            return cls(*_from_dims(where, _axes(where, "launch_dims", launch_dims), threads_per_block), shared)
        if grid is None and block is None:
            raise ValueError(
                f"{where}: no launch configuration; pass grid= and block=, or launch_dims= (the number of threads)"
            )
        if grid is None or block is None:
            given, missing = ("block", "grid") if grid is None else ("grid", "block")
            raise ValueError(f"{where}: {given} is given without {missing}; pass both, or launch_dims alone")
        return cls(on_three_axes(where, "grid", grid), on_three_axes(where, "block", block), shared)


def on_three_axes(where: str, what: str, value: int | Sequence[int]) -> Dim3:
    """Return one to three extents that a user gives as three, or raise."""
    return _three(_axes(where, what, value))


def _axes(where: str, what: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """Return one to three extents."""
    given: Any = value
    if isinstance(given, np.ndarray):
        given = given.tolist()
    extents = tuple(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else (given,)
    if not 1 <= len(extents) <= 3 or not all(_is_whole(n) for n in extents):
        raise ValueError(f"{where}: {what} is {value!r}; pass a whole number, or one to three of them")
    whole = tuple(operator.index(n) for n in extents)
    if any(n < 0 for n in whole):
        raise ValueError(f"{where}: {what} is {value!r}; extents cannot be negative")
    return whole


def _is_whole(number: Any) -> bool:
    try:
        operator.index(number)
    except TypeError:
        return False
    return not isinstance(number, bool)


def _three(extents: tuple[int, ...]) -> Dim3:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _from_dims(where: str, dims: tuple[int, ...], threads_per_block: int) -> tuple[Dim3, Dim3]:
    """Cover the extents with blocks; the first axis is CUDA's x."""
    if not _is_whole(threads_per_block) or threads_per_block < 1:
        raise ValueError(f"{where}: threads_per_block is {threads_per_block!r}; pass 1 or more")
    most = _BLOCKS.get(len(dims), (operator.index(threads_per_block),))
    block = tuple(max(1, min(limit, extent)) for limit, extent in zip(most, dims, strict=True))
    grid = tuple(math.ceil(extent / size) for extent, size in zip(dims, block, strict=True))
    return _three(grid), _three(block)


@dataclass(frozen=True)
class Extents:
    """A launch configuration of a user: numbers, or functions of inputs and outputs."""

    where: str
    grid: Any
    block: Any
    launch_dims: Any
    threads_per_block: int
    shared_mem: Any

    def __post_init__(self) -> None:
        if not any(map(callable, (self.grid, self.block, self.launch_dims, self.shared_mem))):
            self.of(())

    def of(self, arrays: Sequence[Any]) -> Configuration:
        """Return the configuration for arrays; only their shapes and dtypes are read."""
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]

        def value(given: Any) -> Any:
            return given(*specs) if callable(given) else given

        def extents(given: Any) -> Any:
            found = value(given)
            # The shape of an array without axes is one thread.
            return 1 if callable(given) and isinstance(found, tuple) and not found else found

        grid, block, dims = (extents(given) for given in (self.grid, self.block, self.launch_dims))
        return Configuration.checked(self.where, grid, block, dims, self.threads_per_block, value(self.shared_mem))
