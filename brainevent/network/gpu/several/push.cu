// SPDX-License-Identifier: Apache-2.0
// Blocks that push, on several GPUs: each adds to the sums of its own GPU alone. The namesakes of a block are those with
// its number on the other GPUs. A block tells them its spikes, pushes the rows of its own spikes and of theirs, and then
// says to the blocks of its GPU that this is done, with the flags of all namesakes: so these come from all blocks. While
// it pushes its own rows, some warps look up those of its namesakes, and ask for them.
//
// If no delay is short, spikes are held for HOLD steps, and pushed as late as they can be, or LAG steps before that: so
// late blocks of this GPU wait for each other. Then no block waits for another GPU, rows are on their way before the step
// in which they are pushed, and few steps have sums: those lie close together, apart from the sums between launches, which
// are those of all steps. In the first HOLD steps of a launch nothing is pushed; then sums move; and in HOLD steps behind
// the last one the spikes of the last steps are pushed.

constexpr u32 ROWS_OF_ONE = QUEUE / ((HOLD ? 2 : 1) * GPUS);  // that have room in shared memory, of a block or a namesake
static_assert(!PUSHES || ROWS_OF_ONE >= UNITS * INLINE, "what is not in a list has room");

// Where they begin in the queue: held ones are queued in the step before they are pushed.
BE u32 first_of(u32 other, u32 t) { return ((HOLD ? (t & 1) * GPUS : 0) + other) * ROWS_OF_ONE; }

// Where a packet lies that a block sent to a namesake on a GPU, in the inbox to which no block of that GPU listens for it.
BE u64* namesake_post(const Net& net, u32 gpu, u32 block, u32 t) {
    return inbox_on(net, gpu, 0, block) + (t & (KEPT - 1)) * net.copies * words_of_inbox(net);
}

// The same, given where the inboxes of that GPU are: an address in memory takes long to read.
BE u64* post_in(const Net& net, u64* inboxes, u32 block, u32 t) {
    return inboxes + block * 2 + (t & (KEPT - 1)) * net.copies * words_of_inbox(net);
}

BE u32 namesake(const Net& net, u32 block, u32 other) {
    return block % net.own_blocks + (net.gpu + other) % GPUS * net.own_blocks;
}

// A packet with n rows, to all namesakes: a lane writes a unit to one of them. No thread reads rows beyond n.
BE void put_units(const Net& net, const Desk& desk, u32 block, u32 t, u32 n, u64 head) {
    constexpr u32 OTHERS = GPUS - 1;
    LANES_DO
        NOT_UNROLLED
        for (u32 k = lane; k < OTHERS || k / OTHERS * INLINE < n; k += 32) {
            const u32 unit = k / OTHERS, *const row = desk.mine[t & 1] + 1 + unit * INLINE;
            const u64 v = (unit ? (u64)(t + 1) << 32 : head) | row[0] | (NARROW ? row[1] << 16 : 0);
            const u64 w = NARROW ? (u64)(row[4] | row[5] << 16) << 32 | (row[2] | row[3] << 16) : (u64)row[2] << 32 | row[1];
            put_pair(post_in(net, desk.inboxes[(net.gpu + 1 + k % OTHERS) % GPUS], block, t) + unit * words_of_unit(net), v, w);
        }
    LANES_END
}

// `own` are the flags and the number of spikes of this block.
BE void tell_namesakes(const Net& net, Desk& desk, u32 block, u32 t, u64 tag, u32 own) {
    const u32 e = t & 1, n = own & COUNT, flags = own >> FLAGS;
    const bool listed = n > UNITS * INLINE;
    if (listed) put_list(net, desk, block, t, n);
    if (HOLD) {
        LANES_DO
            u32* const list = list_in_memory(net, block, t);
            NOT_UNROLLED
            for (u32 k = lane; k < n && !listed; k += 32) put_word(list + k, desk.mine[e][k + 1]);
        LANES_END
        ONE_LANE_DO
            desk.held[t & (KEPT - 1)] = n;
            desk.noted[t & (KEPT - 1)] = flags;
        LANES_END
    }
    const u64 head = tag << 48 | (u64)(listed ? LISTED : n) << 40 | (u64)flags << 32;
    if (!listed) put_units(net, desk, block, t, n, head);
    else {
        LANES_DO
            if (lane + 1 < GPUS) put_pair(namesake_post(net, (net.gpu + 1 + lane) % GPUS, block, t), head | n, 0);
        LANES_END
    }
    LANES_MEET;
}

// What all blocks of this GPU are to heed in a step: what namesakes said, and what this block did in the same step.
BE u32 heeded_flags(Desk& desk, u32 t, u32 turn, u32 own) {
    const u32 held = turn >= HOLD ? desk.noted[(t - HOLD) & (KEPT - 1)] : 0;
    return (HOLD ? held : own) | desk.told[t & 3];
}

constexpr u32 QUEUING = CARRIERS == 0 ? 1 : CARRIERS < GPUS ? CARRIERS : GPUS;  // warps that queue rows of held spikes

// The packet that a thread is about to await, if spikes are held: it should be there by now, and is looked at while the
// block pushes. A listener awaits that of a block of this GPU, a warp that queues rows that of a namesake.
struct Look {
    u64 v, w;
};

BE Look look_ahead(const Net& net, const Post& post, u32 block, u32 tid, u32 t, bool is_read) {
    const u32 other = tid / 32;
    Look look = {0, 0};  // no tag is 0
    if (tid >= (CARRIERS + 1) * 32) {
        if (post.at && is_read) get_pair_first(post.at, look.v, look.w);
    } else if (other && other < QUEUING)
        get_pair(namesake_post(net, net.gpu, namesake(net, block, other), t + 1 - HOLD), look.v, look.w);
    return look;
}

// Wait for a packet, if it is not the one that was looked at; return count:8 flags:8.
BE u32 await_looked(const Net& net, Desk& desk, const Post& post, u32 from, u64 tag, u64& v, u64& w) {
    return v >> 48 == tag ? (u32)(v >> 32) & 0xFFFF : await_packet(net, desk, post, from, tag, v, w);
}

// Listen for a block of this GPU, which says what it has pushed.
BE void listen_held(const Net& net, Desk& desk, Look look, const Post& post, u32 from, u32 t, u64 tag) {
    const u32 head = await_looked(net, desk, post, from + net.first_block, tag, look.v, look.w);
    fence_here();
    if (head & 255) note_flags(net, desk, from, head & 255, t);
}

// Ask for where the rows lie that are to be queued a step later, as far as it is known whose they are.
BE void ask_for_starts(const Net& net, const Desk& desk, u32 block, u32 other, u32 t, u64 tag) {
    const u32 from = namesake(net, block, other), step = t - HOLD;
    const u32* const list = list_in_memory(net, from, step);
    u64 v = 0, w = 0;
    if (other) get_pair(namesake_post(net, net.gpu, from, step), v, w);
    const bool is_there = other && v >> 48 == tag_before(tag, HOLD) && (v >> 40 & 255) != LISTED;
    const u32 n = other ? is_there ? (u32)(v >> 40) & 255 : 0 : desk.held[step & (KEPT - 1)];
    LANES_DO
        if (lane < n && (!other || lane < INLINE))
            ask_for((const u32*)net.starts + number_of(net, from, other ? row_of(v, w, lane) : get_word(list + lane)));
    LANES_END
}

// Wait for the packet of a namesake in this step; return count:8 flags:8. Each lane looks at the unit that has its row, too.
BE u32 await_told(const Net& net, Desk& desk, const Post& post, u32 from, u64 tag, u64& v, u64& w, OfLane<Look>& units) {
    Patience patience = {0, 0};
    while (true) {
        get_pair(post.at, v, w);
        LANES_DO
            get_pair(post.at + (lane / INLINE < UNITS ? lane / INLINE : 0) * words_of_unit(net), units[lane].v, units[lane].w);
        LANES_END
        if (v >> 48 == tag) break;
        if (is_over(net, desk, patience, from)) return 0;
        rest();
    }
    return (u32)(v >> 32) & 0xFFFF;
}

// Return how many spikes a namesake has that are pushed in a step, from the head of its packet: whether they are listed in
// memory, and its flags, which are noted.
BE u32 told_spikes(Desk& desk, u32 head, u64 v, u32 t, bool& listed) {
    listed = head >> 8 == LISTED;
    if (head & 255) {
        ONE_LANE_DO
            or_in_block(&desk.told[t & 3], head & 255);
        LANES_END
    }
    if (listed) fence();
    return listed ? (u32)v : head >> 8;
}

// Queue where rows lie that are to be pushed in a step: those of the block itself, if its spikes are held, and of its
// namesakes. Each warp awaits the packets of some. What has no room is found again when the rest is pushed.
BE void queue_spikes(const Net& net, Desk& desk, OfThread<Look>& looks, u32 block, u32 warp, u32 warps, u32 t, u64 tag) {
    const u32 e = t & 1, step = t - HOLD;
    NOT_UNROLLED
    for (u32 other = warp + (HOLD ? 0 : 1); other < GPUS; other += warps) {
        const u32 from = namesake(net, block, other), begin = first_of(other, t);
        const Post post = {HOLD ? namesake_post(net, net.gpu, from, step) : post_in(net, desk.inboxes[net.gpu], from, t), 0};
        const u32* const list = list_in_memory(net, from, step);
        OfLane<Look> units;
        u64 v = 0, w = 0;
        u32 n = other ? 0 : desk.held[step & (KEPT - 1)];
        bool listed = other == 0;
        if (other) {
            if (HOLD && other == warp) {
                v = looks[warp * 32].v;
                w = looks[warp * 32].w;
            }
            const u32 head = HOLD ? await_looked(net, desk, post, from, tag_before(tag, HOLD), v, w)
                                  : await_told(net, desk, post, from, tag, v, w, units);
            n = told_spikes(desk, head, v, t, listed);
        }
        LANES_DO
            NOT_UNROLLED
            for (u32 k = lane; k < n && k < ROWS_OF_ONE; k += 32) {
                u64 x = v, y = w;
                if (!HOLD && k == lane && k >= INLINE) {
                    x = units[lane].v;
                    y = units[lane].w;
                }
                if (!listed && k >= INLINE && (HOLD || x >> 32 != (u64)(t + 1)))
                    await_unit(net, desk, post.at + k / INLINE * words_of_unit(net), from, step, x, y);
                const u32 place = listed ? get_word(list + k) : row_of(x, y, k % INLINE);
                const Row row = find_row(net, 0, number_of(net, from, place));
                desk.queue[begin + k] = (u64)row.at;
                desk.quads[begin + k] = row.quads;
                if (row.quads) {
                    ask_for(row.at);
                    ask_for(row.at + row.quads - 1);
                }
            }
            if (lane == 0) desk.counts[e][other] = n;
        LANES_END
        LANES_MEET;
    }
}

// Push rows that did not have room in the queue: they are listed.
BE void push_listed(const Net& net, const Ring& ring, u32 block, u32 from, u32 warp, u32 step, u32 n) {
    const u32* const list = list_in_memory(net, from, step);
    NOT_UNROLLED
    for (u32 k = ROWS_OF_ONE + warp; k < n; k += THREADS / 32) {
        const Row row = find_row(net, 0, number_of(net, from, get_word(list + k)));
        LANES_DO
            NOT_UNROLLED
            for (u32 j = lane; j < row.quads; j += 32) add_four(ring, fetch(row.at + j));
        LANES_END
    }
}

// PIECE lanes push a row; which of them begin is another one for each namesake.
BE u32 first_row(u32 other, u32 tid) {
    constexpr u32 PIECES = THREADS / PIECE;
    return (tid / PIECE + other * (PIECES / GPUS)) % PIECES;
}

// Ask for the first four words that a thread is to push in a step, in the order of push_queued.
BE uint4 first_queued(const Desk& desk, u32 tid, u32 t) {
    const u32 e = t & 1;
    UNROLLED
    for (u32 other = 0; other < GPUS; ++other) {
        const u32 n = desk.counts[e][other], begin = first_of(other, t);
        NOT_UNROLLED
        for (u32 k = first_row(other, tid); k < n && k < ROWS_OF_ONE; k += THREADS / PIECE)
            if (tid % PIECE < desk.quads[begin + k]) return fetch((const uint4*)desk.queue[begin + k] + tid % PIECE);
    }
    return {0, 0, 0, 0};
}

// Push what was queued for a step. The first four words of each thread are there, if there are `firsts`.
BE void push_queued(const Net& net, const Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t, OfThread<uint4>* firsts) {
    const u32 e = t & 1;
    OfLane<bool> begun;
    LANES_DO
        begun[lane] = !firsts;
    LANES_END
    NOT_UNROLLED
    for (u32 other = HOLD ? 0 : 1; other < GPUS; ++other) {
        const u32 n = desk.counts[e][other], begin = first_of(other, t);
        LANES_DO
            const u32 tid = warp * 32 + lane;
            NOT_UNROLLED
            for (u32 k = first_row(other, tid); k < n && k < ROWS_OF_ONE; k += THREADS / PIECE) {
                const uint4* const row = (const uint4*)desk.queue[begin + k];
                NOT_UNROLLED
                for (u32 j = lane % PIECE; j < desk.quads[begin + k]; j += PIECE) {
                    add_four(ring, begun[lane] ? fetch(row + j) : (*firsts)[tid]);
                    begun[lane] = true;
                }
            }
        LANES_END
        if (n > ROWS_OF_ONE) push_listed(net, ring, block, namesake(net, block, other), warp, t - HOLD, n);
    }
}

// ---- sums of the next steps

// A block that is LAG + 1 steps ahead adds to none that another one reads.
BE u32 next_steps(const Net& net) { return net.slots - HOLD + LAG; }

// The sums of a step of this block, among those of the next steps.
BE int* next_sums_of(const Net& net, u32 cells, u32 own, u32 t) {
    return cell_from(net.next_sums, t % next_steps(net) * cells + own);
}

BE void clear_next_sums(const Net& net, u32 cells, u32 own, u32 tid) {
    for (u32 k = 0; k < next_steps(net); ++k)
        for (u32 word = tid; word < (BYTES ? net.cells / 4 : net.cells); word += THREADS)
            next_sums_of(net, cells, own, k)[word] = 0;
}

// Move what has arrived for the next steps from the sums of all steps; or back, LAG steps behind the last one, when no
// block adds to it any longer. Other blocks may be adding to where it goes; and, if they have no more steps, to where it
// comes from, since they may be a step ahead.
BE void move_sums(const Net& net, const Ring& ring, u32 own, u32 tid, u32 t, bool back) {
    const u32 late = back ? LAG : 0, begin = ring_step(ring.now + ring.slots - late, ring.slots);
    t -= late;
    NOT_UNROLLED
    for (u32 k = 0; k < next_steps(net); ++k) {
        int* const all = cell_from(ring.sums, ring_step(begin + k, ring.slots) * ring.cells + own);
        int* const next = next_sums_of(net, ring.cells, own, t % next_steps(net) + k);  // t + k may be too large
        int *const from = back ? next : all, *const to = back ? all : next;
        for (u32 word = tid; word < (BYTES ? net.cells / 4 : net.cells); word += THREADS) {
            const int x = look(from + word);
            if (!x) continue;
            add_for_all(from + word, -x);
            add_for_all(to + word, x);
        }
    }
}

// The ring to which rows of spikes of HOLD steps before are pushed: that of the next steps, or behind the last step that of
// all of them.
BE Ring held_ring(const Net& net, const Ring& ring, u32 t, bool lives) {
    Ring held = ring;
    if (lives) {
        held.sums = net.next_sums;
        held.slots = next_steps(net);
        held.now = t % held.slots - HOLD;  // no delay is shorter
    } else held.now = ring_step(ring.now + ring.slots - HOLD, ring.slots);
    return held;
}
