# SPDX-License-Identifier: Apache-2.0
"""Promises about memory: operands are only read, results are written whole, and nothing else is touched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Broken, assert_bits, during, to_host
from .guards import Program, assert_within, check_float_mode, need_native_code, prepared
from .pages import WatchedArray, pages_remember
from .poison import assert_written
from .subject import ELEMENTS, Subject

__all__ = [
    "check_floating_point_mode",
    "check_inputs_unchanged",
    "check_outputs_written",
    "check_within_bounds",
    "poisoned",
]

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
