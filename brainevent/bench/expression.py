# SPDX-License-Identifier: Apache-2.0
"""Conditions on the rows of a table, such as "backend == 'numba' and n >= 100"; read, never executed as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .rows import check_column

__all__ = ["condition"]

_LONGEST = 1000  # characters: parsers of Python fail badly on deeply nested text
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_SAY = "use comparisons of columns and constants, with and, or, not, as in \"backend == 'numba' and n >= 100\""

_Row = Mapping[str, Any]


def condition(text: str, columns: Collection[str], where: str) -> Callable[[_Row], bool]:
    """Return the condition of a text as a function of a row; missing columns are None.

    >>> small = condition("n < 10 and backend in ('cpp', 'numba')", ["n", "backend"], "example")
    >>> small({"n": 3, "backend": "cpp"}), small({"n": 30, "backend": "cpp"})
    (True, False)
    """
    try:
        if len(text) > _LONGEST:
            raise SyntaxError(f"it has more than {_LONGEST} characters")
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{where}: {text[:60]!r} is not a condition ({error}); {_SAY}") from None
    _check(tree, columns, where)

    def holds(row: _Row) -> bool:
        try:
            return bool(_value(tree, row))
        except TypeError as error:
            raise ValueError(f"{where}: {text!r} compares values that cannot be compared: {error}") from None

    return holds


def _check(tree: ast.expr, columns: Collection[str], where: str) -> None:
    """Reject all kinds of nodes except those that `_value` reads."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                check_column(where, name, columns, columns)
            case ast.BoolOp() | ast.Compare() | ast.Constant() | ast.Tuple() | ast.List():
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                pass
            case ast.boolop() | ast.unaryop() | ast.expr_context():
                pass
            case ast.cmpop() if type(node) in _COMPARISONS:
                pass
            case _:
                raise ValueError(f"{where}: {type(node).__name__} is not allowed in a condition; {_SAY}")


def _value(node: ast.expr, row: _Row) -> Any:
    match node:
        case ast.Name(id=name):
            return row.get(name)
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return [_value(item, row) for item in items]
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, row) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, row) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, row)
        case ast.UnaryOp(operand=operand):
            return -_value(operand, row)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(side, row) for side in (left, *others)]
            return all(_COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
    raise TypeError(type(node).__name__)  # _check rejects everything else
