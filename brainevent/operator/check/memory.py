# SPDX-License-Identifier: Apache-2.0
"""Promises about memory: operands are only read, and every element of a result is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .compare import Broken, Skipped, assert_bits, different_bits, during, to_host
from .subject import ELEMENTS, Subject

__all__ = ["check_inputs_unchanged", "check_outputs_written"]

Call = Callable[..., list[Any]]
Operands = Callable[[], list[jax.Array]]
LARGEST_TEMPORARY = 1 << 24  # bytes that are worth poisoning


def check_inputs_unchanged(subject: Subject) -> None:
    """No operand's memory changes: that of the caller's arrays, and that of values which a program uses again."""
    jitted = jax.jit(subject.call)
    for k in range(ELEMENTS):
        before = to_host(subject.operands(subject.choice(k)))
        mine = subject.operands(subject.choice(k))
        with during("the call wrote to the caller's array"):
            jax.block_until_ready(subject.call(*mine))
            assert_bits(_reread(mine), before, "operand")
        with during("the jitted call wrote to the caller's array"):
            jax.block_until_ready(jitted(*mine))
            assert_bits(_reread(mine), before, "operand")
    axes = [0] * subject.count
    mine, before = subject.stacked(ELEMENTS, axes), to_host(subject.stacked(ELEMENTS, axes))
    if mine:
        with during("under vmap the call wrote to the caller's array"):
            jax.block_until_ready(jax.jit(jax.vmap(subject.call))(*mine))
            assert_bits(_reread(mine), before, "operand")

    def used_again(*operands: Any) -> tuple[Any, Any]:
        # Of each operand a copy that XLA makes in this program, and could give to the kernel to write to.
        copies = [jnp.flip(jax.lax.optimization_barrier(jnp.flip(x.reshape(-1)))).reshape(x.shape) for x in operands]
        return subject.call(*copies), copies

    before = to_host(subject.operands())
    with during("in a program that uses it again after the call"):
        assert_bits(to_host(jax.jit(used_again)(*subject.operands())[1]), before, "operand")


def _reread(arrays: Sequence[jax.Array]) -> list[np.ndarray]:
    """Read arrays by way of a computation, past any copy that they keep for the host."""
    return to_host([jnp.copy(x) for x in arrays])


def check_outputs_written(subject: Subject) -> None:
    """No result depends on what its memory held before."""
    axes = [0] * subject.count
    _check_written(subject.call, subject.operands, subject.out_types)
    if subject.count:
        types = [jax.ShapeDtypeStruct((ELEMENTS, *x.shape), x.dtype) for x in subject.out_types]
        with during("under vmap"):
            _check_written(jax.vmap(subject.call), lambda: subject.stacked(ELEMENTS, axes), types)


def _check_written(function: Call, operands: Operands, types: Sequence[Any]) -> None:
    program = _poisonable(function, operands)
    low, again, high = (_run_poisoned(program, operands, types, kind) for kind in (0, 0, 1))
    if any(different_bits(x, y).any() for x, y in zip(low, again, strict=True)):
        raise Skipped("results differ from call to call")
    for i, (x, y) in enumerate(zip(low, high, strict=True)):
        if (wrong := different_bits(x, y)).any():
            raise Broken(f"output {i}: {_unwritten(wrong, x, y)}")


def _unwritten(wrong: np.ndarray, x: np.ndarray, y: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    held = (x[index], y[index]) == (_poison(x.dtype, 0), _poison(y.dtype, 1))
    what = "keeps" if held else "depends on"
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"element {list(index)} {what} what its memory held before the call ({count})"


def _poison(dtype: Any, kind: int) -> Any:
    """Return one of two values that differ in every way: low, or high."""
    if dtype == np.bool_:
        return np.bool_(kind)
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return np.array(info.max // 2 if kind else info.min // 2, dtype)[()]
    return np.array(float(jnp.finfo(dtype).max) / 2 * (1 if kind else -1), dtype)[()]


def _poisonable(function: Call, operands: Operands) -> Call:
    """Return a program `(memory, word, zero, *operands)` whose memory is full of poison when it calls the function.

    XLA puts the results where `memory`, donated, lies. An array as large as all temporary ones is full of `word`, and
    is no longer needed when the call begins, so that XLA puts temporary results of the call there.
    """
    analysis = jax.jit(function).lower(*operands()).compile().memory_analysis()
    words = max(1, min(analysis.temp_size_in_bytes, LARGEST_TEMPORARY) // 4) if analysis is not None else 1

    def program(memory: list[jax.Array], word: jax.Array, zero: jax.Array, *operands: Any) -> list[Any]:
        filled = jax.lax.sort(
            word + zero * jnp.arange(words, dtype=word.dtype)
        )  # XLA must make it: it cannot know zero
        untouched = filled[words // 2] == word
        return function(*(jnp.where(untouched, x, jnp.zeros_like(x)) for x in operands))

    return jax.jit(program, donate_argnums=0, keep_unused=True)


def _run_poisoned(program: Call, operands: Operands, types: Sequence[Any], kind: int) -> list[np.ndarray]:
    memory = [jnp.full(x.shape, _poison(x.dtype, kind), x.dtype) for x in types]
    places = [x.unsafe_buffer_pointer() for x in memory]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        found = program(memory, jnp.array(_poison(np.dtype(np.uint32), kind)), jnp.uint32(0), *operands())
    if any(x.size and x.unsafe_buffer_pointer() != place for x, place in zip(found, places, strict=True)):
        raise Skipped("XLA gave the results other memory than that which was prepared")
    return to_host(found)
