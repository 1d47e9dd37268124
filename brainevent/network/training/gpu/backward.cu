// SPDX-License-Identifier: Apache-2.0
// All steps of layers backward, in one launch.
//
// In each step, a block multiplies its rows of weights with the cotangents of what arrived later at all neurons, in 16
// bits. Then each thread runs the rule backward for its pairs of neurons, and the block sends what it
// found to the others of its cluster. Cotangents are multiplied by a power of two, such that 16 bits hold them. With two
// PLANES, weights and cotangents are sums of two numbers of 16 bits with the range of float32.

struct Backward {
    const void* kept[KEPT];           // (samples, steps, SAVED)
    const u32* flags[FLAGS];          // (samples, steps, SAVED / 32)
    const u32* param[PARAMS];         // (1,) or (H,)
    const float* spikes;              // (samples, steps, H): cotangents of spikes
    const float* shown[SHOWN];        // (samples, steps, H): of states that are recorded
    const float* end[FLOATS];         // (samples, H): of states after the last step
    const uint4* weights;
    const float* scales;              // (3,): of cotangents, its inverse, and the inverse of that of weights;
                                      // if SCALED (3 + SUMS,): and for what is sent, that of each sum
    const u32* random;                // (samples, 3): the first step, and the keys of random numbers
    unsigned char* scratch;
    float* current[RECEPTORS];        // (samples, steps, H): of what arrives
    float* begin[FLOATS];             // (samples, H): of states before the first step
    float* param_sums[WANTED];        // (samples, H): of parameters
    u32 steps, samples;
};

constexpr u32 PAIRS = SAMPLES * OWN / 2;
constexpr u32 EACH = (PAIRS + THREADS - 1) / THREADS;  // pairs of a thread
constexpr u32 ROWS = THREADS / (OWN / 2);              // samples between them
constexpr u32 COUNT = PRODUCT ? DEPTH / 16 * TILES * PLANES : 1;
constexpr u32 IN_REGISTERS = COUNT < REGISTERS ? COUNT : REGISTERS;
constexpr u32 ROW = (OWN + 8) * 2;                     // bytes of a sample, such that rows are in different banks
constexpr u32 PLANE = SAMPLES * ROW, ONE_SUM = PLANES * PLANE, SLICE = SUMS * ONE_SUM, SLOT = BLOCKS * SLICE;
constexpr u32 ARRIVING = (MULTICAST ? BLOCKS : BLOCKS - 1) * SLICE;  // bytes in a step
BE constexpr u32 words_of(u32 kept) { return HALVES >> kept & 1 ? 1 : 2; }  // of a pair
BE constexpr u32 words_of_all() {
    u32 all = (ANSWERED ? 2 : 0) + 2 * SHOWN_COUNT + FLAG_COUNT;
    for (u32 k = 0; k < KEPT_COUNT; ++k) all += words_of(k);
    return all;
}
constexpr u32 FETCHED = words_of_all();                // of a pair and step
// Without room, sums take the place of what they were made of.
constexpr u32 SUM_BYTES = PRODUCT && !SUMS_WITHIN ? PARTS * SAMPLES * SUM_ROW * 4 : 0;

// Multiply with a piece, and with those after it.
template <u32 PIECE>
BE void multiply_pieces(float (&found)[CHAINS][TILES][GROUPS][4], const Weights<COUNT, IN_REGISTERS>& weights, const unsigned char* sent,
                        u32 turn, u32 part, u32 lane) {
    const unsigned char* const slot = sent + (turn + (SLOTS - piece_delay(PIECE))) % SLOTS * SLOT;  // of some turns before
    UNROLLED
    for (u32 k = 0; k < depth_of(PIECE) / 32; ++k) {
        const u32 inner = piece_from(PIECE) + part * depth_of(PIECE) + k * 32;
        const unsigned char* column = slot + inner / OWN * SLICE + piece_sum(PIECE) * ONE_SUM + (inner % OWN + lane / 8 * 8) * 2;
        UNROLLED
        for (u32 group = 0; group < GROUPS; ++group) {
            u32 words[PLANES][4];
            UNROLLED
            for (u32 plane = 0; plane < PLANES; ++plane) load_rows(words[plane], column + plane * PLANE + (group * 8 + lane % 8) % SAMPLES * ROW);
            UNROLLED
            for (u32 half = 0; half < 2; ++half)
                UNROLLED
                for (u32 tile = 0; tile < TILES; ++tile) {
                    const u32 high = ((begin_of(PIECE) / 16 + k * 2 + half) * TILES + tile) * PLANES;
                    float(&sums)[4] = found[half % CHAINS][tile][group];
                    if constexpr (PLANES == 1) multiply(sums, vector_of(weights, high), words[0][half * 2], words[0][half * 2 + 1]);
                    else {  // the product of both lower planes is too small to matter
                        multiply_wide(sums, vector_of(weights, high + 1), words[0][half * 2], words[0][half * 2 + 1]);
                        multiply_wide(sums, vector_of(weights, high), words[1][half * 2], words[1][half * 2 + 1]);
                        multiply_wide(sums, vector_of(weights, high), words[0][half * 2], words[0][half * 2 + 1]);
                    }
                }
        }
    }
    if constexpr (PIECE + 1 < PIECES) multiply_pieces<PIECE + 1>(found, weights, sent, turn, part, lane);
}

BE void product(float* sums, const Weights<COUNT, IN_REGISTERS>& weights, const unsigned char* sent, u32 turn, u32 across, u32 part,
                u32 lane) {
    float found[CHAINS][TILES][GROUPS][4] = {};
    multiply_pieces<0>(found, weights, sent, turn, part, lane);
    if (SUMS_WITHIN) BLOCK_MEET;
    put_sums<0, CHAINS - 1>(sums, found, across, part, lane);
}

KERNEL(backward, Backward) {
    ROOM(room);
    u64* const arrived = (u64*)room;  // what blocks send in even and in odd turns
    uint4* const more = (uint4*)(room + 128);
    unsigned char* const sent = (unsigned char*)(more + (COUNT - IN_REGISTERS) * WARPS * 32);
    float* const sums_apart = (float*)(sent + (PRODUCT ? SLOTS * SLOT : 0));
    u32* const ahead = (u32*)((unsigned char*)sums_apart + SUM_BYTES);

    const u32 tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 block = blockIdx.x % BLOCKS, cluster = blockIdx.x / BLOCKS, first = cluster * SAMPLES;
    const u32 across = warp % ACROSS, part = warp / ACROSS;
    const u32 own = tid % (OWN / 2) * 2, neuron = (block - FIRST) * OWN + own, begin_sample = tid / (OWN / 2);
    const u32 saved = smaller(neuron, SAVED - 2);  // where residuals are
    const bool is_real[2] = {neuron < H, neuron + 1 < H};
    const u32 column[2] = {smaller(neuron, H - 1), smaller(neuron + 1, H - 1)};

    Weights<COUNT, IN_REGISTERS> weights;
    if constexpr (PRODUCT) {
        load(weights, p.weights, more, block, warp, lane);
        for (u32 k = tid; k < SLOTS * SLOT / 4; k += THREADS) ((u32*)sent)[k] = 0;
    }
    const float scale = p.scales[0], inverse = p.scales[1], of_weights = p.scales[2];
    float of_sum[SUMS];
    UNROLLED
    for (u32 k = 0; k < SUMS; ++k) of_sum[k] = SCALED ? p.scales[3 + k] : 1.0f;
    u32 param[2][PARAMS];
    float param_sum[EACH][2][WANTED] = {}, d[EACH][2][FLOATS];
    UNROLLED
    for (u32 i = 0; i < 2; ++i)
        UNROLLED
        for (u32 k = 0; k < PARAM_COUNT; ++k) param[i][k] = p.param[k][PER_NEURON >> k & 1 ? column[i] : 0];
    auto is_mine = [&](u32 j) { return PAIRS % THREADS == 0 || begin_sample + j * ROWS < SAMPLES; };
    auto row_of = [&](u32 j, u32 t) { return (u64)smaller(first + begin_sample + j * ROWS, p.samples - 1) * p.steps + t; };
    auto sample_of = [&](u32 j) { return smaller(first + begin_sample + j * ROWS, p.samples - 1); };  // repeats the last one
    // Cotangents of currents may be where those of spikes were: what repeats a sample reads either, and writes neither.
    auto is_written = [&](u32 j) { return first + begin_sample + j * ROWS < p.samples; };
    UNROLLED
    for (u32 j = 0; j < EACH; ++j)
        UNROLLED
        for (u32 i = 0; i < 2; ++i)
            UNROLLED
            for (u32 k = 0; k < FLOAT_COUNT; ++k) d[j][i][k] = p.end[k][sample_of(j) * H + column[i]] * scale;
    auto own_ahead = [&](u32 t, u32 j) { return ahead + (t % AHEAD * EACH + j) * FETCHED * THREADS; };
    auto fetch_floats = [&](u32* to, const float* from) {  // of a pair
        if (H % 2 == 0 && neuron + 1 < H) fetch<8>(to, from + neuron);
        else {
            fetch<4>(to, from + column[0]);
            fetch<4>(to + 1, from + column[1]);
        }
    };
    auto look_ahead = [&](u32 t) {
        UNROLLED
        for (u32 j = 0; j < EACH; ++j) {
            if (t >= p.steps || !is_mine(j)) continue;
            u32* to = own_ahead(t, j);
            const u64 row = row_of(j, t);
            UNROLLED
            for (u32 k = 0; k < KEPT_COUNT; to += words_of(k++) * THREADS) {
                if (HALVES >> k & 1) fetch<4>(to + tid, (const unsigned short*)p.kept[k] + row * SAVED + saved);
                else fetch<8>(to + tid * 2, (const u32*)p.kept[k] + row * SAVED + saved);
            }
            if constexpr (ANSWERED) {
                fetch_floats(to + tid * 2, p.spikes + row * H);
                to += 2 * THREADS;
            }
            UNROLLED
            for (u32 k = 0; k < SHOWN_COUNT; ++k, to += 2 * THREADS) fetch_floats(to + tid * 2, p.shown[k] + row * H);
            UNROLLED
            for (u32 k = 0; k < FLAG_COUNT; ++k, to += THREADS) fetch<4>(to + tid, p.flags[k] + row * (SAVED / 32) + saved / 32);
        }
        end_of_fetches();
    };
    // Write what arrives at a pair of neurons to the slice of this block.
    auto put = [&](u32 j, u32 slot, u32 plane, u32 pair) {  // planes are those of all sums
        const u32 within = plane * PLANE + (begin_sample + j * ROWS) * ROW + own * 2;
#if CLUSTER > 1 && MULTICAST
        *(u32*)(p.scratch + (u64)((cluster * SLOTS + slot) * BLOCKS + block) * SLICE + within) = pair;
#else
        *(u32*)(sent + slot * SLOT + block * SLICE + within) = pair;
#endif
    };
    auto exchange = [&](u32 slot, u32 turn) {
#if CLUSTER > 1
        unsigned char* const slice = sent + slot * SLOT + block * SLICE;
        fence_copies();
        BLOCK_MEET;
#if MULTICAST
        if (tid == 0) copy_to_all(slice, p.scratch + (u64)((cluster * SLOTS + slot) * BLOCKS + block) * SLICE, SLICE, arrived + (turn & 1));
#else
        const u32 to = warp + lane * WARPS;  // each warp starts some of the copies
        if (to < CLUSTER && to != block) copy_to_block(slice, SLICE, arrived + (turn & 1), to);
#endif
#else
        BLOCK_MEET;
#endif
    };
#if CLUSTER > 1
    if (tid == 0)
        for (u32 k = 0; k < 2; ++k) open(arrived + k, ARRIVING);
#endif
    for (u32 k = 1; k < AHEAD; ++k) look_ahead(p.steps - k);  // a number below 0 is beyond the last one
#if CLUSTER > 1
    fence_copies();
    meet_cluster();
#else
    BLOCK_MEET;
#endif
    for (u32 turn = 0; turn < p.steps; ++turn) {
        const u32 t = p.steps - 1 - turn, slot = turn % SLOTS;
        look_ahead(t - (AHEAD - 1));
#if CLUSTER > 1
        if (turn > 0) {  // what blocks sent in the turn before
            await(arrived + (~turn & 1), (turn - 1) >> 1 & 1);
            if (tid == 0 && turn + 2 < p.steps) expect(arrived + (~turn & 1), ARRIVING);
        }
#endif
        unsigned char* const oldest = sent + (turn + 1) % SLOTS * SLOT;
        float* const sums = SUMS_WITHIN ? (float*)oldest : sums_apart;
        if constexpr (PRODUCT) {
            product(sums, weights, sent, turn, across, part, lane);
            BLOCK_MEET;
        }
        await_fetches<AHEAD - 1>();
        UNROLLED
        for (u32 j = 0; j < EACH; ++j) {
            if (!is_mine(j)) continue;
            float sent_back[SUMS][2] = {};
            UNROLLED
            for (u32 i = 0; i < 2; ++i) {
                const u32* from = own_ahead(t, j);
                u32 kept[KEPT];
                bool flag[FLAGS];
                float d_spike = 0, d_new[FLOATS], d_old[FLOATS], d_arriving[RECEPTORS], d_param[WANTED];
                UNROLLED
                for (u32 k = 0; k < KEPT_COUNT; from += words_of(k++) * THREADS) {
                    if (HALVES >> k & 1) kept[k] = __float_as_uint(float_of(from[tid] >> 16 * i & 0xFFFFu));
                    else kept[k] = from[tid * 2 + i];
                }
                if constexpr (ANSWERED) {
                    d_spike = __uint_as_float(from[tid * 2 + i]) * scale;
                    from += 2 * THREADS;
                }
                UNROLLED
                for (u32 k = 0; k < FLOAT_COUNT; ++k) d_new[k] = d[j][i][k];
                UNROLLED
                for (u32 k = 0; k < SHOWN_COUNT; ++k, from += 2 * THREADS)
                    d_new[float_shown(k)] += __uint_as_float(from[tid * 2 + i]) * scale;
                UNROLLED
                for (u32 k = 0; k < FLAG_COUNT; ++k, from += THREADS) flag[k] = from[tid] >> (neuron + i) % 32 & 1;
                if constexpr (PRODUCT && SPIKING) {
                    float sum = 0;
                    UNROLLED
                    for (u32 k = 0; k < PARTS; ++k) sum += sums[(k * SAMPLES + begin_sample + j * ROWS) * SUM_ROW + own + i];
                    d_spike += sum * of_weights;
                }
                rule_backward(kept, flag, param[i], random_of(p.random, sample_of(j), neuron + i, t), d_new, d_spike, d_old, d_arriving, d_param);
                UNROLLED
                for (u32 k = 0; k < FLOAT_COUNT; ++k) d[j][i][k] = d_old[k];
                if (!is_real[i]) continue;
                UNROLLED
                for (u32 k = 0; k < RECEPTOR_COUNT; ++k) {
                    if (sum_of(k) < SUMS) sent_back[sum_of(k)][i] = d_arriving[k];
                    else p.current[k][row_of(j, t) * H + neuron + i] = d_arriving[k] * inverse;
                }
                UNROLLED
                for (u32 k = 0; k < WANTED_COUNT; ++k) param_sum[j][i][k] += d_param[k];
            }
            UNROLLED
            for (u32 k = 0; k < RECEPTOR_COUNT; ++k) {
                if (sum_of(k) == SUMS) continue;
                const float(&back)[2] = sent_back[sum_of(k)];
                const float by = of_sum[sum_of(k)];
                u32 pair;
                if constexpr (PLANES == 1) {
                    pair = SCALED ? halves_of(back[0] * by, back[1] * by) : halves_of(back[0], back[1]);
                    put(j, slot, sum_of(k), pair);
                } else {
                    pair = wide_halves_of(back[0] * by, back[1] * by);
                    put(j, slot, sum_of(k) * 2, pair);
                    put(j, slot, sum_of(k) * 2 + 1, wide_halves_of(back[0] * by - float_of_wide(pair << 16), back[1] * by - float_of_wide(pair)));
                }
                // What is returned has been rounded to what is sent, if it is sent as it is.
                const float low = (SCALED || PLANES > 1 ? back[0] : float_of(pair & 0xFFFFu)) * inverse;
                const float high = (SCALED || PLANES > 1 ? back[1] : float_of(pair >> 16)) * inverse;
                if (!is_written(j)) continue;
                float* const to = p.current[k] + row_of(j, t) * H + neuron;
                if (H % 2 == 0 && is_real[1]) put_pair(to, low, high);
                else {
                    if (is_real[0]) to[0] = low;
                    if (is_real[1]) to[1] = high;
                }
            }
        }
        if constexpr (PRODUCT)
            if (turn + 1 < p.steps) exchange(slot, turn);
    }
    UNROLLED
    for (u32 j = 0; j < EACH; ++j)
        UNROLLED
        for (u32 i = 0; i < 2; ++i) {
            if (!is_mine(j) || !is_written(j) || !is_real[i]) continue;
            const u32 to = sample_of(j) * H + neuron + i;
            UNROLLED
            for (u32 k = 0; k < FLOAT_COUNT; ++k) p.begin[k][to] = d[j][i][k] * inverse;
            UNROLLED
            for (u32 k = 0; k < WANTED_COUNT; ++k) p.param_sums[k][to] = param_sum[j][i][k] * inverse;
        }
#if CLUSTER > 1
    meet_cluster();  // no block ends while others send to it
#endif
}
