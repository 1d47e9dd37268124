// SPDX-License-Identifier: Apache-2.0
// The words that kernels of networks with plastic synapses need besides those of "on_gpu.cu".

#define TWICE_UNROLLED _Pragma("unroll 2")
// Warps that change synapses; they meet without the others.
#define ACTING_DO if (threadIdx.x < ACTING * 32) { const u32 tid = threadIdx.x;
#define ACTING_END }
#define ACTING_MEET if (threadIdx.x < ACTING * 32) asm volatile("barrier.sync 1, %0;" :: "n"(ACTING * 32) : "memory")
// A warp that acts has delivered what it has; the first ones wait for all.
#define ACTING_ARRIVE asm volatile("barrier.arrive 2, %0;" :: "n"(ACTING * 32) : "memory")
#define ACTING_WAIT(warps) if (threadIdx.x < (warps) * 32) asm volatile("barrier.sync 2, %0;" :: "n"(ACTING * 32) : "memory")

// Which lanes have something, as bits.
BE u32 lanes_with(OfLane<u32>& has) { return __ballot_sync(~0u, has.x); }
BE u32 count_bits(u32 x) { return __popc(x); }

// How many lanes have something, and how many before each.
BE u32 ranks(OfLane<u32>& has, OfLane<u32>& before) {
    u32 lower;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    const u32 lanes = __ballot_sync(~0u, has.x);
    before.x = __popc(lanes & lower);
    return __popc(lanes);
}

// What no kernel of steps writes.
template <class T> BE T fixed(const T* at) { return INSIDE ? *at : __ldg(at); }
