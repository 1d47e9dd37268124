// SPDX-License-Identifier: Apache-2.0
// How the elements of a row are found on a GPU, and their weights. W, I, P, Q and A are the types of weights, indices, row
// pointers, permutation and sums. CONNECTIONS: elements of each row, if all rows have equal length, without row pointers.
// ONE: all elements have one weight. INDEXED: the weight of stored element j is weights[perm[j]]. WITHIN: all indices are
// known to be in range. Else out-of-range indices are ignored, and pointers are clipped: an index must be below a `size`,
// `stored` is the number of elements, and `held` that of weights, which may be larger with a permutation.

__device__ __forceinline__ long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }

template <class T>
__device__ __forceinline__ bool within(T index, long long size) {
  return WITHIN || (index >= 0 && index < size);
}

// Return a place from 0 up to a last one: the nearest, if it is not known to be there.
template <class T>
__device__ __forceinline__ long long nearest(T place, long long last) {
  return WITHIN || (place >= 0 && place <= last) ? place : place < 0 ? 0 : last;
}

__device__ __forceinline__ long long begin_of(const P* indptr, long long row, long long stored) {
#if CONNECTIONS
  return row * CONNECTIONS;
#else
  return nearest(indptr[row], stored);
#endif
}

__device__ __forceinline__ A weight(const W* weights, const Q* perm, long long j, long long held) {
  if constexpr (ONE) return A(weights[0]);
  if constexpr (INDEXED) return A(weights[nearest(perm[j], held - 1)]);
  return A(weights[j]);
}
