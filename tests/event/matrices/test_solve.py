# SPDX-License-Identifier: Apache-2.0
"""Linear systems: against NumPy's solver, transposed and not, with derivatives, and what wrong ones get."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainevent import CSC, CSR, Dense
from brainevent.errors import MathError, ShapeError

FORMATS = {
    "CSR": CSR.fromdense,
    "CSC": CSC.fromdense,
    "CSR.T": lambda dense: CSR.fromdense(dense.T).T,
    "CSC.T": lambda dense: CSC.fromdense(dense.T).T,
    "Dense": Dense,
}
formats = pytest.mark.parametrize("name", FORMATS)


def system(seed, size, columns=None):
    """Return a matrix far from singular, and the right side."""
    random = np.random.default_rng(seed)
    dense = random.normal(size=(size, size)) * (random.random((size, size)) < 0.4) + size * np.eye(size)
    return jnp.asarray(dense, "float32"), jnp.asarray(random.normal(size=(size, columns or 1)), "float32")


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@settings(max_examples=8)
@given(
    name=st.sampled_from(list(FORMATS)),
    seed=st.integers(0, 99),
    size=st.sampled_from([0, 1, 5]),
    columns=st.integers(1, 3),
)
def test_solutions(name, seed, size, columns):
    dense, b = system(seed, size, columns)
    matrix = FORMATS[name](dense)
    close(matrix.solve(b), np.linalg.solve(np.float64(dense), np.float64(b)))
    close(matrix.solve(b[:, 0]), np.linalg.solve(np.float64(dense), np.float64(b[:, 0])))
    close(matrix.T.solve(b), np.linalg.solve(np.float64(dense.T), np.float64(b)))


@pytest.mark.covering(strength=1, most=2)
@formats
def test_derivatives_and_batches(name):
    dense, b = system(3, 4, 2)
    matrix = FORMATS[name](dense)
    of_dense = lambda dense, b: (jnp.sin(jnp.linalg.solve(dense, b)) ** 2).sum()
    of_data = lambda data, b: (jnp.sin(matrix.with_data(data).solve(b)) ** 2).sum()
    found, wanted = (jax.jit(jax.grad(f, (0, 1)))(x, b) for f, x in ((of_data, matrix.data), (of_dense, dense)))
    close(found[1], wanted[1])
    close(matrix.with_data(found[0]).todense(), wanted[0] if name == "Dense" else wanted[0] * (dense != 0))
    close(jax.vmap(matrix.solve, 1, 1)(b), np.linalg.solve(dense, b))
    many = jnp.stack([matrix.data, 2 * matrix.data])
    halves = jax.vmap(lambda data: matrix.with_data(data).solve(b))(many)
    close(halves[0], 2 * halves[1])


def test_one_weight_and_elements_that_are_stored_twice():
    twice = CSR(jnp.array([1.0, 2.0, 4.0]), [0, 0, 1], [0, 2, 3], shape=(2, 2))
    close(twice.solve(jnp.array([3.0, 8.0])), [1, 2])
    close(CSR(2.0, [1, 0], [0, 1, 2], shape=(2, 2)).solve(jnp.array([2, 4])), [2, 1])


@pytest.mark.parametrize("reorder", [0, 1, 2])
def test_options_are_taken(reorder):
    dense, b = system(4, 40)
    close(CSR.fromdense(dense).solve(b, reorder=reorder), np.linalg.solve(dense, b))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"CSR.solve: the matrix is singular, or nearly: .* tol is 0"):
        jax.block_until_ready(CSR.fromdense(dense).solve(b, tol=0.0, reorder=reorder))


def test_units_are_divided():
    units = pytest.importorskip("brainunit")
    for made in (CSR.fromdense, Dense):
        found = (made(2 * jnp.eye(2)) * units.mS).solve(jnp.ones(2) * units.uA)
        assert units.math.allclose(found, 0.5 * jnp.ones(2) * units.mV)


@formats
@pytest.mark.parametrize(
    ("dense", "b", "how", "error", "words"),
    [
        (jnp.ones((2, 2)), jnp.ones(2), {}, (np.linalg.LinAlgError, jax.errors.JaxRuntimeError), "matrix is singular"),
        (jnp.ones((2, 3)), jnp.ones(2), {}, ShapeError, r"has shape \(\d, \d\); pass a square one"),
        (jnp.eye(2), jnp.ones(3), {}, ShapeError, r"solve: b has shape \(3,\); its first axis must be 2"),
        (jnp.eye(2), 1.0, {}, MathError, r"b has shape \(\); pass a vector, or a matrix of columns"),
        (jnp.eye(2), jnp.ones(2, complex), {}, TypeError, "b is complex64; pass real numbers"),
        (jnp.eye(2), jnp.ones(2), {"reorder": 3}, (ValueError, TypeError), "reorder is 3; pass 0, 1|leave them out"),
        (jnp.eye(2), jnp.ones(2), {"tol": -1.0}, (ValueError, TypeError), "tol is -1.0; pass a number|leave them out"),
    ],
)  # fmt: skip
def test_wrong_systems_are_reported(name, dense, b, how, error, words):
    with pytest.raises(error, match=words):
        jax.block_until_ready(FORMATS[name](dense).solve(b, **how))
