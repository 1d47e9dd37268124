// SPDX-License-Identifier: Apache-2.0
// What counts in a product on a GPU, and as what. E and A are the types of elements of x and of sums. EVENTS: x holds
// events, which count as one. SILENT: it holds numbers, and those that are zero do not count.

__device__ __forceinline__ bool counts(E x) { return !(EVENTS || SILENT) || x != E(0); }
__device__ __forceinline__ A value(E x) { return EVENTS ? A(1) : A(x); }
