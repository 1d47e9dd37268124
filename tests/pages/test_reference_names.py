# SPDX-License-Identifier: Apache-2.0
"""The reference answers to "reference", "jax_raw" and "jax", on every platform, but for names that kernels have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import XLACustomKernel

NAMES = ("reference", "jax_raw", "jax")
X = jnp.arange(1.0, 4.0)
EVERY = pytest.mark.parametrize("name", NAMES)


def by(factor):
    return lambda *, outs: lambda x: factor * x


@pytest.fixture
def op(unique_name):
    """An operator whose kernel multiplies by 2, and its reference by 3."""
    op = XLACustomKernel(unique_name())
    op.def_kernel("numba", "cpu", by(2))
    op.def_reference(lambda x: 3 * x)
    return op


@EVERY
def test_a_call_a_block_a_setting_and_a_default_find_it(op, name):
    assert op(X, backend=name)[0] == 3
    with brainevent.use_backend("cpu", name):
        assert op(X)[0] == 3
    assert op(X)[0] == 2
    brainevent.config.set_backend("cpu", name)
    assert op(X)[0] == 3
    brainevent.config.set_backend("cpu", None)
    op.set_default("cpu", name)
    assert op(X)[0] == 3
    assert op.get_default("cpu") == name


@EVERY
def test_programs_for_other_platforms_find_it(op, name):
    program = jax.export.export(jax.jit(lambda x: op(x, backend=name)), platforms=["cpu", "cuda", "tpu"])(X)
    assert "custom_call" not in program.mlir_module()


@EVERY
def test_check_and_benchmark_find_it(op, name):
    report = brainevent.check(op, X, backends=[name], promises=["jit"])
    assert {row.backend for row in report.rows} == {"reference"}
    op.def_call(lambda x, backend=None: op(x, backend=backend))
    op.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("x", (X,))])
    result = op.benchmark(platform="cpu", backends=["numba", name, "reference"], n_warmup=0, n_runs=1)
    assert [record.backend for record in result.records] == ["numba", "reference"]


def test_a_kernel_of_such_a_name_wins(op):
    op.def_kernel("jax_raw", "cpu", by(5))
    found = {name: float(op(X, backend=name)[0]) for name in NAMES}
    assert found == {"reference": 3, "jax_raw": 5, "jax": 3}
    assert "jax_raw" in op.available_backends("cpu")


def test_without_a_reference_a_kernel_of_such_a_name_is_what_all_of_them_mean(unique_name):
    op = XLACustomKernel(unique_name())
    op.def_kernel("jax_raw", "cpu", by(5))
    assert [float(op(X, outs=X, backend=name)[0]) for name in NAMES] == [5, 5, 5]


@EVERY
def test_without_either_the_error_names_what_there_is(unique_name, name):
    op = XLACustomKernel(unique_name())
    op.def_kernel("numba", "cpu", by(2))
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=f"no backend '{name}'.*registered there: numba"):
        op(X, outs=X, backend=name)


@EVERY
def test_no_warning_tells_of_it(op, name, recwarn):
    with brainevent.use_backend("cpu", name):
        op(X)
    assert not recwarn


@pytest.mark.parametrize("name", ["jax_raw", "jax"])
def test_matrices_take_these_names(name):
    dense = np.array([[0, 1.5, 0], [2, 0, 0]], np.float32)
    spikes = brainevent.BinaryArray(jnp.array([True, False, True]))
    matrix = brainevent.CSR.fromdense(dense)
    matrix = brainevent.CSR((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape, backend=name)
    np.testing.assert_array_equal(matrix @ spikes, [0, 2])
    batch = jax.vmap(lambda x: matrix @ brainevent.BinaryArray(x))(jnp.ones((2, 3), bool))
    np.testing.assert_array_equal(batch, [[1.5, 2]] * 2)
    np.testing.assert_array_equal(brainevent.Dense(jnp.asarray(dense), backend=name) @ spikes, [0, 2])
