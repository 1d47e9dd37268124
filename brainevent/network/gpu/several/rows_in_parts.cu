// SPDX-License-Identifier: Apache-2.0
// Rows of parts: as long for all blocks of a part, in the order of delays.

// How many quads the rows of a source have in the blocks of each part.
extern "C" __global__ void __launch_bounds__(THREADS) measure_in_parts(const InParts of) {
    EACH_THREAD_DO
        u32 widest = 0;
        for (u64 source = (u64)blockIdx.x * THREADS + tid; source < of.sources; source += (u64)gridDim.x * THREADS) {
            u64 all = 0;
            for (u32 part = 0, block = 0; part < of.parts; ++part) {
                const u32 blocks = of.part_of[3 * block + 2], end = block + blocks;
                u32 most = 0;
                for (; block < end; ++block) {
                    const u32 n = of.used[source * of.blocks + block];
                    most = n > most ? n : most;
                }
                const u32 quads = (most + 3) / 4;
                widest = quads > widest ? quads : widest;
                all += (u64)quads * blocks;
                of.starts[source * of.parts + part] = (u64)quads << 32;
            }
            of.ends[source] = all;
        }
        raise_for_all(of.widest, widest);
    EACH_THREAD_END
}

extern "C" __global__ void __launch_bounds__(THREADS) begin_in_parts(const InParts of) {
    EACH_THREAD_DO
        for (u64 source = (u64)blockIdx.x * THREADS + tid; source < of.sources; source += (u64)gridDim.x * THREADS) {
            u64 base = of.ends[source];
            for (u32 part = 0, block = 0; part < of.parts; ++part) {
                const u32 blocks = of.part_of[3 * block + 2];
                u64* const start = of.starts + source * of.parts + part;
                const u64 quads = *start >> 32;
                *start |= base;
                base += quads * blocks;
                block += blocks;
            }
        }
    EACH_THREAD_END
}

// A warp sorts the rows of a source in all blocks of a part by their delays, each by counts of these; what is none comes last.
// The longer the longest row is, the fewer warps of a block have room for one.
extern "C" __global__ void __launch_bounds__(THREADS) sort_in_parts(const InParts of) {
    constexpr u32 WARPS = THREADS / 32, WORDS = WARPS * 1408;
    __shared__ u32 all_words[WORDS];
    const u32 longest = 4 * (*of.widest ? *of.widest : 1), own = longest + of.delays;
    const u32 fit = WORDS / own, sorting = fit < WARPS ? fit : WARPS;
    const u64 all = (u64)of.sources * of.parts, step = (u64)gridDim.x * sorting;
    WARPS_DO(0, sorting)
        u32* const words = all_words + warp * own;
        u32* const places = words + longest;  // of the next synapse with each delay
        OfLane<u32> number, ends;
        for (u64 k = (u64)blockIdx.x * sorting + warp; k < all; k += step) {
            const u64 start = of.starts[k];
            const u32 quads = (u32)(start >> 32) & 0xFFF, n = quads * 4, part = (u32)(k % of.parts);
            if (!quads) continue;
            u32 block = 0;
            while (of.part_of[3 * block] != part) block += of.part_of[3 * block + 2];
            const u32 blocks = of.part_of[3 * block + 2];
            for (u32 b = 0; b < blocks; ++b) {
                u32* const row = of.synapses + ((u64)(u32)start + (u64)b * quads) * 4;
                LANES_DO
                    for (u32 delay = lane; delay < of.delays; delay += 32) places[delay] = 0;
                LANES_END
                LANES_MEET;
                LANES_DO
                    for (u32 j = lane; j < n; j += 32)
                        if ((words[j] = row[j])) next_in_block(places + (words[j] >> of.delay_shift));
                LANES_END
                LANES_MEET;
                u32 before = 0;
                for (u32 first = 0; first < of.delays; first += 32) {
                    LANES_DO
                        number[lane] = first + lane < of.delays ? places[first + lane] : 0;
                    LANES_END
                    const u32 sum = sums_up_to(number, ends);
                    LANES_DO
                        if (first + lane < of.delays) places[first + lane] = before + ends[lane] - number[lane];
                        if (number[lane] && before + ends[lane] == number[lane])  // all of these differ in ~ of the least delay alone
                            raise_for_all((u32*)(of.starts + k) + 1, quads | (0xFFF - (first + lane)) << 12);
                    LANES_END
                    before += sum;
                }
                LANES_MEET;
                LANES_DO
                    for (u32 j = lane; j < n; j += 32)
                        if (words[j]) row[next_in_block(places + (words[j] >> of.delay_shift))] = words[j];
                    for (u32 j = before + lane; j < n; j += 32) row[j] = 0;
                LANES_END
                LANES_MEET;
            }
        }
    WARPS_END
}
