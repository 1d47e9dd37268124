# SPDX-License-Identifier: Apache-2.0
"""Errors in an author's functions name the operator, its operands and the rule, without JAX's frames."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from .._compat import Zero, hide_frames_of
from ..errors import BrainEventError, OperandError

__all__ = ["described", "listed", "naming", "shortened", "without_inner_frames"]

E = TypeVar("E", bound=BaseException)
_HERE = Path(__file__).parent
_OURS = (str(_HERE), str(_HERE.parent / "_compat.py"), contextlib.__file__)
_INNER = (str(Path(jax.__file__).parent), *_OURS)

for _path in _OURS:
    hide_frames_of(_path)


def described(value: Any) -> str:
    """Return the type of an array, as in float32[4, 3]."""
    if isinstance(value, Zero):
        return "zero"
    value = getattr(value, "aval", value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    try:
        return f"{jnp.result_type(value)}{list(jnp.shape(value))}"
    except (TypeError, ValueError):
        return type(value).__name__


def listed(values: Sequence[Any]) -> str:
    """Return the types of arrays, in a row."""
    return ", ".join(map(described, values)) or "none"


@contextlib.contextmanager
def naming(operator: str, what: str, given: Callable[[], str], remark: Callable[[], str] = str) -> Iterator[None]:
    """Raise an error of an author's function as an `OperandError` with the operands and the line.

    This applies to a plain TypeError or ValueError, the errors of wrong shapes. Another exception keeps its class and
    gets a note; exceptions of this package are unchanged.
    """
    try:
        yield
    except BrainEventError:
        raise
    except Exception as error:
        head = f"operator {operator!r}: its {what} raised {type(error).__name__} for {given()}"
        tail = "".join(f"\n{line}" for line in (_place(error), remark()) if line)
        if type(error) not in (TypeError, ValueError):
            error.add_note(head + tail)
            raise
        explained = OperandError(f"{head}:\n  {error}{tail}")
        raise explained from without_inner_frames(error)


def _place(error: BaseException) -> str:
    """Return the innermost line of the author's, as in "  model.py:12, in reference: return x @ w"."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_code.co_filename
        if not name.startswith(_INNER):
            line = linecache.getline(name, number, frame.f_globals).strip()
            where = f"  {Path(name).name}:{number}, in {frame.f_code.co_name}"
            return f"{where}: {line}" if line else where
    return ""


def without_inner_frames(error: E) -> E:
    """Remove the frames of JAX and of operators from an error's traceback, unless JAX keeps its own."""
    if jax.config.jax_traceback_filtering == "off":  # type: ignore[attr-defined]
        return error
    kept: TracebackType | None = None
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(_INNER):
            kept = TracebackType(kept, frame, frame.f_lasti, number)
    return error.with_traceback(kept)


def shortened(error: BaseException) -> None:
    """Shorten the traceback of an error that leaves an operator, and remove JAX's traceback of the same call."""
    without_inner_frames(error)
    seen = error
    while (cause := seen.__cause__) is not None:
        if type(cause).__name__ == "JaxStackTraceBeforeTransformation":  # of this very call, which is above
            seen.__cause__ = cause.__cause__
        else:
            seen = cause
