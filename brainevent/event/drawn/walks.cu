// SPDX-License-Identifier: Apache-2.0
// Products of drawn matrices, and the matrix as a dense one, on a GPU; this follows `drawing.cu`. E and O are the types of
// elements of x and of results. EVENTS: x holds events, which count as one. FEW: rows of which a warp takes those that
// count. ACROSS: columns of X that it takes at once. LANES: those that share a row of a gathered product.
//
// A warp draws up to 64 elements at a time, two a lane: gaps are added up over the lanes.
// Lanes of a warp end together.
// Threads of a block meet before any of them ends.

static constexpr unsigned EVERY = 0xffffffffu;

__device__ __forceinline__ long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
__device__ __forceinline__ bool counts(E x) { return !EVENTS || x != E(0); }
__device__ __forceinline__ A value(E x) { return EVENTS ? A(1) : A(x); }

// Go through the elements from `low` up to `high` of every `slices`th segment of a line, from `first` on. N: how columns are
// counted within a segment. Each lane makes where the stream of another segment begins.
template <class N, class Take>
__device__ __forceinline__ void walk(const Plan& plan, u64 line, u64 low, u64 high, u64 first, int slices, Take take) {
  const u32 lane = threadIdx.x % 32;
  const u64 last = (high - 1) >> plan.width;
  for (u64 segment = first; segment <= last;) {
    const u64 places = hashed(line + segment + (u64)lane * slices);
    for (int k = 0; k < 32 && segment <= last; k++, segment += slices) {
      const u64 place = __shfl_sync(EVERY, places, k), start = segment << plan.width, left = high - start;
      const N size = N(1) << plan.width, from = low > start ? N(low - start) : 0, to = left < size ? N(left) : size;
      const long long at = (long long)(start - low);
      N column = 0;
      for (u64 ahead = (1 + lane) * STEP; column < to; ahead += 32 * STEP) {
        const u64 bits = hashed(place + ahead), words = KIND ? hashed(~place + ahead) : 0;
        const N near = gap<N>(plan, (u32)bits), far = near + 1 + gap<N>(plan, (u32)(bits >> 32));
        N end = far + 1;
        for (int step = 1; step < 32; step *= 2) {
          const N before = __shfl_up_sync(EVERY, end, step);
          if (lane >= step) end += before;
        }
        const N begin = column + end - (far + 1), one = begin + near, other = begin + far;
        take(one >= from && one < to, at + one, (u32)words);
        take(other >= from && other < to, at + other, (u32)(words >> 32));
        column += __shfl_sync(EVERY, end, 31);
      }
    }
  }
}

// The same for all columns of a line: all lanes call take(there, column, word) together.
template <class Take>
__device__ __forceinline__ void through(const Plan& plan, u64 line, u64 columns, int slice, int slices, Take take) {
  if (!columns) return;
  const u64 low = plan.origin, high = low + columns, first = (low >> plan.width) + slice;
  if (plan.width <= NARROW) walk<u32>(plan, line, low, high, first, slices, take);
  else walk<u64>(plan, line, low, high, first, slices, take);
}

// A.T @ x. A warp takes a slice of each row that counts, of FEW rows, one after another.
__global__ void drawn_scatter(const A* __restrict__ parts, const u32* __restrict__ numbers,
                              const u32* __restrict__ logarithms, const int* __restrict__ quantiles,
                              const E* __restrict__ x, A* out, long long rows, long long columns, int slices) {
  const long long warp = thread() / 32;
  const int lane = threadIdx.x % 32;
  const long long mine = warp / slices * FEW + lane;
  const bool active = lane < FEW && mine < rows && counts(x[mine]);
  const A factor = active ? value(x[mine]) : A(0);
  unsigned left = __ballot_sync(EVERY, active);
  if (!left) return;
  const Plan plan = plan_of(numbers, logarithms);
  for (; left; left &= left - 1) {
    const int source = __ffs(left) - 1;
    const A times = __shfl_sync(EVERY, factor, source);
    const u64 line = line_of(plan, warp / slices * FEW + source);
    through(plan, line, columns, warp % slices, slices, [=](bool there, long long column, u32 word) {
      if (there) atomicAdd(out + column, weight_of(parts, quantiles, word) * times);
    });
  }
}

// The same for LANES lanes that share a line: each goes through segments of its own.
template <class Take>
__device__ __forceinline__ void walk_apart(const Plan& plan, u64 line, u64 low, u64 high, Take take) {
  const u64 last = (high - 1) >> plan.width;
  for (u64 segment = (low >> plan.width) + threadIdx.x % LANES; segment <= last; segment += LANES) {
    const u64 place = hashed(line + segment), start = segment << plan.width, left = high - start;
    const u32 size = 1u << plan.width, from = low > start ? u32(low - start) : 0, to = left < size ? u32(left) : size;
    const long long at = (long long)(start - low);
    u32 column = 0;
    for (u64 ahead = STEP; column < to; ahead += STEP) {
      const u64 bits = hashed(place + ahead), words = KIND ? hashed(~place + ahead) : 0;
      const u32 one = column + gap<u32>(plan, (u32)bits), other = one + 1 + gap<u32>(plan, (u32)(bits >> 32));
      take(one >= from && one < to, at + one, (u32)words);
      take(other >= from && other < to, at + other, (u32)(words >> 32));
      column = other + 1;
    }
  }
}

// What a block keeps in its shared memory, where lanes wait less: the logarithms, and events as bits, with a word of none.
struct Near {
  uint2 cells[1 << CELLS];
  u32 events[WORDS + 1];
};

// Sum rows, LANES lanes each; where rows have too few segments for that, a warp sums its rows one after another.
// `add(total, there, column, word)` adds an element; `finish(total)` is what is written.
template <class Sum, class Add, class Finish>
__device__ __forceinline__ void gather(Near& near, const u32* numbers, const u32* logarithms, O* out, long long rows,
                                       long long columns, Add add, Finish finish) {
  for (int i = threadIdx.x; i < 1 << CELLS; i += blockDim.x) near.cells[i] = ((const uint2*)logarithms)[i];
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const long long first = thread() / 32 * (32 / LANES), mine = first + lane / LANES;
  if (first >= rows) return;
  const Plan plan = plan_of(numbers, near.cells);
  const u64 low = plan.origin, high = low + columns;
  Sum total = 0;
  const auto take = [&](bool there, long long column, u32 word) { add(total, there, column, word); };
  if (plan.width <= NARROW && columns && 2 * ((columns - 1) >> plan.width) + 2 >= LANES) {
    if (mine < rows) walk_apart(plan, line_of(plan, mine), low, high, take);
    for (int step = LANES / 2; step; step /= 2) total += __shfl_down_sync(EVERY, total, step);
    if (mine < rows && lane % LANES == 0) out[mine] = O(finish(total));
    return;
  }
  for (long long row = first; row < rows && row < first + 32 / LANES; row++) {
    total = 0;
    through(plan, line_of(plan, row), columns, 0, 1, take);
    for (int step = 16; step; step /= 2) total += __shfl_down_sync(EVERY, total, step);
    if (lane == 0) out[row] = O(finish(total));
  }
}

// A @ x.
__global__ void drawn_gather(const A* __restrict__ parts, const u32* __restrict__ numbers,
                             const u32* __restrict__ logarithms, const int* __restrict__ quantiles,
                             const E* __restrict__ x, O* out, long long rows, long long columns) {
  __shared__ Near near;
  const auto add = [=](A& total, bool there, long long column, u32 word) {
    if (there && counts(x[column])) total += weight_of(parts, quantiles, word) * value(x[column]);
  };
  gather<A>(near, numbers, logarithms, out, rows, columns, add, [](A total) { return total; });
}

// A @ events, which are bits: WORDS of them near, or none. One weight is multiplied by the number of events.
__global__ void __launch_bounds__(BLOCK, KIND ? 1 : 6)
    drawn_gather_bits(const A* __restrict__ parts, const u32* __restrict__ numbers, const u32* __restrict__ logarithms,
                      const int* __restrict__ quantiles, const u32* __restrict__ bits, O* out, long long rows,
                      long long columns) {
  __shared__ Near near;
  for (int i = threadIdx.x; i <= WORDS; i += blockDim.x) near.events[i] = i < (columns + 31) / 32 ? bits[i] : 0;
  const auto hit = [&](bool there, long long column) -> u32 {
    if (WORDS) {
      const u32 at = there ? (u32)column : 32 * WORDS;
      return near.events[at / 32] >> at % 32 & 1;
    }
    return there ? bits[(u32)column / 32] >> (u32)column % 32 & 1 : 0;
  };
  if constexpr (KIND == 0) {
    const auto add = [&](u32& total, bool there, long long column, u32) { total += hit(there, column); };
    const auto finish = [=](u32 total) { return A(W(parts[0])) * A(total); };
    gather<u32>(near, numbers, logarithms, out, rows, columns, add, finish);
  } else {
    const auto add = [&](A& total, bool there, long long column, u32 word) {
      if (hit(there, column)) total += weight_of(parts, quantiles, word);
    };
    gather<A>(near, numbers, logarithms, out, rows, columns, add, [](A total) { return total; });
  }
}

// Let ACROSS lanes take the same element, each with a column of X: take(column, weight), for one that is there.
template <class Take>
__device__ __forceinline__ void shared_out(bool there, long long column, A weight, Take take) {
  const int lane = threadIdx.x % 32;
  const unsigned some = __ballot_sync(EVERY, there);
  for (int first = 0; first < 32; first += 32 / ACROSS) {
    const int source = first + lane / ACROSS;
    const long long at = __shfl_sync(EVERY, column, source);
    const A here = __shfl_sync(EVERY, weight, source);
    if (some >> source & 1) take(at, here);
  }
}

// A.T @ X. A warp takes ACROSS columns of X and a slice of one row.
__global__ void drawn_scatter_matrix(const A* __restrict__ parts, const u32* __restrict__ numbers,
                                     const u32* __restrict__ logarithms, const int* __restrict__ quantiles,
                                     const E* __restrict__ x, A* out, long long rows, long long columns, int slices,
                                     long long width) {
  const long long tiles = (width + ACROSS - 1) / ACROSS, warp = thread() / 32, row = warp / tiles / slices;
  const long long b = warp % tiles * ACROSS + threadIdx.x % ACROSS;
  const bool active = row < rows && b < width && counts(x[row * width + b]);
  if (!__any_sync(EVERY, active)) return;
  const A times = active ? value(x[row * width + b]) : A(0);
  const Plan plan = plan_of(numbers, logarithms);
  const int slice = warp / tiles % slices;
  through(plan, line_of(plan, row), columns, slice, slices, [=](bool there, long long column, u32 word) {
    const A weight = there ? weight_of(parts, quantiles, word) : A(0);
    shared_out(there, column, weight, [=](long long at, A here) {
      if (active) atomicAdd(out + at * width + b, here * times);
    });
  });
}

// A @ X. A warp sums ACROSS columns of one row.
__global__ void drawn_gather_matrix(const A* __restrict__ parts, const u32* __restrict__ numbers,
                                    const u32* __restrict__ logarithms, const int* __restrict__ quantiles,
                                    const E* __restrict__ x, O* out, long long rows, long long columns,
                                    long long width) {
  const long long tiles = (width + ACROSS - 1) / ACROSS, warp = thread() / 32, row = warp / tiles;
  const long long b = warp % tiles * ACROSS + threadIdx.x % ACROSS;
  if (row >= rows) return;
  const Plan plan = plan_of(numbers, logarithms);
  A total = 0;
  through(plan, line_of(plan, row), columns, 0, 1, [&](bool there, long long column, u32 word) {
    const A weight = there ? weight_of(parts, quantiles, word) : A(0);
    shared_out(there, column, weight, [&](long long at, A here) {
      if (b < width && counts(x[at * width + b])) total += here * value(x[at * width + b]);
    });
  });
  for (int step = 16; step >= ACROSS; step /= 2) total += __shfl_down_sync(EVERY, total, step);
  if (threadIdx.x % 32 < ACROSS && b < width) out[row * width + b] = O(total);
}

// The matrix as a dense one; `out` starts as zeros. A warp writes a row.
__global__ void drawn_whole(const A* __restrict__ parts, const u32* __restrict__ numbers,
                            const u32* __restrict__ logarithms, const int* __restrict__ quantiles, W* out,
                            long long rows, long long columns) {
  const long long row = thread() / 32;
  if (row >= rows) return;
  const Plan plan = plan_of(numbers, logarithms);
  through(plan, line_of(plan, row), columns, 0, 1, [=](bool there, long long column, u32 word) {
    if (there) out[row * columns + column] = W(weight_of(parts, quantiles, word));
  });
}
