# SPDX-License-Identifier: Apache-2.0
"""The same bits from every engine: rules in Numba and as C++ text, beside the interpreter."""

import ctypes
import dataclasses
import functools
import platform
import subprocess
import threading

import numba
import numpy as np
import pytest
from neuron_rules import INPUTS, RULES, hard_values, traced
from ptx import AS_WRITTEN, ptx_of

from brainevent.backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from brainevent.backends.numba.inner import inner
from brainevent.scalar import primitives
from brainevent.scalar.circular import sin, sin_of_small
from brainevent.scalar.cuda_text import FLUSHING, SHIM, cuda_text
from brainevent.scalar.form import Assign, Constant, Form, Name
from brainevent.scalar.interpret import interpret
from brainevent.scalar.lower import form_of
from brainevent.scalar.on_numba import compiled_forms

POINTER = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}
NAMES = tuple(RULES)


@functools.cache
def forms():
    """Return the rules as functions of the six inputs alone, by name."""
    result = {}
    for name in NAMES:
        form = traced(name).form
        result[name] = dataclasses.replace(form, name=f"rule_{name}", inputs=form.inputs[:6], outputs=form.outputs[6:7])
    return result


def primitives_of(form):
    lines = [line for part in (form, *form.functions) for line in part.all_lines()]
    return {
        (line.op, line.target.dtype, line.operands[0].dtype) if isinstance(line, Assign) else type(line)
        for line in lines
    }


@functools.cache
def few_rules():
    """Return short rules that together have every primitive of all: Numba takes long to compile.

    A primitive that is a function made of others, such as a sine, is printed as a call: some of them are enough.
    """
    made = {function.name for form in forms().values() for function in form.functions}
    needed = lambda form: {found for found in primitives_of(form) if isinstance(found, type) or found[0] not in made}
    missing = {name: needed(form) for name, form in forms().items()}
    lines = {name: 20 + sum(len(list(part.all_lines())) for part in (f, *f.functions)) for name, f in forms().items()}
    chosen = []
    while any(missing.values()):
        chosen.append(max(NAMES, key=lambda name: len(missing[name]) / lines[name]))
        missing = {name: primitives - missing[chosen[-1]] for name, primitives in missing.items()}
    return tuple(chosen)


@functools.cache
def by_numba(names, by_hand=not HARDWARE_FLUSHES):
    """Compile a loop over neurons that runs rules."""
    compiled = compiled_forms([forms()[name] for name in names], by_hand=by_hand)
    scope = {f"be_{k}": v for k, v in compiled.items()}
    scope |= {"flush_floats": flush_floats, "restore_floats": restore_floats}
    outs = [f"o{place}" for place in range(len(names))]
    calls = [
        f"        o{place}[k] = be_rule_{name}(x[k], y[k], i[k], j[k], u[k], b[k])" for place, name in enumerate(names)
    ]
    head = f"def run(x, y, i, j, u, b, {', '.join(outs)}):"
    loop = ["    before = flush_floats()", "    for k in range(x.size):", *calls, "    restore_floats(before)"]
    exec("\n".join([head, *(loop[1:-1] if by_hand else loop)]), scope)
    return numba.njit(error_model="numpy", nogil=True)(scope["run"])


@pytest.fixture(scope="session")
def by_cpp(tmp_path_factory):
    """Compile a loop over neurons that runs all rules, from the text of a GPU."""
    inputs = ", ".join(f"const {POINTER[dtype]}* {name}" for name, dtype in INPUTS.items())
    outs = ", ".join(f"{POINTER[form.outputs[0].dtype]}* o{place}" for place, form in enumerate(forms().values()))
    calls = "".join(
        f"o{place}[k] = be_rule_{name}(x[k], y[k], i[k], j[k], u[k], b[k]);\n" for place, name in enumerate(NAMES)
    )
    run = f'extern "C" void run({inputs}, {outs}, long n) {{ {FLUSHING} for (long k = 0; k < n; k++) {{\n{calls}}} }}'
    source = tmp_path_factory.mktemp("rules") / "rules.cpp"
    source.write_text(SHIM + cuda_text(forms().values()) + run)
    library = source.with_suffix(".so")
    flags = ["-O2", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).run
    return lambda *arrays: function(*(ctypes.c_void_p(a.ctypes.data) for a in arrays), ctypes.c_long(arrays[0].size))


def flushed(values):
    return [primitives.flush(a) if a.dtype == np.float32 else a for a in values]


def run_in_threads(function, names, values, threads):
    """Run a function over slices of the values, one slice a thread."""
    outs = [np.empty(values[0].size, forms()[name].outputs[0].dtype) for name in names]
    parts = np.array_split(np.arange(values[0].size), threads)
    slices = [slice(part[0], part[-1] + 1) for part in parts]
    running = [threading.Thread(target=function, args=[a[s] for a in (*flushed(values), *outs)]) for s in slices]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return outs


def differing(ours, theirs, values):
    """Describe where bits differ; all NaN are one."""
    assert ours.dtype == theirs.dtype
    kind = np.uint8 if ours.dtype == bool else np.uint32
    wrong = ours.view(kind) != theirs.view(kind)
    if ours.dtype == np.float32:
        wrong &= ~(np.isnan(ours) & np.isnan(theirs))
    return [(*(a[k] for a in values), ours[k], theirs[k]) for k in np.flatnonzero(wrong)[:3]]


def check(function, names, count, threads, seed=0):
    values = hard_values(count, seed)
    found = dict(zip(names, run_in_threads(function, names, values, threads), strict=True))
    wrong = {name: differing(found[name], interpret(forms()[name], values)[0], values) for name in names}
    assert {name: where for name, where in wrong.items() if where} == {}


def test_numba_gives_the_bits_of_the_interpreter():
    assert any(forms()[name].functions for name in few_rules())
    check(by_numba(few_rules()), few_rules(), 3000, 1)


def test_a_processor_that_flushes_nothing_gives_the_same_bits():
    names = ("product", "divide", "difference", "difference_compared")
    check(by_numba(names, by_hand=True), names, 20_000, 1)


@pytest.mark.skipif(not HARDWARE_FLUSHES, reason="the processor flushes otherwise than GPUs")
def test_the_text_for_gpus_gives_the_bits_of_the_interpreter(by_cpp):
    check(by_cpp, NAMES, 3000, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_hard_values_in_threads(threads, by_cpp):
    check(by_numba(NAMES), NAMES, 100_000, threads, seed=threads)
    check(by_cpp, NAMES, 100_000, threads, seed=threads)


def test_a_difference_is_found():
    x = np.float32([1.0, np.nan, 0.0])
    assert differing(x, x.copy(), [x]) == []
    assert len(differing(x, np.float32([1.0000001, np.nan, -0.0]), [x])) == 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for instructions of x86-64")
def test_numba_computes_several_neurons_at_once():
    rule = compiled_forms([forms()["contraction"]])["rule_contraction"]

    @inner(error_model="numpy", flushes=HARDWARE_FLUSHES)
    def loop(x, y, out):
        for k in range(x.size):
            out[k] = rule(x[k], y[k], np.int32(0), np.int32(0), np.uint32(0), True)

    @numba.njit
    def run(x, y, out):
        loop(x, y, out)

    x = np.float32([1, 2, 3])
    out = np.empty_like(x)
    run(x, x, out)
    assert out.tolist() == [2.5, 5.5, 10.5]
    assert any("mulps" in text for text in run.inspect_asm().values())


def ptx_of_rules(names, *options):
    """Compile a kernel that runs rules, as far as that goes without a GPU."""
    inputs = ", ".join(f"const {POINTER[dtype]}* {name}" for name, dtype in INPUTS.items())
    calls = "".join(f"sum += float(be_rule_{name}(x[k], y[k], i[k], j[k], u[k], b[k]));\n" for name in names)
    head = f'extern "C" __global__ void run({inputs}, float* out)'
    text = cuda_text(forms()[name] for name in names)
    return ptx_of(text + f"{head} {{ int k = threadIdx.x; float sum = 0;\n{calls}out[k] = sum; }}", *options)


def test_the_text_for_gpus_compiles_for_gpus():
    assert ".entry run" in ptx_of_rules(NAMES)


def test_gpus_round_each_operation_by_itself():
    """The remainder is left out: CUDA's own is exact, and made of fused operations. So are short functions."""
    names = [name for name in NAMES if ("rem", "float32", "float32") not in primitives_of(forms()[name])]
    ptx = ptx_of_rules(names, AS_WRITTEN)
    assert "fma." not in ptx
    assert "mul.ftz.f32" in ptx or "mul.rn.ftz.f32" in ptx
    assert "approx" not in ptx
    assert {"div.rn.ftz.f32", "sqrt.rn.ftz.f32"} <= set(ptx.split())


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "sqrt"])
def test_gpus_compute_what_the_compiler_knows(op):
    """NVRTC rounds ties away from zero where it flushes denormals: the sum would be 0xBDC145D9."""
    known = (Constant(0x3CF45DDA, "float32"), Constant(0xBDFE5D4F, "float32"))
    result = Name("t1", "float32")
    form = Form("known", (), (Assign(result, op, known[: 1 if op == "sqrt" else 2]),), (result,))
    if op == "add":
        assert interpret(form, [])[0].view(np.uint32)[0] == 0xBDC145D8
    ptx = ptx_of(cuda_text([form]) + 'extern "C" __global__ void run(float* out) { *out = be_known(); }')
    assert f"{op}.rn.ftz.f32" in ptx


def test_the_sine_of_small_numbers_is_the_sine():
    near = np.linspace(-64, 64, 10_001, dtype=np.float32)
    x = np.concatenate([near, near * np.float32(1e-5), np.float32([0.0, -0.0, 2**-12, np.nan])])
    found, wanted = (interpret(form_of("sine", function, ("float32",)), [x])[0] for function in (sin_of_small, sin))
    np.testing.assert_array_equal(found.view("uint32"), wanted.view("uint32"))
