// SPDX-License-Identifier: Apache-2.0
// What a block has in shared memory, and how rows of synapses are added to its ring, or to the sums of all blocks.

// ---- packets: UNITS units of 16 bytes, of which those are written that are needed. A unit has three rows of 32 bits, or
// six of 16, after 32 bits: tag:16 count:8 flags:8 in the first one, the number of the step after this one in others. If
// there are still more rows, they are listed in memory.

constexpr u32 INLINE = NARROW ? 6 : 3, LISTED = 255;
static_assert(UNITS == 1 || UNITS * INLINE <= MINE, "what is in a packet is in shared memory");
constexpr u32 FLAGS = 24, COUNT = (1u << FLAGS) - 1;  // the first word of own spikes: flags:8 count:24

struct alignas(16) Inbox {  // of a block of a cluster: packets of all blocks, and what says that they have come
    u64 packets[CLUSTER + 1][2], arrived, spare;
};

#prompt struct Post {  // where a lane of a sender writes, or one of a listener reads, if anywhere; with bits `other` in the next step
#late struct Post {  // where a lane of a sender writes, or one of a listener reads, if anywhere; `other` is where its first inbox is
    u64* at;
    u64 other;
};

// Whether all threads of a block meet once in a step, or once more at its end. They do so once where spikes are held and
// blocks await each other a step later: then one warp sends while the next step goes on.
#one constexpr bool MEETS_ONCE = false;
#several constexpr bool MEETS_ONCE = PUSHES && HOLD > 3 && LAG > 0 && !DRAWN_AHEAD && THREADS <= 512;  // as registers allow
#several constexpr u32 HELD_ROOM = MEETS_ONCE ? QUEUE / 2 : 1;  // rows of one step

// Which neurons a thread has. Then the warps that send and tell have the fewest.
BE u32 seat_of(u32 tid) { return MEETS_ONCE ? (tid + THREADS - (CARRIERS + 1) * 32) % THREADS : tid; }

struct alignas(16) Desk {  // what a block has in shared memory, besides ring and states
    u32 mine[2][MINE + 8];  // own spikes of a step: flags and their number, then their rows
    Inbox inbox[2];
    volatile u64 queue[QUEUE];  // rows to deliver: step + 1 : 32, row : 32
    #several u64* inboxes[GPUS];  // of all GPUs
    volatile u32 queued[2], heard[2];  // how many rows were queued, and how many warps of listeners are through
    u32 recorded, stop, others, spare;
    u32 fired[1 + MEETS_ONCE][MINE];  // of own spikes: what is recorded of them, and the places of their neurons
    #several u32 noted[KEPT], held[KEPT];  // flags of blocks of this GPU in the last steps; own spikes of those, if blocks push
    #several u32 told[4], counts[4][GPUS], quads[PUSHES ? QUEUE : 1];  // of namesakes: their flags, their spikes, what rows have
    #several u32 known[4], begun[GPUS], numbers[2][HELD_ROOM];  // of rows that are held: how many, where those of one begin, and their numbers
    #several const uint4* synapses;
    #due u32 taken[2];  // how many of the rows that are due warps have taken
    int nowhere[32];  // what is no synapse is added here, by each lane
    u64 launched, began, sends_since;  // when the launch began; the step; and that whose spikes are sent, which may be the one before
    u64 reached[MARKS], spent[MARKS];  // cycles of a step to its marks, and their sums
};

// Where the time of a step goes: cycles to the last thread that reaches a mark.
BE void mark(Desk& desk, u32 which) {
    if (CLOCKED) raise_in_block(&desk.reached[which], cycles() - (which == SENT ? desk.sends_since : desk.began));
}

BE void begin_step(Desk& desk) {
    if (!CLOCKED) return;
    for (u32 k = 0; k < MARKS; ++k) {
        desk.spent[k] += desk.reached[k];
        desk.reached[k] = 0;
    }
    desk.began = cycles();
    if (!MEETS_ONCE) desk.sends_since = desk.began;
}

// ---- delivery of a row to the ring of this block

struct Ring {
    int *sums, *nowhere;
    u32 now, slots, cells, delay_shift, cell_shift, cell_mask, weight_shift;
    Near near;
#ifdef GRADED
    u32 e;      // 0 or 1: whether the step is even or odd
    u32 value;  // of the spike whose row is delivered
#endif
};

// Values of spikes lie in memory behind the lists of spikes, where the sender of a row and those who deliver it find them:
// by the number of the row, for even and for odd steps. A packet says that they are there.
#ifdef GRADED
BE u32* value_at(const Net& net, u32 number, u32 e) {
    const u32 place = LAYOUT == PADDED ? number & 0xFFFFFFu : number;
    return net.list + 3ull * net.blocks * net.list_size + 2ull * place + e;
}

BE Ring of_row(const Net& net, const Ring& ring, u32 number) {
    Ring own = ring;
    if (!PUSHES) fence();
    own.value = get_word(value_at(net, number, ring.e));
    return own;
}

// What a synapse delivers: its weight times the value, rounded to a whole number of quanta.
BE int amount(const Ring& ring, int weight) {
    return ring.value == NO_VALUE ? weight : (int)rintf((float)weight * __uint_as_float(ring.value));
}
#else
BE const Ring& of_row(const Net&, const Ring& ring, u32) { return ring; }
BE int amount(const Ring&, int weight) { return weight; }
#endif

// A cell some cells further: a byte each with BYTES, where sums are those of |weights| that all have one sign.
BE int* cell_from(const int* cells, u32 further) {
    return BYTES ? (int*)((unsigned char*)cells + further) : (int*)cells + further;
}

BE int* cell_of(const Ring& ring, u32 place) {
    u32 slot = ring.now + (place >> ring.delay_shift);
    if (slot >= ring.slots) slot -= ring.slots;
    return cell_from(ring.sums, slot * ring.cells + (place >> ring.cell_shift & ring.cell_mask));
}

// Add to one of the four sums of a word. None of them leaves its byte.
BE void add_byte(const Ring& ring, u32 word) {
    const u64 at = (u64)cell_of(ring, word);
    const int weight = (int)(word << ring.weight_shift) >> ring.weight_shift;
    add_if(word, (int*)(at & ~3ull), (weight < 0 ? -weight : weight) << (at & 3) * 8, ring.nowhere);
}

BE u32 cell_in(const Ring& ring, u32 synapse) { return synapse >> ring.cell_shift & ring.cell_mask; }
BE int weight_in(const Ring& ring, u32 synapse) { return (int)(synapse << ring.weight_shift) >> ring.weight_shift; }
BE u32 step_of(const Ring& ring, u32 place) { return ring_step(ring.now + (place >> ring.delay_shift), ring.slots); }

// A synapse as it is listed: with the step of its sum in place of its delay.
BE u32 with_step(const Ring& ring, u32 synapse, u32 step) { return (synapse & (1u << ring.delay_shift) - 1) | step << ring.delay_shift; }

// The same with sums of 16 bits. What is near is added, and what is not takes the next place of a pile: both are one
// addition in shared memory, so there is no branch, and all are on their way at once. Then what is seldom is seen to.
template <u32 N> BE void add_words_near(const Ring& ring, const u32 (&words)[N]) {
    const Near& near = ring.near;
    const u32 own = own_pile(PILES);
    u32 before[N], seldom = 0;
    UNROLLED
    for (u32 k = 0; k < N; ++k) {
        const u32 ahead = (words[k] >> ring.delay_shift) - near.early, cell = cell_in(ring, words[k]);
        const u32 sum = ring_step(near.now + ahead, NEAR) * near.half + (cell >> 1);
        const u32 count = NEAR * near.half + (step_of(ring, words[k]) >> SPAN) * PILES + own;
        const bool is_near = ahead <= near.reach;
        u32* const at = or_nowhere(words[k] != 0, near.words + (is_near ? sum : count), ring.nowhere);
        before[k] = add_in_block(at, is_near ? shifted(cell, weight_in(ring, words[k])) : 1u);
    }
    UNROLLED
    for (u32 k = 0; k < N; ++k) {
        const u32 ahead = (words[k] >> ring.delay_shift) - near.early, step = step_of(ring, words[k]);
        const bool is_near = ahead <= near.reach, has_room = before[k] < PILE_ROOM;
        const int sum = sum_in(before[k], cell_in(ring, words[k])) + weight_in(ring, words[k]);
        const u32 at = ((step >> SPAN) * PILES + own) * PILE_ROOM + before[k];
        put_word_if((words[k] != 0) & !is_near & has_room, near.list + at, with_step(ring, words[k], step));
        seldom |= (u32)(is_near ? !CERTAIN & (sum != (int)(short)sum) : !has_room) << k;
    }
    if (USUALLY(!seldom)) return;
    UNROLLED
    for (u32 k = 0; k < N; ++k) {
        if (!(seldom >> k & 1) || !words[k]) continue;
        const u32 ahead = (words[k] >> ring.delay_shift) - near.early, step = step_of(ring, words[k]), cell = cell_in(ring, words[k]);
        if (ahead <= near.reach) carry(near, step, cell, before[k], weight_in(ring, words[k]));
        else add_far(near, step, cell, weight_in(ring, words[k]));
    }
}

BE void add_four_listed(const Ring& ring, const uint4& four, u32 number) {
    const Near& near = ring.near;
    const u32 words[4] = {four.x, four.y, four.z, four.w};
    UNROLLED
    for (u32 j = 0; j < 4; ++j) {
        if (j >= number) continue;
        const u32 cell = cell_in(ring, words[j]), step = words[j] >> ring.delay_shift;
        const u32 ahead = ring_step(step + ring.slots - ring.now, ring.slots), at = ring_step(near.now + ahead, NEAR);
        const int x = weight_in(ring, words[j]);
        check_sum(near, step, cell, add_in_block(word_of(near, at, cell), shifted(cell, x)), x);
    }
}

// In the step in which the last one of the next steps ends a span, add what was listed for it: of some piles at once. Clear
// the sums of this step.
BE void add_listed(const Ring& ring, u32 first, u32 count) {
    constexpr u32 SOME = PILES < 2 ? 1 : 2;
    const Near& near = ring.near;
    const u32 last = ring_step(ring.now + NEAR - 1, ring.slots), done = ring_step(ring.now + NEAR - 2, ring.slots);
    for (u32 k = first; k < near.half; k += count) near.words[near.now * near.half + k] = 0;
    if (first < PILES && ends_span(done, ring.slots)) near.counts[(done >> SPAN) * PILES + first] = 0;
    if (first == 0) near.rests[ring.now] = 0;
    if (!ends_span(last, ring.slots)) return;
    NOT_UNROLLED
    for (u32 pile = 0; pile < PILES; pile += SOME) {
        const u32 number = (last >> SPAN) * PILES + pile;
        u32 n[SOME], most = 0;
        UNROLLED
        for (u32 j = 0; j < SOME; ++j) {
            n[j] = near.counts[number + j] < PILE_ROOM ? near.counts[number + j] : PILE_ROOM;
            most = n[j] > most ? n[j] : most;
        }
        NOT_UNROLLED
        for (u32 k = first * 4; k < most; k += count * 4) {
            uint4 four[SOME];
            UNROLLED
            for (u32 j = 0; j < SOME; ++j)
                if (k < n[j]) four[j] = get_four((const uint4*)(near.list + (number + j) * PILE_ROOM + k));
            UNROLLED
            for (u32 j = 0; j < SOME; ++j)
                if (k < n[j]) add_four_listed(ring, four[j], n[j] - k);
        }
    }
}

// At the end of a launch: those of the last span that was added are still there.
BE void leave_listed(const Ring& ring, u32 tid) {
    const Near& near = ring.near;
    const u32 done = ring_step(ring.now + NEAR - 2, ring.slots), spans = spans_of(ring.slots);
    for (u32 number = tid / 32; number < spans * PILES; number += THREADS / 32) {
        const u32 all = near.counts[number], n = all < PILE_ROOM ? all : PILE_ROOM;
        if (ends_span(done, ring.slots) && number / PILES == done >> SPAN) continue;
        for (u32 k = tid % 32; k < n; k += 32) {
            const u32 synapse = get_word(near.list + number * PILE_ROOM + k);
            add_far(near, synapse >> ring.delay_shift, cell_in(ring, synapse), weight_in(ring, synapse));
        }
    }
    leave_near(near, ring.now, ring.slots, tid);
}

// Words that are 0 are no synapses. There is no branch: all addresses are computed side by side.
template <u32 N> BE void add_words(const Ring& ring, const u32 (&words)[N]) {
    if (BYTES) {
        for (u32 k = 0; k < N; ++k) add_byte(ring, words[k]);
        return;
    }
    if (NEAR) {
        add_words_near(ring, words);
        return;
    }
    for (u32 k = 0; k < N; ++k)
        add_if(words[k], cell_of(ring, words[k]), amount(ring, (int)(words[k] << ring.weight_shift) >> ring.weight_shift),
               ring.nowhere);
}

BE void add_four(const Ring& ring, const uint4& y) {
    if (WIDE) {  // place, weight
        add_if(y.x, cell_of(ring, y.x), amount(ring, (int)y.y), ring.nowhere);
        add_if(y.z, cell_of(ring, y.z), amount(ring, (int)y.w), ring.nowhere);
    } else add_words<4>(ring, {y.x, y.y, y.z, y.w});
}

// The same for two words.
BE void add_two(const Ring& ring, const uint2& y) {
    if (WIDE) add_if(y.x, cell_of(ring, y.x), amount(ring, (int)y.y), ring.nowhere);
    else add_words<2>(ring, {y.x, y.y});
}

struct Row {
    const uint4* at;
    u32 quads;
};

BE Row find_row(const Net& net, u32 block, u32 row) {
    if (LAYOUT == PADDED) {  // width / 2 quads : 8, base : 24, both for all blocks
        const u32 wide = row >> 24, base = row & 0xFFFFFFu;
        #one return {net.synapses + ((u64)base * net.blocks + (u64)block * wide) * 2, wide * 2};
        #several return {net.synapses + ((u64)base * net.own_blocks + (u64)(block - net.first_block) * wide) * 2, wide * 2};
    }
    const u32* start = (const u32*)net.starts + (u64)block * (net.sources + 1) + row;
    const u32 begin = fetch_word(start), end = fetch_word(start + 1);
    return {net.synapses + net.bases[block] + begin, end - begin};
}

// Short rows of this block: row k has the words starts[k] to starts[k + 1] - 1, or slot starts[k * blocks] holds it.
struct ShortRows {
    const u32* words;
    const Start* starts;
    u32 blocks;
};

BE void deliver_short(const ShortRows& rows, const Ring& ring, u32 begin, u32 end, u32 step = 4) {
    NOT_UNROLLED
    for (u32 k = begin; k < end; k += step) {  // four are read before the first is added
        u32 y[4];
        for (u32 j = 0; j < 4; ++j) y[j] = k + j < end ? read_row(rows.words + k + j) : 0;
        add_four(ring, {y[0], y[1], y[2], y[3]});
    }
}

BE u64 slot_of(const ShortRows& rows, u32 number) { return fetch_slot((const u64*)rows.starts + (u64)number * rows.blocks); }

BE void deliver_slot(const Net& net, const ShortRows& rows, const Ring& ring, u64 slot) {
    const u32 bits = net.slot_bits, mask = net.slot_mask;
    if (USUALLY(!(slot & ELSEWHERE)))
        add_words<3>(ring, {(u32)slot & mask, (u32)(slot >> bits) & mask, (u32)(slot >> 2 * bits) & mask});
    else deliver_short(rows, ring, (u32)slot, (u32)slot + ((u32)(slot >> 32) & 0x7FFFFFFFu));
}

#grouped // Of the group of a block: its number, its first block, and how many blocks it has.
#grouped BE const u32* group_of(const Net& net, u32 block) { return net.parts + 3 * (block - net.first_block); }
#due BE void add_unqueued(const Net& net, const Ring& ring, u32 block, u32 number);

// A lane delivers a row by itself: where rows are short, and where the queue is full.
BE void deliver_alone(const Net& net, const ShortRows& rows, const Ring& of_all, u32 block, u32 number) {
    const Ring& ring = of_row(net, of_all, number);
    #due add_unqueued(net, ring, block, number);
    #due return;
    if (LAYOUT == SLOTS) deliver_slot(net, rows, ring, slot_of(rows, number));
    else if (LAYOUT == SHORT) deliver_short(rows, ring, read_row(rows.starts + number), read_row(rows.starts + number + 1));
    else {
        const Row row = find_row(net, block, number);
        NOT_UNROLLED
        for (u32 k = 0; k < row.quads; ++k) add_four(ring, fetch(row.at + k));
    }
}

// ---- delivery of what is queued

// Wait for number q of the queue; say whether it is there, or no more come.
BE bool wait_for(const Desk& desk, u32 q, u32 t, u32& row) {
    bool found = false;
    while (q < QUEUE) {
        const u64 x = desk.queue[q];
        if (x >> 32 == (u64)(t + 1)) {
            row = (u32)x;
            found = true;
            break;
        }
        if (desk.heard[t & 1] == LISTENERS && q >= desk.queued[t & 1]) break;
        rest();
    }
    LANES_MEET;
    return found;
}

// What a lane reads of a row at once: two words where most rows have no more for all lanes, else four.
template <bool TWO> struct PieceOf { typedef uint4 Words; };
template <> struct PieceOf<true> { typedef uint2 Words; };
typedef PieceOf<TWO_WORDS>::Words Piece;

BE uint4 piece_of(const uint4&, const Row& row, u32 k) { return k < row.quads ? fetch(row.at + k) : uint4{0, 0, 0, 0}; }
BE uint2 piece_of(const uint2&, const Row& row, u32 k) {
    return k < row.quads * 2 ? fetch_two((const uint2*)row.at + k) : uint2{0, 0};
}
BE void add_piece(const Ring& ring, const uint4& x) { add_four(ring, x); }
BE void add_piece(const Ring& ring, const uint2& x) { add_two(ring, x); }

BE void deliver_rows(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t) {
    OfLane<Piece> y[2];
    Row rows[2];
    u32 q = warp, number, numbers[2];
    auto take = [&](u32 k) {  // request the first part of a row
        rows[k] = find_row(net, block, number);
        numbers[k] = number;
        LANES_DO
            y[k][lane] = piece_of(y[k][lane], rows[k], lane);
        LANES_END
        q += DELIVERERS;
    };
    auto give = [&](u32 k) {
        const Ring& own = of_row(net, ring, numbers[k]);
        LANES_DO
            add_piece(own, y[k][lane]);
            for (u32 j = lane + 32; j < rows[k].quads * (TWO_WORDS ? 2 : 1); j += 32) add_piece(own, piece_of(y[k][lane], rows[k], j));
        LANES_END
    };
    if (!wait_for(desk, q, t, number)) return;
    take(0);
    while (true) {  // one row is on its way while the next one is awaited
        if (!wait_for(desk, q, t, number)) { give(0); return; }
        take(1);
        give(0);
        if (!wait_for(desk, q, t, number)) { give(1); return; }
        take(0);
        give(1);
    }
}

// Number q of the queue, if it is there.
BE bool is_queued(const Desk& desk, u32 q, u32 t, u32& row) {
    const u64 x = desk.queue[q < QUEUE ? q : 0];
    row = (u32)x;
    return q < QUEUE && x >> 32 == (u64)(t + 1);
}

// The same where rows are short: TOGETHER parts of a warp deliver one each at a time, of which DEEP are on their way while the
// next one is awaited. No lane depends on another one. Where rows lie is looked up before the row before is awaited, and
// known when that one has been asked for. A padded row ends with a word that is 0: lanes have nothing to add behind it.
BE void deliver_together(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t) {
    constexpr u32 PART = 32 / TOGETHER, DEEP = HELPING ? 1 : 3;  // of many warps, each has less on its way
    OfLane<uint4> y[DEEP + 1];
    OfLane<u32> next[DEEP + 1], end[DEEP + 1], q, has, waits;  // the next quad of a row for this lane, and behind its last one
    const uint4* const synapses = net.synapses + (LAYOUT == PADDED ? 0 : net.bases[block]);
    const u32* const starts = (const u32*)net.starts + (u64)block * (net.sources + 1);
    LANES_DO
        q[lane] = warp * TOGETHER + lane / PART;
        waits[lane] = 1;
        UNROLLED
        for (u32 k = 0; k <= DEEP; ++k) next[k][lane] = end[k][lane] = 0;
    LANES_END
    auto fetched = [&](u32 row, u32 at) {  // padded rows are known by their number, and others by where they lie
        if (LAYOUT != PADDED) return fetch(synapses + at);
        return fetch(find_row(net, block, row).at + at);
    };
    auto take = [&](u32 k) {  // request the first parts of the next rows, if any more comes, or look up where those lie
        while (true) {
            LANES_DO
                u32 number;
                has[lane] = waits[lane] && is_queued(desk, q[lane], t, number);
                if (has[lane]) {
                    if (LAYOUT == PADDED) {
                        next[k][lane] = lane % PART;
                        end[k][lane] = number;
                        y[k][lane] = lane % PART < (number >> 24) * 2 ? fetched(number, lane % PART) : uint4{0, 0, 0, 0};
                    } else {
                        next[k][lane] = fetch_word(starts + number) + lane % PART;
                        end[k][lane] = fetch_word(starts + number + 1);
                    }
                    q[lane] += DELIVERERS * TOGETHER;
                } else waits[lane] = q[lane] < QUEUE && !(desk.heard[t & 1] == LISTENERS && q[lane] >= desk.queued[t & 1]);
            LANES_END
            LANES_MEET;
            if (highest(has)) return true;
            if (!highest(waits)) return false;
            rest();
        }
    };
    auto ask = [&](u32 k) {  // request what was looked up
        LANES_DO
            if (LAYOUT != PADDED && next[k][lane] < end[k][lane]) y[k][lane] = fetched(0, next[k][lane]);
        LANES_END
    };
    auto give = [&](u32 k) {
        LANES_DO
            const u32 row = end[k][lane], last = LAYOUT == PADDED ? (row >> 24) * 2 : row;
            end[k][lane] = 0;
            uint4 four = y[k][lane];
            NOT_UNROLLED
            for (u32 at = next[k][lane]; at < last && four.x;) {
                add_four(ring, four);
                at += PART;
                if (at < last && (WIDE ? four.z : four.w)) four = fetched(row, at);
                else break;
            }
        LANES_END
    };
    bool more = true, asks = false;
    NOT_UNROLLED
    for (u32 left = DEEP + 1; left;) {
        UNROLLED
        for (u32 k = 0; k <= DEEP; ++k) {
            give(k);
            if (asks) ask((k + DEEP) % (DEEP + 1));
            if (more) more = take(k);
            else if (left) --left;
            asks = more;
        }
    }
}

BE void deliver_by_lanes(const Net& net, const Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 first, u32 t) {
    constexpr u32 LANES = CARRIERS * 32;
    u32 row, other;
    for (u32 q = first; q < QUEUE; q += LANES) {
        while (!is_queued(desk, q, t, row)) {
            if (desk.heard[t & 1] == LISTENERS && q >= desk.queued[t & 1]) return;
            rest();
        }
        if (LAYOUT != SLOTS) {
            deliver_alone(net, rows, ring, block, row);
            continue;
        }
        const u64 slot = slot_of(rows, row);  // two are on their way at once, if there are two
        const bool two = is_queued(desk, q + LANES, t, other);
        const u64 next = two ? slot_of(rows, other) : 0;
        deliver_slot(net, rows, of_row(net, ring, row), slot);
        if (!two) continue;
        deliver_slot(net, rows, of_row(net, ring, other), next);
        q += LANES;
    }
}

// ---- delivery to all blocks

// The number of a row: that of the source neuron, unless it is the row's place.
BE u32 number_of(const Net& net, u32 from, u32 row) { return LAYOUT == PADDED ? row : row * net.blocks + from; }

// Ask for the rows of a spike of this block, which all blocks of this GPU are about to read: so they come while its packet
// is on its way.
BE void ask_for_rows(const Net& net, u32 block, u32 row) {
    #one const u32 blocks = net.blocks;
    #several const u32 blocks = net.own_blocks;
    if (LAYOUT == PADDED) ask_for_all(net.synapses + (u64)(row & 0xFFFFFFu) * blocks * 2, (row >> 24) * blocks * 2);
    #due ask_for((const u64*)net.starts + (u64)number_of(net, block, row) * GROUPS);
    if (LAYOUT == SLOTS) ask_for_all((const u64*)net.starts + (u64)number_of(net, block, row) * blocks, blocks);
}

// Ask for where the row of a spike lies that this block is about to push.
BE void ask_for_start(const Net& net, u32 block, u32 row) { ask_for((const u32*)net.starts + number_of(net, block, row)); }

// Warps that push own rows. On several GPUs, some queue those of namesakes meanwhile.
#one constexpr u32 PUSHERS = THREADS / 32;
#several constexpr u32 QUEUERS = GPUS - 1 < THREADS / 64 ? GPUS - 1 : THREADS / 64, PUSHERS = THREADS / 32 - QUEUERS;

// Add the rows of own spikes to the sums of all blocks.
BE void push_rows(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t) {
    const u32 n = desk.mine[t & 1][0] & COUNT;
    const u32* list = net.list + (u64)((t & 1) * net.blocks + block) * net.list_size;
    auto number_at = [&](u32 k) { return number_of(net, block, k < MINE ? desk.mine[t & 1][k + 1] : list[k]); };
    NOT_UNROLLED
    for (u32 k = warp; k < n; k += 2 * PUSHERS) {  // two rows are on their way at once, if there are two
        const bool two = k + PUSHERS < n;
        const u32 number = number_at(k), other = two ? number_at(k + PUSHERS) : 0;
        const Row row = find_row(net, 0, number), next = two ? find_row(net, 0, other) : Row{nullptr, 0};
        const Ring &own = of_row(net, ring, number), &of_other = of_row(net, ring, other);
        LANES_DO
            const uint4 none = {0, 0, 0, 0};
            const uint4 y = lane < row.quads ? fetch(row.at + lane) : none;
            const uint4 z = lane < next.quads ? fetch(next.at + lane) : none;
            if (lane < row.quads) add_four(own, y);
            if (lane < next.quads) add_four(of_other, z);
            NOT_UNROLLED
            for (u32 j = lane + 32; j < row.quads; j += 32) add_four(own, fetch(row.at + j));
            NOT_UNROLLED
            for (u32 j = lane + 32; j < next.quads; j += 32) add_four(of_other, fetch(next.at + j));
        LANES_END
    }
}
