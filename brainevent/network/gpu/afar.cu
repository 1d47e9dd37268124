// SPDX-License-Identifier: Apache-2.0
// Between launches: list the spikes that other processes are told of, and add theirs to the sums of all blocks.

constexpr u32 HEAD = 2;                // words of a message: a status, and how many spikes there are
constexpr u32 NO_VALUE = ~0u;          // beside the value of a spike, a float that is not NaN
constexpr u32 STRANGE = 4, FAILED = 8, EARLY = 16;  // bits of a status; from the eighth on is how many steps a launch had

// Append the spikes of a launch to the list; with their values if it had one step, which are then those of this step.
extern "C" __global__ void __launch_bounds__(THREADS) list_spikes(const Told of) {
    const u32 block = blockIdx.x;
    if (*of.halted) return;
    THREADS_DO
        for (u32 k = tid; k < of.ends[4 * block + 2]; k += THREADS) {
            const u64 spike = of.spikes[(u64)block * of.capacity + k];
            for (u32 p = 0; p < of.populations; ++p) {
                const u32 neuron = (u32)spike - of.ranges[3 * p];
                if (neuron >= of.ranges[3 * p + 1]) continue;
                const u32 at = add_for_all(of.listed, 1u);
                if (at >= of.most) break;
                u32* const own = of.listed + 1 + (u64)at * of.size;
                own[0] = ((u32)(spike >> 32) - of.begin) * of.neurons + of.ranges[3 * p + 2] + neuron;
                if (of.size > 1) own[1] = of.values[(u32)spike];
                break;
            }
        }
    EACH_THREAD_END
}

// Write the message: all spikes of the list, as far as it has room.
extern "C" __global__ void __launch_bounds__(THREADS) tell_spikes(const Told of) {
    const u32 all = of.listed[0], fitting = all < of.room ? all : of.room;
    if (*of.halted) return;
    THREADS_DO
        if (blockIdx.x == 0 && tid == 0) {
            u32 status = of.status;
            if (of.steps) {  // else there may be no launch of which `ends` tells
                if (of.ends[0] != of.steps) status |= EARLY;
                if (of.ends[1] & NOT_FINITE) status |= EARLY | STRANGE;
                status |= of.ends[0] << 8;
            }
            of.message[0] = status;
            of.message[1] = all;
            of.other[0] = 0;
        }
        for (u32 k = blockIdx.x * THREADS + tid; k < fitting * of.size; k += gridDim.x * THREADS)
            of.message[HEAD + k] = of.listed[1 + k];
    EACH_THREAD_END
}

// Add a synapse, of a cell among those of all blocks, to what arrives some steps after step t.
BE void add_afar(const Afar& of, u32 place, int weight, u32 t) {
    const u32 slot = (t + (place >> of.delay_shift)) % of.slots, cell = place >> of.cell_shift & of.cell_mask;
    const u64 at = of.pushed ? (u64)slot * of.blocks * of.cells + cell
                             : ((u64)(cell / of.cells) * of.slots + slot) * of.cells + cell % of.cells;
    if (of.bytes) add_for_all((u32*)of.sums + at / 4, (u32)(weight < 0 ? -weight : weight) << at % 4 * 8);
    else add_for_all(of.sums + at, weight);
}

// What a synapse delivers of a spike with a value: as on one GPU.
BE int amount_afar(int weight, u32 value) {
    return value == NO_VALUE ? weight : (int)rintf((float)weight * __uint_as_float(value));
}

BE void add_four_afar(const Afar& of, const uint4& y, u32 value, u32 t) {
    if (of.wide) {  // place, weight
        if (y.x) add_afar(of, y.x, amount_afar((int)y.y, value), t);
        if (y.z) add_afar(of, y.z, amount_afar((int)y.w, value), t);
        return;
    }
    const u32 words[4] = {y.x, y.y, y.z, y.w};
    UNROLLED
    for (u32 k = 0; k < 4; ++k)
        if (words[k]) add_afar(of, words[k], amount_afar((int)(words[k] << of.weight_shift) >> of.weight_shift, value), t);
}

// Whether all spikes of all messages may be delivered. If not, a process has failed, a launch has ended early, or some
// spikes had no room.
BE bool is_whole(const Afar& of) {
    for (u32 process = 0; process < of.processes; ++process) {
        const u32* const message = of.messages + (u64)process * of.row;
        if (message[0] & (FAILED | EARLY) || message[1] > (of.row - HEAD) / of.size) return false;
    }
    return true;
}

// Deliver the spikes of other processes, with a warp for each, and return the heads of messages.
extern "C" __global__ void __launch_bounds__(THREADS) deliver_afar(const Afar of) {
    const u32 warps = gridDim.x * (THREADS / 32);
    __shared__ u32 halted;
    THREADS_DO
        if (tid == 0) halted = get_word(of.halted);
    THREADS_MEET
    if (halted) return;
    THREADS_DO
        for (u32 k = tid; blockIdx.x == 0 && k < of.processes * HEAD; k += THREADS)
            of.heads[k] = of.messages[(u64)(k / HEAD) * of.row + k % HEAD];
    EACH_THREAD_END
    if (!is_whole(of)) {
        THREADS_DO
            if (blockIdx.x == 0 && tid == 0) put_word(of.halted, of.exchange);
        EACH_THREAD_END
        return;
    }
    for (u32 process = 0; process < of.processes; ++process) {
        if (process == of.own) continue;
        const u32* const message = of.messages + (u64)process * of.row;
        const u32 spikes = message[1];
        WARPS_DO(0, THREADS / 32)
            for (u32 k = blockIdx.x * (THREADS / 32) + warp; k < spikes; k += warps) {
                const u32* const own = message + HEAD + (u64)k * of.size;
                const u32 spike = own[0], late = spike / of.neurons, source = spike - late * of.neurons;
                const u32 value = of.size > 1 ? own[1] : NO_VALUE;
                const u32 begin = of.starts[source], end = of.starts[source + 1];
                LANES_DO
                    for (u32 j = begin + lane; j < end; j += 32) add_four_afar(of, fetch(of.synapses + j), value, of.begin + late);
                LANES_END
            }
        WARPS_END
    }
}

// Find the least delay of all synapses: ~ of it becomes the largest number.
extern "C" __global__ void __launch_bounds__(THREADS) least_afar(const Afar of) {
    const u32 quads = of.starts[of.neurons];
    THREADS_DO
        u32 most = 0;
        for (u64 k = (u64)blockIdx.x * THREADS + tid; k < quads; k += (u64)gridDim.x * THREADS) {
            const uint4 y = fetch(of.synapses + k);
            const u32 words[4] = {y.x, of.wide ? 0 : y.y, y.z, of.wide ? 0 : y.w};
            for (u32 j = 0; j < 4; ++j) {
                const u32 late = ~(words[j] >> of.delay_shift);
                if (words[j] && most < late) most = late;
            }
        }
        if (most) raise_for_all(of.least, most);
    EACH_THREAD_END
}
