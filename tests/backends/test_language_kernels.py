# SPDX-License-Identifier: Apache-2.0
"""Kernels in the languages of GPUs under every transformation, emulated on the CPU and on GPUs."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from language_kernels import EMULATED, LANGUAGE_KERNELS
from meshes import P, close, cut, mesh, sent
from programs import ROOT, program_environment
from transforming import TRANSFORMATIONS, same

import brainevent

SIMULATED = [name for name in EMULATED if name.startswith("numba_cuda")]
HERE = [name for name in EMULATED if (name in SIMULATED) == brainevent.config.is_emulating()]
ON_GPU = [pytest.param(name, marks=pytest.mark.gpu, id=f"{name} on a GPU") for name in LANGUAGE_KERNELS]
EVERY = pytest.mark.parametrize("name", [*HERE, *ON_GPU])
FEW = ("jit", "vmap", "vmap of vmap", "vmap sized 0", "grad", "grad of vmap", "vmap of grad", "hessian", "scan", "cond")
MORE = [name for name in TRANSFORMATIONS if name not in FEW]
N = 4
LITTLE = "ignore:.*Grid size.*under-utilization"


@functools.cache
def animals(name):
    return LANGUAGE_KERNELS[name].animals(f"emulated_{name}", "gpu")


@pytest.fixture(autouse=True)
def emulating(request):
    before = brainevent.config.is_emulating()
    brainevent.config.emulate(request.node.get_closest_marker("gpu") is None)
    yield
    brainevent.config.emulate(before)


def on_cpu(f, *operands):
    """Return what jax.numpy says, on a GPU computed elsewhere."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.device_get(jax.jit(f)(*operands))


@pytest.mark.filterwarnings(LITTLE)
@pytest.mark.covering(strength=1, times=1)
@EVERY
@pytest.mark.parametrize(
    "transformation", [*FEW, *(pytest.param(t, marks=pytest.mark.thorough) for t in MORE if HERE != SIMULATED)]
)
def test_every_language_under_every_transformation(name, transformation):
    apply = TRANSFORMATIONS[transformation]
    for animal in animals(name):
        operands = animal.operands(N)
        expected = on_cpu(lambda a=animal, xs=operands: apply(a, a.twin, xs))
        same(jax.jit(lambda a=animal, xs=operands: apply(a, a.call, xs))(), expected)


SOME = ["outputs written", "nested vmap", "vjp", "sharded jit", "export"]


@pytest.mark.filterwarnings(LITTLE)
@pytest.mark.covering(strength=0)
@EVERY
@pytest.mark.parametrize("promises", [SOME, pytest.param(None, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_every_language_keeps_its_promises(name, promises):
    for animal in animals(name):
        operator = brainevent.get_registry()[f"zoo_{animal.name}"]
        options = {"backends": [LANGUAGE_KERNELS[name].backend], "promises": promises}
        report = brainevent.check(operator, *map(jnp.asarray, animal.operands(N)), **options)
        assert report.ok, str(report)


@pytest.mark.filterwarnings(LITTLE)
@EVERY
def test_shards(name):
    """Under jit and in shard_map, on all devices: the kernel runs on each shard, and nothing is gathered."""
    devices = mesh(d=len(jax.devices()))
    for animal in animals(name):
        first, second = animal.operands(N * devices.size)
        spec = P("d") if second.shape == first.shape else P()
        placed, expected = (cut(devices, first, "d"), cut(devices, second, *spec)), on_cpu(animal.twin, first, second)
        close(jax.jit(animal.call)(*placed), expected)
        if name not in SIMULATED or not brainevent.config.is_emulating():  # a callback runs unpartitioned
            assert sent(animal.call, *placed) == {}
            assert jax.jit(animal.call)(*placed).sharding.device_set == set(jax.devices())
        mapped = jax.shard_map(animal.call, mesh=devices, in_specs=(P("d"), spec), out_specs=P("d"))
        close(jax.jit(mapped)(*placed), expected)
        if not brainevent.config.is_emulating():
            gradient = lambda f: jax.grad(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))
            jax.tree.map(close, jax.jit(gradient(animal.call))(*placed), on_cpu(gradient(animal.twin), first, second))


@pytest.mark.thorough
@pytest.mark.skipif(HERE == SIMULATED, reason="this is that process")
def test_the_simulator_of_numba_cuda_in_a_process_of_its_own():
    """It is chosen before `numba.cuda` is imported: so these tests run again, in a process that emulates."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", __file__]
    environment = program_environment(BRAINEVENT_EMULATE="1")
    finished = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{2 * (len(FEW) + 3)} passed, 1 skipped" in finished.stdout
