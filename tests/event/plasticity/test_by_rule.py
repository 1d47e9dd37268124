# SPDX-License-Identifier: Apache-2.0
"""Plasticity by a rule of the user's: against a loop over the synapses, with trees, units and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainevent import CSR, BinaryArray, csr_apply_on_post, csr_apply_on_pre
from brainevent.errors import ShapeError
from brainevent.event.plasticity import by_rule

MATRIX = CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]]))
PRE, POST = jnp.array([0.5, -1.0]), jnp.array([10.0, 20.0, 30.0])
ON = {"pre": (MATRIX.apply_on_pre, jnp.array([False, True]), [0, 0, 1, 1]),
      "post": (MATRIX.apply_on_post, jnp.array([0.0, 2.0, -1.0]), [0, 1, 1, 1])}  # fmt: skip
either = pytest.mark.parametrize("side", ON)


def rule(state, pre, post, params):
    return state * params + pre * post


@settings(max_examples=3)
@given(m=st.integers(0, 6), n=st.integers(0, 6), seed=st.integers(0, 99), post=st.booleans())
def test_states_are_those_of_a_loop(m, n, seed, post):
    random, matrix = np.random.default_rng(seed), CSR.random((m, n), prob=0.5, weights=jax.random.normal, seed=seed)
    spikes = random.random(n if post else m) < 0.5
    pre, other = random.normal(size=m), random.normal(size=n)
    function = csr_apply_on_post if post else csr_apply_on_pre
    how = {"pre_vals": pre, "post_vals": other, "params": 3.0, "shape": (m, n)}
    found = function(rule, matrix.data, matrix.indices, matrix.indptr, spikes, **how)
    assert found.dtype == matrix.dtype
    for i in range(m):
        for k in range(int(matrix.indptr[i]), int(matrix.indptr[i + 1])):
            j, old = int(matrix.indices[k]), float(matrix.data[k])
            wanted = old * 3 + pre[i] * other[j] if spikes[j if post else i] else old
            np.testing.assert_allclose(found[k], wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture
def of_events(monkeypatch):
    """Take the way of many synapses, in small chunks."""
    for name, value in {"_MANY": 0, "_CHUNK": 4, "_MANY_ON_GPU": 0, "_CHUNK_ON_GPU": 4}.items():
        monkeypatch.setattr(by_rule, name, value)


@pytest.mark.usefixtures("of_events")
@pytest.mark.parametrize("spikes", [[0, 1, 0, 1, 1], [0] * 5, [1] * 5, [0, 0, 1, 0, 0]])
def test_of_many_synapses_those_of_spikes_alone_are_computed(spikes):
    dense = np.random.default_rng(0).random((5, 6)) * np.array([[1], [1], [0], [1], [1]])  # a row is empty
    matrix = CSR.fromdense(jnp.asarray(dense, jnp.float32))
    pre, post, spikes = jnp.arange(5.0), jnp.arange(6.0), jnp.array(spikes)
    state = {"a": matrix.data, "b": jnp.ones((matrix.nse, 2), "float16")}
    of_tree = lambda s, p, q, k: {"a": s["a"] * k + p * q, "b": s["b"] + p}
    found = jax.jit(lambda spikes, matrix: matrix.apply_on_pre(
        of_tree, spikes, edge_state=state, pre_vals=pre, post_vals=post, params=3.0
    ))(spikes, matrix)  # fmt: skip
    rows, columns = np.nonzero(dense)
    chosen = np.asarray(spikes)[rows] != 0
    wanted = np.where(chosen, matrix.data * 3 + pre[rows] * post[columns], matrix.data)
    np.testing.assert_allclose(found["a"], wanted, rtol=1e-6)
    np.testing.assert_array_equal(found["b"], 1 + np.repeat(np.where(chosen, rows, 0), 2).reshape(-1, 2))
    assert found["b"].dtype == "float16"


@pytest.mark.usefixtures("of_events")
@pytest.mark.parametrize("spikes", [[0, 1, 0, 1, 1, 0], [0] * 6, [1] * 6])
def test_of_many_synapses_those_that_end_on_neurons_that_spiked_are_computed(monkeypatch, spikes):
    dense = np.random.default_rng(0).random((5, 6)) * (np.random.default_rng(1).random((5, 6)) < 0.6)
    matrix = CSR.fromdense(jnp.asarray(dense, jnp.float32)).precompute_weight_indices()
    monkeypatch.setattr(by_rule._Synapses, "all", None)  # is not asked
    pre, post, spikes = jnp.arange(5.0), jnp.arange(6.0), jnp.array(spikes)
    found = matrix.apply_on_post(rule, spikes, pre_vals=pre, post_vals=post, params=3.0)
    rows, columns = np.nonzero(dense)
    wanted = np.where(spikes[columns] != 0, matrix.data * 3 + pre[rows] * post[columns], matrix.data)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.usefixtures("of_events")
def test_of_many_synapses_there_are_all_derivatives():
    def loss(data, pre, rate, apply):
        towards = lambda w, p, q, k: w + rate * (p - w) ** 2  # it closes over what has a derivative
        return (apply(towards, jnp.array([1, 0]), edge_state=data, pre_vals=pre) ** 2).sum()

    def in_numpy(rule, spikes, edge_state, pre_vals):
        rows = np.array([0, 0, 1, 1])
        return jnp.where(spikes[rows] != 0, rule(edge_state, pre_vals[rows], None, None), edge_state)

    given = jnp.array([1.0, 2.0, 3.0, 4.0]), PRE, 0.3
    found = jax.grad(loss, (0, 1, 2))(*given, MATRIX.apply_on_pre)
    for ours, theirs in zip(found, jax.grad(loss, (0, 1, 2))(*given, in_numpy), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    batch = jnp.array([[1, 0], [0, 1], [0, 0]])
    add = lambda w, p, q, k: w + 1
    each = jax.vmap(lambda spikes: MATRIX.apply_on_pre(add, spikes))(batch)
    np.testing.assert_array_equal(each - MATRIX.data, np.repeat(batch, 2, axis=1))


@pytest.mark.usefixtures("of_events")
def test_of_many_synapses_mistakes_have_the_same_words():
    with pytest.raises(TypeError, match="csr_apply_on_pre: the rule returned"):
        MATRIX.apply_on_pre(lambda w, p, q, k: (w, w), jnp.array([1, 0]))
    with pytest.raises(ShapeError, match=r"the rule returned \(2,\) for a state of shape \(\)"):
        MATRIX.apply_on_pre(lambda w, p, q, k: jnp.stack([w, w]), jnp.array([1, 0]))


@either
def test_trees_keep_their_dtypes_and_absent_values_stay_none(side):
    method, spikes, changes = ON[side]
    seen = []

    def count(state, pre, post, params):
        seen.append((pre, post, params))
        return {"n": state["n"] + 1.0, "pair": 2 * state["pair"]}

    state = {"n": jnp.zeros(4, "int32"), "pair": jnp.ones((4, 2), "float16")}
    found = jax.jit(lambda state, spikes: method(count, spikes, edge_state=state))(state, BinaryArray(spikes))
    assert {name: x.dtype.name for name, x in found.items()} == {"n": "int32", "pair": "float16"}
    np.testing.assert_array_equal(found["n"], changes)
    np.testing.assert_array_equal(found["pair"], 1 + np.repeat(changes, 2).reshape(4, 2))
    assert seen == [(None, None, None)]


@either
def test_derivatives_and_batches(side):
    method, spikes, changes = ON[side]
    run = lambda w, pre, spikes: method(rule, spikes, edge_state=w, pre_vals=pre, post_vals=POST, params=3.0)
    by_state, by_pre = jax.grad(lambda w, pre: run(w, pre, spikes).sum(), (0, 1))(MATRIX.data, PRE)
    np.testing.assert_array_equal(by_state, 1 + 2 * np.array(changes))
    each = np.array(changes) * np.array([10, 30, 20, 30])
    np.testing.assert_array_equal(by_pre, [each[:2].sum(), each[2:].sum()])
    batch = jax.vmap(run, (None, None, 0))(MATRIX.data, PRE, jnp.stack([spikes, 0 * spikes]))
    np.testing.assert_array_equal(batch, [run(MATRIX.data, PRE, spikes), MATRIX.data])


@either
def test_keys_are_a_state(side):
    method, spikes, changes = ON[side]
    keys = jax.random.split(jax.random.key(0), 4)
    found = method(lambda key, *_: jax.random.fold_in(key, 1), spikes, edge_state=keys)
    wanted = [jax.random.fold_in(key, 1) if change else key for key, change in zip(keys, changes, strict=True)]
    np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(jnp.stack(wanted)))


def test_units_of_the_state_are_kept():
    units = pytest.importorskip("brainunit")
    matrix = MATRIX * units.mV
    add = lambda weight, pre, post, params: weight + post
    found = matrix.apply_on_pre(add, jnp.array([True, False]), post_vals=jnp.array([1.0, 2.0, 3.0]) * units.volt)
    assert units.math.allclose(found, jnp.array([1001.0, 3002.0, 3.0, 4.0]) * units.mV)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: MATRIX.apply_on_pre(lambda *_: (1.0, 2.0), jnp.ones(2)),
            TypeError,
            "csr_apply_on_pre: the rule returned",
        ),
        (lambda: MATRIX.apply_on_pre(lambda *_: jnp.ones(2), jnp.ones(2)), ShapeError, r"the rule returned \(2,\) for"),
        (
            lambda: MATRIX.apply_on_pre(rule, jnp.ones(3)),
            ShapeError,
            "pre_spike has shape .* for each of 2 neurons",
        ),
        (lambda: MATRIX.apply_on_post(rule, jnp.ones(2)), ShapeError, "csr_apply_on_post: post_spike has shape"),
        (lambda: MATRIX.apply_on_pre(rule, jnp.ones(2), edge_state=jnp.ones(3)), ShapeError, "edge_state .* must be 4"),
        (lambda: MATRIX.apply_on_pre(rule, jnp.ones(2), pre_vals=jnp.ones(3)), ShapeError, "pre_vals .* must be 2"),
        (lambda: MATRIX.apply_on_pre(rule, jnp.ones(2), post_vals=jnp.ones(2)), ShapeError, "post_vals .* must be 3"),
        (lambda: MATRIX.with_data(1.0).apply_on_pre(rule, jnp.ones(2)), ValueError, "all synapses have one weight"),
        (
            lambda: MATRIX.apply_on_pre(2.0, jnp.ones(2)),
            TypeError,
            r"csr_apply_on_pre: rule is 2.0; pass a function of \(state, pre, post, params\)",
        ),
    ],
)
def test_wrong_operands_are_reported(call, error, words):
    with pytest.raises(error, match=words):
        call()
