# SPDX-License-Identifier: Apache-2.0
"""Networks that are trained with kernels of a GPU, on a pretend one: the gradients of plain JAX."""

import importlib
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trained import one_minus_cosine, readout
from training_on_cpu import PretendGpu

import brainevent as be
from brainevent.network.training.cpu.engine import CpuLoops
from brainevent.network.training.gpu.engine import GpuKernels
from brainevent.network.training.gpu.weights import quantum_of
from brainevent.network.training.runner import NativeRunner
from brainevent.network.training.words import training_in_words

STEPS = 6
SIMULATE = importlib.import_module("brainevent.network.reference.simulate")


def leaky(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    spike = v > p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def relay(s, arriving, p):
    return s, arriving.given > 0


def network(delay=1.0, within=None):
    """Return a simulation of inputs, a recurrent population and a readout; and weights that its kernels represent.

    Projections `within` the population are all-to-all unless some are given: a connection or a matrix each, by name.
    """
    r = np.random.default_rng(3)
    given, hidden = (
        be.Population("given", 10, relay),
        be.Population(
            "hidden", 40, leaky, state={"v": 0.0}, params={"keep": 0.9, "threshold": r.uniform(0.9, 1.1, 40)}
        ),
    )
    out = be.Population("out", 5, readout, state={"v": 0.0}, params={"keep": 0.9})
    first, matrix, last = (r.normal(mean, std, (n, m)) for mean, std, n, m in
                           [(0.3, 0.3, 10, 40), (0, 0.1, 40, 40), (0, 0.3, 40, 5)])  # fmt: skip
    quantum = float(quantum_of(np.float32(matrix)))
    within = {"hidden->hidden.syn": np.float32(np.round(matrix / quantum) * quantum)} if within is None else within
    projections = [
        be.Projection(given, hidden, np.float32(first), into="syn"),
        *(be.Projection(hidden, hidden, how, into="syn", delay=delay, name=name) for name, how in within.items()),
        be.Projection(hidden, out, np.float32(last), into="syn"),
    ]
    sim = be.Network([given, hidden, out], projections, dt=1.0).build(seed=0, backend="jax")
    return sim, {name: jnp.asarray(x) for name, x in sim.params.items() if name in [p.name for p in projections]}


def loss_of(sim):
    def loss(weights, keep, xs):
        def one(x):
            params = sim.params | weights | {"hidden": sim.params["hidden"] | {"keep": keep}}
            _, found = be.simulate(
                sim, sim.state, params, STEPS, inputs={"given.given": x}, record=["out.v", "hidden.spikes"]
            )
            return jnp.sum(found["out.v"] * jnp.cos(jnp.arange(5.0))) + 0.1 * jnp.sum(found["hidden.spikes"] ** 2)

        return jnp.sum(jax.vmap(one)(xs))

    return loss


@pytest.mark.parametrize("delay", [1.0, pytest.param(2.0, marks=pytest.mark.thorough)])
def test_gradients_of_a_batch_are_those_of_plain_jax(monkeypatch, delay):
    sim, weights = network(delay)
    _compare(monkeypatch, sim, weights)


def _compare(monkeypatch, sim, weights):
    """Compare values and gradients of a batch with those of plain JAX."""
    xs = jnp.float32(np.random.default_rng(0).random((3, STEPS, 10)) < 0.4)
    gradient = jax.jit(jax.value_and_grad(loss_of(sim), (0, 1)))
    expected = gradient(weights, jnp.float32(0.9), xs)
    ran = []

    class Kernels(GpuKernels):
        def backward(self, cells, steps, size, *more):
            ran.append((cells.cells[0].population.name, size))
            return super().backward(cells, steps, size, *more)

    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(Kernels(PretendGpu(2))))
    found = jax.jit(jax.value_and_grad(loss_of(sim), (0, 1)))(weights, jnp.float32(0.9), xs)
    assert {("hidden", 3), ("out", 3)} <= set(ran)  # they are traced for one sample, too
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    for one, other in zip(jax.tree.leaves(found[1]), jax.tree.leaves(expected[1]), strict=True):
        assert one_minus_cosine(one, other) < 1e-6
        np.testing.assert_allclose(np.linalg.norm(one), np.linalg.norm(other), rtol=1e-3)


def test_weights_of_23_bits_have_the_same_bits_on_both_devices(monkeypatch):
    """If JAX is asked for many digits, sums are exact and rounded once, on a CPU and on a GPU."""
    r = np.random.default_rng(4)
    matrix = np.float32(r.uniform(-1, 1, (40, 40)))
    quantum = float(quantum_of(matrix, planes=3))
    matrix = jnp.asarray(np.round(np.float64(matrix) / quantum) * quantum, jnp.float32)
    cells = be.Population("a", 40, leaky, state={"v": 0.0}, params={"keep": 0.9, "threshold": 1.0})
    projection = be.Projection(cells, cells, be.connect.all_to_all(weight=0.1), into="syn")
    sim = be.Network([cells], [projection], dt=1.0).build(seed=0, backend="jax")
    drive = np.float32(r.normal(0.5, 0.5, (3, 30, 40)))

    def ran(engine):
        monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(engine))
        run = lambda w, x: be.simulate(sim, sim.state, {"a->a.syn": w}, 30, {"a.syn": x}, ["a.v", "a.spikes"])[1]
        return jax.jit(lambda w, drive: jax.vmap(run, (None, 0))(w, drive))(matrix, drive)

    with jax.default_matmul_precision("highest"):
        assert "summed in float64" in training_in_words(sim.plan, NativeRunner(CpuLoops()))
        on_cpu, on_gpu = ran(CpuLoops()), ran(GpuKernels(PretendGpu(2)))
    assert 0.05 < np.mean(on_gpu["a.spikes"]) < 0.5
    for name, x in on_cpu.items():
        np.testing.assert_array_equal(on_gpu[name], x)
    sums = np.float64(on_cpu["a.spikes"]) @ np.float64(matrix)
    assert np.sum(sums != np.float32(sums)) > 50  # of 3600


@pytest.mark.thorough
def test_products_with_more_digits_give_gradients_with_more_digits(monkeypatch):
    """As JAX is asked for when the gradient is traced; the report says so."""
    sim, weights = network()
    xs = jnp.float32(np.random.default_rng(0).random((3, STEPS, 10)) < 0.4)

    def gradients():
        loss = loss_of(sim)
        return jax.tree.leaves(jax.jit(jax.grad(lambda *given: loss(*given), (0, 1)))(weights, jnp.float32(0.9), xs))

    with jax.default_matmul_precision("highest"):
        expected = gradients()
    runner = NativeRunner(GpuKernels(PretendGpu(2)))
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: runner)
    fewer = gradients()
    with jax.default_matmul_precision("highest"):
        more = gradients()
        assert MORE in training_in_words(sim.plan, runner)
    assert ROUNDED in training_in_words(sim.plan, runner)
    away = [[np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in zip(found, expected, strict=True)]
            for found in (fewer, more)]  # fmt: skip
    assert max(away[1]) < 1e-5
    assert sum(away[1]) < 0.1 * sum(away[0])


def some(share, std, r):
    """Return a matrix with some synapses, of whole numbers of 2^-12."""
    return np.float32(np.round(r.normal(0, std, (40, 40)) * 4096) / 4096 * (r.random((40, 40)) < share))


OTHERS = [["sparse"], ["parallel", "whole"]]
SEVERAL = {
    "sparse": some(0.1, 0.4, np.random.default_rng(5)),
    "parallel": be.connect.out_degree(6, weight=0.125),  # of which some synapses have the same ends
    "whole": some(1.0, 0.05, np.random.default_rng(6)),
}


@pytest.mark.parametrize("left_out", [[], [*SEVERAL], *(pytest.param(x, marks=pytest.mark.thorough) for x in OTHERS)])
def test_several_projections_that_arrive_together_are_one_matrix(monkeypatch, left_out):
    """Also few synapses, parallel ones, one weight for all, and weights that are not given, which are constants."""
    sim, weights = network(within=SEVERAL)
    assert weights["parallel"].size == 1
    pairs = [sim.plan.synapses[1 + k] for k in range(3)]
    assert len(pairs[1].targets) == 240
    assert len({*zip(np.repeat(np.arange(40), np.diff(pairs[1].starts)), pairs[1].targets, strict=True)}) < 240
    _compare(monkeypatch, sim, {name: x for name, x in weights.items() if name not in left_out})


def two_receptors(s, arriving, p):
    g = s.g * p.fall + arriving.exc
    v = s.v * p.keep + g - arriving.inh
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v), g=g), spike


def balanced():
    """Return a network of two populations that excite and inhibit each other and themselves, with drawn delays."""
    r = np.random.default_rng(8)
    params, state = {"keep": 0.8, "fall": 0.5}, {"v": 0.0, "g": 0.0}
    exc, inh = (be.Population(name, n, two_receptors, state, params) for name, n in (("exc", 40), ("inh", 17)))
    projections = []
    for source, receptor, std in ((exc, "exc", 0.1), (inh, "inh", 0.4)):
        for target in (exc, inh):
            weights = np.abs(np.round(r.normal(0, std, (source.size, target.size)) * 4096) / 4096)
            weights *= r.random(weights.shape) < 0.3
            delay = be.uniform(1, 3) if target is exc else 2.0
            name = f"{source.name}->{target.name}"
            projections.append(be.Projection(source, target, np.float32(weights), receptor, delay, name=name))
    return be.Network([exc, inh], projections, dt=1.0)


@pytest.mark.parametrize("left_out", [[], pytest.param(["inh->exc"], marks=pytest.mark.thorough)])
def test_populations_that_project_to_each_other_are_trained_with_the_gradients_of_plain_jax(monkeypatch, left_out):
    """Sparse, with several delays and receptors: all weights, constants of a rule, states and inputs."""
    sim = balanced().build(seed=0, backend="jax")
    names = [about.name for about in sim.plan.projections]
    weights = {name: jnp.asarray(sim.params[name]) for name in names if name not in left_out}
    r = np.random.default_rng(1)
    xs = jnp.float32(r.random((3, STEPS + 6, 40)) < 0.2) * r.uniform(0.5, 1.5, 40).astype("f4")
    factors = {name: jnp.float32(r.normal(0, 1, (STEPS + 6, n))) for name, n in (("exc", 40), ("inh", 17))}

    def loss(weights, keep, v, xs):
        state = replace(sim.state, neurons=sim.state.neurons | {"exc": sim.state.neurons["exc"] | {"v": v}})

        def one(x):
            params = sim.params | weights | {"inh": sim.params["inh"] | {"keep": keep}}
            params = {name: value for name, value in params.items() if name not in left_out}
            record = ["exc.spikes", "inh.spikes", "inh.v"]
            return be.simulate(sim, state, params, STEPS + 6, inputs={"exc.exc": x}, record=record)[1]

        out = jax.vmap(one)(xs)
        total = sum((out[f"{name}.spikes"] * factor).sum() for name, factor in factors.items())
        return total + (out["inh.v"] ** 2).sum(), out

    def gradient():  # a new function each time, which JAX has not traced
        return jax.value_and_grad(lambda *given: loss(*given), (0, 1, 2, 3), has_aux=True)

    given = weights, jnp.float32(0.8), jnp.full(40, 0.25), xs
    (_, expected), theirs = jax.jit(gradient())(*given)
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(PretendGpu(2))))
    assert "network_steps_back" in str(jax.make_jaxpr(gradient())(*given))
    (_, found), ours = jax.jit(gradient())(*given)
    for name in ("exc.spikes", "inh.spikes"):
        assert 0.02 < np.mean(expected[name]) < 0.5
        np.testing.assert_array_equal(found[name], expected[name])
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one_minus_cosine(one, other) < 1e-6
        np.testing.assert_allclose(np.linalg.norm(one), np.linalg.norm(other), rtol=1e-3)


@pytest.mark.parametrize("weight", [0.03, -0.1])
def test_weights_of_the_plan_have_the_sums_of_plain_jax(monkeypatch, weight):
    """They are whole numbers of its quantum, which need not be a power of two."""
    sim, _ = network(within={"fixed": be.connect.out_degree(9, weight=weight)})
    xs = jnp.float32(np.random.default_rng(0).random((3, STEPS, 10)) < 0.4)

    def run(xs):
        record = ["hidden.v", "hidden.spikes"]
        return jax.vmap(lambda x: be.simulate(sim, sim.state, {}, STEPS, {"given.given": x}, record)[1])(xs)

    expected = jax.jit(run)(xs)
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(PretendGpu(2))))
    found = jax.jit(run)(xs)
    assert 0.02 < np.mean(found["hidden.spikes"]) < 0.7
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x)


def test_results_of_weights_that_are_not_finite_are_nan(monkeypatch):
    """Where weights are traced, so that no error says so: also those of spikes that a kernel counts as they are."""
    sim, _ = network()
    weights = {about.name: jnp.asarray(sim.params[about.name]) for about in sim.plan.projections}
    broken = weights | {"hidden->out.syn": weights["hidden->out.syn"].at[3].set(jnp.inf)}
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(PretendGpu(2))))

    def run(weights):
        record = ["hidden.v", "hidden.spikes", "out.v"]
        return be.simulate(sim, sim.state, weights, STEPS, {"given.given": jnp.zeros((STEPS, 10))}, record)[1]

    assert all(np.isnan(x).all() for x in jax.tree.leaves(jax.jit(run)(broken)))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(jax.jit(run)(weights)))


@pytest.mark.thorough
def test_weights_of_each_sample_are_run_one_after_another(monkeypatch):
    sim, weights = network()
    xs = jnp.float32(np.random.default_rng(0).random((2, STEPS, 10)) < 0.4)
    several = jax.tree.map(lambda x: jnp.stack([x, x / 2]), weights)
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(PretendGpu(2))))
    gradient = jax.grad(lambda weights, x: loss_of(sim)(weights, jnp.float32(0.9), x[None]))
    found = jax.vmap(gradient)(several, xs)
    for k in range(2):
        alone = gradient(jax.tree.map(lambda x, k=k: x[k], several), xs[k])
        for name, x in alone.items():
            np.testing.assert_allclose(found[name][k], x, rtol=1e-4, atol=1e-6)


def said(*projections, sizes=(20, 20)):
    """Return what is said of populations a and b whose projections have matrices and delays, on a pretend GPU."""
    params = {"keep": 0.9, "threshold": 1.0}
    found = [be.Population(name, n, leaky, {"v": 0.0}, params) for name, n in zip("ab", sizes, strict=True)]
    ends = dict(zip("ab", found, strict=True))
    made = [be.Projection(ends[a], ends[b], how, into="syn", delay=delay) for a, b, how, delay in projections]
    plan = be.Network(found, made, dt=1.0).build(seed=0, backend="jax").plan
    *lines, of_eprop = training_in_words(plan, NativeRunner(GpuKernels(PretendGpu(2)))).splitlines()
    how = "step by step, if synapses into a" if any("plain JAX" in line for line in lines) else "block by block"
    assert of_eprop.startswith("e-prop: in ")
    assert how in of_eprop
    return lines


@pytest.mark.thorough
def test_kernels_that_are_not_refused_have_room(monkeypatch):
    """For all that they read in a step, too: a device with just enough shared memory compiles them."""
    sim, weights = network()

    def line(kilobytes):
        runner = NativeRunner(GpuKernels(PretendGpu(2, kilobytes * 1024)))
        return next(line for line in training_in_words(sim.plan, runner).splitlines() if "hidden" in line)

    least = next(k for k in range(1, 100) if "in native code" in line(k))
    assert least > 1
    assert "in plain JAX, because the weights of hidden->hidden.syn, for 40 neurons of hidden, are more" in line(
        least - 1
    )
    device = PretendGpu(2, least * 1024)
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(device)))
    jax.jit(jax.grad(loss_of(sim), (0, 1))).lower(weights, jnp.float32(0.9), jnp.zeros((1, STEPS, 10)))


def test_programs_for_a_cpu_are_refused_with_what_to_do(monkeypatch):
    sim, weights = network()
    device = PretendGpu(2)
    device.on_host = False
    monkeypatch.setattr(SIMULATE, "_runner", lambda sim: NativeRunner(GpuKernels(device)))
    words = (
        "simulate: a network that was built with backend='cuda' runs on NVIDIA GPUs, and is called in a program for "
        "cpu; pass arrays that are on the GPU, or build the network with backend='numba' or 'jax'"
    )
    traced = jax.jit(loss_of(sim)).trace(weights, jnp.float32(0.9), jnp.zeros((1, STEPS, 10)))
    with pytest.raises(NotImplementedError, match=re.escape(words)):
        traced.lower()


ROUNDED = "backward, they, adjoints and stored margins have 11 bits"
MORE = (
    "forward, the weights of hidden->hidden.syn are rounded to 23 bits of the largest, in three planes of s8, so that "
    "sums are exact; backward, they and adjoints have 16 bits"
)


def test_words_say_how_kernels_round_and_what_they_do_not_have():
    whole, sparse = be.connect.all_to_all(weight=0.1), be.connect.prob(0.01, weight=0.1)
    lines = said(("a", "a", whole, 1.0), ("a", "b", whole, 1.0))
    assert lines[0] == (
        "training: a in native code; forward, the weights of a->a.syn are rounded to 15 bits of the largest, in two "
        f"planes of s8, so that sums are exact; {ROUNDED}"
    )
    assert lines[1] == "training: b in native code; backward, stored margins have 11 bits"
    [line] = said(("a", "b", sparse, 1.0), ("b", "a", sparse, be.uniform(1, 3)))
    assert line.startswith(
        "training: a, b in native code; forward, the weights of a->b.syn, b->a.syn are rounded to 15 bits"
    )
    few = "; in native code if few of these delays occur"
    for projections, sizes, why, more in (
        ([("a", "a", sparse, 1.0)], (5000, 3), "a->a.syn, for 5000 neurons of a", ""),
        (
            [("a", "a", sparse, be.uniform(1, 9))],
            (600, 3),
            "a->a.syn, for 600 neurons of a, with delays of 1 to 9 steps",
            few,
        ),
        (
            [("a", "b", whole, 1.0), ("b", "a", whole, 1.0)],
            (1500, 300),
            "a->b.syn, b->a.syn, for 1500 neurons of a, 300 neurons of b",
            "",
        ),
    ):
        [line, *_] = said(*projections, sizes=sizes)
        assert line.endswith(
            f" in plain JAX, because the weights of {why}, are more than a cluster of blocks holds{more}"
        )


def test_a_refusal_says_if_precision_is_why():
    whole = be.connect.all_to_all(weight=0.1)
    with jax.default_matmul_precision("highest"):
        [line, *_] = said(("a", "a", whole, 1.0), sizes=(1100, 3))
        assert line.endswith('more than a cluster of blocks holds with jax.default_matmul_precision("highest")')
        [line, *_] = said(("a", "a", whole, 1.0), sizes=(5000, 3))
        assert line.endswith("more than a cluster of blocks holds")
    [line, *_] = said(("a", "a", whole, 1.0), sizes=(1100, 3))
    assert "in native code" in line
