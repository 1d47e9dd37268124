# SPDX-License-Identifier: Apache-2.0
"""Which loops are faster as one native call: by how much a step is shorter or longer than in XLA's loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .plan import Plan
from .threads import threads_for
from .values import Node, is_packed

__all__ = ["CALIBRATION", "Calibration", "extra_time", "why_not_faster", "why_too_short"]

_OF_FUNCTIONS = {
    "acos": -13.6, "acosh": 0.7, "asin": -10.5, "asinh": 0.7, "atan": -6.7, "atan2": -6.7, "atanh": -1.5,
    "cbrt": -12.3, "cos": 4.3, "cosh": 0.7, "erf": 2.4, "erf_inv": 1.5, "erfc": 1.9, "exp": 0.7, "exp2": 0.7,
    "expm1": 0.25, "log": 0.4, "log1p": 0.0, "logistic": 0.8, "pow": -4.1, "rsqrt": 0.15, "sin": 4.3, "sinh": 0.7,
    "tan": 7.6, "tanh": 1.9,
}  # fmt: skip

# Of float64: the larger of the times with arguments of two ranges, since some of these functions have branches.
_OF_DOUBLES = {
    "acos": -9.8, "acosh": 2.4, "asin": -6.8, "asinh": 1.5, "atan": 4.5, "atan2": 2.6, "atanh": 7.2, "cbrt": 6.5,
    "cos": -5.2, "cosh": 2.4, "erf": 0.0, "erf_inv": 106.0, "erfc": -0.2, "exp": 2.15, "exp2": 0.9, "expm1": 2.6,
    "log": 0.3, "log1p": 6.8, "logistic": 9.2, "pow": -4.3, "rsqrt": -0.2, "sin": 0.0, "sinh": 5.6, "tan": 0.0,
    "tanh": 15.4,
}  # fmt: skip

_OF_NARROW = {"float16": 9.0, "bfloat16": 1.9, "int8": 0.03, "int16": 0.015}


@dataclass(frozen=True)
class Calibration:
    """Where XLA's loop begins to win, measured by `benchmarks/fused_loops.py`.

    It was run on two cores of an Intel Xeon with AVX-512 (2026-11-27). Times are nanoseconds by which the native loop
    is slower, and negative where it is faster.
    """

    least_steps: int = 32  # below, compiling takes longer than the loop
    most_equations: int = 4_000  # above, compiling takes a minute or more
    most_elements: int = 400_000  # of loops over elements in a step, which XLA computes in threads, if this has none
    step: float = -10.0
    call: float = -200.0  # of a kernel of an operator
    random_word: float = -4.0
    stored: float = -0.2  # of an element of a further array of a loop over elements: XLA computes each by itself
    array: float = 8.0  # of a further array of a loop over elements, besides its elements
    by_vector: tuple[float, float] = (150.0, 0.005)  # of a product of a matrix and a vector, and of a multiplication
    by_vector_called: float = -60.0  # of one of float32 numbers that XLA neither computes in place nor in threads:
    called: tuple[int, int] = (32, 64)  # with so many rows and columns, at least and at most
    by_matrix: tuple[float, float] = (-100.0, 0.18)  # of a product of two matrices
    copied: float = 0.1  # of an element that is copied at the end of a step, as it could not be made in place
    short_row: float = 0.4  # of an element of an array whose rows have fewer than 16, in calls between loops but sums
    short_loop: float = 0.3  # of an element of a loop over elements in rows of 9 to 11, which LLVM unrolls
    moved: float = 0.1  # of an element of a slice at a computed place, beyond those that the first cache holds
    joined: float = 0.7  # of an element of arrays that are concatenated along another axis than the first
    extreme_of_row: float = 1.1  # of an element of a row whose largest or smallest is found
    narrow: Mapping[str, float] = field(default_factory=lambda: _OF_NARROW)  # of an equation of an element, by dtype
    calls: Mapping[str, float] = field(
        default_factory=lambda: {"argmax": 0.3, "argmin": 0.3, "pad": 0.1}
    )  # of an element
    functions: Mapping[str, float] = field(default_factory=lambda: _OF_FUNCTIONS)  # of an element, by JAX's primitive
    of_doubles: Mapping[str, float] = field(default_factory=lambda: _OF_DOUBLES)  # the same of float64


CALIBRATION = Calibration()


def why_too_short(length: int, calibration: Calibration = CALIBRATION) -> str | None:
    """Return why a loop of this number of steps is not worth compiling, or None."""
    if length >= calibration.least_steps:
        return None
    return f"{length} steps are too few: at least {calibration.least_steps} are worth compiling"


def why_not_faster(plan: Plan, calibration: Calibration | None = None) -> str | None:
    """Return why XLA's loop is expected to be faster, or None."""
    calibration = calibration or CALIBRATION
    if plan.length is not None and (too_short := why_too_short(plan.length, calibration)) is not None:
        return too_short
    if (count := _equations(plan)) > calibration.most_equations:
        return f"its body has {count} equations, which take too long to compile"
    elements = sum(math.prod(loop[0].shape) for stage in (*plan.head, *plan.step) for loop in stage.loops)
    if elements > calibration.most_elements and threads_for(plan) == 1:
        return f"a step computes {elements} elements, which XLA does in threads"
    times = extra_time(plan, calibration)
    if sum(times.values()) <= 0:
        return None
    return f"XLA's loop is expected to be faster, mostly because of {max(times, key=lambda what: times[what])}"


def _equations(plan: Plan) -> int:
    """Count nodes, with those of loops and branches within the body."""
    calls = [node.call for node in plan.nodes() if node.call is not None]
    return sum(1 for _ in plan.nodes()) + sum(_equations(inner) for call in calls for inner in call.plans)


def extra_time(plan: Plan, calibration: Calibration = CALIBRATION) -> dict[str, float]:
    """Return by how many nanoseconds a step is slower as part of a native call, by what makes it so."""
    random = calibration.random_word * plan.random_words  # within inner loops, too
    return _times(plan, calibration) | {"random": random}


def _times(plan: Plan, calibration: Calibration) -> dict[str, float]:
    times = {"the step itself": calibration.step}
    stages = (*plan.head, *plan.step)
    for loop in (loop for stage in stages for loop in stage.loops):
        further = sum(bool(plan.places[array]) for node in loop for array in node.outs) - 1
        each = calibration.array + calibration.stored * math.prod(loop[0].shape)
        times["the step itself"] += max(0, further) * each
    times["copies"] = calibration.copied * sum(array.size for _, array in plan.late)
    for node in (node for stage in stages for node in stage.nodes()):
        what, time = _of_node(node, calibration)
        times[what] = times.get(what, 0.0) + time
        for inner in node.call.plans if node.call is not None else ():
            steps = _STEPS_OF_WHILE if inner.length is None else inner.length
            for what, time in _times(inner, calibration).items():
                times[what] = times.get(what, 0.0) + steps * time
    return times


_STEPS_OF_WHILE = 4  # that a while_loop is expected to have
_SHORT_ROW = 16
_UNROLLED = range(9, 12)
_NEAR = 4_000


def _of_node(node: Node, calibration: Calibration) -> tuple[str, float]:
    if node.call is None:
        name = node.equation.primitive.name if node.equation is not None else "copy"
        functions = calibration.of_doubles if node.outs[0].dtype == "float64" else calibration.functions
        each = functions.get(name, 0.0) + calibration.short_loop * _is_short_loop(node)
        dtypes = [view.dtype for view in node.ins] + [array.dtype for array in node.outs]
        each += max(calibration.narrow.get(dtype, 0.0) for dtype in dtypes)
        return name, math.prod(node.shape) * each
    if node.call.work:
        return "dense products", _of_product(node, calibration)
    if node.call.is_kernel or node.call.plans:
        return node.call.name, calibration.call if node.call.is_kernel else 0.0
    return node.call.name, _of_call(node, node.call.name, calibration)


def _of_product(node: Node, calibration: Calibration) -> float:
    assert node.call is not None
    shapes, (least, most) = sorted((view.shape for view in node.ins), key=len), calibration.called
    if all(len(shape) > 1 for shape in shapes) and node.outs[0].shape not in ((), (1,)):
        product, each = calibration.by_matrix
    elif (
        [len(shape) for shape in shapes] == [1, 2]
        and all(least <= extent <= most for extent in shapes[1])
        and node.outs[0].dtype == "float32"
    ):
        product, each = calibration.by_vector_called, 0.0
    else:
        product, each = calibration.by_vector
    return product + each * node.call.work


def _is_short_loop(node: Node) -> bool:
    """Say whether a loop over elements has rows that it can neither join nor compute in vectors."""
    in_rows = any(view.shape == node.shape and not (view.is_uniform or is_packed(view)) for view in node.ins)
    return in_rows and node.shape[-1] in _UNROLLED


def _of_call(node: Node, name: str, calibration: Calibration) -> float:
    """Return the time of what moves elements or sums them."""
    largest = max(node.ins, key=lambda view: view.size, default=None)
    if largest is None:
        return 0.0
    if name in ("dynamic_slice", "dynamic_update_slice"):
        size = node.outs[0].size if name == "dynamic_slice" else node.ins[1].size
        return calibration.moved * max(0, size - _NEAR)
    each = calibration.calls.get(name, 0.0)
    if largest.size > 1 and largest.shape[-1:] < (_SHORT_ROW,) and name != "reduce_sum":
        each += calibration.short_row
    shape, out = largest.shape, node.outs[0].shape
    if name == "concatenate" and out[0] == shape[0]:
        each += calibration.joined
    if name in ("reduce_max", "reduce_min") and len(shape) > 1 and out[-1:] != shape[-1:]:
        each += calibration.extreme_of_row
    return each * largest.size
