# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: weights after spikes, in every format."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent.event.plasticity import by_rule

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("by_events", [False, True])
@pytest.mark.parametrize("side", ["pre", "post"])
def test_a_rule_of_the_users_changes_the_synapses_of_neurons_that_spiked(monkeypatch, side, by_events):
    if by_events:
        monkeypatch.setattr(by_rule, "_MANY_ON_GPU", 0)
        monkeypatch.setattr(by_rule, "_CHUNK_ON_GPU", 1000)
    matrix = brainevent.CSR.random((300, 400), prob=0.3, weights=jax.random.normal, seed=0)
    assert matrix.nse > by_rule._MANY
    size = matrix.shape[side == "post"]
    apply = getattr(matrix.precompute_weight_indices(), f"apply_on_{side}")
    pre, post = jnp.arange(300.0), jnp.arange(400.0)

    def run(data, spikes):
        towards = lambda w, p, q, rate: w + rate * (p * q - w)
        return apply(towards, spikes, edge_state=data, pre_vals=pre, post_vals=post, params=0.01)

    rows = np.repeat(np.arange(300), np.diff(matrix.indptr))
    every = matrix.data + 0.01 * (pre[rows] * post[matrix.indices] - matrix.data)
    for share in (0.0, 0.02, 1.0):
        spikes = np.random.default_rng(1).random(size) < share
        chosen = spikes[matrix.indices if side == "post" else rows]
        found = jax.jit(run)(matrix.data, jnp.asarray(spikes))
        np.testing.assert_allclose(found, np.where(chosen, every, matrix.data), rtol=1e-5, atol=1e-5)
        slope = jax.grad(lambda data, spikes: run(data, spikes).sum())(matrix.data, jnp.asarray(spikes))
        np.testing.assert_allclose(slope, np.where(chosen, 0.99, 1), rtol=1e-5)


@pytest.mark.parametrize("side", ["pre", "post"])
def test_a_rule_gives_the_same_bits_as_on_the_cpu(side):
    def rule(state, pre, post, params):
        w = state["w"] + params * pre * jnp.exp(-post) / (1 + jnp.tanh(state["w"]))
        return {"w": jnp.clip(w, -2, 2), "n": state["n"] + (w > 0)}

    matrix = brainevent.CSR.random((300, 400), prob=0.3, weights=jax.random.normal, seed=0).precompute_weight_indices()
    random = np.random.default_rng(0)
    state = {"w": np.asarray(matrix.data), "n": np.zeros(matrix.nse, "int32")}
    pre, post = (random.random(size).astype("float32") for size in matrix.shape)
    spikes = random.random(matrix.shape[side == "post"]) < 0.2
    found = []
    for device in (jax.devices("gpu")[0], jax.devices("cpu")[0]):
        with jax.default_device(device):
            here = jax.device_put(matrix, device)
            method = here.apply_on_post if side == "post" else here.apply_on_pre
            new = method(rule, jnp.asarray(spikes), edge_state=state, pre_vals=pre, post_vals=post, params=0.3)
            found.append(jax.tree.map(np.asarray, new))
    for name in state:
        np.testing.assert_array_equal(*(each[name] for each in found))
    assert 0 < (found[0]["w"] != state["w"]).sum() < matrix.nse
