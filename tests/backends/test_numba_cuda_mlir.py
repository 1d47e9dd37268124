# SPDX-License-Identifier: Apache-2.0
"""Kernels of numba-cuda-mlir, compiled here to PTX without a GPU: their parameters, plans, and what is refused."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import KernelArgumentError, KernelCompilationError, KernelNotAvailableError, doctor
from brainevent.backends.numba_cuda import chosen
from brainevent.ffi.launch.code import read

mlir = pytest.importorskip("numba_cuda_mlir")
cuda = pytest.importorskip("numba_cuda_mlir.cuda")
kernels = pytest.importorskip("brainevent.backends.numba_cuda.kernel", reason="needs numba.cuda")
native = importlib.import_module("brainevent.backends.numba_cuda.native")

X = jnp.arange(12.0).reshape(3, 4)
ITS = "its kernels (@numba_cuda_mlir.cuda.jit) are compiled by it, on GPUs alone"


@cuda.jit
def scale(x, factor, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * factor[0]


@cuda.jit(launch_bounds=64, max_registers=32)
def bounded(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]


@cuda.jit
def broken(x, out):
    out[0] = x.no_such_thing


@pytest.fixture(autouse=True)
def ninety(monkeypatch):
    """Pretend that there is one GPU, of compute capability 9.0: the compiler asks the driver for it."""
    monkeypatch.setattr("numba_cuda_mlir.tools._cached_cc", (9, 0))
    monkeypatch.setattr(native, "cuda_capabilities", lambda: ("9.0",))


def launch_of(kernel, out, *operands, **options):
    seen = []

    def catch(target, *_):
        seen.append(target.plan.launches[0])
        return jax.tree.leaves(out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native_call", catch)
        brainevent.numba_cuda_kernel(kernel, out, **options)(*operands)
    return seen[0]


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool", "complex64", "float16"])
def test_the_parameters_are_those_of_the_code(dtype):
    x = X.astype(dtype)
    launch = launch_of(scale, x, x, x[0, :1], launch_dims=(3, 4))
    [code] = read("here", launch.binary)
    assert code.capability == (9, 0)
    assert code.entry("here", launch.entry).sizes == (8,) * 19 == tuple(map(len, launch.parameters))
    numbers = [int.from_bytes(word, "little") for word in launch.parameters]
    assert numbers == [0, 0, 0, 3, 4, 4, 1, 0, 0, 0, 1, 1, 0, 0, 0, 3, 4, 4, 1]
    assert [(s.parameter, s.buffer) for s in launch.slots] == [(0, 0), (1, 0), (7, 1), (8, 1), (12, 2), (13, 2)]
    assert launch.block == (3, 4, 1)


def test_options_of_the_decorator():
    launch = launch_of(bounded, X[0], X[0], grid=1, block=4)
    assert b".maxntid 64" in launch.binary
    assert b".maxnreg 32" in launch.binary
    with pytest.raises(KernelArgumentError, match="has 128 threads; use at most 64"):
        launch_of(bounded, X[0], X[0], grid=1, block=128)


def test_names_are_the_same_in_every_process():
    launch = launch_of(scale, X, X, X[0], launch_dims=(3, 4))
    np.testing.assert_equal(launch.entry, launch_of(scale, X, X, X[0], launch_dims=(3, 4)).entry)
    assert launch.title == "scale"


@cuda.jit
def mixed(x, n, half, on, out):
    i = cuda.grid(1)
    if on and i < n:
        out[i] = half * x[i]


def test_a_function_that_launches_several():
    def twice(x, out, stream):
        between = cuda.device_array(x.shape, x.dtype)
        mixed[1, 32, stream](x, np.int32(4), np.float32(0.5), True, between)
        mixed[1, 32, stream](between[1:], 3, 0.25, False, out)

    target, hidden = native.function_target("numba_cuda_callable(twice)", twice, [X[0]], [X[0]])
    assert [x.shape for x in hidden] == [(4,)]
    first, second = target.plan.launches
    assert first.parameters[5:8] == (np.int32(4).tobytes(), np.float32(0.5).tobytes(), b"\1")
    assert second.parameters[5:8] == (np.int64(3).tobytes(), np.float64(0.25).tobytes(), b"\0")
    assert [(s.parameter, s.buffer, s.shift) for s in second.slots] == [(0, 2, 4), (1, 2, 4), (8, 1, 0), (9, 1, 0)]
    for launch in (first, second):
        assert read("here", launch.binary)[0].entry("here", launch.entry).sizes == tuple(map(len, launch.parameters))

    def named(x, out, stream):
        mixed[1, 32, stream](x, "four", 0.5, True, out)

    with pytest.raises(KernelArgumentError, match="'four' is an argument of the type str; kernels take arrays and num"):
        native.function_target("numba_cuda_callable(named)", named, [X[0]], [X[0]])


def test_what_is_refused():
    with pytest.raises(KernelCompilationError, match=r"numba_cuda_kernel\(broken\): the kernel does not compile for"):
        launch_of(broken, X, X, launch_dims=1)
    with pytest.raises(KernelArgumentError, match=r"the kernel takes \(x, factor, out\), but is called with 2"):
        launch_of(scale, X, X, launch_dims=1)
    with pytest.raises(ValueError, match="take no arrays of bfloat16"):
        launch_of(scale, X, X.astype("bfloat16"), X, launch_dims=1)


def test_the_oldest_gpu_here_decides(monkeypatch):
    monkeypatch.setattr(native, "cuda_capabilities", lambda: ("9.0", "8.0"))
    assert read("here", launch_of(scale, X, X, X[0], launch_dims=1).binary)[0].capability == (8, 0)


KERNELS = """
import math
import numpy as np
from {package} import cuda
from {package}.cuda import grid, libdevice
{types}

@cuda.jit(device=True)
def shrunk(x):
    return math.sqrt(libdevice.saturatef(x))

def made(factor):
    @cuda.jit(fastmath=True, launch_bounds=64)
    def smoothed(x, count, out):
        near, i = cuda.shared.array(64, numba.float32), grid(1)
        near[cuda.threadIdx.x] = x[i]
        cuda.syncthreads()
        first = cuda.local.array(1, float32)
        first[0] = factor * near[0]
        out[i] = first[0] + shrunk(near[1])
        cuda.atomic.add(count, 0, numba.int32(i))
    return smoothed

kernel = made(np.float32(0.5))
"""
OLD = {"package": "numba", "types": "import numba\nfrom numba import float32"}
NEW = {"package": "numba_cuda_mlir", "types": "from numba_cuda_mlir import types as numba\nfloat32 = numba.float32"}


def test_kernels_of_numba_cuda_become_the_same_code(monkeypatch):
    def launched(names):
        outs = [jax.ShapeDtypeStruct((1,), jnp.int32), X[0]]
        return launch_of(names["kernel"], outs, X[0], launch_dims=4)

    old, new = ({"__name__": "kernels"} for _ in range(2))
    exec(KERNELS.format(**OLD), old)
    exec(KERNELS.format(**NEW), new)
    monkeypatch.setenv("BRAINEVENT_NUMBA_CUDA", "numba-cuda-mlir")
    its = launched(new)
    assert launched(old) == its
    assert re.search(rb"\.shared \.align 8 \.b8 be_\d+\[256\];", its.binary)  # a name without its counter
    assert (old["cuda"].__name__, old["numba"].__name__) == ("numba.cuda", "numba")  # the program's names stay


def test_which_of_the_two_compiles(monkeypatch):
    def of_doctor():
        lines = [line for section in doctor.report().sections for line in section.lines]
        return {line.label: line.text for line in lines if line.label in ("numba_cuda_mlir", "numba.cuda")}

    assert (chosen.compiles_all(), chosen.why_not()) == (False, None)
    assert of_doctor() == {"numba_cuda_mlir": f"{ITS}; those of @numba.cuda.jit by numba-cuda"}
    monkeypatch.setattr(chosen, "_is_there", lambda package: package == "numba_cuda_mlir")
    assert chosen.compiles_all()  # it is alone
    assert of_doctor() == {"numba_cuda_mlir": f"{ITS}; those of @numba.cuda.jit too"}
    monkeypatch.setenv("BRAINEVENT_NUMBA_CUDA", "numba-cuda")
    assert not chosen.compiles_all()
    monkeypatch.setenv("BRAINEVENT_NUMBA_CUDA", "mlir")
    why = "$BRAINEVENT_NUMBA_CUDA is 'mlir'; set it to 'numba-cuda' or 'numba-cuda-mlir', or unset it"
    assert of_doctor()["numba.cuda"] == why
    with pytest.raises(KernelNotAvailableError, match=re.escape(why)):
        chosen.compiles_all()


@pytest.mark.gpu
def test_on_a_gpu():
    """Wheels: numba-cuda-mlir, with NVVM and nvJitLink of CUDA 13."""
    kernel = brainevent.numba_cuda_kernel(scale, jax.ShapeDtypeStruct(X.shape, X.dtype), launch_dims=X.shape)
    np.testing.assert_array_equal(jax.jit(kernel)(X, jnp.array([0.5])), 0.5 * X)
    rows = jnp.stack([X, 2 * X])
    np.testing.assert_array_equal(jax.vmap(kernel, (0, None))(rows, jnp.array([0.5])), 0.5 * rows)
