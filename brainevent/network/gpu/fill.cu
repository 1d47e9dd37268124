// SPDX-License-Identifier: Apache-2.0
// Write the words of a table: addresses in memory are known when a program runs, and come as parameters of a launch.

extern "C" __global__ void __launch_bounds__(THREADS) fill(const Piece piece) {
    EACH_THREAD_DO
        if (tid < piece.count) piece.to[tid] = piece.words[tid];
    EACH_THREAD_END
}
