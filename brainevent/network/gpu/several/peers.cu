// SPDX-License-Identifier: Apache-2.0
// Blocks on several GPUs: where their packets go, and how long those are awaited.

BE u64 words_of_inbox(const Net& net);

BE u64* inbox_on(const Net& net, u32 gpu, u32 inbox, u32 block) {
    return net.peers[gpu].packets + inbox * words_of_inbox(net) + block * 2;
}

BE u32 heard_block(const Net& net, u32 listener);

// Say whether a thread listens to another GPU, whose packets are read later.
BE bool hears_far(const Net& net, u32 tid) {
    const u32 listener = tid - (CARRIERS + 1) * 32;
    return FAR_LAG > LAG && tid >= (CARRIERS + 1) * 32 && lag_of(net, heard_block(net, listener)) > LAG;
}

// Where a lane writes or reads, in the first of the steps that are kept. Those of the sender write to all inboxes of this
// GPU, and to FAR inboxes of each other one, unless those get messages.
BE u64* post_among(const Net& net, u32 block, u32 tid) {
    const u32 sender = CARRIERS * 32;
    if (tid >= sender + 32) {
        const u32 of = PUSHES ? tid - sender - 32 + net.first_block : heard_block(net, tid - sender - 32);
        const bool is_near = of - net.first_block < net.own_blocks;
        if (PUSHES ? !is_near : of >= net.blocks) return nullptr;
        return inbox_on(net, net.gpu, block % (is_near ? net.copies : FAR), of);
    }
    if (tid < sender) return nullptr;
    const u32 lane = tid - sender, other = lane - net.copies;
    if (lane < net.copies) return inbox_on(net, net.gpu, lane, block);
    return !PUSHES && !COURIER && other < (GPUS - 1) * FAR ? inbox_on(net, (net.gpu + 1 + other / FAR) % GPUS, other % FAR, block) : nullptr;
}

// Copy the rows of a list to where other GPUs have it: those that are in shared memory, and those that are not.
BE void put_elsewhere(const Net& net, const u32* list, u32 n, u32 lane, u32 inside, const u32* rows) {
    NOT_UNROLLED
    for (u32 k = lane; k < n; k += 32) {
        const u32 row = k < inside ? rows[k] : get_word(list + k);
        for (u32 gpu = 0; gpu < GPUS; ++gpu)
            if (gpu != net.gpu) put_word(net.peers[gpu].list + (list - net.list) + k, row);
    }
}

BE void put_everywhere(const Net& net, u64 at, u32 word) {
    for (u32 gpu = 0; gpu < GPUS; ++gpu) put_word(net.peers[gpu].list + at, word);
}

struct Patience {  // of one wait: how often it looked, and since when it looks at the clock
    u32 looks;
    u64 since;
};

// Say whether the packet of a block is awaited no longer: another block has raised the flag of this GPU, or this one
// raises those of all, with the number of the block that did not send. Then no state is valid, and the launch ends.
BE bool is_over(const Net& net, Desk& desk, Patience& patience, u32 from) {
    if (++patience.looks & 255) return false;
    const u64 now = clock_ns();
    if (!patience.since) patience.since = now;
    if (!get_again(net.peers[net.gpu].flag)) {
        if (now - patience.since < net.patience) return false;
        for (u32 gpu = 0; gpu < GPUS; ++gpu) put_flag(net.peers[gpu].flag, from + 1);
    }
    or_in_block(&desk.stop, LOST);
    return true;
}
