# SPDX-License-Identifier: Apache-2.0
"""`warp_kernel(..., adjoint=True)`: derivatives by Warp's adjoints, held against numerical ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from platforms import by_platform

import brainevent
from brainevent.errors import UnsupportedOperationError

wp = pytest.importorskip("warp")
import warp_kernels as wk  # noqa: E402
import warp_patterns as right  # noqa: E402
import warp_wrong_patterns as wrong  # noqa: E402
from warp_kernels import FLOATS, like  # noqa: E402

X, Y, START = np.array([0.7, -0.4, 1.3, 0.9]), np.array([0.61, 0.83, -1.2, 0.5]), np.array([0.3, -0.9, 0.2, 1.1])
WEIGHTS = np.array([-1.5, 0.4, 0.8, -0.3])


def differentiable(function, starts_as_argument):
    kernel = wp.kernel(function)
    out = jax.ShapeDtypeStruct((4,), jnp.float64)
    options = {"in_out_argnames": "out"} if starts_as_argument else {"zeroed": True}
    return brainevent.warp_kernel(kernel, out, launch_dims=4, adjoint=True, **options)


def numerical_gradient(loss, arguments, which, step=1e-6):
    gradient = np.zeros(4)
    for i in range(4):
        shifted = [list(arguments), list(arguments)]
        for sign, copy in zip((1, -1), shifted, strict=True):
            copy[which] = copy[which] + sign * step * np.eye(4)[i]
        gradient[i] = (loss(*shifted[0]) - loss(*shifted[1])) / (2 * step)
    return gradient


def gradients(function, starts_as_argument):
    """Return the gradients by the adjoint, and the numerical ones."""
    call = differentiable(function, starts_as_argument)
    arguments = (X, Y, START)[: 2 + starts_as_argument]
    loss = jax.jit(lambda *args: (call(*args) * WEIGHTS).sum())
    everything = tuple(range(len(arguments)))
    return (
        jax.grad(loss, everything)(*map(jnp.asarray, arguments)),
        [numerical_gradient(loss, arguments, i) for i in everything],
    )


@pytest.mark.parametrize("function", right.RIGHT, ids=lambda f: f.__name__)
def test_supported_patterns_are_accepted(function):
    with jax.enable_x64(True):
        assert callable(differentiable(function, function in right.STARTS_AS_ARGUMENT))


SOME_OR_ALL = [f if i % 4 == 0 else pytest.param(f, marks=pytest.mark.thorough) for i, f in enumerate(right.RIGHT)]


@pytest.mark.covering(strength=0, times=8)
@by_platform
@pytest.mark.parametrize("function", SOME_OR_ALL, ids=lambda f: f.__name__)
def test_supported_patterns_have_the_numerical_gradients(function):
    with jax.enable_x64(True):
        for found, expected in zip(*gradients(function, function in right.STARTS_AS_ARGUMENT), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize(("function", "words"), wrong.WRONG.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_other_patterns_are_refused_by_line(function, words):
    where = rf"warp_kernel\({function.__name__}\): adjoint=True, line \d+ of .*"
    with jax.enable_x64(True), pytest.raises(UnsupportedOperationError, match=f"{where}{words}"):
        differentiable(function, function in wrong.STARTS_AS_ARGUMENT)


@pytest.mark.thorough  # of Warp, not of this package
@pytest.mark.parametrize("function", wrong.WRONG, ids=lambda f: f.__name__)
def test_what_is_refused_is_wrong_indeed(function, monkeypatch):
    """Should Warp learn one of these, then this test says so."""
    monkeypatch.setattr("brainevent.backends.warp.kernel.refuse_wrong_adjoints", lambda *_: None)
    with jax.enable_x64(True):
        pairs = zip(*gradients(function, function in wrong.STARTS_AS_ARGUMENT), strict=True)
        agree = all(np.allclose(found, expected, atol=1e-6) for found, expected in pairs)
    assert agree == (function is wrong.put_by_function)  # right, but who can tell what a function writes


def test_other_ways_to_write_are_refused():
    for function, words in (
        (writes_input, "writes to the input 'x'"),
        (adds_to_input, "changes 'x' with atomic_add"),
        (swaps, "uses atomic_exch; use atomic_add|uses atomic_exch, and"),
        (loops_over_more, "loops over something other than a range"),
    ):
        with pytest.raises(UnsupportedOperationError, match=words):
            differentiable(function, False)
    with pytest.raises(UnsupportedOperationError, match="it uses tiles"):
        brainevent.warp_kernel(wk.tile_squares, like(jnp.ones(4)), launch_dims=(4, 8), block_dim=8, adjoint=True)


@pytest.mark.parametrize("name", ["stores_beside", "reads_row"])
def test_rows_of_outputs_are_refused(name):
    kernel, words = {
        "stores_beside": (stores_beside, "uses 'k', which a loop changes"),
        "reads_row": (reads_row, "takes a part of the output 'out' as an array"),
    }[name]
    out = jax.ShapeDtypeStruct((5, 4), jnp.float64)
    with jax.enable_x64(True), pytest.raises(UnsupportedOperationError, match=words):
        brainevent.warp_kernel(wp.kernel(kernel), out, launch_dims=4, adjoint=True, in_out_argnames="out")


def stores_beside(x: right.A, out: wp.array2d(dtype=wp.float64)):
    i = wp.tid()
    k = x.shape[0] - 4
    for _ in range(i):
        k = k + 1
    out[k][i] = x[i] * x[i]


def reads_row(x: right.A, out: wp.array2d(dtype=wp.float64)):
    i = wp.tid()
    row = out[i]
    out[i, 0] = row[0] * x[i]
    out[i, 1] = row[0] * x[i]


def writes_input(x: right.A, out: right.A):
    i = wp.tid()
    x[i] = x[i] * x[i]
    out[i] = x[i]


def adds_to_input(x: right.A, out: right.A):
    i = wp.tid()
    wp.atomic_add(x, i, x[i])
    out[i] = x[i]


def swaps(x: right.A, out: right.A):
    i = wp.tid()
    wp.atomic_exch(out, i, x[i])


def loops_over_more(x: right.A, out: right.A):
    for i in x:
        out[0] = i


# ---- transformations ------------------------------------------------------------------------------------------------


def sine(x):
    return brainevent.warp_kernel(wk.sine, like(x), launch_dims=x.shape, adjoint=True)(x)


@settings(max_examples=4)
@given(rows=st.integers(1, 3), columns=st.integers(1, 5))
def test_gradients_of_batches_and_batches_of_gradients(rows, columns):
    x = jnp.linspace(-1.0, 2.0, rows * columns).reshape(rows, columns)
    loss = lambda x: (sine(x) ** 2).sum()
    expected = jnp.sin(2 * x)
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(x), expected, atol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: jax.vmap(loss)(x).sum())(x), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(loss)))(x), expected, atol=1e-6)


def test_integers_numbers_and_vectors():
    where = jnp.array([0, 2, 2, 1, 0])
    call = brainevent.warp_kernel(wk.scatter, like(jnp.ones(3)), launch_dims=5, zeroed=True, adjoint=True)
    weights = jnp.array([3.0, 5.0, 7.0])
    np.testing.assert_array_equal(jax.grad(lambda x: call(x, where) @ weights)(jnp.ones(5)), weights[where])
    scaled = brainevent.warp_kernel(wk.affine, like(jnp.ones(5)), launch_dims=5, adjoint=True)
    np.testing.assert_array_equal(jax.grad(lambda x: scaled(3.0, x, 1.0).sum())(jnp.ones(5)), jnp.full(5, 3.0))
    x = jnp.arange(1.0, 13.0).reshape(4, 3)
    lengths = brainevent.warp_kernel(wk.lengths, like(x[:, 0]), launch_dims=4, adjoint=True)
    found = jax.grad(lambda x: lengths(x, (2, 0, 0, 0, 1, 0, 0, 0, 1)).sum())(x)
    expected = jax.grad(lambda x: jnp.linalg.norm(x * jnp.array([2.0, 1, 1]), axis=1).sum())(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@wp.kernel
def product_and_rank(x: FLOATS, y: FLOATS, product: wp.array2d(dtype=wp.float32), larger: wp.array2d(dtype=wp.int32)):
    i, j = wp.tid()
    product[i, j] = x[i] * y[j]
    if x[i] > y[j]:
        larger[i, j] = 1


def test_several_outputs_of_which_some_are_integers():
    outs = [jax.ShapeDtypeStruct((3, 4), jnp.float32), jax.ShapeDtypeStruct((3, 4), jnp.int32)]
    call = brainevent.warp_kernel(product_and_rank, outs, launch_dims=(3, 4), zeroed=True, adjoint=True)
    x, y = jnp.arange(3.0), jnp.arange(4.0)
    np.testing.assert_array_equal(call(x, y)[1], (x[:, None] > y).astype(int))
    found = jax.grad(lambda x, y: (call(x, y)[0] ** 2).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(found[0], 2 * x * (y**2).sum())
    np.testing.assert_allclose(found[1], 2 * y * (x**2).sum())


def test_cotangents_are_not_changed_and_empty_launches_have_gradients():
    start = jnp.full(4, 2.0)
    call = brainevent.warp_kernel(wk.sine, like(start), launch_dims=0, in_out_argnames="out", adjoint=True)
    _, pull = jax.vjp(call, start, start)
    cotangent = jnp.arange(4.0)
    for _ in range(2):
        of_x, of_start = pull(cotangent)
        np.testing.assert_array_equal(of_x, jnp.zeros(4))
        np.testing.assert_array_equal(of_start, jnp.arange(4.0))
    overwritten = brainevent.warp_kernel(wk.sine, like(start), launch_dims=3, in_out_argnames="out", adjoint=True)
    _, pull = jax.vjp(overwritten, start, start)
    for _ in range(2):
        np.testing.assert_array_equal(pull(cotangent)[1], [0, 0, 0, 3])
    np.testing.assert_array_equal(cotangent, jnp.arange(4.0))


def test_second_and_forward_derivatives_are_refused():
    x = jnp.ones(3)
    with pytest.raises(UnsupportedOperationError, match="but not its adjoint: there are only first derivatives"):
        jax.grad(lambda x: jax.grad(lambda x: sine(x).sum())(x).sum())(x)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(sine, (x,), (x,))
    with pytest.raises(ValueError, match="the kernel 'sine' cannot be differentiated"):
        jax.grad(lambda x: brainevent.warp_kernel(wk.sine, like(x), launch_dims=3)(x).sum())(x)
