# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: in a trace, an index that is out of range adds nothing, and reads and writes nothing."""

import dataclasses
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from out_of_range import FAR, assert_case, assert_pointers, compressed, traced
from product_promises import both_ways, one_or_many
from sparse_products import close, operand
from test_gpu_event_csr import PACKAGES
from test_gpu_event_formats import in_quarters

pytestmark = pytest.mark.gpu
every_language = pytest.mark.parametrize("language", PACKAGES)


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


@every_language
@both_ways
@one_or_many
def test_every_language(language, transpose, homogeneous):
    if importlib.util.find_spec(PACKAGES[language]) is None:
        pytest.skip(f"needs {PACKAGES[language]}")
    for seed in range(4):
        case = {"seed": seed, "m": 9, "k": 12, "connections": 4, "columns": None, "index": "int32"}
        how = {"homogeneous": homogeneous, "transpose": transpose, "event": True, "backend": language}
        assert_case("csr", **case, **how)
    for pointers in ([0, -7, 50, 3, 2**31 - 1, -(2**31), 36], [36, 30, 20, 10, 5, 2, 0], [-1, 5, 9, 9, 20, 36, 37]):
        assert_pointers(pointers, homogeneous=homogeneous, transpose=transpose, backend=language)


@one_or_many
@pytest.mark.parametrize("columns", [100, 5000, 200_000])
@pytest.mark.parametrize("event", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_long_rows(homogeneous, columns, event, ascending, indexed):
    """That clusters of blocks go through: sorted, so that what names nothing is at both ends, and in any order."""
    random = np.random.default_rng(3)
    shape = (500, 700)
    indices = random.integers(0, columns, shape)
    far = random.choice(FAR, shape)
    indices = np.where(
        random.random(shape) < 0.3, np.where(far < 0, far, np.minimum(far + columns, 2**31 - 1)), indices
    )
    indices = (np.sort(indices) if ascending else indices).reshape(-1)
    sparse = in_quarters(compressed(0, *shape[:1], columns, shape[1], homogeneous=homogeneous))
    indptr, perm = np.arange(shape[0] + 1) * shape[1], random.permutation(indices.size)
    perm[::7], perm[1::7] = -3, 2**31 - 1
    x = operand(1, shape[0], None, "float32", 0.5)
    arrays = [jnp.asarray(array, "int32") for array in ((indices, indptr, perm) if indexed else (indices, indptr))]
    name = f"{'binary_' * event}csr"
    each = np.broadcast_to(sparse.weights, indices.shape)
    each = each[np.clip(perm, 0, indices.size - 1)] if indexed and not homogeneous else each
    there = (indices >= 0) & (indices < columns)
    rows = np.repeat(np.arange(shape[0]), shape[1])
    others = dataclasses.replace(
        sparse, weights=each[there], rows=rows[there], columns=indices[there], shape=(shape[0], columns)
    )
    wanted = others.product(x, transpose=True, event=event)
    how = {"transpose": True, "indices_sorted": ascending, "backend": "cuda_raw", "suffix": "_indexed" * indexed}
    close(traced(name, sparse, arrays, x, **how), wanted)
