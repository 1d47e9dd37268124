# SPDX-License-Identifier: Apache-2.0
"""Forms in LLVM's language: each primitive, of each type that loops compute with, gives the bits of the interpreter."""

import dataclasses
import functools

import numba
import numpy as np
import pytest
from jax import lax
from neuron_rules import INPUTS, RULES, hard_values, traced

from brainevent.backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from brainevent.backends.numba.inner import inner
from brainevent.backends.numba.of_llvm import LlvmFunction
from brainevent.scalar.float64 import PRIMITIVES_64
from brainevent.scalar.form import Assign, Constant, Form, Name, constant
from brainevent.scalar.interpret import interpret
from brainevent.scalar.llvm_text import llvm_text
from brainevent.scalar.lower import form_of
from brainevent.scalar.on_llvm import called_forms
from brainevent.scalar.primitives import flush
from brainevent.scalar.threefry import be_turned

pytestmark = pytest.mark.skipif(not HARDWARE_FLUSHES, reason="the processor flushes otherwise than GPUs")

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
OF_FLOATS = ("add", "sub", "mul", "div", "rem", "neg", "abs", "max", "min", "floor", "ceil", "round", "sqrt")
OF_INTEGERS = ("add", "sub", "mul", "div", "rem", "neg", "abs", "max", "min", "and", "or", "xor", "not")
OF_INTEGERS += ("shift_left", "shift_right_logical", "shift_right_arithmetic", "bit_count")
OPERATIONS = {
    "float32": (*OF_FLOATS, "round_to_float16", "round_to_bfloat16"),
    "float64": OF_FLOATS,
    "int32": (*OF_INTEGERS, "mul_high"),
    "uint32": (*OF_INTEGERS, "mul_high"),
    "int64": OF_INTEGERS,
    "uint64": OF_INTEGERS,
    "bool": ("and", "or", "xor", "not"),
}
ONE_OPERAND = {"neg", "abs", "floor", "ceil", "round", "sqrt", "not", "bit_count", "round_to_float16"}
ONE_OPERAND |= {"round_to_bfloat16", "convert", "bitcast"}
BITCASTS = {"float32": ("int32", "uint32"), "int32": ("float32", "uint32"), "uint32": ("float32", "int32")}
BITCASTS |= {"uint64": ("float64",)}
INTEGERS = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 255, 2**16, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**62]
INTEGERS += [2**63 - 1, 2**63, 2**64 - 1, 2**64 - 7, 2**64 - 2**31, 2**64 - 32]
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-3, 7.3, 2048.5, 65504.0, 65519.9, 65520.0, 6e-8, 2.0**-25, 2.9e-8, 6.1e-5]
FLOATS += [2.0**-126, 3e-38, 1e-30, 2.0**31, 2147483520.0, 2.0**32, 4294967040.0, 2.0**63, 2.0**64]
FLOATS += [3e38, np.inf, np.nan]


def values_of(dtype):
    """Return hard values of a type, in no order."""
    random = np.random.default_rng(3)
    if dtype == "bool":
        return np.array([False, True, True, False])
    if "int" in dtype:
        words = np.concatenate([np.array(INTEGERS, np.uint64), random.integers(0, 2**64, 40, np.uint64)])
        return words.astype(dtype)
    drawn = random.normal(size=30) * 10.0 ** random.uniform(-8, 20, 30)
    with np.errstate(over="ignore"):
        values = np.concatenate([FLOATS, np.negative(FLOATS), drawn]).astype(dtype)
    return flush(values) if dtype == "float32" else values


def form(name, op, dtype, given, operands=None):
    """Return a form of one line."""
    inputs = (Name("a", given), Name("b", given))
    operands = operands or inputs[: 1 if op in ONE_OPERAND else 2]
    return Form(name, inputs, (Assign(Name("t", dtype), op, operands),), (Name("t", dtype),))


def forms_of(given):
    """Return a form of each primitive of a type, and each conversion of it."""
    pairs = [(op, given) for op in OPERATIONS[given]] + [(op, "bool") for op in COMPARISONS]
    pairs += [("convert", dtype) for dtype in OPERATIONS] + [("bitcast", dtype) for dtype in BITCASTS.get(given, ())]
    return [form(f"{op}_to_{dtype}", op, dtype, given) for op, dtype in pairs]


def computed(forms, values):
    """Return what compiled functions of values give, by the name of a form."""
    scope = {f"be_{name}": function for name, function in called_forms(forms).items()}
    scope |= {"flush_floats": flush_floats, "restore_floats": restore_floats}
    inputs = ", ".join(f"x{k}" for k in range(len(values)))
    outs = [np.empty(values[0].size, form.outputs[0].dtype) for form in forms]
    read = ", ".join(f"x{k}[i]" for k in range(len(values)))
    lines = [f"        out{k}[i] = be_{form.name}({read})" for k, form in enumerate(forms)]
    names = ", ".join(f"out{k}" for k in range(len(forms)))
    exec("\n".join([f"def loop({inputs}, {names}):", "    for i in range(x0.size):", *lines]), scope)
    scope["loop"] = inner(scope["loop"], error_model="numpy", flushes=True, apart=True)
    call = ["    before = flush_floats()", f"    loop({inputs}, {names})", "    restore_floats(before)"]
    exec("\n".join([f"def run({inputs}, {names}):", *call]), scope)
    numba.njit(error_model="numpy")(scope["run"])(*values, *outs)
    return {form.name: out for form, out in zip(forms, outs, strict=True)}


def check(forms, values):
    wrong = {}
    for form, ours in zip(forms, computed(forms, values).values(), strict=True):
        (theirs,) = interpret(form, values)
        assert ours.dtype == theirs.dtype
        unequal = ours.view(f"u{ours.itemsize}") != theirs.view(f"u{theirs.itemsize}")
        if ours.dtype.kind == "f":
            unequal &= ~(np.isnan(ours) & np.isnan(theirs))
        if where := [(*(x[k] for x in values), ours[k], theirs[k]) for k in np.flatnonzero(unequal)[:3]]:
            wrong[form.name] = where
    assert wrong == {}


@pytest.mark.parametrize("given", OPERATIONS)
def test_each_primitive_gives_the_bits_of_the_interpreter(given):
    values = values_of(given)
    check(forms_of(given), [x.ravel() for x in np.meshgrid(values, values)])


def test_float64_numbers_that_become_float32_are_flushed():
    check([form("short", "convert", "float32", "float64")], [np.float64([1e-40, -1e-40, 1e-37, 0.1])] * 2)


@pytest.mark.parametrize("op", ["max", "min"])
def test_numbers_are_compared_with_constants_as_with_others(op):
    values = values_of("float32")
    a, zero, nan = Name("a", "float32"), constant(0.0, "float32"), constant(np.nan, "float32")
    pairs = {"right": (a, zero), "left": (zero, a), "right_nan": (a, nan), "left_nan": (nan, a)}
    check([form(name, op, "float32", "float32", pair) for name, pair in pairs.items()], [values, values])


def test_constants_of_each_type_are_what_they_are():
    numbers = {"float32": -0.1, "float64": 0.1, "int32": -(2**31), "uint32": 2**32 - 1, "int64": -(2**63)}
    numbers |= {"uint64": 2**64 - 1, "bool": True}
    forms = [
        Form(f"of_{dtype}", (Name("a", "int32"),), (), (constant(number, dtype),)) for dtype, number in numbers.items()
    ]
    forms += [Form(f"special{k}", (Name("a", "int32"),), (), (Constant(bits, "float32"),)) for k, bits in _SPECIAL]
    check(forms, [np.zeros(1, np.int32)])


_SPECIAL = tuple(enumerate((0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000)))


@functools.cache
def rules():
    """Return the rules as functions of the six inputs."""
    found = [(name, traced(name).form) for name in RULES]
    return [dataclasses.replace(f, name=f"r_{name}", inputs=f.inputs[:6], outputs=f.outputs[6:7]) for name, f in found]


def test_rules_give_the_bits_of_the_interpreter():
    assert any(form.functions for form in rules())
    values = [flush(x) if x.dtype == np.float32 else x for x in hard_values(500, 0)]
    assert len(values) == len(INPUTS)
    for k in range(0, len(rules()), 24):
        check(rules()[k : k + 24], values)


@pytest.mark.parametrize("op", ["exp_float64", "pow_float64"])
def test_functions_of_float64_are_those_of_the_library_of_c(op):
    assert op in PRIMITIVES_64
    x = np.float64([0.1, 1.5, 2.0])
    inputs = (Name("a", "float64"), Name("b", "float64"))
    operands = inputs[: 2 if op == "pow_float64" else 1]
    one = Form("one", inputs, (Assign(Name("t", "float64"), op, operands),), (Name("t", "float64"),))
    np.testing.assert_allclose(computed([one], [x, x])["one"], PRIMITIVES_64[op](*[x] * len(operands)), rtol=1e-15)


def test_several_results_are_a_tuple():
    function = called_forms([form_of("both", lambda a, b: (a + b, a < b, lax.max(a, b)), ("float32",) * 2)])["both"]

    @numba.njit
    def run(a, b):
        total, less, largest = function(a, b)
        return total, less, largest

    assert run(np.float32(1), np.float32(2)) == (3, True, 2)


def test_functions_of_the_same_name_are_apart():
    """Modules of both are linked into one."""
    one, other = (form_of("same", lambda a, by=by: a * by, ("float32",)) for by in (np.float32(2), np.float32(3)))
    double, triple = called_forms([one])["same"], called_forms([other])["same"]

    @numba.njit
    def run(a):
        return double(a) + triple(a)

    assert run(np.float32(1)) == 5


def test_the_name_of_a_function_does_not_depend_on_where_the_rule_is():
    line = Assign(Name("t", "float32"), "neg", (Name("a", "float32"),))
    forms = [
        Form("f", (Name("a", "float32"),), (dataclasses.replace(line, source=place),), (Name("t", "float32"),))
        for place in ("here.py:1", "there.py:2")
    ]
    assert llvm_text(forms[0]) == llvm_text(forms[1])


def test_a_function_that_others_call_twice_is_there_once():
    form = form_of("two", lambda a: be_turned(be_turned(a, a, a, a), a, a, a), ("uint32",))
    text, name = llvm_text(form)
    assert text.count("define linkonce_odr") == 1
    assert text.count(f"@{name}(") == 1


def test_the_content_of_a_function_is_its_text():
    text, name = llvm_text(form_of("f", lambda a: a + 1, ("float32",)))
    function = LlvmFunction(name, text, ("float32",), ("float32",))
    assert function.content_parts == (name, text, ("float32",), ("float32",))
