# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU for loops: their kernel as C++, each thread a fiber; barriers and shuffles wait for all of them."""

import ctypes
import re

import jax
import llvmlite.binding as llvm
import numpy as np
import ptx_on_cpu
from gpu_on_cpu import library

from brainevent._compat import bind_equation
from brainevent.ffi.launch.host import Host, pack_object
from brainevent.loops.gpu.program import call_of
from brainevent.loops.plan import plan_of
from brainevent.scalar.cuda_text import FLUSHING, SHIM

HEAD = (
    SHIM
    + r"""
#include <ucontext.h>
#include <cstdint>
#include <cstdlib>
#include <cstdio>
#define __global__
#define __constant__ static const
struct Extent { unsigned x; };
struct uint2 { unsigned x, y; };
static Extent threadIdx, blockIdx;
static ucontext_t outside;
struct Fiber { ucontext_t context; char* stack; bool ended; unsigned tid, block, meets; };
struct Meeting { unsigned count, turn; };
static unsigned fibers_ended, current, all_fibers, idle;
static Fiber* fibers;
static bool failed;
extern "C" { unsigned order_seed; }  // of the order in which fibers go on; 0: that of their numbers
static unsigned *order, at_order;
static void new_order() {
    at_order = 0;
    if (order_seed) for (unsigned k = all_fibers - 1; k; --k) {
        order_seed ^= order_seed << 13; order_seed ^= order_seed >> 17; order_seed ^= order_seed << 5;
        const unsigned other = order_seed % (k + 1), mine = order[k];
        order[k] = order[other]; order[other] = mine;
    }
}
static void go_on() {  // to the next fiber that has not ended
    const unsigned before = current;
    unsigned tried = 0;
    do {
        if (++at_order == all_fibers) new_order();
        current = order[at_order];
    } while ((fibers[current].ended || current == before) && ++tried < 2 * all_fibers);
    if (current == before || fibers[current].ended) {
        if (!fibers[before].ended) failed = true, setcontext(&outside);
        return;
    }
    threadIdx.x = fibers[current].tid; blockIdx.x = fibers[current].block;
    swapcontext(&fibers[before].context, &fibers[current].context);
}
static void wait_for(Meeting& m, unsigned all) {
    const unsigned turn = m.turn;
    if (++m.count == all) { m.count = 0; ++m.turn; idle = 0; }
    else while (m.turn == turn) {
        if (++idle > 3 * all_fibers) failed = true, setcontext(&outside);  // all of them wait
        go_on();
    }
}
"""
)

WORDS = r"""
#define LOOP_KERNEL
#define LOOP_MEMBER inline
static void __syncthreads() { std::abort(); }  // of the block of the loop: kernels within it meet with fewer threads
constexpr unsigned FIBERS = LOOP_BLOCKS * LOOP_THREADS;
static Meeting all_meet, warps_meet[FIBERS / 32], blocks_meet[LOOP_BLOCKS], threads_meet[LOOP_BLOCKS];
static unsigned warps_within[FIBERS / 32], meetings;
#define WARP_WITHIN warps_within[current / 32]
static void meet(unsigned*, unsigned&) { ++meetings; wait_for(all_meet, FIBERS); }
static void meet_threads() { wait_for(threads_meet[fibers[current].block], LOOP_THREADS); }
template <unsigned COUNT> static void meet_block() { wait_for(blocks_meet[fibers[current].block], COUNT); }
static void meet_warp() { wait_for(warps_meet[current / 32], 32); }
// What each lane of a warp puts in can be read by all of them until they meet again.
template <class T> static const T* shared_by_warp(T mine) {
    static T places[2][FIBERS];
    const unsigned turn = fibers[current].meets++ % 2;
    places[turn][current] = mine;
    meet_warp();
    return places[turn] + current / 32 * 32;
}
template <class T> static T __shfl_sync(unsigned, T mine, int source, int width = 32) {
    const unsigned lane = current % 32;
    return shared_by_warp(mine)[lane / width * width + source % width];
}
template <class T> static T __shfl_down_sync(unsigned, T mine, int step, int width = 32) {
    const unsigned lane = current % 32;
    return shared_by_warp(mine)[lane % width + step < width ? lane + step : lane];
}
template <class T> static T __shfl_up_sync(unsigned, T mine, int step, int width = 32) {
    const int lane = current % 32;
    return shared_by_warp(mine)[lane % width < step ? lane : lane - step];
}
static unsigned __ballot_sync(unsigned, bool mine) {
    const bool* all = shared_by_warp(mine);
    unsigned found = 0;
    for (unsigned k = 0; k < 32; ++k) found |= (unsigned)all[k] << k;
    return found;
}
static bool __any_sync(unsigned all, bool mine) { return __ballot_sync(all, mine) != 0; }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
static int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
template <class T> static T atomicAdd(T* at, T x) { const T old = *at; *at = old + x; return old; }
"""

RUN = """
static const Given* given;
static void go() {{
    loop(*given);
    fibers[current].ended = true;
    idle = 0;
    if (++fibers_ended == FIBERS) setcontext(&outside);
    go_on();
}}
extern "C" void here(const Given* p) {{
    {flushing}
    constexpr unsigned STACK = 1 << 15;
    given = p;
    all_fibers = FIBERS;
    if (!fibers) fibers = new Fiber[FIBERS](), order = new unsigned[FIBERS];
    for (unsigned k = 0; k < FIBERS; ++k) order[k] = k;
    new_order();
    for (auto& m : warps_meet) m = {{}};
    for (auto& m : blocks_meet) m = {{}};
    for (auto& m : threads_meet) m = {{}};
    all_meet = {{}}; fibers_ended = 0; failed = false; meetings = 0; idle = 0;
    for (unsigned k = 0; k < FIBERS; ++k) {{
        Fiber& f = fibers[k];
        if (!f.stack) f.stack = (char*)std::malloc(STACK);
        f.ended = false; f.tid = k % LOOP_THREADS; f.block = k / LOOP_THREADS; f.meets = 0;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack; f.context.uc_stack.ss_size = STACK; f.context.uc_link = nullptr;
        makecontext(&f.context, go, 0);
    }}
    current = order[0]; threadIdx.x = fibers[current].tid; blockIdx.x = fibers[current].block;
    swapcontext(&outside, &fibers[current].context);
    if (failed) {{ std::fprintf(stderr, "a thread of a loop waited for one that had ended\\n"); std::abort(); }}
}}
"""


_SHARED = re.compile(r"__shared__\s+((?:unsigned\s+|long\s+)*\w+)\s+(\w[^;]*);")


def _in_each_block(match):
    """Return arrays that threads of a block share: one for each block."""
    kind, arrays = match.groups()
    texts = []
    for array in arrays.split(","):
        name, bracket, sizes = array.strip().partition("[")
        texts.append(f"static {kind} {name}_of[LOOP_BLOCKS]{bracket}{sizes}; ")
        texts.append(f"auto& {name} = {name}_of[fibers[current].block];")
    return "".join(texts)


class PretendGpu:
    """A `Device` of loops that is JAX's CPU. With a `seed`, threads go on in an order that changes again and again."""

    words, on_host = WORDS, True

    def __init__(self, blocks=2, has_clusters=False, seed=0):
        self.blocks, self.has_clusters, self.seed, self.texts = blocks, has_clusters, seed, []

    def code(self, text, entry):
        """Return code that calls a function of a library: what is linked for programs can have no static variables."""
        self.texts.append(text)
        if "asm volatile" in text:
            text = ptx_on_cpu.HEAD + ptx_on_cpu.translated(text)
        built = library(HEAD + _SHARED.sub(_in_each_block, text) + RUN.format(flushing=FLUSHING))
        ctypes.c_uint.in_dll(built, "order_seed").value = self.seed
        address = ctypes.cast(built.here, ctypes.c_void_p).value
        text = f"define void @{entry}(ptr %0) {{\n call void inttoptr (i64 {address} to ptr)(ptr %0)\n ret void\n}}"
        Host()  # makes LLVM ready
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="pic")
        return pack_object(machine.emit_object(llvm.parse_assembly(text)), {entry: 1}, native=False, alone=True), entry


def planned_loop(function, *args):
    """Return the first loop of a function as a plan for a GPU, with the types of its results."""
    _, eqn = _scan_of(function, *args)
    return plan_of(eqn.params, "cuda"), eqn.params["jaxpr"].out_avals


def on_pretended_gpu(function, *args, **shape):
    """Return the results of a function whose only loop runs on a pretended GPU."""
    closed, eqn = _scan_of(function, *args)
    call = call_of(plan_of(eqn.params, "cuda"), eqn.params["jaxpr"].out_avals, PretendGpu(**shape))

    def run(*args):
        known = dict(zip(closed.jaxpr.invars, jax.tree.leaves(args), strict=True))
        known.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        for each in closed.jaxpr.eqns:
            operands = [atom.val if hasattr(atom, "val") else known[atom] for atom in each.invars]
            found = call(*operands) if each is eqn else bind_equation(each, operands)
            known.update(zip(each.outvars, found, strict=True))
        return [atom.val if hasattr(atom, "val") else known[atom] for atom in closed.jaxpr.outvars]

    return [np.asarray(x) for x in jax.jit(run)(*args)]


def _scan_of(function, *args):
    closed = jax.make_jaxpr(function)(*args)
    return closed, next(eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan")
