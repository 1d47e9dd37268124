# SPDX-License-Identifier: Apache-2.0
"""CUBA: excitatory and inhibitory neurons whose synapses inject currents (Vogels & Abbott 2005).

Currents are in mV, as what they would do to a membrane in the end; times are in ms.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.operators.network import DT, Network
from benchmarks.operators.neurons import neurons

E_LEAK, THRESHOLD, RESET = np.float32([-49, -50, -60])
TAU_M, TAU_E, TAU_I = 20, 5, 10
DECAY_V, DECAY_E, DECAY_I = (np.float32(np.exp(-DT / tau)) for tau in (TAU_M, TAU_E, TAU_I))
# What a current of 1 mV does to the membrane in a step, exactly.
EXC_TO_V, INH_TO_V = (
    np.float32(tau / (TAU_M - tau) * (np.exp(-DT / TAU_M) - np.exp(-DT / tau))) for tau in (TAU_E, TAU_I)
)
REFRACTORY = np.float32(5 / DT)  # steps
ONE = np.float32(1)
WEIGHTS = {"w_e": 1.62, "w_i": -9.0}


def neuron(v, exc, inh, pause, from_e, from_i, w_e, w_i):
    """Return the next state of a neuron, or of arrays of them, and whether it spikes."""
    exc, inh = exc + w_e * from_e, inh + w_i * from_i
    after = E_LEAK + (v - E_LEAK) * DECAY_V + exc * EXC_TO_V + inh * INH_TO_V
    v = v + (pause <= 0) * (after - v)
    spike = v > THRESHOLD
    v = v + spike * (RESET - v)
    pause = pause - ONE + spike * (REFRACTORY - pause)
    return v, exc * DECAY_E, inh * DECAY_I, pause, spike


CUDA = """
  exc += w_e * from_e, inh += w_i * from_i;
  if (pause <= 0) v = E_LEAK + (v - E_LEAK) * DECAY_V + exc * EXC_TO_V + inh * INH_TO_V;
  spike = v > THRESHOLD;
  if (spike) v = RESET, pause = REFRACTORY;
  exc *= DECAY_E, inh *= DECAY_I, pause -= 1;
"""


def start(key, n):
    """Draw the first state of n neurons."""
    return jax.random.uniform(key, n, minval=-60, maxval=-50), jnp.zeros(n), jnp.zeros(n), jnp.zeros(n)


CONSTANTS = {"E_LEAK": E_LEAK, "THRESHOLD": THRESHOLD, "RESET": RESET, "REFRACTORY": REFRACTORY, "DECAY_V": DECAY_V}
CONSTANTS |= {"DECAY_E": DECAY_E, "DECAY_I": DECAY_I, "EXC_TO_V": EXC_TO_V, "INH_TO_V": INH_TO_V}
CUBA = Network("cuba", start, neurons("cuba", neuron, CUDA, CONSTANTS), WEIGHTS)
