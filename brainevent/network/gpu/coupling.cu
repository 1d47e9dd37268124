// SPDX-License-Identifier: Apache-2.0
// Couplings: the states before a step, which neurons of all blocks read. They lie in memory twice, for even and for odd
// steps; packets are the barrier between those who write them and those who read them.

// Where the shown states of a step begin, those of word `rank` among them.
BE u32* shown_at(const Net& net, u32 step, u32 rank) {
    return net.shown + (u64)((step & 1) * SHOWN_STATES + rank) * net.blocks * net.per;
}

BE u32 own_slot(const Net& net, const Own& own) {
    const u32 number = net.population[own.population].begin + own.neuron;
    return number % net.blocks * net.per + number / net.blocks;
}

// What has arrived at a receptor, and what couplings bring to it: a sum in the order of their synapses.
BE float coupled(const Net& net, const Own& own, u32 receptor, u32 t, float arrived) {
    const u32* words = net.couplings;
    float total = 0;
    bool any = false;
    NOT_UNROLLED
    for (u32 k = 0; k < COUPLINGS; ++k) {
        const Carried& of = ((const Carried*)words)[k];
        if (of.population != own.population || of.receptor != receptor) continue;
        any = true;
        const u32 slot = own_slot(net, own), begin = fetch_word(words + of.starts + slot);
        const u32 end = fetch_word(words + of.starts + slot + 1);
        const u32* values = shown_at(net, t, of.rank);
        const float itself = of.difference ? __uint_as_float(get_word(shown_at(net, t, of.rank_of_own) + slot)) : 0;
        for (u32 entry = begin; entry < end; ++entry) {
            const float value = __uint_as_float(get_word(values + fetch_word(words + of.sources + entry)));
            const float weight = __uint_as_float(fetch_word(words + of.weights + (of.one_weight ? 0 : entry)));
            total = of.difference ? be_difference(total, weight, value, itself) : be_state(total, weight, value, itself);
        }
    }
    return any ? arrived + total : arrived;
}

#several // Put a state where blocks of all GPUs read it.
#several BE void put_shown(const Net& net, u64 at, u32 word) {
#several     for (u32 gpu = 0; gpu < GPUS; ++gpu) put_word(net.peers[gpu].shown + at, word);
#several }
// Let others read a state of a neuron in the next step.
BE void show(const Net& net, const Own& own, u32 rank, u32 word, u32 t) {
    #one put_word(shown_at(net, t + 1, rank) + own_slot(net, own), word);
    #several put_shown(net, shown_at(net, t + 1, rank) - net.shown + own_slot(net, own), word);
}

// Before the first step of a launch: show the states of this block, and wait for those of all others.
#one BE void show_first(const Net& net, u32 block, u32 first) {
#several BE void show_first(const Net& net, Desk& desk, u32 block, u32 first) {
    THREADS_DO
        const u32 begin = block * net.per;
        for (u32 rank = 0; rank < SHOWN_STATES; ++rank)
            for (u32 place = tid; place < net.per; place += THREADS)
                #one put_word(shown_at(net, first, rank) + begin + place,
                #several put_shown(net, shown_at(net, first, rank) - net.shown + begin + place,
                         net.states[(u64)shown_word(rank) * net.blocks * net.per + begin + place]);
    THREADS_MEET
    EACH_THREAD_DO
        if (tid == 0) {
            fence();
            #one put_word(net.met + block, first + 1);
            #several for (u32 gpu = 0; gpu < GPUS; ++gpu) put_flag(net.peers[gpu].met + block, first + 1);
        }
    EACH_THREAD_END
    THREADS_DO
        for (u32 other = tid; other < net.blocks; other += THREADS)
            #one while (get_again(net.met + other) != first + 1) rest();
            #several for (Patience patience = {0, 0}; get_again(net.met + other) != first + 1;) {
            #several     if (is_over(net, desk, patience, other)) break;
            #several     rest();
            #several }
        fence();
    THREADS_MEET
}
