// SPDX-License-Identifier: Apache-2.0
// What comes before `listed.cu`, and follows `kernels.cu`: a block looks at EACH rows for each of its threads. The rows
// that count it adds to the result, if they are few. Else it lists them, and where each of PARTS parts of the columns
// begins in them: then blocks can sum a part in memory of their own without looking at all rows themselves.

static constexpr int THREADS = 512, WARPS = THREADS / 32, ROWS = EACH * THREADS;
static constexpr int STAGE = 2048 / sizeof(I);        // elements of a row that a warp searches at once
static constexpr int LOOKUPS = PARTS < 2 ? 1 : (PARTS + 30) / 32;  // of a thread: the first part begins with the row
static constexpr long long LONGEST = 0x7fffffff - STAGE;

// Of a row in the list, by planes of as many numbers as there are slots for rows. From FIRST on: where each part begins in
// it, and where the last one ends.
enum Plane { LOW, HIGH, ROW, FIRST };  // LOW and HIGH are the halves of where the row begins

// Return how many of STAGE elements, which ascend, are below a column.
__device__ __forceinline__ int below(const I* elements, I column) {
  int found = 0;
#pragma unroll
  for (int step = STAGE / 2; step; step /= 2)
    if (elements[found + step - 1] < column) found += step;
  return found + (elements[found] < column);
}

// Write where each part but the first begins in a row, counted from the row's own begin, and where the row ends. A row
// that is not sorted as promised gives other numbers, which still ascend.
__device__ __forceinline__ void find_parts(const I* __restrict__ indices, long long begin, long long end,
                                           long long stored, int width, I* stage, unsigned (*found)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = begin % 4;  // elements of other rows
  const int size = int(end - begin) + before;
  int places[LOOKUPS] = {};
  for (int at = 0; at < size; at += STAGE) {
#pragma unroll
    for (int u = 0; u < STAGE; u += 128) {
      const long long j = begin - before + at + u + lane * 4;
      Four<I> targets;
      if (j < end && j + 4 <= stored) targets = four(indices + j);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (j + 4 > stored && j + i < end) targets.at[i] = indices[j + i];
        if (j + i < begin) targets.at[i] = I(-1);
        if (j + i >= end) targets.at[i] = I(1) << (8 * sizeof(I) - 2);
      }
      *reinterpret_cast<Four<I>*>(stage + u + lane * 4) = targets;
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < LOOKUPS; k++)
      if (k * 32 + lane < PARTS - 1) places[k] += below(stage, I((k * 32 + lane + 1) * (long long)width));
    __syncwarp();
  }
#pragma unroll
  for (int k = 0; k < LOOKUPS; k++)
    if (k * 32 + lane < PARTS - 1) found[k * 32 + lane + 1][warp] = max(places[k] - before, 0);
  if (lane == 0) found[PARTS][warp] = size - before;
}

// Begin A.T @ x. The list is `counts`, the rows of each block, and `listed`: a block has ROWS slots in each plane.
__global__ void __launch_bounds__(THREADS, 3)
    scatter_or_list(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                    const Q* __restrict__ perm, const E* __restrict__ x, A* out, int* __restrict__ counted,
                    unsigned* __restrict__ listed, long long rows, long long stored, long long held, long long size,
                    int slices, int enough, int width) {
  __shared__ unsigned short active[ROWS];
  __shared__ alignas(16) I stages[WARPS][STAGE];
  __shared__ unsigned found[PARTS + 1][WARPS];
  __shared__ int total;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long first = blockIdx.x * (long long)ROWS, slots = gridDim.x * (long long)ROWS;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const int row = i * THREADS + threadIdx.x;
    const bool mine = first + row < rows && counts(x[first + row]);
    const unsigned votes = __ballot_sync(ALL, mine);
    if (!votes) continue;
    int at = lane == 0 ? atomicAdd(&total, __popc(votes)) : 0;
    at = __shfl_sync(ALL, at, 0) + __popc(votes & ((1u << lane) - 1));
    if (mine) active[at] = row;
  }
  __syncthreads();
  const int count = total;
  if (threadIdx.x == 0) counted[blockIdx.x] = count < enough ? 0 : count;
  const auto add_row = [&](long long row, int slice, int slices) {
    const A times = value(x[row]);
    each_of_row(weights, indices, perm, begin_of(indptr, row, stored), begin_of(indptr, row + 1, stored), held, slice,
                slices, lane, [=](I target, A w) {
                  if (within(target, size)) atomicAdd(out + target, w * times);
                });
  };
  if (count < enough) {
    for (int k = warp; k < count * slices; k += WARPS) add_row(first + active[k / slices], k % slices, slices);
    return;
  }
  for (int k = 0; k < count; k += WARPS) {  // a row for each warp
    if (k + warp < count) {
      const long long row = first + active[k + warp], slot = first + k + warp;
      const long long begin = begin_of(indptr, row, stored), end = begin_of(indptr, row + 1, stored);
      const bool too_long = end - begin > LONGEST;
      find_parts(indices, begin, too_long || end < begin ? begin : end, stored, width, stages[warp], found);
      if (too_long) add_row(row, 0, 1);
      if (lane == 0) {
        listed[LOW * slots + slot] = unsigned(begin);
        listed[HIGH * slots + slot] = unsigned(begin >> 32);
        listed[ROW * slots + slot] = unsigned(row);
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < (PARTS + 1) * WARPS; i += THREADS) {
      const int part = i / WARPS, other = i % WARPS;
      if (k + other < count) listed[(FIRST + part) * slots + first + k + other] = part ? found[part][other] : 0;
    }
    __syncthreads();
  }
}
