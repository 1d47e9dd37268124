// SPDX-License-Identifier: Apache-2.0
// What warps do between two updates: one sends, some listen.

// Inboxes are rows of packets, with a unit of each block; those of odd steps come after those of even ones, and further
// units after them all.
BE u64 words_of_inbox(const Net& net) { return (net.blocks + (APART - 1) & ~(APART - 1)) * 2; }
#prompt BE u64 words_of_unit(const Net& net) { return net.copies * words_of_inbox(net) * 2; }
#late BE u64 words_of_unit(const Net& net) { return net.copies * words_of_inbox(net) * KEPT; }

#plastic // How many words are between the inboxes of two steps.
#plastic BE u64 words_between(const Net& net) { return CLUSTER ? sizeof(Inbox) / 8 : net.copies * words_of_inbox(net); }
// Lanes of the sender write to one inbox each, those of listeners read from one block each. Blocks of a cluster have
// their inboxes in shared memory.
BE Post post_of(const Net& net, Desk& desk, u32 block, u32 tid, u32 t) {
    u64 *even = nullptr, *odd = nullptr;
    if (CLUSTER) {
        const u32 lane = tid & 31;
        const bool sends = tid / 32 == CARRIERS, is_there = lane < CLUSTER && tid / 32 <= CARRIERS + 1;
        u64* const own = desk.inbox[0].packets[sends ? block : lane];
        if (is_there) {
            even = sends ? in_block(own, lane) : own_inbox(own);
            odd = even + sizeof(Inbox) / 8;
        }
    } else {
        #one const u32 sender = CARRIERS * 32;
        #one const bool listens = tid >= sender + 32;
        #one const u32 inbox = listens ? block % net.copies : tid - sender, of = listens ? tid - sender - 32 : block;
        #one if (listens ? of < net.blocks : tid >= sender && inbox < net.copies) {
        #one     even = net.packets + inbox * words_of_inbox(net) + of * 2;
        #one     odd = even + net.copies * words_of_inbox(net);
        #one }
        #several even = post_among(net, block, tid);
    }
    #prompt return {t & 1 ? odd : even, (u64)even ^ (u64)odd};
    #one #late return move_post({even, (u64)even}, words_between(net), tid, t);
    #several return move_post({even, (u64)even + hears_far(net, tid)}, net.copies * words_of_inbox(net), tid, t);
}

// Launches are short, so that Ctrl-C and displays work.
BE bool is_late(const Net& net, const Desk& desk, u32 turn) {
    return (turn & 63) == 63 && net.nanoseconds != 0 && clock_ns() - desk.launched > net.nanoseconds;
}

// What is sent in the packet if it has room for it, else in a list in memory.
#prompt BE void put_list(const Net& net, const Desk& desk, u32 block, u32 e, u32 n) {
    #prompt u32* list = net.list + (u64)(e * net.blocks + block) * net.list_size;
#late BE void put_list(const Net& net, const Desk& desk, u32 block, u32 t, u32 n) {
    #late const u32 e = t & 1;
    #late u32* list = list_in_memory(net, block, t);
    LANES_DO
        NOT_UNROLLED
        for (u32 k = lane; k < n && k < MINE; k += 32) put_word(list + k, desk.mine[e][k + 1]);
        #several if (!COURIER) put_elsewhere(net, list, n, lane, MINE, desk.mine[e] + 1);
        fence();
    LANES_END
    LANES_MEET;
}

// Further units of a packet; lanes write to one inbox each. Those are not written in each step: they have the whole number
// of the step, which no launch repeats.
BE void put_more(const Net& net, const Desk& desk, OfThread<Post>& posts, u32 e, u32 n, u32 t) {
    LANES_DO
        const Post& post = posts[CARRIERS * 32 + lane];
        NOT_UNROLLED
        for (u32 unit = 1, k = INLINE; k < n; ++unit, k += INLINE) {
            const u32* row = desk.mine[e] + 1 + k;  // no thread reads rows beyond n
            u64 v = (u64)(t + 1) << 32 | row[0], w = (u64)row[2] << 32 | row[1];
            if (NARROW) {
                v |= row[1] << 16;
                w = (u64)(row[4] | row[5] << 16) << 32 | (row[2] | row[3] << 16);
            }
            if (post.at) put_pair(post.at + unit * words_of_unit(net), v, w);
        }
    LANES_END
    LANES_MEET;
}

#several BE u32 heeded_flags(Desk& desk, u32 t, u32 turn, u32 own);

// Send the packet of a step; return how many spikes it has.
BE u32 send(const Net& net, Desk& desk, OfThread<Post>& posts, u32 block, u32 t, u32 turn, u64 tag) {
    #plastic if (!CLUSTER && !LAZY) release_lists(net, block, t);
    #plastic const bool whole = !CLUSTER || all_is_handed(t);
    #plastic if (!whole) {  // the rest is in memory
        #plastic list_own(net, block, t);
        #plastic fence_lanes();
    #plastic }
    const u32 e = t & 1;
    const uint4 m = *(const uint4*)desk.mine[e];
    const u32 n = m.x & COUNT;
    #one const u32 flags = m.x >> FLAGS;
    #several const u32 flags = PUSHES ? heeded_flags(desk, t, turn, m.x >> FLAGS) : m.x >> FLAGS;
    u64 v = tag << 48 | (u64)(PUSHES ? 0 : n) << 40 | (u64)flags << 32, w;  // no thread reads rows beyond n
    if (NARROW) {
        const uint4 more = ((const uint4*)desk.mine[e])[1];
        v |= m.y | m.z << 16;
        w = (u64)(more.y | more.z << 16) << 32 | (m.w | more.x << 16);
    } else {
        v |= m.y;
        w = (u64)m.w << 32 | m.z;
    }
    if (!PUSHES && !USUALLY(n <= INLINE)) {
        if (n <= UNITS * INLINE) put_more(net, desk, posts, e, n, t);
        else {
            #prompt put_list(net, desk, block, e, n);
            #late put_list(net, desk, block, t, n);
            v = tag << 48 | (u64)LISTED << 40 | (u64)flags << 32 | n;
        }
    }
    LANES_DO
        const Post& post = posts[CARRIERS * 32 + lane];
#ifdef GRADED
        fence();
#endif
        if (!post.at) ;
        else if (CLUSTER) hand_pair(post.at, post.at + 2 * (CLUSTER + 1 - block), v, w);
        else put_pair(post.at, v, w);
        #plastic if (CLUSTER && post.at) hand_lines(net, post.at + 2 * (CLUSTER + 1 - block), block, lane, t);
        #due ask_for_first(net, desk, block, n, e, lane);
    LANES_END
    LANES_MEET;
    #plastic if (CLUSTER && whole) list_own(net, block, t);
    #plastic if (CLUSTER || LAZY) release_lists(net, block, t);
    ONE_LANE_DO
        mark(desk, SENT);
        if (block == 0 && is_late(net, desk, turn)) or_in_block(&desk.mine[e ^ 1][0], LATE << FLAGS);
        #plastic if (DEFERRED && plastic_desk.full) or_in_block(&desk.mine[e ^ 1][0], FULL << FLAGS);
        #several desk.told[t & 3] = 0;
    LANES_END
    return n;
}

// Record the spikes that were sent, and forget them: in the step after theirs, those alone that have room in shared memory.
BE void record_sent(const Net& net, Desk& desk, u32 n, u32 block, u32 t, u32 turn, bool is_after = false) {
    const u32 e = t & 1, others = is_after ? 0 : desk.others;
    LANES_DO
        const u32 listed = n < MINE ? n : MINE;
        NOT_UNROLLED
        for (u32 k = lane; k < listed + others; k += 32)
            record(net, desk, k < listed ? desk.fired[e * MEETS_ONCE][k] : other_spikes(net, block)[k - listed], block, t, turn);
    LANES_END
    LANES_MEET;
    ONE_LANE_DO
        if (!is_after) desk.others = 0;
        desk.mine[e][0] = 0;  // for the next step but one
        desk.queued[e ^ 1] = 0;
        desk.heard[e ^ 1] = 0;
        #due desk.taken[e ^ 1] = 0;
    LANES_END
}

BE void hand_over(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 at, u32 row, u32 t) {
    if (!DIRECT && USUALLY(at < QUEUE)) put_in_block(desk.queue + at, (u64)(t + 1) << 32 | row);
    else deliver_alone(net, rows, ring, block, row);
}

// A list in memory. It has a loop of its own: one for this and for what is in packets cost 0.3 us a step.
BE void take_list(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 from, u32 at, u32 n,
                  u32 t) {
    #prompt const u32* list = net.list + (u64)((t & 1) * net.blocks + from) * net.list_size;
    #late const u32* list = list_in_memory(net, from, t - lag_of(net, from));
    fence();
    uint4 four;
    NOT_UNROLLED
    for (u32 k = 0; k < n; ++k) {
        if (k % 4 == 0) four = get_four((const uint4*)(list + k));
        hand_over(net, desk, rows, ring, block, at + k, number_of(net, from, four.x), t);
        four = {four.y, four.z, four.w, 0};
    }
}

// Row k of a packet.
BE u32 row_of(u64 v, u64 w, u32 k) {
    if (NARROW) return (u32)(k < 2 ? v >> 16 * k : w >> 16 * (k - 2)) & 0xFFFF;
    return (u32)(k == 0 ? v : w >> 32 * (k - 1));
}

// Hand over rows of a packet, one after another: a loop, since delivery is much text.
BE void hand_over_all(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 from, u32 at, u32 n,
                      u32 t, u64 v, u64 w) {
    v = v & 0xFFFFFFFFu | w << 32;
    w >>= 32;
    NOT_UNROLLED
    for (u32 k = 0; k < n; ++k) {
        hand_over(net, desk, rows, ring, block, at + k, number_of(net, from, row_of(v, w, 0)), t);
        v = NARROW ? v >> 16 | w << 48 : v >> 32 | w << 32;
        w >>= NARROW ? 16 : 32;
    }
}

// Queue the rows of a unit, where all of them have room, side by side.
BE void queue_rows(const Net& net, Desk& desk, u32 from, u32 at, u32 n, u32 t, u64 v, u64 w) {
    UNROLLED
    for (u32 k = 0; k < INLINE; ++k)
        if (k < n) put_in_block(desk.queue + at + k, (u64)(t + 1) << 32 | number_of(net, from, row_of(v, w, k)));
}

// The same for what is in further units of a packet with n rows: all are asked for at once.
BE void queue_more(const Net& net, Desk& desk, const Post& post, u32 from, u32 at, u32 n, u32 t) {
    u64 v[UNITS], w[UNITS];
    #several Patience patience = {0, 0};
    UNROLLED
    for (u32 unit = 1; unit < UNITS; ++unit)
        if (unit * INLINE < n) get_pair(post.at + unit * words_of_unit(net), v[unit], w[unit]);
    UNROLLED
    for (u32 unit = 1; unit < UNITS; ++unit) {
        if (unit * INLINE >= n) continue;
        #prompt while (v[unit] >> 32 != (u64)(t + 1)) {
        #late while (v[unit] >> 32 != (u64)(t + 1 - lag_of(net, from))) {
            #several if (is_over(net, desk, patience, from)) break;
            rest();
            get_pair(post.at + unit * words_of_unit(net), v[unit], w[unit]);
        }
        queue_rows(net, desk, from, at + unit * INLINE, n - unit * INLINE, t, v[unit], w[unit]);
    }
}

#several // Wait for a further unit of the packet of a step.
#several BE void await_unit(const Net& net, Desk& desk, const u64* unit, u32 from, u32 step, u64& v, u64& w) {
#several     Patience patience = {0, 0};
#several     while (true) {
#several         get_pair(unit, v, w);
#several         if (v >> 32 == (u64)(step + 1) || is_over(net, desk, patience, from)) return;
#several         rest();
#several     }
#several }

// Hand over what is in further units of a packet with n rows.
BE void take_more(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, const Post& post, u32 block, u32 from,
                  u32 at, u32 n, u32 t) {
    const u64* unit = post.at;
    u64 v, w;
    NOT_UNROLLED
    for (u32 k = INLINE; k < n; k += INLINE) {
        unit += words_of_unit(net);
        #several await_unit(net, desk, unit, from, t - lag_of(net, from), v, w);
        #one while (true) {
        #one     get_pair(unit, v, w);
        #one     #prompt if (v >> 32 == (u64)(t + 1)) break;
        #one     #late if (v >> 32 == (u64)(t + 1 - LAG)) break;
        #one     rest();
        #one }
        hand_over_all(net, desk, rows, ring, block, from, at + k, n - k < INLINE ? n - k : INLINE, t, v, w);
    }
}

// Wait for the packet of a step; return count:8 flags:8.
#one BE u32 await_packet(const Post& post, u64 tag, u64& v, u64& w) {
#several BE u32 await_packet(const Net& net, Desk& desk, const Post& post, u32 from, u64 tag, u64& v, u64& w) {
    #several Patience patience = {0, 0};
    if (CLUSTER) get_handed(post.at, v, w);
    else while (true) {
        get_pair(post.at, v, w);
        if (v >> 48 == tag) break;
        #several if (is_over(net, desk, patience, from)) return 0;
        rest();
    }
    return (u32)(v >> 32) & 0xFFFF;
}

#several BE bool is_far(const Net& net, u32 block);
#several BE void take_unit(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 from, u32 head,
#several                   u64 v, u64 w, u32 t);

// Listen for a block, and queue the rows of its spikes or deliver them.
BE void listen(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, const Post& post, u32 block, u32 from, u32 t,
               u64 tag) {
    u64 v, w;
    #one const u32 head = await_packet(post, tag, v, w);
    #several const u32 head = await_packet(net, desk, post, from + (PUSHES ? net.first_block : 0), tag, v, w);
    #one if (PUSHES) fence();
    #several if (PUSHES) fence_here();
#ifdef COUPLED
    fence();
#endif
    if (!head) return;
#ifdef GRADED
    fence();
#endif
    #one if (!USUALLY(!(head & 255))) or_in_block(&desk.stop, head & 255);
    #several if (!USUALLY(!(head & 255))) note_flags(net, desk, from, head & 255, t);
    if (PUSHES) return;
    #several if (COURIER && is_far(net, from)) {
    #several     take_unit(net, desk, rows, ring, block, from, head, v, w, t);
    #several     return;
    #several }
    const bool listed = head >> 8 == LISTED;
    const u32 n = listed ? (u32)v : head >> 8;
    const u32 at = DIRECT ? 0 : add_in_block((u32*)&desk.queued[t & 1], n);
    if (!USUALLY(!listed)) {
        take_list(net, desk, rows, ring, block, from, at, n, t);
        return;
    }
    if (!DIRECT && USUALLY(at + n <= QUEUE)) {
        queue_rows(net, desk, from, at, n, t, v, w);
        if (UNITS > 1 && !USUALLY(n <= INLINE)) queue_more(net, desk, post, from, at, n, t);
        return;
    }
    hand_over_all(net, desk, rows, ring, block, from, at, n < INLINE ? n : INLINE, t, v, w);
    if (UNITS > 1 && n > INLINE) take_more(net, desk, rows, ring, post, block, from, at, n, t);
}

// Listen for a block; return how many rows its packet has that are not delivered yet.
BE u32 receive(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, const Post& post, u32 block, u32 from,
               u32 t, u64 tag, u64& v, u64& w) {
    #one const u32 head = await_packet(post, tag, v, w), n = head >> 8;
    #several const u32 head = await_packet(net, desk, post, from, tag, v, w), n = head >> 8;
#ifdef COUPLED
    fence();
#endif
#ifdef GRADED
    if (head) fence();
#endif
    #one if (!USUALLY(!(head & 255))) or_in_block(&desk.stop, head & 255);
    #several if (!USUALLY(!(head & 255))) note_flags(net, desk, from, head & 255, t);
    if (USUALLY(n <= INLINE)) return n;
    if (n == LISTED) {
        take_list(net, desk, rows, ring, block, from, 0, (u32)v, t);
        return 0;
    }
    if (UNITS > 1) take_more(net, desk, rows, ring, post, block, from, 0, n, t);
    return INLINE;
}

// All lanes of a warp share the rows that any of them received, unless none has more than one: a lane delivers four
// words of every PARTS times four.
BE void listen_together(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, OfThread<Post>& posts, u32 block,
                        #prompt u32 warp, u32 t, u64 tag) {
                        #late u32 warp, u32 t, u64 tag, u32 turn, u32 steps) {
    const u32 first = (warp - CARRIERS - 1) * 32;
    u32* const pool = (u32*)desk.queue + first * INLINE;
    OfLane<u64> v, w;
    OfLane<u32> n, before;
    LANES_DO
        const Post& post = posts[warp * 32 + lane];
        #prompt n[lane] = post.at ? receive(net, desk, rows, ring, post, block, first + lane, t, tag, v[lane], w[lane]) : 0;
        #late const u64 before = tag_before(tag, lag_of(net, first + lane));
        #late const bool reads = post.at && is_read(net, first + lane, turn, steps);
        #late n[lane] = reads ? receive(net, desk, rows, ring, post, block, first + lane, t, before, v[lane], w[lane]) : 0;
    LANES_END
    LANES_MEET;
    const u32 most = highest(n);
    if (most == 0) return;
    const bool pooled = PARTS > 1 || most > 1;
    u32 all = 0;
    if (pooled) {
        all = sums_before(n, before) * PARTS;
        LANES_DO
            UNROLLED
            for (u32 k = 0; k < INLINE; ++k)
                if (k < n[lane]) pool[before[lane] + k] = number_of(net, first + lane, row_of(v[lane], w[lane], k));
        LANES_END
        LANES_MEET;
    }
    LANES_DO
        u32 q = lane;
        NOT_UNROLLED
        for (bool has = pooled ? q < all : n[lane] != 0; has; has = q < all) {
            const u32 number = pooled ? pool[q / PARTS] : number_of(net, first + lane, row_of(v[lane], w[lane], 0));
            const Start* start = rows.starts + number;
            deliver_short(rows, of_row(net, ring, number), read_row(start) + q % PARTS * 4, read_row(start + 1), PARTS * 4);
            q += 32;
        }
    LANES_END
}
