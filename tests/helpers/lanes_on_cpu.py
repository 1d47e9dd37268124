# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU whose lanes come in any order: each thread of a block is a fiber that goes on as far as it may.

It finds what `gpu_on_cpu.py` cannot: lanes or warps that read what others write, and do not meet in between.
"""

import gpu_on_cpu
from gpu_on_cpu import PretendDevice
from several_on_cpu import PretendPeer

FIBERS = r"""
#include <ucontext.h>
#include <memory>
#include <vector>
struct Meeting { u32 count, turn, bits[2]; };
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; const u32* waits; u32 turn; bool done; };
static thread_local std::vector<Fiber> fibers;
static thread_local ucontext_t scheduler;
static thread_local Meeting of_block, of_acting, of_delivered, of_sent, of_warp[32];
static thread_local Extent threadIdx;
constexpr u32 STACK = 1 << 18;
static void pause() {
    const u32 tid = threadIdx.x;
    swapcontext(&fibers[tid].context, &scheduler);
    threadIdx.x = tid;
}
static u32 meet(Meeting& all, u32 size, bool bit = false) {
    Fiber& own = fibers[threadIdx.x];
    const u32 turn = all.turn;
    if (all.count == 0) all.bits[turn & 1] = 0;
    all.bits[turn & 1] |= (u32)bit << threadIdx.x % 32;
    if (++all.count == size) {
        all.count = 0;
        ++all.turn;
        return all.bits[turn & 1];
    }
    own.waits = &all.turn;
    own.turn = turn;
    while (all.turn == turn) pause();
    own.waits = nullptr;
    return all.bits[turn & 1];
}
static void arrive(Meeting& all, u32 size) {
    if (++all.count < size) return;
    all.count = 0;
    ++all.turn;
}
static u32 ballot(bool bit) { return meet(of_warp[threadIdx.x / 32], 32, bit); }
"""

LANES = r"""
#define THREADS_DO { const u32 tid = threadIdx.x;
#define THREADS_MEET } meet(of_block, THREADS);
#define EACH_THREAD_DO { const u32 tid = threadIdx.x;
#define EACH_THREAD_END }
#define BLOCK_MEET meet(of_block, THREADS)
#define WARPS_DO(begin, count) if (const u32 warp = threadIdx.x / 32; warp >= (begin) && warp < (begin) + (count)) {
#define WARPS_END }
#define LANES_DO { const u32 lane = threadIdx.x & 31;
#define ONE_LANE_DO if ((threadIdx.x & 31) == 0) {
#define ACTING_DO if (threadIdx.x < ACTING * 32) { const u32 tid = threadIdx.x;
#define ACTING_END }
#define ACTING_MEET if (threadIdx.x < ACTING * 32) meet(of_acting, ACTING * 32)
#define ACTING_ARRIVE arrive(of_delivered, ACTING * 32)
#define SENT_ARRIVE arrive(of_sent, 64)
#define ACTING_WAIT(warps) if (threadIdx.x < (warps) * 32) meet(of_delivered, ACTING * 32)
#define SENT_WAIT meet(of_sent, 64)
#define LANES_END }
#define LANES_MEET meet(of_warp[threadIdx.x / 32], 32)
"""

WORDS_OF_LANES = r"""
template <class T> struct OfThread {
    T x;
    T& operator[](u32) { return x; }
};
template <class T> using OfLane = OfThread<T>;
static u32 below(u32 lanes) { return lanes & ((1u << (threadIdx.x & 31)) - 1); }
static u32 highest(OfLane<u32>& n) {
    const u32 more = ballot(n.x > 1), any = ballot(n.x > 0);
    return more ? 2 : any ? 1 : 0;
}
static u32 sums_before(OfLane<u32>& n, OfLane<u32>& before) {
    u32 all = 0;
    before.x = 0;
    for (u32 bit = 0; bit < 3; ++bit) {
        const u32 lanes = ballot(n.x >> bit & 1);
        before.x += __builtin_popcount(below(lanes)) << bit;
        all += __builtin_popcount(lanes) << bit;
    }
    return all;
}
static u32 lanes_with(OfLane<u32>& has) { return ballot(has.x); }
template <class T> static T of_lane(OfLane<T>& x, u32 lane) {
    static thread_local u64 shown[THREADS];
    shown[threadIdx.x] = x.x;
    LANES_MEET;
    const T found = (T)shown[threadIdx.x / 32 * 32 + lane];
    LANES_MEET;
    return found;
}
static u32 sums_up_to(OfLane<u32>& n, OfLane<u32>& ends) {
    const u32 own = threadIdx.x & 31;
    u32 all = 0;
    for (u32 lane = 0; lane < 32; ++lane) {
        all += of_lane(n, lane);
        if (lane == own) ends.x = all;
    }
    return all;
}
static u32 ranks(OfLane<u32>& has, OfLane<u32>& before) {
    const u32 lanes = ballot(has.x);
    before.x = __builtin_popcount(below(lanes));
    return __builtin_popcount(lanes);
}
static bool any_thread(OfThread<bool>& so) { return meet(of_block, THREADS, so.x) != 0; }
static void rest() { pause(); }
"""

# One thread of a block meets those of others.
OF_CLUSTER = """
static void enter_cluster(u64* table, u32 block, u32 blocks, u64* own) {
    if (threadIdx.x == 0) enter_as_one(table, block, blocks, own);
    meet(of_block, THREADS);
}
static void leave_cluster(u32 blocks) {
    meet(of_block, THREADS);
    if (threadIdx.x == 0) leave_as_one(blocks);
    meet(of_block, THREADS);
}
"""

# Threads go on in the order of their numbers, in the opposite one, or in another one each time.
RUN = r"""
static thread_local void (*work)(void*);
static thread_local void* given;
static void begin_fiber() {
    work(given);
    fibers[threadIdx.x].done = true;
    while (true) pause();
}
template <class Work> static void run_fibers(Work go) {
    fibers.resize(THREADS);
    of_block = of_acting = of_delivered = of_sent = {};
    for (Meeting& one : of_warp) one = {};
    given = &go;
    work = [](void* all) { (*(Work*)all)(); };
    for (Fiber& one : fibers) {
        one.stack.reset(new char[STACK]);
        one.waits = nullptr;
        one.done = false;
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack.get();
        one.context.uc_stack.ss_size = STACK;
        one.context.uc_link = nullptr;
        makecontext(&one.context, begin_fiber, 0);
    }
    u32 random = ORDER;
    for (u32 left = 1; left;) {
        left = 0;
        if (ORDER > 1) random = random * 1664525u + 1013904223u;
        for (u32 k = 0; k < THREADS; ++k) {
            const u32 shuffled = (k / 32 + (random >> 16)) % (THREADS / 32) * 32 + (k % 32 ^ random >> 8 & 31);
            Fiber& one = fibers[ORDER == 0 ? k : ORDER == 1 ? THREADS - 1 - k : shuffled];
            if (one.done) continue;
            ++left;
            if (one.waits && *one.waits == one.turn) continue;
            threadIdx.x = &one - fibers.data();
            swapcontext(&scheduler, &one.context);
        }
        sched_yield();
    }
}
"""


def _without(words, first, last):
    """Return words without those from a text on to the end of another one."""
    begin = words.index(first)
    return words[:begin] + words[words.index(last, begin) + len(last) :]


def _lane_words():
    """Return the words of `gpu_on_cpu.py`, of which those about lanes, warps and blocks are replaced."""
    heads = tuple(
        line[: len("#define ") + len(line.split()[1].partition("(")[0])] for line in LANES.split("\n") if line
    )
    lines = gpu_on_cpu.WORDS.splitlines(keepends=True)
    words = "".join(line for line in lines if not line.startswith(heads))
    for kind in ("Thread", "Lane"):
        words = _without(words, f"template <class T> struct Of{kind}", "};\n")
    for name in ("highest", "sums_before", "sums_up_to", "lanes_with", "ranks"):
        words = _without(words, f"static u32 {name}(", "\n}\n")
    words = _without(words, "static bool any_thread(", "\n}\n")
    words = _without(words, "template <class T> static T of_lane(", "\n")
    words = _without(words, "static void rest()", "\n")
    words = words.replace("sched_yield();", "pause();")
    for name in ("enter", "leave"):
        words = words.replace(f"static void {name}_cluster(", f"static void {name}_as_one(")
    return FIBERS + LANES + WORDS_OF_LANES + words + OF_CLUSTER


class _Lanes:
    """Threads go on in an order: 0 is up, 1 down, others are shuffled."""

    words, order = _lane_words(), 2

    def kernel(self, text, entry, shared):
        """Compile a kernel; those that do not run steps have no fibers."""
        if entry != "run":
            return super().kernel(text.replace(self.words, gpu_on_cpu.WORDS), entry, shared)
        text = gpu_on_cpu.LITERAL.sub(r"computed(\g<0>)", text)
        begin = gpu_on_cpu.entry_text(entry, "#define BESIDE" in text)
        call = begin[begin.rindex("; ") + 2 : begin.rindex(";")]
        begin = begin.replace(call, f"run_fibers([&] {{ {call}; }})")
        return gpu_on_cpu.library(f"{gpu_on_cpu.HEAD}#define ORDER {self.order}u\n{text}{RUN}{begin}").on_block


class LaneDevice(_Lanes, PretendDevice):
    """A `Device` on the CPU, without clusters unless these are asked for."""

    def __init__(self, order, largest_cluster=0):
        super().__init__(largest_cluster=largest_cluster)
        self.order = order


class LanePeer(_Lanes, PretendPeer):
    """One of several of them, each of which shuffles its threads."""
