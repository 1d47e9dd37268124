# SPDX-License-Identifier: Apache-2.0
"""exp and its relatives in float32: their errors against float64, and their values at the limits."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from brainevent.scalar.functions import FUNCTIONS, LARGEST_ERRORS
from brainevent.scalar.interpret import interpret
from brainevent.scalar.lower import form_of, function_form
from brainevent.scalar.primitives import flush

F = np.float32
SMALLEST = 2.0**-126
EXACT = {
    **{name: getattr(np, name) for name in ("cos", "exp", "exp2", "expm1", "log", "log1p", "sin", "tanh")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")},
    "cbrt": np.cbrt,
    "log2": np.log2,
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": lambda x: np.copysign(special.erfinv(x), x),
    "logistic": special.expit,
}


def run(name, *values):
    return interpret(function_form(name, ("float32",) * len(values)), values)[0]


def arguments(name, count, seed=0):
    rng = np.random.default_rng(seed)
    if name == "erf_inv":
        return np.concatenate([rng.uniform(-1, 1, count), 1 - 10.0 ** rng.uniform(-7.2, 0, count)]).astype(F)
    bits = rng.integers(0, 2**32, count, dtype=np.uint32).view(F)
    plain = [rng.uniform(-110, 110, count), rng.uniform(-4, 4, count), 1 + rng.uniform(-0.5, 0.5, count)]
    if name in ("asin", "acos", "atanh"):
        plain = [rng.uniform(-1, 1, count), 1 - 10.0 ** rng.uniform(-7.2, 0, count)]
    tiny = rng.normal(size=count) * 10.0 ** rng.uniform(-8, 2, count)
    return np.concatenate([bits, *(part.astype(F) for part in (*plain, tiny))])


def largest_error(found, exact, *given):
    """Return the largest error in units in the last place, where arguments and results are normal numbers."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(F)
    normal = np.isfinite(rounded) & (np.abs(rounded) >= SMALLEST)
    for values in given:
        normal &= (np.abs(values) >= SMALLEST) & np.isfinite(values)
    assert normal.sum() > 1000
    return np.max(np.abs(found[normal] - exact[normal]) / np.spacing(np.abs(rounded[normal])).astype(float))


def check_errors(name, count, seed):
    x = arguments(name, count, seed)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(float))
    error = largest_error(run(name, x), exact, x)
    assert LARGEST_ERRORS[name] / 4 < error < LARGEST_ERRORS[name]


def check_angles(count, seed):
    rng = np.random.default_rng(seed)
    y, x = ((rng.normal(size=count) * 10.0 ** rng.uniform(-6, 6, count)).astype(F) for _ in "yx")
    error = largest_error(run("atan2", y, x), np.arctan2(y.astype(float), x.astype(float)), y, x)
    assert LARGEST_ERRORS["atan2"] / 4 < error < LARGEST_ERRORS["atan2"]


def check_powers(count, seed):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.normal(size=count) * rng.choice([0.1, 1, 15], count)).astype(F)
    x = np.where(x == 1, F(1.5), x)
    y = (rng.uniform(-87, 88, count) / np.log(x.astype(float))).astype(F)
    y = np.where(rng.random(count) < 0.3, np.round(y), y)
    with np.errstate(all="ignore"):
        exact = x.astype(float) ** y
    assert 0.9 < largest_error(run("pow", x, y), exact, x, y) < LARGEST_ERRORS["pow"]


def test_all_functions_are_measured():
    assert set(FUNCTIONS) == set(LARGEST_ERRORS) == {*EXACT, "pow", "atan2"}


@pytest.mark.parametrize("name", EXACT)
def test_errors_are_small(name):
    check_errors(name, 4000, seed=0)


def test_errors_of_powers_and_angles_are_small():
    check_powers(20_000, seed=0)
    check_angles(20_000, seed=0)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 4))
def test_errors_are_small_on_many_arguments(seed):
    for name in EXACT:
        check_errors(name, 300_000, seed)
    check_powers(1_000_000, seed)
    check_angles(1_000_000, seed)


LIMITS = F([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 200.0, -200.0, 3e38, -3e38])


@pytest.mark.parametrize("name", [name for name in EXACT if name not in ("sin", "cos")])
def test_limits(name):
    with np.errstate(all="ignore"):
        exact = EXACT[name](LIMITS.astype(float)).astype(F)
    exact = flush(exact)
    found = run(name, LIMITS)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(exact[numbers]))


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_are_finite_as_far_as_float32_is(name):
    largest = 89.4159  # here both are 3.4e38
    rng = np.random.default_rng(0)
    x = F([*arguments("exp", 2000), *rng.uniform(88, largest, 1000), *rng.uniform(-largest, -88, 1000), 88.8, -88.8])
    found = interpret(form_of(name, getattr(jnp, name), ("float32",)), (x,))[0]
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(float))
        rounded = exact.astype(F)
    assert largest_error(found, exact, x) < 2.5
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(rounded))
    ends = F([0.0, -0.0, np.inf, -np.inf, np.nan, 3e-38, -3e-38, 89.5, -89.5])
    found = interpret(form_of(name, getattr(jnp, name), ("float32",)), (ends,))[0]
    np.testing.assert_array_equal(found, [getattr(jnp, name)(end) for end in ends])


def test_sine_and_cosine_of_what_is_no_number():
    with np.errstate(all="ignore"):
        assert np.isnan(run("sin", F([np.inf, -np.inf, np.nan]))).all()
        assert np.isnan(run("cos", F([np.inf, -np.inf, np.nan]))).all()
    assert run("cos", F([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert np.signbit(run("sin", F([0.0, -0.0]))).tolist() == [False, True]


@pytest.mark.parametrize(("name", "function"), [("pow", np.power), ("atan2", np.arctan2)])
def test_functions_of_two_numbers_at_their_limits(name, function):
    ends = F([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 1e30, -1e30, 2.5])
    x, y = (values.ravel() for values in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        exact = flush(function(x.astype(float), y.astype(float)).astype(F))
    found = run(name, x, y)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(exact[numbers]))
