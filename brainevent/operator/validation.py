# SPDX-License-Identifier: Apache-2.0
"""Check the results of an author's kernel or rule against `outs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import ShapedArray, Zero, is_undefined_primal
from ..errors import KernelOutputError, OperandError
from .raised import described, listed

__all__ = ["checked_batch", "checked_jvp", "checked_results", "checked_tangent", "checked_transpose"]

Given = Callable[[], str]  # describes the arguments of a rule, for messages


def checked_results(
    outs: Sequence[ShapedArray], returned: Any, where: str, tree: Any = None, operands: Sequence[Any] | None = None
) -> list[Any]:
    """Return a kernel's results if they match `outs`, or raise for the first that does not.

    An array, a list, a tuple and the structure of `outs`, if it is given as `tree`, are accepted. `operands` are those
    of the kernel, for the message.
    """
    results = jax.tree.leaves(returned)
    called = "" if operands is None else f" (operands: {listed(operands)})"
    if tree is not None and not isinstance(returned, (list, tuple)) and not jax.tree_util.all_leaves([returned]):
        found = jax.tree.structure(returned)
        if found != tree:
            raise KernelOutputError(f"{where}: the kernel returned {found}, but outs is {tree}; return that, or a list")
    if len(results) != len(outs):
        raise KernelOutputError(
            f"{where}: the kernel returned {len(results)} arrays, but outs describes {len(outs)}; change the kernel "
            f"or outs{called}"
        )
    names = _names(tree, len(outs))
    for name, out, result in zip(names, outs, results, strict=True):
        if not hasattr(result, "shape") or not hasattr(result, "dtype"):
            raise KernelOutputError(
                f"{where}: output {name} is a {type(result).__name__}, not an array; return jnp arrays"
            )
        if not _fits(result, out):
            raise KernelOutputError(
                f"{where}: output {name} is {described(result)}, but outs says {described(out)}; "
                f"change the kernel or outs{called}"
            )
    return results


def _names(tree: Any, count: int) -> list[str]:
    """Return the names of outputs: their positions, with their place in `outs` if it is a tree."""
    if tree is None:
        return [str(i) for i in range(count)]
    places = jax.tree_util.tree_flatten_with_path(tree.unflatten(range(count)))[0]
    return [f"{i} (outs{jax.tree_util.keystr(path)})" for path, i in places]


def checked_jvp(operator: str, returned: Any, outs: Sequence[ShapedArray], given: Given) -> tuple[list[Any], list[Any]]:
    """Return the results and tangents of a jvp rule; results without derivative get a symbolic zero."""
    where = f"operator {operator!r}: the jvp rule"
    results, tangents = map(_as_list, _pair(where, returned, "(outputs, output tangents)", given))
    for what, values in (("outputs", results), ("output tangents", tangents)):
        if len(values) != len(outs):
            raise _wrong(f"{where} returned {len(values)} {what}, but outs describes {len(outs)}", given)
    for i, (result, out) in enumerate(zip(results, outs, strict=True)):
        if not _fits(result, out):
            raise _wrong(f"{where} returned {described(result)} as output {i}, but outs says {described(out)}", given)
    zeros: list[Any] = [Zero(out.to_tangent_aval()) for out in outs]
    for i, (tangent, out) in enumerate(zip(tangents, outs, strict=True)):
        if tangent is not None and not isinstance(tangent, Zero) and zeros[i].aval.dtype != jax.dtypes.float0:
            checked_tangent(where, i, tangent, out, given)
            zeros[i] = tangent
    return results, zeros


def checked_tangent(where: str, i: int, tangent: Any, result: Any, given: Given) -> None:
    """Raise if a tangent does not have the type of result `i`."""
    if not _fits(tangent, result):
        raise _wrong(
            f"{where} returned {described(tangent)} as tangent of output {i}, which is {described(result)}; "
            "a tangent has the shape and dtype of its output",
            given,
        )


def checked_transpose(operator: str, returned: Any, args: Sequence[Any], given: Given) -> list[Any]:
    """Return the cotangents of the linear inputs, and None for the others."""
    results, where = _as_list(returned), f"operator {operator!r}: the transpose rule"
    if len(results) != len(args):
        raise _wrong(f"{where} returned {len(results)} values for {len(args)} inputs; return one per input", given)
    for i, (ct, x) in enumerate(zip(results, args, strict=True)):
        if is_undefined_primal(x) and ct is not None and not isinstance(ct, Zero) and not _fits(ct, x.aval):
            raise _wrong(f"{where} returned {described(ct)} for input {i}, which is {described(x)}", given)
    return [ct if is_undefined_primal(x) else None for ct, x in zip(results, args, strict=True)]


def checked_batch(
    operator: str, returned: Any, size: int, outs: Sequence[ShapedArray], given: Given
) -> tuple[list[Any], list[Any]]:
    """Return the results of a batching rule, and the axes that are mapped: None, or counted from the front."""
    where = f"operator {operator!r}: the batching rule"
    results, axes = map(_as_list, _pair(where, returned, "(outputs, output axes)", given))
    if not len(results) == len(axes) == len(outs):
        raise _wrong(
            f"{where} returned {len(results)} outputs and {len(axes)} output axes, but outs describes {len(outs)}; "
            "return one for each",
            given,
        )
    for i, (result, axis, out) in enumerate(zip(results, axes, outs, strict=True)):
        rank, shape = len(out.shape) + 1, list(out.shape)
        if axis is not None:
            if not -rank <= axis < rank:
                raise _wrong(
                    f"{where} returned {axis} as axis of output {i}, which has {rank} dimensions; return one of these",
                    given,
                )
            axes[i] = int(axis) % rank
            shape.insert(axes[i], size)
        batched = ShapedArray(tuple(shape), out.dtype)
        if not _fits(result, batched):
            raise _wrong(
                f"{where} returned {described(result)} as output {i}, mapped on axis {axis}; outs and the batch of "
                f"{size} make that {described(batched)}",
                given,
            )
    return results, axes


def _wrong(text: str, given: Given) -> OperandError:
    return OperandError(f"{text} (it was given {given()})")


def _as_list(values: Any) -> list[Any]:
    """Accept a single value if an operator has one result."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _pair(where: str, returned: Any, expected: str, given: Given) -> Sequence[Any]:
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise _wrong(f"{where} returned {type(returned).__name__}; return a pair {expected}", given)
    return returned


def _fits(value: Any, out: Any) -> bool:
    return jnp.shape(value) == tuple(out.shape) and jnp.result_type(value) == out.dtype
