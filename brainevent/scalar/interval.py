# SPDX-License-Identifier: Apache-2.0
"""Bounds of a form's outputs, given bounds of its inputs, for many boxes of inputs at once.

They are wide enough for all engines: each operation widens them by more than it rounds. An interval from -inf to inf
may also be NaN; no other may. Booleans are intervals of 0 and 1. What is not known here has no bounds. Bounds are the
same on every machine: they follow from sums, products, quotients and roots of float64, and from functions of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .form import FLOATS, Assign, Branch, Constant, Form, Line, Loop, Operand
from .interpret import interpret

__all__ = ["bounds_of"]

Array = Any
Interval = tuple[Array, Array]

_WIDER = 2.0**-22  # of a result, more than float32 rounds it by
_WIDER_FUNCTION = 2.0**-18  # likewise, more than the largest error of a function
_TINY = 2.0**-126
_LARGEST = float(np.finfo(np.float32).max)
_INTEGERS = {"int32": (-(2.0**31), 2.0**31 - 1), "uint32": (0.0, 2.0**32 - 1)}
_RISING = ("exp", "exp2", "expm1", "log", "log1p", "log2", "tanh", "logistic", "erf", "atan", "asinh", "cbrt")
_FROM = {"log": 0.0, "log2": 0.0, "log1p": -1.0}  # below which there is no value
_WHOLE_STEPS: dict[str, Callable[[Array], Array]] = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}


def bounds_of(
    form: Form, lows: Sequence[Array], highs: Sequence[Array], *, without_nan: bool = False
) -> list[Interval]:
    """Return the smallest and the largest value that each output may have, float64, in each of many boxes.

    `lows` and `highs` are float64 of one shape, for each input. If the values are checked when they are computed,
    `without_nan=True` gives bounds of those for which no operation returns NaN: so the larger of 0 and of what is not
    known is at least 0.
    """
    shape = np.shape(lows[0]) if len(lows) else (1,)
    run = _Bounds(form, shape, without_nan)
    with np.errstate(all="ignore"):
        for name, low, high in zip(form.inputs, lows, highs, strict=True):
            run.known[name.text] = (np.asarray(low, float), np.asarray(high, float))
        run.lines(form.lines)
        return [run.read(output) for output in form.outputs]


class _Bounds:
    """Bounds of all names of a form."""

    def __init__(self, form: Form, shape: tuple[int, ...], without_nan: bool):
        self.shape, self.known, self.without_nan = shape, dict[str, Interval](), without_nan
        self.functions = {function.name: function for function in form.functions}

    def read(self, operand: Operand) -> Interval:
        if isinstance(operand, Constant):
            value = np.full(self.shape, float(operand.value))
            return _without_nan(value, value)
        return self.known[operand.text]

    def lines(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if isinstance(line, Assign):
                self.known[line.target.text] = self.assigned(line)
            elif isinstance(line, Loop):
                self.known |= {name.text: self.anything(name.dtype) for name in line.carries}
            else:
                self.branch(line)

    def anything(self, dtype: str) -> Interval:
        """Return bounds of what is not known."""
        low, high = (0.0, 1.0) if dtype == "bool" else _INTEGERS.get(dtype, (-np.inf, np.inf))
        return np.full(self.shape, low), np.full(self.shape, high)

    def branch(self, branch: Branch) -> None:
        self.lines(branch.then)
        self.lines(branch.otherwise)
        condition = self.read(branch.condition)
        for target, a, b in zip(branch.targets, branch.then_results, branch.otherwise_results, strict=True):
            self.known[target.text] = _selected(condition, self.read(a), self.read(b))

    def assigned(self, line: Assign) -> Interval:
        x, dtype = [self.read(operand) for operand in line.operands], line.target.dtype
        given = line.operands[0].dtype
        if line.op == "select":
            return _selected(*x)
        if line.op in _COMPARED:
            return _compared(line.op, *x)
        if dtype == "bool":
            return _LOGIC[line.op](*x) if line.op in _LOGIC and given == "bool" else self.anything(dtype)
        if line.op == "convert":
            return self.converted(x[0], given, dtype)
        if dtype == "float32" and given == "float32":
            return self.of_floats(line.op, x)
        if dtype in _INTEGERS and line.op in _OF_INTEGERS:
            return self.within(dtype, *_OF_INTEGERS[line.op](*x))
        return self.anything(dtype)

    def within(self, dtype: str, low: Array, high: Array) -> Interval:
        """Return bounds of integers, which wrap if they are beyond those of their dtype."""
        least, most = _INTEGERS[dtype]
        wraps = ~((low >= least) & (high <= most))
        return np.where(wraps, least, low), np.where(wraps, most, high)

    def converted(self, x: Interval, given: str, dtype: str) -> Interval:
        if dtype in FLOATS:
            low, high = x if given == "bool" else _widened(*x, _WIDER)
            least, most = _INTEGERS.get(given, (-np.inf, np.inf))
            unknown = (x[0] == least) & (x[1] == most)
            return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        if given in FLOATS:
            least, most = _INTEGERS[dtype]
            low, high = (np.clip(np.trunc(end), least, most) for end in x)
            return np.where(_is_full(x), least, low), np.where(_is_full(x), most, high)
        return self.within(dtype, *x)

    def of_floats(self, op: str, x: list[Interval]) -> Interval:
        full = np.logical_or.reduce([_is_full(one) for one in x])
        full &= not (self.without_nan and op in ("max", "min"))
        function = self.functions.get(op)
        if op in _ARITHMETIC:
            low, high = _ARITHMETIC[op](*x)
            if op in ("mul", "add", "sub", "div", "rem", "sqrt"):
                low, high = _widened(low, high, _WIDER)
            if op == "mul" and x[0][0] is x[1][0]:  # a square
                low = np.maximum(low, 0.0)
        elif op in _WHOLE_STEPS:
            low, high = (_WHOLE_STEPS[op](end) for end in x[0])
        elif function is not None and op in _RISING:
            low, high = _risen(function, *x[0], _FROM.get(op, -np.inf))
        elif function is not None and op in ("sin", "cos"):
            low, high = _waved(function, *x[0], 0.0 if op == "cos" else 0.25)
        else:
            return self.anything("float32")
        low, high = np.where(full, -np.inf, low), np.where(full, np.inf, high)
        return _without_nan(low, high)


def _is_full(x: Interval) -> Array:
    return np.isneginf(x[0]) & np.isposinf(x[1])


def _without_nan(low: Array, high: Array) -> Interval:
    """Return bounds, of which those that are NaN become none, and those that float32 does not hold infinite."""
    wrong = np.isnan(low) | np.isnan(high)
    low, high = np.where(wrong | (low < -_LARGEST), -np.inf, low), np.where(wrong | (high > _LARGEST), np.inf, high)
    return np.where(low > _LARGEST, _LARGEST, low), np.where(high < -_LARGEST, -_LARGEST, high)


def _widened(low: Array, high: Array, by: float) -> Interval:
    """Return wider bounds; what is below the smallest normal number may have become zero."""
    low, high = low - np.abs(low) * by, high + np.abs(high) * by
    return np.where((low > 0) & (low < 2 * _TINY), 0.0, low), np.where((high < 0) & (high > -2 * _TINY), 0.0, high)


def _corners(operation: Callable[[Array, Array], Array], a: Interval, b: Interval) -> Interval:
    ends = [operation(x, y) for x in a for y in b]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _divided(a: Interval, b: Interval) -> Interval:
    low, high = _corners(np.divide, a, b)
    none = (b[0] <= 0) & (b[1] >= 0)
    return np.where(none, -np.inf, low), np.where(none, np.inf, high)


def _remainder(a: Interval, b: Interval) -> Interval:
    """Return bounds of C's fmod by one number: within one period the rest, else all that there are."""
    by = np.abs(b[0])
    periods = [np.trunc(end / by) for end in a]
    # Quotients that are rounded up to a whole number belong to the period before.
    same = (periods[0] == periods[1]) & (np.trunc(a[0] / by * (1 - _WIDER)) == np.trunc(a[1] / by * (1 + _WIDER)))
    same &= np.trunc(a[0] / by * (1 + _WIDER)) == np.trunc(a[1] / by * (1 - _WIDER))
    low = np.where(same, a[0] - periods[0] * by, np.where(a[0] < 0, -by, 0.0))
    high = np.where(same, a[1] - periods[1] * by, np.where(a[1] > 0, by, 0.0))
    slack = np.where(same, np.maximum(np.abs(a[0]), np.abs(a[1])) * _WIDER, 0.0)  # by which a difference is rounded
    low, high = low - slack, high + slack
    none = (b[0] != b[1]) | ~(by > 0) | ~np.isfinite(a[0]) | ~np.isfinite(a[1])
    return np.where(none, -np.inf, low), np.where(none, np.inf, high)


def _rooted(a: Interval) -> Interval:
    none = a[0] < 0
    return np.where(none, -np.inf, np.sqrt(a[0])), np.where(none, np.inf, np.sqrt(a[1]))


def _absolute(a: Interval) -> Interval:
    low, high = np.abs(a[0]), np.abs(a[1])
    return np.where((a[0] <= 0) & (a[1] >= 0), 0.0, np.minimum(low, high)), np.maximum(low, high)


_ARITHMETIC: dict[str, Callable[..., Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _corners(np.multiply, a, b),
    "div": _divided,
    "rem": _remainder,
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "sqrt": _rooted,
    "max": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "min": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "copy": lambda a: a,
}


def _whole_quotient(a: Interval, b: Interval) -> Interval:
    """Return bounds of a quotient of integers, rounded towards 0; none if the divisor may be 0."""
    low, high = (np.trunc(end) for end in _corners(np.divide, a, b))
    none = (b[0] <= 0) & (b[1] >= 0)
    return np.where(none, -np.inf, low), np.where(none, np.inf, high)


def _whole_rest(a: Interval, b: Interval) -> Interval:
    """Return bounds of C's remainder of integers, which has the sign of the dividend."""
    most = np.maximum(np.abs(b[0]), np.abs(b[1])) - 1
    none = (b[0] <= 0) & (b[1] >= 0)
    low, high = np.where(a[0] < 0, np.maximum(a[0], -most), 0.0), np.where(a[1] > 0, np.minimum(a[1], most), 0.0)
    return np.where(none, -np.inf, low), np.where(none, np.inf, high)


def _common_bits(a: Interval, b: Interval) -> Interval:
    """Return bounds of the bits that two integers have in common: 0 to the smaller one, if none is negative."""
    least = np.where((a[0] >= 0) | (b[0] >= 0), 0.0, -np.inf)
    return least, np.where((a[0] >= 0) & (b[0] >= 0), np.minimum(a[1], b[1]), np.maximum(a[1], b[1]))


_OF_INTEGERS: dict[str, Callable[..., Interval]] = {
    **{op: _ARITHMETIC[op] for op in ("add", "sub", "mul", "neg", "abs", "max", "min")},
    "div": _whole_quotient,
    "rem": _whole_rest,
    "and": _common_bits,
}


def _value(function: Form, x: Array) -> Array:
    """Return a function of our own of float32 numbers."""
    found = interpret(function, [np.asarray(x, np.float32).reshape(-1)])[0]
    return found.astype(float).reshape(np.shape(x))


def _outward(low: Array, high: Array) -> Interval:
    """Return bounds as numbers of float32."""
    near = np.asarray(low, np.float32), np.asarray(high, np.float32)
    return (
        np.where(near[0] > low, np.nextafter(near[0], np.float32(-np.inf)), near[0]),
        np.where(near[1] < high, np.nextafter(near[1], np.float32(np.inf)), near[1]),
    )


def _risen(function: Form, low: Array, high: Array, first: float) -> Interval:
    """Return bounds of a function that rises from `first` on, and has no value below."""
    none = low < first
    low, high = _outward(low, high)
    low = np.maximum(low, np.float32(first))
    ends = _widened(_value(function, low), _value(function, high), _WIDER_FUNCTION)
    return np.where(none, -np.inf, ends[0]), np.where(none, np.inf, ends[1])


def _waved(function: Form, low: Array, high: Array, turn: float) -> Interval:
    """Return bounds of a wave whose crests are at whole turns, and a part of one."""
    none = ~(np.isfinite(low) & np.isfinite(high))
    low, high = _outward(np.where(none, 0.0, low), np.where(none, 0.0, high))
    ends = _value(function, low), _value(function, high)
    slack = 1e-4  # turns: near a crest or a trough counts as there
    first, last = (np.asarray(end, float) / (2 * np.pi) - turn for end in (low, high))
    crest = np.ceil(first - slack) <= last + slack
    trough = np.ceil(first - 0.5 - slack) <= last - 0.5 + slack
    most = np.where(crest, 1.0, np.maximum(*ends)) + _WIDER_FUNCTION
    least = np.where(trough, -1.0, np.minimum(*ends)) - _WIDER_FUNCTION
    far = np.maximum(np.abs(first), np.abs(last)) > 2.0**10  # where turns are not known to the slack
    least, most = np.where(far, -1.0 - _WIDER_FUNCTION, least), np.where(far, 1.0 + _WIDER_FUNCTION, most)
    return np.where(none, -np.inf, least), np.where(none, np.inf, most)


def _selected(condition: Interval, a: Interval, b: Interval) -> Interval:
    """Return the bounds of a where a condition always holds, those of b where it never does, else of both."""
    never, always = condition[1] == 0, condition[0] == 1
    low = np.where(always, a[0], np.where(never, b[0], np.minimum(a[0], b[0])))
    high = np.where(always, a[1], np.where(never, b[1], np.maximum(a[1], b[1])))
    either = ~always & ~never & (_is_full(a) | _is_full(b))
    return np.where(either, -np.inf, low), np.where(either, np.inf, high)


_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


def _compared(op: str, a: Interval, b: Interval) -> Interval:
    """Return whether a comparison always holds, and whether it may; one with NaN holds only for `ne`."""
    if op in ("gt", "ge"):
        return _compared({"gt": "lt", "ge": "le"}[op], b, a)
    if op in ("eq", "ne"):
        same = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
        apart = (a[1] < b[0]) | (b[1] < a[0])
        always, may = (same, ~apart) if op == "eq" else (apart, ~same)
    elif op == "lt":
        always, may = a[1] < b[0], a[0] < b[1]
    else:
        always, may = a[1] <= b[0], a[0] <= b[1]
    unknown = _is_full(a) | _is_full(b)
    return np.where(unknown, 0.0, always), np.where(unknown, 1.0, may)


_LOGIC: dict[str, Callable[..., Interval]] = {
    "and": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "or": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "not": lambda a: (1 - a[1], 1 - a[0]),
}
