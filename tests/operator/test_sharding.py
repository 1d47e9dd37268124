# SPDX-License-Identifier: Apache-2.0
"""Sharding rules under jit: the kernel runs on each shard, and no more is sent than must be."""

import functools
import gc

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshes import (
    AxisType,
    P,
    W,
    Watched,
    X,
    Y,
    close,
    cut,
    dot_rows,
    elementwise,
    largest,
    matvec,
    mesh,
    outer_product,
    ramp,
    sent,
)

import brainevent


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize(
    ("rule", "shape", "spec", "local"),
    [
        ("i, i -> i", (8,), ("d",), (2,)),
        ("i j, i j -> i j", (8, 4), ("d", None), (2, 4)),
        ("i j, i j -> i j", (8, 4), (None, "d"), (8, 1)),
        ("..., ... -> ...", (8,), ("d",), (2,)),
        ("..., ... -> ...", (2, 8, 4), (None, "d", None), (2, 2, 4)),
        ("... j, ... j -> ... j", (2, 8, 4), (None, "d", None), (2, 2, 4)),
        ("... j, ... j -> ... j", (2, 8, 4), (None, None, "d"), (2, 8, 1)),
    ],
)
@pytest.mark.parametrize("both", [True, False], ids=["both cut", "one cut"])
def test_elementwise_runs_on_each_shard(unique_name, rule, shape, spec, local, both):
    f, m = elementwise(unique_name("elementwise"), rule), mesh()
    x, y = ramp(*shape), ramp(*shape, start=1.0)
    operands = cut(m, x, *spec), cut(m, y, *spec) if both else y
    result = jax.jit(f)(*operands)
    close(result, x * y)
    assert sent(f, *operands) == {}
    assert f.built[-1] == (local,)
    assert result.sharding.is_equivalent_to(operands[0].sharding, len(shape))


def test_a_2d_mesh_cuts_two_dimensions(unique_name):
    f, m = elementwise(unique_name("two"), "i j, i j -> i j"), mesh(a=2, b=2)
    x = cut(m, W, "a", "b")
    close(jax.jit(f)(x, x), W * W)
    assert f.built[-1] == ((4, 6),)
    x = cut(m, W, ("a", "b"), None)
    close(jax.jit(f)(x, W), W * W)
    assert f.built[-1] == ((2, 12),)
    assert sent(f, x, x) == {}
    x, y = cut(m, W, "a", None), cut(m, W, None, "b")  # Both stay: each dimension has its mesh axis.
    close(jax.jit(f)(x, y), W * W)


@pytest.mark.parametrize(
    ("w_spec", "x_spec", "local", "expected"),
    [
        (("d", None), (None,), (2,), {}),
        ((None, "d"), ("d",), (8,), {"all-reduce": 1}),
        ((None, "d"), (None,), (8,), {"all-reduce": 1}),
        ((None, None), (None,), (8,), {}),
    ],
)
def test_matvec_reduces_once_and_gathers_nothing(unique_name, w_spec, x_spec, local, expected):
    f, m = matvec(unique_name("matvec")), mesh()
    operands = cut(m, W, *w_spec), cut(m, X, *x_spec)
    close(jax.jit(f)(*operands), W @ X)
    assert sent(f, *operands) == expected
    assert f.built[-1] == (local,)


def test_matvec_on_a_2d_mesh_reduces_over_one_axis(unique_name):
    f, m = matvec(unique_name("matvec")), mesh(a=2, b=2)
    operands = cut(m, W, "a", "b"), cut(m, X, "b")
    close(jax.jit(f)(*operands), W @ X)
    assert sent(f, *operands) == {"all-reduce": 1}
    assert f.built[-1] == ((4,),)
    operands = cut(m, W, None, ("a", "b")), cut(m, X, ("a", "b"))
    close(jax.jit(f)(*operands), W @ X)
    assert sent(f, *operands) == {"all-reduce": 1}


@pytest.mark.parametrize("out_spec", [(None,), ("d",)])
@pytest.mark.parametrize("w_spec", [(None, "d"), ("d", None)])
def test_the_caller_may_say_how_the_result_is_cut(unique_name, w_spec, out_spec):
    f, m = matvec(unique_name("asked")), mesh()
    w = cut(m, W, *w_spec)
    result = jax.jit(f, out_shardings=jax.NamedSharding(m, P(*out_spec)))(w, X)
    close(result, W @ X)
    assert result.sharding.spec == P(*out_spec)


@pytest.mark.parametrize("factors", [{}, {"need_replication_factors": ("k",)}])
@pytest.mark.parametrize(
    ("w_spec", "x_spec"), [(("d", None), (None,)), ((None, "d"), ("d",)), ((None, "d"), (None,)), (("d", None), ("d",))]
)
def test_a_factor_that_is_not_said_to_be_reduced_is_right_all_the_same(unique_name, factors, w_spec, x_spec):
    f, m = (
        matvec(unique_name("undeclared"), **factors, rule="m k, k -> m")
        if factors
        else Watched(unique_name("undeclared"), dot_rows, lambda w, x: w.shape[:1], "m k, k -> m"),
        mesh(),
    )
    operands = cut(m, W, *w_spec), cut(m, X, *x_spec)
    close(jax.jit(f)(*operands), W @ X)
    assert "all-reduce" not in sent(f, *operands)


@pytest.mark.parametrize(("reduction", "kernel", "twin"), [
    ("max", largest, lambda x: x.max(1)),
    ("min", lambda x: x.min(1), lambda x: x.min(1)),
    ("sum", lambda x: x.sum(1), lambda x: x.sum(1)),
])  # fmt: skip
@pytest.mark.parametrize("spec", [(None, "d"), ("d", None)])
def test_reductions_of_other_kinds(unique_name, reduction, kernel, twin, spec):
    f = Watched(
        unique_name(reduction), kernel, lambda x: x.shape[:1], "i j -> i", reduction_factors=("j",), reduction=reduction
    )
    x = np.sin(W * 7).astype(np.float32)
    operand = cut(mesh(), x, *spec)
    close(jax.jit(f)(operand), twin(x))
    assert sent(f, operand) == ({"all-reduce": 1} if spec[1] else {})


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32])
def test_a_result_without_dimensions(unique_name, dtype):
    f = Watched(unique_name("total"), lambda x: x.sum(), lambda x: (), "i j ->", reduction_factors=("i", "j"))
    x = W.astype(dtype)
    for spec, axes in [((None, "d"), {"d": 4}), (("a", "b"), {"a": 2, "b": 2}), (("a", None), {"a": 2, "b": 2})]:
        operand = cut(mesh(**axes), x, *spec)
        close(jax.jit(f)(operand), x.sum())
        assert sent(f, operand) == {"all-reduce": 1}


@pytest.mark.parametrize(
    ("x_spec", "y_spec", "axes", "local"),
    [
        (("a",), ("b",), {"a": 2, "b": 2}, (4, 6)),
        ((None,), ("d",), {"d": 4}, (8, 3)),
        (("d",), (None,), {"d": 4}, (2, 12)),
    ],
)
def test_outer_product(unique_name, x_spec, y_spec, axes, local):
    f = Watched(unique_name("outer"), outer_product, lambda x, y: (x.size, y.size), "i, j -> i j")
    m = mesh(**axes)
    operands = cut(m, ramp(8), *x_spec), cut(m, X, *y_spec)
    close(jax.jit(f)(*operands), np.outer(ramp(8), X))
    assert sent(f, *operands) == {}
    assert f.built[-1] == (local,)


def test_outer_product_of_two_factors_that_want_one_mesh_axis(unique_name):
    f, m = Watched(unique_name("outer"), outer_product, lambda x, y: (x.size, y.size), "i, j -> i j"), mesh()
    close(jax.jit(f)(cut(m, ramp(8), "d"), cut(m, X, "d")), np.outer(ramp(8), X))


def test_a_dimension_of_several_factors(unique_name):
    m = mesh()
    f = Watched(unique_name("split"), lambda x: x.reshape(-1, 3), lambda x: (4, 3), "(a b) -> a b")
    x = ramp(12)
    for spec in [("d",), (None,)]:
        close(jax.jit(f)(cut(m, x, *spec)), x.reshape(4, 3))
    assert f.built[0] == ((4, 3),)
    g = Watched(unique_name("join"), lambda x: x.reshape(-1), lambda x: (x.size,), "a b -> (a b)")
    for spec in [("d", None), (None, "d"), (None, None)]:
        x = ramp(8, 4)
        close(jax.jit(g)(cut(m, x, *spec)), x.reshape(-1))
    assert (8,) in [shape for (shape,) in g.built]


def test_several_results_are_reduced_or_not_each_for_itself(unique_name):
    from brainevent import XLACustomKernel

    op = XLACustomKernel(unique_name("several"))
    shapes = []
    op.def_kernel(
        "jnp", "cpu", lambda *, outs: shapes.append([o.shape for o in outs]) or (lambda x: [x.sum(1), 2 * x, x.sum(0)])
    )
    op.def_sharding_rule("i j -> i, i j, j", reduction_factors=("i", "j"))
    f = lambda x: op(x, outs=[jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8,), (8, 12), (12,))])
    m = mesh(a=2, b=2)
    operand = cut(m, W, "a", "b")
    for got, want in zip(jax.jit(f)(operand), (W.sum(1), 2 * W, W.sum(0)), strict=True):
        close(got, want)
    assert "all-gather" not in sent(f, operand)


def test_a_dimension_made_by_the_kernel_is_never_cut(unique_name):
    m = mesh()
    f = Watched(
        unique_name("repeat"),
        lambda x: jnp.repeat(x[:, None], 4, 1) * jnp.arange(4.0),
        lambda x: (x.size, 4),
        "i -> i n",
    )
    close(jax.jit(f)(cut(m, ramp(8), "d")), ramp(8)[:, None] * np.arange(4.0))
    constrained = lambda x: jax.lax.with_sharding_constraint(f(x), jax.NamedSharding(m, P(None, "d")))
    close(jax.jit(constrained)(ramp(8)), ramp(8)[:, None] * np.arange(4.0))


@pytest.mark.covering(strength=0, times=2)
@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_sizes_that_do_not_divide_are_right(unique_name, size):
    m = mesh()
    f, g = elementwise(unique_name("uneven"), "i, i -> i"), matvec(unique_name("uneven_matvec"))
    x = cut(m, ramp(8), "d")
    close(jax.jit(lambda x: f(x[:size], x[8 - size :]))(x), ramp(8)[:size] * ramp(8)[8 - size :])
    w = cut(m, ramp(8, 8), None, "d")
    close(jax.jit(lambda w, x: g(w[:, :size], x[:size]))(w, x), ramp(8, 8)[:, :size] @ ramp(8)[:size])
    w = cut(m, ramp(8, 8), "d", None)
    close(jax.jit(lambda w, x: g(w[:size], x))(w, x), ramp(8, 8)[:size] @ ramp(8))


# ---- with other transformations ------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (2, 1), (1, None)])
@pytest.mark.parametrize("where", ["batch", "m", "k"])
def test_vmap_adds_a_factor(unique_name, axes, where):
    f, m = matvec(unique_name("batch")), mesh()
    w = np.stack([W * (k + 1) for k in range(4)], axes[0]) if axes[0] is not None else W
    x = np.stack([X - k for k in range(4)], axes[1]) if axes[1] is not None else X
    names = {"w": ["m", "k"], "x": ["k"]}
    for operand, axis in zip(names.values(), axes, strict=True):
        if axis is not None:
            operand.insert(axis, "batch")
    operands = [cut(m, a, *("d" if n == where else None for n in names[name])) for name, a in (("w", w), ("x", x))]
    batched = jax.vmap(f, axes)
    close(jax.jit(batched)(*operands), jax.vmap(jnp.matmul, axes)(w, x))
    assert sent(batched, *operands) == ({"all-reduce": 1} if where == "k" else {})
    assert f.built[-1] == ((2,) if where == "m" else (8,),)


def test_nested_vmap_on_a_2d_mesh(unique_name):
    f, m = elementwise(unique_name("nested"), "i, i -> i"), mesh(a=2, b=2)
    x = ramp(4, 6, 8)
    operand = cut(m, x, "a", "b", None)
    batched = jax.vmap(jax.vmap(f, (0, None)), (0, None))
    close(jax.jit(batched)(operand, ramp(8)), x * ramp(8))
    assert sent(batched, operand, ramp(8)) == {}
    operand = cut(m, x, None, "b", "a")
    close(jax.jit(batched)(operand, ramp(8)), x * ramp(8))
    assert f.built[-1] == ((4,),)


@pytest.mark.parametrize("specs", [(("d", None), (None,)), ((None, "d"), ("d",))])
def test_gradients_are_cut_too(unique_name, specs):
    f, m = matvec(unique_name("grad")), mesh()
    w, x = cut(m, W, *specs[0]), cut(m, X, *specs[1])
    loss = lambda f: lambda w, x: (f(w, x) ** 2).sum()
    gradient = jax.grad(loss(f), (0, 1))
    for got, want in zip(jax.jit(gradient)(w, x), jax.grad(loss(jnp.matmul), (0, 1))(W, X), strict=True):
        close(got, want)
    assert "all-gather" not in sent(gradient, w, x)
    batched = jax.grad(lambda w, x: jax.vmap(loss(f), (None, 0))(w, x).sum())
    xs = np.stack([X, -X, X + 1, X - 1])
    close(
        jax.jit(batched)(w, cut(m, xs, *(None, *specs[1]))),
        jax.grad(lambda w, x: jax.vmap(loss(jnp.matmul), (None, 0))(w, x).sum())(W, xs),
    )


def test_inside_scan_and_cond(unique_name):
    f, m = elementwise(unique_name("scan"), "i, i -> i"), mesh()
    x, y = cut(m, ramp(8), "d"), cut(m, ramp(8, start=1.0), "d")
    scanned = lambda x, y: jax.lax.scan(lambda c, _: (f(c, y), f(c, c)), x, None, length=3)
    twin = lambda x, y: jax.lax.scan(lambda c, _: (c * y, c * c), x, None, length=3)
    for got, want in zip(jax.jit(scanned)(x, y), twin(ramp(8), ramp(8, start=1.0)), strict=True):
        close(got, want)
    assert sent(scanned, x, y) == {}
    assert f.built[-1] == ((2,),)
    close(jax.jit(lambda x, y: jax.lax.cond(y[0] > 0, f, lambda x, y: x, x, y))(x, y), ramp(8) * ramp(8, start=1.0))


def test_without_a_rule_values_are_right(unique_name):
    f, m = matvec(unique_name("ruleless"), rule=None), mesh()
    for w_spec, x_spec in [(("d", None), (None,)), ((None, "d"), ("d",)), (("d", None), ("d",))]:
        operands = cut(m, W, *w_spec), cut(m, X, *x_spec)
        close(jax.jit(f)(*operands), W @ X)
        close(f(*operands), W @ X)
        close(jax.jit(jax.vmap(f, (None, 1)))(operands[0], jnp.stack([operands[1]] * 2, 1)), np.stack([W @ X] * 2))
    assert set(f.built) == {((8,),)}


def in_python(x, y):
    types = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda x, y: np.asarray(x) * np.asarray(y), types, x, y, vmap_method="sequential")


def with_a_print(x, y):
    jax.debug.print("{x}", x=x[0])
    return x * y


def test_an_operator_within_a_kernel_that_calls_python_is_an_error_and_no_crash(unique_name):
    inner = Watched(unique_name("inner"), in_python, lambda x, y: x.shape)
    f = Watched(unique_name("outer"), lambda x, y: inner(x, y), lambda x, y: x.shape, "..., ... -> ...")
    x = cut(mesh(), ramp(8), "d")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"calls back into Python.*give the inner one"):
        jax.jit(f)(x, x)
    close(jax.jit(f)(ramp(8), ramp(8)), ramp(8) ** 2)


@pytest.mark.parametrize("kernel", [in_python, pytest.param(with_a_print, marks=pytest.mark.thorough)])
def test_kernels_that_call_python_are_right_and_live_on(unique_name, kernel):
    """XLA does not find the callback of a shard: such a kernel runs on the whole."""
    f, m = Watched(unique_name("python"), kernel, lambda x, y: x.shape, "..., ... -> ..."), mesh()
    x = cut(m, ramp(8), "d")
    jitted, batched = jax.jit(f), jax.jit(jax.vmap(f, (0, None)))
    gc.freeze()  # what was there before this test need not be looked through
    for _ in range(3):
        gc.collect()
        close(jitted(x, x), ramp(8) ** 2)
        close(f(x, x), ramp(8) ** 2)
        close(batched(cut(m, ramp(4, 8), "d", None), x), ramp(4, 8) * ramp(8))
    jax.effects_barrier()


def test_programs_that_are_compiled_after_others_were_lowered(unique_name):
    """What is lowered for one mesh, kernel or rule is compiled for that one, whatever was lowered since."""
    f, g = matvec(unique_name("later")), matvec(unique_name("later"), None)
    lowered, meshes = [], (mesh(), mesh(a=2, b=2), mesh(a=4, b=1))
    f.op.def_kernel("other", "cpu", lambda *, outs: lambda w, x: 2 * (w @ x))
    for backend, factor in ((None, 1), ("other", 2)):
        call = lambda w, x, backend=backend: f.op(w, x, outs=jax.ShapeDtypeStruct((8,), jnp.float32), backend=backend)
        for m, spec in zip(meshes, [(None, "d"), ("b", "a"), ("a", "b")], strict=True):
            operands = cut(m, W, *spec), cut(m, X, spec[1])
            lowered.append((jax.jit(call).lower(*operands), operands, factor))
    g.op.def_kernel("watched", "cpu", lambda *, outs: lambda w, x: 3 * (w @ x))
    for rule, reduced in (("m k, k -> m", ("k",)), ("m k, k -> m", ())):
        g.op.def_sharding_rule(rule, reduction_factors=reduced)
        operands = cut(meshes[0], W, None, "d"), cut(meshes[0], X, "d")
        lowered.append((jax.jit(lambda w, x: g(w, x)).lower(*operands), operands, 3))
    for program, operands, factor in reversed(lowered):
        close(program.compile()(*operands), factor * (W @ X))


def test_eager_calls_run_on_each_shard_too(unique_name):
    f, m = matvec(unique_name("eager")), mesh()
    close(f(cut(m, W, "d", None), cut(m, X, None)), W @ X)
    assert f.built[-1] == ((2,),)
    close(jax.vmap(f, (None, 0))(cut(m, W, None, "d"), cut(m, np.stack([X, X]), None, "d")), np.stack([W @ X] * 2))


@settings(max_examples=6)
@given(st.data())
def test_any_rule_and_any_cut(unique_name, data):
    """Products of any letters, cut over any mesh axes: einsum is the oracle."""
    sizes = {"i": 4, "j": 8, "k": 2, "l": 4}
    letters = st.lists(st.sampled_from("ijkl"), min_size=1, max_size=3, unique=True)
    left, right = data.draw(letters), data.draw(letters)
    out = data.draw(st.permutations(sorted({*left, *right})))
    out = out[: data.draw(st.integers(0, len(out)))]
    gone = sorted({*left, *right} - {*out})
    equation = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    rule = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    declared = data.draw(st.booleans())
    f = Watched(
        unique_name("any"), lambda x, y: jnp.einsum(equation, x, y), lambda x, y: tuple(sizes[c] for c in out), rule,
        reduction_factors=tuple(gone) if declared else (),
    )  # fmt: skip
    m, operands = mesh(a=2, b=2), []
    for names in (left, right):
        axes = data.draw(st.permutations(["a", "b", None, None]))[: len(names)]
        x = np.sin(ramp(*(sizes[c] for c in names)) * (3 + len(operands))).astype(np.float32)
        operands.append(cut(m, x, *axes))
    plain = [np.asarray(x) for x in operands]
    close(jax.jit(f)(*operands), np.einsum(equation, *plain))
    batched = jax.vmap(f, (0, None))
    close(jax.jit(batched)(jnp.stack([operands[0]] * 2), operands[1]), np.stack([np.einsum(equation, *plain)] * 2))


# ---- rules that cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "factors", "error", "words"),
    [
        (3, {}, TypeError, "sharding rule 3: pass a string"),
        ("m k, k", {}, ValueError, "sharding rule 'm k, k': .*->"),
        ("m k, k -> m", {"reduction_factors": "k"}, TypeError, r"reduction_factors is the string 'k'; pass a tuple"),
        ("m k, k -> m", {"reduction_factors": ("z",)}, ValueError, "z"),
        ("m k, k -> m", {"reduction": "mean"}, ValueError, "reduction is 'mean'; pass 'sum', 'max' or 'min'"),
        (
            "(a b) -> a",
            {"b": 2, "reduction_factors": ("b",)},
            ValueError,
            "'b' is reduced, so it must be the first one",
        ),
        ("i -> i", {"z": 3}, ValueError, "z"),
        ("i + -> i", {}, ValueError, r"sharding rule 'i \+ -> i'"),
        ("(i j -> i j", {}, ValueError, "sharding rule"),
    ],
)
def test_invalid_rules_are_refused_and_the_old_one_stays(unique_name, rule, factors, error, words):
    f, m = elementwise(unique_name("kept"), "i, i -> i"), mesh()
    with pytest.raises(error, match=words) as caught:
        f.op.def_sharding_rule(rule, **factors)
    assert f.op.name in str(caught.value)
    x = cut(m, ramp(8), "d")
    close(jax.jit(f)(x, x), ramp(8) ** 2)
    assert f.built[-1] == ((2,),)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("i -> i", "is for 1 operands and 1 results; the operator was called with 2 operands and 1 results"),
        ("i, i -> i, i", "is for 2 operands and 2 results; .* 2 operands and 1 results"),
        ("i j, i -> i", "operand 0 has 2 dimensions there, but the operator was called with one of rank 1"),
        ("i, i -> i j", "result 0 has 2 dimensions there, but .* rank 1"),
        ("... i j, i -> i", "operand 0 has 2 dimensions there, but .* rank 1"),
    ],
)
def test_a_rule_that_does_not_fit_the_call_says_why(unique_name, rule, words):
    f = elementwise(unique_name("misfit"), rule)
    x = cut(mesh(), ramp(8), "d")
    with pytest.raises(ValueError, match=words) as caught:
        jax.jit(f)(x, x)
    assert f.op.name in str(caught.value)
    with pytest.raises(ValueError, match=words):
        f(ramp(8), ramp(8))


@numba.njit
def times_number(x, first, out):
    for i in range(x.size):
        out[i] = (first[0] + i) * x[i]


def numbered(name):
    """Return an operator that multiplies each element with its number in the whole."""
    operator = brainevent.XLACustomKernel(name)
    operator.def_reference(lambda x, first: (first + jnp.arange(x.size, dtype=x.dtype)) * x)
    operator.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(times_number, outs=outs))

    def of_part(places, x, first):
        begin, size = places["n"]
        assert size == x.shape[-1]
        return x, first + begin.astype(first.dtype)

    operator.def_sharding_rule("n, one -> n", of_part=of_part)
    return operator


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("spec", ["a", "b", ("a", "b"), ("b", "a"), None], ids=str)
@pytest.mark.parametrize("batched", [False, True])
def test_a_kernel_may_know_which_part_it_has(unique_name, spec, batched):
    operator, x = numbered(unique_name("numbered")), ramp(2, 8, start=1.0)
    call = lambda x: operator(x, jnp.ones(1), outs=jax.ShapeDtypeStruct((8,), x.dtype))
    call, x, specs = (jax.vmap(call), x, (None, spec)) if batched else (call, x[0], (spec,))
    operand = cut(mesh(a=2, b=2), x, *specs)
    close(jax.jit(call)(operand), x * np.arange(1, 9))
    assert sent(call, operand) == {}


def test_a_part_of_a_batch_has_whole_operands(unique_name):
    operator, x = numbered(unique_name("numbered")), ramp(4, 8)
    call = jax.vmap(lambda x: operator(x, jnp.zeros(1), outs=jax.ShapeDtypeStruct((8,), x.dtype)))
    close(jax.jit(call)(cut(mesh(), x, "d", None)), x * np.arange(8))


def test_check_tries_a_kernel_that_knows_its_part(unique_name):
    operator = numbered(unique_name("numbered"))
    brainevent.check(operator, ramp(8), jnp.zeros(1), outs=ramp(8), promises=["sharded jit"]).raise_if_failed()
    operator.def_sharding_rule("n, one -> n")  # each part begins at nought
    with pytest.raises(AssertionError, match="sharded jit"):
        brainevent.check(operator, ramp(8), jnp.zeros(1), outs=ramp(8), promises=["sharded jit"]).raise_if_failed()


def test_a_permuted_factor_is_not_cut(unique_name):
    op = brainevent.XLACustomKernel(unique_name("reversed"))
    op.def_reference(lambda x: x[::-1])
    op.def_sharding_rule("i -> i", permutation_factors=("i",))
    x = cut(mesh(), jnp.arange(8.0), "d")
    np.testing.assert_array_equal(jax.jit(op)(x), jnp.arange(8.0)[::-1])


def test_an_unknown_keyword_of_a_rule_gets_a_suggestion(unique_name):
    op = brainevent.XLACustomKernel(unique_name())
    with pytest.raises(TypeError, match=r"unknown keyword 'reduction_factor'; did you mean 'reduction_factors'"):
        op.def_sharding_rule("k -> ", reduction_factor=("k",))


# ---- rules that depend on the call -----------------------------------------------------------------------------------


def of_either_direction(name):
    """Return an operator that multiplies with a matrix or its transpose, and what its rule was asked about."""
    op, asked = brainevent.XLACustomKernel(name), []
    op.def_reference(lambda w, x, *, transpose: (w.T if transpose else w) @ x)

    def rule(w, x, *, transpose):
        asked.append((w.shape, x.shape, w.dtype, transpose))
        return "m k, m -> k" if transpose else "m k, k -> m"

    op.def_sharding_rule(rule, reduction_factors=("m",))
    return op, asked


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_a_rule_that_depends_on_the_call(unique_name, transpose, batched):
    op, asked = of_either_direction(unique_name("either"))
    f = functools.partial(op, transpose=transpose)
    x = Y if transpose else X
    operands = cut(mesh(), W, "d", None), cut(mesh(), x, "d" if transpose else None)
    wanted = W.T @ x if transpose else W @ x
    if batched:
        f, operands = jax.vmap(f, (None, 1)), (operands[0], jnp.stack([operands[1]] * 2, 1))
        wanted = np.stack([wanted] * 2)
    close(jax.jit(f)(*operands), wanted)
    assert sent(f, *operands) == ({"all-reduce": 1} if transpose else {})
    assert set(asked) == {(W.shape, x.shape, W.dtype, transpose)}


def test_types_on_an_explicit_mesh_follow_the_rule_of_the_call(unique_name):
    op, _ = of_either_direction(unique_name("typed"))
    with jax.set_mesh(mesh(AxisType.Explicit)):
        w = jax.device_put(W, P("d", None))
        assert jax.typeof(op(w, X, transpose=False)).sharding.spec == P("d")
        assert jax.typeof(op(w, jax.device_put(Y, P("d")), transpose=True)).sharding.spec == P(None)


def test_check_asks_for_the_rule_of_the_call(unique_name):
    op, _ = of_either_direction(unique_name("checked"))
    for transpose, x in ((False, X), (True, Y)):
        report = brainevent.check(op, W, x, transpose=transpose, promises=["sharded jit"])
        report.raise_if_failed()
        assert report.ok
    op.def_sharding_rule(lambda w, x, *, transpose: "m k, k -> m", reduction_factors=("k",))
    (failure,) = brainevent.check(op, W[:, :8], Y, transpose=True, promises=["sharded jit"]).failures
    assert "correct def_sharding_rule" in failure.detail


@pytest.mark.parametrize(
    ("written", "error", "words"),
    [
        (3, TypeError, "sharding rule 3: pass a string"),
        ("m k -> m", ValueError, "is for 1 operands and 1 results"),
        ("k m, m -> k z z", ValueError, "result 0 has 3 dimensions there"),
        ("i j, j -> i", ValueError, "Factor m in reduction_factors is not used in the rule"),
    ],
)
def test_a_function_that_writes_no_rule_is_reported_at_the_call(unique_name, written, error, words):
    op, _ = of_either_direction(unique_name("wrong"))
    op.def_sharding_rule(lambda w, x, *, transpose: written, reduction_factors=("m",))
    with pytest.raises(error, match=words) as caught:
        op(W, X, transpose=False)
    assert op.name in str(caught.value)


def test_64_bits_that_are_enabled_in_a_block_are_so_on_each_shard(unique_name):
    """XLA partitions in a thread of its own, where no `with` block of this one holds."""
    f = matvec(unique_name("wide"))
    with jax.enable_x64(True):
        w, x = cut(mesh(), W.astype("float64") / 3, None, "d"), cut(mesh(), X.astype("float64"), "d")
        assert w.dtype == "float64"
        np.testing.assert_allclose(jax.jit(f)(w, x), np.asarray(w) @ np.asarray(x), rtol=1e-14)
        assert sent(f, w, x) == {"all-reduce": 1}
