// SPDX-License-Identifier: Apache-2.0
// Steps with a ring of sums, as one writes them at first: what arrives is added to what decays, and spikes are delivered
// over all rows, and over the elements of those that spiked.

#include <cstdint>

extern "C" void run_steps(float* ring, float* v, int slots, int columns, const float* weights, const int* indices,
                          const int* indptr, const int* delays, const unsigned char* spikes, int rows, int steps) {
    for (int t = 0; t < steps; t++) {
        float* arrived = ring + (int64_t)(t % slots) * columns;
        for (int j = 0; j < columns; j++) {
            v[j] = 0.9f * v[j] + arrived[j];
            arrived[j] = 0;
        }
        for (int i = 0; i < rows; i++)
            if (spikes[(int64_t)t * rows + i])
                for (int j = indptr[i]; j < indptr[i + 1]; j++)
                    ring[(int64_t)((t + delays[j]) % slots) * columns + indices[j]] += weights[j];
    }
}
