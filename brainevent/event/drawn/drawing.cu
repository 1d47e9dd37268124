// SPDX-License-Identifier: Apache-2.0
// What is drawn, on a GPU: the same bits as in `numbers.py`, which says what all this is. W and A are the types of weights
// and of sums. KIND: one weight (0), weights of a uniform (1) or of a normal distribution (2).

typedef unsigned long long u64;
typedef unsigned u32;

constexpr u64 STEP = 0x9E3779B97F4A7C15ull;

__device__ __forceinline__ u64 hashed(u64 x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

struct Plan {
  u64 key, origin;
  u32 scale, shift, width, row;
  const uint2* logarithms;
};

__device__ __forceinline__ Plan plan_of(const u32* plan, const void* logarithms) {
  const u64 key = plan[3] | (u64)plan[4] << 32, origin = plan[6] & 0x7FFFFFFFu;
  return {key, origin, plan[0], plan[1] & 63, plan[2] & 31, plan[5], (const uint2*)logarithms};
}

// In 32 bits: segments of up to 2^25 columns. As a segment has 32 elements or more on average, a gap is at most 0.7 of it
// (22.2 times the mean), and the gaps of 64 elements have a sum.
constexpr u32 NARROW = 25;

constexpr u64 FAR = 1ull << 31;

__device__ __forceinline__ u64 line_of(const Plan& plan, u64 row) { return hashed(plan.key + (u32)(row + plan.row)); }

// How many columns are passed over, or what leaves a segment.
template <class N>
__device__ __forceinline__ N gap(const Plan& plan, u32 word) {
  word |= 1;
  const u32 zeros = __clz(word), whole = word << zeros;
  const uint2 cell = plan.logarithms[whole >> (31 - CELLS) & ((1u << CELLS) - 1)];
  const u32 behind = cell.x + __umulhi(cell.y, whole << (CELLS + 1));
  const u32 size = ((zeros + 1) << FRACTION) - behind;
  const u64 found = (u64)size * plan.scale >> plan.shift;
  return sizeof(N) == 4 || found < FAR ? N(found) : N(FAR);
}

__device__ __forceinline__ int weight_word(const int* quantiles, u32 word) {
  if (KIND == 1) return word >> 8;
  const u32 above = word >> 1 | 1, zeros = __clz(above), whole = above << zeros;
  const int* cell =
      quantiles + 3 * ((zeros - 1) << NORMAL_CELLS | (whole >> (31 - NORMAL_CELLS) & ((1u << NORMAL_CELLS) - 1)));
  const int at = (whole << (NORMAL_CELLS + 1)) >> 17;
  const int size = cell[0] + ((cell[1] + (cell[2] * at >> 15)) * at >> 15);
  return word & 1 ? -size : size;
}

// The products are exact, so it does not matter whether they are rounded before they are added.
__device__ __forceinline__ A weight_of(const A* parts, const int* quantiles, u32 word) {
  if constexpr (KIND == 0) return A(W(parts[0]));
  const int drawn = weight_word(quantiles, word);
  const A first = A(drawn & -4096), last = A(drawn & 4095);
  return A(W(parts[0] + (parts[1] * first + (parts[2] * first + parts[1] * last))));
}
