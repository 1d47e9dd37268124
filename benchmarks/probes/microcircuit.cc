// SPDX-License-Identifier: Apache-2.0
// PD14, the cortical microcircuit of Potjans and Diesmann (2014), as one would write it by hand, in one thread: the
// standard library's distributions, a loop over the neurons, and one over the synapses of those that spike.
// `microcircuit poisson|dc STEPS DISCARDED SEED PERCENT` prints the seconds that the steps took after the discarded
// ones, those of them that went into neurons and drive, the resident memory in bytes, and the rates of the populations
// in Hz. At less than 100 %, with Poisson drive alone, there are fewer neurons and inputs of each; weights are larger,
// and a constant current makes up for the mean of what is missing.
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
#include <vector>

constexpr int POPULATIONS = 8;  // 23E 23I 4E 4I 5E 5I 6E 6I
constexpr int FULL[] = {20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948};
constexpr int EXTERNAL[] = {1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100};
constexpr double PROBABILITY[8][8] = {  // rows are targets
    {.1009, .1689, .0437, .0818, .0323, 0, .0076, 0},     {.1346, .1371, .0316, .0515, .0755, 0, .0042, 0},
    {.0077, .0059, .0497, .135, .0067, .0003, .0453, 0},  {.0691, .0029, .0794, .1597, .0033, 0, .1057, 0},
    {.1004, .0622, .0505, .0057, .0831, .3726, .0204, 0}, {.0548, .0269, .0257, .0022, .06, .3158, .0086, 0},
    {.0156, .0066, .0211, .0166, .0572, .0197, .0396, .2252}, {.0364, .001, .0034, .0005, .0277, .008, .0658, .1443}};
constexpr double RATES[] = {.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829};  // as published
constexpr double V_MEAN[] = {-68.28, -63.16, -63.33, -63.45, -63.11, -61.66, -66.72, -61.43};
constexpr double V_SD[] = {5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48};
constexpr double DT = 0.1, TAU_M = 10, TAU_S = 0.5, CAPACITY = 250, WEIGHT = 87.81, EXTERNAL_HZ = 8;
constexpr float REST = -65, THRESHOLD = -50;
constexpr int REFRACTORY = 20, ROWS = 64;  // ROWS: steps ahead, a power of two

int SIZES[POPULATIONS];
double scale = 1;

using Clock = std::chrono::steady_clock;

struct Network {
  std::vector<int> first;       // neuron of each population, and one more
  std::vector<int64_t> begin;   // synapse of each neuron, and one more
  std::vector<int> targets;
  std::vector<float> weights;
  std::vector<uint8_t> delays;
};

double full_total(int target, int source) {
  return std::log(1 - PROBABILITY[target][source]) / std::log(1 - 1.0 / FULL[target] / FULL[source]);
}

int64_t total(int target, int source) { return std::llround(full_total(target, source) * scale * scale); }

double mean_weight(int target, int source) {
  return WEIGHT / std::sqrt(scale) * (source % 2 ? -4 : source == 2 && target == 0 ? 2 : 1);
}

// The mean current that is missing: each neuron has fewer inputs, whose weights have not grown in proportion.
double missing_current(int target) {
  double all = EXTERNAL[target] * WEIGHT * EXTERNAL_HZ;
  for (int s = 0; s < POPULATIONS; ++s) {
    const double weight = mean_weight(target, s) * std::sqrt(scale);
    if (PROBABILITY[target][s] > 0) all += full_total(target, s) / FULL[target] * weight * RATES[s];
  }
  return (1 - std::sqrt(scale)) * all * 1e-3 * TAU_S;
}

// The synapses of a source into a population: each has a target, a weight and a delay, drawn independently.
void draw_row(Network& net, int count, int source, int target, std::mt19937_64& random) {
  const bool excitatory = source % 2 == 0;
  const double mean = mean_weight(target, source), ms = excitatory ? 1.5 : 0.75;
  std::uniform_int_distribution<int> to(net.first[target], net.first[target + 1] - 1);
  std::normal_distribution<float> weight(mean, 0.1 * std::abs(mean)), delay(ms / DT, 0.5 * ms / DT);
  for (int k = 0; k < count; ++k) {
    const float w = weight(random);
    net.targets.push_back(to(random));
    net.weights.push_back(excitatory ? std::max(w, 0.0f) : std::min(w, 0.0f));
    net.delays.push_back(std::clamp(int(std::lround(delay(random))), 1, ROWS - 1));
  }
}

Network connect(std::mt19937_64& random) {
  Network net;
  for (int p = 0, n = 0; p <= POPULATIONS; n += p < POPULATIONS ? SIZES[p] : 0, ++p) net.first.push_back(n);
  int64_t all = 0;
  for (int t = 0; t < POPULATIONS; ++t)
    for (int s = 0; s < POPULATIONS; ++s) all += PROBABILITY[t][s] > 0 ? total(t, s) : 0;
  net.targets.reserve(all), net.weights.reserve(all), net.delays.reserve(all);
  for (int s = 0; s < POPULATIONS; ++s) {
    std::vector<std::vector<int>> counts(POPULATIONS, std::vector<int>(SIZES[s]));
    std::uniform_int_distribution<int> from(0, SIZES[s] - 1);
    for (int t = 0; t < POPULATIONS; ++t)
      for (int64_t k = PROBABILITY[t][s] > 0 ? total(t, s) : 0; k > 0; --k) ++counts[t][from(random)];
    for (int i = 0; i < SIZES[s]; ++i) {
      net.begin.push_back(net.targets.size());
      for (int t = 0; t < POPULATIONS; ++t) draw_row(net, counts[t][i], s, t, random);
    }
  }
  net.begin.push_back(net.targets.size());
  return net;
}

struct Neurons {
  std::vector<float> v, current;
  std::vector<int> pause;
};

Neurons start(std::mt19937_64& random) {
  Neurons all;
  for (int p = 0; p < POPULATIONS; ++p) {
    std::normal_distribution<float> v(V_MEAN[p], V_SD[p]);
    for (int i = 0; i < SIZES[p]; ++i) all.v.push_back(v(random));
  }
  all.current.resize(all.v.size());
  all.pause.resize(all.v.size());
  return all;
}

// One step of all neurons; those that spike are listed.
void update(Neurons& all, const Network& net, float* arriving, bool poisson, std::mt19937_64& random, std::vector<int>& spikes) {
  const float decay = std::exp(-DT / TAU_M), fall = std::exp(-DT / TAU_S), held = TAU_M / CAPACITY * (1 - decay);
  const float gain = TAU_M * TAU_S / (CAPACITY * (TAU_M - TAU_S)) * (std::exp(-DT / TAU_M) - std::exp(-DT / TAU_S));
  for (int p = 0; p < POPULATIONS; ++p) {
    std::poisson_distribution<int> drive(EXTERNAL[p] * scale * EXTERNAL_HZ * DT * 1e-3);
    const float push = WEIGHT / std::sqrt(scale);
    const float constant = poisson ? missing_current(p) : EXTERNAL[p] * EXTERNAL_HZ * 1e-3 * TAU_S * WEIGHT;
    for (int i = net.first[p]; i < net.first[p + 1]; ++i) {
      if (all.pause[i] > 0) {
        --all.pause[i];
      } else {
        all.v[i] = REST + (all.v[i] - REST) * decay + all.current[i] * gain + constant * held;
      }
      all.current[i] = all.current[i] * fall + arriving[i];
      if (poisson) all.current[i] += push * drive(random);
      arriving[i] = 0;
      if (all.v[i] >= THRESHOLD) {
        all.v[i] = REST;
        all.pause[i] = REFRACTORY;
        spikes.push_back(i);
      }
    }
  }
}

int64_t resident() {
  int64_t pages = 0, all;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

int main(int count, char** words) {
  if (count != 6) return std::fprintf(stderr, "microcircuit poisson|dc STEPS DISCARDED SEED PERCENT\n"), 2;
  const bool poisson = std::string(words[1]) == "poisson";
  const int steps = std::atoi(words[2]), discarded = std::atoi(words[3]);
  std::mt19937_64 random(std::atoi(words[4]));
  scale = std::atof(words[5]) / 100;
  for (int p = 0; p < POPULATIONS; ++p) SIZES[p] = std::lround(FULL[p] * scale);
  const Network net = connect(random);
  Neurons all = start(random);
  const int n = all.v.size();
  std::vector<float> ring(size_t(ROWS) * n);
  std::vector<int> spikes;
  int64_t fired[POPULATIONS] = {};
  double neurons = 0;
  auto begin = Clock::now();
  for (int step = 0; step < discarded + steps; ++step) {
    if (step == discarded) begin = Clock::now(), neurons = 0;
    const auto before = Clock::now();
    spikes.clear();
    update(all, net, &ring[size_t(step % ROWS) * n], poisson, random, spikes);
    neurons += std::chrono::duration<double>(Clock::now() - before).count();
    for (const int i : spikes)
      for (int64_t k = net.begin[i]; k < net.begin[i + 1]; ++k)
        ring[size_t((step + net.delays[k]) % ROWS) * n + net.targets[k]] += net.weights[k];
    if (step >= discarded)
      for (const int i : spikes) ++fired[std::upper_bound(net.first.begin(), net.first.end(), i) - net.first.begin() - 1];
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%.9f %.9f %lld", seconds, neurons, (long long)resident());
  for (int p = 0; p < POPULATIONS; ++p) std::printf(" %.4f", fired[p] / (SIZES[p] * steps * DT * 1e-3));
  std::printf("\n");
}
