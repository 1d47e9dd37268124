# SPDX-License-Identifier: Apache-2.0
"""The table of promises: name, test, and advice if a promise is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import batching, calls, concurrency, derivatives, gradients, leaks, memory, sharding, sizes, values
from .subject import Subject

__all__ = ["BOUNDS", "PROMISES", "TYPES", "VALUES", "Promise"]

TYPES, VALUES, BOUNDS = "shapes and dtypes", "values", "within bounds"


@dataclass(frozen=True)
class Promise:
    """A promise of an operator; `test` returns a note, or raises `Broken` or `Skipped`."""

    name: str
    test: Callable[[Subject], str | None]
    advice: str
    needs: tuple[str, ...] = ()  # promises without which this one is not checked


_KERNEL = "correct the kernel"
_VMAP = "correct the kernel's batching (vmap_method), or def_batching_rule"
_JVP = "correct the jvp rule; define a derivative that is meant to differ in the reference, with jax.custom_jvp"
_VJP = "correct the transpose rules, of this operator and of those that its jvp rule calls"
_GRAD_VMAP = "rules get unbatched values: use only JAX functions and operators in them"
_SHARD = "correct def_sharding_rule: name only factors by which the kernel's work can be split"

_LIST = (
    Promise(TYPES, calls.check_types, "change the kernel, its rules, or outs"),
    Promise(VALUES, calls.check_values, _KERNEL),
    Promise("jit", calls.check_jit, "make the kernel generator depend on its keyword arguments only"),
    Promise(
        "repeated calls", calls.check_repeated, "make the kernel depend on its operands only, and sum in a fixed order"
    ),
    Promise(
        "calls at once",
        concurrency.check_at_once,
        "keep no state outside the kernel: pass scratch memory as an output",
    ),
    Promise(
        "inputs unchanged", memory.check_inputs_unchanged, "write to outputs only, or declare input_output_aliases"
    ),
    Promise("outputs written", memory.check_outputs_written, "write each element, including zeros, before reading it"),
    Promise(
        BOUNDS,
        memory.check_within_bounds,
        "read and write elements of the arrays only: compare indices with their sizes",
    ),
    Promise(
        "floating-point mode",
        memory.check_floating_point_mode,
        "restore the mode (on x86 the register MXCSR) before the kernel returns",
    ),
    Promise("memory released", leaks.check_released, "free what the kernel allocates, in each call"),
    Promise("other values", values.check_values_of_its_own, _KERNEL),
    Promise("other sizes", sizes.check_sizes, _KERNEL),
    Promise("vmap of one operand", batching.check_vmap_each, _VMAP),
    Promise("vmap of all operands", batching.check_vmap_all, _VMAP),
    Promise("nested vmap", batching.check_vmap_nested, _VMAP),
    Promise("vmap of size 0 and 1", batching.check_vmap_sizes, _VMAP),
    Promise("jvp", derivatives.check_jvp, _JVP),
    Promise("vjp", derivatives.check_vjp, _VJP),
    Promise("transpose", derivatives.check_transpose, "correct def_transpose_rule"),
    Promise("vmap of grad", gradients.check_vmap_of_grad, _GRAD_VMAP, needs=("vjp",)),
    Promise("grad of vmap", gradients.check_grad_of_vmap, _GRAD_VMAP, needs=("vjp",)),
    Promise("sharded jit", sharding.check_sharded_jit, _SHARD),
    Promise("shard_map", sharding.check_shard_map, _SHARD),
    Promise(
        "sharded grad of vmap",
        gradients.check_sharded_grad_of_vmap,
        "correct the sharding rules of this operator, and of those that its rules for derivatives call",
        needs=("vjp", "grad of vmap", "sharded jit"),
    ),
    Promise("export", calls.check_export, "make the kernel call native code, not Python (no callbacks)"),
)
PROMISES = {promise.name: promise for promise in _LIST}
