# SPDX-License-Identifier: Apache-2.0
"""Promises about derivatives: forward, reverse, and the transpose of a linear operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray, Zero, symbolic_zero_like
from .. import rules
from ..compare import Broken, Skipped, assert_close, assert_types, during, is_inexact, to_host, tolerance_of
from .numerical import Derivative, central_differences, directions, inner
from .subject import Subject, named

__all__ = ["check_jvp", "check_transpose", "check_vjp", "cotangents_of", "floating", "moving_operands"]

Function = Callable[..., list[Any]]


def check_jvp(subject: Subject) -> str:
    """Tangents agree with the reference, or with central differences: for each operand, and for all."""
    moving, note = moving_operands(subject)
    for group in _groups(moving):
        with during(named(group)):
            _check_tangents(subject, group)
    return note


def _check_tangents(subject: Subject, group: Sequence[int]) -> None:
    function, values = _function_of(subject, group, subject.call)
    tangents = directions(values, seed=0)
    primals, found = jax.jit(lambda xs, ts: jax.jvp(function, xs, ts))(values, tangents)
    assert_close(primals, floating(subject.expected()), subject.tolerance)
    assert_types(found, primals)

    def by_numbers() -> None:
        wanted = central_differences(jax.jit(function), values, tangents)
        for i, (derivative, x) in enumerate(zip(wanted, to_host(found), strict=True)):
            derivative.check(x, f"the tangent of output {i}")

    _compare(subject, group, lambda f, xs: jax.jvp(f, xs, tangents)[1], found, by_numbers, "tangent")


def check_vjp(subject: Subject) -> str:
    """Cotangents agree with the reference, or with central differences."""
    moving, note = moving_operands(subject)
    for group in _groups(moving):
        with during(named(group)):
            _check_cotangents(subject, group)
    return note


def _check_cotangents(subject: Subject, group: Sequence[int]) -> None:
    function, values = _function_of(subject, group, subject.call)
    cotangents = cotangents_of(subject)

    def derive(function: Function, values: Sequence[Any]) -> Any:
        return jax.vjp(function, *values)[1](cotangents)

    found = jax.jit(lambda xs: derive(function, xs))(values)
    assert_types(found, values)

    def by_numbers() -> None:
        jitted = jax.jit(function)
        for seed in (1, 2, 3):
            tangents = directions(values, seed)
            wanted = central_differences(lambda *xs: [inner(cotangents, jitted(*xs))], values, tangents)[0]
            wanted.check(inner(found, tangents), "the product of the cotangents with a direction")

    _compare(subject, group, derive, found, by_numbers, "cotangent")


def check_transpose(subject: Subject) -> str:
    """The author's transpose rule is the transpose of the operator, for each operand in which it is linear."""
    if "transpose" not in subject.operator.definition.rules:
        raise Skipped("it has no transpose rule of its own")
    tested, refused = [], []
    for i in subject.differentiable:
        function, values = _function_of(subject, [i], subject.call)
        if not _is_linear(subject, function, values):
            continue
        cotangents = cotangents_of(subject)
        try:
            found = jax.jit(lambda cts, f=function, xs=values: jax.linear_transpose(f, *xs)(cts))(cotangents)
        except NotImplementedError:
            refused.append(i)
            continue
        with during(f"operand {i}"):
            assert_types(found, values)
            for seed in (4, 5, 6):
                _check_pairing(subject, function, directions(values, seed), cotangents, found)
        tested.append(i)
    if not tested:
        raise Skipped(f"the rule rejects {named(refused)}" if refused else "it is linear in no operand")
    return f"for {named(tested)}"


def _check_pairing(
    subject: Subject, function: Function, direction: Sequence[Any], cotangents: Sequence[Any], transposed: Sequence[Any]
) -> None:
    """Compare <cotangents, function(direction)> with <transposed cotangents, direction>."""
    forward = function(*direction)
    size = float(inner([jnp.abs(ct) for ct in cotangents], [jnp.abs(x) for x in forward]))
    wanted = Derivative(inner(cotangents, forward), subject.loose(direction) * size, np.inf)
    wanted.check(inner(transposed, direction), "the product of the transpose with a direction", "the operator gives")


def moving_operands(subject: Subject) -> tuple[list[int], str]:
    """Return the operands that have a derivative, and a note on those that are declared without one."""
    known = subject.operator.definition.rules
    if "jvp" not in known and "reference" not in known:
        raise Skipped("no rule (def_jvp_rule2, def_reference)")
    if not subject.differentiable:
        raise Skipped("no operand is of a floating type")
    if not any(is_inexact(out) for out in subject.out_types):
        raise Skipped("no result is of a floating type")
    fixed = [i for i in subject.differentiable if _is_declared_fixed(subject, i)]
    if len(fixed) == len(subject.differentiable):
        raise Skipped(f"the jvp rule has no derivative with respect to {named(fixed)}")
    note = f"the jvp rule has no derivative with respect to {named(fixed)}" if fixed else ""
    return [i for i in subject.differentiable if i not in fixed], note


def _is_declared_fixed(subject: Subject, operand: int) -> bool:
    """Return whether the rule answers a tangent of this operand alone with symbolic zeros, as `None` rules do."""
    primals = subject.operands()
    tangents = [jnp.ones_like(x) if i == operand else symbolic_zero_like(x) for i, x in enumerate(primals)]
    outs = tuple(ShapedArray(out.shape, out.dtype) for out in subject.out_types)
    try:
        _, found = rules.jvp(subject.operator.definition, primals, tangents, outs=outs, **subject.params)
    except Exception:  # noqa: BLE001 - a broken rule is found when it is checked
        return False
    return all(isinstance(tangent, Zero) for tangent in found)


def floating(results: Sequence[Any]) -> list[Any]:
    """Keep the results that may have a derivative."""
    return [x for x in results if is_inexact(x)]


def cotangents_of(subject: Subject) -> list[jax.Array]:
    """Draw cotangents for the floating results."""
    random = np.random.default_rng(7)

    def drawn(out: Any) -> np.ndarray:
        parts = [random.uniform(0.5, 1.5, out.shape) for _ in range(2)]
        return parts[0] + 1j * parts[1] if jnp.issubdtype(out.dtype, jnp.complexfloating) else parts[0]

    return [jnp.array(drawn(out), out.dtype) for out in floating(subject.out_types)]


def _groups(moving: Sequence[int]) -> list[list[int]]:
    return [[i] for i in moving] + ([list(moving)] if len(moving) > 1 else [])


def _function_of(subject: Subject, group: Sequence[int], call: Function) -> tuple[Function, list[jax.Array]]:
    """Return the floating results as a function of some operands, with these operands."""
    operands = subject.operands()

    def function(*values: Any) -> list[Any]:
        given = dict(zip(group, values, strict=True))
        return floating(call(*(given.get(i, x) for i, x in enumerate(operands))))

    return function, [operands[i] for i in group]


def _compare(
    subject: Subject, group: Sequence[int], derive: Callable[..., Any], found: Any, by_numbers: Any, what: str
) -> None:
    """Accept the reference's derivative; if it differs, or is missing, use central differences."""
    reference = subject.operator.definition.reference
    if reference is None:
        return by_numbers()
    outs = tuple(ShapedArray(out.shape, out.dtype) for out in subject.out_types)
    function, values = _function_of(subject, group, reference.flat(outs=outs, **subject.kwargs))
    try:
        with during("compared with the reference"), jax.default_matmul_precision("highest"):
            return assert_close(found, derive(function, values), subject.loose(values), what)
    except Broken as finding:
        try:
            by_numbers()
        except Skipped:
            raise finding from None


def _is_linear(subject: Subject, function: Function, values: Sequence[jax.Array]) -> bool:
    if len(floating(subject.out_types)) < len(subject.out_types):
        return False
    (x,), (y,) = directions(values, 8), directions(values, 9)
    jitted = jax.jit(function)
    sums = [a + 2 * b for a, b in zip(jitted(x), jitted(y), strict=True)]
    try:
        assert_close(jitted((x + 2 * y).astype(x.dtype)), sums, 100 * tolerance_of(x.dtype))
    except Broken:
        return False
    return True
