# SPDX-License-Identifier: Apache-2.0
"""One function of a kernel: the meaning of its names, and the variables that its loops change."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "SHAPES",
    "Function",
    "base",
    "by_place",
    "ends",
    "indices",
    "is_inexact",
    "is_plain",
    "is_set_first",
    "moves",
]

SHAPES = ("shape", "size", "ndim", "strides", "dtype")  # attributes of a whole array
_WHOLE = ("int", "uint", "bool")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "float")


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


class Function:
    """A kernel, or a `warp.func` that it calls.

    Attributes:
        tree: Its source.
        axes: The number of axes of each argument; None for a number.
        locals: Its variables and arguments.
        long: Its loops that Warp does not unroll.
        changed: The variables that loops change, or that are computed from these.
        moving: The variables that may depend on the numbers in arrays.
    """

    def __init__(self, function: Any, unroll: int, *, by_value: bool):
        """Read a function; `by_value` says that its arguments by value may depend on numbers in arrays."""
        self._unroll = unroll
        self.tree = function.adj.tree.body[0]
        self.axes = {argument.label: getattr(argument.type, "ndim", None) for argument in function.adj.args}
        closure = inspect.getclosurevars(inspect.unwrap(function.func))
        self._scope = {**vars(inspect.getmodule(function.func) or object), **closure.globals, **closure.nonlocals}
        self.locals = stored(self.tree) | {argument.arg for argument in self.tree.args.args}
        loops = [node for node in ast.walk(self.tree) if isinstance(node, ast.For)]
        self.long = [loop for loop in loops if not self._is_unrolled(loop)]
        self.changed = self._changed_by_loops()
        moving = {
            arg.label for arg in function.adj.args if is_inexact(arg.type) and (by_value or hasattr(arg.type, "ndim"))
        }
        self.moving = self._spread(moving, moves)

    def _changed_by_loops(self) -> set[str]:
        """Return the variables whose values the adjoint does not know: changed by loops, or computed from these."""
        changed = {name for loop in self.long for name in stored(loop) if not self.is_of_one_round(name, loop)}
        changed = {name for name in changed if not self._counts(name)}
        return self._spread(changed, lambda value, changed: bool(read(value) & changed))

    def _spread(self, names: set[str], passes: Callable[[ast.expr, set[str]], bool]) -> set[str]:
        """Return names, and all variables that are assigned from them."""
        assignments = [node for node in ast.walk(self.tree) if isinstance(node, (ast.Assign, ast.AugAssign))]
        while True:
            more = {name for node in assignments if passes(node.value, names) for name in stored(node)} & self.locals
            if more <= names:
                return names
            names = names | more

    def _counts(self, name: str) -> bool:
        """Return whether a variable only counts the iterations of loops."""
        loops = [node for node in ast.walk(self.tree) if isinstance(node, ast.For) and is_name(node.target, name)]
        inside = {node for loop in loops for node in ast.walk(loop)}
        targets = {loop.target for loop in loops}
        return bool(loops) and all(
            node in inside and (isinstance(node.ctx, ast.Load) or node in targets)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name) and node.id == name
        )

    def is_of_one_round(self, name: str, loop: ast.For) -> bool:
        """Return whether a variable is set before it is read in each iteration, and is not read elsewhere."""
        if not is_set_first(name, loop.body):
            return False
        inside = set(ast.walk(loop))
        for other in self.long:
            apart = other not in inside and loop not in ast.walk(other)
            if apart and is_set_first(name, other.body):
                inside |= set(ast.walk(other))
        return all(node in inside for node in ast.walk(self.tree) if is_load(node, name))

    def _is_unrolled(self, loop: ast.For) -> bool:
        if not isinstance(loop.iter, ast.Call) or getattr(loop.iter.func, "id", "") != "range":
            return False
        numbers = [self._whole(argument) for argument in loop.iter.args]
        return None not in numbers and len(range(*(n for n in numbers if n is not None))) <= self._unroll

    def _whole(self, node: ast.AST) -> int | None:
        """Return the integer value of an expression, if it is known before the kernel runs."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._whole(node.operand)
            return None if number is None else -number
        value = node.value if isinstance(node, ast.Constant) else self.resolved(node)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def resolved(self, node: ast.AST) -> Any:
        """Return the value of a name from outside the function, or None."""
        if hasattr(node, "warp_func"):  # what wp.static gave
            return node.warp_func
        if isinstance(node, ast.Attribute):
            return getattr(self.resolved(node.value), node.attr, None)
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self._scope.get(node.id)
        return None

    def called(self, node: ast.Call) -> str:
        """Return the name of the called function, independent of its name in the import."""
        return str(getattr(self.resolved(node.func), "key", getattr(node.func, "attr", getattr(node.func, "id", ""))))

    def is_constant(self, node: ast.AST) -> bool:
        """Return whether an expression is a number: 2.0, -2.0, wp.float64(2.0)."""
        if isinstance(node, ast.UnaryOp):
            return self.is_constant(node.operand)
        if isinstance(node, ast.Call):
            return len(node.args) == 1 and self.is_cast(node) and self.is_constant(node.args[0])
        return isinstance(node, ast.Constant)

    def is_cast(self, node: ast.Call) -> bool:
        """Return whether a call makes a float of its argument."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return getattr(self.resolved(node.func), "__name__", name) in _FLOATS
