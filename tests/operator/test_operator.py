# SPDX-License-Identifier: Apache-2.0
"""XLACustomKernel: the kernel table, the call, and what bad input gets."""

import dataclasses
import enum
import fractions
import inspect
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import brainevent
from brainevent import (
    KernelCompilationError,
    KernelEntry,
    KernelFallbackExhaustedError,
    KernelNotAvailableError,
    KernelOutputError,
    XLACustomKernel,
)

F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
I32 = jax.ShapeDtypeStruct((2, 2), jnp.int32)
X = jnp.arange(3.0)


def doubling(*, outs, **_):
    return lambda x: 2 * x


@pytest.fixture
def op(unique_name):
    operator = XLACustomKernel(unique_name("op"))
    operator.def_kernel("jnp", "cpu", doubling)
    return operator


# ---- the public surface --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("__init__", ["name", "doc"]),
        ("available_backends", ["platform"]),
        ("call", ["args", "kwargs"]),
        ("def_batching_rule", ["fun"]),
        ("def_call", ["fn"]),
        ("def_cuda_raw_kernel", ["kg", "asdefault"]),
        ("def_jvp_rule", ["fun"]),
        ("def_jvp_rule2", ["jvp_rules"]),
        ("def_kernel", ["backend", "platform", "kg", "asdefault"]),
        ("def_numba_cuda_kernel", ["kg", "asdefault"]),
        ("def_numba_kernel", ["kg", "asdefault"]),
        ("def_pallas_kernel", ["platform", "kg", "asdefault"]),
        ("def_reference", ["fn"]),
        ("def_tags", ["tags"]),
        ("def_transpose_rule", ["fun"]),
        ("def_triton_kernel", ["kg", "asdefault"]),
        ("def_warp_kernel", ["kg", "asdefault"]),
        ("get_default", ["platform"]),
        ("register_general_batching", []),
        ("set_default", ["platform", "backend"]),
    ],
)
def test_methods_have_the_documented_parameters(method, parameters):
    signature = inspect.signature(getattr(XLACustomKernel, method))
    assert list(signature.parameters)[1 : len(parameters) + 1] == parameters


def test_a_new_operator_has_a_primitive_a_name_and_nothing_else(unique_name):
    name = unique_name("fresh")
    operator = XLACustomKernel(name, doc="Fresh.")
    assert (operator.name, operator.__doc__, operator.primitive.name) == (name, "Fresh.", name)
    assert isinstance(operator.primitive, Primitive)
    assert operator.primitive.multiple_results
    assert (operator.defaults, operator.definition.kernels, operator.definition.tags) == ({}, {}, set())
    assert operator.definition.call is operator
    assert operator.definition.benchmark_data is None
    assert (operator.available_backends("cpu"), operator.get_default("cpu")) == ([], None)
    assert brainevent.get_registry()[name] is operator
    assert XLACustomKernel.__module__ == "brainevent"
    assert name in repr(operator)


@pytest.mark.parametrize(
    ("method", "args", "platform", "backend"),
    [
        ("def_kernel", ("mine", "cpu"), "cpu", "mine"),
        ("def_kernel", ("mine", "tpu"), "tpu", "mine"),
        ("def_numba_kernel", (), "cpu", "numba"),
        ("def_warp_kernel", (), "gpu", "warp"),
        ("def_triton_kernel", (), "gpu", "triton"),
        ("def_numba_cuda_kernel", (), "gpu", "numba_cuda"),
        ("def_cuda_raw_kernel", (), "gpu", "cuda_raw"),
        ("def_pallas_kernel", ("gpu",), "gpu", "pallas"),
        ("def_pallas_kernel", ("tpu",), "tpu", "pallas"),
    ],
)
def test_each_registration_enters_one_row_of_the_table(unique_name, method, args, platform, backend):
    operator = XLACustomKernel(unique_name("row"))
    getattr(operator, method)(*args, doubling)
    assert operator.definition.kernels == {platform: {backend: KernelEntry(backend, platform, doubling)}}
    assert operator.defaults == {platform: backend}
    operator.def_kernel("other", platform, doubling)
    getattr(operator, method)(*args, doubling, asdefault=True)
    assert operator.available_backends(platform) == list(operator._kernels[platform]) == [backend, "other"]
    assert operator.get_default(platform) == backend


def test_the_first_kernel_is_the_default_until_another_is_chosen(op):
    op.def_kernel("second", "cpu", doubling)
    assert op.get_default("cpu") == "jnp"
    op.def_kernel("third", "cpu", doubling, asdefault=True)
    assert op.get_default("cpu") == "third"
    op.set_default("cpu", "second")
    assert op.defaults == {"cpu": "second"}
    op.defaults["cpu"] = "jnp"  # A copy.
    assert op.defaults == {"cpu": "second"}
    assert op.available_backends("cpu") == ["jnp", "second", "third"]


def test_tags_are_replaced_and_the_call_function_is_stored(op):
    op.def_tags("csr", "mv")
    op.def_tags("dense")
    assert op.definition.tags == {"dense"}
    np.testing.assert_array_equal(op.call(X, outs=F32), 2 * X)  # without one, it is the operator
    op.def_call(lambda x, *, shift=0.0: op(x, outs=F32) + shift)
    np.testing.assert_array_equal(op.call(X, shift=1.0), 2 * X + 1)


# ---- registrations that cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("register", "classes", "words"),
    [
        (lambda op: op.def_kernel(1, "cpu", doubling), (TypeError, AssertionError), "backend must be a string"),
        (lambda op: op.def_kernel("a", 1, doubling), (TypeError, AssertionError), "platform must be a string"),
        (lambda op: op.def_kernel("a", "cpu", 1), (TypeError, AssertionError), "must be callable, found int"),
        (lambda op: op.def_kernel("", "cpu", doubling), (ValueError,), "backend is an empty string"),
        (lambda op: op.def_kernel("a", "cpuu", doubling), (ValueError, NotImplementedError), "did you mean 'cpu'"),
        (lambda op: op.def_pallas_kernel("cpu", doubling), (ValueError, AssertionError), "'gpu' or 'tpu'"),
        (lambda op: op.def_cuda_raw_kernel(doubling, platform="tpu"), (ValueError,), "'cpu' or 'gpu'"),
        (lambda op: op.set_default("gpu", "warp"), (ValueError,), "no kernels for the platform 'gpu'.*have: cpu"),
        (lambda op: op.set_default("cpu", "jmp"), (ValueError,), "did you mean 'jnp'.*registered: jnp"),
        (lambda op: op.def_reference(1), (TypeError,), "reference must be callable, found int"),
        (lambda op: op.def_call(1), (TypeError,), "call function must be callable, found int"),
        (lambda op: op.def_tags(1), (TypeError,), "a tag must be a string"),
        (lambda op: op.def_jvp_rule(1), (TypeError,), "jvp rule must be callable, found int"),
        (lambda op: op.def_jvp_rule2(None, 1), (TypeError,), "rule 1 is int; pass a function or None"),
        (lambda op: op.def_transpose_rule(1), (TypeError,), "transpose rule must be callable, found int"),
        (lambda op: op.def_batching_rule(1), (TypeError,), "batch rule must be callable, found int"),
        (lambda op: op.def_sharding_rule(1), (TypeError,), "sharding rule 1: pass a string"),
    ],
)
def test_invalid_registrations_are_refused_and_change_nothing(op, register, classes, words):
    said = op.definition
    before = (dict(said.rules), {p: dict(t) for p, t in said.kernels.items()}, op.defaults, said.tags, said.call)
    with pytest.raises(classes, match=words) as caught:
        register(op)
    assert all(isinstance(caught.value, c) for c in classes)
    assert before == (said.rules, said.kernels, op.defaults, said.tags, said.call)
    np.testing.assert_array_equal(op(X, outs=F32), 2 * X)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (3, TypeError, "name must be a string, found int"),
        ("not an identifier", ValueError, "not an identifier"),
        ("", ValueError, "not an identifier"),
        ("1st", ValueError, "not an identifier"),
    ],
)
def test_a_name_must_be_an_identifier(name, error, words):
    with pytest.raises(error, match=words):
        XLACustomKernel(name)
    assert name not in brainevent.get_registry()


# ---- outs and results ----------------------------------------------------------------------------------------------


def filled(*, outs):
    """A kernel without operands: its results count up."""
    return lambda *_: [jnp.full(o.shape, i + 1, o.dtype) for i, o in enumerate(outs)]


@pytest.mark.parametrize(
    ("outs", "expected"),
    [
        (F32, "*"),
        ([F32], ["*"]),
        ((F32, I32), ("*", "*")),
        ({"b": F32, "a": I32}, {"a": "*", "b": "*"}),
        ({"x": [F32, (I32,)], "n": None}, {"x": ["*", ("*",)], "n": None}),
        ([], []),
        ((), ()),
        ({}, {}),
        (jnp.zeros((3,)), "*"),
        (np.zeros((2, 2), np.int32), "*"),
        (jax.core.ShapedArray((3,), jnp.dtype("float32")), "*"),
        (jax.ShapeDtypeStruct((), jnp.bfloat16), "*"),
        (jax.ShapeDtypeStruct((0, 2), jnp.bool_), "*"),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_results_have_the_structure_of_outs(unique_name, outs, expected, jit):
    operator = XLACustomKernel(unique_name("outs"))
    seen = []
    operator.def_kernel("jnp", "cpu", lambda *, outs: seen.append(outs) or filled(outs=outs))
    call = lambda: operator(outs=outs)
    result = jax.jit(call)() if jit else call()
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for i, (got, want) in enumerate(zip(jax.tree.leaves(result), jax.tree.leaves(outs), strict=True)):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(got, jnp.full(want.shape, i + 1, want.dtype))
    for given in seen:
        assert isinstance(given, tuple)
        assert [type(o) for o in given] == [jax.core.ShapedArray] * len(given)
        assert [(o.ndim, o.size) for o in given] == [(len(o.shape), np.prod(o.shape)) for o in given]


@pytest.mark.parametrize(
    ("outs", "returned"),
    [
        (F32, lambda a, b: a),
        (F32, lambda a, b: [a]),
        (F32, lambda a, b: (a,)),
        ([F32], lambda a, b: a),
        ((F32, I32), lambda a, b: (a, b)),
        ((F32, I32), lambda a, b: [a, b]),
        ({"first": F32, "second": I32}, lambda a, b: {"second": b, "first": a}),
        ({"first": F32, "second": I32}, lambda a, b: (a, b)),
        ([[F32], (I32,)], lambda a, b: [[a], (b,)]),
    ],
)
def test_a_kernel_returns_an_array_a_list_a_tuple_or_the_pytree(unique_name, outs, returned):
    operator = XLACustomKernel(unique_name("returns"))
    a, b = X + 1, jnp.arange(4, dtype=jnp.int32).reshape(2, 2)
    operator.def_kernel("jnp", "cpu", lambda *, outs: lambda a, b: returned(a, b))
    result = operator(a, b, outs=outs)
    assert jax.tree.structure(result) == jax.tree.structure(outs)
    for got, want in zip(jax.tree.leaves(result), (a, b), strict=False):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (lambda x: [x], r"returned 1 arrays, but outs describes 2"),
        (lambda x: [x, x, x], r"returned 3 arrays, but outs describes 2"),
        (lambda x: None, r"returned 0 arrays, but outs describes 2"),
        (lambda x: [x, x[:2]], r"output 1 is float32\[2\], but outs says int32\[3\]"),
        (lambda x: [x, x], r"output 1 is float32\[3\], but outs says int32\[3\]"),
        (lambda x: [x[None], x.astype(int)], r"output 0 is float32\[1, 3\], but outs says float32\[3\]"),
        (lambda x: [1.0, x], r"output 0 is a float, not an array"),
        (lambda x: [x, "y"], r"output 1 is a str, not an array"),
    ],
)
@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (lambda f: f, (3,)),
        (jax.jit, (3,)),
        (jax.vmap, (2, 3)),
        (lambda f: jax.vmap(jax.vmap(f, 1)), (4, 3, 2)),
    ],
    ids=["eager", "jit", "vmap", "vmap of vmap"],
)
def test_results_are_held_to_outs(unique_name, results, words, transform, shape):
    operator = XLACustomKernel(unique_name("held"))
    operator.def_kernel("jnp", "cpu", lambda *, outs: results)
    outs = [F32, jax.ShapeDtypeStruct((3,), jnp.int32)]
    with pytest.raises(KernelOutputError, match=words) as caught:
        transform(lambda x: operator(x, outs=outs))(jnp.zeros(shape))
    assert isinstance(caught.value, ValueError)
    assert operator.name in str(caught.value)
    assert "'jnp' on cpu" in str(caught.value)


@pytest.mark.parametrize("operand", [2, 2.0, np.float32(2), np.full((), 2.0, np.float32), jnp.float32(2), True])
def test_an_operand_is_anything_that_jax_takes_as_an_array(unique_name, operand):
    operator = XLACustomKernel(unique_name("scalars"))
    operator.def_kernel("jnp", "cpu", lambda *, outs: lambda x, y: (x * y).astype(outs[0].dtype))
    np.testing.assert_array_equal(
        operator(operand, np.arange(3.0, dtype=np.float32), outs=F32), operand * np.arange(3.0)
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda op: op(X), TypeError, "the keyword outs is missing; pass outs=jax.ShapeDtypeStruct"),
        (lambda op: op(X, outs=3), AttributeError, "outs leaf 0 is 3, which has no shape and no dtype"),
        (lambda op: op(X, outs=(3,)), AttributeError, "outs leaf 0 is 3, which has no shape"),
        (lambda op: op(X, outs=[F32, "f"]), AttributeError, "outs leaf 1 is 'f'"),
        (lambda op: op(X, outs=jnp.float32), AttributeError, "outs leaf 0 .* has no shape"),
        (lambda op: op(X, outs=np.float32), AttributeError, "outs leaf 0 .* has no shape"),
        (lambda op: op([X], outs=F32), TypeError, r"operand 0 is a list; pass each array"),
        (lambda op: op(X, (X, X), outs=F32), TypeError, r"operand 1 is a tuple"),
        (lambda op: op(X, {"a": X}, outs=F32), TypeError, r"operand 1 is a dict"),
        (lambda op: op(X, None, outs=F32), TypeError, r"operand 1 is a NoneType"),
        (lambda op: op("text", outs=F32), TypeError, "str"),
        (lambda op: op(X, outs=F32, backend=""), ValueError, "backend is an empty string"),
        (lambda op: op(X, outs=F32, backend=3), TypeError, "backend must be a string such as 'numba', found int"),
        (lambda op: op(X, outs=F32, _levels=3), TypeError, "'_levels' is reserved"),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_invalid_calls_are_refused(op, call, error, words, jit):
    with pytest.raises(error, match=words):
        jax.jit(lambda: call(op))() if jit else call(op)
    np.testing.assert_array_equal(op(X, outs=F32, backend=None), 2 * X)


# ---- keyword arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, {1}, jnp.ones(2), np.ones(2), (1, [2])])
def test_an_unhashable_keyword_is_named(op, value):
    with pytest.raises(TypeError, match=rf"{op.name}.*'alpha'=.*hashable.*operand"):
        op(X, outs=F32, alpha=value)


@pytest.mark.parametrize("wrapped", [lambda a: a, lambda a: (a, 1), lambda a: {"a": a}])
@pytest.mark.parametrize(
    ("transform", "alpha"),
    [
        (jax.jit, 1.0),
        (lambda f: jax.vmap(f, (None, 0)), jnp.arange(2.0)),
        (lambda f: jax.grad(lambda x, alpha: f(x, alpha).sum(), 1), 1.0),
    ],
    ids=["jit", "vmap", "grad"],
)
def test_a_traced_keyword_is_named_with_three_ways_out(op, wrapped, transform, alpha):
    call = transform(lambda x, alpha: op(x, outs=F32, alpha=wrapped(alpha)))
    with pytest.raises(TypeError, match=r"'alpha'=.*traced.*hashable.*static_argnames='alpha'.*close over.*operand"):
        call(X, alpha)


class Colour(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    YES = "yes"


class Pair(NamedTuple):
    first: object


@dataclasses.dataclass(frozen=True)
class Law:
    gain: object


SAME_TO_A_CACHE = [
    *(1, 1.0, True, 0, False, 0.0, -0.0, 1 + 0j, 0j, complex(0.0, -0.0), fractions.Fraction(1), Colour.RED),
    *(np.float32(1), np.float64(1), np.int8(1), np.float32(-0.0), "yes", Word.YES),
    *((1,), (1.0,), (True,), ((0.0,),), ((-0.0,),), Pair(1), Pair(1.0), Law(1), Law(1.0)),
    *(frozenset([1]), frozenset([1.0])),
]


def _named(value):
    return type(value).__name__, repr(value)


@pytest.mark.parametrize("transform", ["eager", "jit", "one jit", "jvp", "vmap", "general vmap", "grad of vmap"])
def test_keywords_that_are_equal_but_differ_build_their_own_kernels(unique_name, transform):
    operator = XLACustomKernel(unique_name("equal"))
    seen = []
    operator.def_kernel("jnp", "cpu", lambda *, outs, alpha: seen.append(_named(alpha)) or (lambda x: 2 * x))
    operator.def_jvp_rule2(lambda t, x, *, alpha, **_: 2 * t)
    if transform == "general vmap":
        operator.register_general_batching()
    one = lambda x, alpha: operator(x, outs=F32, alpha=alpha)
    call = {
        "eager": one,
        "jit": jax.jit(one, static_argnums=1),
        "jvp": lambda x, alpha: jax.jvp(lambda x: one(x, alpha), (x,), (x,)),
        "vmap": lambda x, alpha: jax.vmap(lambda x: one(x, alpha))(x[None]),
        "general vmap": lambda x, alpha: jax.vmap(lambda x: one(x, alpha))(x[None]),
        "grad of vmap": lambda x, alpha: jax.grad(lambda x: jax.vmap(lambda x: one(x, alpha))(x[None]).sum())(x),
    }
    if transform == "one jit":
        jax.jit(lambda x: [one(x, alpha) for alpha in SAME_TO_A_CACHE])(X)
    elif transform == "jit":  # JAX itself takes equal static arguments for one: each its own function.
        for alpha in SAME_TO_A_CACHE:
            jax.jit(lambda x, alpha=alpha: one(x, alpha), static_argnames="alpha").lower(X)
    else:
        for alpha in SAME_TO_A_CACHE:
            call[transform](X, alpha)
    assert set(seen) == {_named(alpha) for alpha in SAME_TO_A_CACHE}


def test_a_keyword_reaches_the_generator_and_the_backend_does_not(unique_name):
    operator = XLACustomKernel(unique_name("keywords"))
    seen = {}
    operator.def_kernel("jnp", "cpu", lambda **kwargs: seen.update(kwargs) or (lambda x: x))
    operator(X, outs=F32, backend="jnp", alpha=3, like=F32, name="n", none=None, function=len)
    assert {k: v for k, v in seen.items() if k != "outs"} == {
        "alpha": 3, "like": F32, "name": "n", "none": None, "function": len,
    }  # fmt: skip


def test_equal_keywords_build_one_kernel(unique_name):
    operator = XLACustomKernel(unique_name("memo"))
    built = []
    operator.def_kernel("jnp", "cpu", lambda *, outs, alpha: built.append(alpha) or (lambda x: x * alpha))
    for alpha in (2.5, 2.5, 3, 3, 2.5):
        np.testing.assert_array_equal(operator(X, outs=F32, alpha=alpha), X * alpha)
    assert built == [2.5, 3]


# ---- no kernel, another kernel, a kernel that fails ----------------------------------------------------------------


def lowered_for(call, platform):
    return jax.jit(call).trace(X).lower(lowering_platforms=(platform,))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda op: op(X, outs=F32, backend="jmp"),
            r"has no backend 'jmp' for the platform 'cpu'; did you mean 'jnp'\?",
        ),
        (
            lambda op: op(X, outs=F32, backend="warp"),
            r"has no backend 'warp' for the platform 'cpu'; registered there: jnp",
        ),
        (lambda op: lowered_for(lambda x: op(x, outs=F32), "tpu"), r"no kernel for the platform 'tpu'.*kernels: cpu"),
        (lambda op: lowered_for(lambda x: op(x, outs=F32), "cuda"), r"no kernel for the platform 'cuda'.*kernels: cpu"),
        (
            lambda op: lowered_for(lambda x: op(x, outs=F32, backend="jnp"), "tpu"),
            r"'jnp' for the platform 'tpu'; none",
        ),
        (
            lambda op: jax.export.export(jax.jit(lambda x: op(x, outs=F32)), platforms=["tpu"])(X),
            r"no kernel for the platform 'tpu'.*platforms that have kernels: cpu",
        ),
    ],
)
def test_a_kernel_that_is_missing_is_named_with_those_that_are_there(op, call, words):
    with pytest.raises(KernelFallbackExhaustedError, match=words) as caught:
        call(op)
    assert op.name in str(caught.value)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
def test_an_operator_without_any_kernel_says_so(unique_name, platform):
    operator = XLACustomKernel(unique_name("none"))
    with pytest.raises(KernelFallbackExhaustedError, match=r"it has no kernel at all.*def_kernel.*def_reference"):
        lowered_for(lambda x: operator(x, outs=F32), platform)


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_a_kernel_for_the_gpu_serves_each_maker(unique_name, platform):
    operator = XLACustomKernel(unique_name("gpu"))
    operator.def_kernel("jnp", "gpu", lambda *, outs: jnp.cos)
    operator.def_kernel("other", "gpu", lambda *, outs: jnp.sin)
    call = lambda x: operator(x, outs=F32)
    assert "stablehlo.cosine" in lowered_for(call, platform).as_text()
    operator.set_default("gpu", "other")
    assert "stablehlo.sine" in lowered_for(call, platform).as_text()
    brainevent.set_backend("gpu", "jnp")
    assert "stablehlo.cosine" in lowered_for(call, platform).as_text()
    operator.def_kernel("exact", platform, lambda *, outs: jnp.exp, asdefault=True)
    brainevent.set_backend("gpu", None)
    assert "stablehlo.exponential" in lowered_for(call, platform).as_text()


def root_cause(error):
    return error if error.__cause__ is None else root_cause(error.__cause__)


def raising(*, outs):
    raise RuntimeError("the generator broke")


def raising_later(*, outs):
    def kernel(x):
        raise RuntimeError("the kernel broke")

    return kernel


@pytest.mark.parametrize(
    ("generator", "words"),
    [
        (raising, "RuntimeError: the generator broke"),
        (raising_later, "RuntimeError: the kernel broke"),
        (lambda *, outs: None, "TypeError: the kernel generator returned NoneType, not a function"),
        (lambda *, outs, alpha: None, "TypeError: .*alpha"),
        (lambda *, outs: lambda x, y: x, "TypeError: .*y"),
    ],
)
@pytest.mark.parametrize("transform", ["eager", "jit", "vmap"])
def test_a_kernel_that_fails_while_it_is_built_shows_the_way_out(unique_name, generator, words, transform):
    operator = XLACustomKernel(unique_name("fails"))
    operator.def_kernel("broken", "cpu", generator)
    operator.def_kernel("sound", "cpu", doubling)
    call = lambda: {
        "eager": lambda: operator(X, outs=F32),
        "jit": lambda: jax.jit(lambda x: operator(x, outs=F32))(X),
        "vmap": lambda: jax.vmap(lambda x: operator(x, outs=F32))(X[None])[0],
    }[transform]()
    with pytest.raises(KernelCompilationError, match=words) as caught:
        call()
    text = str(caught.value)
    for part in (
        operator.name,
        "'broken' on cpu",
        "['broken', 'sound']",
        "backend='sound'",
        "set_backend('cpu', 'sound')",
    ):
        assert part in text
    assert f"{operator.name}.set_default('cpu', 'sound')" in text
    assert type(caught.value.__cause__).__name__ == words.split(":")[0]
    operator.set_default("cpu", "sound")
    np.testing.assert_array_equal(call(), 2 * X)


def test_the_way_out_of_a_failing_gpu_kernel_can_be_taken(unique_name):
    operator = XLACustomKernel(unique_name("fails_on_gpu"))
    operator.def_kernel("broken", "gpu", raising)
    operator.def_kernel("sound", "gpu", lambda *, outs: jnp.cos)
    call = lambda x: operator(x, outs=F32)
    with pytest.raises(KernelCompilationError, match=r"available on cuda: \['broken', 'sound'\]") as caught:
        lowered_for(call, "cuda")
    assert f"{operator.name}.set_default('gpu', 'sound')" in str(caught.value)
    operator.set_default("gpu", "sound")
    assert "stablehlo.cosine" in lowered_for(call, "cuda").as_text()


def test_a_lone_kernel_that_fails_offers_the_reference_if_there_is_one(unique_name):
    operator = XLACustomKernel(unique_name("lone"))
    operator.def_kernel("broken", "cpu", raising)
    with pytest.raises(KernelCompilationError) as caught:
        operator(X, outs=F32)
    assert "to switch" not in str(caught.value)
    operator.def_reference(lambda x: 2 * x)
    with pytest.raises(KernelCompilationError, match="backend='reference' in the call"):
        operator(X, outs=F32)
    np.testing.assert_array_equal(operator(X, outs=F32, backend="reference"), 2 * X)


def test_a_language_that_is_not_installed_is_an_error_that_says_what_to_install(unique_name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    operator = XLACustomKernel(unique_name("absent"))

    def generator(*, outs):
        raise ImportError("No module named 'warp'")

    operator.def_kernel("warp", "cpu", generator)
    with pytest.raises(KernelNotAvailableError, match=r"'warp' is not installed; run: pip install") as caught:
        operator(X, outs=F32)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(root_cause(caught.value), ImportError)


def test_a_backend_asked_for_in_general_that_is_missing_is_ignored_with_one_warning(op):
    call = lambda: op(X, outs=F32)
    brainevent.set_backend("cpu", "jmp")
    with pytest.warns(UserWarning, match=r"config.set_backend asks for 'jmp', .*did you mean 'jnp'\?; using its next"):
        np.testing.assert_array_equal(call(), 2 * X)
    np.testing.assert_array_equal(jax.jit(lambda: op(X + 0, outs=F32))(), 2 * X)
    with (
        brainevent.use_backend("cpu", "pallas"),
        pytest.warns(UserWarning, match=r"use_backend asks for 'pallas', .* for cpu; using its next"),
    ):
        np.testing.assert_array_equal(call(), 2 * X)


# ---- the reference, and rules that are missing ---------------------------------------------------------------------


def test_a_reference_is_kernel_and_types_where_none_is_given(unique_name):
    operator = XLACustomKernel(unique_name("reference"))

    @operator.def_reference
    def scaled(x, *, factor=2.0):
        return {"scaled": factor * x, "count": jnp.int32(x.size)}

    assert scaled(X)["count"] == 3  # The decorator returns the function.
    for kwargs in ({}, {"backend": "reference"}, {"factor": 2.0}):
        result = operator(X, **kwargs)
        np.testing.assert_array_equal(result["scaled"], 2 * X)
        assert (result["count"].shape, int(result["count"])) == ((), 3)
    assert operator.available_backends("cpu") == []
    wrong = {"scaled": jax.ShapeDtypeStruct((3,), jnp.float16), "count": jax.ShapeDtypeStruct((), jnp.int32)}
    with pytest.raises(
        KernelOutputError, match=r"output 1 \(outs\['scaled'\]\) is float32\[3\], but outs says float16\[3\]"
    ):
        operator(X, outs=wrong)
    operator.def_kernel("jnp", "cpu", lambda *, outs: lambda x: {"scaled": -x, "count": jnp.int32(0)})
    np.testing.assert_array_equal(operator(X)["scaled"], -X)
    np.testing.assert_array_equal(operator(X, backend="reference")["scaled"], 2 * X)
    brainevent.set_backend("cpu", "reference")
    np.testing.assert_array_equal(operator(X)["scaled"], 2 * X)


def test_a_reference_may_take_outs(unique_name):
    operator = XLACustomKernel(unique_name("wants_outs"))
    operator.def_reference(lambda x, *, outs: jnp.zeros(outs[0].shape).at[0].set(x.sum()))
    np.testing.assert_array_equal(operator(X, outs=jax.ShapeDtypeStruct((2,), jnp.float32)), [3.0, 0.0])
    with pytest.raises(TypeError, match=r"outs is missing, and cannot be computed from its reference.*pass outs="):
        operator(X)


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (lambda f: jax.grad(lambda x: f(x).sum())(X), "Differentiation rule for '{}' not implemented.*def_jvp_rule2"),
        (lambda f: jax.jvp(f, (X,), (X,)), "Differentiation rule for '{}' not implemented.*def_reference"),
        (lambda f: jax.linear_transpose(f, F32)(X), "Transpose rule .* for '{}' not implemented.*def_transpose_rule"),
    ],
)
def test_a_rule_that_is_missing_is_named(op, transform, words):
    with pytest.raises(NotImplementedError, match=words.format(op.name)):
        transform(lambda x: op(x, outs=F32))


def test_an_operator_is_a_function_like_any_other(op):
    np.testing.assert_array_equal(jax.jit(op, static_argnames="outs")(X, outs=F32), 2 * X)
    (result,) = op.primitive.bind(X, outs=(jax.core.ShapedArray((3,), jnp.dtype("float32")),))
    np.testing.assert_array_equal(result, 2 * X)


def test_a_kernel_in_place_of_its_generator_is_refused(unique_name):
    import numba

    @numba.njit
    def kernel(x, out):
        out[...] = x

    op = brainevent.XLACustomKernel(unique_name())
    with pytest.raises(
        TypeError, match=r"'kernel' is a compiled kernel, not a kernel generator; register lambda \*, outs"
    ):
        op.def_numba_kernel(kernel)
    assert op.available_backends("cpu") == []


def test_outs_among_the_operands(unique_name):
    op = brainevent.XLACustomKernel(unique_name())
    op.def_reference(lambda x: x)
    with pytest.raises(TypeError, match="operand 1 is a ShapeDtypeStruct; outs is a keyword"):
        op(jnp.ones(3), jax.ShapeDtypeStruct((3,), jnp.float32))


def test_a_kernels_pytree_is_held_to_that_of_outs(unique_name):
    out, x = jax.ShapeDtypeStruct((2,), jnp.float32), jnp.ones(2)

    def run(kernel, outs):
        op = brainevent.XLACustomKernel(unique_name())
        op.def_kernel("k", "cpu", lambda *, outs: kernel)
        return op(x, outs=outs)

    assert run(lambda x: {"b": x, "a": 2 * x}, {"b": out, "a": out})["a"][0] == 2
    assert run(lambda x: [x, 2 * x], {"b": out, "a": out})["b"][0] == 2  # in the order of the sorted keys
    with pytest.raises(brainevent.KernelOutputError, match=r"returned PyTreeDef\(\{'y': \*, 'z': \*\}\), but outs is"):
        run(lambda x: {"z": x, "y": x}, {"b": out, "a": out})
    with pytest.raises(brainevent.KernelOutputError, match=r"output 1 \(outs\['b'\]\) is float32\[1\], but outs says"):
        run(lambda x: {"a": x, "b": x[:1]}, {"b": out, "a": out})


@pytest.mark.parametrize("name", ["operator", "platform", "primals", "tangents", "args", "axes", "cotangents", "tree"])
def test_any_name_may_be_a_keyword_argument(unique_name, name):
    op = brainevent.XLACustomKernel(unique_name())
    op.def_kernel("k", "cpu", lambda *, outs, **kwargs: lambda x: [kwargs[name] * x])
    op.def_reference(lambda x, **kwargs: kwargs[name] * x)
    f = lambda x: op(x, **{name: 3})
    np.testing.assert_array_equal(f(jnp.ones(2)), [3, 3])
    np.testing.assert_array_equal(jax.vmap(f)(jnp.ones((2, 2)))[0], [3, 3])
    np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(jnp.ones(2)), [3, 3])
    np.testing.assert_array_equal(jax.linear_transpose(f, jnp.ones(2))(jnp.ones(2))[0], [3, 3])


@pytest.mark.parametrize("name", ["class", "None", "é", "a b", "", "1st"])
def test_names_that_are_no_identifiers(name):
    with pytest.raises(ValueError, match=r"is not an identifier; use letters, digits and underscores"):
        brainevent.XLACustomKernel(name)


def test_invalid_outs_are_refused(unique_name):
    op = brainevent.XLACustomKernel(unique_name())
    with pytest.raises(ValueError, match=r"has the shape \(-1,\); extents cannot be negative"):
        op(jnp.ones(2), outs=jax.ShapeDtypeStruct((-1,), jnp.float32))
    with pytest.raises(TypeError, match=r"extended dtype key<fry>; pass its data, as jax.random.key_data"):
        op(jnp.ones(2), outs=jax.random.key(0))
