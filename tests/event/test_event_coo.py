# SPDX-License-Identifier: Apache-2.0
"""Products with matrices in coordinates: NumPy is the oracle; what all formats promise, and what this one adds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from meshes import cut, mesh, sent
from platforms import every_backend, few_examples
from product_promises import (
    Promises,
    assert_checked,
    assert_product,
    both_ways,
    ninety,
    one_or_many,
    vector_or_matrix,
)
from sparse_products import CALLS, close, coordinates, operand, taken

import brainevent
from brainevent import binary_coomm, binary_coomv, coomm, coomv
from brainevent.errors import MathError, ShapeError

pytestmark = pytest.mark.covering

__all__ = ["ninety"]


@every_backend
@few_examples(3)  # most are of types of their own, for which a kernel is compiled
@given(**CALLS)
def test_products(backend, **drawn):
    with jax.enable_x64(True):
        assert_product(coordinates, "coo", backend, **drawn)


@pytest.mark.thorough  # TestPromises holds some of each to more
@vector_or_matrix
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_operators_keep_the_most_fragile_promises(event, columns):
    assert_checked(coordinates, "coo", event=event, columns=columns)


class TestPromises(Promises):
    make = staticmethod(coordinates)
    kind = "coo"
    folder = "coo"
    variant = {"per_thread": 4}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("columns", "per_thread", "threads"), [(None, 1, 2400), (None, 4, 600), (5, 1, 12_000), (5, 16, 750)]
    )
    def test_what_is_launched_on_gpus(self, ninety, columns, per_thread, threads):
        sparse = coordinates(0, 300, 50, 8, homogeneous=True)
        x = operand(1, 50, columns)
        (launch,) = self.plan(sparse, x, transpose=False, per_thread=per_thread).launches
        assert launch.grid[0] * launch.block[0] - threads in range(launch.block[0])


@pytest.mark.covering(strength=1)
@one_or_many
@vector_or_matrix
@both_ways
def test_devices_share_the_elements_and_reduce_once(transpose, columns, homogeneous):
    sparse = coordinates(0, 8, 12, 4, homogeneous=homogeneous)
    x = operand(1, taken(sparse, transpose=transpose), columns)
    row, col = (cut(mesh(), array, "d") for array in sparse.indices)
    operands = sparse.weights if homogeneous else cut(mesh(), sparse.weights, "d"), row, col, x
    function = binary_coomv if columns is None else binary_coomm
    call = lambda *operands: function(*operands, shape=sparse.shape, transpose=transpose)
    assert sent(call, *operands) == {"all-reduce": 1}
    close(jax.jit(call)(*operands), sparse.product(x, transpose=transpose, event=True))


ROW = jnp.zeros(3, "int32")
ONE = jnp.ones(1)


@pytest.mark.parametrize(
    ("function", "operands", "shape", "error", "words"),
    [
        (binary_coomv, (ONE, ROW * 1.0, ROW, ONE), (3, 4), TypeError,
         r'binary_coomv: row is float32; pass int32 or int64 \(row.astype\("int32"\)\)'),
        (coomv, (ONE, ROW, ROW > 0, ONE), (3, 4), TypeError, "coomv: col is bool; pass int32 or int64"),
        (coomv, (ONE, ROW[None], ROW, ONE), (3, 4), ShapeError, r"row has shape \(1, 3\); its rank must be 1"),
        (coomv, (ONE, ROW, ROW[:2], ONE), (3, 4), ValueError, r"row has shape \(3,\) and col \(2,\); both must have"),
        (coomv, (ROW, ROW, ROW, ONE), (3, 4), TypeError, "data is int32; pass floating weights"),
        (coomv, (jnp.ones(2), ROW, ROW, ONE), (3, 4), ShapeError, r"data has shape \(2,\); pass one weight for all"),
        (coomm, (ONE, ROW, ROW, ONE), (3, 4), MathError, r"B has shape \(1,\); its rank must be 2; call coomv"),
        (binary_coomv, (ONE, ROW, ROW, jnp.ones(3)), (3, 4), ShapeError, "takes v of 4 rows"),
        (binary_coomm, (ONE, ROW, ROW, jnp.ones((4, 2))), (3,), ValueError, r"shape is \(3,\); pass two sizes"),
    ],
)  # fmt: skip
def test_wrong_operands_are_reported(function, operands, shape, error, words):
    with pytest.raises(error, match=words):
        function(*operands, shape=shape)


def test_elements_in_any_order_and_in_one_place():
    random = np.random.default_rng(0)
    row, col = jnp.array([2, 0, 2, 2, 0]), jnp.array([1, 3, 1, 0, 3])
    data = jnp.asarray(random.normal(size=5), "float32")
    for order in (np.arange(5), random.permutation(5)):
        found = coomv(data[order], row[order], col[order], jnp.ones(4), shape=(3, 4))
        close(found, [data[1] + data[4], 0, data[0] + data[2] + data[3]])


def test_operators_are_named_as_their_functions():
    for name in ("coomv", "coomm", "binary_coomv", "binary_coomm"):
        assert getattr(brainevent, f"{name}_p").name == name
