// SPDX-License-Identifier: Apache-2.0
// Sums of the next NEAR steps in shared memory, in 16 bits each, if those of all steps have no room there in 32 bits.
//
// Two sums share a word, which is the lower one plus 65536 times the higher one, modulo 2^32. If an addition leaves the 16
// bits of a sum, what is missing is added to the sum of 32 bits in memory: the true sum is always that of both. What
// arrives later than in these steps is listed by its span, 2^SPAN steps of the sums in memory that follow each other, and
// added when all of these are among the next ones; or to the sums in memory, if there is no room. A list has PILES piles, so
// that the lanes of a warp count in different words. Between launches, all is in memory.

struct Near {
    u32* words;   // of NEAR steps, `half` words each; then `counts`
    u32* counts;  // how many synapses are listed, by span and pile
    u32* rests;   // not 0 if sums in memory have to be read, by step
    u32* list;    // PILE_ROOM synapses by span and pile, with the step of the sums in place of a delay
    int* sums;    // in memory, `cells` of a step
    u32 cells, half, now, reach, early;  // the word of `now`; how many steps later the last one is; steps since a spike
};

// Where what arrives in a step is: in memory, and in shared memory if NEAR; `rest` says whether both have to be read.
struct Now {
    int* sums;
    const u32* words;
    bool rest;
};

BE u32 ring_step(u32 step, u32 steps) { return step - steps < step ? step - steps : step; }  // a minimum

BE int lower(u32 word) { return (int)(short)word; }
BE int higher(u32 word) { return (int)(word - (u32)lower(word)) >> 16; }
BE int sum_in(u32 word, u32 cell) { return cell & 1 ? higher(word) : lower(word); }

// Add to sums in memory what an addition to a word makes of both its sums, less than what was meant.
BE void carry(const Near& near, u32 step, u32 cell, u32 before, int x) {
    const bool is_higher = cell & 1;
    const u32 after = before + ((u32)x << (is_higher ? 16 : 0)), first = cell & ~1u;
    const int low = lower(before) - lower(after) + (is_higher ? 0 : x), high = higher(before) - higher(after) + (is_higher ? x : 0);
    int* const sums = near.sums + (u64)step * near.cells + first;
    if (low) add_for_all(sums, low);
    if (high && first + 1 < near.cells) add_for_all(sums + 1, high);
    near.rests[step] = 1;
}

BE u32* word_of(const Near& near, u32 at, u32 cell) { return near.words + at * near.half + (cell >> 1); }
BE u32 shifted(u32 cell, int x) { return (u32)x << ((cell & 1) * 16); }

// After an addition, look whether its sum left 16 bits.
BE void check_sum(const Near& near, u32 step, u32 cell, u32 before, int x) {
    const int sum = sum_in(before, cell) + x;
    if (!USUALLY(CERTAIN || sum == (int)(short)sum)) carry(near, step, cell, before, x);
}

// Add to the sum in memory alone.
BE void add_far(const Near& near, u32 step, u32 cell, int x) {
    add_for_all(near.sums + (u64)step * near.cells + cell, x);
    near.rests[step] = 1;
}

// How many spans there are; none if the sums of all steps are near.
BE u32 spans_of(u32 steps) { return NEAR < steps ? steps + (1u << SPAN) - 1 >> SPAN : 0; }

// Begin a launch: all is in memory.
BE void enter_near(const Near& near, u32 steps, u32 tid) {
    for (u32 k = tid; k < NEAR * near.half + spans_of(steps) * PILES; k += THREADS) near.words[k] = 0;
    for (u32 k = tid; k < steps; k += THREADS) near.rests[k] = 1;
}

// Say whether a step of the sums in memory is the last one of its span.
BE bool ends_span(u32 step, u32 steps) { return NEAR < steps && ((step + 1 & (1u << SPAN) - 1) == 0 || step + 1 == steps); }

// End a launch: all goes to memory. `now` is the step after the last one.
BE void leave_near(const Near& near, u32 now, u32 steps, u32 tid) {
    for (u32 k = 0; k + 1 < NEAR; ++k) {
        const u32 at = ring_step(near.now + k, NEAR), step = ring_step(now + k, steps);
        for (u32 cell = tid; cell < near.cells; cell += THREADS) {
            const int sum = sum_in(*word_of(near, at, cell), cell);
            if (sum) add_for_all(near.sums + (u64)step * near.cells + cell, sum);
        }
    }
}
