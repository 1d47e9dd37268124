# SPDX-License-Identifier: Apache-2.0
"""Time the first products and the first kernel of a process, in CPU seconds: what it compiles and what it loads."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import brainevent


@numba.njit
def decayed(x: Any, out: Any) -> None:
    """A kernel as users write them."""
    for i in range(x.size):
        out[i] = 0.9 * x[i] if x[i] > 0 else 0.0


def measure() -> dict[str, float]:
    """Measure each once: the first of a process has no second."""
    random = np.random.default_rng(0)
    dense = (random.random((200, 200)) < 0.1) * random.random((200, 200)).astype(np.float32)
    matrix = brainevent.CSR.fromdense(jnp.asarray(dense))
    events = brainevent.BinaryArray(jnp.asarray(random.random(200) < 0.2))
    x = jax.block_until_ready(jnp.asarray(dense[0]))
    return {
        "matrix_events": _seconds(lambda: matrix @ events),
        "events_matrix": _seconds(lambda: events @ matrix),
        "kernel": _seconds(lambda: brainevent.numba_kernel(decayed, outs=x)(x)),
    }


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - begin
