# SPDX-License-Identifier: Apache-2.0
"""Bodies of loops, drawn at random, return what XLA's loop returns: all numbers here are exact in both."""

import functools
import math

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from interpreted_loops import interpreted_scan
from jax import lax

from brainevent._compat import bind_equation
from brainevent.config import fuse_loops

LENGTH = 5
SHAPES = ((), (3,), (2, 3), (4,), (1, 4))


def unary(kind):
    """Return functions of an array that keep its dtype and shape."""
    halved = (lambda x: x * 0.5) if kind == "f" else (lambda x: x >> 1)
    bounded = (lambda x: jnp.clip(x, -64, 64)) if kind == "f" else (lambda x: jnp.clip(x, -(2**20), 2**20))
    functions = [halved, bounded, lambda x: -x, lambda x: jnp.where(x > 0, x, -2 * x), jnp.abs]
    functions += [lambda x: jnp.flip(x), lambda x: lax.rev(x, range(x.ndim)), jnp.sign, jnp.square]
    return functions


BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    jnp.maximum,
    jnp.minimum,
    lambda x, y: jnp.where(x < y, x, y),
    lambda x, y: jnp.where(x == y, 1, y).astype(x.dtype),
]


def row_of(x, place):
    """Return x with one row replaced at a place that is computed, and that row."""
    place = jnp.asarray(place, jnp.int32) % x.shape[0]
    row = lax.dynamic_index_in_dim(x, place, 0, keepdims=False)
    return x.at[place].set(-row), row


def branched(x, y, operation):
    """Return what branches, loops and arrays of indices make of two arrays of one shape."""
    flag, count = jnp.any(x > y), jnp.sum(x > 0).astype(jnp.int32) % 4
    flat, order = x.reshape(-1), jnp.arange(x.size)[::-1] * 7 % 5 - 1
    functions = [
        lambda: lax.cond(flag, lambda x, y: (x, y), lambda x, y: (y - x, x), x, y),
        lambda: (lax.fori_loop(0, count, lambda i, x: bounded(x + y * i), x),),
        lambda: (lax.switch(count, [lambda x, y: x, lambda x, y: y + 1, lambda x, y: x[...] - y], x, y),),
        lambda: lax.scan(lambda c, row: (bounded(c + row), c), flat[0], flat),
        lambda: (flat[order].reshape(x.shape), flat.at[order].add(y.reshape(-1)).reshape(x.shape)),
        lambda: (flat.at[order].set(y.reshape(-1), mode="drop").reshape(x.shape), flat.argmax().astype(x.dtype)),
        lambda: (jnp.cumsum(flat).reshape(x.shape), jnp.pad(flat, 1)[2:]),
    ]
    return [bounded(value) for value in functions[operation % len(functions)]()]


def fitted(x, shape):
    """Return the numbers of an array as one of another shape: by views, sums, and copies."""
    if x.shape == shape:
        return x
    if x.shape == ():
        return jnp.broadcast_to(x, shape)
    if shape == ():
        return x.reshape(-1)[-1] + x.max()
    if len(shape) > len(x.shape):
        return jnp.stack([fitted(x, shape[1:])] * shape[0]) if x.shape != shape[1:] else jnp.broadcast_to(x, shape)
    if len(shape) < len(x.shape):
        return fitted(x.sum(0), shape)
    flat = x.reshape(-1)
    return jnp.concatenate([flat[1:], flat[:1], *[flat] * 8])[: math.prod(shape)].reshape(shape)


@st.composite
def bodies(draw):
    """Draw the types of what a loop carries and scans, and a list of instructions."""
    types = st.tuples(st.sampled_from(SHAPES), st.sampled_from(("float32", "int32", "bool")))
    carried = draw(st.lists(types, min_size=1, max_size=4))
    scanned = draw(st.lists(types, max_size=2))
    constants = draw(st.lists(types, max_size=2))
    steps = draw(st.lists(st.tuples(*[st.integers(0, 99)] * 4), min_size=1, max_size=10))
    return carried, scanned, constants, steps, draw(st.booleans())


def computed(steps, values):
    """Follow instructions: each adds a value that is made of earlier ones."""
    for operation, first, second, more in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        if x.dtype == bool:
            y = fitted(y.astype(jnp.float32), x.shape) > 0 if y.dtype != bool or y.shape != x.shape else y
            values.append([x & y, x | y, x ^ y, ~x, x.astype(jnp.int32), x.astype(jnp.float32)][operation % 6])
            continue
        if y.dtype != x.dtype:
            y = y.astype(x.dtype)
        kind = operation % 6
        if kind == 0:
            functions = unary("f" if x.dtype == jnp.float32 else "i")
            values.append(functions[more % len(functions)](x))
        elif kind == 1 and x.ndim:
            values.extend(row_of(x, fitted(y, ()).astype(jnp.int32)))
        elif kind == 2:
            values.append(x > fitted(y, x.shape))
        elif kind == 3 and x.ndim == 2:
            values.append(x.T.reshape(x.shape))
        elif kind == 5:
            values.extend(branched(x, fitted(y, x.shape), more))
        else:
            values.append(BINARY[more % len(BINARY)](x, fitted(y, x.shape)))
        values[-1] = bounded(values[-1])
    return values


def bounded(x):
    """Keep numbers small, so that sums of floats are exact, and drop what halving left below one 64th."""
    if x.dtype == jnp.float32:
        return jnp.round(jnp.clip(x, -1000, 1000) * 64) * np.float32(1 / 64)
    return jnp.clip(x, -(2**20), 2**20) if x.dtype == jnp.int32 else x


def loop_of(body, length):
    """Return the loop as a function of its arrays, and these."""
    carried, scanned, constants, steps, reverse = body
    rng = np.random.default_rng(len(steps))

    def array(shape, dtype):
        return np.asarray(rng.integers(-8, 9, shape) > 0 if dtype == "bool" else rng.integers(-8, 9, shape), dtype)

    def run(consts, carry, rows):
        def step(carry, row):
            values = computed(steps, [*carry, *row, *consts])
            new = [
                fitted(values[-1 - k % len(values)].astype(jnp.float32), shape).astype(dtype)
                for k, (shape, dtype) in enumerate(carried)
            ]
            rotated = carry[1:] + carry[:1]
            new = [old if [old.shape, old.dtype] == [n.shape, n.dtype] and len(steps) % 3 == 0 else n
                   for old, n in zip(rotated, new, strict=True)]  # fmt: skip
            return new, values[-2:]

        return lax.scan(step, carry, rows, length=length, reverse=reverse)

    rows = [array((length, *shape), dtype) for shape, dtype in scanned]
    return run, ([array(*kind) for kind in constants], [array(*kind) for kind in carried], rows)


def scan_equation(run, arguments):
    closed = jax.make_jaxpr(run)(*arguments)
    [eqn] = closed.jaxpr.eqns
    known = dict(zip(closed.jaxpr.invars, jax.tree.leaves(arguments), strict=True))
    known.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return eqn, [np.asarray(a.val, a.aval.dtype) if hasattr(a, "val") else known[a] for a in eqn.invars]


@settings(max_examples=25, deadline=None)
@given(bodies())
def test_a_drawn_body_has_the_results_of_xla(body):
    run, arguments = loop_of(body, LENGTH)
    eqn, operands = scan_equation(run, arguments)
    found, _ = interpreted_scan(eqn.params, operands)
    wanted = jax.jit(lambda *x: bind_equation(eqn, x))(*operands)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(bodies())
def test_a_drawn_body_has_the_results_of_xla_when_it_is_compiled(body):
    run, arguments = loop_of(body, 40)
    wanted = jax.jit(run)(*arguments)
    with fuse_loops():
        found = jax.jit(functools.partial(run))(*arguments)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
