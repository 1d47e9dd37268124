// SPDX-License-Identifier: Apache-2.0
// Deliveries into a ring of sums, as one writes them at first: over all rows, and over the elements of those that spiked.

#include <cstdint>

extern "C" void deliver_steps(float* ring, int slots, int columns, const float* weights, const int* indices, const int* indptr,
                              const int* delays, const unsigned char* spikes, int rows, int steps) {
    for (int t = 0; t < steps; t++)
        for (int i = 0; i < rows; i++)
            if (spikes[(int64_t)t * rows + i])
                for (int j = indptr[i]; j < indptr[i + 1]; j++)
                    ring[(int64_t)((t + delays[j]) % slots) * columns + indices[j]] += weights[j];
}
