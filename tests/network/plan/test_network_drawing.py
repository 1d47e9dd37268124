# SPDX-License-Identifier: Apache-2.0
"""Synapses that a pretend GPU draws from descriptions: those of the host, to the last bit, in plans and in rows."""

import dataclasses

import described
import numpy as np
import pytest
from beside_interpreter import equal
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_rows import rows_of
from ptx import AS_WRITTEN, ptx_of
from small_plans import leaky
from training_on_cpu import PretendGpu

from brainevent.errors import NetworkError
from brainevent.network.description import connect
from brainevent.network.description.network import Network, Population, Projection
from brainevent.network.description.values import exponential, integers, lognormal, normal, uniform
from brainevent.network.gpu import drawing
from brainevent.network.gpu.drawing import Drawing, drawing_text
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.drawing import Description
from brainevent.network.plan.quantum import RoundedWeightsWarning
from examples.networks import microcircuit

WEIGHTS = [1.0, -0.3, normal(87.8, 8.78, low=0), normal(0, 1, low=0), uniform(1, 2), integers(-4, 9)]
WEIGHTS += [lognormal(2, 0.5), exponential(-3)]
DELAYS = [None, 0.7, normal(1.5, 0.75), uniform(0.1, 40), exponential(2), integers(1, 9)]
KINDS = {
    "total": lambda n, **how: connect.total(9 * n, **how),
    "in_degree": lambda n, **how: connect.in_degree(n, replace=True, **how),
    "out_degree": lambda n, **how: connect.out_degree(n, replace=True, **how),
    "in_degree, distinct": lambda n, **how: connect.in_degree(n, replace=False, **how),
    "out_degree, distinct": lambda n, **how: connect.out_degree(n, replace=False, **how),
    "prob": lambda n, **how: connect.prob(n / 200, **how),
    "prob, with multapses": lambda n, **how: connect.prob(n / 200, replace=True, **how),
    "all_to_all": lambda n, **how: connect.all_to_all(**how),
    "one_to_one": lambda n, **how: connect.one_to_one(weight=how["weight"]),
}
pytestmark = pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning")


def both(network, device=None, **how):
    """Return the plan of a network that the host draws, and one that a device draws."""
    measure = Drawing(PretendDevice() if device is None else device)
    return build_plan(network, **how), build_plan(network, measure=measure, **how)


@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=20, deadline=None)
def test_a_device_draws_what_the_host_draws(data, kind, seed):
    sources = data.draw(st.integers(2, 180))
    targets = None if data.draw(st.booleans()) else sources if kind == "one_to_one" else data.draw(st.integers(2, 180))
    own = data.draw(st.booleans())
    most = min(sources, targets or sources) - (not own) if "distinct" in kind else 199
    how = KINDS[kind](data.draw(st.integers(0, most)), weight=data.draw(st.sampled_from(WEIGHTS)), self_connections=own)
    network = described.joined(how, sources, targets, delay=data.draw(st.sampled_from(DELAYS)))
    theirs, ours = both(network, seed=seed, round_delays=True)
    assert ours.projections == theirs.projections
    assert ours.fingerprint == theirs.fingerprint
    blocks = data.draw(st.sampled_from([1, 3]))
    (how_ours, found), (how_theirs, expected) = rows_of(ours, blocks), rows_of(theirs, blocks)
    assert how_ours == how_theirs
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("how", [connect.prob(0.0), connect.total(0), connect.in_degree(0), connect.all_to_all()])
@pytest.mark.parametrize("own", [True, False])
def test_projections_with_very_few_synapses(how, own):
    how = dataclasses.replace(how, weight=normal(0, 1), self_connections=own)
    for sources in (1, 2):
        theirs, ours = both(described.joined(how, sources, delay=normal(1.5, 0.75)))
        assert ours.projections == theirs.projections
        assert rows_of(ours, 1)[1].tolist() == rows_of(theirs, 1)[1].tolist()


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_more_rows_than_blocks_and_chunks_of_a_row(monkeypatch, kind):
    monkeypatch.setattr(drawing, "_MOST_BLOCKS", 7)
    monkeypatch.setattr(drawing, "_MOST_TURNS", 1000)  # ends of one row
    how = KINDS[kind](140, weight=normal(1, 0.1), self_connections=False)
    theirs, ours = both(described.joined(how, 600, delay=normal(1.5, 0.75)))
    assert ours.projections == theirs.projections
    np.testing.assert_array_equal(rows_of(ours, 2)[1], rows_of(theirs, 2)[1])


def test_the_largest_gap():
    """Row 77 has, at place 45, a word that is 2**32 when it is rounded to a float."""
    theirs, ours = both(described.joined(connect.prob(0.5), 200), seed=3337)
    assert ours.projections == theirs.projections
    found = theirs.synapses[0]
    assert np.diff(found.targets[found.starts[77] : found.starts[78]].astype(int)).max() == 25


def test_what_a_device_does_not_draw_is_laid_out_for_it(monkeypatch):
    """Matrices, weights and delays one by one, and more synapses than words count."""
    monkeypatch.setattr(drawing, "_LARGEST_TOTAL", 99)
    a, b = described.cells("a", 30), described.cells("b", 20)
    weights = np.arange(600.0).reshape(30, 20)
    joined = [weights, connect.all_to_all(weight=weights), connect.total(100), connect.total(99)]
    projections = [Projection(a, b, how, into="syn", name=f"p{k}") for k, how in enumerate(joined)]
    theirs, ours = both(Network([a, b], projections, dt=0.1))
    assert list(ours.synapses.held) == [0, 1, 2]
    assert [isinstance(source, Description) for source in ours.synapses.sources] == [False, False, False, True]
    assert ours.projections == theirs.projections
    np.testing.assert_array_equal(rows_of(ours, 2)[1], rows_of(theirs, 2)[1])


def test_a_plan_that_the_device_draws_answers_as_one_in_memory():
    theirs, ours = both(described.joined(connect.prob(0.3, weight=normal(1, 0.1)), 40, name="p"))
    assert len(ours.synapses) == 1
    for found in (ours.synapses[0], ours.synapses[-1], ours.synapses[:][0], *ours.synapses):
        for field in ("starts", "targets", "weights", "delays"):
            np.testing.assert_array_equal(getattr(found, field), getattr(theirs.synapses[0], field))
    assert ours.synapse_bytes == ours.projections[0].nbytes == theirs.projections[0].nbytes
    with pytest.raises(IndexError):
        ours.synapses[1]


def test_sums_that_are_too_large_are_refused_in_the_same_words():
    a = described.cells("a", 300)
    joined = [connect.all_to_all(weight=weight) for weight in (normal(1, 0.1), uniform(-1, 1))]
    network = Network([a], [Projection(a, a, how, into="syn", name=f"p{k}") for k, how in enumerate(joined)], dt=0.1)

    def failing(measure):
        with pytest.raises(NetworkError) as error:
            build_plan(network, quantum=1e-7, measure=measure)
        return str(error.value)

    message = failing(Drawing(PretendDevice()))
    assert "sums have 32 bits, up to 2147483647" in message
    assert message == failing(None)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("weight", [uniform(1, 9), exponential(3), 0.5])
def test_rounding_is_warned_of_in_the_same_words(weight):
    a, messages = described.cells("a", 100), []
    joined = [connect.prob(0.5, weight=normal(1e5, 1e4)), connect.total(2000, weight=weight)]
    network = Network([a], [Projection(a, a, how, into="syn", name=f"p{k}") for k, how in enumerate(joined)], dt=0.1)
    for measure in (None, Drawing(PretendDevice())):
        with pytest.warns(RoundedWeightsWarning, match=r"p1: \d+ of 2000 weights were rounded by more than") as found:
            build_plan(network, measure=measure)
        messages.append([str(one.message) for one in found])
    assert messages[0] == messages[1]


@pytest.mark.parametrize("scale", [0.01, pytest.param(0.05, marks=pytest.mark.thorough)])
def test_a_part_of_the_microcircuit(scale):
    theirs, ours = both(microcircuit.network(scale), seed=5)
    assert sum(projection.entries for projection in ours.projections) > 290e6 * scale**2
    assert not ours.synapses.held
    assert ours.projections == theirs.projections
    (how_ours, found), (how_theirs, expected) = rows_of(ours, 8), rows_of(theirs, 8)
    assert how_ours == how_theirs
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def network(monkeypatch):
    """Return a network that fires; the GPU of this process is a pretend one."""
    device = PretendDevice()
    monkeypatch.setattr("brainevent.network.gpu.cuda_device.cuda_device", lambda _: device)
    params = {"decay": 0.9, "drive": uniform(0, 2), "threshold": 8.0}
    a, b = (Population(name, 40, leaky, {"v": uniform(0, 8), "pause": 0}, params) for name in "ab")
    drawn = connect.prob(0.2, weight=normal(0.3, 0.1), self_connections=False)
    delay = normal(1.5, 0.75)
    joined = [(a, a, drawn), (a, b, np.eye(40)), (b, a, connect.in_degree(9, weight=-0.2, replace=False))]
    projections = [Projection(one, other, how, into="syn", delay=delay) for one, other, how in joined]
    projections[1] = dataclasses.replace(projections[1], delay=0.4)
    return Network([a, b], projections, dt=0.1)


def test_a_simulation_on_synapses_that_the_host_does_not_hold(network, tmp_path, monkeypatch):
    monkeypatch.setattr("brainevent.network.training.gpu.engine.gpu", lambda: PretendGpu(shared_bytes=0))
    ours, theirs = (network.build(seed=3, backend=backend, threads=1) for backend in ("cuda", "numba"))
    assert list(ours.plan.synapses.held) == [1]
    record = ["a.spikes", "b.v"]
    projections = [projection.name for projection in ours.plan.projections]
    weights = np.random.default_rng(0).normal(0.2, 0.1, len(ours.connections(projections[0])))

    def same(steps):
        found, expected = (simulation.run(steps, record=record) for simulation in (ours, theirs))
        np.testing.assert_array_equal(found["a.spikes"].neurons, expected["a.spikes"].neurons)
        np.testing.assert_array_equal(found["b.v"], expected["b.v"])
        equal(ours.state, theirs.state)
        assert found["a.spikes"].times.size > 20

    same(60)
    for name in projections:
        found, expected = (simulation.connections(name) for simulation in (ours, theirs))
        for field in ("sources", "targets", "weights", "delays"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
    for simulation in (ours, theirs):
        simulation.set(projections[0], weights=weights)
    same(60)
    equal(ours.params, theirs.params)
    ours.save(tmp_path / "ours.npz")
    theirs = network.build(seed=3, backend="interpreted")
    theirs.load(tmp_path / "ours.npz")
    same(30)
    ours.reset()
    theirs.reset()
    same(30)
    assert ours.report().splitlines()[0] == theirs.report().splitlines()[0]


def test_what_does_not_fit_on_a_device_is_not_drawn():
    class Small(PretendDevice):
        def memory(self, nbytes, what):
            if nbytes > 2**28:
                raise NetworkError(f"{what}: {nbytes}")
            return super().memory(nbytes, what)

    device = Small()
    network = described.joined(connect.all_to_all(), 10_000, name="p")
    with pytest.raises(NetworkError, match="synapses of p: 400000000"):
        build_plan(network, measure=Drawing(device))
    assert device.launches == []


def test_memory_is_given_back():
    device = PretendDevice()
    _, plan = both(described.joined(connect.out_degree(9, replace=False), 30), device)
    assert not device.held
    engine = CudaEngine(plan, blocks=2, device=device)
    assert device.held
    del engine
    assert not device.held


def test_the_text_compiles_for_gpus():
    """Nothing is fused, nothing approximated, and no array of a thread lies in memory."""
    ptx = ptx_of(drawing_text(), "--std=c++17", AS_WRITTEN)
    assert ".entry draw_rows" in ptx
    assert ".entry count_sources" in ptx
    assert "fma." not in ptx
    assert "approx" not in ptx
    assert ".local" not in ptx


# ---- populations of one rule


def test_populations_of_one_rule_and_the_same_dtypes_share_its_form():
    def rule(s, arriving, p):
        return s.replace(n=s.n + 1), s.n > p.most

    def other(s, arriving, p):
        return s, s.n > p.most

    values = {"a": (0, 1.0), "b": (7, np.full(9, 3.0)), "c": (np.uint32(0), 5.0)}
    populations = [
        Population(name, 9, rule, state={"n": n}, params={"most": most}) for name, (n, most) in values.items()
    ]
    populations.append(Population("d", 9, other, state={"n": 0}, params={"most": 1.0}))
    a, b, c, d = (population.rule for population in build_plan(Network(populations)).populations)
    assert a.form is b.form
    assert [rule.states[0].dtype for rule in (a, c, d)] == ["int32", "uint32", "int32"]
    assert d.form != a.form
