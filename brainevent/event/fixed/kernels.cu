// SPDX-License-Identifier: Apache-2.0
// Products with a matrix of which each row stores `connections` elements, on a GPU. W, I, E, A and O are the types of
// weights, indices, elements of x, sums and results. EVENTS: x holds events, which count as one. ONE: all elements have one
// weight. LANES: threads that sum one row together. ACROSS: columns of X that a warp takes at once. WIDE: four elements of a
// row are read at once; their number is then a multiple of four, so that each row begins where such a load may.

static constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ bool counts(E x) { return !EVENTS || x > E(0); }
__device__ __forceinline__ A value(E x) { return EVENTS ? A(1) : A(x); }
__device__ __forceinline__ A weight(const W* weights, long long j) { return A(weights[ONE ? 0 : j]); }

template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four {
  T at[4];
};

template <class T>
__device__ __forceinline__ Four<T> four(const T* array, long long j) {
  return *reinterpret_cast<const Four<T>*>(array + j);
}

// A.T @ x. A warp looks at 32 rows at once, and goes through those that count one after another; `slices` warps share them.
__global__ void scatter(const W* __restrict__ weights, const I* __restrict__ indices, const E* __restrict__ x,
                        A* out, long long rows, long long connections, int slices) {
  const int lane = threadIdx.x % 32;
  const long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  const long long first = warp / slices * 32, row = first + lane;
  const int slice = warp % slices;
  const bool mine = row < rows && counts(x[row]);
  unsigned active = __ballot_sync(ALL, mine);
  if (!active) return;
  const A factor = mine ? value(x[row]) : A(0);
  for (; active; active &= active - 1) {
    const int source = __ffs(active) - 1;
    const A times = __shfl_sync(ALL, factor, source);
    const long long begin = (first + source) * connections, end = begin + connections;
#if WIDE
    for (long long j = begin + (slice * 32 + lane) * 4; j < end; j += slices * 128) {
      const Four<I> targets = four(indices, j);
      Four<W> each;
      if (!ONE) each = four(weights, j);
#pragma unroll
      for (int i = 0; i < 4; i++) atomicAdd(out + targets.at[i], A(ONE ? weights[0] : each.at[i]) * times);
    }
#else
#pragma unroll 4
    for (long long j = begin + slice * 32 + lane; j < end; j += slices * 32)
      atomicAdd(out + indices[j], weight(weights, j) * times);
#endif
  }
}

// A @ x. LANES threads sum one row.
__global__ void gather(const W* __restrict__ weights, const I* __restrict__ indices, const E* __restrict__ x, O* out,
                       long long rows, long long connections) {
  const int lane = threadIdx.x % LANES;
  const long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / LANES;
  A total = 0;
  if (row < rows) {
    const long long end = (row + 1) * connections;
#pragma unroll 4
    for (long long j = row * connections + lane; j < end; j += LANES) {
      const E element = x[indices[j]];
      if (counts(element)) total += weight(weights, j) * value(element);
    }
  }
  for (int step = LANES / 2; step; step /= 2) total += __shfl_down_sync(ALL, total, step, LANES);
  if (row < rows && lane == 0) out[row] = O(total);
}

// A.T @ X. A warp takes ACROSS columns of X and a slice of one row, 32 / ACROSS elements at once.
__global__ void scatter_matrix(const W* __restrict__ weights, const I* __restrict__ indices, const E* __restrict__ x,
                               A* out, long long rows, long long connections, long long columns, int slices) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS;
  const long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles / slices;
  const int slice = warp / tiles % slices;
  const bool mine = row < rows && column < columns && counts(x[row * columns + column]);
  if (!mine) return;
  const A times = value(x[row * columns + column]);
  const long long begin = row * connections, end = begin + connections;
  constexpr int AT_ONCE = 32 / ACROSS;
#pragma unroll 4
  for (long long j = begin + slice * AT_ONCE + lane / ACROSS; j < end; j += slices * AT_ONCE)
    atomicAdd(out + (long long)indices[j] * columns + column, weight(weights, j) * times);
}

// A @ X. A warp sums ACROSS columns of one row, 32 / ACROSS elements at once.
__global__ void gather_matrix(const W* __restrict__ weights, const I* __restrict__ indices, const E* __restrict__ x,
                              O* out, long long rows, long long connections, long long columns) {
  const int lane = threadIdx.x % 32;
  const long long tiles = (columns + ACROSS - 1) / ACROSS;
  const long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  const long long column = warp % tiles * ACROSS + lane % ACROSS, row = warp / tiles;
  const bool inside = row < rows && column < columns;
  A total = 0;
  if (inside) {
    const long long end = (row + 1) * connections;
#pragma unroll 4
    for (long long j = row * connections + lane / ACROSS; j < end; j += 32 / ACROSS) {
      const E element = x[(long long)indices[j] * columns + column];
      if (counts(element)) total += weight(weights, j) * value(element);
    }
  }
  for (int step = 16; step >= ACROSS; step /= 2) total += __shfl_down_sync(ALL, total, step);
  if (inside && lane < ACROSS) out[row * columns + column] = O(total);
}
