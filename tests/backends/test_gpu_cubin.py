# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: machine code of nvcc and of NVRTC, and PTX, as kernels."""

import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from programs import run_program

import brainevent
from brainevent import UnsupportedArchError, XLACustomKernel, cubin_kernel
from brainevent.ffi.devices import cuda_capabilities
from brainevent.toolchain.find import find_cuda_toolkit

pytestmark = pytest.mark.gpu

N = 1000
X, Y = jnp.arange(N, dtype=jnp.float32), jnp.ones(N)
SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void axpy(const float* x, const float* y, float* out, int n, double a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += a * x[i] + y[i];
}
extern "C" __global__ void shared(const float* x, float* out) {
  extern __shared__ float row[];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void together(int* work, int* out) {
  if (threadIdx.x == 0) atomicAdd(work, 1);
  cg::this_grid().sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *work;
}
extern "C" __global__ void clusters(int* out) {
#if __CUDA_ARCH__ >= 900
  cg::cluster_group its = cg::this_cluster();
  if (threadIdx.x == 0) out[blockIdx.x] = 100 * its.num_blocks() + its.block_rank();
#endif
}
"""
ARGUMENTS = {"x": "input", "y": "input", "out": "output", "n": "int32", "a": "float64"}


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    (folder / "k.cu").write_text(SOURCE)
    number = cuda_capabilities()[0].replace(".", "")
    nvcc = find_cuda_toolkit().nvcc
    made = {"cubin": f"sm_{number}", "ptx": "compute_80"}
    for kind, architecture in made.items():
        command = [nvcc, f"--{kind}", f"-arch={architecture}", "k.cu", "-o", f"k.{kind}"]
        subprocess.run(command, cwd=folder, check=True)
    return folder


def axpy(code, **more):
    return cubin_kernel(code, "axpy", X, arguments=ARGUMENTS, launch_dims=N, zeroed=["out"], **more)


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_kernels_run(codes, kind):
    call = axpy(codes / f"k.{kind}")
    np.testing.assert_array_equal(call(X, Y, n=N, a=2.0), 2 * X + Y)
    np.testing.assert_array_equal(jax.jit(lambda x: call(call(x, Y, n=N, a=2.0), Y, n=10, a=1.0))(X)[:11],
                                  [*(2 * np.arange(10) + 2), 0])  # fmt: skip
    many = jnp.stack([X, 3 * X, -X])
    np.testing.assert_array_equal(jax.vmap(lambda x: call(x, Y, n=N, a=2.0))(many), 2 * many + Y)


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "ptx").iterdir()), ids=lambda path: path.stem)
def test_kernels_of_other_compilers(path):
    arguments = {"v": "input", "out": "output", "decay": "float32", "n": "int32"}
    arguments |= {f"scratch_{k}": b"\0" * 8 for k in range(2) if path.stem.startswith("triton")}
    leak = cubin_kernel(path, None, X, arguments=arguments, grid=8, block=128)
    np.testing.assert_array_equal(jax.jit(lambda v: leak(v, decay=0.7, n=N))(X), X * np.float32(0.7))
    many = jnp.stack([X, -X])
    np.testing.assert_array_equal(jax.vmap(lambda v: leak(v, decay=0.7, n=N))(many), many * np.float32(0.7))


def test_an_output_that_is_an_input(codes):
    arguments = {"x": "input", "work": lambda x, *_: jax.ShapeDtypeStruct(x.shape, x.dtype), "out": "inout",
                 "n": "int32", "a": "float64"}  # fmt: skip
    call = cubin_kernel(codes / "k.cubin", "axpy", X, arguments=arguments, launch_dims=N, zeroed=["work"])
    before = 10 * Y
    many = jnp.stack([X, 3 * X])
    np.testing.assert_array_equal(jax.vmap(lambda x: call(x, before, n=N, a=2.0))(many), 10 + 2 * many)
    np.testing.assert_array_equal(before, 10 * Y)


@pytest.mark.parametrize("size", [1024, 20_000])
def test_dynamic_shared_memory(codes, size):
    call = cubin_kernel(codes / "k.cubin", "shared", X[:1000], grid=1, block=1000, shared_mem=4 * size)
    np.testing.assert_array_equal(call(X), X[::-1])


def test_cooperative_launches(codes):
    out = jax.ShapeDtypeStruct((64,), jnp.int32)
    arguments = {"work": jax.ShapeDtypeStruct((), jnp.int32), "out": "output"}
    how = {"arguments": arguments, "grid": 64, "block": 64, "cooperative": True, "zeroed": ["work"]}
    assert cubin_kernel(codes / "k.cubin", "together", out, **how)().tolist() == [64] * 64
    with pytest.raises(jax.errors.JaxRuntimeError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        cubin_kernel(codes / "k.cubin", "together", out, **how | {"grid": 100_000})().block_until_ready()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_clusters(codes, cluster):
    if cuda_capabilities()[0] < "9" and not cuda_capabilities()[0].startswith("1"):
        pytest.skip("this GPU has no clusters")
    out = jax.ShapeDtypeStruct((8,), jnp.int32)
    found = cubin_kernel(codes / "k.cubin", "clusters", out, grid=8, block=32, cluster=cluster)()
    assert found.tolist() == [100 * cluster + k % cluster for k in range(8)]


def test_code_for_another_gpu(codes):
    cubin = bytearray((codes / "k.cubin").read_bytes())
    cubin[49] = 70  # the architecture
    with pytest.raises(UnsupportedArchError, match=r"there is only a cubin for compute capability 7.0"):
        axpy(bytes(cubin))(X, Y, n=N, a=1.0)
    assert axpy([bytes(cubin), codes / "k.ptx"])(X, Y, n=N, a=1.0)[5] == 6


def test_an_operator_passes_its_checks(codes, unique_name):
    operator = XLACustomKernel(unique_name("machine"))

    def generator(*, outs):
        call = cubin_kernel(codes / "k.cubin", "axpy", outs, arguments=ARGUMENTS, launch_dims=lambda *a: a[-1].size,
                            zeroed=["out"])  # fmt: skip
        return lambda x, y: call(x, y, n=x.size, a=2.0)

    operator.def_cubin_kernel(generator)
    operator.def_reference(lambda x, y: 2 * x + y)
    report = brainevent.check(operator, X, Y, outs=X)
    assert report.ok, str(report)
    assert {row.backend for row in report.rows if row.status == "ok"} == {"cubin"}


def test_exported_programs_contain_the_code(codes, tmp_path):
    program = export.export(
        jax.jit(lambda x: axpy(codes / "k.cubin")(x, Y, n=N, a=2.0)), disabled_checks=brainevent.export_checks()
    )(X)
    (tmp_path / "program").write_bytes(program.serialize())
    source = f"""
        import brainevent, jax.numpy as jnp
        from jax import export
        program = export.deserialize(bytearray(open({str(tmp_path / "program")!r}, "rb").read()))
        print(program.call(jnp.arange({N}, dtype=jnp.float32))[7])
    """
    assert run_program(source, JAX_PLATFORMS="cuda").strip() == "15.0"
