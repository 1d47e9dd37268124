// SPDX-License-Identifier: Apache-2.0
// What operators other than products do at each stored element, on a GPU; this follows `rows.cu`. A warp takes a row: all
// rows, chosen ones, whose numbers are of the type R, or those of neurons that spike. Out-of-range indices are ignored.
// PARTS warps share the row of a neuron; without a spike they read nothing more. NUMBER: rows have equal length.
// Lanes of a warp end together.

constexpr int AT_ONCE = 4;  // elements that a thread reads before it waits for any

__device__ __forceinline__ long long clipped(P pointer, long long stored) {
  return pointer < 0 ? 0 : pointer > stored ? stored : (long long)pointer;
}

// Do something at each element of a row: at(j).
template <class At>
__device__ __forceinline__ void through(const P* __restrict__ indptr, long long row, long long stored, At at) {
  const long long end = clipped(indptr[row + 1], stored);
  for (long long j = clipped(indptr[row], stored) + threadIdx.x % 32; j < end; j += 32) at(j);
}

// ---- products of pairs: those of the row's and the column's values, summed over `width`; `out` starts as zeros

// What a value adds where x has a value: with EVENTS itself, where x is not zero; with SILENT, nothing where x is zero.
// A choice, which reads no value elsewhere: zero times NaN would not be zero.
template <class X, class Y>
__device__ __forceinline__ A pair(X x, const Y* value) {
  if constexpr (EVENTS) return x ? A(*value) : A(0);
  else return SILENT && x == X(0) ? A(0) : A(x) * A(*value);
}

// Sum the terms of a row and a column: BY_ROWS, x is the side of rows.
__device__ __forceinline__ A pairs(const X* __restrict__ of_rows, const Y* __restrict__ of_columns, long long row,
                                   long long column, long long width) {
  A total = 0;
  for (long long b = 0; b < width; b++) {
    const X* here = of_rows + row * width + b;
    const Y* there = of_columns + column * width + b;
    if constexpr (BY_ROWS) total += pair(*here, there);
    else total += pair(*there, here);
  }
  return total;
}

// BY_ROWS: x, which has events or zeros that are left out, is the side of rows. A warp whose row has none ends at once.
__global__ void per_element(const I* __restrict__ indices, const P* __restrict__ indptr, const Q* __restrict__ perm,
                            const X* __restrict__ of_rows, const Y* __restrict__ of_columns, A* out, long long rows,
                            long long number, long long stored, long long size, long long width) {
  const long long row = thread() / 32;
  if (row >= rows) return;
  if constexpr (BY_ROWS && (EVENTS || SILENT)) {
    bool any = false;
    for (long long b = threadIdx.x % 32; b < width; b += 32) any |= of_rows[row * width + b] != X(0);
    if (!__any_sync(0xffffffffu, any)) return;
  }
  const auto at = [=](long long j) {
    if (!within(indices[j], size)) return;
    const A total = pairs(of_rows, of_columns, row, indices[j], width);
    if constexpr (INDEXED) atomicAdd(out + nearest(perm[j], stored - 1), total);
    else out[j] = total;
  };
  if constexpr (NUMBER) {
    for (long long j = row * number + threadIdx.x % 32; j < (row + 1) * number; j += 32) at(j);
  } else through(indptr, row, stored, at);
}

// The same for elements in coordinates, of which a thread takes one. J: the type of columns.
__global__ void per_coordinate(const I* __restrict__ row, const J* __restrict__ col, const X* __restrict__ of_rows,
                               const Y* __restrict__ of_columns, A* out, long long rows, long long columns,
                               long long stored, long long width) {
  const long long j = thread();
  if (j >= stored) return;
  const bool there = within(row[j], rows) && within(col[j], columns);
  out[j] = there ? pairs(of_rows, of_columns, row[j], col[j], width) : A(0);
}

// ---- copies: chosen rows as dense ones, where `out` starts as zeros, and duplicates add up; and the way back

__global__ void slice_rows(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                           const R* __restrict__ chosen, A* out, long long count, long long rows, long long stored,
                           long long width) {
  const long long i = thread() / 32;
  if (i >= count || chosen[i] < 0 || chosen[i] >= rows) return;
  through(indptr, chosen[i], stored, [=](long long j) {
    if (within(indices[j], width)) atomicAdd(out + i * width + indices[j], A(weights[ONE ? 0 : j]));
  });
}

__global__ void add_rows(const I* __restrict__ indices, const P* __restrict__ indptr, const R* __restrict__ chosen,
                         const A* __restrict__ dense, A* out, long long count, long long rows, long long stored,
                         long long width) {
  const long long i = thread() / 32;
  if (i >= count || chosen[i] < 0 || chosen[i] >= rows) return;
  through(indptr, chosen[i], stored, [=](long long j) {
    if (within(indices[j], width)) atomicAdd(out + j, dense[i * width + indices[j]]);
  });
}

// ---- values of synapses times values of neurons: matrices with a row for each entry of a batch, or with one for all

// Each element times the value of its row. A warp takes one row of one entry; `out` starts as zeros.
__global__ void of_rows(const A* __restrict__ y, const A* __restrict__ w, const P* __restrict__ indptr, A* out,
                        long long rows, long long stored, long long batch, long long of_y, long long of_w) {
  const long long i = thread() / 32;
  if (i >= rows * batch) return;
  const long long row = i % rows, b = i / rows;
  const A value = y[(of_y > 1 ? b * rows : 0) + row];
  const A* weights = w + (of_w > 1 ? b * stored : 0);
  through(indptr, row, stored, [=](long long j) { out[b * stored + j] = weights[j] * value; });
}

// Each element times the value of its column, or zero. A thread takes one element, of all entries.
__global__ void of_columns(const A* __restrict__ y, const A* __restrict__ w, const I* __restrict__ indices, A* out,
                           long long columns, long long stored, long long batch, long long of_y, long long of_w) {
  const long long j = thread();
  if (j >= stored) return;
  const long long column = indices[j];
  const bool there = column >= 0 && column < columns;
  for (long long b = 0; b < batch; b++)
    out[b * stored + j] = there ? w[(of_w > 1 ? b * stored : 0) + j] * y[(of_y > 1 ? b * columns : 0) + column] : A(0);
}

// ---- updates: weights change where neurons spike, by the traces at the other end; `out` starts as the weights

// Add `change(j)` to the weight at `place(j)`, a place that no other element has, or at none if that is negative.
template <class Place, class Change>
__device__ __forceinline__ void add_all(W* out, long long begin, long long end, Place place, Change change) {
  constexpr int step = 32 * PARTS;
  for (long long first = begin + thread() % step; first < end; first += AT_ONCE * step) {
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

__global__ void update(const W* weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                       const Q* __restrict__ perm, const bool* __restrict__ spikes, const A* __restrict__ trace,
                       const float* after, W* out, long long slices, long long number, long long stored, long long size) {
  const long long i = thread() / (32 * PARTS);
  if (i >= slices || !spikes[i]) return;
  const long long begin = NUMBER ? i * number : clipped(indptr[i], stored);
  const long long end = NUMBER ? (i + 1) * number : clipped(indptr[i + 1], stored);
  add_all(
      out, begin, end,
      [=](long long j) {
        const bool there = within(indices[j], size) && (!INDEXED || within(perm[j], stored));
        return !there ? -1 : INDEXED ? (long long)perm[j] : j;
      },
      [=](long long j) { return trace[indices[j]]; });
}

// Rows of a dense matrix, or if COLUMNS its columns.
__global__ void update_dense(const W* weights, const bool* __restrict__ spikes, const A* __restrict__ trace,
                             const float* after, W* out, long long slices, long long size) {
  const long long i = thread() / (32 * PARTS);
  if (i >= slices || !spikes[i]) return;
  add_all(
      out, 0, size, [=](long long j) { return COLUMNS ? j * slices + i : i * size + j; },
      [=](long long j) { return trace[j]; });
}
