# SPDX-License-Identifier: Apache-2.0
"""`TCSR`: products of a `CSR`, options that it keeps, and the gradient of weights that it chooses."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brainevent import CSC, CSR, TCSR, BinaryArray, WeightedArray

DENSE = jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
PLAIN = CSR.fromdense(DENSE)
X = jnp.array([0.5, -2.0])


def test_products_are_those_of_a_csr():
    matrix = TCSR(PLAIN, backward_algorithm="pp_prop", binary_backend="reference")
    assert isinstance(matrix, CSR)
    for x in (X, BinaryArray(X), WeightedArray(X), X > 0):
        np.testing.assert_array_equal(x @ matrix, x @ PLAIN)
        np.testing.assert_array_equal(matrix.T @ x, x @ PLAIN)


def test_backends_are_chosen_by_operand():
    matrix, y = TCSR(PLAIN, backend="numba", binary_backend="reference"), jnp.ones(3)
    text = lambda x: jax.jit(lambda x: matrix @ x).lower(x).as_text()
    assert "brainevent_numba" in text(y)
    assert "brainevent_numba" not in text(y > 0)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("algorithm", "counts"), [("bptt", [1, 1]), ("pp_prop", [0.5, -2])])
def test_gradients(algorithm, counts, turned):
    matrix = TCSR(PLAIN, backward_algorithm=algorithm)
    weights = jnp.array([1.0, 10.0, 100.0])

    def loss(data, x):
        found = matrix.with_data(data).T @ BinaryArray(x) if turned else BinaryArray(x) @ matrix.with_data(data)
        return (found * weights).sum()

    by_data, by_x = jax.jit(jax.grad(loss, (0, 1)))(matrix.data, X)
    np.testing.assert_allclose(by_data, [counts[0] * 10, counts[0] * 100, counts[1]])
    np.testing.assert_allclose(by_x, DENSE @ weights)
    batch = jax.vmap(jax.grad(loss), (None, 0))(matrix.data, jnp.stack([X, 0 * X]))
    np.testing.assert_allclose(batch, [by_data, 0 * by_data])


def test_options_are_kept():
    matrix = TCSR(PLAIN, backward_algorithm="pp_prop", binary_backend="numba")
    others = (
        jax.jit(lambda m: m)(matrix), matrix.T, matrix.T.T, 2 * matrix, matrix.slice_rows([1]),
        matrix.with_data(jnp.ones(3)), pickle.loads(pickle.dumps(matrix)), matrix.update_on_pre(X, jnp.ones(3)),
        matrix.build_weight_indices(),
    )  # fmt: skip
    for other in others:
        assert (other.backward_algorithm, other.binary_backend) == ("pp_prop", "numba")
    assert [type(m).__name__ for m in others[:5]] == ["TCSR", "TCSC", "TCSR", "TCSR", "TCSR"]
    assert type(matrix.tocsr()) is CSR
    assert type(matrix.T.tocsc()) is CSC


def test_tcsr_is_made_from_every_source():
    for made in (
        TCSR.fromcsr(PLAIN), TCSR.from_sorted_csr(PLAIN), TCSR.fromcsc(PLAIN.tocsc()), TCSR.fromdense(DENSE, nse=4),
        TCSR(PLAIN.data, PLAIN.indices, PLAIN.indptr, shape=PLAIN.shape),
    ):  # fmt: skip
        assert type(made) is TCSR
        np.testing.assert_array_equal(made.todense(), DENSE)
    matrix = TCSR(PLAIN)
    assert not matrix.has_tcsc_mirror
    assert matrix.materialize_tcsc_mirror().has_tcsc_mirror


def test_wrong_options_are_reported():
    with pytest.raises(ValueError, match="backward_algorithm is 'rtrl'; pass one of bptt, pp_prop"):
        TCSR(PLAIN, backward_algorithm="rtrl")
    with pytest.raises(TypeError, match=r"TCSR.fromcsr: CSC is not a CSR; call its tocsr\(\)"):
        TCSR.fromcsr(PLAIN.T)
    with pytest.raises(TypeError, match=r"TCSR.fromcsc: CSR is not a CSC"):
        TCSR.fromcsc(PLAIN)
