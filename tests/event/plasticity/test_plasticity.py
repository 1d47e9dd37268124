# SPDX-License-Identifier: Apache-2.0
"""Weights after spikes: what changes and what does not, in every format, under every transformation."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms import by_platform, every_backend, few_examples

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, Dense, FixedNumPerPost, FixedNumPerPre
from brainevent.errors import ShapeError

SHAPE = (6, 8)
OPERATORS = (
    "update_csr_on_binary_pre_p",
    "update_csr_on_binary_post_p",
    "fcn_plasticity_row_p",
    "update_dense_on_binary_pre_p",
    "update_dense_on_binary_post_p",
)
FORMATS = {"CSR": CSR, "CSC": CSC, "COO": COO, "Dense": Dense, "per pre": FixedNumPerPre, "per post": FixedNumPerPost}
every_format = pytest.mark.parametrize("name", FORMATS)
both_sides = pytest.mark.parametrize("side", ["pre", "post"])


def drawn(name, seed=0, dtype="float32", shape=SHAPE):
    """Return a matrix of a format, which elements of the dense one it stores, and that one in float64."""
    random = np.random.default_rng(seed)
    stored = np.zeros(shape, bool)
    if name == "per post":
        for column in stored.T:
            column[random.choice(shape[0], min(3, shape[0]), replace=False)] = True
    else:
        for row in stored:
            row[random.choice(shape[1], min(3, shape[1]), replace=False)] = True
    if name == "Dense":
        stored[:] = True
    dense = np.where(stored, random.integers(1, 9, shape) / 4, 0)
    return FORMATS[name].fromdense(jnp.asarray(dense, dtype)), stored, dense


def neurons(seed, shape=SHAPE, dtype="float32", active=0.4):
    """Return spikes and traces of both sides."""
    random = np.random.default_rng(seed)
    spikes = [random.random(size) < active for size in shape]
    return spikes, [jnp.asarray(random.integers(-8, 9, size) / 8, dtype) for size in shape]


def updated(matrix, side, spikes, traces, *bounds, **how):
    if side == "pre":
        return matrix.update_on_pre(spikes[0], traces[1], *bounds, **how)
    return matrix.update_on_post(traces[0], spikes[1], *bounds, **how)


def expected(stored, dense, side, spikes, traces):
    changes = np.outer(spikes[0], traces[1]) if side == "pre" else np.outer(traces[0], spikes[1])
    return np.where(stored, dense + changes, 0)


# ---- what changes ---------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=3)
@every_format
@both_sides
@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(d, marks=pytest.mark.thorough) for d in ("float16", "bfloat16"))]
)
@by_platform
@few_examples(3)
@given(
    seed=st.integers(0, 99),
    active=st.sampled_from([0.0, 0.4, 1.0]),
    shape=st.sampled_from([SHAPE, (700, 3), (3, 700)]),
)
def test_a_spike_adds_the_trace_of_the_other_end_to_its_weights(name, side, dtype, seed, active, shape):
    matrix, stored, dense = drawn(name, seed, dtype, shape)
    spikes, traces = neurons(seed, shape, active=active)
    changed = updated(matrix, side, spikes, traces)
    assert (type(changed), changed.dtype, changed.shape) == (type(matrix), dtype, shape)
    np.testing.assert_array_equal(
        np.asarray(changed.todense(), "float64"), expected(stored, dense, side, spikes, traces)
    )
    np.testing.assert_array_equal(np.asarray(matrix.todense(), "float64"), dense)  # the old one keeps its weights


@pytest.mark.covering(strength=1)
@every_format
@both_sides
def test_a_compiled_loop_carries_a_fresh_matrix(name, side):
    """Nothing is kept in the matrix, whose structure as a pytree would change."""
    matrix, stored, dense = drawn(name)
    spikes, traces = neurons(1)

    @jax.jit
    def run(matrix):
        return jax.lax.scan(lambda m, _: (updated(m, side, spikes, traces, after=m.data), None), matrix, length=3)[0]

    for _ in range(2):
        np.testing.assert_array_equal(
            run(matrix).todense(), dense + 3 * (expected(stored, dense, side, spikes, traces) - dense)
        )
        matrix = getattr(matrix, "precompute_weight_indices", lambda m=matrix: m)()


@pytest.mark.parametrize("kind", [jnp.bool_, jnp.int8, jnp.float16, jnp.float32, BinaryArray])
@both_sides
def test_spikes_may_be_of_any_kind_and_count_once(kind, side):
    matrix, stored, dense = drawn("CSR")
    spikes, traces = neurons(2)
    twice = [
        BinaryArray(2 * x.astype("int8")) if kind is BinaryArray else (-2 * x.astype("int8")).astype(kind)
        for x in spikes
    ]
    np.testing.assert_array_equal(
        updated(matrix, side, twice, traces).todense(), expected(stored, dense, side, spikes, traces)
    )


def test_neurons_without_spikes_keep_the_bits_of_their_weights():
    weights = jnp.array([-0.0, jnp.nan, 1.0, -0.0])
    indices, indptr = jnp.array([0, 1, 0, 1]), jnp.array([0, 2, 4])
    for backend in ("numba", "jax_raw"):
        found = brainevent.update_csr_on_binary_pre(
            weights, indices, indptr, jnp.array([False, True]), jnp.zeros(2), shape=(2, 2), backend=backend
        )
        assert np.signbit(found[0])
        assert jnp.isnan(found[1])
        assert (found[2], found[3]) == (1, 0)


def test_duplicates_are_changed_each():
    args = jnp.array([0, 0]), jnp.array([0, 2]), jnp.array([True]), jnp.array([0.5])
    np.testing.assert_array_equal(brainevent.update_csr_on_binary_pre(jnp.ones(2), *args, shape=(1, 1)), [1.5, 1.5])


def test_nan_in_a_trace_reaches_only_weights_of_neurons_that_spiked():
    trace = jnp.array([jnp.nan, 1.0])
    found = brainevent.update_dense_on_binary_pre(jnp.ones((2, 2)), jnp.array([True, False]), trace)
    np.testing.assert_array_equal(found, [[np.nan, 2], [1, 1]])


@every_backend
def test_an_index_out_of_range_is_left_alone(backend):
    indices, indptr = jnp.array([0, 7, -3, 1]), jnp.array([0, 2, 4])

    @jax.jit
    def run(indices, places):
        how = {"shape": (2, 2), "backend": backend}
        spikes = jnp.array([True, True])
        first = brainevent.update_csr_on_binary_pre(jnp.zeros(4), indices, indptr, spikes, jnp.ones(2), **how)
        return first, brainevent.update_csr_on_binary_post(
            jnp.zeros(4), indices, indptr, places, jnp.ones(2), spikes, **how
        )

    found, by_places = run(indices, jnp.array([3, 2, 1, 9]))
    np.testing.assert_array_equal(found, [1, 0, 0, 1])
    np.testing.assert_array_equal(by_places, [0, 0, 0, 1])


# ---- bounds and units -----------------------------------------------------------------------------------------------


@every_format
def test_all_weights_are_held_to_their_bounds(name):
    matrix, stored, dense = drawn(name)
    spikes, traces = neurons(3)
    changed = updated(matrix, "pre", spikes, traces, 0.5, 1.5).todense()
    np.testing.assert_array_equal(
        changed, np.where(stored, np.clip(expected(stored, dense, "pre", spikes, traces), 0.5, 1.5), 0)
    )
    low = updated(matrix, "pre", [0 * spikes[0], spikes[1]], traces, None, 1.0).todense()  # also where nobody spikes
    np.testing.assert_array_equal(low, np.minimum(dense, 1.0))


def test_bounds_may_be_of_each_weight_and_may_cross():
    spikes, trace = jnp.zeros(2, bool), jnp.zeros(2)
    weights = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    update = brainevent.update_dense_on_binary_pre
    np.testing.assert_array_equal(update(weights, spikes, trace, w_max=jnp.array([1.5, 9])), [[1, 2], [1.5, 4]])
    np.testing.assert_array_equal(update(weights, spikes, trace, 3.0, 2.0), np.full((2, 2), 2.0))
    with jax.enable_x64(True):
        assert update(weights, spikes, trace, jnp.float64(0), np.ones((2, 2))).dtype == "float32"
    with pytest.raises(ShapeError, match=r"update_dense_on_binary_pre: w_max has shape \(3,\); weights have \(2, 2\)"):
        update(weights, spikes, trace, w_max=jnp.ones(3))


def test_units():
    u = pytest.importorskip("brainunit")
    weights, spikes = jnp.array([[1.0, 2.0]]) * u.mV, jnp.array([True])
    found = brainevent.update_dense_on_binary_pre(
        weights, spikes, jnp.array([500.0, 500.0]) * u.uvolt, 0 * u.mV, 2000 * u.uvolt
    )
    np.testing.assert_allclose(found.to_decimal(u.mV), [[1.5, 2.0]])
    update = brainevent.update_dense_on_binary_pre
    for trace, bound, words in (
        (jnp.ones(2) * u.mA, None, "post_trace has the unit mA, and the weights have mV; pass post_trace in mV"),
        (jnp.ones(2), None, "post_trace has no unit, and the weights have mV; pass post_trace in mV"),
        (jnp.ones(2) * u.mV, 1.0, "w_min has no unit, and the weights have mV; pass w_min in mV"),
    ):
        with pytest.raises(u.UnitMismatchError, match=f"^update_dense_on_binary_pre: {words}$"):
            update(weights, spikes, trace, bound)
    words = "post_trace has the unit mV, and the weights have none; pass post_trace without a unit"
    with pytest.raises(u.UnitMismatchError, match=f"^update_dense_on_binary_pre: {words}$"):
        update(jnp.ones((1, 2)), spikes, jnp.ones(2) * u.mV)
    matrix = brainevent.Dense(weights.mantissa * u.nS)
    words = "pre_trace has the unit pA, and the weights have nS; pass pre_trace in nS"
    with pytest.raises(u.UnitMismatchError, match=f"^Dense.update_on_post: {words}$"):
        matrix.update_on_post(jnp.ones(1) * u.pA, jnp.ones(2, bool))


# ---- transformations ------------------------------------------------------------------------------------------------


def operands_of(name):
    """Return operands of an operator."""
    (spikes, _), (of_rows, of_columns) = neurons(4, (8, 12))
    of_post = neurons(5, (8, 12))[0][1]
    random, after = np.random.default_rng(0), jnp.zeros(0)
    if "dense" in name:
        weights = jnp.asarray(random.integers(1, 9, (8, 12)) / 4, "float32")
        return (weights, spikes, of_columns, after) if "pre" in name else (weights, of_rows, of_post, after)
    indices = jnp.asarray(np.sort(random.integers(0, 12, (8, 4)), 1), "int32")
    weights = jnp.asarray(random.integers(1, 9, (8, 4)) / 4, "float32")
    if name.startswith("fcn"):
        return weights, indices, spikes, of_columns, after
    pointers = jnp.arange(9) * 4
    if name.endswith("pre_p"):
        return weights.ravel(), indices.ravel(), pointers, spikes, of_columns, after
    pointers, rows, places = brainevent.csr_to_csc_index(pointers, indices.ravel(), shape=(8, 12))
    return weights.ravel(), rows, pointers, places, of_rows, of_post, after


@pytest.mark.thorough  # test_event_table.py holds each operator to some
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_every_promise(platform, name):
    report = brainevent.check(getattr(brainevent, name), *operands_of(name))
    report.raise_if_failed()
    assert platform == "cpu" or {row.backend for row in report.rows if row.status == "ok"} == {"cuda_raw"}


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("name", OPERATORS)
def test_they_are_found_by_tags_and_measured(name):
    operator = getattr(brainevent, name)
    assert operator.name in brainevent.get_primitives_by_tags({"plasticity"})
    assert all(config.bytes > 0 for config in operator.definition.benchmark_data(platform="cpu"))


@pytest.mark.covering(strength=1, most=3)
@every_format
@both_sides
def test_derivatives_are_those_of_the_formula(name, side):
    matrix, stored, dense = drawn(name)
    spikes, traces = neurons(6)

    def loss(data, traces, low):
        return (jnp.sin(updated(matrix.with_data(data), side, spikes, traces, low, 2.0).todense()) * 3).sum()

    def wanted(dense, traces, low):
        changes = jnp.outer(spikes[0], traces[1]) if side == "pre" else jnp.outer(traces[0], spikes[1])
        return (jnp.sin(jnp.where(stored, jnp.clip(dense + changes, low, 2.0), 0)) * 3).sum()

    found = jax.jit(jax.grad(loss, (0, 1, 2)))(matrix.data, traces, 0.26)
    true = jax.jit(jax.grad(wanted, (0, 1, 2)))(jnp.asarray(dense, jnp.float32), traces, 0.26)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    close(matrix.with_data(found[0]).todense(), np.where(stored, true[0], 0))
    jax.tree.map(close, found[1:], true[1:])


def test_spikes_have_no_derivative():
    weights, trace = jnp.ones((2, 2)), jnp.ones(2)
    by_spikes = jax.grad(lambda s: brainevent.update_dense_on_binary_pre(weights, s, trace).sum())(
        jnp.array([1.0, 0.0])
    )
    np.testing.assert_array_equal(by_spikes, [0, 0])


# ---- in place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["pre", "post", "both"])
@pytest.mark.parametrize("ordered", [True, False], ids=["after the product", "in any order"])
def test_a_step_that_multiplies_and_updates_copies_no_weights(side, ordered):
    """10 000 neurons with 1000 synapses each: the program is read, and not run."""
    n, stored = 10_000, 10_000_000
    array = jax.ShapeDtypeStruct
    structure = array((stored,), "int32"), array((n + 1,), "int32")

    def run(weights, rows, columns, places, trace, spikes):
        def step(weights, spikes):
            how = {"shape": (n, n), "backend": "numba"}
            currents = brainevent.binary_csrmv(weights, *rows, spikes, transpose=True, **how)
            how["after"] = currents if ordered else None
            if side != "post":
                weights = brainevent.update_csr_on_binary_pre(weights, *rows, spikes, trace, **how)
            if side != "pre":
                weights = brainevent.update_csr_on_binary_post(weights, *columns, places, trace, spikes, **how)
            return weights, currents

        return jax.lax.scan(step, weights, spikes)

    operands = structure, structure, structure[0], array((n,), "float32"), array((9, n), "bool")
    text = jax.jit(run).lower(array((stored,), "float32"), *operands).compile().as_text()
    within_loop = text[: text.index("ENTRY ")]
    copied = re.search(rf"= f32\[{stored}\]\S* copy\(", within_loop) is not None
    assert copied != ordered


@pytest.mark.parametrize("name", ["binary_csr_plast", "fcn_plasticity_row", "dense_on_pre", "dense_on_post"])
def test_updates_in_a_loop_copy_no_weights_of_any_format(name):
    n, number = 70, 30
    indices, spikes, trace = jnp.zeros((n, number), "int32"), jnp.ones(n, bool), jnp.ones(n)
    shape, rest = {
        "binary_csr_plast": ((n * number,), (indices.reshape(-1), jnp.arange(n + 1) * number, spikes, trace)),
        "fcn_plasticity_row": ((n, number), (indices, spikes, trace)),
        "dense_on_pre": ((n, number), (spikes, trace[:number])),
        "dense_on_post": ((n, number), (trace, spikes[:number])),
    }[name]
    step = lambda _, weights: brainevent.get_registry()[name](weights, *rest, jnp.zeros(0), backend="numba")[0]
    run = jax.jit(lambda weights: jax.lax.fori_loop(0, 3, step, weights), donate_argnums=0)
    text = run.lower(jax.ShapeDtypeStruct(shape, "float32")).compile().as_text()
    assert "brainevent_numba" in text
    assert re.findall(rf"= f32\[(?:{n * number}|{n},{number})\]\S* copy\(.*", text) == []


# ---- what cannot be -------------------------------------------------------------------------------------------------

ROWS = jnp.array([0, 1, 0]), jnp.array([0, 2, 3])
SPIKES, TRACE = jnp.ones(2, bool), jnp.ones(2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda f: f(jnp.ones(1), *ROWS, SPIKES, TRACE),
            ValueError,
            r"homogeneous \(size-1\), and there are 3 .*heterogeneous",
        ),
        (lambda f: f(2.0, *ROWS, SPIKES, TRACE), ValueError, r"homogeneous \(size-1\)"),
        (
            lambda f: f(jnp.ones(2), *ROWS, SPIKES, TRACE),
            ShapeError,
            r"weight has shape \(2,\); pass one for each synapse, \(3,\)",
        ),
        (lambda f: f(jnp.ones(3, int), *ROWS, SPIKES, TRACE), TypeError, "weight is int32; pass floating weights"),
        (
            lambda f: f(jnp.ones(3), *ROWS, SPIKES[:1], TRACE),
            ShapeError,
            r"pre_spike has shape \(1,\); pass one for each of 2",
        ),
        (lambda f: f(jnp.ones(3), *ROWS, SPIKES, jnp.ones((2, 1))), ShapeError, r"post_trace has shape \(2, 1\)"),
        (lambda f: f(jnp.ones(3), *ROWS, SPIKES * 1j, TRACE), TypeError, "pre_spike is complex64"),
        (lambda f: f(jnp.ones(3), *ROWS, SPIKES, TRACE * 1j), TypeError, "post_trace is complex64"),
        (lambda f: f(jnp.ones(3), ROWS[0], ROWS[1][:2], SPIKES, TRACE), ShapeError, r"indptr has shape \(2,\)"),
        (lambda f: f(jnp.ones(3), jnp.array([0, 5, 0]), ROWS[1], SPIKES, TRACE), ValueError, "indices holds 5"),
        (lambda f: f(jnp.ones(3), *ROWS, SPIKES, TRACE, shape=[2]), ValueError, "pass two sizes"),
    ],
)
def test_invalid_arguments_are_refused(call, error, words):
    with pytest.raises(error, match=rf"update_csr_on_binary_pre: .*{words}"):
        call(lambda *args, shape=(2, 2): brainevent.update_csr_on_binary_pre(*args, shape=shape))


def test_other_functions_name_what_is_theirs():
    with pytest.raises(ShapeError, match=r"update_dense_on_binary_post: weight has shape \(\); pass a matrix"):
        brainevent.update_dense_on_binary_post(1.0, TRACE, SPIKES)
    with pytest.raises(ShapeError, match="update_csr_on_binary_post: weight_indices has shape"):
        brainevent.update_csr_on_binary_post(jnp.ones(3), *ROWS, jnp.array([0]), TRACE, SPIKES, shape=(2, 2))
    with pytest.raises(ShapeError, match="update_fixed_pre_conn_on_binary_post: indices has shape"):
        brainevent.update_fixed_pre_conn_on_binary_post(
            jnp.ones((1, 2)), jnp.zeros((1, 2), "int32"), TRACE, SPIKES, shape=(2, 2)
        )


@pytest.mark.parametrize("old", ["csr_on_pre", "csr2csc_on_post", "dense_on_pre", "dense_on_post"])
def test_earlier_names_lead_to_the_new_ones(old):
    with pytest.warns(DeprecationWarning, match=f"{old} is now called brainevent.update_"):
        function = getattr(brainevent, old)
    assert function.__name__.startswith("update_")
