// SPDX-License-Identifier: Apache-2.0
// Packets that are read LAG steps after theirs.
//
// If no delay is short, nobody needs the spikes of a step at once: so a block that is slow in a step, or far away, keeps
// no other waiting. Nobody is more than LAG + 1 steps ahead of another, and packets and lists are kept for KEPT steps.
// Those of the last steps are read when all steps have been: so no state between launches depends on LAG.
//
// Where populations are placed on GPUs, delays between these are longer: packets of other GPUs are read FAR_LAG steps after
// theirs, and their rows have delays that are shorter by FAR_LAG - LAG.

// Let a lane of the sender write the packet of a step, and one of a listener read that of LAG steps before. So many words
// are between the packets of two steps.
BE Post move_post(Post post, u64 words, u32 tid, u32 t) {
    #one const u32 step = tid / 32 == CARRIERS ? t : t - LAG;
    #one if (post.at) post.at = (u64*)post.other + (step & (KEPT - 1)) * words;
    #several const bool is_far = FAR_LAG > LAG && post.other & 1;  // addresses are even
    #several const u32 step = tid / 32 == CARRIERS ? t : t - (is_far ? FAR_LAG : LAG);
    #several if (post.at) post.at = (u64*)(post.other - is_far) + (step & (KEPT - 1)) * words;
    return post;
}

// How many steps after theirs packets of a block are read.
#one BE u32 lag_of(const Net&, u32) { return LAG; }
#several #dealt BE u32 lag_of(const Net& net, u32 from) {
#several #dealt     return FAR_LAG > LAG && from - net.first_block >= net.own_blocks ? FAR_LAG : LAG;
#several #dealt }
#grouped BE u32 lag_of(const Net& net, u32 from) {  // groups of a GPU may wait less for each other, too
#grouped     const u32 place = from - net.first_block;
#grouped     if (place >= net.own_blocks) return FAR_LAG;
#grouped     return !GROUPS_APART || net.parts[3 * place] == net.parts[3 * blockIdx.x] ? LAG : FAR_LAG;
#grouped }

// Say whether there is a packet of a block to be read; all of them are, when all steps have been.
BE bool is_read(const Net& net, u32 from, u32 turn, u32 steps) {
    const u32 lag = lag_of(net, from);
    return turn >= lag && (FAR_LAG + HOLD == LAG || turn - lag < steps);
}

#several // Flags are heeded FAR_LAG steps after theirs, when they have come from all GPUs: so all blocks stop after one step.
#several BE void note_flags(const Net& net, Desk& desk, u32 from, u32 flags, u32 t) {
#several     const bool waits = FAR_LAG > LAG && lag_of(net, from) == LAG;
#several     or_in_block(waits ? &desk.noted[(t - LAG) & (KEPT - 1)] : &desk.stop, flags);
#several }

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

// The tag of some steps before.
BE u64 tag_before(u64 tag, u32 lag) { return tag > lag ? tag - lag : tag + 0xFFFE - lag; }

// As it was LAG steps before. It has more slots than that, unless no rows are delivered to it.
BE Ring ring_before(Ring ring) {
    ring.now = (ring.now < LAG ? ring.now + ring.slots : ring.now) - LAG;
    ring.near.early = LAG;
    return ring;
}
