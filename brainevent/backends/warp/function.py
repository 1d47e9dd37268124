# SPDX-License-Identifier: Apache-2.0
"""One function of a kernel: the meaning of its names, and the variables that its loops change."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from .syntax import is_inexact, is_load, is_name, is_set_first, moves, read, stored

__all__ = ["Function"]

_FLOATS = ("float16", "bfloat16", "float32", "float64", "float")


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
