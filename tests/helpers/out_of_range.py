# SPDX-License-Identifier: Apache-2.0
"""Matrices some of whose indices name nothing, as functions get them in a trace; and what their products then are."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from sparse_products import close, coordinates, fixed, numbers, operand, taken
from test_event_csr import compressed

import brainevent

FAR = (-(2**31), -1, 0, 1, 10**6, 2**31 - 1)  # those that are not negative are added to the size
FORMATS = {  # of each: what draws a matrix, and what the indices of one are below
    "csr": (compressed, lambda sparse: (sparse.shape[1], None)),
    "coo": (coordinates, lambda sparse: sparse.shape),
    "fcn": (fixed, lambda sparse: sparse.shape[1:]),
}
every_format = pytest.mark.parametrize("name", FORMATS)
POINTERS = st.lists(st.integers(-3, 40) | st.sampled_from([-(2**31), 2**31 - 1]), min_size=7, max_size=7)
CASES = {
    "seed": st.integers(0, 999),
    "m": st.integers(1, 40),
    "k": st.integers(1, 40),
    "connections": st.integers(1, 9),
    "columns": st.none() | st.integers(0, 5),
    "homogeneous": st.booleans(),
    "transpose": st.booleans(),
    "event": st.booleans(),
    "index": st.sampled_from(["int32", "int64"]),
}


def spoilt(sparse, seed, bounds, share=None):
    """Return arrays of indices of which some are out of bounds, and the matrix of the other elements.

    `bounds` has for each array what its indices are below; or None, if it is left alone. A `share` of them is spoilt,
    from none to all if it is None.
    """
    random = np.random.default_rng(seed)
    arrays, there = [], np.ones(sparse.rows.size, bool)
    for array, bound in zip(sparse.indices, bounds, strict=True):
        if bound is not None:
            wrong = random.random(array.shape) < (random.choice([0.0, 0.1, 1.0]) if share is None else share)
            far = random.choice(FAR, array.shape)
            found = np.where(wrong, np.where(far < 0, far, np.minimum(far + bound, 2**31 - 1)), array)
            there &= ~wrong.reshape(-1)
            arrays.append(jnp.asarray(found, array.dtype))
        else:
            arrays.append(array)
    weights = sparse.weights if sparse.weights.size == 1 else sparse.weights.reshape(-1)[there]
    others = dataclasses.replace(sparse, weights=weights, rows=sparse.rows[there], columns=sparse.columns[there])
    return arrays, others, there


def traced(name, sparse, arrays, x, *, suffix="", **options):
    """Call a function within a trace, which does not know what the arrays hold."""
    call = getattr(brainevent, f"{name}{'mv' if x.ndim == 1 else 'mm'}{suffix}")
    how = {"shape": sparse.shape, **options}
    return jax.jit(lambda weights, arrays, x: call(weights, *arrays, x, **how))(sparse.weights, arrays, x)


def assert_left_out(name, sparse, arrays, others, x, *, event, transpose, **options):
    """Compare a product with that of the elements that are in range."""
    found = traced("binary_" * event + name, sparse, arrays, x, transpose=transpose, **options)
    close(found, others.product(x, transpose=transpose, event=event))


def assert_case(name, *, seed, m, k, connections, columns, transpose, event, backend, **options):
    """Draw a matrix of a format, and do so."""
    make, bounds_of = FORMATS[name]
    sparse = make(seed, m, k, connections, **options)
    arrays, others, _ = spoilt(sparse, seed + 1, bounds_of(sparse))
    x = operand(seed + 2, taken(sparse, transpose=transpose), columns, "float32", 0.5)
    assert_left_out(name, sparse, arrays, others, x, event=event, transpose=transpose, backend=backend)


def assert_pointers(
    pointers, *, homogeneous, transpose, backend, event=True, indexed=False, columns=None, connections=6
):
    """Compare a product with what is stored from each pointer to the next, both clipped to what is stored."""
    sparse = compressed(0, 6, 9, connections, homogeneous=homogeneous)
    x = operand(1, taken(sparse, transpose=transpose), columns, "float32", 0.6)
    pointers, (indices, _) = np.array(pointers), sparse.indices
    within = np.clip(pointers, 0, indices.size)
    places = [np.arange(*pair) for pair in itertools.pairwise(within)]
    rows = np.repeat(np.arange(sparse.shape[0]), [part.size for part in places])
    order = np.concatenate(places).astype(int)
    weights = sparse.weights if sparse.weights.size == 1 else sparse.weights[order]
    others = dataclasses.replace(sparse, weights=weights, rows=rows, columns=sparse.columns[order])
    arrays = [indices, jnp.asarray(pointers, "int32"), *([jnp.arange(indices.size)] if indexed else [])]
    name, suffix = "binary_" * event + "csr", "_indexed" * indexed
    found = traced(name, sparse, arrays, x, suffix=suffix, transpose=transpose, backend=backend)
    close(found, others.product(x, transpose=transpose, event=event))


def assert_derivatives(name, *, seed, columns, transpose, event, backend):
    """Compare the gradients by the weights and by x with those of the elements that are in range."""
    make, bounds_of = FORMATS[name]
    sparse = make(seed, 9, 14, 4, homogeneous=False)
    arrays, others, there = spoilt(sparse, seed + 1, bounds_of(sparse), 0.3)
    x = numbers(seed + 2, taken(sparse, transpose=transpose), columns)
    result = sparse.shape[1 if transpose else 0]
    cotangent = numbers(seed + 3, result, columns)
    how = {"shape": sparse.shape, "transpose": transpose, "backend": backend}
    call = getattr(brainevent, f"{'binary_' * event}{name}{'mv' if columns is None else 'mm'}")

    @jax.jit
    def pulled(weights, arrays, x):
        return jax.vjp(lambda weights, x: call(weights, *arrays, x, **how), weights, x)[1](cotangent)

    by_weights, by_x = pulled(sparse.weights, arrays, x)
    sources, targets = (others.rows, others.columns) if transpose else (others.columns, others.rows)
    values = np.where(np.asarray(x) != 0, 1, 0) if event else np.asarray(x)
    terms = values[sources] * np.asarray(cotangent)[targets]
    wanted = np.zeros(there.size)
    wanted[there] = terms.reshape(terms.shape[0], -1).sum(1)
    close(np.asarray(by_weights).reshape(-1), wanted)
    close(by_x, others.product(cotangent, transpose=not transpose, event=False))


def assert_slices(*, backend):
    """Compare rows that are taken out of a matrix, and the gradient by its weights, with those of what is in range."""
    sparse = compressed(7, 9, 12, 4, homogeneous=False)
    arrays, others, there = spoilt(sparse, 9, (12, None), 0.3)
    assert 0 < there.sum() < there.size
    chosen = jnp.array([3, -1, 0, 9, 3, 2**31 - 1])

    @jax.jit
    def run(weights, arrays, dense):
        call = lambda weights: brainevent.csr_slice_rows(weights, *arrays, chosen, shape=sparse.shape, backend=backend)
        found, back = jax.vjp(call, weights)
        return found, back(dense)[0]

    dense = jnp.arange(72, dtype=jnp.float32).reshape(6, 12)
    found, gradient = run(sparse.weights, arrays, dense)
    wanted = np.zeros((6, 12))
    for place, row in ((0, 3), (2, 0), (4, 3)):
        wanted[place] = others.dense()[row]
    close(found, wanted)
    by_row = np.zeros((9, 12))
    np.add.at(by_row, [3, 0, 3], np.asarray(dense)[[0, 2, 4]])
    close(gradient, np.where(there, by_row[sparse.rows, np.where(there, sparse.columns, 0)], 0))
