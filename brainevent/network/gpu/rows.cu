// SPDX-License-Identifier: Apache-2.0
// Sort the synapses of one projection into rows: those of a source neuron that end in one block.

struct Given {  // synapses by source neuron, as a plan has them
    u32 sources, source_begin, target_begin, blocks, all_sources, layout, wide, cell_shift, delay_shift, reach;
    u32 target_bytes, weight_bytes, delay_bytes;  // 0: one for all
    int weight;
    u32 delay, weight_mask;
    const u64* starts;
    const void *targets, *weights, *delays;
};

struct Rows {
    u32* used;  // how many synapses of a source end in a block: sources x blocks
    const u32 *rows, *starts;  // as kernels of steps have them, rows by number of the source
    const u64* bases;
    u32* synapses;
};

BE u32 read_unsigned(const void* at, u32 bytes, u64 k) {
    return bytes == 1 ? ((const unsigned char*)at)[k] : bytes == 2 ? ((const unsigned short*)at)[k] : ((const u32*)at)[k];
}

BE u64 first_word(const Given& of, const Rows& to, u32 source, u32 block) {
    if (of.layout == PADDED) {
        const u32 row = to.rows[source];
        return ((u64)(row & 0xFFFFFFu) * of.blocks + (u64)block * (row >> 24)) * 8;
    }
    const u64 at = to.bases[block] + to.starts[(u64)block * (of.all_sources + 1) + source];
    return of.layout == SHORT ? at : at * 4;
}

BE void place(const Given& of, const Rows& to, u32 source, u64 k) {
    const u32 number = of.target_begin + read_unsigned(of.targets, of.target_bytes, k), block = number % of.blocks;
    const u32 at = add_for_all(to.used + (u64)source * of.blocks + block, 1u);
    if (!to.synapses) return;
    const int weight = of.weight_bytes == 0 ? of.weight
                     : of.weight_bytes == 2 ? ((const short*)of.weights)[k] : ((const int*)of.weights)[k];
    const u32 delay = of.delay_bytes ? read_unsigned(of.delays, of.delay_bytes, k) : of.delay;
    const u32 word = (of.reach + number / of.blocks) << of.cell_shift | delay << of.delay_shift;
    u32* row = to.synapses + first_word(of, to, source, block);
    if (of.wide) {
        row[2 * at] = word;
        row[2 * at + 1] = (u32)weight;
    } else row[at] = word | ((u32)weight & of.weight_mask);
}

// Count synapses, or, where there is an array for them, place them.
extern "C" __global__ void __launch_bounds__(THREADS) place_rows(const Given of, const Rows to) {
    for (u32 source = blockIdx.x; source < of.sources; source += gridDim.x) {
        THREADS_DO
            for (u64 k = of.starts[source] + tid; k < of.starts[source + 1]; k += THREADS)
                place(of, to, of.source_begin + source, k);
        EACH_THREAD_END
    }
}
