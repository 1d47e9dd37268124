# SPDX-License-Identifier: Apache-2.0
"""jvp, transpose and batching: rules are written for the unbatched operator and are batched like it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from .. import _jit_key
from .._compat import (
    Primitive,
    UndefinedPrimal,
    Zero,
    is_undefined_primal,
    match_explicit_axes,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
    symbolic_zero_like,
    typeof,
    with_result_shardings,
)
from ..errors import NoRuleError, OperandError
from .batch import Level, Levels, batched_transpose, without_levels
from .bind import split, with_levels
from .definition import Definition
from .raised import listed, naming
from .validation import checked_batch, checked_jvp, checked_tangent, checked_transpose

__all__ = ["HasRules", "batch", "defjvp", "jvp", "per_input_rule", "transpose"]

JvpRule = Callable[..., tuple[list[Any], list[Any]]]


class HasRules(Protocol):
    """An `XLACustomKernel`, whose methods are defined in other files."""

    def def_jvp_rule(self, fun: Callable[..., Any]) -> None:
        """Set the forward rule."""


def batch(definition: Definition, args: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
    """Batch a bind: by the author's rule, unless it returns NotImplemented; otherwise pass the level to the kernel."""
    rule, axes = definition.rule("batch"), tuple(None if a is None else int(a) for a in axes)
    user_params, carried = split(params)
    levels = carried.levels
    size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    if rule is not None and not levels:

        def given() -> str:
            return f"operands {listed(args)}, mapped on axes {axes}"

        with naming(definition.name, "batching rule", given):
            returned = rule(tuple(args), axes, **user_params)
            if returned is not NotImplemented:
                return checked_batch(definition.name, returned, size, params["outs"], given)
    results = definition.primitive.bind(*args, **with_levels(params, (*levels, Level(size, axes))))
    return results, [0] * len(results)


def _with_reference(definition: Definition, rule: str, method: str) -> Definition:
    """Return the definition, or raise if it has no reference from which a rule follows."""
    if definition.rule("reference") is None:
        raise NoRuleError(
            f"{rule} for '{definition.name}' not implemented; give it one with {method}, or a jax.numpy implementation "
            "with def_reference"
        )
    return definition


def jvp(definition: Definition, primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
    """Differentiate forward: by the author's rule, or by the reference's derivative."""
    user_params, carried = split(params)
    levels = carried.levels
    rule = definition.rule("jvp") or reference_jvp(
        _with_reference(definition, "Differentiation rule", "def_jvp_rule2 (one rule per input)")
    )
    rule = _checked(definition.name, rule)
    if levels:
        results, out = _jvp_of_batch(rule, levels, list(primals), list(tangents), user_params)
    else:
        results, out = rule(tuple(primals), tuple(tangents), **user_params)
    return results, [match_explicit_axes(t, typeof(r)) for t, r in zip(out, results, strict=True)]


def _checked(operator: str, rule: JvpRule) -> JvpRule:
    """Validate what a jvp rule returns."""

    def run(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> tuple[list[Any], list[Any]]:
        def given() -> str:
            return f"operands {listed(primals)} and tangents {listed(tangents)}"

        with naming(operator, "jvp rule", given):
            return checked_jvp(operator, rule(primals, tangents, **params), params["outs"], given)

    return run


def _jvp_of_batch(
    rule: JvpRule, levels: Levels, primals: list[Any], tangents: list[Any], params: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Vmap a jvp rule; symbolic zeros, in and out, stay symbolic."""
    zero_in = [isinstance(t, Zero) for t in tangents]
    zero_out: list[Any] = []

    def unbatched(primals: list[Any], dense: list[Any]) -> tuple[list[Any], list[Any]]:
        given = iter(dense)
        filled = [symbolic_zero_like(p) if z else next(given) for p, z in zip(primals, zero_in, strict=True)]
        results, result_tangents = rule(tuple(primals), tuple(filled), **params)
        zero_out[:] = [isinstance(t, Zero) for t in result_tangents]
        return results, [t for t, z in zip(result_tangents, zero_out, strict=True) if not z]

    function: Callable[..., Any] = unbatched
    for level in levels:
        dense_axes = [a for a, z in zip(level.axes, zero_in, strict=True) if not z]
        function = jax.vmap(function, in_axes=(list(level.axes), dense_axes), out_axes=0, axis_size=level.size)
    results, dense = function(primals, [t for t, z in zip(tangents, zero_in, strict=True) if not z])
    given = iter(dense)
    return results, [symbolic_zero_like(r) if z else next(given) for r, z in zip(results, zero_out, strict=True)]


def reference_jvp(definition: Definition) -> JvpRule:
    """Make a jvp rule from the reference: results by the operator, their tangents by the reference."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> tuple[list[Any], list[Any]]:
        results = definition.primitive.bind(*primals, **params)
        reference = with_result_shardings(definition.rule("reference").flat(**params), results)
        moving = [i for i, t in enumerate(tangents) if not isinstance(t, Zero)]

        def of_moving(*values: Any) -> list[Any]:
            filled = list(primals)
            for i, value in zip(moving, values, strict=True):
                filled[i] = value
            return reference(*filled)

        _, dense = jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])
        return results, dense

    return rule


def transpose(definition: Definition, cotangents: Sequence[Any], /, *args: Any, **params: Any) -> list[Any]:
    """Transpose: by the author's rule, else by the reference's; entries of inputs that are not linear are None."""
    user_params, carried = split(params)
    levels = carried.levels
    rule = definition.rule("transpose") or reference_transpose(
        _with_reference(definition, "Transpose rule (for reverse-mode differentiation)", "def_transpose_rule")
    )
    if levels:
        results = _transpose_of_batch(definition.name, rule, levels, list(cotangents), list(args), user_params)
    else:
        results = _transposed(definition.name, rule, list(cotangents), args, user_params)
    return [ct if ct is None else match_explicit_axes(ct, x.aval) for ct, x in zip(results, args, strict=True)]


def _transposed(
    operator: str, rule: Callable[..., Any], cotangents: list[Any], args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Run a transpose rule, and validate what it returns."""

    def given() -> str:
        return f"cotangents {listed(cotangents)} and operands {listed(args)}"

    with naming(operator, "transpose rule", given):
        return checked_transpose(operator, rule(cotangents, *args, **params), args, given)


def _transpose_of_batch(
    operator: str,
    rule: Callable[..., Any],
    levels: Levels,
    cotangents: list[Any],
    args: list[Any],
    params: dict[str, Any],
) -> list[Any]:
    """Vmap a transpose rule."""
    linear = [is_undefined_primal(x) for x in args]
    dense_in = [not isinstance(ct, Zero) for ct in cotangents]
    unbatched_avals = [without_levels(x.aval, i, levels) for i, x in enumerate(args) if linear[i]]

    def unbatched(dense: list[Any], known: list[Any]) -> list[Any]:
        cts, values, avals = iter(dense), iter(known), iter(unbatched_avals)
        filled = [
            next(cts) if is_dense else Zero(out.to_tangent_aval())
            for is_dense, out in zip(dense_in, params["outs"], strict=True)
        ]
        inputs = [UndefinedPrimal(next(avals)) if is_linear else next(values) for is_linear in linear]
        results = _transposed(operator, rule, filled, inputs, params)
        return [_instantiated(ct, x.aval) for ct, x in zip(results, inputs, strict=True) if is_undefined_primal(x)]

    function = batched_transpose(unbatched, levels, linear, sum(dense_in))
    results = iter(
        function(
            [ct for ct, is_dense in zip(cotangents, dense_in, strict=True) if is_dense],
            [x for x, is_linear in zip(args, linear, strict=True) if not is_linear],
        )
    )
    return [next(results) if is_linear else None for is_linear in linear]


def _instantiated(ct: Any, aval: Any) -> Any:
    return jnp.zeros(aval.shape, aval.dtype) if ct is None or isinstance(ct, Zero) else ct


def reference_transpose(definition: Definition) -> Callable[..., list[Any]]:
    """Make a transpose rule from the reference."""

    def rule(cotangents: Sequence[Any], /, *args: Any, **params: Any) -> list[Any]:
        reference = definition.rule("reference").flat(**params)
        linear = [i for i, x in enumerate(args) if is_undefined_primal(x)]

        def of_linear(*values: Any) -> list[Any]:
            filled = list(args)
            for i, value in zip(linear, values, strict=True):
                filled[i] = value
            return reference(*filled)

        transposed = jax.linear_transpose(
            of_linear, *(jax.ShapeDtypeStruct(args[i].aval.shape, args[i].aval.dtype) for i in linear)
        )
        cts = transposed([_instantiated(ct, out) for ct, out in zip(cotangents, params["outs"], strict=True)])
        results: list[Any] = [None] * len(args)
        for i, ct in zip(linear, cts, strict=True):
            results[i] = ct
        return results

    return rule


def defjvp(primitive: Primitive | HasRules, *jvp_rules: Callable[..., Any] | None) -> None:
    """Set the forward derivative of an operator or a JAX primitive, as one rule for each operand.

    A rule `rule(tangent, *primals, **params)` returns the tangent of the result. Rules are called only for tangents
    that are not zero, and what they return is summed.

    Args:
        primitive: An `XLACustomKernel`, or a primitive of JAX.
        *jvp_rules: A rule for each operand; None if there is no derivative with respect to it. With several results, a
            rule returns a tuple or list of tangents.

    Raises:
        AssertionError: If `primitive` is neither.
        TypeError: If a rule is neither a function nor None.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> square = brainevent.XLACustomKernel("doc_defjvp_square")
        >>> _ = square.def_reference(lambda x: x * x)
        >>> brainevent.defjvp(square, lambda tangent, x, *, outs: 2 * x * tangent)
        >>> jax.grad(lambda x: square(x).sum())(jnp.array([1.0, 3.0]))
        Array([2., 6.], dtype=float32)
    """
    operator = None if isinstance(primitive, Primitive) else primitive
    target = getattr(primitive, "primitive", primitive)
    if not isinstance(target, Primitive):
        raise AssertionError(
            f"defjvp: expected a JAX primitive or an XLACustomKernel, found {type(primitive).__name__}"
        )
    for i, rule in enumerate(jvp_rules):
        if rule is not None and not callable(rule):
            raise TypeError(f"defjvp({target.name!r}): rule {i} is {type(rule).__name__}; pass a function or None")
    rule = per_input_rule(target, jvp_rules)
    if operator is not None:
        operator.def_jvp_rule(rule)
    else:
        primitive_jvps[target] = rule


def per_input_rule(primitive: Primitive, rules: Sequence[Callable[..., Any] | None]) -> JvpRule:
    """Sum the rules of single inputs into a jvp rule."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        def given() -> str:
            return f"operands {listed(primals)} and tangents {listed(tangents)}"

        if len(rules) != len(primals):
            raise OperandError(
                f"{primitive.name!r} has {len(rules)} jvp rules, one per input, but was called with "
                f"{len(primals)} inputs"
            )
        results = primitive.bind(*primals, **params)
        many = primitive.multiple_results
        sums: list[Any] = [None] * (len(results) if many else 1)
        for i, (one, tangent) in enumerate(zip(rules, tangents, strict=True)):
            if one is None or isinstance(tangent, Zero):
                continue
            with naming(primitive.name, f"jvp rule {i}", given):
                terms = one(tangent, *primals, **params)
            for k, term in enumerate(_one_per_result(terms, len(sums), primitive.name, i) if many else [terms]):
                if not (term is None or isinstance(term, Zero)):
                    result = results[k] if many else results
                    checked_tangent(f"{primitive.name!r}: jvp rule {i}", k, term, result, given)
                    sums[k] = term if sums[k] is None else sums[k] + term
        whole = results if many else [results]
        filled = [symbolic_zero_like(r) if t is None else t for r, t in zip(whole, sums, strict=True)]
        return results, filled if many else filled[0]

    return rule


def _one_per_result(terms: Any, count: int, name: str, i: int) -> Sequence[Any]:
    if not isinstance(terms, (tuple, list)):
        if count == 1:
            return [terms]
        raise OperandError(
            f"{name!r}: jvp rule {i} returned {type(terms).__name__}; return a tuple or list, one tangent per output"
        )
    if len(terms) != count:
        raise OperandError(
            f"{name!r}: jvp rule {i} returned {len(terms)} tangents, but the operator has {count} outputs; return "
            "one for each"
        )
    return terms


def install(definition: Definition) -> None:
    """Register the operator's rules with JAX."""

    def of_operator(rule: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **params: Any) -> Any:
            with _jit_key.restored(split(params)[1].block):
                return rule(definition, *args, **params)

        return run

    primitive_jvps[definition.primitive] = of_operator(jvp)
    primitive_transposes[definition.primitive] = of_operator(transpose)
    primitive_batchers[definition.primitive] = of_operator(batch)
