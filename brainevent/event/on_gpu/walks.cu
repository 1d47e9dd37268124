// SPDX-License-Identifier: Apache-2.0
// Products of all rows, or of active ones, on a GPU; this follows `rows.cu` and `laws.cu`. O is the type of results. WIDE:
// four elements of a row are read at once. LANES: threads that sum one row together. FEW: rows from which a warp takes the
// active ones. ACROSS: columns of X that it takes at once.
// Lanes of a warp end together.

static constexpr unsigned ALL = 0xffffffffu;

template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four {
  T at[4];
};

// An array within a batch may begin anywhere.
template <class T>
__device__ __forceinline__ Four<T> four(const T* from) {
  if (reinterpret_cast<unsigned long long>(from) % sizeof(Four<T>) == 0) return *reinterpret_cast<const Four<T>*>(from);
  return {from[0], from[1], from[2], from[3]};
}

// Go through the part of a row that falls to one of `slices` warps: add(target, weight).
template <class Add>
__device__ __forceinline__ void each_of_row(const W* __restrict__ weights, const I* __restrict__ indices,
                                            const Q* __restrict__ perm, long long begin, long long end,
                                            long long held, int slice, int slices, int lane, Add add) {
  const A only = ONE ? A(weights[0]) : A(0);
#if WIDE
  for (long long j = begin / 4 * 4 + (slice * 32 + lane) * 4; j < end; j += slices * 128) {
    if (j >= begin && j + 4 <= end) {
      const Four<I> targets = four(indices + j);
      if constexpr (ONE || INDEXED) {
#pragma unroll
        for (int i = 0; i < 4; i++) add(targets.at[i], ONE ? only : weight(weights, perm, j + i, held));
      } else {
        const Four<W> each = four(weights + j);
#pragma unroll
        for (int i = 0; i < 4; i++) add(targets.at[i], A(each.at[i]));
      }
    } else {
      for (long long i = j < begin ? begin : j; i < j + 4 && i < end; i++)
        add(indices[i], ONE ? only : weight(weights, perm, i, held));
    }
  }
#else
#pragma unroll 4
  for (long long j = begin + slice * 32 + lane; j < end; j += slices * 32)
    add(indices[j], ONE ? only : weight(weights, perm, j, held));
#endif
}

// Add a slice of each row of a warp whose x counts, one after another; each lane has a row, and says whether x is `mine`.
__device__ __forceinline__ void add_active(const W* weights, const I* indices, const P* indptr, const Q* perm, const E* x,
                                           A* out, bool mine, long long row, long long stored, long long held,
                                           long long size, int slice, int slices, int lane) {
  unsigned active = __ballot_sync(ALL, mine);
  if (!active) return;
  const long long begin = mine ? begin_of(indptr, row, stored) : 0;
  const long long end = mine ? begin_of(indptr, row + 1, stored) : 0;
  const A factor = mine ? value(x[row]) : A(0);
  for (; active; active &= active - 1) {
    const int source = __ffs(active) - 1;
    const long long from = __shfl_sync(ALL, begin, source), to = __shfl_sync(ALL, end, source);
    const A times = __shfl_sync(ALL, factor, source);
    each_of_row(weights, indices, perm, from, to, held, slice, slices, lane, [=](I target, A w) {
      if (within(target, size)) atomicAdd(out + target, w * times);
    });
  }
}

// A.T @ x. A warp takes a slice of each active row of FEW rows, one after another; it reads their x first.
__global__ void scatter(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                        const Q* __restrict__ perm, const E* __restrict__ x, A* out, long long rows, long long stored,
                        long long held, long long size, int slices) {
  constexpr int LOOKS = FEW > 32 ? FEW / 32 : 1;
  const long long warp = thread() / 32;
  const int lane = threadIdx.x % 32, slice = warp % slices;
  const long long first = warp / slices * FEW + lane;
  unsigned seen = 0;
#pragma unroll
  for (int look = 0; look < LOOKS; look++)
    seen |= unsigned(lane < FEW && first + 32 * look < rows && counts(x[first + 32 * look])) << look;
#pragma unroll 1
  for (int look = 0; look < LOOKS; look++)
    add_active(weights, indices, indptr, perm, x, out, seen >> look & 1, first + 32 * look, stored, held, size, slice,
               slices, lane);
}

// A @ x. LANES threads sum one row.
__global__ void gather(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                       const Q* __restrict__ perm, const E* __restrict__ x, O* out, long long rows, long long stored,
                       long long held, long long size) {
  const int lane = threadIdx.x % LANES;
  const long long row = thread() / LANES;
  A total = 0;
  if (row < rows) {
    const long long end = begin_of(indptr, row + 1, stored);
#pragma unroll 4
    for (long long j = begin_of(indptr, row, stored) + lane; j < end; j += LANES) {
      if (!within(indices[j], size)) continue;
      const E element = x[indices[j]];
      if (counts(element)) total += weight(weights, perm, j, held) * value(element);
    }
  }
  for (int step = LANES / 2; step; step /= 2) total += __shfl_down_sync(ALL, total, step, LANES);
  if (row < rows && lane == 0) out[row] = O(total);
}

// A.T @ X. A warp takes ACROSS columns of X and a slice of one row, 32 / ACROSS elements at once.
__global__ void scatter_matrix(const W* __restrict__ weights, const I* __restrict__ indices,
                               const P* __restrict__ indptr, const Q* __restrict__ perm, const E* __restrict__ x,
                               A* out, long long rows, long long stored, long long held, long long size,
                               long long columns, int slices) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS, warp = thread() / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles / slices;
  const int slice = warp / tiles % slices;
  if (row >= rows || column >= columns || !counts(x[row * columns + column])) return;
  const A times = value(x[row * columns + column]);
  const long long end = begin_of(indptr, row + 1, stored);
  constexpr int AT_ONCE = 32 / ACROSS;
#pragma unroll 4
  for (long long j = begin_of(indptr, row, stored) + slice * AT_ONCE + lane / ACROSS; j < end; j += slices * AT_ONCE)
    if (within(indices[j], size))
      atomicAdd(out + (long long)indices[j] * columns + column, weight(weights, perm, j, held) * times);
}

// A @ X. A warp sums ACROSS columns of one row, 32 / ACROSS elements at once.
__global__ void gather_matrix(const W* __restrict__ weights, const I* __restrict__ indices,
                              const P* __restrict__ indptr, const Q* __restrict__ perm, const E* __restrict__ x,
                              O* out, long long rows, long long stored, long long held, long long size,
                              long long columns) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS, warp = thread() / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles;
  const bool inside = row < rows && column < columns;
  A total = 0;
  if (inside) {
    const long long end = begin_of(indptr, row + 1, stored);
#pragma unroll 4
    for (long long j = begin_of(indptr, row, stored) + lane / ACROSS; j < end; j += 32 / ACROSS) {
      if (!within(indices[j], size)) continue;
      const E element = x[(long long)indices[j] * columns + column];
      if (counts(element)) total += weight(weights, perm, j, held) * value(element);
    }
  }
  for (int step = 16; step >= ACROSS; step /= 2) total += __shfl_down_sync(ALL, total, step);
  if (inside && lane < ACROSS) out[row * columns + column] = O(total);
}
