# SPDX-License-Identifier: Apache-2.0
"""A wrong shape names the operator, its operands and the rule, and its traceback is short."""

import re
import traceback

import jax
import jax.numpy as jnp
import pytest

import brainevent
from brainevent.errors import OperandError

SPIKES, WEIGHTS = jnp.ones(4), jnp.ones((4, 3))


def product(spikes, weights):
    return spikes @ weights


def operator(name, reference=product, **kernels):
    op = brainevent.XLACustomKernel(name)
    if reference is not None:
        op.def_reference(reference)
    for backend, kernel in kernels.items():
        op.def_kernel(backend, "cpu", lambda *, outs, kernel=kernel: kernel)
    return op


def frames_of(error):
    """Return the files of all frames that Python would print, causes included."""
    text = "".join(traceback.format_exception(error))
    return re.findall(r'File "([^"]+)"', text)


def raised_by(call, kind=OperandError):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_reference_that_cannot_take_the_operands(unique_name, around):
    op = operator(unique_name("summed"))
    error = raised_by(lambda: around(op)(jnp.ones(5), WEIGHTS))
    lines = str(error).splitlines()
    assert lines[0] == f"operator {op.name!r}: its reference raised TypeError for operands float32[5], float32[4, 3]:"
    assert "got (5,) and (4,)" in lines[1]
    assert re.fullmatch(r"  test_wrong_shapes.py:\d+, in product: return spikes @ weights", lines[2])
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, TypeError)
    assert not [name for name in frames_of(error) if "/jax/" in name or "/brainevent/operator/" in name]


def test_the_sharding_rule_says_which_size_is_wrong(unique_name):
    op = operator(unique_name("cut"))
    op.def_sharding_rule("n, n m -> m", reduction_factors=("n",))
    error = raised_by(lambda: op(jnp.ones(5), WEIGHTS))
    assert "sharding rule 'n, n m -> m': n is 5 in operand 0, but 4 in operand 1" in str(error)
    error = raised_by(lambda: op(jnp.ones((5, 1)), WEIGHTS))
    assert "operand 0 has 1 dimensions there, but the operator was called with one of rank 2" in str(error)


@pytest.mark.parametrize(("spikes", "fits"), [((4,), True), ((1,), True), ((5,), False)])
def test_a_kernel_without_a_reference_is_not_given_sizes_that_break_its_rule(unique_name, spikes, fits):
    op = operator(unique_name("cut"), None, sum=lambda spikes, weights: (spikes[:, None] * weights).sum(0))
    op.def_sharding_rule("n, n m -> m", reduction_factors=("n",))

    def call(spikes):
        return op(spikes, WEIGHTS, outs=jax.ShapeDtypeStruct((3,), jnp.float32))

    if fits:
        assert call(jnp.ones(spikes)).tolist() == [4, 4, 4]
        assert jax.vmap(call)(jnp.ones((5, *spikes))).shape == (5, 3)
        return
    for one in (call, jax.jit(call)):
        error = raised_by(lambda one=one: one(jnp.ones(spikes)))
        assert "n is 5 in operand 0, but 4 in operand 1 (operands: float32[5], float32[4, 3])" in str(error)
    error = raised_by(lambda: jax.vmap(call)(jnp.ones((2, *spikes))))
    assert "n is 5 in operand 0, but 4 in operand 1" in str(error)


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_outs_and_a_kernel_that_differ(unique_name, around):
    op = operator(unique_name("summed"), None, dense=product)
    outs = jax.ShapeDtypeStruct((4,), jnp.float32)
    error = raised_by(lambda: around(lambda s: op(s, WEIGHTS, outs=outs))(SPIKES), brainevent.KernelOutputError)
    assert "output 0 is float32[3], but outs says float32[4]" in str(error)
    assert str(error).splitlines()[0].endswith("(operands: float32[4], float32[4, 3])")
    assert len(frames_of(error)) <= 4


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_kernel_that_cannot_take_the_operands(unique_name, around):
    op = operator(unique_name("summed"), None, dense=lambda spikes, weights: weights @ spikes)
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    call = around(lambda s: op(s, WEIGHTS, outs=outs))
    error = raised_by(lambda: call(SPIKES), brainevent.KernelCompilationError)
    assert "operands: float32[4], float32[4, 3]; outs: float32[3]" in str(error).splitlines()
    assert not [name for name in frames_of(error) if "/brainevent/operator/" in name or "/jax/" in name]


def jvp_of(returned):
    def rule(primals, tangents, **params):
        return [product(*primals)], [returned(*primals)]

    return lambda op: op.def_jvp_rule(rule), lambda op: jax.jvp(lambda s: op(s, WEIGHTS), (SPIKES,), (SPIKES,))


def per_input(returned):
    def rule(tangent, *primals, **params):
        return [returned(*primals)]

    return lambda op: op.def_jvp_rule2(rule, None), lambda op: jax.jvp(lambda s: op(s, WEIGHTS), (SPIKES,), (SPIKES,))


def transpose_of(returned):
    def rule(cotangents, spikes, weights, **params):
        return [returned(cotangents[0], weights), None]

    linear = lambda op: jax.linear_transpose(lambda s: op(s, WEIGHTS), SPIKES)(jnp.ones(3))
    return lambda op: op.def_transpose_rule(rule), linear


def batching_of(returned):
    def rule(args, axes, **params):
        return [returned(*args)], [0]

    return lambda op: op.def_batching_rule(rule), lambda op: jax.vmap(op, (0, None))(jnp.ones((2, 4)), WEIGHTS)


RULES = {
    "jvp": (jvp_of, "jvp rule", "operands float32[4], float32[4, 3] and tangents float32[4], zero"),
    "jvp2": (per_input, "jvp rule 0", "operands float32[4], float32[4, 3] and tangents float32[4], zero"),
    "transpose": (transpose_of, "transpose rule", "cotangents float32[3] and operands float32[4], float32[4, 3]"),
    "batching": (batching_of, "batching rule", "operands float32[2, 4], float32[4, 3], mapped on axes (0, None)"),
}


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_that_raises(unique_name, kind):
    make, what, given = RULES[kind]
    define, call = make(lambda *_: jnp.ones(7) @ WEIGHTS)
    op = operator(unique_name("ruled"))
    define(op)
    error = raised_by(lambda: call(op))
    assert str(error).startswith(f"operator {op.name!r}: its {what} raised TypeError for {given}:\n  dot_general")
    assert not [name for name in frames_of(error) if "/brainevent/operator/" in name]


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_that_returns_a_wrong_shape(unique_name, kind):
    make, what, given = RULES[kind]
    define, call = make(lambda *_: jnp.ones(7))
    op = operator(unique_name("ruled"))
    define(op)
    said = str(raised_by(lambda: call(op))).splitlines()[0]
    assert f"{what} returned float32[7]" in said
    assert said.endswith(f"(it was given {given})")


def test_other_exceptions_keep_their_class_and_get_a_note(unique_name):
    def reference(x):
        raise ZeroDivisionError("no such size")

    op = operator(unique_name("zero"), reference)
    error = raised_by(lambda: op(SPIKES), ZeroDivisionError)
    assert str(error) == "no such size"
    said = f"operator {op.name!r}: its reference raised ZeroDivisionError for operands float32[4]"
    assert any(note.startswith(said) for note in error.__notes__)


def test_all_frames_are_shown_if_jax_shows_its_own(unique_name):
    op = operator(unique_name("summed"))
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        error = raised_by(lambda: op(jnp.ones(5), WEIGHTS))
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert [name for name in frames_of(error) if "/jax/" in name]


@pytest.mark.parametrize("outs", [None, jax.ShapeDtypeStruct((3,), jnp.float32)])
def test_a_quantity_is_no_operand(unique_name, outs):
    u = pytest.importorskip("brainunit")
    op = brainevent.XLACustomKernel(unique_name())
    op.def_reference(lambda x, y: x + y)
    x = jnp.array([1.0, 2.0, 3.0])
    words = (
        "operand 1 is a Quantity in mV; operators take numbers without units: pass x.to_decimal(unit), or x.mantissa"
    )
    for call in (op, jax.jit(op, static_argnames="outs")):
        with pytest.raises(TypeError, match=re.escape(f"operator {op.name!r}: {words}")):
            call(x, x * u.mV, outs=outs)
    assert op(x, (x * u.mV).to_decimal(u.uvolt), outs=outs)[1] == 2002
