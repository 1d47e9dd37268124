// SPDX-License-Identifier: Apache-2.0
// The kernel before `listed.cu`; this follows `looking.cu`: a block tests EACH rows for each of its threads. If few rows are
// active, it adds them to the result. Else it lists them, and where each of PARTS parts of the columns begins in them: then
// blocks can sum a part in their own memory without testing all rows. NEIGHBOURS: adjacent blocks that all test the rows of
// all of them, to find out whether few are active, as the number of one block may be by chance.

static constexpr int THREADS = 512, WARPS = THREADS / 32, ROWS = EACH * THREADS;
static constexpr int PER = 16 / sizeof(I);                         // elements of a row that a thread asks for at once
static constexpr int STAGE = 256 * PER;                            // elements of a row that a warp searches at once
static constexpr int LOOKUPS = PARTS < 2 ? 1 : (PARTS + 30) / 32;  // of a thread: the first part begins with the row
static constexpr int KNOWN = 128;                                  // rows whose bounds are asked for together
static constexpr long long LONGEST = 0x7fffffff - 2 * STAGE;

// Of a row in a block's list, by planes of ROWS numbers. From FIRST on: where each part begins in it, and where the
// last one ends.
enum Plane { LOW, HIGH, ROW, FIRST };  // LOW and HIGH are the halves of where the row begins
static constexpr int LIST = (FIRST + PARTS + 1) * ROWS;  // numbers

// Return how many of the first `here` elements, which ascend, are below a column.
__device__ __forceinline__ int below(const I* elements, int here, I column) {
  int found = 0;
#pragma unroll
  for (int step = STAGE / 2; step; step /= 2)
    if (found + step <= here && elements[found + step - 1] < column) found += step;
  return found + (found < here && elements[found] < column);
}

// Return where something is in the block's memory.
__device__ __forceinline__ unsigned in_block(const void* there) { return unsigned(__cvta_generic_to_shared(there)); }

// Copy elements to the block's memory, at most STAGE of them, at once for a warp.
__device__ __forceinline__ void copy(const I* __restrict__ from, int count, I* stage) {
  const int lane = threadIdx.x % 32;
  if (reinterpret_cast<unsigned long long>(from) % 16 == 0) {  // not each array within a batch
#pragma unroll
    for (int i = lane * PER; i < STAGE; i += 32 * PER) {
      const int bytes = min(16, (count - i) * int(sizeof(I)));
      if (bytes > 0)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(in_block(stage + i)), "l"(from + i), "r"(bytes)
                     : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    for (int i = lane; i < count; i += 32) stage[i] = from[i];
  }
  __syncwarp();
}

// Write where each part but the first begins in a row, counted from the row's own begin, and where the row ends. A row
// that is not sorted as promised gives other numbers, which still ascend.
__device__ __forceinline__ void find_parts(const I* __restrict__ indices, long long begin, long long end, int width,
                                           I* stage, unsigned (*found)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = begin % PER;  // elements of other rows
  const int size = int(end - begin) + before;
  int places[LOOKUPS] = {};
  for (int at = 0; at < size; at += STAGE) {
    const int here = min(size - at, STAGE);
    copy(indices + (begin - before) + at, here, stage);
    if (at == 0) {
      if (lane < before) stage[lane] = I(-1);
      __syncwarp();
    }
#pragma unroll
    for (int k = 0; k < LOOKUPS; k++)
      if (k * 32 + lane < PARTS - 1) places[k] += below(stage, here, I((k * 32 + lane + 1) * (long long)width));
    __syncwarp();
  }
#pragma unroll
  for (int k = 0; k < LOOKUPS; k++)
    if (k * 32 + lane < PARTS - 1) found[k * 32 + lane + 1][warp] = max(places[k] - before, 0);
  if (lane == 0) found[PARTS][warp] = size - before;
}

struct Bounds {
  long long begin, end;
};

// List the rows of this block that count; return how many of the neighbours' do.
__device__ __forceinline__ int look(const E* __restrict__ x, long long rows, unsigned short* active, int* total) {
  __shared__ int all;
  const int nth = blockIdx.x % NEIGHBOURS;
  const long long first = (blockIdx.x - nth) * (long long)ROWS;
  const int there = rows - first < NEIGHBOURS * ROWS ? int(rows - first) : NEIGHBOURS * ROWS;
  const bool at_once = readable_at_once(x + first);
  if (threadIdx.x == 0) *total = all = 0;
  __syncthreads();
  int near = 0;
#pragma unroll
  for (int k = 0; k < NEIGHBOURS * ROWS; k += THREADS * SOME) {
    const int row = k + threadIdx.x * SOME;
    if (row >= there) break;
    unsigned mine = which_count(x + first, row, there, at_once);
    near += __popc(mine);
    if (row / ROWS != nth || !mine) continue;
    for (int at = atomicAdd(total, __popc(mine)); mine; mine &= mine - 1) active[at++] = row % ROWS + __ffs(mine) - 1;
  }
  near = __reduce_add_sync(ALL, near);
  if (threadIdx.x % 32 == 0 && near) atomicAdd(&all, near);
  __syncthreads();
  return all;
}

// Begin A.T @ x. The list is `counts`, the rows of each block, and `listed`.
__global__ void __launch_bounds__(THREADS, 3)
    scatter_or_list(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                    const Q* __restrict__ perm, const E* __restrict__ x, A* out, int* __restrict__ counted,
                    unsigned* __restrict__ listed, long long rows, long long stored, long long held, long long size,
                    int slices, int enough, int width) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ unsigned short active[ROWS];
  __shared__ unsigned found[PARTS + 1][WARPS];
  __shared__ Bounds known[KNOWN];
  __shared__ int total;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long first = blockIdx.x * (long long)ROWS;
  const bool few = look(x, rows, active, &total) < enough;
  const int count = total;
  if (threadIdx.x == 0) counted[blockIdx.x] = few ? 0 : count;
  const auto bounds_of = [&](int k) -> Bounds {
    const long long row = first + active[k];
    return {begin_of(indptr, row, stored), begin_of(indptr, row + 1, stored)};
  };
  for (int k = threadIdx.x; k < min(count, KNOWN); k += THREADS) known[k] = bounds_of(k);
  __syncthreads();
  const auto add_row = [&](int k, int slice, int slices) {
    const A times = value(x[EVENTS ? 0 : first + active[k]]);
    const Bounds its = k < KNOWN ? known[k] : bounds_of(k);
    each_of_row(weights, indices, perm, its.begin, its.end, held, slice, slices, lane, [=](I target, A w) {
      if (within(target, size)) atomicAdd(out + target, w * times);
    });
  };
  if (few) {
    for (int k = warp; k < count * slices; k += WARPS) add_row(k / slices, k % slices, slices);
    return;
  }
  I* stage = reinterpret_cast<I*>(memory) + warp * STAGE;
  listed += blockIdx.x * (long long)LIST;
  for (int k = 0; k < count; k += WARPS) {  // a row for each warp
    if (k + warp < count) {
      const Bounds its = k + warp < KNOWN ? known[k + warp] : bounds_of(k + warp);
      const bool too_long = its.end - its.begin > LONGEST;
      find_parts(indices, its.begin, too_long || its.end < its.begin ? its.begin : its.end, width, stage, found);
      if (too_long) add_row(k + warp, 0, 1);
      if (lane == 0) {
        listed[LOW * ROWS + k + warp] = unsigned(its.begin);
        listed[HIGH * ROWS + k + warp] = unsigned(its.begin >> 32);
        listed[ROW * ROWS + k + warp] = unsigned(first + active[k + warp]);
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < (PARTS + 1) * WARPS; i += THREADS) {
      const int part = i / WARPS, other = i % WARPS;
      if (k + other < count) listed[(FIRST + part) * ROWS + k + other] = part ? found[part][other] : 0;
    }
    __syncthreads();
  }
}
