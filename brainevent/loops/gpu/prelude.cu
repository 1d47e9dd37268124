// SPDX-License-Identifier: Apache-2.0
// What the kernel of a loop calls on a GPU. LOOP_BLOCKS of LOOP_THREADS each stay until the end.
// LOOP_CLUSTER: they are one cluster.

#define meet_warp() __syncwarp()
#define LOOP_MEMBER __device__ __forceinline__

#if LOOP_CLUSTER
#define LOOP_KERNEL __cluster_dims__(LOOP_BLOCKS, 1, 1) __launch_bounds__(LOOP_THREADS, 1)
#else
#define LOOP_KERNEL __launch_bounds__(LOOP_THREADS, 1)
#endif

constexpr unsigned long long LONGEST_WAIT = 100000000000;  // nanoseconds: then a block is lost, and the launch fails

BE unsigned long long clock_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Wait for all threads of all blocks; what one has written, all others read afterwards.
BE void meet(unsigned* met, unsigned& turn) {
#if LOOP_CLUSTER
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
    __syncthreads();
    if (LOOP_BLOCKS > 1) {
        if (threadIdx.x == 0) {
            turn += LOOP_BLOCKS;
            unsigned now, looks = 0;
            unsigned long long began = 0;
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(met) : "memory");
            while (true) {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(met) : "memory");
                if ((int)(now - turn) >= 0) break;
                if (++looks % 4096 == 0) {
                    if (!began) began = clock_ns();
                    else if (clock_ns() - began > LONGEST_WAIT) __trap();
                }
            }
        }
        __syncthreads();
    }
#endif
}

// Wait for the threads of this block; or for the first ones, which run a block of a kernel within the loop.
BE void meet_threads() { __syncthreads(); }
template <unsigned COUNT> BE void meet_block() { asm volatile("barrier.sync 1, %0;" :: "n"(COUNT) : "memory"); }

// The warp of a kernel within the loop that this warp runs now.
__shared__ unsigned warps_within[LOOP_THREADS / 32];
#define WARP_WITHIN warps_within[threadIdx.x / 32]
