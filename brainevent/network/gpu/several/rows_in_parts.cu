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

// A warp sorts the rows of a source in all blocks of a part, each by ranks of its synapses; what is none comes last.
extern "C" __global__ void __launch_bounds__(THREADS) sort_in_parts(const InParts of) {
    constexpr u32 LONGEST = 1024;
    __shared__ u32 words[THREADS / 32][LONGEST];
    const u64 all = (u64)of.sources * of.parts, warps = (u64)gridDim.x * (THREADS / 32);
    WARPS_DO(0, THREADS / 32)
        for (u64 k = (u64)blockIdx.x * (THREADS / 32) + warp; k < all; k += warps) {
            const u64 start = of.starts[k];
            const u32 quads = (u32)(start >> 32) & 0xFFF, n = quads * 4, part = (u32)(k % of.parts);
            if (!quads) continue;
            u32 block = 0;
            while (of.part_of[3 * block] != part) block += of.part_of[3 * block + 2];
            const u32 blocks = of.part_of[3 * block + 2];
            for (u32 b = 0; b < blocks; ++b) {
                u32* const row = of.synapses + ((u64)(u32)start + (u64)b * quads) * 4;
                LANES_DO
                    for (u32 j = lane; j < n; j += 32) words[warp][j] = row[j];
                LANES_END
                LANES_MEET;
                LANES_DO
                    for (u32 j = lane; j < n; j += 32) {
                        const u32 own = words[warp][j] - 1;
                        u32 rank = 0;
                        for (u32 m = 0; m < n; ++m) {
                            const u32 other = words[warp][m] - 1;
                            rank += other < own || (other == own && m < j);
                        }
                        row[rank] = own + 1;
                        if (rank == 0 && own + 1)  // all of these differ in ~ of the least delay alone
                            raise_for_all((u32*)(of.starts + k) + 1, quads | (0xFFF - ((own + 1) >> of.delay_shift)) << 12);
                    }
                LANES_END
                LANES_MEET;
            }
        }
    WARPS_END
}
