// SPDX-License-Identifier: Apache-2.0
// Blocks that push, on several GPUs: each adds to the sums of its own GPU alone. The namesakes of a block are those with
// its number on the other GPUs. A block tells them its spikes, pushes the rows of its own spikes and of theirs, and then
// says to the blocks of its GPU that this is done, with the flags of all namesakes: so these come from all blocks.

// Where a packet lies that a block sent to a namesake on a GPU, in the inbox to which no block of that GPU listens for it.
BE u64* namesake_post(const Net& net, u32 gpu, u32 block, u32 t) {
    return inbox_on(net, gpu, 0, block) + (t & (KEPT - 1)) * net.copies * words_of_inbox(net);
}

BE void tell_namesakes(const Net& net, const Desk& desk, u32 block, u32 t, u64 tag) {
    const u32 e = t & 1, n = desk.mine[e][0] & COUNT, flags = desk.mine[e][0] >> FLAGS;
    const bool listed = n > INLINE;
    if (listed) put_list(net, desk, block, t, n);
    u64 v = tag << 48 | (u64)(listed ? LISTED : n) << 40 | (u64)flags << 32, w = 0;
    for (u32 k = 0; k < n && !listed; ++k) {
        const u64 row = desk.mine[e][k + 1];
        if (NARROW) (k < 2 ? v : w) |= row << (k < 2 ? 16 * k : 16 * (k - 2));
        else (k < 1 ? v : w) |= row << (k < 1 ? 0 : 32 * (k - 1));
    }
    if (listed) v |= n;
    LANES_DO
        if (lane + 1 < GPUS) put_pair(namesake_post(net, (net.gpu + 1 + lane) % GPUS, block, t), v, w);
    LANES_END
    LANES_MEET;
}

// Push the rows of the spikes of all namesakes: each warp waits for their packets.
BE void push_for_namesakes(const Net& net, Desk& desk, const Ring& ring, u32 block, u32 warp, u32 t, u64 tag) {
    NOT_UNROLLED
    for (u32 other = 1; other < GPUS; ++other) {
        const u32 gpu = (net.gpu + other) % GPUS, from = block % net.own_blocks + gpu * net.own_blocks;
        const Post post = {namesake_post(net, net.gpu, from, t), 0};
        u64 v, w;
        const u32 head = await_packet(net, desk, post, from, tag, v, w), n = head >> 8 == LISTED ? (u32)v : head >> 8;
        if (warp == 0 && head & 255) {
            ONE_LANE_DO
                or_in_block(&desk.mine[t & 1][0], (head & 255) << FLAGS);
            LANES_END
        }
        if (head >> 8 == LISTED) fence();
        NOT_UNROLLED
        for (u32 k = warp; k < n; k += THREADS / 32) {
            const u32 place = head >> 8 == LISTED ? get_word(list_in_memory(net, from, t) + k) : row_of(v, w, k);
            const Row row = find_row(net, 0, number_of(net, from, place));
            LANES_DO
                NOT_UNROLLED
                for (u32 j = lane; j < row.quads; j += 32) add_four(ring, fetch(row.at + j));
            LANES_END
        }
    }
}
