// SPDX-License-Identifier: Apache-2.0
// Products with a matrix in coordinates, on a GPU. W, I, J, E and A are the types of weights, of the two arrays of indices,
// of elements of x, and of sums. EVENTS: x holds events, which count as one. ONE: all elements have one weight. An element
// takes from x[out_of] and adds to out[into]; neighbouring threads have neighbouring elements. WITHIN: all indices are known
// to be in range, which is below `sums` and `sources`; else an element of which one is not adds nothing.

__device__ __forceinline__ bool counts(E x) { return !EVENTS || x != E(0); }
__device__ __forceinline__ A value(E x) { return EVENTS ? A(1) : A(x); }
template <class T>
__device__ __forceinline__ bool within(T index, long long size) {
  return WITHIN || (index >= 0 && index < size);
}
__device__ __forceinline__ A weight(const W* weights, long long i) { return A(weights[ONE ? 0 : i]); }

// Of a vector. A thread takes every `threads`th element.
__global__ void of_vector(const W* __restrict__ weights, const I* __restrict__ into, const J* __restrict__ out_of,
                          const E* __restrict__ x, A* out, long long stored, long long sums, long long sources,
                          long long threads) {
  const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (first >= threads) return;
#pragma unroll 4
  for (long long i = first; i < stored; i += threads) {
    if (!within(out_of[i], sources)) continue;
    const E element = x[out_of[i]];
    if (counts(element) && within(into[i], sums)) atomicAdd(out + into[i], weight(weights, i) * value(element));
  }
}

// Of a matrix, of which a thread takes a column of every `threads / columns`th element.
__global__ void of_matrix(const W* __restrict__ weights, const I* __restrict__ into, const J* __restrict__ out_of,
                          const E* __restrict__ x, A* out, long long stored, long long sums, long long sources,
                          long long threads, long long columns) {
  const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (thread >= threads) return;
  const long long column = thread % columns, step = threads / columns;
#pragma unroll 4
  for (long long i = thread / columns; i < stored; i += step) {
    if (!within(out_of[i], sources)) continue;
    const E element = x[(long long)out_of[i] * columns + column];
    if (counts(element) && within(into[i], sums))
      atomicAdd(out + (long long)into[i] * columns + column, weight(weights, i) * value(element));
  }
}
