// SPDX-License-Identifier: Apache-2.0
// What both kernels of a layer share: its shape, and the weights of a warp.
//
// A cluster of blocks owns SAMPLES samples; a block owns OWN neurons of one layer in these samples. With a product, the
// warps of a block share its rows of weights, ACROSS side by side, and split the sum over the other neurons in PARTS.
// The weights are pieces: one for each sum that they add to, layer that they are multiplied with, and delay.

constexpr u32 WARPS = 8, THREADS = 32 * WARPS, TILES = 2;  // a warp has TILES tiles of 16 rows
constexpr u32 ACROSS = OWN / 16 / TILES, PARTS = WARPS / ACROSS, DEPTH = INNER / PARTS;
constexpr u32 GROUPS = (SAMPLES + 7) / 8;          // of samples, which one product has
constexpr u32 CHAINS = GROUPS == 1 ? 2 : 1;        // sums that do not wait for each other
constexpr u32 WORDS = WIDE / 32, OWN_WORDS = OWN / 32;  // bits of spikes of a sample
constexpr u32 SLOTS = DELAY + 1;                   // of what blocks send, by step
constexpr u32 SUM_ROW = OWN + 4;                   // of partial sums of a sample, such that columns are in different banks

// The weights of a warp: some in registers, others in shared memory.
template <u32 COUNT, u32 KEPT_HERE> struct Weights {
    uint4 own[KEPT_HERE];
    const uint4* others;
};
template <u32 COUNT, u32 KEPT_HERE>
BE void load(Weights<COUNT, KEPT_HERE>& weights, const uint4* from, uint4* room, u32 block, u32 warp, u32 lane) {
    from += (u64)(block * WARPS + warp) * COUNT * 32 + lane;
    room += warp * (COUNT - KEPT_HERE) * 32 + lane;
    weights.others = room;
    UNROLLED
    for (u32 k = 0; k < COUNT; ++k) {
        if (k < KEPT_HERE) weights.own[k] = from[k * 32];
        else room[(k - KEPT_HERE) * 32] = from[k * 32];
    }
}
// The number is known to the compiler.
template <u32 COUNT, u32 KEPT_HERE> BE uint4 vector_of(const Weights<COUNT, KEPT_HERE>& weights, u32 k) {
    return k < KEPT_HERE ? weights.own[k] : weights.others[(k - KEPT_HERE) * 32];
}

// The part of a warp of the products with a piece, and where it begins among those of all pieces.
BE constexpr u32 depth_of(u32 piece) { return piece_wide(piece) / PARTS; }
BE constexpr u32 begin_of(u32 piece) { return piece_before(piece) / PARTS; }

// What random numbers of a neuron in a step follow from.
struct Random { u32 neuron, step, keys[2]; };
BE Random random_of(const u32* random, u32 sample, u32 neuron, u32 t) {
    if constexpr (!RANDOM) return {};
    random += sample * 3;
    return {neuron, random[0] + t, {random[1], random[2]}};
}

BE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// Write the sums of a warp, those of some chains added, to rows of samples.
template <u32 FIRST_CHAIN, u32 LAST_CHAIN, class T, u32 ALL>
BE void put_sums(T* sums, const T (&found)[ALL][TILES][GROUPS][4], u32 across, u32 part, u32 lane) {
    const u32 row = lane / 4, column = lane % 4 * 2;
    UNROLLED
    for (u32 tile = 0; tile < TILES; ++tile)
        UNROLLED
        for (u32 group = 0; group < GROUPS; ++group)
            UNROLLED
            for (u32 k = 0; k < 4; ++k) {
                const u32 sample = group * 8 + column + k % 2;
                T sum = found[FIRST_CHAIN][tile][group][k];
                if (FIRST_CHAIN < LAST_CHAIN) sum += found[LAST_CHAIN][tile][group][k];
                if (SAMPLES % 8 == 0 || sample < SAMPLES)
                    sums[(part * SAMPLES + sample) * SUM_ROW + (across * TILES + tile) * 16 + row + k / 2 * 8] = sum;
            }
}
