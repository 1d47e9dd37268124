# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU: kernels of networks as C++, each block in a thread of its own, its threads one after the other."""

import ctypes
import functools
import hashlib
import os
import platform
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from brainevent.network.gpu.device import Memory
from brainevent.scalar.cuda_text import FLUSHING, SHIM

HEAD = (
    SHIM
    + r"""
#include <sched.h>
#define __global__
#define __launch_bounds__(...)
#define __shared__ static thread_local
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct Extent { unsigned x; };
static thread_local Extent blockIdx, gridDim;
static thread_local unsigned char* block_room;
// A compiler that computes with a constant does not flush denormals.
static inline float computed(float x) { __asm__("" : "+x"(x)); return x; }
"""
)
LITERAL = re.compile(r"(?<![\w.])-?0x[0-9a-f.]+p[+-]\d+f\b")

# Between two meetings of a block, its threads run in the order of their numbers; warps in the order of the text.
WORDS = r"""
#define THREADS_DO for (u32 tid = 0; tid < THREADS; ++tid) {
#define THREADS_MEET }
#define EACH_THREAD_DO THREADS_DO
#define EACH_THREAD_END }
#define BLOCK_MEET
#define WARPS_DO(begin, count) for (u32 warp = (begin); warp < (begin) + (count); ++warp) {
#define WARPS_END }
#define LANES_DO for (u32 lane = 0; lane < 32; ++lane) {
#define ONE_LANE_DO {
#define ACTING_DO for (u32 tid = 0; tid < ACTING * 32; ++tid) {
#define ACTING_END }
#define ACTING_MEET
#define ACTING_ARRIVE
#define SENT_ARRIVE
#define ACTING_WAIT(warps)
#define SENT_WAIT
#define LANES_END }
#define LANES_MEET
#define UNROLLED
#define NOT_UNROLLED
#define TWICE_UNROLLED
#define USUALLY(x) (x)
#define __grid_constant__
#define __cluster_dims__(...)
#define ROOM(name) unsigned char* name = block_room
template <class T> struct OfThread {
    T x[THREADS];
    T& operator[](u32 k) { return x[k]; }
};
template <class T> struct OfLane {
    T x[32];
    T& operator[](u32 k) { return x[k]; }
};
static u32 highest(OfLane<u32>& n) {
    u32 most = 0;
    for (u32 lane = 0; lane < 32; ++lane) if (most < n[lane]) most = n[lane];
    return most < 2 ? most : 2;
}
static u32 sums_before(OfLane<u32>& n, OfLane<u32>& before) {
    u32 all = 0;
    for (u32 lane = 0; lane < 32; ++lane) { before[lane] = all; all += n[lane]; }
    return all;
}
template <class T> static T add_in_block(T* at, T x) { T before = *at; *at = (T)((u32)before + (u32)x); return before; }
static u32 next_in_block(u32* at) { return add_in_block(at, 1u); }
static void add_if(bool yes, int* at, int x, int*) {
    if (yes && LAYOUT == 4) __atomic_fetch_add(at, x, __ATOMIC_RELAXED);  // other blocks add, too
    else if (yes) add_in_block(at, x);
}
static u32* or_nowhere(bool yes, u32* at, int* nowhere) { return yes ? at : (u32*)nowhere; }
static u32 own_pile(u32 piles) { static thread_local u32 turn; return turn++ % piles; }
static u32 byte_among(u32 x, u32 k) { return 0x4B000000u | (x >> 8 * k & 255); }
static u32 bytes_as_word(u32 a, u32 b, u32 c, u32 d) {
    return a & 255 | (b & 255) << 8 | (c & 255) << 16 | (d & 255) << 24;
}
static u32 lowest_bit(u32 x) { return __builtin_ctz(x); }
static void or_in_block(u32* at, u32 x) { *at |= x; }
static void put_in_block(volatile u64* at, u64 x) { *at = x; }
template <class T> static T add_for_all(T* at, T x) { return __atomic_fetch_add(at, x, __ATOMIC_RELAXED); }
template <class T> static void raise_for_all(T* at, T x) { if (*at < x) *at = x; }
static void or_for_all(u64* at, u64 x) { __atomic_fetch_or(at, x, __ATOMIC_RELAXED); }
static int look(const int* at) { return *at; }
template <class T> static void pin(T&) {}
static void put_word(u32* at, u32 x) { __atomic_store_n(at, x, __ATOMIC_RELAXED); }
static void put_word_if(bool yes, u32* at, u32 x) { if (yes) put_word(at, x); }
static u32 get_word(const u32* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
static void put_flag(u32* at, u32 x) { __atomic_store_n(at, x, __ATOMIC_RELAXED); }
static u32 get_again(const u32* at) { return get_word(at); }
static uint4 get_four(const uint4* at) {
    const u32* a = (const u32*)at;
    return {get_word(a), get_word(a + 1), get_word(a + 2), get_word(a + 3)};
}
template <class T> static void ask_for(const T*) {}
template <class T> static void ask_for_all(const T*, u32) {}
static u32 lanes_with(OfLane<u32>& has) {
    u32 bits = 0;
    for (u32 lane = 0; lane < 32; ++lane) bits |= (u32)(has[lane] != 0) << lane;
    return bits;
}
template <class T> static T of_lane(OfLane<T>& x, u32 lane) { return x[lane]; }
static u32 sums_up_to(OfLane<u32>& n, OfLane<u32>& ends) {
    u32 all = 0;
    for (u32 lane = 0; lane < 32; ++lane) ends[lane] = all += n[lane];
    return all;
}
static void only_add(bool yes, u32* at, u32 x, int*) { if (yes) add_in_block(at, x); }
static void put_long(u64* at, u64 x) { __atomic_store_n(at, x, __ATOMIC_RELAXED); }
static u64 get_long(const u64* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
static u32 count_bits(u32 x) { return __builtin_popcount(x); }
static u32 ranks(OfLane<u32>& has, OfLane<u32>& before) {
    u32 all = 0;
    for (u32 lane = 0; lane < 32; ++lane) { before[lane] = all; all += has[lane] != 0; }
    return all;
}
template <class T> static T fixed(const T* at) { return *at; }
static u64 fetch_slot(const u64* at) { return *at; }
static u32 fetch_word(const u32* at) { return *at; }
template <class T> static T read_row(const T* at) { return *at; }
static uint4 fetch(const uint4* at) { return *at; }
static uint2 fetch_two(const uint2* at) { return *at; }
static void get_pair(const u64* at, u64& v, u64& w) {
    v = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    w = __atomic_load_n(at + 1, __ATOMIC_RELAXED);
}
static void put_pair(u64* at, u64 v, u64 w) {
    __atomic_store_n(at + 1, w, __ATOMIC_RELAXED);
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}
// The addresses of all blocks' inboxes, after how many have come and gone.
static thread_local u64 *inboxes, *its_inbox;
static void meet(u64 count) {
    __atomic_fetch_add(inboxes, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(inboxes, __ATOMIC_ACQUIRE) < count) sched_yield();
}
static void enter_cluster(u64* table, u32 block, u32 blocks, u64* own) {
    inboxes = table;
    its_inbox = own;
    table[1 + block] = (u64)own;
    meet(blocks);
}
static void leave_cluster(u32 blocks) { meet(2 * blocks); }
static void open_inbox(u64* arrived) { *arrived = 0; }
static u64* own_inbox(u64* own) { return own; }
static u64* in_block(const u64* own, u32 block) { return (u64*)inboxes[1 + block] + (own - its_inbox); }
static void hand_pair(u64* at, u64* arrived, u64 v, u64 w) {
    __atomic_store_n(at + 1, w, __ATOMIC_RELAXED);
    __atomic_store_n(at, v, __ATOMIC_RELAXED);
    __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
}
static void get_handed(const u64* at, u64& v, u64& w) {
    v = __atomic_load_n(at, __ATOMIC_RELAXED);
    w = __atomic_load_n(at + 1, __ATOMIC_RELAXED);
}
static void await_packets(u64* arrived, u32 count, u32 turn) {
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < (u64)count * (turn / 2 + 1)) sched_yield();
}
static void get_pair_first(const u64* at, u64& v, u64& w) { get_pair(at, v, w); }
static bool any_thread(OfThread<bool>& so) {
    bool any = false;
    for (u32 tid = 0; tid < THREADS; ++tid) any |= so[tid];
    return any;
}
static void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static void fence_here() { fence(); }
static void fence_in_block() {}
static void rest() { sched_yield(); }
static void rest_before_drawing() {}
static u64 ticks;
static u64 cycles() { return __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED); }
template <class T> static void raise_in_block(T* at, T x) { if (*at < x) *at = x; }
static u64 clock_ns() { return __atomic_add_fetch(&ticks, 1000, __ATOMIC_RELAXED); }
"""

STRUCTURES = {
    "run": ["Net", "unsigned", "unsigned"],
    "place_rows": ["Given", "Rows"],
    "draw_rows": ["Recipe", "Given", "Rows"],
    "count_sources": ["Recipe"],
    "measure_rows": ["Laid"],
    "lay_rows": ["Laid"],
    "sort_lines": ["Lines"],
    **{key: ["InParts"] for key in ("measure_in_parts", "begin_in_parts", "sort_in_parts")},
    **{key: ["Keyed"] for key in ("take_keys", "index_targets", "add_sources")},
    "order_rows": ["Ordered"],
    "fill_words": ["Filled"],
    **{key: ["Told"] for key in ("list_spikes", "tell_spikes")},
    **{key: ["Afar"] for key in ("deliver_afar", "least_afar")},
}


def entry_text(entry, beside=False):
    """Return the function that runs one block; structures are passed by their addresses."""
    kinds = STRUCTURES.get(entry, ["Listed"])
    if beside:  # the first parameter is itself an address
        kinds = ["Net*", *kinds[1:]]
    taken = ", ".join(f"{kind} x{k}" if kind == "unsigned" else f"const {kind}* x{k}" for k, kind in enumerate(kinds))
    passed = ", ".join(f"x{k}" if kind == "unsigned" else f"*x{k}" for k, kind in enumerate(kinds))
    return (
        f'extern "C" void on_block(unsigned block, unsigned blocks, unsigned char* room, {taken}) {{\n'
        f"    {FLUSHING} blockIdx.x = block; gridDim.x = blocks; block_room = room; {entry}({passed});\n}}\n"
    )


COMPILING = threading.Lock()


@functools.cache
def library(text):
    """Compile a text, once for all tests of a machine."""
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    key = hashlib.sha256((text + version + platform.processor()).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir()) / f"brainevent-gpu-on-cpu-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    found = folder / f"{key}.so"
    with COMPILING:  # several devices ask for the same text at once
        if not found.exists():
            source = folder / f"{key}-{os.getpid()}.cpp"
            source.write_text(text)
            made = source.with_suffix(".so")
            flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-w"]
            subprocess.run(["g++", *flags, "-o", str(made), str(source)], check=True)
            made.rename(found)
            source.unlink()
    return ctypes.CDLL(str(found))


class PretendDevice:
    """A `Device` on the CPU."""

    name, words, number = "a pretend GPU", WORDS, 0

    def __init__(self, multiprocessors=8, shared_bytes=227 * 1024, largest_cluster=16):
        self.has_clusters, self.largest_cluster = largest_cluster > 0, largest_cluster
        self.multiprocessors, self.shared_bytes, self.held, self.launches = multiprocessors, shared_bytes, {}, []

    @property
    def identity(self):
        return os.getpid(), id(self)

    def beside(self):
        return self

    def memory(self, nbytes, what):
        array = np.full(max(nbytes, 16) + 16, 0xAB, np.uint8)
        address = array.ctypes.data + -array.ctypes.data % 16
        self.held[address] = array
        return Memory(self, address, nbytes)

    def free(self, address):
        del self.held[address]

    def copy_in(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def copy_out(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def fill_zero(self, address, nbytes):
        ctypes.memset(address, 0, nbytes)

    def prepare(self, texts):
        pass

    def kernel(self, text, entry, shared):
        assert shared <= self.shared_bytes
        text = LITERAL.sub(r"computed(\g<0>)", text)
        return library(HEAD + text + entry_text(entry, "#define BESIDE" in text)).on_block

    def launch(self, kernel, blocks, threads, shared, parameters, *, at_once=False, clustered=False):
        self.launches.append((blocks, threads, shared))
        held = [ctypes.create_string_buffer(value, len(value)) for value in parameters]
        passed = [
            ctypes.c_void_p(ctypes.addressof(buffer)) if len(value) > 4 else ctypes.c_uint32.from_buffer_copy(value)
            for buffer, value in zip(held, parameters, strict=True)
        ]

        def go(block):
            room = ctypes.create_string_buffer(shared + 16)
            address = ctypes.addressof(room) + -ctypes.addressof(room) % 16
            kernel(ctypes.c_uint32(block), ctypes.c_uint32(blocks), ctypes.c_void_p(address), *passed)

        if not at_once and not clustered:
            for block in range(blocks):
                go(block)
            return
        running = [threading.Thread(target=go, args=(block,)) for block in range(blocks)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    def launcher(self, kernel, blocks, threads, shared, parameters, **how):
        return lambda: self.launch(kernel, blocks, threads, shared, [one.tobytes() for one in parameters], **how)

    def has_room_for_cluster(self, kernel, blocks, threads, shared):
        return blocks <= self.largest_cluster

    def networks_at_once(self, kernel, blocks, threads, shared, *, clustered):
        return self.multiprocessors // blocks

    def wait(self):
        pass

    def is_done(self):
        return True
