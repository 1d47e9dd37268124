# SPDX-License-Identifier: Apache-2.0
"""A ring attractor: neurons on a circle remember a direction as a bump of activity.

Potentials and currents are in units of the threshold, times in ms. `python -m examples.networks.ring` runs it.
"""

from math import exp, sqrt

import jax.numpy as jnp
import numpy as np

import brainevent as be

DT = 0.1
N = 512
ANGLES = np.arange(N) * 360 / N  # degrees: the direction of each neuron
WIDTH = 25.0  # degrees: how far a neuron excites its neighbours
PARAMS = {"keep_v": exp(-DT / 20), "keep_exc": exp(-DT / 100), "keep_inh": exp(-DT / 10), "refractory": round(2 / DT)}
PARAMS |= {"drive": 1.2, "noise": 0.3 * sqrt(2 * DT / 20)}
STATE = {"v": be.uniform(0, 1), "exc": 0.0, "inh": 0.0, "pause": 0}


def distance(one, other):
    """Return the angle between two directions, in degrees: from -180 to 180."""
    return (one - other + 180) % 360 - 180


def neuron(s, arriving, p, random):
    """Integrate a constant drive, the cue, slow excitation, fast inhibition, and noise."""
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    current = p.drive + arriving.cue + exc + inh
    v = current + (s.v - current) * p.keep_v + p.noise * random.normal()
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v >= 1
    v = jnp.where(spike, 0.0, v)
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=v, exc=exc * p.keep_exc, inh=inh * p.keep_inh, pause=pause), spike


def network(w_exc=0.006, w_inh=-0.03):
    """Return neurons that excite neurons of similar directions, and inhibit all."""
    near = np.exp(-(distance(ANGLES[:, None], ANGLES) ** 2) / (2 * WIDTH**2))
    near[near < 0.02] = 0  # zeros are not synapses
    ring = be.Population("ring", N, neuron, state=STATE, params=PARAMS)
    excitation = be.Projection(ring, ring, w_exc * near, into="exc")
    inhibition = be.Projection(ring, ring, be.connect.all_to_all(weight=w_inh), into="inh")
    return be.Network([ring], [excitation, inhibition], dt=DT)


def cue(direction, steps):
    """Return the cue for a direction as an input, (steps, N)."""
    bump = np.exp(-(distance(ANGLES, direction) ** 2) / (2 * WIDTH**2))
    return np.tile(bump.astype(np.float32), (steps, 1))


def directions(spikes, window=100.0):
    """Return the middle of each window in ms, and the direction and the width of the bump in degrees."""
    starts = np.arange(spikes.first * DT, (spikes.first + spikes.steps) * DT - 0.5 * window, window)
    means = [np.exp(1j * np.radians(ANGLES[spikes.between(t, t + window).neurons])).mean() for t in starts]
    length = np.abs(means)
    return starts + window / 2, np.degrees(np.angle(means)) % 360, np.degrees(np.sqrt(-2 * np.log(length)))


def remember(direction=180.0, steps=30_000, seed=0):
    """Show a direction for 300 ms and then nothing; return all spikes."""
    simulation = network().build(seed=seed)
    shown = simulation.run(3000, record=["ring.spikes"], inputs={"ring.cue": cue(direction, 3000)})
    kept = simulation.run(steps - 3000, record=["ring.spikes"])
    return (shown + kept)["ring.spikes"]


def main():
    """Print where the bump is, twice a second."""
    times, found, widths = directions(remember(), window=500.0)
    for time, direction, width in zip(times, found, widths, strict=True):
        print(f"  {time - 250:4.0f} to {time + 250:4.0f} ms   direction {direction:5.1f}   width {width:4.1f} degrees")


if __name__ == "__main__":
    main()
