# SPDX-License-Identifier: Apache-2.0
"""Inhibition that learns to balance excitation (Vogels, Sprekeler et al. 2011).

Conductances are in units of the leak conductance, potentials in mV, times in ms. `python -m examples.networks.vogels`
runs it.
"""

import brainevent as be

DT = 0.1
GOAL = 3.0  # Hz


def network(n=10_000):
    """Return n neurons, four fifths of them excitatory, with 160 excitatory and 40 inhibitory inputs on average."""
    start = be.uniform(-60, -50)
    exc = be.models.lif_conductance("exc", n * 4 // 5, dt=DT, current=20.0, v=start)
    inh = be.models.lif_conductance("inh", n // 5, dt=DT, current=20.0, v=start)
    balance = be.plasticity.inhibitory_stdp(eta=0.005, rate=GOAL, tau=20, w_max=10.0)
    some = {weight: be.connect.prob(200 / n, weight=weight) for weight in (0.03, 0.3, 0.0)}
    return be.Network(
        [exc, inh],
        [
            be.Projection(exc, exc, some[0.03], "exc", DT),
            be.Projection(exc, inh, some[0.03], "exc", DT),
            be.Projection(inh, inh, some[0.3], "inh", DT),
            be.Projection(inh, exc, some[0.0], "inh", DT, "balance", balance),
        ],
        dt=DT,
    )


def main(seconds=10):
    """Print rates and weights, second by second."""
    simulation = network().build(seed=1)
    for second in range(seconds):
        result = simulation.run(round(1000 / DT), record=["exc.counts", "inh.counts"])
        exc, inh = (counts.mean() for counts in result.values())
        weights = simulation.connections("balance").weights
        print(f"  {second + 1:3d} s   exc {exc:5.1f} Hz   inh {inh:5.1f} Hz   mean weight {weights.mean():.3f}")


if __name__ == "__main__":
    main()
