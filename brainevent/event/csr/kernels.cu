// SPDX-License-Identifier: Apache-2.0
// Products with a matrix in compressed sparse rows, on a GPU. W, I, P, Q, E, A and O are the types of weights, indices,
// row pointers, permutation, elements of x, sums and results. EVENTS: x holds events, which count as one. ONE: all
// elements have one weight. INDEXED: the weight of stored element j is weights[perm[j]]. CONNECTIONS: elements of each row,
// if all have as many; there are no row pointers then. WIDE: four elements of a row are read at once. LANES: threads that
// sum one row together. ACROSS: columns of X that a warp takes at once. RESIDENT: blocks that a multiprocessor holds, of
// those that sum in its own memory.

static constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ bool counts(E x) { return !EVENTS || x > E(0); }
__device__ __forceinline__ A value(E x) { return EVENTS ? A(1) : A(x); }
__device__ __forceinline__ long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }

__device__ __forceinline__ long long begin_of(const P* indptr, long long row) {
#if CONNECTIONS
  return row * CONNECTIONS;
#else
  return indptr[row];
#endif
}

__device__ __forceinline__ A weight(const W* weights, const Q* perm, long long j) {
  if constexpr (ONE) return A(weights[0]);
  if constexpr (INDEXED) return A(weights[perm[j]]);
  return A(weights[j]);
}

template <bool, class X, class>
struct Choice {
  using type = X;
};
template <class X, class Y>
struct Choice<false, X, Y> {
  using type = Y;
};

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
                                            const Q* __restrict__ perm, long long begin, long long end, int slice,
                                            int slices, int lane, Add add) {
#if WIDE
  for (long long j = begin / 4 * 4 + (slice * 32 + lane) * 4; j < end; j += slices * 128) {
    if (j >= begin && j + 4 <= end) {
      const Four<I> targets = four(indices + j);
      if constexpr (ONE || INDEXED) {
#pragma unroll
        for (int i = 0; i < 4; i++) add(targets.at[i], weight(weights, perm, j + i));
      } else {
        const Four<W> each = four(weights + j);
#pragma unroll
        for (int i = 0; i < 4; i++) add(targets.at[i], A(each.at[i]));
      }
    } else {
      for (long long i = j < begin ? begin : j; i < j + 4 && i < end; i++) add(indices[i], weight(weights, perm, i));
    }
  }
#else
#pragma unroll 4
  for (long long j = begin + slice * 32 + lane; j < end; j += slices * 32) add(indices[j], weight(weights, perm, j));
#endif
}

// Go through 32 rows with a warp, those that count one after another: add(target, weight, value of x).
template <class Add>
__device__ __forceinline__ void each_of_rows(const W* __restrict__ weights, const I* __restrict__ indices,
                                             const P* __restrict__ indptr, const Q* __restrict__ perm,
                                             const E* __restrict__ x, long long first, long long rows, int slice,
                                             int slices, Add add) {
  const int lane = threadIdx.x % 32;
  const long long row = first + lane;
  const bool mine = row < rows && counts(x[row]);
  unsigned active = __ballot_sync(ALL, mine);
  if (!active) return;
  const long long begin = mine ? begin_of(indptr, row) : 0, end = mine ? begin_of(indptr, row + 1) : 0;
  const A factor = mine ? value(x[row]) : A(0);
  for (; active; active &= active - 1) {
    const int source = __ffs(active) - 1;
    const long long from = __shfl_sync(ALL, begin, source), to = __shfl_sync(ALL, end, source);
    const A times = __shfl_sync(ALL, factor, source);
    each_of_row(weights, indices, perm, from, to, slice, slices, lane, [=](I target, A w) { add(target, w, times); });
  }
}

// A.T @ x. A warp takes a slice of each row that counts, of 32 rows.
__global__ void scatter(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                        const Q* __restrict__ perm, const E* __restrict__ x, A* out, long long rows, int slices) {
  const long long warp = thread() / 32;
  each_of_rows(weights, indices, indptr, perm, x, warp / slices * 32, rows, warp % slices, slices,
               [=](I target, A w, A times) { atomicAdd(out + target, w * times); });
}

static constexpr int THREADS = 1024, WARPS = THREADS / 32, CHUNK = 128, CHUNKS = 32;

static constexpr bool COUNT = EVENTS && ONE;  // an integer is added in one step, a float in several
using Sum = typename Choice<COUNT, unsigned, A>::type;

// Return a sum that a block made in its own memory; where nothing was added, a weight that is no number adds nothing.
__device__ __forceinline__ A finished(Sum sum, const W* weights) {
  if constexpr (COUNT) return sum ? A(sum) * A(weights[0]) : A(0);
  return A(sum);
}

// Say about how many rows count, to all threads of a block: by chunks of x, or by all of it if it is short.
__device__ __forceinline__ long long about_active(const E* __restrict__ x, long long rows) {
  const long long apart = rows / CHUNKS > CHUNK ? rows / CHUNKS : CHUNK;
  constexpr int EACH = CHUNK * CHUNKS / THREADS;
  bool active[EACH];
#pragma unroll
  for (int k = 0; k < EACH; k++) {  // all are asked for before the first is waited for
    const int i = k * THREADS + threadIdx.x;
    const long long row = i / CHUNK * apart + i % CHUNK;
    active[k] = row < rows && counts(x[row]);
  }
  long long seen = 0;
#pragma unroll
  for (int k = 0; k < EACH; k++) seen += __syncthreads_count(active[k]);
  return rows > CHUNK * CHUNKS ? seen * rows / (CHUNK * CHUNKS) : seen;
}

// A.T @ x, where a block may sum `width` columns, one of several `parts` of the matrix, in memory of its own: that is
// quicker if at least `enough` rows count, though each part reads all that is stored in them.
__global__ void __launch_bounds__(THREADS, RESIDENT)
    scatter_apart(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                  const Q* __restrict__ perm, const E* __restrict__ x, A* out, long long rows, long long columns,
                  int slices, int parts, int width, long long enough) {
  extern __shared__ __align__(16) unsigned char memory[];
  Sum* sums = reinterpret_cast<Sum*>(memory);
  const long long units = (rows + 31) / 32 * slices;
  if (about_active(x, rows) < enough) {
    for (long long unit = thread() / 32; unit < units; unit += gridDim.x * (long long)WARPS)
      each_of_rows(weights, indices, indptr, perm, x, unit / slices * 32, rows, unit % slices, slices,
                   [=](I target, A w, A times) { atomicAdd(out + target, w * times); });
    return;
  }
  const int part = blockIdx.x % parts, share = blockIdx.x / parts, shares = gridDim.x / parts;
  const long long first = part * (long long)width;
  const unsigned here = first + width < columns ? width : columns > first ? columns - first : 0;
  for (unsigned i = threadIdx.x; i < here; i += THREADS) sums[i] = 0;
  __syncthreads();
  for (long long unit = share * WARPS + threadIdx.x / 32; unit < units; unit += shares * (long long)WARPS)
    each_of_rows(weights, indices, indptr, perm, x, unit / slices * 32, rows, unit % slices, slices,
                 [=](I target, A w, A times) {
                   const unsigned long long place = target - first;
                   if (place < here) atomicAdd(sums + place, COUNT ? Sum(1) : Sum(w * times));
                 });
  __syncthreads();
  for (unsigned i = threadIdx.x; i < here; i += THREADS) {
    const unsigned place = (i + here / shares * share / 32 * 32) % here;  // blocks begin at places of their own
    if (sums[place] != 0) atomicAdd(out + first + place, finished(sums[place], weights));
  }
}

// A @ x. LANES threads sum one row.
__global__ void gather(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                       const Q* __restrict__ perm, const E* __restrict__ x, O* out, long long rows) {
  const int lane = threadIdx.x % LANES;
  const long long row = thread() / LANES;
  A total = 0;
  if (row < rows) {
    const long long end = begin_of(indptr, row + 1);
#pragma unroll 4
    for (long long j = begin_of(indptr, row) + lane; j < end; j += LANES) {
      const E element = x[indices[j]];
      if (counts(element)) total += weight(weights, perm, j) * value(element);
    }
  }
  for (int step = LANES / 2; step; step /= 2) total += __shfl_down_sync(ALL, total, step, LANES);
  if (row < rows && lane == 0) out[row] = O(total);
}

// A.T @ X. A warp takes ACROSS columns of X and a slice of one row, 32 / ACROSS elements at once.
__global__ void scatter_matrix(const W* __restrict__ weights, const I* __restrict__ indices,
                               const P* __restrict__ indptr, const Q* __restrict__ perm, const E* __restrict__ x,
                               A* out, long long rows, long long columns, int slices) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS, warp = thread() / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles / slices;
  const int slice = warp / tiles % slices;
  if (row >= rows || column >= columns || !counts(x[row * columns + column])) return;
  const A times = value(x[row * columns + column]);
  const long long end = begin_of(indptr, row + 1);
  constexpr int AT_ONCE = 32 / ACROSS;
#pragma unroll 4
  for (long long j = begin_of(indptr, row) + slice * AT_ONCE + lane / ACROSS; j < end; j += slices * AT_ONCE)
    atomicAdd(out + (long long)indices[j] * columns + column, weight(weights, perm, j) * times);
}

// A @ X. A warp sums ACROSS columns of one row, 32 / ACROSS elements at once.
__global__ void gather_matrix(const W* __restrict__ weights, const I* __restrict__ indices,
                              const P* __restrict__ indptr, const Q* __restrict__ perm, const E* __restrict__ x,
                              O* out, long long rows, long long columns) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS, warp = thread() / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles;
  const bool inside = row < rows && column < columns;
  A total = 0;
  if (inside) {
    const long long end = begin_of(indptr, row + 1);
#pragma unroll 4
    for (long long j = begin_of(indptr, row) + lane / ACROSS; j < end; j += 32 / ACROSS) {
      const E element = x[(long long)indices[j] * columns + column];
      if (counts(element)) total += weight(weights, perm, j) * value(element);
    }
  }
  for (int step = 16; step >= ACROSS; step /= 2) total += __shfl_down_sync(ALL, total, step);
  if (inside && lane < ACROSS) out[row * columns + column] = O(total);
}
