# SPDX-License-Identifier: Apache-2.0
"""Drawn connectivity: what it is given, right and wrong; arithmetic, units and programs that are saved."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from quantities import u

import brainevent
from brainevent import JITCNormalR, JITCScalarC, JITCScalarR, JITCUniformC, JITCUniformR
from brainevent.errors import KernelCompilationError, MathError, ShapeError, UnsupportedOperationError
from brainevent.event.drawn.format import tables
from brainevent.event.drawn.numbers import NORMAL
from brainevent.event.drawn.on_gpu import cuda_product, cuda_whole

SHAPE = (20, 30)
X = jnp.ones(30)


def scalar(weight=1.5, prob=0.3, seed=3, **how):
    return JITCScalarR((weight, prob, seed), **{"shape": SHAPE, **how})


def normal(loc=1.0, scale=0.5, prob=0.3, seed=3, **how):
    return JITCNormalR((loc, scale, prob, seed), **{"shape": SHAPE, **how})


def uniform(low=0.5, high=1.5, prob=0.3, seed=3, **how):
    return JITCUniformR((low, high, prob, seed), **{"shape": SHAPE, **how})


# ---- probabilities and seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda prob: scalar(prob=prob),
    lambda prob: normal(prob=prob),
    lambda prob: brainevent.jitu(0.0, 1.0, prob, 3, shape=SHAPE),
    lambda prob: brainevent.binary_jitnmv(0.0, 1.0, prob, X, 3, shape=SHAPE),
])  # fmt: skip
@pytest.mark.parametrize(("prob", "error", "words"), [
    (-0.1, ValueError, r"prob is -0.1; prob must be in \[0, 1\]"),
    (1.5, ValueError, r"prob is 1.5; prob must be in \[0, 1\]"),
    (float("nan"), ValueError, "prob is nan; prob must be finite"),
    (np.inf, ValueError, "prob must be finite"),
    (jnp.array([0.1, 0.2]), ValueError, r"prob must be a scalar; found the shape \(2,\)"),
    ("half", TypeError, "prob is 'half'; pass a probability"),
    (None, TypeError, "prob is None; pass a probability from 0 to 1"),
    ([None], TypeError, r"prob is \[None\]; pass a probability"),
])  # fmt: skip
def test_bad_probabilities_are_refused(make, prob, error, words):
    with pytest.raises(error, match=words):
        make(prob)


@pytest.mark.parametrize(("prob", "nse"), [(-0.5, 0), (float("nan"), 0), (1e-30, 0), (1.5, 600), (float("inf"), 600)])
def test_bad_probabilities_in_a_trace_count_as_none_or_all(prob, nse):
    found = jax.jit(lambda prob: brainevent.jits(1.0, prob, 3, shape=SHAPE))(prob)
    assert float(found.sum()) == nse


@pytest.mark.parametrize("seed", [
    np.int8(3), np.uint64(3), np.array([3]), jnp.int32(3), jnp.uint8(3), jnp.array([3]), jnp.array([3, 0], jnp.uint32)
])  # fmt: skip
def test_the_same_seed_of_any_type_is_the_same(seed):
    np.testing.assert_array_equal(scalar(seed=seed).todense(), scalar(seed=3).todense())


def test_seeds_are_different_numbers_of_64_bits():
    seeds = [0, 1, -1, 2**32 - 1, 2**31, 2**63, 3, jax.random.key(1), jax.random.PRNGKey(2)]
    seeds.append(jax.random.key(3, impl="rbg"))
    found = {np.asarray(scalar(seed=seed).todense()).tobytes() for seed in seeds}
    assert len(found) == len(seeds)
    for one, other in ((-1, jnp.int32(-1)), (-1, 2**64 - 1), (-1, np.int64(-1)), (2**32 - 1, jnp.uint32(2**32 - 1))):
        np.testing.assert_array_equal(scalar(seed=one).seed, scalar(seed=other).seed)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(scalar(seed=jnp.int64(-7)).seed, scalar(seed=-7).seed)
    assert (scalar(seed=scalar(seed=2**40 + 5).seed).todense() == scalar(seed=2**40 + 5).todense()).all()


@pytest.mark.parametrize(("seed", "error", "words"), [
    (1.5, TypeError, "seed is 1.5; pass an integer, a key of jax.random.key, or None"),
    (jnp.float32(1), TypeError, "seed is float32; pass an integer"),
    ("1", TypeError, "seed is '1'"),
    (np.array([1, 2]), ValueError, r"seed has the shape \(2,\); a matrix has one seed"),
    (jnp.array([1, 2, 3]), ValueError, "a matrix has one seed"),
])  # fmt: skip
def test_bad_seeds_are_refused(seed, error, words):
    with pytest.raises(error, match=words):
        scalar(seed=seed)
    with pytest.raises(error, match=words):
        brainevent.jitsmv(1.0, 0.5, X, seed, shape=SHAPE)


def test_without_a_seed_a_matrix_draws_one_when_it_is_made():
    matrix = scalar(seed=None)
    dense = matrix.todense()
    np.testing.assert_array_equal(matrix.todense(), dense)
    np.testing.assert_allclose(matrix @ X, dense.sum(1), rtol=1e-6)
    assert (scalar(seed=None).todense() != dense).any()
    product = lambda: brainevent.jitsmv(1.0, 0.5, jnp.arange(30.0), shape=SHAPE)
    assert (product() != product()).any()
    with pytest.raises(TypeError, match="jits: seed is None; pass an integer"):
        brainevent.jits(1.0, 0.5, None, shape=SHAPE)
    with pytest.raises(TypeError, match="jitsmv_dt2t: seed is None"):
        brainevent.jitsmv_dt2t(1.0, 0.5, jnp.ones(20), None, shape=SHAPE)


def test_a_probability_has_no_dimension():
    with pytest.raises(TypeError, match="pass a probability"):
        scalar(prob=0.1 * u.mV)
    assert float(scalar(prob=0.3 * u.UNITLESS).prob) == np.float32(0.3)
    assert float(scalar(prob=300 * u.mV / u.volt).prob) == np.float32(0.3)


# ---- numbers, shapes and operands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: uniform(2.0, 1.0), ValueError, "JITCUniformR: wlow must be <= whigh; found 2.0 and 1.0"),
    (lambda: uniform(1 * u.volt, 500 * u.mV), ValueError, "wlow must be <= whigh"),
    (lambda: uniform().with_data((2.0, 1.0)), ValueError, "wlow must be <= whigh"),
    (lambda: normal().with_data(1.0), ValueError, "JITCNormalR.with_data: pass wloc, wscale"),
    (lambda: JITCScalarR((1.0, 0.5), shape=SHAPE), ValueError, r"2 values are given; pass \(weight, prob, seed\)"),
    (lambda: JITCScalarR((1.0, 0.5, 3)), TypeError, "no shape is given"),
    (lambda: scalar(shape=(3,)), ValueError, "pass two sizes"),
    (lambda: scalar(jnp.ones(2)), ShapeError, r"weight has shape \(2,\); pass one weight"),
    (lambda: scalar(jnp.int32(2)), TypeError, "weight is int32; pass floating weights"),
    (lambda: brainevent.jitn(1.0 * u.mV, 1.0, 0.5, 3, shape=SHAPE), Exception, "unit"),
    (lambda: scalar() @ jnp.ones(20), ShapeError, "its first axis must be 30"),
    (lambda: brainevent.jitsmv(1.0, 0.5, X, 3, shape=(30, 20)), ShapeError, r"takes vector of 20 rows"),
    (lambda: brainevent.jitsmv(1.0, 0.5, jnp.ones((30, 2)), 3, shape=SHAPE), MathError, "call jitsmm"),
    (lambda: brainevent.jitsmv(1.0, 0.5), TypeError, r"jitsmv: missing a required argument: 'vector'; it is called as"),
    (lambda: scalar() @ jnp.ones((2, 2, 2)), MathError, "pass a vector or a matrix"),
    (lambda: scalar().nse, AttributeError, "nse is unknown before the elements are drawn"),
    (lambda: jax.jit(lambda m: m.tocsr())(scalar()), RuntimeError, "call it outside of jax.jit"),
    (lambda: scalar(shape=(2**30, 2**30)).tocsr(), MemoryError, "JITCScalarR.tocsr: about 3[0-9]{17} elements would"),
    (lambda: scalar(seed=3 * u.mV), TypeError, r"seed is Quantity\(3, .mV.\); pass an integer"),
    (lambda: JITCScalarR.fromdense(jnp.eye(2)), UnsupportedOperationError, "its elements are drawn"),
    (lambda: scalar().update_on_pre(X, X), UnsupportedOperationError, "stores no weight for each synapse; update"),
    (lambda: scalar() @ scalar(), NotImplementedError, "no product of two such matrices"),
    (lambda: scalar() * jnp.ones(SHAPE), NotImplementedError, r"\* with object of shape \(20, 30\)"),
    (lambda: scalar() + scalar(seed=4), NotImplementedError, "different seeds"),
    (lambda: scalar() + scalar(prob=0.4), NotImplementedError, "different prob"),
    (lambda: scalar() + scalar(shape=(2, 3)), NotImplementedError, "different shapes"),
    (lambda: scalar() + scalar(corder=True), NotImplementedError, "different corder"),
    (lambda: scalar() + normal(), NotImplementedError, "different distributions"),
    (lambda: abs(normal()), NotImplementedError, "other distributions of weights"),
    (lambda: uniform() * uniform(), NotImplementedError, "other distributions"),
    (lambda: uniform() % 2, NotImplementedError, "other distributions"),
    (lambda: normal().apply(jnp.exp), NotImplementedError, "other distributions"),
    (lambda: scalar() ** 2, TypeError, "unsupported operand"),
])  # fmt: skip
def test_errors_say_what_is_wrong(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("corder", [True, False])
def test_no_rows_and_no_columns(shape, corder):
    matrix = scalar(shape=shape, corder=corder)
    assert matrix.todense().shape == shape
    assert (matrix @ jnp.ones(shape[1])).tolist() == [0] * shape[0]
    assert (brainevent.BinaryArray(jnp.ones(shape[0], bool)) @ matrix).tolist() == [0] * shape[1]
    assert (matrix @ jnp.ones((shape[1], 2))).shape == (shape[0], 2)
    assert matrix.tocsr().nse == 0


def test_attributes_and_what_is_printed():
    matrix = normal(corder=True)
    assert (matrix.shape, matrix.size, matrix.ndim, len(matrix), matrix.dtype) == (SHAPE, 600, 2, 20, jnp.float32)
    assert (float(matrix.wloc), float(matrix.wscale), matrix.data) == (1.0, 0.5, (matrix.wloc, matrix.wscale))
    assert (float(uniform().wlow), float(uniform().whigh), float(scalar().weight)) == (0.5, 1.5, 1.5)
    np.testing.assert_allclose(matrix.prob, 0.3, rtol=1e-6)
    assert repr(matrix) == "JITCNormalR(float32[20, 30], corder=True)"
    assert isinstance(scalar(), brainevent.JITCScalarMatrix)
    assert isinstance(matrix, brainevent.JITCMatrix)
    assert JITCScalarR(1.5, 0.3, 3, shape=SHAPE).drawn.tolist() == scalar().drawn.tolist()
    with pytest.warns(DeprecationWarning, match="JITCHomoR is now called brainevent.JITCScalarR"):
        assert brainevent.JITCHomoR is JITCScalarR
    with warnings.catch_warnings(action="ignore"):
        assert brainevent.JITCHomoC is JITCScalarC


# ---- arithmetic and units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [scalar(), normal(), uniform()], ids=["scalar", "normal", "uniform"])
@pytest.mark.parametrize("function", [
    lambda m: m * 2, lambda m: 2 * m, lambda m: m / -2, lambda m: -m, lambda m: m + 1, lambda m: 1 - m, lambda m: m - 3,
    lambda m: m * jnp.array([-2.0])
])  # fmt: skip
def test_arithmetic_is_of_elements(matrix, function):
    dense = matrix.todense()
    found = function(matrix)
    assert type(found) is type(matrix)
    np.testing.assert_allclose(found.todense(), jnp.where(dense != 0, function(dense), 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((matrix + matrix).todense(), 2 * dense, rtol=1e-5)


def test_arithmetic_of_one_weight():
    matrix, dense = scalar(-1.5), scalar(-1.5).todense()
    for found, wanted in (
        (abs(matrix), 1.5),
        (matrix % 1, 0.5),
        (3 / matrix, -2),
        (2 % matrix, 2 % -1.5),
        (matrix * matrix, 2.25),
        (matrix.apply(jnp.exp), np.exp(np.float32(-1.5))),
    ):
        np.testing.assert_allclose(found.todense(), jnp.where(dense != 0, wanted, 0), rtol=1e-6)


def test_units():
    matrix = uniform(500 * u.mV, 1 * u.volt)
    assert matrix.todense().unit == u.mV
    assert float((matrix @ X)[0] / u.mV) >= 500 or (matrix.todense().mantissa[0] == 0).all()
    current = matrix @ (X * u.mA)
    assert u.get_unit(current).dim == (u.mV * u.mA).dim
    np.testing.assert_allclose(current.to_decimal(u.mV * u.mA), matrix.todense().mantissa.sum(1), rtol=1e-5)
    found = (normal() * (2 * u.mV)).todense()
    np.testing.assert_allclose(found.to_decimal(u.mV), 2 * normal().todense(), rtol=1e-6)
    assert u.get_unit(brainevent.jitnmv(1.0 * u.mV, 1.0 * u.volt, 0.5, X, 3, shape=SHAPE)) == u.mV
    y = jnp.ones(20) * u.mA
    assert u.get_unit(brainevent.jitsmv_dt2t(2.0 * u.mV, 0.3, y, 3, shape=SHAPE)).dim == (u.mV * u.mA).dim


# ---- programs that are saved -------------------------------------------------------------------------------------


def test_programs_that_take_and_return_them_are_saved():
    call = jax.jit(lambda matrix, x: ((matrix * 2).T, matrix @ x))
    matrix = JITCUniformC((0.5, 1.5, 0.3, 3), shape=SHAPE, corder=True)
    saved = export.deserialize(export.export(call, disabled_checks=brainevent.export_checks())(matrix, X).serialize())
    turned, found = saved.call(matrix, X)
    assert (type(turned), turned.shape, turned.corder) == (JITCUniformR, (30, 20), False)
    np.testing.assert_array_equal(turned.todense(), 2 * matrix.todense().T)
    np.testing.assert_array_equal(found, matrix @ X)


def test_a_mode_of_old_programs_is_ignored_with_a_warning():
    expected = brainevent.jits(1.5, 0.5, 3, shape=(4, 6))
    with pytest.warns(DeprecationWarning, match="jits: matrix_mode is ignored"):
        np.testing.assert_array_equal(brainevent.jits(1.5, 0.5, 3, shape=(4, 6), matrix_mode="mm"), expected)


# ---- operands of operators, which other programs may call --------------------------------------------------------

WORDS, FEW_WORDS = jnp.zeros(10, jnp.uint32), jnp.zeros(3, jnp.uint32)
REFUSED_OPERANDS = {
    "words": ((jnp.ones(2), FEW_WORDS, tables()), r"drawn is uint32\(3,\); pass uint32 \(10,\)"),
    "dtype": ((jnp.ones(2), WORDS.astype(jnp.int32), tables()), r"drawn is int32\(10,\); pass uint32 \(10,\)"),
    "tables": ((jnp.ones(2), WORDS, tables()[:3]), r"tables is int32\(3,\); pass int32 \(6976,\)"),
    "weights": ((jnp.ones(3), WORDS, tables()), r"weights has the shape \(3,\); pass \(2,\)"),
}


@pytest.mark.parametrize("backend", ["numba", "reference"])
@pytest.mark.parametrize("name", ["jitnmv", "binary_jitumm", "jitn"])
@pytest.mark.parametrize("case", ["words", "dtype", "tables"])
def test_operators_read_no_words_that_they_were_not_given(name, case, backend):
    operands, words = REFUSED_OPERANDS[case]
    shape = {"jitnmv": (4,), "binary_jitumm": (4, 2), "jitn": (4, 4)}[name]
    call = {"shape": (4, 4), "outs": [jax.ShapeDtypeStruct(shape, jnp.float32)], "backend": backend}
    call |= {} if name == "jitn" else {"transpose": True}
    with pytest.raises((ShapeError, KernelCompilationError), match=words):
        brainevent.get_registry()[name](*operands, *([] if name == "jitn" else [jnp.ones(shape)]), **call)


@pytest.mark.parametrize("case", REFUSED_OPERANDS)
def test_cuda_kernels_read_no_words_that_they_were_not_given(case):
    operands, words = REFUSED_OPERANDS[case]
    product = cuda_product([jax.ShapeDtypeStruct((4,), jnp.float32)], NORMAL, transpose=True, event=False)
    with pytest.raises(ShapeError, match=words):
        product(*operands, jnp.ones(4))
    with pytest.raises(ShapeError, match=words):
        cuda_whole([jax.ShapeDtypeStruct((4, 4), jnp.float32)], NORMAL)(*operands)
