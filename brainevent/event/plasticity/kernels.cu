// SPDX-License-Identifier: Apache-2.0
// Plasticity on a GPU: weights change where neurons spike, by the traces of the neurons at the other end. W, I, P, Q and A
// are the types of weights, indices, pointers, places of weights, and of traces and sums. `out` starts as the weights.
// PARTS warps share the synapses of a neuron; without a spike they read nothing more. An index that is out of range is left
// alone, and no pointer leads beyond what is stored.

constexpr int AT_ONCE = 4;  // elements whose memory a thread asks for before it waits for any

__device__ __forceinline__ long long neuron() {
  return (blockIdx.x * (long long)blockDim.x + threadIdx.x) / (32 * PARTS);
}
__device__ __forceinline__ int thread() { return (blockIdx.x * (long long)blockDim.x + threadIdx.x) % (32 * PARTS); }

template <typename T>
__device__ __forceinline__ bool within(T index, long long size) { return index >= 0 && index < size; }
__device__ __forceinline__ long long clipped(P pointer, long long stored) {
  return pointer < 0 ? 0 : pointer > stored ? stored : (long long)pointer;
}

// Add `change(j)` to the weight at `place(j)`, a place that no other element has, or at none if that is negative.
template <typename Place, typename Change>
__device__ __forceinline__ void add_all(W* out, long long begin, long long end, Place place, Change change) {
  constexpr int step = 32 * PARTS;
  for (long long first = begin + thread(); first < end; first += AT_ONCE * step) {
    long long places[AT_ONCE];
    A changes[AT_ONCE];
    W before[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) places[u] = first + u * step < end ? place(first + u * step) : -1;
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      if (places[u] < 0) continue;
      changes[u] = change(first + u * step);
      before[u] = out[places[u]];
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
      if (places[u] >= 0) out[places[u]] = W(A(before[u]) + changes[u]);
  }
}

// Elements that are stored slice by slice: rows, or columns.
__global__ void of_slices(const W* weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                          const bool* __restrict__ spikes, const A* __restrict__ trace, const float* after, W* out,
                          long long slices, long long stored, long long size) {
  const long long i = neuron();
  if (i >= slices || !spikes[i]) return;
  add_all(
      out, clipped(indptr[i], stored), clipped(indptr[i + 1], stored),
      [=](long long j) { return within(indices[j], size) ? j : -1; }, [=](long long j) { return trace[indices[j]]; });
}

// Slices whose element j has the weight at `perm[j]`.
__global__ void of_indexed_slices(const W* weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                                  const Q* __restrict__ perm, const A* __restrict__ trace,
                                  const bool* __restrict__ spikes, const float* after, W* out, long long slices,
                                  long long stored, long long size) {
  const long long i = neuron();
  if (i >= slices || !spikes[i]) return;
  add_all(
      out, clipped(indptr[i], stored), clipped(indptr[i + 1], stored),
      [=](long long j) { return within(indices[j], size) && within(perm[j], stored) ? (long long)perm[j] : -1; },
      [=](long long j) { return trace[indices[j]]; });
}

// Slices of as many elements.
__global__ void of_equal_slices(const W* weights, const I* __restrict__ indices, const bool* __restrict__ spikes,
                                const A* __restrict__ trace, const float* after, W* out, long long slices,
                                long long number, long long size) {
  const long long i = neuron();
  if (i >= slices || !spikes[i]) return;
  add_all(
      out, i * number, (i + 1) * number, [=](long long j) { return within(indices[j], size) ? j : -1; },
      [=](long long j) { return trace[indices[j]]; });
}

// Rows of a dense matrix.
__global__ void of_rows(const W* weights, const bool* __restrict__ spikes, const A* __restrict__ trace,
                        const float* after, W* out, long long rows, long long columns) {
  const long long i = neuron();
  if (i >= rows || !spikes[i]) return;
  add_all(out, 0, columns, [=](long long j) { return i * columns + j; }, [=](long long j) { return trace[j]; });
}

// Columns of a dense matrix.
__global__ void of_columns(const W* weights, const A* __restrict__ trace, const bool* __restrict__ spikes,
                           const float* after, W* out, long long rows, long long columns) {
  const long long j = neuron();
  if (j >= columns || !spikes[j]) return;
  add_all(out, 0, rows, [=](long long i) { return i * columns + j; }, [=](long long i) { return trace[i]; });
}
