// SPDX-License-Identifier: Apache-2.0
// Sort the synapses of projections into rows: those of a source neuron that end in one block, or all of them.
//
// First they are counted; then rows are measured and get their places; then each synapse is put into its row.

BE u32 read_unsigned(const void* at, u32 bytes, u64 k) {
    return bytes == 1 ? ((const unsigned char*)at)[k] : bytes == 2 ? ((const unsigned short*)at)[k] : ((const u32*)at)[k];
}

// ---- places of rows

extern "C" __global__ void __launch_bounds__(THREADS) measure_rows(const Laid of) {
    EACH_THREAD_DO
        u64 words = 0, quads = 0, outside = 0;
        for (u64 source = (u64)blockIdx.x * THREADS + tid; source < of.sources; source += (u64)gridDim.x * THREADS) {
            u32 most = 0;
            for (u32 block = 0; block < of.blocks; ++block) {
                const u32 n = of.used[source * of.blocks + block];
                most = n > most ? n : most;
                words += n * of.words;
                quads += (n * of.words + 3) / 4;
                if (n > of.inside) outside += n * of.words;
            }
            of.widths[source] = most;
        }
        add_for_all(of.totals, words);
        add_for_all(of.totals + 1, quads);
        add_for_all(of.totals + 2, outside);
    EACH_THREAD_END
}

BE u32 size_of(const Laid& of, u32 n) {
    if (of.layout == COMPACT) return (n * of.words + 3) / 4;
    return of.layout == SLOTS && n <= of.inside ? 0 : n * of.words;
}

// Those of a block follow each other; the slots of a source do, which all blocks read at the same time.
BE u64 slot_place(u32 blocks, u32 source, u32 block) { return (u64)source * blocks + block; }

BE void write_start(const Laid& of, u32 source, u32 block, u32 at, u32 n) {
    const u64 k = (u64)block * (of.sources + 1) + source;
    if (of.layout == SLOTS) ((u64*)of.starts)[slot_place(of.blocks, source, block)] = n <= of.inside ? 0 : ELSEWHERE | (u64)n << 32 | at;
    else if (of.start_bytes == 2) ((unsigned short*)of.starts)[k] = (unsigned short)at;
    else ((u32*)of.starts)[k] = at;
}

// A block of threads lays out the rows of one block of the network, each thread those of sources that follow each other.
extern "C" __global__ void __launch_bounds__(THREADS) lay_rows(const Laid of) {
    __shared__ u64 begins[THREADS];
    const u32 block = blockIdx.x, share = (of.sources + THREADS - 1) / THREADS;
    THREADS_DO
        u64 sum = 0;
        for (u32 source = tid * share; source < (tid + 1) * share && source < of.sources; ++source)
            sum += size_of(of, of.used[(u64)source * of.blocks + block]);
        begins[tid] = sum;
    THREADS_MEET
    THREADS_DO
        if (tid == 0) {
            u64 end = 0;
            for (u32 k = 0; k < THREADS; ++k) {
                const u64 size = begins[k];
                begins[k] = end;
                end += size;
            }
            of.ends[block] = end;
            if (of.starts && of.layout != SLOTS) write_start(of, of.sources, block, (u32)end, 0);
        }
    THREADS_MEET
    if (!of.starts) return;
    THREADS_DO
        u64 at = begins[tid];
        for (u32 source = tid * share; source < (tid + 1) * share && source < of.sources; ++source) {
            const u32 n = of.used[(u64)source * of.blocks + block];
            write_start(of, source, block, (u32)at, n);
            at += size_of(of, n);
        }
    EACH_THREAD_END
}

// ---- synapses into rows

BE u32 first_word(const Given& of, const Rows& to, u32 source, u32 block) {
    return read_unsigned(to.starts, to.start_bytes, (u64)block * (of.all_sources + 1) + source);
}

// Where synapse `at` of a row lies; nullptr if that is the slot itself, which it is put into.
BE u32* place_of(const Given& of, const Rows& to, u32 source, u32 block, u32 at, u32 entry) {
    const u32 words = of.wide ? 2 : 1;
    if (of.layout == PADDED) {
        const u32 row = to.rows[source];
        return to.synapses + ((u64)(row & 0xFFFFFFu) * of.blocks + (u64)block * (row >> 24)) * 8 + at * words;
    }
    #several if (of.layout == PARTED) {
    #several     const u32* const part = of.part_of + 3 * block;
    #several     const u64 start = ((const u64*)to.starts)[(u64)source * of.parts + part[0]];
    #several     return to.synapses + ((u64)(u32)start + (u64)(block - part[1]) * (start >> 32 & 0xFFF)) * 4 + at;
    #several }
    u32* const begin = to.synapses + to.bases[block] * (of.layout == COMPACT ? 4 : 1);
    if (of.layout != SLOTS)
        return begin + (u64)first_word(of, to, source, block) * (of.layout == COMPACT ? 4 : 1) + at * words;
    u64* const slot = (u64*)to.starts + slot_place(of.blocks, source, block);
    if (*(volatile u64*)slot & ELSEWHERE) return begin + (u32)*slot + at;
    or_for_all(slot, (u64)entry << at * to.slot_bits);
    return nullptr;
}

#several // The block of a target among those of this GPU, if it is one of them.
#several BE u32 block_of(const Given& of, u32 target) { return target % of.owners - of.first; }
#several BE bool is_here(const Given& of, u32 target) { return block_of(of, target) < of.here; }
#several // Whether a synapse is placed here: tables may have no number for the sources whose rows are elsewhere.
#several BE bool is_placed(const Given& of, u32 source, u32 target) { return source != NOBODY && is_here(of, target); }
#several // Whether spikes of a source are read later by the block of a target, since they are of another GPU or group.
#several BE bool is_read_later(const Given& of, u32 source, u32 target) {
#several     if (!is_here(of, source)) return true;
#several     return of.apart && of.part_of[3 * block_of(of, source)] != of.part_of[3 * block_of(of, target)];
#several }
// The numbers of neurons of a projection, among those of all populations.
#one BE u32 source_number(const Given& of, u32 k) { return of.source_begin + k; }
#one BE u32 target_number(const Given& of, u32 k) { return of.target_begin + k; }
#several BE u32 source_number(const Given& of, u32 k) { return of.source_numbers ? of.source_numbers[k] : of.source_begin + k; }
#several BE u32 target_number(const Given& of, u32 k) { return of.target_numbers ? of.target_numbers[k] : of.target_begin + k; }

// Count one more synapse of a source that ends in a block; return how many there were.
BE u32 count_synapse(const Given& of, const Rows& to, u32 source, u32 target) {
    #one return add_for_all(to.used + (u64)source * of.blocks + target % of.blocks, 1u);
    #several return add_for_all(to.used + (u64)source * of.blocks + block_of(of, target) % of.blocks, 1u);
}

// Put a synapse into its row: source and target are numbers of neurons.
BE void put_synapse(const Given& of, const Rows& to, u32 source, u32 target, int weight, u32 delay) {
    const u32 at = count_synapse(of, to, source, target);
    #one const u32 cell = of.reach + target / of.owners + target % of.owners * of.share;
    #several const u32 cell = of.reach + target / of.owners + block_of(of, target) * of.share;
    #several if (is_read_later(of, source, target)) delay -= of.extra;
    const u32 word = cell << of.cell_shift | delay << of.delay_shift;
    const u32 entry = of.wide ? word : word | ((u32)weight & of.weight_mask);
    #one u32* const row = place_of(of, to, source, target % of.blocks, at, entry);
    #several u32* const row = place_of(of, to, source, block_of(of, target) % of.blocks, at, entry);
    if (!row) return;
    row[0] = entry;
    if (of.wide) row[1] = (u32)weight;
}

// Write the key of a synapse that is plastic into its row: row of delays, place among the targets of the block, and turn
// in which it was drawn, of which the first is the most significant.
BE void put_key(const Given& of, const Rows& to, u32 source, u32 target, u32 delay, u32 turn) {
    #one const u32 block = target % of.blocks;
    #several const u32 block = block_of(of, target);
    const u32 first = (of.target_begin + of.owners - 1 - target % of.owners) / of.owners;
    const u64 at = to.bases[block] + first_word(of, to, source, block) + count_synapse(of, to, source, target);
    const u64 late = to.late ? to.late[delay] : 0;
    const u64 key = (late << to.place_bits | (target / of.owners - first)) << to.turn_bits | turn;
    if (to.key_bytes == 4) ((u32*)to.keys)[at] = (u32)key;
    else ((u64*)to.keys)[at] = key;
}

// Count a synapse or, where there is an array for them, put it or its key into its row.
BE void place(const Given& of, const Rows& to, u32 source, u64 k) {
    const u32 target = target_number(of, read_unsigned(of.targets, of.target_bytes, k));
    #several if (!is_placed(of, source, target)) return;
    if (!to.synapses && !to.keys) {
        count_synapse(of, to, source, target);
        return;
    }
    const u32 delay = of.delay_bytes ? read_unsigned(of.delays, of.delay_bytes, k) : of.delay;
    if (to.keys) {
        put_key(of, to, source, target, delay, (u32)(k - of.starts[source - of.source_begin]));
        return;
    }
    const int weight = of.weight_bytes == 0 ? of.weight
                     : of.weight_bytes == 2 ? ((const short*)of.weights)[k] : ((const int*)of.weights)[k];
    put_synapse(of, to, source, target, weight, delay);
}

// Count synapses, or, where there is an array for them, place them.
extern "C" __global__ void __launch_bounds__(THREADS) place_rows(const Given of, const Rows to) {
    for (u32 source = blockIdx.x; source < of.sources; source += gridDim.x) {
        THREADS_DO
            for (u64 k = of.starts[source] + tid; k < of.starts[source + 1]; k += THREADS)
                place(of, to, source_number(of, source), k);
        EACH_THREAD_END
    }
}
