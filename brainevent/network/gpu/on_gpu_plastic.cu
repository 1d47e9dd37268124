// SPDX-License-Identifier: Apache-2.0
// The words that kernels of networks with plastic synapses need besides those of "on_gpu.cu".

#define TWICE_UNROLLED _Pragma("unroll 2")
// Warps that change synapses; they meet without the others.
#define ACTING_DO if (threadIdx.x < ACTING * 32) { const u32 tid = threadIdx.x;
#define ACTING_END }
#define ACTING_MEET if (threadIdx.x < ACTING * 32) asm volatile("barrier.sync 1, %0;" :: "n"(ACTING * 32) : "memory")

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
