# SPDX-License-Identifier: Apache-2.0
"""Kernels of Numba-CUDA within loops on a pretended GPU: their PTX is part of the kernel of the loop."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from loops_on_pretended_gpu import on_pretended_gpu, planned_loop

import brainevent as be
from brainevent.ffi.launch import Launch, Slot
from brainevent.loops.gpu import program
from brainevent.loops.gpu.assembly import AssemblyText
from brainevent.loops.gpu.device import Gpu
from brainevent.loops.gpu.phases import MEET
from brainevent.loops.gpu.text import text_of
from brainevent.loops.values import UnfitError

pytest.importorskip("cuda.bindings.nvrtc")
pytest.importorskip("brainevent.backends.numba_cuda.native")
numba = pytest.importorskip("numba")
cuda = pytest.importorskip("numba.cuda")
pytestmark = pytest.mark.usefixtures("for_a_gpu")

from numba_cuda_loops import BLOCK, STEPS, leak, looped, loops, of, own, rounded, turned  # noqa: E402

N = 70
V = np.linspace(-2, 2, N, dtype=np.float32)
LOOPS = loops(N)


@pytest.mark.parametrize("name", LOOPS)
def test_a_kernel_is_part_of_the_loop(name):
    wanted = jax.tree.leaves(jax.jit(LOOPS[name])(V))
    for seed in (0, 1):
        for found, each in zip(on_pretended_gpu(LOOPS[name], V, blocks=3, seed=seed), wanted, strict=True):
            np.testing.assert_array_equal(found, each)


def test_kernels_of_the_package_are_part_of_the_loop():
    matrix = be.CSR.random((N, N), num_per_row=9, weights=0.5, seed=1)

    def run(v):
        def step(v, _):
            with be.use_backend("gpu", "numba_cuda"):
                spikes = be.BinaryArray(v > 0.25)
                rows, columns = spikes @ matrix, matrix @ spikes
            return jnp.where(v > 0.25, -1, v * 0.5 + rows + 0.25), (rows, columns)

        return lax.scan(step, v, length=STEPS)

    wanted = jax.tree.leaves(jax.jit(run)(V))
    assert wanted[-1].any()
    for found, each in zip(on_pretended_gpu(run, V, blocks=3, seed=1), wanted, strict=True):
        np.testing.assert_array_equal(found, each)


def test_products_and_sums_are_rounded_as_the_kernel_is_compiled():
    _, found = on_pretended_gpu(looped(of(rounded)), V)
    v, bits = V, np.float32
    for row in found:
        product = v * bits(1.1)
        np.testing.assert_array_equal(row, (product + bits(0.3)) * (product - bits(0.7)) * product)
        v = row * bits(0.0625) - bits(0.5)


@pytest.mark.parametrize("name", ["all of them", "a batch of blocks"])
def test_nvrtc_compiles_the_kernel(name):
    plan, _ = planned_loop(LOOPS[name], V)
    [launch] = program.launch_plan(plan, text_of(plan, 1024), Gpu()).launches
    assert launch.binary[:4] == b"\x7fELF"


def meetings_in_a_step(function):
    text = text_of(planned_loop(function, V)[0], 1).text
    return text[text.index("for (unsigned step") :].count(MEET)


def test_a_kernel_may_say_which_elements_its_threads_have_alone():
    others = of(own, "own_in_blocks_of_48")
    found = [meetings_in_a_step(run) for run in (LOOPS["alone"], LOOPS["own"], looped(others))]
    assert found == [0, 1, 2]


def test_a_kernel_of_its_successor_is_part_of_the_loop(monkeypatch):
    successor = pytest.importorskip("numba_cuda_mlir.cuda")
    monkeypatch.setattr("numba_cuda_mlir.tools._cached_cc", (9, 0))
    from numba_cuda_mlir import types

    @successor.jit
    def turned(x, chosen, out):
        """Threads of a block meet before any of them ends."""
        all_of_block = successor.shared.array(64, types.float32)
        t, i = successor.threadIdx.x, successor.grid(1)
        all_of_block[t] = x[i] if i < x.size else types.float32(0)
        successor.syncthreads()
        if i < x.size:
            out[i] = all_of_block[63 - t]

    run = looped(of(turned, "turned_by_the_successor", threads_per_block=64))
    for found, each in zip(on_pretended_gpu(run, V), jax.jit(LOOPS["shared"])(V), strict=True):
        np.testing.assert_array_equal(found, each)


# ---- what is left to XLA


@cuda.jit
def silent(x, chosen, out):
    at = cuda.shared.array(64, numba.float32)
    at[cuda.threadIdx.x] = x[0]
    cuda.syncthreads()
    out[0] = at[0]


@cuda.jit
def passing(x, chosen, out):
    out[0] = cuda.shfl_sync(0xFFFFFFFF, x[cuda.grid(1) % x.size], 3)


@cuda.jit
def counting(x, chosen, out):
    """Count. Threads of a block meet before any of them ends."""
    out[0] = cuda.syncthreads_count(cuda.grid(1) % 2)


@cuda.jit
def sized_at_launch(x, chosen, out):
    at = cuda.shared.array(0, numba.float32)
    at[0] = x[0]
    out[0] = at[0]


@cuda.jit
def printing(x, chosen, out):
    print(x[0])
    out[0] = x[0]


@cuda.jit
def in_warps(x, chosen, out):
    out[0] = cuda.laneid + x[0] if cuda.grid(1) == 0 else 0


@cuda.jit
def of_two(x, out):
    out[0] = x[0]


REFUSED = {
    "the kernel 'silent', whose threads share memory or meet; write `Threads of a block meet before any of them ends.` "
    "in its docstring if they do": of(silent),
    "the kernel 'passing', whose lanes pass values to each other; write `Lanes of a warp end together.` in its "
    "docstring if they do": of(passing),
    "the kernel 'counting', whose threads call functions or wait in a way that a loop does not know": of(
        counting, threads_per_block=64
    ),
    "the kernel 'turned', whose threads share memory or meet in blocks that are not whole warps": of(turned, "parts"),
    "the kernel 'sized_at_launch', whose shared memory has a size that is given at its launch": of(
        sized_at_launch, shared_mem=64
    ),
    "the kernel 'printing', whose threads call functions or wait in a way that a loop does not know": of(printing),
    "numba_cuda_kernel(of_two): the kernel takes (x, out), but is called with 3 arguments": of(of_two),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_named_with_the_line(monkeypatch, words):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    [loop] = be.explain_loops(looped(REFUSED[words]), V)
    assert not loop.is_fused
    assert words in loop.reason
    assert re.search(r"helpers/numba_cuda_loops.py:\d+$", loop.obstacle)


def test_what_fits_is_explained(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    [loop] = be.explain_loops(looped(of(in_warps)), V)
    assert (loop.is_fused, loop.reason) == (True, "2 loops over elements, in_warps")


def several(x, chosen, out, stream):
    leak[2, BLOCK, stream](x, chosen, out)
    leak[2, BLOCK, stream](x, chosen, out)


def one(x, chosen, out, stream):
    leak[2, BLOCK, stream](x, chosen, out)


def test_a_function_that_launches_one_kernel_is_part_of_the_loop():
    def run(function, v):
        call = be.numba_cuda_callable(function, outs=jax.ShapeDtypeStruct((N,), jnp.float32))
        return lax.scan(lambda v, _: ((out := call(v, v > 0)) * 0.0625 - 0.5, out), v, length=STEPS)

    wanted = jax.jit(LOOPS["leak"])(V)
    for found, each in zip(on_pretended_gpu(lambda v: run(one, v), V), wanted, strict=True):
        np.testing.assert_array_equal(found, each)
    with pytest.raises(UnfitError, match="which is not a single launch of independent blocks"):
        planned_loop(lambda v: run(several, v), V)


# ---- reading PTX

PTX = """
.version 8.0
.target sm_90
.address_size 64
.common .global .align 8 .u64 memory;
.global .align 4 .b8 bytes[4] = {1, 2, 3, 255};
.visible .entry kernel(.param .u64 at, .param .b8 small, .param .align 4 .b8 both[8])
.maxntid 64
{
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .b16 %rs<2>;
  ld.param.u64 %rd1, [at]; // a comment } that ends nothing
  ld.param.s8 %r1, [small];
  ld.param.u32 %r2, [both+4];
  .pragma "nounroll";
  INSTRUCTION
  ret;
}
"""


def written(instruction):
    binary = PTX.replace("INSTRUCTION", instruction).encode() + b"\0"
    parameters = bytes(8), b"\xfe", (5).to_bytes(4, "little") + (7).to_bytes(4, "little")
    launch = Launch(binary, "kernel", "kernel", (3, 2, 1), (32, 2, 1), parameters, (Slot(0, 0, shift=16),))
    return AssemblyText(launch.grid, launch.block, launch=launch, title="the kernel 'mine'").text("kernel0")


def test_parameters_are_numbers_and_addresses():
    text = written("st.global.u32 [%rd1], %r1;")
    assert '"l"((const char*)a0.at + 16)' in text
    for line in ("mov.b64 be_rd1, be_given_a0;", "mov.b32 be_r1, 0xfffffffe;", "mov.b32 be_r2, 0x7;"):
        assert line in text
    assert "comment" not in text
    assert "pragma" not in text


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        ("mov.u32 %r3, %nctaid.y;", "mov.b32 be_given_nctaid_y, 2;"),
        ("mov.u32 %r3, %laneid;", "mov.u32 be_r3, %%laneid;"),
        ("ld.global.L1::no_allocate.nc.u32 %r3, [%rd1];", "ld.global.L1::no_allocate.u32 be_r3, [be_rd1];"),
        ("ld.global.nc.u32 %r3, [%rd1];", "ld.global.u32 be_r3, [be_rd1];"),
        ("mov.u64 %rd2, bytes;", "cvta.to.global.u64 be_given_table1, %1;"),
        ("exit;", "bra be_end;"),
        ("$L__1: bra $L__1;", "be_L__1: bra be_L__1;"),
    ],
)
def test_instructions_are_those_of_pretended_threads(instruction, line):
    assert f'"{line}\\n\\t"' in written(instruction)


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("mov.u32 %r3, %warpid;", "which reads %warpid"),
        ("ld.param.u32 %r3, [at+4];", "whose PTX reads the address at in parts"),
        ("ld.param.v2.u32 {%r2, %r3}, [both];", "whose PTX reads its parameter both in parts"),
        ("ld.param.u32 %r3, [both+6];", "whose PTX reads both beyond its end"),
        ("ld.param.u32 %r3, [other];", "whose PTX reads other, which is no parameter"),
        ("mov.u64 %rd2, memory;", "which uses the variable memory of its module"),
        (".branchtargets $L1, $L2;", r"whose PTX has the directive \.branchtargets"),
        ('.reg .b32 x; // "', None),
        ('asm "x";', "whose PTX has a string"),
    ],
)
def test_what_is_not_known_in_ptx_is_named(instruction, words):
    if words is None:
        assert written(instruction)
        return
    with pytest.raises(UnfitError, match=f"the kernel 'mine', {words}"):
        written(instruction)
