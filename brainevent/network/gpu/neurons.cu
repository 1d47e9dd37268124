// SPDX-License-Identifier: Apache-2.0
// The neurons of a block: their states and parameters, one step of one neuron, and what is recorded of it.

// The number of a neuron among those that are dealt to the same blocks: all of them, or those of this GPU.
#one BE u32 dealt_number(const Net& net, u32 place, u32 block) { return place * net.blocks + block; }
#several #dealt BE u32 dealt_number(const Net& net, u32 place, u32 block) {
#several #dealt     return PLACED ? place * net.own_blocks + block - net.first_block : place * net.blocks + block;
#several #dealt }

#grouped // Of a population in the group of a block: where numbers begin, its first neuron there, and how many are there.
#grouped BE const u32* share_of(const Net& net, u32 block, u32 population) {
#grouped     return net.parts + 3 * (net.own_blocks + group_of(net, block)[0] * COMMON + population);
#grouped }
#grouped BE u32 number_in_group(const Net& net, u32 place, u32 block) {
#grouped     const u32* const group = group_of(net, block);
#grouped     return place * group[2] + block - net.first_block - group[1];
#grouped }
#grouped // The number of a neuron among those of this GPU; NOBODY if there is none.
#grouped BE u32 dealt_number(const Net& net, u32 place, u32 block) {
#grouped     const u32 number = number_in_group(net, place, block);
#grouped     for (u32 k = 0; k < COMMON; ++k) {
#grouped         const u32* const share = share_of(net, block, k);
#grouped         if (number - share[0] < share[2]) return number - share[0] + share[1] + net.population[k].begin - net.population[k].first;
#grouped     }
#grouped     return NOBODY;
#grouped }

#dealt BE u32 neuron_at(const Net& net, const Common& of, u32 place, u32 block) {
#dealt     return dealt_number(net, place, block) - of.begin + of.first;
#dealt }
#grouped BE u32 neuron_at(const Net&, const Common& of, u32 place, u32) { return of.first + place * of.size; }  // see know_group

struct Own {
    u32 population, kind, neuron, place, flags, key0, key1;
    float quantum[RECEPTORS + 1];
    #plastic mutable u32 ahead[FORESEEN + 1], is_fed;  // what of the next update is known before it; which receptors get input,
    #plastic mutable float fed[RECEPTORS + 1];  // as bits, and what
#ifdef GRADED
    mutable u32 value;  // of the spike of this step
#endif
};

struct Cell {  // of a neuron that lives in registers
    Own own;
    u32 row, s[WORDS + 1], p[PARAMS + 1], d[DRAWS + 1];
    bool is_there;
};

// What has arrived. In shared memory it is cleared at once, or two sums of 16 bits by `add_listed`; in memory later, so that
// no thread waits for it here.
BE int taken(const Net& net, const Own& own, const Now& now, u32 receptor) {
    const u32 place = net.reach[receptor] + own.place;
    int* cell = now.sums + place;
    if (NEAR) {
        const int sum = sum_in(now.words[place >> 1], place), rest = now.rest ? look(cell) : 0;
        if (rest) *cell = 0;
        return sum + rest;
    }
    const int sum = look(cell);
    if (RING_IN_BLOCK) *cell = 0;
    return sum;
}

BE void cleared(const Net& net, const Own& own, const Now& now, u32 receptor, int sum) {
    if (!RING_IN_BLOCK && !NEAR && sum) now.sums[net.reach[receptor] + own.place] = 0;
}

// What has arrived as a number. A sum of a byte comes as the bits of 2^23 plus that; it stands for one below 0 if all
// weights are.
BE float number_of_sum(const Own& own, int sum, u32 receptor) {
    if (!BYTES) return (float)sum;
    const float more = __uint_as_float((u32)sum);
    return falling_of(own.population) >> receptor & 1 ? 0x1p23f - more : more - 0x1p23f;
}

template <bool PLAIN> BE float arriving(const Net& net, const Own& own, int sum, u32 receptor, u32 turn) {
    const float given = number_of_sum(own, sum, receptor) * own.quantum[receptor];
    if (PLAIN || !(own.flags & FED)) return given;
    #plastic if (FORESEES) return own.is_fed >> receptor & 1 ? given + own.fed[receptor] : given;
    const Population& of = net.population[own.population];
    const float* input = of.input[receptor];
    if (!input) return given;
    return given + input[(u64)(net.turn + turn) * of.input_row[receptor] + own.neuron * of.input_item[receptor]];
}

#plastic // The inputs of a step, which come from memory.
#plastic BE void foresee_inputs(const Net& net, const Own& own, u32 turn) {
#plastic     own.is_fed = 0;
#plastic     if (net.plain || !(own.flags & FED)) return;
#plastic     const Population& of = net.population[own.population];
#plastic     UNROLLED
#plastic     for (u32 r = 0; r < RECEPTORS; ++r) {
#plastic         const float* input = of.input[r];
#plastic         if (!input) continue;
#plastic         own.is_fed |= 1u << r;
#plastic         own.fed[r] = input[(u64)(net.turn + turn) * of.input_row[r] + own.neuron * of.input_item[r]];
#plastic     }
#plastic }
BE void own_of(const Net& net, u32 number, Own& own) {
    const Population& of = net.population[number];
    own.population = number;
    own.kind = of.kind;
    own.flags = of.flags;
    own.key0 = of.key0;
    own.key1 = of.key1;
    for (u32 r = 0; r < RECEPTORS; ++r) own.quantum[r] = of.quantum[r];
}

// Where threads that follow each other have neurons of different populations, what those share is in shared memory, too,
// before all else: constants are quick where all threads read the same one, and there is no room for those of very many
// populations. Then follow the tables of Poisson numbers, if they have room, and where each begins: KNOWN_BYTES in all.
BE Common* known_populations() {
    ROOM(room);
    return (Common*)room;
}

BE u32* known_tables() { return (u32*)(known_populations() + COMMON) + -(sizeof(Common) / 4 * COMMON) % 4; }

#grouped // Of neurons in groups, this is what only this block knows: the neuron of place 0, and how many neurons are between two places.
#grouped BE void know_group(const Net& net, u32 block, u32 tid) {
#grouped     for (u32 k = tid; k < COMMON; k += THREADS) {
#grouped         const u32* const share = share_of(net, block, k);
#grouped         known_populations()[k].first = number_in_group(net, 0, block) - share[0] + share[1];
#grouped         known_populations()[k].size = group_of(net, block)[2];
#grouped     }
#grouped }

BE const Common& common_of(const Net& net, u32 number) { return MIXED ? known_populations()[number] : net.common[number]; }

// The text of a population: what is passed with a launch goes with a table in this text.
BE u32 kind_in(const Net& net, u32 number) { return SHARED_ARE_PASSED ? kind_of(number) : net.population[number].kind; }

// The same, of what is passed with a launch, or in shared memory.
BE void own_of_known(const Net& net, u32 number, Own& own) {
    const Common& of = common_of(net, number);
    own.population = number;
    own.kind = kind_in(net, number);
    own.flags = of.flags;
    own.key0 = of.key0;
    own.key1 = of.key1;
    for (u32 r = 0; r < RECEPTORS; ++r) own.quantum[r] = of.quantum[r];
}

struct alignas(16) FourNumbers {
    float x[4];
};

// How many numbers of a table are at most u: they ascend, and the last one of eight is infinite.
BE u32 events(const float* table, float u) {
    u32 all = 0, n = 4;
    NOT_UNROLLED
    while (n == 4) {  // four are read at once, since one read waits for the one before
        const FourNumbers four = *(const FourNumbers*)(table + all);
        n = 0;
        UNROLLED
        for (u32 j = 0; j < 4; ++j) n += four.x[j] <= u;
        all += n;
    }
    return all;
}

BE u32 events_of(const Net& net, u32 population, u32 draw, float u) {
    if (!MIXED || !TABLE_WORDS) return events(net.population[population].counted[draw], u);
    const u32* const tables = known_tables();
    const u32* table = tables + tables[TABLE_WORDS + population * DRAWS + draw];
    u32 all = 0;
    while (true) {
        u32 k = 0;
        UNROLLED
        for (u32 j = 0; j < 2; ++j) {
            const uint4 four = ((const uint4*)table)[j];
            k += (__uint_as_float(four.x) <= u) + (__uint_as_float(four.y) <= u) + (__uint_as_float(four.z) <= u) + (__uint_as_float(four.w) <= u);
        }
        all += k;
        if (USUALLY(k < 8)) return all;
        table += 8;
    }
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
    const u32 flags = spike >> PLACE_BITS, place = spike & ((1u << PLACE_BITS) - 1), number = dealt_number(net, place, block);
    if (flags & RECORDED) {
        const u32 at = next_in_block(&desk.recorded);
        net.spikes[(u64)block * net.capacity + at] = (u64)t << 32 | number;
        #static #prompt if (at + 1 + 2 * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
        #static #late if (at + 1 + (2 + FAR_LAG + HOLD) * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
        #plastic if (at + 1 + (3 + LAG) * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
    }
    if (flags & COUNTED) add_for_all(net.counts + block * net.per + place, 1);
    if (flags & RATED) add_for_all(population_with(net, number).rates + net.turn + turn, 1);
    if (TRACED && flags & SHOWN) {
        const Population& of = population_with(net, number);
        of.shown[(u64)(net.turn + turn) * of.all + number - of.begin + of.first] = 1.0f;
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
            desk.fired[e * MEETS_ONCE][at] = spike;
            if (!PUSHES) ask_for_rows(net, block, row);
            #one else ask_for_start(net, block, row);
            #several else if (!HOLD) ask_for_start(net, block, row);
            return;
        }
        #prompt put_word(&net.list[(u64)(e * net.blocks + block) * net.list_size + at], row);
        #late put_word(list_in_memory(net, block, t) + at, row);
    }
    if (spike >> PLACE_BITS) other_spikes(net, block)[next_in_block(&desk.others)] = spike;
}

// Put the value of a spike where those who deliver its row read it, before it is sent; and where other processes are told
// of it when the launch has ended.
#ifdef GRADED
BE void keep_value(const Net& net, const Own& own, u32 row, u32 block, u32 e) {
#ifdef TELLS
    put_word(net.told + dealt_number(net, own.place, block), own.value);
#endif
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

template <bool PLAIN> BE bool live_now(const Net& net, Desk& desk, const Own& own, u32* s, const u32* p, u32* d, const Now& now,
                                       u32 block, u32 t, u32 turn) {
    int sums[RECEPTORS + 1];
    take(net, own, now, sums);
    clear_taken(net, own, now, sums);
    return live<PLAIN>(net, desk, own, s, p, d, sums, block, t, turn);
}

struct States {  // of the neurons of a block: the first words in shared memory, others in memory
    u32 *inside, *outside;
    u32 per, slots, more;  // `more` neurons have one more word in shared memory
    unsigned char* which;  // the population of each neuron, if MIXED
    unsigned char* drawn;  // what is drawn for the next step, if DRAWN_AHEAD: no table has 255 numbers
};

constexpr u32 NO_POPULATION = 255;

BE u32 in_fours(u32 bytes) { return (bytes + 3) / 4 * 4; }

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

// Note what the neurons of each population share, and the tables of Poisson numbers.
BE void know(const Net& net, u32 tid) {
    if (!MIXED) return;
    if (SHARED_ARE_PASSED) {
        for (u32 k = tid; k < sizeof(Common) / 4 * COMMON; k += THREADS) ((u32*)known_populations())[k] = ((const u32*)net.common)[k];
    } else {
        for (u32 k = tid; k < COMMON; k += THREADS) {
            const Population& of = net.population[k];
            Common& to = known_populations()[k];
            to.begin = of.begin;
            to.size = of.size;
            to.first = of.first;
            to.flags = of.flags;
            to.key0 = of.key0;
            to.key1 = of.key1;
            for (u32 r = 0; r < RECEPTORS; ++r) to.quantum[r] = of.quantum[r];
            Own own;
            own_of(net, k, own);
            scalars_in_memory(net, own, to.p);
        }
    }
    u32* const tables = known_tables();
    const float* const first = net.population[0].counted[0];
    for (u32 k = tid; k < TABLE_WORDS; k += THREADS) tables[k] = ((const u32*)first)[k];
    for (u32 k = tid; TABLE_WORDS && k < COMMON * DRAWS; k += THREADS)
        tables[TABLE_WORDS + k] = (u32)(net.population[k / (DRAWS + !DRAWS)].counted[k % (DRAWS + !DRAWS)] - first);
}

// Note the population of each neuron of a block.
BE void mix(const Net& net, const States& of, u32 block, u32 tid) {
    for (u32 place = tid; place < net.per; place += THREADS) {
        of.which[place] = NO_POPULATION;
        for (u32 k = 0; k < COMMON; ++k) {
            const u32 begin = SHARED_ARE_PASSED ? net.common[k].begin : net.population[k].begin;
            const u32 size = SHARED_ARE_PASSED ? net.common[k].size : net.population[k].size;
            if (dealt_number(net, place, block) - begin < size) of.which[place] = k;
        }
    }
}

// How many threads draw. Spikes come meanwhile, from several GPUs: so warps that send and listen do not draw, unless others
// would take more turns.
#one BE u32 threads_that_draw(u32) { return THREADS; }
#several BE u32 threads_that_draw(u32 neurons) {
#several     constexpr u32 FEWER = CARRIERS ? CARRIERS * 32 : THREADS;
#several     return (neurons + FEWER - 1) / FEWER > (neurons + THREADS - 1) / THREADS ? THREADS : FEWER;
#several }

// Draw for a step of neurons of many small populations.
BE void draw_mixed(const Net& net, const States& of, u32 block, u32 tid, u32 t) {
    const u32 threads = threads_that_draw(net.per);
    NOT_UNROLLED
    for (u32 place = tid < threads ? tid : net.per; place < net.per; place += threads) {
        const u32 number = of.which[place];
        if (number == NO_POPULATION) continue;
        Own own;
        own_of_known(net, number, own);
        own.place = place;
        own.neuron = neuron_at(net, common_of(net, number), place, block);
        u32 p[PARAMS + 1], d[DRAWS + 1];
        scalars(net, own, p);
        each(net, own, p, block * net.per + place);
        draw(net, own, p, d, t);
        for (u32 k = 0; k < DRAWS; ++k) of.drawn[k * in_fours(of.per) + place] = (unsigned char)d[k];
    }
}

BE void leave(const States& of, u32 tid) {
    for (u32 k = 0; k <= WORDS_IN_BLOCK && k < WORDS; ++k)
        for (u32 place = tid; place < of.per && is_inside(of, k, place); place += THREADS)
            of.outside[k * of.slots + place] = of.inside[k * of.per + place];
}

BE void get_drawn(const States& of, u32 place, u32* d) {
    for (u32 k = 0; k < DRAWS; ++k) d[k] = of.drawn[k * in_fours(of.per) + place];
}

// One step of a neuron in memory, whose states were `s`; then they are stored.
template <bool PLAIN> BE void live_stored(const Net& net, Desk& desk, const States& states, const Own& own, u32* p, u32* s,
                                          const int* sums, const Now& now, u32 block, u32 t, u32 turn) {
    u32 d[DRAWS + 1], before[WORDS + 1];
    each(net, own, p, block * net.per + own.place);
    if (DRAWN_AHEAD) get_drawn(states, own.place, d);
    else if (DRAWS) draw(net, own, p, d, t);
    for (u32 k = 0; k < WORDS; ++k) before[k] = s[k];
    if (live<PLAIN>(net, desk, own, s, p, d, sums, block, t, turn)) {
        const u32 row = net.rows[block * net.per + own.place];
        keep_value(net, own, row, block, t & 1);
        #prompt spiked(net, desk, own.flags, own.place, row, block, t & 1);
        #late spiked(net, desk, own.flags, own.place, row, block, t);
    }
    clear_taken(net, own, now, sums);
    for (u32 k = 0; k < WORDS; ++k) put_state(states, k, own.place, s[k], before[k]);
}

// Neurons of one population in memory, from place `begin` on: each thread has every THREADS-th. Some are on their way at
// once, unless all is in shared memory.
constexpr u32 AT_ONCE = WORDS_IN_BLOCK >= WORDS && (NEAR || RING_IN_BLOCK) ? 1 : 3;
template <bool PLAIN> BE void live_from(const Net& net, Desk& desk, const States& states, Own& own, u32 of_begin, u32 begin,
                                        u32 end, const Now& now, u32 block, u32 t, u32 turn) {
    u32 p[PARAMS + 1];
    scalars(net, own, p);
    NOT_UNROLLED
    for (u32 l = begin; l < end; l += AT_ONCE * THREADS) {
        u32 s[AT_ONCE][WORDS + 1];
        int sums[AT_ONCE][RECEPTORS + 1];
        UNROLLED
        for (u32 m = 0; m < AT_ONCE; ++m) {
            own.place = l + m * THREADS;
            if (own.place >= end) continue;
            for (u32 k = 0; k < WORDS; ++k) s[m][k] = get_state(states, k, own.place);
            take(net, own, now, sums[m]);
        }
        UNROLLED
        for (u32 m = 0; m < AT_ONCE; ++m) {
            own.place = l + m * THREADS;
            if (own.place >= end) continue;
            own.neuron = dealt_number(net, own.place, block) - of_begin;
            live_stored<PLAIN>(net, desk, states, own, p, s[m], sums[m], now, block, t, turn);
        }
    }
}

// Neurons of many small populations in memory: threads that follow each other have neurons of different ones.
template <bool PLAIN> BE void live_mixed(const Net& net, Desk& desk, const States& states, const Now& now, u32 block, u32 tid,
                                         u32 t, u32 turn) {
    NOT_UNROLLED
    for (u32 l = tid; l < net.per; l += AT_ONCE * THREADS) {
        u32 s[AT_ONCE][WORDS + 1];
        int sums[AT_ONCE][RECEPTORS + 1];
        Own own;
        UNROLLED
        for (u32 m = 0; m < AT_ONCE; ++m) {
            own.place = l + m * THREADS;
            const u32 number = own.place < net.per ? states.which[own.place] : NO_POPULATION;
            if (number == NO_POPULATION) continue;
            own.kind = kind_in(net, number);
            for (u32 k = 0; k < WORDS; ++k) s[m][k] = get_state(states, k, own.place);
            take(net, own, now, sums[m]);
        }
        NOT_UNROLLED
        for (u32 m = 0; m < AT_ONCE; ++m) {
            u32 one[WORDS + 1], p[PARAMS + 1];
            int arrived[RECEPTORS + 1];
            UNROLLED
            for (u32 j = 0; j < AT_ONCE; ++j) {
                if (j != m) continue;
                for (u32 k = 0; k < WORDS; ++k) one[k] = s[j][k];
                for (u32 r = 0; r < RECEPTORS; ++r) arrived[r] = sums[j][r];
            }
            own.place = l + m * THREADS;
            const u32 number = own.place < net.per ? states.which[own.place] : NO_POPULATION;
            if (number == NO_POPULATION) continue;
            own_of_known(net, number, own);
            own.neuron = neuron_at(net, common_of(net, number), own.place, block);
            scalars(net, own, p);
            live_stored<PLAIN>(net, desk, states, own, p, one, arrived, now, block, t, turn);
        }
    }
}

template <bool PLAIN> BE void live_of(const Net& net, Desk& desk, const States& states, Own& own, u32 of_begin, u32 first,
                                      u32 size, const Now& now, u32 block, u32 tid, u32 t, u32 turn) {
    // Number `of_begin + k` is number (of_begin + k) / blocks of block (of_begin + k) % blocks, and neuron `first + k`.
    #one const u32 blocks = net.blocks, which = block;
    #several const u32 blocks = PLACED ? net.own_blocks : net.blocks, which = PLACED ? block - net.first_block : block;
    const u32 begin = (of_begin + blocks - 1 - which) / blocks;
    const u32 end = (of_begin + size + blocks - 1 - which) / blocks;
    live_from<PLAIN>(net, desk, states, own, of_begin - first, begin + tid, end, now, block, t, turn);
}

// Neurons in memory, population after population.
template <bool PLAIN> BE void live_in_memory(const Net& net, Desk& desk, const States& states, const Now& now, u32 block, u32 tid,
                                             u32 t, u32 turn) {
    if (MIXED) {
        live_mixed<PLAIN>(net, desk, states, now, block, tid, t, turn);
        return;
    }
    Own own;
    if (SHARED_ARE_PASSED) {
        UNROLLED
        for (u32 number = 0; number < COMMON; ++number) {
            const Common& of = net.common[number];
            own_of_known(net, number, own);
            live_of<PLAIN>(net, desk, states, own, of.begin, of.first, of.size, now, block, tid, t, turn);
        }
        return;
    }
    for (u32 number = 0; number < net.populations; ++number) {
        const Population& of = net.population[number];
        own_of(net, number, own);
        live_of<PLAIN>(net, desk, states, own, of.begin, of.first, of.size, now, block, tid, t, turn);
    }
}

BE void settle(const Net& net, Cell& cell, u32 block, u32 tid, u32 first) {
    const u32 number = dealt_number(net, tid, block), slot = block * net.per + tid;
    cell.is_there = false;
    if (tid >= net.per) return;
    for (u32 k = 0; k < net.populations; ++k) {
        const Population& of = net.population[k];
        if (number - of.begin >= of.size) continue;
        cell.is_there = true;
        own_of(net, k, cell.own);
        cell.own.neuron = number - of.begin + of.first;
        cell.own.place = tid;
        cell.row = net.rows[slot];
        for (u32 j = 0; j < WORDS; ++j) cell.s[j] = net.states[(u64)j * net.blocks * net.per + slot];
        scalars(net, cell.own, cell.p);
        each(net, cell.own, cell.p, slot);
        if (DRAWS) draw(net, cell.own, cell.p, cell.d, first);
    }
}
