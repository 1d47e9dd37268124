// SPDX-License-Identifier: Apache-2.0
// Values of synapses times values of neurons on a GPU. I, P and A are the types of indices, row pointers and numbers. All
// but the structure are matrices with a row for each entry of a batch; a single row serves all entries. An index that is out
// of range gives zero, and no pointer leads beyond what is stored.

__device__ __forceinline__ long long clipped(P pointer, long long stored) {
  return pointer < 0 ? 0 : pointer > stored ? stored : (long long)pointer;
}

// Each element times the value of its row. A warp takes one row of one entry; `out` starts as zeros.
__global__ void of_rows(const A* __restrict__ y, const A* __restrict__ w, const P* __restrict__ indptr, A* out,
                        long long rows, long long stored, long long batch, long long of_y, long long of_w) {
  const long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (i >= rows * batch) return;
  const long long row = i % rows, b = i / rows, end = clipped(indptr[row + 1], stored);
  const A value = y[(of_y > 1 ? b * rows : 0) + row];
  const A* weights = w + (of_w > 1 ? b * stored : 0);
  for (long long j = clipped(indptr[row], stored) + threadIdx.x % 32; j < end; j += 32)
    out[b * stored + j] = weights[j] * value;
}

// Each element times the value of its column. A thread takes one element, of all entries.
__global__ void of_columns(const A* __restrict__ y, const A* __restrict__ w, const I* __restrict__ indices, A* out,
                           long long columns, long long stored, long long batch, long long of_y, long long of_w) {
  const long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (j >= stored) return;
  const long long column = indices[j];
  const bool there = column >= 0 && column < columns;
  for (long long b = 0; b < batch; b++)
    out[b * stored + j] = there ? w[(of_w > 1 ? b * stored : 0) + j] * y[(of_y > 1 ? b * columns : 0) + column] : A(0);
}
