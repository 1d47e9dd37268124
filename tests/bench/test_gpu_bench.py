# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: every call of a loop is made, kernels are measured and compared, and what was tuned is remembered."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program
from tuned_gpu_ops import X, doubling

import brainevent
from brainevent.bench.chain import Chain
from brainevent.bench.measure import measure, time_chained
from brainevent.toolchain import directory

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

COUNT = """
__global__ void count(const float* x, float* out, unsigned long long counter) {
  if (threadIdx.x == 0) atomicAdd((unsigned long long*)counter, 1ull);
  out[threadIdx.x] = 2.f * x[threadIdx.x];
}
"""


@pytest.fixture
def counting():
    """Return a call whose kernel counts how often it runs, and a function that reads how often."""
    counter = jax.block_until_ready(jnp.zeros(2, jnp.uint32))  # 64 bits
    kernel = brainevent.cuda_kernel(COUNT, "count", jax.ShapeDtypeStruct((3,), jnp.float32), launch_dims=3)
    # A copy on the device, since the host keeps the value of an array that it has read.
    return lambda x: kernel(x, counter=counter.unsafe_buffer_pointer()), lambda: int(jnp.copy(counter)[0])


def test_every_call_of_a_loop_is_made(counting):
    call, made = counting
    chain = Chain.of(lambda x, y: (call(x).sum() + y, call(y)), (jnp.arange(3.0), jnp.ones(3)), 50)
    state = jax.block_until_ready(chain.run(*chain.state))
    assert made() == 100
    jax.block_until_ready(chain.run(*state))
    assert made() == 200


def test_calls_without_operands_are_made(counting):
    call, made = counting
    chain = Chain.of(lambda: call(jnp.arange(3.0)), (), 9)
    jax.block_until_ready(chain.run(*chain.state))
    assert made() == 9


def test_xla_s_own_operations_are_made_in_every_turn():
    chain = Chain.of(lambda x, y: jnp.sin(x).sum() + y, (jnp.ones(1000), jnp.ones(3)), 5)
    text = chain.run.lower(*chain.state).compile().as_text()
    sines = [line for line in text.splitlines() if re.search(r"= \S+ sine\(", line)]
    assert sines
    assert all("while/body" in line for line in sines)


def test_a_loop_copies_nothing():
    """Large operands go around in place: the loop holds them, one result, and little else."""
    x = jnp.ones(1 << 24)
    chain = Chain.of(lambda x: x.sum(), (x,), 5)
    needed = chain.run.lower(*chain.state).compile().memory_analysis()
    assert needed.temp_size_in_bytes < x.nbytes / 4


def test_cold_runs_and_loops_are_measured():
    x = jnp.ones(1 << 20)
    for found in (
        measure(jax.jit(jnp.negative), (x,), n_warmup=1, n_runs=3, cold=True),
        measure(jax.jit(jnp.negative), (x,), n_warmup=1, n_runs=3, n_batch_per_run=50),
    ):
        np.testing.assert_array_equal(found.output, -x)
        assert min(found.samples) > 0
    timing = time_chained(jnp.negative, [x], runs=3, seconds=0.02)
    assert 0 < timing.low <= timing.median <= timing.high


def test_kernels_are_measured_and_compared(unique_name, capsys):
    operator = doubling(unique_name("measured"))
    result = operator.benchmark(platform="gpu", n_warmup=1, n_runs=3, n_batch_per_run=20)
    found = {(record.backend, record.label): record for record in result.records}
    assert all(record.success and record.loop_ms > 0 for record in found.values())
    assert {record.backend for record in result.mismatches} == {"wrong"}
    assert "mismatch" in capsys.readouterr().out
    assert found["numba_cuda", "n=4096"].throughput > 0
    assert found["numba_cuda", "n=4096"].peak_fraction > 0
    assert found["numba_cuda", "n=4096"].peak_flops > 1e12
    assert result.fastest("n=4096").backend == "numba_cuda"


PROGRAM = """
import sys
import jax, numpy as np
import brainevent
from tuned_gpu_ops import X, doubling

make = brainevent.numba_cuda_kernel

def told(*arguments, **keywords):
    print("built numba_cuda")
    return make(*arguments, **keywords)

brainevent.numba_cuda_kernel = told
operator = doubling(sys.argv[1])
np.testing.assert_array_equal(jax.jit(operator)(X), 2 * X)
"""


def test_another_process_remembers(unique_name, tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_chosen", [])
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(tmp_path))
    environment = {"JAX_PLATFORMS": "cuda,cpu"}
    operator = doubling(unique_name("tuned"))
    assert run_program(PROGRAM, operator.name, **environment) == ""
    found = operator.tune(X, seconds=0.1)
    assert (found.backend, found.platform, found.remembered) == ("numba_cuda", "cuda", True)
    assert {trial.backend for trial in found.trials if trial.error} == {"wrong"}
    assert len([trial for trial in found.trials if trial.backend == "cuda"]) == 2
    assert run_program(PROGRAM, operator.name, **environment) == "built numba_cuda\n"
