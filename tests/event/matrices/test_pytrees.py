# SPDX-License-Identifier: Apache-2.0
"""Matrices in pytrees: functions over leaves change weights alone, and `jax.grad` and optimizers take matrices."""

import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked

import brainevent
from brainevent import CSR, BinaryArray
from brainevent._compat import program_leaves

RANDOM = np.random.default_rng(0)
DENSE = (RANDOM.normal(size=(6, 9)) * (RANDOM.random((6, 9)) < 0.4)).astype("float32")
X = jnp.asarray(RANDOM.normal(size=6), jnp.float32)

FORMATS = {
    "csr": lambda d: CSR.fromdense(d),
    "csc": lambda d: brainevent.CSC.fromdense(d),
    "coo": lambda d: brainevent.COO.fromdense(d),
    "dense": lambda d: brainevent.Dense(d),
    "per_pre": lambda d: brainevent.FixedNumPerPre.fromdense(d, num_conn=9),
    "per_post": lambda d: brainevent.FixedNumPerPost.fromdense(d, num_conn=6),
    "tcsr": lambda d: brainevent.TCSR.fromdense(d),
    "turned": lambda d: CSR.fromdense(d).precompute_weight_indices(),
}
DRAWN = {
    "scalar": lambda: brainevent.JITCScalarR((0.5, 0.4, 1), shape=(6, 9)),
    "normal": lambda: brainevent.JITCNormalC((0.5, 0.1, 0.4, 1), shape=(6, 9)),
    "uniform": lambda: brainevent.JITCUniformR((0.1, 0.6, 0.4, 1), shape=(6, 9)),
}
MAKERS = {**{name: (lambda make=make: make(jnp.asarray(DENSE))) for name, make in FORMATS.items()}, **DRAWN}
matrices = pytest.mark.parametrize("name", MAKERS)
FEW = ("csr", "coo", "dense", "per_post", "normal")
few_matrices = pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.thorough) for name in MAKERS]
)
formats = pytest.mark.parametrize("name", FORMATS)
EAGER = {"eager": lambda f: f, "jit": jax.jit}
eager = pytest.mark.parametrize("mode", EAGER)


def close(found, wanted, tolerance=1e-4):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def places(matrix):
    return [getattr(matrix, name) for name in matrix._structure]


def has_the_places_of(found, matrix):
    for x, y in zip(places(found), places(matrix), strict=True):
        np.testing.assert_array_equal(x, y)
    assert (found.indices_sorted, found.indices_within) == (matrix.indices_sorted, matrix.indices_within)
    assert found.buffers.keys() == matrix.buffers.keys()


def weights_of(matrix):
    return jax.tree.leaves(matrix.data)


# ---- functions over leaves ----------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1)
@matrices
@eager
def test_functions_over_leaves_change_weights_alone(name, mode):
    matrix = MAKERS[name]()
    other = jax.tree.map(lambda a: 3 * a, matrix)
    changes = {
        "integers": (lambda m, o: jax.tree.map(lambda a: a * 2, m), 2),
        "floats": (lambda m, o: jax.tree.map(lambda a: a * 0.9, m), 0.9),
        "step": (lambda m, o: jax.tree.map(lambda p, g: p - 0.1 * g, m, o), 0.7),
        "mean": (lambda m, o: jax.tree.map(lambda e, p: 0.9 * e + 0.1 * p, m, o), 1.2),
        "zeros": (lambda m, o: jax.tree.map(jnp.zeros_like, m), 0.0),
        "out and in": (lambda m, o: jax.tree.unflatten(jax.tree.structure(m), jax.tree.leaves(o)), 3),
    }
    for change, factor in changes.values():
        found = EAGER[mode](change)(matrix, other)
        assert type(found) is type(matrix)
        has_the_places_of(found, matrix)
        for x, y in zip(weights_of(found), weights_of(matrix), strict=True):
            close(x, factor * y)
        if name not in DRAWN:
            close(BinaryArray(X > 0) @ found, factor * (np.asarray(X > 0, "float32") @ DENSE))
            close(X @ found, factor * (np.asarray(X) @ DENSE))


def test_no_function_over_leaves_reaches_beyond_memory():
    """Before, the doubled indices let the kernel read and write outside of arrays: a crash."""
    said = run_forked(
        """
        import jax, jax.numpy as jnp
        from brainevent import CSR, BinaryArray
        csr = CSR.random((200, 300), num_per_row=9, seed=0)
        x = jnp.ones(200, bool)
        wanted = x @ csr
        for scale in (2, 1 << 30):
            change = lambda m: jax.tree.map(lambda a: a * scale, m)
            for changed in (change(csr), jax.jit(change)(csr))[: 2 if scale == 2 else 1]:
                for found in (BinaryArray(x) @ changed, jnp.ones(200) @ changed, (changed.T @ BinaryArray(x))):
                    assert jnp.allclose(found, scale * wanted)
                assert (changed @ BinaryArray(jnp.ones(300))).shape == (200,)
        print("done")
        """
    )
    assert "done" in said


@matrices
def test_norms_over_leaves_are_those_of_weights(name):
    matrix = MAKERS[name]()
    assert [x.dtype for x in jax.tree.leaves(matrix)] == [x.dtype for x in weights_of(matrix)]
    norm = lambda m: sum((x.astype("float32") ** 2).sum() for x in jax.tree.leaves(m))
    close(jax.jit(norm)(matrix), sum(float((np.asarray(x) ** 2).sum()) for x in weights_of(matrix)))


@pytest.mark.covering(strength=1, most=4)
@matrices
def test_weights_of_a_batch_are_stacked_beside_one_structure(name):
    matrix = MAKERS[name]()
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), matrix, jax.tree.map(lambda a: 2 * a, matrix))
    has_the_places_of(pair, matrix)
    found = jax.vmap(lambda m: X @ m)(pair)
    close(found, jnp.stack([X @ matrix, X @ jax.tree.map(lambda a: 2 * a, matrix)]))
    twice = jax.vmap(lambda m: jax.tree.map(lambda a: 2 * a, m))(pair)
    has_the_places_of(twice, matrix)
    if name in FORMATS:
        with pytest.raises(brainevent.ShapeError, match="pass one weight for all stored elements, or one for each"):
            X @ pair


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "per_pre", "tcsr"])
@eager
def test_matrices_of_different_structure_are_not_mixed(name, mode):
    one = FORMATS[name](jnp.asarray(DENSE))
    mirrored = FORMATS[name](jnp.asarray(DENSE[:, ::-1].copy()))
    for numbered in (False, True):
        if numbered:  # as an optimizer does for its state
            keep = [jax.tree.map(jnp.zeros_like, m) for m in (one, mirrored)]
        with pytest.raises(ValueError, match=r"a structure of shape \(6, 9\)"):
            EAGER[mode](lambda m, o: jax.tree.map(jnp.add, m, o))(one, mirrored)
    assert len(keep) == 2


def test_known_structures_with_equal_indices_are_one():
    matrix = FORMATS["csr"](jnp.asarray(DENSE))
    for other in (FORMATS["csr"](jnp.asarray(DENSE)), pickle.loads(pickle.dumps(matrix)), copy.deepcopy(matrix)):
        close(jax.tree.map(jnp.add, matrix, other).todense(), 2 * DENSE)
        close(jax.jit(lambda m, o: jax.tree.map(jnp.add, m, o))(matrix, other).todense(), 2 * DENSE)
        assert jax.tree.structure(matrix) == jax.tree.structure(other)


def test_integer_weights_raise():
    changed = jax.tree.map(lambda a: a > 0, FORMATS["csr"](jnp.asarray(DENSE)))
    with pytest.raises(TypeError, match="data is bool; pass floating weights"):
        X @ changed


def test_programs_refuse_floating_indices():
    """Whoever takes operands apart as a program does, and changes indices, reads so."""
    matrix = FORMATS["csr"](jnp.asarray(DENSE))
    tree = jax.jit(lambda m: m).lower(matrix).in_tree
    leaves = [x * 0.5 for x in (matrix.data, matrix.indices, matrix.indptr)]
    with pytest.raises(TypeError, match="CSR: a function over leaves made indices of float32; change the data only"):
        jax.tree.unflatten(tree, leaves)
    other = jax.tree.unflatten(tree, [matrix.data, matrix.indices[:3], matrix.indptr])
    assert not other[0][0].indices_within


# ---- gradients ----------------------------------------------------------------------------------------------------


def loss(p):
    return (jnp.tanh(X @ p["w"] + p["b"]) ** 2).sum()


def dense_loss(p):
    w = p["w"] if isinstance(p["w"], jax.Array) else p["w"].todense()
    return (jnp.tanh(X @ w + p["b"]) ** 2).sum()


@pytest.mark.covering(strength=1, most=4)
@formats
@eager
def test_gradients_are_those_of_a_dense_matrix(name, mode):
    matrix, b = FORMATS[name](jnp.asarray(DENSE)), jnp.linspace(0, 1, 9)
    found = EAGER[mode](jax.grad(loss))({"w": matrix, "b": b})
    wanted = jax.grad(dense_loss)({"w": jnp.asarray(DENSE), "b": b})
    if name not in ("per_pre", "per_post"):  # which store elements of zero at index 0
        close(found["w"].todense(), np.where((DENSE != 0) | (name == "dense"), wanted["w"], 0))
    has_the_places_of(found["w"], matrix)
    close(found["b"], wanted["b"])
    of_data = jax.grad(lambda data: dense_loss({"w": matrix.with_data(data), "b": b}))(matrix.data)
    close(found["w"].data, of_data)
    by_ours = EAGER[mode](brainevent.grad(loss))({"w": matrix, "b": b})
    close(by_ours["w"].data, found["w"].data)


@pytest.mark.covering(strength=1, most=2)
@few_matrices
def test_gradients_go_through_vmap_and_twice(name):
    matrix, b = MAKERS[name](), jnp.linspace(0, 1, 9)
    by_x = lambda p, x: (jnp.tanh(x @ p["w"] + p["b"]) ** 2).sum()
    xs = jnp.stack([X, -2 * X])
    found = jax.jit(jax.vmap(jax.grad(by_x), (None, 0)))({"w": matrix, "b": b}, xs)
    one = jax.grad(by_x)({"w": matrix, "b": b}, xs[1])
    jax.tree.map(lambda batch, single: close(batch[1], single), jax.tree.leaves(found), jax.tree.leaves(one))
    pair = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), {"w": matrix, "b": b})
    of_pair = jax.vmap(jax.grad(loss))(pair)
    jax.tree.map(
        lambda x, y: close(x[0], y), jax.tree.leaves(of_pair), jax.tree.leaves(jax.grad(loss)({"w": matrix, "b": b}))
    )

    def steep(p):
        return sum((x**2).sum() for x in jax.tree.leaves(jax.grad(loss)(p)))

    def steep_by_data(data):
        given = lambda data: loss({"w": matrix.with_data(data), "b": b})
        by_b = jax.grad(lambda b: loss({"w": matrix.with_data(data), "b": b}))(b)
        return sum((x**2).sum() for x in jax.tree.leaves(jax.grad(given)(data))) + (by_b**2).sum()

    twice = jax.jit(jax.grad(steep))({"w": matrix, "b": b})
    wanted = jax.grad(steep_by_data)(matrix.data)
    jax.tree.map(close, weights_of(twice["w"]), jax.tree.leaves(wanted))


@pytest.mark.covering(strength=1, most=3)
@formats
def test_values_and_events_are_differentiated_together(name):
    matrix = FORMATS[name](jnp.asarray(DENSE))
    fire = lambda m, x: (BinaryArray(x) @ m).sum()
    value, (by_m, by_x) = jax.value_and_grad(fire, (0, 1))(matrix, X)
    close(value, fire(matrix, X))
    close(by_m.data, jax.grad(lambda d: fire(matrix.with_data(d), X))(matrix.data))
    close(by_x, DENSE.sum(1))


def test_gradients_within_a_trace_of_indices():
    csr = FORMATS["csr"](jnp.asarray(DENSE))

    @jax.jit
    def slopes(data, indices, indptr):
        matrix = CSR((data, indices, indptr), shape=(6, 9))
        return jax.tree.map(lambda p, g: p - g, matrix, jax.grad(lambda m: (X @ m).sum())(matrix)).data

    wanted = csr.data - jax.grad(lambda m: (X @ m).sum())(csr).data
    close(slopes(csr.data, csr.indices, csr.indptr), wanted)


def test_a_derivative_of_a_matrix_that_is_gone_is_refused():
    matrix = CSR.random((6, 9), num_per_row=3, seed=0)
    tree = program_leaves(matrix)[1]
    none = np.zeros(matrix.nse, jax.dtypes.float0)  # the derivative by integers
    has_the_places_of(jax.tree.unflatten(tree, [matrix.data, none, none]), matrix)
    data = matrix.data
    del matrix
    gc.collect()
    with pytest.raises(RuntimeError, match="CSR: the matrix by which this is the derivative exists no more; keep it"):
        jax.tree.unflatten(tree, [data, none, none])


def test_buffers_are_leaves_if_they_are_floating():
    matrix = FORMATS["turned"](jnp.asarray(DENSE))
    matrix.register_buffer("trace", jnp.ones(6))
    matrix.register_buffer("count", jnp.arange(3))
    found = jax.jit(jax.grad(lambda m: ((m.trace * X) @ m).sum()))(matrix)
    close(found.trace, X * DENSE.sum(1))
    assert found.count.tolist() == [0, 1, 2]
    has_the_places_of(found, matrix)
    changed = jax.tree.map(lambda a: 2 * a, matrix)
    assert (changed.trace.tolist(), changed.count.tolist()) == ([2.0] * 6, [0, 1, 2])
    close(changed @ BinaryArray(jnp.ones(9)), 2 * DENSE.sum(1))


# ---- training -----------------------------------------------------------------------------------------------------


def start(params):
    return {"mean": jax.tree.map(jnp.zeros_like, params), "square": jax.tree.map(jnp.zeros_like, params)}


def step(params, state):
    """Do as an Adam optimizer does, by functions over leaves."""
    slope = jax.grad(loss)(params)
    norm = jnp.sqrt(sum((x**2).sum() for x in jax.tree.leaves(slope)))
    slope = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), slope)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], slope)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, state["square"], slope)
    new = jax.tree.map(lambda p, m, s: p - 0.1 * m / (jnp.sqrt(s) + 1e-3), params, mean, square)
    return new, {"mean": mean, "square": square}


@pytest.mark.covering(strength=1)
@few_matrices
@eager
def test_an_optimizer_trains_weights_alone(name, mode):
    params = {"w": MAKERS[name](), "b": jnp.linspace(0, 1, 9)}
    state, first, average = start(params), params, params
    run = EAGER[mode](lambda *given: step(*given))
    for _ in range(4):
        params, state = run(params, state)
        average = jax.tree.map(lambda e, p: 0.5 * e + 0.5 * p, average, params)
        has_the_places_of(params["w"], first["w"])
    assert mode == "eager" or run._cache_size() == 1
    has_the_places_of(average["w"], first["w"])
    assert loss(params) < loss(first)

    def last(carry, _):
        return step(*carry), None

    (scanned, _), _ = jax.lax.scan(last, (first, start(first)), length=4)
    jax.tree.map(lambda x, y: close(x, y, 1e-3), jax.tree.leaves(scanned), jax.tree.leaves(params))


def test_other_structures_are_trained_by_the_same_program_once_the_first_is_gone():
    run = jax.jit(lambda *given: step(*given))
    for seed in range(2):
        params = {"w": CSR.random((6, 9), num_per_row=3, seed=seed), "b": jnp.zeros(9)}
        before = np.asarray(params["w"].indices).copy()
        params, state = run(params, start(params))
        params, state = run(params, state)
        np.testing.assert_array_equal(params["w"].indices, before)
        close(X @ params["w"], np.asarray(X) @ np.asarray(params["w"].todense()))
        del params, state
        gc.collect()
    assert run._cache_size() == 1
    params = {"w": CSR.random((6, 9), num_per_row=3, seed=1), "b": jnp.zeros(9)}
    other = {"w": CSR.random((6, 9), num_per_row=3, seed=2), "b": jnp.zeros(9)}
    run(params, start(params))
    assert params["w"].nse == other["w"].nse
    with pytest.raises(ValueError, match="a structure of shape"):
        run(params, start(other))


def test_programs_keep_no_structure():
    import weakref

    run = jax.jit(lambda m: jax.tree.map(lambda a: 2 * a, m).data)
    matrix = CSR.random((6, 9), num_per_row=3, seed=0)
    run(jax.tree.map(lambda a: a, matrix))
    gone = weakref.ref(matrix.indices)
    del matrix
    gc.collect()
    assert gone() is None


# ---- other transformations ----------------------------------------------------------------------------------------


def test_matrices_that_are_made_in_a_batch_have_their_structures():
    make = lambda shift: CSR(
        (jnp.ones(2) * shift, jnp.array([0, 1]) + shift.astype("int32"), jnp.array([0, 2])), shape=(1, 4)
    )
    batch = jax.vmap(make)(jnp.arange(3.0))
    assert batch.indices.shape == (3, 2)
    wanted = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 2, 2]])
    close(jax.vmap(lambda m: jnp.ones(1) @ m)(batch), wanted)
    close(jax.jit(jax.vmap(lambda m: jnp.ones(1) @ (2 * m)))(batch), 2 * wanted)
    assert jax.vmap(lambda m: 2 * m)(batch).indices.shape == (3, 2)


@few_matrices
def test_matrices_go_through_other_transformations(name):
    matrix = MAKERS[name]()
    product = np.asarray(X @ matrix)
    close(X @ jax.jit(lambda m: jax.tree.map(lambda a: a, m))(matrix), product)
    close(jax.checkpoint(lambda m: X @ m)(matrix), product)
    close(jax.lax.cond(True, lambda m: X @ m, lambda m: 0 * (X @ m), matrix), product)
    moved = jax.device_put(matrix, jax.devices()[-1])
    assert all(x.devices() == {jax.devices()[-1]} for x in (*weights_of(moved), *places(moved)))
    close(X @ moved, product)
    shapes = jax.eval_shape(lambda m: 2 * m, matrix)
    assert type(shapes) is type(matrix)
    doubled = jax.custom_vjp(lambda m: X @ m)
    doubled.defvjp(lambda m: (X @ m, m), lambda m, g: (jax.tree.map(lambda a: jnp.full_like(a, 7.0), m),))
    for found in (jax.grad(lambda m: doubled(m).sum())(matrix), jax.jit(jax.grad(lambda m: doubled(m).sum()))(matrix)):
        for x in weights_of(found):
            close(x, np.full_like(x, 7.0))
    host = lambda m: np.asarray(X @ m, np.float32)
    found = jax.jit(lambda m: jax.pure_callback(host, jax.ShapeDtypeStruct((9,), np.float32), m))(matrix)
    close(found, product)


def test_layouts_by_delay_change_their_weights_alone():
    matrix = FORMATS["csr"](jnp.asarray(DENSE))
    layout = matrix.delay_layout(jnp.arange(matrix.nse) % 3 + 1, 5)
    ring = jnp.zeros((5, 9))
    deliver = lambda layout: layout.deliver(ring, X > 0, 0)
    for change in (lambda m: jax.tree.map(lambda a: a * 2, m), lambda m: jax.tree.map(lambda p, g: p + g, m, m)):
        for changed in (change(layout), jax.jit(change)(layout)):
            close(deliver(changed), 2 * deliver(layout))
            close(jax.jit(deliver)(changed), 2 * deliver(layout))
    slope = jax.jit(jax.grad(lambda m: (deliver(m) ** 2).sum()))(layout)
    wanted = jax.grad(lambda d: (deliver(layout.with_data(d)) ** 2).sum())(matrix.data)
    close(slope.original_data(), wanted)
