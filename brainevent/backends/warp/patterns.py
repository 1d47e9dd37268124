# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel, and refuses what Warp's adjoint gets wrong.

The adjoint runs the kernel again, without its writes to arrays and without its loops over ranges that are not constant,
and then goes backwards. So it finds wrong values where a kernel computes with what it has read from an array after
writing to it, and with variables that such loops change, unless only sums are made of them: the adjoint of a sum
asks for no values. Every rule here was held against numerical derivatives.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any, NoReturn

from ...errors import UnsupportedOperationError

__all__ = ["refuse_wrong_adjoints"]

_SHAPES = ("shape", "size", "ndim", "strides")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "float")
_INSTEAD = "let a @warp.func do the loop and return the sum, and compute with what it returns"


def refuse_wrong_adjoints(where: str, kernel: Any, outputs: Mapping[str, bool]) -> None:
    """Raise if the kernel does what Warp's adjoint gets wrong; `outputs` says whether each starts as an argument."""
    arrays = {argument.label for argument in kernel.adj.args if hasattr(argument.type, "ndim")}
    unroll = int(kernel.module.options.get("max_unroll", 16))
    _Reader(where, kernel, outputs, arrays - set(outputs), unroll, set()).check()


class _Reader:
    """Reads one function: a kernel, or a `warp.func` that it calls."""

    def __init__(
        self, where: str, function: Any, outputs: Mapping[str, bool], inputs: set[str], unroll: int, known: set[Any]
    ):
        self._where, self._outputs, self._inputs, self._unroll = where, outputs, inputs, unroll
        self._known = known  # functions that were read, or are being read
        self._tree = function.adj.tree.body[0]
        closure = inspect.getclosurevars(inspect.unwrap(function.func))
        self._scope = {**vars(inspect.getmodule(function.func) or object), **closure.globals, **closure.nonlocals}
        self._locals = _stored(self._tree) | {argument.arg for argument in self._tree.args.args}
        self._changed = self._changed_by_loops()
        self._written: set[str] = set()  # outputs, up to here

    def check(self) -> None:
        """Read the function from top to bottom."""
        self._body(self._tree.body)

    # ---- what loops change ------------------------------------------------------------------------------------------

    def _changed_by_loops(self) -> set[str]:
        """Return the variables whose values the adjoint does not know: changed by loops, or made of such."""
        loops = [node for node in ast.walk(self._tree) if isinstance(node, ast.For) and not self._is_unrolled(node)]
        changed = {name for loop in loops for name in _stored(loop) if not self._is_of_one_round(name, loop, loops)}
        changed = {name for name in changed if not self._counts(name)}
        assignments = [node for node in ast.walk(self._tree) if isinstance(node, (ast.Assign, ast.AugAssign))]
        while True:
            more = {
                name
                for node in assignments
                if _read(node.value) & changed
                for name in _stored(node)
                if name in self._locals
            }
            if more <= changed:
                return changed
            changed |= more

    def _counts(self, name: str) -> bool:
        """Tell whether a variable counts the rounds of loops, and is nothing else."""
        loops = [node for node in ast.walk(self._tree) if isinstance(node, ast.For) and _is_name(node.target, name)]
        inside = {node for loop in loops for node in ast.walk(loop)}
        targets = {loop.target for loop in loops}
        return bool(loops) and all(
            node in inside and (isinstance(node.ctx, ast.Load) or node in targets)
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id == name
        )

    def _is_of_one_round(self, name: str, loop: ast.For, loops: list[ast.For]) -> bool:
        """Tell whether a variable is set before it is read in each round, and is not read elsewhere."""
        if not _is_set_first(name, loop.body):
            return False
        inside = set(ast.walk(loop))
        for other in loops:
            apart = other not in inside and loop not in ast.walk(other)
            if apart and _is_set_first(name, other.body):
                inside |= set(ast.walk(other))
        return all(node in inside for node in ast.walk(self._tree) if _is_load(node, name))

    def _is_unrolled(self, loop: ast.For) -> bool:
        if not isinstance(loop.iter, ast.Call) or getattr(loop.iter.func, "id", "") != "range":
            return False
        numbers = [self._whole(argument) for argument in loop.iter.args]
        return None not in numbers and len(range(*(n for n in numbers if n is not None))) <= self._unroll

    def _whole(self, node: ast.AST) -> int | None:
        """Return the whole number that an expression is, if that is known before the kernel runs."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._whole(node.operand)
            return None if number is None else -number
        value = node.value if isinstance(node, ast.Constant) else self._resolved(node)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _resolved(self, node: ast.AST) -> Any:
        """Return what a name from outside of the function stands for, or None."""
        if isinstance(node, ast.Attribute):
            return getattr(self._resolved(node.value), node.attr, None)
        if isinstance(node, ast.Name) and node.id not in self._locals:
            return self._scope.get(node.id)
        return None

    # ---- statements -------------------------------------------------------------------------------------------------

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            handler = getattr(self, f"_{type(statement).__name__.lower()}", self._other)
            handler(statement)

    def _other(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._call(node.value, statement=True)
        else:
            self._value(node.value)

    def _if(self, node: ast.If) -> None:
        self._value(node.test)
        before = set(self._written)
        self._body(node.body)
        after, self._written = self._written, before
        self._body(node.orelse)
        self._written |= after

    def _while(self, node: ast.While) -> None:
        self._refuse(node, "has a while loop", "write it as a for loop over a range")

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call) or getattr(node.iter.func, "id", "") != "range":
            self._refuse(node, "loops over something else than a range", "loop over a range")
        for inner in ast.walk(node):
            if isinstance(inner, ast.Break):
                self._refuse(inner, "leaves a loop by break", "put the rest of the loop under an if")
            if isinstance(inner, ast.Return):
                self._refuse(inner, "returns from within a loop", "put the rest of the loop under an if")
        for argument in node.iter.args:
            self._value(argument)
        self._written |= {name for name in self._outputs if any(_is_write(inner, name) for inner in ast.walk(node))}
        self._body(node.body)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._value(node.value, sums=True)

    def _assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for value in node.value.elts:
                self._value(value, sums=True)
        else:
            self._value(node.value, sums=not isinstance(target, ast.Tuple))
        self._store(target)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._value(node.value, sums=True)
            self._store(node.target)

    def _augassign(self, node: ast.AugAssign) -> None:
        sums = isinstance(node.op, (ast.Add, ast.Sub))
        self._value(node.value, sums=sums)
        if isinstance(node.target, ast.Name) and not sums:
            self._value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
        if not isinstance(node.target, ast.Name) and not sums:
            self._read(node.target)
        self._store(node.target)

    def _store(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self._store(part)
        if isinstance(target, (ast.Name, ast.Tuple)):
            return
        base = _base(target)
        if not isinstance(target, ast.Subscript) or base not in {*self._outputs, *self._inputs}:
            self._refuse(target, "changes a part of a value", "make the whole value anew, as in wp.vec3(a, b, c)")
        if base in self._inputs:
            self._refuse(target, f"writes to the input {base!r}", "make that an output, named in in_out_argnames")
        self._value(target.slice)
        self._written.add(base)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _value(self, node: ast.AST, sums: bool = False) -> None:
        """Read an expression; `sums` says that values which loops change may be added up in it."""
        if isinstance(node, ast.Name):
            self._name(node, sums)
        elif isinstance(node, ast.Call):
            self._call(node, sums=sums)
        elif isinstance(node, ast.Subscript):
            self._read(node)
        elif isinstance(node, ast.Attribute) and node.attr in _SHAPES and isinstance(node.value, ast.Name):
            return
        elif isinstance(node, ast.BinOp):
            left, right = self._sums_within(node, sums)
            self._value(node.left, left)
            self._value(node.right, right)
        elif isinstance(node, ast.UnaryOp):
            self._value(node.operand, sums and isinstance(node.op, (ast.USub, ast.UAdd)))
        else:
            self._other(node)

    def _sums_within(self, node: ast.BinOp, sums: bool) -> tuple[bool, bool]:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return sums, sums
        if isinstance(node.op, ast.Mult):
            return sums and self._is_constant(node.right), sums and self._is_constant(node.left)
        return sums and isinstance(node.op, ast.Div) and self._is_constant(node.right), False

    def _is_constant(self, node: ast.AST) -> bool:
        """Tell whether an expression is a number: 2.0, -2.0, wp.float64(2.0)."""
        if isinstance(node, ast.UnaryOp):
            return self._is_constant(node.operand)
        if isinstance(node, ast.Call):
            return len(node.args) == 1 and self._is_cast(node) and self._is_constant(node.args[0])
        return isinstance(node, ast.Constant)

    def _is_cast(self, node: ast.Call) -> bool:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return getattr(self._resolved(node.func), "__name__", name) in _FLOATS

    def _name(self, node: ast.Name, sums: bool) -> None:
        if node.id in self._outputs:
            self._refuse(node, f"uses the output {node.id!r} as a whole", "use its elements, in the kernel itself")
        if node.id in self._changed and not sums:
            self._refuse(node, f"computes with {node.id!r}, which a loop changes, more than a sum", _INSTEAD)

    def _read(self, node: ast.expr) -> None:
        """Read an element of something."""
        base = _base(node)
        if isinstance(node, ast.Subscript) and base in self._outputs and isinstance(node.value, ast.Name):
            if not self._outputs[base]:
                self._refuse(node, f"reads the output {base!r}", "keep what it wrote in a variable")
            if base in self._written:
                self._refuse(
                    node, f"reads {base!r} after writing to it, or in one loop", "read it first, into a variable"
                )
            self._value(node.slice)
        else:
            self._other(node)

    def _call(self, node: ast.Call, sums: bool = False, statement: bool = False) -> None:
        function = self._resolved(node.func)
        name = str(getattr(function, "key", getattr(node.func, "attr", getattr(node.func, "id", ""))))
        if name == "len" and isinstance(node.args[0], ast.Name):
            return
        if name.startswith("tile"):
            self._refuse(node, "uses tiles", "give each thread its own elements")
        if name.startswith("atomic_") or name == "array_store":
            self._atomic(node, name, statement)
            return
        linear = sums and self._is_cast(node)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._value(argument, linear)
        self._enter(function)

    def _atomic(self, node: ast.Call, name: str, statement: bool) -> None:
        base = _base(node.args[0])
        if base not in self._outputs:
            self._refuse(node, f"changes {base!r} by {name}", "make that an output, named in in_out_argnames")
        if not statement:
            self._refuse(node, f"uses what {name} returns", "leave that")
        extreme = name in ("atomic_max", "atomic_min")
        if extreme and (self._outputs[base] or base in self._written):
            self._refuse(node, f"takes {name} with what {base!r} holds already", "let that be all that is done to it")
        if not extreme and name not in ("atomic_add", "atomic_sub"):
            self._refuse(node, f"uses {name}", "use atomic_add")
        for index in node.args[1:-1]:
            self._value(index)
        self._value(node.args[-1], sums=not extreme)
        self._written.add(base)

    def _enter(self, function: Any) -> None:
        """Read a function of the user's too, unless its adjoint is."""
        adjoint = getattr(function, "adj", None)
        if adjoint is None or function in self._known or getattr(function, "native_snippet", None) is not None:
            return
        if getattr(function, "custom_grad_func", None) is not None:
            return
        self._known.add(function)
        arrays = {argument.label for argument in adjoint.args if hasattr(argument.type, "ndim")}
        _Reader(self._where, function, {}, arrays, self._unroll, self._known).check()

    def _refuse(self, node: ast.AST, what: str, instead: str) -> NoReturn:
        line = f", line {node.lineno} of {self._tree.name!r}" if hasattr(node, "lineno") else ""
        raise UnsupportedOperationError(
            f"{self._where}: adjoint=True{line}: it {what}, and the adjoint that Warp makes of that is wrong; {instead}"
        )


def _base(node: ast.expr) -> str:
    """Return the name that something is an element of."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return getattr(node, "id", "")


def _stored(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _read(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_load(node: ast.AST, name: str) -> bool:
    return _is_name(node, name) and isinstance(getattr(node, "ctx", None), ast.Load)


def _is_set_first(name: str, body: list[ast.stmt]) -> bool:
    """Tell whether the first statement that mentions a variable sets it, whatever it was."""
    for statement in body:
        if name in _stored(statement) | _read(statement):
            simple = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            return simple and name in _stored(statement) and name not in _read(statement)
    return False


def _is_write(node: ast.AST, output: str) -> bool:
    """Tell whether a node writes to an array."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _base(node) == output
    name = getattr(getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", ""))
    return isinstance(node, ast.Call) and name.startswith("atomic_") and _base(node.args[0]) == output
