# SPDX-License-Identifier: Apache-2.0
"""Gradients of batches in compiled programs; numbers that would become others."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError, ShapeError

STEPS, SIZE = 6, 4
RNG = np.random.default_rng(0)
SAMPLES = RNG.uniform(0, 0.9, (2, STEPS, SIZE)).astype(np.float32)  # of NumPy: constants of the programs below


def cell(s, arriving, p):
    i = 0.8 * s.i + arriving.syn
    v = 0.5 * s.v + 0.5 * i
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v), i=i, still=0.5 * s.still, count=s.count + p.much), spike


STATE, PARAMS = {"v": 0.0, "i": 0.0, "still": 1.0, "count": 0}, {"threshold": 0.5, "much": 2}


@functools.cache
def made():
    a, b = (be.Population(name, SIZE, cell, state=STATE, params=PARAMS) for name in "ab")
    # of sizes that differ so much that sums are integers
    weights = RNG.normal(0, 1, (SIZE, SIZE)) * 10.0 ** RNG.uniform(-4, 0, (SIZE, SIZE))
    projections = [
        be.Projection(a, b, weights, into="syn", delay=2.0),
        be.Projection(a, a, np.abs(weights), into="syn"),
    ]
    return be.Network([a, b], projections, dt=1.0).build(backend="jax", seed=0)


@pytest.mark.parametrize(
    ("surrogate", "chunk"), [(be.surrogate.fast_sigmoid(2), None), (be.surrogate.spike_times(), 2)]
)
def test_a_compiled_batch_has_the_gradient_of_its_elements(surrogate, chunk):
    sim = made()

    def of(threshold, x):
        params, asked = {"a": {"threshold": threshold}}, ["a.v", "b.v", "b.still"]
        out = be.simulate(sim, sim.state, params, STEPS, {"a.syn": x}, asked, surrogate, checkpoint_every=chunk)[1]
        return sum((k + 1) * (x**2).sum() for k, x in enumerate(out.values()))

    alone = jax.jit(jax.grad(of))
    expected = sum(alone(0.5, x) for x in SAMPLES)
    assert abs(expected) > 1e-3
    batch = jax.jit(lambda threshold: jax.vmap(of, (None, 0))(threshold, SAMPLES).sum())
    np.testing.assert_allclose(jax.grad(batch)(0.5), expected, rtol=1e-5)


def test_gradients_of_a_batch_are_products_as_the_loop_has_spikes():
    """A product for each projection, which XLA cannot merge; and no axis of spikes or inputs moves."""
    text = program_of(be.Population("given", 3, cell, STATE, PARAMS))
    products = re.findall(r"dot_general.*contracting_dims = \[0, 1\] x \[0, 1\].*: \((.*)\) ->", text)
    behind = re.findall(r"optimization_barrier .* : (.*)", text)
    all_ = f"tensor<{STEPS}x2x{SIZE}xf32>"
    assert f"{all_}, {all_}" in products
    assert (len(products), behind) == (2, [f"{all_}, tensor<f32>", all_])


def test_inputs_of_a_batch_stay_where_they_are_and_are_made_again_for_gradients():
    """So a program need not keep all inputs as floats."""
    relay = be.Population("given", 3, lambda s, arriving, p: (s, arriving.syn > 0))
    text = program_of(relay, np.uint8)
    inputs, sums = f"tensor<{STEPS}x2x3xf32>", f"tensor<{STEPS}x2x{SIZE}xf32>"
    assert not re.search(r"transpose.*x2x3xf32", text)
    (sent,) = re.findall(rf"(%\w+), %\w+, contracting_dims = \[2\] x \[0\].*\({inputs}", text)
    (again,) = re.findall(rf", (%\w+), contracting_dims = \[0, 1\] x \[0, 1\].*\({sums}, {inputs}", text)
    assert sent != again


def program_of(given, dtype=np.float32):
    """Return the program of the gradient of a batch on a GPU; its samples are the second axis of inputs."""
    hidden = be.Population("hidden", SIZE, cell, STATE, PARAMS)
    projections = [be.Projection(one, hidden, np.ones((one.size, SIZE)), into="syn") for one in (given, hidden)]
    sim = be.Network([given, hidden], projections, dt=1.0).build(backend="jax", seed=0)

    def loss(weights, samples):
        run = lambda x: be.simulate(sim, sim.state, weights, STEPS, {"given.syn": x}, "hidden.spikes")[1]
        return jax.vmap(run, 1, 1)(samples)["hidden.spikes"].sum()

    weights = {f"{one}->hidden.syn": jnp.ones((size, SIZE)) for one, size in (("given", 3), ("hidden", SIZE))}
    traced = jax.jit(jax.grad(loss)).trace(weights, jnp.ones((STEPS, 2, 3), dtype))
    return traced.lower(lowering_platforms=("cuda",)).as_text()


def test_nothing_arrives_before_the_shortest_delay():
    a, b = (be.Population(name, SIZE, cell, STATE, PARAMS) for name in "ab")
    ones = np.ones((SIZE, SIZE))
    projections = [be.Projection(a, b, ones, into="syn", delay=2.0, name=name) for name in ("one", "other")]
    sim = be.Network([a, b], projections, dt=1.0).build(backend="jax", seed=0)

    def end(weights, steps):
        given = {"a.syn": jnp.full((steps, SIZE), 9.0)}
        return be.simulate(sim, sim.state, weights, steps, given, "b.i")[1]["b.i"].sum()

    slope = jax.jit(jax.value_and_grad(end), static_argnums=1)
    weights = dict.fromkeys(("one", "other"), jnp.ones((SIZE, SIZE)))
    for steps, arrived in ((1, 0), (2, 0), (3, 2 * SIZE * SIZE)):
        value, slopes = slope(weights, steps)
        assert value == arrived
        assert all(np.array_equal(x, np.full((SIZE, SIZE), arrived > 0)) for x in slopes.values())


BIG, WRONG = np.int64(2**40 + 2), np.full(SIZE, 1.7)
NUMBERS = {
    "params['a']['much'] is float64; pass integers, which become int32": {"params": {"a": {"much": 2.7}}},
    "params['a']['much']: 1099511627778 does not fit in int32": {"params": {"a": {"much": BIG}}},
    "params['a']['threshold']: 1e+300 does not fit in float32": {"params": {"a": {"threshold": 1e300}}},
    "params['a']['threshold'] is <U3; pass real numbers": {"params": {"a": {"threshold": "0.5"}}},
    "inputs['a.syn'] is complex64; pass real numbers": {"inputs": {"a.syn": SAMPLES[0] + np.complex64(1j)}},
    "keys['a'] is float64; pass integers, which become uint32": {"keys": {"a": np.array([1.5, 2.5])}},
    "state.neurons['a']['count'] is float64; pass integers": {"count": WRONG},
    "state.step: -1 does not fit in uint32": {"step": -1},
    "state.step has shape (2,); pass one number": {"step": np.array([1, 2])},
}


@pytest.mark.parametrize("words", NUMBERS)
def test_numbers_that_would_become_others_are_refused(words):
    sim, given = made(), dict(NUMBERS[words])
    neurons = dict(sim.state.neurons)
    if (count := given.pop("count", None)) is not None:
        neurons["a"] = {**neurons["a"], "count": count}
    state = dataclasses.replace(sim.state, neurons=neurons, step=given.pop("step", sim.state.step))
    with pytest.raises((NetworkError, ShapeError)) as error:
        be.simulate(sim, state, given.pop("params", {}), STEPS, **given)
    assert words in str(error.value)


def test_a_traced_float_is_no_integer():
    sim = made()
    with pytest.raises(NetworkError, match=r"params\['a'\]\['much'\] is float32; pass integers"):
        jax.jit(lambda much: be.simulate(sim, sim.state, {"a": {"much": much}}, STEPS)[0])(2.7)


def test_integers_that_may_wrap_around_in_a_program_are_refused():
    sim = made()
    counted = lambda much: be.simulate(sim, sim.state, {"a": {"much": much}}, STEPS, record=["a.count"])[1]["a.count"]
    words = r"params\['a'\]\['much'\] is {} in a program of JAX, where its values are unknown and may not fit in int32"
    with jax.enable_x64(True):
        for wide in (jnp.int64(2**32 + 3), jnp.uint32(3), 3):  # int64, as any Python integer is
            with pytest.raises(
                NetworkError, match=words.format(getattr(wide, "dtype", "int64")) + "; pass it as int32"
            ):
                jax.jit(counted)(wide)
        assert jax.jit(lambda much: counted(much.astype("int32")))(jnp.int64(3))[-1, 0] == 3 * STEPS
        # JAX runs this at once, so the values are known
        assert jax.vmap(counted)(jnp.array([3, 4]))[:, -1, 0].tolist() == [3 * STEPS, 4 * STEPS]
        with pytest.raises(NetworkError, match=r"'much'.*: 4294967299 does not fit in int32; pass numbers that do"):
            jax.vmap(counted)(jnp.array([3, 2**32 + 3]))
        wide = jax.random.key_data(jax.random.key(1)).astype("int64")
        with pytest.raises(NetworkError, match=r"keys\['a'\] is int64 in a program of JAX, .* may not fit in uint32"):
            jax.jit(lambda key: be.simulate(sim, sim.state, {}, STEPS, keys={"a": key})[0])(wide)
    signed = np.array([1, 2], np.int32)
    jax.jit(lambda key: be.simulate(sim, sim.state, {}, STEPS, keys={"a": key})[0])(signed)


def test_numbers_of_other_dtypes_that_mean_the_same_are_taken():
    sim, asked = made(), ["a.v", "a.count"]
    params = {"a": {"threshold": jnp.bfloat16(0.5), "much": np.uint8(2)}}
    ours = be.simulate(sim, sim.state, params, STEPS, {"a.syn": SAMPLES[0].astype(float)}, asked)[1]
    theirs = be.simulate(sim, sim.state, {}, STEPS, {"a.syn": SAMPLES[0]}, asked)[1]
    for label in asked:
        np.testing.assert_array_equal(ours[label], theirs[label])


def relay(s, arriving, p):
    spike = arriving.syn > 0.5
    return s.replace(v=0.9 * s.v + arriving.syn), spike


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_chunks_do_not_store_spikes_that_are_given_as_floats(dtype):
    """Bools and small integers stay so until a chunk runs: results are those of floats."""
    steps, sources = 200, 400
    inputs, outputs = (be.Population(name, n, relay, state={"v": 0.0}) for name, n in (("given", sources), ("out", 2)))
    weights = np.random.default_rng(0).normal(0, 0.1, (sources, 2)).astype(np.float32)
    sim = be.Network([inputs, outputs], [be.Projection(inputs, outputs, weights, into="syn")], dt=1.0).build(
        backend="jax"
    )
    spikes = (np.random.default_rng(1).random((steps, sources)) < 0.1).astype(dtype)

    def loss(weights, spikes):
        params = {"given->out.syn": weights}
        out = be.simulate(sim, sim.state, params, steps, {"given.syn": spikes}, "out.v", checkpoint_every=10)[1]
        return (out["out.v"] ** 2).sum()

    slope = jax.jit(jax.value_and_grad(loss))
    compiled = slope.lower(sim.params["given->out.syn"], spikes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < spikes.size * 4
    found, expected = (slope(sim.params["given->out.syn"], x) for x in (spikes, spikes.astype(np.float32)))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert np.abs(expected[1]).max() > 0
