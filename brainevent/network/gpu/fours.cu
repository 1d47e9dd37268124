// SPDX-License-Identifier: Apache-2.0
// So many neurons that a thread has many: those of a population in fours, which are read, computed and written together.
// Their states stay in registers and in shared memory during all steps of a launch, as far as there is room.

struct Fours {
    u32 kept[KEPT_FOURS + 1][4];  // words of states in registers
    u32 ends[COMMON];             // of each population: the place behind its last neuron in this block
};

struct Sums {  // of this step, of each receptor, from the first four of a thread on
    int* of[RECEPTORS + 1];
};

struct Asked {  // what is on its way from memory for four neurons
    uint4 sums[RECEPTORS + 1], words[WORDS + 1];
};

BE u32 place_of_four(u32 q, u32 tid) { return (q * THREADS + tid) * 4; }

// Numbers with a fraction have room in turn: all such words of a four, then those of the next one. First there is room in
// registers, then in shared memory, then in memory. Other words seldom change: they lie in memory, as bytes.
BE constexpr bool is_packed(u32 word) { return WHOLE_WORDS >> word & 1; }
BE constexpr u32 room_of(u32 q, u32 word) { return q * FRACTIONS + turn_of(word); }
BE constexpr bool is_kept(u32 q, u32 word) { return !is_packed(word) && room_of(q, word) < KEPT_FOURS; }
BE constexpr bool is_outside(u32 q, u32 word) { return is_packed(word) || room_of(q, word) >= KEPT_FOURS + SHARED_FOURS; }

BE uint4* four_inside(const States& of, u32 q, u32 word, u32 tid) {
    return (uint4*)of.inside + ((room_of(q, word) - KEPT_FOURS) * THREADS + tid);
}

BE uint4* four_outside(const States& of, u32 q, u32 word, u32 tid) {
    return (uint4*)(of.outside + word * of.slots + place_of_four(q, tid));
}

// Four words as bytes lie behind all states. A byte of 255 says that the word is where it was.
BE u32* four_packed(const States& of, u32 q, u32 word, u32 tid) {
    return of.outside + (WORDS + turn_of(word) / 4) * of.slots + turn_of(word) % 4 * (of.per / 4) + q * THREADS + tid;
}

BE bool has_escaped(u32 packed) { return (~packed - 0x01010101u) & packed & 0x80808080u; }

BE uint4 four_of(const u32* x) { return {x[0], x[1], x[2], x[3]}; }

BE void spread(const uint4& x, u32* to) {
    to[0] = x.x;
    to[1] = x.y;
    to[2] = x.z;
    to[3] = x.w;
}

BE uint4 unpacked(const States& of, u32 q, u32 word, u32 tid, u32 packed) {
    uint4 x = {packed & 255, packed >> 8 & 255, packed >> 16 & 255, packed >> 24};
    if (USUALLY(!has_escaped(packed))) return x;
    const uint4 whole = *four_outside(of, q, word, tid);
    return {x.x < 255 ? x.x : whole.x, x.y < 255 ? x.y : whole.y, x.z < 255 ? x.z : whole.z, x.w < 255 ? x.w : whole.w};
}

BE u32 byte_of(u32 x) { return x < 255 ? x : 255; }

BE void put_packed(const States& of, u32 q, u32 word, u32 tid, const uint4& x, u32 before) {
    u32 packed = bytes_as_word(x.x, x.y, x.z, x.w);
    if (!USUALLY((x.x | x.y | x.z | x.w) < 255)) {
        packed = bytes_as_word(byte_of(x.x), byte_of(x.y), byte_of(x.z), byte_of(x.w));
        if (has_escaped(packed)) *four_outside(of, q, word, tid) = x;
    }
    if (packed != before) *four_packed(of, q, word, tid) = packed;
}

// How many neurons of the population there are from the first of four on.
BE u32 there_of(const Fours& fours, u32 q, u32 tid) {
    const u32 place = place_of_four(q, tid), end = fours.ends[population_of(q)];
    return place >= end ? 0 : end - place;
}

BE void settle_fours(const Net& net, const States& states, Fours& fours, u32 block, u32 tid) {
    for (u32 k = 0; k < COMMON; ++k)
        fours.ends[k] = (net.common[k].begin + net.common[k].size + net.blocks - 1 - block) / net.blocks;
    UNROLLED
    for (u32 q = 0; q < FOURS; ++q)
        for (u32 word = 0; word < WORDS; ++word) {
            const bool there = there_of(fours, q, tid) > 0;
            const uint4 x = there ? *four_outside(states, q, word, tid) : uint4{0, 0, 0, 0};
            if (is_kept(q, word)) spread(x, fours.kept[is_kept(q, word) ? room_of(q, word) : 0]);
            else if (!is_outside(q, word)) *four_inside(states, q, word, tid) = x;
            else if (is_packed(word) && there) {
                *four_packed(states, q, word, tid) = 0;
                put_packed(states, q, word, tid, x, 0);
            }
        }
}

BE uint4 get_states(const States& states, const Fours& fours, u32 q, u32 word, u32 tid) {
    if (is_packed(word)) return unpacked(states, q, word, tid, *four_packed(states, q, word, tid));
    if (is_kept(q, word)) return four_of(fours.kept[is_kept(q, word) ? room_of(q, word) : 0]);
    return is_outside(q, word) ? *four_outside(states, q, word, tid) : *four_inside(states, q, word, tid);
}

BE void store_fours(const States& states, const Fours& fours, u32 tid) {
    UNROLLED
    for (u32 q = 0; q < FOURS; ++q)
        for (u32 word = 0; word < WORDS; ++word)
            if ((is_packed(word) || !is_outside(q, word)) && there_of(fours, q, tid))
                *four_outside(states, q, word, tid) = get_states(states, fours, q, word, tid);
}

BE void ask(const States& states, const Fours& fours, const Sums& sums, u32 q, u32 tid, Asked& asked) {
    if (!there_of(fours, q, tid)) return;
    for (u32 r = 0; r < receptors_of(kind_of(population_of(q))); ++r) {
        const int* at = cell_from(sums.of[r], q * THREADS * 4);
        if (BYTES) asked.sums[r].x = get_word((const u32*)at);
        else asked.sums[r] = get_four((const uint4*)at);
    }
    for (u32 word = 0; word < WORDS; ++word)
        if (is_packed(word)) asked.words[word].x = *four_packed(states, q, word, tid);
        else if (is_outside(q, word)) asked.words[word] = *four_outside(states, q, word, tid);
}

BE void clear_four(const Sums& sums, u32 q, const Asked& asked) {
    for (u32 r = 0; r < receptors_of(kind_of(population_of(q))); ++r) {
        int* at = cell_from(sums.of[r], q * THREADS * 4);
        const uint4& x = asked.sums[r];
        if (BYTES) {
            if (x.x) *(u32*)at = 0;
        } else if (x.x | x.y | x.z | x.w) *(uint4*)at = uint4{0, 0, 0, 0};
    }
}

// What has arrived for neuron j of four, as `arriving` takes it: with sums of a byte, the bits of 2^23 plus that.
BE int sum_of(const uint4& x, u32 j) {
    if (BYTES) return (int)byte_among(x.x, j);
    return (int)(j == 0 ? x.x : j == 1 ? x.y : j == 2 ? x.z : x.w);
}

BE uint4 given_states(const States& states, const Fours& fours, u32 q, u32 word, u32 tid, const Asked& asked) {
    if (is_packed(word)) return unpacked(states, q, word, tid, asked.words[word].x);
    return is_outside(q, word) ? asked.words[word] : get_states(states, fours, q, word, tid);
}

BE void put_states(const States& states, Fours& fours, u32 q, u32 word, u32 tid, const uint4& x, const Asked& asked) {
    if (is_packed(word)) put_packed(states, q, word, tid, x, asked.words[word].x);
    else if (is_kept(q, word)) spread(x, fours.kept[is_kept(q, word) ? room_of(q, word) : 0]);
    else if (is_outside(q, word)) *four_outside(states, q, word, tid) = x;
    else *four_inside(states, q, word, tid) = x;
}

// One step of four neurons; the bits of those that spiked.
template <bool PLAIN> BE u32 live_four(const Net& net, Desk& desk, const States& states, Fours& fours, u32 q,
                                       const Sums& of_all, const Asked& asked, u32 block, u32 tid, u32 t, u32 turn) {
    const u32 there = there_of(fours, q, tid);
    if (!there) return 0;
    u32 s[4][WORDS + 1], fired = 0;
    for (u32 word = 0; word < WORDS; ++word) {
        const uint4 x = given_states(states, fours, q, word, tid, asked);
        s[0][word] = x.x;
        s[1][word] = x.y;
        s[2][word] = x.z;
        s[3][word] = x.w;
    }
    Own own;
    own_of_known(net, population_of(q), own);
    u32 p[PARAMS + 1], d[DRAWS + 1];
    scalars(net, own, p);
    UNROLLED
    for (u32 j = 0; j < 4; ++j) {
        own.place = place_of_four(q, tid) + j;
        own.neuron = neuron_at(net, net.common[own.population], own.place, block);
        each(net, own, p, block * net.per + own.place);
        if (DRAWS) draw(net, own, p, d, t);
        int sums[RECEPTORS + 1];
        for (u32 r = 0; r < receptors_of(kind_of(population_of(q))); ++r) sums[r] = sum_of(asked.sums[r], j);
        bool strange = false;
        const bool spike = update<PLAIN>(net, own, s[j], p, d, sums, t, turn, strange);
        if (CHECKED && strange && j < there) or_in_block(&desk.mine[t & 1][0], NOT_FINITE << FLAGS);
        fired |= (u32)spike << j;
    }
    for (u32 word = 0; word < WORDS; ++word)
        put_states(states, fours, q, word, tid, uint4{s[0][word], s[1][word], s[2][word], s[3][word]}, asked);
    clear_four(of_all, q, asked);
    return fired & 15u >> (there < 4 ? 4 - there : 0);
}

// Samples of states after a step.
BE void sample_fours(const Net& net, const States& states, const Fours& fours, u32 block, u32 tid, u32 t) {
    NOT_UNROLLED
    for (u32 k = 0; k < net.samples; ++k) {
        const Sample& of = net.sample[k];
        if (t % of.every) continue;
        u32* const out = of.out + (u64)(t / of.every - of.before) * of.width;
        UNROLLED
        for (u32 q = 0; q < FOURS; ++q) {
            const u32 there = there_of(fours, q, tid);
            if (population_of(q) != of.population || !there) continue;
            u32 values[4];
            for (u32 word = 0; word < WORDS; ++word)
                if (word == of.word) spread(get_states(states, fours, q, word, tid), values);
            for (u32 j = 0; j < 4 && j < there; ++j) {
                const int column = of.columns[block * net.per + place_of_four(q, tid) + j];
                if (column >= 0) out[column] = values[j];
            }
        }
    }
}

// One step of all neurons of a thread. What lies in memory is on its way for some fours at once.
template <bool PLAIN> BE void live_fours(const Net& net, Desk& desk, const States& states, Fours& fours, int* now, u32 block,
                                         u32 tid, u32 t, u32 turn) {
    #one constexpr u32 AHEAD = 1;
    #several constexpr u32 AHEAD = THREADS <= 512 && FOURS > 1 && FOURS < 6 ? FOURS - 1 : 1;  // as registers allow
    Asked asked[AHEAD + 1];
    u32 fired[(FOURS + 7) / 8] = {};
    Sums sums;
    for (u32 r = 0; r < RECEPTORS; ++r) sums.of[r] = cell_from(now, net.reach[r] + tid * 4);
    UNROLLED
    for (u32 q = 0; q < AHEAD && q < FOURS; ++q) ask(states, fours, sums, q, tid, asked[q]);
    UNROLLED
    for (u32 q = 0; q < FOURS; ++q) {
        if (q + AHEAD < FOURS) ask(states, fours, sums, q + AHEAD, tid, asked[(q + AHEAD) % (AHEAD + 1)]);
        const u32 bits = live_four<PLAIN>(net, desk, states, fours, q, sums, asked[q % (AHEAD + 1)], block, tid, t, turn);
        fired[q / 8] |= bits << q % 8 * 4;
    }
    if (!PLAIN && net.samples) sample_fours(net, states, fours, block, tid, t);
    UNROLLED
    for (u32 k = 0; k < (FOURS + 7) / 8; ++k) {
        NOT_UNROLLED
        for (u32 bits = fired[k]; bits; bits &= bits - 1) {
            const u32 bit = lowest_bit(bits), q = k * 8 + bit / 4, place = place_of_four(q, tid) + bit % 4;
            #prompt spiked(net, desk, net.common[population_of(q)].flags, place, place, block, t & 1);
            #late spiked(net, desk, net.common[population_of(q)].flags, place, place, block, t);
        }
    }
}
