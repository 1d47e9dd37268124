# SPDX-License-Identifier: Apache-2.0
"""Rules of users in kernels of their own: the same as in plain JAX, for every leaf, side, batch and bad index."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import ptx_of

import brainevent
from brainevent import CSR, csr_apply_on_pre
from brainevent.event.plasticity import by_rule, native_rules, on_gpu_rule
from brainevent.event.plasticity.rule_form import native_rule


def tree_rule(state, pre, post, params):
    w = state["w"] + params["rate"] * pre * jnp.exp(-post[0]) * params["gains"][1]
    return {"w": jnp.clip(w, -2, 2), "n": state["n"] + 1, "pair": state["pair"][::-1] * post, "on": w > 0}


PARAMS = {"rate": 0.5, "gains": jnp.array([1.0, 2.0])}


def states(number, seed):
    random = np.random.default_rng(seed)
    return {
        "w": jnp.asarray(random.normal(size=number), "float32"),
        "n": jnp.asarray(random.integers(-5, 5, number), "int32"),
        "pair": jnp.asarray(random.normal(size=(number, 2)), "float32"),
        "on": jnp.asarray(random.random(number) < 0.5),
    }


@pytest.fixture
def in_jax(monkeypatch):
    """Return a way to run a function without kernels for rules."""

    def run(function, *operands):
        with monkeypatch.context() as patch:
            patch.setattr(by_rule, "native_rule", lambda *_: None)
            return function(*operands)

    monkeypatch.setattr(by_rule, "_MANY", 0)
    return run


@settings(max_examples=4)
@given(seed=st.integers(0, 99), post=st.booleans(), batched=st.booleans())
def test_leaves_of_all_kinds_change_as_in_jax(seed, post, batched):
    matrix = CSR.random((5, 7), prob=0.6, seed=seed).precompute_weight_indices()
    random = np.random.default_rng(seed)
    spikes = jnp.asarray(random.random((3, matrix.shape[post])) < 0.5)
    pre, other = jnp.asarray(random.random(5), "float32"), jnp.asarray(random.random((7, 2)), "float32")
    method = matrix.apply_on_post if post else matrix.apply_on_pre

    def run(spikes):
        how = {"edge_state": states(matrix.nse, seed), "pre_vals": pre, "post_vals": other, "params": PARAMS}
        apply = lambda spikes: method(tree_rule, spikes, **how)
        return jax.jit(jax.vmap(apply))(spikes) if batched else apply(spikes[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_rule, "_MANY", 0)
        found = run(spikes)
        patch.setattr(by_rule, "native_rule", lambda *_: None)
        wanted = run(spikes)
    for name, leaf in found.items():
        assert leaf.dtype == wanted[name].dtype
        np.testing.assert_allclose(leaf, wanted[name], rtol=2e-6, atol=1e-6)


def operands(post):
    """Return operands of the operator with indices, pointers and places beyond their ranges."""
    state = [jnp.arange(6.0), jnp.ones((6, 2))]
    indices, indptr = jnp.array([0, 3, -1, 1, 2, 0], "int32"), jnp.array([0, 2, 3, 9], "int32")
    places = [jnp.array([5, 4, 3, 6, -1, 0], "int32")] if post else []
    pre, other = jnp.arange(1.0, 4.0), jnp.arange(1.0, 4.0)
    rule = native_rule(lambda s, p, q, k: [s[0] * k + p, s[1] + q], (state, pre, other), jnp.float32(2))
    arrays = (jnp.array([True, False, True]), indices, indptr, jnp.array([3], "int32"), *places)
    return (*arrays, *state, pre, other, jnp.full(1, 2.0)), {"outs": tuple(state), "native": rule, "post": post}


@pytest.mark.parametrize("post", [False, True])
def test_what_is_out_of_range_is_ignored(post):
    given, how = operands(post)
    (first, second) = native_rules._applied(*given, **how)
    changed = {k: float(first[k]) for k in np.flatnonzero(np.asarray(second[:, 0]) != 1).tolist()}
    assert changed == ({0: 1, 5: 11} if post else {0: 1, 3: 9, 4: 11, 5: 13})


@pytest.mark.thorough
@pytest.mark.parametrize("post", [False, True])
def test_the_operator_keeps_every_promise(post):
    given, how = operands(post)
    brainevent.check(native_rules._applied, *given, **how).raise_if_failed()


@pytest.mark.parametrize("post", [False, True])
def test_nvrtc_takes_the_text(post):
    _, how = operands(post)
    types = "".join(f"typedef int {name};\n" for name in "IPNQ")
    assert "apply_rule" in ptx_of(types + on_gpu_rule.kernel_text(how["native"], post=post))


WITHOUT_FORM = {
    "sorted": lambda w, p, q, k: jnp.sort(jnp.stack([w, p]))[0],
    "printed": lambda w, p, q, k: (jax.debug.callback(lambda x: None, w), w + p)[1],
    "drawn": lambda w, p, q, k: w + jax.random.uniform(jax.random.key(0)) * p,
}


@pytest.mark.parametrize("name", WITHOUT_FORM)
def test_rules_that_no_kernel_can_have_run_in_jax(in_jax, name):
    matrix = CSR.random((4, 4), prob=0.9, seed=0, weights=jax.random.normal)
    run = lambda: matrix.apply_on_pre(WITHOUT_FORM[name], jnp.array([1, 0, 1, 0]), pre_vals=jnp.arange(4.0))
    np.testing.assert_array_equal(run(), in_jax(run))


def test_wide_numbers_are_not_cut(monkeypatch):
    monkeypatch.setattr(by_rule, "_MANY", 0)
    indices, indptr = jnp.array([0, 1]), jnp.array([0, 2])
    with jax.enable_x64(True):
        large = jnp.array([2**40, 3], "int64")
        found = csr_apply_on_pre(lambda s, *_: s + 1, large, indices, indptr, jnp.array([1]), shape=(1, 2))
        assert found.tolist() == [2**40 + 1, 4]
        assert found.dtype == "int64"
        inner = lambda s, *_: (s.astype("int64") * 2**33 // 2**33).astype("int32")
        small = csr_apply_on_pre(inner, jnp.array([7, 8], "int32"), indices, indptr, jnp.array([1]), shape=(1, 2))
        assert small.tolist() == [7, 8]
        fine = csr_apply_on_pre(
            lambda s, *_: s / 3, jnp.array([1.0, 2.0]), indices, indptr, jnp.array([1]), shape=(1, 2)
        )
        assert fine.dtype == "float64"
        np.testing.assert_array_equal(fine, np.array([1.0, 2.0]) / 3)
