// SPDX-License-Identifier: Apache-2.0
// What kernels share in which a cluster of CLUSTER blocks sums a part of the columns, each block in its own memory; this
// follows `walks.cu`.

template <bool, class X, class>
struct Choice {
  using type = X;
};
template <class X, class Y>
struct Choice<false, X, Y> {
  using type = Y;
};

static constexpr bool COUNT = EVENTS && ONE;  // an integer is added in one step, a float in several
using Sum = typename Choice<COUNT, unsigned, A>::type;
using Place = typename Choice<sizeof(I) == 8, unsigned long long, unsigned>::type;

__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Wait until no block of the cluster reads what this one has, without waiting for what it wrote.
__device__ __forceinline__ void stay_for_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Return what another block of the cluster has in the same place of its memory.
__device__ __forceinline__ Sum of_block(const Sum* place, int block) {
  unsigned here = unsigned(__cvta_generic_to_shared(place)), there;
  alignas(Sum) unsigned words[sizeof(Sum) / 4];
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
#pragma unroll
  for (unsigned i = 0; i < sizeof(Sum) / 4; i++)
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(words[i]) : "r"(there + 4 * i) : "memory");
  return *reinterpret_cast<Sum*>(words);
}

// Return what the blocks of the cluster have in a place of their memory, all together.
__device__ __forceinline__ A of_cluster(const Sum* place, const W* __restrict__ weights) {
  Sum total = 0;
#pragma unroll
  for (int block = 0; block < CLUSTER; block++) total += of_block(place, block);
  if constexpr (COUNT) return total ? A(total) * A(weights[0]) : A(0);  // without events, a weight that is NaN is ignored
  return A(total);
}
