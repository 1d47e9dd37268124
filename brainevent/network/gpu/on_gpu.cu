// SPDX-License-Identifier: Apache-2.0
// The words of kernels of networks, on a GPU.

#define THREADS_DO { const u32 tid = threadIdx.x;
#define THREADS_MEET } __syncthreads();
#define EACH_THREAD_DO { const u32 tid = threadIdx.x;
#define EACH_THREAD_END }
#define BLOCK_MEET __syncthreads()
#define WARPS_DO(begin, count) if (const u32 warp = threadIdx.x / 32; warp >= (begin) && warp < (begin) + (count)) {
#define WARPS_END }
#define LANES_DO { const u32 lane = threadIdx.x & 31;
#define ONE_LANE_DO if ((threadIdx.x & 31) == 0) {
#define LANES_END }
#define LANES_MEET __syncwarp()
#define UNROLLED _Pragma("unroll")
#define NOT_UNROLLED _Pragma("unroll 1")
#define USUALLY(x) __builtin_expect(x, 1)
#define ROOM(name) extern __shared__ __align__(16) unsigned char name[]

template <class T> struct OfThread {
    T x;
    BE T& operator[](u32) { return x; }
};
template <class T> using OfLane = OfThread<T>;

// The largest number of any lane, if it is 0 or 1, else 2.
BE u32 highest(OfLane<u32>& n) {
    const u32 more = __ballot_sync(~0u, n.x > 1), any = __ballot_sync(~0u, n.x > 0);
    return more ? 2 : any ? 1 : 0;
}
// The sum of numbers below 8 of all lanes, and of those before each.
BE u32 sums_before(OfLane<u32>& n, OfLane<u32>& before) {
    u32 all = 0, lower;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    before.x = 0;
    UNROLLED
    for (u32 bit = 0; bit < 3; ++bit) {
        const u32 lanes = __ballot_sync(~0u, n.x >> bit & 1);
        before.x += __popc(lanes & lower) << bit;
        all += __popc(lanes) << bit;
    }
    return all;
}
template <class T> BE T add_in_block(T* at, T x) { return atomicAdd(at, x); }
// Add 1. Of an addition, or of this up to the largest number, the compiler makes a dozen instructions, which first look
// for lanes that add to the same word.
BE u32 next_in_block(u32* at) {
    u32 before;
    asm volatile("atom.shared.inc.u32 %0, [%1], 0xFFFFFFFE;" : "=r"(before) : "r"((u32)__cvta_generic_to_shared(at)) : "memory");
    return before;
}
// Add to the ring if so, or in shared memory else to a word of this lane that is never read: so there is no branch. Of an
// atomicAdd that nobody reads, the compiler makes one that returns the sum before; on several GPUs nothing is returned.
BE void add_if(bool yes, int* at, int x, int* nowhere) {
    if (RING_IN_BLOCK) atomicAdd(yes ? at : nowhere + (threadIdx.x & 31), x);
    #one else if (yes) atomicAdd(at, x);
    #several else if (yes) asm volatile("red.global.add.u32 [%0], %1;" :: "l"(at), "r"(x) : "memory");
}
// That address if so, else that of a word of this lane.
BE u32* or_nowhere(bool yes, u32* at, int* nowhere) { return yes ? at : (u32*)nowhere + (threadIdx.x & 31); }
// Which of a power of two piles, at most 32, is that of a thread: another one for the same lane of another warp.
BE u32 own_pile(u32 piles) { return (threadIdx.x + threadIdx.x / 32) % piles; }
// The bits of the float 2^23 plus byte k.
BE u32 byte_among(u32 x, u32 k) { return __byte_perm(x, 0x4B000000u, 0x7540u | k); }
BE u32 bytes_as_word(u32 a, u32 b, u32 c, u32 d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
BE u32 lowest_bit(u32 x) { return __ffs(x) - 1; }
BE void or_in_block(u32* at, u32 x) { atomicOr(at, x); }
// Write a word that other warps read meanwhile, which know by its tag that it is new. A plain write is right, but tools that find
// races accept an atomic operation alone. With that, a step of PD14 on one GPU takes 2.5 % longer.
#one BE void put_in_block(volatile u64* at, u64 x) { *at = x; }
#several BE void put_in_block(volatile u64* at, u64 x) { atomicExch((u64*)at, x); }
template <class T> BE T add_for_all(T* at, T x) { return atomicAdd(at, x); }
template <class T> BE void raise_for_all(T* at, T x) { atomicMax(at, x); }
BE void or_for_all(u64* at, u64 x) { atomicOr(at, x); }
BE int look(const int* at) { return RING_IN_BLOCK ? *at : __ldcg(at); }
// Keep it in a register: it is not computed again where it is used.
BE void pin(u32& x) { asm volatile("" : "+r"(x)); }
BE void pin(u64& x) { asm volatile("" : "+l"(x)); }
template <class T> BE void pin(T*& x) { asm volatile("" : "+l"(x)); }
BE void put_word(u32* at, u32 x) { __stcg(at, x); }
// The same if so, without a branch.
BE void put_word_if(bool yes, u32* at, u32 x) {
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.cg.u32 [%1], %2;}" :: "r"((u32)yes), "l"(at), "r"(x) : "memory");
}
BE u32 get_word(const u32* at) { return __ldcg(at); }
// For a loop that waits: one of `get_word`, which reads memory that nothing seems to change, is deleted by the compiler.
BE u32 get_again(const u32* at) {
    u32 x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
    return x;
}
BE uint4 get_four(const uint4* at) { return __ldcg(at); }
BE u64 fetch_slot(const u64* at) { return __ldg(at); }
BE u32 fetch_word(const u32* at) { return __ldg(at); }
template <class T> BE T read_row(const T* at) { return ROWS_IN_BLOCK ? *at : __ldg(at); }
BE uint4 fetch(const uint4* at) {
    uint4 y;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(y.x), "=r"(y.y), "=r"(y.z), "=r"(y.w) : "l"(at));
    return y;
}
BE uint2 fetch_two(const uint2* at) {
    uint2 y;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];" : "=r"(y.x), "=r"(y.y) : "l"(at));
    return y;
}
// Ask for memory that is read later.
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
BE void get_pair(const u64* at, u64& v, u64& w) {
    asm volatile("{.reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t;}"
                 : "=l"(v), "=l"(w) : "l"(at) : "memory");
}
BE void put_pair(u64* at, u64 v, u64 w) {
    asm volatile("{.reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t;}"
                 :: "l"(at), "l"(v), "l"(w) : "memory");
}
// The same, and see what other threads had written before they wrote this.
BE void get_pair_first(const u64* at, u64& v, u64& w) {
    asm volatile("{.reg .b128 t; ld.acquire.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t;}"
                 : "=l"(v), "=l"(w) : "l"(at) : "memory");
}
// All threads of a block meet: say whether this is so for any of them.
BE bool any_thread(OfThread<bool>& so) { return __syncthreads_or(so.x); }
BE void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
BE void fence_in_block() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
BE void rest() {}  // between two looks at what is waited for
// The sender gets the issue slots first.
BE void rest_before_drawing() { if (threadIdx.x / 32 < CARRIERS) __nanosleep(100); }
template <class T> BE void raise_in_block(T* at, T x) { atomicMax(at, x); }
BE u64 cycles() {
    u64 now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
    return now;
}
BE u64 clock_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// ---- all blocks in one cluster: they write to each other's shared memory

BE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
// Where this block has an inbox, and where another one has what this one has there: addresses for the two below.
BE u64* own_inbox(const u64* own) { return (u64*)(u64)shared_address(own); }
BE u64* in_block(const u64* own, u32 block) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(own)), "r"(block));
    return (u64*)(u64)there;
}
BE void meet_cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
BE void open_inbox(u64* arrived) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" :: "r"(shared_address(arrived)) : "memory");
}
BE void enter_cluster(u64*, u32, u32, u64*) { meet_cluster(); }
BE void leave_cluster(u32) { meet_cluster(); }
// Write a packet, which is counted as arrived when it is there.
BE void hand_pair(u64* at, u64* arrived, u64 v, u64 w) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];"
                 :: "r"((u32)(u64)at), "l"(v), "l"(w), "r"((u32)(u64)arrived) : "memory");
}
BE void get_handed(const u64* at, u64& v, u64& w) {
    asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];" : "=l"(v), "=l"(w) : "r"((u32)(u64)at) : "memory");
}
// Wait for the packets of all blocks in a step; each inbox is used in every other one.
BE void await_packets(u64* arrived, u32 count, u32 turn) {
    const u32 at = shared_address(arrived);
    if ((threadIdx.x & 31) == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(count * 16) : "memory");
    u32 there = 0;
    while (!there)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(there) : "r"(at), "r"(turn >> 1 & 1) : "memory");
    __syncwarp();
}
