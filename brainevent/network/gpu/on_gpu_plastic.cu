// SPDX-License-Identifier: Apache-2.0
// The words that kernels of networks with plastic synapses need besides those of "on_gpu.cu".

#define TWICE_UNROLLED _Pragma("unroll 2")
// Warps that change synapses; they meet without the others.
#define ACTING_DO if (threadIdx.x < ACTING * 32) { const u32 tid = threadIdx.x;
#define ACTING_END }
#define ACTING_MEET if (threadIdx.x < ACTING * 32) asm volatile("barrier.sync 1, %0;" :: "n"(ACTING * 32) : "memory")

// Ask for memory that is read in a later step.
template <class T> BE void ask_for(const T* at) { asm volatile("prefetch.global.L2 [%0];" :: "l"(at)); }

// What no kernel of steps writes.
template <class T> BE T fixed(const T* at) { return __ldg(at); }
