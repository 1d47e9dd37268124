// SPDX-License-Identifier: Apache-2.0
// The second kernel after `listing.cu`; this follows it and `clusters.cu`: clusters of blocks sum a part of the columns
// each, as in `sorted.cu`, but only of the rows in the list, which says where their parts begin.

static constexpr int MANY = 1024;            // threads of a block; blocks that have listed rows, at most
// Numbers take longer to add than counts, and more instructions, so a thread reads fewer at once.
static constexpr int SHARING = COUNT ? 4 : 8;        // threads that read a run together
static constexpr int GROUPS = 32 / SHARING;          // such groups of a warp
static constexpr int FOURS = COUNT ? 2 : 1;          // of a thread in a span
static constexpr int SPAN = 4 * FOURS * SHARING;     // elements of a run that are read at once
static constexpr int AHEAD = COUNT ? 2 : 1;          // spans that are read before one is added

// An entry of the list while it is read: no thread has waited for it yet.
struct Listed {
  unsigned low, high, from, to, row;
};

// Where something is among the stored elements; long numbers take more instructions.
using Offset = typename Choice<sizeof(P) == 4 && !CONNECTIONS, int, long long>::type;

// The elements of a row that are in a part: a number, from a place on. A thread takes four from its `nth` on, and others
// after those of its group; `nth` is below zero where they begin with elements of another part.
struct Run {
  Offset begin;
  int length, nth;
  A times;
};

struct Elements {
  Four<I> targets[FOURS];
  Four<W> each[FOURS];
};

// Write how many rows were listed before those of each block, and in the end by all.
__device__ __forceinline__ void sum_counts(int count, int* before) {
  __shared__ int of_warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int upto = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(ALL, upto, step);
    if (lane >= step) upto += other;
  }
  if (lane == 31) of_warps[warp] = upto;
  __syncthreads();
  upto += __reduce_add_sync(ALL, lane < warp ? of_warps[lane] : 0);
  before[threadIdx.x] = upto - count;
  if (threadIdx.x == MANY - 1) before[MANY] = upto;
  __syncthreads();
}

// Return the block that listed row k of all.
__device__ __forceinline__ int block_of(int k, const int* before) {
  int low = 0, high = MANY;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (before[middle] <= k)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class T>
__device__ __forceinline__ bool aligned(const T* array) {
  return reinterpret_cast<unsigned long long>(array) % alignof(Four<T>) == 0;
}

// Read four elements, or those of them that exist.
template <bool ALIGNED, class T>
__device__ __forceinline__ void read_four(Four<T>& elements, const T* from, int there) {
  if (ALIGNED && there == 4) {
    elements = *reinterpret_cast<const Four<T>*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (i < there) elements.at[i] = from[i];
  }
}

// Add four numbers to sums, each in its place, where `in` says so; a branch for each would be more instructions. A float
// is exchanged, until no other thread was faster.
__device__ __forceinline__ void add_where(Sum* sums, const unsigned* places, const A* numbers, const bool* in) {
  const unsigned base = in_block(sums);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const unsigned place = base + unsigned(sizeof(Sum)) * places[i];
    if constexpr (COUNT) {
      asm volatile("{\n.reg .pred in;\nsetp.ne.u32 in, %1, 0;\n@in red.shared.add.u32 [%0], 1;\n}"
                   :
                   : "r"(place), "r"(unsigned(in[i]))
                   : "memory");
    } else if constexpr (sizeof(Sum) == 4) {
      unsigned had, has;
      asm volatile("{\n.reg .pred in;\nsetp.ne.u32 in, %2, 0;\nmov.u32 %0, 0;\n@in ld.volatile.shared.u32 %0, [%1];\n}"
                   : "=r"(had)
                   : "r"(place), "r"(unsigned(in[i]))
                   : "memory");
      const auto exchange = [&](bool where) {
        asm volatile("{\n.reg .pred in;\nsetp.ne.u32 in, %2, 0;\nmov.u32 %0, %3;\n"
                     "@in atom.shared.cas.b32 %0, [%1], %3, %4;\n}"
                     : "=&r"(has)
                     : "r"(place), "r"(unsigned(where)), "r"(had),
                       "r"(__float_as_uint(__uint_as_float(had) + float(numbers[i])))
                     : "memory");
      };
      exchange(in[i]);
#pragma unroll 1
      while (has != had) {
        had = has;
        exchange(true);
      }
    } else {
      if (in[i]) atomicAdd(sums + places[i], Sum(numbers[i]));
    }
  }
}

// Add what this block's rows have in a part. ALIGNED: four elements can be read at once, of indices and of weights. The
// loop is short: one that is longer than what a multiprocessor keeps of a program waits for its instructions. Weights and
// indices are not __restrict__: else they are read another way, and later.
template <bool ALIGNED>
__device__ __forceinline__ void sum_runs(Sum* sums, const W* weights, const I* indices, const Q* __restrict__ perm,
                                         const E* __restrict__ x, const unsigned* __restrict__ listed, const int* before,
                                         long long stored, long long held, int part, int block, I first,
                                         unsigned here) {
  const int lane = threadIdx.x % SHARING, group = threadIdx.x % 32 / SHARING;
  const long long warp = block * (MANY / 32) + threadIdx.x / 32, warps = CLUSTER * (MANY / 32);
  const unsigned earlier = (1u << group * SHARING) - 1;  // threads of groups before this one
  const int last = before[MANY] * (warp + 1) / warps;    // a warp has rows side by side in the list
  int taken = before[MANY] * warp / warps;               // rows before this one are given to groups
  int of = block_of(taken, before);
  const Offset all = sizeof(Offset) == 4 && stored > 0x7fffffff ? 0x7fffffff : Offset(stored);
  const auto look_up = [&](int k) -> Listed {
    if (k >= last) return {0, 0, 0, 0, 0};
    while (k >= before[of + 1]) of++;
    const unsigned* slot = listed + (of * (long long)LIST + k - before[of]);
    const unsigned high = sizeof(Offset) == 4 ? 0 : slot[HIGH * ROWS], row = EVENTS ? 0 : slot[ROW * ROWS];
    return {slot[LOW * ROWS], high, slot[(FIRST + part) * ROWS], slot[(FIRST + part + 1) * ROWS], row};
  };
  const auto run_of = [&](const Listed& its) -> Run {
    const Offset begin = Offset(its.low | (unsigned long long)its.high << 32) + Offset(its.from);
    return {begin, int(its.to - its.from), lane * 4 - int(begin % 4), EVENTS ? A(1) : value(x[its.row])};
  };
  const auto read = [&](Elements& elements, const Run& run) {
#pragma unroll
    for (int f = 0; f < FOURS; f++) {
      const int nth = run.nth + f * 4 * SHARING;
      const Offset j = run.begin + nth, left = all - j;
      const int there = nth >= run.length ? 0 : left < 4 ? int(left) : 4;
      read_four<ALIGNED>(elements.targets[f], indices + j, there);
      if constexpr (!ONE && !INDEXED) read_four<ALIGNED>(elements.each[f], weights + j, there);
    }
  };
  bool has = taken + group < last, more = taken + GROUPS + group < last;  // a run, and another one
  Run run = run_of(look_up(taken + group));
  Listed next = look_up(taken + GROUPS + group);
  taken += 2 * GROUPS;
  const auto advance = [&]() {
    run.nth += SPAN;
    const bool ends = run.nth - lane * 4 >= run.length;
    const unsigned ended = __ballot_sync(ALL, ends);
    const int mine = taken + __popc(ended & earlier) / SHARING;
    taken += __popc(ended) / SHARING;
    if (!ends) return;
    has = more;
    run = run_of(next);
    more = mine < last;
    next = look_up(mine);  // long before it is wanted
  };
  Run its[AHEAD] = {};  // nothing at first
  Elements elements[AHEAD];
  if constexpr (AHEAD == 1) {  // to read several here would be to wait for each
    its[0] = run;
    read(elements[0], run);
    advance();
  }
#pragma unroll 1
  while (true) {
    bool busy = has;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) busy |= its[i].length > 0;
    if (!__any_sync(ALL, busy)) break;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      unsigned places[FOURS][4];
      A numbers[FOURS][4];
      bool in[FOURS][4];
      const A times = EVENTS ? A(1) : its[i].times;
#pragma unroll
      for (int f = 0; f < FOURS; f++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const int nth = its[i].nth + f * 4 * SHARING + n;
          const Place place = Place(elements[i].targets[f].at[n]) - Place(first);
          in[f][n] = unsigned(nth) < unsigned(its[i].length) && place < here;
          places[f][n] = unsigned(place);
          if constexpr (INDEXED && !ONE)
            numbers[f][n] = in[f][n] ? A(weights[nearest(perm[its[i].begin + nth], held - 1)]) * times : A(0);
          else if constexpr (!COUNT)
            numbers[f][n] = A(ONE ? weights[0] : elements[i].each[f].at[n]) * times;
        }
      its[i] = run;
      read(elements[i], run);
      advance();
#pragma unroll
      for (int f = 0; f < FOURS; f++) add_where(sums, places[f], numbers[f], in[f]);
    }
  }
}

// Add the rows in the list to the result.
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(MANY, 1)
    sum_listed(const W* weights, const I* indices, const Q* __restrict__ perm, const E* __restrict__ x,
               const int* __restrict__ counted, const unsigned* __restrict__ listed, const A* begun, A* out,
               long long stored, long long held, long long columns, int blocks, int width) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int before[MANY + 1];
  const int count = threadIdx.x < blocks ? counted[threadIdx.x] : 0;
  Sum* sums = reinterpret_cast<Sum*>(memory);
  if (!__syncthreads_or(count)) return;
  for (unsigned i = threadIdx.x; i < (width * sizeof(Sum) + 15) / 16; i += MANY)
    reinterpret_cast<uint4*>(memory)[i] = {};
  const int block = blockIdx.x % CLUSTER, part = blockIdx.x / CLUSTER;
  const long long left = part * (long long)width;
  const unsigned here = left + width < columns ? width : columns - left;
  sum_counts(count, before);
  if (aligned(indices) && (ONE || INDEXED || aligned(weights)))  // not all arrays within a batch
    sum_runs<true>(sums, weights, indices, perm, x, listed, before, stored, held, part, block, I(left), here);
  else
    sum_runs<false>(sums, weights, indices, perm, x, listed, before, stored, held, part, block, I(left), here);
  wait_for_cluster();
#pragma unroll 4
  for (unsigned i = block * MANY + threadIdx.x; i < here; i += CLUSTER * MANY)
    out[left + i] = begun[left + i] + of_cluster(sums + i, weights);
  stay_for_cluster();
}
