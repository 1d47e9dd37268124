# SPDX-License-Identifier: Apache-2.0
"""Promises about derivatives: forward, reverse, and the transpose of a linear operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray, Zero, symbolic_zero_like
from .. import rules
from ..compare import Broken, Skipped, assert_close, assert_types, during, is_inexact, to_host, tolerance_of
from .sharding import BATCH, factors_of_operands, mesh_of_batch, need_devices, rule_of, run_sharded, size_of
from .subject import ELEMENTS, Choice, Subject, named

__all__ = [
    "central_differences",
    "check_jvp",
    "check_transpose",
    "check_vjp",
    "cotangents_of",
    "directions",
    "floating",
    "moving_operands",
]

Axes = list[int | None]
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


@dataclass(frozen=True)
class Derivative:
    """The derivative of one result along a direction; errors are relative to `size`."""

    value: np.ndarray
    error: float
    size: float

    def check(self, found: np.ndarray, what: str, source: str = "central differences give") -> None:
        """Compare with the result of a rule."""
        if not self.error <= 0.05 * self.size:
            raise Skipped(f"{what}: central differences do not settle near these operands")
        far = ~(np.abs(found - self.value) <= self.error)
        if far.any():
            index = tuple(int(i) for i in np.argwhere(far)[0])
            place = f"element {list(index)} of {what}" if index else what
            raise Broken(f"{place} is {found[index]:.6g}, but {source} {self.value[index]:.6g}")


def directions(values: Sequence[Any], seed: int) -> list[jax.Array]:
    """Draw a direction for each array, of the size of its elements."""
    random = np.random.default_rng(seed)
    return [jnp.array(_direction(np.asarray(x), random), x.dtype) for x in values]


def _direction(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    size = np.nan_to_num(np.abs(x).astype(np.float64), posinf=0)
    drawn = random.uniform(0.5, 1.5, x.shape) * random.choice([-1.0, 1.0], x.shape)
    if np.iscomplexobj(x):
        drawn = drawn * np.exp(2j * np.pi * random.uniform(size=x.shape))
    return np.asarray(drawn * (size + 0.1 * (size.max(initial=0) or 10.0)))


def central_differences(
    function: Callable[..., Sequence[Any]], values: Sequence[jax.Array], tangents: Sequence[jax.Array]
) -> list[Derivative]:
    """Differentiate each result of `function(*values)`, with the step of the smallest estimated error."""
    eps = max(float(jnp.finfo(x.dtype).eps) for x in values)
    steps = 2.0 ** -np.arange(1, 5 if eps > 1e-4 else 10 if eps > 1e-10 else 18)
    size = [max(np.abs(x).max(initial=0), 1e-30) for x in _wide(function(*values))]
    with np.errstate(all="ignore"):
        slopes = [_slope(function, values, tangents, step) for step in steps]
        pairs = [_refined(*pair, size, eps) for pair in zip(steps, slopes, slopes[1:], strict=False)]
    return [min(of_result, key=lambda d: np.nan_to_num(d.error, nan=np.inf)) for of_result in zip(*pairs, strict=True)]


def _slope(function: Any, values: Sequence[Any], tangents: Sequence[Any], step: float) -> list[np.ndarray]:
    ahead, behind = (
        _wide(function(*((x + sign * step * t).astype(x.dtype) for x, t in zip(values, tangents, strict=True))))
        for sign in (1, -1)
    )
    return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]


def _wide(results: Sequence[Any]) -> list[np.ndarray]:
    return [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in to_host(results)]


def _refined(
    step: float, coarse: Sequence[np.ndarray], fine: Sequence[np.ndarray], size: Sequence[float], eps: float
) -> list[Derivative]:
    """Extrapolate from a step and half of it; their difference and the noise of rounding bound the error."""
    refined = []
    for a, b, largest in zip(coarse, fine, size, strict=True):
        value = (4 * b - a) / 3
        scale = max(np.abs(value).max(initial=0), largest)
        noise = (4 * eps / step + 2 * eps**0.5) * scale
        refined.append(Derivative(value, float(3 * np.abs(a - b).max(initial=0) + noise), float(scale)))
    return refined


def inner(a: Sequence[Any], b: Sequence[Any]) -> np.ndarray:
    """Return the real inner product of two lists of arrays, as JAX pairs cotangents with tangents."""
    total = sum((x * y).sum().real for x, y in zip(_wide(a), _wide(b), strict=True))
    return np.asarray(total, np.float64)


def check_vmap_of_grad(subject: Subject) -> str:
    """Give a gradient for each element of a batch."""
    moving, note = moving_operands(subject)
    gradient = jax.grad(_loss(subject), argnums=tuple(moving))
    for axes in _mappings(subject):
        wanted = [np.stack(grads) for grads in _each(subject, axes, moving)]
        with during(_named(axes)):
            found = jax.jit(jax.vmap(gradient, in_axes=tuple(axes)))(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, wanted, moving)
    return note


def check_grad_of_vmap(subject: Subject) -> str:
    """Give the gradient of a sum over a batch; an operand that is not mapped gets the sum of its cotangents."""
    moving, note = moving_operands(subject)
    for axes in _mappings(subject):
        with during(_named(axes)):
            found = jax.jit(_gradient_of_batch(subject, axes, moving))(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, _of_batch(subject, axes, moving), moving)
    return note


def check_sharded_grad_of_vmap(subject: Subject) -> str:
    """Give the same gradient of a batch if the batch, and a factor of the sharding rule, is split over devices."""
    need_devices()
    moving, note = moving_operands(subject)
    alone: Axes = [0 if i == 0 else None for i in range(subject.count)]
    every: Axes = [0] * subject.count
    for axes, factor in ((every, None), (alone, _factor(subject))):
        mesh, specs = mesh_of_batch(subject, axes, factor)
        elements = mesh.shape[BATCH]
        split = "split" if factor is None else f"split, and factor {factor!r}"
        with during(f"{_named(axes)}, the batch {split}"):
            gradient = _gradient_of_batch(subject, axes, moving)
            found, _ = run_sharded(gradient, subject.stacked(elements, axes), specs, mesh)
            _assert_gradients(subject, found, _of_batch(subject, axes, moving, elements), moving)
    return note


def _factor(subject: Subject) -> str | None:
    """Return a factor of the sharding rule that two devices can share, if there are two more for the batch."""
    rule = rule_of(subject)
    if rule is None or len(jax.devices()) < 4:
        return None
    cut = (name for name in factors_of_operands(rule) if name not in rule.replicated)
    return next((name for name in cut if (size := size_of(subject, rule, name)) and size % 2 == 0), None)


def _gradient_of_batch(subject: Subject, axes: Axes, moving: Sequence[int]) -> Callable[..., Any]:
    batched = jax.vmap(_loss(subject), in_axes=tuple(axes))
    return jax.grad(lambda *operands: batched(*operands).sum(), argnums=tuple(moving))


def _mappings(subject: Subject) -> list[Axes]:
    """Map all operands, each alone, and all but one."""
    operands = range(subject.count)
    mappings: list[Axes] = [[0 for _ in operands]]
    mappings += [[0 if k == i else None for k in operands] for i in operands if subject.count > 1]
    mappings += [[None if k == i else 0 for k in operands] for i in operands if subject.count > 2]
    return mappings


def _loss(subject: Subject) -> Callable[..., Any]:
    cotangents = cotangents_of(subject)

    def loss(*operands: Any) -> Any:
        results = floating(subject.call(*operands))
        return sum(jnp.real(ct * x).sum() for ct, x in zip(cotangents, results, strict=True))

    return loss


def _each(subject: Subject, axes: Axes, moving: Sequence[int], elements: int = ELEMENTS) -> list[list[np.ndarray]]:
    """Return, for each moving operand, the gradients of the single elements of a batch."""
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    gradient = subject.once("gradient", lambda: jax.jit(jax.grad(_loss(subject), argnums=tuple(moving))))

    def of(choice: Choice) -> list[np.ndarray]:
        found: list[np.ndarray] = subject.once(
            ("gradient", choice), lambda: to_host(gradient(*subject.operands(choice)))
        )
        return found

    return [list(grads) for grads in zip(*(of(subject.choice(b, mapped)) for b in range(elements)), strict=True)]


def _of_batch(subject: Subject, axes: Axes, moving: Sequence[int], elements: int = ELEMENTS) -> list[np.ndarray]:
    """Return the gradient of the sum over a batch: operands that are not mapped get the sum of their cotangents."""
    each = zip(moving, _each(subject, axes, moving, elements), strict=True)
    return [np.stack(grads) if axes[i] is not None else np.asarray(sum(grads[1:], grads[0])) for i, grads in each]


def _named(axes: Axes) -> str:
    mapped = [str(i) for i, axis in enumerate(axes) if axis is not None]
    return f"operand{'s' * (len(mapped) > 1)} {', '.join(mapped)} mapped"


def _assert_gradients(subject: Subject, found: Sequence[Any], wanted: Sequence[Any], moving: Sequence[int]) -> None:
    for i, x, y in zip(moving, found, wanted, strict=True):
        with during(f"the gradient for operand {i}"):
            assert_close([x], [y], subject.loose([y]), "array")
