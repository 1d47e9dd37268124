// SPDX-License-Identifier: Apache-2.0
// A product with a matrix whose rows are sorted, on a GPU that has clusters of blocks; this follows `looking.cu` and
// `clusters.cu`. The columns are cut into parts. A cluster of CLUSTER blocks has one of them, and each block a share of the
// rows, which it sums in its own memory; in the end the cluster writes what its blocks have. In a sorted row, a part is a
// run of elements, and about where it begins is known. SHARING: threads that go through it together.

static constexpr int THREADS = 1024;
static constexpr int EACH = 16, TILE = EACH * THREADS;       // rows that are tested before any is read
static constexpr int ROUND = 2, SPAN = 4 * ROUND * SHARING;  // elements of a row that are read at once
static constexpr int GROUPS = THREADS / SHARING;

// Say which rows count, of those that fall to this thread: EACH of `rows` that begin at x, at most TILE.
__device__ __forceinline__ unsigned which_count(const E* __restrict__ x, int rows) {
  const bool at_once = readable_at_once(x);
  unsigned mine = 0;
#pragma unroll
  for (int k = 0; k < EACH; k += SOME)
    mine |= which_count(x, k * THREADS + int(threadIdx.x) * SOME, rows, at_once) << k;
  return mine;
}

// List the rows that count, by what each thread says of its own.
__device__ __forceinline__ void list_rows(unsigned mine, unsigned short* list, int* listed) {
  const int lane = threadIdx.x % 32, count = __popc(mine);
  int upto = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(ALL, upto, step);
    if (lane >= step) upto += before;
  }
  int at = lane == 31 && upto ? atomicAdd(listed, upto) : 0;
  for (at = __shfl_sync(ALL, at, 31) + upto - count; mine; mine &= mine - 1) {
    const int bit = __ffs(mine) - 1;
    list[at++] = (bit / SOME * THREADS + threadIdx.x) * SOME + bit % SOME;
  }
}

// Where a row is read: from `at` on, a multiple of four; `known` if nothing to the left of it is wanted. Its part is
// looked for elsewhere than expected at most twice.
struct Reading {
  long long begin, end, at;
  bool busy, known;
  int tries;
};

template <class T>
__device__ __forceinline__ bool aligned(const T* array) {
  return reinterpret_cast<unsigned long long>(array) % alignof(Four<T>) == 0;
}

// Read the columns of the next elements; what is not of the row counts as far to the left or right. `whole`: all are, and
// weights are read with them, wanted or not, rather than waited for later.
__device__ __forceinline__ void read(Four<I>* targets, Four<W>* each, const I* __restrict__ indices,
                                     const W* __restrict__ weights, const Reading& row, int lane, bool whole, I beyond) {
#pragma unroll
  for (int u = 0; u < ROUND; u++) {
    const long long j = row.at + (u * SHARING + lane) * 4;
    if (whole) {
      targets[u] = *reinterpret_cast<const Four<I>*>(indices + j);
      if constexpr (!ONE && !INDEXED) each[u] = *reinterpret_cast<const Four<W>*>(weights + j);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++)
        targets[u].at[i] = j + i < row.begin ? I(-1) : row.busy && j + i < row.end ? indices[j + i] : beyond;
    }
  }
}

// Say whether the part may begin elsewhere than in what was read, from `low` to `high`; then look there. Nothing is added
// twice, and there is an end, even if the row is not sorted.
__device__ __forceinline__ bool sought(Reading& row, const I* __restrict__ indices, I first, I low, I high) {
  const bool right = high < first, left = !row.known && row.at > row.begin && low >= first;
  if ((!right && !left) || row.tries == 2) return false;
  if (row.tries++ == 0) {  // it is mostly next to where it was expected
    row.at = right ? row.at + SPAN : row.at - SPAN < row.begin ? row.begin / 4 * 4 : row.at - SPAN;
    row.known = right;
    return true;
  }
  long long from = row.known ? row.at : row.begin, to = row.end;
  while (from < to) {
    const long long middle = from + (to - from) / 2;
    if (indices[middle] < first)
      from = middle + 1;
    else
      to = middle;
  }
  row.at = from / 4 * 4;
  return row.known = true;
}

// Add four numbers to sums, where `in` says so. A float is exchanged, if no other thread was faster: so all four are on
// their way at once.
__device__ __forceinline__ void add_four(Sum* const* sums, const A* numbers, const bool* in) {
  if constexpr (sizeof(Sum) == 4 && !COUNT) {
    int had[4], has[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (in[i]) had[i] = *reinterpret_cast<volatile int*>(sums[i]);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (in[i])
        has[i] = atomicCAS(reinterpret_cast<int*>(sums[i]), had[i], __float_as_int(__int_as_float(had[i]) + numbers[i]));
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (in[i] && has[i] != had[i]) atomicAdd(sums[i], numbers[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (in[i]) atomicAdd(sums[i], COUNT ? Sum(1) : Sum(numbers[i]));
  }
}

// Add what was read, and is in the part, to its sums. `whole`: weights were read too.
__device__ __forceinline__ void add(Sum* sums, const Four<I>* targets, Four<W>* each, const W* __restrict__ weights,
                                    const Q* __restrict__ perm, const Reading& row, int lane, bool whole, I first,
                                    I past, A times, long long held) {
  if (!ONE && (INDEXED || !whole)) {
#pragma unroll
    for (int u = 0; u < ROUND; u++) {  // all are asked for before the first is waited for
      const long long j = row.at + (u * SHARING + lane) * 4;
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (targets[u].at[i] >= first && targets[u].at[i] < past)
          each[u].at[i] = weights[INDEXED ? nearest(perm[j + i], held - 1) : j + i];
    }
  }
#pragma unroll
  for (int u = 0; u < ROUND; u++) {
    Sum* places[4];
    A numbers[4];
    bool in[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Place place = Place(targets[u].at[i]) - Place(first);
      in[i] = place < Place(past) - Place(first);
      places[i] = sums + place;
      if constexpr (!COUNT) numbers[i] = A(ONE ? weights[0] : each[u].at[i]) * times;
    }
    add_four(places, numbers, in);
  }
}

// About where a part begins in a row of so many elements, `before` of which are to its left: by three times what chance
// makes of it too early. Rows are not as long as an int can say, or it is only found later.
__device__ __forceinline__ int estimate(long long length, float before) {
  const float all = float(length < 0x7fffff00 ? int(length) : 0x7fffff00);
  const int at = int(all * before - 1.5f * all * rsqrtf(all));
  return at < 0 ? 0 : at;
}

// A.T @ x
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    scatter_sorted(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                   const Q* __restrict__ perm, const E* __restrict__ x, O* out, long long rows, long long stored,
                   long long held, long long columns, int width) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ unsigned short list[TILE];
  __shared__ int listed[2];  // of this tile and of the next
  Sum* sums = reinterpret_cast<Sum*>(memory);
  const int block = blockIdx.x % CLUSTER, part = blockIdx.x / CLUSTER, lane = threadIdx.x % SHARING;
  const long long left = part * (long long)width;
  const unsigned here = left + width < columns ? width : columns - left;
  const I first = I(left), past = I(left + here);
  for (unsigned i = threadIdx.x; i < here; i += THREADS) sums[i] = 0;
  if (threadIdx.x < 2) listed[threadIdx.x] = 0;
  __syncthreads();
  const long long share = (rows + CLUSTER * 32 - 1) / (CLUSTER * 32) * 32;
  const long long last = (block + 1) * share < rows ? (block + 1) * share : rows;
  const float before = float(left) / float(columns);
  const bool fourfold = aligned(indices) && (ONE || INDEXED || aligned(weights));  // not all arrays within a batch
  int turn = 0;
  for (long long tile = block * share; tile < last; tile += TILE, turn ^= 1) {
    list_rows(which_count(x + tile, last - tile < TILE ? int(last - tile) : TILE), list, listed + turn);
    __syncthreads();
    const int count = listed[turn];
    if (threadIdx.x == 0) listed[turn ^ 1] = 0;
    int k = threadIdx.x / SHARING;
    long long next = tile + (k < count ? list[k] : 0);
    long long begin = k < count ? begin_of(indptr, next, stored) : 0;
    long long end = k < count ? begin_of(indptr, next + 1, stored) : 0;
    for (; __any_sync(ALL, k < count); k += GROUPS) {
      const A times = k < count ? value(x[next]) : A(0);
      Reading row{begin, end, (begin + estimate(end - begin, before)) / 4 * 4, begin < end, false, 0};
      const bool more = k + GROUPS < count;  // where the next row is, is asked for before this one is read
      next = tile + (more ? list[k + GROUPS] : 0);
      begin = more ? begin_of(indptr, next, stored) : 0;
      end = more ? begin_of(indptr, next + 1, stored) : 0;
      while (__any_sync(ALL, row.busy)) {
        Four<I> targets[ROUND];
        Four<W> each[ROUND];
        const bool whole = fourfold && row.busy && row.at >= row.begin && row.at + SPAN <= row.end;
        read(targets, each, indices, weights, row, lane, whole, I(columns));
        const I low = __shfl_sync(ALL, targets[0].at[0], 0, SHARING);
        const I high = __shfl_sync(ALL, targets[ROUND - 1].at[3], SHARING - 1, SHARING);
        if (!row.busy || sought(row, indices, first, low, high)) continue;
        add(sums, targets, each, weights, perm, row, lane, whole, first, past, times, held);
        row.at += SPAN;
        row.known = true;
        row.busy = row.at < row.end && high < past;
      }
    }
    __syncthreads();
  }
  wait_for_cluster();
  for (unsigned i = block * THREADS + threadIdx.x; i < here; i += CLUSTER * THREADS)
    out[left + i] = O(of_cluster(sums + i, weights));
  stay_for_cluster();
}
