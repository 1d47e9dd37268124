# SPDX-License-Identifier: Apache-2.0
"""What single equations of a loop return, at the edges of their meaning: as in XLA's loop."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreted_loops import interpreted_scan
from jax import lax
from loop_bodies import HALVES, INTEGERS, PLACES, ends_of, of_halves, of_integers

from brainevent._compat import bind_equation
from brainevent.loops.values import UnfitError

STEPS = 4
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
NANS = np.array([[1, np.nan, 3], [-np.inf, 2, np.inf]], np.float32)
KEY = np.array([3, 5], np.uint32)


def in_a_loop(function, *arrays):
    """Return a loop's results, from its text and from XLA, where `function(step, *arrays)` is called in each step."""

    def run(arrays):
        return lax.scan(lambda k, _: (k + 1, function(k, *arrays)), jnp.int32(-2), None, length=STEPS)

    closed = jax.make_jaxpr(run)(arrays)
    eqn = closed.jaxpr.eqns[-1]
    known = dict(zip(closed.jaxpr.invars, arrays, strict=True))
    known.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    operands = [np.asarray(a.val, a.aval.dtype) if hasattr(a, "val") else known[a] for a in eqn.invars]
    found, plan = interpreted_scan(eqn.params, operands)
    return found, jax.jit(lambda *x: bind_equation(eqn, x))(*operands), plan


def same(function, *arrays):
    found, wanted, _ = in_a_loop(function, *arrays)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


def of_rows(k, x):
    """Scan an array that the loop carries: forwards, and backwards."""
    (total, _), sums = lax.scan(lambda c, row: ((c[0] + row * k, c[1]), c[0].sum()), (x[0], x), x)
    last, rows = lax.scan(lambda c, row: (row[0] + row[1], c + 1), x[1], (x * 2, jnp.arange(4.0)), reverse=True)
    return total, sums, last, rows


def halved(k, x):
    """Halve numbers until all are small; of a batch, each row for itself."""
    small = lax.while_loop(lambda c: c[0].max() > k, lambda c: (c[0] * 0.5 - 4, c[1] + 1), (x, jnp.int32(0)))
    alone = jax.vmap(lambda row: lax.while_loop(lambda r: r.sum() > 3 + k, lambda r: r - 1, row))(x)
    return *small, alone, lax.fori_loop(0, k, lambda i, y: y * 2 + i, x)


def branches(k, x):
    """Take one of three branches, or the last one where the index is out of range; one of them changes nothing."""
    chosen = lax.switch(k + 1, [lambda x, y: (x, y), lambda x, y: (y + 1, x), lambda x, y: (x * 2, x + y)], x, -x)
    scalar = lax.cond(k > 0, lambda: k * 2, lambda: -k)
    reshaped = lax.cond(k > 0, lambda x: x[:1] * 2, lambda x: (x[1] + x[2]).reshape(1, 3), x)
    nested = lax.cond(k > 0, lambda x: lax.fori_loop(0, 3, lambda i, y: y + i, x), lambda x: x, x * k)
    return chosen, scalar, nested, reshaped + 0, lax.cond(k == 0, lambda x: x[::-1], lambda x: x.at[0].set(5.0), x + k)


def gathered(k, x):
    """Read elements, rows and windows at places of which some are out of range."""
    modes = [x.at[PLACES + k].get(mode=mode) for mode in ("clip", "fill")]
    per_row = jnp.take_along_axis(x, jnp.array([[0, 2], [1, 1], [2, 0], [0, -1]]) - jnp.abs(k), 1)
    windows = jax.vmap(lambda i: lax.dynamic_slice(x, (i, i - 2), (2, 2)))(PLACES[0] + k)
    whole = x.astype(jnp.int32).at[PLACES[0]].get(mode="fill", fill_value=-7)
    return *modes, per_row, windows, whole, x[PLACES[0] % 4, PLACES[1] % 3], (x > 3).at[PLACES].get(mode="fill")


def scattered(k, x):
    """Write elements, rows and windows at places that repeat, and of which some are out of range."""
    at, rows = x.at[PLACES[0] + k], jnp.arange(9.0).reshape(3, 3)
    modes = [getattr(at, name)(rows, mode=mode) for mode in ("drop", "clip") for name in ("set", "add", "min", "max")]
    single = x.at[PLACES % 4, jnp.array([0, 2, 2])].add(k)
    windows = jax.vmap(lambda i: lax.dynamic_update_slice(x, x[:2, :2] * i, (i, i)))(PLACES[1])
    whole = x.astype(jnp.int32).at[PLACES].multiply(1 << 20)
    return *modes, single, windows, whole, x.at[PLACES[0] % 4].add(x[:3]), jnp.zeros(5).at[PLACES].add(0.1)


def of_a_batch(k, x):
    """Reduce over an axis that `jax.vmap` names, and no device has."""
    return jax.vmap(lambda row: [f(row * k, "b") for f in (lax.psum, lax.pmax, lax.pmin)], axis_name="b")(x)


def along_axes(k, x):
    sums = [x.cumsum(0), (x * k).cumsum(1), jnp.cumprod(x - 3, 1), lax.cummax(-x, 1, reverse=True), lax.cummin(x)]
    places = [
        x.argmax(0),
        (x * k).argmin(1),
        (x % 5).argmax(),
        NANS.argmax(1) + k,
        NANS.argmin(0) + k,
        (x > k).argmax(1),
    ]
    pads = [jnp.pad(x, ((1, 2), (0, 1)), constant_values=k), lax.pad(x, 1.5, ((-1, 2, 1), (2, -1, 0)))]
    return *sums, *places, *pads, x.astype(jnp.int32).cumsum() << 25


MODES = ["drop", "clip", "promise_in_bounds"]
EQUATIONS = {
    "dynamic_slice": lambda k, x: lax.dynamic_slice(x, (3 * k, k), (2, 2)),
    "dynamic_update_slice": lambda k, x: lax.dynamic_update_slice(x, x[:2, :2] + k, (3 * k, -k)),
    "a row of oneself": lambda k, x: x.at[k].set(x[1]),
    "reverse": lambda k, x: x[::-1, ::2] + k,
    "transpose": lambda k, x: x.T.reshape(2, 6) * k,
    "iota": lambda k, x: lax.broadcasted_iota(jnp.int32, (3, 4), 1) + k,
    "concatenate": lambda k, x: jnp.concatenate([x[1:], jnp.full((1, 3), k, x.dtype), x * k]),
    "stack and unstack": lambda k, x: jnp.stack([row * k for row in x], axis=1),
    "split": lambda k, x: [part + k for part in jnp.split(x, [1, 3])],
    "sum": lambda k, x: [x.sum(), x.sum(0), x.sum(1), (x + k).sum((0, 1))],
    "integer sum": lambda k, x: [(x.astype(jnp.int32) << 28).sum(), (x.astype(jnp.uint32) << 30).sum(0)],
    "prod": lambda k, x: [(x + 1).prod(), x.prod(1)],
    "any and all": lambda k, x: [(x > k).any(), (x > 5).all(1), (x > 0).any(0)],
    "clip by scalars": lambda k, x: lax.clamp(jnp.float32(2), x, k.astype(jnp.float32) + 5),
    "select by a scalar": lambda k, x: lax.select(k > 0, x, -x),
    "vector times matrix": lambda k, x: x[:, 0] @ x,
    "matrix times vector": lambda k, x: x @ x[0],
    "matrix times matrix": lambda k, x: x @ x.T,
    "inner product": lambda k, x: jnp.vdot(x[0], x[1]),
    "outer product": lambda k, x: jnp.outer(x[0], x[:, 1]).T,
    "product of batches": lambda k, x: jnp.einsum("bi,bij->bj", x, jnp.stack([x[:3]] * 4)),
    "integer product": lambda k, x: x.astype(jnp.int32) @ x.T.astype(jnp.int32),
    "spikes times matrix": lambda k, x: (x[:, 0] > k * 2) @ x,
    "matrix times spikes": lambda k, x: x @ (x[0] > k),
    "spikes times integers": lambda k, x: (x > k) @ x.T.astype(jnp.int8),
    "integers times matrix": lambda k, x: (x.astype(jnp.int32) + k) @ x.T,
    "counts of spikes": lambda k, x: jnp.dot(x > k, x.T < 4, preferred_element_type=jnp.int32),
    "small integers": lambda k, x: jnp.dot(x.astype(jnp.int8), x.T.astype(jnp.uint8), preferred_element_type=jnp.int32),
    "floats of integers": lambda k, x: jnp.dot(x.astype(int), k + x.T.astype(int), preferred_element_type=x.dtype),
    "each spike times each weight": lambda k, x: [jnp.outer(x[0] > k, x[1]), jnp.einsum("i,j->ij", x[1], x[0] > k)],
    "spikes times halves": lambda k, x: (x > k) @ x.T.astype(jnp.bfloat16),
    "integer division": lambda k, x: [x.astype(jnp.int32) // k, x.astype(jnp.int32) % k, lax.div(jnp.int32(7), k)],
    "shifts": lambda k, x: [x.astype(jnp.uint32) << k.astype(jnp.uint32), x.astype(jnp.int32) >> k],
    "a scalar of an array": lambda k, x: x[2, 1] * x + x.reshape(-1)[k % 12],
    "functions": lambda k, x: [jnp.exp(-x), jnp.tanh(x), jnp.log1p(x), jnp.expm1(x / 4), jnp.sqrt(x), x**3],
    "axes of size 1": lambda k, x: lax.mul(x[:, :1] + k, x[:1]),
    "loops of rows": of_rows,
    "loops of an unknown number of steps": halved,
    "branches": branches,
    "gather": gathered,
    "scatter": scattered,
    "along axes": along_axes,
    "reductions over a batch": of_a_batch,
    "a loop without steps": lambda k, x: lax.scan(lambda c, row: (c + row, c), x[0] * k, x[:0]),
    "a bitcast": lambda k, x: lax.bitcast_convert_type(x, jnp.int32) + k,
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation(name):
    same(EQUATIONS[name], ROWS)


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("places", [(-7, -4), (2, 6), (-1, 0)])
def test_a_row_that_is_out_of_range(mode, places):
    def update(k, x):
        return [x.at[place + k].set(99.0, mode=mode) for place in places]

    same(update, ROWS)


def test_reductions_of_what_is_not_a_number():
    same(lambda k, x: [x.max(), x.min(), x.max(0), x.min(0), x.max(1), x.min(1), jnp.maximum(x, k)], NANS)


def test_random_numbers_are_those_of_jax():
    def draw(k, words):
        key = jax.random.fold_in(jax.random.wrap_key_data(words), k)
        first, second = jax.random.split(key)
        return [jax.random.uniform(first, (5,)), jax.random.bits(second, (2, 2)), jax.random.key_data(second)]

    same(draw, KEY)


def test_keys_in_arrays():
    def draw(k, words):
        keys = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(words), k), 4)
        chosen = jnp.where(k > 0, keys[0], keys[1])
        chosen = lax.cond(k > -1, lambda key: jax.random.fold_in(key, 2), lambda key: jax.random.key(7), chosen)
        return [jax.vmap(lambda key: jax.random.bits(key, (3,)))(keys[1:]), jax.random.key_data(chosen)]

    same(draw, KEY)


def test_keys_of_blocks_of_neurons():
    def draw(k, words):
        key = jax.random.wrap_key_data(words)
        blocks = jax.vmap(lambda block: jax.random.fold_in(key, block))(jnp.arange(3) + k)
        of_step = jax.vmap(lambda block: jax.random.fold_in(block, k))(blocks)
        trials = jax.vmap(lambda b: jax.vmap(lambda trial: jax.random.fold_in(b, trial))(jnp.arange(2)))(of_step)
        uniform = jax.vmap(jax.vmap(lambda key: jax.random.uniform(key, (5,))))(trials)
        return [jax.random.key_data(each) for each in (blocks, of_step, trials)] + [uniform]

    same(draw, KEY)


def test_the_logarithm_of_the_gamma_function():
    x = np.array([0.25, 0.5, 3, 40, 1e6, -0.25, -2.5, -30.75, 0, -3, np.inf, -np.inf, np.nan], np.float32)
    found, wanted, _ = in_a_loop(lambda k, x: lax.lgamma(x), x)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_logarithm_of_the_gamma_function_of_16_bits_is_rounded_once(dtype):
    found, wanted, _ = in_a_loop(lambda k, x: lax.lgamma(x), np.array([0.5, 1, 1.5, 2.5, -2.5, 40], dtype))
    assert found[1].dtype == wanted[1].dtype
    np.testing.assert_allclose(np.float32(found[1]), np.float32(wanted[1]), rtol=1e-2, atol=2e-6)


def test_equal_equations_are_computed_once():
    _, _, plan = in_a_loop(lambda k, x: jnp.exp(x * 2) + jnp.exp(x * 2), ROWS)
    assert sum(node.equation is not None and node.equation.primitive.name == "exp" for node in plan.nodes()) == 1


def test_what_does_not_change_is_computed_before_the_first_step():
    _, _, plan = in_a_loop(lambda k, x: jnp.exp(x) * k + (x @ x.T).sum(), ROWS)
    before = [node for stage in plan.before for loop in stage.loops for node in loop]
    assert [node.equation.primitive.name for node in before if node.equation is not None] == ["exp"]
    assert [node.call.name for stage in plan.before for node in stage.calls] == ["dot_general", "reduce_sum"]
    assert not any(stage.calls for stage in plan.step)


def cut_off(x):
    """Return what the bits of integers, without the last ones, are as numbers."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    return lax.bitcast_convert_type((bits >> jnp.uint32(4)) << jnp.uint32(4), jnp.float32)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda k, x: jnp.sort(x), "the JAX primitive sort"),
        (lambda k, x: lax.cumlogsumexp(x), "the JAX primitive reduce_window"),
        (lambda k, x: (x * 1j).real, "complex64; loops compute with float32, float64, int32"),
        (lambda k, x: x.astype(jnp.int4), "numbers of int4"),
        (lambda k, x: lax.bitcast_convert_type(x.astype(jnp.int32), jnp.float32), "may be those of a denormal number"),
        (lambda k, x: cut_off(x.astype(jnp.int32) + 70_000), "may be those of a denormal number"),
        (lambda k, x: jax.pure_callback(lambda x: x, x, x), "pure_callback, which calls Python"),
        (lambda k, x: jnp.zeros((0, 3), jnp.int4) + k.astype(jnp.int4), "an array without elements of int4"),
        (lambda k, x: jnp.nextafter(x, x + 1), "nextafter, which differs here for denormal numbers"),
        (lambda k, x: jax.random.bits(jax.random.key(1, impl="rbg"), x.shape), "random keys of key<rbg>"),
        (lambda k, x: jnp.fft.fft(x).real, "complex64"),
        (lambda k, x: x.astype(bool) @ x.T.astype(bool), "a product of bool"),
        (lambda k, x: x.at[1].apply(jnp.exp), "x.at[...].apply"),
        (lambda k, x: x.at[PLACES % 4].apply(jnp.sin), "x.at[...].apply"),
    ],
)
def test_what_is_not_compiled_is_named(function, words):
    with pytest.raises(UnfitError, match=re.escape(words)):
        in_a_loop(function, ROWS)


def test_zeros_of_both_signs_are_no_single_constant():
    zeros = np.array([0.0, -0.0, 0.0], np.float32)
    found, wanted, _ = in_a_loop(lambda k, x: 1 / (x[0, 0] * 0 + jnp.asarray(zeros)), ROWS)
    np.testing.assert_array_equal(found[1], wanted[1])
    assert found[1][0].tolist() == [np.inf, -np.inf, np.inf] or np.isinf(found[1]).all()


def test_numbers_that_loops_do_not_compute_with_are_not_moved_either():
    def run(a, b):
        return lax.scan(lambda c, _: ((c[1], c[0]), None), (a, b), None, length=STEPS)

    ones = np.ones(3, np.complex64)
    eqn = jax.make_jaxpr(run)(ones, ones).jaxpr.eqns[-1]
    with pytest.raises(UnfitError, match="numbers of complex64"):
        interpreted_scan(eqn.params, [ones, ones])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_have_the_bits_of_their_type(dtype):
    with jax.enable_x64(True):
        same(of_integers, ends_of(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_of_16_bits_are_rounded_after_each_operation(dtype):
    found, wanted, _ = in_a_loop(of_halves, ends_of(dtype))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.float64(one), np.float64(other), rtol=2e-2 if one.dtype == dtype else 0)
    rounded, _, _ = in_a_loop(lambda k, x: [(x + 1) - 1], np.array([2.0**-12, 3.0], dtype))
    np.testing.assert_array_equal(np.float32(rounded[1]), np.tile(np.float32([0, 3]), (STEPS, 1)))


def test_floats_of_64_bits_are_not_cut():
    with jax.enable_x64(True):
        same(lambda k, x: [x * 2.5, x.sum(), jnp.exp(x), x.astype("int64") * 2**40], ROWS.astype(np.float64))


def test_random_floats_of_64_bits():
    def draw(k, words):
        key = jax.random.fold_in(jax.random.wrap_key_data(words), k)
        return [jax.random.uniform(key, (5,)), jax.random.bits(key, (3,), np.uint64), jax.random.normal(key, (5,))]

    with jax.enable_x64(True):
        (_, uniform, bits, normal), wanted, _ = in_a_loop(draw, KEY)
    np.testing.assert_array_equal(uniform, wanted[1])
    np.testing.assert_array_equal(bits, wanted[2])
    np.testing.assert_allclose(normal, wanted[3], rtol=1e-14)


def test_bits_of_halves_and_wide_numbers_are_left_to_jax():
    with pytest.raises(UnfitError, match="a bitcast of float16 to uint16"):
        in_a_loop(lambda k, x: lax.bitcast_convert_type(x, np.uint16), np.ones(3, np.float16))
    with jax.enable_x64(True), pytest.raises(UnfitError, match="bitcast_convert_type of float64"):
        in_a_loop(lambda k, x: lax.bitcast_convert_type(x, np.int64), np.ones(3))
    with jax.enable_x64(True), pytest.raises(UnfitError, match="whose bits may be those of a denormal number"):
        in_a_loop(lambda k, x: lax.bitcast_convert_type(x | 0x7F800000, np.float64), np.arange(3))
    with jax.enable_x64(True), pytest.raises(UnfitError, match="the JAX primitive clz"):
        in_a_loop(lambda k, x: lax.clz(x), np.arange(3))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_high_halves_of_products_of_64_bits_are_left_to_jax(dtype):
    with jax.enable_x64(True), pytest.raises(UnfitError, match="the JAX primitive mulhi"):
        in_a_loop(lambda k, x: lax.mulhi(x, x), np.array([2**62, 3], dtype))


def test_what_is_behind_a_barrier_runs_in_each_step():
    barrier = lax.optimization_barrier
    _, _, plan = in_a_loop(lambda k, x: [jnp.exp(barrier(x)) * k, jnp.sin(x) * k], ROWS)
    before = [node.equation.primitive.name for stage in plan.before for node in stage.nodes() if node.equation]
    assert "sin" not in before  # one array, and the barrier holds for all that read it
    _, _, plan = in_a_loop(lambda k, x, y: [jnp.exp(barrier(x)) * k, jnp.sin(y) * k], ROWS, ROWS)
    before = [node.equation.primitive.name for stage in plan.before for node in stage.nodes() if node.equation]
    assert before == ["sin"]
