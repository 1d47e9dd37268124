// SPDX-License-Identifier: Apache-2.0
// Draw the synapses of descriptions, as the loops of `on_cpu_rows.py` do, from one row to the next: a block of threads
// draws a row. First all are measured; then they are counted by source and block, and put into the rows of `rows.cu`.
//
// Synapse k of a row has the words (row, place), of which the first decides its other end and the second its weight,
// and the word (row, k) of other keys for its delay. Place is k, but where gaps lead to the row's own neuron.

constexpr u32 NO_PLACE = 0xFFFFFFFFu;

struct Limits {
    u32 farthest[5];  // of weights above, below and beside 0, of delays above and below: the farther, the larger
    u32 synapses, off;
};

BE u32 part_of(u32 word, u32 size) { return (u32)(((u64)word * size) >> 32); }

// ---- values

BE int whole_of(const Distribution& of, u32 word, u32& off) {
    const float x = value_of(of, word), nearest = rintf(x);
    off += fabsf(x - nearest) > fabsf(x) * 0x1p-9f;
    return (int)nearest;
}

// What a function gives, if it is right, clipped and rounded; else `wrong` is told the row.
BE int mapped(const Distribution& of, float value, u32* wrong, u32 row, u32& off) {
    const float x = __fmul_rn(value, of.a), most = __uint_as_float(of.span);
    if (wrong && !(x >= of.b && x <= most)) raise_for_all(wrong, ~row);
    const float clipped = fminf(fmaxf(x, of.low), of.high), nearest = rintf(clipped);
    off += fabsf(__fsub_rn(clipped, nearest)) > __fmul_rn(fabsf(clipped), 0x1p-9f);
    return (int)nearest;
}

BE u32 gap_at(const Recipe& drawn, u32 row, u32 place) {
    return (u32)be_gap(be_bits(row, place, drawn.key0, drawn.key1), drawn.scale);
}

// ---- one synapse

BE u32 size_of_weight(int weight) { return weight < 0 ? 0u - (u32)weight : (u32)weight; }

BE void note(Limits& seen, u32 off, int weight, u32 delay) {
    const u32 above = (u32)weight ^ 0x80000000u, size = size_of_weight(weight);
    const u32 far[5] = {above, ~above, size ? ~size : 0, delay, ~delay};
    UNROLLED for (u32 k = 0; k < 5; ++k) seen.farthest[k] = far[k] > seen.farthest[k] ? far[k] : seen.farthest[k];
    seen.synapses += 1;
    seen.off += off;
}

// The number of a target among those of its population.
BE u32 target_among(const Recipe& drawn, u32 into) {
    #whole return into;
    #parts return drawn.target_numbers ? drawn.target_numbers[into] : into;
}

// Whether a row has the inputs of one target, all of one weight: then their sum is known.
BE bool loads_by_row(const Recipe& drawn) { return drawn.loads && drawn.by_target && !drawn.own_weights; }

// Measure synapse k of a row, count it, or put it into its row.
BE void take(const Recipe& drawn, const Given& of, const Rows& to, Limits& seen, u32 row, u32 k, u32 place, u32 end) {
    const u32 from = drawn.by_target ? end : row, into = drawn.by_target ? row : end;
    #whole const u32 source = source_number(of, from);
    #parts const u32 source = source_number(of, drawn.source_numbers ? drawn.source_numbers[from] : from);
    const u32 target = target_among(drawn, into), number = target_number(of, target);
    #several if (!drawn.loads && !is_placed(of, source, number)) return;
    if (!drawn.loads && !to.synapses && !to.keys) {
        count_synapse(of, to, source, number);
        return;
    }
    u32 off = 0, none = 0;
    const u32 late = drawn.own_delays && drawn.delays.kind != MAPPED ? be_bits(row, k, drawn.delay_key0, drawn.delay_key1) : 0;
    u32* const wrong = drawn.wrong;
    const u32 delay = !drawn.own_delays ? of.delay
                    : drawn.delays.kind != MAPPED ? (u32)whole_of(drawn.delays, late, none)
                    : (u32)mapped(drawn.delays, delay_of(drawn, from, into), wrong ? wrong + 2 : wrong, row, none);
    if (to.keys) {  // a weight follows from the place
        put_key(of, to, source, number, delay, place);
        return;
    }
    const u32 word = drawn.own_weights ? be_more_bits(row, place, drawn.key0, drawn.key1) : 0;
    const int whole = !drawn.own_weights ? 0
                    : drawn.weights.kind != MAPPED ? whole_of(drawn.weights, word, off)
                    : mapped(drawn.weights, weight_of(drawn, from, into), wrong ? wrong + 1 : wrong, row, off);
    const int weight = drawn.own_weights ? whole * (int)drawn.times : of.weight;
    if (!drawn.loads) {
        put_synapse(of, to, source, number, weight, delay);
        return;
    }
    if (!loads_by_row(drawn)) add_for_all(drawn.loads + target, (u64)size_of_weight(weight));
    note(seen, off, weight, delay);
    if (drawn.delayed) drawn.delayed[delay] = 1;
}

// ---- the other ends of a row

// R. Floyd's method: turn k of `count` takes what it draws among the first ends, the farther the later the turn; or, if
// that is taken, the last of them. It is taken if an earlier turn drew it, or took it as its last one.
BE u32 drawn_in(const Recipe& drawn, u32 row, u32 first, u32 k) {
    return part_of(be_bits(row, k, drawn.key0, drawn.key1), first + k + 1);
}

BE bool is_taken(const Recipe& drawn, const u32* turns, u32 row, u32 first, u32 k) {
    while (true) {
        const u32 end = drawn_in(drawn, row, first, k);
        if (~turns[end] < k) return true;
        if (end < first || end - first >= k) return false;
        k = end - first;
    }
}

// End k of a row whose ends are of groups, of which there are `number`: those of the first group come first. Row g of
// `ends_of_runs` says where the ends of each group begin, and `begins` where the neurons of each group begin in `order`.
BE u32 grouped_end(const Recipe& drawn, u32 row, u32 k) {
    const u32* const edges = drawn.ends_of_runs + (u64)drawn.group[row] * (drawn.number + 1);
    u32 group = 0;
    for (u32 above = drawn.number; above - group > 1;) {
        const u32 middle = (group + above) / 2;
        if (edges[middle] <= k) group = middle;
        else above = middle;
    }
    const u32 begin = drawn.begins[group];
    return drawn.order[begin + part_of(be_bits(row, k, drawn.key0, drawn.key1), drawn.begins[group + 1] - begin)];
}

// How many synapses a row has.
BE u32 count_of(const Recipe& drawn, u32 row) {
    if (drawn.kind == GROUPED) return drawn.ends_of_runs[(u64)drawn.group[row] * (drawn.number + 1) + drawn.number];
    return drawn.counts ? drawn.counts[row] : drawn.number;
}

BE u32 end_of(const Recipe& drawn, const u32* turns, u32 row, u32 count, u32 k) {
    if (drawn.kind == GROUPED) return grouped_end(drawn, row, k);
    const u32 size = drawn.ends - drawn.skip;
    u32 end = drawn.kind == ALL ? k : row;
    if (drawn.kind == REPLACED) end = part_of(be_bits(row, k, drawn.key0, drawn.key1), size);
    if (drawn.kind == DISTINCT) {
        const u32 first = size - count;
        end = is_taken(drawn, turns, row, first, k) ? first + k : drawn_in(drawn, row, first, k);
    }
    return end + (drawn.skip && end >= row);
}

// ---- rows

// Count how many synapses each source has: synapse j takes word j % 2 of place j / 2.
extern "C" __global__ void __launch_bounds__(THREADS) count_sources(const Recipe drawn) {
    EACH_THREAD_DO
        for (u64 j = 2 * ((u64)blockIdx.x * THREADS + tid); j < drawn.total; j += 2 * (u64)gridDim.x * THREADS) {
            const u32 place = (u32)(j / 2);
            add_for_all(drawn.counts + part_of(be_bits(0, place, drawn.source_key0, drawn.source_key1), drawn.rows), 1u);
            if (j + 1 < drawn.total) {
                const u32 more = be_more_bits(0, place, drawn.source_key0, drawn.source_key1);
                add_for_all(drawn.counts + part_of(more, drawn.rows), 1u);
            }
        }
    EACH_THREAD_END
}

// Write where each of the next gaps ends, from where they begin, and return which of two arrays has them.
BE u32 add_gaps(const Recipe& drawn, u32 row, u32 first, u64 (*reach)[THREADS]) {
    THREADS_DO
        reach[0][tid] = gap_at(drawn, row, first + tid) + 1;
    THREADS_MEET
    u32 now = 0;
    for (u32 step = 1; step < THREADS; step *= 2, now ^= 1) {
        THREADS_DO
            reach[now ^ 1][tid] = reach[now][tid] + (tid < step ? 0 : reach[now][tid - step]);
        THREADS_MEET
    }
    return now;
}

BE void draw_by_gaps(const Recipe& drawn, const Given& of, const Rows& to, u32 row, OfThread<Limits>& seen) {
    __shared__ u64 reach[2][THREADS];
    __shared__ u32 own_place;  // of the gap that ends at the row's own neuron
    THREADS_DO
        if (tid == 0) own_place = NO_PLACE;
    THREADS_MEET
    u64 begin = 0;
    for (u32 first = 0; begin < drawn.ends; first += THREADS) {
        const u32 now = add_gaps(drawn, row, first, reach);
        THREADS_DO
            if (drawn.skip && begin + reach[now][tid] - 1 == row) own_place = first + tid;
        THREADS_MEET
        THREADS_DO
            const u64 end = begin + reach[now][tid] - 1;
            const u32 place = first + tid;
            if (end < drawn.ends && place != own_place)
                take(drawn, of, to, seen[tid], row, place - (place > own_place), place, (u32)end);
        EACH_THREAD_END
        begin += reach[now][THREADS - 1];
        BLOCK_MEET;
    }
}

BE void draw_by_turns(const Recipe& drawn, const Given& of, const Rows& to, u32 row, OfThread<Limits>& seen) {
    const u32 count = count_of(drawn, row), size = drawn.ends - drawn.skip;
    u32* const turns = drawn.turns + (u64)blockIdx.x * drawn.ends;
    if (drawn.kind == DISTINCT) {
        THREADS_DO
            for (u32 k = tid; k < count; k += THREADS) raise_for_all(turns + drawn_in(drawn, row, size - count, k), ~k);
        THREADS_MEET
    }
    THREADS_DO
        for (u32 k = tid; k < count; k += THREADS)
            take(drawn, of, to, seen[tid], row, k, k, end_of(drawn, turns, row, count, k));
        if (tid == 0 && loads_by_row(drawn))
            add_for_all(drawn.loads + target_among(drawn, row), (u64)count * size_of_weight(of.weight));
    THREADS_MEET
    if (drawn.kind == DISTINCT) {
        THREADS_DO
            for (u32 k = tid; k < count; k += THREADS) turns[drawn_in(drawn, row, size - count, k)] = 0;
        THREADS_MEET
    }
}

// Each pair has a word of its own: it has a synapse if that is below its probability.
BE void draw_by_pairs(const Recipe& drawn, const Given& of, const Rows& to, u32 row, OfThread<Limits>& seen) {
    const u32 group = drawn.group[row];
    for (u64 run = drawn.starts[group]; run < drawn.starts[group + 1]; ++run) {
        const u32 end = drawn.ends_of_runs[run];
        const float most = drawn.most[run];
        THREADS_DO
            for (u32 place = drawn.begins[run] + tid; place < end; place += THREADS) {
                const u32 target = drawn.order[place];
                if (drawn.skip && target == row) continue;
                const float part = be_portion(be_bits(row, target, drawn.key0, drawn.key1));
                if (part >= most) continue;
                const float chance = chance_of(drawn, row, target);
                if (drawn.wrong && !(chance >= 0.0f && chance <= 1.0f)) raise_for_all(drawn.wrong, ~row);
                if (part < chance) take(drawn, of, to, seen[tid], row, target, target, target);
            }
        EACH_THREAD_END
    }
}

#several // Whether no synapse of a row is to be placed here: it has those of a target on another GPU.
#several BE bool is_elsewhere(const Recipe& drawn, const Given& of, u32 row) {
#several     if (drawn.loads || !drawn.by_target) return false;
#several     return !is_here(of, target_number(of, target_among(drawn, row)));
#several }

// A block of threads draws a row after the other.
extern "C" __global__ void __launch_bounds__(THREADS) draw_rows(const Recipe drawn, const Given of, const Rows to) {
    __shared__ Limits found[THREADS];
    OfThread<Limits> seen;
    THREADS_DO
        seen[tid] = Limits{};
    EACH_THREAD_END
    for (u32 row = blockIdx.x; row < drawn.rows; row += gridDim.x) {
        #several if (is_elsewhere(drawn, of, row)) continue;
        if (drawn.kind == GAPS) draw_by_gaps(drawn, of, to, row, seen);
        else if (drawn.kind == PAIRS) draw_by_pairs(drawn, of, to, row, seen);
        else draw_by_turns(drawn, of, to, row, seen);
    }
    if (!drawn.loads) return;
    THREADS_DO
        found[tid] = seen[tid];
    THREADS_MEET
    THREADS_DO
        if (tid < 5) {
            u32 most = 0;
            for (u32 k = 0; k < THREADS; ++k) most = found[k].farthest[tid] > most ? found[k].farthest[tid] : most;
            raise_for_all(drawn.limits + tid, most);
        } else if (tid < 7) {
            u64 sum = 0;
            for (u32 k = 0; k < THREADS; ++k) sum += tid == 5 ? found[k].synapses : found[k].off;
            add_for_all(drawn.totals + tid - 5, sum);
        }
    EACH_THREAD_END
}
