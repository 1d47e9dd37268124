// SPDX-License-Identifier: Apache-2.0
// The words of kernels of training, on a GPU: what PTX has and C++ has not.

#define UNROLLED _Pragma("unroll")
#define ROOM(name) extern __shared__ __align__(128) unsigned char name[]
#define BLOCK_MEET __syncthreads()
#define WARP_ALL __ballot_sync

BE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// ---- numbers of 16 bits

// Two floats in 16 bits each; those beyond the largest become NaN.
BE u32 loud(u32 half) { return (half & 0x7FFFu) == 0x7C00u ? 0x7FFFu : half; }
BE u32 halves_of(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return loud(pair & 0xFFFFu) | loud(pair >> 16) << 16;
}
BE unsigned short half_of(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
BE float float_of(u32 half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)half));
    return x;
}
// Two floats in 16 bits each with the exponent of float32: their upper halves.
BE u32 wide_halves_of(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
BE float float_of_wide(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }  // the upper one

// ---- tensor cores: 16 rows of weights times 8 samples

BE void multiply(int (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
BE void multiply(float (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
BE void multiply_wide(float (&sums)[4], const uint4& a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// Four matrices of 8 rows and 8 columns; each lane names a row.
BE void load_rows(u32 (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(shared_address(row)) : "memory");
}

// ---- copies from memory to shared memory that this thread waits for, and two numbers at once

template <u32 BYTES> BE void fetch(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES) : "memory");
}
BE void put_pair(float* to, float x, float y) {
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
}
BE void end_of_fetches() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 LATER> BE void await_fetches() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }

// ---- barriers that count bytes, and what blocks of a cluster send each other

BE u64 clock_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}
#if CLUSTER > 1
BE u32 in_block(u32 address, u32 block) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}
BE void expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// By one thread, before the cluster meets.
BE void open(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier)) : "memory");
    expect(barrier, bytes);
}
BE bool is_there(u64* barrier, u32 parity) {
    u32 there;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(there) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return there != 0;
}
// All blocks of a cluster run at the same time, so this takes microseconds; a kernel that waits for seconds has failed.
BE void await(u64* barrier, u32 parity) {
    if (is_there(barrier, parity)) return;
    const u64 begin = clock_ns();
    while (!is_there(barrier, parity))
        if (clock_ns() - begin > LONGEST_WAIT) __trap();
}
// 16 bytes to the same place in another block.
BE void send(void* at, const uint4& x, u64* barrier, u32 block) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(in_block(shared_address(at), block)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w),
                   "r"(in_block(shared_address(barrier), block)) : "memory");
}
// What was written to shared memory and to memory, before it is copied by the two below.
BE void fence_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
// Bytes of this block to the same place in another one.
BE void copy_to_block(void* at, u32 bytes, u64* barrier, u32 block) {
    const u32 own = shared_address(at);
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(in_block(own, block)), "r"(own), "r"(bytes), "r"(in_block(shared_address(barrier), block)) : "memory");
}
// Bytes of memory to the same place in all blocks.
BE void copy_to_all(void* at, const void* from, u32 bytes, u64* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(shared_address(at)), "l"(from), "r"(bytes), "r"(shared_address(barrier)),
                   "h"((unsigned short)((1u << CLUSTER) - 1)) : "memory");
}
BE void meet_cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
#endif
