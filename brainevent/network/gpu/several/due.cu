// SPDX-License-Identifier: Apache-2.0
// Rows of groups: neurons of a GPU that have most of their synapses among themselves are dealt to blocks of their own. So a
// spike has a long row in each block of its group, and none or short ones in others.
//
// A row has its synapses in the order of their delays. Those that arrive in the next steps, whose sums are in shared
// memory, are added; then the row is listed, with its first synapse that is left, for the step before that arrives. So
// there is one entry for the synapses of some steps, and a row from afar is not read until it is due. What a launch leaves in lists
// is added to the sums in memory, and so are rows for which a list has no room: that takes longer, and loses nothing.
//
// An entry: where the rest of the row begins, in quads : 32, how many quads it has : 10, the slot of the step of its spike : 11,
// and how many quads are read at once when it is due, some more than those of the steps before : 6.

constexpr u32 DUE = PILE_ROOM / 2;           // rows of a list
constexpr u32 QUADS = 10, LEAST = 12;        // bits of an entry; where ~ of the least delay begins in a start
constexpr u32 SINCE = 11, SPARE = 3, MOST_READ = 24;  // its bits; quads that are read besides those expected; at most
static_assert(NEAR > 2, "what is listed is not due in the next step");

struct DueRow {
    u32 at, quads, since, read;  // `read`: what has been read for this step, or is to be read at once
};

BE u64 entry_of(const DueRow& row) {
    return (u64)row.read << (32 + QUADS + SINCE) | (u64)row.since << (32 + QUADS) | (u64)row.quads << 32 | row.at;
}

BE DueRow row_of_entry(u64 entry) {
    const u32 high = (u32)(entry >> (32 + QUADS));
    return {(u32)entry, (u32)(entry >> 32) & ((1u << QUADS) - 1), high & ((1u << SINCE) - 1), high >> SINCE};
}

// How many steps one slot is behind another one.
BE u32 steps_between(const Ring& ring, u32 since, u32 now) { return now < since ? now + ring.slots - since : now - since; }

// Add to the sums in memory what of a row arrives after a step, given how many steps that is behind the spike.
BE void add_row_far(const Net& net, const Ring& ring, const DueRow& row, u32 late) {
    NOT_UNROLLED
    for (u32 k = 0; k < row.quads; ++k) {
        const uint4 four = fetch(net.synapses + row.at + k);
        const u32 words[4] = {four.x, four.y, four.z, four.w};
        UNROLLED
        for (u32 j = 0; j < 4; ++j) {
            const u32 delay = words[j] >> ring.delay_shift;
            if (words[j] && delay > late) add_far(ring.near, ring_step(row.since + delay, ring.slots), cell_in(ring, words[j]), weight_in(ring, words[j]));
        }
    }
}

// List a row for the step before its first synapse arrives, which has such a delay.
BE void list_row(const Net& net, const Ring& ring, DueRow row, u32 delay) {
    row.read = row.read < MOST_READ ? row.read : MOST_READ;
    const u32 due = ring_step(row.since + delay - 1, ring.slots), k = next_in_block(ring.near.counts + due);
    if (USUALLY(k < DUE)) put_long((u64*)(ring.near.list + due * PILE_ROOM) + k, entry_of(row));
    else add_row_far(net, ring, row, delay - 1);
}

// Add four synapses that arrive within reach; return the delay of the first one that arrives later, 0 if there is none.
BE u32 add_due(const Ring& ring, const uint4& four, u32 late) {
    const Near& near = ring.near;
    const u32 words[4] = {four.x, four.y, four.z, four.w};
    u32 later = 0;
    UNROLLED
    for (u32 k = 0; k < 4; ++k) {
        const u32 delay = words[k] >> ring.delay_shift, cell = cell_in(ring, words[k]);
        const int ahead = (int)(delay - late), x = weight_in(ring, words[k]);
        const bool is_near = ahead > 0 && ahead < (int)NEAR;  // a word that is no synapse has no delay
        u32* const at = near.words + ring_step(near.now + (u32)ahead, NEAR) * near.half + (cell >> 1);
        if (CERTAIN) only_add(is_near, at, shifted(cell, x), ring.nowhere);
        else if (is_near) check_sum(near, ring_step(ring.now + (u32)ahead, ring.slots), cell, add_in_block(at, shifted(cell, x)), x);
        if (ahead >= (int)NEAR && !later) later = delay;
    }
    return later;
}

BE uint4 quad_of(const Net& net, const DueRow& row, u32 k) {
    return k < row.quads ? fetch(net.synapses + row.at + k) : uint4{0, 0, 0, 0};
}

// Of parts of a warp that have read some quads of a row each: list the row from the first quad that is not done; say in
// which lanes all are, so that there may be more to read.
template <u32 PART> BE void list_rest(const Net& net, const Ring& ring, OfLane<DueRow>& rows, OfLane<u32>& later, u32 first) {
    OfLane<u32> has;
    LANES_DO
        has[lane] = later[lane] != 0;
    LANES_END
    const u32 lanes = lanes_with(has);
    LANES_DO
        const u32 own = lanes >> (lane / PART * PART) & (PART < 32 ? (1u << (PART & 31)) - 1 : ~0u);
        const u32 k = first + lane % PART;
        DueRow& row = rows[lane];
        if (later[lane] && lowest_bit(own) == lane % PART) list_row(net, ring, {row.at + k, row.quads - k, row.since, row.read + k + SPARE}, later[lane]);
        if (own) row.quads = 0;
    LANES_END
}

// Deliver what is read of the rows of some parts of a warp, `FIRST` quads of each, and read on where all of that was near.
template <u32 PART> BE void deliver_read(const Net& net, const Ring& ring, OfLane<DueRow>& rows, OfLane<uint4>& y) {
    OfLane<u32> later, more;
    u32 first = 0;
    NOT_UNROLLED
    while (true) {
        LANES_DO
            const DueRow& row = rows[lane];
            later[lane] = first + lane % PART < row.quads ? add_due(ring, y[lane], steps_between(ring, row.since, ring.now)) : 0;
        LANES_END
        list_rest<PART>(net, ring, rows, later, first);
        first += PART;
        LANES_DO
            more[lane] = first < rows[lane].quads;
        LANES_END
        if (!highest(more)) return;
        LANES_DO
            y[lane] = quad_of(net, rows[lane], first + lane % PART);
        LANES_END
    }
}

// A quad of a row that is due: quad k of those that are read of it at once.
struct DueQuad {
    DueRow row;
    u32 k;
    uint4 words;
};

BE u32 read_at_once(const DueRow& row) { return row.quads < row.read ? row.quads : row.read; }

// Deliver what is due in this step, by all warps. Each has a share of the entries, one a lane; then lanes have quads of
// their rows side by side.
BE void deliver_due(const Net& net, const Ring& ring, u32 warp) {
    constexpr u32 WARPS = THREADS / 32;
    const u32 all = ring.near.counts[ring.now], n = all < DUE ? all : DUE;
    const u64* const list = (const u64*)(ring.near.list + ring.now * PILE_ROOM);
    OfLane<u64> entries;
    OfLane<u32> sizes, ends, has, more, at, left;
    OfLane<DueQuad> one, other;
    OfLane<DueRow> rest;
    OfLane<uint4> y;
    NOT_UNROLLED
    for (u32 begin = 0; begin < n; begin += 32 * WARPS) {
        const u32 some = n - begin < 32 * WARPS ? n - begin : 32 * WARPS, share = (some + WARPS - 1) / WARPS;
        const u32 from = warp * share, end = from + share < some ? from + share : some;
        if (from >= end) continue;
        LANES_DO
            entries[lane] = from + lane < end ? get_long(list + begin + from + lane) : 0;
            sizes[lane] = read_at_once(row_of_entry(entries[lane]));
        LANES_END
        const u32 quads = sums_up_to(sizes, ends);
        auto ask = [&](u32 first, OfLane<DueQuad>& into) {
            LANES_DO
                u32 which = 0;  // how many rows end before this quad
                UNROLLED
                for (u32 step = 16; step; step /= 2) which += of_lane(ends, which + step - 1) <= first + lane ? step : 0;
                const DueRow row = row_of_entry(of_lane(entries, which));
                const u32 behind = of_lane(ends, which), k = first + lane - (behind - read_at_once(row));
                const bool is_there = first + lane < quads;
                into[lane] = {row, k, is_there ? fetch(net.synapses + row.at + k) : uint4{0, 0, 0, 0}};
            LANES_END
        };
        u32 before = 0;  // whether the last lane had a synapse that arrives later
        auto give = [&](OfLane<DueQuad>& of) {
            LANES_DO
                const DueQuad& own = of[lane];
                at[lane] = add_due(ring, own.words, steps_between(ring, own.row.since, ring.now));
                has[lane] = at[lane] != 0;
            LANES_END
            const u32 lanes = lanes_with(has);
            LANES_DO
                const DueQuad& own = of[lane];
                const u32 k = own.k;
                const bool follows = k && (lane ? lanes >> (lane - 1) & 1 : before);
                if (has[lane] && !follows) list_row(net, ring, {own.row.at + k, own.row.quads - k, own.row.since, k + SPARE}, at[lane]);
                more[lane] = !has[lane] && own.words.x && k + 1 == own.row.read && k + 1 < own.row.quads;
            LANES_END
            before = lanes >> 31;
            NOT_UNROLLED
            for (u32 going = lanes_with(more); going; going &= going - 1) {  // all that was read of these is near
                LANES_DO
                    const DueRow& row = of[lane].row;
                    at[lane] = row.at + row.read;
                    left[lane] = row.quads - row.read;
                    sizes[lane] = row.since << 16 | row.read;
                LANES_END
                const u32 which = lowest_bit(going), next = of_lane(at, which), number = of_lane(left, which), both = of_lane(sizes, which);
                LANES_DO
                    rest[lane] = {next, number, both >> 16, both & 0xFFFF};
                    y[lane] = quad_of(net, rest[lane], lane);
                LANES_END
                deliver_read<32>(net, ring, rest, y);
            }
        };
        ask(0, one);
        NOT_UNROLLED
        for (u32 k = 0; k < quads; k += 64) {
            if (k + 32 < quads) ask(k + 32, other);
            give(one);
            if (k + 32 >= quads) break;
            if (k + 64 < quads) ask(k + 64, one);
            give(other);
        }
    }
}

// Ask for the rows that are due in the next step: all of them are listed, since what is listed now is due later.
BE void ask_for_due(const Net& net, const Ring& ring, u32 tid) {
    const u32 next = ring_step(ring.now + 1, ring.slots), all = ring.near.counts[next], n = all < DUE ? all : DUE;
    for (u32 k = tid; k < n; k += THREADS) {
        const DueRow row = row_of_entry(get_long((const u64*)(ring.near.list + next * PILE_ROOM) + k));
        ask_for_all(net.synapses + row.at, read_at_once(row));
    }
}

BE u64 start_of_rows(const Net& net, u32 block, u32 number) {
    return fetch_slot((const u64*)net.starts + (u64)number * GROUPS + group_of(net, block)[0]);
}

BE DueRow row_in(const Net& net, const Ring& ring, u32 block, u64 start) {
    const u32 quads = (u32)(start >> 32) & ((1u << LEAST) - 1);
    return {(u32)start + (block - net.first_block - group_of(net, block)[1]) * quads, quads, ring.now, quads};
}

BE u32 least_delay(u64 start) { return 0xFFFu - (u32)(start >> (32 + LEAST)); }

// Ask for what blocks of this group are about to read of the rows of own spikes.
BE void ask_for_first(const Net& net, const Desk& desk, u32 block, u32 n, u32 e, u32 lane) {
    const u32 blocks = group_of(net, block)[2];
    NOT_UNROLLED
    for (u32 j = lane; j < (n < MINE ? n : MINE) * blocks; j += 32) {
        const u64 start = start_of_rows(net, block, number_of(net, block, desk.mine[e][1 + j / blocks]));
        const u32 quads = (u32)(start >> 32) & ((1u << LEAST) - 1), first = quads < MOST_READ / 2 ? quads : MOST_READ / 2;
        if (least_delay(start) < NEAR + LAG) ask_for_all(net.synapses + (u32)start + j % blocks * quads, first);
    }
}

// A row for which the queue has no room.
BE void add_unqueued(const Net& net, const Ring& ring, u32 block, u32 number) {
    add_row_far(net, ring, row_in(net, ring, block, start_of_rows(net, block, number)), 0);
}

// Deliver the rows of spikes that are queued, of which most are listed for later. `past` is the ring when they were sent. A
// warp delivers those of which synapses arrive soon, if this step `lives`: they often follow each other in the queue, so
// what does is shared out over warps.
BE void deliver_queued(const Net& net, const Desk& desk, const Ring& ring, const Ring& past, u32 block, u32 warp, u32 t, bool lives) {
    OfLane<u32> has, waits, at, quads;
    OfLane<u64> starts;
    OfLane<DueRow> rows, next;
    OfLane<uint4> y, z;
    u32 number;
    NOT_UNROLLED
    for (u32 first = 0; first < QUEUE; first += DELIVERERS * 32) {
        while (true) {
            LANES_DO
                const u32 q = first + lane * DELIVERERS + (warp + lane) % DELIVERERS;  // lanes look into different banks
                has[lane] = is_queued(desk, q, t, number);
                starts[lane] = number;
                waits[lane] = !has[lane] && q < QUEUE && !(desk.heard[t & 1] == LISTENERS && q >= desk.queued[t & 1]);
            LANES_END
            LANES_MEET;
            if (!highest(waits)) break;
            rest();
        }
        if (!highest(has)) return;
        LANES_DO
            starts[lane] = has[lane] ? start_of_rows(net, block, (u32)starts[lane]) : 0;
        LANES_END
        LANES_DO
            const DueRow row = row_in(net, past, block, starts[lane]);
            const u32 delay = least_delay(starts[lane]);
            at[lane] = row.at;
            quads[lane] = row.quads;
            has[lane] = row.quads && lives && delay < NEAR + LAG;
            if (row.quads && !has[lane]) list_row(net, past, row, delay);
        LANES_END
        NOT_UNROLLED
        for (u32 lanes = lanes_with(has); lanes; lanes &= lanes - 1) {  // two are on their way at once, if there are two
            const u32 which = lowest_bit(lanes), begin = of_lane(at, which), size = of_lane(quads, which);
            lanes &= lanes - 1;
            const u32 other = lanes ? lowest_bit(lanes) : which, begins = of_lane(at, other), sizes = of_lane(quads, other);
            LANES_DO
                rows[lane] = {begin, size, past.now, 0};
                next[lane] = {begins, lanes ? sizes : 0, past.now, 0};
                y[lane] = quad_of(net, rows[lane], lane);
                z[lane] = quad_of(net, next[lane], lane);
            LANES_END
            deliver_read<32>(net, ring, rows, y);
            if (!lanes) break;
            deliver_read<32>(net, ring, next, z);
        }
    }
}

// Clear the sums of this step, and the list of the step before, which all warps have read.
BE void clear_due(const Ring& ring, u32 first, u32 count) {
    const Near& near = ring.near;
    for (u32 k = first; k < near.half; k += count) near.words[near.now * near.half + k] = 0;
    if (first) return;
    near.rests[ring.now] = 0;
    near.counts[ring.now ? ring.now - 1 : ring.slots - 1] = 0;
}

// At the end of a launch: the list of the last step is done.
BE void leave_due(const Net& net, const Ring& ring, u32 tid) {
    const Near& near = ring.near;
    const u32 done = ring.now ? ring.now - 1 : ring.slots - 1;
    for (u32 slot = 0; slot < ring.slots; ++slot) {
        const u32 n = slot == done ? 0 : near.counts[slot] < DUE ? near.counts[slot] : DUE;
        for (u32 k = tid; k < n; k += THREADS) {
            const DueRow row = row_of_entry(get_long((const u64*)(near.list + slot * PILE_ROOM) + k));
            add_row_far(net, ring, row, steps_between(ring, row.since, slot));
        }
    }
    leave_near(near, ring.now, ring.slots, tid);
}
