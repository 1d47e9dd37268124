// SPDX-License-Identifier: Apache-2.0
// Lay out plastic synapses, and bring them into the order of a state and back.
//
// Rows of "rows.cu" hold keys: row of delays, place of the target in its block, turn in which it was drawn. These are
// sorted; places and rows of delays are taken from them, and weights drawn anew from the turn. The second index is put
// together in any order by target, and sorted, too.

constexpr u32 WARPS = THREADS / 32, IN_BLOCK = 5120;  // keys of 8 bytes that are sorted in shared memory

BE void write_unsigned(void* at, u32 bytes, u64 k, u32 x) {
    if (bytes == 1) ((unsigned char*)at)[k] = (unsigned char)x;
    else if (bytes == 2) ((unsigned short*)at)[k] = (unsigned short)x;
    else if (bytes == 4) ((u32*)at)[k] = x;
}

// What is computed with a float32: no denormal.
BE float normal_or_zero(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

BE u32 first_place(u32 first_number, u32 blocks, u32 block) { return (first_number + blocks - 1 - block) / blocks; }

// ---- sorting

// Batcher's bitonic network in which the lower key always moves forward: so any number of keys is sorted.
template <class T> BE void exchange(T* keys, u64 n, u32 width_bits, u32 step_bits) {
    const u64 step = 1ull << step_bits, width = 1ull << width_bits;
    THREADS_DO
        for (u64 k = tid;; k += THREADS) {
            const u64 low = k >> step_bits << (step_bits + 1) | (k & (step - 1));
            if (low >= n) break;
            const u64 high = step_bits + 1 == width_bits ? low ^ (width - 1) : low + step;
            if (high < n && keys[high] < keys[low]) {
                const T key = keys[low];
                keys[low] = keys[high];
                keys[high] = key;
            }
        }
    THREADS_MEET
}

template <class T> BE void sort_all(T* keys, u64 n) {
    for (u32 width_bits = 1; 1ull << (width_bits - 1) < n; ++width_bits)
        for (u32 step_bits = width_bits; step_bits--;) exchange(keys, n, width_bits, step_bits);
}

// A block of threads sorts keys: on a desk of IN_BLOCK words in shared memory, if they have room there.
template <class T> BE void sort_keys(T* keys, u64 n, u64* desk) {
    T* const own = (T*)desk;
    if (n < 2) return;
    if (n > IN_BLOCK * sizeof(u64) / sizeof(T)) {
        sort_all(keys, n);
        return;
    }
    THREADS_DO
        for (u64 k = tid; k < n; k += THREADS) own[k] = keys[k];
    THREADS_MEET
    sort_all(own, n);
    THREADS_DO
        for (u64 k = tid; k < n; k += THREADS) keys[k] = own[k];
    THREADS_MEET
}

extern "C" __global__ void __launch_bounds__(THREADS) sort_lines(const Lines of) {
    __shared__ u64 desk[IN_BLOCK];
    for (u64 k = blockIdx.x; k < (u64)of.blocks * of.lines; k += gridDim.x) {
        const u32 block = (u32)(k / of.lines);
        const u32* const starts = of.starts + k + block;
        const u64 begin = of.bases[block] + starts[0], n = starts[1] - starts[0];
        if (of.key_bytes == 4) sort_keys((u32*)of.keys + begin, n, desk);
        else sort_keys((u64*)of.keys + begin, n, desk);
    }
}

// ---- from keys to synapses

BE u64 key_at(const Keyed& of, u64 k) { return of.key_bytes == 4 ? ((const u32*)of.keys)[k] : ((const u64*)of.keys)[k]; }

// The line of the second index in which a synapse is.
BE u64 line_of(const Keyed& of, u32 place, u32 late) { return (u64)place * of.late_places + (of.late_places > 1 ? late : 0); }

BE u32* counter_of(const Keyed& of, u32 block, u64 line) { return of.used + line * of.blocks + block; }

BE void take_key(const Keyed& of, u32 block, u32 source, u64 k) {
    const u64 key = key_at(of, k);
    const u32 turn = (u32)(key & ((1ull << of.turn_bits) - 1)), place = (u32)(key >> of.turn_bits & ((1ull << of.place_bits) - 1));
    const u32 late = (u32)(key >> of.turn_bits >> of.place_bits);
    write_unsigned(of.targets, of.target_bytes, k, place);
    write_unsigned(of.which, of.which_bytes, k, late);
    if (of.own_weights) {
        const u32 number = of.first + block, first = first_place(of.first_number, of.all_blocks, number);
        const u32 target = (first + place) * of.all_blocks + number - of.first_number;
        const u32 word = be_more_bits(of.by_target ? target : source, turn, of.key0, of.key1);
        of.weights[k] = normal_or_zero(value_of(of.law, word));
    }
    if (of.used) add_for_all(counter_of(of, block, line_of(of, place, late)), 1u);
}

extern "C" __global__ void __launch_bounds__(THREADS) take_keys(const Keyed of) {
    WARPS_DO(0, WARPS)
        for (u64 line = (u64)blockIdx.x * WARPS + warp; line < (u64)of.blocks * of.sources; line += (u64)gridDim.x * WARPS) {
            const u32 block = (u32)(line / of.sources), source = (u32)(line % of.sources);
            const u64 base = of.bases[block];
            LANES_DO
                for (u64 k = base + of.starts[line + block] + lane; k < base + of.starts[line + block + 1]; k += 32)
                    take_key(of, block, source, k);
            LANES_END
        }
    WARPS_END
}

// ---- the second index

// Do something for each synapse: number k of all, which is in a block.
template <class Do> BE void for_synapses(const Keyed& of, Do do_one) {
    const u64 entries = of.bases[of.blocks];
    EACH_THREAD_DO
        u32 block = 0;
        for (u64 k = (u64)blockIdx.x * THREADS + tid; k < entries; k += (u64)gridDim.x * THREADS) {
            while (k >= of.bases[block + 1]) ++block;
            do_one(block, k);
        }
    EACH_THREAD_END
}

// Put the place of each synapse in its block into the line of its target.
extern "C" __global__ void __launch_bounds__(THREADS) index_targets(const Keyed of) {
    for_synapses(of, [&](u32 block, u64 k) {
        const u32 place = read_unsigned(of.targets, of.target_bytes, k);
        const u32 late = of.late_places > 1 ? read_unsigned(of.which, of.which_bytes, k) : 0;
        const u64 line = line_of(of, place, late), lines = (u64)of.places * of.late_places;
        const u32 at = of.into[(lines + 1) * block + line] + add_for_all(counter_of(of, block, line), 1u);
        of.incoming[of.bases[block] + at] = (u32)(k - of.bases[block]);
    });
}

// The source of a synapse of a block: that with the last line which begins at it or before.
BE u32 source_of(const u32* starts, u32 sources, u32 k) {
    u32 low = 0, high = sources;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (starts[middle] <= k) low = middle;
        else high = middle;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(THREADS) add_sources(const Keyed of) {
    for_synapses(of, [&](u32 block, u64 k) {
        const u32 entry = of.incoming[k];
        const u64 word = (u64)source_of(of.starts + (u64)block * (of.sources + 1), of.sources, entry) << of.entry_bits | entry;
        of.incoming[k] = (u32)word;
        write_unsigned(of.more, of.more_bytes, k, (u32)(word >> 32));
    });
}

// ---- the order of a state: by source, delay and target

// Write row of delays, target, and place among those of the source in its block, of all synapses of a source.
BE void list_keys(const Ordered& of, u32 source, u64* keys) {
    __shared__ u32 listed;
    THREADS_DO
        if (tid == 0) listed = 0;
    THREADS_MEET
    THREADS_DO
        for (u32 block = tid; block < of.blocks; block += THREADS) {
            const Held& own = of.held[block / of.own_blocks];
            const u32 here = block % of.own_blocks, first = first_place(of.first_number, of.blocks, block);
            const u32* const starts = own.starts + (u64)here * (of.sources + 1) + source;
            const u32 n = starts[1] - starts[0];
            const u64 base = own.bases[here] + starts[0];
            u64* const ours = keys + add_in_block(&listed, n);
            for (u32 k = 0; k < n; ++k) {
                const u32 place = first + read_unsigned(own.targets, of.target_bytes, base + k);
                const u64 target = place * of.blocks + block - of.first_number;
                const u64 late = own.which ? read_unsigned(own.which, of.which_bytes, base + k) : 0;
                ours[k] = (late << of.target_bits | target) << of.turn_bits | k;
            }
        }
    THREADS_MEET
}

// Where the synapse of a key lies, and on which of the GPUs.
BE u64 place_of_key(const Ordered& of, u32 source, u64 key, u32& gpu) {
    const u32 target = (u32)(key >> of.turn_bits & ((1ull << of.target_bits) - 1)), block = (target + of.first_number) % of.blocks;
    const u64 k = key & ((1ull << of.turn_bits) - 1);
    gpu = block / of.own_blocks;
    const u32 here = block % of.own_blocks;
    return of.held[gpu].bases[here] + of.held[gpu].starts[(u64)here * (of.sources + 1) + source] + k;
}

// Do with a synapse, which is number k in the order of a state, what is asked for.
BE void treat(const Ordered& of, u32 source, u64 key, u64 k) {
    u32 gpu;
    const u64 at = k - of.rows[of.first], place = place_of_key(of, source, key, gpu);
    u32* const value = of.held[gpu].values + place;
    if (of.what == READ) ((u32*)of.there)[at] = *value;
    else if (of.what == WRITTEN) *value = ((const u32*)of.there)[at];
    else if (of.what == PLACED) ((u64*)of.there)[at] = (u64)gpu << GPU_SHIFT | place;
    else *(float*)value = normal_or_zero(value_of(of.law, be_bits(0, (u32)k, of.key0, of.key1)));
}

extern "C" __global__ void __launch_bounds__(THREADS) order_rows(const Ordered of) {
    __shared__ u64 desk[IN_BLOCK];
    u64* const keys = of.room + blockIdx.x * of.longest;
    for (u32 source = of.first + blockIdx.x; source < of.last; source += gridDim.x) {
        const u64 begin = of.rows[source], n = of.rows[source + 1] - begin;
        list_keys(of, source, keys);
        sort_keys(keys, n, desk);
        THREADS_DO
            for (u64 k = tid; k < n; k += THREADS) treat(of, source, keys[k], begin + k);
        THREADS_MEET
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) fill_words(const Filled of) {
    EACH_THREAD_DO
        for (u64 k = (u64)blockIdx.x * THREADS + tid; k < of.count; k += (u64)gridDim.x * THREADS) of.to[k] = of.word;
    EACH_THREAD_END
}
