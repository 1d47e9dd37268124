# SPDX-License-Identifier: Apache-2.0
"""`explain_loops` names each loop of a program, and what stands in the way of its being one native call."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import brainevent as be
from brainevent import _compat, config, doctor
from brainevent.loops.cost import Calibration, why_not_faster
from brainevent.loops.plan import plan_of

V = np.ones(8, np.float32)


def line_of(function, words):
    """Return "file:line" of the first line of a function with these words."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(k for k, line in enumerate(lines) if words in line)}"


def test_a_program_without_loops():
    assert str(be.explain_loops(lambda v: v * 2, V)) == "no loops"


def test_a_loop_that_becomes_a_call():
    def run(v):
        return lax.scan(lambda v, _: (v * 0.5, v.sum()), v, None, length=50)

    [loop] = be.explain_loops(run, V)
    assert (loop.where, loop.steps, loop.is_fused) == (line_of(run, "lax.scan"), 50, True)
    assert str(loop) == f"{loop.where}: 50 steps, one native call: 1 loop over elements, reduce_sum"


def test_an_obstacle_is_named_with_its_line():
    def run(v):
        def step(v, _):
            v = v * 2
            v = jnp.sort(v)
            return v, None

        return jax.vmap(lambda v: lax.scan(step, v, None, length=50)[0])(jnp.stack([v, v]))

    [loop] = be.explain_loops(jax.jit(run), V)
    assert not loop.is_fused
    assert loop.reason == "the JAX primitive sort"
    assert loop.obstacle == line_of(run, "jnp.sort")
    words = f"{line_of(run, 'lax.scan')}: 50 steps, compiled by JAX: the JAX primitive sort ({loop.obstacle})"
    assert str(loop) == words


def test_loops_within_others():
    def run(v):
        def outer(v, _):
            v = lax.scan(lambda v, _: (v * 0.5, None), v, None, length=64)[0]
            return lax.cond(v[0] > 0, lambda v: v + 1, lambda v: v, v), None

        def sorting(v, _):
            return jnp.sort(lax.scan(lambda v, _: (v * 0.5, None), v, None, length=64)[0]), None

        v, _ = lax.scan(outer, v, None, length=100)
        v, _ = lax.scan(sorting, v, None, length=100)
        return lax.while_loop(lambda v: v[0] < 1, lambda v: v * 2, v)

    whole, first, second, third = be.explain_loops(run, V)
    assert (whole.is_fused, whole.reason) == (True, "0 loops over elements, a loop of 64 steps, a branch")
    assert (first.steps, first.is_fused, first.reason) == (100, False, "the JAX primitive sort")
    assert (second.steps, second.is_fused) == (64, True)
    assert (third.steps, third.is_fused) == (None, False)
    assert "an unknown number of steps, compiled by JAX: a jax.lax.while_loop; only" in str(third)


def test_a_program_that_was_traced():
    def run(v):
        return lax.scan(lambda v, _: (v * 0.5, None), v, None, length=50)[0]

    assert be.explain_loops(jax.make_jaxpr(run)(V)) == be.explain_loops(run, V)
    with pytest.raises(TypeError, match="explain_loops: function is int; pass a function of arrays, or what"):
        be.explain_loops(3)


def test_derivatives_are_loops_of_their_own():
    def run(v):
        return lax.scan(lambda v, _: (v * v, None), v, None, length=50)[0].sum()

    assert [loop.is_fused for loop in be.explain_loops(jax.grad(run), V)] == [True, True]


@pytest.mark.parametrize("ordered", [False, True])
def test_callbacks_are_named(ordered):
    def run(v):
        def step(v, _):
            jax.debug.print("{}", v, ordered=ordered)
            return v * 2, None

        return lax.scan(step, v, None, length=50)

    [loop] = be.explain_loops(run, V)
    assert loop.reason == "jax.debug.print or a callback, which calls Python"
    assert loop.obstacle == line_of(run, "debug.print")


def test_the_loop_of_record_has_the_line_that_calls_it():
    def run(v):
        return be.record(lambda v, i: (v * 0.5, v > 1), v, 50, dt=1.0)[1].bits

    for _ in range(2):  # JAX traces it once
        [loop] = be.explain_loops(run, V)
        assert loop.where == line_of(run, "be.record")
        assert "a loop of 1 step," in loop.reason


def test_loops_that_would_not_be_faster():
    def run(v, steps):
        matrix = jnp.arange(v.shape[-1] ** 2.0).reshape(v.shape[-1], -1)
        return lax.scan(lambda v, _: (v @ matrix * 0.1, None), v, None, length=steps)[0]

    narrow = np.ones((10, 4), np.float32)
    [few] = be.explain_loops(lambda v: run(v, 31), narrow)
    [small] = be.explain_loops(lambda v: run(v, 32), narrow)
    [large] = be.explain_loops(lambda v: run(v, 32), np.ones(1000, np.float32))
    assert few.reason == "31 steps are too few: at least 32 are worth compiling"
    assert small.is_fused
    assert large.reason == "XLA's loop is expected to be faster, mostly because of dense products"


def test_functions_that_xla_computes_faster_must_not_be_most_of_the_work():
    def run(v, steps=50):
        def step(carry, _):
            v, slow = carry
            return (jnp.where(v > 1, v * 0.5, v + 0.25), jnp.tanh(slow)), v > 1

        return lax.scan(step, (v, v[:2] if v.size < 999 else v), None, length=steps)

    assert [loop.is_fused for loop in be.explain_loops(run, np.ones(900, np.float32))] == [True]
    [loop] = be.explain_loops(run, np.ones(999, np.float32))
    assert loop.reason == "XLA's loop is expected to be faster, mostly because of tanh"


def test_spikes_that_are_packed_into_bits_do_not_keep_a_loop_from_being_native():
    def run(v, of_rows):
        def step(v, _):
            spikes = v > 0.5
            return jnp.where(spikes, 0, v + 0.1), of_rows(spikes.reshape(-1, 8) << jnp.arange(8))

        return lax.scan(step, v, None, length=50)

    v = np.ones(800, np.float32)
    [packed] = be.explain_loops(lambda v: run(v, lambda bits: bits.sum(1)), v)
    [largest] = be.explain_loops(lambda v: run(v, lambda bits: bits.max(1)), v)
    assert packed.is_fused
    assert largest.reason == "XLA's loop is expected to be faster, mostly because of reduce_max"


def fused(step, carry):
    [loop] = be.explain_loops(lambda c: lax.scan(lambda c, _: (step(c), None), c, None, length=50)[0], carry)
    return loop.is_fused or loop.reason.rpartition("because of ")[2]


@pytest.mark.parametrize(
    ("step", "native", "left", "reason"),
    [
        (lambda v: jnp.roll(v, 1, -1) * 0.5 + v, (64,), (8, 64), "concatenate"),
        (lambda v: v * 0.5 + v.max(-1, keepdims=True) * 0.1, (64,), (8, 64), "reduce_max"),
        (lambda v: v * 0.5 + jnp.arange(v.shape[-1]), (20, 20), (20, 10), "add"),
        (lambda v: v.at[v[0, 0].astype(int)].set(v[0] * 0.5), (2, 4_000), (2, 6_000), "dynamic_slice"),
    ],
)
def test_what_is_slower_in_rows_is_left_to_xla(step, native, left, reason):
    assert fused(step, jnp.ones(native)) is True
    assert fused(step, jnp.ones(left)) == reason


@pytest.mark.parametrize(
    ("dtype", "native"), [("uint8", True), ("int8", "add"), ("float16", "add"), ("bfloat16", "add")]
)
def test_numbers_that_xla_computes_faster_are_left_to_it(dtype, native):
    assert fused(lambda v: v + v, jnp.ones(1000, dtype)) == native


@pytest.mark.parametrize(("dtype", "native"), [("float32", True), ("float64", "tanh")])
def test_functions_of_float64_have_times_of_their_own(dtype, native):
    with jax.enable_x64(True):
        assert fused(lambda v: jnp.tanh(v) - jnp.asin(v * 0.5), jnp.ones(100, dtype)) == native


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "native"),
    [
        (32, 32, "float32", True),
        (64, 64, "float32", True),
        (64, 32, "float32", True),
        (31, 64, "float32", "dense products"),  # XLA computes it in place
        (65, 32, "float32", "dense products"),  # or is nearly as fast, and uses threads for larger ones
        (64, 64, "float64", "dense products"),
    ],
)
def test_products_of_spikes_and_some_neurons_are_native(rows, columns, dtype, native):
    with jax.enable_x64(dtype == "float64"):
        matrix = jnp.ones((rows, columns), dtype)
        assert fused(lambda v: v * 0.9 + ((v > 1) @ matrix).sum(), jnp.ones(rows, dtype)) == native
        assert fused(lambda v: v * 0.9 + (matrix.T @ (v > 1)).sum(), jnp.ones(rows, dtype)) == native


def test_products_of_two_vectors_are_left_to_xla():
    assert fused(lambda v: v * 0.9 + v @ v, jnp.ones(2000)) == "dense products"


def test_the_borders_are_those_of_the_calibration():
    def run(v):
        return lax.scan(lambda v, _: (v * 0.5, None), v, None, length=50)

    [eqn] = jax.make_jaxpr(run)(V).jaxpr.eqns
    plan = plan_of(eqn.params, "cpu")
    assert why_not_faster(plan, Calibration(least_steps=50, most_elements=8)) is None
    assert why_not_faster(plan, Calibration(least_steps=51)) == "50 steps are too few: at least 51 are worth compiling"
    words = "its body has 1 equations, which take too long to compile"
    assert why_not_faster(plan, Calibration(most_equations=0)) == words
    words = "a step computes 8 elements, which XLA does in threads"
    assert why_not_faster(plan, Calibration(most_elements=7)) == words
    assert why_not_faster(plan, Calibration(step=1)) == (
        "XLA's loop is expected to be faster, mostly because of the step itself"
    )


def test_a_doctor_says_whether_loops_can_be_calls(monkeypatch):
    def line():
        [section] = [s for s in doctor.report(attempt=False).sections if s.title == "Loops as native calls"]
        return section.lines[0].text, section.lines[0].fault

    assert line() == ("off; turn it on with config.fuse_loops()", False)
    with config.fuse_loops():
        assert line() == ("on", False)
    monkeypatch.setattr(_compat, "_SCAN_LOWERING", None)
    text, fault = line()
    assert text.startswith("compiled by JAX, with config.fuse_loops, too: JAX ")
    assert fault
