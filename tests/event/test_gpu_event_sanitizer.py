# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: compute-sanitizer finds nothing in the kernels of event-driven products."""

import importlib.util

import pytest
from out_of_range import FORMATS
from sanitizer import sanitized
from test_gpu_event_csr import PACKAGES

pytestmark = pytest.mark.gpu
NAMES = ["csr", "coo", "fixed", "dense"]

# Each kernel of a format with one weight and with many, from both sides; and those of long rows.
PRODUCTS = """
    import sys, warnings
    warnings.filterwarnings("ignore")
    import jax, jax.numpy as jnp, numpy as np
    import brainevent
    from brainevent import BinaryArray

    def matrix(name, rows, columns, connections, homogeneous):
        random = np.random.default_rng(0)
        indices = np.sort(random.integers(0, columns, (rows, connections), dtype=np.int32))
        weights = jnp.ones(1) if homogeneous else jnp.asarray(random.integers(1, 5, indices.shape), jnp.float32)
        fixed = brainevent.FixedNumPerPre((weights, jnp.asarray(indices)), shape=(rows, columns))
        if name == "fixed":
            return fixed
        if name == "dense":
            return brainevent.Dense(fixed.todense())
        return fixed.tocsr() if name == "csr" else fixed.tocoo()

    def of_numpy(sparse):
        return np.asarray(sparse.todense(), np.float64)

    def same(found, wanted):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

    @jax.jit
    def products(sparse, rows, columns):  # one program for all: the sanitizer is slow to load one
        events = BinaryArray if rows.dtype == bool else jnp.asarray
        left = [events(rows.T) @ sparse, events(rows[:, 0]) @ sparse]
        right = [sparse @ events(columns), sparse @ events(columns[:, 0])]
        return left, right

    name, tool = sys.argv[1:]
    if tool == "memcheck":
        sizes = [(33, 70, 5), (0, 40, 3), (40, 0, 0)]
    else:  # races are looked for in what threads share in a block: only clusters have that
        sizes = []
    for homogeneous in (True, False):
        if name in ("csr", "fixed"):  # so long rows that clusters of blocks sum them
            sparse = matrix(name, 900, 5000, 501, homogeneous)
            assert sparse.indices_sorted
            x = np.random.default_rng(1).random(900) < 0.1
            same(BinaryArray(jnp.asarray(x)) @ sparse, x @ of_numpy(sparse))
        for rows, columns, connections in sizes:
            sparse = matrix(name, rows, columns, connections, homogeneous)
            dense = of_numpy(sparse)
            for active in (0.0, 0.1, 1.0):
                random = np.random.default_rng(1)
                x, y = random.random((rows, 3)) < active, random.random((columns, 3)) < active
                for dtype in (bool, np.float32):
                    left, right = products(sparse, jnp.asarray(x, dtype), jnp.asarray(y, dtype))
                    for found, wanted in zip(left, (x.T @ dense, x[:, 0] @ dense), strict=True):
                        same(found, wanted)
                    for found, wanted in zip(right, (dense @ y, dense @ y[:, 0]), strict=True):
                        same(found, wanted)
    print("right")
"""

# The rest of what runs there, all with indices that name nothing: a permutation, derivatives, rows taken out.
WRONG = """
    import itertools, sys, warnings
    warnings.filterwarnings("ignore")
    import jax
    import test_gpu_event_out_of_range
    from out_of_range import FORMATS, assert_case, assert_derivatives, assert_pointers, assert_slices
    from test_gpu_event_csr import PACKAGES

    what = sys.argv[1]
    raw = {"backend": "cuda_raw"}
    both = [False, True]
    with jax.enable_x64(True):
        if what in FORMATS:
            size = {"m": 33, "k": 40, "connections": 5}
            for transpose, event, homogeneous, columns in itertools.product(both, both, both, [None, 3]):
                how = {"transpose": transpose, "event": event, "homogeneous": homogeneous, "columns": columns}
                assert_case(what, seed=1, **size, **how, index="int32", **raw)
        elif what == "pointers":
            for transpose, homogeneous, indexed, columns in itertools.product(both, both, both, [None, 2]):
                how = {"transpose": transpose, "homogeneous": homogeneous, "indexed": indexed, "columns": columns}
                assert_pointers([0, -7, 50, 3, 2**31 - 1, -(2**31), 36], **how, **raw)
        elif what == "slices":
            assert_slices(**raw)
        elif what == "long":  # rows that clusters of blocks sum, by a permutation, too
            for homogeneous, indexed in itertools.product(both, both):
                test_gpu_event_out_of_range.test_long_rows(homogeneous, 5000, True, True, indexed)
        elif what in PACKAGES:  # the other languages that `binary_csrmv` has kernels in
            size = {"m": 33, "k": 40, "connections": 5}
            for transpose, homogeneous in itertools.product(both, both):
                how = {"transpose": transpose, "homogeneous": homogeneous, "backend": what}
                assert_case("csr", seed=1, **size, **how, event=True, columns=None, index="int32")
                assert_pointers([0, -7, 50, 3, 2**31 - 1, -(2**31), 36], **how)
        else:
            for transpose, event, columns in itertools.product(both, both, [None, 2]):
                how = {"transpose": transpose, "event": event, "columns": columns}
                assert_derivatives(what.removeprefix("derivatives "), seed=6, **how, **raw)
    print("right")
"""


@pytest.mark.parametrize(("name", "tool"), [*((name, "memcheck") for name in NAMES), ("csr", "racecheck")])
def test_products(name, tool, tmp_path):
    kernel = "scatter_sorted" if tool == "racecheck" else None
    assert sanitized(tool, tmp_path, PRODUCTS, name, tool, kernel=kernel).endswith("right")


@pytest.mark.parametrize("language", PACKAGES)
def test_every_language(language, tmp_path):
    if importlib.util.find_spec(PACKAGES[language]) is None:
        pytest.skip(f"needs {PACKAGES[language]}")
    assert sanitized("memcheck", tmp_path, WRONG, language).endswith("right")


@pytest.mark.parametrize("what", [*FORMATS, *(f"derivatives {name}" for name in FORMATS), "pointers", "slices", "long"])
def test_indices_that_name_nothing(what, tmp_path):
    assert sanitized("memcheck", tmp_path, WRONG, what).endswith("right")


def test_long_rows_whose_indices_name_nothing_do_not_race(tmp_path):
    assert sanitized("racecheck", tmp_path, WRONG, "long", kernel="scatter_sorted").endswith("right")
