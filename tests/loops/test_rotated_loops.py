# SPDX-License-Identifier: Apache-2.0
"""Loops that begin a step, computed by the loop that ends the step before: where that may be, and the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

import brainevent as be
from brainevent import config
from brainevent.loops.plan import plan_of

N, STEPS = 24, 40
random = np.random.default_rng(0)
DENSE = np.where(random.random((N, N)) < 0.2, random.integers(1, 5, (N, N)), 0).astype(np.float32)
MATRIX = be.CSR.fromdense(jnp.asarray(DENSE))  # whole numbers, so that all sums are exact
HALF = jnp.asarray(random.integers(1, 9, N) * 0.5, jnp.float32)
V, U = (np.arange(N) % 7).astype(np.float32), np.zeros(N, np.float32)


def arrived(spikes):
    return be.BinaryArray(spikes) @ MATRIX


def reset(carry, x):
    v, u = carry
    spikes = v > 4
    v = jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1)
    return (v, u + spikes), v


def spikes_as_numbers(carry, x):
    """The neurons of brainpy.state."""
    v, u = carry
    spikes = ((v - 4) / 2 >= 0).astype(np.float32)
    v = v - 5 * spikes + 0.25 * arrived(spikes != 0) + 1
    return (v, u + spikes), ((v - 4) / 2 >= 0).astype(np.float32)


def of_two_carries(carry, x):
    v, u = carry
    spikes = v > u + HALF
    return (jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1), (u + 1) % 4), u


def before_and_after(carry, x):
    v, u = carry
    spikes = v > 4
    new = jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1)
    return (new, u + (~spikes & (new > 4)).sum()), u


def counted(carry, x):
    v, u = carry
    spikes = v > 4
    v = jnp.where(spikes, 0, v + jnp.cumsum(spikes.astype(np.float32)) % 3 + 1)
    return (v, u), v


def of_a_row(carry, x):
    v, u = carry
    spikes = v > x % 5
    return (jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1), u), v


def recorded(carry, x):
    v, u = carry
    spikes = v > 4
    return (jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1), u), spikes


def of_others(carry, x):
    v, u = carry
    spikes = v[::-1] > 4
    return ((v + 0.25 * arrived(spikes) + 1) % 6, u), v


def read_by_others(carry, x):
    v, u = carry
    spikes = v > 4
    return (jnp.where(spikes[::-1], 0, (v + 0.25 * arrived(spikes) + 1) % 8), u), v


def read_late(carry, x):
    v, u = carry
    spikes = v > 4
    v = jnp.where(spikes, 0, v + 0.25 * arrived(spikes) + 1)
    return (v, (arrived(v > 3) + spikes[::-1]) % 8), u


def made_by_a_product(carry, x):
    v, u = carry
    spikes = u > 4
    v = jnp.where(spikes, 0, (v + 1) % 6)
    return (v, arrived(spikes ^ (v > 4))), v


def made_apart(carry, x):
    v, u = carry
    spikes = v + u > 6
    total = arrived(spikes)
    v = (v + 0.25 * total + 1) % 6
    return (v, (arrived(v[::-1] > 4) + u) % 4), v


# How many loops over elements a step has in the end.
BODIES = {
    reset: 1, spikes_as_numbers: 1, of_two_carries: 1, before_and_after: 2, counted: 1, of_a_row: 2, recorded: 2,
    of_others: 2, read_by_others: 2,
}  # fmt: skip
OTHERS = [read_late, made_by_a_product, made_apart]


def equation(body, length=STEPS):
    xs = jnp.arange(length, dtype=jnp.float32)
    closed = jax.make_jaxpr(lambda v, u, xs: lax.scan(body, (v, u), xs))(V, U, xs)
    [eqn] = (e for e in closed.jaxpr.eqns if e.primitive.name == "scan")
    return eqn, closed, xs


def loops_of(plan):
    return sum(len(stage.loops) for stage in plan.step)


def check(body, length=STEPS):
    _, closed, xs = equation(body, length)
    wanted = jax.jit(jaxpr_as_fun(closed))(V, U, xs)
    with config.fuse_loops():
        assert be.explain_loops(jaxpr_as_fun(closed), V, U, xs)[0].is_fused
        found = jax.jit(jaxpr_as_fun(closed))(V, U, xs)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len({row.tobytes() for row in np.asarray(found[-1])}) > 2


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_loops_of_the_next_step(body):
    assert loops_of(plan_of(equation(body)[0].params, "cpu")) == BODIES[body]
    check(body)


@pytest.mark.parametrize("body", OTHERS, ids=lambda body: body.__name__)
def test_loops_that_wait_for_more_than_one_loop(body):
    check(body)


def test_short_loops_stay_as_they_are():
    assert [loops_of(plan_of(equation(reset, length)[0].params, "cpu")) for length in (7, 8)] == [2, 1]


def test_loops_on_a_gpu_stay_as_they_are():
    assert loops_of(plan_of(equation(counted)[0].params, "cuda")) == 2


def test_a_loop_within_a_loop():
    def body(carry, x):
        carry, rows = lax.scan(reset, carry, jnp.arange(9.0))
        return carry, rows[3]

    check(body)
