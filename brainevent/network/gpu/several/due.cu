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
constexpr u32 SINCE = 11, SPARE = 5, MOST_READ = 24;  // its bits; quads that are read besides those expected; at most
constexpr u32 TAKEN = 5;                              // entries that a warp takes at a time
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
    for (u32 k = 0; k < row.quads * 4; ++k) {  // it is rare, and one at a time is less text
        const u32 word = fetch_word((const u32*)(net.synapses + row.at) + k), delay = word >> ring.delay_shift;
        if (word && delay > late) add_far(ring.near, ring_step(row.since + delay, ring.slots), cell_in(ring, word), weight_in(ring, word));
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

// Deliver what was read of one row, a quad a lane, and read on if all of that arrives soon; list the row from the first quad
// that is not done.
BE void deliver_read(const Net& net, const Ring& ring, const DueRow& row, OfLane<uint4>& y) {
    OfLane<u32> later, has;
    const u32 late = steps_between(ring, row.since, ring.now);
    u32 first = 0, lanes = 0;
    NOT_UNROLLED
    while (true) {
        LANES_DO
            later[lane] = first + lane < row.quads ? add_due(ring, y[lane], late) : 0;
            has[lane] = later[lane] != 0;
        LANES_END
        lanes = lanes_with(has);
        if (lanes || first + 32 >= row.quads) break;
        first += 32;
        LANES_DO
            y[lane] = quad_of(net, row, first + lane);
        LANES_END
    }
    LANES_DO
        const u32 k = first + lane;
        if (lanes && lowest_bit(lanes) == lane) list_row(net, ring, {row.at + k, row.quads - k, row.since, row.read + k + SPARE}, later[lane]);
    LANES_END
}

// A quad of a row that is due: quad k of those that are read of it at once.
struct DueQuad {
    DueRow row;
    u32 k;
    uint4 words;
};

BE u32 read_at_once(const DueRow& row) { return row.quads < row.read ? row.quads : row.read; }

// Deliver rows that are due, one a lane: lanes have quads of these rows side by side.
BE void deliver_entries(const Net& net, const Ring& ring, OfLane<u64>& entries) {
    OfLane<u32> sizes, ends, has, more, at, left;
    OfLane<DueQuad> now, next;
    OfLane<uint4> y;
    LANES_DO
        sizes[lane] = read_at_once(row_of_entry(entries[lane]));
    LANES_END
    const u32 quads = sums_up_to(sizes, ends);
    u32 before = 0;  // whether the last lane had a synapse that arrives later
    NOT_UNROLLED
    for (u32 first = 0; first < quads + 32; first += 32) {  // some are asked for before those before are delivered
        LANES_DO
            now[lane] = next[lane];
        LANES_END
        if (first < quads) {
            LANES_DO
                u32 which = 0;  // how many rows end before this quad
                UNROLLED
                for (u32 step = 16; step; step /= 2) which += of_lane(ends, which + step - 1) <= first + lane ? step : 0;
                const DueRow row = row_of_entry(of_lane(entries, which));
                const u32 k = first + lane - (of_lane(ends, which) - read_at_once(row));
                const bool is_there = first + lane < quads;
                next[lane] = {row, k, is_there ? fetch(net.synapses + row.at + k) : uint4{0, 0, 0, 0}};
            LANES_END
        }
        if (first == 0) continue;
        LANES_DO
            const DueQuad& own = now[lane];
            at[lane] = add_due(ring, own.words, steps_between(ring, own.row.since, ring.now));
            has[lane] = at[lane] != 0;
        LANES_END
        const u32 lanes = lanes_with(has);
        LANES_DO
            const DueQuad& own = now[lane];
            const u32 k = own.k;
            const bool follows = k && (lane ? lanes >> (lane - 1) & 1 : before);
            if (has[lane] && !follows) list_row(net, ring, {own.row.at + k, own.row.quads - k, own.row.since, k + SPARE}, at[lane]);
            more[lane] = !has[lane] && own.words.x && k + 1 == own.row.read && k + 1 < own.row.quads;
            at[lane] = own.row.at + own.row.read;
            left[lane] = own.row.quads - own.row.read;
            sizes[lane] = own.row.since << 16 | own.row.read;
        LANES_END
        before = lanes >> 31;
        NOT_UNROLLED
        for (u32 going = lanes_with(more); going; going &= going - 1) {  // all that was read of these arrives soon
            const u32 which = lowest_bit(going), both = of_lane(sizes, which);
            const DueRow rest = {of_lane(at, which), of_lane(left, which), both >> 16, both & 0xFFFF};
            LANES_DO
                y[lane] = quad_of(net, rest, lane);
            LANES_END
            deliver_read(net, ring, rest, y);
        }
    }
}

// Deliver what is due in this step. Each warp takes a few entries at a time, so that none has more to do than others.
BE void deliver_due(const Net& net, Desk& desk, const Ring& ring, u32 t) {
    const u32 all = ring.near.counts[ring.now], n = all < DUE ? all : DUE;
    const u64* const list = (const u64*)(ring.near.list + ring.now * PILE_ROOM);
    OfLane<u64> entries;
    OfLane<u32> begins;
    NOT_UNROLLED
    while (true) {
        LANES_DO
            begins[lane] = lane == 0 ? add_in_block(desk.taken + (t & 1), TAKEN) : 0;
        LANES_END
        const u32 begin = of_lane(begins, 0);
        if (begin >= n) return;
        LANES_DO
            entries[lane] = lane < TAKEN && begin + lane < n ? get_long(list + begin + lane) : 0;
        LANES_END
        deliver_entries(net, ring, entries);
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

// Deliver the rows of some spikes, one a lane: most are listed for later. A warp delivers those of which synapses arrive soon,
// if this step `lives`. `past` is the ring when the spikes were sent.
BE void deliver_starts(const Net& net, const Ring& ring, const Ring& past, u32 block, OfLane<u64>& starts, bool lives) {
    OfLane<u32> has, at, quads;
    OfLane<uint4> y, z;
    LANES_DO
        const DueRow row = row_in(net, past, block, starts[lane]);
        const u32 delay = least_delay(starts[lane]);
        at[lane] = row.at;
        quads[lane] = row.quads;
        has[lane] = row.quads && lives && delay < NEAR + LAG;
        if (row.quads && !has[lane]) list_row(net, past, row, delay);
    LANES_END
    DueRow row = {0, 0, past.now, 0};
    u32 lanes = lanes_with(has);
    NOT_UNROLLED
    for (bool asked = false; asked || lanes; lanes &= lanes - 1) {  // a row is asked for before the one before is delivered
        const DueRow before = row;
        const bool was_asked = asked;
        asked = lanes != 0;
        LANES_DO
            y[lane] = z[lane];
        LANES_END
        if (asked) {
            const u32 which = lowest_bit(lanes);
            row.at = of_lane(at, which);
            row.quads = of_lane(quads, which);
            LANES_DO
                z[lane] = quad_of(net, row, lane);
            LANES_END
        }
        if (was_asked) deliver_read(net, ring, before, y);
    }
}

// Deliver the rows of spikes as they are queued. Those of one area follow each other in the queue, and have more to deliver:
// so they are shared out over warps.
BE void deliver_queued(const Net& net, const Desk& desk, const Ring& ring, const Ring& past, u32 block, u32 warp, u32 t, bool lives) {
    OfLane<u32> has, waits;
    OfLane<u64> starts;
    u32 number;
    NOT_UNROLLED
    for (u32 first = 0; first < QUEUE; first += DELIVERERS * 32) {
        bool any = false;
        LANES_DO
            waits[lane] = 1;
        LANES_END
        NOT_UNROLLED
        while (true) {
            LANES_DO
                const u32 q = first + lane * DELIVERERS + (warp + lane) % DELIVERERS;  // lanes look into different banks
                has[lane] = waits[lane] && is_queued(desk, q, t, number);
                starts[lane] = has[lane] ? start_of_rows(net, block, number) : 0;
                waits[lane] = waits[lane] && !has[lane] && q < QUEUE && !(desk.heard[t & 1] == LISTENERS && q >= desk.queued[t & 1]);
            LANES_END
            LANES_MEET;
            if (highest(has)) {
                any = true;
                deliver_starts(net, ring, past, block, starts, lives);
            } else if (highest(waits)) rest();
            else break;
        }
        if (!any) return;
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
