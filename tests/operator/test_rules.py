# SPDX-License-Identifier: Apache-2.0
"""The rules an author may write: what they are given, what they may return, and what a wrong one gets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad
from zoo import like

import brainevent
from brainevent import XLACustomKernel, defjvp, general_batching_rule

X = jnp.arange(1.0, 4.0)
Y = jnp.array([3.0, 1.0, 2.0])
F32 = jax.ShapeDtypeStruct((3,), jnp.float32)


@pytest.fixture
def make(unique_name):
    """Return a function that makes an operator of a kernel, and the function that calls it."""

    def make(kernel, outs=F32):
        op = XLACustomKernel(unique_name("rule"))
        op.def_kernel("jnp", "cpu", lambda *, outs, **_: kernel)
        return op, lambda *operands, **kwargs: op(*operands, outs=outs, **kwargs)

    return make


# ---- forward -------------------------------------------------------------------------------------------------------


def test_a_rule_per_input_runs_only_where_something_moves(make):
    op, call = make(lambda x, y: x * y)
    ran = []
    op.def_jvp_rule2(
        lambda t, x, y, *, outs, scale: ran.append((0, scale, outs[0].shape)) or t * y,
        lambda t, x, y, *, outs, scale: ran.append((1, scale, outs[0].shape)) or [t * x],
    )
    call_scaled = lambda x, y: call(x, y, scale=2)
    np.testing.assert_allclose(jax.jvp(lambda x: call_scaled(x, Y), (X,), (X,))[1], X * Y)
    assert ran == [(0, 2, (3,))]
    ran.clear()
    np.testing.assert_allclose(jax.jvp(call_scaled, (X, Y), (Y, X))[1], Y * Y + X * X)
    assert [i for i, *_ in ran] == [0, 1]
    ran.clear()
    batch = jax.vmap(lambda x: jax.jvp(lambda x: call_scaled(x, Y), (x,), (x,))[1])(jnp.stack([X, Y]))
    np.testing.assert_allclose(batch, jnp.stack([X, Y]) * Y)
    assert ran == [(0, 2, (3,))]  # Of one element, and its tangent alone.


@pytest.mark.parametrize("wrap", [lambda f: f, jax.vmap], ids=["plain", "vmap"])
def test_an_input_without_a_rule_has_no_derivative(make, wrap):
    op, call = make(lambda x, y: x * y)
    op.def_jvp_rule2(None, lambda t, x, y, **_: t * x)
    gx, gy = jax.grad(lambda x, y: wrap(call)(x, y).sum(), (0, 1))(
        *(jnp.stack([z, 2 * z]) if wrap is jax.vmap else z for z in (X, Y))
    )
    np.testing.assert_allclose(gx, jnp.zeros_like(gx))
    np.testing.assert_allclose(gy, jnp.stack([X, 2 * X]) if wrap is jax.vmap else X)


def test_rules_of_several_outputs_may_leave_one_out(make):
    op, call = make(lambda x, y: (x * y, x + 1, x.astype(jnp.int32)), [F32, F32, jax.ShapeDtypeStruct((3,), jnp.int32)])
    op.def_jvp_rule2(lambda t, x, y, **_: (t * y, t, None), lambda t, x, y, **_: [t * x, None, None])
    tangents = jax.jvp(call, (X, Y), (Y, X))[1]
    np.testing.assert_allclose(tangents[0], Y * Y + X * X)
    np.testing.assert_allclose(tangents[1], Y)
    assert tangents[2].dtype == jax.dtypes.float0
    np.testing.assert_allclose(jax.grad(lambda y: call(X, y)[1].sum())(Y), jnp.zeros(3))


def test_one_rule_for_all_sees_symbolic_zeros_and_may_return_them(make):
    op, call = make(lambda x, y: (x * y, 2 * y), [F32, F32])
    seen = []

    def rule(primals, tangents, *, outs):
        seen.append([type(t).__name__ == "Zero" for t in tangents])
        (x, y), (s, t) = primals, tangents
        assert x.shape == (3,)
        product = sum(a * b for a, b in ((s, y), (t, x)) if not isinstance(a, ad.Zero))
        return op.primitive.bind(x, y, outs=outs), [product, ad.Zero(t.aval) if isinstance(t, ad.Zero) else 2 * t]

    op.def_jvp_rule(rule)
    np.testing.assert_allclose(jax.jvp(lambda x: call(x, Y), (X,), (X,))[1][1], jnp.zeros(3))
    np.testing.assert_allclose(jax.grad(lambda x: sum(call(x, Y)).sum())(X), Y)
    two = jnp.stack([X, Y])
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: sum(call(x, Y)).sum()))(two), jnp.stack([Y, Y]))
    np.testing.assert_allclose(jax.grad(lambda y: sum(jax.vmap(call, (0, None))(two, y)).sum())(Y), X + Y + 4)
    assert seen[:3] == [[False, True]] * 3
    assert seen[3] == [True, False]


@pytest.mark.parametrize("returns", [lambda r, t: (r, t), lambda r, t: ([r], [t]), lambda r, t: [(r,), t]])
def test_one_output_may_be_bare(make, returns):
    op, call = make(lambda x: x**2)
    op.def_jvp_rule(lambda p, t, **_: returns(call(*p), 2 * p[0] * t[0]))
    np.testing.assert_allclose(jax.jvp(call, (X,), (Y,))[1], 2 * X * Y)
    np.testing.assert_allclose(jax.hessian(lambda x: call(x).sum())(X), 2 * jnp.eye(3))


WRAPPED = {
    "jvp": lambda f: jax.jvp(f, (X,), (X,)),
    "grad": lambda f: jax.grad(lambda x: sum(map(jnp.sum, jax.tree.leaves(f(x)))))(X),
    "jvp of vmap": lambda f: jax.jvp(jax.vmap(f), (X[None],), (X[None],)),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: sum(map(jnp.sum, jax.tree.leaves(f(x))))))(X[None]),
}


def one(rule):
    return lambda op: op.def_jvp_rule(rule)


def two(*rules):
    return lambda op: op.def_jvp_rule2(*rules)


@pytest.mark.parametrize(
    ("define", "error", "words"),
    [
        (two(), ValueError, "has 0 jvp rules, one per input, but was called with 1 inputs"),
        (two(None, None), ValueError, "has 2 jvp rules"),
        (two(lambda t, x, **_: (t, t)), ValueError, "jvp rule 0 returned 2 tangents, .* 1 outputs"),
        (two(lambda t, x, **_: ()), ValueError, "jvp rule 0 returned 0 tangents, .* 1 outputs"),
        (two(lambda t, x, **_: t[:2]), ValueError, r"rule 0 returned float32\[2\] as tangent .* float32\[3\]"),
        (two(lambda t, x, **_: t.sum()), ValueError, r"rule 0 returned float32\[\] as tangent"),
        (two(lambda t, x, **_: 0.0), ValueError, r"rule 0 returned float32\[\] as tangent"),
        (two(lambda t, x, **_: t.astype(jnp.float16)), ValueError, r"returned float16\[3\]"),
        (one(lambda p, t, **_: p[0]), TypeError, r"the jvp rule returned .*; return a pair"),
        (one(lambda p, t, **_: ([p[0]], [t[0], t[0]])), ValueError, "2 output tangents, but outs describes 1"),
        (one(lambda p, t, **_: ([p[0]] * 2, [t[0]])), ValueError, "returned 2 outputs, but outs describes 1"),
        (one(lambda p, t, **_: ([p[0][:1]], [t[0]])), ValueError, r"returned float32\[1\] as output 0"),
        (one(lambda p, t, **_: ([p[0]], [t[0][:1]])), ValueError, r"float32\[1\] as tangent of output 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transformation", WRAPPED)
def test_a_wrong_forward_rule_is_named(make, define, error, words, transformation):
    op, call = make(lambda x: x)
    define(op)
    with pytest.raises(error, match=words) as caught:
        WRAPPED[transformation](call)
    assert op.name in str(caught.value)


def test_a_bare_tangent_of_several_outputs_is_an_error(make):
    op, call = make(lambda x: (x, x), [F32, F32])
    op.def_jvp_rule2(lambda t, x, **_: t)
    with pytest.raises(TypeError, match=r"jvp rule 0 returned .*; return a tuple or list, one tangent per output"):
        jax.jvp(call, (X,), (X,))


def plain_primitive(name, many):
    """Return a primitive of JAX that is no operator: a product, and a sum if it has many results."""
    primitive = Primitive(name)
    primitive.multiple_results = many
    results = lambda x, y, **_: [x * y, x + y] if many else x * y
    primitive.def_impl(results)
    primitive.def_abstract_eval(lambda x, y, **_: [x, x] if many else x)
    return primitive


def test_defjvp_serves_plain_primitives_of_one_result(unique_name):
    primitive = plain_primitive(unique_name("single"), many=False)
    defjvp(primitive, lambda t, x, y, *, k: k * t * y, None)
    f = lambda x, y: primitive.bind(x, y, k=3)
    np.testing.assert_allclose(jax.jvp(f, (X, Y), (X, Y))[1], 3 * X * Y)
    np.testing.assert_allclose(jax.jvp(lambda y: f(X, y), (Y,), (Y,))[1], jnp.zeros(3))


def test_defjvp_serves_plain_primitives_of_several_results(unique_name):
    primitive = plain_primitive(unique_name("multiple"), many=True)
    defjvp(primitive, lambda t, x, y: [t * y, t], lambda t, x, y: (t * x, t))
    found = jax.jvp(lambda x, y: primitive.bind(x, y), (X, Y), (Y, X))[1]
    np.testing.assert_allclose(found[0], Y * Y + X * X)
    np.testing.assert_allclose(found[1], X + Y)
    for rules, error, words in [
        ((lambda t, x, y: t, None), TypeError, "return a tuple or list, one tangent per output"),
        ((lambda t, x, y: [t], None), ValueError, "returned 1 tangents, but .* has 2 outputs"),
        ((None,), ValueError, rf"'{primitive.name}' has 1 jvp rules, one per input, but was called with 2 inputs"),
    ]:
        defjvp(primitive, *rules)
        with pytest.raises(error, match=words):
            jax.jvp(lambda x, y: primitive.bind(x, y), (X, Y), (Y, X))


def test_defjvp_takes_an_operator_and_nothing_else(make):
    op, call = make(lambda x: x**2)
    defjvp(op, lambda t, x, **_: 2 * x * t)
    np.testing.assert_allclose(jax.grad(lambda x: call(x).sum())(X), 2 * X)
    with pytest.raises(AssertionError, match="expected a JAX primitive or an XLACustomKernel, found str"):
        defjvp("sin", None)
    defjvp(op.primitive, lambda t, x, **_: 5 * t)  # The last one counts, however it is given.
    np.testing.assert_allclose(jax.grad(lambda x: call(x).sum())(X), [5, 5, 5])
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: call(x).sum()))(X[None]), [[5, 5, 5]])


# ---- reverse -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [lambda ct, y: (ct, y), lambda ct, y: [ct, None], lambda ct, y: (ct, ct + y)])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.vmap], ids=["plain", "vmap"])
def test_a_transpose_rule_is_given_cotangents_and_placeholders(make, answer, wrap):
    op, call = make(lambda x, y: [x * y, 3 * x], [F32, F32])
    seen = []

    def rule(cts, x, y, *, outs, k):
        seen.append((type(cts), [isinstance(ct, ad.Zero) for ct in cts], type(x).__name__, x.aval.shape, y.shape, k))
        ct = sum(ct * f for ct, f in zip(cts, (y, 3.0), strict=True) if not isinstance(ct, ad.Zero))
        return answer(ct, y)

    op.def_transpose_rule(rule)
    x = X[None] if wrap is jax.vmap else X
    f = wrap(lambda x: call(x, Y, k=7)[0])
    np.testing.assert_allclose(jax.linear_transpose(f, x)(x)[0], x * Y)
    assert seen == [(list, [False, True], "UndefinedPrimal", (3,), (3,), 7)]


def test_a_transpose_rule_of_two_linear_inputs(make):
    op, call = make(lambda x, y: 2 * x + 3 * y)
    op.def_transpose_rule(lambda cts, x, y, **_: (2 * cts[0], 3 * cts[0]))
    two = jnp.stack([X, Y])
    for f, x, y, expected in [
        (call, X, Y, (2 * X, 3 * X)),
        (jax.vmap(call), two, two, (2 * two, 3 * two)),
        (jax.vmap(call, (None, 0)), X, two, (2 * two.sum(0), 3 * two)),
        (jax.vmap(call, (1, None), 1), two.T, Y, (2 * two.T, 3 * two.sum(0))),
    ]:
        ct = f(x, y) * 0 + (X if f is call else two.T if x.shape == (3, 2) else two)
        found = jax.linear_transpose(f, x, y)(ct)
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (lambda cts, x, **_: (cts[0], cts[0]), TypeError, "the transpose rule returned 2 values for 1 inputs"),
        (lambda cts, x, **_: (), TypeError, "the transpose rule returned 0 values for 1 inputs"),
        (lambda cts, x, **_: (cts[0][:2],), ValueError, r"returned float32\[2\] for input 0, which is float32\[3\]"),
        (lambda cts, x, **_: (cts[0].astype(jnp.float16),), ValueError, r"returned float16\[3\] for input 0"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.vmap], ids=["plain", "vmap"])
def test_a_wrong_transpose_rule_is_named(make, rule, error, words, wrap):
    op, call = make(lambda x: 2 * x)
    op.def_transpose_rule(rule)
    x = X[None] if wrap is jax.vmap else X
    with pytest.raises(error, match=words) as caught:
        jax.linear_transpose(wrap(call), x)(x)
    assert op.name in str(caught.value)


@pytest.mark.parametrize(
    "rule", [lambda cts, x, **_: None, lambda cts, x, **_: [None], lambda cts, x, **_: [ad.Zero(x.aval)]]
)
def test_a_transpose_rule_may_say_that_nothing_flows(make, rule):
    op, call = make(lambda x: 2 * x)
    op.def_transpose_rule(rule)
    np.testing.assert_array_equal(jax.linear_transpose(call, X)(X)[0], jnp.zeros(3))
    np.testing.assert_array_equal(jax.linear_transpose(jax.vmap(call), X[None])(X[None])[0], jnp.zeros((1, 3)))


# ---- batching ------------------------------------------------------------------------------------------------------


def test_a_batching_rule_is_given_axes_and_the_parameters_of_the_call(make):
    op, call = make(lambda x, y: x * y)
    seen = []

    def rule(args, axes, **params):
        seen.append((type(args), axes, {k: v for k, v in params.items() if k != "outs"}, params["outs"][0].shape))
        return general_batching_rule(op.primitive, args, axes, **params)

    op.def_batching_rule(rule)
    two = jnp.stack([X, Y])
    np.testing.assert_allclose(jax.vmap(call, (1, None))(two.T, Y), two * Y)
    np.testing.assert_allclose(jax.vmap(lambda x, y: call(x, y, k=1, backend="jnp"), (-1, 0))(two.T, two), two * two)
    assert seen == [
        (tuple, (1, None), {}, (3,)),
        (tuple, (1, 0), {"k": 1, "backend": "jnp"}, (3,)),
    ]
    np.testing.assert_allclose(jax.vmap(jax.vmap(call, (0, None)), (None, 0))(two, two), two[None] * two[:, None])


def test_a_batching_rule_may_leave_a_batch_to_the_kernel(make):
    op, call = make(lambda x, y: x * y)
    op.def_batching_rule(lambda args, axes, **_: NotImplemented if axes[1] is not None else ([-args[0]], [axes[0]]))
    two = jnp.stack([X, Y])
    np.testing.assert_allclose(jax.vmap(call, (0, None))(two, Y), -two)
    np.testing.assert_allclose(jax.vmap(call, (0, 1))(two, two.T), two * two)
    np.testing.assert_allclose(jax.vmap(jax.vmap(call, (None, 0)), (0, None))(two, two), two[:, None] * two)
    assert "while" not in jax.jit(jax.vmap(call)).lower(two, two).as_text()


def test_a_batching_rule_serves_derivatives_too(make):
    op, call = make(lambda x: x**2)
    ran = []
    op.def_batching_rule(lambda args, axes, **_: ran.append(axes) or ([jnp.moveaxis(args[0], axes[0], 1) ** 2], [1]))
    op.def_jvp_rule2(lambda t, x, **_: 2 * x * t)
    two = jnp.stack([X, Y])
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: call(x).sum()))(two), 2 * two)
    np.testing.assert_allclose(jax.vmap(call, out_axes=-1)(two), two.T**2)
    assert ran == [(0,), (0,)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (lambda args, axes, **_: (2 * args[0], 0), 2),
        (lambda args, axes, **_: ((2 * args[0],), (axes[0],)), 2),
        (lambda args, axes, **_: ([2 * args[0].T], [-1]), 2),
        (lambda args, axes, **_: [[jnp.full(3, 4.0)], [None]], None),
    ],
)
def test_what_a_batching_rule_may_return(make, rule, expected):
    op, call = make(lambda x: 2 * x)
    op.def_batching_rule(rule)
    two = jnp.stack([X, Y])
    np.testing.assert_allclose(jax.vmap(call)(two), jnp.full((2, 3), 4.0) if expected is None else 2 * two)


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (lambda args, axes, **_: args[0], TypeError, "the batching rule returned .*; return a pair"),
        (lambda args, axes, **_: ([args[0]] * 2, [0, 0]), ValueError, "2 outputs and 2 output axes, but .* 1"),
        (lambda args, axes, **_: ([args[0]], [0, 0]), ValueError, "1 outputs and 2 output axes"),
        (lambda args, axes, **_: ([args[0]], [2]), ValueError, "2 as axis of output 0, which has 2 dimensions"),
        (lambda args, axes, **_: ([args[0]], [1]), ValueError, r"as output 0, mapped on axis 1; .* float32\[3, 2\]"),
        (lambda args, axes, **_: ([args[0]], [None]), ValueError, r"float32\[2, 3\] as output 0, mapped on axis None"),
        (lambda args, axes, **_: ([args[0].astype(int)], [0]), ValueError, r"int32\[2, 3\] as output 0"),
    ],
)  # fmt: skip
def test_a_wrong_batching_rule_is_named(make, rule, error, words):
    op, call = make(lambda x: 2 * x)
    op.def_batching_rule(rule)
    with pytest.raises(error, match=words) as caught:
        jax.vmap(call)(jnp.stack([X, Y]))
    assert op.name in str(caught.value)


def test_general_batching_is_a_scan_and_can_be_put_back(make):
    op, call = make(lambda x: 2 * x)
    two = jnp.stack([X, Y])
    count = lambda: str(jax.make_jaxpr(jax.vmap(call))(two)).count("scan[")
    assert count() == 0
    op.register_general_batching()
    assert count() == 1
    op.def_batching_rule(lambda args, axes, **_: ([2 * args[0]], list(axes)))
    assert count() == 0
    op.register_general_batching()
    assert count() == 1
    np.testing.assert_allclose(jax.vmap(call)(two), 2 * two)
    np.testing.assert_allclose(jax.vmap(jax.vmap(call), 1, 1)(jnp.stack([two, two])), 2 * jnp.stack([two, two]))


@pytest.mark.parametrize(
    ("axes", "shapes"),
    [((0, None), ((2, 3), (3,))), ((1, 0), ((3, 2), (2, 3))), ((-1, 1), ((3, 2), (3, 2))), ((0, 0), ((0, 3), (0, 3)))],
)
def test_general_batching_rule_serves_primitives_operators_and_functions(make, axes, shapes):
    op, _ = make(lambda x, y: [x * y, x + y], (F32, F32))
    args = [jnp.arange(float(np.prod(shape))).reshape(shape) for shape in shapes]
    expected = jax.vmap(lambda x, y: (x * y, x + y), axes)(*args)
    for prim, outs, kind in [
        (op.primitive, tuple(jax.core.ShapedArray(o.shape, o.dtype) for o in (F32, F32)), list),
        (op, (F32, F32), tuple),
        (lambda x, y, outs: (x * y, x + y), None, tuple),
    ]:
        found, dims = general_batching_rule(prim, args, axes, outs=outs)
        assert (type(found), type(dims), tuple(dims)) == (kind, kind, (0, 0))
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want)


def test_general_batching_rule_with_nothing_mapped_calls_once(make):
    op, _ = make(lambda x: 2 * x)
    found, dims = general_batching_rule(op, (X,), (None,), outs=[F32])
    assert dims == [None]
    np.testing.assert_allclose(found[0], 2 * X)
    assert brainevent.general_batching_rule is general_batching_rule


# ---- second order, with rules that use the operator ----------------------------------------------------------------


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("batching", ["kernel", "general"])
def test_second_derivatives_of_rules_that_call_their_operator(make, batching):
    op, _ = make(lambda x, y: x * y)
    call = lambda x, y: op(x, y, outs=like(x)[0])
    op.def_jvp_rule2(lambda t, x, y, **_: call(t, y), lambda t, x, y, **_: call(x, t))

    def transpose(cts, x, y, **_):
        return (call(cts[0], y), y) if ad.is_undefined_primal(x) else (x, call(x, cts[0]))

    op.def_transpose_rule(transpose)
    if batching == "general":
        op.register_general_batching()
    f = lambda x, y: (call(call(x, y), y) ** 2).sum()
    twin = lambda x, y: ((x * y * y) ** 2).sum()
    two = jnp.stack([X, Y])
    for nums in ((0, 1), (1,)):
        found, expected = (jax.jit(jax.hessian(g, nums))(X, Y) for g in (f, twin))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), found, expected)
    found, expected = (jax.jit(jax.vmap(jax.hessian(g), (0, None)))(two, Y) for g in (f, twin))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    outer = lambda g: jax.jit(jax.grad(lambda y: jax.vmap(jax.grad(g), (0, None))(two, y).sum()))
    found, expected = outer(f)(Y), outer(twin)(Y)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
