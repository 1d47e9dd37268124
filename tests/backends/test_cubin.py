# SPDX-License-Identifier: Apache-2.0
"""Machine code of other compilers: what it says of itself, how it is launched, and what does not fit."""

import ctypes
import dataclasses
import functools
import importlib
import os
import re
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from pretend_cuda import pretend, pretend_library  # noqa: F401

import brainevent
from brainevent import (
    GpuArchDetectionError,
    KernelArgumentError,
    NvccNotFoundError,
    UnsupportedArchError,
    config,
    cubin_kernel,
)
from brainevent.backends.cubin import kernel as kernels
from brainevent.ffi.launch import driver
from brainevent.ffi.launch.code import Code, Entry, chosen, read
from brainevent.toolchain.find import find_cuda_toolkit

SOURCE = """
struct P { float a; int b[3]; };
extern "C" __global__ void axpy(const float* x, const float* y, float* out, int n, double a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += a * x[i] + y[i];
}
extern "C" __global__ void CLUSTERED other(P p, char c, float* out) { out[0] = p.a + c; }
extern "C" __global__ void nothing() {}
__global__ void __launch_bounds__(128) named(float* x) { x[0] = 1; }
__global__ SIZED void sized(float* x) { x[0] = 1; }
"""
SIZES = {"axpy": (8, 8, 8, 4, 8), "other": (16, 1, 8), "nothing": (), "_Z5namedPf": (8,), "_Z5sizedPf": (8,)}
PTX = """
// .entry commented()
.version 8.0
.target sm_80
.address_size 64
.visible .entry axpy(
  .param .u64 .ptr .global .align 4 axpy_param_0, .param .u64 axpy_param_1, /* , */ .param .u64 axpy_param_2,
  .param .u32 axpy_param_3, .param .f64 axpy_param_4
) .maxntid 512, 1 { ret; }
.entry other(.param .align 4 .b8 other_param_0[16], .param .u8 c, .param .u64 out)
.reqntid 64, 2 .reqnctapercluster 2 { ret; }
.entry tell(.param .u64 out) { ret; }
"""
FOLDER = Path(__file__).parent / "ptx"  # what other compilers made
ARGUMENTS = {"x": "input", "y": "input", "out": "output", "n": "int32", "a": "float64"}
X, Y = jnp.arange(5.0), jnp.ones(5)


@pytest.fixture(autouse=True)
def ninety(monkeypatch):
    """Pretend that all GPUs have compute capability 9.0."""
    monkeypatch.setattr(kernels, "cuda_capabilities", lambda: ("9.0",))


def has_block_sizes(clustered):
    """Return whether CUDA C++ can give the size of blocks: CUDA 13 can, where there are clusters."""
    nvrtc = importlib.import_module("brainevent.backends.nvrtc.compiler")._nvrtc()[0]
    return bool(clustered) and nvrtc.nvrtcVersion()[1] >= 13


def compiled(options, clustered=""):
    nvrtc = importlib.import_module("brainevent.backends.nvrtc.compiler")._nvrtc()[0]
    sized = "__block_size__((64, 2, 1))" if has_block_sizes(clustered) else ""
    source = SOURCE.replace("CLUSTERED", clustered).replace("SIZED", sized)
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0] == 0
    get_size, get = (
        (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        if b"sm_" in options[0]
        else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    )
    code = b" " * get_size(program)[1]
    get(program, code)
    return code


@pytest.mark.parametrize(
    ("architecture", "kind"), [("75", "sm"), ("90", "sm"), ("90a", "sm"), ("100", "sm"), ("90", "compute")]
)
def test_what_code_says_of_itself(architecture, kind):
    pytest.importorskip("cuda.bindings.nvrtc")
    clusters = "__cluster_dims__(2, 1, 1)" if architecture != "75" else ""
    [code] = read("here", compiled([f"--gpu-architecture={kind}_{architecture}".encode()], clusters))
    assert {entry.name: entry.sizes for entry in code.entries} == SIZES
    assert (code.capability, code.is_ptx) == (divmod(int(architecture.rstrip("a")), 10), kind == "compute")
    assert code.entry("here", "other").cluster == ((2, 1, 1) if clusters else ())
    found = {entry.name: (entry.block, entry.most_threads) for entry in code.entries}
    assert (found["axpy"], found["_Z5namedPf"]) == (((), None), ((), 128))
    assert found["_Z5sizedPf"][0] == ((64, 2, 1) if has_block_sizes(clusters) else ())


def test_what_ptx_says_of_itself(tmp_path):
    (tmp_path / "k.ptx").write_text(PTX)
    for given in (PTX, PTX.encode(), tmp_path / "k.ptx", str(tmp_path / "k.ptx"), [PTX]):
        [code] = read("here", given)
        assert code.entries == (
            Entry("axpy", SIZES["axpy"], most_threads=512),
            Entry("other", SIZES["other"], (2, 1, 1), (64, 2, 1)),
            Entry("tell", (8,)),
        )
        assert (code.capability, code.is_ptx, code.binary[-1:]) == ((8, 0), True, b"\0")


@pytest.mark.parametrize(
    ("name", "entry", "hidden", "block"),
    [
        ("rust_1_63", "leak", (), ()),
        ("rust_1_97", "leak", (), ()),
        ("mojo_1_2", "leak_c2decaaa", (), ()),
        ("triton_3_9", "leak", (8, 8), (128, 1, 1)),
    ],
)
def test_ptx_of_other_compilers(name, entry, hidden, block):
    """All of `leak(v, out, decay, n)`; Triton adds two parameters."""
    path = FOLDER / f"{name}.ptx"
    [code] = read("here", path)
    assert code.entries == (Entry(entry, (8, 8, 4, 4, *hidden), block=block),)
    assert (code.title, code.entry("here", None).name) == ("PTX for compute capability 8.0", entry)
    its = {"v": "input", "out": "output", "decay": "float32", "n": "int32"}
    its |= {f"scratch_{k}": b"\0" * size for k, size in enumerate(hidden)}
    leak = cubin_kernel(path, None, X, arguments=its, grid=1, block=128)
    assert jax.eval_shape(lambda v: leak(v, decay=0.5, n=5), X).shape == (5,)
    with pytest.raises(KernelArgumentError, match=r"its parameter 2 has 4 bytes, and decay \(float64\) has 8"):
        cubin_kernel(path, None, X, arguments={**its, "decay": "float64"}, grid=1, block=128)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_the_assembler_takes_ptx_of_other_compilers(path):
    try:
        nvcc = find_cuda_toolkit().nvcc
    except NvccNotFoundError:
        pytest.skip("the assembler is not here")
    command = [Path(nvcc).parent / "ptxas", "-arch=sm_90", path, "-o", os.devnull]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (PTX, "the code has 3 kernels; pass the name of one as entry=: axpy, other, tell"),
        (PTX[: PTX.index(".visible")], "the code has no kernels; pass the name of one as entry="),
    ],
)
def test_a_kernel_without_a_name_must_be_alone(code, words):
    with pytest.raises(KernelArgumentError, match=f"^cubin_kernel: {re.escape(words)}$"):
        cubin_kernel(code, None, X, launch_dims=5)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "code is int; pass a cubin as bytes"),
        ([], "code is empty"),
        ("no/such.cubin", "the file 'no/such.cubin' cannot be read: No such file"),
        (b"\x7fELF" + bytes(20), "the code is damaged: it begins as an ELF file"),
        (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\0" + bytes(60), "the code is damaged"),
        (b"\x50\xed\x55\xba" + bytes(60), "is a fat binary; extract a cubin"),
        (b"\xff\xfe", "is neither a cubin nor PTX"),
        ("int main() {\n}", "is neither a cubin nor PTX; compile with nvcc --cubin, or --ptx"),
    ],
)
def test_what_is_no_code(code, words):
    with pytest.raises(KernelArgumentError, match=re.escape(words)):
        cubin_kernel(code, "axpy", X, launch_dims=5)


def code_for(number, *, is_ptx=False, only=""):
    return Code(b"", "the code", divmod(number, 10), is_ptx, (), only)


@pytest.mark.parametrize(
    ("here", "best"),
    [
        ([(9, 0)], "a cubin for compute capability 9.0"),
        ([(8, 6)], "a cubin for compute capability 8.6"),
        ([(8, 9)], "a cubin for compute capability 8.6"),
        ([(8, 0)], "PTX for compute capability 8.0"),
        ([(10, 0)], "PTX for compute capability 8.0"),
        ([(8, 6), (9, 0)], "PTX for compute capability 8.0"),
    ],
)
def test_the_best_code_for_the_gpus_here(here, best):
    codes = [code_for(80, is_ptx=True), code_for(86), code_for(90), code_for(75), code_for(90, is_ptx=True, only="a")]
    assert chosen("here", codes, here).title == best


@pytest.mark.parametrize(
    ("code", "here"),
    [
        (code_for(90), (8, 0)),
        (code_for(80), (9, 0)),
        (code_for(86), (8, 0)),
        (code_for(90, is_ptx=True, only="a"), (10, 0)),
        (code_for(100, is_ptx=True, only="f"), (12, 0)),
    ],
)
def test_code_for_other_gpus(code, here):
    words = f"the GPU here has compute capability {here[0]}.{here[1]}, and there is only {code.title}; compile it for"
    with pytest.raises(UnsupportedArchError, match=re.escape(words)):
        chosen("here", [code], [here])


@pytest.mark.parametrize(
    ("entry", "arguments", "words"),
    [
        ("axpi", None, "the code has no kernel 'axpi'; did you mean 'axpy'.; there are: axpy, other, tell"),
        (
            "axpy",
            None,
            r"it takes 5 parameters, of 8, 8, 8, 4, 8 bytes, and 3 are declared. Declared: input 0 \(input\)",
        ),
        ("axpy", {**ARGUMENTS, "n": "int64"}, r"its parameter 3 has 4 bytes, and n \(int64\) has 8"),
        ("axpy", {**ARGUMENTS, "y": "inout"}, r"2 outputs are declared \(y, out\), and there are 1"),
        ("axpy", {**ARGUMENTS, "out": "scratch"}, '\'out\' is declared \'scratch\'; use "input", "output", "inout"'),
        ("axpy", {**ARGUMENTS, "out": ("output", "int32")}, r"'out' is declared int32, and is float32\[5\]; convert"),
        ("axpy", {**ARGUMENTS, "n": "complex64"}, "'n' is declared complex64, and numbers cannot be"),
        ("axpy", {"no name": "input"}, "the name 'no name' in arguments= is none"),
        ("axpy", ["input"], "arguments is list; pass the parameters of the kernel by name"),
    ],
)
def test_arguments_that_do_not_fit(entry, arguments, words):
    with pytest.raises(KernelArgumentError, match=words):
        jax.eval_shape(
            lambda x, y: cubin_kernel(PTX, entry, X, arguments=arguments, launch_dims=5)(x, y, n=5, a=2.0), X, Y
        )


def test_sizes_that_do_not_fit_are_found_before_a_call():
    with pytest.raises(KernelArgumentError, match=r"its parameter 3 has 4 bytes, and n \(int64\) has 8"):
        cubin_kernel(PTX, "axpy", X, arguments={**ARGUMENTS, "n": "int64"}, launch_dims=5)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"n": 5}, "missing numbers: a; pass them by name"),
        ({"n": 5, "a": 2.0, "b": 1}, "the kernel has no number 'b'.*; there are: n, a"),
        ({"n": 2**31, "a": 2.0}, "which int32 cannot represent"),
        ({"n": 5, "a": "2"}, "pass a number"),
    ],
)
def test_numbers_that_do_not_fit(numbers, words):
    with pytest.raises(KernelArgumentError, match=words):
        jax.eval_shape(
            lambda x, y: cubin_kernel(PTX, "axpy", X, arguments=ARGUMENTS, launch_dims=5)(x, y, **numbers), X, Y
        )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"grid": 3, "block": 32, "cluster": 2}, "grid.x is 3, and must be a multiple of cluster.x, which is 2"),
        ({"grid": 64, "block": 32, "cluster": 32}, "the cluster .* has 32 blocks; use at most 16"),
        ({"grid": 1, "block": 2048}, "block.x is 2048, and must be from 1 to 1024"),
        (
            {"grid": 1, "block": 768},
            r"'axpy' was compiled for blocks of at most 512 threads, and the block is \(768, 1, 1\); use a smaller one",
        ),
        ({"launch_dims": 5, "zeroed": ["oot"]}, "zeroed names 'oot'; did you mean 'out'"),
        (
            {"launch_dims": 5, "zeroed": ["out"], "input_output_aliases": {0: 0}},
            "named in zeroed and in input_output_al",
        ),
    ],
)
def test_launches_that_do_not_fit(how, words):
    with pytest.raises(KernelArgumentError, match=words):
        jax.eval_shape(lambda x, y: cubin_kernel(PTX, "axpy", X, arguments=ARGUMENTS, **how)(x, y, n=5, a=2.0), X, Y)


def test_a_cluster_that_is_no_size():
    words = "cubin_kernel(axpy): cluster is 'a'; pass a whole number, or one to three of them"
    with pytest.raises(ValueError, match=re.escape(words)):
        cubin_kernel(PTX, "axpy", X, arguments=ARGUMENTS, launch_dims=5, cluster="a")


def test_a_machine_without_a_gpu(monkeypatch):
    monkeypatch.setattr(config, "get_compute_capability", lambda: None)
    monkeypatch.delenv("BRAINEVENT_COMPUTE_CAPABILITIES", raising=False)
    monkeypatch.setattr("brainevent.backends.cubin.kernel.cuda_capabilities", list)
    monkeypatch.setattr("brainevent.toolchain.architectures._nvidia_smi", list)
    kernel = cubin_kernel(PTX, "axpy", X, arguments=ARGUMENTS, launch_dims=5)
    words = r"cubin_kernel\(axpy\): this code runs on NVIDIA GPUs, and none is found here; .* To export a program for"
    with pytest.raises(GpuArchDetectionError, match=words):
        kernel(X, Y, n=5, a=2.0)


def test_blocks_of_another_size():
    its = {"p": b"\0" * 16, "c": "int8", "out": "output"}
    other = cubin_kernel(PTX, "other", X, arguments=its, grid=2, block=(64, 2))
    assert jax.eval_shape(lambda: other(c=1)).shape == X.shape
    words = "'other' was compiled for blocks of (64, 2, 1) threads, and the block is (128, 1, 1); pass grid= and block="
    with pytest.raises(KernelArgumentError, match=re.escape(words)):
        jax.eval_shape(lambda: cubin_kernel(PTX, "other", X, arguments=its, grid=2, block=128)(c=1))


# ---- runs, with a pretend driver -------------------------------------------------------------------------------------


@functools.wraps(kernels.PlanTarget)
def on_cpu(plan, again, target=kernels.PlanTarget):
    return target(dataclasses.replace(plan, in_graphs=False), again, "cpu")


@pytest.fixture
def on_pretend(pretend, monkeypatch):  # noqa: F811
    """Let programs for the CPU launch: the pretend driver takes its own library for the binary."""
    its_read = kernels.read

    def read_it(where, code):
        return tuple(dataclasses.replace(one, binary=pretend.binary) for one in its_read(where, code))

    monkeypatch.setattr(kernels, "read", read_it)
    monkeypatch.setattr(kernels, "PlanTarget", on_cpu)
    return pretend


def axpy(**more):
    return cubin_kernel(PTX, "axpy", X, arguments=ARGUMENTS, launch_dims=5, zeroed=["out"], **more)


def test_a_kernel_runs(on_pretend):
    np.testing.assert_array_equal(jax.jit(lambda x: axpy()(x, Y, n=5, a=2.0))(X), 2 * X + Y)
    batch = jnp.stack([X, 3 * X])
    np.testing.assert_array_equal(jax.vmap(lambda x: axpy()(x, Y, n=5, a=2.0))(batch), 2 * batch + Y)
    np.testing.assert_array_equal(axpy()(X, Y, n=3, a=1.0), jnp.where(X < 3, X + Y, 0))
    x = jnp.arange(6.0)
    nothing = cubin_kernel(PTX, "axpy", x, arguments=ARGUMENTS, launch_dims=0)
    np.testing.assert_array_equal(nothing(x, x, n=6, a=1.0), np.zeros(6))


def test_an_output_that_is_an_input(on_pretend):
    arguments = {"x": "input", "work": lambda *arrays: jax.ShapeDtypeStruct(arrays[0].shape, jnp.float32),
                 "out": "inout", "n": "int32", "a": "float64"}  # fmt: skip
    call = cubin_kernel(PTX, "axpy", X, arguments=arguments, launch_dims=5, zeroed=["work"])
    before = 10 * Y
    np.testing.assert_array_equal(call(X, before, n=5, a=2.0), 10 + 2 * X)  # the scratch memory is y, and 0
    np.testing.assert_array_equal(before, 10 * Y)
    many = jnp.stack([X, 3 * X])
    np.testing.assert_array_equal(jax.vmap(lambda x: call(x, before, n=5, a=2.0))(many), 10 + 2 * many)


def test_scratch_memory_that_is_none(on_pretend):
    arguments = {**ARGUMENTS, "y": lambda *_: 3}
    with pytest.raises(KernelArgumentError, match="scratch memory 'y' returned int; return"):
        cubin_kernel(PTX, "axpy", X, arguments=arguments, launch_dims=5)(X, n=5, a=2.0)


def test_clusters_and_cooperative_launches(on_pretend):
    library = ctypes.CDLL(driver.LIBRARY)
    cluster = (ctypes.c_int * 3).in_dll(library, "pretend_cluster")
    cluster[:] = [0, 0, 0]
    out = jax.ShapeDtypeStruct((7,), jnp.int32)
    tell = cubin_kernel(PTX, "tell", out, grid=(4, 2), block=32, shared_mem=lambda out: 8 * out.size, cluster=(2, 2))
    assert tell().tolist() == [4, 2, 1, 32, 1, 1, 56]
    assert cluster[:] == [2, 2, 1]
    assert on_pretend.together.value == 0
    cubin_kernel(PTX, "tell", out, grid=4, block=32, cooperative=True)().block_until_ready()
    assert on_pretend.together.value == 1
    on_pretend.failure.value = 1
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"letting the kernel 'tell' run in clusters of \(4, 1, 1\)"):
        cubin_kernel(PTX, "tell", out, grid=4, block=32, cluster=4)().block_until_ready()


def test_an_operator_with_machine_code(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("machine"))
    operator.def_cubin_kernel(lambda *, outs: lambda x, y: [axpy()(x, y, n=5, a=2.0)])
    operator.def_reference(lambda x, y: [2 * x + y])
    assert operator.available_backends("gpu") == ["cubin"]
    checks = brainevent.export_checks()
    program = export.export(jax.jit(lambda x: operator(x, Y, outs=[X])), platforms=["cuda"], disabled_checks=checks)(X)
    assert "brainevent_portable" in program.mlir_module()
