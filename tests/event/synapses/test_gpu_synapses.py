# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: values of synapses times values of neurons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_plasticity import FORMATS, drawn
from test_synapses import OPERATORS, multiplied, numbers, operands_of, structure

import brainevent

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("gpu")[0]):
        yield


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("transpose", [False, True])
def test_operators_keep_every_promise(name, transpose):
    operator = getattr(brainevent, name)
    assert operator.get_default("gpu") == "cuda_raw"
    y, *rest = operands_of(name)
    y = jnp.concatenate([y, y[..., :4]], -1) if transpose else y
    operands = jax.device_put((y, *rest), jax.devices("gpu")[0])
    report = brainevent.check(operator, *operands, shape=(8, 12), transpose=transpose)
    report.raise_if_failed()
    assert {row.backend for row in report.rows if row.status == "ok"} == {"cuda_raw"}


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 8), (700, 3), (3, 700), (0, 4), (5, 0)])
def test_compressed_rows(transpose, dtype, shape):
    indices, indptr, *places = structure(0, shape)
    for of_y, of_w in (((), ()), ((4,), (4,)), ((1,), (4,)), ((4,), ())):
        y, w = numbers(0, *of_y, shape[transpose], dtype=dtype), numbers(1, *of_w, indices.size, dtype=dtype)
        call = brainevent.csrmm_dt2t if of_y or of_w else brainevent.csrmv_dt2t
        found = call(y, w, indices, indptr, shape=shape, transpose=transpose, backend="cuda_raw")
        wanted = np.asarray(w, "float64") * np.asarray(y, "float64")[..., places[transpose]]
        np.testing.assert_array_equal(np.asarray(found, "float64"), wanted)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("transpose", [False, True])
def test_batches_and_derivatives(name, transpose):
    matrix, _, _ = drawn(name)
    y, w = numbers(0, 5, matrix.shape[transpose]), numbers(1, 5, *matrix.data.shape)
    batched = jax.jit(jax.vmap(lambda y, w: multiplied(matrix, y, w, transpose)))
    for i in range(5):
        np.testing.assert_array_equal(batched(y, w)[i], multiplied(matrix, y[i], w[i], transpose))
    rows, columns = matrix._coordinates()
    places = (columns if transpose else rows).reshape(matrix.data.shape)
    found = jax.grad(lambda y, w: jnp.sin(multiplied(matrix, y, w, transpose)).sum(), (0, 1))(y[0], w[0])
    wanted = jax.grad(lambda y, w: jnp.sin(w * y[places]).sum(), (0, 1))(y[0], w[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, wanted)
