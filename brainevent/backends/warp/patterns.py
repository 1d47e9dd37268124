# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel, and rejects code for which Warp's adjoint is wrong.

The adjoint runs the kernel again, without its writes to arrays and without its loops over ranges that are not constant,
and then goes backwards. So its values are wrong if a kernel computes with an element that it reads from an array after
writing to it, or with variables that such loops change, except in sums: the adjoint of a sum needs no values. Every
rule was compared with numerical derivatives.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from typing import Any, NoReturn

from ...errors import UnsupportedOperationError
from .function import (
    SHAPES,
    Function,
    base,
    by_place,
    ends,
    indices,
    is_inexact,
    is_plain,
    is_set_first,
    moves,
)

__all__ = ["refuse_wrong_adjoints"]

_NONE = {"frac": "write a - wp.trunc(a)", "select": "use wp.where"}  # without adjoints, and what has one
_DRAWS = ("randi", "randu", "randf", "randn", "sample_", "poisson")
_INSTEAD = "compute the sum in a @warp.func, and use its return value"


def refuse_wrong_adjoints(where: str, kernel: Any, outputs: Mapping[str, bool]) -> None:
    """Raise if Warp's adjoint of the kernel is wrong; `outputs` says whether each output starts as an argument."""
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
        self._function = Function(function, unroll, by_value=not outputs)
        self._loops: list[ast.For] = []  # around what is being read
        self._written: set[str] = set()  # outputs, up to here

    def check(self) -> None:
        """Read the function from top to bottom."""
        self._body(self._function.tree.body)

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
            self._refuse(node, "loops over something other than a range", "loop over a range")
        for inner in ast.walk(node):
            if isinstance(inner, ast.Break):
                self._refuse(inner, "leaves a loop with break", "put the rest of the loop under an if")
            if isinstance(inner, ast.Return):
                self._refuse(inner, "returns from within a loop", "put the rest of the loop under an if")
        for argument in node.iter.args:
            self._value(argument)
        self._written |= {name for name in self._outputs if any(self._writes(inner, name) for inner in ast.walk(node))}
        if node in self._function.long:
            self._check_continue(node)
        self._loops.append(node)
        self._body(node.body)
        self._loops.pop()

    def _check_continue(self, loop: ast.For) -> None:
        """Reject `continue` after a change of a variable that is used later: the adjoint ends there too."""
        for end, before in ends(loop):
            for node in before:
                is_set = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                outlives = is_set and not self._function.is_of_one_round(base(node), loop)
                if outlives or any(self._writes(node, output) for output in self._outputs):
                    self._refuse(
                        end, "uses continue after changing a variable", "put the rest of the loop's body under an if"
                    )

    def _writes(self, node: ast.AST, output: str) -> bool:
        """Return whether a node writes to an array."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            return base(node) == output
        atomic = isinstance(node, ast.Call) and self._function.called(node).startswith("atomic_")
        return atomic and base(by_place(node)[0]) == output

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
        elif not sums:
            self._read(node.target)
        if isinstance(node.op, ast.Mod):
            self._remainder(node, node.target, node.value)
        self._store(node.target)

    def _store(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self._store(part)
        if isinstance(target, (ast.Name, ast.Tuple)):
            return
        array = base(target)
        if not indices(target) or array not in {*self._outputs, *self._inputs}:
            self._refuse(target, "changes a part of a vector or matrix", "make a new value, as in wp.vec3(a, b, c)")
        if array in self._inputs:
            self._refuse(target, f"writes to the input {array!r}", "make that an output, named in in_out_argnames")
        for index in indices(target):
            self._value(index)
        self._written.add(array)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _value(self, node: ast.AST, sums: bool = False) -> None:
        """Read an expression; `sums` allows sums of values that loops change."""
        if isinstance(node, ast.Name):
            self._name(node, sums)
        elif isinstance(node, ast.Call):
            self._call(node, sums=sums)
        elif isinstance(node, ast.Subscript):
            self._read(node)
        elif isinstance(node, ast.Attribute) and node.attr in SHAPES and isinstance(node.value, ast.Name):
            return
        elif isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mod):
                self._remainder(node, node.left, node.right)
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
            return sums and self._function.is_constant(node.right), sums and self._function.is_constant(node.left)
        return sums and isinstance(node.op, ast.Div) and self._function.is_constant(node.right), False

    def _name(self, node: ast.Name, sums: bool) -> None:
        if node.id in self._outputs:
            self._refuse(node, f"uses the output {node.id!r} as a whole", "use its elements, in the kernel itself")
        if node.id in self._function.changed and not sums:
            self._refuse(node, f"uses {node.id!r}, which a loop changes, for more than a sum", _INSTEAD)

    def _read(self, node: ast.expr) -> None:
        """Read an element of something."""
        array = base(node)
        places = indices(node)
        if array not in self._outputs or not places:
            self._other(node)
            return
        if not self._outputs[array]:
            self._refuse(node, f"reads the output {array!r}", "keep what it wrote in a variable")
        if array in self._written:
            what = f"reads {array!r} after writing to it, or in a loop that writes to it"
            self._refuse(node, what, "read it first, into a variable")
        if len(places) < (self._function.axes[array] or 0) or any(isinstance(place, ast.Slice) for place in places):
            self._refuse(node, f"takes a part of the output {array!r} as an array", "read its elements one by one")
        for place in places:
            self._value(place)

    def _call(self, node: ast.Call, sums: bool = False, statement: bool = False) -> None:
        function, name = self._function.resolved(node.func), self._function.called(node)
        if function is None and not is_plain(node.func, self._function.locals):
            self._refuse(node, "calls a function by another name", "call each function by its own name")
        if name == "len" and node.args and isinstance(node.args[0], ast.Name):
            return
        if name.startswith("tile"):
            self._refuse(node, "uses tiles", "give each thread its own elements")
        if name.startswith("atomic_") or name == "array_store":
            self._atomic(node, name, statement)
            return
        self._check_function(node, name)
        linear = sums and self._function.is_cast(node)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._value(argument, linear)
        self._enter(node, function)

    def _check_function(self, node: ast.Call, name: str) -> None:
        """Reject functions of Warp whose adjoint is wrong here."""
        moving = [moves(argument, self._function.moving) for argument in node.args]
        if name in _NONE and any(moving):
            self._refuse(node, f"uses {name}", _NONE[name])
        if name == "mod" and len(node.args) > 1:
            self._remainder(node, *node.args[:2])
        if not name.startswith(_DRAWS):
            return
        state = node.args[0] if node.args else None
        if node.keywords or (name == "randf" and any(moving[1:])):
            self._refuse(node, f"passes more than the state to {name}", "draw from 0 to 1, and scale the result")
        if isinstance(state, ast.Name) and not self._is_own_state(state.id):
            self._refuse(
                node,
                f"draws repeatedly from {state.id!r}",
                "make a state with wp.rand_init in each iteration and function",
            )

    def _is_own_state(self, name: str) -> bool:
        """Return whether the state of random numbers is made where it is used, so that the adjoint makes it again."""
        if not self._outputs and name in self._function.axes:  # a function changes the state of its caller
            return False
        return all(is_set_first(name, loop.body) for loop in [x for x in self._loops if x in self._function.long][-1:])

    def _remainder(self, node: ast.AST, divided: ast.expr, divisor: ast.expr) -> None:
        """Reject remainders except by a number: the adjoint has no divisor, and no vectors."""
        moving = any(moves(part, self._function.moving) for part in (divided, divisor))
        if moving and not self._function.is_constant(divisor):
            self._refuse(node, "computes a remainder by more than a number", "write a - b * wp.trunc(a / b)")

    def _atomic(self, node: ast.Call, name: str, statement: bool) -> None:
        given = by_place(node)
        array = base(given[0])
        if array not in self._outputs:
            self._refuse(node, f"changes {array!r} with {name}", "make that an output, named in in_out_argnames")
        if not statement:
            self._refuse(node, f"uses the return value of {name}", "ignore it")
        extreme = name in ("atomic_max", "atomic_min")
        if extreme and (self._outputs[array] or array in self._written):
            self._refuse(node, f"uses {name} on {array!r}, which has values before", "use no other operation on it")
        if not extreme and name not in ("atomic_add", "atomic_sub"):
            self._refuse(node, f"uses {name}", "use atomic_add")
        for index in (*indices(given[0]), *given[1:-1]):
            self._value(index)
        self._value(given[-1], sums=not extreme)
        self._written.add(array)

    def _enter(self, node: ast.AST, function: Any) -> None:
        """Read all versions of a user's function too, unless it has an adjoint by the user."""
        versions = [getattr(function, name, {}).values() for name in ("user_overloads", "user_templates")]
        for each in (function, *itertools.chain(*versions)):
            if getattr(each, "adj", None) is None or each in self._known or getattr(each, "custom_grad_func", None):
                continue
            self._known.add(each)
            if getattr(each, "native_snippet", None) is None:
                arrays = {argument.label for argument in each.adj.args if hasattr(argument.type, "ndim")}
                _Reader(self._where, each, {}, arrays, self._unroll, self._known).check()
            elif getattr(each, "adj_native_snippet", None) is None and any(is_inexact(a.type) for a in each.adj.args):
                self._refuse(node, f"calls {each.key!r}, native code without an adjoint", "give it an adj_snippet")

    def _refuse(self, node: ast.AST, what: str, instead: str) -> NoReturn:
        line = f", line {node.lineno} of {self._function.tree.name!r}" if hasattr(node, "lineno") else ""
        raise UnsupportedOperationError(
            f"{self._where}: adjoint=True{line}: it {what}, and Warp's adjoint of that is wrong; {instead}"
        )
