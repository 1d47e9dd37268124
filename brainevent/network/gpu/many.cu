// SPDX-License-Identifier: Apache-2.0
// Several neurons a thread, in registers: the neurons in cell k of all threads are of one population, so that what they
// share is a constant.

struct Many {
    u32 s[CELLS + 1][WORDS + 1], d[CELLS + 1][DRAWS + 1];
    u32 there, sends;  // bits: which cells have a neuron, and one with synapses
};

BE void own_of_cell(const Net& net, u32 k, u32 block, u32 tid, Own& own) {
    own_of_known(net, population_of(k), own);
    own.place = k * THREADS + tid;
    own.neuron = neuron_at(net, net.common[own.population], own.place, block);
}

BE void params_of(const Net& net, const Own& own, u32 block, u32* p) {
    scalars(net, own, p);
    each(net, own, p, block * net.per + own.place);
}

BE void draw_many(const Net& net, Many& cells, u32 block, u32 tid, u32 t) {
    UNROLLED
    for (u32 k = 0; k < CELLS; ++k) {
        if (!(cells.there >> k & 1)) continue;
        Own own;
        own_of_cell(net, k, block, tid, own);
        u32 p[PARAMS + 1];
        params_of(net, own, block, p);
        draw(net, own, p, cells.d[k], t);
    }
}

BE void settle_many(const Net& net, Many& cells, u32 block, u32 tid, u32 first) {
    cells.there = cells.sends = 0;
    UNROLLED
    for (u32 k = 0; k < CELLS; ++k) {
        const u32 place = k * THREADS + tid, slot = block * net.per + place;
        Own own;
        own_of_cell(net, k, block, tid, own);
        if (own.neuron - net.common[own.population].first < net.common[own.population].size) {
            cells.there |= 1u << k;
            if (net.rows[slot] != NOBODY) cells.sends |= 1u << k;
        }
        for (u32 j = 0; j < WORDS; ++j)
            cells.s[k][j] = place < net.per ? net.states[(u64)j * net.blocks * net.per + slot] : 0;
    }
    if (DRAWS) draw_many(net, cells, block, tid, first);
}

BE u32 row_of_cell(const Net& net, u32 sends, u32 k, u32 place, u32 block) {
    return LAYOUT == PADDED ? net.rows[block * net.per + place] : sends >> k & 1 ? place : NOBODY;
}

// One step of each; the bits of those that spiked. What has arrived in memory is on its way for some of them at once.
template <bool PLAIN> BE u32 live_many(const Net& net, Desk& desk, Many& cells, const Now& now, u32 block, u32 tid, u32 t, u32 turn) {
    constexpr u32 BATCH = RING_IN_BLOCK || NEAR ? 1 : 4;
    u32 fired = 0;
    UNROLLED
    for (u32 first = 0; first < CELLS; first += BATCH) {
        int sums[BATCH][RECEPTORS + 1];
        Own own;
        UNROLLED
        for (u32 k = first; k < first + BATCH; ++k) {
            if (k >= CELLS || !(cells.there >> k & 1)) continue;
            own_of_cell(net, k, block, tid, own);
            take(net, own, now, sums[k - first]);
        }
        UNROLLED
        for (u32 k = first; k < first + BATCH; ++k) {
            if (k >= CELLS || !(cells.there >> k & 1)) continue;
            own_of_cell(net, k, block, tid, own);
            u32 p[PARAMS + 1];
            params_of(net, own, block, p);
            if (live<PLAIN>(net, desk, own, cells.s[k], p, cells.d[k], sums[k - first], block, t, turn)) {
                keep_value(net, own, row_of_cell(net, cells.sends, k, own.place, block), block, t & 1);
                fired |= 1u << k;
            }
            clear_taken(net, own, now, sums[k - first]);
        }
    }
    return fired;
}

#prompt BE void spiked_many(const Net& net, Desk& desk, u32 fired, u32 sends, u32 block, u32 tid, u32 e) {
#late BE void spiked_many(const Net& net, Desk& desk, u32 fired, u32 sends, u32 block, u32 tid, u32 t) {
    NOT_UNROLLED
    for (; fired; fired &= fired - 1) {
        const u32 k = lowest_bit(fired);
        const u32 place = k * THREADS + tid;
        const u32 row = row_of_cell(net, sends, k, place, block);
        #prompt spiked(net, desk, net.common[population_of(k)].flags, place, row, block, e);
        #late spiked(net, desk, net.common[population_of(k)].flags, place, row, block, t);
    }
}

BE void store_many(const Net& net, const Many& cells, u32 block, u32 tid) {
    UNROLLED
    for (u32 k = 0; k < CELLS; ++k) {
        const u32 place = k * THREADS + tid;
        if (place >= net.per) continue;
        for (u32 j = 0; j < WORDS; ++j) net.states[(u64)j * net.blocks * net.per + block * net.per + place] = cells.s[k][j];
    }
}
