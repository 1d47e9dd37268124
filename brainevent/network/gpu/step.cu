// SPDX-License-Identifier: Apache-2.0
// Many steps of a network in one kernel.
//
// Each block owns neurons, the synapses that end on them, and the ring of what is on its way to them. A block sends what
// its neurons did in a step as one packet to all blocks: what arrives is both the barrier and the data. Nobody is two
// steps ahead of another, so packets and lists are kept for even and for odd steps.
//
// Above this text stand the constants of the network's structure, and update(): the rules of its neurons.

// Launches are short, so that Ctrl-C and displays work.
BE bool is_late(const Net& net, u64 began, u32 turn) {
    return (turn & 63) == 63 && net.nanoseconds != 0 && clock_ns() - began > net.nanoseconds;
}

// ---- packets: 16 bytes. tag:16 count:8 flags:8, then three rows of 32 bits, or six of 16; more are listed in memory.

constexpr u32 INLINE = NARROW ? 6 : 3, LISTED = 255;
constexpr u32 FLAGS = 24, COUNT = (1u << FLAGS) - 1;  // the first word of own spikes: flags:8 count:24

struct Post {  // where a lane of a sender writes in even steps, or one of a listener reads; `half` further in odd ones
    u64* at;
    u64 half;
    bool is_there;
};

struct alignas(16) Desk {  // what a block has in shared memory, besides ring and states
    u32 mine[2][MINE + 8];  // own spikes of a step: flags and their number, then their rows
    volatile u64 queue[QUEUE];  // rows to deliver: step + 1 : 32, row : 32
    volatile u32 queued[2], heard[2];  // how many rows were queued, and how many warps of listeners are through
    u32 recorded, stop;
};

// ---- delivery of a row to the ring of this block

struct Ring {
    int* sums;
    u32 now, slots, cells, delay_shift, cell_shift, cell_mask, weight_shift;
};

BE int* cell_of(const Ring& ring, u32 place) {
    u32 slot = ring.now + (place >> ring.delay_shift);
    if (slot >= ring.slots) slot -= ring.slots;
    return ring.sums + slot * ring.cells + (place >> ring.cell_shift & ring.cell_mask);
}

// A word that is 0 is no synapse. All addresses are computed before the first addition, so that there is no branch.
BE void add_four(const Ring& ring, const uint4& y) {
    if (WIDE) {  // place, weight
        int *a = cell_of(ring, y.x), *b = cell_of(ring, y.z);
        if (y.x) add_in_block(a, (int)y.y);
        if (y.z) add_in_block(b, (int)y.w);
    } else {
        const u32 words[4] = {y.x, y.y, y.z, y.w};
        int* cells[4];
        int weights[4];
        for (u32 k = 0; k < 4; ++k) {
            cells[k] = cell_of(ring, words[k]);
            weights[k] = (int)(words[k] << ring.weight_shift) >> ring.weight_shift;
        }
        for (u32 k = 0; k < 4; ++k)
            if (words[k]) add_in_block(cells[k], weights[k]);
    }
}

struct Row {
    const uint4* at;
    u32 quads;
};

BE Row find_row(const Net& net, u32 block, u32 row) {
    if (LAYOUT == PADDED) {  // width / 2 quads : 8, base : 24, both for all blocks
        const u32 wide = row >> 24, base = row & 0xFFFFFFu;
        return {net.synapses + ((u64)base * net.blocks + (u64)block * wide) * 2, wide * 2};
    }
    const u32* start = (const u32*)net.starts + (u64)block * (net.sources + 1) + row;
    const u32 begin = fetch_word(start), end = fetch_word(start + 1);
    return {net.synapses + net.bases[block] + begin, end - begin};
}

// Short rows of this block: row k has the words starts[k] to starts[k + 1] - 1.
struct ShortRows {
    const u32* words;
    const Start* starts;
};

// A lane delivers a row by itself: where rows are short, and where the queue is full.
BE void deliver_alone(const Net& net, const ShortRows& rows, const Ring& ring, u32 block, u32 number) {
    if (LAYOUT == SHORT) {
        const u32 end = read_row(rows.starts + number + 1);
        NOT_UNROLLED
        for (u32 k = read_row(rows.starts + number); k < end; k += 4) {  // four are read before the first is added
            u32 y[4];
            for (u32 j = 0; j < 4; ++j) y[j] = k + j < end ? read_row(rows.words + k + j) : 0;
            add_four(ring, {y[0], y[1], y[2], y[3]});
        }
    } else {
        const Row row = find_row(net, block, number);
        NOT_UNROLLED
        for (u32 k = 0; k < row.quads; ++k) add_four(ring, fetch(row.at + k));
    }
}

// ---- the neurons of a thread

struct Own {
    u32 population, kind, neuron, place, flags, key0, key1;
    float quantum[RECEPTORS + 1];
};

struct Cell {  // of a neuron that lives in registers
    Own own;
    u32 row, s[WORDS + 1], p[PARAMS + 1], d[DRAWS + 1];
    bool is_there, spiked;
};

BE float arriving(const Net& net, const Own& own, int* now, u32 receptor, u32 turn) {
    int* cell = now + net.reach[receptor] + own.place;
    const float given = (float)look(cell) * own.quantum[receptor];
    *cell = 0;
    if (USUALLY(!(own.flags & FED))) return given;
    const Population& of = net.population[own.population];
    const float* input = of.input[receptor];
    if (!input) return given;
    return given + input[(u64)(net.turn + turn) * of.input_row[receptor] + own.neuron * of.input_item[receptor]];
}

BE void own_of(const Net& net, u32 number, Own& own) {
    const Population& of = net.population[number];
    own.population = number;
    own.kind = of.kind;
    own.flags = of.flags;
    own.key0 = of.key0;
    own.key1 = of.key1;
    for (u32 r = 0; r < RECEPTORS; ++r) own.quantum[r] = of.quantum[r];
}

// How many numbers of a table are at most u: the last one is infinite.
BE u32 events(const float* table, float u) {
    u32 k = 0;
    while (table[k] <= u) ++k;
    return k;
}

#include_rules

BE void sample(const Net& net, const Own& own, const u32* s, u32 slot, u32 t) {
    for (u32 j = 0; j < net.samples; ++j) {
        const Sample& of = net.sample[j];
        if (of.population != own.population || t % of.every) continue;
        const int column = of.columns[slot];
        if (column < 0) continue;
        u32 word = 0;
        for (u32 k = 0; k < WORDS; ++k) word = k == of.word ? s[k] : word;
        of.out[(u64)(t / of.every - of.before) * of.width + column] = word;
    }
}

// What is full is told with the next step: there is room for two.
BE void record(const Net& net, Desk& desk, const Own& own, u32 block, u32 t, u32 turn) {
    const u32 slot = block * net.per + own.place;
    if (own.flags & RECORDED) {
        const u32 at = add_in_block(&desk.recorded, 1u);
        net.spikes[(u64)block * net.capacity + at] = (u64)t << 32 | (own.place * net.blocks + block);
        if (at + 1 + 2 * net.per > net.capacity) or_in_block(&desk.mine[~t & 1][0], NO_ROOM << FLAGS);
    }
    if (own.flags & COUNTED) net.counts[slot] += 1;
    if (own.flags & RATED) add_for_all(net.population[own.population].rates + net.turn + turn, 1);
}

BE void spiked(const Net& net, Desk& desk, u32 row, u32 block, u32 e) {
    if (row == NOBODY) return;
    const u32 at = add_in_block(&desk.mine[e][0], 1u) & COUNT;
    if (USUALLY(at < MINE)) desk.mine[e][at + 1] = row;
    else put_word(&net.list[(u64)(e * net.blocks + block) * net.list_size + at], row);
}

BE bool live(const Net& net, Desk& desk, const Own& own, u32* s, const u32* p, u32* d, u32 row, int* now, u32 block, u32 t,
             u32 turn) {
    bool strange = false;
    const bool spike = update(net, own, s, p, d, now, t, turn, strange);
    if (spike) spiked(net, desk, IN_REGISTERS ? row : net.rows[block * net.per + own.place], block, t & 1);
    if (CHECKED && strange) or_in_block(&desk.mine[t & 1][0], NOT_FINITE << FLAGS);
    if (net.samples) sample(net, own, s, block * net.per + own.place, t);
    return spike && own.flags & (RECORDED | COUNTED | RATED);
}

// Neurons in memory: population after population, each thread every THREADS-th.
BE void live_in_memory(const Net& net, Desk& desk, u32* states, u32 stride, int* now, u32 block, u32 tid, u32 t, u32 turn) {
    for (u32 number = 0; number < net.populations; ++number) {
        const Population& of = net.population[number];
        Own own;
        own_of(net, number, own);
        // Neuron `begin + k` of the network is number (begin + k) / blocks of block (begin + k) % blocks.
        u32 p[PARAMS + 1];
        scalars(net, own, p);
        u32 l = (of.begin + net.blocks - 1 - block) / net.blocks;
        const u32 end = (of.begin + of.size + net.blocks - 1 - block) / net.blocks;
        for (l += tid; l < end; l += THREADS) {
            own.place = l;
            own.neuron = l * net.blocks + block - of.begin;
            u32 s[WORDS + 1], d[DRAWS + 1];
            for (u32 k = 0; k < WORDS; ++k) s[k] = states[k * stride + l];
            each(net, own, p, block * net.per + l);
            if (DRAWS) draw(net, own, p, d, t);
            if (live(net, desk, own, s, p, d, 0, now, block, t, turn)) record(net, desk, own, block, t, turn);
            for (u32 k = 0; k < WORDS; ++k) states[k * stride + l] = s[k];
        }
    }
}

BE void settle(const Net& net, Cell& cell, u32 block, u32 tid, u32 first) {
    const u32 number = tid * net.blocks + block, slot = block * net.per + tid;
    cell.is_there = false;
    if (tid >= net.per) return;
    for (u32 k = 0; k < net.populations; ++k) {
        const Population& of = net.population[k];
        if (number - of.begin >= of.size) continue;
        cell.is_there = true;
        own_of(net, k, cell.own);
        cell.own.neuron = number - of.begin;
        cell.own.place = tid;
        cell.row = net.rows[slot];
        for (u32 j = 0; j < WORDS; ++j) cell.s[j] = net.states[(u64)j * net.blocks * net.per + slot];
        scalars(net, cell.own, cell.p);
        each(net, cell.own, cell.p, slot);
        if (DRAWS) draw(net, cell.own, cell.p, cell.d, first);
    }
}

// ---- what warps do between two updates

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
        rest_listener();
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

extern "C" __global__ void __launch_bounds__(THREADS, 1) run(const Net net, unsigned first, unsigned steps) {
    ROOM(room);
    __shared__ Desk desk;
    const u32 block = blockIdx.x, slots = net.blocks * net.per, ring_words = net.slots * net.cells;
    u32* const words = (u32*)room;
    int* const sums = RING_IN_BLOCK ? (int*)words : net.ring + (u64)block * ring_words;
    u32* const states = STATES_IN_BLOCK ? words + (RING_IN_BLOCK ? ring_words : 0) : net.states + block * net.per;
    const u32 stride = STATES_IN_BLOCK ? net.per : slots;
    ShortRows rows = {(const u32*)net.synapses, (const Start*)net.starts + (u64)block * (net.sources + 1)};
    if (LAYOUT == SHORT) rows.words += net.bases[block];
    OfThread<Cell> cells;
    OfThread<Post> posts;
    Ring ring = {sums, first % net.slots, net.slots, net.cells, net.delay_shift, net.cell_shift, net.cell_mask, net.weight_shift};
    const u64 began = clock_ns();
    u64 tag = first % 0xFFFEu + 1;  // of the step
    u32 turn = 0;
    THREADS_DO
        if (RING_IN_BLOCK) for (u32 k = tid; k < ring_words; k += THREADS) sums[k] = net.ring[(u64)block * ring_words + k];
        if (STATES_IN_BLOCK)
            for (u32 j = 0; j < WORDS; ++j)
                for (u32 k = tid; k < net.per; k += THREADS) states[j * stride + k] = net.states[j * slots + block * net.per + k];
        if (ROWS_IN_BLOCK) {  // behind ring and states: words, then starts
            u32* own_words = words + (RING_IN_BLOCK ? ring_words : 0) + (STATES_IN_BLOCK ? WORDS * net.per : 0);
            Start* own_starts = (Start*)(own_words + net.row_words);
            const u32 count = rows.starts[net.sources];
            for (u32 k = tid; k < count; k += THREADS) own_words[k] = rows.words[k];
            for (u32 k = tid; k <= net.sources; k += THREADS) own_starts[k] = rows.starts[k];
        }
        for (u32 k = tid; k < QUEUE; k += THREADS) desk.queue[k] = 0;
        if (tid == 0) {
            desk.recorded = desk.stop = 0;
            for (u32 e = 0; e < 2; ++e) desk.queued[e] = desk.heard[e] = 0;
        }
        for (u32 k = tid; k < 8; k += THREADS) desk.mine[0][k] = desk.mine[1][k] = 0;
        Post& post = posts[tid];
        const u32 listener = tid - (CARRIERS + 1) * 32, inbox = listener < THREADS ? block % net.copies : tid - CARRIERS * 32;
        post.half = (u64)net.copies * net.blocks * 2;
        post.is_there = listener < THREADS ? listener < net.blocks : tid >= CARRIERS * 32 && inbox < net.copies;
        post.at = net.packets + ((u64)inbox * net.blocks + (listener < THREADS ? listener : block)) * 2;
        if (IN_REGISTERS) settle(net, cells[tid], block, tid, first);
    THREADS_MEET
    if (ROWS_IN_BLOCK) {
        rows.words = words + (RING_IN_BLOCK ? ring_words : 0) + (STATES_IN_BLOCK ? WORDS * net.per : 0);
        rows.starts = (const Start*)(rows.words + net.row_words);
    }
    while (turn < steps) {
        const u32 t = first + turn;
        int* const now = sums + ring.now * net.cells;
        THREADS_DO
            if (IN_REGISTERS) {
                Cell& c = cells[tid];
                c.spiked = c.is_there && live(net, desk, c.own, c.s, c.p, c.d, c.row, now, block, t, turn);
            } else live_in_memory(net, desk, states, stride, now, block, tid, t, turn);
        THREADS_MEET
        WARPS_DO(CARRIERS, 1)
            send(net, desk, posts, block, t, tag, block == 0 && is_late(net, began, turn) ? LATE : 0);
        WARPS_END
        if (IN_REGISTERS) {
            EACH_THREAD_DO
                Cell& c = cells[tid];
                if (DRAWS) {
                    rest_before_drawing();
                    if (c.is_there) draw(net, c.own, c.p, c.d, t + 1);
                }
                if (c.spiked) record(net, desk, c.own, block, t, turn);
            EACH_THREAD_END
        }
        WARPS_DO(CARRIERS + 1, LISTENERS)
            LANES_DO
                const Post& post = posts[warp * 32 + lane];
                if (post.is_there) listen(net, desk, rows, ring, post, block, (warp - CARRIERS - 1) * 32 + lane, t, tag);
            LANES_END
            LANES_MEET;
            if (!DIRECT) {
                ONE_LANE_DO
                    fence_in_block();
                    add_in_block((u32*)&desk.heard[t & 1], 1u);
                LANES_END
            }
        WARPS_END
        WARPS_DO(0, DIRECT ? 0 : CARRIERS)
            if (LAYOUT == SHORT) {
                LANES_DO
                    deliver_by_lanes(net, desk, rows, ring, block, warp * 32 + lane, t);
                LANES_END
            } else deliver_rows(net, desk, ring, block, warp, t);
        WARPS_END
        BLOCK_MEET;
        ++turn;
        tag = tag == 0xFFFE ? 1 : tag + 1;
        ring.now = ring.now + 1 == net.slots ? 0 : ring.now + 1;
        if (desk.stop) break;
    }
    THREADS_DO
        if (RING_IN_BLOCK) for (u32 k = tid; k < ring_words; k += THREADS) net.ring[(u64)block * ring_words + k] = sums[k];
        if (STATES_IN_BLOCK)
            for (u32 j = 0; j < WORDS; ++j)
                for (u32 k = tid; k < net.per; k += THREADS) net.states[j * slots + block * net.per + k] = states[j * stride + k];
        if (IN_REGISTERS && cells[tid].is_there)
            for (u32 j = 0; j < WORDS; ++j) net.states[j * slots + block * net.per + tid] = cells[tid].s[j];
        if (tid == 0) {
            net.ends[block * 4] = turn;
            net.ends[block * 4 + 1] = desk.stop;
            net.ends[block * 4 + 2] = desk.recorded;
        }
    THREADS_MEET
}
