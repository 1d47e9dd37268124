# SPDX-License-Identifier: Apache-2.0
"""Questions about parts of a kernel's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

__all__ = [
    "SHAPES",
    "base",
    "by_place",
    "ends",
    "indices",
    "is_inexact",
    "is_load",
    "is_name",
    "is_plain",
    "is_set_first",
    "moves",
    "read",
    "stored",
]

SHAPES = ("shape", "size", "ndim", "strides", "dtype")  # attributes of a whole array
_WHOLE = ("int", "uint", "bool")


def base(node: ast.AST) -> str:
    """Return the name of the variable of an element."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return getattr(node, "id", "")


def stored(tree: ast.AST) -> set[str]:
    """Return the variables that are set."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def read(tree: ast.AST) -> set[str]:
    """Return the names that are read."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def is_name(node: ast.AST, name: str) -> bool:
    """Return whether a node is this name."""
    return isinstance(node, ast.Name) and node.id == name


def is_load(node: ast.AST, name: str) -> bool:
    """Return whether a node reads this name."""
    return is_name(node, name) and isinstance(getattr(node, "ctx", None), ast.Load)


def is_set_first(name: str, body: list[ast.stmt]) -> bool:
    """Return whether the first statement with a variable sets it."""
    for statement in body:
        if name in stored(statement) | read(statement):
            simple = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            return simple and name in stored(statement) and name not in read(statement)
    return False


def indices(node: ast.expr) -> list[ast.expr]:
    """Return the indices of a variable: i, j and k of `x[i, j][k]`; nothing of `x.shape[i]`."""
    found: list[ast.expr] = []
    while isinstance(node, ast.Subscript):
        found = [*(node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]), *found]
        node = node.value
    return found if isinstance(node, ast.Name) else []


def by_place(node: Any) -> list[ast.expr]:
    """Return the arguments of an atomic operation: the array, indices, the value."""
    named = sorted(node.keywords, key=lambda keyword: (keyword.arg != "arr", keyword.arg == "value", keyword.arg))
    return [*node.args, *(keyword.value for keyword in named)]


def ends(loop: ast.For) -> Iterator[tuple[ast.Continue, list[ast.AST]]]:
    """Yield each `continue` of a loop, and the statements before it."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    others = {node for inner in inside if isinstance(inner, ast.For) for node in ast.walk(inner)}
    for end in inside:
        if isinstance(end, ast.Continue) and end not in others:
            place = (end.lineno, end.col_offset)
            yield end, [x for x in inside if isinstance(x, ast.expr) and (x.lineno, x.col_offset) < place]


def moves(node: ast.AST, moving: set[str]) -> bool:
    """Return whether an expression can change if `moving` variables change."""
    if isinstance(node, ast.Name):
        return node.id in moving
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")).startswith(_WHOLE):
        return False
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Attribute) and node.attr in SHAPES):
        return False
    children = [node.value] if isinstance(node, ast.Subscript) else ast.iter_child_nodes(node)
    return any(moves(child, moving) for child in children)


def is_inexact(kind: Any) -> bool:
    """Return whether a parameter of a kernel is of floats, or may be."""
    kind = getattr(kind, "dtype", kind)
    return not str(getattr(getattr(kind, "_wp_scalar_type_", kind), "__name__", "")).startswith(_WHOLE)


def is_plain(function: ast.expr, variables: set[str]) -> bool:
    """Return whether an unknown callee is Python's or Warp's: float, x.dtype, type(x)."""
    if isinstance(function, ast.Call):
        return is_name(function.func, "type")
    return not isinstance(function, ast.Name) or function.id not in variables
