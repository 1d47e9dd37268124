// SPDX-License-Identifier: Apache-2.0
// The neurons of a block: their states and parameters, one step of one neuron, and what is recorded of it.

struct Own {
    u32 population, kind, neuron, place, flags, key0, key1;
    float quantum[RECEPTORS + 1];
#ifdef GRADED
    mutable u32 value;  // of the spike of this step
#endif
};

struct Cell {  // of a neuron that lives in registers
    Own own;
    u32 row, s[WORDS + 1], p[PARAMS + 1], d[DRAWS + 1];
    bool is_there;
};

// What has arrived. In shared memory it is cleared at once; in memory later, so that no thread waits for it here.
BE int taken(const Net& net, const Own& own, int* now, u32 receptor) {
    int* cell = now + net.reach[receptor] + own.place;
    const int sum = look(cell);
    if (RING_IN_BLOCK) *cell = 0;
    return sum;
}

BE void cleared(const Net& net, const Own& own, int* now, u32 receptor, int sum) {
    if (!RING_IN_BLOCK && sum) now[net.reach[receptor] + own.place] = 0;
}

template <bool PLAIN> BE float arriving(const Net& net, const Own& own, int sum, u32 receptor, u32 turn) {
    const float given = (float)sum * own.quantum[receptor];
    if (PLAIN || !(own.flags & FED)) return given;
    const Population& of = net.population[own.population];
    const float* input = of.input[receptor];
    if (!input) return given;
    return given + input[(u64)(net.turn + turn) * of.input_row[receptor] + own.neuron * of.input_item[receptor]];
}

BE void own_of(const Net& net, u32 number, Own& own) {
    const Population& of = net.population[number];
    own.population = number;
    own.kind = of.kind;
    own.flags = of.flags;
    own.key0 = of.key0;
    own.key1 = of.key1;
    for (u32 r = 0; r < RECEPTORS; ++r) own.quantum[r] = of.quantum[r];
}

// The same, of what is passed with a launch.
BE void own_of_known(const Net& net, u32 number, Own& own) {
    const Common& of = net.common[number];
    own.population = number;
    own.kind = kind_of(number);
    own.flags = of.flags;
    own.key0 = of.key0;
    own.key1 = of.key1;
    for (u32 r = 0; r < RECEPTORS; ++r) own.quantum[r] = of.quantum[r];
}

// How many numbers of a table are at most u: the last one is infinite.
BE u32 events(const float* table, float u) {
    u32 k = 0;
    while (table[k] <= u) ++k;
    return k;
}

#include_rules

BE void sample(const Net& net, const Own& own, const u32* s, u32 slot, u32 t) {
    NOT_UNROLLED
    for (u32 j = 0; j < net.samples; ++j) {
        const Sample& of = net.sample[j];
        if (of.population != own.population || t % of.every) continue;
        const int column = of.columns[slot];
        if (column < 0) continue;
        u32 word = 0;
        for (u32 k = 0; k < WORDS; ++k) word = k == of.word ? s[k] : word;
        const u32 before = TRACED ? *net.begin / of.every + (*net.begin % of.every > 0) : of.before;
        of.out[(u64)(t / of.every - before) * of.width + column] = word;
    }
}

BE const Population& population_with(const Net& net, u32 number) {
    u32 k = 0;
    while (number - net.population[k].begin >= net.population[k].size) ++k;
    return net.population[k];
}

// A full list is reported with the next step: there is room for two.
BE void record(const Net& net, Desk& desk, u32 spike, u32 block, u32 t, u32 turn) {
    const u32 flags = spike >> PLACE_BITS, place = spike & ((1u << PLACE_BITS) - 1), number = place * net.blocks + block;
    if (flags & RECORDED) {
        const u32 at = next_in_block(&desk.recorded);
        net.spikes[(u64)block * net.capacity + at] = (u64)t << 32 | number;
        #static #prompt if (at + 1 + 2 * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
        #static #late if (at + 1 + (2 + LAG) * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
        #plastic if (at + 1 + (3 + LAG) * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
    }
    if (flags & COUNTED) add_for_all(net.counts + block * net.per + place, 1);
    if (flags & RATED) add_for_all(population_with(net, number).rates + net.turn + turn, 1);
    if (TRACED && flags & SHOWN) {
        const Population& of = population_with(net, number);
        of.shown[(u64)(net.turn + turn) * of.size + number - of.begin] = 1.0f;
    }
}

// Where spikes are listed that are recorded and are not in desk.fired.
#prompt BE u32* other_spikes(const Net& net, u32 block) { return net.list + (u64)(2 * net.blocks + block) * net.list_size; }
#late BE u32* other_spikes(const Net& net, u32 block) { return net.list + (u64)(KEPT * net.blocks + block) * net.list_size; }

// The sender records spikes, when it has sent them.
#prompt BE void spiked(const Net& net, Desk& desk, u32 flags, u32 place, u32 row, u32 block, u32 e) {
#late BE void spiked(const Net& net, Desk& desk, u32 flags, u32 place, u32 row, u32 block, u32 t) {
    #late const u32 e = t & 1;
    const u32 spike = flags << PLACE_BITS | place;
    if (row != NOBODY) {
        const u32 at = next_in_block(&desk.mine[e][0]) & COUNT;
        if (USUALLY(at < MINE)) {
            desk.mine[e][at + 1] = row;
            desk.fired[at] = spike;
            return;
        }
        #prompt put_word(&net.list[(u64)(e * net.blocks + block) * net.list_size + at], row);
        #late put_word(list_in_memory(net, block, t) + at, row);
    }
    if (spike >> PLACE_BITS) other_spikes(net, block)[next_in_block(&desk.others)] = spike;
}

// Put the value of a spike where those who deliver its row read it, before it is sent.
#ifdef GRADED
BE void keep_value(const Net& net, const Own& own, u32 row, u32 block, u32 e) {
    #one if (row != NOBODY) put_word(value_at(net, number_of(net, block, row), e), own.value);
    #several if (row != NOBODY) put_everywhere(net, value_at(net, number_of(net, block, row), e) - net.list, own.value);
}
#else
BE void keep_value(const Net&, const Own&, u32, u32, u32) {}
#endif

// One step of a neuron for which so much has arrived; say whether it spiked.
template <bool PLAIN> BE bool live(const Net& net, Desk& desk, const Own& own, u32* s, const u32* p, u32* d,
                                   const int* sums, u32 block, u32 t, u32 turn) {
    bool strange = false;
    #static const bool spike = update<PLAIN>(net, own, s, p, d, sums, t, turn, strange);
    #plastic u32 events = 0;
    #plastic const bool spike = update<PLAIN>(net, own, s, p, d, sums, t, turn, strange, events);
    #plastic tell(net, own, s, events, block, t);
    if (CHECKED && strange) or_in_block(&desk.mine[t & 1][0], NOT_FINITE << FLAGS);
    if (!PLAIN) sample(net, own, s, block * net.per + own.place, t);
    return spike;
}

template <bool PLAIN> BE bool live_now(const Net& net, Desk& desk, const Own& own, u32* s, const u32* p, u32* d, int* now,
                                       u32 block, u32 t, u32 turn) {
    int sums[RECEPTORS + 1];
    take(net, own, now, sums);
    clear_taken(net, own, now, sums);
    return live<PLAIN>(net, desk, own, s, p, d, sums, block, t, turn);
}

struct States {  // of the neurons of a block: the first words in shared memory, others in memory
    u32 *inside, *outside;
    u32 per, slots, more;  // `more` neurons have one more word in shared memory
};

BE bool is_inside(const States& of, u32 k, u32 place) {
    return k < WORDS_IN_BLOCK || (k == WORDS_IN_BLOCK && place < of.more);
}

BE u32 get_state(const States& of, u32 k, u32 place) {
    return is_inside(of, k, place) ? of.inside[k * of.per + place] : of.outside[k * of.slots + place];
}

// A word that is no number with a fraction seldom changes: it is written if it does.
BE void put_state(const States& of, u32 k, u32 place, u32 x, u32 before) {
    if (is_inside(of, k, place)) of.inside[k * of.per + place] = x;
    else if (!(WHOLE_WORDS >> k & 1) || x != before) of.outside[k * of.slots + place] = x;
}

BE void enter(const States& of, u32 tid) {
    for (u32 k = 0; k <= WORDS_IN_BLOCK && k < WORDS; ++k)
        for (u32 place = tid; place < of.per && is_inside(of, k, place); place += THREADS)
            of.inside[k * of.per + place] = of.outside[k * of.slots + place];
}

BE void leave(const States& of, u32 tid) {
    for (u32 k = 0; k <= WORDS_IN_BLOCK && k < WORDS; ++k)
        for (u32 place = tid; place < of.per && is_inside(of, k, place); place += THREADS)
            of.outside[k * of.slots + place] = of.inside[k * of.per + place];
}

// Neurons of one population in memory, from place `begin` on: each thread has every THREADS-th. Some are on their way at
// once.
template <bool PLAIN> BE void live_from(const Net& net, Desk& desk, const States& states, Own& own, u32 of_begin, u32 begin,
                                        u32 end, int* now, u32 block, u32 t, u32 turn) {
    constexpr u32 BATCH = 3;
    u32 p[PARAMS + 1];
    scalars(net, own, p);
    NOT_UNROLLED
    for (u32 l = begin; l < end; l += BATCH * THREADS) {
        u32 s[BATCH][WORDS + 1], d[DRAWS + 1];
        int sums[BATCH][RECEPTORS + 1];
        UNROLLED
        for (u32 m = 0; m < BATCH; ++m) {
            own.place = l + m * THREADS;
            if (own.place >= end) continue;
            for (u32 k = 0; k < WORDS; ++k) s[m][k] = get_state(states, k, own.place);
            take(net, own, now, sums[m]);
        }
        UNROLLED
        for (u32 m = 0; m < BATCH; ++m) {
            own.place = l + m * THREADS;
            if (own.place >= end) continue;
            own.neuron = own.place * net.blocks + block - of_begin;
            each(net, own, p, block * net.per + own.place);
            if (DRAWS) draw(net, own, p, d, t);
            u32 before[WORDS + 1];
            for (u32 k = 0; k < WORDS; ++k) before[k] = s[m][k];
            if (live<PLAIN>(net, desk, own, s[m], p, d, sums[m], block, t, turn)) {
                const u32 row = net.rows[block * net.per + own.place];
                keep_value(net, own, row, block, t & 1);
                #prompt spiked(net, desk, own.flags, own.place, row, block, t & 1);
                #late spiked(net, desk, own.flags, own.place, row, block, t);
            }
            clear_taken(net, own, now, sums[m]);
            for (u32 k = 0; k < WORDS; ++k) put_state(states, k, own.place, s[m][k], before[k]);
        }
    }
}

template <bool PLAIN> BE void live_of(const Net& net, Desk& desk, const States& states, Own& own, u32 of_begin, u32 size,
                                      int* now, u32 block, u32 tid, u32 t, u32 turn) {
    // Neuron `of_begin + k` of the network is number (of_begin + k) / blocks of block (of_begin + k) % blocks.
    const u32 begin = (of_begin + net.blocks - 1 - block) / net.blocks;
    const u32 end = (of_begin + size + net.blocks - 1 - block) / net.blocks;
    live_from<PLAIN>(net, desk, states, own, of_begin, begin + tid, end, now, block, t, turn);
}

// Neurons in memory, population after population.
template <bool PLAIN> BE void live_in_memory(const Net& net, Desk& desk, const States& states, int* now, u32 block, u32 tid,
                                             u32 t, u32 turn) {
    Own own;
    if (SHARED_ARE_PASSED) {
        UNROLLED
        for (u32 number = 0; number < COMMON; ++number) {
            const Common& of = net.common[number];
            own_of_known(net, number, own);
            live_of<PLAIN>(net, desk, states, own, of.begin, of.size, now, block, tid, t, turn);
        }
        return;
    }
    for (u32 number = 0; number < net.populations; ++number) {
        const Population& of = net.population[number];
        own_of(net, number, own);
        live_of<PLAIN>(net, desk, states, own, of.begin, of.size, now, block, tid, t, turn);
    }
}

BE void settle(const Net& net, Cell& cell, u32 block, u32 tid, u32 first) {
    const u32 number = tid * net.blocks + block, slot = block * net.per + tid;
    cell.is_there = false;
    if (tid >= net.per) return;
    for (u32 k = 0; k < net.populations; ++k) {
        const Population& of = net.population[k];
        if (number - of.begin >= of.size) continue;
        cell.is_there = true;
        own_of(net, k, cell.own);
        cell.own.neuron = number - of.begin;
        cell.own.place = tid;
        cell.row = net.rows[slot];
        for (u32 j = 0; j < WORDS; ++j) cell.s[j] = net.states[(u64)j * net.blocks * net.per + slot];
        scalars(net, cell.own, cell.p);
        each(net, cell.own, cell.p, slot);
        if (DRAWS) draw(net, cell.own, cell.p, cell.d, first);
    }
}
