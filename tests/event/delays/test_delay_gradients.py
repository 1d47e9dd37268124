# SPDX-License-Identifier: Apache-2.0
"""Gradients of deliveries visit the rows of events alone; what they collect is what lies at the places in the ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from platforms import by_platform
from test_delays import drawn

import brainevent as be

pytestmark = by_platform

BAD = [jnp.nan, jnp.inf]


def delivering(kind, arrays, one=False):
    """Return the delivery as a function of ring, weights and events; weights; and row, slot and column of each."""
    _, _, data, indices, indptr, delays = arrays
    rows = np.repeat(np.arange(7), np.diff(indptr))
    if kind == "fixed":
        rows, indices, delays = np.repeat(np.arange(7), 2), indices[:14], delays[:14]
        data = jnp.asarray(data[:14].reshape(7, 2))
        matrix = be.FixedNumPerPre((data, jnp.asarray(indices.reshape(7, 2))), shape=(7, 9))
    elif kind == "csc":
        order = np.lexsort((rows, indices))
        rows, indices, delays, data = rows[order], indices[order], delays[order], jnp.asarray(data[order])
        starts = np.searchsorted(indices, np.arange(10)).astype(np.int32)
        matrix = be.CSC(
            data, jnp.asarray(rows, jnp.int32), jnp.asarray(starts), shape=(7, 9)
        ).precompute_weight_indices()
    else:
        data = jnp.asarray(data)
        matrix = be.CSR(data, jnp.asarray(indices), jnp.asarray(indptr), shape=(7, 9))
    steps = jnp.asarray(delays.reshape(data.shape))
    if kind == "laid":
        layout = matrix.delay_layout(steps, 5)
        call = lambda ring, w, x, **how: layout.with_data(w).deliver(ring, x, -3, **how)
    else:
        call = lambda ring, w, x, **how: matrix.with_data(w).delay_deliver(ring, x, steps, -3, **how)
    return call, jnp.ones(1) if one else data, (rows, (-3 + delays) % 5, indices)


KINDS = pytest.mark.parametrize("kind", ["csr", "csc", "fixed", "laid"])


@pytest.mark.covering(strength=1)
@KINDS
@pytest.mark.parametrize("one", [False, True], ids=["weights", "one weight"])
def test_no_gradient_by_weights_visits_all_elements(kind, one):
    """XLA would gather the values of all, and choose among them."""
    arrays = drawn(3)
    call, weights, _ = delivering(kind, arrays, one)
    if kind == "laid":  # in the order of the layout: `with_data` sorts weights
        layout = be.CSR(*map(jnp.asarray, arrays[2:5]), shape=(7, 9)).delay_layout(arrays[5], 5)
        weights = jnp.ones(1) if one else layout.data
        structure = jax.tree.structure(layout)
        call = lambda ring, w, x: structure.unflatten([w]).deliver(ring, x, 2)
    ring, x = jnp.asarray(arrays[0]), jnp.asarray(arrays[1]) != 0
    gradient = jax.jit(lambda w, x, cotangent: jax.vjp(lambda w: call(ring, w, x), w)[1](cotangent)[0])
    text = gradient.lower(weights, x, ring).compile().as_text()
    assert "custom-call" in text
    assert " gather(" not in text
    assert " scatter(" not in text


@pytest.mark.covering(strength=1)
@KINDS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("backend", [None, "reference"])
@pytest.mark.parametrize("bad", BAD)
def test_each_weight_gets_what_lies_at_its_place(kind, weighted, dtype, backend, bad):
    arrays = drawn(11)
    call, weights, (rows, slots, columns) = delivering(kind, arrays)
    x, how = arrays[1], {"weighted": weighted, "backend": backend}
    active = x[rows] != 0
    assert 0 < active.sum() < active.size
    ring = np.asarray(arrays[0], dtype)
    cotangent = np.full_like(ring, bad)
    cotangent[slots[active], columns[active]] = ring[slots[active], columns[active]]
    each = np.where(active, cotangent[slots, columns] * np.where(active & weighted, x[rows], 1), 0)
    _, transposed = jax.vjp(lambda w: call(jnp.asarray(ring), w, jnp.asarray(x), **how), weights.astype(dtype))
    (found,) = transposed(jnp.asarray(cotangent))
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found).reshape(-1), each, rtol=1e-5 if dtype == "float32" else 2e-3)
    found = jax.vmap(lambda scale: transposed(scale * jnp.asarray(cotangent))[0])(jnp.arange(1, 3).astype(dtype))
    np.testing.assert_allclose(np.asarray(found[1], np.float32), 2 * np.asarray(found[0], np.float32), rtol=2e-3)


@KINDS
def test_second_derivatives_are_those_of_the_formula(kind):
    arrays = drawn(8)
    call, weights, (rows, slots, columns) = delivering(kind, arrays)
    ring, x = map(jnp.asarray, arrays[:2])
    ours = lambda ring, w, x: jnp.sin(call(ring, w, x, weighted=True)).sum()
    formula = lambda ring, w, x: jnp.sin(ring.at[slots, columns].add(w.reshape(-1) * x[rows])).sum()
    tangents = 0.1 * ring, 0.2 * weights, 0.3 * x + 0.1

    def second(f):
        by_all = jax.grad(f, (0, 1, 2))
        forward = jax.jvp(by_all, (ring, weights, x), tangents)[1]
        reverse = jax.grad(
            lambda *at: sum(jnp.vdot(a, b) for a, b in zip(by_all(*at), tangents, strict=True)), (0, 1, 2)
        )
        return forward, reverse(ring, weights, x)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), second(ours), second(formula))


def test_events_stay_straight_through_in_second_derivatives():
    """The derivative of the gradient by weights, with respect to events, is the cotangent at each place."""
    arrays = drawn(8)
    call, weights, (_, slots, columns) = delivering("csr", arrays)
    ring, x = map(jnp.asarray, arrays[:2])
    gradient = lambda x: jax.vjp(lambda w: call(ring, w, x), weights)[1](ring)[0]
    _, found = jax.jvp(gradient, (x,), (jnp.ones_like(x),))
    np.testing.assert_allclose(found, np.asarray(ring)[slots, columns], rtol=1e-6)


def test_values_that_cancel_are_events_nevertheless():
    """Of one weight: infinity times 1 plus infinity times -1 is not zero, but infinity that no event reaches is."""
    x, indices, indptr = jnp.array([1.0, -1.0, 0.0]), jnp.array([0, 0, 1]), jnp.arange(4)
    call = lambda w: be.csr_delay_deliver(jnp.zeros((2, 2)), x, w, indices, indptr, 1, 0, shape=(3, 2), weighted=True)
    _, transposed = jax.vjp(call, jnp.ones(1))
    np.testing.assert_array_equal(transposed(jnp.full((2, 2), 3.0))[0], [0])
    np.testing.assert_array_equal(transposed(jnp.array([[jnp.inf, jnp.nan], [3.0, jnp.inf]]))[0], [0])
    assert np.isnan(transposed(jnp.full((2, 2), jnp.inf))[0]).all()


@pytest.mark.parametrize("shape", [(0, 9), (7, 0), (0, 0)])
@pytest.mark.parametrize("laid", [False, True])
def test_matrices_without_rows_or_columns(shape, laid):
    rows, columns = shape
    ring, x, indptr = jnp.ones((3, columns)), jnp.ones(rows, bool), jnp.zeros(rows + 1, jnp.int32)
    none, delays = jnp.zeros(0, jnp.int32), jnp.zeros(0, jnp.int32)
    for weights in (jnp.zeros(0), jnp.ones(1)):
        layout = be.CSRDelayLayout.build(weights, none, indptr, delays, n_slots=3, shape=shape)
        if laid:
            call = lambda w, layout=layout: layout.with_data(w).deliver(ring, x, 0).sum()
        else:
            call = lambda w: be.csr_delay_deliver(ring, x, w, none, indptr, delays, 0, shape=shape).sum()
        np.testing.assert_array_equal(jax.grad(call)(weights), jnp.zeros_like(weights))


def test_delays_and_columns_that_are_not_known():
    """Delays wrap around the ring, and elements of columns out of range have no gradient."""
    ring, x, data, indices, indptr, delays = map(jnp.asarray, drawn(4))
    out = indices.at[::3].set(jnp.where(jnp.arange(indices[::3].size) % 2, 9, -1))

    @jax.jit
    def gradient(indices, delays, cotangent):
        call = lambda w: be.csr_delay_deliver(ring, x, w, indices, indptr, delays, 1, shape=(7, 9))
        return jax.vjp(call, data)[1](cotangent)[0]

    far = delays + 5 * jnp.arange(delays.size) - 10
    wanted = gradient(indices, delays, ring)
    np.testing.assert_array_equal(gradient(indices, far, ring), wanted)
    np.testing.assert_array_equal(gradient(out, far, ring), wanted.at[::3].set(0))
