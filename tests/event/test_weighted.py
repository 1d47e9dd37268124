# SPDX-License-Identifier: Apache-2.0
"""Events that count as their values: float products in which zeros are left out, whatever weights they meet."""

import dataclasses

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product_promises import ninety
from sparse_products import FLOATS, NUMBERS, close, coordinates, operand

import brainevent
from brainevent import COO, BinaryArray, Dense, FixedNumPerPost, FixedNumPerPre, WeightedArray
from brainevent.backends.numba.inner import inner
from brainevent.event.on_cpu import walks
from brainevent.event.on_cpu.rows import compressed
from brainevent.event.on_cpu.terms import product

pytestmark = pytest.mark.covering

__all__ = ["ninety"]

FORMATS = {
    "COO": lambda coo: coo,
    "CSR": lambda coo: coo.tocsr(),
    "CSC": lambda coo: coo.tocsc(),
    "CSR, turned": lambda coo: coo.tocsr().precompute_weight_indices(),
    "Dense": lambda coo: Dense(coo.todense()),
    "FixedNumPerPre": lambda coo: FixedNumPerPre.fromsparse(coo, num_conn=coo.nse),
    "FixedNumPerPost": lambda coo: FixedNumPerPost.fromsparse(coo, num_conn=coo.nse),
    "an array": lambda coo: coo.todense(),
}
LIKE_OTHERS = ("CSC", "CSR, turned", "FixedNumPerPost")
formats = pytest.mark.parametrize("name", FORMATS)
few_formats = pytest.mark.parametrize(  # of rows; what is of columns is that, turned
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name in LIKE_OTHERS else name for name in FORMATS]
)


def made(name, seed=0, m=5, k=7, connections=3, **options):
    sparse = coordinates(seed, m, k, connections, homogeneous=False, **options)
    return FORMATS[name](COO(sparse.weights, *sparse.indices, shape=sparse.shape)), sparse


@settings(max_examples=2)
@given(
    name=st.sampled_from(list(FORMATS)),
    seed=st.integers(0, 99),
    m=st.integers(0, 20),
    k=st.integers(0, 20),
    columns=st.none() | st.integers(0, 5),
    dtype=st.sampled_from(FLOATS),
    of_x=st.sampled_from(NUMBERS),
)
def test_products_are_those_of_numbers(name, seed, m, k, columns, dtype, of_x):
    with jax.enable_x64(True):
        matrix, sparse = made(name, seed, m, k, dtype=dtype)
        for size, transpose in ((m, True), (k, False)):
            x = operand(seed, size, columns, of_x)
            found = (WeightedArray(x.T) @ matrix).T if transpose else matrix @ WeightedArray(x)
            if of_x.startswith(("float", "bfloat")):
                assert found.dtype == jnp.result_type(sparse.weights, x)
            close(found, sparse.product(x, transpose=transpose, event=False), str(found.dtype))


@pytest.mark.covering(strength=1, most=2)
@few_formats
@pytest.mark.parametrize("weight", [jnp.nan, jnp.inf])
def test_weights_that_meet_a_zero_add_nothing(name, weight):
    dense = jnp.ones((3, 4)).at[1].set(weight)
    matrix = FORMATS[name](COO.fromdense(dense))
    x = jnp.array([2.0, 0.0, 3.0])
    np.testing.assert_array_equal(WeightedArray(x) @ matrix, [5, 5, 5, 5])
    np.testing.assert_array_equal(matrix.T @ WeightedArray(x), [5, 5, 5, 5])
    batch = jnp.stack([x, -x, jnp.ones(3)])
    np.testing.assert_array_equal((WeightedArray(batch) @ matrix)[:2], [[5] * 4, [-5] * 4])
    assert not jnp.isfinite((WeightedArray(batch) @ matrix)[2]).any()


@pytest.mark.covering(strength=1, most=2)
@few_formats
def test_derivatives_are_those_of_numbers(name):
    matrix, _ = made(name)
    data = matrix if name == "an array" else matrix.data
    with_data = (lambda data: data) if name == "an array" else matrix.with_data
    x = jnp.array([0.0, 1.5, 0.0, -2.0, 0.0])

    def gradients(form):
        loss = lambda data, x: (jnp.sin(form(x) @ with_data(data)) ** 2).sum()
        return jax.jit(lambda *both: (jax.grad(loss, (0, 1))(*both), jax.hessian(loss, 1)(*both)))(data, x)

    jax.tree.map(lambda a, b: close(a, b), gradients(WeightedArray), gradients(lambda x: x))
    one, other = (
        jax.vmap(lambda x, form=form: form(x) @ matrix)(jnp.stack([x, 2 * x])) for form in (WeightedArray, jnp.asarray)
    )
    close(one, other)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("walk", [walks.scatter, walks.scatter_columns], ids=["mv", "mm"])
def test_rows_of_zeros_are_not_visited(walk):
    """Elements are counted in a further array of the structure."""

    @inner
    def counted_column(structure, row, j):
        structure[2][0] += 1
        return structure[0][j]

    rows = dataclasses.replace(compressed(within=True), column=counted_column)
    law = product("float32", event=False, homogeneous=True, silent=True)
    kernel = numba.njit(walk(law, rows).py_func)
    structure = np.arange(40) % 8, np.arange(11) * 4, np.zeros(1, np.int64)
    x, out = np.zeros(10 if walk is walks.scatter else (10, 2), np.float32), np.empty((8, 2), np.float32)
    x[3], x[7] = 2, -0.5
    kernel(np.ones(1, np.float32), structure, x, 0, 10, out[:, 0] if x.ndim == 1 else out)
    assert structure[2][0] == 8
    np.testing.assert_array_equal(out[:, 0], [1.5 if i in (4, 5, 6, 7) else 0 for i in range(8)])


@pytest.mark.parametrize("name", ["COO", "CSR", "CSR, turned", "FixedNumPerPre"])
def test_kernels_are_native(name):
    matrix, _ = made(name)
    for text in (
        jax.jit(lambda m, x: WeightedArray(x) @ m).lower(matrix, jnp.ones(5)).as_text(),
        jax.jit(lambda m, x: m @ WeightedArray(x)).lower(matrix, jnp.ones(7)).as_text(),
    ):
        assert "custom_call @brainevent_numba" in text


@pytest.mark.parametrize("columns", [None, 2])
def test_functions_take_it_as_a_keyword_and_know_the_form(columns):
    matrix, sparse = made("CSR")
    x = operand(3, 5, columns, "float32")
    wanted = sparse.product(x, transpose=True, event=False)
    kind = "mv" if columns is None else "mm"
    arrays, turned = (matrix.data, matrix.indices, matrix.indptr), jnp.arange(matrix.nse)
    fixed = FORMATS["FixedNumPerPre"](matrix)
    calls = {
        f"binary_csr{kind}": (*arrays, x),
        f"binary_csr{kind}_indexed": (*arrays, turned, x),
        f"binary_fcn{kind}": (fixed.data, fixed.indices, x),
        f"binary_dense{kind}": (matrix.todense(), x),
    }
    for name, (*operands, x) in calls.items():
        how = {"transpose": True} | ({} if "dense" in name else {"shape": matrix.shape})
        function = getattr(brainevent, name)
        close(function(*operands, x, weighted=True, backend="numba", **how), wanted)
        close(function(*operands, WeightedArray(x), **how), wanted)
        words = (
            rf"^{name}: weighted is True, but each event of a BinaryArray counts as 1; .* pass brainevent.WeightedAr"
        )
        with pytest.raises(ValueError, match=words):
            function(*operands, BinaryArray(x), weighted=True, **how)
    close(getattr(brainevent, f"csr{kind}")(*arrays, WeightedArray(x), shape=matrix.shape, transpose=True), wanted)


@pytest.mark.parametrize("name", ["COO", "CSR"])
def test_kernels_for_gpus_are_compiled(ninety, name):
    """They are not run: what counts in them is in one line, `laws.cu`."""
    traced = jax.jit(lambda m, x: WeightedArray(x) @ m).trace(made(name)[0], jnp.ones(5))
    assert "custom_call @brainevent" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_values_arrive_later():
    matrix, x = made("CSR")[0], jnp.array([0.0, 2.0, 0.0, -0.5, 1.0])
    ring, delays = jnp.zeros((4, 7)), jnp.arange(matrix.nse) % 3 + 1
    found = matrix.delay_deliver(ring, WeightedArray(x), delays, 1)
    close(found, matrix.delay_deliver(ring, x, delays, 1, weighted=True))
    close(found.sum(0), x @ matrix)


def test_integers_are_multiplied_as_integers():
    found = WeightedArray(jnp.array([0, 3])) @ jnp.array([[1, 2], [3, 4]])
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, [9, 12])


def test_units_multiply():
    units = pytest.importorskip("brainunit")
    found = WeightedArray(jnp.array([0.0, 2.0]) * units.mS) @ (brainevent.CSR.fromdense(jnp.eye(2)) * units.mV)
    assert units.math.allclose(found, jnp.array([0.0, 2.0]) * units.uA)


def test_it_holds_its_values():
    events = WeightedArray([0.0, 2.0])
    assert isinstance(events, brainevent.EventRepresentation)
    assert not isinstance(events, BinaryArray)
    assert type(events.T) is type(events.with_value(jnp.ones(3))) is WeightedArray
    np.testing.assert_array_equal(jax.jit(lambda e: e)(events).value, [0, 2])
    with pytest.raises(TypeError, match="complex64; pass booleans, integers or real numbers"):
        WeightedArray(jnp.ones(2, complex))
    with pytest.raises(brainevent.MathError, match=r"CSR\(2, 2\) @ x: x has shape \(1, 1, 2\)"):
        brainevent.CSR.fromdense(jnp.eye(2)) @ WeightedArray(jnp.ones((1, 1, 2)))
