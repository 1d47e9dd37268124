// SPDX-License-Identifier: Apache-2.0
// A.T @ x within a loop on a GPU; this follows `walks.cu`. Whichever thread makes an element of x also reads it, so that
// threads need not wait for each other in between: a warp takes the active ones of its 32 rows.
// Thread t reads x[t] alone.

__global__ void scatter_own(const W* __restrict__ weights, const I* __restrict__ indices, const P* __restrict__ indptr,
                            const Q* __restrict__ perm, const E* __restrict__ x, A* out, long long rows,
                            long long stored, long long held, long long size) {
  const long long row = thread();
  add_active(weights, indices, indptr, perm, x, out, row < rows && counts(x[row]), row, stored, held, size, 0, 1,
             threadIdx.x % 32);
}
