# SPDX-License-Identifier: Apache-2.0
"""Products with matrices of equally long rows: NumPy is the oracle; what all formats promise, and what these add."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from meshes import cut, mesh, sent
from platforms import every_backend, few_examples
from product_promises import (
    Promises,
    assert_product,
    both_ways,
    ninety,
    one_or_many,
    vector_or_matrix,
    what_is_launched,
)
from sparse_products import CALLS, called, close, fixed, operand, taken

import brainevent
from brainevent import binary_fcnmm, binary_fcnmv, fcnmm, fcnmv
from brainevent.errors import MathError, ShapeError

pytestmark = pytest.mark.covering

__all__ = ["ninety"]


@every_backend
@few_examples(3)  # most are of types of their own, for which a kernel is compiled
@given(**CALLS)
def test_products(backend, **drawn):
    with jax.enable_x64(True):
        assert_product(fixed, "fcn", backend, **drawn)


class TestPromises(Promises):
    make = staticmethod(fixed)
    kind = "fcn"
    folder = "fixed"
    variant = {"indices_sorted": False, "clustered": True, "per_slice": 256, "wide": True}  # noqa: RUF012

    @what_is_launched
    def test_what_is_launched_on_gpus(self, ninety, connections, columns, transpose, options, threads):
        sparse = fixed(0, 300, 50, connections, homogeneous=True)
        x = operand(1, taken(sparse, transpose=transpose), columns)
        (launch,) = self.plan(sparse, x, transpose=transpose, **options).launches
        assert launch.grid[0] * launch.block[0] - threads in range(launch.block[0])
        assert launch.block[0] % 32 == 0


# ---- shards -----------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=0)
@one_or_many
@vector_or_matrix
@both_ways
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_devices_share_rows_and_reduce_only_sums_over_them(transpose, columns, homogeneous, event):
    sparse = fixed(0, 8, 12, 4, homogeneous=homogeneous)
    x = operand(1, taken(sparse, transpose=transpose), columns, "float32")
    row = lambda array: cut(mesh(), array, "d", *[None] * (array.ndim - 1))
    operands = (
        sparse.weights if homogeneous else row(sparse.weights), row(*sparse.indices), row(x) if transpose else x
    )  # fmt: skip
    function = getattr(brainevent, f"{'binary_' * event}fcn{'mv' if columns is None else 'mm'}")
    call = lambda *operands: function(*operands, shape=sparse.shape, transpose=transpose)
    assert sent(call, *operands) == ({"all-reduce": 1} if transpose else {})
    found = jax.jit(call)(*operands)
    close(found, sparse.product(x, transpose=transpose, event=event))
    assert found.sharding.is_fully_replicated == transpose
    loss = lambda *operands: (call(*operands) ** 2).sum()
    for got, want in zip(
        jax.jit(jax.grad(loss, (0, 2)))(*operands),
        jax.jit(jax.grad(loss, (0, 2)))(sparse.weights, *sparse.indices, x),
        strict=True,
    ):
        close(got, want)


@both_ways
def test_explicit_meshes_tell_how_results_are_cut(transpose):
    sparse = fixed(0, 8, 12, 4, homogeneous=False)
    with jax.set_mesh(mesh(jax.sharding.AxisType.Explicit)):
        row = lambda array: jax.device_put(array, jax.P("d"))
        x = operand(1, taken(sparse, transpose=transpose), None)
        operands = row(sparse.weights), row(*sparse.indices), row(x) if transpose else x
        found = binary_fcnmv(*operands, shape=sparse.shape, transpose=transpose)
        assert jax.typeof(found).sharding.spec == (jax.P(None) if transpose else jax.P("d"))
    close(found, sparse.product(x, transpose=transpose, event=True))


# ---- what wrong operands get ------------------------------------------------------------------------------------

INDICES = jnp.zeros((3, 2), "int32")
ONE, MANY = jnp.ones(1), jnp.ones((3, 2))


@pytest.mark.parametrize(
    ("function", "operands", "shape", "error", "words"),
    [
        (binary_fcnmv, (ONE, MANY, ONE), (3, 4), TypeError,
         r'binary_fcnmv: indices is float32; pass int32 or int64 \(indices.astype\("int32"\)\)'),
        (fcnmv, (ONE, INDICES.astype("int8"), ONE), (3, 4), TypeError, "fcnmv: indices is int8; pass int32 or int64"),
        (fcnmv, (ONE, INDICES[0], ONE), (3, 4), ShapeError, r"indices has shape \(2,\); its rank must be 2"),
        (fcnmv, (ONE, INDICES, ONE), (4, 3), ValueError, r"indices has shape \(3, 2\); for shape=\(4, 3\) .* 4 rows"),
        (fcnmv, (INDICES, INDICES, ONE), (3, 4), TypeError, "weights is int32; pass floating weights"),
        (fcnmv, (jnp.ones(3), INDICES, ONE), (3, 4), ShapeError,
         r"weights has shape \(3,\); pass one weight for all .* in the shape of the indices, \(3, 2\)"),
        (fcnmv, (ONE, INDICES, MANY), (3, 4), MathError, r"vector has shape \(3, 2\); its rank must be 1; call fcnmm"),
        (binary_fcnmm, (ONE, INDICES, ONE), (3, 4), MathError, r"matrix has shape \(1,\); .* 2; call binary_fcnmv"),
        (fcnmm, (ONE, INDICES, MANY[None]), (3, 4), MathError, r"matrix has shape \(1, 3, 2\); its rank must be 2$"),
        (binary_fcnmv, (ONE, INDICES, jnp.ones(3)), (3, 4), ShapeError,
         r"shape \(3, 4\) with transpose=False takes spikes of 4 rows; spikes has shape \(3,\)"),
        (fcnmv, (ONE, INDICES, jnp.ones(4, complex)), (3, 4), TypeError, "vector is complex64; pass booleans"),
        (fcnmv, (ONE, INDICES, ONE), (3, -4), ValueError, r"fcnmv: shape is \(3, -4\)"),
        (fcnmv, (ONE, INDICES, ONE), 3, TypeError, "fcnmv: shape is 3; pass two integers"),
    ],
)  # fmt: skip
def test_wrong_operands_are_reported(function, operands, shape, error, words):
    with pytest.raises(error, match=words):
        function(*operands, shape=shape)


def test_wrong_operands_are_reported_within_jit():
    with pytest.raises(ShapeError, match="takes spikes of 3 rows"):
        jax.jit(lambda x: binary_fcnmv(ONE, INDICES, x, shape=(3, 4), transpose=True))(jnp.ones(4))


def test_one_weight_may_have_any_rank():
    x = jnp.ones(3)
    for weights in (2.0, jnp.array(2.0), jnp.array([2.0]), jnp.array([[2.0]])):
        found = binary_fcnmv(weights, INDICES, x, shape=(3, 4), transpose=True)
        np.testing.assert_array_equal(found, [12, 0, 0, 0])
    gradient = jax.grad(lambda w: fcnmv(w, INDICES, x, shape=(3, 4), transpose=True).sum())(jnp.array([[2.0]]))
    np.testing.assert_array_equal(gradient, [[6]])


def test_numpy_arrays_and_lists_of_a_shape():
    found = fcnmv(np.ones(1, "float32"), np.array(INDICES), np.arange(3.0), shape=[3, 4], transpose=True)
    np.testing.assert_array_equal(found, [6, 0, 0, 0])


def test_more_rows_than_a_block_and_a_rest():
    sparse = fixed(2, 64 * 5 + 7, 40, 3, homogeneous=True)
    for active in (64 * 5 + 6, 63, 64, 0):
        x = jnp.zeros(sparse.shape[0], bool).at[active].set(True)
        found = called(sparse, x, "binary_fcn", transpose=True)
        close(found, sparse.product(x, transpose=True, event=True))
