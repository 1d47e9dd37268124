# SPDX-License-Identifier: Apache-2.0
"""Loops and branches within a loop on a pretended GPU: bits of XLA's loop, whatever thread is first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from loops_on_pretended_gpu import on_pretended_gpu, planned_loop

import brainevent as be
from brainevent.loops.gpu.phases import MEET, Branches, Loop, Phase, owned, shared, with_meetings
from brainevent.loops.gpu.text import text_of

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.usefixtures("for_a_gpu")

STEPS, N = 40, 70
V = np.arange(N, dtype=np.int32)


def branches(x):
    """Take one of three branches, which return scalars and arrays, and then one of two."""

    def step(state, k):
        x, n = state
        cases = [lambda x: (x[::-1] + 1, x.sum()), lambda x: (x * 3 % 1001, x.max() + k), lambda x: (x, n)]
        x, m = lax.switch(k % 4, cases, x)  # number 3 is that of the last one
        part = lax.cond(m % 2 == 0, lambda: x[:5], lambda: x[5:10] * 2)
        return (x, m), (part, m)

    return lax.scan(step, (x, jnp.int32(3)), jnp.arange(STEPS, dtype=jnp.int32))


def whiles(x):
    """Repeat as long as data say so: sometimes never."""

    def step(state, k):
        def body(c):
            x, i = c
            return jnp.roll(x, 1) // 2 + i, i + 1

        x, i = lax.while_loop(lambda c: (c[0].max() > k) & (c[1] < k % 7), body, (state, jnp.int32(0)))
        return x + V * k, (x.sum(), i)

    return lax.scan(step, x, jnp.arange(STEPS, dtype=jnp.int32))


def inner(x):
    """Run an inner loop backwards, with rows of all kinds; and another one within it."""

    def step(x, k):
        def within(state, row):
            a, n = state
            b, last = lax.scan(lambda b, c: (b[::-1] + c, b[3]), a, jnp.stack([row, n, k]))
            return (b, n + a[0]), (b[:6], n, row * 2, last)

        (x, n), (rows, ns, doubled, last) = lax.scan(within, (x, k), jnp.arange(5, dtype=jnp.int32) * k, reverse=True)
        return x % 1009, (rows.sum(0), ns[::-1], n, doubled, rows[2], last)

    return lax.scan(step, x, jnp.arange(STEPS, dtype=jnp.int32))


def batched(x):
    """Repeat for each element of a batch as long as it needs."""

    def step(x, _):
        halved = jax.vmap(lambda n: lax.while_loop(lambda n: n > 50, lambda n: n // 2, n))(x)
        return halved + V * 2, halved

    return lax.scan(step, x, length=STEPS)


def corners(x):
    """Exchange carries, return an operand twice or unchanged, read parts of carries and rows of what a step made."""

    def step(state, k):
        a, b = lax.cond(k % 2 == 0, lambda a, b: (b, a), lambda a, b: (a + 1, b), *state)
        a, b, _ = lax.while_loop(lambda s: s[2] < k % 4, lambda s: (s[1], s[0] + 1, s[2] + 1), (a, b, 0))
        two = lax.cond(k > 3, lambda a: (a, a, k, k), lambda a: (a * 2, a, k + 1, k), a)
        same = lax.scan(lambda a, row: (a, a[::-1] * row), a, jnp.arange(3))[1].sum(0)
        a = lax.cond(k % 3 == 0, lambda h: jnp.concatenate([h, h]), lambda h: jnp.concatenate([h[::-1], h]), a[35:])
        b = lax.scan(lambda b, row: (b + row[0], row[1:]), b, (a[::-1] * k).reshape(7, 10)[:, :3])[0]

        def deep(i, a):
            return lax.cond(i == 1, lambda a: lax.fori_loop(0, i + 2, lambda j, a: jnp.roll(a, 1) + j, a), jnp.flip, a)

        return (lax.fori_loop(0, 3, deep, a) % 97, b % 89), (two, same)

    return lax.scan(step, (x, x * 2), jnp.arange(STEPS, dtype=jnp.int32))


def poisson(x):
    def step(key, _):
        key, mine = jax.random.split(key)
        return key, jax.random.poisson(mine, jnp.where(V < 9, 25.0, 1.5), (N,))

    return lax.scan(step, jax.random.PRNGKey(3) + x[:2].astype(jnp.uint32), length=STEPS)


def operators(x):
    """Multiply within a branch and an inner loop, by weights that one of them changes, too."""
    stored = be.CSR.random((N, N), num_per_row=7, weights=0.25, seed=1)
    stored = stored.with_data(jnp.full(stored.nse, 0.25)).precompute_weight_indices()

    def step(state, k):
        matrix, v = state
        spikes = v > 1

        def learns(matrix):
            return matrix.update_on_pre(spikes, jnp.full(N, 0.125)), be.BinaryArray(spikes) @ matrix

        matrix, arrived = lax.cond(k % 5 < 2, learns, lambda matrix: (matrix, matrix @ be.BinaryArray(spikes)), matrix)
        v, total = lax.scan(lambda v, x: (0.5 * (v + be.BinaryArray(v > x) @ matrix), v.max()), v, jnp.arange(3.0))
        return (matrix, jnp.where(v > 2, 0, v) + 0.25 + 0.5 * arrived), (v, total)

    (matrix, _), rows = lax.scan(step, (stored, x % 7 * 0.25), jnp.arange(STEPS))
    return matrix.data, rows


LOOPS = {f.__name__: f for f in (branches, whiles, inner, batched, corners, poisson, operators)}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_with_others_within_is_that_of_xla(name):
    wanted = jax.tree.leaves(jax.jit(LOOPS[name])(V))
    assert wanted[-1].any()
    for seed in (0, 1):
        for found, each in zip(on_pretended_gpu(LOOPS[name], V, blocks=3, seed=seed), wanted, strict=True):
            if name == "operators":
                np.testing.assert_allclose(found, each, rtol=2e-6, atol=1e-6)
            elif name == "poisson":  # XLA, where it optimizes, may round a logarithm otherwise: that draws a row again
                assert (np.asarray(found) == each).all(-1).mean() > 0.9
            else:
                np.testing.assert_array_equal(found, each)


def test_scalars_of_branches_stay_in_registers():
    def step(n, k):
        return lax.cond(n > 5, lambda: n - k, lambda: n + 1), n

    plan, _ = planned_loop(lambda v: lax.scan(step, v[0], v), V)
    assert text_of(plan, 1).meetings == 1  # all have read where they began before the last ones are stored


# ---- barriers

WRITE, READ = Phase(["w"], owned(writes=["b1"])), Phase(["r"], shared(["b1"]))


def lines_of(*items):
    lines, meetings = with_meetings(items)
    return [line.strip() for line in lines], meetings


def test_threads_meet_after_a_branch_if_they_had_to_after_one_of_them():
    chosen = Branches((("if (c)", [WRITE]), ("else", [])))
    assert lines_of(chosen, READ) == (["if (c) {", "w", "}", "else {", "}", MEET, "r"], 1)
    assert lines_of(WRITE, Branches((("if (c)", [READ]), ("else", []))), WRITE)[0].count(MEET) == 2


def test_a_loop_that_ends_at_its_head_leaves_what_is_pending_there():
    loop = Loop("w0", "for (;;) {", [WRITE], 4, [READ], "if (!go) break;")
    assert lines_of(loop, WRITE) == (["for (;;) {", MEET, "r", "if (!go) break;", MEET, "w", "}", MEET, "w"], 9)
    assert lines_of(Loop("w0", "for (;;) {", [WRITE], 4, [], "if (!go) break;"), READ)[0][-2:] == [MEET, "r"]


def test_each_step_of_a_loop_within_has_its_own_row():
    row = Phase(["w"], frozenset(access._replace(rows=("w0",)) for access in owned(writes=["b1"])))
    assert lines_of(Loop("w0", "for (;;) {", [row], 4), Phase(["o"], owned(["b1"]))) == (
        ["for (;;) {", "w", "}", MEET, "o"],
        1,
    )
