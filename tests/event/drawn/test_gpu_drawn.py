# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: drawn matrices have the bits that they have on the CPU, and products are of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent.event import table
from brainevent.event.description import Description
from brainevent.event.drawn.checked import drawn_from
from brainevent.event.drawn.format import DRAWN, JITU, tables
from brainevent.event.laws.products import EVENTS, NUMBERS
from brainevent.event.laws.whole import WHOLE

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

every_format = pytest.mark.parametrize("form", DRAWN, ids=lambda form: form.name)
both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
SHAPES = [(1, 1), (7, 300), (70, 5000), (3000, 41), (0, 4), (4, 0)]


def operands(form, dtype="float32", prob=0.3, seed=11):
    weights = jnp.array([1.5, 0.5][: form.stored((), (0, 0))[0]], dtype)
    return weights, drawn_from("test", prob, seed), tables()


def on(platform, of, *given, **how):
    """Return the result of an operator on a platform, as NumPy has it."""
    with jax.default_device(jax.devices(platform)[0]):
        given = jax.device_put(given, jax.devices(platform)[0])
        return np.asarray(table.TABLE[of](*given, **how)[0])


@every_format
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("prob", [0.0, 1e-3, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_the_same_matrix_to_the_last_bit(form, dtype, prob, shape):
    with jax.enable_x64(True):
        given = operands(form, dtype, prob)
        found, wanted = (on(each, Description(form, WHOLE), *given, shape=shape) for each in ("gpu", "cpu"))
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


@every_format
@both_ways
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columns", [None, 1, 5, 45])
@pytest.mark.parametrize("law", [EVENTS, NUMBERS], ids=["events", "numbers"])
def test_products(form, transpose, shape, columns, law):
    given, taken = operands(form), shape[not transpose]
    x = np.random.default_rng(0).integers(-1, 2, taken if columns is None else (taken, columns)).astype("float32")
    of = Description(form, law, columns=columns is not None)
    found, wanted = (on(each, of, *given, x, shape=shape, transpose=transpose) for each in ("gpu", "cpu"))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@both_ways
@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_promises(transpose, columns, event):
    shape = (8, 12)
    # Sums of quarters are exact: threads add in any order, and equal calls are to give equal bits.
    weights, drawn = jnp.array([1.5], jnp.float32), drawn_from("test", 0.3, 11)
    taken = shape[not transpose]
    x = jnp.asarray(np.random.default_rng(0).integers(-1, 2, taken if columns is None else (taken, columns)), "float32")
    operator = getattr(brainevent, f"{'binary_' * event}jits{'mv' if columns is None else 'mm'}_p")
    report = brainevent.check(
        operator, weights, drawn, tables(), x, shape=shape, transpose=transpose, backends=["cuda_raw"]
    )
    report.raise_if_failed()


def test_promises_of_the_whole_matrix():
    for form in DRAWN:
        operator = table.TABLE[Description(form, WHOLE)]
        brainevent.check(operator, *operands(form), shape=(8, 12), backends=["cuda_raw"]).raise_if_failed()


def test_a_million_rows_and_columns():
    n = 10**6
    matrix = brainevent.JITCUniformR((0.5, 1.5, 0.001, 3), shape=(n, n))
    found = matrix @ (jnp.arange(n) % 1000 == 7)
    events = jnp.arange(n) % 1000 == 7
    wanted = on(
        "cpu", Description(JITU, EVENTS), matrix._weights, matrix.drawn, tables(), events, shape=(n, n), transpose=True
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
