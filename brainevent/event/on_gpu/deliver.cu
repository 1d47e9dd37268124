// SPDX-License-Identifier: Apache-2.0
// Deliveries into a ring of sums, on a GPU; this follows `rows.cu`. A block of threads looks for events in as many rows,
// and all its threads share each row that has one. D: the type of delays. ONE_DELAY: all elements have one. LAID: those
// of a row are in the order of delays, of which those of d steps end at delays[row, d]. WEIGHTED: x counts.

constexpr int AT_ONCE = 4;  // elements whose memory a thread asks for before it waits for any

__device__ __forceinline__ long long delay_of(const D* delays, long long row, long long j, long long here, long long slots) {
  if (!LAID) return delays[ONE_DELAY ? 0 : here];
  long long low = 0, high = slots;  // how many delays end at or before j
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (delays[row * slots + middle] <= j) low = middle + 1;
    else high = middle;
  }
  return low;
}

__global__ void __launch_bounds__(THREADS) deliver(const A* ring, const A* __restrict__ weights, const I* __restrict__ indices,
                        const P* __restrict__ indptr, const Q* __restrict__ perm, const D* __restrict__ delays,
                        const bool* __restrict__ events, const A* __restrict__ x, const int* __restrict__ t, A* out,
                        long long rows, long long number, long long stored, long long held, long long slots,
                        long long width) {
  __shared__ long long active[THREADS];
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const long long own = thread();
  if (own < rows && events[own]) active[atomicAdd(&count, 1)] = own;
  __syncthreads();
  const long long now = (t[0] % slots + slots) % slots;
  for (int k = 0; k < count; k++) {
    const long long row = active[k];
    const long long begin = NUMBER ? row * number : nearest(indptr[row], stored);
    const long long end = NUMBER ? begin + number : nearest(indptr[row + 1], stored);
    const A factor = WEIGHTED ? x[row] : A(1);
    for (long long first = begin + threadIdx.x; first < end; first += AT_ONCE * THREADS) {
      long long targets[AT_ONCE];
      A terms[AT_ONCE];
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++) {
        const long long j = first + u * THREADS;
        targets[u] = -1;
        if (j >= end || !within(indices[j], width) || (INDEXED && !within(perm[j], held))) continue;
        const long long here = INDEXED ? perm[j] : j;
        const long long slot = ((now + delay_of(delays, row, j, here, slots)) % slots + slots) % slots;
        targets[u] = slot * width + indices[j];
        terms[u] = WEIGHTED ? weights[ONE ? 0 : here] * factor : weights[ONE ? 0 : here];
      }
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++)
        if (targets[u] >= 0) atomicAdd(out + targets[u], terms[u]);
    }
  }
}
