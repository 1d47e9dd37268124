# SPDX-License-Identifier: Apache-2.0
"""Check the promises of one backend: each gives a row, also if the kernel fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax

from ...errors import KernelNotAvailableError
from ...languages import language
from ..compare import Broken, Skipped, described
from ..custom_kernel import XLACustomKernel
from ..emulation import EmulatedGenerator
from .guards import OutsideError
from .promises import BOUNDS, PROMISES, TYPES, VALUES, Promise
from .report import FAILED, OK, SKIPPED, CheckRow
from .subject import Subject, platform_here, with_samples

__all__ = ["check_backend", "other_platforms"]


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
