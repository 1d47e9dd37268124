# SPDX-License-Identifier: Apache-2.0
"""The body of a loop as nodes: calls are inlined, and operators replaced by what their kernel is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._compat import source_line, without_mesh
from ..errors import BrainEventError, RuleError
from ..operator.lowering import chosen_kernel, operator_of
from ..scalar.control import CALLS, inner_jaxpr, opened
from ..scalar.form import WIDE_INTEGERS, Constant, Name, constant
from ..scalar.lower import Lowering
from .ciphers import scalar_operation
from .keys import OF_KEYS, has_keys, is_key, key_rule, words_of
from .replaced import REPLACED, is_of_batch
from .tables import tables_of
from .values import (
    HALVES,
    LOOP_DTYPES,
    NARROW,
    Array,
    Call,
    Node,
    UnfitError,
    View,
    as_held,
    as_scalar,
    broadcast,
    check_dtype,
    held,
    is_packed,
    whole,
)
from .views import VIEWS
from .within import WITHIN

__all__ = ["Body", "users_line", "words_of"]

_PACKAGE = str(Path(__file__).parents[1])
# Primitives whose results are their operands.
_SAME = ("copy", "copy_p", "stop_gradient", "sharding_constraint", "pvary", "pcast")
_ACROSS = (
    "all_gather", "all_gather_invariant", "all_to_all", "axis_index", "pbroadcast", "pgather", "pmax", "pmin",
    "ppermute", "psum", "psum2", "psum_invariant", "psum_scatter", "ragged_all_to_all", "reduce_scatter", "shard_map",
)  # fmt: skip
_WORDS = {
    "pure_callback": "jax.pure_callback, which calls Python",
    "io_callback": "an io_callback, which calls Python",
    "debug_callback": "jax.debug.callback or jax.debug.print, which calls Python",
    "debug_print": "jax.debug.print, which calls Python",
    "nextafter": "nextafter, which differs here for denormal numbers",
}


_EXPONENTS = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}
_FRACTION = 23  # bits of a float32
_COMPUTED = ("add", "sub", "mul", "div")  # whose results are flushed


class Body:
    """Nodes in the order of equations, while these are read; constants of the body become further inputs."""

    def __init__(self, platform: str, inputs: int, planners: Mapping[str, Callable[..., Any]]):
        self.platform, self.planners, self.nodes = platform, planners, list[Node]()
        self.tables = tables_of(platform)
        self.closed: list[tuple[Array, Any]] = []  # arrays that the body holds, with their values
        self.random_words = 0  # that are drawn in a step
        self.barred = set[Array]()  # behind a barrier: what reads them runs in each step
        self._inputs, self._made = inputs, 0
        self._known: dict[Any, list[View]] = {}  # results of equations: equal ones are computed once
        self._where = ""

    def walk(self, closed: Any, arguments: Sequence[View], *, follow: bool = True) -> list[View]:
        """Read the equations of a closed jaxpr; return its outputs. Lines of users are noted if we `follow`."""
        known: dict[Any, View] = dict(zip(closed.jaxpr.invars, arguments, strict=True))
        known |= {v: self.of_value(x) for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True)}

        def read(atom: Any) -> View:
            return self.of_value(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else known[atom]

        for eqn in closed.jaxpr.eqns:
            if follow:
                self._where = users_line(eqn) or self._where
            try:
                results = self._equation(eqn, [read(atom) for atom in eqn.invars], follow)
            except UnfitError as problem:
                raise UnfitError(problem.problem, problem.where or self._where) from problem.__cause__
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in closed.jaxpr.outvars]

    def of_value(self, value: Any) -> View:
        """Return an array that is known while the program is compiled."""
        if is_key(value):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        if array.size and str(array.dtype) in LOOP_DTYPES and str(array.dtype) not in HALVES:
            first = array.reshape(-1)[:1]
            scalar = constant(first[0], str(array.dtype))  # of a denormal it is zero, and then the bits differ
            if array.tobytes() == first.tobytes() * array.size == np.asarray(scalar.value).tobytes() * array.size:
                return as_scalar(scalar, array.shape)
        made = Array(array.shape, str(array.dtype), "const", self._inputs + len(self.closed))
        self.closed.append((made, value))
        return whole(made)

    def _equation(self, eqn: Any, x: list[View], follow: bool) -> list[View]:
        name = eqn.primitive.name
        if name in CALLS:
            return self.walk(inner_jaxpr(eqn), x, follow=follow)
        if name in _SAME:
            return x
        if name in _WORDS or (name in _ACROSS and not is_of_batch(eqn)):
            raise UnfitError(_WORDS.get(name, f"{name}, which runs across devices"))
        if eqn.outvars and all(0 in var.aval.shape for var in eqn.outvars) and not eqn.effects:
            return [self.of_value(_without_elements(words_of(var.aval))) for var in eqn.outvars]
        if name in WITHIN:
            return WITHIN[name](self, eqn, x)
        if has_keys(eqn):
            return x if name in OF_KEYS else self.traced(key_rule(eqn), x)
        if name in VIEWS:
            return VIEWS[name](self, eqn.params, [var.aval.shape for var in eqn.outvars], *x)
        if name == "threefry2x32":
            self.random_words += 2 * eqn.outvars[0].aval.size
        if name in REPLACED and (function := REPLACED[name](eqn)) is not None:
            return self.traced(function, x)
        if (definition := operator_of(eqn.primitive)) is not None:
            return self.traced(self._kernel(definition, eqn), x)
        if name in self.tables.called:
            return self._called(eqn, x)
        return self._elementwise(eqn, x) or self._opened(eqn, x)

    def _called(self, eqn: Any, x: list[View]) -> list[View]:
        """Add a call; those that compute with floats of 16 bits do it in float32."""
        name, types = eqn.primitive.name, [var.aval for var in eqn.outvars]
        dtypes = {str(aval.dtype) for aval in (*types, *(var.aval for var in eqn.invars))}
        if name not in _OF_HALVES and not dtypes.isdisjoint(HALVES):
            return self.traced(_in_wider(eqn, HALVES, np.dtype("float32")), x)
        if name in ("scatter-add", "scatter-sub") and not (self.tables.adds_narrow or dtypes.isdisjoint(NARROW)):
            return self.traced(_in_wider(eqn, NARROW, np.dtype("int32")), x)
        return self.call(self.tables.called[name](eqn), x, types)

    # ---- what equations become

    def lane(self, ins: Sequence[View], shape: tuple[int, ...], dtype: str, equation: Any = None) -> View:
        """Add an elementwise equation, or a copy. Of scalars it is a scalar, whatever the shape."""
        if shape != () and ins and equation is not None and all(view.is_uniform for view in ins):
            scalars = [whole(view.base) for view in ins]
            return as_scalar(self.lane(scalars, (), dtype, equation).base, shape)
        wide = tuple(broadcast(view, shape) for view in ins)
        return whole(self._add(Node(wide, (self._new(shape, dtype),), equation)).outs[0])

    def call(self, call: Call, x: Sequence[View], outs: Sequence[Any]) -> list[View]:
        """Add a call; its operands become packed arrays, or scalars."""
        ins = [self.scalar(v) if place in call.scalars else self._array(v) for place, v in enumerate(x)]
        arrays = [self._new(tuple(aval.shape), check_dtype(aval.dtype, f"{call.name} makes numbers")) for aval in outs]
        return [whole(array) for array in self._add(Node(tuple(ins), tuple(arrays), call=call)).outs]

    def scalar(self, view: View) -> View:
        """Return a scalar that is in a register."""
        if isinstance(view.base, Array) and view.base.shape == ():
            return whole(view.base)
        return self.lane([view], (), view.dtype)

    def packed(self, view: View) -> View:
        """Return elements that follow each other: a copy, unless they do."""
        return view if is_packed(view) and not view.is_uniform else self.lane([view], view.shape, view.dtype)

    def _array(self, view: View) -> View:
        """Return an array in memory, which a call reads: also of a scalar."""
        if view.shape != ():
            return self.packed(view)
        if view.is_uniform and isinstance(view.base, Array) and (view.base.home == "const" or self._by_call(view.base)):
            return view
        return self.call(self.tables.boxed, [view], [jax.ShapeDtypeStruct((), view.dtype)])[0]

    def _by_call(self, array: Array) -> bool:
        return any(node.call is not None and array in node.outs for node in self.nodes)

    def _new(self, shape: tuple[int, ...], dtype: str) -> Array:
        self._made += 1
        return Array(tuple(shape), check_dtype(dtype, "numbers"), "made", self._made)

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def traced(self, function: Callable[..., Any], x: Sequence[View]) -> list[View]:
        """Read the equations that a function of arrays consists of."""
        types = [jax.ShapeDtypeStruct(view.shape, np.dtype(view.dtype)) for view in x]
        try:
            with without_mesh():
                closed = jax.make_jaxpr(function)(*types)
        except UnfitError:
            raise
        except (BrainEventError, NotImplementedError, TypeError, ValueError) as error:
            raise UnfitError(str(error).strip().partition("\n")[0]) from error
        if closed.effects:
            raise UnfitError("an operator with side effects")
        return self.walk(closed, x, follow=False)

    def _kernel(self, definition: Any, eqn: Any) -> Callable[..., Any]:
        """Return the chosen kernel of an operator as a function of arrays."""
        params = dict(eqn.params)
        outs = params.pop("outs")
        operands = [v.aval for v in eqn.invars]
        return self.tables.kernel(chosen_kernel(definition, self.platform, operands, outs, params), outs, operands)

    def _elementwise(self, eqn: Any, x: list[View]) -> list[View] | None:
        """Return the result of an elementwise equation, or None if it is of another kind."""
        name, aval = eqn.primitive.name, eqn.outvars[0].aval
        dtypes = [view.dtype for view in x]
        try:
            lowering = Lowering("loop", follow=False, wide=True)
            if (operation := scalar_operation(lowering, eqn)) is None:
                return None
            for dtype in (*dtypes, aval.dtype):
                check_dtype(dtype, f"{name} of numbers")
            names = [Name(f"x{place}", held(dtype)) for place, dtype in enumerate(dtypes)]
            result = operation(
                *(as_held(v.base) if isinstance(v.base, Constant) else n for v, n in zip(x, names, strict=True))
            )
        except (RuleError, TypeError, KeyError) as error:
            raise UnfitError(f"{name} of {', '.join(dtypes)}") from error
        if isinstance(result, Constant):
            return [self.of_value(np.broadcast_to(np.asarray(result.value, aval.dtype), aval.shape))]
        self._check_bitcast(eqn, x)
        key = (name, str(sorted(eqn.params.items(), key=str)), tuple(x))
        if key not in self._known:
            self._known[key] = [self.lane(x, tuple(aval.shape), str(aval.dtype), eqn)]
        return self._known[key]

    def _check_bitcast(self, eqn: Any, x: Sequence[View]) -> None:
        """Raise where bits become a float that may be denormal: here it would be zero, and its bits would be lost."""
        if eqn.primitive.name != "bitcast_convert_type" or str(eqn.params["new_dtype"]) not in _EXPONENTS:
            return
        if x[0].dtype in _EXPONENTS or self._are_normal(x[0]):
            return
        raise UnfitError("a bitcast of integers to floats, whose bits may be those of a denormal number")

    def _are_normal(self, bits: View) -> bool:
        """Say whether bits are not those of a denormal number: its exponent is given, or that of a computed one."""
        name, operands = self._made_by(bits)
        known = [int(v.base.value) for v in operands if isinstance(v.base, Constant)]
        if name == "or":
            exponent = _EXPONENTS["float64" if bits.dtype in WIDE_INTEGERS else "float32"]
            return any(value & exponent for value in known)
        if name != "shift_left" or not known or known[0] > _FRACTION:
            return False
        name, operands = self._made_by(operands[0])  # the last bits of a number are cut off
        if name != "shift_right_logical" or [getattr(v.base, "value", None) for v in operands[1:]] != known:
            return False
        name, operands = self._made_by(operands[0])
        if name != "bitcast_convert_type" or operands[0].dtype != "float32":
            return False
        return self._made_by(operands[0])[0] in _COMPUTED

    def _made_by(self, view: View) -> tuple[str, Sequence[View]]:
        """Return the name of the equation that makes an array, and its operands."""
        maker = next((node for node in self.nodes if view.base in node.outs), None)
        if maker is None or maker.equation is None:
            return "", ()
        return maker.equation.primitive.name, maker.ins

    def _opened(self, eqn: Any, x: list[View]) -> list[View]:
        """Read what a primitive of another package, or of JAX itself, is made of."""
        name = eqn.primitive.name
        try:
            inner = opened(eqn)
        except NotImplementedError as error:
            raise UnfitError(f"the JAX primitive {name}") from error
        if inner is None:
            raise UnfitError(f"the JAX primitive {name}")
        return self.walk(inner, x, follow=False)


# Calls that only move elements, and kernels.
_OF_HALVES = ("native_call", "concatenate", "dynamic_slice", "dynamic_update_slice", "pad")


def users_line(eqn: Any) -> str:
    """Return the line of an equation, "file:line", in a file outside of this package, or an empty string."""
    return source_line(eqn, _PACKAGE)


def _in_wider(eqn: Any, narrow: Sequence[str], wider: Any) -> Callable[..., Any]:
    """Return what an equation of narrow dtypes does as one of a wider dtype, rounded or wrapped at its end."""
    params, found = dict(eqn.params), [var.aval.dtype for var in eqn.outvars]
    if params.get("preferred_element_type") is not None:
        params["preferred_element_type"] = wider
    if "dtype" in params or len(found) != 1:
        raise UnfitError(f"{eqn.primitive.name} of {found[0]}")

    def widened(*x: Any) -> Any:
        wide = [each.astype(wider) if str(each.dtype) in narrow else each for each in x]
        return (eqn.primitive.bind(*wide, **params).astype(found[0]),)

    return widened


def _without_elements(aval: Any) -> np.ndarray:
    return np.zeros(aval.shape, check_dtype(aval.dtype, "an array without elements"))
