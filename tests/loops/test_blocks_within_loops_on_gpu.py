# SPDX-License-Identifier: Apache-2.0
"""Kernels whose threads meet, within a loop on a pretended GPU: a block of the loop runs a block of the kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from loop_bodies import delayed_loop
from loops_on_pretended_gpu import on_pretended_gpu, planned_loop

import brainevent as be
from brainevent.loops.gpu import program
from brainevent.loops.gpu.device import Gpu
from brainevent.loops.gpu.shape import Shape
from brainevent.loops.gpu.text import text_of
from brainevent.loops.values import UnfitError

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.usefixtures("for_a_gpu")

STEPS, N = 40, 70
V = np.linspace(-2, 2, N, dtype=np.float32)


def delayed(v):
    """Deliver spikes into a ring, each connection after its own delay."""
    return delayed_loop(N, per_row=9, slots=7, weight=0.5, gain=0.5, threshold=0.6, steps=STEPS)(v)


def dense(v):
    """Multiply by a dense matrix, from both sides."""
    weights = jnp.asarray(np.random.default_rng(0).integers(-2, 3, (N, N)), jnp.float32) / 4

    def step(v, _):
        spikes = be.BinaryArray(v > 0.25)
        rows, columns = spikes @ weights, weights @ spikes
        return jnp.where(v > 0.25, -1, v * 0.5 + rows + 0.25), (rows, columns)

    return lax.scan(step, v, length=8)


def drawn(v):
    """Multiply by a drawn matrix, from both sides."""
    weights = be.JITCScalarR((0.5, 0.1, 42), shape=(N, N))

    def step(v, _):
        spikes = be.BinaryArray(v > 0.25)
        rows, columns = spikes @ weights, weights @ spikes
        return jnp.where(v > 0.25, -1, v * 0.5 + rows - 0.5 * columns + 0.25), (rows, columns)

    return lax.scan(step, v, length=8)


def blocks_of_two_sizes(v):
    """Call two kernels with blocks of 256 and 1024 threads, neither of which waits for the other."""
    stored = be.CSR.random((N, N), num_per_row=9, weights=0.5, seed=1)
    delays = jnp.asarray(np.random.default_rng(2).integers(1, 6, stored.nse, dtype=np.int32))
    weights = jnp.asarray(np.random.default_rng(0).integers(-2, 3, (N, N)), jnp.float32) / 4

    def step(state, t):
        ring, v = state
        spikes = v > 0.25
        ring, rows = stored.delay_deliver(ring, spikes, delays, t), be.BinaryArray(spikes) @ weights
        return (ring * 0.5, jnp.where(spikes, -1, v * 0.5 + rows + ring[0] + 0.25)), rows

    return lax.scan(step, (jnp.zeros((7, N)), v), jnp.arange(8))


LOOPS = {
    "blocks of two sizes": blocks_of_two_sizes,
    "delayed": delayed,
    "dense": dense,
    "drawn": drawn,
    "a batch": lambda v: jax.vmap(delayed)(jnp.stack([v, -v])),
}


@pytest.mark.parametrize("name", LOOPS)
def test_kernels_whose_threads_meet_are_part_of_the_loop(name):
    wanted = jax.tree.leaves(jax.jit(LOOPS[name])(V))
    assert wanted[-1].any()
    for seed in (0, 1):
        for found, each in zip(on_pretended_gpu(LOOPS[name], V, blocks=3, seed=seed), wanted, strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-6, atol=1e-6)


def test_blocks_of_a_kernel_are_those_of_several_blocks_of_the_loop(monkeypatch):
    monkeypatch.setattr(program, "shape_of", lambda widest, device, of_block: Shape(3, of_block + 32))
    wanted = jax.tree.leaves(jax.jit(delayed)(V))
    for found, each in zip(on_pretended_gpu(delayed, V, blocks=3, seed=3), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-6, atol=1e-6)


# ---- a user's kernel, which has names of its own

SUMS = """
#include <cstdint>
// Threads of a block meet before any of them ends.
#define threads 3
#define N_SHARED (2 * THREADS)
constexpr int LOOP = 1, BE = 1, tid = threads;
extern "C" __global__ void sums(const float* x, float* out, int n) {
  __shared__ float all[N_SHARED];
  const int i = blockIdx.x * THREADS + threadIdx.x;
  all[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  float total = 0;
  for (int k = 0; k < THREADS; ++k) total += all[k];
  if (i < n) out[i] = total * (LOOP + BE + tid - 4);
}
"""
BLOCK = 64


def summing(name, source=SUMS, block=BLOCK, threads=BLOCK):
    """Return a loop that calls an operator with a kernel of the user, and what it computes."""

    def kernel(*, outs):
        [out] = outs
        options = (f"-DTHREADS={threads}",)
        call = be.cuda_kernel(source, "sums", out, launch_dims=N, threads_per_block=block, options=options)
        return lambda x: [call(x, n=N)]

    operator = be.XLACustomKernel(f"{name}_sums_in_loops")
    operator.def_kernel("cuda_raw", "gpu", kernel, language="nvrtc")

    @operator.def_reference
    def sums(x, *, outs):
        padded = jnp.pad(x, (0, -N % block)).reshape(-1, block)
        return [jnp.repeat(padded.sum(1), block)[:N]]

    def run(v):
        def step(v, _):
            [total] = operator(v, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return v * 0.5 + total * 0.0078125, total

        return lax.scan(step, v, length=STEPS)

    return run


PLAIN = summing("plain")


def test_a_users_kernel_keeps_its_names():
    for found, each in zip(on_pretended_gpu(PLAIN, V + 1), jax.tree.leaves(jax.jit(PLAIN)(V + 1)), strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-5)


def test_blocks_that_meet_wait_for_elements_that_others_made():
    """The thread of the loop that runs a thread of a block is not the one that made its element."""
    loop = summing("owning", "// Thread t reads x[t] alone.\n// Thread t writes out[t] alone.\n" + SUMS)
    wanted = jax.tree.leaves(jax.jit(loop)(V + 1))
    for seed in (0, 1, 2):
        for found, each in zip(on_pretended_gpu(loop, V + 1, blocks=3, seed=seed), wanted, strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-5)
    assert text_of(planned_loop(loop, V)[0], 1).meetings == text_of(planned_loop(PLAIN, V)[0], 1).meetings


NAMED = "// Threads of a block meet before any of them ends.\n"
REFUSED = {
    "share memory or meet; write the comment": summing("silent", SUMS.replace(NAMED, "")),
    "in blocks that are not whole warps": summing("odd", block=48),
    "which includes <cooperative_groups.h>": summing("grouped", "#include <cooperative_groups.h>\n" + SUMS),
    "whose assembly names threads or barriers": summing(
        "assembled",
        SUMS.replace("float total = 0;", 'unsigned at; asm("mov.u32 %0, %%tid.x;" : "=r"(at)); float total = at - at;'),
    ),
    "call functions or wait in a way": summing(
        "asking", SUMS.replace("float total = 0;", "float total = __syncthreads_or(0);")
    ),
    "share more memory than a block has": summing("large", SUMS.replace("(2 * THREADS)", "11000")),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_named(words):
    with pytest.raises(UnfitError, match=words):
        text_of(planned_loop(REFUSED[words], V)[0], 1)


def test_explain_loops_says_what_shows_when_the_text_is_written(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    words = "share more memory than a block has"
    [loop] = be.explain_loops(REFUSED[words], V)
    assert not loop.is_fused
    assert words in loop.reason
    [loop] = be.explain_loops(PLAIN, V)
    assert loop.is_fused


@pytest.mark.parametrize("name", ["delayed", "dense"])
def test_nvrtc_compiles_the_kernel(name):
    plan, _ = planned_loop(LOOPS[name], V)
    written = text_of(plan, 1024)
    assert "meet_block<" in written.text
    [launch] = program.launch_plan(plan, written, Gpu()).launches
    assert launch.binary[:4] == b"\x7fELF"
    assert launch.block[0] >= written.of_block >= 256
