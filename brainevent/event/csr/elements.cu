// SPDX-License-Identifier: Apache-2.0
// What is done with each stored element of a matrix in compressed sparse rows, on a GPU. W, I, P, R and A are the types
// of weights, indices, row pointers, chosen rows and sums. ONE: all elements have one weight. A warp takes one row. An index
// that is out of range adds nothing, and no pointer leads beyond what is stored.

__device__ __forceinline__ long long warp() { return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; }

__device__ __forceinline__ bool within(I index, long long size) { return index >= 0 && index < size; }
__device__ __forceinline__ long long clipped(P pointer, long long stored) {
  return pointer < 0 ? 0 : pointer > stored ? stored : (long long)pointer;
}

// The product of the row's and the column's values, summed over `width`.
__global__ void per_element(const I* __restrict__ indices, const P* __restrict__ indptr, const A* __restrict__ of_rows,
                            const A* __restrict__ of_columns, A* out, long long rows, long long stored, long long size,
                            long long width) {
  const long long row = warp();
  if (row >= rows) return;
  const long long end = clipped(indptr[row + 1], stored);
  for (long long j = clipped(indptr[row], stored) + threadIdx.x % 32; j < end; j += 32) {
    if (!within(indices[j], size)) continue;  // `out` starts as zeros
    A total = 0;
    for (long long b = 0; b < width; b++) total += of_rows[row * width + b] * of_columns[indices[j] * width + b];
    out[j] = total;
  }
}

// Write chosen rows as dense ones: `out` starts as zeros, and duplicates add up.
__global__ void slice_rows(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                           const R* __restrict__ chosen, A* out, long long count, long long rows, long long stored,
                           long long width) {
  const long long i = warp();
  if (i >= count || chosen[i] < 0 || chosen[i] >= rows) return;
  const long long row = chosen[i], end = clipped(indptr[row + 1], stored);
  for (long long j = clipped(indptr[row], stored) + threadIdx.x % 32; j < end; j += 32)
    if (within(indices[j], width)) atomicAdd(out + i * width + indices[j], A(weights[ONE ? 0 : j]));
}

// Add to each element of a chosen row what a dense row holds in its column.
__global__ void add_rows(const I* __restrict__ indices, const P* __restrict__ indptr, const R* __restrict__ chosen,
                         const A* __restrict__ dense, A* out, long long count, long long rows, long long stored,
                         long long width) {
  const long long i = warp();
  if (i >= count || chosen[i] < 0 || chosen[i] >= rows) return;
  const long long row = chosen[i], end = clipped(indptr[row + 1], stored);
  for (long long j = clipped(indptr[row], stored) + threadIdx.x % 32; j < end; j += 32)
    if (within(indices[j], width)) atomicAdd(out + j, dense[i * width + indices[j]]);
}
