# SPDX-License-Identifier: Apache-2.0
"""Operators inside shard_map, and on meshes with explicit axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from meshes import AxisType, P, W, Watched, X, Y, close, cut, dot_rows, elementwise, matvec, mesh, ramp, sent
from zoo import ANIMALS

import brainevent

pytestmark = pytest.mark.covering

RULES = pytest.mark.parametrize("rule", [None, "m k, k -> m"], ids=["no rule", "rule"])
V = ramp(8)


def mapped(m, in_specs, out_specs, **kwargs):
    return lambda f: jax.shard_map(f, mesh=m, in_specs=in_specs, out_specs=out_specs, **kwargs)


@pytest.mark.covering(strength=1)
@RULES
@pytest.mark.parametrize("check_vma", [True, False])
def test_the_kernel_runs_on_the_shard(unique_name, rule, check_vma):
    f, m = matvec(unique_name("manual"), rule), mesh()
    rows = mapped(m, (P("d"), P()), P("d"), check_vma=check_vma)(f)
    close(jax.jit(rows)(W, X), W @ X)
    assert f.built[-1] == ((2,),)
    assert sent(rows, cut(m, W, "d", None), X) == {}
    columns = mapped(m, (P(None, "d"), P("d")), P(), check_vma=check_vma)(lambda w, x: jax.lax.psum(f(w, x), "d"))
    close(jax.jit(columns)(W, X), W @ X)
    assert sent(columns, cut(m, W, None, "d"), cut(m, X, "d")) == {"all-reduce": 1}
    close(columns(W, X), W @ X)  # Eagerly, too.


@pytest.mark.covering(strength=0, times=3)
@pytest.mark.parametrize("name", ANIMALS)
def test_every_operator_works_inside(name):
    animal, m = ANIMALS[name], mesh()
    operands = animal.operands(3)
    batch = [np.stack([x] * 4) for x in operands]
    on_shard = lambda f: lambda *xs: jax.tree.map(lambda r: r[None], f(*(x[0] for x in xs)))
    found = jax.jit(mapped(m, P("d"), P("d"))(on_shard(animal.call)))(*batch)
    expected = jax.vmap(animal.twin)(*batch)
    jax.tree.map(close, found, expected)
    first_only = [batch[0], *operands[1:]]  # One operand is cut, the others are whole.
    specs = (P("d"), *[P()] * (len(operands) - 1))
    found = jax.jit(
        mapped(m, specs, P("d"))(lambda x, *rest: jax.tree.map(lambda r: r[None], animal.call(x[0], *rest)))
    )
    jax.tree.map(close, found(*first_only), expected)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize(
    "name", ["product", "matvec", "sum_and_product", "gather", "masked", "reference_only", "by_scan"]
)
@pytest.mark.parametrize("transformation", ["grad", "vmap", "jvp", "scan", "vmap of grad"])
def test_transformations_inside(name, transformation):
    animal, m = ANIMALS[name], mesh()
    operands = animal.operands(3)
    batch = [
        np.stack([x * (k + 1) if x.dtype == np.float32 else x for k in range(4)]) for x in map(np.asarray, operands)
    ]

    def transformed(f):
        def gradient(*xs):
            scalar = lambda *moving: animal.floats(f)(*moving, operands=xs)
            return jax.grad(scalar, range(len(animal.moving)))(*(xs[i] for i in animal.moving))

        def jvp(*xs):
            x = xs[animal.moving[0]]
            of_one = lambda x: f(*(x if i == animal.moving[0] else y for i, y in enumerate(xs)))
            results, tangents = jax.jvp(of_one, (x,), (jnp.cos(x),))
            return [
                t for r, t in zip(*map(jax.tree.leaves, (results, tangents)), strict=True) if r.dtype == jnp.float32
            ]

        return {
            "grad": gradient,
            "vmap": lambda *xs: jax.vmap(f)(*(jnp.stack([x, x]) for x in xs)),
            "jvp": jvp,
            "scan": lambda *xs: jax.lax.scan(lambda c, _: (c, f(*xs)), 0, None, length=2)[1],
            "vmap of grad": lambda *xs: jax.vmap(gradient)(*(jnp.stack([x, x]) for x in xs)),
        }[transformation]

    on_shard = lambda *xs: jax.tree.map(lambda r: r[None], transformed(animal.call)(*(x[0] for x in xs)))
    found = jax.jit(mapped(m, P("d"), P("d"))(on_shard))(*batch)
    expected = [transformed(animal.twin)(*(x[k] for x in batch)) for k in range(4)]
    jax.tree.map(close, found, jax.tree.map(lambda *rs: np.stack(rs), *expected))


@pytest.mark.covering(strength=1)
@RULES
@pytest.mark.parametrize(
    ("specs", "out"),
    [((P("d"), P()), P("d")), ((P(None, "d"), P("d")), None), ((P("d"), P()), None), ((P(), P()), P())],
)
def test_gradients_inside_and_through(unique_name, rule, specs, out):
    """What is not cut gets the sum over the devices, inside shard_map and through it."""
    f, m = matvec(unique_name("gradients"), rule), mesh()
    summed = lambda f: (lambda w, x: jax.lax.psum(f(w, x), "d")) if specs[0] == P(None, "d") else f
    part = summed(f)
    whole = mapped(m, specs, P() if specs[0] != P("d") else P("d"))(part)
    loss = lambda f: lambda w, x: (f(w, x) ** 2).sum()
    expected = jax.grad(loss(jnp.matmul), (0, 1))(W, X)
    for got, want in zip(jax.jit(jax.grad(loss(whole), (0, 1)))(W, X), expected, strict=True):
        close(got, want)

    def inside(w, x):
        def local(w, x):
            value = (part(w, x) ** 2).sum()
            return jax.lax.psum(value, "d") if specs[0] == P("d") else value

        return jax.grad(local, (0, 1))(w, x)

    for got, want in zip(jax.jit(mapped(m, specs, specs)(inside))(W, X), expected, strict=True):
        close(got, want)


@RULES
def test_a_scan_inside(unique_name, rule):
    f, m = matvec(unique_name("scanned"), rule), mesh()
    square = np.sin(ramp(12, 12)).astype(np.float32)

    def steps(w, x):
        step = lambda c, _: (jax.lax.all_gather(f(w, c), "d", tiled=True) / 3, c.sum())
        return jax.lax.scan(step, jax.lax.pcast(x, "d", to="varying"), None, length=3)

    def twin(w, x):
        return jax.lax.scan(lambda c, _: (w @ c / 3, c.sum()), x, None, length=3)

    found = jax.jit(
        mapped(m, (P("d"), P()), (P("d"), P(None, "d")))(
            lambda w, x: jax.tree.map(lambda r: r[:, None] if r.ndim == 1 and r.size == 3 else r, steps(w, x))
        )
    )(square, X)
    expected = twin(square, X)
    close(np.asarray(found[0]).reshape(4, 12)[0], expected[0])
    close(np.asarray(found[1])[:, 0], expected[1])


def test_bindings_of_the_primitive_match_manual_axes_too(unique_name):
    f, m = elementwise(unique_name("bound"), "i, i -> i"), mesh()
    bound = lambda x, y: f.op.primitive.bind(x, y, outs=(jax.core.ShapedArray(x.shape, x.dtype),))[0]
    close(jax.jit(mapped(m, (P("d"), P()), P("d"))(bound))(V, V[:2]), V * np.tile(V[:2], 4))


@pytest.mark.covering(strength=1)
@RULES
@pytest.mark.parametrize("manual", ["a", "b"])
@pytest.mark.parametrize(
    "w_spec", [("a", None), (None, "a"), ("b", None), (None, "b"), ("a", "b"), ("b", "a"), (None, None)]
)
def test_meshes_that_are_manual_in_part(unique_name, rule, manual, w_spec):
    f, m = matvec(unique_name("partial"), rule), mesh(a=2, b=2)
    x_spec = w_spec[1:]
    only = lambda spec: P(*(a if a == manual else None for a in spec))
    reduced = w_spec[1] == manual
    part = (lambda w, x: jax.lax.psum(f(w, x), manual)) if reduced else f
    out = P(manual) if w_spec[0] == manual else P()
    run = mapped(m, (only(w_spec), only(x_spec)), out, axis_names={manual})(part)
    operands = cut(m, W, *w_spec), cut(m, X, *x_spec)
    close(jax.jit(run)(*operands), W @ X)
    if rule:
        assert f.built[-1] == ((4,) if w_spec[0] else (8,),)
        assert "all-gather" not in sent(run, *operands)
    close(jax.jit(jax.vmap(run, (None, 0)))(operands[0], jnp.stack([operands[1]] * 2)), np.stack([W @ X] * 2))
    loss = lambda f: lambda w, x: (f(w, x) ** 2).sum()
    gradients = jax.jit(jax.grad(loss(run), (0, 1)))(*operands)
    for got, want in zip(gradients, jax.grad(loss(jnp.matmul), (0, 1))(W, X), strict=True):
        close(got, want)


# ---- explicit axes -------------------------------------------------------------------------------------------------


def explicit(**sizes):
    return mesh(AxisType.Explicit, **sizes)


@pytest.mark.parametrize(
    ("w_spec", "x_spec", "out_spec"),
    [
        (("d", None), (None,), ("d",)),
        ((None, "d"), ("d",), (None,)),
        ((None, "d"), (None,), (None,)),
        ((None, None), (None,), (None,)),
    ],
)
@RULES
def test_explicit_axes(unique_name, rule, w_spec, x_spec, out_spec):
    f, m = matvec(unique_name("explicit"), rule), explicit()
    with jax.set_mesh(m):
        w, x = cut(m, W, *w_spec), cut(m, X, *x_spec)
        result = jax.jit(f)(w, x)
        close(result, W @ X)
        close(f(w, x), W @ X)
        assert result.sharding.spec == (P(*out_spec) if rule else P(None))
        types = jax.eval_shape(f, w, x)
        assert types.shape == (8,)
        if rule:
            assert jax.typeof(result).sharding.spec == P(*out_spec)
            local = 2 if w_spec[0] else 8
            assert f.built[-1] == ((local,),)
            assert "all-gather" not in sent(f, w, x)


@RULES
def test_gradients_with_explicit_axes(unique_name, rule):
    f, m = matvec(unique_name("explicit_grad"), rule), explicit()
    loss = lambda f: lambda w, x: (f(w, x) ** 2).sum()
    expected = jax.grad(loss(jnp.matmul), (0, 1))(W, X)
    with jax.set_mesh(m):
        for w_spec, x_spec in [(("d", None), (None,)), ((None, None), (None,))]:
            found = jax.jit(jax.grad(loss(f), (0, 1)))(cut(m, W, *w_spec), cut(m, X, *x_spec))
            for got, want in zip(found, expected, strict=True):
                close(got, want)


@pytest.mark.covering(strength=1, times=1)
@pytest.mark.parametrize("name", ["product", "sum_and_product", "masked", "reference_only", "by_scan", "by_author"])
@pytest.mark.parametrize("transformation", ["call", "grad", "vmap", "jvp"])
@pytest.mark.parametrize("spec", [(), ("d",)], ids=["whole", "cut"])
def test_operators_without_a_rule_with_explicit_axes(name, transformation, spec):
    animal, m = ANIMALS[name], explicit()
    operands = animal.operands(8)

    def run(f, xs):
        scalar = lambda *moving: animal.floats(f)(*moving, operands=xs)
        moving = [xs[i] for i in animal.moving]
        return {
            "call": lambda: f(*xs),
            "grad": lambda: jax.grad(scalar, range(len(moving)))(*moving),
            "vmap": lambda: jax.vmap(f)(*(jnp.stack([x, x]) for x in xs)),
            "jvp": lambda: jax.jvp(scalar, tuple(moving), tuple(jnp.cos(x) for x in moving))[1],
        }[transformation]()

    with jax.set_mesh(m):
        arrays = [cut(m, x, *spec) for x in operands]
        found = jax.jit(lambda *xs: run(animal.call, xs))(*arrays)
    jax.tree.map(close, found, run(animal.twin, [jnp.asarray(x) for x in operands]))


@pytest.mark.parametrize("rule", [None, "..., ... -> ..."])
@pytest.mark.parametrize("spec", [("d", None), (None, "d")])
def test_vmap_with_explicit_axes(unique_name, rule, spec):
    f, m = elementwise(unique_name("explicit_vmap"), rule), explicit()
    x = ramp(4, 8)
    with jax.set_mesh(m):
        operand = cut(m, x, *spec)
        result = jax.jit(jax.vmap(lambda x: f(x, x)))(operand)
        close(result, x * x)
        if rule:
            assert result.sharding.spec == P(*spec)
            assert f.built[-1] == ((8,) if spec[0] else (2,),)
        whole = cut(m, x)
        close(jax.jit(jax.vmap(f, (0, None)))(whole, cut(m, V)), x * V)


def test_a_mesh_of_both_kinds(unique_name):
    f = matvec(unique_name("both"))
    m = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with jax.set_mesh(m):
        w, x = cut(m, W, "a", "b"), cut(m, X, "b")
        result = jax.jit(f)(w, x)
        close(result, W @ X)
        assert jax.typeof(result).sharding.spec == P("a")
        assert sent(f, w, x) == {"all-reduce": 1}


def test_manual_inside_explicit(unique_name):
    f, m = matvec(unique_name("inside")), explicit(a=2, b=2)
    with jax.set_mesh(m):
        w, x = cut(m, W, "a", None), cut(m, X)
        run = jax.shard_map(f, in_specs=(P("a"), P()), out_specs=P("a"))
        close(jax.jit(run)(w, x), W @ X)
        part = jax.shard_map(f, in_specs=(P("a"), P()), out_specs=P("a"), axis_names={"a"})
        close(jax.jit(part)(w, x), W @ X)
        close(jax.jit(part)(cut(m, W, "a", "b"), cut(m, X, "b")), W @ X)


def test_an_uncut_array_of_a_mesh_meets_a_cut_one(unique_name):
    f = Watched(unique_name("meets"), dot_rows, lambda w, x: w.shape[:1], "m k, k -> m", reduction_factors=("k",))
    m = explicit()
    with jax.set_mesh(m):
        result = jax.jit(lambda w: f(w, jnp.asarray(X)))(cut(m, W, "d", None))
        close(result, W @ X)
        assert jax.typeof(result).sharding.spec == P("d")
    close(jax.jit(f)(W, X), W @ X)
    assert Y.shape == (8,)


def test_an_operator_that_is_its_reference_with_explicit_axes(unique_name):
    """What `outs` and derivatives are made from must not see how the operands are cut."""
    op = brainevent.XLACustomKernel(unique_name("explicit_reference"))
    op.def_reference(lambda x, w: x @ w)
    op.def_sharding_rule("n, n m -> m", reduction_factors=("n",))
    x, w = jnp.arange(8.0), jnp.arange(32.0).reshape(8, 4)
    m = explicit(d=4)
    with jax.set_mesh(m):
        a, b = cut(m, x, "d"), cut(m, w, "d")
        np.testing.assert_allclose(op(a, b), x @ w)
        gradient = jax.grad(lambda a, b: op(a, b).sum(), (0, 1))
        for function in (gradient, jax.jit(gradient)):
            da, db = function(a, b)
            np.testing.assert_allclose(da, w.sum(1))
            np.testing.assert_allclose(db, jnp.broadcast_to(x[:, None], w.shape))
