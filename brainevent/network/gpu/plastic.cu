// SPDX-License-Identifier: Apache-2.0
// Plastic synapses: lists of the events of neurons, and spikes that reach synapses.
//
// A block owns the synapses that end on its neurons, their weights and states, and its own copy of the traces of their
// sources. What neurons do is listed in memory, by step and block: the packet of a step says that the lists of its block
// are there. If all delays are of four steps and more (LAZY), the packet of the next step says it, and the thread that got
// that one sees them in the step after it: so no packet waits for memory. If delays are still longer, that is
// done for FENCED steps at once, since it also empties the cache. A warp delivers a spike, or a part of its synapses, and changes
// those that it reaches; all threads that act change those of a neuron of this block. Rules are called by the text that is
// generated for a network: act(), settle() and what calls them.
//
// If all delays are of axons, warps act while others send and listen; and if none of them is one step, they let the spikes
// of the next step arrive then, too (AHEAD). A launch ends before it, so it knows of its last step a step before. Which ones
// arrive is looked up before that, or at the same time for the step after it (EARLY).
//
// If all delays are of dendrites, none is short, and rules read no states of targets, synapses may be BEHIND steps late: what
// happens to them in a step happens BEHIND steps after it, and then in the same order. So spikes reach them as if they had
// been on an axon. The last steps of synapses come when all steps of neurons have been.

struct Reached {  // a spike that reaches the synapses begin to end - 1 of this block
    u32 source, where, begin, end;  // row of delays : 16, projection : 15, whether these are its first synapses : 1
};

constexpr u32 FIRST = 1u << 31, MOST_PARTS = 8, OWN = 8;  // parts of a spike in the queue, at most; events in shared memory

BE u32 row_of(const Reached& spike) { return spike.where & 0xFFFF; }
BE u32 length_of(const Reached& spike) { return spike.end - spike.begin; }
BE u32 projection_of(const Reached& spike) { return (spike.where & ~FIRST) >> 16; }

struct alignas(16) PlasticDesk {
    Reached queue[2][REACHED];  // spikes that reach synapses in even and in odd steps
    u32 queued[4], listed[2][LISTS];  // how many, in four steps; events of own neurons in a step, by list
    u32 own[2][LISTS][OWN];  // the first of these neurons
    u32 due[2];  // of a cluster: which intervals end with an even or an odd step, as bits
    u32 first, since, full;  // step of the launch; from when on calls are deferred; whether a list of events is full
};

// What blocks of a cluster hand each other with packets: how many events there are in a step, and the first three neurons.
// They are kept as lines of lists are, by list, step and block. Up to WHOLE events are all that is read of a step: none, if
// spikes carry what lies in memory.
struct alignas(16) Handed {
    u64 words[2];
};

__shared__ PlasticDesk plastic_desk;
constexpr u32 OF_CLUSTER = CLUSTER ? CLUSTER : 1;
__shared__ Handed handed_lines[CLUSTER ? TOLD * HANDED * CLUSTER : 1];
__shared__ u64 plastic_table[TABLE + 1];

BE void clear_plastic(const Net& net, u32 tid, u32 first) {
    for (u32 k = tid; k < TABLE; k += THREADS) plastic_table[k] = net.plastic[k];
    for (u32 k = tid; k < LISTS; k += THREADS) plastic_desk.listed[0][k] = plastic_desk.listed[1][k] = 0;
    if (tid < 4) plastic_desk.queued[tid] = 0;
    if (tid != 0) return;
    plastic_desk.first = first;
    plastic_desk.since = net.since;
    plastic_desk.full = 0;
}

// Spikes that reached synapses in step t have acted, so others of this step may follow; or, where traces take them later,
// those of step t + 2.
BE void empty_queue(u32 t) { plastic_desk.queued[(BEHIND ? t + 2 : t) & 3] = 0; }

// Number a thread that acts, counted from that of a warp on: so some things begin in other warps.
BE u32 counted_from(u32 tid, u32 warp) { return tid < warp * 32 ? tid + (ACTING - warp) * 32 : tid - warp * 32; }

// Each warp that acts reaches a mark.
BE void mark_acting(Desk& desk, u32 which) {
    if (!CLOCKED) return;
    ACTING_DO
        if (tid % 32 == 0) mark(desk, which);
    ACTING_END
}

// How many blocks there are. Of a cluster this is known, and no quotient is computed.
BE u32 all_blocks(const Net& net) { return CLUSTER ? CLUSTER : net.blocks; }

// The number of a synapse: among those of its block if they are in shared memory, else among all.
template <bool HERE> struct NumberOf { typedef u64 Type; };
template <> struct NumberOf<true> { typedef u32 Type; };
typedef NumberOf<INSIDE>::Type Place;

// What a block has of an array goes to shared memory, and back; the table then says where it begins there.
template <class T> BE void transfer(void* to, const void* from, u32 count, u32 tid) {
    for (u32 k = tid; k < count; k += THREADS) ((T*)to)[k] = ((const T*)from)[k];
}
BE u64* move_in(const Net& net, u32 k, u32 size, u64 begin, u32 count, u64* at, u32 tid) {
    const u64 from = fetch_slot(net.plastic + k) + begin * size;
    if (size % 4 == 0) transfer<u32>(at, (const void*)from, count * (size / 4), tid);
    else if (size == 2) transfer<unsigned short>(at, (const void*)from, count, tid);
    else transfer<unsigned char>(at, (const void*)from, count, tid);
    ROOM(room);
    if (tid == 0) plastic_table[k] = (u64)at - (u64)room;
    return at + ((u64)count * size + 7) / 8;
}
BE void move_out(const Net& net, u32 k, u64 begin, u32 count, u32 tid) {
    ROOM(room);
    transfer<u32>((u32*)fetch_slot(net.plastic + k) + begin, (const u32*)(room + plastic_table[k]), count, tid);
}

// Addresses and numbers in the table of plastic synapses.
BE u64 word_of(const Net& net, u32 k) { return TABLE ? plastic_table[k] : fetch_slot(net.plastic + k); }
BE float float_of(const Net& net, u32 k) { return __uint_as_float((u32)word_of(net, k)); }
template <class T> BE T* array_of(const Net& net, u32 k) { return (T*)word_of(net, k); }

// What a block has of an array of synapses or traces, which begins at an element of that of all.
template <class T> BE T* own_array(const Net& net, u32 k, u64 begin) {
    ROOM(room);
    if (INSIDE) return (T*)(room + (u32)plastic_table[k]);
    return array_of<T>(net, k) + begin;
}

struct List {  // of events in the last steps: by step and block, how many there are, and their neurons
    u32 *lines, width, mask;
};

BE List list_of(const Net& net, u32 number) {
    #one const u32 at = number * 3;
    #several const u32 at = number * (3 + GPUS);  // and where each GPU has it
    return {array_of<u32>(net, at), (u32)word_of(net, at + 1), (u32)word_of(net, at + 2)};
}

BE u32* line_of(const Net& net, const List& list, u32 step, u32 block) {
    return list.lines + (u64)((step & list.mask) * all_blocks(net) + block) * list.width;
}

struct Line {  // the number of events in a step, and their neurons: the first ones come together
    const u32* at;
    uint4 first;
};

BE Handed* handed_at(u32 told, u32 slot, u32 block) { return handed_lines + (told * HANDED + slot) * CLUSTER + block; }

// What has come with packets before this launch.
BE void enter_handed(const Net& net, u32 tid) {
    for (u32 k = tid; k < LISTS * HANDED * CLUSTER; k += THREADS) {
        const u32 number = k / (HANDED * OF_CLUSTER), slot = k / OF_CLUSTER % HANDED, block = k % OF_CLUSTER;
        const u64* const at = net.plastic + number * 3;  // the table is not in shared memory yet
        const List list = {(u32*)fetch_slot(at), (u32)fetch_slot(at + 1), (u32)fetch_slot(at + 2)};
        if (!is_told(number) || slot > list.mask) continue;
        const uint4 four = get_four((const uint4*)line_of(net, list, slot, block));
        *handed_at(told_place(number), slot, block) = {{four.x | (u64)four.y << 32, four.z | (u64)four.w << 32}};
    }
}

// A lane hands the lines of a step to a block of this cluster, given what counts there what arrives.
BE void hand_lines(const Net& net, u64* arrived, u32 block, u32 lane, u32 t) {
    NOT_UNROLLED
    for (u32 number = 0; number < LISTS; ++number) {
        if (!is_told(number)) continue;
        const u32 *const own = plastic_desk.own[t & 1][number], n = plastic_desk.listed[t & 1][number];
        u64* const at = handed_at(told_place(number), t & list_of(net, number).mask, block)->words;
        hand_pair(in_block(at, lane), arrived, n | (u64)own[0] << 32, own[1] | (u64)own[2] << 32);  // no thread reads neurons beyond n
    }
}

// Whether all that other blocks read of this step is handed to them.
BE bool all_is_handed(u32 t) {
    bool fits = true;
    for (u32 number = 0; number < LISTS; ++number) fits = fits && (!is_told(number) || plastic_desk.listed[t & 1][number] <= WHOLE);
    return fits;
}

// How many events there are in such a line.
BE u32 count_told(const List& list, u32 told, u32 step, u32 block) {
    return (u32)handed_at(told, step & list.mask, block)->words[0];
}

// A line that other blocks read. What a cluster hands on begins it; further neurons are in memory.
BE Line read_told(const Net& net, const List& list, u32 told, u32 step, u32 block) {
    const u32* const at = line_of(net, list, step, block);
    if (!CLUSTER) return {at, get_four((const uint4*)at)};
    u64 v, w;
    get_handed(own_inbox(handed_at(told, step & list.mask, block)->words), v, w);
    if (!USUALLY((u32)v <= WHOLE)) fence();
    return {at, {(u32)v, (u32)(v >> 32), (u32)w, (u32)(w >> 32)}};
}

BE Line read_line(const Net& net, const List& list, u32 step, u32 block) {
    const u32* const at = line_of(net, list, step, block);
    return {at, get_four((const uint4*)at)};
}

BE u32 neuron_of(const Line& line, u32 k) {
    return k == 0 ? line.first.y : k == 1 ? line.first.z : k == 2 ? line.first.w : get_word(line.at + 1 + k);
}

// Write a word of a list: here, and on all GPUs if they read it.
BE void put_in_list(const Net& net, u32 number, u32 block, u32 t, u32 k, u32 x) {
    const List list = list_of(net, number);
    u32* const at = line_of(net, list, t, block) + k;
    put_word(at, x);
    #several if (!is_told(number)) return;
    #several for (u32 gpu = 0; gpu < GPUS; ++gpu)
    #several     if (gpu != net.gpu) put_word(array_of<u32>(net, number * (3 + GPUS) + 3 + gpu) + (at - list.lines), x);
}

BE void note(const Net& net, u32 number, u32 neuron, u32 block, u32 t) {
    const u32 at = next_in_block(&plastic_desk.listed[t & 1][number]);
    if (!CLUSTER || at >= OWN) put_in_list(net, number, block, t, 1 + at, neuron);
    if (at < OWN) plastic_desk.own[t & 1][number][at] = neuron;
}

// A neuron of this block that had an event in this step.
BE u32 own_neuron(const Net& net, u32 number, u32 k, u32 block, u32 t) {
    if (USUALLY(k < OWN)) return plastic_desk.own[t & 1][number][k];
    return get_word(line_of(net, list_of(net, number), t, block) + 1 + k);
}

BE void fence_lanes() {
    LANES_DO
        fence();
    LANES_END
    LANES_MEET;
}

BE u32 due_at(const Net& net, u32 t);

// What the sender of a cluster lists in memory when it has sent a step, or before that if others read it there.
BE void list_own(const Net& net, u32 block, u32 t) {
    LANES_DO
        NOT_UNROLLED
        for (u32 number = 0; number < LISTS; ++number)
            if (lane < OWN && lane < plastic_desk.listed[t & 1][number])
                put_in_list(net, number, block, t, 1 + lane, plastic_desk.own[t & 1][number][lane]);
    LANES_END
    LANES_MEET;
}

// Which intervals end with a step: found before it, since a quotient takes long.
BE void find_due(const Net& net, u32 t) {
    ONE_LANE_DO
        plastic_desk.due[t & 1] = due_at(net, t);
    LANES_END
}

// What the sender does before it sends the packet of a step, or after it.
BE void release_lists(const Net& net, u32 block, u32 t) {
    LANES_DO
        NOT_UNROLLED
        for (u32 k = lane; k < LISTS; k += 32) {
            put_in_list(net, k, block, t, 0, plastic_desk.listed[t & 1][k]);
            plastic_desk.listed[~t & 1][k] = 0;  // for the next step
        }
    LANES_END
    LANES_MEET;
    if (CLUSTER) find_due(net, t + 1);
    else if (t % FENCED == FENCED - 1) fence_lanes();
}

// Whether listeners make sure of the lists of the last FENCED steps, since they have read the packet of the step after them.
BE bool sees_lists(u32 t) { return (t - LAG - 1) % FENCED == 0; }

// Where the synapses of a delay begin and end, among those of a source, which are in the order of delays.
template <class Which> BE void stretch(const Which* which, u32 row, u32& begin, u32& end) {
    u32 low = begin, high = end;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (fixed(which + middle) < row) low = middle + 1;
        else high = middle;
    }
    begin = low;
    high = end;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (fixed(which + middle) <= row) low = middle + 1;
        else high = middle;
    }
    end = low;
}

BE void act(const Net& net, const Ring& ring, const Reached* spikes, u32 count, u32 share, u32 shares, u32 block, u32 t, u32 warp);
BE void settle(const Net& net, const Reached& spike, u32 block, u32 t);
BE void walk_all(const Net& net, const Ring& ring, u32 block, u32 t, bool arriving);
BE void bring_all(const Net& net, const Ring& ring, u32 block, u32 t, bool parted, u32 busy, bool arriving);
BE void take_all(const Net& net, const Ring& ring, u32 block, u32 tid, u32 t, u32 threads);
BE u32 sampled(const Net& net, const SynapseSample& of, u64 synapse, u32 block);

// Queue a spike for a step, in parts that warps share out; if there is no room for all, the queue is not used.
BE void enqueue(Reached spike, u32 begin, u32 end, u32 t) {
    u32 part = DEFERRED ? PART : 32;
    while (part * MOST_PARTS < end - begin) part *= 2;
    const u32 n = end == begin ? 1 : (end - begin + part - 1) / part, at = add_in_block(&plastic_desk.queued[t & 3], n);
    if (!USUALLY(at + n <= REACHED)) return;
    for (u32 k = 0; k < n; ++k) {
        spike.begin = begin + k * part;
        spike.end = end - spike.begin < part ? end : spike.begin + part;
        plastic_desk.queue[t & 1][at + k] = spike;
        spike.where &= ~FIRST;
    }
}

// A warp lets a spike act, with all its synapses.
BE void act_alone(const Net& net, const Ring& ring, const Reached& spike, u32 block, u32 t, u32 warp) {
    act(net, ring, &spike, 1, 0, 1, block, t, warp);
    ONE_LANE_DO
        settle(net, spike, block, t);
    LANES_END
    LANES_MEET;
}

// A warp has delivered all spikes of a step. The warps that have neurons wait for this alone, so others may go on.
BE void has_delivered() {
    LANES_MEET;
    ACTING_ARRIVE;
}

// Spikes arrive in a cluster. If rules read no state of targets, only those warps wait that have neurons.
BE u32 warps_with_neurons(const Net& net) { return (net.per + 31) / 32; }
BE bool is_parted(const Net& net) { return SPLIT && IN_REGISTERS && warps_with_neurons(net) < ACTING; }

BE void bring_beside(const Net& net, const Ring& ring, u32 block, u32 t) {
    bring_all(net, ring, block, t, is_parted(net), warps_with_neurons(net), true);
    if (!is_parted(net)) BLOCK_MEET;
}

BE void await_delivered(const Net& net) {
    if (is_parted(net)) {
        ACTING_WAIT(warps_with_neurons(net));
    }
}

// What rules remember of sources takes the spikes in the queue.
BE void settle_all(const Net& net, u32 block, u32 t) {
    ACTING_DO
        for (u32 q = counted_from(tid, ACTING / 2); q < plastic_desk.queued[t & 3]; q += ACTING * 32)
            if (plastic_desk.queue[t & 1][q].where & FIRST) settle(net, plastic_desk.queue[t & 1][q], block, t);
    ACTING_END
}

// A share of a queued spike: if there are fewer of them than warps, some warps have one together.
BE Reached share_of(Reached spike, u32 k, u32 shares) {
    if (shares == 1) return spike;
    const u32 size = ((length_of(spike) + shares - 1) / shares + 31) / 32 * 32, end = spike.end;
    spike.begin = spike.begin + k * size < end ? spike.begin + k * size : end;
    spike.end = end - spike.begin < size ? end : spike.begin + size;
    return spike;
}

// With how many of some spikes a warp deals at once: so fewer lanes wait for calls that are deferred.
BE u32 together(const Reached* spikes, u32 most) {
    u32 n = 1, size = length_of(spikes[0]);
    while (n < most && projection_of(spikes[n]) == projection_of(spikes[0])) {
        size += length_of(spikes[n]);
        if (size > ROOM_LATER) break;
        ++n;
    }
    return n;
}

// Where neurons are updated BETWEEN what synapses do in two steps, what rules remember meanwhile takes the spikes of the
// first one, and events of targets: the last warp has these, and others those.
BE void remember(const Net& net, const Ring& ring, u32 block, u32 t) {
    WARPS_DO(ACTING - 1, 1)
        LANES_DO
            take_all(net, ring, block, lane, t, 32);
        LANES_END
    WARPS_END
    WARPS_DO(0, ACTING - 1)
        const u32 n = plastic_desk.queued[t & 3] <= REACHED ? plastic_desk.queued[t & 3] : 0;
        LANES_DO
            for (u32 q = (ACTING - 2 - warp) * 32 + lane; q < n; q += (ACTING - 1) * 32)
                if (plastic_desk.queue[t & 1][q].where & FIRST) settle(net, plastic_desk.queue[t & 1][q], block, t);
        LANES_END
    WARPS_END
}

// Let all spikes act that were queued: those that arrive at the end of an axon, or others. Threads meet before it and after
// it. The last warps begin, since the first ones have neurons.
BE void act_all(const Net& net, Desk& desk, const Ring& ring, u32 block, u32 t, bool arriving) {
    const u32 n = plastic_desk.queued[t & 3];
    const u32 shares = !DEFERRED || 2 * n > ACTING ? 1 : 3 * n > ACTING ? 2 : 4 * n > ACTING ? 3 : 4;
    const u32 most = !DEFERRED || n < 2 * ACTING ? 1 : n < PIECES * ACTING ? 2 : PIECES;
    if (USUALLY(n <= REACHED)) {
        if (!READS_TRACES && !BETWEEN) settle_all(net, block, t);
        WARPS_DO(0, ACTING)
            NOT_UNROLLED
            for (u32 q = (ACTING - 1 - warp) * most; q < n * shares; q += ACTING * most) {
                const u32 end = q + most < n * shares ? q + most : n * shares;
                NOT_UNROLLED
                for (u32 k = q, count; k < end; k += count) {
                    const Reached* const spikes = plastic_desk.queue[t & 1] + k / shares;
                    count = together(spikes, end - k);
                    act(net, ring, spikes, count, k % shares, shares, block, t, warp);
                }
            }
        WARPS_END
        mark_acting(desk, ACTED);
        if (READS_TRACES && !BETWEEN) {
            ACTING_MEET;
            settle_all(net, block, t);
        }
    } else walk_all(net, ring, block, t, arriving);
    mark_acting(desk, SETTLED);
}

// Add to the sum of a neuron of this block.
BE void add_to_sum(const Ring& ring, u32 slot, u32 cell, int x) {
    add_if(true, ring.sums + slot * ring.cells + cell, x, ring.nowhere);
}

BE u32 slot_after(const Ring& ring, u32 steps) {
    const u32 slot = ring.now + steps;
    return slot >= ring.slots ? slot - ring.slots : slot;
}

BE Ring after_step(Ring ring) {
    ring.now = slot_after(ring, 1);
    return ring;
}

// Whether an interval of some steps ends with step t: in 32 bits, where a quotient is quick.
BE bool ends_interval(u32 t, u64 steps) {
    return steps >> 32 ? (u64)t + 1 == steps : t % (u32)steps == (u32)steps - 1;
}

BE bool is_strange(float x) { return (__float_as_uint(x) & 0x7F800000u) == 0x7F800000u; }

// The values of chosen synapses of this block after a step.
BE void sample_synapses(const Net& net, u32 block, u32 tid, u32 t) {
    NOT_UNROLLED
    for (u32 j = 0; j < net.synapse_samples; ++j) {
        const SynapseSample& of = net.synapse_sample[j];
        if (t % of.every) continue;
        u32* const out = of.out + (u64)(t / of.every - of.before) * of.width;
        for (u32 k = of.starts[block] + tid; k < of.starts[block + 1]; k += ACTING * 32) out[of.columns[k]] = sampled(net, of, of.synapses[k], block);
    }
}
