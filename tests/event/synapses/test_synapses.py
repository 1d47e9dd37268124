# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: in every format, for batches, with derivatives and units."""

import functools
import inspect
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms import by_platform, every_backend, few_examples
from test_plasticity import FORMATS, drawn

import brainevent
from brainevent import COO, CSR, Dense, FixedNumPerPre
from brainevent.errors import MathError, ShapeError

OPERATORS = ("csrmv_dt2t_p", "csrmm_dt2t_p")
INDICES, INDPTR = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
every_format = pytest.mark.parametrize("name", FORMATS)
both_ways = pytest.mark.parametrize("transpose", [False, True])


def structure(seed, shape, density=0.4):
    """Return indices and pointers of compressed rows, and the row and the column of each element."""
    rows, columns = np.nonzero(np.random.default_rng(seed).random(shape) < density)
    return jnp.asarray(columns, "int32"), jnp.searchsorted(rows, jnp.arange(shape[0] + 1)), rows, columns


def numbers(seed, *shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(seed).integers(-8, 9, shape) / 4, dtype)


def multiplied(matrix, y, w, transpose):
    return matrix.dt2t_transposed(y, w) if transpose else matrix.dt2t(y, w)


# ---- functions ------------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1)
@both_ways
@every_backend
@few_examples(3, on_gpu=40)
@given(
    seed=st.integers(0, 99),
    shape=st.sampled_from([(6, 8), (700, 3), (3, 700), (0, 4), (5, 0)]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    of_y=st.sampled_from([(), (1,), (4,)]),
    of_w=st.sampled_from([None, (), (1,), (4,)]),
)
def test_compressed_rows_and_columns(transpose, backend, seed, shape, dtype, of_y, of_w):
    indices, indptr, *places = structure(seed, shape)
    y = numbers(seed, *of_y, shape[transpose], dtype=dtype)
    w = jnp.full((), 0.5, dtype) if of_w is None else numbers(seed + 1, *of_w, indices.size, dtype=dtype)
    kind = "mm" if of_y or of_w else "mv"
    wanted = np.asarray(w, "float64") * np.asarray(y, "float64")[..., places[transpose]]
    if kind == "mm":
        wanted = np.broadcast_to(wanted, np.broadcast_shapes(wanted.shape, (1, indices.size)))
    how = {"backend": backend, "transpose": transpose}
    found = getattr(brainevent, f"csr{kind}_dt2t")(y, w, indices, indptr, shape=shape, **how)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found, "float64"), wanted)
    how["transpose"] = not transpose
    turned = getattr(brainevent, f"csc{kind}_dt2t")(y, w, indices, indptr, shape=shape[::-1], **how)
    np.testing.assert_array_equal(turned, found)


@pytest.mark.covering(strength=1)
@both_ways
@pytest.mark.parametrize("of_y", [(), (1,), (4,)])
@pytest.mark.parametrize("of_w", [None, (), (4,)])
def test_rows_of_equal_length(transpose, of_y, of_w):
    indices = jnp.array([[0, 2], [1, 2], [3, 0]])
    y, w = numbers(0, *of_y, (3, 4)[transpose]), 0.5 if of_w is None else numbers(1, *of_w, 3, 2)
    call = brainevent.fcnmm_dt2t if of_y or of_w else brainevent.fcnmv_dt2t
    wanted = np.asarray(w) * (np.asarray(y)[..., indices] if transpose else np.asarray(y)[..., None])
    found = call(w, indices, y, shape=(3, 4), transpose=transpose)
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape))
    assert found.shape == (*np.broadcast_shapes(of_y, of_w or ()), 3, 2)


def test_the_result_has_the_type_that_both_are_promoted_to():
    with jax.enable_x64(True):
        for of_y, of_w in (("float64", "float32"), ("float32", "float64"), ("int32", "float16"), ("bool", "float32")):
            y, w = jnp.ones(2, of_y), jnp.ones(3, of_w)
            wanted = jnp.promote_types(of_y, of_w)
            assert brainevent.csrmv_dt2t(y, w, INDICES, INDPTR, shape=(2, 3)).dtype == wanted
            fixed = brainevent.fcnmv_dt2t(w[:2, None], INDICES[:2, None], y, shape=(2, 3), transpose=False)
            assert fixed.dtype == wanted


# ---- methods --------------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=3)
@every_format
@both_ways
@pytest.mark.parametrize("turned", [False, True])
def test_every_matrix_multiplies_in_its_own_order(name, transpose, turned):
    matrix, stored, _ = drawn(name)
    matrix, stored = (matrix.T, stored.T) if turned else (matrix, stored)
    y, w = numbers(2, matrix.shape[transpose]), numbers(3, *matrix.data.shape)
    found = multiplied(matrix, y, w, transpose)
    assert found.shape == matrix.data.shape
    wanted = np.asarray(matrix.with_data(w).todense()) * (y if transpose else np.asarray(y)[:, None])
    np.testing.assert_array_equal(matrix.with_data(found).todense(), wanted)
    np.testing.assert_array_equal(
        matrix.with_data(multiplied(matrix, y, 2.0, transpose)).todense(),
        np.where(stored, 2.0, 0) * (y if transpose else np.asarray(y)[:, None]),
    )


@pytest.mark.covering(strength=1)
@by_platform
@every_format
@both_ways
@pytest.mark.parametrize("over", [(0, 0), (0, None), (None, 0)])
def test_batches_go_through_vmap(name, transpose, over):
    matrix, _, _ = drawn(name)
    sizes = (matrix.shape[transpose],), matrix.data.shape
    y, w = (
        numbers(i, *([5] * (axis is not None)), *size) for i, (axis, size) in enumerate(zip(over, sizes, strict=True))
    )
    found = jax.jit(jax.vmap(lambda y, w: multiplied(matrix, y, w, transpose), over))(y, w)
    for i in range(5):
        one = (x if axis is None else x[i] for x, axis in zip((y, w), over, strict=True))
        np.testing.assert_array_equal(found[i], multiplied(matrix, *one, transpose))


def test_batches_of_batches_are_one_call_of_the_operator():
    matrix, _, _ = drawn("CSR")
    y, w = numbers(0, 3, 2, 6), numbers(1, 2, matrix.nse, 3)
    both = jax.vmap(jax.vmap(matrix.dt2t), in_axes=(0, 2))
    text = str(jax.make_jaxpr(both)(y, w))
    assert text.count("csrmm_dt2t") == 1
    assert "csrmv_dt2t" not in text
    found = both(y, w)
    for i, j in np.ndindex(3, 2):
        np.testing.assert_array_equal(found[i, j], matrix.dt2t(y[i, j], w[j, :, i]))
    single = jax.vmap(lambda y: brainevent.csrmm_dt2t(y, w[0].T, matrix.indices, matrix.indptr, shape=matrix.shape))
    np.testing.assert_array_equal(single(y[:, :1])[2, 1], matrix.dt2t(y[2, 0], w[0, :, 1]))


def test_a_structure_that_is_mapped_goes_through_the_batch():
    indices = jnp.array([[0, 2, 2], [1, 0, 0]])
    call = lambda y, i: brainevent.csrmv_dt2t(y, jnp.ones(3), i, INDPTR, shape=(2, 3), transpose=True)
    found = jax.vmap(call)(jnp.array([[1.0, 2, 3], [4, 5, 6]]), indices)
    np.testing.assert_array_equal(found, [[1, 3, 3], [5, 4, 4]])


def test_parameters_have_the_names_that_programs_use():
    for method in (CSR.dt2t, CSR.dt2t_transposed):
        assert list(inspect.signature(method).parameters) == ["self", "y_dim_arr", "w_dim_arr"]


@every_format
def test_old_names_say_the_new_ones(name):
    matrix, _, _ = drawn(name)
    for transpose, old, new in ((False, "yw_to_w", "dt2t"), (True, "yw_to_w_transposed", "dt2t_transposed")):
        y = numbers(0, matrix.shape[transpose])
        with pytest.warns(DeprecationWarning, match=rf"{old} is now called \w+\.{new}$") as caught:
            found = getattr(matrix, old)(y, matrix.data)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(found, multiplied(matrix, y, matrix.data, transpose))


# ---- derivatives ----------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=3)
@by_platform
@every_format
@both_ways
def test_derivatives_are_those_of_the_product(name, transpose):
    with jax.enable_x64(True):
        matrix, _, _ = drawn(name, dtype="float64")
        rows, columns = matrix._coordinates()
        places = (columns if transpose else rows).reshape(matrix.data.shape)
        y, w = numbers(4, matrix.shape[transpose], dtype="float64"), numbers(5, *matrix.data.shape, dtype="float64")
        loss = lambda y, w: jnp.sin(multiplied(matrix, y, w, transpose)).sum()
        true = lambda y, w: jnp.sin(w * y[places]).sum()
        close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12)

        @functools.partial(jax.jit, static_argnums=0)
        def derivatives(f, y, w):
            return jax.grad(f, (0, 1))(y, w), jax.jvp(f, (y, w), (y, 2 * w)), jax.hessian(f)(y, w)

        jax.tree.map(close, derivatives(loss, y, w), derivatives(true, y, w))


@pytest.mark.covering(strength=1, most=1)
@both_ways
@pytest.mark.parametrize(("of_y", "of_w"), [(3, 3), (1, 3), (3, 1)])
def test_derivatives_of_batches_sum_over_the_entries_that_a_single_row_serves(transpose, of_y, of_w):
    with jax.enable_x64(True):
        indices, indptr, *places = structure(0, (6, 8))
        y, w = numbers(0, of_y, (6, 8)[transpose], dtype="float64"), numbers(1, of_w, indices.size, dtype="float64")
        call = lambda y, w: brainevent.csrmm_dt2t(y, w, indices, indptr, shape=(6, 8), transpose=transpose)
        loss, true = (
            lambda y, w, f=f: jnp.sin(f(y, w)).sum() for f in (call, lambda y, w: w * y[:, places[transpose]])
        )
        close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12)
        found, wanted = (jax.jit(jax.grad(f, (0, 1)))(y, w) for f in (loss, true))
        jax.tree.map(close, found, wanted)


# ---- promises, units, and what bad input gets -----------------------------------------------------------------------


def operands_of(name):
    """Return operands with which `check` calls an operator."""
    indices, indptr, *_ = structure(3, (8, 12))
    batch = (3,) if "mm" in name else ()
    return numbers(0, *batch, 8), numbers(1, *batch, indices.size), indices, indptr


@pytest.mark.thorough  # test_event_table.py holds each operator to some
@both_ways
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_every_promise(platform, name, transpose):
    y, *rest = operands_of(name)
    y = jnp.concatenate([y, y[..., :4]], -1) if transpose else y
    report = brainevent.check(getattr(brainevent, name), y, *rest, shape=(8, 12), transpose=transpose)
    report.raise_if_failed()
    assert platform == "cpu" or {row.backend for row in report.rows if row.status == "ok"} == {"cuda_raw"}


@pytest.mark.parametrize("name", OPERATORS)
def test_they_are_found_called_and_measured(name):
    found = getattr(brainevent, name)
    assert found.name in brainevent.get_primitives_by_tags({"csr", "float"})
    assert all(config.bytes > 0 for config in found.definition.benchmark_data(platform="cpu"))
    (result,) = found.call(*operands_of(name), shape=(8, 12))
    y, w, *_ = operands_of(name)
    np.testing.assert_array_equal(result, w * y[..., structure(3, (8, 12))[2]])


def test_units_are_those_of_w_or_of_both():
    u = pytest.importorskip("brainunit")
    y, w = jnp.array([1.0, 2.0]) * u.mA, jnp.ones(3) * u.mV
    found = brainevent.csrmv_dt2t(y, w, INDICES, INDPTR, shape=(2, 3))
    assert u.get_unit(found) == u.mV
    np.testing.assert_array_equal(found.mantissa, [1, 1, 2])
    assert u.get_unit(brainevent.csrmm_dt2t(y[None], w, INDICES, INDPTR, shape=(2, 3))) == u.mV
    for kind in (CSR, COO, Dense):
        matrix = kind.fromdense(jnp.eye(2))
        assert u.get_unit(matrix.dt2t(y, matrix.data * u.mV)) == u.mV
    found = FixedNumPerPre.fromdense(jnp.eye(2)).dt2t(y, 1.0 * u.mV)
    assert u.math.allclose(found, jnp.array([[1.0], [2.0]]) * u.mV * u.mA)
    batch = brainevent.fcnmm_dt2t(1.0 * u.mV, jnp.array([[0], [1]]), y[None], shape=(2, 2), transpose=True)
    assert u.math.allclose(batch, jnp.array([[[1.0], [2.0]]]) * u.mV * u.mA)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda f: f.csrmv_dt2t(jnp.ones(3), jnp.ones(3), INDICES, INDPTR, shape=(2, 3)), ShapeError,
         r"csrmv_dt2t: y has shape \(3,\); pass one value for each of 2"),
        (lambda f: f.csrmv_dt2t(jnp.ones((1, 2)), jnp.ones(3), INDICES, INDPTR, shape=(2, 3)), MathError,
         r"csrmv_dt2t: y has shape \(1, 2\); its rank must be 1; call csrmm_dt2t"),
        (lambda f: f.cscmv_dt2t(jnp.ones(3), jnp.ones(2), INDICES, INDPTR, shape=(3, 2)), ShapeError,
         r"cscmv_dt2t: w has shape \(2,\); pass one number, or one for each stored element, \(3,\)"),
        (lambda f: f.csrmv_dt2t(jnp.ones(2), jnp.ones(3, "int32"), INDICES, INDPTR, shape=(2, 3)), TypeError,
         r'csrmv_dt2t: w is int32; pass floating values \(w.astype\("float32"\)\)'),
        (lambda f: f.csrmv_dt2t(jnp.ones(2) * 1j, jnp.ones(3), INDICES, INDPTR, shape=(2, 3)), TypeError,
         "csrmv_dt2t: y is complex64; pass booleans, integers or real numbers"),
        (lambda f: f.csrmm_dt2t(jnp.ones(2), jnp.ones(3), INDICES, INDPTR, shape=(2, 3)), MathError,
         "csrmm_dt2t: neither y nor w has an axis for a batch; call csrmv_dt2t"),
        (lambda f: f.cscmm_dt2t(jnp.ones((2, 3)), jnp.ones((4, 3)), INDICES, INDPTR, shape=(3, 2)), ShapeError,
         r"cscmm_dt2t: y has shape \(2, 3\) and w \(4, 3\); pass batches of the same size"),
        (lambda f: f.csrmv_dt2t(jnp.ones(2), 1.0, INDICES, jnp.array([0, 3]), shape=(2, 3)), ShapeError,
         r"csrmv_dt2t: indptr has shape \(2,\); it must have 3 elements"),
        (lambda f: f.fcnmv_dt2t(jnp.ones((3, 1)), INDICES[:2, None], jnp.ones(2), shape=(2, 3), transpose=False),
         ShapeError, r"fcnmv_dt2t: weights has shape \(3, 1\); pass one number, or one for each stored"),
        (lambda f: f.fcnmv_dt2t(1.0, INDICES[:, None], jnp.ones(2), shape=(2, 3), transpose=False), ShapeError,
         r"fcnmv_dt2t: indices has shape \(3, 1\); for shape=\(2, 3\) it must have 2 rows"),
        (lambda f: f.fcnmm_dt2t(1.0, INDICES[:2, None], jnp.ones(2), shape=(2, 3), transpose=False), MathError,
         "fcnmm_dt2t: neither y nor weights has an axis for a batch; call fcnmv_dt2t"),
        (lambda f: f.fcnmv_dt2t(1.0, jnp.array([[7]]), jnp.ones(1), shape=(1, 3), transpose=True), ValueError,
         "fcnmv_dt2t: indices holds 7, out of range for a size of 3"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported(call, error, says):
    with pytest.raises(error, match=says):
        call(brainevent)


@every_format
def test_matrices_say_what_does_not_fit(name):
    matrix, _, _ = drawn(name)
    for method in ("dt2t", "dt2t_transposed"):
        with pytest.raises(ShapeError, match=r"y has shape \(99,\); pass one value for each of"):
            operator.methodcaller(method, jnp.ones(99), matrix.data)(matrix)
        size = matrix.shape[method != "dt2t"]
        with pytest.raises(ShapeError, match=r"has shape \(99,\); pass one number, or one for each stored element"):
            operator.methodcaller(method, jnp.ones(size), jnp.ones(99))(matrix)


@pytest.mark.parametrize("backend", ["numba", "jax_raw"])
def test_places_of_a_trace_that_are_out_of_range_give_zero(backend):
    how = {"shape": (2, 3), "backend": backend}
    w = jnp.array([1.0, jnp.inf, jnp.nan])

    @jax.jit
    def run(indices, indptr):
        y = jnp.array([1.0, 2.0, 3.0])
        by_column = brainevent.csrmv_dt2t(y, w, indices, indptr, transpose=True, **how)
        return by_column, brainevent.csrmv_dt2t(y[:2], w, indices, indptr, **how)

    by_column, by_row = run(jnp.array([1, -1, 3]), jnp.array([0, 1, 1]))
    np.testing.assert_array_equal(by_column, [2, 0, 0])
    np.testing.assert_array_equal(by_row, [1, 0, 0])
    fixed = jax.jit(lambda i: brainevent.fcnmv_dt2t(w[:, None], i, jnp.ones(3), shape=(3, 3), transpose=True))
    np.testing.assert_array_equal(fixed(jnp.array([[0], [9], [-1]])), [[1], [0], [0]])
