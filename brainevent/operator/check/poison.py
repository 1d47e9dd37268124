# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory contains unusual values when a kernel begins, to show elements that are not written."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Broken, Skipped, different_bits, to_host

__all__ = ["Memory", "Poisoned", "assert_written", "poison"]

Call = Callable[..., list[Any]]
LARGEST_TEMPORARY = 1 << 24  # bytes that are worth poisoning
CONFIRMATIONS = 8  # of the elements in a message


@dataclass(frozen=True)
class Poisoned:
    """A program of a call, and the types of its results."""

    program: Callable[..., list[Any]]
    types: Sequence[Any]

    @classmethod
    def of(cls, function: Call, compiled: Any, types: Sequence[Any]) -> Poisoned:
        """Make a program `(memory, word, zero, *operands)` whose memory is poisoned when it calls the function.

        XLA puts the results into the donated `memory`. An array as large as all temporary ones of the call, which was
        `compiled` before, is filled with `word`, and is no longer needed when the call begins, so that XLA puts
        temporary results of the call there.
        """
        analysis = compiled.memory_analysis() if compiled is not None else None
        words = max(1, min(analysis.temp_size_in_bytes, LARGEST_TEMPORARY) // 4) if analysis is not None else 1

        def program(memory: list[jax.Array], word: jax.Array, zero: jax.Array, *operands: Any) -> list[Any]:
            filled = jax.lax.sort(word + zero * jnp.arange(words, dtype=word.dtype))  # not a constant for XLA
            untouched = filled[words // 2] == word
            return function(*(jnp.where(untouched, x, jnp.zeros_like(x)) for x in operands))

        return cls(jax.jit(program, donate_argnums=0, keep_unused=True), types)

    def compiled(self, operands: Sequence[Any]) -> Poisoned:
        """Return the same, compiled for operands like these; raise the kernel's error while it is built."""
        memory, word = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.types], np.uint32(0)
        program: Any = self.program
        with _quiet():
            return Poisoned(program.lower(memory, word, word, *operands).compile(), self.types)

    def run(self, operands: Sequence[Any], kind: int) -> tuple[list[np.ndarray], bool]:
        """Return the results over one of two kinds of poison, and whether they are in its memory."""
        memory = [jnp.full(x.shape, poison(x.dtype, kind), x.dtype) for x in self.types]
        places = [x.unsafe_buffer_pointer() for x in memory]
        with _quiet():
            found = self.program(memory, jnp.array(poison(np.dtype(np.uint32), kind)), jnp.uint32(0), *operands)
        pairs = zip(found[: len(places)], places, strict=True)
        return to_host(found), all(not x.size or x.unsafe_buffer_pointer() == place for x, place in pairs)


class Memory(Protocol):
    """A program whose results are in memory with poison when it begins."""

    def run(self, operands: Sequence[Any], kind: int) -> tuple[list[np.ndarray], bool]:
        """Return the results over one of two kinds of poison, and whether they are in its memory."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        yield


def assert_written(program: Memory, operands: Callable[[], Sequence[Any]]) -> list[np.ndarray]:
    """Return the results; raise if one depends on the earlier content of its memory."""
    runs = [program.run(operands(), kind) for kind in (0, 0, 1)]
    (low, again, high), placed = zip(*runs, strict=True)
    if any(different_bits(x, y).any() for x, y in zip(low, again, strict=True)):
        raise Skipped("results differ from call to call")
    if not all(placed):
        raise Skipped("XLA did not use the prepared memory for the results")
    for i, (x, y) in enumerate(zip(low, high, strict=True)):
        if (wrong := different_bits(x, y)).any():
            _confirm(program, operands, (low, high))
            raise Broken(f"output {i}: {_unwritten(wrong, x, y)}")
    return list(high)


def _confirm(program: Memory, operands: Callable[[], Sequence[Any]], seen: Sequence[list[np.ndarray]]) -> None:
    """Raise `Skipped` unless each kind of poison gives the same results again, as sums in any order may not."""
    for kind in (0, 1) * CONFIRMATIONS:
        again, _ = program.run(operands(), kind)
        if any(different_bits(x, y).any() for x, y in zip(seen[kind], again, strict=True)):
            raise Skipped("results differ from call to call")


def _unwritten(wrong: np.ndarray, x: np.ndarray, y: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    held = (x[index], y[index]) == (poison(x.dtype, 0), poison(y.dtype, 1))
    what = "keeps" if held else "depends on"
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"element {list(index)} {what} what its memory held before the call ({count})"


def poison(dtype: Any, kind: int) -> Any:
    """Return one of two values that differ in every way: low, or high."""
    if dtype == np.bool_:
        return np.bool_(kind)
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return np.array(info.max // 2 if kind else info.min // 2, dtype)[()]
    return np.array(float(jnp.finfo(dtype).max) / 2 * (1 if kind else -1), dtype)[()]
