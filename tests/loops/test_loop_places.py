# SPDX-License-Identifier: Apache-2.0
"""Arrays that are updated in place, one after the other, in branches and in loops within a loop: as in XLA's loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreted_loops import interpreted_scan
from jax import lax

from brainevent import config
from brainevent._compat import bind_equation
from brainevent.loops.plan import plan_of
from brainevent.loops.text import text_of

X = np.arange(12, dtype=np.float32).reshape(4, 3)
STEPS = 9


def at(k):
    return k % 4


def two_updates(a, b, k):
    a = a.at[at(k)].set(k * 1.0).at[at(k + 1)].add(1.0)
    return (a, b + a[0]), a[at(k)]


def read_between(a, b, k):
    first = a.at[at(k)].set(k * 1.0)
    last = first.at[at(k + 1)].set(2.0)
    return (last, b + first[0] * first.sum()), first


def old_content(a, b, k):
    first = a.at[at(k)].set(k * 1.0)
    last = first.at[at(k + 1)].set(a[0])
    return (last, b + a[at(k)]), last.sum()


def lanes_between(a, b, k):
    first = a.at[at(k)].set(k * 1.0)
    last = jnp.clip(first * 1.5 - 1, -50, 50).at[at(k + 2)].add(b)
    return (last, b * 0.5 + last[1]), first[0]


def all_in_turn(a, b, k):
    new = jnp.clip(a.at[at(k)].set(b) * 1.5 - 1, -50, 50).at[at(k + 2)].add(b)
    return (jnp.where(new > 3, new - 3, new).at[0].add(1.0), b * 0.5 + 1), k


def lanes_around(a, b, k):
    first = jnp.where(a > 5, a - 3, a + k)
    last = first.at[0].set(1.0) * 0.5
    return (last, first[3]), first.sum()


def exchanged(a, b, k):
    return (jnp.broadcast_to(b, (4, 3)) * 1.0, a[0]), a


def used_twice(a, b, k):
    new = a + k
    return (new, new[0]), (new, new, new.T)


def branches_in_place(a, b, k):
    a = lax.cond(k % 2 == 0, lambda a: a.at[at(k)].set(7.0), lambda a: a, a)
    a = lax.cond(k % 3 == 0, lambda a: a * 0.5, lambda a: a, a)
    return (a, b + a[1]), a.sum()


def branch_with_old_content(a, b, k):
    new = lax.cond(k % 2 == 0, lambda a: a[::-1], lambda a: a, a)
    return (new, b + a[1]), new[0] - a[0]


def branch_that_exchanges(a, b, k):
    x, y = lax.cond(k % 2 == 0, lambda x, y: (x, y), lambda x, y: (y, x), a, a * 2)
    return (x * 0.25, y[0]), x


def branch_of_one_array(a, b, k):
    x, y = lax.cond(k % 2 == 0, lambda x, y: (x + 1, x), lambda x, y: (y, x), a, a)
    return (x * 0.25, y[0]), x


def one_of_four(a, b, k):
    choices = [lambda a, b: a, lambda a, b: a + b, lambda a, b: jnp.zeros_like(a), lambda a, b: a.at[1].set(b)]
    new = lax.switch(k % 4, choices, a, b)
    return (new, b + 1), a


def loop_in_place(a, b, k):
    def step(carry, row):
        a, total = carry
        return (a.at[at(k)].set(row[0] + a[0]), total + row.sum()), a.sum()

    (a, total), sums = lax.scan(step, (a, 0.0), jnp.stack([b, b + 1, b * 2]))
    return (a * 0.5, b * 0.5 + total * 0.01), sums


def loop_that_rotates(a, b, k):
    (x, y, z), _ = lax.scan(lambda c, _: ((c[1], c[2], c[0]), None), (a[0], a[1], a[2]), None, length=4)
    return (jnp.stack([x, y, z, b]), x), y


def while_in_place(a, b, k):
    def step(carry):
        n, a = carry
        return n + 1, a.at[n].add(a[3])

    n, a = lax.while_loop(lambda c: (c[0] < at(k)) & (c[1].sum() < 1e4), step, (0, a))
    return (a * 0.5, b + n), a


def while_that_exchanges(a, b, k):
    n, x, y = lax.while_loop(lambda c: c[0] < at(k), lambda c: (c[0] + 1, c[2], c[1]), (0, a, a[::-1]))
    return (x, y[0]), n


def while_of_a_batch(a, b, k):
    def run(row, n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1].at[c[0] % 3].add(1.0)), (0, row))

    _, rows = jax.vmap(run)(a, jnp.arange(4) * k)
    return (rows * 0.5, b + rows[1]), rows.argmax()


def three_levels(a, b, k):
    def outer(a, _):
        def change(i, a):
            return lax.cond(a[0, 0] > i, lambda a: a.at[i].add(-1.0), lambda a: a * 0.5 + i, a)

        return lax.fori_loop(0, at(k), change, a), a[0]

    a, rows = lax.scan(outer, a, None, length=3)
    return (a, b + rows[1]), rows


BODIES = [
    two_updates, read_between, old_content, lanes_between, all_in_turn, lanes_around, exchanged, used_twice,
    branches_in_place, branch_with_old_content, branch_that_exchanges, branch_of_one_array, one_of_four, loop_in_place,
    loop_that_rotates, while_in_place, while_that_exchanges, while_of_a_batch, three_levels,
]  # fmt: skip


def scan_of(body):
    """Return the equation of the loop of a body."""

    def run(a, b, steps):
        return lax.scan(lambda carry, k: body(*carry, k), (a, b), steps)

    [eqn] = jax.make_jaxpr(run)(X, X[0], jnp.arange(STEPS)).jaxpr.eqns[-1:]
    return eqn


@pytest.mark.parametrize(("rows", "large"), [(lambda v: v, True), (lambda v: v > 0, False), (lambda v: v[:9], False)])
def test_large_results_are_in_large_pages(rows, large):
    """Those of 38 million bytes are; all have the numbers of XLA."""

    def run(v):
        return lax.scan(lambda v, _: (v * 0.5 + 1, rows(v)), v, length=32)

    v = jnp.linspace(-9, 9, 300_000)
    [eqn] = [eqn for eqn in jax.make_jaxpr(run)(v).jaxpr.eqns if eqn.primitive.name == "scan"]
    assert ("in_large_pages(o1)" in text_of(plan_of(eqn.params, "cpu")).text) == large
    with config.fuse_loops():
        found = jax.jit(lambda v: run(v))(v)
    np.testing.assert_array_equal(found[1], jax.jit(run)(v)[1])


@pytest.mark.parametrize("body", BODIES)
def test_what_is_made_in_place(body):
    eqn = scan_of(body)
    constants = [np.asarray(atom.val, atom.aval.dtype) for atom in eqn.invars if hasattr(atom, "val")]
    operands = [*constants, X, X[0], np.arange(STEPS, dtype=np.int32)]
    found, _ = interpreted_scan(eqn.params, operands)
    wanted = jax.jit(lambda *x: bind_equation(eqn, x))(*operands)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("body", [two_updates, all_in_turn, branches_in_place, while_in_place])
def test_updates_copy_nothing(body):
    """The array that is carried is made in its own memory, whatever is between its updates."""
    eqn = scan_of(body)
    operands = [X, X[0], np.arange(STEPS, dtype=np.int32)]
    _, plan = interpreted_scan(eqn.params, operands)
    assert [array.shape for array in plan.memory if array.shape == X.shape] == []
    assert plan.late == ()
