# SPDX-License-Identifier: Apache-2.0
"""Check the promises of one backend: each gives a row, also if the kernel fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ...errors import KernelNotAvailableError
from ...languages import language
from ..compare import Broken, Skipped, described
from ..custom_kernel import XLACustomKernel
from ..emulation import EmulatedGenerator
from . import batching, calls, concurrency, derivatives, leaks, memory, sharding, sizes, values
from .guards import OutsideError
from .report import FAILED, OK, SKIPPED, CheckRow
from .subject import Subject, platform_here, with_samples

__all__ = ["PROMISES", "TYPES", "VALUES", "check_backend", "other_platforms"]

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
    Promise("vmap of grad", derivatives.check_vmap_of_grad, _GRAD_VMAP, needs=("vjp",)),
    Promise("grad of vmap", derivatives.check_grad_of_vmap, _GRAD_VMAP, needs=("vjp",)),
    Promise("sharded jit", sharding.check_sharded_jit, _SHARD),
    Promise("shard_map", sharding.check_shard_map, _SHARD),
    Promise(
        "sharded grad of vmap",
        derivatives.check_sharded_grad_of_vmap,
        "correct the sharding rules of this operator, and of those that its rules for derivatives call",
        needs=("vjp", "grad of vmap", "sharded jit"),
    ),
    Promise("export", calls.check_export, "make the kernel call native code, not Python (no callbacks)"),
)
PROMISES = {promise.name: promise for promise in _LIST}


def other_platforms(operator: XLACustomKernel) -> Iterator[CheckRow]:
    """List the kernels that cannot run in this process."""
    here = set(operator.definition.entries(platform_here()).values())
    built = [entry.kernel_generator for entry in here]
    emulated = [generator.generator for generator in built if isinstance(generator, EmulatedGenerator)]
    for entry in (entry for table in operator.definition.kernels.values() for entry in table.values()):
        if entry not in here:
            reason = f"it is for {entry.platform}; this process runs on {jax.default_backend()}"
            if entry.kernel_generator in emulated:
                reason += ", where it is emulated"
            yield CheckRow(entry.backend, "all", SKIPPED, reason)


def check_backend(
    subject: Subject, backend: str, others: Sequence[str], samples: Sequence[Sequence[Any]], names: Collection[str]
) -> Iterator[CheckRow]:
    """Check the promises `names`, types and values first."""
    subject = subject.of(backend)
    if BOUNDS in names and (finding := _outside(subject)):
        yield CheckRow(backend, BOUNDS, FAILED, finding)
        yield CheckRow(backend, "all others", SKIPPED, f"{BOUNDS!r} failed: calls could end this process")
        return
    row = _row(PROMISES[TYPES], subject)
    if row.status == FAILED and (missing := _why_missing(subject)):
        yield CheckRow(backend, "all", SKIPPED, missing)
        return
    yield row
    if row.status == FAILED:
        yield CheckRow(backend, "all others", SKIPPED, f"{TYPES!r} failed")
        return
    subject = subject.of(backend, _truth(subject, others))
    values = _row(PROMISES[VALUES], subject)
    yield values
    if values.status != OK:
        subject = subject.of(backend)  # from here the kernel is compared with itself
    yield from _check_others(with_samples(subject, samples), names)


def _outside(subject: Subject) -> str:
    """Return what the kernel does outside of its arrays: this is known before it runs on arrays of JAX."""
    try:
        PROMISES[BOUNDS].test(subject)
    except OutsideError as finding:
        return f"{finding}; {PROMISES[BOUNDS].advice}"
    except Exception:  # noqa: BLE001 - its promises are checked in their order
        return ""
    return ""


def _check_others(subject: Subject, names: Collection[str]) -> Iterator[CheckRow]:
    failed = set()
    for promise in PROMISES.values():
        if promise.name in (TYPES, VALUES) or promise.name not in names:
            continue
        if broken := [name for name in promise.needs if name in failed]:
            yield CheckRow(subject.backend, promise.name, SKIPPED, f"{broken[0]!r} failed")
            continue
        row = _row(promise, subject)
        if row.status == FAILED:
            failed.add(promise.name)
        yield row


def _row(promise: Promise, subject: Subject) -> CheckRow:
    """Check one promise; every error is attributed to the kernel, and is a row."""
    try:
        note = promise.test(subject)
    except Skipped as reason:
        return CheckRow(subject.backend, promise.name, SKIPPED, str(reason))
    except Broken as finding:
        return CheckRow(subject.backend, promise.name, FAILED, f"{finding}; {promise.advice}")
    except Exception as error:  # noqa: BLE001
        return CheckRow(subject.backend, promise.name, FAILED, f"{described(error)}; {promise.advice}")
    return CheckRow(subject.backend, promise.name, OK, note or "")


def _why_missing(subject: Subject) -> str | None:
    """Return what to install, if a kernel does not run because its language is not installed."""
    entry = subject.operator.definition.entries(platform_here()).get(subject.backend)
    row = language(entry.language) if entry is not None else None
    if row is not None and jax.default_backend() in row.platforms:
        return row.why_missing()
    try:
        subject.call(*subject.operands())
    except KernelNotAvailableError as error:
        return str(error)
    except Exception:  # noqa: BLE001
        return None
    return None


def _truth(subject: Subject, others: Sequence[str]) -> Callable[..., list[Any]] | None:
    """Return the oracle: the reference, or another kernel that runs."""
    reference = subject.operator.definition.reference
    if reference is not None:
        function = jax.jit(reference.generator(outs=subject.out_types, **subject.kwargs))

        def exact(*operands: Any) -> list[Any]:
            with jax.default_matmul_precision("highest"):
                return jax.tree.leaves(function(*operands))

        return exact
    for other in others:
        peer = subject.of(other)
        if _row(PROMISES[TYPES], peer).status == OK:
            return jax.jit(peer.call)
    return None
