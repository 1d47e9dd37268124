// SPDX-License-Identifier: Apache-2.0
// Deliveries into a ring of sums, on a GPU; this follows `rows.cu`. A block looks for events in a row for each of its threads.
// The elements of rows with an event are cut into chunks, which it shares with other blocks of the same rows. D: the type of
// delays. ONE_DELAY: all elements have one. LAID: the elements of a row are sorted by delay, and those of d steps end at
// delays[row, d]. WEIGHTED: x counts. COLLECT: the other way round, each element gets what the ring has at its place; `out`
// starts as zeros, and there are no weights.
//
// Lanes of a warp end together.
// Threads of a block meet before any of them ends.

constexpr int AT_ONCE = 4;  // elements that a thread reads before it waits for any
constexpr int CHUNK = AT_ONCE * THREADS;

__device__ __forceinline__ int passed(const D* ends, long long j, int slots) {
  int low = 0, high = slots;  // how many delays end at or before j
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] <= j) low = middle + 1;
    else high = middle;
  }
  return low;
}

__device__ __forceinline__ int slot_after(int now, long long delay, int slots) {
  const long long slot = now + delay;
  if (slot >= 0 && slot < slots) return int(slot);
  return slot >= slots && slot < 2ll * slots ? int(slot - slots) : int((slot % slots + slots) % slots);
}

__global__ void __launch_bounds__(THREADS) deliver(const A* ring, const A* __restrict__ weights, const I* __restrict__ indices,
                        const P* __restrict__ indptr, const Q* __restrict__ perm, const D* __restrict__ delays,
                        const bool* __restrict__ events, const A* __restrict__ x, const int* __restrict__ t, A* out,
                        long long rows, long long number, long long stored, long long held, int slots, long long width) {
  __shared__ long long active[THREADS], begins[THREADS], ends[THREADS];
  __shared__ int found[THREADS / 32], chunks[THREADS], upto[THREADS];  // upto: chunks of rows up to this one
  const int mine = threadIdx.x, lane = mine % 32, now = (t[0] % slots + slots) % slots;
  const long long own = thread();
  const bool active_here = own < rows && events[own];
  const unsigned lanes = __ballot_sync(0xffffffffu, active_here);
  if (lane == 0) found[mine / 32] = __popc(lanes);
  __syncthreads();
  int count = 0, place = __popc(lanes & ((1u << lane) - 1));  // in order: blocks that share rows must agree on it
  for (int warp = 0; warp < THREADS / 32; warp++) {
    if (warp < mine / 32) place += found[warp];
    count += found[warp];
  }
  if (count == 0) return;
  if (active_here) active[place] = own;
  __syncthreads();
  if (mine < count) {
    const long long begin = NUMBER ? active[mine] * number : nearest(indptr[active[mine]], stored);
    const long long end = NUMBER ? begin + number : nearest(indptr[active[mine] + 1], stored);
    begins[mine] = begin;
    ends[mine] = end;
    chunks[mine] = end > begin ? int((end - begin + CHUNK - 1) / CHUNK) : 0;
  }
  __syncthreads();
  if (mine < count) {
    int sum = 0;
    for (int k = 0; k <= mine; k++) sum += chunks[k];
    upto[mine] = sum;
  }
  __syncthreads();
  const int all = upto[count - 1];
  for (int chunk = blockIdx.y, k = 0; chunk < all; chunk += gridDim.y) {
    while (upto[k] <= chunk) k++;
    const long long row = active[k], end = ends[k], first = begins[k] + (chunk - upto[k] + chunks[k]) * (long long)CHUNK;
    const A factor = WEIGHTED ? x[row] : A(1);
    long long targets[AT_ONCE], places[AT_ONCE];
    A terms[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      const long long j = first + u * THREADS + mine;
      targets[u] = -1;
      if (j >= end || !within(indices[j], width) || (INDEXED && !within(perm[j], held))) continue;
      const long long here = INDEXED ? perm[j] : j;
      const long long delay = LAID ? passed(delays + row * slots, j, slots) : (long long)delays[ONE_DELAY ? 0 : here];
      targets[u] = slot_after(now, delay, slots) * width + indices[j];
      places[u] = here;
      const A value = COLLECT ? ring[targets[u]] : weights[ONE ? 0 : here];
      terms[u] = WEIGHTED ? value * factor : value;
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      if (targets[u] < 0) continue;
      if constexpr (COLLECT && !INDEXED) out[places[u]] = terms[u];
      else atomicAdd(out + (COLLECT ? places[u] : targets[u]), terms[u]);
    }
  }
}
