// SPDX-License-Identifier: Apache-2.0
// Plasticity on a GPU: weights change where neurons spike, by the traces of the neurons at the other end. W, I, P, Q and A
// are the types of weights, indices, pointers, places of weights, and of traces and sums. `out` starts as the weights. A
// warp takes one neuron; one without a spike reads nothing more. An index that is out of range is left alone, and no
// pointer leads beyond what is stored.

__device__ __forceinline__ long long warp() { return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; }

template <typename T>
__device__ __forceinline__ bool within(T index, long long size) { return index >= 0 && index < size; }
__device__ __forceinline__ long long clipped(P pointer, long long stored) {
  return pointer < 0 ? 0 : pointer > stored ? stored : (long long)pointer;
}
__device__ __forceinline__ void add(W* out, A change) { *out = W(A(*out) + change); }

// Elements that are stored slice by slice: rows, or columns.
__global__ void of_slices(const W* weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                          const bool* __restrict__ spikes, const A* __restrict__ trace, const float* after, W* out,
                          long long slices, long long stored, long long size) {
  const long long i = warp();
  if (i >= slices || !spikes[i]) return;
  const long long end = clipped(indptr[i + 1], stored);
  for (long long j = clipped(indptr[i], stored) + threadIdx.x % 32; j < end; j += 32)
    if (within(indices[j], size)) add(out + j, trace[indices[j]]);
}

// Slices whose element j has the weight at `perm[j]`, a place that no other element has.
__global__ void of_indexed_slices(const W* weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                                  const Q* __restrict__ perm, const A* __restrict__ trace,
                                  const bool* __restrict__ spikes, const float* after, W* out, long long slices,
                                  long long stored, long long size) {
  const long long i = warp();
  if (i >= slices || !spikes[i]) return;
  const long long end = clipped(indptr[i + 1], stored);
  for (long long j = clipped(indptr[i], stored) + threadIdx.x % 32; j < end; j += 32)
    if (within(indices[j], size) && within(perm[j], stored)) add(out + perm[j], trace[indices[j]]);
}

// Slices of as many elements.
__global__ void of_equal_slices(const W* weights, const I* __restrict__ indices, const bool* __restrict__ spikes,
                                const A* __restrict__ trace, const float* after, W* out, long long slices,
                                long long number, long long size) {
  const long long i = warp();
  if (i >= slices || !spikes[i]) return;
  for (long long j = i * number + threadIdx.x % 32; j < (i + 1) * number; j += 32)
    if (within(indices[j], size)) add(out + j, trace[indices[j]]);
}

// Rows of a dense matrix.
__global__ void of_rows(const W* weights, const bool* __restrict__ spikes, const A* __restrict__ trace,
                        const float* after, W* out, long long rows, long long columns) {
  const long long i = warp();
  if (i >= rows || !spikes[i]) return;
  for (long long j = threadIdx.x % 32; j < columns; j += 32) add(out + i * columns + j, trace[j]);
}

// Columns of a dense matrix.
__global__ void of_columns(const W* weights, const A* __restrict__ trace, const bool* __restrict__ spikes,
                           const float* after, W* out, long long rows, long long columns) {
  const long long j = warp();
  if (j >= columns || !spikes[j]) return;
  for (long long i = threadIdx.x % 32; i < rows; i += 32) add(out + i * columns + j, trace[i]);
}
