// SPDX-License-Identifier: Apache-2.0
// Order the spikes that blocks recorded: by population, step and neuron.

constexpr u32 FEW_KEYS = 96, MOST_KEYS = 4096;  // larger groups are ordered by the host

struct Found {
    u32 group, neuron;
};

BE Found found(const Listed& in, u64 spike) {
    const u32 number = (u32)spike;
    for (u32 p = 0; p < in.populations; ++p) {
        const u32 neuron = number - in.ranges[2 * p];
        if (neuron < in.ranges[2 * p + 1]) return {p * in.steps + (u32)(spike >> 32) - in.first, neuron};
    }
    return {NOBODY, 0};
}

// Count the spikes of each population and step.
extern "C" __global__ void __launch_bounds__(THREADS) tally_spikes(const Listed in) {
    const u32 block = blockIdx.x;
    THREADS_DO
        for (u32 k = tid; k < in.ends[4 * block + 2]; k += THREADS) {
            const Found one = found(in, in.spikes[(u64)block * in.capacity + k]);
            if (one.group != NOBODY) add_for_all(in.tally + one.group, 1u);
        }
    EACH_THREAD_END
}

// Bring those of a population and step together.
extern "C" __global__ void __launch_bounds__(THREADS) gather_spikes(const Listed in) {
    const u32 block = blockIdx.x;
    THREADS_DO
        for (u32 k = tid; k < in.ends[4 * block + 2]; k += THREADS) {
            const Found one = found(in, in.spikes[(u64)block * in.capacity + k]);
            if (one.group != NOBODY) in.unordered[add_for_all(in.cursors + one.group, 1u)] = one.neuron;
        }
    EACH_THREAD_END
}

// Few neurons: the place of one is the number of those before it.
BE void order_few(const u32* neurons, u32* ordered, u32 n) {
    THREADS_DO
        for (u32 k = tid; k < n; k += THREADS) {
            u32 place = 0;
            for (u32 j = 0; j < n; ++j) place += neurons[j] < neurons[k];
            ordered[place] = neurons[k];
        }
    EACH_THREAD_END
}

// More of them, which are sorted by K. Batcher's bitonic network; the number of keys is a power of 2.
BE void sort_keys(u32* keys, u32 size) {
    for (u32 width = 2; width <= size; width *= 2)
        for (u32 step = width / 2; step; step /= 2) {
            THREADS_DO
                for (u32 k = tid; k < size / 2; k += THREADS) {
                    const u32 i = 2 * k - (k & (step - 1)), a = keys[i], b = keys[i + step];
                    if ((a > b) != (i & width) > 0) {
                        keys[i] = b;
                        keys[i + step] = a;
                    }
                }
            THREADS_MEET
        }
}

BE void order_many(const u32* neurons, u32* ordered, u32 n) {
    __shared__ u32 keys[MOST_KEYS];
    u32 size = 1;
    while (size < n) size *= 2;
    THREADS_DO
        for (u32 k = tid; k < size; k += THREADS) keys[k] = k < n ? neurons[k] : 0xFFFFFFFFu;
    THREADS_MEET
    sort_keys(keys, size);
    THREADS_DO
        for (u32 k = tid; k < n; k += THREADS) ordered[k] = keys[k];
    THREADS_MEET
}

// Order each group.
extern "C" __global__ void __launch_bounds__(THREADS) order_spikes(const Listed in) {
    for (u64 group = blockIdx.x; group < (u64)in.populations * in.steps; group += gridDim.x) {
        const u32 n = in.tally[group], begin = in.cursors[group] - n;
        const u32* const neurons = in.unordered + begin;
        if (n <= FEW_KEYS) order_few(neurons, in.ordered + begin, n);
        else if (n <= MOST_KEYS) order_many(neurons, in.ordered + begin, n);
        THREADS_DO
            for (u32 k = tid; k < n; k += THREADS) {
                if (n > MOST_KEYS) in.ordered[begin + k] = neurons[k];
                in.at[begin + k] = in.first + (u32)(group % in.steps);
            }
        EACH_THREAD_END
    }
}
