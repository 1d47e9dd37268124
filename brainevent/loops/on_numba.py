# SPDX-License-Identifier: Apache-2.0
"""A plan as a function of JAX arrays: its text is compiled by Numba, and kept by content as other kernels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..backends.numba import half, workers
from ..backends.numba.floats import HARDWARE_FLUSHES, bits_of_float, float_of_bits, flush_floats, restore_floats
from ..backends.numba.foreign import ForeignError, call_handler
from ..backends.numba.inner import inner
from ..backends.numba.kernel import numba_kernel
from ..backends.numba.memory import array_at, large_pages, put, stack_memory, unknown, word
from ..backends.numba.pulse import next_pulse, pulse_memory
from ..backends.numba.vectors import address
from ..ffi.pulse import LoopInterruptedError
from ..scalar.on_llvm import called_forms
from .copies import Helper
from .keys import KEYS, is_key, words_of
from .plan import Plan
from .text import LoopText, text_of
from .values import Array

__all__ = ["call_of"]

_OF_THREADS = (
    "await_chunks", "begin_threads", "chunk_done", "end_threads", "first_chunk", "last_chunk", "range_of", "run_then",
    "share_work", "work_of",
)  # fmt: skip


@inner
def part(array: Any, begin: Any, shape: Any) -> Any:
    """Return the elements of an array from a place on, as an array of a shape: Numba compiles a reshape slowly."""
    return array_at(address(array) + begin * array.itemsize, shape, array.dtype)


_LARGE = 2**21  # bytes of a large page


@inner
def in_large_pages(array: Any) -> Any:
    """Ask for large pages of an array that nothing was written to: the system then clears few pages instead of many."""
    begin = (address(array) + (_LARGE - 1)) // _LARGE * _LARGE
    end = (address(array) + array.size * array.itemsize) // _LARGE * _LARGE
    if end > begin:
        large_pages(begin, end - begin)


def call_of(plan: Plan, types: Sequence[Any]) -> Callable[..., list[Any]]:
    """Return the loop as a function of constants, carries and scanned arrays; its results have these types."""
    written = text_of(plan)
    kernel = _compiled(written)
    outs = [_type(plan, i, array) for i, array in plan.outs.items()]
    outs += [jax.ShapeDtypeStruct(_flat_shape(array), array.dtype) for array in written.memory]

    def call(*operands: Any) -> list[Any]:
        given = [_words(x) for x in operands] + [jnp.asarray(x) for x in plan.closed]
        flat = [_flattened(plan, array, x) for array, x in zip(plan.inputs, given, strict=True)]
        found = dict(zip(plan.outs, numba_kernel(kernel, outs=outs)(*flat), strict=False))
        results = []
        for i, aval in enumerate(types):
            if i in plan.kept:
                results.append(operands[plan.kept[i]])
            else:
                leading = (plan.length,) if i in plan.rows else ()
                x = found[i].reshape(leading + tuple(words_of(aval).shape))
                results.append(jax.random.wrap_key_data(x, impl=KEYS) if is_key(aval) else x)
        return results

    return call


def _compiled(written: LoopText) -> Any:
    """Compile the text; nothing of this process is part of it, so that other processes find it by its content."""
    scope: dict[str, Any] = {
        "np": np,
        "half": half,
        "part": part,
        "in_large_pages": in_large_pages,
        "unknown": unknown,
        "flush_floats": flush_floats,
        "restore_floats": restore_floats,
    }
    scope |= {"bits_of_float": bits_of_float, "float_of_bits": float_of_bits}
    scope |= {"call_handler": call_handler, "ForeignError": ForeignError}
    scope |= {"pulse_memory": pulse_memory, "next_pulse": next_pulse, "LoopInterruptedError": LoopInterruptedError}
    scope |= {name: getattr(workers, name) for name in _OF_THREADS} | {"word": word, "put": put}
    scope |= {"array_at": array_at, "address": address, "stack_memory": stack_memory}
    scope |= {f"be_{name}": function for name, function in called_forms(written.forms).items()}
    for name, helper in written.helpers.items():
        if not isinstance(helper, Helper):
            scope[name] = helper
            continue
        exec(compile(helper.text(name), f"<{name}>", "exec"), scope)
        options: dict[str, Any] = {"fastmath": set(helper.fastmath)} if helper.fastmath else {}
        # What is not apart calls loops that are, which are optimized by then.
        options |= {"apart": helper.apart, "later": not helper.apart, "interleaved": helper.interleaved}
        options["flushes"] = HARDWARE_FLUSHES
        scope[name] = inner(scope[name], error_model="numpy", **options)
    exec(compile(written.text, "<fused_loop>", "exec"), scope)
    for name in ("work_of_thread", "fused_steps"):
        if name in scope:
            scope[name] = inner(scope[name], error_model="numpy", later=True)
    return inner(scope["fused_loop"], error_model="numpy")


def _flat_shape(array: Array) -> tuple[int, ...]:
    return (array.size,) if array.shape else ()


def _type(plan: Plan, i: int, array: Array) -> jax.ShapeDtypeStruct:
    assert plan.length is not None
    leading = (plan.length,) if i in plan.rows else ()
    return jax.ShapeDtypeStruct(leading + _flat_shape(array), array.dtype)


def _flattened(plan: Plan, array: Array, x: Any) -> Any:
    return x.reshape((*(x.shape[:1] if array.home == "row" else ()), *_flat_shape(array)))


def _words(x: Any) -> Any:
    """Return the words of typed keys."""
    return jax.random.key_data(x) if is_key(x) else x
