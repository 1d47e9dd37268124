// SPDX-License-Identifier: Apache-2.0
// The words that kernels of networks with plastic synapses need besides those of "on_gpu.cu".

BE u32 get_word(const u32* at) { return __ldcg(at); }
