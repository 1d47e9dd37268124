# SPDX-License-Identifier: Apache-2.0
"""The short text of functions for GPUs: the bits of the interpreter, with any reciprocal that a GPU may give."""

import ctypes
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import brainevent
from brainevent.backends.numba.floats import HARDWARE_FLUSHES
from brainevent.scalar.cuda_short import SHORT
from brainevent.scalar.cuda_text import FLUSHING, NVRTC_OPTIONS, SHIM, cuda_text
from brainevent.scalar.interpret import interpret
from brainevent.scalar.lower import form_of, function_form

CALLS = {"exp": lax.exp, "pow": lax.pow}
DTYPES = {name: ("float32",) * (1 + given.count(",")) for name, given in SHORT.items()}
ALL_BITS = """
extern "C" __global__ void run(unsigned* found) {
    const unsigned own = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long k = own; k < 1ull << 32; k += gridDim.x * blockDim.x) {
        const float x = flush(__uint_as_float((unsigned)k));
        const float y = (float)((unsigned)k * 2654435761u >> 12) * 0x1p-17f - 4.0f;
        float result;
        if (short_exp(x, result)) atomicAdd(found, 1u);
        if (bits_of(be_of_exp(x)) != bits_of(be_whole_exp(x))) atomicAdd(found + 1, 1u);
        if (short_pow(x, y, result)) atomicAdd(found + 2, 1u);
        if (bits_of(be_of_pow(x, y)) != bits_of(be_whole_pow(x, y))) atomicAdd(found + 3, 1u);
        if (bits_of(be_of_pow(x, 0.4f)) != bits_of(be_whole_pow(x, 0.4f))) atomicAdd(found + 4, 1u);
    }
}
"""


def texts():
    """Return the text of functions that call each one."""
    return cuda_text(
        form_of(f"of_{name}", CALLS[name], ("float32",) * (1 + given.count(","))) for name, given in SHORT.items()
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Compile them for the CPU, with a reciprocal that is some units in the last place off."""
    text, found = texts(), "near_reciprocal(g.high)"
    assert text.count(found) == 1
    head = "#define SHORTENS true\n" + SHIM + "static int units;\n"
    loop = "e[k] = be_of_exp(x[k]); p[k] = be_of_pow(x[k], y[k]); "
    loop += "short_ones[0] += short_exp(x[k], r); short_ones[1] += short_pow(x[k], y[k], r);"
    body = f"{FLUSHING} units = off; for (long k = 0; k < n; k++) {{ float r; {loop} }}"
    of = "const float* x, const float* y, float* e, float* p, int* short_ones, int off, long n"
    source = tmp_path_factory.mktemp("short") / "short.cpp"
    text = text.replace(found, f"__uint_as_float(__float_as_uint({found}) + units)")
    source.write_text(f'{head}{text}extern "C" void run({of}) {{ {body} }}')
    library = source.with_suffix(".so")
    flags = ["-O2", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).run

    def run(x, y, off):
        out, short_ones = {name: np.empty_like(x) for name in SHORT}, np.zeros(len(SHORT), np.int32)
        arrays = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, *out.values(), short_ones)]
        function(*arrays, ctypes.c_int(off), ctypes.c_long(x.size))
        return out, dict(zip(SHORT, short_ones.tolist(), strict=True))

    return run


def values(kind, count=50_000):
    """Return pairs of numbers: any bits, numbers near 1, mantissas of all exponents, or weights and usual exponents."""
    random = np.random.default_rng(len(kind))
    x, y = random.integers(0, 2**32, (2, count), dtype=np.uint32).view(np.float32)
    usual = random.uniform(-3, 3, count).astype(np.float32)
    if kind == "near 1":
        x = np.float32(1) + random.integers(-3000, 3000, count).astype(np.float32) * np.float32(2**-24)
        y = usual * np.exp(random.uniform(-20, 20, count)).astype(np.float32)
    elif kind == "positive":
        x, y = np.abs(x), usual
    elif kind == "weights":
        x, y = np.exp(random.uniform(-4, 4, count)).astype(np.float32), usual
    elif kind == "hard":
        few = np.float32(
            [0, -0.0, 1, -1, 2, 0.5, np.inf, -np.inf, np.nan, 2**-126, 2**-24, 80, -80, 88.8, -87.4, 1e38, 3e9]
        )
        x, y = (a.ravel().copy() for a in np.meshgrid(few, few))
    tiny = np.float32(2**-126)
    return [np.where(np.abs(a) < tiny, np.copysign(np.float32(0), a), a) for a in (x, y)]


@pytest.mark.skipif(not HARDWARE_FLUSHES, reason="the processor flushes otherwise than GPUs")
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["any", "near 1", "positive", "weights", "hard"])
def test_they_give_the_bits_of_the_interpreter(run, kind, off):
    x, y = values(kind)
    found, short_ones = run(x, y, off)
    for name, dtypes in DTYPES.items():
        form = function_form(name, dtypes)
        wanted = interpret(form, [x, y][: len(form.inputs)])[0]
        ours, theirs = (np.where(np.isnan(a), np.float32(np.nan), a).view(np.uint32) for a in (found[name], wanted))
        np.testing.assert_array_equal(ours, theirs)
        if kind == "weights":
            assert short_ones[name] > 0.9 * x.size


@pytest.mark.gpu
def test_all_numbers_on_a_gpu():
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = brainevent.cuda_kernel(
        texts() + ALL_BITS,
        "run",
        jax.ShapeDtypeStruct((5,), jnp.uint32),
        launch_dims=2**18,
        options=NVRTC_OPTIONS,
        zeroed=True,
    )
    short_exps, other_exps, short_pows, other_pows, other_roots = np.asarray(kernel()).tolist()
    assert (other_exps, other_pows, other_roots) == (0, 0, 0)
    assert short_exps > 2**31
    assert short_pows > 2**29
