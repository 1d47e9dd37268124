# SPDX-License-Identifier: Apache-2.0
"""COBA: excitatory and inhibitory neurons whose synapses open conductances (Vogels & Abbott 2005).

Conductances are in units of the leak's, potentials in mV, times in ms.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.operators.network import DT, Network
from benchmarks.operators.neurons import neurons

E_LEAK, E_EXC, E_INH, DRIVE = np.float32([-60, 0, -80, 20])
THRESHOLD, RESET = np.float32([-50, -60])
RATE = np.float32(DT / 20)  # a step over the time constant of the membrane
DECAY_E, DECAY_I = np.exp(-DT / np.float32([5, 10]))
REFRACTORY = np.float32(5 / DT)  # steps
ONE, SIX, TWELVE = np.float32([1, 6, 12])
WEIGHTS = {"w_e": 0.6, "w_i": 6.7}


def neuron(v, exc, inh, pause, from_e, from_i, w_e, w_i):
    """Return the next state of a neuron, or of arrays of them, and whether it spikes."""
    exc, inh = exc + w_e * from_e, inh + w_i * from_i
    push = E_LEAK + DRIVE - v + exc * (E_EXC - v) + inh * (E_INH - v)
    a = RATE * (ONE + exc + inh)
    # (1 - exp(-a)) / a is 12 / (12 + 6 a + a^2), to a millionth for a < 0.15; that is quick for many neurons at once.
    v = v + (pause <= 0) * push * (TWELVE * RATE / (TWELVE + a * (SIX + a)))
    spike = v > THRESHOLD
    v = v + spike * (RESET - v)
    pause = pause - ONE + spike * (REFRACTORY - pause)
    return v, exc * DECAY_E, inh * DECAY_I, pause, spike


CUDA = """
  exc += w_e * from_e, inh += w_i * from_i;
  const float push = E_LEAK + DRIVE - v + exc * (E_EXC - v) + inh * (E_INH - v), a = RATE * (1 + exc + inh);
  if (pause <= 0) v += push * (12 * RATE / (12 + a * (6 + a)));
  spike = v > THRESHOLD;
  if (spike) v = RESET, pause = REFRACTORY;
  exc *= DECAY_E, inh *= DECAY_I, pause -= 1;
"""


def start(key, n):
    """Draw the first state of n neurons."""
    of_v, of_exc, of_inh = jax.random.split(key, 3)
    v = -55 + 5 * jax.random.normal(of_v, n)
    exc = 4 + 1.5 * jax.random.normal(of_exc, n)
    inh = 20 + 12 * jax.random.normal(of_inh, n)
    return v, exc, inh, jnp.zeros(n)


CONSTANTS = {name: globals()[name] for name in ("E_LEAK", "E_EXC", "E_INH", "DRIVE", "THRESHOLD", "RESET", "RATE")}
CONSTANTS |= {"DECAY_E": DECAY_E, "DECAY_I": DECAY_I, "REFRACTORY": REFRACTORY}
COBA = Network("coba", start, neurons("coba", neuron, CUDA, CONSTANTS), WEIGHTS)
