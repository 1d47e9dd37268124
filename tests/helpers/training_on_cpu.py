# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU for kernels of training: as C++, each thread of a cluster a fiber; copies arrive late."""

import ctypes

import llvmlite.binding as llvm
from gpu_on_cpu import library

from brainevent.ffi.launch.host import Host, pack_object
from brainevent.scalar.cuda_text import FLUSHING, SHIM

HEAD = (
    SHIM
    + r"""
#include <ucontext.h>
#include <cstdlib>
#include <cstdio>
#include <deque>
#include <vector>
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
struct uint4 { unsigned x, y, z, w; };
struct Extent { unsigned x; };
static Extent threadIdx, blockIdx;
"""
)

WORDS = r"""
#define UNROLLED
#define ROOM(name) unsigned char* name = rooms[blockIdx.x % CLUSTER]
#define BLOCK_MEET meet(blocks_meet[blockIdx.x % CLUSTER], 256)
#define WARP_ALL ballot

struct Meeting { unsigned count, turn; };
struct Copy { void* to; std::vector<unsigned char> bytes; const void* from; u32 size; u64* barrier; };
struct Fiber {
    ucontext_t context;
    char* stack;
    bool ended;
    u32 tid, block, meets;
    std::deque<std::vector<Copy>> groups;
};
constexpr u32 FIBERS = 256 * CLUSTER;
static Fiber* fibers;
static ucontext_t outside;
static unsigned char* rooms[CLUSTER];
static Meeting blocks_meet[CLUSTER], warps_meet[CLUSTER * 8], all_meet;
static std::vector<Copy> on_the_way;
static u32 current, luck, ended;
static u64 ticks;
static bool failed;

static u32 next_luck() { return (luck = luck * 1664525u + 1013904223u) >> 8; }
static void arrive(Copy& c);
static void yield() {
    if (++ticks > 400000000ull) { failed = true; setcontext(&outside); }
    if (!on_the_way.empty() && next_luck() % 64 == 0) {  // copies arrive at any time, and in any order
        const u32 which = next_luck() % on_the_way.size();
        Copy c = on_the_way[which];
        on_the_way.erase(on_the_way.begin() + which);
        arrive(c);
    }
    const u32 before = current;
    do current = (current + 1) % FIBERS; while (fibers[current].ended);
    if (current == before) return;
    threadIdx.x = fibers[current].tid; blockIdx.x = fibers[current].block;
    swapcontext(&fibers[before].context, &fibers[current].context);
}
static void meet(Meeting& m, u32 all) {
    const u32 turn = m.turn;
    if (++m.count == all) { m.count = 0; ++m.turn; }
    else while (m.turn == turn) yield();
}
static void meet_warp() { meet(warps_meet[current / 32], 32); }
// What each lane of a warp puts in can be read by all of them until they meet again.
template <class T> static const T* shared_by_warp(const T& mine) {
    static T places[2][FIBERS];
    const u32 turn = fibers[current].meets++ % 2;
    places[turn][current] = mine;
    meet_warp();
    return places[turn] + current / 32 * 32;
}
static u32 ballot(u32, bool mine) {
    const bool* all = shared_by_warp(mine);
    u32 found = 0;
    for (u32 k = 0; k < 32; ++k) found |= (u32)all[k] << k;
    return found;
}

static unsigned short half_of(float x) { _Float16 h = (_Float16)x; unsigned short u; std::memcpy(&u, &h, 2); return u; }
static float of_half(u32 u) { unsigned short s = u; _Float16 h; std::memcpy(&h, &s, 2); return (float)h; }
static float float_of(u32 half) { return of_half(half); }
static u32 loud(u32 half) { return (half & 0x7FFFu) == 0x7C00u ? 0x7FFFu : half; }
static u32 halves_of(float low, float high) { return loud(half_of(low)) | loud(half_of(high)) << 16; }

struct Operands { u32 a[4], b[2]; };
static void multiply(int (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    const Operands* all = shared_by_warp(Operands{{a.x, a.y, a.z, a.w}, {b0, b1}});
    const u32 lane = current % 32;
    for (u32 c = 0; c < 4; ++c) {
        const u32 row = lane / 4 + c / 2 * 8, column = lane % 4 * 2 + c % 2;
        for (u32 k = 0; k < 32; ++k) {
            const u32 left = all[row % 8 * 4 + k % 16 / 4].a[row / 8 + k / 16 * 2];
            const u32 right = all[column * 4 + k % 16 / 4].b[k / 16];
            sums[c] += (int)(signed char)(left >> k % 4 * 8) * (int)(unsigned char)(right >> k % 4 * 8);
        }
    }
}
static float float_of_wide(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }
static u32 upper_half(float x) {  // rounded to nearest, ties to even
    const u32 bits = __float_as_uint(x);
    return x != x ? 0x7FFFu : (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
}
static u32 wide_halves_of(float low, float high) { return upper_half(low) | upper_half(high) << 16; }
static float of_wide(u32 half) { return float_of_wide(half << 16); }
template <float (*OF)(u32)> static void multiply_floats(float (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    const Operands* all = shared_by_warp(Operands{{a.x, a.y, a.z, a.w}, {b0, b1}});
    const u32 lane = current % 32;
    for (u32 c = 0; c < 4; ++c) {
        const u32 row = lane / 4 + c / 2 * 8, column = lane % 4 * 2 + c % 2;
        double sum = sums[c];
        for (u32 k = 0; k < 16; ++k) {
            const u32 left = all[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2];
            const u32 right = all[column * 4 + k % 8 / 2].b[k / 8];
            sum += (double)OF(left >> k % 2 * 16 & 0xFFFF) * OF(right >> k % 2 * 16 & 0xFFFF);
        }
        sums[c] = (float)sum;
    }
}
static void multiply(float (&sums)[4], const uint4& a, u32 b0, u32 b1) { multiply_floats<of_half>(sums, a, b0, b1); }
static void multiply_wide(float (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    multiply_floats<of_wide>(sums, a, b0, b1);
}
static void load_rows(u32 (&words)[4], const void* row) {
    const void* const* rows = shared_by_warp(row);
    const u32 lane = current % 32;
    for (u32 k = 0; k < 4; ++k) std::memcpy(words + k, (const char*)rows[k * 8 + lane / 4] + lane % 4 * 4, 4);
}

template <u32 BYTES> static void fetch(void* to, const void* from) {
    if ((u64)to % BYTES || (u64)from % BYTES) std::abort();
    auto& groups = fibers[current].groups;
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back({to, {}, from, BYTES, nullptr});
}
static void put_pair(float* to, float x, float y) { if ((u64)to % 8) std::abort(); to[0] = x; to[1] = y; }
static void end_of_fetches() {
    auto& groups = fibers[current].groups;
    if (groups.empty()) groups.emplace_back();
    groups.emplace_back();
}
template <u32 LATER> static void await_fetches() {
    auto& groups = fibers[current].groups;
    while (groups.size() > LATER + 1) {
        for (Copy& c : groups.front()) std::memcpy(c.to, c.from, c.size);
        groups.pop_front();
    }
}

static u64 clock_ns() { return ticks * 1000; }
static void __trap() { failed = true; setcontext(&outside); }
static void meet_cluster() { meet(all_meet, FIBERS); }
struct Barrier { int bytes; short waiting, phase; };
static void turned(Barrier* b) { if (!b->waiting && !b->bytes) { b->phase ^= 1; b->waiting = 1; } }
static void expect(u64* barrier, u32 bytes) {
    Barrier* b = (Barrier*)barrier;
    b->bytes += bytes;
    b->waiting--;
    turned(b);
}
static void open(u64* barrier, u32 bytes) { *(Barrier*)barrier = {0, 1, 0}; expect(barrier, bytes); }
static bool is_there(u64* barrier, u32 parity) { return (u32)((Barrier*)barrier)->phase != parity; }
static void await(u64* barrier, u32 parity) {
    const u64 begin = clock_ns();
    while (!is_there(barrier, parity)) {
        yield();
        if (clock_ns() - begin > LONGEST_WAIT) __trap();
    }
}
static void arrive(Copy& c) {
    std::memcpy(c.to, c.from ? c.from : c.bytes.data(), c.size);
    ((Barrier*)c.barrier)->bytes -= c.size;
    turned((Barrier*)c.barrier);
}
template <class T> static T* in_block(T* at, u32 block) {
    return (T*)((char*)at - (char*)rooms[blockIdx.x % CLUSTER] + (char*)rooms[block]);
}
static void send(void* at, const uint4& x, u64* barrier, u32 block) {
    const unsigned char* bytes = (const unsigned char*)&x;
    on_the_way.push_back({in_block(at, block), {bytes, bytes + 16}, nullptr, 16, in_block(barrier, block)});
}
static void fence_copies() {}
static void copy_to_block(void* at, u32 bytes, u64* barrier, u32 block) {
    on_the_way.push_back({in_block(at, block), {}, at, bytes, in_block(barrier, block)});
}
static void copy_to_all(void* at, const void* from, u32 bytes, u64* barrier) {
    for (u32 k = 0; k < CLUSTER; ++k) on_the_way.push_back({in_block(at, k), {}, from, bytes, in_block(barrier, k)});
}
"""

RUN = """
static const {kind}* given;
static void go() {{
    {entry}(*given);
    fibers[current].ended = true;
    if (++ended == FIBERS) setcontext(&outside);
    const u32 before = current;
    do current = (current + 1) % FIBERS; while (fibers[current].ended);
    threadIdx.x = fibers[current].tid; blockIdx.x = fibers[current].block;
    setcontext(&fibers[current].context);
}}
extern "C" void here(const {kind}* p) {{
    {flushing}
    constexpr u32 STACK = 1 << 16;
    given = p;
    if (!fibers) fibers = new Fiber[FIBERS]();
    const u32 blocks = (p->samples + SAMPLES - 1) / SAMPLES * BLOCKS;
    for (u32 first = 0; first < blocks; first += CLUSTER) {{
        for (u32 k = 0; k < CLUSTER; ++k) {{
            if (!rooms[k]) rooms[k] = (unsigned char*)std::aligned_alloc(128, 227 * 1024);
            std::memset(rooms[k], 0xFF, 227 * 1024);
            blocks_meet[k] = {{}};
        }}
        for (auto& m : warps_meet) m = {{}};
        all_meet = {{}}; ended = 0; ticks = 0; failed = false; luck = first + 1; on_the_way.clear();
        for (u32 k = 0; k < FIBERS; ++k) {{
            Fiber& f = fibers[k];
            if (!f.stack) f.stack = (char*)std::malloc(STACK);
            f.ended = false; f.tid = k % 256; f.block = first + k / 256; f.groups.clear(); f.meets = 0;
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = f.stack; f.context.uc_stack.ss_size = STACK; f.context.uc_link = nullptr;
            makecontext(&f.context, go, 0);
        }}
        current = 0; threadIdx.x = 0; blockIdx.x = first;
        swapcontext(&outside, &fibers[0].context);
        if (failed) {{ std::fprintf(stderr, "a kernel of training waited without end\\n"); std::abort(); }}
    }}
}}
"""


class PretendGpu:
    """A `Device` of training that is JAX's CPU."""

    words, on_host = WORDS, True

    def __init__(self, clusters=2, shared_bytes=227 * 1024):
        self.clusters, self.shared_bytes = clusters, shared_bytes

    def at_once(self, blocks):
        return self.clusters

    def code(self, text, entry):
        """Return code that calls a function of a library: what is linked for programs can have no static variables."""
        run = RUN.format(kind=entry.capitalize(), entry=entry, flushing=FLUSHING)
        address = ctypes.cast(library(HEAD + text + run).here, ctypes.c_void_p).value
        text = f"define void @{entry}(ptr %0) {{\n call void inttoptr (i64 {address} to ptr)(ptr %0)\n ret void\n}}"
        Host()  # makes LLVM ready
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="pic")
        return pack_object(machine.emit_object(llvm.parse_assembly(text)), {entry: 1}, native=False, alone=True), entry
