# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: every language in another process, in functions that come and go, and with an element left out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language_kernels import LANGUAGE_KERNELS
from meshes import close
from programs import run_program
from transforming import batched_operands

import brainevent

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*Grid size.*under-utilization"),
]
EVERY = pytest.mark.parametrize("name", LANGUAGE_KERNELS)
N = 4


@functools.cache
def animals(name):
    return LANGUAGE_KERNELS[name].animals(f"gpu_{name}", "gpu")


CARRIED = [name for name in LANGUAGE_KERNELS if name != "triton"]


@pytest.mark.parametrize("name", CARRIED)
def test_another_process_runs_an_exported_program(name, tmp_path):
    animal, _ = animals(name)
    operands = batched_operands(animal.operands(N), 3)
    checks = brainevent.export_checks()
    program = jax.export.export(jax.jit(jax.vmap(animal.call)), platforms=["cuda"], disabled_checks=checks)(*operands)
    (tmp_path / "program").write_bytes(program.serialize())
    np.savez(tmp_path / "operands.npz", *operands)
    source = """
        import sys, pathlib, jax, numpy as np, brainevent
        folder = pathlib.Path(sys.argv[1])
        program = jax.export.deserialize((folder / "program").read_bytes())
        np.save(folder / "result.npy", program.call(*np.load(folder / "operands.npz").values()))
        print(sorted({"warp", "triton", "numba.cuda", "cuda.core"} & set(sys.modules)))
    """
    assert run_program(source, tmp_path, JAX_PLATFORMS="cuda,cpu").strip() == "[]"
    close(np.load(tmp_path / "result.npy"), np.multiply(*operands))


@EVERY
def test_functions_that_come_and_go(name):
    """Jitted functions, made and dropped, give the same results and leave nothing behind that breaks the next."""
    animal, _ = animals(name)
    x, y = animal.operands(N)
    for k in range(20):
        function = jax.jit(lambda x, y, k=k: animal.call(x + k, y) - k * y)
        close(function(x, y), x * y)
        del function


def too_few_threads(name):
    """Return the generator of a copy of which the last element is left out."""
    if name == "numba_cuda":
        from numba import cuda

        @cuda.jit
        def copy(x, out):
            i = cuda.grid(1)
            if i < out.size - 1:
                out[i] = x[i]

        return lambda *, outs: brainevent.numba_cuda_kernel(copy, outs[0], launch_dims=N)
    if name == "warp":
        wk = pytest.importorskip("warp_kernels")
        return lambda *, outs: brainevent.warp_kernel(wk.copy, outs[0], launch_dims=N - 1)
    source = "__global__ void copy(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }"
    return lambda *, outs: brainevent.cuda_kernel(source, "copy", outs[0], grid=1, block=N - 1)


@pytest.mark.parametrize("name", ["numba_cuda", "warp", "raw_cuda"])
def test_an_output_that_no_thread_writes_is_found(name, unique_name):
    operator = brainevent.XLACustomKernel(unique_name("short"))
    operator.def_kernel(LANGUAGE_KERNELS[name].backend, "gpu", too_few_threads(name))
    operator.def_reference(lambda x: x)
    report = brainevent.check(operator, jnp.zeros(N), promises=["outputs written"])
    [row] = [row for row in report.rows if row.promise == "outputs written"]
    assert row.status == "failed"
    assert f"element [{N - 1}] keeps what its memory held before the call" in row.detail
