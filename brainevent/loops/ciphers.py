# SPDX-License-Identifier: Apache-2.0
"""What elementwise primitives do in a loop: those of rules, on all types of a loop, and JAX's random words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from .._compat import Primitive
from ..scalar.form import Form, Operand
from ..scalar.lower import Lowering, form_of
from ..scalar.narrow import is_narrow, seen_by, wrapped_to
from ..scalar.threefry import be_turned, threefry
from .values import HALVES, UnfitError

__all__ = ["random_words", "scalar_operation"]

_ROUNDS = 20  # of threefry, in JAX
_word = Primitive("be_random_word")
_word.def_abstract_eval(lambda *x, word: x[-1])


def random_words(key0: Any, key1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Return both words of JAX's cipher of a counter."""
    operands = jnp.broadcast_arrays(key0, key1, x0, x1)
    first, second = (_word.bind(*operands, word=word) for word in (0, 1))
    return first, second


@functools.cache
def _form(word: int) -> Form:
    cipher = functools.partial(threefry, rounds=_ROUNDS, turned=be_turned)
    return form_of(f"random_word{word}", lambda *x: cipher(*x)[word], ("uint32",) * 4)


def scalar_operation(lowering: Lowering, eqn: Any) -> Callable[..., Operand] | None:
    """Return what an elementwise primitive does to scalars, or None for one of another kind."""
    if eqn.primitive is _word:
        return functools.partial(lowering.writer.call, _form(eqn.params["word"]))
    if (operation := lowering.scalar_operation(eqn)) is None:
        return None
    return _of_narrow(lowering, eqn, operation) or operation


def _of_narrow(lowering: Lowering, eqn: Any, operation: Callable[..., Operand]) -> Callable[..., Operand] | None:
    """Return an operation that has a narrow type among its operands or results; None for another one."""
    name, writer = eqn.primitive.name, lowering.writer
    dtypes = [str(var.aval.dtype) for var in (*eqn.invars, eqn.outvars[0])]
    if not any(is_narrow(dtype) or dtype in HALVES for dtype in dtypes):
        return None
    if name == "bitcast_convert_type" and not set(HALVES).isdisjoint(dtypes):
        raise UnfitError(f"a bitcast of {dtypes[0]} to {dtypes[-1]}")

    def narrowed(*x: Operand) -> Operand:
        if is_narrow(dtypes[0]):
            x = (seen_by(writer, name, dtypes[0], x[0]), *x[1:])
        result = operation(*x)
        if is_narrow(dtypes[-1]):
            return wrapped_to(writer, name, dtypes[-1], result)
        return writer.emit(f"round_to_{dtypes[-1]}", result) if dtypes[-1] in HALVES else result

    return narrowed
