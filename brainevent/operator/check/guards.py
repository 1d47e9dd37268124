# SPDX-License-Identifier: Apache-2.0
"""Programs whose native code runs in guarded memory, which shows what it writes and reads outside of its arrays."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ...ffi import float_mode
from ...ffi.guarded import BEFORE, BEHIND, Watch, guard, watching
from ..compare import Broken, Skipped, assert_close, different_bits, is_inexact, to_host

__all__ = [
    "Guarded",
    "OutsideError",
    "Program",
    "assert_right",
    "assert_within",
    "assert_written",
    "check_float_mode",
    "need_native_code",
    "prepared",
]

LARGEST_TEMPORARY = 1 << 24  # bytes that are worth poisoning
CONFIRMATIONS = 8  # of the elements in a message
Call = Callable[..., list[Any]]
Sides = Mapping[tuple[int, str], int]  # for an operand and a side of it, which of the contents is there


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


class OutsideError(Broken):
    """Native code writes, or reads, outside of its arrays."""


@dataclass(frozen=True)
class Guarded:
    """A compiled program for the CPU whose native calls go through guards."""

    program: Callable[..., list[Any]]
    is_native: bool  # whether there are such calls

    def run(self, operands: Sequence[Any], kind: int) -> tuple[list[np.ndarray], bool]:
        """Return the results over one of two kinds of poison."""
        return self.watch(operands, kind)[0], True

    def watch(
        self, operands: Sequence[Any], kind: int, content: int = 0, sides: Sides | None = None, standard: bool = False
    ) -> tuple[list[np.ndarray], Watch]:
        """Return the results, and what the native code did; `content` is beside operands, except for `sides`."""

        def margin(number: int, side: str, x: np.ndarray) -> Any:
            return _beside(x, (sides or {}).get((number, side), content))

        with watching(Watch(lambda dtype: poison(dtype, kind), margin, standard)) as watch:
            results = to_host(self.program(*operands))
        return results, watch


Program = Poisoned | Guarded
_CONTENTS = 3


def _beside(x: np.ndarray, content: int) -> Any:
    """Return what is beside an operand: integers are some of its own, so that they are valid indices."""
    if is_inexact(x):
        return (0, np.nan, float(jnp.finfo(x.dtype).max) / 2)[content]
    if x.dtype == np.bool_:
        return content == 1
    return (x.min, x.max, lambda: x[len(x) // 2])[content]() if x.size else 0


def prepared(
    function: Call, operands: Sequence[Any], types: Sequence[Any], compiled: Callable[[], Any] | None = None
) -> Program:
    """Compile a function for operands like these, with guards for its native code where that is possible."""
    if jax.default_backend() == "cpu":
        own = functools.partial(function)  # JAX would give its lowering, with other names in it, to others
        lowered = jax.jit(own).lower(*operands)
        guarded = guard(lowered)
        if all(guarded):
            return Guarded(lowered.compile(), bool(guarded))
    return Poisoned.of(function, compiled and compiled(), types).compiled(operands)


def assert_within(program: Program, operands: Callable[[], Sequence[Any]]) -> None:
    """Raise if native code writes outside of its arrays, or uses what is there, or changes the floating-point mode."""
    if not isinstance(program, Guarded) or not program.is_native:
        return
    usual, _ = _checked(program, operands)
    for content in range(1, _CONTENTS):
        found, watch = _checked(program, operands, content)
        if _differ(usual, found):
            if _differ(usual, _checked(program, operands)[0]):
                return  # results differ from call to call
            raise OutsideError(_what_is_read(program, operands, content, usual, watch.operands))
    _assert_mode(program.watch(operands(), 1, standard=True)[1])


def _checked(
    program: Guarded, operands: Callable[[], Sequence[Any]], content: int = 0
) -> tuple[list[np.ndarray], Watch]:
    results, watch = program.watch(operands(), 1, content)
    if watch.outside:
        raise OutsideError(watch.outside[0])
    _assert_mode(watch)
    return results, watch


def _differ(usual: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> bool:
    return any(different_bits(x, y).any() for x, y in zip(usual, found, strict=True))


def _what_is_read(
    program: Guarded, operands: Callable[[], Sequence[Any]], content: int, usual: Sequence[np.ndarray], count: int
) -> str:
    """Say which operand's surroundings change the results."""
    for side in ((i, side) for i in range(count) for side in (BEHIND, BEFORE)):
        found, _ = program.watch(operands(), 1, 0, {side: content})
        for i, (x, y) in enumerate(zip(usual, found, strict=True)):
            if (wrong := different_bits(x, y)).any():
                index = [int(k) for k in np.argwhere(wrong)[0]]
                element = f"element {index} of output {i}" if index else f"output {i}"
                return f"operand {side[0]}: {element} depends on what is {side[1]} of its memory"
    return "results depend on what is outside of the operands' memory"


def _assert_mode(watch: Watch) -> None:
    if watch.modes:
        raise Broken(f"the call changes how the processor computes with floats: {', '.join(watch.modes)}")


def check_float_mode(program: Program, operands: Callable[[], Sequence[Any]]) -> None:
    """Native code leaves the floating-point mode as it was: that of XLA, and the processor's standard."""
    guarded = need_native_code(program)
    if not float_mode.is_known():
        raise Skipped("on this system the floating-point mode cannot be read")
    for standard in (False, True):
        _assert_mode(guarded.watch(operands(), 1, standard=standard)[1])


def need_native_code(program: Program) -> Guarded:
    """Return the program; skip the promise if it has no native code that can be watched."""
    if not isinstance(program, Guarded):
        where = "on a CPU" if jax.default_backend() != "cpu" else "without Python callbacks"
        raise Skipped(f"native code can be watched only {where}")
    if not program.is_native:
        raise Skipped("it has no native code: XLA compiles it")
    return program


def assert_right(
    program: Program,
    operands: Sequence[Any],
    wanted: Sequence[Any] | None,
    tolerance: float | None,
    usual: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return the results; raise if they depend on other memory, or are wrong; `usual` ones give the scale of errors."""
    try:
        found = assert_written(program, lambda: operands)
    except Skipped:
        if wanted is None:
            raise
        found, _ = program.run(operands, 1)
    assert_within(program, lambda: operands)
    if wanted is not None:
        assert_close(found[: len(wanted)], wanted, tolerance, usual=usual)
    return found
