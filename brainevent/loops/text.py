# SPDX-License-Identifier: Apache-2.0
"""The text of a loop for Numba: a function of all steps, which calls loops over elements and kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ..scalar.form import Form, Name
from .cleared import cleared_sums, of_loop
from .copies import Helper, bound, indented
from .lanes import form_of_nodes
from .named import Named
from .plan import Plan
from .pulses import steps_of, steps_while
from .threads import Shared, is_shared, threads_for
from .values import HALVES, Array, Node, Texts, View, held, whole

__all__ = ["LoopText", "text_of"]


@dataclass(frozen=True)
class LoopText:
    """The function `fused_loop(inputs, results, memory)`, with what it calls by name, and its forms.

    `memory` are arrays that the function needs, in the order of its last arguments. The text calls
    `part(array, begin, shape)`, elements from a place on as an array, `unknown(n)`, which is n, functions that set how
    floats are flushed, and the pulse of long loops.
    """

    text: str
    helpers: dict[str, Any]
    forms: tuple[Form, ...]
    memory: tuple[Array, ...]


def text_of(plan: Plan) -> LoopText:
    """Write a plan."""
    return _Writer(plan).written()


class _Writer(Named[str]):
    def __init__(self, plan: Plan, around: _Writer | None = None):
        super().__init__(plan)
        self.helpers: dict[str, Any] = {} if around is None else around.helpers
        self.forms: list[Form] = [] if around is None else around.forms
        self.views: dict[str, str] = {}  # names of arrays in other shapes, by their text: made before the first step
        self.is_within = around is not None  # carries are then in the results when the function is called
        threads = 1 if self.is_within else threads_for(plan)
        self.shared = Shared(threads) if threads > 1 else None
        self.cleared = cleared_sums(plan)

    def written(self) -> LoopText:
        body = ["before = flush_floats()", *self._function(), "restore_floats(before)"]
        if self.shared is not None:
            lines = self.shared.functions(body, self._arguments())
        else:
            lines = [f"def fused_loop({self._arguments()}):", *indented(body)]
        return LoopText("\n".join(lines), self.helpers, tuple(self.forms), self.plan.memory)

    def nested(self, plan: Plan) -> str:
        """Return the name of the function that a loop or a branch within this one becomes."""
        writer = _Writer(plan, self)
        body = writer._function()
        return self.function("within", Helper(writer._arguments(), tuple(body), apart=False))

    def _arguments(self) -> str:
        given = (a for a in self.plan.inputs if not (self.is_within and a.home == "carry"))
        names = [*(f"p{array.number}" for array in given), *(f"o{i}" for i in self.plan.outs)]
        return ", ".join([*names, *(f"b{array.number}" for array in self.plan.memory)])

    def _function(self) -> Texts:
        """Return the lines of the function."""
        plan = self.plan
        before, head = self._stages(plan.before), self._stages(plan.head)
        step = [*self._beginning(), *self._stages(plan.step), *self._end()]
        entry, tail = self._entry(), self._exit()
        views = [f"{name} = {text}" for text, name in self.views.items()]
        if plan.length is None:
            loop = steps_while(plan, head, self._go(), step)
        else:
            counter = f"{plan.length - 1} - step" if plan.reverse else "step"
            loop = steps_of(plan, [f"t = {counter}", *step], shows=not self.is_within)
        return [*entry, *views, *before, *loop, *tail]

    def _go(self) -> str:
        """Return the text of the scalar that says whether there is a further step."""
        base = None if self.plan.go is None else self.plan.go.base
        if isinstance(base, Array):
            return self._scalar_text(base)
        return str(base is None or bool(base.value))

    # ---- the parts of the function

    def _entry(self) -> Texts:
        """Copy what is carried into the results; scalars into registers."""
        lines = []
        for array in self.plan.inputs:
            if array.home == "row":
                continue
            if array.shape == ():
                within = self.is_within and array.home == "carry"
                source = f"o{self.plan.carries[array.number]}" if within else f"p{array.number}"
                lines.append(f"c{array.number} = {_read(f'{source}[()]', array.dtype)}")
            elif array.home == "carry" and not self.is_within:
                lines.append(self._copied(f"o{self.plan.carries[array.number]}", f"p{array.number}"))
        sums = [array for array, how in self.cleared.items() if how.first_cleared]
        if sums:
            self.helpers.setdefault("clear", _CLEAR)
        lines += [f"clear({self._flat(array)})" for array in sums]
        return [*lines, *(f"in_large_pages(o{i})" for i in sorted(self.plan.rows) if self._has_many_rows(i))]

    def _has_many_rows(self, i: int) -> bool:
        """Say whether the rows of a result take so much memory that clearing its pages takes time."""
        array = self.plan.outs[i]
        nbytes = (self.plan.length or 0) * array.size * jnp.dtype(array.dtype).itemsize
        return nbytes >= _LARGE and not self.is_within

    def _beginning(self) -> Texts:
        """Find the rows of a step."""
        rows = [array for array in self.plan.inputs if array.home == "row"]
        lines = [f"c{a.number} = {_read(f'p{a.number}[t]', a.dtype)}" for a in rows if not a.shape]
        lines += [_row(f"r{array.number}", f"p{array.number}", array) for array in rows if array.shape]
        outs = [(i, array) for i, array in self.plan.outs.items() if i in self.plan.rows and array.shape]
        return lines + [_row(f"y{i}", f"o{i}", array) for i, array in outs]

    def _end(self) -> Texts:
        """Store what is not stored yet, and let carried scalars take their new values, all at once."""
        plan = self.plan
        lines = [self._copied(self._result(i), self._flat(array)) for i, array in plan.late]
        carried = plan.carries.values()
        once = (i for i, array in plan.outs.items() if i not in carried and not array.shape)
        for i in once:
            value = _stored(self._scalar_text(plan.outs[i]), plan.outs[i].dtype)
            lines.append(f"o{i}[{'t' if i in plan.rows else '()'}] = {value}")
        scalars = [number for number in plan.carries if not plan.inputs[number].shape]
        if scalars:
            new = (self._scalar_text(plan.outs[plan.carries[number]]) for number in scalars)
            lines.append(f"{', '.join(f'c{number}' for number in scalars)} = {', '.join(new)}")
        return lines

    def _exit(self) -> Texts:
        scalars = ((number, i) for number, i in self.plan.carries.items() if not self.plan.inputs[number].shape)
        return [f"o{i}[()] = {_stored(f'c{number}', self.plan.inputs[number].dtype)}" for number, i in scalars]

    def _copied(self, to: str, source: str) -> str:
        """Copy an array into another: by a loop, as Numba's assignment of arrays looks for overlaps."""
        self.helpers.setdefault("copied", _COPIED)
        return f"copied({to}, {source})"

    # ---- names of values

    def _argument(self, view: View, scalar: bool) -> str:
        """Return the text of a call's operand: a scalar, or an array in its shape."""
        array = view.base
        assert isinstance(array, Array)
        if array.shape == ():
            if scalar:
                return _stored(self._scalar_text(array), array.dtype)
            return f"{'b' if array.home == 'made' else 'p'}{array.number}"
        return self._part(self._flat(array), array, view.offset, view.shape)

    def _part(self, flat: str, array: Array, offset: int, shape: tuple[int, ...]) -> str:
        """Return the name of a part of an array that has a shape."""
        return flat if shape == (array.size,) else self.once(f"part({flat}, {offset}, {shape})")

    def once(self, text: str) -> str:
        """Return the name of what is made before the first step, unless it is made of a row of this step."""
        if text.isidentifier() or re.search(r"\b[ry]\d", text):
            return text
        return self.views.setdefault(text, f"v{len(self.views)}")

    def function(self, kind: str, thing: Any) -> str:
        """Return the name of a function that the text calls: one for all that are equal."""
        known = next((name for name, each in self.helpers.items() if each == thing and type(each) is type(thing)), None)
        name = known or f"{kind}{len(self.helpers)}"
        self.helpers[name] = thing
        return name

    # ---- nodes

    def _call(self, node: Node) -> Texts:
        assert node.call is not None
        call = (node.call.of_zeros if node.outs[0] in self.cleared else None) or node.call
        operands = [self._argument(view, place in node.call.scalars) for place, view in enumerate(node.ins)]
        results = []
        for array in node.outs:
            if array.shape == ():
                results.append(f"b{array.number}")
            else:
                results.append(self._part(self._flat(array), array, 0, array.shape))
        lines = call.write(operands, results, self)
        scalars = (array for array in node.outs if array.shape == ())
        return lines + [f"s{a.number} = {_read(f'b{a.number}[()]', a.dtype)}" for a in scalars]

    def _scalars(self, nodes: Sequence[Node]) -> Texts:
        reads: _Reads = {}
        outs = [array for node in nodes for array in node.outs if self._is_read_outside(array, nodes)]
        form = self._form(nodes, outs, _Axes((), ()), reads)
        targets = ", ".join(f"s{array.number}" for array in outs)
        passed = (_read(text + index, dtype) if index else text for text, index, dtype in reads)
        return [f"{targets} = be_{form}({', '.join(passed)})"]

    def _loop(self, nodes: Sequence[Node]) -> Texts:
        """Write the call of a new function, which loops over elements."""
        stored = [array for node in nodes for array in node.outs if self.plan.places[array]]
        axes = _Axes.of(nodes[0].shape, [view for node in nodes for view in node.ins])
        reads: _Reads = {}
        form = self._form(nodes, stored, axes, reads)
        arrays: dict[str, str] = {}
        for text, index, _ in reads:
            if index:
                arrays.setdefault(text, f"a{len(arrays)}")
        sums = of_loop(self.cleared, nodes)
        scalars = {text: name.text for (text, index, _), name in reads.items() if not index}
        passed = (_read(f"{arrays[text]}{index}", dtype) if index else scalars[text] for text, index, dtype in reads)
        body = [f"{', '.join(f'x{k}' for k in range(len(stored)))} = be_{form}({', '.join(passed)})"]
        for k, array in enumerate(stored):
            for place in map(self._place, self.plan.places[array]):
                local = arrays.setdefault(place, f"a{len(arrays)}")
                body.append(f"{local}{axes.index(whole(array))} = {_stored(f'x{k}', array.dtype)}")
        body += [f"{arrays[self._flat(read)]}{axes.index(view)} = 0" for read, view in sums]
        ends = [*map(str, axes.shape[:-1]), bound(axes.shape[-1])]
        interleaved = axes.shape[-1] >= _LONG_AXIS and _length(self.forms[-1]) >= _LONG_FORM
        shared = self.shared if is_shared(nodes) else None
        for axis in reversed(range(shared is not None, len(ends))):
            body = [f"for i{axis} in range(np.uint64({ends[axis]})):", *indented(body)]
        names = [*arrays.values(), *scalars.values()]
        if shared is None:
            helper = Helper(", ".join(names), tuple(body), interleaved=interleaved)
            return [f"{self.function('loop', helper)}({', '.join([*arrays, *scalars])})"]
        body = ["for j0 in range(np.uint64(count)):", *indented(["i0 = np.uint64(begin) + j0", *body])]
        helper = Helper(", ".join([*names, "begin", "count"]), tuple(body), interleaved=interleaved)
        name = self.function("loop", helper)
        bases = [view.base for node in nodes for view in node.ins if isinstance(view.base, Array)]
        found = {
            self._flat(base): base for base in bases if base.shape and (base.home != "made" or self.plan.places[base])
        }
        found |= {self._place(place): array for array in stored for place in self.plan.places[array]}
        types = {text: found[text] for text in arrays}
        of_scalars = {text: key.dtype for (text, index, _), key in reads.items() if not index}
        return shared.called(self, name, types, of_scalars, axes.shape[0])

    def _form(self, nodes: Sequence[Node], outs: Sequence[Array], axes: _Axes, reads: _Reads) -> str:
        """Write elementwise nodes as a form, and return its name; its inputs are `reads`."""

        def read(view: View) -> tuple[tuple[str, str, str], str]:
            assert isinstance(view.base, Array)
            scalar = view.base.shape == ()
            place = (self._scalar_text(view.base), "") if scalar else (self._flat(view.base), axes.index(view))
            return (*place, view.dtype), held(view.dtype)

        name = f"lanes{len(self.forms)}"
        self.forms.append(form_of_nodes(name, nodes, outs, reads, read))
        return name


_LARGE = 2**24  # bytes of a result
_LONG_FORM = 40  # lines, most of which wait for others: with a second vector, the processor has more to do meanwhile
_LONG_AXIS = 256  # elements, so that few are left when several vectors are computed at a time


def _length(form: Form) -> int:
    """Return the number of lines of a form, with those of the functions that it calls."""
    return len(form.lines) + sum(len(function.lines) for function in form.functions)


_CLEAR = Helper("to", ("for i in range(np.uint64(to.size)):", "    to[i] = 0"))
_COPIED = Helper("to, source", ("for i in range(np.uint64(to.size)):", "    to[i] = source[i]"))
# Inputs of a form, by the text of an array and an index, of a scalar without, and the dtype that is read.
_Reads = dict[tuple[str, ...], Name]


@dataclass(frozen=True)
class _Axes:
    """The axes of a loop over elements: `groups` of the axes of views that follow each other in memory in all views."""

    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(shape: tuple[int, ...], views: Sequence[View]) -> _Axes:
        """Join the axes of a shape as far as possible."""
        wide = [view for view in views if view.shape == shape and not view.is_uniform]
        groups: list[list[int]] = []
        for axis in (axis for axis, n in enumerate(shape) if n != 1):
            last = groups[-1][-1] if groups else None
            if last is not None and all(v.strides[last] == v.strides[axis] * shape[axis] for v in wide):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        groups = groups or [[0]]
        return _Axes(tuple(math.prod(shape[axis] for axis in g) for g in groups), tuple(map(tuple, groups)))

    def index(self, view: View) -> str:
        """Return the place of an element in memory, in unsigned numbers, which index arrays without a test."""
        text = f"np.uint64({view.offset})" if view.offset else ""
        for number, group in enumerate(self.groups):
            stride = view.strides[group[-1]] if view.strides else 0
            if stride:
                step = f"i{number}" if abs(stride) == 1 else f"i{number} * np.uint64({abs(stride)})"
                sign = "-" if stride < 0 else "+"
                text = f"{text} {sign} {step}" if text else step
        return f"[{text or 'np.uint64(0)'}]"


def _read(text: str, dtype: str) -> str:
    """Return an element of a narrow dtype as it is computed with."""
    if dtype in HALVES:
        return f"half.from_{dtype}({text})"
    return text if held(dtype) == dtype else f"np.{held(dtype)}({text})"


def _stored(text: str, dtype: str) -> str:
    return f"half.to_{dtype}({text})" if dtype in HALVES else text


def _row(name: str, rows: str, array: Array) -> str:
    """Return the line that finds the row of this step of an array."""
    return f"{name} = part({rows}, t * {array.size}, ({array.size},))"
