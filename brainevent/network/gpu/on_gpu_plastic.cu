// SPDX-License-Identifier: Apache-2.0
// The words that kernels of networks with plastic synapses need besides those of "on_gpu.cu".

#define TWICE_UNROLLED _Pragma("unroll 2")
// Warps that change synapses; they meet without the others.
#define ACTING_DO if (threadIdx.x < ACTING * 32) { const u32 tid = threadIdx.x;
#define ACTING_END }
#define ACTING_MEET if (threadIdx.x < ACTING * 32) asm volatile("barrier.sync 1, %0;" :: "n"(ACTING * 32) : "memory")

// Ask for memory that is read in a later step.
template <class T> BE void ask_for(const T* at) { asm volatile("prefetch.global.L2 [%0];" :: "l"(at)); }
template <class T> BE void ask_for_all(const T* at, u32 n) {
#if __CUDA_ARCH__ >= 900
    const u64 begin = (u64)at / 16 * 16;
    const u32 bytes = (u32)(((u64)(at + n) + 15) / 16 * 16 - begin);
    if (n) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(begin), "r"(bytes));
#else
    for (u32 k = 0; k < n; k += 32 / sizeof(T)) ask_for(at + k);
#endif
}

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
