// SPDX-License-Identifier: Apache-2.0
// Products of a dense matrix with events, on a GPU. W, E, A and O are the types of weights, elements of x, sums and results.
// TRANSPOSE: the product is weights.T @ x. Sums are made in a fixed order, so equal calls give equal bits.
//
// Lanes of a warp end together.
// Threads of a block meet before any of them ends.

static constexpr unsigned ALL = 0xffffffffu;
static constexpr int LOOK = 4;  // elements of x that are asked for at once

__device__ __forceinline__ bool is_event(const E* __restrict__ x, long long i, long long size) {
  return i < size && x[i] != E(0);
}

__device__ __forceinline__ A sum_of_warp(A value) {
  for (int step = 16; step; step /= 2) value += __shfl_down_sync(ALL, value, step);
  return value;
}

// weights.T @ x of a vector. A block sums 32 columns; its 32 warps share the rows, and a row without an event is not read.
__global__ void __launch_bounds__(1024)
    sum_rows(const W* __restrict__ weights, const E* __restrict__ x, O* out, long long rows, long long columns) {
  __shared__ A parts[32][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long column = blockIdx.x * 32LL + lane;
  A total = 0;
  for (long long base = warp * 32; base < rows; base += 1024 * LOOK) {
    unsigned active[LOOK];
#pragma unroll
    for (int k = 0; k < LOOK; k++) active[k] = __ballot_sync(ALL, is_event(x, base + 1024 * k + lane, rows));
#pragma unroll
    for (int k = 0; k < LOOK; k++)
      for (unsigned left = active[k]; left; left &= left - 1) {
        const long long row = base + 1024 * k + __ffs(left) - 1;
        if (column < columns) total += A(weights[row * columns + column]);
      }
  }
  parts[warp][lane] = total;
  __syncthreads();
  total = sum_of_warp(parts[lane][warp]);
  if (lane == 0 && blockIdx.x * 32LL + warp < columns) out[blockIdx.x * 32LL + warp] = O(total);
}

// weights @ x of a vector. A warp sums ROWS rows, so that it asks once for all of them what is an event.
__global__ void sum_columns(const W* __restrict__ weights, const E* __restrict__ x, O* out, long long rows,
                            long long columns) {
  const int lane = threadIdx.x % 32;
  const long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32 * ROWS;
  if (first >= rows) return;
  A totals[ROWS] = {};
  for (long long base = lane; base < columns; base += 32 * LOOK) {
    bool active[LOOK];
#pragma unroll
    for (int k = 0; k < LOOK; k++) active[k] = is_event(x, base + 32 * k, columns);
#pragma unroll
    for (int k = 0; k < LOOK; k++)
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        if (active[k] && first + r < rows) totals[r] += A(weights[(first + r) * columns + base + 32 * k]);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const A total = sum_of_warp(totals[r]);
    if (lane == 0 && first + r < rows) out[first + r] = O(total);
  }
}

// Either product with a matrix x, of `inner` rows. A block makes ROWS rows of 32 columns; its warps share what is summed
// over, and what is an event in none of the columns is not read.
__global__ void __launch_bounds__(32 * WARPS)
    sum_matrix(const W* __restrict__ weights, const E* __restrict__ x, O* out, long long rows, long long inner,
               long long columns) {
  __shared__ A parts[WARPS][ROWS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long tiles = (columns + 31) / 32;
  const long long column = blockIdx.x % tiles * 32 + lane, first = blockIdx.x / tiles * ROWS;
  A totals[ROWS] = {};
  for (long long base = warp * LOOK; base < inner; base += WARPS * LOOK) {
    bool active[LOOK];
#pragma unroll
    for (int k = 0; k < LOOK; k++) active[k] = column < columns && base + k < inner && x[(base + k) * columns + column] != E(0);
#pragma unroll
    for (int k = 0; k < LOOK; k++) {
      if (!__any_sync(ALL, active[k])) continue;
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        if (active[k] && first + r < rows)
          totals[r] += A(weights[TRANSPOSE ? (base + k) * rows + first + r : (first + r) * inner + base + k]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) parts[warp][r][lane] = totals[r];
  __syncthreads();
  for (int r = warp; r < ROWS; r += WARPS) {
    A total = 0;
    for (int w = 0; w < WARPS; w++) total += parts[w][r][lane];
    if (column < columns && first + r < rows) out[(first + r) * columns + column] = O(total);
  }
}
