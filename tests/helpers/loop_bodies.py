# SPDX-License-Identifier: Apache-2.0
"""Loops with operators, of any size, and steps with numbers of any type: on a CPU, a GPU, and a pretended one."""

import jax.numpy as jnp
import numpy as np
from jax import lax, random

import brainevent as be

__all__ = ["HALVES", "INTEGERS", "PLACES", "delayed_loop", "ends_of", "long_axes", "of_halves", "of_integers"]
__all__ += ["typed_loop"]


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


INTEGERS = ("int8", "int16", "uint8", "uint16", "int32", "uint32", "int64", "uint64")
HALVES = ("float16", "bfloat16")
PLACES = jnp.array([[2, -1, 5], [1, 1, -9]])


def of_integers(k, x):
    """Compute with integers of one type, at its ends, beyond them, and with shifts by more bits than it has."""
    of, n, y = x.dtype, k.astype(x.dtype), jnp.array([3, 7, 1, 5, 0, 60], x.dtype)
    found = [x * y + n, x - y * 2, lax.div(x, y), lax.rem(x, y), x**3, jnp.sign(x), jnp.clip(x, 3, 9), x == y, x > y]
    found += [x << y, lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y), ~x, x & y, x ^ y]
    found += [jnp.maximum(x, y), lax.population_count(x), jnp.where(x > n, x, -x), x[::-1], lax.iota(of, 5)]
    found += [x.astype(to) for to in ("float32", "int32", "uint8", "int16", "bool")]
    found += [(jnp.array([1e20, -1e20, jnp.nan, 3.7, -3.7]) * k.astype("float32")).astype(of), x.max(), x.argmin()]
    found += [lax.reduce_sum(x, (0,)), jnp.cumsum(x, dtype=of), x.at[k].set(5), x.at[PLACES[0]].add(n), x[PLACES]]
    found += [
        jnp.dot(x, y),
        jnp.stack([n, n + 1]),
        lax.cond(k > 0, lambda x: x + 1, lambda x: x, x),
        x.sum(dtype=of) * n,
    ]
    return found


def of_halves(k, x):
    """Compute with floats of 16 bits."""
    n, y = k.astype(x.dtype), jnp.array([3, 0.75, 1, 5, 0.125, 60], x.dtype)
    found = [x + n, x / y, x > y, jnp.exp(x * y * 0.01), jnp.sqrt(abs(x)), jnp.round(x), x**2, x * x.dtype.type(1e-7)]
    found += [x.astype("float32"), x.astype("int32"), x.astype("int8"), k.astype("float32").astype(x.dtype) + x]
    found += [x.max(), x.sum(), x.argmax(), jnp.cumsum(x), x @ y, jnp.where(x > 1, x, y), x[::-1], jnp.pad(x, 1)]
    found += [x.at[k].set(1), x.at[PLACES[0]].add(y[:3]), x[PLACES], jnp.concatenate([x, y]), jnp.stack([n, n * 2])]
    return [*found, lax.cond(k > 0, lambda x: x + 1, lambda x: x, x)]


def of_doubles(k, x):
    """Compute with floats of 64 bits; functions of an engine's own library have other last bits."""
    found = [x * 2.5, x.sum(), x.astype("int64") * 2**40, x.max(), jnp.cumsum(x), x @ x, x.astype("float32")]
    found += [jnp.sqrt(abs(x)), jnp.floor(x), jnp.round(x), x % 2.5, x / 3, jnp.zeros(4).at[k].add(x[0]), x * 1e300]
    found += [random.uniform(random.fold_in(random.key(3), k), (5,), x.dtype)]
    return [*found, x.astype("uint32"), x.astype("int8"), (x > 1).astype(x.dtype), jnp.where(x > 0, jnp.nan, -jnp.inf)]


def ends_of(dtype):
    """Return numbers of a type: for integers, its ends."""
    if dtype not in INTEGERS:
        return np.array([1.5, -2.25, 300, 1 / 64, 7, -0.25], jnp.dtype(dtype))  # whose sums are exact
    ends = np.iinfo(dtype)
    return np.array([ends.min, ends.max, 3, 5, ends.max // 3, 1], dtype)


def typed_loop(dtype, steps):
    """Return a loop that computes with numbers of a type, which it carries in arrays and scalars, and scans."""
    body = of_integers if dtype in INTEGERS else of_halves if dtype in HALVES else of_doubles

    def step(state, row):
        k, x, scalar = state
        x, scalar = jnp.where(x > row[0], x, x * 2 + row).astype(x.dtype), (scalar * 2 + row[1]).astype(x.dtype)
        return (k + 1, x, scalar), [scalar, x, *body(k, x)]

    def run(x):
        rows = jnp.arange(steps * x.size).reshape(steps, x.size).astype(x.dtype)
        return lax.scan(step, (jnp.int32(-2), x, x[0]), rows)

    return run


def long_axes(x, steps):
    """Do with 700 whole numbers what warps of a GPU share: along axes, and places of which several are best."""

    def step(x, k):
        rows, floats = x.reshape(2, 350), jnp.where(x % 50 == 7, jnp.nan, x.astype(jnp.float32))
        products = x[:200].reshape(4, 50) @ x[200:350].reshape(50, 3), x[:350] @ x[350:], x[:70] @ x.reshape(70, 10)
        batch = jnp.einsum("bi,bij->bj", x[:70].reshape(1, 70), rows[:, :70].T[None])
        sums = jnp.cumsum(x), lax.cumsum(x, reverse=True), jnp.cumsum(rows, 1), lax.cummax(rows.T, 0)
        places = jnp.argmax(x), jnp.argmin(rows, 1), jnp.argmax(rows.T, 0), jnp.argmax(x > 90), jnp.argmax(x * 0)
        places = *places, jnp.argmax(floats), jnp.argmin(floats[:40]), jnp.argmax(jnp.tile(x, 4))
        more = x.reshape(10, 70) @ x[:70], batch, lax.cummin(x[:40]), lax.cummax(floats), lax.cumprod(x[:64] % 2 + 1)
        return (x * 5 + k) % 97, (*products, *sums, *places, *more)

    return lax.scan(step, x, jnp.arange(steps, dtype=jnp.int32))
