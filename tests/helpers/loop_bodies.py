# SPDX-License-Identifier: Apache-2.0
"""Loops with operators, of any size: on a GPU, and on a pretended one."""

import jax.numpy as jnp
import numpy as np
from jax import lax

import brainevent as be

__all__ = ["delayed_loop"]


def delayed_loop(n, per_row, slots, weight, gain, threshold, steps):
    """Return a loop that delivers spikes into a ring, each connection after its own delay."""
    stored = be.CSR.random((n, n), num_per_row=per_row, weights=weight, seed=1)
    delays = jnp.asarray(np.random.default_rng(2).integers(1, slots, stored.nse, dtype=np.int32))

    def step(state, t):
        ring, v = state
        arrived, ring = be.take_arrivals(ring, t)
        v = 0.75 * v + gain * arrived + 0.125
        spikes = v > threshold
        ring = stored.delay_deliver(ring, spikes, delays, t)
        return (ring, jnp.where(spikes, -0.5, v)), spikes

    return lambda v: lax.scan(step, (jnp.zeros((slots, n)), v), jnp.arange(steps))
