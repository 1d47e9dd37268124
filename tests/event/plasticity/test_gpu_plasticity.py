# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: weights after spikes, in every format."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_plasticity import FORMATS, OPERATORS, SHAPE, drawn, expected, neurons, operands_of, updated

import brainevent

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("gpu")[0]):
        yield


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_every_promise(name):
    operator = getattr(brainevent, name)
    assert operator.get_default("gpu") == "cuda_raw"
    report = brainevent.check(operator, *jax.device_put(operands_of(name), jax.devices("gpu")[0]))
    report.raise_if_failed()
    assert {row.backend for row in report.rows if row.status == "ok"} == {"cuda_raw"}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("side", ["pre", "post"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_synapses_of_who_spikes_have_the_trace_of_the_other_end_added(name, side, dtype):
    for seed, shape in enumerate((SHAPE, (700, 3), (3, 700))):
        matrix, stored, dense = drawn(name, seed, dtype, shape)
        spikes, traces = neurons(seed, shape)
        found = jax.jit(lambda m, s=spikes, t=traces: updated(m, side, s, t))(matrix)
        np.testing.assert_array_equal(
            np.asarray(found.todense(), "float64"), expected(stored, dense, side, spikes, traces)
        )


def test_an_index_out_of_range_is_left_alone():
    indices, indptr = jnp.array([0, 7, -3, 1]), jnp.array([0, 2, 4])
    how = {"shape": (2, 2), "backend": "cuda_raw"}
    spikes = jnp.array([True, True])
    update = jax.jit(lambda i: brainevent.update_csr_on_binary_pre(jnp.zeros(4), i, indptr, spikes, jnp.ones(2), **how))
    np.testing.assert_array_equal(update(indices), [1, 0, 0, 1])
