# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: deliveries into a ring of sums are those of the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_delays import DTYPES, drawn

import brainevent as be

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("one_weight", "one_delay"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rows", [7, 3000])
def test_deliveries_equal_the_reference(rows, one_weight, one_delay, weighted, dtype):
    arrays = drawn(rows, rows, 500, 7, one_weight=one_weight, one_delay=one_delay)
    ring, x, data, indices, indptr, delays = map(jnp.asarray, arrays)
    ring = ring.astype(dtype)
    csr = be.CSR(data, indices, indptr, shape=(rows, 500)).precompute_weight_indices()
    layout = csr.delay_layout(delays, 7)

    def all_ways(ring, x, backend):
        how = {"weighted": weighted, "backend": backend}
        found = [csr.delay_deliver(ring, x, delays, 9, **how), layout.deliver(ring, x, 9, **how)]
        turned = jnp.zeros((7, rows), dtype)
        return [*found, csr.T.delay_deliver(turned, jnp.arange(500) % 3 == 0, delays, 2, backend=backend)]

    for found, expected in zip(all_ways(ring, x, None), all_ways(ring, x, "jax"), strict=True):
        tolerance = {"float32": 1e-4, "float16": 0.05}.get(dtype, 0.3)
        np.testing.assert_allclose(found.astype("float32"), expected.astype("float32"), atol=tolerance, rtol=tolerance)


def test_a_loop_of_rows_of_thousands():
    rng = np.random.default_rng(0)
    rows, number, slots = 2000, 4000, 64
    indices, delays = rng.integers(0, 70_000, rows * number, np.int32), rng.integers(1, slots, rows * number, np.int32)
    csr = be.CSR(
        jnp.asarray(rng.integers(1, 9, rows * number), jnp.float32),
        jnp.asarray(indices),
        jnp.arange(rows + 1, dtype=jnp.int32) * number,
        shape=(rows, 70_000),
    )
    layout, trains = csr.delay_layout(delays, slots), jnp.asarray(rng.random((30, rows)) < 0.01)

    def arrived(deliver):
        step = lambda ring, now: (deliver(ring, now[1], now[0]), None)
        return jax.jit(lambda ring: jax.lax.scan(step, ring, (jnp.arange(30), trains)))(jnp.zeros((slots, 70_000)))[0]

    expected = np.zeros((slots, 70_000))
    for t in range(30):
        for i in np.flatnonzero(trains[t]):
            own = slice(i * number, (i + 1) * number)
            np.add.at(expected, ((t + delays[own]) % slots, indices[own]), np.asarray(csr.data[own]))
    for deliver in (lambda ring, x, t: csr.delay_deliver(ring, x, delays, t), layout.deliver):
        np.testing.assert_array_equal(arrived(deliver), expected)


def test_taking_from_the_ring_keeps_every_promise():
    ring = jax.random.normal(jax.random.key(0), (5, 12))
    outs = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((12,), (5, 12))]
    assert be.take_arrivals_p.get_default("gpu") == "cuda_raw"
    report = be.check(be.take_arrivals_p, ring, jnp.array([3]), outs=outs, backends=["cuda_raw"])
    report.raise_if_failed()
