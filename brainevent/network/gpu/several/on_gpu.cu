// SPDX-License-Identifier: Apache-2.0
// More words of kernels on several GPUs.

// One warp has sent the packet of a step; another one waits for that.
#define SENT_ARRIVE asm volatile("barrier.arrive 1, 64;" ::: "memory")
#define SENT_WAIT asm volatile("barrier.sync 1, 64;" ::: "memory")

// A flag that all of them write, and a fence for what one of them reads, which takes less time.
BE void put_flag(u32* at, u32 x) { asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(at), "r"(x) : "memory"); }
BE void fence_here() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
