# SPDX-License-Identifier: Apache-2.0
"""Promises about memory: operands are only read, results are written whole, and nothing else is touched."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Broken, assert_bits, during, to_host
from .guards import Program, assert_within, assert_written, check_float_mode, need_native_code, prepared
from .subject import ELEMENTS, Subject

__all__ = [
    "check_floating_point_mode",
    "check_inputs_unchanged",
    "check_outputs_written",
    "check_within_bounds",
    "poisoned",
]

_PAGE = mmap.PAGESIZE
_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61  # of an entry in /proc/self/pagemap
Call = Callable[..., list[Any]]


def check_inputs_unchanged(subject: Subject) -> None:
    """No operand's memory changes, neither the caller's arrays nor values that a program uses again."""
    compiled = subject.compiled()
    for k in range(ELEMENTS):
        before = to_host(subject.operands(subject.choice(k)))
        mine = subject.operands(subject.choice(k))
        with during("the call wrote to the caller's array"):
            jax.block_until_ready(subject.call(*mine))
            assert_bits(_reread(mine), before, "operand")
        with during("the jitted call wrote to the caller's array"):
            jax.block_until_ready(compiled(*mine))
            assert_bits(_reread(mine), before, "operand")
    _check_untouched(compiled, subject.operands(), "")
    if subject.count:
        mine = subject.stacked(ELEMENTS, [0] * subject.count)
        before, batch = to_host(mine), subject.compiled_batch()
        with during("under vmap the call wrote to the caller's array"):
            jax.block_until_ready(batch(*mine))
            assert_bits(_reread(mine), before, "operand")
        _check_untouched(batch, mine, "under vmap ")

    def used_again(*operands: Any) -> tuple[Any, Any]:
        # For each operand a copy that XLA makes in this program, and to which the kernel could write.
        copies = [jnp.flip(jax.lax.optimization_barrier(jnp.flip(x.reshape(-1)))).reshape(x.shape) for x in operands]
        return subject.call(*copies), copies

    before = to_host(subject.operands())
    with during("in a program that uses it again after the call"):
        assert_bits(to_host(jax.jit(used_again)(*subject.operands())[1]), before, "operand")


def _check_untouched(compiled: Call, operands: Sequence[jax.Array], where: str) -> None:
    """Raise if an operand is written to, even if its content is restored."""
    if jax.default_backend() != "cpu" or not pages_remember():
        return
    watched = [WatchedArray(x) for x in to_host(operands)]
    jax.block_until_ready(compiled(*(one.array for one in watched)))
    for i, one in enumerate(watched):
        if one.is_watched and one.was_written:
            raise Broken(f"{where}the call wrote to the caller's array, and then restored it: operand {i}")


def _reread(arrays: Sequence[jax.Array]) -> list[np.ndarray]:
    """Read arrays through a computation, without their cached copies on the host."""
    return to_host([jnp.copy(x) for x in arrays])


def check_outputs_written(subject: Subject) -> None:
    """No result depends on the earlier content of its memory."""
    for program, operands, where in _programs(subject):
        with during(where) if where else contextlib.nullcontext():
            assert_written(program, operands)


def check_within_bounds(subject: Subject) -> None:
    """Native code writes to no memory outside of its arrays, and uses none."""
    for program, operands, where in _programs(subject):
        need_native_code(program)
        with during(where) if where else contextlib.nullcontext():
            assert_within(program, operands)


def check_floating_point_mode(subject: Subject) -> None:
    """Native code leaves the floating-point mode as it was."""
    check_float_mode(poisoned(subject), subject.operands)


def _programs(subject: Subject) -> Iterator[tuple[Program, Callable[[], Sequence[Any]], str]]:
    """Return the programs of a call, and of a batch, with their operands, and words for findings."""
    yield poisoned(subject), subject.operands, ""
    if subject.count:
        axes = [0] * subject.count
        types = [jax.ShapeDtypeStruct((ELEMENTS, *x.shape), x.dtype) for x in subject.out_types]

        def batch() -> list[jax.Array]:
            return subject.stacked(ELEMENTS, axes)

        def make() -> Program:
            return prepared(jax.vmap(subject.call), batch(), types, subject.compiled_batch)

        yield subject.once("poisoned batch", make), batch, "under vmap"


def poisoned(subject: Subject) -> Program:
    """Return the program of a call in memory that is prepared, made once."""

    def make() -> Program:
        return prepared(subject.call, subject.operands(), subject.out_types, subject.compiled)

    made: Program = subject.once("poisoned", make)
    return made


class WatchedArray:
    """An array of JAX at the beginning of a page of a private mapping of a file.

    A page belongs to the file until the process writes to it. Then the system gives the process its own copy of the
    page, and keeps it, whatever is written later.
    """

    def __init__(self, x: np.ndarray):
        size = max(x.nbytes, 1)
        file = os.memfd_create("brainevent_check")
        try:
            os.ftruncate(file, size)
            os.pwrite(file, np.ascontiguousarray(x).reshape(-1).view(np.uint8).tobytes(), 0)
            memory = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(file)
        host: np.ndarray = np.frombuffer(memory, np.uint8, x.nbytes).view(x.dtype).reshape(x.shape)
        self._address, self._pages = host.ctypes.data, -(-size // _PAGE)
        self.array: jax.Array = jax.device_put(host)

    @property
    def is_watched(self) -> bool:
        """Whether JAX reads these pages, not a copy of them."""
        return bool(self.array.size) and self.array.unsafe_buffer_pointer() == self._address

    @property
    def was_written(self) -> bool:
        """Whether the array was written to since it was made."""
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(self._address // _PAGE * 8)
            entries = np.frombuffer(file.read(8 * self._pages), np.uint64)
        return any(entry & (_PRESENT | _SWAPPED) and not entry & _OF_FILE for entry in entries.tolist())


@functools.cache
def pages_remember() -> bool:
    """Return whether this system records writes to pages."""
    try:
        trial: Any = WatchedArray(np.zeros(4, np.float32))
        if not trial.is_watched or trial.was_written:
            return False
        np.asarray(trial.array).max()
        only_read = not trial.was_written
        first = ctypes.c_ubyte.from_address(trial._address)
        first.value = first.value
        return only_read and bool(trial.was_written)
    except (OSError, AttributeError, ValueError):
        return False
