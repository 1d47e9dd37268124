// SPDX-License-Identifier: Apache-2.0
// Many steps of a network in one kernel.
//
// Each block owns neurons, the synapses that end on them, and the ring of their pending input. A block sends what
// its neurons did in a step as one packet to all blocks: what arrives is both the barrier and the data. Nobody is two
// steps ahead of another, so packets and lists are kept for even and for odd steps.
//
// If a block has few of the synapses of each source neuron, it pushes: it adds what its own neurons send to the sums of
// all blocks, in memory. Then a packet says that this is done.
//
// Above this text stand the constants of the network's structure, and update(): the rules of its neurons.

template <class T> BE void copied(T* to, const T* from, u32 count, u32 tid) {
    for (u32 k = tid; k < count; k += THREADS) to[k] = from[k];
}

BE void clear(Desk& desk, u32 tid, u32 first) {
    for (u32 k = tid; k < QUEUE; k += THREADS) desk.queue[k] = (u64)first << 32;  // as of a step before the first one
    for (u32 k = tid; k < 8; k += THREADS) desk.mine[0][k] = desk.mine[1][k] = 0;
    #several for (u32 k = tid; k < KEPT; k += THREADS) desk.noted[k] = desk.held[k] = 0;
    #several for (u32 k = tid; k < 4 * GPUS; k += THREADS) desk.counts[k / GPUS][k % GPUS] = 0;
    #several if (tid < 4) desk.told[tid] = desk.known[tid] = 0;
    if (tid != 0) return;
    desk.recorded = desk.stop = desk.others = 0;
    #due desk.taken[0] = desk.taken[1] = 0;
    desk.launched = clock_ns();
    for (u32 e = 0; e < 2; ++e) desk.queued[e] = desk.heard[e] = 0;
    for (u32 k = 0; k < MARKS; ++k) desk.reached[k] = desk.spent[k] = 0;
    begin_step(desk);
}

BE void run_block(const Net& net, u32 block, u32 first, u32 steps) {
    ROOM(room);
    __shared__ Desk desk;
    #several if (COURIER && block - net.first_block == net.own_blocks) {
    #several     run_courier(net, desk, first, steps);
    #several     return;
    #several }
    const u32 slots = net.blocks * net.per, ring_words = net.slots * net.cells;
    #one const u32 ring_cells = PUSHES ? net.blocks * net.cells : net.cells;  // of a step
    #several const u32 ring_cells = PUSHES ? net.own_blocks * net.cells : net.cells;  // of a step, on this GPU
    #static u32* const words = (u32*)(room + KNOWN_BYTES);
    #plastic u32* const words = (u32*)(room + LATER);
    int* const sums = RING_IN_BLOCK ? (int*)words : PUSHES ? net.ring : net.ring + (u64)block * ring_words;
    const u32 half = (net.cells + 1) / 2;  // words of two sums
    const u32 sum_words = RING_IN_BLOCK ? ring_words : NEAR ? NEAR * half + spans_of(net.slots) * PILES + net.slots : 0, mixed_words = MIXED ? (1 + DRAWN_BYTES) * in_fours(net.per) / 4 : 0;
    const States states = {words + sum_words + mixed_words, net.states + block * net.per, net.per, slots, net.more, (unsigned char*)(words + sum_words), (unsigned char*)(words + sum_words) + in_fours(net.per)};
    u32* const own_rows = states.inside + WORDS_IN_BLOCK * net.per + net.more;
    #one const u32 blocks_here = net.blocks, block_here = block;
    #several const u32 blocks_here = net.own_blocks, block_here = block - net.first_block;
    const u64 starts = LAYOUT == SLOTS ? block_here : (u64)block * (net.sources + 1);
    ShortRows rows = {(const u32*)net.synapses, (const Start*)net.starts + starts, blocks_here};
    if (BY_LANES) rows.words += net.bases[block];
    OfThread<Cell> cells;
    OfThread<Many> many;
    #fours OfThread<Fours> fours;
    OfThread<Post> posts;
    #several OfThread<uint4> firsts;
    #several OfThread<Look> looks;
    #several OfThread<Ahead> ahead;
    #several OfThread<bool> waits;
    #several bool owed = false;  // spikes of the step before are not told to namesakes, nor recorded
    Ring ring = {sums, desk.nowhere, first % net.slots, net.slots, ring_cells, net.delay_shift, net.cell_shift, net.cell_mask, net.weight_shift};
    if (NEAR) {
        u32* const counts = words + NEAR * half;
        #one const u32 number = block;
        #several const u32 number = block - net.first_block;
        #prompt u32* const list = net.list + 3ull * net.blocks * net.list_size;
        #late u32* const list = net.list + (KEPT + 1ull) * net.blocks * net.list_size;
        u32* own = list + (u64)number * spans_of(net.slots) * PILES * PILE_ROOM;
        pin(own);
        ring.near = {words, counts, counts + spans_of(net.slots) * PILES, own, sums, ring_cells, half, first % (NEAR ? NEAR : 1), NEAR - 1, 0};
    }
    u64 tag = first % 0xFFFEu + 1;  // of the step
    u32 turn = 0;
    #plastic bool ending = false;  // this step is the last one
    THREADS_DO
        if (RING_IN_BLOCK) copied(words, (const u32*)net.ring + (u64)block * ring_words, ring_words, tid);
        if (NEAR) enter_near(ring.near, net.slots, tid);
        know(net, tid);
        if (MIXED) mix(net, states, block, tid);
        #fours settle_fours(net, states, fours[tid], block, seat_of(tid));
        #others if (!IN_REGISTERS && !CELLS) enter(states, tid);
        if (ROWS_IN_BLOCK) {
            copied(own_rows, rows.words, rows.starts[net.sources], tid);
            copied((Start*)(own_rows + net.row_words), rows.starts, net.sources + 1, tid);
        }
        clear(desk, tid, first);
        #several if (MEETS_ONCE && tid == 0) desk.synapses = net.synapses + net.bases[0];
        #several if (HOLD) clear_next_sums(net, ring_cells, block_here * net.cells, tid);
        #several if (PUSHES && tid < GPUS) desk.inboxes[tid] = inbox_on(net, tid, 0, 0);
        #plastic clear_plastic(net, tid, first);
        #plastic if (CLUSTER) enter_handed(net, tid);
        if (CLUSTER && tid < 2) open_inbox(&desk.inbox[tid].arrived);
        if (IN_REGISTERS) settle(net, cells[tid], block, tid, first);
        if (CELLS) settle_many(net, many[tid], block, tid, first);
    THREADS_MEET
    #grouped THREADS_DO
        #grouped know_group(net, block, tid);
    #grouped THREADS_MEET
    if (DRAWN_AHEAD) {
        THREADS_DO
            draw_mixed(net, states, block, tid, first);
        THREADS_MEET
    }
    #plastic if (INSIDE) {
        #plastic THREADS_DO
            #plastic enter_synapses(net, (u64*)(((u64)own_rows + 7) / 8 * 8), block, tid);
        #plastic THREADS_MEET
    #plastic }
#ifdef COUPLED
    #one show_first(net, block, first);
    #several show_first(net, desk, block, first);
#endif
    #plastic if (CLUSTER) {
        #plastic WARPS_DO(0, 1)
            #plastic find_due(net, first);
        #plastic WARPS_END
    #plastic }
    if (CLUSTER) enter_cluster(net.packets, block, CLUSTER, desk.inbox[0].packets[0]);
    #plastic if (net.deferring == ANEW) begin_deferring(net, block, first);
    EACH_THREAD_DO
        posts[tid] = post_of(net, desk, block, tid, first);
        if (THREADS < 1024) pin(posts[tid].other);  // with fewer registers a thread, others would not fit
    EACH_THREAD_END
    if (ROWS_IN_BLOCK) {
        rows.words = own_rows;
        rows.starts = (const Start*)(own_rows + net.row_words);
    }
    #plastic if (AHEAD && steps) arrive(net, desk, ring, block, first);
    #prompt while (turn < steps) {
    #several u64 met = CLOCKED ? cycles() : 0;
    #static #late while (turn < steps + (HOLD ? HOLD : FAR_LAG)) {
    #plastic while (steps && turn < steps + (BEHIND ? BEHIND : LAG)) {
        const u32 t = first + turn;
        #several const u64 began = met;  // what the last meeting ended
#ifdef GRADED
        ring.e = t & 1;
#endif
        #one const u32 own_cells = PUSHES ? block * net.cells : 0;
        #several const u32 own_cells = PUSHES ? (block - net.first_block) * net.cells : 0;
        #one int* const arrived = cell_from(sums, ring.now * ring_cells + own_cells);
        #several const bool meets_once = MEETS_ONCE && turn >= HOLD && turn < steps;
        #several const bool held = HOLD && turn >= HOLD;  // sums are those of the next steps
        #several int* const arrived = held ? next_sums_of(net, ring_cells, own_cells, t) : cell_from(sums, ring.now * ring_cells + own_cells);
        const Now now = {arrived, NEAR ? words + ring.near.now * half : nullptr, NEAR && ring.near.rests[ring.now]};
        #late const bool lives = turn < steps;
        #late if (!lives) ring.near.reach = NEAR - 2 - (turn - steps);  // sums of these steps are not taken in this launch
        #plastic if (!AHEAD) arrive(net, desk, ring, block, t);
        #plastic if (FORESEES) {
            #plastic EACH_THREAD_DO
                #plastic if (cells[tid].is_there) {
                    #plastic foresee_inputs(net, cells[tid].own, turn);
                    #plastic foresee(cells[tid].own, t);
                #plastic }
            #plastic EACH_THREAD_END
        #plastic }
        #plastic if (SPLIT) await_delivered(net);
        #plastic if (BEHIND) {
            #plastic if (BETWEEN && t - BEHIND - first < steps) remember(net, ring, block, t - BEHIND);
            #plastic EACH_THREAD_DO
                #plastic if (tid == 0) empty_queue(t - BEHIND);
            #plastic EACH_THREAD_END
            #plastic if (!lives) BLOCK_MEET;
        #plastic }
        #several if (held) {
        #several     if (turn == HOLD && lives || turn == steps + LAG && steps > HOLD) {
        #several         EACH_THREAD_DO
        #several             move_sums(net, ring, own_cells, tid, t, !lives);
        #several         EACH_THREAD_END
        #several         BLOCK_MEET;  // any thread may take what another one has moved
        #several     }
        #several     if (lives) {
        #several         EACH_THREAD_DO
        #several             firsts[tid] = MEETS_ONCE ? first_words(desk, tid, t) : first_queued(desk, tid, t);
        #several         EACH_THREAD_END
        #several     } else {
        #several         WARPS_DO(0, THREADS / 32)
        #several             if (MEETS_ONCE) push_rows_of(net, desk, held_ring(net, ring, t, false), block, warp, t, nullptr);
        #several             else push_queued(net, desk, held_ring(net, ring, t, false), block, warp, t, nullptr);
        #several         WARPS_END
        #several     }
        #several }
        #late if (lives)
        THREADS_DO
            #plastic if (!BEHIND && tid == 0) empty_queue(t);
            if (IN_REGISTERS) {
                Cell& c = cells[tid];
                bool spike = false;
                if (c.is_there && net.plain) spike = live_now<true>(net, desk, c.own, c.s, c.p, c.d, now, block, t, turn);
                else if (c.is_there) spike = live_now<false>(net, desk, c.own, c.s, c.p, c.d, now, block, t, turn);
                if (spike) keep_value(net, c.own, c.row, block, t & 1);
                #prompt if (spike) spiked(net, desk, c.own.flags, tid, c.row, block, t & 1);
                #late if (spike) spiked(net, desk, c.own.flags, tid, c.row, block, t);
            } else if (CELLS) {
                u32 fired;
                if (net.plain) fired = live_many<true>(net, desk, many[tid], now, block, tid, t, turn);
                else fired = live_many<false>(net, desk, many[tid], now, block, tid, t, turn);
                #prompt spiked_many(net, desk, fired, many[tid].sends, block, tid, t & 1);
                #late spiked_many(net, desk, fired, many[tid].sends, block, tid, t);
            #fours } else if (net.plain) live_fours<true>(net, desk, states, fours[tid], now.sums, block, seat_of(tid), t, turn);
            #fours else live_fours<false>(net, desk, states, fours[tid], now.sums, block, seat_of(tid), t, turn);
            #others } else if (net.plain) live_in_memory<true>(net, desk, states, now, block, tid, t, turn);
            #others else live_in_memory<false>(net, desk, states, now, block, tid, t, turn);
        #one THREADS_MEET
        #several EACH_THREAD_END
        #several if (HOLD && !MEETS_ONCE) {
        #several     EACH_THREAD_DO
        #several         if (held && lives) looks[tid] = look_ahead(net, posts[tid], block, tid, t, turn - LAG < steps);
        #several         else looks[tid] = {0, 0};
        #several     EACH_THREAD_END
        #several }
        #several if (meets_once) {
        #several     EACH_THREAD_DO
        #several         ahead[tid] = asked_ahead(net, desk, block, tid, t);
        #several     EACH_THREAD_END
        #several }
        #several if (held && lives) {
        #several     WARPS_DO(0, THREADS / 32)
        #several         if (MEETS_ONCE) push_rows_of(net, desk, held_ring(net, ring, t, true), block, warp, t, &firsts);
        #several         else push_queued(net, desk, held_ring(net, ring, t, true), block, warp, t, &firsts);
        #several     WARPS_END
        #several }
        #several if (owed) {
        #several     WARPS_DO(TELLER, 1)
        #several         tell_later(net, desk, block, t - 1, turn - 1, tag_before(tag, 1));
        #several     WARPS_END
        #several }
        #several bool ends_apart = true;  // threads meet at the end of the step, too
        #several if (meets_once) {
        #several     EACH_THREAD_DO
        #several         queue_next(net, desk, ahead[tid], tid, t);
        #several     EACH_THREAD_END
        #several     WARPS_DO(0, QUEUING)
        #several         number_next(net, desk, ahead, block, warp, t, tag);
        #several     WARPS_END
        #several     EACH_THREAD_DO
        #several         waits[tid] = has_to_wait(net, desk, posts[tid], tid, t, tag_before(tag, LAG));
        #several     EACH_THREAD_END
        #several     ends_apart = any_thread(waits);
        #several     if (CLOCKED && !ends_apart) met = cycles();
        #several } else BLOCK_MEET;
        #several owed = !ends_apart;
        #one if (PUSHES) {
        #several if (PUSHES && lives) {
            if (CLOCKED) {
                EACH_THREAD_DO
                    if (tid == 0) mark(desk, UPDATED);
                EACH_THREAD_END
            }
            #several if (!HOLD) {
            #several WARPS_DO(CARRIERS, 1)
            #several     tell_namesakes(net, desk, block, t, tag, desk.mine[t & 1][0]);
            #several WARPS_END
            #several WARPS_DO(0, QUEUERS ? QUEUERS : 1)
            #several     queue_spikes(net, desk, looks, block, warp, QUEUERS ? QUEUERS : 1, t, tag);
            #several WARPS_END
            #one WARPS_DO(0, PUSHERS)
                #one push_rows(net, desk, ring, block, warp, t);
            #several WARPS_DO(QUEUERS, PUSHERS)
                #several push_rows(net, desk, ring, block, warp - QUEUERS, t);
            WARPS_END
            #several BLOCK_MEET;
            #several WARPS_DO(0, THREADS / 32)
            #several     push_queued(net, desk, ring, block, warp, t, nullptr);
            #several WARPS_END
            BLOCK_MEET;
            #several }
        }
        WARPS_DO(CARRIERS, 1)
            ONE_LANE_DO
                if (!PUSHES) mark(desk, UPDATED);
                #several if (CLOCKED && MEETS_ONCE) desk.sends_since = began;
            LANES_END
            if (PUSHES) {  // what all threads of the block have added comes before its packet
                LANES_DO
                    #one fence();
                    #several fence_here();
                LANES_END
            }
#ifdef COUPLED
            LANES_DO
                fence();  // states that are shown come before packets
            LANES_END
#endif
            #static #late if (!lives) begin_queue(desk, t); else
            #plastic if (!lives && !BEHIND) begin_queue(desk, t); else
            {
                #several const u32 own = desk.mine[t & 1][0];
                const u32 n = send(net, desk, posts, block, t, turn, tag);
                #several if (HOLD && !owed) tell_namesakes(net, desk, block, t, tag, own);  // nobody needs it yet
                #several if (owed) SENT_ARRIVE; else
                record_sent(net, desk, n, block, t, turn);
            }
        WARPS_END
        if (DRAWS && (IN_REGISTERS || CELLS || DRAWN_AHEAD)) {
            EACH_THREAD_DO
                #prompt rest_before_drawing();
                #late if (LAG == 0) rest_before_drawing();
                if (DRAWN_AHEAD) draw_mixed(net, states, block, tid, t + 1);
                else if (CELLS) draw_many(net, many[tid], block, tid, t + 1);
                else if (cells[tid].is_there) draw(net, cells[tid].own, cells[tid].p, cells[tid].d, t + 1);
            EACH_THREAD_END
        }
        #plastic if (lives || BEHIND) react(net, desk, ring, block, t, turn + 1 < steps && !ending, steps);
        u32 next = ring.now + 1 == net.slots ? 0 : ring.now + 1;
        if (THREADS < 1024) pin(next);  // here is time for it
        #late const Ring past = ring_before(ring);
        #several if (!meets_once)
        WARPS_DO(CARRIERS + 1, LISTENERS)
            #plastic if (LAZY && sees_lists(t)) fence_lanes();  // of the packets of the step before
            #static if (CLUSTER) await_packets(&desk.inbox[t & 1].arrived, CLUSTER, turn);
            #plastic if (CLUSTER) await_packets(&desk.inbox[t & 1].arrived, CLUSTER * (1 + TOLD), turn);
            #prompt if (POOLED) listen_together(net, desk, rows, ring, posts, block, warp, t, tag);
            #prompt else LANES_DO
            #late if (POOLED) listen_together(net, desk, rows, past, posts, block, warp, t, tag, turn, steps);
            #late else LANES_DO
                const Post& post = posts[warp * 32 + lane];
                #prompt if (post.at) listen(net, desk, rows, ring, post, block, (warp - CARRIERS - 1) * 32 + lane, t, tag);
                #late if (post.at) {
                    #late const u32 listener = (warp - CARRIERS - 1) * 32 + lane;
                    #several const u32 from = PUSHES ? listener : heard_block(net, listener);
                    #one #late const u32 from = listener;
                    #late const u64 before = tag_before(tag, lag_of(net, from));
                    #one #late if (is_read(net, from, turn, steps)) listen(net, desk, rows, past, post, block, from, t, before);
                    #several if (is_read(net, from, turn, steps)) {
                    #several     if (HOLD) listen_held(net, desk, MEETS_ONCE ? Look{0, 0} : looks[warp * 32 + lane], post, from, t, before);
                    #several     else listen(net, desk, rows, past, post, block, from, t, before);
                    #several }
                #late }
            LANES_END
            #plastic if (!CLUSTER && !LAZY) fence_lanes();
            LANES_MEET;
            ONE_LANE_DO
                mark(desk, HEARD);
                if (!DIRECT) {
                    fence_in_block();
                    add_in_block((u32*)&desk.heard[t & 1], 1u);
                }
            LANES_END
        WARPS_END
        #due if (lives) {
        #due     WARPS_DO(0, THREADS / 32)
        #due         deliver_due(net, desk, ring, t);
        #due     WARPS_END
        #due     EACH_THREAD_DO
        #due         ask_for_due(net, ring, tid);
        #due     EACH_THREAD_END
        #due }
        #several if (MEETS_ONCE && !meets_once && turn + 2 >= HOLD && turn + 1 < steps + HOLD) {
        #several     EACH_THREAD_DO
        #several         ahead[tid] = asked_ahead(net, desk, block, tid, t);
        #several         queue_next(net, desk, ahead[tid], tid, t);
        #several     EACH_THREAD_END
        #several     if (turn + 2 < steps + HOLD) {
        #several         WARPS_DO(0, QUEUING)
        #several             number_next(net, desk, ahead, block, warp, t, tag);
        #several         WARPS_END
        #several     }
        #several }
        #several if (HOLD && !MEETS_ONCE && turn + 1 >= HOLD && turn + 1 < steps + HOLD) {
        #several     WARPS_DO(0, QUEUING)
        #several         queue_spikes(net, desk, looks, block, warp, QUEUING, t + 1, tag == 0xFFFE ? 1 : tag + 1);
        #several     WARPS_END
        #several     if (HOLD > 2 && CARRIERS >= 2 * GPUS && turn + 2 >= HOLD) {
        #several         WARPS_DO(GPUS, GPUS)
        #several             ask_for_starts(net, desk, block, warp - GPUS, t + 2, tag < 0xFFFD ? tag + 2 : tag - 0xFFFC);
        #several         WARPS_END
        #several     }
        #several }
        WARPS_DO(0, DIRECT ? 0 : DELIVERERS)
            #prompt if (NEAR) {
            #late if (NEAR && lives) {
                LANES_DO
                    #listed add_listed(ring, warp * 32 + lane, DELIVERERS * 32);
                    #due clear_due(ring, warp * 32 + lane, DELIVERERS * 32);
                LANES_END
            }
            #due if (LAYOUT == PARTED) deliver_queued(net, desk, ring, past, block, warp, t, lives);
            #due else
            if (BY_LANES) {
                LANES_DO
                    #prompt deliver_by_lanes(net, desk, rows, ring, block, warp * 32 + lane, t);
                    #late deliver_by_lanes(net, desk, rows, past, block, warp * 32 + lane, t);
                LANES_END
            #prompt } else if (TOGETHER > 1) deliver_together(net, desk, ring, block, warp, t);
            #late } else if (TOGETHER > 1) deliver_together(net, desk, past, block, warp, t);
            #prompt else deliver_rows(net, desk, ring, block, warp, t);
            #late else deliver_rows(net, desk, past, block, warp, t);
        WARPS_END
        EACH_THREAD_DO
            #prompt posts[tid].at = (u64*)((u64)posts[tid].at ^ posts[tid].other);
            #plastic posts[tid] = move_post(posts[tid], words_between(net), tid, t + 1);
            #static #late posts[tid] = move_post(posts[tid], net.copies * words_of_inbox(net), tid, t + 1);
            #several if (FAR_LAG > LAG && tid == 0) or_in_block(&desk.stop, desk.noted[(t - FAR_LAG) & (KEPT - 1)]);
            if (THREADS < 1024) pin(posts[tid].at);
        EACH_THREAD_END
        #several if (ends_apart)
        BLOCK_MEET;
        #several if (CLOCKED && ends_apart) met = cycles();
        #plastic finish(net, desk, ring, block, t);
        if (CLOCKED) {
            EACH_THREAD_DO
                if (tid == 0) {
                    #several if (!ends_apart) mark(desk, HEARD);
                    mark(desk, DELIVERED);
                    begin_step(desk);
                }
            EACH_THREAD_END
        }
        ++turn;
        tag = tag == 0xFFFE ? 1 : tag + 1;
        ring.now = next;
        ring.near.now = ring.near.now + 1 == NEAR ? 0 : ring.near.now + 1;
        #several const u32 stop = ends_apart ? desk.stop : 0;
        #several if (MEETS_ONCE && ends_apart) BLOCK_MEET;  // nobody notes what ends the next step before
        #several if (stop & LOST) break;
        #static #prompt if (desk.stop) break;
        #static #late if (lives && stop) steps = turn;
        #plastic if (lives && desk.stop && (!AHEAD || ending)) steps = turn;
        #plastic ending = desk.stop != 0;
    }
    #plastic if (net.deferring == TREATED) {
        #plastic treat_deferred(net, block);
        #plastic BLOCK_MEET;
        #plastic begin_deferring(net, block, first);
    #plastic }
    if (CLUSTER) leave_cluster(CLUSTER);
    if (NEAR) {
        const u32 end = first + (turn < steps ? turn : steps);
        ring.now = end % net.slots;
        ring.near.now = end % (NEAR ? NEAR : 1);
    }
    THREADS_DO
        #listed if (NEAR) leave_listed(ring, tid);
        #due leave_due(net, ring, tid);
        if (RING_IN_BLOCK) copied((u32*)net.ring + (u64)block * ring_words, words, ring_words, tid);
        #plastic if (INSIDE) leave_synapses(net, block, tid);
        #fours store_fours(states, fours[tid], seat_of(tid));
        #others if (!IN_REGISTERS && !CELLS) leave(states, tid);
        if (IN_REGISTERS && cells[tid].is_there)
            for (u32 j = 0; j < WORDS; ++j) net.states[j * slots + block * net.per + tid] = cells[tid].s[j];
        if (CELLS) store_many(net, many[tid], block, tid);
        if (tid == 0) {
            #prompt net.ends[block * 4] = turn;
            #late net.ends[block * 4] = steps;
            net.ends[block * 4 + 1] = desk.stop;
            net.ends[block * 4 + 2] = desk.recorded;
            for (u32 k = 0; CLOCKED && k < MARKS; ++k) net.clocks[block * MARKS + k] += desk.spent[k];
        }
    THREADS_MEET
}

// How many steps a launch has.
BE u32 steps_of(const Net& net, u32 steps) { return !TRACED && net.halted && *net.halted ? 0 : steps; }

#ifdef BESIDE
// Several networks side by side: the blocks of each follow those of the one before.
extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTER run(const Net* nets, unsigned begin, unsigned steps) {
    const u32 block = blockIdx.x % nets->blocks;
    const Net* const given = nets + blockIdx.x / nets->blocks;
    __shared__ Net net;
    THREADS_DO
        copied((u32*)&net, (const u32*)given, sizeof(Net) / 4, tid);
    THREADS_MEET
    EACH_THREAD_DO
        if (tid == 0) net.turn += begin;
    EACH_THREAD_END
    BLOCK_MEET;
    run_block(net, block, (TRACED ? *net.begin : net.first) + begin, TRACED || steps < net.steps ? steps : net.steps);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTER run(const __grid_constant__ Net net, unsigned begin, unsigned steps) {
    #one run_block(net, blockIdx.x, TRACED ? *net.begin + begin : begin, steps_of(net, steps));
    #several run_block(net, net.first_block + blockIdx.x, TRACED ? *net.begin + begin : begin, steps);
}
#endif
