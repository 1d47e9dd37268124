# SPDX-License-Identifier: Apache-2.0
"""E-prop in native code: the numbers of plain JAX, which follows traces step by step, for any blocks of steps."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trained_rules
from jax import lax
from numba_threads import threads_of
from trained_rules import adaptive, lif, subtractive, synapse
from training_on_cpu import PretendGpu

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network import eprop as eprop_room
from brainevent.network.reference import products as products_room
from brainevent.network.training import blocks
from brainevent.network.training.change import Change, changed
from brainevent.network.training.cpu.changes import changed as changed_on_cpu
from brainevent.network.training.gpu.engine import GpuKernels
from brainevent.network.training.gpu.weights import quantum_of
from brainevent.network.training.runner import NativeRunner

F = np.float32
STEPS = 26
SURROGATE = be.surrogate.fast_sigmoid(5.0)


def relay(s, arriving, p):
    return s, arriving.given > 0.5


def reading(s, arriving, p):
    """Two states of a readout: what is read is filtered twice."""
    u = 0.7 * s.u + arriving.syn
    y = 0.9 * s.y + 0.4 * u
    return s.replace(u=u, y=y), False


def leaky(s, arriving, p):
    return s.replace(y=p.keep * s.y + arriving.syn), False


def balanced(s, arriving, p):
    """Conductances: how the potential depends on what arrives depends on the potential."""
    g, h = 0.8 * s.g + arriving.exc, 0.6 * s.h + arriving.inh
    v = s.v + 0.2 * (g * (2 - s.v) - h * (s.v + 0.5) - 0.3 * s.v)
    spike = v > p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v), g=g, h=h), spike


def stateless(s, arriving, p):
    return s, arriving.syn + p.offset > 0.2


def of(name, size, rule):
    state, params = trained_rules.RULES[rule]
    return be.Population(name, size, rule, state=state, params=params)


def drawn(rng, sources, targets, share=1.0, mean=0.2):
    weights = rng.normal(mean, 0.8 / np.sqrt(sources), (sources, targets)).astype(F)
    return np.where(rng.random(weights.shape) < share, weights, 0)


def one(rule=lif, size=19):
    """Inputs, a population that is connected all-to-all, and a leaky readout."""
    rng, given = np.random.default_rng(0), be.Population("given", 9, relay)
    hidden, out = of("a", size, rule), be.Population("out", 3, leaky, state={"y": 0.0}, params={"keep": 0.8})
    projections = [
        be.Projection(given, hidden, drawn(rng, 9, size, mean=0.4), into="syn"),
        be.Projection(hidden, hidden, drawn(rng, size, size), into="syn"),
        be.Projection(hidden, out, drawn(rng, size, 3), into="syn"),
    ]
    return be.Network([given, hidden, out], projections, dt=1.0)


def several():
    """Three populations that learn, one of them without states, with delays, sparse synapses, and one weight for all.

    The readout has two states.
    """
    rng, given = np.random.default_rng(1), be.Population("given", 9, relay)
    a, b, c = of("a", 30, adaptive), of("b", 11, synapse), be.Population("c", 7, stateless, params={"offset": 0.0})
    out = be.Population("out", 3, reading, state={"u": 0.0, "y": 0.0})
    apart = np.where(rng.random((30, 30)) < 0.5, 2.0, 5.0)
    projections = [
        be.Projection(given, a, drawn(rng, 9, 30, mean=0.5), into="syn", delay=2.0),
        be.Projection(a, b, drawn(rng, 30, 11, mean=0.4), into="syn", delay=3.0),
        be.Projection(b, a, drawn(rng, 11, 30, 0.2), into="syn"),
        be.Projection(a, a, drawn(rng, 30, 30, 0.3), into="syn", delay=apart),
        be.Projection(a, c, be.connect.all_to_all(weight=0.1), into="syn"),
        *(be.Projection(p, out, drawn(rng, n, 3), into="syn") for p, n in ((given, 9), (a, 30), (b, 11), (c, 7))),
    ]
    return be.Network([given, a, b, c, out], projections, dt=1.0)


def conductances():
    """Two receptors of a rule whose derivatives depend on states, and a threshold for each neuron."""
    rng, given = np.random.default_rng(2), be.Population("given", 9, relay)
    params = {"threshold": rng.uniform(0.5, 0.9, 12).astype(F)}
    hidden = be.Population("a", 12, balanced, state={"v": 0.0, "g": 0.0, "h": 0.0}, params=params)
    out = be.Population("out", 3, leaky, state={"y": 0.0}, params={"keep": 0.8})
    projections = [
        be.Projection(given, hidden, np.abs(drawn(rng, 9, 12, mean=0.5)), into="exc"),
        be.Projection(given, hidden, np.abs(drawn(rng, 9, 12)), into="inh", delay=2.0, name="brake"),
        be.Projection(hidden, hidden, np.abs(drawn(rng, 12, 12, 0.5)), into="inh"),
        be.Projection(hidden, out, drawn(rng, 12, 3), into="syn"),
    ]
    return be.Network([given, hidden, out], projections, dt=1.0)


def spikes_in(sim, steps=STEPS, seed=0):
    size = sim.plan.population("given").size
    return {"given.given": (np.random.default_rng(seed).random((steps, size)) < 0.4).astype(F)}


def squared(sim, steps=STEPS):
    target = jnp.asarray(np.random.default_rng(9).normal(size=(steps, 3)), F)
    return lambda step, y: ((y - target[step]) ** 2).sum()


def learned(sim, params=None, inputs=None, state=None, **how):
    state = sim.state.with_floats() if state is None else state
    inputs = spikes_in(sim) if inputs is None else inputs
    own = {"surrogate": SURROGATE, **how}
    return be.eprop(sim, state, sim.params if params is None else params, STEPS, squared(sim), "out.y", inputs, **own)


def close(ours, theirs, tolerance=1e-4):
    (loss, gradients, state), (expected, exact, after) = ours, theirs
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert set(gradients) == set(exact)
    for name, gradient in gradients.items():
        most = np.abs(exact[name]).max()
        assert most > 1e-3
        assert gradient.shape == exact[name].shape
        np.testing.assert_allclose(gradient, exact[name], atol=tolerance * most)
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1, np.abs(b).max()))


@contextlib.contextmanager
def only_native(monkeypatch, most):
    """Run blocks of some steps at most, and nothing in plain JAX."""
    with monkeypatch.context() as patched:
        patched.setattr(blocks, "_MOST", most)
        patched.delattr(eprop_room._Steps, "run")
        yield


def compared(monkeypatch, network, most, **how):
    plain, native = (network.build(seed=0, backend=backend) for backend in ("jax", "numba"))
    before, _ = be.simulate(plain, plain.state, plain.params, 7, spikes_in(plain, 7))
    expected = learned(plain, state=before, **how)
    with only_native(monkeypatch, most):
        close(learned(native, state=before, **how), expected)


@pytest.mark.parametrize(
    ("network", "most"),
    [
        (one, 256),
        (lambda: one(subtractive), 9),
        pytest.param(conductances, 9, marks=pytest.mark.thorough),
        pytest.param(one, 7, marks=pytest.mark.thorough),
    ],
    ids=["one block", "traces that targets share", "two receptors", "traces of each synapse"],
)
def test_gradients_are_those_of_traces_that_are_followed_step_by_step(monkeypatch, network, most):
    """In one block, and in several of which the last one is shorter; from a state in which spikes are on their way."""
    compared(monkeypatch, network(), most)


def test_several_populations_sparse_synapses_and_feedback_have_the_gradients_of_plain_jax(monkeypatch):
    """In blocks that are shorter than delays; synapses are visited one by one, as in large networks."""
    monkeypatch.setattr(products_room, "_SMALL", 0)
    monkeypatch.setattr(products_room, "_DENSE", 1)
    feedback = {"a": np.random.default_rng(4).normal(size=(3, 30)).astype(F)}
    compared(monkeypatch, several(), 2, feedback=feedback)


@pytest.fixture(scope="module")
def sim():
    return one().build(seed=0, backend="numba")


def test_batches_of_inputs_weights_and_parameters_are_single_runs(monkeypatch, sim):
    inputs = np.stack([spikes_in(sim, seed=k)["given.given"] for k in range(3)])
    scales = np.float32([1.0, 1.1])

    def run(x, scale):
        params = sim.params | {"a->a.syn": scale * sim.params["a->a.syn"], "a": {"keep": 0.9 / scale}}
        return learned(sim, params, {"given.given": x})

    with only_native(monkeypatch, 9):
        found = jax.jit(jax.vmap(jax.vmap(run, (0, None)), (None, 0)))(inputs, scales)
        alone = jax.jit(run)
        for k, scale in enumerate(scales):
            for j, x in enumerate(inputs):
                close(jax.tree.map(lambda all_, k=k, j=j: all_[k, j], found), alone(x, scale), 2e-5)


def test_the_same_bits_for_any_number_of_threads(monkeypatch, sim):
    found = []
    with only_native(monkeypatch, 9):
        run = jax.jit(lambda x: learned(sim, inputs={"given.given": x}))
        for count in (1, 2):
            with threads_of(count):
                found.append(jax.tree.map(np.asarray, run(spikes_in(sim)["given.given"])))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_memory_does_not_depend_on_the_number_of_steps(sim):
    def bytes_of(steps):
        def run(x):
            return be.eprop(
                sim, sim.state, sim.params, steps, lambda step, y: (y**2).sum(), "out.y", {"given.given": x}
            )[:2]

        shape = jax.ShapeDtypeStruct((steps,), np.float32)
        return jax.jit(run).lower(shape).compile().memory_analysis().temp_size_in_bytes

    # What grows is a copy of the input.
    assert bytes_of(40 * 256) - bytes_of(10 * 256) <= 30 * 256 * 4 * 4


def test_weights_that_are_not_finite_make_all_floats_nan(sim):
    """If they are traced: others raise."""
    weights = sim.params["a->a.syn"] * np.float32(np.nan)
    with pytest.raises(NetworkError, match="is NaN; pass numbers"):
        learned(sim, sim.params | {"a->a.syn": weights})
    loss, gradients, state = jax.jit(lambda w: learned(sim, sim.params | {"a->a.syn": w}))(weights)
    floats = [loss, *gradients.values(), state.neurons["out"]["y"], state.arriving["a"]["syn"]]
    assert all(np.isnan(x).all() for x in floats)


def test_derivatives_of_what_it_returns_are_refused(sim):
    x = spikes_in(sim)["given.given"]
    with pytest.raises(NetworkError, match=r"backend='numba' does not have, nor derivatives of what eprop returns"):
        jax.grad(lambda x: learned(sim, inputs={"given.given": x})[0])(x)


def looping(s, arriving, p):
    v = lax.while_loop(lambda v: v > 4, lambda v: v - 1, 0.9 * s.v + arriving.syn)
    return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1


def test_what_native_code_lacks_runs_in_plain_jax_and_the_report_says_so(monkeypatch):
    given, hidden = be.Population("given", 3, relay), be.Population("a", 4, looping, state={"v": 0.0})
    out = be.Population("out", 3, leaky, state={"y": 0.0}, params={"keep": 0.8})
    rng = np.random.default_rng(0)
    projections = [
        be.Projection(given, hidden, drawn(rng, 3, 4, mean=0.8), into="syn"),
        be.Projection(hidden, out, drawn(rng, 4, 3), into="syn"),
    ]
    network = be.Network([given, hidden, out], projections, dt=1.0)
    plain, native = (network.build(seed=0, backend=backend) for backend in ("jax", "numba"))
    close(learned(native), learned(plain))
    said = "e-prop: in plain JAX, step by step, if synapses into a learn, because rule looping: differentiated values"
    for text in (native.report(), native.explain()):
        assert said in text
    assert "e-prop" not in plain.report()


def test_the_report_says_that_it_runs_natively(sim):
    assert "e-prop: in native code, block by block" in sim.report().splitlines()


# ---- changes of synapses


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(("values", "known", "terms"), [(4, 4, 0), (1, 3, 2), (3, 0, 2), (1, 0, 0)])
def test_native_changes_are_those_of_jax(monkeypatch, dense, values, known, terms):
    if not dense:
        monkeypatch.setattr(products_room, "_SMALL", 0)
        monkeypatch.setattr(products_room, "_DENSE", 1)
    plan = several().build(seed=0, backend="jax").plan
    name = "a->a.syn"
    product = blocks._parts(plan, SURROGATE)
    one = next(one for part in product for one in part.products if one.about.name == name)
    assert one.dense == dense
    rng, steps, delays = np.random.default_rng(0), 11, len(one.delays)
    outer = 2 if values > 3 else 1

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape), F)

    groups = np.array([0, *[1] * outer, *[2] * 4])
    maps = normal(values, known, one.neurons) * (groups[:values, None] <= groups[None, :known])[..., None]
    of_each = (delays, one.sources, one.neurons) if dense else (one.about.entries,)
    change = Change(
        maps, normal(values, terms, one.neurons), normal(terms, delays, one.sources),
        normal(values, steps, one.neurons), outer,
    )  # fmt: skip
    spikes = jnp.asarray(rng.random((one.depth + steps, one.sources)) < 0.3, np.uint8)
    before = normal(known, *of_each)
    found = changed_on_cpu(one, before, change, spikes)
    np.testing.assert_allclose(found, changed(one, before, change, spikes), rtol=1e-4, atol=1e-4)


# ---- on a GPU


@pytest.mark.parametrize("most", [256, pytest.param(9, marks=pytest.mark.thorough)])
def test_kernels_of_a_gpu_learn_as_plain_jax_does(monkeypatch, most):
    """With weights that the kernels represent, so that spikes are the same; derivatives have 11 bits."""
    network = one()
    sim = network.build(seed=0, backend="jax")
    among = np.float32(sim.params["a->a.syn"])
    quantum = float(quantum_of(among))
    params = sim.params | {"a->a.syn": np.float32(np.round(among / quantum) * quantum)}
    expected = learned(sim, params)
    monkeypatch.setattr(eprop_room, "_runner", lambda sim: NativeRunner(GpuKernels(PretendGpu(2))))
    with only_native(monkeypatch, most):
        found = jax.jit(lambda x: learned(sim, params, {"given.given": x}))(spikes_in(sim)["given.given"])
    close(found, expected, 3e-3)
