// SPDX-License-Identifier: Apache-2.0
// CUBA and COBA as one would write them by hand, in one thread: a neuron's targets in a row, a loop over the neurons, and
// one over the targets of those that spike. `network cuba|coba plain|vector NEURONS STEPS SEED` prints seconds, the rate
// in Hz, and the resident memory in bytes. `vector`: the loop over neurons has no branch, so that the compiler does many
// neurons at once, and who spikes is collected by a second loop.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

using Floats = std::vector<float>;
constexpr double DT = 0.1;
constexpr float THRESHOLD = -50, RESET = -60;
constexpr int REFRACTORY = 50;

struct Network {
  int n, excitatory;
  Floats v, exc, inh;
  std::vector<int> pause, fired, spikes;
  std::vector<int64_t> begin;
  std::vector<int> targets;
  std::vector<std::pair<int, int>> recorded;
};

// Every pair of neurons is connected with probability 80 / n.
void connect(Network& net, std::mt19937_64& random) {
  std::geometric_distribution<int64_t> gap(std::min(1.0, 80.0 / net.n));
  net.targets.reserve(size_t(net.n) * 82);
  for (int i = 0; i < net.n; ++i) {
    net.begin.push_back(net.targets.size());
    for (int64_t j = gap(random); j < net.n; j += 1 + gap(random)) net.targets.push_back(j);
  }
  net.begin.push_back(net.targets.size());
}

void start(Network& net, bool coba, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(-60, -50);
  for (int i = 0; i < net.n; ++i) {
    net.v[i] = coba ? -55 + 5 * normal(random) : uniform(random);
    net.exc[i] = coba ? 4 + 1.5f * normal(random) : 0;
    net.inh[i] = coba ? 20 + 12 * normal(random) : 0;
  }
}

constexpr float RATE = DT / 20;
const float DECAY_V = std::exp(-DT / 20), DECAY_E = std::exp(-DT / 5), DECAY_I = std::exp(-DT / 10);
const float EXC_TO_V = 5 / 15.0 * (std::exp(-DT / 20) - std::exp(-DT / 5));
const float INH_TO_V = 10 / 10.0 * (std::exp(-DT / 20) - std::exp(-DT / 10));

template <bool coba>
inline float next(float v, float exc, float inh) {
  if (!coba) return -49 + (v + 49) * DECAY_V + exc * EXC_TO_V + inh * INH_TO_V;
  const float a = RATE * (1 + exc + inh);
  const float push = -40 - v - exc * v + inh * (-80 - v);
  return v + push * (12 * RATE / (12 + a * (6 + a)));
}

template <bool coba>
void update(Network& net) {
  for (int i = 0; i < net.n; ++i) {
    if (net.pause[i] > 0) {
      --net.pause[i];
    } else {
      net.v[i] = next<coba>(net.v[i], net.exc[i], net.inh[i]);
      if (net.v[i] > THRESHOLD) {
        net.v[i] = RESET;
        net.pause[i] = REFRACTORY - 1;
        net.spikes.push_back(i);
      }
    }
    net.exc[i] *= DECAY_E;
    net.inh[i] *= DECAY_I;
  }
}

template <bool coba>
void update_many(Network& net) {
  float *__restrict__ v = net.v.data(), *__restrict__ exc = net.exc.data(), *__restrict__ inh = net.inh.data();
  int* __restrict__ pause = net.pause.data();
  int* __restrict__ fired = net.fired.data();
  const float decay_e = DECAY_E, decay_i = DECAY_I;
  const int n = net.n;
  for (int i = 0; i < n; ++i) {
    const float after = next<coba>(v[i], exc[i], inh[i]);
    const float now = pause[i] > 0 ? v[i] : after;
    fired[i] = now > THRESHOLD;
    v[i] = fired[i] ? RESET : now;
    pause[i] = fired[i] ? REFRACTORY - 1 : pause[i] - 1;
    exc[i] *= decay_e;
    inh[i] *= decay_i;
  }
  for (int i = 0; i < net.n; ++i)
    if (fired[i]) net.spikes.push_back(i);
}

template <bool coba>
void run(Network& net, int steps, bool vector) {
  const float w_e = coba ? 0.6f : 1.62f, w_i = coba ? 6.7f : -9.0f;
  for (int step = 0; step < steps; ++step) {
    net.spikes.clear();
    vector ? update_many<coba>(net) : update<coba>(net);
    for (const int i : net.spikes) {
      float* reached = i < net.excitatory ? net.exc.data() : net.inh.data();
      const float weight = i < net.excitatory ? w_e : w_i;
      for (int64_t j = net.begin[i]; j < net.begin[i + 1]; ++j) reached[net.targets[j]] += weight;
      net.recorded.emplace_back(step, i);
    }
  }
}

int64_t resident() {
  int64_t pages = 0, all;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

int main(int count, char** words) {
  if (count != 6) return std::fprintf(stderr, "network cuba|coba plain|vector NEURONS STEPS SEED\n"), 2;
  const bool coba = std::string(words[1]) == "coba", vector = std::string(words[2]) == "vector";
  const int n = std::atoi(words[3]), steps = std::atoi(words[4]);
  std::mt19937_64 random(std::atoi(words[5]));
  const std::vector<int> zeros(n);
  Network net{n, n / 5 * 4, Floats(n), Floats(n), Floats(n), zeros, zeros, {}, {}, {}, {}};
  connect(net, random);
  start(net, coba, random);
  const auto before = std::chrono::steady_clock::now();
  coba ? run<true>(net, steps, vector) : run<false>(net, steps, vector);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  std::printf("%.9f %.6f %lld\n", seconds, net.recorded.size() / (1.0 * n * steps * DT * 1e-3), (long long)resident());
}
