# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: compute-sanitizer finds nothing in the kernels of event-driven products."""

import pytest
from sanitizer import sanitized

pytestmark = pytest.mark.gpu
NAMES = ["csr", "coo", "fixed", "dense"]

# Each kernel of a format with one weight and with many, from both sides; and those of long rows.
PRODUCTS = """
    import sys, warnings
    warnings.filterwarnings("ignore")
    import jax, jax.numpy as jnp, numpy as np
    import brainevent

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

    def right(found, sparse, x, transpose):
        dense = np.asarray(sparse.todense(), np.float64)
        wanted = (dense.T if transpose else dense) @ np.asarray(x, np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

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
            right(brainevent.BinaryArray(jnp.asarray(x)) @ sparse, sparse, x, True)
        for rows, columns, connections in sizes:
            sparse = matrix(name, rows, columns, connections, homogeneous)
            for transpose in (True, False):
                n = rows if transpose else columns
                for shape in ((n,), (n, 3)):
                    for active in (0.0, 0.1, 1.0):
                        x = np.random.default_rng(1).random(shape) < active
                        for events in (jnp.asarray(x), jnp.asarray(x, jnp.float32)):
                            events = events.T if transpose else events
                            events = brainevent.BinaryArray(events) if events.dtype == bool else events
                            found = events @ sparse if transpose else sparse @ events
                            right(found.T if transpose else found, sparse, x, transpose)
    print("right")
"""


@pytest.mark.parametrize(("name", "tool"), [*((name, "memcheck") for name in NAMES), ("csr", "racecheck")])
def test_products(name, tool, tmp_path):
    kernel = "scatter_sorted" if tool == "racecheck" else None
    assert sanitized(tool, tmp_path, PRODUCTS, name, tool, kernel=kernel).endswith("right")
