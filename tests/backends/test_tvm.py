# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM FFI, compiled here for the CPU: their arguments, batches, exports, errors, and a whole check."""

import ctypes
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from programs import run_program

import brainevent
from brainevent import KernelArgumentError, XLACustomKernel, tvm_kernel
from brainevent.ffi.tvm import target as targets

tvm_ffi = pytest.importorskip("tvm_ffi")

# In C, which compiles in a tenth of a second; C++ with TVM FFI's own headers takes some seconds.
SOURCE = r"""
#include <tvm/ffi/c_api.h>
#include <math.h>
#define EXPORT __attribute__((visibility("default"))) int
static DLTensor* tensor(const TVMFFIAny* any) { return (DLTensor*)any->v_ptr; }

EXPORT __tvm_ffi_scale(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  DLTensor *x = tensor(args), *out = tensor(args + 4);
  if (n != 5 || args[0].type_index != kTVMFFIDLTensorPtr) return -1;
  if (x->ndim != 1) return TVMFFIErrorSetRaisedFromCStr("ValueError", "x has other axes than one"), -1;
  if (args[1].type_index != kTVMFFIFloat || args[2].type_index != kTVMFFIInt || args[3].type_index != kTVMFFIBool)
    return TVMFFIErrorSetRaisedFromCStr("TypeError", "the numbers have other kinds"), -1;
  for (int64_t i = 0; i < x->shape[0]; ++i)
    ((float*)out->data)[i] =
        (args[3].v_int64 ? -1 : 1) * args[1].v_float64 * ((float*)x->data)[i * x->strides[0]] + args[2].v_int64;
  return 0;
}
EXPORT __tvm_ffi_twice(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  DLTensor *x = tensor(args), *out = tensor(args + 1);
  int64_t size = 1;
  for (int a = 0; a < x->ndim; ++a) size *= x->shape[a];
  for (int64_t i = 0; i < size; ++i) ((float*)out->data)[i] = 2 * ((float*)x->data)[i];
  return 0;
}
EXPORT __tvm_ffi_describe(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  DLTensor *x = tensor(args), *out = tensor(args + 1);
  int32_t* to = (int32_t*)out->data;
  *to++ = x->device.device_type, *to++ = x->device.device_id, *to++ = x->ndim, *to++ = x->dtype.code;
  *to++ = x->dtype.bits, *to++ = x->dtype.lanes, *to++ = x->byte_offset;
  for (int a = 0; a < x->ndim; ++a) *to++ = x->shape[a], *to++ = x->strides[a];
  return 0;
}
EXPORT __tvm_ffi_add(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  float *work = (float*)tensor(args + 1)->data, *y = (float*)tensor(args + 2)->data;
  for (int64_t i = 0; i < tensor(args)->shape[0]; ++i) work[i] = ((float*)tensor(args)->data)[i], y[i] += work[i];
  return 0;
}
EXPORT __tvm_ffi_silent(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) { return -1; }
EXPORT __tvm_ffi_text(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  TVMFFIByteArray bytes = {"a text that is longer than eight bytes", 38};
  return TVMFFIStringFromByteArray(&bytes, result);
}
EXPORT __tvm_ffi_big(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  *(int64_t*)tensor(args + 1)->data = args[0].v_int64;
  return 0;
}
"""
X = jnp.arange(4.0)
SCALE = {"x": "input", "factor": "float32", "shift": "int32", "flip": "bool", "out": "output"}


def build(folder, source, name="library"):
    (folder / f"{name}.c").write_text(source)
    include = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    runtime = tvm_ffi.libinfo.find_libtvm_ffi()
    command = ["gcc", "-shared", "-fPIC", "-O1", *include, f"{name}.c", runtime, "-o", f"{name}.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.so"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return build(tmp_path_factory.mktemp("tvm"), SOURCE)


@pytest.fixture
def kernel(library):
    return lambda name, outs, **options: tvm_kernel(library, outs, name=name, platform="cpu", **options)


def test_numbers_of_three_kinds(kernel):
    scale = kernel("scale", X, arguments=SCALE)
    np.testing.assert_array_equal(scale(X, factor=0.5, shift=3, flip=True), 3 - 0.5 * X)
    np.testing.assert_array_equal(jax.jit(lambda x: scale(x, factor=-2, shift=0, flip=False))(X), -2 * X)
    signs = [np.signbit(scale(X[:1] + 1, factor=zero, shift=0, flip=False))[0] for zero in (0.0, -0.0)]
    assert signs == [False, False]  # -0.0 + 0 is 0.0
    assert np.isnan(scale(X + 1, factor=float("nan"), shift=0, flip=False)).all()


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (jnp.zeros((2, 3), jnp.float32), (2, 32)),
        (jnp.zeros((), jnp.int8), (0, 8)),
        (jnp.zeros((0, 5), jnp.uint16), (1, 16)),
        (jnp.zeros(3, jnp.bfloat16), (4, 16)),
        (jnp.zeros(3, bool), (6, 8)),
        (jnp.zeros((1, 2, 3), jnp.complex64), (5, 64)),
        (jnp.zeros(3, jnp.float8_e4m3fn), (10, 8)),
        (jnp.zeros(3, jnp.float8_e5m2), (12, 8)),
    ],
)
def test_what_a_function_sees_of_an_array(kernel, x, dtype):
    code, bits = dtype
    out = jax.ShapeDtypeStruct((7 + 2 * x.ndim,), jnp.int32)
    strides = [int(np.prod(x.shape[axis + 1 :])) for axis in range(x.ndim)]
    pairs = [n for pair in zip(x.shape, strides, strict=True) for n in pair]
    assert kernel("describe", out)(x).tolist() == [1, 0, x.ndim, code, bits, 1, 0, *pairs]
    with pytest.raises(KernelArgumentError, match="TVM FFI has no arrays of int4; convert it"):
        kernel("describe", out)(jnp.zeros(3, jnp.int4))


def test_batches_are_native_loops(kernel):
    scale = kernel("scale", X, arguments=SCALE)
    one = lambda x: scale(x, factor=2, shift=1, flip=False)
    rows = jnp.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(one)))(rows), 2 * rows + 1)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(one, in_axes=1), in_axes=0)(rows.mT), 2 * rows + 1)
    assert jax.vmap(one)(jnp.zeros((0, 4))).shape == (0, 4)
    whole = kernel("twice", X, vmap_method="broadcast_all")
    np.testing.assert_array_equal(jax.vmap(whole)(rows[0]), 2 * rows[0])
    seen = kernel("describe", jax.ShapeDtypeStruct((9,), jnp.int32))
    assert jax.vmap(seen)(rows[0])[:, 2].tolist() == [1, 1, 1]  # axes of an element


def test_scratch_memory_and_memory_that_two_share(kernel):
    arguments = {"x": "input", "work": lambda x, y, out: x, "y": "inout"}
    add = kernel("add", X, arguments={"x": "input", "work": jax.ShapeDtypeStruct((4,), "float32"), "y": "inout"})
    np.testing.assert_array_equal(add(X, jnp.ones(4)), X + 1)
    ones = jnp.ones(4)
    np.testing.assert_array_equal(
        jax.vmap(kernel("add", X, arguments=arguments), (0, None))(X * jnp.ones((2, 1)), ones),
        X + ones * jnp.ones((2, 1)),
    )
    np.testing.assert_array_equal(ones, np.ones(4))


def test_a_whole_check(library):
    op = XLACustomKernel("scaled_by_tvm")
    op.def_reference(lambda x, *, factor: factor * x + 1)

    def generator(*, outs, factor):
        scale = tvm_kernel(library, outs, name="scale", arguments=SCALE, platform="cpu")
        return lambda x: scale(x, factor=factor, shift=1, flip=False)

    op.def_tvm_kernel("cpu", generator)
    report = brainevent.check(op, jnp.arange(8.0), factor=0.5, outs=jnp.zeros(8))
    assert report.ok, str(report)
    assert {row.status for row in report.rows} <= {"ok", "skipped"}
    with pytest.raises(brainevent.RegistrationValueError, match="runs on 'cpu' or 'gpu', not 'tpu'"):
        op.def_tvm_kernel("tpu", generator)


def test_exported_programs_contain_the_library(library, tmp_path):
    copy = shutil.copy(library, tmp_path / "copy.so")
    twice = tvm_kernel(copy, X, name="twice", platform="cpu")
    program = export.export(jax.jit(jax.vmap(twice)), disabled_checks=brainevent.export_checks())(jnp.ones((2, 4)))
    (tmp_path / "program").write_bytes(program.serialize())
    (tmp_path / "copy.so").unlink()
    np.testing.assert_array_equal(twice(X), 2 * X)
    printed = run_program(f"""
        import jax, jax.numpy as jnp, brainevent
        from pathlib import Path
        program = jax.export.deserialize(bytearray(Path({str(tmp_path / "program")!r}).read_bytes()))
        print(program.call(jnp.arange(8.0).reshape(2, 4)).tolist())
    """)
    assert printed.strip() == str((2 * np.arange(8.0).reshape(2, 4)).tolist())


def test_exported_calls_have_one_shape(library):
    describe = tvm_kernel(library, jax.ShapeDtypeStruct((9,), np.int32), name="describe", platform="cpu")
    x = jax.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)
    with pytest.raises(KernelArgumentError, match=r"symbolic shape \(n,\), and the call contains all extents; export"):
        export.export(jax.jit(describe), disabled_checks=brainevent.export_checks())(x)


def test_a_library_that_is_compiled_again(tmp_path, library):
    path = shutil.copy(library, tmp_path / "again.so")
    before = tvm_kernel(path, X, name="twice", platform="cpu")
    np.testing.assert_array_equal(before(X), 2 * X)
    build(tmp_path, SOURCE.replace("= 2 *", "= 3 *"), "again")
    after = tvm_kernel(path, X, name="twice", platform="cpu")
    np.testing.assert_array_equal(after(X), 3 * X)
    np.testing.assert_array_equal(before(X), 2 * X)


def test_a_function_of_this_process(library):
    twice = tvm_kernel(tvm_ffi.load_module(str(library)).twice, X, platform="cpu")
    np.testing.assert_array_equal(jax.jit(jax.vmap(twice))(jnp.ones((2, 4))), np.full((2, 4), 2))
    with pytest.raises(KernelArgumentError, match="a function of this process cannot be exported; write it to a libr"):
        export.export(jax.jit(twice), disabled_checks=brainevent.export_checks())(X)

    def fails(x, out):
        raise ValueError(f"of {x.shape[0]} elements")

    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: of 4 elements"):
        tvm_kernel(tvm_ffi.convert(fails), X, platform="cpu")(X)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scale", ", function 'scale' of TVM FFI: ValueError: x has other axes than one"),
        ("silent", "function 'silent' of TVM FFI: it failed with the code -1"),
    ],
)
def test_errors_of_a_function(library, unique_name, name, words):
    op = XLACustomKernel(unique_name("failing"))
    given = {"arguments": {**SCALE}} if name == "scale" else {}
    numbers = {"factor": 1.0, "shift": 1, "flip": False} if name == "scale" else {}

    def generator(*, outs):
        kernel = tvm_kernel(library, outs, name=name, platform="cpu", **given)
        return lambda x: kernel(x, **numbers)

    op.def_tvm_kernel("cpu", generator)
    for _ in range(2):  # the error of one run is not that of the next
        with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(words)):
            op(jnp.ones((2, 2)), outs=jnp.ones((2, 2)))


def test_results_of_functions_are_released(kernel):
    kernel("text", X)(X)  # an object, which leaks or is freed twice, as sanitizers show
    memory = kernel("big", jax.ShapeDtypeStruct((2,), "int32"), arguments={"n": "int64", "out": "output"})
    assert memory(n=2**40 + 7).tolist() == [7, 256]
    unsigned = kernel("big", jax.ShapeDtypeStruct((2,), "int32"), arguments={"n": "uint64", "out": "output"})
    with pytest.raises(KernelArgumentError, match="TVM FFI's integers have 63 bits"):
        unsigned(n=2**63)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "twic"}, "has no function 'twic'; did you mean 'twice'?; there are: add, big, describe, scale"),
        ({"name": None}, "has several functions; pass name=; there are: add"),
        ({"platform": "tpu"}, 'platform is \'tpu\'; pass "cpu" or "gpu"'),
        ({"arguments": {"x": "input", "pad": b"\0" * 8, "out": "output"}}, "'pad' is declared as bytes; TVM FFI takes"),
        ({"arguments": {"out": "output"}}, "0 inputs are declared (none), and there are 1"),
        ({"arguments": {"x": ("input", "int32"), "out": "output"}}, "'x' is declared int32, and is float32[4]"),
        ({"arguments": {"x": "input", "out": "output", "n": "int32"}}, "missing numbers: n; pass them by name"),
    ],
)
def test_what_does_not_fit(library, options, words):
    with pytest.raises(KernelArgumentError, match=re.escape(words)):
        tvm_kernel(library, X, **{"name": "twice", "platform": "cpu", **options})(X)


def test_what_is_no_function(tmp_path):
    (tmp_path / "no.so").write_bytes(b"\x7fELF")
    for given, words in ((3, "function is int; pass the path of a library"),
                         (tmp_path / "none.so", "cannot be read: No such file"),
                         (tmp_path / "no.so", "has no function None; there are: none (export with")):  # fmt: skip
        with pytest.raises(KernelArgumentError, match=re.escape(words)):
            tvm_kernel(given, X)


def test_calls_for_gpus_are_laid_out_here(library):
    """Everything but the run: the words that the handler reads, with device, stream, and a graph's target."""
    twice = tvm_kernel(library, X, name="twice")
    text = export.export(jax.jit(twice), platforms=["cuda"], disabled_checks=brainevent.export_checks())(
        X
    ).mlir_module()
    assert text.count("brainevent_portable_graph") == 1
    apart = tvm_kernel(library, X, name="twice", allow_cuda_graph=False)
    text = export.export(jax.jit(apart), platforms=["cuda"], disabled_checks=brainevent.export_checks())(
        X
    ).mlir_module()
    assert "brainevent_portable_graph" not in text
    source = targets.Source("twice", library.read_bytes())
    header = {"name": "twice", "token": "", "runtime": "", "numbers": [], "buffers": 2, "platform": "cuda",
              **targets.environment(), "tensors": [(0, 0, (2, 32), (3, 4)), (1, 1, (2, 32), (3, 4))]}  # fmt: skip
    words = list(targets.load(header, source.library))
    assert words[2:4] == [1, 2]
    assert words[6:8] == [2, 2]
    assert words[10] == 2  # kDLCUDA
    assert words[11:15] == [7, 0, 7, 0]  # two arrays
    rows = words[15:31]
    assert [rows[0], rows[1], rows[8], rows[9]] == [0, 0, 1, 1]
    shape, strides = (ctypes.c_int64 * 2).from_address(rows[5]), (ctypes.c_int64 * 2).from_address(rows[6])
    assert (list(shape), list(strides)) == ([3, 4], [4, 1])
    with pytest.raises(RuntimeError, match="its compiled kernels are for machine riscv"):
        targets.load({**header, "machine": "riscv"}, source.library)
