# SPDX-License-Identifier: Apache-2.0
"""Sums that are set to zero where they are read, and several vectors at a time: the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from programs import run_program

import brainevent as be
from brainevent import config
from brainevent.loops.cleared import cleared_sums
from brainevent.loops.plan import plan_of
from brainevent.loops.text import text_of

N, STEPS = 24, 40
random = np.random.default_rng(0)
DENSE = np.where(random.random((N, 2 * N)) < 0.2, random.integers(1, 5, (N, 2 * N)), 0).astype(np.float32)
WIDE = be.CSR.fromdense(jnp.asarray(DENSE))  # whole numbers, so that all sums are exact
SQUARE = be.CSR.fromdense(jnp.asarray(DENSE[:, :N]))
FIXED = be.FixedNumPerPre((1.0, jnp.asarray(random.integers(0, 2 * N, (N, 3)), jnp.int32)), shape=(N, 2 * N))
V = (np.arange(N) % 7).astype(np.float32)


def fired(v):
    return jnp.where(v > 4, v - 5, v), v > 4


def halves(carry, _, matrix=WIDE):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ matrix
    return fired(v + 0.25 * arrived[:N] - 0.125 * arrived[N:] + 1), spikes


def first_read_alone(carry, _):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ SQUARE
    return fired(v + 0.25 * arrived + 0.125 * arrived[0] + 1), spikes


def of_fixed_rows(carry, _):
    return halves(carry, _, FIXED)


def of_numbers(carry, _):
    v, spikes = carry
    arrived = (v * spikes) @ SQUARE
    return fired((v + arrived + 1) % 8), spikes


def two_products(carry, _):
    v, spikes = carry
    arrived, others = be.BinaryArray(spikes) @ SQUARE, be.BinaryArray(~spikes) @ SQUARE
    return fired((v + 0.25 * arrived + 0.125 * others + 1) % 8), spikes


def carried(carry, _):
    v, arrived = carry
    v, spikes = fired(v + 0.25 * arrived[:N] - 0.125 * arrived[N:] + 1)
    return (v, be.BinaryArray(spikes) @ WIDE), spikes


def carried_and_recorded(carry, _):
    v, arrived = carry
    v, spikes = fired(v + 0.25 * arrived[:N] - 0.125 * arrived[N:] + 1)
    arrived = be.BinaryArray(spikes) @ WIDE
    return (v, arrived), arrived


def recorded(carry, _):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ SQUARE
    return fired(v + 0.25 * arrived + 1), arrived


def one_half(carry, _):
    v, spikes = carry
    return fired(v + 0.25 * (be.BinaryArray(spikes) @ WIDE)[:N] + 1), spikes


def overlapping(carry, _):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ SQUARE
    half = arrived[: N // 2] + arrived[N // 4 : N * 3 // 4] + arrived[N // 2 :]
    return fired((v + 0.25 * jnp.concatenate([half, half]) + 1) % 8), spikes


def added_up(carry, _):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ SQUARE
    return fired(v + 0.25 * arrived + 0.125 * arrived.sum() % 4 + 1), spikes


def reversed_(carry, _):
    v, spikes = carry
    return fired(v + 0.25 * (be.BinaryArray(spikes) @ SQUARE)[::-1] + 1), spikes


def in_two_loops(carry, _):
    v, spikes = carry
    arrived = be.BinaryArray(spikes) @ SQUARE
    first = v + 0.25 * arrived
    return fired((first[::-1] + arrived + 1) % 8), spikes


def within_a_loop(carry, _):
    v, spikes = carry
    (v, spikes), _ = lax.scan(halves, (v, spikes), None, length=3)
    return (v, spikes), spikes


def within_a_while_loop(carry, _):
    v, spikes = carry
    _, v, spikes = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, *halves(c[1:], None)[0]), (0, v, spikes))
    return (v, spikes), spikes


def in_a_branch(carry, _):
    v, spikes = carry
    v, spikes = lax.cond(v[0] > 2, lambda c: halves(c, None)[0], lambda c: (c[0] + 1, c[1]), (v, spikes))
    return (v, spikes), spikes


# How many sums of a step are cleared where they are read, not counting those of loops within it.
BODIES = {
    halves: 1, of_fixed_rows: 1, of_numbers: 1, two_products: 2, carried: 1, carried_and_recorded: 0, recorded: 0,
    first_read_alone: 0, one_half: 0, overlapping: 0, added_up: 0, reversed_: 0, in_two_loops: 0, within_a_loop: 0,
    within_a_while_loop: 0, in_a_branch: 0,
}  # fmt: skip


def program(body):
    """Return a loop of a body, and its first carry."""
    second = np.zeros(2 * N, np.float32) if body in (carried, carried_and_recorded) else V > 5
    return lambda carry: lax.scan(body, carry, None, length=STEPS), (V, second)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_sums_are_cleared_where_they_are_read(body):
    run, carry = program(body)
    [eqn] = (e for e in jax.make_jaxpr(run)(carry).jaxpr.eqns if e.primitive.name == "scan")
    assert len(cleared_sums(plan_of(eqn.params, "cpu"))) == BODIES[body]
    wanted = jax.jit(run)(carry)
    with config.fuse_loops():
        assert be.explain_loops(run, carry)[0].is_fused
        found = jax.jit(run)(carry)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len({row.tobytes() for row in np.asarray(found[1])}) > 4


def test_loops_within_a_loop_clear_sums_too():
    run, carry = program(within_a_loop)
    [eqn] = (e for e in jax.make_jaxpr(run)(carry).jaxpr.eqns if e.primitive.name == "scan")
    written = text_of(plan_of(eqn.params, "cpu"))
    assert "clear(" in "".join(helper.text("f") for helper in written.helpers.values() if hasattr(helper, "text"))


def test_a_loop_may_run_again():
    """Sums that the last step left do not reach the first step of the next run."""
    run, carry = program(halves)
    with config.fuse_loops():
        jitted = jax.jit(run)
        first, second = jitted(carry), jitted(jitted(carry)[0])
    wanted = jax.jit(run)(jax.jit(run)(carry)[0])
    np.testing.assert_array_equal(first[0][0], jax.jit(run)(carry)[0][0])
    np.testing.assert_array_equal(second[0][0], wanted[0][0])


# ---- several vectors at a time


def long_formula(v):
    return jnp.exp(-jnp.abs(v)) + jnp.tanh(v) * 0.5


@pytest.mark.parametrize(
    ("function", "size", "wanted"),
    [(long_formula, 256, True), (long_formula, 255, False), (lambda v: v * 0.5 + 1, 4000, False)],
)
def test_long_formulas_are_interleaved(function, size, wanted):
    v = np.zeros(size, np.float32)
    closed = jax.make_jaxpr(lambda v: lax.scan(lambda v, _: (function(v), None), v, None, length=STEPS))(v)
    [eqn] = closed.jaxpr.eqns
    helpers = text_of(plan_of(eqn.params, "cpu")).helpers
    assert [helper.interleaved for name, helper in helpers.items() if name.startswith("loop")] == [wanted]


INTERLEAVED = """
    import jax, jax.numpy as jnp, numpy as np
    from jax import lax
    from brainevent import config
    from brainevent.loops import text

    def run(v):
        def step(v, x):
            return jnp.exp(-jnp.abs(v)) + jnp.tanh(v * x) * 0.5 - v / 3, v

        return lax.scan(step, v, jnp.linspace(-3, 3, 50))

    for size in (256, 257, 319, 1000, 4003):
        found = []
        for text._LONG_FORM in (1, 10**9):
            with config.fuse_loops():
                found.append(jax.jit(lambda v: run(v))(jnp.linspace(-5, 5, size)))
        print(all(a.tobytes() == b.tobytes() for a, b in zip(*map(jax.tree.leaves, found))), end=" ")
"""


def test_several_vectors_at_a_time_have_the_same_bits():
    assert run_program(INTERLEAVED).split() == ["True"] * 5
