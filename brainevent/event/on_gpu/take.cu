// SPDX-License-Identifier: Apache-2.0
// Row t of a ring, on a GPU: it is copied, and set to zero. The result is in the memory of the ring.

__global__ void take(const A* ring, const int* __restrict__ t, A* arrived, A* out, long long slots, long long width) {
  const long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (j >= width) return;
  const long long here = (t[0] % slots + slots) % slots * width + j;
  arrived[j] = ring[here];
  out[here] = A(0);
}
