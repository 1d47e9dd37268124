// SPDX-License-Identifier: Apache-2.0
// Kernels within a loop: their warps, one after the other, are run by those of the loop; and where threads of a block meet,
// blocks by its blocks. What they know as their threads and blocks follows from the number of the warp; each begins a new
// warp in each of its blocks, of X * Y * Z threads.

struct Extents { unsigned x, y, z; };
struct alignas(16) Sixteen { unsigned char bytes[16]; };  // of memory that threads of a block share
struct Address {  // of an array, as a pointer to whatever a kernel takes
    const void* at;
    template <class T> LOOP_MEMBER operator T*() const { return (T*)at; }
};

template <unsigned X, unsigned Y, unsigned Z> BE unsigned linear_thread() {
    return WARP_WITHIN % ((X * Y * Z + 31) / 32) * 32 + threadIdx.x % 32;
}
template <unsigned X, unsigned Y, unsigned Z> BE Extents thread_within() {
    const unsigned t = linear_thread<X, Y, Z>();
    return {t % X, t / X % Y, t / (X * Y)};
}
template <unsigned PER, unsigned X, unsigned Y> BE Extents block_within() {
    const unsigned b = WARP_WITHIN / ((PER + 31) / 32);
    return {b % X, b / X % Y, b / (X * Y)};
}
#undef BE
