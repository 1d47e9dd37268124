# SPDX-License-Identifier: Apache-2.0
"""The neurons of CUBA and COBA in jax.numpy alone: a state and what arrives -> the next state, and who spikes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_DT = 0.1
_DECAY_V, _DECAY_E, _DECAY_I = (float(np.exp(-_DT / tau)) for tau in (20, 5, 10))
_EXC_TO_V, _INH_TO_V = 5 / 15 * (_DECAY_V - _DECAY_E), 10 / 10 * (_DECAY_V - _DECAY_I)


def _coba(v: Any, exc: Any, inh: Any, pause: Any, from_e: Any, from_i: Any) -> Any:
    exc, inh = exc + 0.6 * from_e, inh + 6.7 * from_i
    a = _DT / 20 * (1 + exc + inh)
    push = -40 - v - exc * v + inh * (-80 - v)
    return _fire(v, v + push * (12 * _DT / 20 / (12 + a * (6 + a))), exc, inh, pause)


def _cuba(v: Any, exc: Any, inh: Any, pause: Any, from_e: Any, from_i: Any) -> Any:
    exc, inh = exc + 1.62 * from_e, inh - 9.0 * from_i
    return _fire(v, -49 + (v + 49) * _DECAY_V + exc * _EXC_TO_V + inh * _INH_TO_V, exc, inh, pause)


def _fire(v: Any, after: Any, exc: Any, inh: Any, pause: Any) -> Any:
    v = jnp.where(pause > 0, v, after)
    spikes = v > -50
    return jnp.where(spikes, -60, v), exc * _DECAY_E, inh * _DECAY_I, jnp.where(spikes, 49, pause - 1), spikes


FORMULAS = {"coba": _coba, "cuba": _cuba}


def start(model: str, n: int, seed: int = 0) -> tuple[Any, ...]:
    """Draw the first state of n neurons."""
    keys = jax.random.split(jax.random.key(seed), 3)
    zeros = jnp.zeros(n)
    if model == "cuba":
        return jax.random.uniform(keys[0], n, minval=-60, maxval=-50), zeros, zeros, zeros
    v, exc, inh = (jax.random.normal(key, n) for key in keys)
    return -55 + 5 * v, 4 + 1.5 * exc, 20 + 12 * inh, zeros
