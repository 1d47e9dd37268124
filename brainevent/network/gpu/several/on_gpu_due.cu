// SPDX-License-Identifier: Apache-2.0
// More words of kernels whose blocks list rows that are due later.

// The lanes that have something, as bits; and what a lane has.
BE u32 lanes_with(OfLane<u32>& has) { return __ballot_sync(~0u, has.x); }
template <class T> BE T of_lane(OfLane<T>& x, u32 lane) { return __shfl_sync(~0u, x.x, lane); }
// The sum of numbers of all lanes; `ends` are the sums of those up to each.
BE u32 sums_up_to(OfLane<u32>& n, OfLane<u32>& ends) {
    const u32 lane = threadIdx.x & 31;
    ends.x = n.x;
    UNROLLED
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 lower = __shfl_up_sync(~0u, ends.x, step);
        ends.x += lane < step ? 0 : lower;
    }
    return __shfl_sync(~0u, ends.x, 31);
}
BE void put_long(u64* at, u64 x) { __stcg(at, x); }
BE u64 get_long(const u64* at) { return __ldcg(at); }
// Add to a word if so, or to one of this lane that is never read, and return nothing.
BE void only_add(bool yes, u32* at, u32 x, int* nowhere) { atomicAdd(yes ? at : (u32*)nowhere + (threadIdx.x & 31), x); }
