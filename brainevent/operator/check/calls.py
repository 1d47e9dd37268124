# SPDX-License-Identifier: Apache-2.0
"""Promises about plain calls: types, values, jit, export, and repeated calls."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...ffi.targets import export_checks
from ..compare import Skipped, assert_bits, assert_close, assert_types, assert_zero_signs, during, to_host
from ..emulation import EmulatedGenerator
from ..lowering import select
from .subject import ELEMENTS, Subject, platform_here

__all__ = ["check_export", "check_jit", "check_repeated", "check_types", "check_values"]

REPEATS = 20


def check_types(subject: Subject) -> None:
    """The call runs, and its results and those of the reference match `outs`."""
    assert_types(to_host(subject.call(*subject.operands())), subject.out_types)
    reference = subject.operator.definition.reference
    if reference is not None:
        function = reference.generator(outs=subject.out_types, **subject.kwargs)
        with during("the reference does not run"):
            types = jax.tree.leaves(jax.eval_shape(function, *subject.operands()))
        with during("compared with the reference, outs is wrong"):
            assert_types(subject.out_types, types)


def check_values(subject: Subject) -> None:
    """An eager call gives the results of the oracle."""
    if subject.truth is None:
        raise Skipped("nothing to compare with: no reference, and no other kernel that runs here")
    found = subject.call(*subject.operands())
    assert_close(found, subject.expected(), subject.tolerance)
    if subject.signed_zeros:
        assert_zero_signs(found, subject.expected())


def check_jit(subject: Subject) -> None:
    """A jitted call gives the results of an eager one, alone and as a part of a larger program."""
    assert_close(jax.jit(subject.call)(*subject.operands()), subject.expected(), subject.tolerance)

    def twice(*operands: Any) -> list[Any]:
        barrier = jax.lax.optimization_barrier
        return barrier(subject.call(*barrier(operands))) + subject.call(*operands)

    wanted = subject.expected() + subject.expected()
    with during("in a larger program"):
        assert_close(jax.jit(twice)(*subject.operands()), wanted, subject.tolerance)


def check_export(subject: Subject) -> None:
    """A program that was exported and read back gives the same results."""
    chosen = select(subject.operator.definition, platform_here(), subject.backend, {})
    if isinstance(chosen.kernel_generator, EmulatedGenerator):
        raise Skipped("it is emulated here, and exported for another platform")
    with during("exported and read back"):
        found = _read_back(subject.call, subject.operands())
        assert_close(found, subject.expected(), subject.tolerance)
    if subject.count:
        with during("under vmap, exported and read back"):
            found = _read_back(jax.vmap(subject.call), subject.stacked(ELEMENTS, [0] * subject.count))
            wanted = subject.expected_batch([subject.choice(b) for b in range(ELEMENTS)])
            assert_close(found, wanted, subject.tolerance)


def _read_back(function: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
    exported = jax.export.export(jax.jit(function), disabled_checks=export_checks())(*operands)
    if importlib.util.find_spec("flatbuffers"):  # JAX needs it to write the program as bytes
        exported = jax.export.deserialize(exported.serialize())
    return list(exported.call(*operands))


def check_repeated(subject: Subject) -> None:
    """The same call gives the same bits each time."""
    compiled = subject.compiled()
    first = to_host(compiled(*subject.operands()))
    for k in range(REPEATS):
        with during(f"call {k + 2} differs from the first"):
            assert_bits(to_host(compiled(*subject.operands())), first)
