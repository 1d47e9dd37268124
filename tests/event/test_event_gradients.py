# SPDX-License-Identifier: Apache-2.0
"""Gradients with respect to weights visit events alone: a weight that meets none gets exactly zero, even from NaN.

And the other way round: a weight, or its tangent, that is NaN or infinite and meets no event adds exactly nothing.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from platforms import by_platform

import brainevent as be
from brainevent import BinaryArray, BitPackedBinary, CompactBinary, WeightedArray

pytestmark = by_platform

M, K, COLUMNS = 7, 9, 3
BAD = [jnp.nan, jnp.inf, -jnp.inf]
BACKENDS = (None, "reference")
bad_values = pytest.mark.parametrize("bad", BAD)
both_sides = pytest.mark.parametrize("left", [True, False], ids=["x @ A", "A @ x"])
vector_or_matrix = pytest.mark.parametrize("columns", [None, COLUMNS], ids=["mv", "mm"])


def drawn(seed=0):
    """Return a dense matrix of which half is stored, with an empty row and an empty column."""
    random = np.random.default_rng(seed)
    dense = np.where(random.random((M, K)) < 0.5, random.normal(size=(M, K)), 0).astype(np.float32)
    dense[2], dense[:, 3] = 0, 0
    return dense


def fixed_rows(seed=0):
    """Return columns, of which some occur twice, and weights of rows of equal length."""
    random = np.random.default_rng(seed)
    return random.integers(0, K, (M, 4)).astype(np.int32), random.normal(size=(M, 4)).astype(np.float32)


FORMATS = {
    "CSR": lambda: be.CSR.fromdense(jnp.asarray(drawn())),
    "CSC": lambda: be.CSC.fromdense(jnp.asarray(drawn())),
    "COO": lambda: be.COO.fromdense(jnp.asarray(drawn())),
    "Dense": lambda: be.Dense(jnp.asarray(drawn())),
    "per pre": lambda: be.FixedNumPerPre(tuple(map(jnp.asarray, fixed_rows()[::-1])), shape=(M, K)),
    "per post": lambda: be.FixedNumPerPost(tuple(map(jnp.asarray, fixed_rows()[::-1])), shape=(K, M)),
    "TCSR": lambda: be.TCSR.fromdense(jnp.asarray(drawn()), backward_algorithm="pp_prop"),
}
EVENTS = {
    "binary": BinaryArray,
    "packed": BitPackedBinary,
    "compact": CompactBinary.from_array,
    "weighted": WeightedArray,
}
every_format = pytest.mark.parametrize("name", FORMATS)


def events_for(matrix, *, left, columns, seed=1):
    """Return numbers of which most are no events: those of two neurons in all columns."""
    size, random = matrix.shape[0 if left else 1], np.random.default_rng(seed)
    shape = (size,) if columns is None else (size, columns)
    x = np.where(random.random(shape) < 0.5, random.normal(size=shape), 0).astype(np.float32)
    x[:2], x[2] = 0, 1.5
    return jnp.asarray(x if columns is None or not left else x.T)


def product(matrix, data, events, *, left):
    matrix = matrix.with_data(data)
    return events @ matrix if left else matrix @ events


@np.errstate(invalid="ignore")
def by_elements(matrix, of_element, x, cotangent, *, left, graded):
    """Return the gradient of each weight in NumPy, by a loop over elements and columns that skips what is no event."""
    x, cotangent = (
        np.asarray(array).reshape(-1, array.shape[-1]) if array.ndim == 2 else np.asarray(array)[None]
        for array in (x, cotangent)
    )
    if not left and x.shape[0] != 1:
        x, cotangent = x.T, cotangent.T
    found = []
    for row, column in of_element:
        source, target = (row, column) if left else (column, row)
        terms = [c[target] * (v[source] if graded else 1) for v, c in zip(x, cotangent, strict=True) if v[source]]
        found.append(sum(terms, np.float32(0)))
    return np.asarray(found, np.float32).reshape(np.shape(matrix.data))


def places_of(matrix):
    """Return the row and column of each stored weight, in order."""
    count = matrix.data.size
    places = {}
    for start in range(count):  # which element of the dense matrix a weight is
        one = jnp.zeros(count).at[start].set(1).reshape(matrix.data.shape)
        places[start] = tuple(int(i) for i in np.argwhere(np.asarray(matrix.with_data(one).todense()))[0])
    return [places[start] for start in range(count)]


@functools.cache
def prepared(name):
    matrix = FORMATS[name]()
    return matrix, places_of(matrix)


@pytest.mark.covering(strength=1, most=12)
@every_format
@pytest.mark.parametrize("kind", EVENTS)
@both_sides
@vector_or_matrix
@bad_values
def test_a_weight_that_meets_no_event_has_no_gradient(name, kind, left, columns, bad):
    matrix, places = prepared(name)
    x = events_for(matrix, left=left, columns=columns)
    if kind == "packed":
        x = x != 0
    graded = kind == "weighted" or (name == "TCSR" and kind == "binary")  # as its `backward_algorithm` says
    call = lambda data: product(matrix, data, EVENTS[kind](x), left=left)
    out, transposed = jax.vjp(call, matrix.data)
    cotangent = jnp.asarray(np.random.default_rng(2).normal(size=out.shape), jnp.float32)
    for some in (cotangent, jnp.full_like(cotangent, bad), cotangent.at[..., ::3].set(bad), cotangent.at[0].set(bad)):
        (found,) = jax.jit(transposed)(some)
        wanted = by_elements(matrix, places, x, some, left=left, graded=graded)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert (np.asarray(found)[wanted == 0] == 0).all()


@pytest.mark.covering(strength=2)
@every_format
@pytest.mark.parametrize("kind", ["binary", "weighted"])
@both_sides
@bad_values
def test_a_tangent_or_a_weight_that_meets_no_event_adds_nothing(name, kind, left, bad):
    matrix, places = prepared(name)
    x = events_for(matrix, left=left, columns=None)
    silent = np.asarray([not x[row if left else column] for row, column in places]).reshape(matrix.data.shape)
    call = lambda data: product(matrix, data, EVENTS[kind](x), left=left)
    weights = jnp.where(silent, bad, matrix.data)
    wanted = jax.jvp(call, (matrix.data,), (matrix.data,))
    found = jax.jvp(call, (weights,), (weights,))
    # On a GPU, sums have no fixed order.
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), found, wanted)
    second = jax.jvp(jax.grad(lambda data: jnp.sin(call(data)).sum()), (weights,), (weights,))
    assert np.isfinite(second[0]).all()
    assert np.isfinite(second[1]).all()
    assert (np.asarray(second[1])[silent] == 0).all()


@pytest.mark.covering(strength=1, most=8)
@every_format
@pytest.mark.parametrize("kind", ["binary", "weighted"])
@both_sides
@vector_or_matrix
@bad_values
def test_one_weight_for_all_gets_what_its_events_give(name, kind, left, columns, bad):
    if name == "Dense":
        pytest.skip("a dense matrix has a weight for each element")
    matrix, places = prepared(name)
    x = events_for(matrix, left=left, columns=columns)
    alone = jnp.arange(matrix.shape[0 if left else 1]) == 4
    x = jnp.where(alone if columns is None or left else alone[:, None], 1.5, 0 * x)
    one = matrix.with_data(jnp.ones(1))
    call = lambda weight: product(one, weight, EVENTS[kind](x), left=left)
    out, transposed = jax.vjp(call, jnp.ones(1))
    reached = np.asarray(call(jnp.ones(1))) != 0
    if kind == "weighted":
        reached = np.asarray(product(one, jnp.ones(1), BinaryArray(x), left=left)) != 0
    assert not reached.all()
    for some in (jnp.where(reached, 2.0, bad), jnp.full(out.shape, 3.0)):
        (found,) = transposed(some)
        graded = kind == "weighted" or name == "TCSR"
        wanted = by_elements(matrix, places, x, some, left=left, graded=graded).sum()
        np.testing.assert_allclose(found, [wanted], rtol=1e-5)
    assert not np.isfinite(transposed(jnp.full(out.shape, bad))[0]).any()


@pytest.mark.parametrize("columns", [None, 2], ids=["mv", "mm"])
def test_values_that_cancel_are_events_nevertheless(columns):
    """Of one weight: infinity times 1 plus infinity times -1 is not zero, but infinity that no event reaches is."""
    matrix = be.CSR((jnp.ones(1), jnp.array([0, 0, 1]), jnp.arange(4)), shape=(3, 2))
    x = jnp.array([1.0, -1.0, 0.0])
    x = x if columns is None else jnp.stack([x] * columns)
    call = lambda weight: WeightedArray(x) @ matrix.with_data(weight)
    out, transposed = jax.vjp(call, jnp.ones(1))
    unreached = jnp.broadcast_to(jnp.array([False, True]), out.shape)
    np.testing.assert_array_equal(transposed(jnp.full(out.shape, 3.0))[0], [0])
    np.testing.assert_array_equal(transposed(jnp.where(unreached, jnp.inf, 3.0))[0], [0])
    assert np.isnan(transposed(jnp.full(out.shape, jnp.inf))[0]).all()
    # A tangent of the cotangent that is NaN where nothing arrives adds nothing either.
    changed = jnp.where(unreached, jnp.nan, 1.0)
    _, found = jax.jvp(lambda cotangent: transposed(cotangent)[0], [jnp.ones(out.shape)], [changed])
    np.testing.assert_array_equal(found, [0])


@pytest.mark.covering(strength=1, most=5)
@pytest.mark.parametrize("name", ["CSR", "Dense", "TCSR", "COO", "per pre"])
@pytest.mark.parametrize("kind", ["binary", "weighted"])
def test_batches_of_gradients(name, kind):
    matrix, places = prepared(name)
    x = jnp.stack([events_for(matrix, left=True, columns=COLUMNS, seed=seed) for seed in (1, 2)])
    cotangents = (
        jnp.asarray(np.random.default_rng(3).normal(size=(2, COLUMNS, K)), jnp.float32).at[1, 0, 1].set(jnp.nan)
    )

    def gradient(x, cotangent):
        return jax.vjp(lambda data: product(matrix, data, EVENTS[kind](x), left=True), matrix.data)[1](cotangent)[0]

    found = jax.jit(jax.vmap(gradient))(x, cotangents)
    for each, *given in zip(found, x, cotangents, strict=True):
        wanted = by_elements(matrix, places, *given, left=True, graded=kind == "weighted" or name == "TCSR")
        np.testing.assert_allclose(each, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.covering(strength=1, most=5)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transpose", [True, False])
@bad_values
def test_weights_by_a_permutation(backend, transpose, bad):
    matrix, places = prepared("CSR")
    perm = np.random.default_rng(4).permutation(matrix.data.size).astype(np.int32)
    x = events_for(matrix, left=transpose, columns=None)
    how = {"shape": matrix.shape, "transpose": transpose, "backend": backend}
    call = lambda data: be.binary_csrmv_indexed(data, matrix.indices, matrix.indptr, jnp.asarray(perm), x, **how)
    out, transposed = jax.vjp(call, matrix.data)
    cotangent = jnp.arange(1.0, 1 + out.size).at[::4].set(bad)
    wanted = np.zeros(perm.size, np.float32)
    wanted[perm] = by_elements(matrix, places, x, cotangent, left=transpose, graded=False)
    np.testing.assert_allclose(transposed(cotangent)[0], wanted)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("draw", [be.binary_jitsmv, be.binary_jitnmv, be.binary_jitumv], ids=lambda f: f.__name__)
@pytest.mark.parametrize("corder", [True, False])
@bad_values
def test_numbers_of_drawn_matrices(draw, corder, bad):
    weights = (1.5,) if draw is be.binary_jitsmv else (0.5, 1.5)
    x = jnp.zeros(30, bool).at[4].set(True)
    call = lambda *weights: draw(*weights, 0.2, x, 3, shape=(20, 30), corder=corder)
    _, transposed = jax.vjp(call, *map(jnp.float32, weights))
    reached = (
        draw(
            *(1.0, 0.0) if len(weights) == 2 and draw is be.binary_jitnmv else (1.0,) * len(weights),
            0.2,
            x,
            3,
            shape=(20, 30),
            corder=corder,
        )
        != 0
    )
    assert 0 < int(reached.sum()) < 20
    found = transposed(jnp.where(reached, 2.0, bad))
    np.testing.assert_allclose(found, transposed(jnp.where(reached, 2.0, 0.0)), rtol=1e-6)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("draw", [be.jits, be.jitn])
@bad_values
def test_what_is_drawn_as_a_dense_matrix(draw, bad):
    weights = (1.5,) if draw is be.jits else (0.5, 1.5)
    call = lambda *weights: draw(*weights, 0.2, 3, shape=(20, 30))
    out, transposed = jax.vjp(call, *map(jnp.float32, weights))
    found = transposed(jnp.where(out != 0, 2.0, bad))
    np.testing.assert_allclose(found, transposed(jnp.where(out != 0, 2.0, 0.0)), rtol=1e-6)


@bad_values
def test_rows_as_dense_ones(bad):
    matrix, _ = prepared("CSR")
    call = lambda data: be.csr_slice_rows(data, matrix.indices, matrix.indptr, jnp.array([1, 1]), shape=matrix.shape)
    out, transposed = jax.vjp(call, jnp.ones(1))
    (found,) = transposed(jnp.where(out != 0, 2.0, bad))
    np.testing.assert_allclose(found, [4.0 * (out[0] != 0).sum() / 1])


@pytest.mark.covering(strength=1, most=6)
@pytest.mark.parametrize("name", ["CSR", "CSC", "per pre", "per post", "layout"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("one", [False, True], ids=["weights", "one weight"])
@pytest.mark.parametrize("second", [False, True], ids=["first order", "second order"])
@bad_values
def test_deliveries(name, backend, weighted, one, second, bad):
    matrix, places = prepared("CSR" if name == "layout" else name)
    rows, columns = np.asarray(places).T
    slots, random = 5, np.random.default_rng(5)
    x = np.where(np.arange(matrix.shape[0]) % 3 == 1, 1.5, 0).astype(np.float32)
    delays = random.integers(1, slots, matrix.data.shape).astype(np.int32)
    ring, how = jnp.zeros((slots, matrix.shape[1])), {"weighted": weighted, "backend": backend}

    layout = matrix.delay_layout(delays, slots) if name == "layout" else None

    def call(data):
        if layout is None:
            return matrix.with_data(data).delay_deliver(ring, jnp.asarray(x), jnp.asarray(delays), 3, **how)
        return layout.with_data(data).deliver(ring, jnp.asarray(x), 3, **how)

    out, transposed = jax.vjp(call, jnp.ones(1) if one else matrix.data)
    slot, active = (3 + delays.reshape(-1)) % slots, x[rows] != 0
    reached = np.zeros(out.shape, bool)
    reached[slot[active], columns[active]] = True
    assert not reached.all()
    cotangent = np.where(reached, random.normal(size=out.shape), bad).astype(np.float32)
    each = np.where(active, cotangent[slot, columns] * np.where(active & weighted, x[rows], 1), 0)
    wanted = each.sum(keepdims=True) if one else each.reshape(matrix.data.shape)
    if second:
        _, found = jax.jvp(lambda cotangent: transposed(cotangent)[0], [jnp.zeros_like(out)], [jnp.asarray(cotangent)])
    else:
        (found,) = jax.jit(transposed)(jnp.asarray(cotangent))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    (found,) = transposed(jnp.full_like(out, bad))
    assert (np.asarray(found)[wanted == 0] == 0).all()


@bad_values
def test_updates_of_plasticity(bad):
    matrix, places = prepared("CSR")
    spikes = jnp.arange(M) % 3 == 1
    call = lambda trace: be.update_csr_on_binary_pre(
        matrix.data, matrix.indices, matrix.indptr, spikes, trace, shape=matrix.shape
    )
    _, transposed = jax.vjp(call, jnp.ones(K))
    touched = np.asarray([bool(spikes[row]) for row, _ in places])
    (found,) = transposed(jnp.where(touched, 2.0, bad))
    np.testing.assert_allclose(found, transposed(jnp.where(touched, 2.0, 0.0))[0])
    assert np.isfinite(found).all()
