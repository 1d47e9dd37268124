# SPDX-License-Identifier: Apache-2.0
"""Write the equations of a jaxpr as lines of the form."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import Tracer, source_line
from ..errors import RuleError
from .arrays import MOVES, SPLITS, chosen
from .control import CALLS, CONTROL, inner_jaxpr, opened
from .derived import DERIVED
from .float64 import COMPOSED, PRIMITIVES_64, of_float64
from .form import (
    DTYPES,
    FLOATS,
    HALVES,
    WIDE_INTEGERS,
    Constant,
    Form,
    Name,
    Operand,
    Values,
    Writer,
    boxed,
    constant,
    held_dtype,
)
from .functions import CALLED, FUNCTIONS
from .interpret import interpret
from .narrow import clamped_to, high_product, is_narrow, seen_by, wrapped_to

__all__ = ["MOST_ELEMENTS", "Lowering", "called_form", "form_of", "form_of_jaxpr", "function_form"]

MOST_ELEMENTS = 64  # of an array within a rule: each is a scalar of its own

_HERE = str(Path(__file__).parent)
_NOT_OF_USERS = (_HERE, str(Path(jax.__file__).parent))
# Primitives of JAX that are primitives of ours, by either name.
_SAME = {
    **{name: name for name in ("add", "sub", "mul", "div", "rem", "neg", "abs", "max", "min", "floor", "ceil", "sqrt")},
    **{name: name for name in ("and", "or", "xor", "not", "lt", "le", "gt", "ge", "eq", "ne", "copy")},
    **{name: name for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")},
    "copy_p": "copy",
    "stop_gradient": "copy",
    "mulhi": "mul_high",
    "population_count": "bit_count",
    "add_any": "add",
}
_PRINTS = ("debug_print", "debug_callback")
_MOST_OPENED = 16  # primitives within each other: one that is made of itself has no end


@functools.cache
def function_form(name: str, dtypes: tuple[str, ...] = ("float32",)) -> Form:
    """Return a function of `functions.py` or `float64.py` that replaces a primitive as a form."""
    return form_of(name, COMPOSED.get(name) or FUNCTIONS[name], dtypes)


@functools.cache
def called_form(name: str) -> Form:
    """Return a function of `functions.py` that stays a call as a form, by the name that JAX gives it."""
    function, dtypes = CALLED[name]
    return form_of(name.removeprefix("be_"), function.__wrapped__, dtypes)  # type: ignore[attr-defined]


def form_of(name: str, function: Callable[..., Any], dtypes: Sequence[str]) -> Form:
    """Return a function of scalars in `jax.numpy` as a form."""
    with jax.enable_x64("float64" in dtypes):
        jaxpr = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((), dtype) for dtype in dtypes))
    return form_of_jaxpr(name, jaxpr)


def form_of_jaxpr(name: str, jaxpr: Any) -> Form:
    """Return a closed jaxpr of scalars as a form."""
    lowering = Lowering(name, follow=False)
    inputs = tuple(Name(f"a{place}", str(aval.dtype)) for place, aval in enumerate(jaxpr.in_avals))
    outputs = tuple(output.item() for output in lowering.jaxpr(jaxpr, [boxed(i) for i in inputs]))
    writer = lowering.writer
    return Form(name, inputs, tuple(writer.lines), outputs, tuple(writer.functions.values()))


class Lowering:
    """Lines of one rule: its name in errors, whether its source lines are noted, and whether it may print.

    If it is `wide`, integers of 64 bits are what they are, as in loops, and not those of rules, which have 32.
    """

    def __init__(self, rule: str, *, follow: bool = True, prints: bool = False, wide: bool = False):
        self.rule, self.follow, self.prints, self.writer = rule, follow, prints, Writer()
        self.wide = wide
        self.draws: set[tuple[Operand, ...]] = set()  # number and index of each draw of the rule
        self.opened: list[str] = []  # names of the primitives within which the lowering is

    def jaxpr(self, closed: Any, arguments: Sequence[Values]) -> list[Values]:
        """Write the equations of a closed jaxpr, and return the values of its outputs."""
        known: dict[Any, Values] = {}

        def read(atom: Any) -> Values:
            return self.literal(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else known[atom]

        for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            known[var] = self.literal(value)
        known.update(zip(closed.jaxpr.invars, arguments, strict=True))
        for eqn in closed.jaxpr.eqns:
            if self.follow:
                self.writer.source = source_line(eqn, _HERE) or self.writer.source
            self._check_types(eqn)
            results = self._wrapped(eqn, self.equation(eqn, [read(atom) for atom in eqn.invars]))
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in closed.jaxpr.outvars]

    def literal(self, value: Any) -> Values:
        """Return an array that is known at tracing."""
        self._check_key(getattr(value, "dtype", None))
        if isinstance(value, Tracer):
            raise self.error(
                "uses an array from outside that JAX traces; use one that is known, outside of jax.jit, jax.vmap and "
                "jax.grad, or a parameter"
            )
        array = np.asarray(value)
        dtype = self.held(array.dtype)
        if not self._is_known(dtype) or array.size > MOST_ELEMENTS:
            raise self.error(f"uses a constant array of {dtype}{list(array.shape)}; {_ALLOWED}")
        if np.any(array != array.astype(dtype)) and array.dtype.kind in "iu":
            lost = array[array != array.astype(dtype)].flat[0]
            raise self.error(f"uses the integer {lost}, which does not fit in {dtype}; use a smaller one")
        return boxed([constant(x, dtype) for x in array.reshape(-1)], array.shape)

    def held(self, dtype: Any) -> str:
        """Return the dtype in which values of one of JAX are computed."""
        if self.wide and str(dtype) in (*WIDE_INTEGERS, *HALVES):
            return str(dtype) if str(dtype) in WIDE_INTEGERS else "float32"
        return held_dtype(dtype)

    def _is_known(self, dtype: str) -> bool:
        return dtype in DTYPES or (self.wide and dtype in WIDE_INTEGERS)

    def error(self, problem: str) -> RuleError:
        """Return an error that names the rule and the line of it."""
        return RuleError(f"rule {self.rule}, {self.writer.source or 'unknown line'}: {problem}")

    def _check_key(self, dtype: Any) -> None:
        """Raise if a dtype is that of the keys of `jax.random`."""
        if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
            raise self.error("uses jax.random; draw with the fourth argument of the rule, such as random.uniform()")

    def _check_types(self, eqn: Any) -> None:
        for var in eqn.outvars:
            self._check_key(getattr(var.aval, "dtype", None))
            dtype, shape = self.held(getattr(var.aval, "dtype", var.aval)), getattr(var.aval, "shape", ())
            if not self._is_known(dtype) or math.prod(shape) > MOST_ELEMENTS or 0 in shape:
                raise self.error(f"{eqn.primitive.name} makes {dtype}{list(shape)}; {_ALLOWED}")

    def _wrapped(self, eqn: Any, results: list[Values]) -> list[Values]:
        """Return the results of an equation with no more bits than they have in JAX."""
        name = eqn.primitive.name
        if name in CALLS:
            return results
        return [self._narrowed(name, var.aval, value) for var, value in zip(eqn.outvars, results, strict=True)]

    def _narrowed(self, name: str, aval: Any, value: Values) -> Values:
        if not is_narrow(getattr(aval, "dtype", "")):
            return value
        return boxed([wrapped_to(self.writer, name, aval.dtype, item) for item in value.reshape(-1)], value.shape)

    def equation(self, eqn: Any, x: list[Values]) -> list[Values]:
        """Write one equation."""
        name = eqn.primitive.name
        if name in CALLS:
            return self._call(eqn, x)
        if name in CONTROL:
            return CONTROL[name](self, eqn, x)
        if name in MOVES:
            try:
                return [MOVES[name](self.writer, eqn, *x)]
            except NotImplementedError as problem:
                raise self.error(f"no engine supports {name} {problem}; write it with scalars") from None
        if name in SPLITS:
            return SPLITS[name](eqn, *x)
        if name in _PRINTS and self.prints:
            return []
        if name in _PRINTS:
            raise self.error('no engine supports jax.debug.print; remove it, or build with backend="jax", which prints')
        operation = self.scalar_operation(eqn)
        if operation is None:
            return self._opened(eqn, x)
        if is_narrow(given := eqn.invars[0].aval.dtype):
            x = [boxed([seen_by(self.writer, name, given, item) for item in x[0].reshape(-1)], x[0].shape), *x[1:]]
        return [self.elementwise(eqn, operation, x)]

    def _opened(self, eqn: Any, x: list[Values]) -> list[Values]:
        """Write what a primitive that no engine has is made of."""
        name, problem = eqn.primitive.name, ""
        try:
            inner = opened(eqn) if len(self.opened) < _MOST_OPENED else None
        except NotImplementedError as error:
            inner, problem = None, f": {error}"
        if inner is None:
            within = f" (within {self.opened[0]})" if self.opened else ""
            raise self.error(
                f"no engine supports the JAX primitive {name}{within}{problem}; use other functions, or compute it "
                "outside of the rule"
            )
        self.opened.append(name)
        try:
            return self._within(inner, x, follow=False)
        finally:
            self.opened.pop()

    def _call(self, eqn: Any, x: list[Values]) -> list[Values]:
        inner, name = inner_jaxpr(eqn), str(eqn.params.get("name"))
        file = inner.jaxpr.debug_info.func_filename or ""
        of_users = not file.startswith(_NOT_OF_USERS)
        ours = not (file and of_users)  # else a function of the user that has one of our names
        if ours and name in CALLED:
            return [self.elementwise(eqn, functools.partial(self.writer.call, called_form(name)), x)]
        if ours and name == "be_keys":
            self._check_draw(*(value.reshape(-1) for value in x[2:]))
        # JAX traces its own functions once: their lines are those of the rule that used them first.
        return self._within(inner, x, follow=self.follow and of_users)

    def _within(self, closed: Any, x: list[Values], *, follow: bool) -> list[Values]:
        """Write the equations of a jaxpr; unless `follow`, its lines belong to the line of the rule that needs them."""
        outer, self.follow = self.follow, follow
        try:
            return self.jaxpr(closed, x)
        finally:
            self.follow = outer

    def _check_draw(self, draw: Values, index: Values | None = None) -> None:
        """Raise unless a draw is made once, or each of its repetitions has an index of its own."""
        if index is None and self.writer.depth:
            raise self.error(f"draws a random number in a loop or a branch: {_SAME_NUMBER}")
        for place in [None] if index is None else index:
            key = (draw[0],) if place is None else (draw[0], place)
            if key in self.draws or (isinstance(place, Constant) and self.writer.repeated):
                raise self.error(f"draws a random number more than once: {_SAME_NUMBER}")
            self.draws.add(key)

    def elementwise(self, eqn: Any, operation: Callable[..., Operand], x: list[Values]) -> Values:
        """Apply an operation of scalars to each element."""
        elements = np.broadcast(*x) if len(x) > 1 else ((item,) for item in x[0].reshape(-1))
        return boxed([operation(*operands) for operands in elements], eqn.outvars[0].aval.shape)

    def scalar_operation(self, eqn: Any) -> Callable[..., Operand] | None:
        """Return what an elementwise primitive of JAX does to scalars, or None for one that no engine has."""
        name, writer = eqn.primitive.name, self.writer
        if name == "round" and eqn.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN:
            return functools.partial(writer.emit, "round")
        if name == "mulhi" and str(eqn.outvars[0].aval.dtype) in WIDE_INTEGERS:
            return None  # engines have the high half of a product of 32 bits
        if name in _SAME:
            return self._same(eqn, _SAME[name])
        if name in ("convert_element_type", "bitcast_convert_type"):
            return self._converting(eqn, name.split("_", maxsplit=1)[0])
        if name == "select_n":
            return self._selected
        if str(eqn.outvars[0].aval.dtype) == "float64" and of_float64(name) in (*PRIMITIVES_64, *COMPOSED):
            return functools.partial(self._wide, of_float64(name))
        if name in FUNCTIONS and eqn.outvars[0].aval.dtype.kind not in "iu":
            return functools.partial(self._called, name)
        if name in DERIVED and (name != "clz" or self.held(eqn.outvars[0].aval.dtype) not in WIDE_INTEGERS):
            return functools.partial(self._derived, name, eqn.params)
        return None

    def _same(self, eqn: Any, op: str) -> Callable[..., Operand]:
        if op == "copy":
            return lambda operand: operand
        if op == "mul_high" and is_narrow(dtype := eqn.outvars[0].aval.dtype):
            return functools.partial(high_product, self.writer, dtype)
        if op in ("max", "min") and str(eqn.outvars[0].aval.dtype) == "bool":
            op = {"max": "or", "min": "and"}[op]
        return functools.partial(self.writer.emit, op)

    def _converting(self, eqn: Any, op: str) -> Callable[..., Operand]:
        given, dtype = (str(x) for x in (eqn.invars[0].aval.dtype, eqn.params["new_dtype"]))
        to_float64 = self.wide and dtype == "float64" and given in WIDE_INTEGERS
        if op == "bitcast" and not to_float64 and not {given, dtype}.isdisjoint(("float64", "int64", "uint64")):
            raise self.error(
                f"no engine supports a bitcast of 64-bit numbers ({given} to {dtype}); build the network in float32"
            )
        if op == "bitcast" and eqn.outvars[0].aval.size != eqn.invars[0].aval.size:
            raise self.error(f"no engine supports a bitcast of {given} to {dtype}; use shifts, & and |")
        if given in (*FLOATS, *HALVES) and is_narrow(dtype):
            return functools.partial(clamped_to, self.writer, dtype)
        return functools.partial(self._converted, op, self.held(dtype))

    def _converted(self, op: str, dtype: str, operand: Operand) -> Operand:
        return operand if operand.dtype == dtype else self.writer.emit(op, operand, dtype=dtype)

    def _selected(self, which: Operand, *cases: Operand) -> Operand:
        if len(cases) == 1:
            return cases[0]
        if which.dtype == "bool":
            return self.writer.emit("select", which, *reversed(cases))
        return chosen(self.writer, which, list(cases))

    def _called(self, name: str, *operands: Operand) -> Operand:
        operands = tuple(self._converted("convert", "float32", operand) for operand in operands)
        return self._of_function(function_form(name, ("float32",) * len(operands)), operands)

    def _wide(self, name: str, *operands: Operand) -> Operand:
        operands = tuple(self._converted("convert", "float64", operand) for operand in operands)
        if name in PRIMITIVES_64:
            return self.writer.emit(name, *operands)
        return self._of_function(function_form(name, ("float64",) * len(operands)), operands)

    def _of_function(self, function: Form, operands: Sequence[Operand]) -> Operand:
        """Write a call, or return its result: a constant if all operands are."""
        known = [operand.value for operand in operands if isinstance(operand, Constant)]
        if len(known) == len(operands):
            return constant(interpret(function, known)[0][0], function.outputs[0].dtype)
        return self.writer.call(function, *operands)

    def _derived(self, name: str, params: dict[str, Any], *operands: Operand) -> Operand:
        settings = {key: params[key] for key in ("y",) if key in params}
        jaxpr = _derived_jaxpr(name, tuple(o.dtype for o in operands), tuple(settings.items()))
        (result,) = self._within(jaxpr, [boxed(operand) for operand in operands], follow=False)
        return result.item()


_SAME_NUMBER = "it would be the same each time; pass index=, an integer that is different each time"
_ALLOWED = f"a rule may use float32, bool, and integers of 8 to 32 bits, and arrays of up to {MOST_ELEMENTS} elements"


@functools.cache
def _derived_jaxpr(name: str, dtypes: tuple[str, ...], params: tuple[tuple[str, Any], ...]) -> Any:
    with jax.enable_x64(not {"float64", *WIDE_INTEGERS}.isdisjoint(dtypes)):
        function = functools.partial(DERIVED[name], **dict(params))
        return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((), dtype) for dtype in dtypes))
