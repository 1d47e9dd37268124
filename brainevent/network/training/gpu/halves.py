# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes of a run with a dense matrix, on a GPU: in floats of 16 bits, with the digits that JAX keeps.

XLA multiplies matrices of float32 with 11 bits unless it is asked for more. Spikes are exact in 16 bits, of which there
are half as many bytes, and other factors have 11 bits where they are scaled to the largest of their neuron.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..times import earlier, lower_on, plain_outer, plain_times, times
from .weights import power_of_two

__all__ = ["times"]

Array = Any
_ROOM = 2.0**15  # the largest factor is scaled to this


def _halves(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return numbers in 16 bits, and what they are multiplied with to be as before; NaN where one is not finite."""
    scale = power_of_two(jnp.max(jnp.abs(x), axes, keepdims=True, initial=0)) / _ROOM
    return (x / scale).astype(np.float16), scale


def _times(spikes: Array, matrix: Array, *, delay: int, exact: bool) -> Array:
    if exact:
        return plain_times(spikes, matrix, delay=delay, exact=exact)
    halves, scale = _halves(matrix, (1,))
    sent = earlier(spikes, delay).astype(np.float16)
    return jnp.einsum("gbti,gij->gbtj", sent, halves, preferred_element_type=np.float32) * scale[:, None]


def _outer(spikes: Array, arrived: Array, *, delay: int, exact: bool) -> Array:
    if exact:
        return plain_outer(spikes, arrived, delay=delay, exact=exact)
    halves, scale = _halves(arrived, (1, 2))
    sent = earlier(spikes, delay).astype(np.float16)
    return jnp.einsum("gbti,gbtj->gij", sent, halves, preferred_element_type=np.float32) * scale[:, 0]


lower_on("cuda", _times, _outer)
