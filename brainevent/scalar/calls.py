# SPDX-License-Identifier: Apache-2.0
"""Calls of a jaxpr, and primitives that are made of others, as the jaxprs of what they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from .._compat import function_of

__all__ = ["CALLS", "inner_jaxpr", "opened"]

CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint")


def inner_jaxpr(eqn: Any) -> Any:
    """Return the closed jaxpr of an equation that is a call."""
    inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
    return inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())


def opened(eqn: Any) -> Any | None:
    """Return a primitive that no engine has as a closed jaxpr of others, or None: of newer JAX, or another package.

    Raises:
        NotImplementedError: The function that it stands for cannot be traced, or has other results.
    """
    if eqn.effects or "callback" in eqn.primitive.name:  # what runs outside of JAX
        return None
    function = function_of(eqn)
    if function is None:
        return inner_jaxpr(eqn) if "call_jaxpr" in eqn.params else None

    def results(*operands: Any) -> tuple[Any, ...]:
        found = function(*operands, **eqn.params)
        return tuple(found) if eqn.primitive.multiple_results else (found,)

    operands = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in eqn.invars]
    try:
        closed = jax.make_jaxpr(results)(*operands)
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise NotImplementedError(f"its function cannot be traced ({type(error).__name__}: {said})") from error
    found, expected = _types(closed.out_avals), _types(var.aval for var in eqn.outvars)
    if found != expected:
        raise NotImplementedError(f"its function returns {found}, but its type is {expected}")
    return closed


def _types(avals: Iterable[Any]) -> str:
    return ", ".join(f"{aval.dtype}{list(aval.shape)}" for aval in avals) or "nothing"
