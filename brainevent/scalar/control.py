# SPDX-License-Identifier: Apache-2.0
"""Calls, loops and branches of a jaxpr, as those of the form; and primitives that are made of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from .._compat import closed_jaxpr, function_of, scan_counts
from .form import Branch, Constant, Line, Loop, Name, Operand, Values, Writer, boxed, constant

__all__ = ["CALLS", "CONTROL", "inner_jaxpr", "opened"]

Eqn = Any
_MOST_STEPS = 64  # of a loop that is unrolled


class Lowers(Protocol):
    """The lowering of a rule, as far as loops and branches need it."""

    writer: Writer

    def jaxpr(self, closed: Any, arguments: Sequence[Values]) -> list[Values]: ...
    def error(self, what: str) -> Exception: ...


def _scalars(values: Sequence[Values]) -> tuple[Operand, ...]:
    return tuple(operand for value in values for operand in value.reshape(-1))


def _shaped(operands: Sequence[Operand], like: Sequence[Values]) -> list[Values]:
    """Return scalars as values of the shapes of others."""
    rest = iter(operands)
    return [boxed([next(rest) for _ in range(value.size)], value.shape) for value in like]


def _block(lowering: Lowers, jaxpr: Any, arguments: Sequence[Values]) -> tuple[tuple[Line, ...], tuple[Operand, ...]]:
    """Write a jaxpr as lines of a loop; return them and its outputs as scalars."""
    with lowering.writer.block(repeats=True) as lines:
        results = lowering.jaxpr(jaxpr, arguments)
    return tuple(lines), _scalars(results)


def _carried(lowering: Lowers, starts: Sequence[Values]) -> tuple[Name, ...]:
    return tuple(lowering.writer.name(operand.dtype) for operand in _scalars(starts))


def _while(lowering: Lowers, eqn: Any, x: list[Values]) -> list[Values]:
    p = eqn.params
    c, b = p["cond_nconsts"], p["body_nconsts"]
    starts = x[c + b :]
    carries = _carried(lowering, starts)
    values = _shaped(carries, starts)
    head, (go, *others) = _block(lowering, p["cond_jaxpr"], [*x[:c], *values])
    if others:
        raise lowering.error("no engine supports a while_loop under vmap whose number of steps differs; unroll it")
    body, results = _block(lowering, p["body_jaxpr"], [*x[c : c + b], *values])
    lowering.writer.lines.append(Loop(carries, _scalars(starts), head, go, body, results))
    return values


def _scan(lowering: Lowers, eqn: Any, x: list[Values]) -> list[Values]:
    """Write a loop that counts; unrolled where it reads or writes arrays step by step."""
    p = eqn.params
    count, carried = scan_counts(p)
    consts, starts, columns = x[:count], x[count : count + carried], x[count + carried :]
    if columns or len(eqn.outvars) > carried:
        return _unrolled(lowering, p, consts, starts, columns)
    counter = lowering.writer.name("int32")
    carries = _carried(lowering, starts)
    values = _shaped(carries, starts)
    with lowering.writer.block() as head:
        go = lowering.writer.emit("lt", counter, constant(p["length"], "int32"))
    with lowering.writer.block(repeats=True) as body:
        results = _scalars(lowering.jaxpr(p["jaxpr"], [*consts, *values]))
        following = lowering.writer.emit("add", counter, constant(1, "int32"))
    all_starts = (constant(0, "int32"), *_scalars(starts))
    lowering.writer.lines.append(
        Loop((counter, *carries), all_starts, tuple(head), go, tuple(body), (following, *results))
    )
    return values


def _unrolled(
    lowering: Lowers, p: dict[str, Any], consts: list[Values], carried: list[Values], columns: list[Values]
) -> list[Values]:
    if p["length"] > _MOST_STEPS:
        raise lowering.error(
            f"scans {p['length']} elements of an array, but at most {_MOST_STEPS} can be unrolled; use a loop"
        )
    steps = range(p["length"])
    rows: dict[int, list[Values]] = {}
    for step in reversed(steps) if p["reverse"] else steps:
        read = [boxed(column[step].reshape(-1), column.shape[1:]) if column.ndim > 1 else boxed(column[step])
                for column in columns]  # fmt: skip
        results = lowering.jaxpr(p["jaxpr"], [*consts, *carried, *read])
        carried, rows[step] = results[: len(carried)], results[len(carried) :]
    return [*carried, *(np.stack(column) for column in zip(*(rows[step] for step in steps), strict=True))]


def _cond(lowering: Lowers, eqn: Any, x: list[Values]) -> list[Values]:
    """Write branches, of which an index chooses: as in XLA the last one where it is out of range."""
    return _chosen_branch(lowering, x[0].item(), 0, eqn.params["branches"], x[1:])


def _chosen_branch(
    lowering: Lowers, index: Operand, place: int, branches: Sequence[Any], x: list[Values]
) -> list[Values]:
    if len(branches) == 1:
        return lowering.jaxpr(branches[0], x)
    condition = lowering.writer.emit("eq", index, constant(place, index.dtype))
    if isinstance(condition, Constant):
        return (
            lowering.jaxpr(branches[0], x)
            if condition.value
            else _chosen_branch(lowering, index, place + 1, branches[1:], x)
        )
    with lowering.writer.block() as then:
        taken = lowering.jaxpr(branches[0], x)
    with lowering.writer.block() as otherwise:
        left = _scalars(_chosen_branch(lowering, index, place + 1, branches[1:], x))
    targets = _carried(lowering, taken)
    lowering.writer.lines.append(Branch(condition, targets, tuple(then), _scalars(taken), tuple(otherwise), left))
    return _shaped(targets, taken)


# By primitive of JAX: functions of the lowering, the equation and its operands' values.
CONTROL: dict[str, Callable[[Lowers, Eqn, list[Values]], list[Values]]] = {
    "while": _while,
    "scan": _scan,
    "cond": _cond,
}


CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint")


def inner_jaxpr(eqn: Any) -> Any:
    """Return the closed jaxpr of an equation that is a call."""
    return closed_jaxpr(eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr"))


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
