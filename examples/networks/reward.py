# SPDX-License-Identifier: Apache-2.0
"""A network finds the synapse that is rewarded, though rewards come 1 to 3 s late (Izhikevich 2007).

Potentials are in mV, times in ms. `python -m examples.networks.reward` runs it.
"""

import jax.numpy as jnp
import numpy as np

import brainevent as be

DT = 1.0
W_MAX = 4.0
WITHIN = 20  # ms: how late after its source the target may spike, for a reward
STATE = {"v": -65.0, "u": -13.0, "dopamine": 0.0}


def neuron(s, arriving, p, random):
    """Integrate the model of Izhikevich in two halves of a step, with noise; keep dopamine."""
    v, current = s.v, arriving.syn + 13 * (random.uniform() - 0.5)
    for _ in range(2):
        v = v + 0.5 * ((0.04 * v + 5) * v + 140 - s.u + current)
    u = s.u + p.a * (0.2 * v - s.u)
    spike = v >= 30
    dopamine = 0.995 * s.dopamine + arriving.reward
    return s.replace(v=jnp.where(spike, -65.0, v), u=jnp.where(spike, u + p.d, u), dopamine=dopamine), spike


def network():
    """Return 800 excitatory and 200 inhibitory neurons, with 100 outgoing synapses each."""
    exc = be.Population("exc", 800, neuron, STATE, {"a": 0.02, "d": 8.0})
    inh = be.Population("inh", 200, neuron, STATE, {"a": 0.1, "d": 2.0})
    learns = be.plasticity.reward_stdp(
        a_plus=0.01, a_minus=0.015, tau_c=1000, tau_dopamine=200, baseline=-0.002, interval=10, w_max=W_MAX
    )
    return be.Network(
        [exc, inh],
        [
            be.Projection(exc, exc, be.connect.out_degree(80, weight=1.0), "syn", DT, "learning", learns),
            be.Projection(exc, inh, be.connect.out_degree(20, weight=1.0), "syn", DT, "to inh", learns),
            be.Projection(inh, exc, be.connect.out_degree(100, weight=-1.0), "syn", DT),
        ],
        dt=DT,
    )


def rewarded(seconds, seed=1):
    """Reward one synapse for some seconds; return its weight and the mean weight after each second, and all rewards."""
    simulation, random = network().build(seed=seed), np.random.default_rng(seed)
    synapses = simulation.connections("learning")
    chosen = int(np.flatnonzero(synapses.sources == 0)[0])
    target = int(synapses.targets[chosen])
    weights, due = [], np.zeros(0, int)
    last = -1000  # the last spike of the source
    for second in range(seconds):
        start = 1000 * second
        reward = np.zeros((1000, 1), np.float32)
        np.add.at(reward, due[due // 1000 == second] - start, 0.5)
        inputs = {"exc.reward": reward, "inh.reward": reward}
        spikes = simulation.run(1000, record=["exc.spikes"], inputs=inputs)["exc.spikes"]
        times = {k: spikes.times[spikes.neurons == k].astype(int) for k in (0, target)}
        for time in times[target]:
            before = times[0][times[0] < time]
            latest = before[-1] if before.size else last
            if time - latest < WITHIN:
                due = np.append(due, time + 1000 + random.integers(2000))
        last = times[0][-1] if times[0].size else last
        found = simulation.connections("learning").weights
        weights.append((found[chosen], found.mean()))
    return np.array(weights), due


def main(seconds=1800):
    """Print the weight of the rewarded synapse beside the mean of all."""
    weights, due = rewarded(seconds)
    for second in range(99, seconds, 100):
        one, mean = weights[second]
        print(f"  {second + 1:4d} s   {np.sum(due < 1000 * second):3d} rewards   weight {one:.2f}   mean {mean:.2f}")


if __name__ == "__main__":
    main()
