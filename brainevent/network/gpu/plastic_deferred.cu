// SPDX-License-Identifier: Apache-2.0
// Rules for events of targets, deferred until a spike of the source reaches the synapse, or the host asks for synapses.
//
// Between two spikes of its source, nothing reads the weight of a synapse, and what a rule reads of the source only
// decays. So the same calls in the same order have the same results later: there is no second index of synapses by target,
// no scattered access, and all blocks have the same share of the calls. Of each target, the steps of its events since the
// host asked are kept, as synapses see them.

struct alignas(16) Later {  // of a warp: some synapses, in pieces that have a source each
    float w[ROOM_LATER];
    u32 queue[ROOM_LATER];  // of calls: target : 16, the next one of its events : 8, synapse : 8
    u64 shift[PIECES];  // from the number of a synapse here to that in the memory of all
    u32 source[PIECES];
};

struct Pieces {  // at which synapse the second one begins, and the third one; and how many synapses there are
    u32 second, third, n;
};

BE Later& later_of(u32 warp) {
    ROOM(room);
    return ((Later*)room)[warp];
}

static_assert(PIECES == 3 && sizeof(Later) == LATER_BYTES, "as in Python");

BE u32 piece_of(const Pieces& pieces, u32 j) { return (j >= pieces.second) + (j >= pieces.third); }

BE Pieces first_piece(Later& later, u32 source, u64 from, u32 n) {
    LANES_MEET;
    ONE_LANE_DO
        later.source[0] = source;
        later.shift[0] = from;
    LANES_END
    return {~0u, ~0u, n};
}

BE void add_piece(Later& later, Pieces& pieces, u32 k, u32 source, u64 from, u32 n) {
    ONE_LANE_DO
        later.source[k] = source;
        later.shift[k] = from - pieces.n;
    LANES_END
    if (k == 1) pieces.second = pieces.n;
    else pieces.third = pieces.n;
    pieces.n += n;
}

// From when on events count for a synapse whose source had its last spike in a step: those before are treated.
BE u32 since(u32 last) { return (int)(last - plastic_desk.since) < 0 ? plastic_desk.since : last; }

// How many of the events of a target are not treated, from a step on: `newest` are the steps of the last three, and how many
// there are in the list.
BE u32 pending(const uint4& newest, u32 begin, const u32* steps) {
    u32 n = 3 + ((int)(newest.x - begin) >> 31) + ((int)(newest.y - begin) >> 31) + ((int)(newest.z - begin) >> 31);
    if (n == 3)
        while (n < newest.w && (int)(steps[newest.w - 1 - n] - begin) >= 0) ++n;
    return n;
}

// The step of an event of a target; it is seldom not among the last three, which come together.
BE u32 step_of(uint4 newest, const u32* steps, u32 event) {
    const u32 later = newest.w - event, one_of_three = later == 1 ? newest.x : later == 2 ? newest.y : newest.z;
    return USUALLY(later <= 3) ? one_of_three : steps[event];
}

// Keep an event of a target. The launch ends before the list of any target is full.
BE void keep_event(uint4& newest, u32* steps, u32 t) {
    const u32 n = newest.w;
    steps[n] = t;
    newest = {t, newest.x, newest.y, n + 1};
    if (n + SPARE >= HISTORY) plastic_desk.full = 1;
}

// Queue calls: each lane has one or none. Return the new end of the queue.
BE u32 queue_calls(Later& later, OfLane<u32>& has, OfLane<u32>& calls, u32 end) {
    OfLane<u32> before;
    const u32 all = ranks(has, before);
    LANES_DO
        if (has[lane]) later.queue[(end + before[lane]) % ROOM_LATER] = calls[lane];
    LANES_END
    LANES_MEET;
    return end + all;
}

// The source of a synapse of a block: that with the last line which begins at it or before.
BE u32 source_of(const u32* starts, u32 sources, u32 k) {
    u32 low = 0, high = sources;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (fixed(starts + middle) <= k) low = middle;
        else high = middle;
    }
    return low;
}
