# SPDX-License-Identifier: Apache-2.0
"""Matrices in programs that are compiled ahead of time, in loops of optimizers, on devices, and in an unknown JAX."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from brainevent import CSR
from brainevent.event import purposes, saved, views

X = jnp.linspace(-1, 1, 6)


def made(seed):
    matrix = CSR.random((6, 9), num_per_row=3, seed=seed)
    return matrix.with_data(jnp.linspace(-1, 2, matrix.nse))


def zeros_of(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


# ---- programs compiled ahead of time --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [made, lambda seed: made(seed).delay_layout(jnp.arange(18) % 3 + 1, 5)])
def test_programs_compiled_ahead_of_time_take_matrices_of_shared_structure(make):
    matrix, other = make(0), make(1)
    states = zeros_of(matrix), zeros_of(other)
    step = lambda m, s: jax.tree.map(lambda a, b: 2 * a + b, m, s)
    compiled = jax.jit(step).lower(matrix, states[0]).compile()
    close(compiled(matrix, states[0]).data, 2 * matrix.data)
    assert compiled(matrix, states[0]).indices is matrix.indices
    close(export.export(jax.jit(step))(matrix, states[0]).call(matrix, states[0]).data, 2 * matrix.data)
    with pytest.raises(TypeError, match=r"structure \d+ of those that are shared, of shape \(6, 9\)"):
        compiled(other, states[1])
    with pytest.raises(ValueError, match=r"structure \d+ of those that are shared, of shape \(6, 9\)"):
        export.export(jax.jit(step))(matrix, states[0]).call(other, states[1])


def test_a_program_compiled_ahead_of_time_serves_other_structures_of_one_matrix():
    compiled = jax.jit(lambda m: X @ m).lower(made(0)).compile()
    for seed in range(3):
        close(compiled(made(seed)), X @ made(seed).todense())
    matrix = made(3)
    assert zeros_of(matrix).indices is matrix.indices
    with pytest.raises(TypeError, match=r"seen .* a structure of one matrix, of .* given .* of those that are shared"):
        compiled(matrix)


def test_matrices_that_were_read_alone_share_a_program():
    traced = []
    program = jax.jit(lambda m: traced.append(1) or X @ m)
    read = [pickle.loads(pickle.dumps(made(seed))) for seed in range(6)]
    for seed, matrix in enumerate(read):
        close(program(matrix), X @ made(seed).todense())
    assert traced == [1]


def test_one_program_trains_all_structures_if_indices_are_operands_of_their_own():
    """As the page on matrices says."""
    traced = []

    @jax.jit
    def step(data, state, indices, indptr):
        traced.append(1)
        loss = lambda data: ((X @ CSR((data, indices, indptr), shape=(6, 9))) ** 2).sum()
        return jax.tree.map(lambda p, g, s: p - 0.1 * (g + s), data, jax.grad(loss)(data), state)

    matrices = [made(seed) for seed in range(4)]
    for matrix in matrices:
        found = step(matrix.data, jnp.zeros(18), matrix.indices, matrix.indptr)
        slope = jax.grad(lambda m: ((X @ m) ** 2).sum())(matrix)
        close(found, matrix.data - 0.1 * slope.data)
    assert traced == [1]


# ---- what optimizers with a line search do --------------------------------------------------------------------------


def loss(p):
    return ((jnp.tanh(X @ p["w"] + p["b"]) - 0.3) ** 2).sum()


def dot(a, b):
    return sum(jax.tree.leaves(jax.tree.map(lambda x, y: (x * y).sum(), a, b)))


def searched(params, state):
    """Take a step whose size a line search finds, with the last slopes kept for the next one."""
    slope = jax.lax.cond(state["known"], lambda p: state["slope"], jax.grad(loss), params)
    moved = lambda size: jax.tree.map(lambda p, g: p - size * g, params, slope)
    enough = lambda size, new: loss(new) < loss(params) - 0.1 * size * dot(slope, slope)
    shorter = lambda carry: (carry[0] / 2, moved(carry[0] / 2))
    _, new = jax.lax.while_loop(lambda carry: ~enough(*carry), shorter, (4.0, moved(4.0)))
    change = jax.tree.map(jnp.subtract, new, params)
    return new, {"known": jnp.array(True), "slope": jax.grad(loss)(new), "change": change}


def started(params):
    return {"known": jnp.array(False), "slope": zeros_of(params), "change": zeros_of(params)}


def test_a_line_search_runs_under_vmap():
    params = {"w": made(0), "b": jnp.zeros(9)}
    pair = jax.tree.map(lambda a: jnp.stack([a, -2 * a]), params)
    state, run = jax.vmap(started)(pair), jax.jit(jax.vmap(searched))
    singles = [jax.tree.map(lambda a, i=i: a[i], pair) for i in range(2)]
    states = [started(p) for p in singles]
    for _ in range(3):
        pair, state = run(pair, state)
        singles, states = zip(*[jax.jit(searched)(*given) for given in zip(singles, states, strict=True)], strict=True)
    assert pair["w"].indices.shape == params["w"].indices.shape
    for i, single in enumerate(singles):
        close(pair["w"].data[i], single["w"].data)
        close(state["change"]["w"].data[i], states[i]["change"]["w"].data)
    assert (jax.vmap(loss)(pair) < jnp.array([loss(params), loss(jax.tree.map(lambda a: -2 * a, params))])).all()


# ---- tangents of layouts --------------------------------------------------------------------------------------------


def test_layouts_by_delay_are_tangents():
    layout = made(0).delay_layout(jnp.arange(18) % 3 + 1, 5)
    ones = jax.tree.map(jnp.ones_like, layout)
    sent = lambda layout: (layout.deliver(jnp.zeros((5, 9)), jnp.abs(X) > 0.3, 0) ** 2).sum()
    by_data = lambda data: sent(layout.with_data(data))
    at = layout.original_data()
    wanted = jax.jvp(by_data, (at,), (jnp.ones(18),))[1]
    close(jax.jvp(sent, (layout,), (ones,))[1], wanted)
    close(jax.jit(lambda m, t: jax.jvp(sent, (m,), (t,))[1])(layout, ones), wanted)
    close(jax.linearize(sent, layout)[1](ones), wanted)
    close(jax.jacfwd(sent)(layout).original_data(), jax.grad(by_data)(at))
    twice = jax.jvp(jax.grad(sent), (layout,), (ones,))[1]
    close(twice.original_data(), jax.jvp(jax.grad(by_data), (at,), (jnp.ones(18),))[1])
    other = made(1).delay_layout(jnp.arange(18) % 3 + 1, 5)
    with pytest.raises(TypeError, match="must have the same tree structure"):
        jax.jvp(sent, (layout,), (jax.tree.map(jnp.ones_like, other),))


# ---- devices --------------------------------------------------------------------------------------------------------


def test_indices_follow_weights_to_other_devices():
    matrix, device = made(0), jax.devices()[1]
    matrix.register_buffer("count", jnp.arange(3))
    for moved in (jax.device_put(matrix, device), jax.tree.map(lambda a: jax.device_put(a, device), matrix)):
        assert {device} == moved.data.devices() == moved.indices.devices() == moved.count.devices()
        close(X @ moved, X @ matrix)
    state = jax.device_put(zeros_of(matrix), device)
    assert state.indices is moved.indices  # one copy for all
    close(jax.jit(lambda m, s: jax.tree.map(jnp.add, m, s))(moved, state).data, matrix.data)
    split = jax.sharding.NamedSharding(jax.make_mesh((2,), ("x",)), jax.P("x"))
    parts = jax.device_put(matrix, split)
    assert parts.indices.sharding == split
    assert parts.indptr.sharding.is_fully_replicated
    close(X @ parts, X @ matrix)


# ---- a JAX that is not known ----------------------------------------------------------------------------------------


def test_this_jax_has_the_functions_that_are_recognized():
    assert purposes.missing() == []


def test_a_function_that_jax_no_longer_has_is_reported_once(monkeypatch):
    monkeypatch.setitem(purposes._FUNCTIONS, "api.gone", purposes.BATCH)
    purposes._codes.cache_clear()
    with pytest.warns(
        RuntimeWarning, match=r"JAX .* has no api.gone, by which matrices know what their leaves are for"
    ):
        jax.tree.leaves(made(0))
    purposes._codes.cache_clear()


@pytest.mark.filterwarnings("ignore")
def test_where_a_purpose_is_not_recognized_an_error_is_raised(monkeypatch):
    matrix = made(0)
    ones = jax.tree.map(jnp.ones_like, matrix)
    monkeypatch.setattr(views, "purpose", lambda: None)
    shift = lambda n: CSR((jnp.ones(2), jnp.array([0, 1]) + n, jnp.array([0, 2])), shape=(1, 4))
    host = lambda m: np.asarray(X @ m, np.float32)
    out = jax.ShapeDtypeStruct((9,), np.float32)
    wrong = {
        "tangent dtype must be float0": lambda: jax.jvp(lambda m: X @ m, (matrix,), (ones,)),
        "expected float0": lambda: jax.linearize(lambda m: X @ m, matrix)[1](ones),
        "unexpected tree structure": lambda: jax.vjp(lambda m: 2 * m, matrix)[1](matrix),
        "wrapped in a BatchTracer": lambda: jnp.ones(1) @ jax.tree.map(lambda a: a[0], jax.vmap(shift)(jnp.arange(2))),
        "UnexpectedTracerError": lambda: jax.jit(lambda m: jax.pure_callback(host, out, m))(matrix).block_until_ready(),
    }
    for words, call in wrong.items():
        with pytest.raises(Exception, match=words):
            call()


def test_a_jax_whose_functions_over_leaves_see_indices_is_refused(monkeypatch):
    two_views = saved.register_two_views
    monkeypatch.setattr(
        saved, "register_two_views", lambda cls, of_users, of_programs: two_views(cls, *[of_programs] * 2)
    )
    saved.check_views.cache_clear()
    with pytest.raises(ImportError, match=r"jax.tree of JAX .* sees all arrays of a matrix"):
        saved.check_views()
    monkeypatch.undo()
    saved.check_views()
