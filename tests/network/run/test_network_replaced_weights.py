# SPDX-License-Identifier: Apache-2.0
"""A network whose weights were replaced does what a separate build with these weights does, to the last bit."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside_interpreter import equal
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import brainevent as be
from brainevent.errors import CheckpointError, NetworkError
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.pending import held_in
from brainevent.network.plan.quantum import RoundedWeightsWarning
from brainevent.network.run.simulation import Simulation

ENGINES = [("interpreted", 1), ("numba", 1), ("numba", 2), ("cuda", 1), ("jax", 1)]
EXC, INH = ("E->E.syn", "E->I.syn"), ("I->E.syn", "I->I.syn")


def leaky(s, arriving, p):
    v = s.v * 0.95 + arriving.syn + p.drive
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def network(exc=0.4, inh=-1.6, both=None, delay=0.3, size=40):
    """Return excitatory and inhibitory neurons, with several projections into one receptor."""
    params = {"drive": be.uniform(0.5, 1.0), "threshold": 8.0}
    e, i = (be.Population(name, n, leaky, {"v": be.uniform(0, 8)}, params) for name, n in (("E", size), ("I", 15)))
    some = functools.partial(be.connect.prob, 0.3)
    joined = [
        be.Projection(one, other, some(weight=exc if one is e else inh), into="syn", delay=delay)
        for one in (e, i)
        for other in (e, i)
    ]
    more = [] if both is None else [be.Projection(e, e, both, into="syn", name="more")]
    return be.Network([e, i], joined + more, dt=0.1)


def built(description, backend, threads=1, **how):
    if backend != "cuda":
        return description.build(seed=3, backend=backend, threads=threads, **how)
    plan = build_plan(description, seed=3, **how)
    return Simulation(plan, CudaEngine(plan, blocks=2, device=PretendDevice(8)), network=description)


def recorded(sim, steps=60):
    result = sim.run(steps, ["E.spikes", "I.spikes", "E.v"])
    return [result["E.spikes"].times, result["E.spikes"].neurons, result["I.spikes"].neurons, result["E.v"]]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def values_of(state):
    """Return what is on its way, in the units of receptors."""
    return {(name, key): state.arriving[name][key] * quantum for name, key, quantum in state.quanta}


# ---- like a separate build


@pytest.mark.parametrize(("backend", "threads"), ENGINES)
def test_a_sweep_is_that_of_separate_builds(backend, threads):
    sim, rates = built(network(), backend, threads), []
    for strength in (4.0, 4.7, 4.0) if backend == "jax" else (4.0, 4.3, 4.7, 5.0, 4.0):
        sim.reset()
        for name in INH:
            sim.set(name, weights=-0.4 * strength)
        found = recorded(sim)
        same(found, recorded(built(network(inh=-0.4 * strength), backend, threads)))
        rates.append(found[1].size)
    assert len(set(rates)) == len(rates) - 1
    assert rates[0] == rates[-1]


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_weights(data):
    """One for all, laws that stay, and weights that need 16 or 32 bits."""
    numbers = st.one_of(
        st.sampled_from([0.4, 0.1, -0.3, 0.0, 300.0, 0.07]), st.floats(-3, 3, width=32), st.floats(1e-4, 50)
    )
    exc, inh, again = (data.draw(numbers) for _ in range(3))
    law = data.draw(st.sampled_from([None, be.connect.prob(0.1, weight=be.uniform(0.2, 0.4))]))
    backend, threads = data.draw(st.sampled_from(ENGINES[:3]))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoundedWeightsWarning)
        sim = built(network(both=law), backend, threads, dtype=dtype)
        for name, weight in [*((name, exc) for name in EXC), *((name, inh) for name in INH), (EXC[0], again)]:
            sim.set(name, weights=weight)
        expected = network(exc, inh, both=law)
        plan = expected.projections[0]
        first = be.Projection(plan.source, plan.target, be.connect.prob(0.3, weight=again), into="syn", delay=0.3)
        expected = be.Network(expected.populations, [first, *expected.projections[1:]], dt=0.1)
        other = built(expected, backend, threads, dtype=dtype)
    assert sim.state.quanta == other.state.quanta
    for one, two in zip(sim.engine.plan.projections, other.plan.projections, strict=True):
        assert one == two
    same(recorded(sim, 25), recorded(other, 25))


@pytest.mark.parametrize("backend", ["numba", "cuda"])
@pytest.mark.parametrize("delay", [0.1, be.uniform(0.1, 0.9)])
def test_each_its_own_and_one_for_all(backend, delay):
    """A matrix gets one weight for all, other weights, and wide ones, as if it were built with them."""
    rng = np.random.default_rng(1)
    rows, columns = np.nonzero(rng.random((40, 40)) < 0.2)

    def matrix(data):
        return sparse.csr_matrix((np.broadcast_to(data, rows.size).astype(float), (rows, columns)), (40, 40))

    def of(data):
        return network(exc=0.5, inh=-1.5, both=matrix(data), delay=delay)

    sim = built(of(0.25), backend)
    for data in (
        rng.normal(0.5, 0.1, rows.size),
        np.where(np.arange(rows.size) == 3, 999.5, 0.25),
        rng.integers(1, 9, rows.size) / 7,
    ):
        sim.reset()
        sim.set("more", weights=data)
        other = built(of(data), backend)
        assert sim.engine.plan.projections == other.plan.projections
        same(recorded(sim, 30), recorded(other, 30))
    assert {about.dtypes[1] for about in sim.engine.plan.projections} == {"int16"}
    sim.reset()
    sim.set("more", weights=0.75)
    assert sim.params["more"].tolist() == [0.75]
    drawn = network(exc=0.5, inh=-1.5, both=be.connect.prob(0.1, weight=be.normal(0.3, 0.05)))
    sim, other = built(drawn, backend), network(exc=0.5, inh=-1.5, both=be.connect.prob(0.1, weight=0.7))
    sim.set("more", weights=0.7)
    same(recorded(sim, 30), recorded(built(other, backend), 30))


def test_setting_weights_repeatedly_accumulates_no_rounding():
    law = be.connect.prob(0.1, weight=be.lognormal(0.4, 0.1))
    sim, other = (built(network(both=law), "numba") for _ in range(2))
    before = [np.array(one.weights) for one in sim.plan.synapses]
    for weight in (0.001, 7.7, 0.03, 0.4):
        sim.set(EXC[0], weights=weight)
    for one, numbers in zip(sim.engine.plan.synapses, before, strict=True):
        np.testing.assert_array_equal(one.weights, numbers)
    same(recorded(sim), recorded(other))


def test_weights_that_are_set_again_change_nothing():
    law = be.connect.prob(0.1, weight=be.lognormal(0.4, 0.1))
    sim = built(network(both=law), "numba")
    plan = sim.engine.plan
    for name in ("more", *EXC, *INH):
        sim.set(name, weights=sim.params[name])
        sim.set(name, weights=sim.connections(name).weights if name == "more" else sim.params[name][0])
    assert sim.engine.plan is plan


# ---- what is on its way


@pytest.mark.covering
@pytest.mark.parametrize(("backend", "threads"), ENGINES[:4])
@pytest.mark.parametrize("weight", [0.3, -1.6, 0.0, 12.8])
def test_what_is_on_its_way_keeps_its_value(backend, threads, weight):
    sim = built(network(delay=be.uniform(0.1, 0.9)), backend, threads)
    sim.run(30)
    before = values_of(sim.state)
    assert all(np.abs(sums).max() > 1 for sums in before.values())
    sim.set(EXC[0], weights=weight)
    after = values_of(sim.state)
    for end, sums in before.items():
        np.testing.assert_allclose(after[end], sums, rtol=1e-6, atol=0)
    expected = network(delay=be.uniform(0.1, 0.9))
    first = be.connect.prob(0.3, weight=weight)
    e = expected.populations[0]
    first = be.Projection(e, e, first, into="syn", delay=be.uniform(0.1, 0.9))
    other = built(be.Network(expected.populations, [first, *expected.projections[1:]], dt=0.1), backend, threads)
    other.state = sim.state
    same(recorded(sim, 30), recorded(other, 30))
    assert sim.run(1).steps == 1


def test_laws_in_finer_quanta_are_drawn_as_before(monkeypatch):
    """Also where a device draws them: each weight has more quanta, not other digits."""
    device = PretendDevice(8)
    monkeypatch.setattr("brainevent.network.gpu.cuda_device.cuda_device", lambda _: device)
    sims = [
        network(exc=1.5, inh=-1.5, both=be.connect.prob(0.2, weight=be.uniform(5.0, 8.0))).build(
            seed=3, backend=backend, threads=1
        )
        for backend in ("cuda", "numba")
    ]
    for sim in sims:
        sim.set(EXC[0], weights=0.03)
        sim.run(30)
        for name in (*EXC, *INH):
            sim.set(name, weights=2.0 if name in EXC else -2.0)
    assert len(sims[0].engine.plan.synapses.held) < len(sims[0].engine.plan.synapses)
    assert sims[0].state.quanta == sims[1].state.quanta
    assert sims[0].engine.plan.quanta != sims[0]._weights.base.quanta
    for name in ("more", *EXC, *INH):
        np.testing.assert_array_equal(sims[0].params[name], sims[1].params[name])
    same(recorded(sims[0], 30), recorded(sims[1], 30))
    assert sims[0].engine.plan.projections[4].weights == sims[1].engine.plan.projections[4].weights


@pytest.mark.parametrize(
    ("sums", "before", "after", "parts", "found"),
    [
        ([0, 3, -4], 0.5, 0.5, 1, [0, 3, -4]),
        ([0, 3, -4], 0.5, 2.0, 4, [0, 3, -4]),
        ([0, 3, -4], 2.0, 0.5, 1, [0, 12, -16]),
        ([0, 3, -4], 0.1, 0.3, 3, [0, 3, -4]),
        ([0, 3, -4], 0.3, 0.1, 1, [0, 9, -12]),
        ([0, 0, 0], 0.3, 0.7, 1, [0, 0, 0]),
        ([6, 9, -12], 0.1, 0.3, 1, [2, 3, -4]),
    ],
)
def test_quanta_are_divided_as_little_as_sums_need(sums, before, after, parts, found):
    before = float(np.float32(before))
    held = held_in("set", "a.b", np.array([sums], np.int32), before, np.float32(after), np.zeros(3), same=False)
    assert (held.parts, held.sums.tolist(), held.sums.dtype) == (parts, [found], np.int32)


def test_sums_that_no_grid_holds_are_refused_with_a_reason():
    large = np.array([2**30, 0])
    with pytest.warns(RoundedWeightsWarning, match=r"set: pending input of a.b, sent .* 1 of 2 different sums"):
        held_in("set", "a.b", np.array([[1, 10_000]], np.int32), 0.3, np.float32(1), large, same=False)
    with pytest.raises(NetworkError, match=r"state: pending input of a.b, .*, by more than 2\*\*-9 of the largest"):
        held_in("state", "a.b", np.array([[1, 3]], np.int32), 0.3, np.float32(1), large, same=True)
    with pytest.raises(
        NetworkError, match=r"set: weights into neuron 0 of a by b may add up to 2147483648 times the q"
    ):
        held_in("set", "a.b", np.zeros((1, 2), np.int32), 1.0, np.float32(1), 2 * large, same=True)
    with pytest.raises(
        NetworkError, match=r"set: pending input of neuron 1 of a by b may add up to 3221225472 times the q"
    ):
        held_in("set", "a.b", np.array([[0, 2**30]], np.int32), 3.0, np.float32(1), large, same=False)


# ---- states and files


def test_a_state_of_other_quanta_keeps_its_value():
    sim, other = (built(network(), "numba") for _ in range(2))
    for one in (sim, other):
        one.run(30)
    state = sim.state
    sim.set(INH[0], weights=-1.7)
    assert sim.state.quanta != state.quanta
    sim.state = state
    for end, sums in values_of(state).items():
        np.testing.assert_allclose(values_of(sim.state)[end], sums, rtol=1e-6)
    later = sim.state
    sim.set(INH[0], weights=-1.6)
    sim.state = jax.tree.map(jnp.asarray, later)
    other.state = later
    same(recorded(sim), recorded(other))
    wrong = jax.tree.map(lambda x: x, state)
    object.__setattr__(wrong, "quanta", (("E", "sin", 0.4),))
    with pytest.raises(NetworkError, match=r"state: its quanta are \(\('E', 'sin', 0.4\),\); pass a state of this net"):
        sim.state = wrong
    jaxed = built(network(), "jax")
    jaxed.set(INH[0], weights=-1.7)
    after, _ = be.simulate(jaxed, state, {}, 1)  # in floats
    assert after.quanta == jaxed.state.quanta != state.quanta
    moved = values_of(state)
    for end, sums in values_of(after).items():
        np.testing.assert_allclose(sums[0], moved[end][1], atol=3, rtol=1e-5)


@pytest.mark.parametrize("backend", ["interpreted", "numba", "cuda"])
def test_a_file_keeps_weights_quanta_and_what_is_on_its_way(tmp_path, backend):
    law = be.connect.prob(0.1, weight=be.uniform(0.2, 0.4))
    sim, path = built(network(both=law), "numba", 2), tmp_path / "day1.npz"
    sim.run(20)
    sim.set(INH[0], weights=-1.7)
    sim.set("more", weights=np.random.default_rng(0).normal(0.3, 0.01, len(sim.connections("more"))))
    sim.run(1)
    sim.save(path)
    again = built(network(both=law), backend)
    again.set(EXC[0], weights=0.123)
    again.load(path)
    assert again.state.quanta == sim.state.quanta
    for end, sums in values_of(sim.state).items():
        np.testing.assert_array_equal(values_of(again.state)[end], sums)
    for name in (*EXC, *INH):
        np.testing.assert_array_equal(again.params[name], sim.params[name])
    same(recorded(again), recorded(sim))
    again.reset()
    same(recorded(again), recorded(built(network(both=law), "numba")))
    forced = built(network(both=law, size=40, inh=-2.0), backend)
    with pytest.raises(CheckpointError, match=r"pass force=True"):
        forced.load(path)
    forced.load(path, force=True)
    assert forced.steps == 21


LARGE = np.array([1.0, 2e9])  # quanta: two of the second do not fit in 32 bits


def pair(weights):
    """Return one neuron that spikes when it is driven, and two synapses from it, one to each other neuron."""
    cells = be.Population("a", 3, lambda s, arriving, p: (s.replace(v=arriving.syn), arriving.inp > 0), {"v": 0.0})
    matrix = sparse.csr_matrix((weights, ([0, 0], [1, 2])), (3, 3))
    projection = be.Projection(cells, cells, matrix, into="syn", delay=0.3, name="p")
    drive = be.Projection(cells, cells, be.connect.one_to_one(weight=0.0), into="inp", name="q")
    return be.Network([cells], [projection, drive], dt=0.1)


@pytest.mark.parametrize("backend", ["interpreted", "numba", "cuda"])
def test_sums_that_just_fit_go_on(tmp_path, backend):
    """In a file with replaced weights, in a state, and beside weights that are set: what can add up is what counts."""
    sim, path = built(pair([1.0, 1.0]), "numba"), tmp_path / "day1.npz"
    sim.set("p", weights=LARGE)
    spike = {"a.inp": np.array([[1.0, 0, 0]])}
    sim.run(1, inputs=spike)
    sim.save(path)
    again = built(pair([1.0, 1.0]), backend)
    again.load(path)
    state = again.state
    assert state.arriving["a"]["syn"].max() == 2_000_000_000
    np.testing.assert_array_equal(again.run(4, "a.v")["a.v"], sim.run(4, "a.v")["a.v"])
    again.state = state
    again.set("p", weights=[1.0, 1e9])
    assert again.run(4, "a.v")["a.v"].max() == 2e9
    again.state = state
    with pytest.raises(NetworkError, match=r"set: pending input of neuron 2 of a by syn may add up to 4000000000 t"):
        again.set("p", weights=[0.5, 1e9])
    equal(again.state, state)


def test_what_ran_is_cut_anywhere():
    one, other = (built(network(), "numba") for _ in range(2))
    for sim, pieces in ((one, [20, 40]), (other, [20, 7, 1, 32])):
        sim.run(pieces[0])
        sim.set(INH[1], weights=-0.77)
        for piece in pieces[1:]:
            sim.run(piece)
    jax.tree.map(np.testing.assert_array_equal, one.state, other.state)


# ---- what is said


def test_every_rounding_is_warned_of_every_time():
    sim = built(network(), "interpreted")
    number = len(sim.connections(EXC[0]))
    weights = np.random.default_rng(0).uniform(1, 2, number)
    weights[:3] = 1.37e-7, 2.31e-7, 4.13e-7
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            sim.set(EXC[0], weights=weights)
    assert [one.category for one in found] == [RoundedWeightsWarning] * 3
    assert {one.filename for one in found} == {__file__}
    assert f"set: weights of E->E.syn: 3 of {number} were rounded by more than 2**-9" in str(found[0].message)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            network(both=np.diag(weights[:40])).build(backend="interpreted")
    assert len(found) == 2


def test_the_report_names_weights_and_quanta_that_were_set():
    sim = built(network(), "numba")
    assert "replaced" not in sim.report()
    sim.set(INH[0], weights=-1.7)
    assert "replaced weights: I->E.syn; new quanta: E.syn 0.1 (0.4 in the build)" in sim.report()
    sim.reset()
    assert "replaced" not in sim.report()


def test_a_description_that_changed_is_refused():
    matrix = np.full((40, 40), 0.25)
    sim = built(network(both=matrix), "interpreted")
    matrix[3, 4] = 9.0
    with pytest.raises(NetworkError, match=r"set: the network was changed since it was built, such as an array"):
        sim.set(EXC[0], weights=0.3)


def test_weights_into_a_conductance_have_the_sign_of_a_build():
    cells = be.models.lif_conductance("cells", 5)
    joined = be.Projection(cells, cells, be.connect.all_to_all(weight=1.0), into="exc", name="p")
    sim = be.Network([cells], [joined], dt=0.1).build(backend="interpreted")
    with pytest.raises(NetworkError, match=r"set: weights of p: all are negative, but exc of cells is a conductance"):
        sim.set("p", weights=-1.0)
