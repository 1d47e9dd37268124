# SPDX-License-Identifier: Apache-2.0
"""Bounds of functions hold for every value in a box, and are 0 where a function is cut off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainevent.scalar.interpret import interpret
from brainevent.scalar.interval import bounds_of
from brainevent.scalar.pair import trace_pair


def _loop(a, b):
    return jax.lax.while_loop(lambda v: v < 1, lambda v: v + jnp.abs(b.x) + 0.5, a.x)


FUNCTIONS = {
    "a square": lambda a, b: (a.x - b.x) ** 2,
    "a quotient": lambda a, b: a.x / (b.y - 0.5),
    "a root": lambda a, b: jnp.sqrt(a.x - b.x),
    "exp": lambda a, b: jnp.exp(-((a.x - b.x) ** 2) * 900),
    "log": lambda a, b: jnp.log(a.x * b.x),
    "log1p": lambda a, b: jnp.log1p(-a.x),
    "tanh and logistic": lambda a, b: jnp.tanh(9 * a.x) * jax.nn.sigmoid(b.y - a.y),
    "waves": lambda a, b: jnp.cos(20 * a.x) + jnp.sin(b.x * 7) * 3,
    "a power": lambda a, b: (a.x + 0.1) ** 2.5 - b.x**3,
    "hypot": lambda a, b: jnp.hypot(a.x - b.x, a.y - b.y),
    "a remainder": lambda a, b: (3 * a.x - b.x + 0.5) % 1 - 0.5,
    "a negative remainder": lambda a, b: jnp.fmod(a.x - 3 * b.x, 0.7),
    "rounding": lambda a, b: a.x - b.x - jnp.round(a.x - b.x) + jnp.floor(b.y * 3) - jnp.ceil(a.y * 2),
    "integers": lambda a, b: (a.x * 10).astype(int) * (b.x * 7).astype(int) - (a.y * 3).astype("uint32"),
    "whole quotients": lambda a, b: (a.x * 100).astype(int) // (b.x * 4 + 6).astype(int) + (a.y * 99).astype(int) // -7,
    "whole rests": lambda a, b: (
        (a.x * 100).astype(int) % 7 + jax.lax.rem((b.x * 50).astype(int), (a.y * 9).astype(int))
    ),
    "bits": lambda a, b: ((a.x * 100).astype(int) & 12) * ((b.y * 30).astype(int) & (a.y * 30).astype(int)),
    "booleans": lambda a, b: ((a.x < b.x) & ~(a.y > b.y)) | (a.x == 0.5),
    "a choice": lambda a, b: jnp.where(a.x > b.x, 1 / (a.x - b.x), a.y),
    "a branch": lambda a, b: jax.lax.cond(a.x > b.x, lambda: a.y - 1, lambda: b.y + 1),
    "clip": lambda a, b: jnp.clip(1 / (a.x - b.x), -2, 3),
    "a loop": _loop,
}
CUT = {
    "a disc": lambda a, b: jnp.where(jnp.hypot(a.x - b.x, a.y - b.y) < 0.2, 0.3, 0),
    "a ring": lambda a, b: jnp.maximum(0, 0.2 - jnp.abs((a.x - b.x + 0.5) % 1 - 0.5)),
    "layers": lambda a, b: jnp.where(jnp.round(4 * a.x) == jnp.round(4 * b.x), jnp.exp(-a.y), 0),
    "a Gaussian that underflows": lambda a, b: jnp.exp(-((a.x - b.x) ** 2) * 1e4),
}
GROUPS = {"pre": ["x", "y"], "post": ["x", "y"]}


def boxes(seed, many, count):
    """Return the ends of boxes, of which some have no width."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 1, (count, many)).astype(np.float32)
    high = low + (rng.random((count, many)) * rng.choice([0, 0.01, 0.1, 1], (count, many))).astype(np.float32)
    return rng, low.astype(float), np.maximum(low, high).astype(float)


@pytest.mark.parametrize("name", sorted(FUNCTIONS | CUT))
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_values_are_within_the_bounds(name, seed):
    form = trace_pair("f", (FUNCTIONS | CUT)[name], GROUPS, ("a", "b")).form
    rng, low, high = boxes(seed, 400, len(form.inputs))
    ((least, most),) = bounds_of(form, list(low), list(high))
    assert (least <= most).all()
    for _ in range(20):
        part = rng.choice([0.0, 1.0, rng.random()], low.shape)
        x = np.clip((low + part * (high - low)).astype(np.float32), low, high).astype(np.float32)
        values = interpret(form, list(x))[0].astype(float)
        within = (values >= least) & (values <= most)
        assert (within | (np.isneginf(least) & np.isposinf(most))).all()


@pytest.mark.parametrize("name", sorted(CUT))
def test_a_cut_off_is_found(name):
    form = trace_pair("f", CUT[name], GROUPS, ("a", "b")).form
    edges = np.arange(16) / 16
    grids = [grid.reshape(-1) for grid in np.meshgrid(*([edges] * len(form.inputs)))]
    ((least, most),) = bounds_of(form, grids, [grid + 1 / 16 for grid in grids])
    assert ((least == 0) & (most == 0)).mean() > 0.2


def test_clipped_values_have_bounds_where_nan_is_refused():
    form = trace_pair("f", lambda a, b: jnp.clip(jnp.arctan2(a.x, b.x), -2, 3), GROUPS, ("a", "b")).form
    ends = [np.array([-1.0])] * 2, [np.array([1.0])] * 2
    ((least, most),) = bounds_of(form, *ends, without_nan=True)
    assert [least[0], most[0]] == [-2, 3]
    ((least, most),) = bounds_of(form, *ends)
    assert [least[0], most[0]] == [-np.inf, np.inf]


def test_what_may_be_nan_has_no_bounds():
    form = trace_pair("f", lambda a, b: jnp.maximum(0, a.x / a.x), GROUPS, ("a", "b")).form
    ((least, most),) = bounds_of(form, [np.array([-1.0, 1.0])], [np.array([1.0, 2.0])])
    assert least[0] == -np.inf
    assert most[0] == np.inf
    assert 0.4 < least[1] < most[1] < 2.1
