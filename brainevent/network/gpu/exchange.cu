// SPDX-License-Identifier: Apache-2.0
// What warps do between two updates: one sends, some listen, the others deliver.

// Lanes of the sender write to one inbox each, those of listeners read from one block each.
BE Post post_of(const Net& net, u32 block, u32 tid) {
    const u32 sender = CARRIERS * 32, half = net.copies * net.blocks * 2;
    const bool listens = tid >= sender + 32;
    const u32 inbox = listens ? block % net.copies : tid - sender, of = listens ? tid - sender - 32 : block;
    const bool is_there = listens ? of < net.blocks : tid >= sender && inbox < net.copies;
    return {net.packets + ((u64)inbox * net.blocks + of) * 2, half, is_there};
}

BE void send(const Net& net, Desk& desk, OfThread<Post>& posts, u32 block, u32 t, u64 tag, u32 more_flags) {
    const u32 e = t & 1;
    const uint4 m = *(const uint4*)desk.mine[e];
    const u32 n = m.x & COUNT, flags = m.x >> FLAGS | more_flags;
    u64 v = tag << 48 | (u64)n << 40 | (u64)flags << 32, w;  // rows beyond n are looked at by nobody
    if (NARROW) {
        const uint4 more = ((const uint4*)desk.mine[e])[1];
        v |= m.y | m.z << 16;
        w = (u64)(more.y | more.z << 16) << 32 | (m.w | more.x << 16);
    } else {
        v |= m.y;
        w = (u64)m.w << 32 | m.z;
    }
    if (!USUALLY(n <= INLINE)) {
        u32* list = net.list + (u64)(e * net.blocks + block) * net.list_size;
        LANES_DO
            for (u32 k = lane; k < n && k < MINE; k += 32) put_word(list + k, desk.mine[e][k + 1]);
            fence();
        LANES_END
        LANES_MEET;
        v = tag << 48 | (u64)LISTED << 40 | (u64)flags << 32 | n;
    }
    LANES_DO
        const Post& post = posts[CARRIERS * 32 + lane];
        if (post.is_there) put_pair(post.at + e * post.half, v, w);
    LANES_END
    LANES_MEET;
    ONE_LANE_DO
        mark(desk, SENT);
        desk.mine[e][0] = 0;  // for the next step but one
        desk.queued[e ^ 1] = 0;
        desk.heard[e ^ 1] = 0;
    LANES_END
}

// The number of a row: that of the source neuron, unless it is the row's place.
BE u32 number_of(const Net& net, u32 from, u32 row) { return LAYOUT == PADDED ? row : row * net.blocks + from; }

BE void hand_over(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 at, u32 row, u32 t) {
    if (!DIRECT && USUALLY(at < QUEUE)) desk.queue[at] = (u64)(t + 1) << 32 | row;
    else deliver_alone(net, rows, ring, block, row);
}

BE void listen(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, const Post& post, u32 block, u32 from, u32 t,
               u64 tag) {
    const u32 e = t & 1;
    const u64* packet = post.at + e * post.half;
    u64 v, w;
    while (true) {
        get_pair(packet, v, w);
        if (v >> 48 == tag) break;
        rest();
    }
    const u32 head = (u32)(v >> 32);
    if (!(head & 0xFFFF)) return;
    u32 n = head >> 8 & 255;
    if (!USUALLY(!(head & 255))) or_in_block(&desk.stop, head & 255);
    const bool listed = n == LISTED;
    if (listed) n = (u32)v;
    const u32 at = DIRECT ? 0 : add_in_block((u32*)&desk.queued[e], n);
    if (listed) {
        const uint4* list = (const uint4*)(net.list + (u64)(e * net.blocks + from) * net.list_size);
        fence();
        NOT_UNROLLED
        for (u32 k = 0; k < n; k += 4) {
            const uint4 four = get_four(list + k / 4);
            const u32 rows_of[4] = {four.x, four.y, four.z, four.w};
            for (u32 j = 0; j < 4; ++j)
                if (k + j < n) hand_over(net, desk, rows, ring, block, at + k + j, number_of(net, from, rows_of[j]), t);
        }
        return;
    }
    v = (v & 0xFFFFFFFFu) | w << 32;  // the rows, one after another
    w >>= 32;
    NOT_UNROLLED
    for (u32 k = 0; k < n; ++k) {
        hand_over(net, desk, rows, ring, block, at + k, number_of(net, from, NARROW ? (u32)v & 0xFFFF : (u32)v), t);
        v = NARROW ? v >> 16 | w << 48 : v >> 32 | w << 32;
        w >>= NARROW ? 16 : 32;
    }
}

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

BE void deliver_rows(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t) {
    OfLane<uint4> y[2];
    Row rows[2];
    u32 q = warp, number;
    auto take = [&](u32 k) {  // request the first part of a row
        rows[k] = find_row(net, block, number);
        LANES_DO
            y[k][lane] = lane < rows[k].quads ? fetch(rows[k].at + lane) : uint4{0, 0, 0, 0};
        LANES_END
        q += CARRIERS;
    };
    auto give = [&](u32 k) {
        LANES_DO
            add_four(ring, y[k][lane]);
            for (u32 j = lane + 32; j < rows[k].quads; j += 32) add_four(ring, fetch(rows[k].at + j));
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

BE void deliver_by_lanes(const Net& net, const Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 first, u32 t) {
    for (u32 q = first; q < QUEUE; q += CARRIERS * 32) {
        while (desk.queue[q] >> 32 != (u64)(t + 1)) {
            if (desk.heard[t & 1] == LISTENERS && q >= desk.queued[t & 1]) return;
            rest();
        }
        deliver_alone(net, rows, ring, block, (u32)desk.queue[q]);
    }
}
