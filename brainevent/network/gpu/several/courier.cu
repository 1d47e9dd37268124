// SPDX-License-Identifier: Apache-2.0
// One message from a GPU to each other one, in place of packets of all its blocks: where spikes may take longer.
//
// A spare block, the courier, awaits the packets of its GPU in a step, and writes what they have into MESSAGE units that
// are read as packets are: tag:16 count:8 flags:8, and three numbers of rows. They lie in the inboxes where packets of the
// first blocks of that GPU would. If there are more rows than that, they are listed in memory, where lists of these
// blocks would be, and each unit stands for a share of them: that takes longer, and loses nothing.
//
// With OWN_ROWS, padded rows lie elsewhere on each GPU: packets say where they lie on their own one, and messages have numbers
// of neurons: each GPU looks up where it has their rows, if it has any.

constexpr u32 IN_UNIT = 3, BEFORE = 2 * QUEUE;  // rows of a unit; rows that are gathered in shared memory

// The block whose packet a listener awaits, or whose place a unit of a message has; that after all blocks if there is none.
BE u32 heard_block(const Net& net, u32 listener) {
    if (!COURIER) return listener;
    if (listener < net.own_blocks) return net.first_block + listener;
    const u32 k = listener - net.own_blocks, gpu = (net.gpu + 1 + k / MESSAGE) % GPUS;
    return k / MESSAGE < GPUS - 1 ? gpu * net.own_blocks + k % MESSAGE : net.blocks;
}

BE bool is_far(const Net& net, u32 block) { return block - net.first_block >= net.own_blocks; }

// Hand over the rows of a unit.
BE void take_unit(const Net& net, Desk& desk, const ShortRows& rows, const Ring& ring, u32 block, u32 from, u32 head, u64 v,
                  u64 w, u32 t) {
    const bool listed = head >> 8 == LISTED;
    const u32 unit = from % net.own_blocks, all = (u32)v;
    const u32 n = !listed ? head >> 8 : all > unit ? (all - unit + MESSAGE - 1) / MESSAGE : 0;
    u32 at = DIRECT || OWN_ROWS ? 0 : add_in_block((u32*)&desk.queued[t & 1], n);
    const u32* const list = list_in_memory(net, from - unit, t - FAR_LAG) + unit;
    if (listed) fence();
    NOT_UNROLLED
    for (u32 k = 0; k < n; ++k) {
        u32 row = listed ? get_word(list + k * MESSAGE) : (u32)(k == 0 ? v : w >> 32 * (k - 1));
        if (OWN_ROWS) {
            row = fetch_word(net.row_of + row);
            if (row == NOBODY) continue;
            at = next_in_block((u32*)&desk.queued[t & 1]);
        }
        hand_over(net, desk, rows, ring, block, OWN_ROWS ? at : at + k, row, t);
    }
}

BE u64* unit_on(const Net& net, u32 gpu, u32 copy, u32 place, u32 t) {
    return inbox_on(net, gpu, copy, place) + (t & (KEPT - 1)) * net.copies * words_of_inbox(net);
}

BE void list_far(const Net& net, u32 t, u32 k, u32 row) {
    put_elsewhere(net, list_in_memory(net, net.first_block, t) + k, 1, 0, 1, &row);
}

// Gather the rows of a block.
BE void gather_rows(const Net& net, Desk& desk, u32 from, u32 t, u64 tag) {
    const Post post = {unit_on(net, net.gpu, from % net.copies, from, t), 0};
    u64 v, w;
    const u32 head = await_packet(net, desk, post, from, tag, v, w);
    if (!head) return;
    if (head & 255) or_in_block(&desk.mine[t & 1][0], head & 255);
    const bool listed = head >> 8 == LISTED;
    const u32 n = listed ? (u32)v : head >> 8, at = add_in_block((u32*)&desk.queued[t & 1], n);
    const u32* const list = list_in_memory(net, from, t);
    u64* unit = post.at;
    if (listed) fence();
    NOT_UNROLLED
    for (u32 k = 0; k < n; ++k) {
        if (!listed && k && k % INLINE == 0) {
            unit += words_of_unit(net);
            await_unit(net, desk, unit, from, t, v, w);
        }
        u32 row = number_of(net, from, listed ? get_word(list + k) : row_of(v, w, k % INLINE));
        if (OWN_ROWS) row = fetch_word(net.number_of + (row & 0xFFFFFFu));
        if (USUALLY(at + k < BEFORE)) ((volatile u32*)desk.queue)[at + k] = row;
        else list_far(net, t, at + k, row);
    }
}

// Write the units of a message with n rows.
BE void put_units(const Net& net, Desk& desk, u32 tid, u32 t, u64 tag, u32 n, u32 flags) {
    const volatile u32* const rows = (const volatile u32*)desk.queue;
    NOT_UNROLLED
    for (u32 j = tid; j < MESSAGE * FAR * (GPUS - 1); j += THREADS) {
        const u32 unit = j % MESSAGE, copy = j / MESSAGE % FAR, k = unit * IN_UNIT;
        u64 v = tag << 48 | (u64)(unit ? 0 : flags) << 32, w = 0;
        if (n > MESSAGE * IN_UNIT) v |= (u64)LISTED << 40 | n;
        else if (k < n) {  // no thread reads rows beyond n
            v |= (u64)(n - k < IN_UNIT ? n - k : IN_UNIT) << 40 | rows[k];
            w = (u64)rows[k + 2] << 32 | rows[k + 1];
        }
        put_pair(unit_on(net, (net.gpu + 1 + j / (MESSAGE * FAR)) % GPUS, copy, net.first_block + unit, t), v, w);
    }
}

// Note the flags of all GPUs in a step: then blocks stop, and so does the courier.
BE void hear_flags(const Net& net, Desk& desk, u32 lane, u32 t, u64 tag) {
    if (lane == 0) or_in_block(&desk.stop, desk.fired[0][t & (KEPT - 1)]);
    if (lane + 1 >= GPUS) return;
    const u32 from = (net.gpu + 1 + lane) % GPUS * net.own_blocks;
    u64 v, w;
    const u32 head = await_packet(net, desk, {unit_on(net, net.gpu, 0, from, t), 0}, from, tag, v, w);
    if (head & 255) or_in_block(&desk.stop, head & 255);
}

BE void clear(Desk& desk, u32 tid, u32 first);

BE void run_courier(const Net& net, Desk& desk, u32 first, u32 steps) {
    u64 tag = first % 0xFFFEu + 1;
    THREADS_DO
        clear(desk, tid, first);
    THREADS_MEET
    NOT_UNROLLED
    for (u32 turn = 0; turn < steps; ++turn) {
        const u32 t = first + turn, e = t & 1;
        EACH_THREAD_DO
            for (u32 k = tid; k < net.own_blocks; k += THREADS) gather_rows(net, desk, net.first_block + k, t, tag);
        EACH_THREAD_END
        BLOCK_MEET;
        const u32 n = desk.queued[e], flags = desk.mine[e][0];
        const bool lost = desk.stop & LOST, listed = n > MESSAGE * IN_UNIT;
        if (lost) return;
        if (listed) {
            EACH_THREAD_DO
                for (u32 k = tid; k < n && k < BEFORE; k += THREADS) list_far(net, t, k, ((volatile u32*)desk.queue)[k]);
            EACH_THREAD_END
            BLOCK_MEET;
        }
        EACH_THREAD_DO
            if (listed) fence();
            put_units(net, desk, tid, t, tag, n, flags);
            if (tid == 0) {
                desk.fired[0][t & (KEPT - 1)] = flags;
                desk.queued[e ^ 1] = 0;
                desk.mine[e ^ 1][0] = 0;
            }
        EACH_THREAD_END
        BLOCK_MEET;
        WARPS_DO(0, turn < FAR_LAG ? 0 : 1)
            LANES_DO
                hear_flags(net, desk, lane, t - FAR_LAG, tag_before(tag, FAR_LAG));
            LANES_END
        WARPS_END
        BLOCK_MEET;
        const u32 stop = desk.stop;
        BLOCK_MEET;
        if (stop) return;
        tag = tag == 0xFFFE ? 1 : tag + 1;
    }
}
