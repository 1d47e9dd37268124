// SPDX-License-Identifier: Apache-2.0
// Order the spikes that blocks recorded: by population, step and neuron.

struct Listed {
    u32 blocks, capacity, populations, steps, first, most;  // groups of more than `most` are ordered by the host
    const u64* spikes;   // of each block: step : 32, number of the neuron : 32
    const u32* ends;     // how many each block has: the third of four words
    const u32* ranges;   // of each population: where its numbers begin, and how many there are
    u32 *tally, *cursors;  // of each population and step
    u32 *unordered, *ordered, *at;  // neurons, and their steps
};

struct Found {
    u32 group, neuron;
};

BE Found found(const Listed& in, u64 spike) {
    const u32 number = (u32)spike;
    for (u32 p = 0; p < in.populations; ++p) {
        const u32 neuron = number - in.ranges[2 * p];
        if (neuron < in.ranges[2 * p + 1]) return {p * in.steps + (u32)(spike >> 32) - in.first, neuron};
    }
    return {0, 0};
}

// Count the spikes of each population and step.
extern "C" __global__ void __launch_bounds__(THREADS) tally_spikes(const Listed in) {
    const u32 block = blockIdx.x;
    THREADS_DO
        for (u32 k = tid; k < in.ends[4 * block + 2]; k += THREADS)
            add_for_all(in.tally + found(in, in.spikes[(u64)block * in.capacity + k]).group, 1u);
    EACH_THREAD_END
}

// Bring those of a population and step together.
extern "C" __global__ void __launch_bounds__(THREADS) gather_spikes(const Listed in) {
    const u32 block = blockIdx.x;
    THREADS_DO
        for (u32 k = tid; k < in.ends[4 * block + 2]; k += THREADS) {
            const Found one = found(in, in.spikes[(u64)block * in.capacity + k]);
            in.unordered[add_for_all(in.cursors + one.group, 1u)] = one.neuron;
        }
    EACH_THREAD_END
}

// Order each group: the place of a neuron is the number of those before it.
extern "C" __global__ void __launch_bounds__(THREADS) order_spikes(const Listed in) {
    for (u64 group = blockIdx.x; group < (u64)in.populations * in.steps; group += gridDim.x) {
        const u32 n = in.tally[group], begin = in.cursors[group] - n;
        THREADS_DO
            for (u32 k = tid; k < n; k += THREADS) {
                const u32 neuron = in.unordered[begin + k];
                u32 place = n > in.most ? k : 0;
                for (u32 j = 0; n <= in.most && j < n; ++j) place += in.unordered[begin + j] < neuron;
                in.ordered[begin + place] = neuron;
                in.at[begin + k] = in.first + (u32)(group % in.steps);
            }
        EACH_THREAD_END
    }
}
