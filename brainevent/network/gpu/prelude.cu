// SPDX-License-Identifier: Apache-2.0
// Constants of kernels of networks, besides those of `structs.py`, whose structures come before.

constexpr u32 LATE = 4;                                        // why all blocks stop after a step, besides others
constexpr u32 PLACE_BITS = 28;                                 // of an own spike: flags but FED, and the neuron's place
constexpr u64 ELSEWHERE = 1ull << 63;                          // of a slot: a row of so many synapses : 31, from : 32 on
#ifdef GRADED
constexpr u32 NO_VALUE = ~0u;                                  // beside the value of a spike, a float that is not NaN
#endif
#static constexpr u32 UPDATED = 0, SENT = 1, HEARD = 2, DELIVERED = 3, MARKS = 4;  // of a step
#plastic constexpr u32 UPDATED = 0, SENT = 1, HEARD = 2, DELIVERED = 3, QUEUED = 4, CHANGED = 5, ACTED = 6, SETTLED = 7, MARKS = 8;

constexpr bool PUSHES = LAYOUT == PUSHED;                      // the block of a spike delivers it to all blocks
constexpr bool BY_LANES = LAYOUT == SHORT || LAYOUT == SLOTS;  // rows are so short that a lane delivers one
constexpr bool POOLED = DIRECT && !PUSHES && 2 * QUEUE >= LISTENERS * 32 * 6;   // the queue has room for all rows in packets
constexpr u32 DELIVERERS = HELPING ? THREADS / 32 : CARRIERS;  // warps; others than carriers begin when they have heard all
constexpr u32 APART = 8;                                       // packets in a line of memory
