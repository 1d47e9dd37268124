# SPDX-License-Identifier: Apache-2.0
"""On real GPUs: every language under every transformation, on every device, and in another process."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language_kernels import LANGUAGE_KERNELS
from meshes import P, close, cut, sent
from programs import run_program
from transforming import TRANSFORMATIONS, batched_operands, same

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


def on_cpu(f, *operands):
    """Return what jax.numpy says, computed elsewhere."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.device_get(jax.jit(f)(*operands))


@EVERY
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_every_language_under_every_transformation(name, transformation):
    apply = TRANSFORMATIONS[transformation]
    for animal in animals(name):
        operands = animal.operands(N)
        expected = on_cpu(lambda a=animal, xs=operands: apply(a, a.twin, xs))
        same(jax.jit(lambda a=animal, xs=operands: apply(a, a.call, xs))(), expected)


@EVERY
def test_every_language_keeps_every_promise(name):
    for animal in animals(name):
        operator = brainevent.get_registry()[f"zoo_{animal.name}"]
        report = brainevent.check(operator, *map(jnp.asarray, animal.operands(N)))
        assert report.ok, str(report)


@EVERY
def test_shards(name):
    """Under jit and in shard_map, on all GPUs: the kernel runs on each shard, and nothing is gathered."""
    devices = jax.devices("gpu")
    mesh = jax.make_mesh((len(devices),), ("d",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))
    for animal, out in zip(animals(name), (P("d"), P("d")), strict=True):
        first, second = animal.operands(N * len(devices))
        cut_second = P("d") if second.shape == first.shape else P()
        expected = on_cpu(animal.twin, first, second)
        placed = cut(mesh, first, "d"), cut(mesh, second, *cut_second)
        close(jax.jit(animal.call)(*placed), expected)
        assert sent(animal.call, *placed) == {}
        assert jax.jit(animal.call)(*placed).sharding.device_set == set(devices)
        mapped = jax.shard_map(animal.call, mesh=mesh, in_specs=(P("d"), cut_second), out_specs=out)
        close(jax.jit(mapped)(*placed), expected)
        gradient = lambda f: jax.grad(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))
        jax.tree.map(close, jax.jit(gradient(animal.call))(*placed), on_cpu(gradient(animal.twin), first, second))


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
