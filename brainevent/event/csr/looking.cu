// SPDX-License-Identifier: Apache-2.0
// How active rows are found, several at once; this follows `walks.cu`.

static constexpr int SOME = 16 / sizeof(E);  // elements of x that are read at once

struct alignas(16) Some {
  E at[SOME];
};

template <class>
static constexpr bool TRUTH = false;
template <>
constexpr bool TRUTH<bool> = true;

// Say which of these elements count, by a bit for each. Of four truth values, whatever their bytes are if not 0, a
// product has a bit each side by side.
__device__ __forceinline__ unsigned which_count(const Some& some) {
  unsigned bits = 0;
  if constexpr (EVENTS && TRUTH<E>) {
    const unsigned* words = reinterpret_cast<const unsigned*>(&some);
#pragma unroll
    for (int i = 0; i < SOME / 4; i++) {
      unsigned word = words[i] | words[i] >> 4;
      word |= word >> 2;
      word = (word | word >> 1) & 0x01010101u;
      bits |= (word * 0x10204080u >> 28) << (4 * i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < SOME; i++) bits |= unsigned(counts(some.at[i])) << i;
  }
  return bits;
}

// Say so of SOME rows from a multiple of SOME on, if they exist. `at_once`: they can be read together.
template <class Row>
__device__ __forceinline__ unsigned which_count(const E* __restrict__ x, Row row, Row rows, bool at_once) {
  if (at_once && row + SOME <= rows) return which_count(*reinterpret_cast<const Some*>(x + row));
  unsigned bits = 0;
#pragma unroll 4
  for (int i = 0; i < SOME; i++)
    if (row + i < rows && counts(x[row + i])) bits |= 1u << i;
  return bits;
}

__device__ __forceinline__ bool readable_at_once(const E* x) {
  return reinterpret_cast<unsigned long long>(x) % alignof(Some) == 0;  // not each x within a batch
}
