# SPDX-License-Identifier: Apache-2.0
"""Gradients in native code on the CPU: those of plain JAX, spikes of the interpreter, the same bits in any thread."""

import dataclasses
import re
import weakref
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trained_rules
from jax import lax
from numba_threads import threads_of
from trained_rules import adaptive, lif, synapse

import brainevent as be
import brainevent.backends.numba.kernel as numba_backend
from brainevent.errors import KernelCompilationError, NetworkError
from brainevent.network.plan.plan import Synapses
from brainevent.network.reference.products import late
from brainevent.network.reference.quanta import dtypes_of_sums
from brainevent.network.surrogate import fast_sigmoid
from brainevent.network.training.cpu import events, on_kernels
from brainevent.network.training.cpu.events import times
from brainevent.network.training.words import training_in_words
from brainevent.scalar.interpret import interpret

F = np.float32
STEPS, SAMPLES = 24, 5
SURROGATE = fast_sigmoid(5.0)


def population(name, size, rule, **params):
    state, own = trained_rules.RULES[rule]
    return be.Population(name, size, rule, state=state, params={**own, **params})


def matrix(rng, sources, targets, share=1.0):
    weights = rng.normal(0.1, 0.6 / np.sqrt(sources), (sources, targets)).astype(F)
    return np.where(rng.random(weights.shape) < share, weights, 0)


def one():
    """One population that is connected all-to-all, each neuron with a constant of its own."""
    rng = np.random.default_rng(0)
    cells = population("a", 19, lif, keep=rng.uniform(0.8, 0.95, 19).astype(F))
    return be.Network([cells], [be.Projection(cells, cells, matrix(rng, 19, 19), into="syn")], dt=1.0)


def several():
    """Two populations, of which sparse and dense projections with delays go back and forth, and a third one after."""
    rng = np.random.default_rng(1)
    a, b, c = population("a", 40, adaptive), population("b", 11, synapse), population("c", 7, lif)
    projections = [
        be.Projection(a, b, matrix(rng, 40, 11), into="syn", delay=3.0),
        be.Projection(b, a, matrix(rng, 11, 40, 0.2), into="syn", delay=1.0),
        be.Projection(a, a, matrix(rng, 40, 40, 0.02), into="syn", delay=2.0),
        be.Projection(a, c, matrix(rng, 40, 7), into="syn", delay=2.0),
    ]
    return be.Network([a, b, c], projections, dt=1.0)


NETWORKS = {"one": one, "several": several}


def loss_of(sim, steps=STEPS):
    """Return a function of parameters, initial states and inputs: a number that depends on all that is returned."""
    rng = np.random.default_rng(2)
    places = {p.name: p.size for p in sim.plan.populations}
    factors = {name: rng.normal(0, 1, (steps, size)).astype(F) for name, size in places.items()}

    def loss(params, state, inputs, surrogate=SURROGATE):
        record = [f"{name}.{what}" for name in places for what in ("spikes", "v", "counts")]
        after, out = be.simulate(sim, state, params, steps, inputs, record=record, surrogate=surrogate)
        total = sum((out[f"{name}.spikes"] * factors[name]).sum() for name in places)
        total += sum((0.1 * out[f"{name}.v"] ** 2).sum() + out[f"{name}.counts"][0] for name in places)
        total += sum((x * x).sum() for x in jax.tree.leaves(after.neurons) if x.dtype == F)
        return total + sum((x * x).sum() for x in jax.tree.leaves(after.arriving)), out

    return loss


def given(sim, samples=SAMPLES, steps=STEPS):
    """Return inputs of samples, (samples, steps, neurons), by receptor."""
    rng = np.random.default_rng(3)
    return {
        f"{p.name}.syn": np.abs(rng.normal(0.2, 0.3, (samples, steps, p.size))).astype(F) for p in sim.plan.populations
    }


def gradients(network, backend):
    """Return gradients by all parameters, weights, initial states and inputs, summed over samples, and the spikes."""
    sim = network.build(seed=0, backend=backend)
    state, loss = sim.state.with_floats(), loss_of(sim)

    def total(params, neurons, inputs):
        start = jax.tree.map(lambda own, new: own if new is None else new, dict(state.neurons), neurons)
        changed = state.__class__(state.step, start, state.arriving, state.quanta)
        values, out = jax.vmap(lambda one: loss(params, changed, one))(inputs)
        return values.sum(), out

    params = jax.tree.map(jnp.asarray, sim.params)
    neurons = {name: {k: v if v.dtype == F else None for k, v in own.items()} for name, own in state.neurons.items()}
    return jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))(params, neurons, given(sim))


def close(ours, theirs):
    """Compare trees: the cosine of each array."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for both in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = (np.float64(x).ravel() for x in both)
        assert np.abs(b).max() > 0
        assert a @ b >= (1 - 1e-6) * np.linalg.norm(a) * np.linalg.norm(b)
        np.testing.assert_allclose(np.linalg.norm(a), np.linalg.norm(b), rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_plain_jax(name):
    """Two kernels are compiled for each network: two seconds, unless they are cached."""
    network = NETWORKS[name]()
    ours, out = gradients(network, "numba")
    theirs, expected = gradients(network, "jax")
    rates = [float(np.mean(x)) for key, x in out.items() if key.endswith(".spikes")]
    assert all(0.005 < rate < 0.9 for rate in rates)
    for key in expected:
        np.testing.assert_allclose(out[key], expected[key], rtol=1e-4, atol=1e-4)
    close(ours, theirs)


@pytest.fixture(scope="module")
def sim():
    return one().build(seed=0, backend="numba")


def weighted(sim):
    return jax.tree.map(jnp.asarray, sim.params)


def test_spikes_are_those_of_the_interpreter(sim):
    """The same float program, by NumPy: currents, then rows of weights in the order of the sources."""
    [p] = sim.plan.populations
    inputs = given(sim, 1)["a.syn"][0]

    @jax.jit
    def run(weights):
        params = sim.params | {"a->a.syn": weights}
        return be.simulate(sim, sim.state, params, STEPS, {"a.syn": inputs}, record=["a.spikes", "a.v"])

    after, out = run(sim.params["a->a.syn"])
    weights = np.asarray(sim.params["a->a.syn"]).reshape(19, 19)
    v, sums = np.zeros(19, F), np.zeros(19, F)
    for step in range(STEPS):
        arriving = inputs[step] + sums
        v, spikes = interpret(p.rule.form, [v, arriving, np.asarray(p.params["keep"])])
        np.testing.assert_array_equal(out["a.spikes"][step], spikes)
        assert np.asarray(out["a.v"][step]).tobytes() == v.tobytes()
        sums = np.zeros(19, F)
        for neuron in np.flatnonzero(spikes):
            sums = sums + weights[neuron]
    assert np.asarray(after.neurons["a"]["v"]).tobytes() == v.tobytes()


def test_nested_maps_are_one_batch(sim):
    """Over inputs within, and over weights around; gradients of each sample."""
    state, params, loss = sim.state.with_floats(), weighted(sim), loss_of(sim)
    inputs = given(sim, 6)["a.syn"].reshape(2, 3, STEPS, 19)
    factors = jnp.asarray([1.0, 0.9], F)

    def grad_of(factor, x):
        changed = params | {"a->a.syn": params["a->a.syn"] * factor}
        return jax.grad(lambda p, y: loss(p, state, {"a.syn": y})[0], (0, 1))(changed, x)

    all_ = jax.jit(jax.vmap(jax.vmap(grad_of, (None, 0)), (0, 0)))(factors, inputs)
    own = jax.tree.map(lambda x: x[1, 2], all_)
    close(own, jax.jit(grad_of)(factors[1], inputs[1, 2]))


@pytest.mark.parametrize("each", [False, True])
def test_a_batch_without_samples(sim, each):
    """Weights are shared, or of each sample."""
    loss, inputs = loss_of(sim), given(sim, 0)
    axis = 0 if each else None
    params = jax.tree.map(lambda x: jnp.zeros((0, *x.shape), x.dtype), weighted(sim)) if each else weighted(sim)

    def total(params):
        values, out = jax.vmap(lambda own, one: loss(own, sim.state, one), (axis, 0))(params, inputs)
        return values.sum(), out

    found, out = jax.jit(jax.grad(total, has_aux=True))(params)
    assert out["a.spikes"].shape == (0, STEPS, 19)
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, params)
    assert not any(np.any(x) for x in jax.tree.leaves(found))


def test_a_sample_has_the_same_bits_alone(sim):
    params, inputs = weighted(sim), jnp.asarray(given(sim, 6)["a.syn"])
    cotangent = jnp.asarray(np.random.default_rng(5).normal(0, 1, (STEPS, 19)), F)

    def back(x):
        spikes = lambda y: be.simulate(sim, sim.state, params, STEPS, {"a.syn": y}, "a.spikes", SURROGATE)[1][
            "a.spikes"
        ]
        out, pull = jax.vjp(spikes, x)
        return out, pull(cotangent)

    all_, alone = jax.jit(jax.vmap(back))(inputs), jax.jit(back)(inputs[4])
    jax.tree.map(lambda many, one: np.testing.assert_array_equal(many[4], one), all_, alone)
    assert np.abs(alone[1]).max() > 0


def test_the_same_bits_for_any_number_of_threads(sim):
    state, loss = sim.state.with_floats(), loss_of(sim)

    def run(params, inputs):
        return jax.vmap(lambda one: loss(params, state, one))(inputs)[0].sum()

    compiled, arguments = jax.jit(jax.grad(run, (0, 1))), (weighted(sim), given(sim, 9))
    found = []
    for threads in (1, 2, 2):
        with threads_of(threads):
            found.append(jax.tree.map(np.asarray, compiled(*arguments)))
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, found[0], other)


def test_forward_mode_and_second_derivatives_are_refused(sim):
    state, params, loss = sim.state.with_floats(), weighted(sim), loss_of(sim)
    inputs = jnp.asarray(given(sim, 1)["a.syn"][0])
    run = lambda x: loss(params, state, {"a.syn": x})[0]
    with pytest.raises(NetworkError, match=r"forward mode .*; use reverse mode .* or build .* backend=\"jax\""):
        jax.jvp(run, (inputs,), (inputs,))
    with pytest.raises(NetworkError, match=r"a second derivative, which backend='numba' does not have"):
        jax.grad(lambda x: jax.grad(run)(x).sum())(inputs)


def alike(s, arriving, p):
    v = p.keep * s.v + arriving.syn
    spike = v > p.keep_0
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def test_names_of_parameters_may_be_alike():
    cells = be.Population("a", 5, alike, state={"v": 0.0}, params={"keep": 0.9, "keep_0": np.linspace(0.8, 1.2, 5)})
    weights = matrix(np.random.default_rng(0), 5, 5)
    network = be.Network([cells], [be.Projection(cells, cells, weights, into="syn")], dt=1.0)
    inputs = {"a.syn": np.full((STEPS, 5), 0.3, F)}

    def gradients(backend):
        sim = network.build(seed=0, backend=backend)
        total = lambda p: be.simulate(sim, sim.state, p, STEPS, inputs, "a.v", SURROGATE)[1]["a.v"].sum()
        return jax.jit(jax.grad(total))({"a": sim.params["a"], "a->a.syn": sim.params["a->a.syn"]})

    ours, theirs = gradients("numba"), gradients("jax")
    assert abs(theirs["a"]["keep_0"]).max() > 0.1
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), ours, theirs)


def looping(s, arriving, p):
    v = lax.while_loop(lambda v: v > 2, lambda v: v * 0.5, s.v * p.keep + arriving.syn)
    return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1


def test_what_native_code_lacks_runs_in_plain_jax_and_explain_says_so():
    cells = be.Population("a", 9, looping, state={"v": 0.0}, params={"keep": 0.9})
    weights = matrix(np.random.default_rng(0), 9, 9)
    network = be.Network([cells], [be.Projection(cells, cells, weights, into="syn")], dt=1.0)
    inputs = {"a.syn": np.full((30, 9), 0.3, F)}
    sims = [network.build(seed=0, backend=backend) for backend in ("numba", "jax")]
    ours, theirs = (be.simulate(s, s.state, s.params, 30, inputs, record="a.spikes")[1]["a.spikes"] for s in sims)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.sum() > 0
    said = sims[0].explain()
    assert "gradients: in plain JAX, because rule looping: differentiated values pass through a while_loop" in said
    assert "gradients: in native code, which stores 4 bytes a neuron and step, and spikes" in (
        one().build(seed=0, backend="numba").explain()
    )
    assert "gradients:" not in sims[1].explain()
    assert (
        "\ntraining: a in plain JAX, because rule looping: differentiated values pass through a while_loop"
        in sims[0].report()
    )


def test_report_and_explain_say_what_trains_each_population():
    network = several()
    sim, plain, wide, slow = (
        network.build(seed=0, **how)
        for how in (
            {"backend": "numba"},
            {"backend": "jax"},
            {"backend": "numba", "dtype": "float64"},
            {"backend": "interpreted"},
        )
    )
    for text in (sim.report(), sim.explain()):
        lines = [line for line in text.splitlines() if line.startswith("training: ")]
        assert lines == ["training: a, b, c in native code"]
    assert "training: all in plain JAX" in plain.report().splitlines()
    assert (
        "training: a, b, c in plain JAX, because floats are float64, and native code trains in float32" in wide.report()
    )
    assert "training" not in slow.report()


def test_weights_that_are_left_out_run_natively_too():
    sim = several().build(seed=0, backend="numba")
    assert "training: a, b, c in native code" in sim.report().splitlines()
    assert len(kernels_of(sim, {})) == len(kernels_of(sim, sim.params)) == 1


def kernels_of(sim, params):
    """Return the names of populations whose steps a program runs in native code."""
    run = lambda x: be.simulate(sim, sim.state.with_floats(), params, 3, {"a.syn": x}, record="a.v")[1]["a.v"].sum()
    text = str(jax.make_jaxpr(jax.grad(run))(jnp.zeros((3, 40))))
    return re.findall(r"network_steps_back\[", text)


@pytest.mark.parametrize("trained", [True, False])
def test_programs_for_another_platform_are_refused_with_what_to_do(trained):
    """Steps and steps back, products between populations, and the code of `run`: a program for a GPU has none."""
    words = re.escape(
        "simulate: a network that was built with backend='numba' runs on CPUs, and is called in a program for cuda; "
        "pass arrays that are on the CPU, for example within jax.default_device(jax.devices('cpu')[0]), or build the "
        "network with backend='cuda' or 'jax'"
    )
    inner, a, b = one(), population("a", 9, lif), population("b", 5, lif)
    outer = be.Network([a, b], [be.Projection(a, b, be.connect.all_to_all(weight=0.3), into="syn")], dt=1.0)
    for network, name, what in ((inner, "a->a.syn", "a.v"), (outer, "a->b.syn", "b.v")):
        sim = network.build(seed=0, backend="numba")

        def run(weights, sim=sim, name=name, what=what):
            params = {name: weights} if trained else {}
            return be.simulate(sim, sim.state.with_floats(), params, 4, record=what)[1][what].sum()

        traced = jax.jit(jax.grad(run) if trained else run).trace(jnp.asarray(sim.params[name]))
        with pytest.raises(NotImplementedError, match=words):
            traced.lower(lowering_platforms=("cuda",))


def test_a_report_draws_no_synapses():
    sim = several().build(seed=0, backend="numba")

    def made(about):
        raise AssertionError("synapses are made")

    sources = [SimpleNamespace(made=made, nbytes=0)] * len(sim.plan.projections)
    plan = dataclasses.replace(sim.plan, synapses=Synapses(sim.plan.projections, sources))
    assert "a, b, c in native code" in training_in_words(plan, sim.engine.runner)


@pytest.mark.parametrize(("name", "large"), [("one", False), ("several", True)])
def test_weights_of_the_build_are_constants_of_native_code(name, large):
    """Their sums are exact, in floats or in int32, so spikes are those of plain JAX.

    Two kernels are compiled for each network, as above.
    """
    network, found = NETWORKS[name](), []
    for backend in ("numba", "jax"):
        sim = network.build(seed=0, backend=backend, quantum=2.0 ** (-24 if large else -10))
        assert {*dtypes_of_sums(sim.plan).values()} == {"int32" if large else "float32"}
        state, loss = sim.state, loss_of(sim)
        params = {name: own for name, own in sim.params.items() if "->" not in name}

        def total(params, inputs, state=state, loss=loss):
            values, out = jax.vmap(lambda one: loss(params, state, one))(inputs)
            return values.sum(), out

        gradient = jax.grad(total, (0, 1), has_aux=True)
        arguments = jax.tree.map(jnp.asarray, (params, given(sim, 2)))
        assert (backend == "numba") == ("network_steps_back" in str(jax.make_jaxpr(gradient)(*arguments)))
        found.append(jax.jit(gradient)(*arguments))
    (ours, out), (theirs, expected) = found
    for key in expected:
        rounding = 1e-4 if key.endswith(".v") else 0
        np.testing.assert_allclose(out[key], expected[key], rtol=rounding, atol=rounding)
    close(ours, theirs)


def test_networks_with_weights_of_their_own_keep_one_row_each(sim):
    """Three networks with two samples each: nothing is copied for samples, and each has the bits that it has alone."""
    state, params, loss = sim.state.with_floats(), weighted(sim), loss_of(sim)
    inputs = jnp.asarray(given(sim, 6)["a.syn"]).reshape(3, 2, STEPS, 19)
    weights = params["a->a.syn"] * jnp.asarray([1.0, 0.9, 1.1], F)[:, None]

    def grad_of(weights, inputs):
        changed = lambda w: params | {"a->a.syn": w}
        total = lambda w: jax.vmap(lambda x: loss(changed(w), state, {"a.syn": x})[0])(inputs).sum()
        return jax.grad(total)(weights)

    all_ = jax.vmap(grad_of)
    text = jax.jit(all_).lower(weights, inputs).as_text()
    assert "tensor<3x1x19x19xf32>" in text
    assert not any(copied in text for copied in ("6x1x19x19x", "6x361x", "3x2x361x"))
    found, alone = jax.jit(all_)(weights, inputs), jax.jit(grad_of)
    for k in range(3):
        np.testing.assert_array_equal(found[k], alone(weights[k], inputs[k]))
    assert np.abs(np.diff(np.asarray(found), axis=0)).max() > 0


def test_weights_that_are_not_finite_make_nan(sim):
    state, params = sim.state.with_floats(), weighted(sim)
    run = jax.jit(lambda w: be.simulate(sim, state, params | {"a->a.syn": w}, STEPS, record=["a.spikes", "a.v"])[1])
    assert all(np.isnan(x).all() for x in run(params["a->a.syn"].at[3].set(jnp.nan)).values())
    assert all(np.isfinite(x).all() for x in run(params["a->a.syn"]).values())


def test_float64_runs_in_plain_jax():
    """Products between populations, too: their kernels are of float32."""
    found = []
    for backend in ("numba", "jax"):
        sim = several().build(seed=0, backend=backend, dtype="float64")
        with jax.enable_x64():
            inputs = {label: x[0].astype("f8") for label, x in given(sim, 1).items()}
            state, loss = sim.state.with_floats("float64"), loss_of(sim)
            run = jax.jit(jax.grad(lambda params, *rest, loss=loss: loss(params, *rest)[0]))
            found.append(run(weighted(sim), state, inputs))
        said = "gradients: in plain JAX, because floats are float64, and native code trains in float32"
        assert (said in sim.explain()) == (backend == "numba")
    ours, theirs = found
    assert all(x.dtype == np.float64 for x in jax.tree.leaves(ours))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), ours, theirs)


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-12)])
def test_checkpoints_change_gradients_by_rounding_alone(dtype, bound):
    """Sums over steps are those of chunks, added up: relative to the largest element, because terms cancel.

    The bound is some hundred roundings, of native code in float32 and of plain JAX in float64.
    """
    sim = several().build(seed=0, backend="numba", dtype=dtype)
    with jax.enable_x64(dtype == "float64"):
        state, params = sim.state.with_floats(dtype), weighted(sim)
        inputs = {label: x[0].astype(dtype) for label, x in given(sim, 1).items()}

        def total(params, every):
            record = ["a.v", "b.v", "c.v"]
            _, out = be.simulate(
                sim, state, params, STEPS, inputs, record=record, surrogate=SURROGATE, checkpoint_every=every
            )
            return sum((x**2).sum() for x in out.values())

        whole, parts = (jax.jit(jax.grad(total), static_argnums=1)(params, every) for every in (None, 7))
    assert all(x.dtype == dtype and np.abs(x).max() > 0 for x in jax.tree.leaves(whole))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=bound * np.abs(a).max()), whole, parts)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("delay", [0, 3, 80])
def test_products_of_spikes_visit_spikes_alone(shared, delay):
    rng = np.random.default_rng(4)
    spikes = (rng.random((3, 70, 137)) < 0.1).astype(F)
    weights = rng.normal(0, 1, (137, 21) if shared else (3, 137, 21)).astype(F)
    target = rng.normal(0, 1, (3, 70, 21)).astype(F)
    axes = 0, None if shared else 0

    def loss(multiply):
        return lambda s, w: (jax.vmap(multiply, axes)(s, w) * target).sum()

    ways = [loss(lambda s, w: times(s, w, delay)), loss(lambda s, w: late(s @ w, delay))]
    ours, theirs = (jax.jit(jax.value_and_grad(f, (0, 1)))(spikes, weights) for f in ways)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), ours, theirs)
    tangents = rng.normal(0, 1, spikes.shape).astype(F), rng.normal(0, 1, weights.shape).astype(F)
    ours, theirs = (jax.jvp(f, (spikes, weights), tangents) for f in ways)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_products_of_spikes_that_are_nan_are_nan():
    spikes, weights = np.zeros((70, 137), F), np.ones((137, 21), F)
    spikes[3, 5] = np.nan
    sums, pull = jax.vjp(lambda w: times(spikes, w, 1), weights)
    np.testing.assert_array_equal(np.isnan(sums), np.arange(70)[:, None] == np.full(21, 4))
    [of_weights] = pull(jnp.ones_like(sums))
    np.testing.assert_array_equal(np.isnan(of_weights), np.arange(137)[:, None] == np.full(21, 5))


@pytest.mark.parametrize("density", [0.02, 0.9])
def test_products_of_many_spikes_are_sums_in_the_order_of_spikes(density):
    """Also of more spikes than are sorted at a time: the bits of sums one after another."""
    rng = np.random.default_rng(7)
    spikes = (rng.random((1500, 90)) < density).astype(F)
    weights, arrived = rng.normal(0, 1, (90, 17)).astype(F), rng.normal(0, 1, (1500, 17)).astype(F)
    sums, pull = jax.vjp(lambda w: times(spikes, w), weights)
    expected, of_weights = np.zeros((1500, 17), F), np.zeros((90, 17), F)
    for row in range(1500):
        for neuron in np.flatnonzero(spikes[row]):
            expected[row] += weights[neuron]
            of_weights[neuron] += arrived[row]
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(pull(jnp.asarray(arrived))[0], of_weights)


def test_kernels_are_known_by_their_content(monkeypatch):
    """Else each process would compile them again: a part without content gives them a name of this process only."""
    found = {}

    def compiled(name, title, content, compile_):
        found[title] = content
        raise KernelCompilationError("not here")

    monkeypatch.setattr(events, "_compiled", events._compiled.__wrapped__)
    monkeypatch.setattr(numba_backend, "_compiled", set())
    monkeypatch.setattr(numba_backend, "address_of", compiled)
    arguments = {"z0": ("float32", 3), "begin": ("uint32", 2), "w0": ("float32", 2), "out": ("float32", 3)}
    kernel = on_kernels.kernel_of("train_forward", "def group(first, count, table):\n    pass\n", [], arguments)
    arrays = [jax.ShapeDtypeStruct((1,) * n, dtype) for dtype, n in arguments.values()]
    with pytest.raises(KernelCompilationError):
        numba_backend.target_of(kernel, arrays[:-1], arrays[-1:])
    for title in ("times_kernel", "outer_kernel"):
        monkeypatch.setattr(numba_backend, "_names", weakref.WeakKeyDictionary())
        with pytest.raises(KernelCompilationError):
            events._compiled(title)
    assert list(found) == ["train_forward", "times_kernel", "outer_kernel"]
    assert not any(content.opaque or content.fleeting for content in found.values())


def test_a_batch_that_does_not_fit_is_refused_before_it_runs(monkeypatch):
    """Spikes, margins and potentials of all steps, of all samples, for the gradient; chunks store less."""
    monkeypatch.setattr("brainevent.event.room._available", lambda: 10**8)
    monkeypatch.setattr("brainevent.network.training.cpu.engine._compiled", refused)
    cells = population("a", 2000, lif)
    sim = be.Network([cells], dt=1.0).build(backend="numba")

    def loss(keep, given, every=None):
        params, record = {"a": {"keep": keep}}, "a.counts"
        run = lambda x: be.simulate(sim, sim.state, params, 1000, {"a.syn": x}, record, checkpoint_every=every)[1]
        return jax.vmap(run)(given)["a.counts"].sum()

    slope, given = jax.jit(jax.grad(loss), static_argnums=2), jnp.zeros((12, 1000))
    words = (
        "simulate: what 1000 steps of 12 elements store for the gradient (a 288 MB) would take 288 MB, but the host "
        "has 100 MB of memory left; 4 elements fit: call it for fewer steps, or fewer elements, at a time, or with "
        "checkpoint_every="
    )
    with pytest.raises(MemoryError, match=re.escape(words)):
        slope(0.9, given)
    with pytest.raises(LookupError, match="compiled"):
        slope(0.9, given, 100)
    with pytest.raises(LookupError, match="compiled"):
        slope(0.9, given[:4])


def refused(target):
    raise LookupError("it is compiled, so it fits")
