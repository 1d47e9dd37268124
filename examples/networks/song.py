# SPDX-License-Identifier: Apache-2.0
"""A neuron whose synapses compete: additive plasticity makes its weights bimodal (Song, Miller and Abbott 2000).

Conductances are in units of the leak conductance, potentials in mV, times in ms. `python -m examples.networks.song`
runs it.
"""

import numpy as np

import brainevent as be

DT = 0.5
W_MAX = 0.015


def network(rate=20.0, cells=1):
    """Return neurons with 1000 plastic excitatory inputs and 200 inhibitory ones, which spike at random."""
    exc = be.models.poisson_source("exc", 1000, rate=rate, dt=DT)
    inh = be.models.poisson_source("inh", 200, rate=10.0, dt=DT)
    neurons = be.models.lif_conductance(
        "neurons", cells, dt=DT, tau=20, tau_exc=5, tau_inh=5, rest=-70, rest_exc=0, rest_inh=-70,
        threshold=-54, reset=-60, refractory=0,
    )  # fmt: skip
    stdp = be.plasticity.stdp(a_plus=0.005 * W_MAX, a_minus=0.00525 * W_MAX, w_max=W_MAX)
    start = be.uniform(0, W_MAX)
    return be.Network(
        [exc, inh, neurons],
        [
            be.Projection(exc, neurons, be.connect.all_to_all(weight=start), "exc", DT, "plastic", stdp),
            be.Projection(inh, neurons, be.connect.all_to_all(weight=0.05), "inh", DT),
        ],
        dt=DT,
    )


def shares(weights):
    """Return which share of weights is close to 0, and which to the largest weight."""
    return float(np.mean(weights < 0.1 * W_MAX)), float(np.mean(weights > 0.9 * W_MAX))


def main(seconds=1000):
    """Print rate and weights while the synapses compete."""
    simulation = network().build(seed=1)
    for second in range(0, seconds, 100):
        counts = simulation.run(round(100_000 / DT), record=["neurons.counts"])["neurons.counts"]
        low, high = shares(simulation.connections("plastic").weights)
        rate = counts.mean() / 100
        print(f"  {second + 100:4d} s   {rate:5.1f} Hz   close to 0: {low:4.0%}, to the largest: {high:4.0%}")


if __name__ == "__main__":
    main()
