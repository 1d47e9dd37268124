# SPDX-License-Identifier: Apache-2.0
"""Layers of brainstate that hold our matrices and events, against the same with dense arrays: see brainstate.sh."""

import brainstate
import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent

N_IN, N_OUT = 30, 20


def close(found, expected):
    assert u.math.allclose(found, expected, rtol=1e-4, atol=1e-5 * u.get_unit(expected))


def spikes_of(seed):
    return jax.random.uniform(jax.random.key(seed), (N_IN,)) < 0.3


@pytest.mark.parametrize("weight", [1.5, "many"])
@pytest.mark.parametrize("unit", [1.0, u.mS])
def test_event_fixed_prob(weight, unit):
    values = 1.5 if weight == "many" else weight
    layer = brainstate.nn.EventFixedProb(N_IN, N_OUT, 0.2, values * unit, seed=1)
    if weight == "many":
        data = jax.random.normal(jax.random.key(0), layer.conn.indices.shape)
        layer.weight.value = data * unit
        values = np.asarray(data)
    assert type(layer.conn) is brainevent.FixedNumPerPre
    dense = np.zeros((N_IN, N_OUT))
    np.add.at(dense, (np.arange(N_IN)[:, None], np.asarray(layer.conn.indices)), values)
    spikes = spikes_of(2)
    close(layer(spikes), (np.asarray(spikes) @ dense) * unit)
    close(brainstate.transform.jit(layer)(spikes), (np.asarray(spikes) @ dense) * unit)
    many = jnp.stack([spikes, ~spikes])
    close(jax.vmap(layer)(many), (np.asarray(many) @ dense) * unit)


@pytest.mark.parametrize("float_as_event", [True, False])
def test_event_linear(float_as_event):
    weights = jax.random.normal(jax.random.key(1), (N_IN, N_OUT))
    layer = brainstate.nn.EventLinear(N_IN, N_OUT, weights * u.mS, float_as_event=float_as_event)
    spikes = spikes_of(3).astype(float)
    close(layer(spikes), (spikes @ weights) * u.mS)


@pytest.mark.parametrize("name", ["CSR", "CSC", "COO"])
@pytest.mark.parametrize("unit", [1.0, u.mS])
def test_sparse_linear(name, unit):
    dense = jnp.where(spikes_of(4)[:, None], jax.random.normal(jax.random.key(2), (N_IN, N_OUT)), 0)
    matrix = getattr(brainevent, name).fromdense(dense * unit)
    layer = brainstate.nn.SparseLinear(matrix, b_init=None)
    x = jax.random.normal(jax.random.key(5), (N_IN,))
    close(layer(x), (x @ dense) * unit)
    if unit == 1.0:
        gradient = jax.grad(lambda x: layer(x).sum())(x)
        close(gradient, dense.sum(1))
