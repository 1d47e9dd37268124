# SPDX-License-Identifier: Apache-2.0
"""By how much a neuron spikes: its sign, where it decides, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from brainevent.errors import RuleError
from brainevent.scalar.interpret import interpret
from brainevent.scalar.margin import with_margin
from brainevent.scalar.trace import flat_rule, trace

F = np.float32


@jax.jit
def crossed(v, th):
    return v >= th


# v, w: float32, n: int32, b: bool. The spike, its margin, and where it decides.
SPIKES = {
    "ge": (lambda v, w, n, b: v >= 1.5, lambda v, w, n, b: (v - 1.5, True)),
    "gt": (lambda v, w, n, b: v > w, lambda v, w, n, b: (v - w, True)),
    "le": (lambda v, w, n, b: v <= w, lambda v, w, n, b: (w - v, True)),
    "lt": (lambda v, w, n, b: -v < -0.5, lambda v, w, n, b: (v - 0.5, True)),
    "and": (lambda v, w, n, b: (v >= w) & (n == 0), lambda v, w, n, b: (v - w, n == 0)),
    "and from the left": (lambda v, w, n, b: b & (v >= w), lambda v, w, n, b: (v - w, b)),
    "logical_and": (lambda v, w, n, b: jnp.logical_and(v > 0, ~b), lambda v, w, n, b: (v, ~b)),
    "or": (lambda v, w, n, b: (v > 0) | b, lambda v, w, n, b: (v, ~b)),
    "not": (lambda v, w, n, b: ~(v < 1), lambda v, w, n, b: (v - 1, True)),
    "xor": (lambda v, w, n, b: (v > 0) ^ b, lambda v, w, n, b: (jnp.where(b, -v, v), True)),
    "equal": (lambda v, w, n, b: (v > 0) == b, lambda v, w, n, b: (jnp.where(b, v, -v), True)),
    "both": (lambda v, w, n, b: (v > 0) & (w > 1), lambda v, w, n, b: (jnp.minimum(v, w - 1), True)),
    "either": (lambda v, w, n, b: (v > 0) | (w > 1), lambda v, w, n, b: (jnp.maximum(v, w - 1), True)),
    "where": (lambda v, w, n, b: jnp.where(b, v > 0, False), lambda v, w, n, b: (v, b)),
    "where of two": (lambda v, w, n, b: jnp.where(b, v > 0, w > 1), lambda v, w, n, b: (jnp.where(b, v, w - 1), True)),
    "where of it": (lambda v, w, n, b: jnp.where(v > 0, b, n > 0), lambda v, w, n, b: (
        jnp.where(b, v, -v), b ^ (n > 0))),
    "jit": (lambda v, w, n, b: crossed(v * 2, w) & b, lambda v, w, n, b: (v * 2 - w, b)),
    "custom_jvp": (lambda v, w, n, b: jax.nn.relu(v) > w, lambda v, w, n, b: (jnp.maximum(v, 0) - w, True)),
    "loop": (lambda v, w, n, b: lax.fori_loop(0, 3, lambda k, c: c * 0.5 + k, v) > w, lambda v, w, n, b: (
        v / 8 + 2.5 - w, True)),
    "moved": (lambda v, w, n, b: jnp.broadcast_to(v > w, (1,))[0] & b, lambda v, w, n, b: (v - w, b)),
}  # fmt: skip


def values(count=200, seed=0):
    rng = np.random.default_rng(seed)
    v, w = rng.normal(size=(2, count)).astype(F) * 2
    return v, w, rng.integers(-1, 2, count).astype(np.int32), rng.random(count) < 0.5


@pytest.mark.parametrize("name", SPIKES)
def test_the_margin_and_where_it_decides(name):
    spike, expected = SPIKES[name]
    inputs = values()
    with jax.enable_x64(False):
        (state, found), margin, gate = jax.jit(jax.vmap(with_margin(lambda *x: [x[0] + 1, spike(*x)])))(*inputs)
        exact, decides = jax.vmap(lambda *x: tuple(map(jnp.asarray, expected(*x))))(*inputs)
        np.testing.assert_array_equal(found, jax.vmap(spike)(*inputs))
    np.testing.assert_array_equal(state, inputs[0] + 1)
    assert margin.dtype == F
    assert gate.dtype == bool
    np.testing.assert_array_equal(gate, decides)
    gate = np.asarray(gate)
    np.testing.assert_allclose(np.asarray(margin)[gate], np.asarray(exact)[gate], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(margin)[gate] > 0, np.asarray(found)[gate])


def expressions(atoms):
    return st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.one_of(
            st.tuples(st.sampled_from("&|^="), inner, inner), st.tuples(st.just("~"), inner), st.tuples(
                st.just("?"), inner, inner, inner)
        ),
        max_leaves=6,
    )  # fmt: skip


def evaluate(expression, atoms):
    if isinstance(expression, str):
        return atoms[expression]
    op, *parts = expression
    x = [evaluate(part, atoms) for part in parts]
    if op == "~":
        return jnp.logical_not(x[0])
    if op == "?":
        return jnp.where(*x)
    return {"&": jnp.logical_and, "|": jnp.logical_or, "^": jnp.not_equal, "=": jnp.equal}[op](*x)


@settings(max_examples=8, deadline=None)
@given(expressions(["v", "w", "b", "c"]))
def test_the_sign_of_the_margin_is_the_spike_or_no_comparison_matters(expression):
    v, w, n, b = values(60, 3)

    def flat(v, w, n, b):
        return [evaluate(expression, {"v": v >= 0.5, "w": w < 0.25, "b": b, "c": n > 0})]

    if not set("vw") & set(str(expression)):
        with pytest.raises(RuleError, match="no comparison of floats decides the spike"):
            with_margin(flat)(v[0], w[0], n[0], b[0])
        return
    with jax.enable_x64(False):
        (spike,), margin, gate = jax.tree.map(np.asarray, jax.vmap(with_margin(flat))(v, w, n, b))
        known = {"b": b, "c": n > 0}
        every = [evaluate(expression, known | {"v": p, "w": q}) for p in (True, False) for q in (True, False)]
    np.testing.assert_array_equal(spike[gate], margin[gate] > 0)
    others = np.stack([np.broadcast_to(value, v.shape) for value in every])
    np.testing.assert_array_equal(others[:, ~gate], np.broadcast_to(spike, others.shape)[:, ~gate])


def leaky(s, arriving, p, random):
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + random.normal(0.0, 0.1))
    spike = (v >= p.threshold) & (s.pause <= 0)
    return s.replace(v=jnp.where(spike, 0.0, v), pause=jnp.where(spike, 2, jnp.maximum(s.pause - 1, 0))), spike


def traced_leaky():
    return trace(leaky, {"v": 0.0, "pause": 0}, ["syn"], {"decay": 0.9, "threshold": 1.0})


def test_a_flat_rule_is_the_rule():
    traced = traced_leaky()
    neurons = np.arange(500, dtype=np.uint32)
    inputs = [F(0.8), np.int32(0), F(0.3), F(0.9), F(1.0), neurons, np.uint32(4), np.uint32(1), np.uint32(2)]
    with jax.enable_x64(False):
        found = jax.vmap(flat_rule(leaky, traced), in_axes=(*[None] * 5, 0, *[None] * 3))(*inputs)
    for ours, theirs in zip(interpret(traced.form, inputs), found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert 100 < found[-1].sum() < 400


def test_states_keep_the_dtype_of_their_scalars():
    flat = flat_rule(leaky, traced_leaky())
    keys = [np.uint32(k) for k in range(4)]
    with jax.enable_x64(True):
        v, pause, _ = flat(jnp.float64(0.8), jnp.int32(0), jnp.float64(0.3), jnp.float64(0.9), 1.0, *keys)
    assert (v.dtype, pause.dtype) == (np.float64, np.int32)


def test_gradients_pass_through_steps_and_neurons():
    """The margins summed over 20 steps of 5 neurons: against finite differences, where no spike changes."""
    flat = with_margin(flat_rule(leaky, traced_leaky()))
    neurons = np.arange(5, dtype=np.uint32)

    def total(decay):
        def step(carry, t):
            one = lambda v, pause, n: flat(v, pause, F(0.11), decay, F(1.0), n, t, np.uint32(1), np.uint32(2))
            (v, pause, spike), margin, gate = jax.vmap(one)(*carry, neurons)
            return (v, pause), (jnp.where(gate, margin, 0), spike)

        start = (jnp.zeros(5, F), jnp.zeros(5, jnp.int32))
        margins, spikes = lax.scan(step, start, jnp.arange(20, dtype=np.uint32))[1]
        return margins.sum(), spikes

    with jax.enable_x64(False):
        gradient, spikes = jax.jit(jax.grad(total, has_aux=True))(F(0.9))
        (above, up), (below, down) = (total(F(0.9 + d)) for d in (1e-3, -1e-3))
    assert np.asarray(spikes).sum() > 0
    np.testing.assert_array_equal(up, down)
    np.testing.assert_allclose(gradient, (above - below) / 2e-3, rtol=1e-2)


NONE = {
    "never": lambda s, r: False,
    "an integer": lambda s, r: s.k > 3,
    "random": lambda s, r: r.bernoulli(0.2),
    "a branch": lambda s, r: lax.cond(s.v > 0, lambda: True, lambda: False),
    "equal floats": lambda s, r: s.v == 1.0,
}


@pytest.mark.parametrize("case", NONE)
def test_without_a_comparison_of_floats_there_is_no_margin(case):
    def ticking(s, arriving, p, random):
        return s, NONE[case](s, random)

    flat = with_margin(flat_rule(ticking, trace(ticking, {"v": 0.0, "k": np.int32(0)}, [], {})))
    with pytest.raises(RuleError, match=r"rule ticking: no comparison of floats .*; return one that is made of"):
        flat(F(1), np.int32(2), *(np.uint32(k) for k in range(4)))


def printing(s, arriving, p):
    jax.debug.print("v is {}", s.v)  # line of the error
    return s.replace(v=s.v + 1), s.v > 1


def test_the_reference_prints_and_engines_say_so(capsys):
    line = printing.__code__.co_firstlineno + 1
    with pytest.raises(
        RuleError, match=rf'test_rule_margin\.py:{line}: no engine supports jax\.debug\.print; .*backend="jax"'
    ):
        trace(printing, {"v": 0.0}, [], {})
    traced = trace(printing, {"v": 0.0}, [], {}, prints=True)
    assert [line.op for line in traced.form.lines] == ["add", "gt"]
    with jax.enable_x64(False):
        jax.block_until_ready(with_margin(flat_rule(printing, traced))(F(0.5)))
        jax.effects_barrier()
    assert "v is 0.5" in capsys.readouterr().out
