// SPDX-License-Identifier: Apache-2.0
// Products with a matrix in coordinates, on a GPU; this follows `rows.cu` and `laws.cu`. J is the type of the second array
// of indices. An element takes from x[out_of] and adds to out[into]; neighbouring threads have neighbouring elements. Indices
// are below `sums` and `sources`.

// Of a vector. A thread takes every `threads`th element.
__global__ void of_vector(const W* __restrict__ weights, const I* __restrict__ into, const J* __restrict__ out_of,
                          const E* __restrict__ x, A* out, long long stored, long long sums, long long sources,
                          long long threads) {
  const long long first = thread();
  if (first >= threads) return;
#pragma unroll 4
  for (long long i = first; i < stored; i += threads) {
    if (!within(out_of[i], sources)) continue;
    const E element = x[out_of[i]];
    if (counts(element) && within(into[i], sums)) atomicAdd(out + into[i], weight(weights, nullptr, i, stored) * value(element));
  }
}

// Of a matrix. A thread takes a column of every `threads / columns`th element.
__global__ void of_matrix(const W* __restrict__ weights, const I* __restrict__ into, const J* __restrict__ out_of,
                          const E* __restrict__ x, A* out, long long stored, long long sums, long long sources,
                          long long threads, long long columns) {
  const long long first = thread();
  if (first >= threads) return;
  const long long column = first % columns, step = threads / columns;
#pragma unroll 4
  for (long long i = first / columns; i < stored; i += step) {
    if (!within(out_of[i], sources)) continue;
    const E element = x[(long long)out_of[i] * columns + column];
    if (counts(element) && within(into[i], sums))
      atomicAdd(out + (long long)into[i] * columns + column, weight(weights, nullptr, i, stored) * value(element));
  }
}
