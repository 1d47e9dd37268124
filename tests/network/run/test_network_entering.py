# SPDX-License-Identifier: Apache-2.0
"""States, parameters and weights that enter a simulation: what 32 bits may not hold, or is no number, is refused."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest
import small_plans
from recorded import ALL, ON_CPU, equal, values

import brainevent as be
from brainevent.errors import CheckpointError, NetworkError
from brainevent.network.engines import make_engine
from brainevent.network.plan.pending import check_pending, largest_load
from brainevent.network.plan.plan import Plan
from brainevent.network.plan.quantum import LARGEST_SUM
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import initial_state

SIMPLE = small_plans.plan()
NAME = "a->b.syn"


def heavy(delays=(1, 2, 3), weight=2**29, name="heavy"):
    """Return one neuron with a synapse to itself for each delay, all of one weight, in quanta that stay."""
    cell = small_plans.population("a", 1)
    edges = [
        dataclasses.replace(
            small_plans.synapses(cell, cell, 1, 1, number=number),
            weights=np.array([weight], np.int32),
            delays=np.array([delay], np.uint8),
            targets=np.zeros(1, np.uint16),
        )
        for number, delay in enumerate(delays, 1)
    ]
    edges = [dataclasses.replace(one, name=f"{one.name} {k}") for k, one in enumerate(edges)]
    return Plan((cell,), tuple(edges), 0.1, 1, 1, name, given=(("a", "syn"),))


def simulation(plan=None, backend="interpreted"):
    plan = heavy() if plan is None else plan
    return Simulation(plan, make_engine(plan, backend))


def waiting(plan, *rows):
    state = initial_state(plan)
    return dataclasses.replace(state, arriving={"a": {"syn": np.array(rows, np.int32)[:, None]}})


# ---- sums on their way


def test_loads_are_sums_of_sizes_of_weights():
    plan = small_plans.plan(2)
    for name, receptor in plan.receptors():
        into = np.zeros(plan.population(name).size, int)
        for one in plan.synapses:
            if one.target == name:
                np.add.at(into, one.targets, np.abs(one.weights.astype(int)))
        assert largest_load(plan, name, receptor) == into.max() > 0


@pytest.mark.parametrize("weight", [2.0, be.normal(0, 1)])
def test_a_build_knows_its_loads(weight):
    params = {"decay": 0.5, "drive": 1.0, "threshold": 1.0}
    cells = be.Population("c", 30, small_plans.leaky, {"v": 0.0, "pause": 0}, params)
    edges = be.Projection(cells, cells, be.connect.prob(0.5, weight=weight), into="syn")
    plan = be.Network([cells], [edges]).build(backend="interpreted").plan
    known = dict(plan.loads)
    plan.loads.clear()
    assert known == {("c", "syn"): largest_load(plan, "c", "syn")}
    other = plan.replaced({0: dataclasses.replace(plan.synapses[0], weights=np.array([7], np.int16))})
    assert other.loads == {}
    assert largest_load(other, "c", "syn") == 7 * np.bincount(plan.synapses[0].targets).max()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_is_refused_from_the_first_quantum_that_may_not_fit(sign):
    """Row k can still grow by the weights of synapses with a delay of at most k."""
    plan = heavy((1, 3))
    most = [LARGEST_SUM, LARGEST_SUM - 2**29, LARGEST_SUM - 2**29]
    sim = simulation(plan)
    sim.state = waiting(plan, *(sign * x for x in most))
    for k in (1, 2):
        wrong = [*most]
        wrong[k] += 1
        words = (
            f"state: pending input of neuron 0 of a by syn may add up to {LARGEST_SUM + 1} quanta: "
            f"{wrong[k]} arrive in {k + 1} steps, and spikes until then may add {2**29}; sums have 32 bits, up to "
        )
        with pytest.raises(NetworkError, match=re.escape(words)):
            sim.state = waiting(plan, *(sign * x for x in wrong))
    with pytest.raises(NetworkError, match=f"may add up to {2**31} quanta"):
        sim.state = waiting(plan, -(2**31), 0, 0)


def test_the_neuron_is_named_and_every_projection_counts():
    state = initial_state(SIMPLE)
    state.arriving["b"]["syn"][7, 13] = LARGEST_SUM
    with pytest.raises(NetworkError, match="of neuron 13 of b by syn may add up to 21474"):
        simulation(SIMPLE).state = state
    added = sum(
        np.abs(np.broadcast_to(one.weights, one.targets.shape).astype(int))[
            (one.targets == 13) & (np.broadcast_to(one.delays, one.targets.shape) <= 7)
        ].sum()
        for one in SIMPLE.synapses
        if one.target == "b"
    )
    state.arriving["b"]["syn"][7, 13] = LARGEST_SUM - added
    check_pending("x", SIMPLE, state.arriving)
    state.arriving["b"]["syn"][7, 13] += 1
    with pytest.raises(NetworkError, match=f"^x: .*, and spikes until then may add {added};"):
        check_pending("x", SIMPLE, state.arriving)


@pytest.mark.parametrize("backend", ON_CPU)
def test_what_a_run_has_on_its_way_is_taken_back(backend, tmp_path):
    """Also where the weights alone fill 32 bits."""
    plan = heavy((1, 2, 3, 4), 2**29 - 32)  # exact in float32
    sim, other = simulation(plan, backend), simulation(plan, backend)
    sim.set("a", threshold=0.0, v=1.0)
    for _ in range(8):
        sim.run(1)
        other.state = sim.state
        sim.save(tmp_path / "x.npz")
        other.load(tmp_path / "x.npz")
    assert sim.state.arriving["a"]["syn"].max() > 2**30


def heavier(sim):
    """Give the synapse with a delay of one step twice its weight, and the others one quantum."""
    first, *others = (one.name for one in sim.plan.synapses)
    for name in others:
        sim.set(name, weights=0.25)
    sim.set(first, weights=0.25 * 2**30)


TOO_MUCH = "2147483648 quanta: 1073741824 arrive in 2 steps, and spikes until then may add 1073741824"


@pytest.mark.parametrize("backend", ON_CPU)
def test_an_earlier_state_is_checked_with_the_weights_of_now(backend, tmp_path):
    """By each of the ways by which a state enters; what is refused changes nothing."""
    plan, file = heavy(), tmp_path / "x.npz"
    sim, other = simulation(plan, backend), simulation(dataclasses.replace(plan, fingerprint="other"), backend)
    sim.set("a", threshold=0.0, v=1.0)
    sim.run(2)
    sim.save(file)
    earlier = sim.state
    assert earlier.arriving["a"]["syn"][:, 0].tolist() == [2**30, 2**30, 2**29]
    sim.state = initial_state(plan)
    for one in (sim, other):
        heavier(one)
        before = jax.tree.map(np.array, (one.state, one.params))
        if one is sim:
            with pytest.raises(NetworkError, match=f"^state: pending input .* {TOO_MUCH}"):
                one.state = earlier
        else:
            with pytest.raises(CheckpointError, match=f"x.npz: pending input of .* {TOO_MUCH}"):
                one.load(file, force=True)
        jax.tree.map(np.testing.assert_array_equal, (one.state, one.params), before)
    sim.load(file)  # with the weights of the build
    jax.tree.map(np.testing.assert_array_equal, sim.state, earlier)
    sim.reset()
    sim.state = earlier


def test_a_state_may_come_from_heavier_weights():
    """Pending input keeps its value where it fits."""
    sim = simulation(heavy())
    heavier(sim)
    sim.set("a", threshold=0.0, v=1.0)
    sim.run(1)
    earlier = sim.state
    assert earlier.arriving["a"]["syn"][:, 0].tolist() == [2**30, 1, 1]
    sim.state = initial_state(sim.plan)
    for one in sim.plan.synapses:
        sim.set(one.name, weights=1.0)
    sim.state = earlier
    sim.run(1)
    assert sim.state.arriving["a"]["syn"][:, 0].tolist() == [5, 5, 4]


# ---- files


def saved(sim, path, **changes):
    """Save a simulation, with other arrays or headers."""
    sim.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"])) | changes.pop("header", {})
    np.savez(path, **arrays | {"header": np.array(json.dumps(header)), **changes})
    return path


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("sums", [LARGEST_SUM, -LARGEST_SUM, -(2**31)])
def test_crafted_sums_are_refused(tmp_path, backend, sums):
    sim = simulation(small_plans.plan(2), backend)
    path = saved(sim, tmp_path / "x.npz", **{"arriving/a/syn": np.full((8, 37), sums, np.int32)})
    for plan, force in ((sim.plan, False), (dataclasses.replace(sim.plan, fingerprint="other"), True)):
        sim = simulation(plan, backend)
        with pytest.raises(CheckpointError, match=r"x\.npz: pending input of neuron \d+ of a by syn may add up to 2"):
            sim.load(path, force=force)
        assert not sim.state.arriving["a"]["syn"].any()


@pytest.mark.parametrize("weights", [[2**31 - 1], [-(2**31)]])
def test_crafted_weights_are_refused(tmp_path, weights):
    sim = simulation(dataclasses.replace(SIMPLE, given=(("b", "syn"),)))
    path = saved(sim, tmp_path / "x.npz", **{f"weights/{NAME}": np.array(weights, np.int32)})
    with pytest.raises(
        CheckpointError, match=r"x\.npz: quantum of b.syn, which build was given, is 0.5, but weights of a->b"
    ):
        sim.load(path)
    assert not sim._weights.replaced


def test_weights_of_a_file_count_with_its_sums(tmp_path):
    sim = simulation()
    heavier(sim)
    rows = np.array([[0], [2**30], [0]], np.int32)
    path = saved(sim, tmp_path / "x.npz", **{"arriving/a/syn": rows})
    with pytest.raises(CheckpointError, match=r"x\.npz: pending input of neuron 0 of a by syn .* to 2147483648 q"):
        simulation().load(path)
    path = saved(sim, tmp_path / "x.npz", **{"arriving/a/syn": rows - (rows > 0)})
    simulation().load(path)  # just fits


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("value", [np.float32(np.nan), -np.float32(np.nan)])
def test_parameters_of_a_file_that_are_nan_are_refused(tmp_path, backend, value):
    sim = simulation(SIMPLE, backend)
    before = sim.params
    path = saved(sim, tmp_path / "x.npz", **{"params/a/threshold": value})
    with pytest.raises(
        CheckpointError, match=r"x\.npz: parameter threshold of a is NaN: the file is damaged; pass another"
    ):
        sim.load(path)
    jax.tree.map(np.testing.assert_array_equal, sim.params, before)


def test_infinite_parameters_are_accepted(tmp_path):
    """A threshold that is never reached is infinite."""
    sim, other = simulation(SIMPLE), simulation(SIMPLE)
    sim.set("a", threshold=np.inf)
    sim.save(tmp_path / "x.npz")
    other.load(tmp_path / "x.npz")
    equal(values(other.run(20, ALL)), values(sim.run(20, ALL)))
    assert other.params["a"]["threshold"] == np.inf


def with_step():
    cells = be.Population(
        "c", 3, lambda s, arriving, p: (s.replace(on=~s.on, v=s.v + p.dt), s.on), {"on": False, "v": 0.0}
    )
    return be.Network([cells]).build(backend="interpreted")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"params/c/dt": np.float32(0.2)},
            "parameter dt of c is not the time step of the network: the file is damaged",
        ),
        (
            {"neurons/c/on": np.array([0, 1, 2], np.uint8).view(bool)},
            "neurons/c/on has booleans that are neither 0 nor",
        ),
        ({"step": np.float32(3)}, "step is 3.0; pass an integer from 0 to 4294967295"),
        ({"step": np.int64(2**32)}, "step is 4294967296; pass an integer from 0 to 4294967295"),
    ],
)
def test_what_a_run_never_writes_is_refused(tmp_path, changes, words):
    sim = with_step()
    path = saved(sim, tmp_path / "x.npz", **changes)
    with pytest.raises(CheckpointError, match=re.escape(words)):
        sim.load(path)
    assert sim.steps == 0


# ---- parameters, states and inputs


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("wrong", [np.nan, "1", None, 1j, 1e39])
def test_what_is_set_is_a_number_that_fits(backend, wrong):
    sim = simulation(SIMPLE, backend)
    before = jax.tree.map(np.array, (sim.state, sim.params))
    for name in ("threshold", "v"):
        for value in (wrong, np.array([wrong] * 37)):
            with pytest.raises(NetworkError, match=f"set: {name} of a"):
                sim.set("a", **{name: value})
    with pytest.raises(NetworkError, match=f"set: weights of {NAME}"):
        sim.set(NAME, weights=wrong)
    with pytest.raises(NetworkError, match=r"inputs: 'a\.syn'"):
        sim.run(3, inputs={"a.syn": np.array([0, wrong, 0])})
    jax.tree.map(np.testing.assert_array_equal, (sim.state, sim.params), before)


@pytest.mark.parametrize("backend", ["numba", "jax"])
@pytest.mark.parametrize("in_program", [False, True])
@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("a", "threshold", np.nan),
        ("a", "threshold", np.array([0] * 36 + [np.nan])),
        (NAME, "weights", np.nan),
        (NAME, "weights", np.float32(np.inf)),
    ],
)
def test_simulate_refuses_what_set_refuses(backend, in_program, name, key, value):
    """With the same words, where values are known: also within a program of JAX."""
    sim, words = simulation(SIMPLE, backend), []
    params = {name: value if key == "weights" else {key: value}}

    def ran():
        return be.simulate(sim, sim.state, params, 2)

    for call in (lambda: sim.set(name, **{key: value}), jax.jit(ran) if in_program else ran):
        with pytest.raises(NetworkError, match=r"is (NaN; pass numbers|infinite; pass finite numbers)") as raised:
            call()
        words.append(str(raised.value).split(": ", 2)[2])
    assert words[0] == words[1]


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_parameters_that_are_infinite_or_traced_are_taken(backend):
    """No neuron reaches such a threshold, and none is above one that is NaN."""
    sim = simulation(SIMPLE, backend)

    def counts(threshold):
        return be.simulate(sim, sim.state, {"a": {"threshold": threshold}}, 9, record="a.counts")[1]["a.counts"]

    sim.set("a", threshold=np.inf)
    assert not counts(np.inf).any()
    assert [bool(jax.jit(counts)(np.float32(x)).any()) for x in (-9, np.inf, np.nan)] == [True, False, False]


@pytest.mark.parametrize("backend", ON_CPU)
def test_weights_and_inputs_are_finite(backend):
    sim = simulation(SIMPLE, backend)
    with pytest.raises(NetworkError, match="is infinite; pass finite numbers"):
        sim.set(NAME, weights=np.inf)
    with pytest.raises(NetworkError, match=r"inputs: 'a\.syn': element \[1, 0\] is infinite; pass finite numbers"):
        sim.run(3, inputs={"a.syn": np.array([0, -np.inf, 0])})


@pytest.mark.parametrize(
    "drawn", [be.uniform(0, 1e39), be.normal(0, 1e38), be.exponential(-1e38), be.lognormal(1e35, 1e39)]
)
def test_drawn_values_that_may_not_fit_are_refused(drawn):
    for what in ({"v": drawn}, {"v": 0.0}):
        params = {"gain": 1.0 if what["v"] is drawn else drawn}
        cells = be.Population("c", 3, lambda s, arriving, p: (s.replace(v=s.v * p.gain), s.v > 1), what, params)
        with pytest.raises(
            NetworkError, match=r"c: (state v|params gain): values may not fit in float32; pass smaller"
        ):
            be.Network([cells]).build(backend="interpreted")
    bounded = be.normal(0, 1e38, low=-1e38, high=1e38)
    cells = be.Population("c", 300, lambda s, arriving, p: (s.replace(v=s.v + 1), s.v > 1), {"v": bounded})
    assert np.isfinite(be.Network([cells]).build(backend="interpreted").state.neurons["c"]["v"]).all()


@pytest.mark.parametrize("quantum", [np.nan, np.inf, 0.0, -1.0, 1e-300])
def test_quanta_of_states_are_positive_numbers(quantum):
    sim = simulation()
    state = dataclasses.replace(sim.state, quanta=(("a", "syn", quantum),))
    with pytest.raises(NetworkError, match=r"^state: the quantum of a.syn is .*; pass a positive number"):
        sim.state = state


def test_masked_arrays_are_no_numbers():
    with pytest.raises(NetworkError, match=r"a.syn.* has masked elements; pass numbers \(values.filled\(0\)\)"):
        simulation().run(1, inputs={"a.syn": np.ma.array([[1.0]], mask=[[True]])})
    whole = np.ma.array([[1.0]], mask=[[False]])
    assert simulation().run(1, inputs={"a.syn": whole}).steps == 1
