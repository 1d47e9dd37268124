// SPDX-License-Identifier: Apache-2.0
// Packets that are read LAG steps after theirs.
//
// If no delay is short, nobody needs the spikes of a step at once: so a block that is slow in a step, or far away, keeps
// no other waiting. Nobody is more than LAG + 1 steps ahead of another, and packets and lists are kept for KEPT steps.
// Those of the last steps are read when all steps have been: so no state between launches depends on LAG.

// Let a lane of the sender write the packet of a step, and one of a listener read that of LAG steps before. So many words
// are between the packets of two steps.
BE Post move_post(Post post, u64 words, u32 tid, u32 t) {
    const u32 step = tid / 32 == CARRIERS ? t : t - LAG;
    if (post.at) post.at = (u64*)post.other + (step & (KEPT - 1)) * words;
    return post;
}

// Where the rows of a step's packet are listed that has no room for them.
BE u32* list_in_memory(const Net& net, u32 block, u32 step) {
    return net.list + (u64)((step & (KEPT - 1)) * net.blocks + block) * net.list_size;
}

// What the sender does when it has nothing to send.
BE void begin_queue(Desk& desk, u32 t) {
    ONE_LANE_DO
        desk.queued[~t & 1] = desk.heard[~t & 1] = 0;
    LANES_END
}

// The tag of LAG steps before.
BE u64 tag_before(u64 tag) { return tag > LAG ? tag - LAG : tag + 0xFFFE - LAG; }

// As it was LAG steps before. It has more slots than that, unless no rows are delivered to it.
BE Ring ring_before(Ring ring) {
    ring.now = (ring.now < LAG ? ring.now + ring.slots : ring.now) - LAG;
    return ring;
}
