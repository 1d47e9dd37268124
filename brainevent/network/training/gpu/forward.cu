// SPDX-License-Identifier: Apache-2.0
// All steps of layers forward, in one launch.
//
// In each step, a block multiplies its rows of weights with the spikes that arrive, which are bits: weights are whole
// numbers of a quantum in planes of 8 bits, so sums are exact. Then each thread runs the rule for its neurons, and the
// block sends their spikes to the others of its cluster. The first two PLANES make one sum; a third one has its own.

struct Forward {
    const float* current[CURRENT_ROOM]; // (samples, steps, H)
    const u32* begin[STATES];         // (samples, H)
    const u32* param[PARAMS];         // (1,) or (H,)
    const uint4* weights;
    const float* quantum;             // (SUMS,)
    const u32* random;                // (samples, 3): the first step, and the keys of random numbers
    const u32* fine;                  // (samples,): where it is 0, spikes are NaN; only if DOUBTED
    void* kept[KEPT];                 // (samples, steps, SAVED): what the way back reads
    u32* flags[FLAGS];                // (samples, steps, SAVED / 32): spikes, and other bits that the way back reads
    float* spikes;                    // (samples, steps, H): 1 or 0, or NaN
    u32* end[STATES];                 // (samples, H)
    u32* shown[SHOWN];                // (samples, steps, H): states that are recorded
    u32 steps, samples;
};

constexpr u32 EACH = SAMPLES * OWN / THREADS;     // neurons of a thread
constexpr u32 STRIDE = THREADS / OWN;             // samples between them
constexpr u32 COUNT = PRODUCT ? DEPTH / 32 * TILES * PLANES : 1;
constexpr u32 IN_REGISTERS = COUNT < REGISTERS ? COUNT : REGISTERS;
constexpr u32 SLOT = SAMPLES * WORDS, SLICE = SAMPLES * OWN_WORDS * 4;
constexpr u32 ONE_TOTAL = PARTS * SAMPLES * SUM_ROW, ONE_SUM = TOTALS * ONE_TOTAL;
constexpr u32 ALL_CHAINS = CHAINS + TOTALS - 1;   // the last one is that of the third plane

// Words of spikes: those of a block are together.
BE u32 word_of(u32 sample, u32 word) { return (word / OWN_WORDS * SAMPLES + sample) * OWN_WORDS + word % OWN_WORDS; }

// Multiply with a piece, and with those after it that add to the same sum.
template <u32 PIECE>
BE void multiply_pieces(int (&found)[ALL_CHAINS][TILES][GROUPS][4], const Weights<COUNT, IN_REGISTERS>& weights, const u32* spikes, u32 t,
                        u32 part, u32 lane) {
    const u32* const slot = spikes + (t + (SLOTS - piece_delay(PIECE))) % SLOTS * SLOT;  // that of some steps before
    UNROLLED
    for (u32 k = 0; k < depth_of(PIECE) / 32; ++k)
        UNROLLED
        for (u32 group = 0; group < GROUPS; ++group) {
            const u32 first = piece_from(PIECE) / 32 + part * (depth_of(PIECE) / 32);
            const u32 word = slot[word_of((group * 8 + lane / 4) % SAMPLES, first + k)];
            const u32 b0 = word >> lane % 4 & 0x01010101u, b1 = word >> (lane % 4 + 4) & 0x01010101u;
            UNROLLED
            for (u32 tile = 0; tile < TILES; ++tile) {
                const u32 high = ((begin_of(PIECE) / 32 + k) * TILES + tile) * PLANES;
                multiply(found[0][tile][group], vector_of(weights, high), b0 << 7, b1 << 7);
                multiply(found[CHAINS - 1][tile][group], vector_of(weights, high + 1), b0, b1);
                if constexpr (TOTALS > 1) multiply(found[CHAINS][tile][group], vector_of(weights, high + 2), b0, b1);
            }
        }
    if constexpr (PIECE + 1 < piece_next(PIECE)) multiply_pieces<PIECE + 1>(found, weights, spikes, t, part, lane);
}

template <u32 PIECE = 0>
BE void product(int* sums, const Weights<COUNT, IN_REGISTERS>& weights, const u32* spikes, u32 t, u32 across, u32 part, u32 lane) {
    int found[ALL_CHAINS][TILES][GROUPS][4] = {};
    multiply_pieces<PIECE>(found, weights, spikes, t, part, lane);
    put_sums<0, CHAINS - 1>(sums + piece_sum(PIECE) * ONE_SUM, found, across, part, lane);
    if constexpr (TOTALS > 1) put_sums<CHAINS, CHAINS>(sums + piece_sum(PIECE) * ONE_SUM + ONE_TOTAL, found, across, part, lane);
    if constexpr (piece_next(PIECE) < PIECES) product<piece_next(PIECE)>(sums, weights, spikes, t, across, part, lane);
}

// The sum of a neuron, from those of parts of the first two planes and of the third one: rounded once.
BE float total_of(const int* sums) {
    int total[TOTALS] = {};
    UNROLLED
    for (u32 plane = 0; plane < TOTALS; ++plane)
        UNROLLED
        for (u32 k = 0; k < PARTS; ++k) total[plane] += sums[plane * ONE_TOTAL + k * SAMPLES * SUM_ROW];
    if constexpr (TOTALS > 1) return (float)((long long)total[0] * 256 + total[TOTALS - 1]);
    return (float)total[0];
}

KERNEL(forward, Forward) {
    ROOM(room);
    u64* const arrived = (u64*)room;  // spikes of even and of odd steps
    uint4* const more = (uint4*)(room + 128);
    int* const sums = (int*)(more + (COUNT - IN_REGISTERS) * WARPS * 32);
    float* const ahead = (float*)(sums + (PRODUCT ? SUMS * ONE_SUM : 0));
    u32* const spikes = (u32*)(ahead + AHEAD * FETCHED_ROOM * THREADS);

    const u32 tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const u32 block = blockIdx.x % BLOCKS, first = blockIdx.x / BLOCKS * SAMPLES;
    const u32 across = warp % ACROSS, part = warp / ACROSS;
    const u32 neuron = (block - FIRST) * OWN + tid % OWN, column = smaller(neuron, H - 1);
    const bool is_real = neuron < H;

    Weights<COUNT, IN_REGISTERS> weights;
    float quantum[SUMS];
    if constexpr (PRODUCT) {
        UNROLLED
        for (u32 k = 0; k < SUMS; ++k) quantum[k] = p.quantum[k];
        load(weights, p.weights, more, block, warp, lane);
        for (u32 k = tid; k < SLOTS * SLOT; k += THREADS) spikes[k] = 0;
    }
    u32 param[PARAMS];
    UNROLLED
    for (u32 k = 0; k < PARAM_COUNT; ++k) param[k] = p.param[k][PER_NEURON >> k & 1 ? column : 0];
    u32 state[EACH][STATES], row[EACH], doubtful = 0;  // of the first step of a sample; bits of samples
    UNROLLED
    for (u32 j = 0; j < EACH; ++j) {
        const u32 sample = smaller(first + tid / OWN + j * STRIDE, p.samples - 1);  // the last cluster repeats the last one
        row[j] = sample * p.steps;
        if constexpr (DOUBTED) doubtful |= (u32)(p.fine[sample] == 0) << j;
        UNROLLED
        for (u32 k = 0; k < STATE_COUNT; ++k) state[j][k] = p.begin[k][sample * H + column];
    }
    // Spikes may be where currents were: what repeats a sample reads either, and writes nothing.
    auto is_written = [&](u32 within) { return first + within < p.samples; };
    auto own_ahead = [&](u32 t, u32 j, u32 c) { return ahead + ((t % AHEAD * CURRENTS + c) * EACH + j) * THREADS + tid; };
    auto look_ahead = [&](u32 t) {
        UNROLLED
        for (u32 c = 0; c < CURRENTS; ++c)
            UNROLLED
            for (u32 j = 0; j < EACH; ++j)
                if (t < p.steps) fetch<4>(own_ahead(t, j, c), p.current[c] + (u64)(row[j] + t) * H + column);
        end_of_fetches();
    };
#if CLUSTER > 1
    if (tid == 0)
        for (u32 k = 0; k < 2; ++k) open(arrived + k, (CLUSTER - 1) * SLICE);
#endif
    for (u32 t = 0; t + 1 < AHEAD; ++t) look_ahead(t);
#if CLUSTER > 1
    meet_cluster();
#else
    BLOCK_MEET;
#endif
    for (u32 t = 0; t < p.steps; ++t) {
        look_ahead(t + AHEAD - 1);
#if CLUSTER > 1
        if (t > 0) {  // the spikes of the step before
            await(arrived + (~t & 1), (t - 1) >> 1 & 1);
            if (tid == 0 && t + 2 < p.steps) expect(arrived + (~t & 1), (CLUSTER - 1) * SLICE);
        }
#endif
        if constexpr (PRODUCT) {
            product(sums, weights, spikes, t, across, part, lane);
            BLOCK_MEET;
        }
        await_fetches<AHEAD - 1>();
        u32 mine[FLAGS] = {};  // the words that this lane writes
        UNROLLED
        for (u32 j = 0; j < EACH; ++j) {
            float arriving[RECEPTORS];
            UNROLLED
            for (u32 r = 0; r < RECEPTOR_COUNT; ++r) arriving[r] = current_of(r) < CURRENTS ? *own_ahead(t, j, current_of(r)) : 0.0f;
            UNROLLED
            for (u32 r = 0; r < RECEPTOR_COUNT; ++r) {
                if (sum_of(r) == SUMS) continue;
                const int* own = sums + sum_of(r) * ONE_SUM + (tid / OWN + j * STRIDE) * SUM_ROW + tid % OWN;
                arriving[r] = arriving[r] + total_of(own) * quantum[sum_of(r)];
            }
            u32 kept[KEPT];
            bool flag[FLAGS];
            rule_forward(state[j], arriving, param, random_of(p.random, smaller(first + tid / OWN + j * STRIDE, p.samples - 1), neuron, t), kept, flag);
            UNROLLED
            for (u32 k = 0; k < KEPT_COUNT; ++k) {
                const u64 to = (u64)(row[j] + t) * SAVED + neuron;
                if (neuron >= SAVED || !is_written(tid / OWN + j * STRIDE)) continue;
                if (HALVES >> k & 1) ((unsigned short*)p.kept[k])[to] = half_of(__uint_as_float(kept[k]));
                else ((u32*)p.kept[k])[to] = kept[k];
            }
            const float sent = flag[0] ? 1.0f : 0.0f;
            const bool writes = is_real && is_written(tid / OWN + j * STRIDE);
            if (writes) p.spikes[(u64)(row[j] + t) * H + column] = DOUBTED && (doubtful >> j & 1) ? __uint_as_float(0x7FC00000u) : sent;
            UNROLLED
            for (u32 k = 0; k < SHOWN_COUNT; ++k)
                if (writes) p.shown[k][(u64)(row[j] + t) * H + column] = state[j][shown_of(k)];
            UNROLLED
            for (u32 k = 0; k < FLAGS; ++k) {
                const u32 word = WARP_ALL(~0u, flag[k] && is_real);
                if (lane == j) mine[k] = word;
            }
        }
        if (lane < EACH) {  // this lane writes the words of neuron `lane` of each lane of the warp
            const u32 own = warp * 32 % OWN / 32, within = warp * 32 / OWN + lane * STRIDE;
            const u32 sample = smaller(first + within, p.samples - 1);
            if constexpr (PRODUCT) spikes[t % SLOTS * SLOT + word_of(within, block * OWN_WORDS + own)] = mine[0];
            UNROLLED
            for (u32 k = 0; k < FLAGS; ++k)
                if (is_written(within) && (block - FIRST) * OWN_WORDS + own < SAVED / 32)
                    p.flags[k][((u64)sample * p.steps + t) * (SAVED / 32) + (block - FIRST) * OWN_WORDS + own] = mine[k];
        }
        if constexpr (PRODUCT) BLOCK_MEET;
#if CLUSTER > 1
        if (t + 1 < p.steps) {  // send the words of this block to the others
            uint4* const slice = (uint4*)(spikes + t % SLOTS * SLOT + block * (SLICE / 4));
            for (u32 k = tid; k < SLICE / 16 * CLUSTER; k += THREADS)
                if (const u32 to = k % CLUSTER; to != block) send(slice + k / CLUSTER, slice[k / CLUSTER], arrived + (t & 1), to);
        }
#endif
    }
    UNROLLED
    for (u32 j = 0; j < EACH; ++j)
        UNROLLED
        for (u32 k = 0; k < STATE_COUNT; ++k)
            if (is_real && is_written(tid / OWN + j * STRIDE)) p.end[k][(first + tid / OWN + j * STRIDE) * H + column] = state[j][k];
#if CLUSTER > 1
    meet_cluster();  // no block ends while others send to it
#endif
}
