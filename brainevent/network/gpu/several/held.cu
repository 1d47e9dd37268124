// SPDX-License-Identifier: Apache-2.0
// Blocks that meet once in a step. They hold spikes for more than three steps, and await each other a step later: so nobody
// needs at once what a step brings, and each thread asks for what it needs while it does something else.
//
// In a step, while rows of this step are pushed, the places of those of the next one are on their way, and the spikes of the
// one after that: see `Ahead`. When all threads have met, one warp sends the packet of the step, and the others go on with
// the next one. In that, when its rows are pushed, another warp tells namesakes the spikes of the step before.

constexpr u32 TELLER = CARRIERS ? CARRIERS - 1 : 0;  // the warp that tells namesakes
static_assert(!MEETS_ONCE || HELD_ROOM >= GPUS * ROWS_OF_ONE, "each of a block and its namesakes has room");

// What a thread has asked for: the packet of a namesake that it is about to await (or, in the first warp, a spike of this
// block, in `v`); and where a row begins and ends.
struct Ahead {
    u64 v, w;
    u32 begin, end;
};

BE u32 rows_of(const Desk& desk, u32 step) { return desk.known[step & 3]; }

// Ask for spikes that are pushed two steps later, and for places of rows that are pushed in the next.
BE Ahead asked_ahead(const Net& net, Desk& desk, u32 block, u32 tid, u32 t) {
    Ahead ahead = {0, 0, 0, 0};  // no tag is 0
    const u32 warp = tid / 32, step = t + 2 - HOLD;
    if (warp == 0) {
        if (tid < desk.held[step & (KEPT - 1)]) ahead.v = get_word(list_in_memory(net, block, step) + tid);
    } else if (warp < QUEUING && warp < CARRIERS) get_pair(post_in(net, desk.inboxes[net.gpu], namesake(net, block, warp), step), ahead.v, ahead.w);
    if (tid < rows_of(desk, t + 1)) {
        const u32* const start = (const u32*)net.starts + desk.numbers[(t + 1) & 1][tid];
        ahead.begin = fetch_word(start);
        ahead.end = fetch_word(start + 1);
    }
    if (tid == 0) desk.known[(t + 3) & 3] = 0;
    return ahead;
}

// Queue the rows of the next step, and ask for them.
BE void queue_next(const Net& net, Desk& desk, const Ahead& ahead, u32 tid, u32 t) {
    const u32 e = (t + 1) & 1, n = rows_of(desk, t + 1);
    u32 begin = ahead.begin, end = ahead.end;
    NOT_UNROLLED
    for (u32 k = tid; k < n; k += THREADS) {
        if (k >= THREADS) {
            const u32* const start = (const u32*)net.starts + desk.numbers[e][k];
            begin = fetch_word(start);
            end = fetch_word(start + 1);
        }
        const uint4* const row = desk.synapses + begin;
        desk.queue[e * HELD_ROOM + k] = (u64)row;
        desk.quads[e * HELD_ROOM + k] = end - begin;
        if (begin == end) continue;
        ask_for(row);
        ask_for(row + (end - begin) - 1);
    }
}

// Number the rows of the step after that, of some namesakes, and ask for where they lie. Those beyond ROWS_OF_ONE are found
// when the rest is pushed.
BE void number_next(const Net& net, Desk& desk, OfThread<Ahead>& ahead, u32 block, u32 warp, u32 t, u64 tag) {
    const u32 to = t + 2, step = to - HOLD;
    NOT_UNROLLED
    for (u32 other = warp; other < GPUS; other += QUEUING) {
        const u32 from = namesake(net, block, other);
        const Post post = {post_in(net, desk.inboxes[net.gpu], from, step), 0};
        const u32* const list = list_in_memory(net, from, step);
        u64 v = 0, w = 0;
        u32 n = other ? 0 : desk.held[step & (KEPT - 1)];
        bool listed = other == 0;
        if (other) {
            if (other == warp) {
                v = ahead[warp * 32].v;
                w = ahead[warp * 32].w;
            }
            const u32 head = await_looked(net, desk, post, from, tag_before(tag, HOLD - 2), v, w);
            n = told_spikes(desk, head, v, to, listed);
        }
        const u32 taken = n < ROWS_OF_ONE ? n : ROWS_OF_ONE;
        ONE_LANE_DO
            desk.begun[other] = add_in_block(&desk.known[to & 3], taken);
            desk.counts[to & 3][other] = n;
        LANES_END
        LANES_MEET;
        LANES_DO
            const u32 at = desk.begun[other];
            NOT_UNROLLED
            for (u32 k = lane; k < taken; k += 32) {
                u64 x = v, y = w;
                if (!listed && k >= INLINE) await_unit(net, desk, post.at + k / INLINE * words_of_unit(net), from, step, x, y);
                const bool asked = other == 0 && warp == 0 && k < 32;
                const u32 place = asked ? (u32)ahead[k].v : listed ? get_word(list + k) : row_of(x, y, k % INLINE);
                const u32 number = number_of(net, from, place);
                desk.numbers[to & 1][at + k] = number;
                ask_for((const u32*)net.starts + number);
            }
        LANES_END
    }
}

// Tell namesakes the spikes of the step before, when its packet was sent; record them, and forget them.
BE void tell_later(const Net& net, Desk& desk, u32 block, u32 t, u32 turn, u64 tag) {
    SENT_WAIT;
    const u32 own = desk.mine[t & 1][0];
    tell_namesakes(net, desk, block, t, tag, own);
    record_sent(net, desk, own & COUNT, block, t, turn, true);
}

// Ask for the first four words that a thread is to push in a step, in the order of push_rows_of.
BE uint4 first_words(const Desk& desk, u32 tid, u32 t) {
    const u32 k = tid / PIECE, at = (t & 1) * HELD_ROOM + k;
    if (k >= rows_of(desk, t) || tid % PIECE >= desk.quads[at]) return {0, 0, 0, 0};
    return fetch((const uint4*)desk.queue[at] + tid % PIECE);
}

// Push the rows of a step: PIECE lanes each. The first four words of each thread are there, if there are `firsts`.
BE void push_rows_of(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t, OfThread<uint4>* firsts) {
    const u32 n = rows_of(desk, t), begin = (t & 1) * HELD_ROOM;
    LANES_DO
        const u32 tid = warp * 32 + lane;
        NOT_UNROLLED
        for (u32 k = tid / PIECE; k < n; k += THREADS / PIECE) {
            const uint4* const row = (const uint4*)desk.queue[begin + k];
            NOT_UNROLLED
            for (u32 j = tid % PIECE; j < desk.quads[begin + k]; j += PIECE)
                add_four(ring, firsts && k == tid / PIECE && j < PIECE ? (*firsts)[tid] : fetch(row + j));
        }
    LANES_END
    NOT_UNROLLED
    for (u32 other = 0; other < GPUS; ++other)
        if (desk.counts[t & 3][other] > ROWS_OF_ONE)
            push_listed(net, ring, block, namesake(net, block, other), warp, t - HOLD, desk.counts[t & 3][other]);
}

// Say whether a thread has something that all threads are to wait for, as far as it knows: what stops the run, or spikes for
// which there was no room in shared memory. A listener waits for its packet before.
BE bool has_to_wait(const Net& net, Desk& desk, const Post& post, u32 tid, u32 t, u64 tag) {
    if (tid >= (CARRIERS + 1) * 32 && post.at) {
        const u32 from = tid - (CARRIERS + 1) * 32;
        u64 v, w;
        get_pair_first(post.at, v, w);
        const bool was_there = v >> 48 == tag;
        const u32 flags = await_looked(net, desk, post, from + net.first_block, tag, v, w) & 255;
        if (!was_there) fence_here();
        if (flags) note_flags(net, desk, from, flags, t);
    }
    return desk.stop || desk.others;
}
