# SPDX-License-Identifier: Apache-2.0
"""`simulate` with the kernel for GPUs, through XLA on the CPU: the bits of the interpreter, and refusals in words."""

import dataclasses
import gc
import types

import described
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
import test_network_gpu as pretended
from beside_interpreter import ALL, DRAWN_PARAMS, DRAWN_STATE, drawing, equal, plan_of, plans, single, wishes
from hypothesis import given, settings
from hypothesis import strategies as st
from network_in_jax import DeviceInJax
from test_network_drawing import both

import brainevent as be
from brainevent.errors import KernelArgumentError, NetworkError, ShapeError, UnknownNameError
from brainevent.network.gpu import partition, program
from brainevent.network.gpu.cuda_device import CudaDevice
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import PopulationPlan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied
from brainevent.scalar.trace import trace


def built(plan, blocks=3, shared_bytes=None, multiprocessors=8):
    device = DeviceInJax(multiprocessors)
    return Simulation(plan, CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes, device=device))


def interpreted(plan, params=None, state=None):
    engine = Interpreted(plan)
    for name, values in (params or {}).items():
        for key, value in values.items():
            engine.set(name, key, value)
    if state is not None:
        engine.load(state)
    return engine


def check(plan, engine, steps, wanted, inputs, state, out):
    """Compare the results of `simulate` with those of an interpreter, bit for bit."""
    first = engine.step
    recorded = engine.run(steps, wanted, inputs)
    equal(copied(plan, state), engine.state)
    expected = {}
    for name, (at, who) in recorded.spikes.items():
        expected[f"{name}.spikes"] = np.zeros((steps, plan.population(name).size), np.float32)
        expected[f"{name}.spikes"][at - first, who] = 1
    expected |= {f"{name}.counts": counts.astype(np.float32) for name, counts in recorded.counts.items()}
    expected |= {f"{name}.rate": rate.astype(np.float32) for name, rate in recorded.rates.items()}
    for label, values in recorded.samples.items():
        rows = -(-steps // wanted.samples[label].every)
        expected[label] = np.zeros((rows, values.shape[1]), values.dtype)
        expected[label][: len(values)] = values
    equal(jax.tree.map(np.asarray, out), expected)


def compare(sim, pieces, wanted, inputs=None, params=None):
    """Run pieces one after the other, each as a jitted function of state, parameters and inputs."""
    run = jax.jit(
        lambda state, params, inputs, steps: be.simulate(sim, state, params, steps, inputs, wanted), static_argnums=3
    )
    engine, state, begun = interpreted(sim.plan, params), sim.state, 0
    for steps in pieces:
        part = {place: array[begun : begun + steps] for place, array in (inputs or {}).items()}
        state, out = run(state, params or {}, {".".join(place): array for place, array in part.items()}, steps)
        check(sim.plan, engine, steps, wanted, part, state, out)
        begun += steps
    return out


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("microseconds", [pytest.param(500_000, marks=pytest.mark.thorough), 60, 0])
def test_a_long_run_is_several_launches(monkeypatch, microseconds):
    """With packets, sums and lists that go on from one to the next."""
    monkeypatch.setattr(program, "_LAUNCH", microseconds)
    sim = built(small_plans.plan())
    most = program.steps_of_launch(sim.plan, 3)
    assert {500_000: most > 100, 60: 10 < most < 20, 0: most == 1}[microseconds]
    out = compare(sim, [70, 33], ALL)
    assert out["b.spikes"].sum() > 50


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = data.draw(plans(1))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    sim = built(plan, data.draw(st.sampled_from([1, 2, 5])), data.draw(st.sampled_from([None, pretended.SMALL])))
    params = {
        name: {"decay": np.float32(data.draw(st.floats(0, 1, width=32))), "drive": drive}
        for name, drive in data.draw(st.sampled_from([{}, {"b": plan.population("b").params["drive"] * 2}])).items()
    }
    compare(sim, [cut, 24 - cut], wanted, inputs, params)


@pytest.mark.parametrize(
    ("most", "multiprocessors"), [(16, 1), pytest.param(16, 2, marks=pytest.mark.thorough), (0, 2)]
)
def test_more_neurons_than_threads(monkeypatch, most, multiprocessors):
    """In registers, several a thread, or in memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = pretended.crowded()
    sim = built(plan, None, multiprocessors=multiprocessors)
    assert bool(sim.engine.shape.structure.cells) == (most > 0)
    params = {"a": {"decay": np.float32(0.8), "threshold": np.float32(6)}, "c": {"each": np.full(300, 1, np.float32)}}
    compare(sim, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs, params)


def test_populations_of_several_kinds():
    compare(built(pretended.of_several_kinds()), [20, 9], Wanted(("x", "y", "z"), ("y",)))


@pytest.mark.parametrize(("size", "wanted"), [(33, Wanted(("y",), ("y",), ("y",))), (1, Wanted())])
def test_neurons_without_states_and_receptors(size, wanted):
    """Arrays of size 0 among those of the call."""

    def drawn(s, arriving, p, random):
        return s, random.bernoulli(p.p)

    p = {"p": np.float32(0.3)}
    plan = plan_of([PopulationPlan("y", size, trace(drawn, {}, [], p), {}, p, {}, (5, 7))], [], 1)
    compare(built(plan, 1), [5, 3], wanted, None, {"y": {"p": np.float32(0.6)}})


def test_synapses_that_the_device_draws():
    device = DeviceInJax(8)
    cells = described.cells("a", 30, described.forward)
    projection = be.Projection(cells, cells, be.connect.total(60, weight=be.uniform(-1, 2)), into="syn", delay=0.3)
    host, plan = both(be.Network([cells], [projection], dt=0.1), device)
    sim = Simulation(plan, CudaEngine(plan, blocks=2, device=device))
    first = dataclasses.replace(sim.state, arriving={"a": {"syn": np.full((3, 30), 9, np.int32)}})
    state, out = be.simulate(sim, first, {}, 40, record="a.spikes")
    check(plan, interpreted(host, None, first), 40, Wanted(("a",)), {}, state, out)
    assert out["a.spikes"][3:].sum() > 50


def test_a_table_of_many_populations():
    """More than one launch can fill; and parameters of one population only."""
    many = [small_plans.population(f"p{k}", 3, k) for k in range(20)]
    joined = [small_plans.synapses(many[k], many[-k - 1], 9, 1, seed=k) for k in range(10)]
    sim = built(plan_of(many, joined, 1))
    assert sim.engine.resident.tables.nbytes > 8 * program._PIECE
    wanted = Wanted(("p3", "p19"), ("p0",), tuple(f"p{k}" for k in range(20)))
    compare(sim, [12], wanted, {("p19", "syn"): np.ones((12, 3), np.float32)}, {"p7": {"decay": np.float32(0.2)}})


@pytest.mark.thorough
def test_vmap_over_states_and_parameters():
    plan, steps = small_plans.plan(), 12
    sim = built(plan)
    first, _ = be.simulate(sim, sim.state, {}, 7)
    states = [first, sim.state, dataclasses.replace(sim.state, step=np.uint32(11))]
    together = jax.tree.map(lambda *x: jnp.stack(x), *states)
    decays, drive = np.array([0.9, 0.5, 0.99], np.float32), np.linspace(0, 3, 37, dtype=np.float32)

    def run(state, decay):
        return be.simulate(sim, state, {"a": {"decay": decay, "drive": drive}}, steps, record=ALL)

    after, out = jax.jit(jax.vmap(run))(together, decays)
    alone = jax.vmap(run, in_axes=(None, 0))(sim.state, decays)
    for k, state in enumerate(states):
        params = {"a": {"decay": decays[k], "drive": drive}}
        one = jax.tree.map(lambda x, k=k: x[k], (after, out))
        check(plan, interpreted(plan, params, copied(plan, state)), steps, ALL, {}, *one)
        one = jax.tree.map(lambda x, k=k: x[k], alone)
        check(plan, interpreted(plan, params), steps, ALL, {}, *one)


@pytest.mark.thorough
def test_poisson_numbers():
    """Those that tables count, and those with a mean of each neuron."""
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS)
    sim = built(plan)
    assert sim.engine.resident.kinds[0].drawn
    compare(sim, [4, 3], Wanted(("a",), ("a",)), None, {"a": {"threshold": np.float32(100)}})
    known = {"a": {"mean": DRAWN_PARAMS["mean"], "rate": 100.0}}
    state, out = be.simulate(sim, sim.state, known, 3, record="a.counts")
    check(plan, interpreted(plan), 3, Wanted(counts=("a",)), {}, state, out)
    for params in (DRAWN_PARAMS | {"mean": np.float32(2)}, {"rate": np.float32(99)}):
        with pytest.raises(NetworkError, match=r"params\['a'\]\['(mean|rate)'\] sets the mean of random.poisson.*jax"):
            be.simulate(sim, sim.state, {"a": params}, 3)
    with pytest.raises(NetworkError, match=r"sets the mean of random.poisson.*leave it out, pass the value of"):
        jax.jit(lambda mean: be.simulate(sim, sim.state, {"a": {"mean": mean}}, 3))(DRAWN_PARAMS["mean"])


def test_the_simulation_itself_stays_as_it_is():
    """Parameters are those of the build, and the engine's own runs go on beside programs."""
    sim = built(small_plans.plan())
    expected, theirs = Interpreted(sim.plan), Interpreted(sim.plan)
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 9, record=ALL))
    run(sim.state)
    sim.set("a", decay=0.2)
    expected.set("a", "decay", np.float32(0.2))
    sim.run(5)
    expected.run(5, Wanted(), {})
    check(sim.plan, theirs, 9, ALL, {}, *run(theirs.state))
    equal(sim.state, expected.state)


def test_states_of_other_dtypes_and_denormals():
    sim = built(small_plans.plan())
    tiny = jax.tree.map(lambda x: np.full_like(x, -1e-40) if x.dtype == np.float32 else x, sim.state)
    wide = jax.tree.map(lambda x: np.float64(x) if x.dtype == np.float32 else x, tiny.neurons)
    floats = dataclasses.replace(tiny, neurons=wide, arriving=jax.tree.map(np.float32, tiny.arriving))
    after, _ = be.simulate(sim, floats, {"a": {"decay": np.float32(1e-41)}}, 3)
    assert {x.dtype for x in jax.tree.leaves(after.arriving)} == {np.dtype(np.float32)}
    engine = interpreted(sim.plan, {"a": {"decay": np.float32(1e-41)}}, tiny)
    engine.run(3, Wanted(), {})
    equal(copied(sim.plan, after), engine.state)


@pytest.mark.thorough
def test_a_program_outlives_its_simulation():
    def compiled(plan):
        sim = built(plan)
        run = jax.jit(lambda state: be.simulate(sim, state, {}, 9)).lower(sim.state).compile()
        return run, sim.state, sim.engine.device, {memory.address for memory in sim.engine.resident.kept}

    plan = small_plans.plan()
    run, state, device, kept = compiled(plan)
    gc.collect()
    assert device.held.keys() == kept  # the rest was given back
    assert kept <= program._kept.keys()  # whatever JAX forgets
    after, _ = run(state)
    engine = Interpreted(plan)
    engine.run(9, Wanted(), {})
    equal(copied(plan, after), engine.state)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"params": {"a->b.syn": np.ones(299)}},
            NetworkError,
            r"simulate: weights of a->b.syn have the shape \(299,\); pass a number, or an array \(300,\) in the order",
        ),
        ({"params": {"b->b.syn": np.nan}}, NetworkError, "simulate: weights of b->b.syn: is NaN; pass numbers"),
        ({"params": {"a": {"decai": 1.0}}}, UnknownNameError, "params.'a'. has no 'decai'; did you mean 'decay'"),
        ({"params": {"a": {"decay": np.ones(37)}}}, ShapeError, r"\(37,\); pass \(\) as it was built, or build the"),
        ({"params": {"a": {"drive": np.ones(3)}}}, ShapeError, r"\(3,\); pass \(37,\) as it was built"),
        ({"inputs": {"a.syn": np.ones((4, 37))}}, ShapeError, r"inputs\['a.syn'\] has shape \(4, 37\)"),
        (
            {"keys": {"a": np.zeros(2, np.uint32)}},
            NetworkError,
            'keys is not supported by backend=.cuda.* build the network with backend="jax"',
        ),
        ({"steps": 0}, NetworkError, "steps is 0; pass a Python integer"),
        (
            {"record": [be.every(1, "a.v", label=str(k)) for k in range(120)]},
            KernelArgumentError,
            "at most 128; combine",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_it_cannot_do_is_reported(arguments, error, words):
    sim = built(small_plans.plan())
    with pytest.raises(error, match=words):
        be.simulate(sim, sim.state, **{"params": {}, "steps": 5, **arguments})


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (
            np.int32(2**31 - 1),
            r"simulate: state: pending input of neuron \d+ of a by syn may add up to 21474\d{5} q",
        ),
        (np.float32(0.5), r"simulate: state: 0.5 is on its way to a.syn; pass sums that are whole numbers of quanta"),
        (np.float32(np.nan), "simulate: state: nan is on its way to a.syn"),
        (np.float32(3e9), r"simulate: state: 3000000000.0 is on its way to a.syn; .* from -2147483647 to 2147483647"),
        (np.int32(-(2**31)), "simulate: state: -2147483648 is on its way to a.syn"),
    ],
)
def test_sums_that_the_kernel_cannot_hold_are_reported(sums, words):
    sim = built(small_plans.plan())
    state = sim.state
    state.arriving["a"]["syn"] = np.full((8, 37), sums)
    with pytest.raises(NetworkError, match=words):
        be.simulate(sim, state, {}, 5)


def test_a_gpu_is_the_one_of_its_number(monkeypatch):
    gpu = CudaDevice.__new__(CudaDevice)
    gpu.number = 1
    devices = [types.SimpleNamespace(local_hardware_id=number) for number in (2, 1)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: devices)
    assert gpu.of_jax is devices[1]
    del devices[1]
    with pytest.raises(NetworkError, match=r"built on GPU number 1, and JAX has namespace.*; let JAX see that GPU"):
        gpu.of_jax  # noqa: B018 - it raises
    monkeypatch.setattr(jax, "local_devices", lambda backend: jax.devices("no such platform"))
    with pytest.raises(NetworkError, match="built on GPU number 1, and JAX has none; let JAX see that GPU"):
        gpu.of_jax  # noqa: B018


def test_what_was_traced_without_a_derivative_has_none():
    sim = built(small_plans.plan())

    def rate(decay, drive):
        state, out = be.simulate(sim, sim.state, {"a": {"decay": decay}}, 5, {"a.syn": drive}, "a.rate")
        return out["a.rate"].sum() + state.neurons["a"]["v"].sum()

    for argument in (0, 1):
        with pytest.raises(
            NetworkError, match=r"has no derivatives, since all its weights are known .* instead of 'cuda'"
        ):
            jax.grad(jax.jit(rate), argument)(0.9, jnp.ones(5))


def test_a_program_with_addresses_is_not_exported():
    sim = built(small_plans.plan())
    with pytest.raises(NetworkError, match="cannot be exported, since the synapses are in the memory of this process"):
        jax.export.export(jax.jit(lambda state: be.simulate(sim, state, {}, 5)))(sim.state)


def test_weights_are_those_that_were_set():
    """In the quanta and rows of now, also from a state in others; `params` may have them."""
    sim, other = built(small_plans.plan()), built(small_plans.plan())
    before = sim.state
    assert sim.engine.resident.plan is sim.plan
    sim.set("b->b.syn", weights=0.3)
    state, out = be.simulate(sim, sim.state, sim.params, 40, record=["b.spikes", "b.counts"])
    equal(*(out, be.simulate(sim, before, {}, 40, record=["b.spikes", "b.counts"])[1]))
    expected = sim.run(40, ["b.counts"])
    np.testing.assert_array_equal(out["b.counts"], expected["b.counts"])
    equal(copied(sim.engine.plan, state), sim.state)
    assert not np.array_equal(out["b.counts"], other.run(40, ["b.counts"])["b.counts"])
    sim.state = state
