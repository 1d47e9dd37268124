# SPDX-License-Identifier: Apache-2.0
"""`cuda_kernel`, as far as no GPU is needed: declarations, types, compiling, the cache, plans, what users are told."""

import functools
import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from forked import run_forked

import brainevent
from brainevent.backends.nvrtc import kernel as nvrtc
from brainevent.backends.nvrtc.compiler import Code
from brainevent.backends.nvrtc.cpp_types import _ELEMENTS, definitions, read_type
from brainevent.backends.nvrtc.translation_unit import find_declaration
from brainevent.errors import CompilationError, KernelArgumentError, UnsupportedArchError
from brainevent.ffi.launch import LaunchPlan, PlanTarget, Slot

compiler = importlib.import_module("brainevent.backends.nvrtc.compiler")

VECTOR, X = jax.ShapeDtypeStruct((64,), jnp.float32), jnp.ones(64)

ADD = """
__global__ void add(const float* __restrict__ x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
"""
NAMESPACES = "__global__ void k(int* x, int n, int m) {}\nnamespace b { __global__ void k(int* x, int m, int n) {} }"
COPY = "__global__ void copy(const T* x, T* out) { out[threadIdx.x] = x[threadIdx.x]; }"


@pytest.fixture
def ninety():
    """Compile for one architecture, whatever this machine has; skip where NVRTC is not installed."""
    try:
        compiler._nvrtc()
    except ImportError as error:
        pytest.skip(str(error))
    brainevent.config.set_compute_capability("9.0")
    yield
    brainevent.config.set_compute_capability(None)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Begin with an empty cache, on disk and in memory; return how often NVRTC is called."""
    brainevent.set_cache_dir(tmp_path)
    monkeypatch.setattr(compiler, "_codes", {})
    with mock.patch.object(compiler, "_compile", side_effect=compiler._compile) as compile_:
        yield compile_
    brainevent.set_cache_dir(None)


class _PlannedError(Exception):
    pass


def plan_of(call, *operands, **numbers):
    """Return the launch plan of a call, which is not run."""

    def stop(target, *_):
        raise _PlannedError(target.plan)

    with mock.patch.object(nvrtc, "native_call", stop), pytest.raises(_PlannedError) as caught:
        call(*operands, **numbers)
    return caught.value.args[0]


def exported(call, *operands, **numbers):
    function = jax.jit(functools.partial(call, **numbers))
    return jax.export.export(function, platforms=["cuda"], disabled_checks=brainevent.export_checks())(
        *operands
    ).mlir_module()


# ---- declarations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "entry", "declared"),
    [
        (ADD, "add", "__global__ void add(const float* __restrict__ x, const float* y, float* out, int n)"),
        ('extern "C" __global__ void k(int* x) {}', "k", "__global__ void k(int* x)"),
        ('extern "C" {\n__global__ void k(int* x) {} }', "k", "__global__ void k(int* x)"),
        ("__global__ void __launch_bounds__(256, 2) k(int* x) {}", "k", "__global__ void k(int* x)"),
        ("__launch_bounds__(64) __global__ void k(int* x) {}", "k", "__global__ void k(int* x)"),
        ("static __global__ void k(int*);\n__global__ void k(int* x) {}", "k", "__global__ void k(int* x)"),
        ("template <class T, int n> __global__ void k(T* x) {}", "k<float, 3>", "__global__ void k(T* x)"),
        ("namespace a { namespace b { __global__ void k(int* x) {} } }", "a::b::k", "__global__ void b::k(int* x)"),
        ("// __global__ void k(float* y)\n#if 0\n__global__ void k();\n#endif\n__global__ void k(int* x);", "k",
         "__global__ void k(int* x)"),
        ('const char* s = "__global__ void k(char*)"; __global__ void k(int* x, int n = f(1, 2));', "k",
         "__global__ void k(int* x, int n)"),
        ("__global__ void k(int* x, int); __global__ void k(int*, int n) {}", "k", "__global__ void k(int* x, int n)"),
        (NAMESPACES, "b::k", "__global__ void b::k(int* x, int m, int n)"),
        (NAMESPACES, "a::b::k", "__global__ void b::k(int* x, int m, int n)"),
        (NAMESPACES, "::k", "__global__ void k(int* x, int n, int m)"),
    ],
)  # fmt: skip
def test_kernels_are_found_in_the_text(source, entry, declared):
    assert str(find_declaration("here", source, entry)) == declared


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        (
            ADD,
            "ad",
            "here: the source has no kernel 'ad'; did you mean 'add'\\?; it has: add. Write `__global__ void ad",
        ),
        ("__device__ void f(int*) {}", "f", "the source has no kernel 'f'; it has none"),
        (ADD, "add; x", "entry is 'add; x'; pass the name of a kernel"),
        (
            "template <class T> __global__ void k(T* x) {}",
            "k",
            "'k' is a template; name an instance, such as entry='k<",
        ),
        (ADD, "add<float>", "'add' is not a template; name it without <...>"),
        (
            "#ifdef F\n__global__ void k(int*) {}\n#else\n__global__ void k(int*, int) {}\n#endif",
            "k",
            "several kernels 'k', with 1 and 2 parameters .all branches of an #if count.; give each its own",
        ),
        (
            NAMESPACES.replace("\nnamespace b {", ""),
            "k",
            "the kernel 'k' is declared several times, with different names for one parameter: 'n' and 'm'; use one",
        ),
        (
            "template <class... T> __global__ void k(T*... x) {}",
            "k<float, float>",
            r"the parameter `T\*\.\.\. ?x` of 'k' is a parameter pack; declare each parameter separately",
        ),
    ],
)
def test_kernels_that_are_not_found_are_reported(source, entry, words):
    with pytest.raises(KernelArgumentError, match=words):
        find_declaration("here", source, entry)


@pytest.mark.parametrize(
    ("mangled", "pointer", "constant", "number", "dtypes"),
    [
        ("PKf", True, True, False, ("float32",)),
        ("PVKh", True, True, False, ("uint8",)),
        ("Px", True, False, False, ("int64",)),
        ("b", False, False, True, ("bool",)),
        ("m", False, False, True, ("uint64",)),
        ("6__half", False, False, True, ("float16",)),
        ("P13__nv_bfloat16", True, False, False, ("bfloat16",)),
        ("P6float2", True, False, False, ("complex64", "float32")),
        ("P5uint4", True, False, False, ("uint32",)),
        ("PN4cuda3std3__47complexIfEE", True, False, False, ("complex64",)),
        ("PN6thrust23THRUST_300_SM_900_NS7complexIdEE", True, False, False, ("complex128",)),
        ("PKv", True, True, False, ()),
        ("P5Pixel", True, False, False, ()),
        ("P13__nv_fp8_e4m3", True, False, False, ("float8_e4m3fn",)),
        ("PPf", False, False, False, ()),
        ("RKf", False, False, False, ()),
        ("PFviE", False, False, False, ()),
        ("6float2", False, False, False, ("complex64", "float32")),
        ("5Pixel", False, False, False, ()),
    ],
)
def test_types_are_read_as_compilers_abbreviate_them(mangled, pointer, constant, number, dtypes):
    found = read_type(mangled)
    expected = (pointer, constant, number, dtypes)
    assert (found.is_pointer, found.is_constant, found.is_number, found.dtypes) == expected


def test_names_of_types_become_definitions():
    text = definitions("here", {"T": jnp.float32, "H": jnp.bfloat16, "I": np.dtype(np.uint8), "G": jnp.bfloat16})
    assert text.splitlines() == [
        "#include <cuda_bf16.h>",
        "using T = float;",
        "using H = __nv_bfloat16;",
        "using I = unsigned char;",
        "using G = __nv_bfloat16;",
    ]
    assert definitions("here", None) == ""


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"T": "nonsense"}, r"types\['T'\] is 'nonsense', which is not a dtype; pass one, such as jnp.float32"),
        ({"T": jnp.int4}, r"types\['T'\] is .*int4.*, for which C\+\+ has no type; supported: bool, int8"),
        ({"T x": jnp.int8}, "types: the name 'T x' is not an ASCII C identifier"),
        ({"int": jnp.int8}, "'int' is a keyword of C"),
        ({3: jnp.int8}, "types has the key 3; a name of C"),
        ([jnp.int8], "pass a dict, such as"),
    ],
)
def test_wrong_types_are_reported(types, words):
    with pytest.raises(brainevent.KernelError, match=words):
        definitions("here", types)


# ---- what needs no compiler -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": 3}, "source is of type int; pass a string"),
        ({"entry": None}, "entry is of type NoneType; pass a string"),
        ({"options": "-lineinfo"}, "options is '-lineinfo'; pass a tuple of strings"),
        ({"options": ("-arch=sm_80",)}, "the option '-arch=sm_80' is not allowed: .*set_compute_capability"),
        ({"options": ("-rdc=true",)}, "the option '-rdc=true' is not allowed: kernels are compiled completely"),
        ({"zeroed": "out"}, "zeroed is 'out'; pass True, or a tuple of names"),
        ({"zeroed": 1}, "zeroed is 1; pass True, or a tuple of names"),
        ({"launch_dims": None}, "no launch configuration; pass grid= and block="),
        ({"launch_dims": -1}, "launch_dims is -1; extents cannot be negative"),
        ({"vmap_method": "all"}, "unknown vmap_method 'all'"),
        ({"outs": 3}, "outs leaf 0 is 3"),
    ],
)
def test_wrong_settings_are_reported_at_once(options, words):
    given = {"source": ADD, "entry": "add", "outs": VECTOR, "launch_dims": 64} | options
    with pytest.raises((KernelArgumentError, ValueError, AttributeError), match=rf"cuda_kernel\((add|None)\): {words}"):
        brainevent.cuda_kernel(**given)


def test_numbers_by_position_are_reported():
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    words = r"input 2 is the number 64; pass numbers by the name of their parameter \(name=64\)"
    with pytest.raises(KernelArgumentError, match=words):
        call(X, X, 64)
    with pytest.raises(AttributeError, match="operand 0 is a list, which has no shape and dtype"):
        call([1.0], X)


# ---- running, on a pretend driver -------------------------------------------------------------------------------

AXPY = "__global__ void axpy(const float* x, const float* y, float* out, int n, double a);"


@pytest.fixture
def on_pretend(pretend, monkeypatch):
    """Let plans run on the CPU, where the pretend driver's kernel takes the place of what is compiled."""
    code = Code(pretend.binary, "axpy", ("PKf", "PKf", "Pf", "i", "d"))
    monkeypatch.setattr(nvrtc, "compiled", lambda *_: code)
    monkeypatch.setattr(nvrtc, "PlanTarget", functools.partial(PlanTarget, platform="cpu"))
    monkeypatch.setattr(nvrtc, "LaunchPlan", functools.partial(LaunchPlan, in_graphs=False))
    brainevent.config.set_compute_capability("9.0")
    yield pretend
    brainevent.config.set_compute_capability(None)


def test_arrays_numbers_and_zeros_arrive(on_pretend):
    out = jax.ShapeDtypeStruct((5,), jnp.float32)
    call = brainevent.cuda_kernel(AXPY, "axpy", {"z": out}, launch_dims=lambda x, y, z: z.shape, zeroed=("out",))
    x, y = jnp.arange(5.0), jnp.ones(5)
    np.testing.assert_array_equal(call(x, y, n=5, a=3)["z"], 3 * x + 1)
    np.testing.assert_array_equal(call(x, y, n=2, a=0.5)["z"], [1, 1.5, 0, 0, 0])
    rows = jnp.stack([x, 2 * x, 3 * x])
    both = jax.jit(jax.vmap(jax.vmap(lambda x, y: call(x, y, n=5, a=2)["z"], (0, None)), (None, 0)))
    np.testing.assert_array_equal(both(rows, rows), 2 * rows[None] + rows[:, None])
    assert both.lower(rows, rows).as_text().count("custom_call @") == 1
    onto = brainevent.cuda_kernel(AXPY, "axpy", out, launch_dims=5, input_output_aliases={1: 0})
    np.testing.assert_array_equal(jax.jit(lambda x, y: onto(x, y, n=5, a=1.0))(x, y), x + 2)


@pytest.mark.parametrize(("x64", "dtype"), [(False, "f32"), (True, "f64")])
def test_types_of_outputs_and_names_of_types_are_those_of_the_moment_of_the_call(ninety, x64, dtype):
    call = brainevent.cuda_kernel(COPY, "copy", jax.ShapeDtypeStruct((64,), float), launch_dims=64, types={"T": float})
    with jax.enable_x64(x64):
        lowered = jax.jit(call).trace(np.ones(64)).lower(lowering_platforms=("cuda",))
        assert f"-> tensor<64x{dtype}>" in lowered.as_text()


def test_an_output_that_starts_as_an_input_is_not_zeroed(on_pretend):
    out = jax.ShapeDtypeStruct((5,), jnp.float32)
    x, y = jnp.arange(5.0), jnp.ones(5)
    none = brainevent.cuda_kernel(AXPY, "axpy", out, launch_dims=0, input_output_aliases={1: 0})
    np.testing.assert_array_equal(jax.jit(lambda x, y: none(x, y, n=5, a=1))(x, y), y)
    all_others = brainevent.cuda_kernel(AXPY, "axpy", out, launch_dims=5, zeroed=True, input_output_aliases={1: 0})
    np.testing.assert_array_equal(jax.jit(lambda x, y: all_others(x, y, n=5, a=1))(x, y), x + 2)
    both = brainevent.cuda_kernel(AXPY, "axpy", out, launch_dims=5, zeroed=("out",), input_output_aliases={1: 0})
    with pytest.raises(
        KernelArgumentError, match="'out' is named in zeroed and in input_output_aliases; remove it from one"
    ):
        both(x, y, n=5, a=1)


def test_numbers_of_numpy_are_numbers(on_pretend):
    out = jax.ShapeDtypeStruct((5,), jnp.float32)
    x, y = jnp.arange(5.0), jnp.ones(5)
    for configuration in (
        {"launch_dims": lambda *_: np.array([5]), "shared_mem": lambda x, *_: np.prod(x.shape)},
        {"launch_dims": lambda *_: jnp.asarray([5, 1])[0], "threads_per_block": np.int64(2)},
        {"grid": np.array([1, 1]), "block": np.int32(5), "shared_mem": np.uint8(4)},
    ):
        call = brainevent.cuda_kernel(AXPY, "axpy", out, zeroed=True, **configuration)
        np.testing.assert_array_equal(call(x, y, n=5, a=1), x + 1)
    table = brainevent.cuda_kernel(AXPY, "axpy", out, launch_dims=lambda *_: jnp.ones((2, 2)))
    with pytest.raises(ValueError, match=r"(?s)launch_dims is Array\(\[\[1.*; pass a whole number"):
        table(x, y, n=5, a=1)


def test_a_batch_whose_elements_are_misaligned_is_refused(on_pretend, monkeypatch):
    code = Code(on_pretend.binary, "axpy", ("PK6float4", "PKf", "P6float2", "i", "d"))
    monkeypatch.setattr(nvrtc, "compiled", lambda *_: code)

    def added(n):
        call = brainevent.cuda_kernel(AXPY, "axpy", jax.ShapeDtypeStruct((n,), jnp.float32), launch_dims=8, zeroed=True)
        rows = jnp.arange(2.0 * n).reshape(2, n)
        return jax.vmap(lambda x: call(x, jnp.ones(n), n=n, a=1.0))(rows) - rows

    np.testing.assert_array_equal(added(4), np.ones((2, 4)))
    words = r"kernel 'axpy': axpy<<<.*: {} begins at an address that is not a multiple of {}, .* pad its last axis to"
    with pytest.raises(jax.errors.JaxRuntimeError, match=words.format("output 0", 8)):
        added(5)
    with pytest.raises(jax.errors.JaxRuntimeError, match=words.format("input 0", 16)):
        added(6)


def test_nothing_to_launch_gives_zeros(on_pretend):
    call = brainevent.cuda_kernel(AXPY, "axpy", VECTOR, launch_dims=lambda x, y, out: x.shape)
    empty = jnp.ones(0)
    np.testing.assert_array_equal(call(empty, empty, n=0, a=1), np.zeros(64))
    assert list(on_pretend.calls) == [0, 1, 0]


# ---- compiling, for which no GPU is needed ----------------------------------------------------------------------


def test_the_plan_of_a_kernel(ninety):
    call = brainevent.cuda_kernel(
        ADD, "add", VECTOR, launch_dims=lambda x, y, out: out.shape, shared_mem=lambda *arrays: 4 * len(arrays)
    )
    plan = plan_of(call, X, X, n=64)
    (launch,) = plan.launches
    assert launch.binary[:4] == b"\x7fELF"
    assert launch.entry == "_Z3addPKfS0_Pfi"
    assert (launch.grid, launch.block, launch.shared, plan.zeroed) == ((1, 1, 1), (64, 1, 1), 12, ())
    assert launch.parameters == (bytes(8), bytes(8), bytes(8), np.int32(64).tobytes())
    assert launch.slots == (Slot(0, 0), Slot(1, 1), Slot(2, 2))
    blocks = brainevent.cuda_kernel(ADD, "add", VECTOR, grid=lambda *_: (2, 3), block=lambda *_: 32, zeroed=True)
    assert plan_of(blocks, X, X, n=64).launches[0].grid == (2, 3, 1)
    assert plan_of(blocks, X, X, n=64).zeroed == ((2, 256),)


def test_arrays_without_axes_launch_one_thread(ninety):
    source = "__global__ void k(const float* x, float* out) { *out = *x; }"
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    call = brainevent.cuda_kernel(source, "k", scalar, launch_dims=lambda x, out: out.shape)
    assert plan_of(call, jnp.float32(3)).launches[0].block == (1, 1, 1)


NUMBERS = [
    ("bool", True, np.bool_(True)), ("char", -3, np.int8(-3)), ("signed char", -3, np.int8(-3)),
    ("unsigned char", 200, np.uint8(200)), ("short", -300, np.int16(-300)), ("unsigned short", 6, np.uint16(6)),
    ("int", 7, np.int32(7)), ("const unsigned int", 2**32 - 1, np.uint32(2**32 - 1)), ("long", -1, np.int64(-1)),
    ("unsigned", 1, np.uint32(1)), ("long long", 2**40, np.int64(2**40)), ("size_t", 2**63, np.uint64(2**63)),
    ("int8_t", 1, np.int8(1)), ("uint16_t", 2, np.uint16(2)), ("int32_t", 3.0, np.int32(3)),
    ("int64_t", np.int8(4), np.int64(4)), ("uint64_t", 2**64 - 1, np.uint64(2**64 - 1)),
    ("float", 0.1, np.float32(0.1)), ("double", 0.1, np.float64(0.1)), ("float", 2, np.float32(2)),
    ("__half", 0.5, np.float16(0.5)), ("__nv_bfloat16", 0.5, ml_dtypes.bfloat16(0.5)), ("T", 3, np.float32(3)),
    ("real", 1.5, np.float64(1.5)), ("Index", 4, np.int32(4)),
]  # fmt: skip


def test_numbers_of_every_type_are_passed_as_declared(ninety):
    names = [f"a{i}" for i in range(len(NUMBERS))]
    declared = ", ".join(f"{kind} {name}" for (kind, *_), name in zip(NUMBERS, names, strict=True))
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#define Index int\ntypedef double real;\n"
    source = f"{head}__global__ void k({declared}, float* out) {{ *out = a0; }}"
    call = brainevent.cuda_kernel(source, "k", VECTOR, launch_dims=1, types={"T": jnp.float32})
    values = {name: value for name, (_, value, _) in zip(names, NUMBERS, strict=True)}
    found = plan_of(call, **values).launches[0]
    assert list(found.parameters) == [*(expected.tobytes() for *_, expected in NUMBERS), bytes(8)]
    assert found.slots == (Slot(len(NUMBERS), 0),)


DTYPES = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)), "float16", "bfloat16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_fit_their_names(ninety, dtype):
    x = jnp.ones(4, dtype)
    call = brainevent.cuda_kernel(COPY, "copy", x, launch_dims=4, types={"T": x.dtype})
    assert len(plan_of(call, x).launches) == 1
    other = jnp.ones(4, jnp.complex64)
    with pytest.raises(KernelArgumentError, match=rf"the parameter `const T\* x` takes {dtype}, but input 0 is compl"):
        plan_of(call, other)


def test_arrays_of_64_bits_fit_their_names(ninety):
    with jax.enable_x64(True):
        for dtype in ("int64", "uint64", "float64"):
            x = jnp.ones(4, dtype)
            assert len(plan_of(brainevent.cuda_kernel(COPY, "copy", x, launch_dims=4, types={"T": dtype}), x).launches)


@pytest.mark.thorough
def test_complex_arrays_are_pairs_or_complex_numbers(ninety):
    x = jnp.ones(4, jnp.complex64)
    pair = "__global__ void k(const float2* x, cuFloatComplex* out) {}"
    call = brainevent.cuda_kernel(f"#include <cuComplex.h>\n{pair}", "k", x, launch_dims=4)
    assert len(plan_of(call, x).launches) == 1
    whole = "__global__ void k(const T* x, T* out) { *out = *x * *x; }"
    call = brainevent.cuda_kernel(whole, "k", x, launch_dims=4, types={"T": x.dtype})
    assert len(plan_of(call, x).launches) == 1


@pytest.mark.parametrize(
    ("source", "entry", "symbol"),
    [
        ("template <typename T> __global__ void k(const T* x, T* out, T a) {}", "k<float>", "_Z1kIfEvPKT_PS0_S0_"),
        ("template <class T, int n> __global__ void k(const T* x, T* out, T a) {}", "k<float, 3>", "_Z1kIfLi3EEvPKT_"),
        ("namespace n { __global__ void k(const float* x, float* out, float a) {} }", "n::k", "_ZN1n1kEPKfPff"),
        ('extern "C" __global__ void k(const float* x, float out[], float a) {}', "k", "k"),
        ("__global__ void k(const void* x, void* out, float a) {}", "k", "_Z1kPKvPvf"),
        ("struct P { float a; }; __global__ void k(const P* x, P* out, float a) {}", "k", "_Z1kPK1PPS_f"),
        ("__global__ void k(const float4* x, float4* out, float a) {}", "k", "_Z1kPK6float4PS_f"),
    ],
)
def test_entries_of_every_kind(ninety, source, entry, symbol):
    launch = plan_of(brainevent.cuda_kernel(source, entry, VECTOR, launch_dims=64), X, a=2).launches[0]
    assert launch.entry.startswith(symbol)
    assert launch.title == entry
    assert launch.parameters[2] == np.float32(2).tobytes()


MANY = "__global__ void k(const float* x, float* out, int n, unsigned char b, {}) {{}}"


@pytest.mark.parametrize(
    ("more", "numbers", "words"),
    [
        ("int m", {"n": 1, "b": 2}, "missing numbers: int m; pass them by name"),
        (
            "int m",
            {"n": 1, "b": 300, "m": 1},
            "b is 300, which uint8 cannot represent; pass a whole number from 0 to 255",
        ),
        ("int m", {"n": 1.5, "b": 3, "m": 1}, "n is 1.5, which int32 cannot represent"),
        ("int m", {"n": True, "b": 3, "m": 1}, "n is True; it was declared int32: pass a number"),
        ("int m", {"n": X, "b": 3, "m": 1}, r"n is an array \(float32\[64\]\); it is fixed when a program is compiled"),
        ("int mode", {"n": 1, "b": 2, "mod": 1}, "the kernel has no number 'mod'; did you mean 'mode'"),
        ("int m", {"n": 1, "b": 2, "m": 1, "x": 1}, "the kernel has no number 'x'; pass arrays by position"),
        ("float2 m", {"n": 1, "b": 2, "m": 1}, "the parameter `float2 m` is neither a pointer to elements"),
        (
            "cudaTextureObject_t m",
            {"n": 1, "b": 2, "m": 1},
            "the parameter `cudaTextureObject_t m` is neither .*textures",
        ),
        ("float** m", {"n": 1, "b": 2, "m": 1}, r"the parameter `float\*\* m` is neither"),
        ("const float& m", {"n": 1, "b": 2, "m": 1}, "the parameter `const float& m` is neither"),
        ("int", {"n": 1, "b": 2}, "the parameter `int` has no name; name it"),
    ],
)
def test_wrong_numbers_are_reported(ninety, more, numbers, words):
    call = brainevent.cuda_kernel(MANY.format(more), "k", VECTOR, launch_dims=64)
    with pytest.raises(KernelArgumentError, match=rf"cuda_kernel\(k\): {words}"):
        call(X, **numbers)


@pytest.mark.parametrize(
    ("operands", "outs", "options", "words"),
    [
        ((X,), VECTOR, {}, r"takes 3 arrays, but is called with 1 inputs and 1 outs.*\n  __global__ void add\(const"),
        ((X, X, X), VECTOR, {}, "takes 3 arrays, but is called with 3 inputs and 1 outs"),
        ((X,), [VECTOR] * 2, {}, r"output 0 is passed to the parameter `const float\* y`, which is const. Inputs come"),
        ((X, X.astype(int)), VECTOR, {}, r"the parameter `const float\* y` takes float32, but input 1 is int32\[64\]"),
        ((X, X), jax.ShapeDtypeStruct((64,), jnp.int8), {}, r"`float\* out` takes float32, but output 0 is int8\[64\]"),
        ((X, X), VECTOR, {"zeroed": ("ou",)}, "zeroed names 'ou'; did you mean 'out'\\?; the outputs are: out"),
        ((X, X), VECTOR, {"zeroed": ("x",)}, "zeroed names 'x'; the outputs are: out"),
        ((X, X), VECTOR, {"grid": 1, "block": 2048}, "block.x is 2048, and must be from 1 to 1024"),
        ((X, X), VECTOR, {"grid": (1, 70_000), "block": 1}, "grid.y is 70000, and must be from 1 to 65535"),
        ((X, X), VECTOR, {"launch_dims": 64, "shared_mem": 232_449}, "of dynamic shared memory; use at most 232448"),
        ((X, X), VECTOR, {"launch_dims": lambda *_: "64"}, "launch_dims is '64'"),
    ],
)  # fmt: skip
def test_wrong_arrays_and_launches_are_reported(ninety, operands, outs, options, words):
    configuration = {} if {"grid", "launch_dims"} & set(options) else {"launch_dims": 64}
    call = brainevent.cuda_kernel(ADD, "add", outs, **configuration, **options)
    with pytest.raises((KernelArgumentError, ValueError), match=rf"(?s)cuda_kernel\(add\): .*{words}"):
        call(*operands, n=64)


def test_vectors_are_aligned_as_the_compiler_aligns_them(ninety):
    names = [f"{element}{n}" for element in _ELEMENTS if element[0] != "_" for n in (1, 2, 3, 4)]
    names += ["__half2", "__nv_bfloat162"]
    kinds = {name: read_type(f"P{len(name)}{name}") for name in names}
    checks = [
        f"static_assert(alignof({name}) == {max(kind.alignment, jnp.dtype(kind.dtypes[-1]).itemsize)});"
        for name, kind in kinds.items()
    ]
    source = "\n".join(["#include <cuda_fp16.h>", "#include <cuda_bf16.h>", *checks, "__global__ void k(float4* x) {}"])
    launch = plan_of(brainevent.cuda_kernel(source, "k", VECTOR, launch_dims=16)).launches[0]
    assert launch.slots == (Slot(0, 0, alignment=16),)


def test_compile_errors_have_the_users_lines(ninety):
    source = "using Index = int;\n\n__global__ void k(float* out) {\n  out[i] = 1;\n}"
    call = brainevent.cuda_kernel(source, "k", VECTOR, launch_dims=64, types={"T": jnp.bfloat16})
    with pytest.raises(CompilationError) as caught:
        call()
    text = str(caught.value)
    assert text.startswith('cuda_kernel(k): compilation failed\nk.cu(4): error: identifier "i" is undefined')
    assert "brainevent_" not in text
    assert "--gpu-architecture=sm_90" in caught.value.command
    assert "identifier" in caught.value.compiler_output


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        ("template <class T> __global__ void k(T* x) {}", "k<floot>", 'identifier "floot" is undefined'),
        ('#include "nowhere.h"\n__global__ void k(float* x) {}', "k", r"(?s)k.cu\(1\).*for yours, pass options="),
        (
            "#define A float* x, float* y\n__global__ void k(A) {}",
            "k",
            r"the compiler sees differ from those .*`__global__ void",
        ),
        ("__global__ void k(float* x) {", "k", "expected a"),
        ("__global__ int k(float* x) {}", "k", "void return type"),
        (
            "__global__ void k(float* x); __global__ void k(int* x);",
            "k",
            "overloaded (?s:.*)\nAt the end of the source there is no such kernel",
        ),
        (
            "namespace a { namespace b { __global__ void k(float* x) {} } }",
            "b::k",
            "At the end of the source there is no such kernel: write the entry with all its namespaces, such",
        ),
    ],
)
def test_what_does_not_compile_is_reported(ninety, source, entry, words):
    with pytest.raises(CompilationError, match=words):
        brainevent.cuda_kernel(source, entry, VECTOR, launch_dims=64)()


def test_an_architecture_that_nvrtc_does_not_know_is_reported(ninety):
    brainevent.config.set_compute_capability("3.0")
    with pytest.raises(UnsupportedArchError, match=r"NVRTC \d+\.\d+ does not know sm_30; install the one for your GPU"):
        brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)(X, X, n=64)


def test_several_architectures_share_one_ptx(ninety):
    brainevent.config.set_compute_capability(["9.0", "8.0"])
    binary = plan_of(brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64), X, X, n=64).launches[0].binary
    assert b".target sm_80" in binary
    assert b".entry _Z3addPKfS0_Pfi(" in binary
    assert binary.endswith(b"\0")


def test_options_and_headers_reach_the_compiler(ninety, tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 3\n")
    source = (
        "#include <cstdint>\n#include <mine.h>\n__global__ void k(int* out) { static_assert(VALUE == N); *out = N; }"
    )
    one = jax.ShapeDtypeStruct((1,), jnp.int32)
    options = (f"-I{tmp_path}", "-DN=3", "-lineinfo", "--std=c++20", "--use_fast_math")
    call = brainevent.cuda_kernel(source, "k", one, launch_dims=1, options=options)
    first = plan_of(call).launches[0].binary
    (tmp_path / "mine.h").write_text("#define VALUE 4\n")
    with pytest.raises(CompilationError, match="static assertion failed"):
        call()
    assert first[:4] == b"\x7fELF"


# ---- the cache --------------------------------------------------------------------------------------------------


def test_a_kernel_is_compiled_once(ninety, own_cache, monkeypatch):
    call = lambda **options: brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64, **options)
    first = plan_of(call(), X, X, n=64)
    plan_of(call(), X, X, n=3)
    assert own_cache.call_count == 1
    monkeypatch.setattr(compiler, "_codes", {})  # as in another process
    assert plan_of(call(), X, X, n=64) == first
    assert own_cache.call_count == 1
    plan_of(call(options=("-lineinfo",)), X, X, n=64)
    plan_of(call(types={"T": jnp.int32}), X, X, n=64)
    assert own_cache.call_count == 3


def test_threads_compile_once(ninety, own_cache):
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    unit = nvrtc.translation_unit("here", ADD, "add", None, ())
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: compiler.compiled("here", unit, ("9.0",)), range(8)))
    assert own_cache.call_count == 1
    assert plan_of(call, X, X, n=64).launches[0].binary == codes[0].binary == codes[7].binary


def test_a_damaged_file_is_made_again(ninety, own_cache, monkeypatch, tmp_path):
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    first = plan_of(call, X, X, n=64)
    (kept,) = tmp_path.glob("add_*/add.gpu")
    content = kept.read_bytes()
    assert json.loads(content.partition(b"\n")[0])["entry"] == "_Z3addPKfS0_Pfi"
    kept.write_bytes(content[:-40] + bytes(40))
    monkeypatch.setattr(compiler, "_codes", {})
    assert plan_of(call, X, X, n=64) == first
    assert own_cache.call_count == 2
    assert Path(kept).read_bytes() == content


def test_the_cache_lists_and_clears_kernels(ninety, own_cache, tmp_path):
    plan_of(brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64), X, X, n=64)
    cache = importlib.import_module("brainevent.toolchain.cache")
    (entry,) = cache.entries()
    assert (entry.name, entry.path.name) == ("add", "add.gpu")
    assert brainevent.clear_cache("other") == 0
    assert brainevent.clear_cache("add") == 1
    assert cache.entries() == []
    assert not list(tmp_path.glob("add_*"))


def test_a_cache_that_is_cleared_meanwhile_does_no_harm(ninety, own_cache, monkeypatch, tmp_path):
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    first = plan_of(call, X, X, n=64)
    monkeypatch.setattr(compiler, "_codes", {})
    monkeypatch.setattr(compiler.cache, "get_or_build", lambda *_, **__: tmp_path / "gone")
    assert plan_of(call, X, X, n=64) == first


PROGRAM = """
    import sys, jax, jax.numpy as jnp, brainevent
    from brainevent.backends.nvrtc import compiler
    from test_nvrtc import ADD, VECTOR, X, exported
    brainevent.set_cache_dir(sys.argv[1])
    brainevent.config.set_compute_capability("9.0")
    number, compile_ = [], compiler._compile
    compiler._compile = lambda *a: number.append(1) or compile_(*a)
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    text = exported(jax.vmap(lambda x, y: call(x, y, n=64)), jnp.ones((3, 64)), jnp.ones((3, 64)))
    import hashlib
    print(len(number), hashlib.sha256(text.encode()).hexdigest(), text.count("custom_call @brainevent_portable_graph"))
    print("cuda.bindings.nvrtc" in sys.modules)
"""


@pytest.mark.thorough
def test_another_process_compiles_nothing_and_lowers_to_the_same_text(ninety, tmp_path):
    first, second = (run_forked(PROGRAM, tmp_path).split() for _ in range(2))
    assert (first[0], second[0]) == ("1", "0")
    assert first[1:3] == second[1:3]
    assert first[2:] == ["1", "True"]
    assert second[3] == str(compiler._release().startswith("("))  # NVRTC is not loaded, if a package tells its release
    brainevent.set_cache_dir(tmp_path)
    brainevent.clear_cache()
    brainevent.set_cache_dir(None)
    assert run_forked(PROGRAM, tmp_path).split() == first  # compiled anew, byte for byte the same


# ---- as part of programs ----------------------------------------------------------------------------------------


def test_on_the_cpu_the_error_names_the_platform(ninety):
    call = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=64)
    with pytest.raises(NotImplementedError, match="the kernel 'add' runs on NVIDIA GPUs, and is called in a program"):
        call(X, X, n=64)


def test_an_operator_is_exported_for_a_gpu_without_one(ninety, unique_name):
    operator = brainevent.XLACustomKernel(unique_name("nvrtc"))
    kernel = lambda outs: brainevent.cuda_kernel(ADD, "add", outs[0], launch_dims=outs[0].shape)
    operator.def_kernel("nvrtc", "gpu", lambda *, outs: lambda x, y: [kernel(outs)(x, y, n=outs[0].size)])
    operator.def_reference(lambda x, y: x + y)
    np.testing.assert_array_equal(operator(X, X), 2 * X)
    text = exported(jax.grad(lambda x: operator(x, x).sum()), X)
    assert text.count("custom_call @brainevent_portable_graph") == 0  # the reference's derivative, which is linear
    assert exported(lambda x: operator(x, x), X).count("custom_call @brainevent_portable_graph") == 1


def test_the_language_is_in_the_table():
    row = brainevent.languages.language("nvrtc")
    assert (row.title, row.platforms) == ("Raw CUDA (NVRTC)", ("gpu",))
    assert row.why_missing() is None or "run: pip install" in row.why_missing()
