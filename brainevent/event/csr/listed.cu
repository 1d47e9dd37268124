// SPDX-License-Identifier: Apache-2.0
// What comes after `listing.cu`, and follows it and `clusters.cu`: of the rows in the list, clusters of blocks sum a part
// of the columns each, as in `sorted.cu`; but here nobody looks for rows that count, nor for where a part begins.

static constexpr int MANY = 1024;                         // threads of a block, and at most as many blocks have listed rows
static constexpr int SHARING = 4, GROUPS = 32 / SHARING;  // threads that read a run together; runs that a warp reads at once
static constexpr int ROUND = 3, SPAN = 4 * ROUND * SHARING;  // elements of a run that are read at once

// The elements of a row that are in a part: so many from a place on.
struct Run {
  long long begin;
  int length;
  A times;
};

// Write how many rows were listed before those of each block, and in the end by all.
__device__ __forceinline__ void sum_counts(int count, int* before) {
  __shared__ int of_warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int upto = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(ALL, upto, step);
    if (lane >= step) upto += other;
  }
  if (lane == 31) of_warps[warp] = upto;
  __syncthreads();
  upto += __reduce_add_sync(ALL, lane < warp ? of_warps[lane] : 0);
  before[threadIdx.x] = upto - count;
  if (threadIdx.x == MANY - 1) before[MANY] = upto;
  __syncthreads();
}

// Return the block that listed row k of all.
__device__ __forceinline__ int block_of(int k, const int* before) {
  int low = 0, high = MANY;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (before[middle] <= k)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ Run run_of(const unsigned* __restrict__ listed, long long slot, long long slots, int part,
                                      const E* __restrict__ x) {
  const unsigned from = listed[(FIRST + part) * slots + slot], to = listed[(FIRST + part + 1) * slots + slot];
  const long long begin = listed[LOW * slots + slot] | (long long)listed[HIGH * slots + slot] << 32;
  return {begin + from, int(to - from), EVENTS ? A(1) : value(x[EVENTS ? 0 : listed[ROW * slots + slot]])};
}

// Read elements from `at` on, a multiple of four: a thread four of each SPAN / ROUND.
__device__ __forceinline__ void read(Four<I>* targets, Four<W>* each, const I* __restrict__ indices,
                                     const W* __restrict__ weights, long long at, long long end, long long stored) {
#pragma unroll
  for (int u = 0; u < ROUND; u++) {
    const long long j = at + u * SHARING * 4;
    if (j >= end) continue;
    if (j + 4 <= stored) {
      targets[u] = four(indices + j);
      if constexpr (!ONE && !INDEXED) each[u] = four(weights + j);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (j + i >= stored) continue;
        targets[u].at[i] = indices[j + i];
        if constexpr (!ONE && !INDEXED) each[u].at[i] = weights[j + i];
      }
    }
  }
}

// Add what was read from `at` on, and is of the run and in the part, to its sums.
__device__ __forceinline__ void add(Sum* sums, const Four<I>* targets, const Four<W>* each, const W* __restrict__ weights,
                                    const Q* __restrict__ perm, long long at, const Run& run, I first, unsigned here,
                                    long long held) {
  const int behind = int(at - run.begin);
#pragma unroll
  for (int u = 0; u < ROUND; u++) {
    Sum* places[4];
    A numbers[4];
    bool in[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int nth = behind + u * SHARING * 4 + i;
      const Place place = Place(targets[u].at[i]) - Place(first);
      in[i] = unsigned(nth) < unsigned(run.length) && place < here;
      places[i] = sums + place;
      if constexpr (!COUNT) {
        if constexpr (INDEXED && !ONE)
          numbers[i] = in[i] ? A(weights[nearest(perm[run.begin + nth], held - 1)]) * run.times : A(0);
        else
          numbers[i] = A(ONE ? weights[0] : each[u].at[i]) * run.times;
      }
    }
    add_four(places, numbers, in);
  }
}

// Add the rows in the list to the result.
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(MANY, 1)
    sum_listed(const W* __restrict__ weights, const I* __restrict__ indices, const Q* __restrict__ perm,
               const E* __restrict__ x, const int* __restrict__ counted, const unsigned* __restrict__ listed,
               const A* begun, A* out, long long stored, long long held, long long columns, int blocks, int width) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int before[MANY + 1];
  const int count = threadIdx.x < blocks ? counted[threadIdx.x] : 0;
  if (!__syncthreads_or(count)) return;
  Sum* sums = reinterpret_cast<Sum*>(memory);
  const int block = blockIdx.x % CLUSTER, part = blockIdx.x / CLUSTER;
  const int lane = threadIdx.x % SHARING, group = threadIdx.x % 32 / SHARING;
  const long long left = part * (long long)width, slots = blocks * (long long)ROWS;
  const unsigned here = left + width < columns ? width : columns - left;
  for (unsigned i = threadIdx.x; i < here; i += MANY) sums[i] = 0;
  sum_counts(count, before);
  const long long warp = block * (MANY / 32) + threadIdx.x / 32, warps = CLUSTER * (MANY / 32);
  const int last = before[MANY] * (warp + 1) / warps;  // a warp has rows side by side in the list
  int k = before[MANY] * warp / warps + group, of = block_of(k, before);
  const auto find_run = [&]() -> Run {
    if (k >= last) return {0, 0, A(0)};
    while (k >= before[of + 1]) of++;
    return run_of(listed, of * (long long)ROWS + k - before[of], slots, part, x);
  };
  Run run = find_run();
  while (__any_sync(ALL, k < last)) {
    Four<I> targets[ROUND];
    Four<W> each[ROUND];
    long long at = run.begin / 4 * 4 + lane * 4;
    const Run now = run;
    const long long end = now.begin + now.length;
    read(targets, each, indices, weights, at, end, stored);
    k += GROUPS;
    run = find_run();  // asked for before what was read is waited for
    add(sums, targets, each, weights, perm, at, now, I(left), here, held);
    for (at += SPAN; __any_sync(ALL, at - lane * 4 < end); at += SPAN) {
      read(targets, each, indices, weights, at, end, stored);
      add(sums, targets, each, weights, perm, at, now, I(left), here, held);
    }
  }
  wait_for_cluster();
#pragma unroll 4
  for (unsigned i = block * MANY + threadIdx.x; i < here; i += CLUSTER * MANY)
    out[left + i] = begun[left + i] + of_cluster(sums + i, weights);
  stay_for_cluster();
}
