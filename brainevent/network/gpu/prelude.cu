// SPDX-License-Identifier: Apache-2.0
// What kernels of networks are made of: structures, and the few words in which their text is written.

typedef unsigned u32;
typedef unsigned long long u64;

constexpr u32 PADDED = 0, COMPACT = 1, SHORT = 2, SLOTS = 3, PUSHED = 4;  // layouts of rows
constexpr u32 NO_ROOM = 1, NOT_FINITE = 2, LATE = 4;           // why all blocks stop after a step
constexpr u32 RECORDED = 1, COUNTED = 2, RATED = 4, SHOWN = 8, FED = 16;  // flags of a population
constexpr u32 PLACE_BITS = 28;                                 // of an own spike: flags but FED, and the neuron's place
constexpr u64 ELSEWHERE = 1ull << 63;                          // of a slot: a row of so many synapses : 31, from : 32 on
constexpr u32 UPDATED = 0, SENT = 1, HEARD = 2, DELIVERED = 3, MARKS = 4;  // of a step
constexpr u32 NOBODY = 0xFFFFFFFFu;                            // the row of a neuron without synapses

constexpr bool PUSHES = LAYOUT == PUSHED;                      // the block of a spike delivers it to all blocks
constexpr bool BY_LANES = LAYOUT == SHORT || LAYOUT == SLOTS;  // rows are so short that a lane delivers one
constexpr bool POOLED = DIRECT && !PUSHES && 2 * QUEUE >= LISTENERS * 32 * 6;   // the queue has room for all rows in packets
constexpr u32 APART = 8;                                       // packets in a line of memory

struct Population {
    u32 begin, size, kind, flags, key0, key1;
    u32 param[PARAMS + 1], input_row[RECEPTORS + 1], input_item[RECEPTORS + 1];
    float quantum[RECEPTORS + 1];
    const float *input[RECEPTORS + 1], *counted[DRAWS + 1];
    int* rates;
    float* shown;  // 1 for each spike: (steps, neurons)
};

struct Common {  // what all neurons of a population share, as a constant of a launch
    u32 begin, size, flags, key0, key1;
    float quantum[RECEPTORS + 1];
    u32 p[PARAMS + 1];
};

struct Sample {
    u32 population, word, every, width, before, spare;
    u32* out;
    const int* columns;
};

struct Net {
    u32 blocks, per, slots, cells, sources, populations, samples, copies, capacity, turn;
    u32 delay_shift, cell_shift, cell_mask, weight_shift, row_words, list_size, slot_bits, slot_mask, more;
    u32 reach[RECEPTORS + 1], plain, spare[RECEPTORS % 2 + 1];  // plain: there are no inputs and no samples
    u64 nanoseconds;
    const Population* population;
    const Sample* sample;
    const u32 *scalars, *arrays, *rows;
    const void* starts;
    const u64* bases;
    const uint4* synapses;
    u32* states;
    int* ring;
    u64* packets;
    u32* list;
    u64* spikes;
    int* counts;
    u32* ends;
    const u32* begin;  // the first step of a run; nullptr where it is the first step of the launch
    u64* clocks;  // of each block: cycles from the beginning of a step to each mark, summed over steps
    Common common[COMMON];
};
