# SPDX-License-Identifier: Apache-2.0
"""Networks as SONATA circuits: read again, they have the same spikes; and what SONATA cannot say is named."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sonata_files import h5py, write_toy

import brainevent as be
from brainevent.network.sonata.neurons.glif import FLAGS
from brainevent.network.sonata.neurons.solved import solved_values
from brainevent.network.sonata.neurons.table import NEURONS

c = be.connect


def interpreted(network, seed=0, **options):
    return network.build(seed, backend="interpreted", **options)


def same_runs(first, second, steps, record):
    one, two = first.run(steps, record=record), second.run(steps, record=record)
    for label in record:
        if label.endswith(".spikes"):
            assert one[label].neurons.size, label
            np.testing.assert_array_equal(one[label].times, two[label].times, err_msg=label)
            np.testing.assert_array_equal(one[label].neurons, two[label].neurons, err_msg=label)
        else:
            np.testing.assert_array_equal(one[label], two[label], err_msg=label)


def drawn_values(neuron, size, rng, same=False):
    """Return parameters of a model, some of which differ between neurons; levels of GLIF differ too."""
    levels = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1)])[rng.integers(0, 5, size)]
    widths, values = {"tau_syn": int(rng.integers(1, 4))}, {}
    asc = int(rng.integers(1, 4))
    for key, default in neuron.defaults.items():
        if key in FLAGS and key not in neuron.fixed:
            values[key] = levels[:, FLAGS.index(key)].astype(float)
        elif key in neuron.fixed:
            values[key] = np.full(size, float(neuron.fixed[key]))
        elif isinstance(default, tuple):
            scale = 0.02 if key == "asc_decay" else 1.0
            values[key] = rng.uniform(0.5, 5.0, (size, widths.get(key, asc))) * scale
        else:
            few = same or rng.random() < 0.5
            values[key] = (default or 0.3) * (np.ones(size) if few else rng.uniform(0.8, 1.25, size))
    return values


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(NEURONS)),
    size=st.integers(1, 40),
    dt=st.sampled_from([0.1, 0.05, 1 / 3, 0.25]),
    seed=st.integers(0, 2**32),
)
def test_parameters_of_a_neuron_follow_from_its_factors_of_a_step(name, size, dt, seed):
    neuron = NEURONS[name]
    values = drawn_values(neuron, size, np.random.default_rng(seed))
    made = neuron.make("n", size, values, dt)
    found = solved_values("n", made.rule, "n", size, {**made.params, **made.state}, dt)
    again = NEURONS[name if not name.startswith("glif") else "glif_psc"].make("n", size, found, dt)
    for key, value in {**made.params, **made.state}.items():
        other = {**again.params, **again.state}[key]
        np.testing.assert_array_equal(*np.broadcast_arrays(np.float32(value), np.float32(other)), err_msg=key)
    if "tau_m" in values:
        np.testing.assert_allclose(found["tau_m"], values["tau_m"], rtol=1e-12)
        np.testing.assert_allclose(found["C_m"], values["C_m"], rtol=1e-12)


def test_numbers_with_few_digits_come_back_as_they_were_given():
    exc = be.models.lif_current("exc", 3, tau=[10.0, 17.3, 8.25], capacitance=213.7, tau_syn=0.55, refractory=1.7)
    given_values = {**exc.params, **exc.state}
    found = solved_values("exc", exc.rule, "exc", 3, {k: np.float64(v) for k, v in given_values.items()}, 0.1)
    assert found["tau_m"].tolist() == [10.0, 17.3, 8.25]
    assert {key: found[key].tolist() for key in ("C_m", "tau_syn_in", "t_ref")} == {
        "C_m": [213.7] * 3,
        "tau_syn_in": [0.55] * 3,
        "t_ref": [1.7] * 3,
    }


WEIGHTS = {"iaf_psc_delta": (4.0, -2.0), "iaf_psc_exp": (900.0, -150.0), "iaf_psc_alpha": (400.0, -100.0)}
WEIGHTS |= {"iaf_cond_exp": (20.0, 4.0), "iaf_cond_alpha": (12.0, 3.0)}


@pytest.mark.parametrize("name", NEURONS)
def test_neurons_of_each_model_spike_at_the_same_times_when_they_are_read_again(tmp_path, name):
    neuron, rng = NEURONS[name], np.random.default_rng(3)
    values = drawn_values(neuron, 4, rng, same=name == "iaf_psc_exp")
    cells = neuron.make("cells", 4, values, 0.1)
    source = be.models.spike_source("in", [np.arange(1.0, 30, 0.7), np.arange(2.0, 30, 3.1)])
    exc, inh = WEIGHTS.get(name, (900.0, -200.0))
    first, second = neuron.receptors or ("syn0", f"syn{values['tau_syn'].shape[1] - 1}")
    links = [
        be.Projection(source[:1], cells, c.all_to_all(weight=exc), first, delay=1.5),
        be.Projection(source[1:], cells, c.all_to_all(weight=inh), second),
    ]
    network = be.Network([cells, source], links)
    config = be.write_sonata(network, tmp_path / "circuit", duration=30.0)
    model = be.read_sonata(config)
    assert (model.duration, model.dt) == (30.0, 0.1)
    same_runs(interpreted(network), interpreted(model), 300, ["cells.spikes", "cells.v", "in.spikes"])


def ready_network():
    """Return a network of ready models with drawn synapses, delays and potentials, currents, parts and places."""
    rng = np.random.default_rng(0)
    at = {"x": be.uniform(0, 1), "y": np.arange(30.0), "angle": 2.0}
    exc = be.models.lif_exponential("exc:é", 30, v=be.uniform(-60, -50), tau=rng.uniform(15, 25, 30))
    exc = be.Population(exc.name, exc.size, exc.rule, exc.state, exc.params, units=exc.units, at=at)
    exc = be.models.step_current(exc, amplitude=np.where(np.arange(30) < 20, 3.0, 1.0), start=2.0, stop=20.0)
    inh = be.models.lif_current("inh", 8, current=500.0)
    brunel = be.models.lif_delta("brunel", 5, current=25.0)
    relay, source = be.models.relay("relay", 4), be.models.spike_source("source", [[1.0, 5.0], [3.0]])
    links = [
        be.Projection(exc, exc, c.prob(0.2, weight=be.normal(1.6, 0.3, low=0)), "exc", delay=be.normal(1.5, 0.7)),
        be.Projection(exc[:10], inh, c.in_degree(3, weight=be.normal(60.0, 5.0)), "syn", delay=1.0),
        be.Projection(inh, exc, c.prob(0.4, weight=-9.0), "inh", delay=0.8),
        be.Projection(inh, exc, c.prob(0.1, weight=-3.0), "inh", delay=2.0, name="far/inh"),
        be.Projection(exc, brunel, c.prob(0.4, weight=lambda pre, post: 0.5 + pre.x), "syn"),
        be.Projection(source, relay, c.all_to_all(weight=1.0), "spikes", delay=0.7),
        be.Projection(relay, exc, c.all_to_all(weight=4.0), "exc", delay=0.2),
        be.Projection(source, exc, c.all_to_all(weight=4.0), "exc"),
        be.Projection(source, exc, c.total(0), "exc", name="none"),
    ]
    return be.Network([exc, inh, brunel, relay, source], links)


def test_ready_models_have_the_same_spikes_to_the_last_bit_when_they_are_read_again(tmp_path):
    network = ready_network()
    simulation = interpreted(network, 3)
    model = be.read_sonata(be.write_sonata(network, tmp_path, seed=3))
    assert model.duration is None
    assert sorted(model.nodes) == ["brunel", "exc:é", "inh", "relay", "source"]
    again = interpreted(model, 5)
    assert sorted(again.at("exc:é")) == ["x", "y"]
    np.testing.assert_array_equal(again.at("exc:é")["x"], simulation.at("exc:é")["x"])
    with h5py.File(tmp_path / "nodes.h5") as file:
        assert file["nodes/exc:é/0/angle"][()].tolist() == [2.0] * 30
    with h5py.File(tmp_path / "edges.h5") as file:
        names = sorted(["exc:é_to_brunel", "exc:é_to_exc:é", "exc:é_to_inh", "far_inh", "inh_to_exc:é"])
        assert sorted(file["edges"]) == sorted([*names, "relay_to_exc:é", "source_to_exc:é"])
    record = [f"{name}.spikes" for name in model.nodes] + ["exc:é.v", "inh.v"]
    same_runs(simulation, again, 300, record)


def test_weights_that_float32_does_not_hold_come_back_as_they_are(tmp_path):
    cells = be.models.lif_delta("cells", 30, current=be.uniform(100, 400))
    few = c.in_degree(3, weight=be.normal(0.3, 0.5))  # few of them: their quantum is finer than float32
    network = be.Network(
        [cells],
        [
            be.Projection(cells, cells, few, into="syn", delay=be.uniform(0.5, 2.0), name="drawn"),
            be.Projection(cells, cells, c.in_degree(1, weight=0.7), into="syn", delay=0.5, name="one"),
        ],
    )
    first = interpreted(network, 1)
    read = be.read_sonata(be.write_sonata(first, tmp_path / "cells", duration=40.0))
    second = read.build(backend="interpreted")
    rounded = 0
    for name, projection in zip(["drawn", "one"], second.network.projection_names, strict=True):
        one, two = first.connections(name), second.connections(projection)
        np.testing.assert_array_equal(
            *(np.sort(each.weights + 1j * (each.targets * 30 + each.sources)) for each in (one, two))
        )
        rounded += np.sum(one.weights.astype(np.float32) != one.weights)
    assert rounded > 50
    same_runs(first, second, 400, ["cells.spikes", "cells.v"])


def test_places_are_written_in_micrometres(tmp_path):
    """Where a unit is declared; other attributes, and places without a unit, as they are."""
    u = pytest.importorskip("brainunit")
    far = np.float32([0.1, 2.5, 3.0])
    units = {"x": "mm", "y": u.cm, "z": "1", "depth": "mm"}
    cells = be.models.lif_delta("cells", 3, at=dict.fromkeys(units, far), units=units)
    plain = be.models.lif_delta("plain", 3, at={"x": far})
    config = be.write_sonata(be.Network([cells, plain], [], dt=0.1), tmp_path / "circuit")
    read = be.read_sonata(config).network.build(backend="interpreted")
    np.testing.assert_array_equal(read.at("cells")["x"], np.float32([100, 2500, 3000]))
    np.testing.assert_array_equal(read.at("cells")["y"], np.float32([1000, 25000, 30000]))
    np.testing.assert_array_equal(read.at("cells")["z"], far)
    np.testing.assert_array_equal(read.at("plain")["x"], far)
    with h5py.File(tmp_path / "circuit/nodes.h5") as file:
        np.testing.assert_array_equal(file["nodes/cells/0/depth"], far)
    late = be.models.lif_delta("late", 3, at={"x": far}, units={"x": "ms"})
    with pytest.raises(be.NetworkError, match="population late: at x is in ms, and nodes have places in um; rename it"):
        be.write_sonata(be.Network([late], [], dt=0.1), tmp_path / "other")


def test_parameters_and_weights_of_now_are_written(tmp_path):
    network = ready_network()
    simulation = interpreted(network, 3)
    simulation.set("inh", threshold=-51.3, current=480.0)
    simulation.set("brunel", rest=0.7)
    simulation.set("inh->exc:é.inh", weights=-4.4)
    simulation.run(10)
    model = be.read_sonata(be.write_sonata(simulation, tmp_path))
    simulation.state = interpreted(network, 3).state
    same_runs(simulation, interpreted(model), 300, ["exc:é.spikes", "inh.spikes", "exc:é.v", "inh.v", "brunel.v"])


def test_a_network_of_files_is_written_with_its_names_ids_inputs_and_reports(tmp_path):
    (tmp_path / "first").mkdir()
    reports = {"v": {"module": "membrane_report", "variable_name": "V_m", "cells": "two", "dt": 0.5, "start_time": 9.0}}
    first = be.read_sonata(write_toy(tmp_path / "first", reports=reports))
    second = be.read_sonata(be.write_sonata(first, tmp_path / "second"))
    assert repr(first) == repr(second)
    assert {name: (label, ids.tolist()) for name, (label, ids) in first.nodes.items()} == {
        name: (label, ids.tolist()) for name, (label, ids) in second.nodes.items()
    }
    assert sorted(first.network.projection_names) == sorted(second.network.projection_names)
    same_runs(interpreted(first), interpreted(second), 1000, ["cortex.spikes", "lgn.spikes", "cortex.v"])
    (one,), (two,) = first.reports.values(), second.reports.values()
    assert (one.name, one.file, one.start, one.stop) == (two.name, two.file, two.start, two.stop)
    assert [request.neurons.tolist() for request in one.record] == [request.neurons.tolist() for request in two.record]
    assert first.record[1].steps == second.record[1].steps == 5
    third = be.write_sonata(interpreted(second), tmp_path / "third", nodes=second.nodes, duration=100.0)
    assert repr(be.read_sonata(third)) == repr(first)


def test_several_models_of_one_population_stay_one_with_ids_in_any_order(tmp_path):
    cells = [be.models.lif_delta("v1:iaf_psc_delta", 3, current=90.0), be.models.lif_current("v1:iaf_psc_exp", 2)]
    cells.append(be.models.spike_source("v1:virtual", [[1.0, 2.0]]))
    links = [be.Projection(cells[0], cells[1], c.all_to_all(weight=9000.0), "syn")]
    links.append(be.Projection(cells[2], cells[0], c.all_to_all(weight=9.0), "syn"))
    nodes = {one.name: ("v1", ids) for one, ids in zip(cells, ([40, 7, 12], [0, 9], [8]), strict=True)}
    network = be.Network(cells, links)
    model = be.read_sonata(be.write_sonata(network, tmp_path, nodes=nodes))
    assert {name: (label, ids.tolist()) for name, (label, ids) in model.nodes.items()} == nodes
    same_runs(interpreted(network), interpreted(model), 200, [f"{one.name}.spikes" for one in cells])


def test_the_indices_of_edges_find_those_of_each_node(tmp_path):
    exc = be.models.lif_delta("exc", 9)
    links = [be.Projection(exc, exc, c.total(40, weight=be.uniform(1, 2)), "syn") for _ in range(2)]
    be.write_sonata(be.Network([exc], links), tmp_path)
    with h5py.File(tmp_path / "edges.h5") as file:
        group = file["edges/exc_to_exc"]
        assert group["source_node_id"].attrs["node_population"] == "exc"
        assert np.unique(group["edge_type_id"]).size == 2
        for end, index in (("source", "source_to_target"), ("target", "target_to_source")):
            ids, ranges = group[f"{end}_node_id"][()], group[f"indices/{index}/range_to_edge_id"][()]
            of_node = group[f"indices/{index}/node_id_to_ranges"][()]
            assert of_node.shape == (9, 2)
            for node, (first, last) in enumerate(of_node):
                edges = [edge for begin, end_ in ranges[first:last] for edge in range(begin, end_)]
                assert sorted(edges) == np.flatnonzero(ids == node).tolist()


def test_a_population_without_synapses_and_trains_without_spikes(tmp_path):
    network = be.Network([be.models.lif_delta("exc", 2, current=30.0), be.models.spike_source("in", [[], []])])
    model = be.read_sonata(be.write_sonata(network, tmp_path / "new" / "folder", duration=10))
    assert not model.network.projections
    assert "edges.h5" not in [path.name for path in (tmp_path / "new" / "folder").iterdir()]
    same_runs(interpreted(network), interpreted(model), 300, ["exc.spikes"])


def test_nothing_is_written_into_a_folder_with_files(tmp_path):
    network = be.Network([be.models.lif_delta("exc", 2)])
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(be.NetworkError, match="is there already, and not an empty folder; pass another one"):
            be.write_sonata(network, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


EXC, OTHER = be.models.lif_current("exc", 3), be.models.lif_delta("other", 2)
COND = NEURONS["iaf_cond_exp"].make(
    "cond", 2, {key: np.full(2, value) for key, value in NEURONS["iaf_cond_exp"].defaults.items()}, 0.1
)
EXP = be.models.lif_exponential("exp", 3)


def own_rule(s, arriving, p):
    return s.replace(v=s.v * p.decay + arriving.syn), s.v > 1


def with_link(target, connect, into, source=EXC, **options):
    cells = [source] if source is target else [source, target]
    return be.Network(cells, [be.Projection(source, target, connect, into, **options)])


@pytest.mark.parametrize(
    ("network", "options", "says"),
    [
        (3, {}, "network is 3; pass a Network, a Simulation, or what read_sonata returned"),
        (be.Network([EXC]), {"duration": -1.0}, "duration is -1.0; pass a positive number of ms"),
        (
            be.Network([be.Population("mine", 2, own_rule, {"v": 0.0}, {"decay": 0.9})]),
            {},
            "population mine: its rule own_rule has no model in SONATA files of point neurons; those that have",
        ),
        (be.Network([be.models.adex("adex", 2)]), {}, "population adex: its rule adex_rule has no model"),
        (be.Network([be.models.poisson_source("p", 2, rate=5.0)]), {}, "record these and use be.models.spike_source"),
        (be.Network([be.models.dopamine(EXC)]), {}, "rule lif_current_rule was changed by a function that adds states"),
        (
            be.Network([be.models.poisson_drive(EXC, rate=10.0, weight=1.0)]),
            {},
            "exc: has poisson_drive into syn, which SONATA has no input for; only step_current into the parameter",
        ),
        (
            be.Network([be.models.step_current(EXC, amplitude=1.0, start=0.0, stop=1.0, into="syn")]),
            {},
            "has step_current into syn",
        ),
        (
            be.Network(
                [be.models.step_current(be.models.relay("r", 2), amplitude=1.0, start=0, stop=1, into="spikes", dt=0.1)]
            ),
            {},
            "population r: has step_current, and neurons that are driven by spikes alone have none",
        ),
        (
            be.Network(
                [
                    be.models.step_current(
                        be.models.lif_current("many", 300), amplitude=np.arange(300.0), start=0.0, stop=1.0
                    )
                ]
            ),
            {},
            "step_amplitude has 300 different currents, each of which is an input; at most 256",
        ),
        (
            be.Network([be.Population("exc", 3, EXC.rule, {**EXC.state, "i": 4.0}, EXC.params)]),
            {},
            "population exc: state i begins at 4, and iaf_psc_exp has no parameter for it; let it begin at 0",
        ),
        (
            be.Network([be.Population("exc", 3, EXC.rule, EXC.state, {**EXC.params, "gain": 0.1})]),
            {},
            "parameter gain is 0.1, which does not follow from the same iaf_psc_exp as the others",
        ),
        (
            be.Network([be.Population("exc", 3, EXC.rule, EXC.state, {**EXC.params, "decay": 1.5})]),
            {},
            "population exc: its parameters are those of no iaf_psc_exp: population exc: tau_m is",
        ),
        (
            be.Network([EXC], [be.Coupling(EXC, EXC, c.all_to_all(), of="v", into="syn", name="gap")]),
            {},
            "coupling gap carries a state, which SONATA has no synapses for",
        ),
        (
            with_link(EXC, c.all_to_all(weight=1.0), "syn", plasticity=be.plasticity.stdp()),
            {},
            "projection exc->exc.syn: is plastic, and weights of SONATA do not change",
        ),
        (
            with_link(EXP, c.all_to_all(weight=-1.0), "exc"),
            {},
            "projection exc->exp.exc: has weights into exc that are negative, but in SONATA the sign decides whether",
        ),
        (with_link(EXP, c.all_to_all(weight=1.0), "inh"), {}, "weights into inh that are positive"),
        (
            with_link(COND, np.array([[1.0, -2.0]] * 3), "exc"),
            {},
            "weights into exc that are negative, .* iaf_cond_exp gets them as exc or as inh",
        ),
        (
            with_link(be.models.relay("r", 3), c.one_to_one(weight=1.0), "spikes"),
            {},
            "population r: projection exc->r.spikes lets it repeat spikes of exc, but virtual nodes of SONATA have no",
        ),
        (
            with_link(
                be.models.relay("r", 1), c.all_to_all(weight=0.5), "spikes", be.models.spike_source("s", [[1.0]])
            ),
            {},
            "population r: spikes arrive with weights that are no numbers of spikes",
        ),
        (be.Network([be.models.lif_delta("a/b", 2)]), {}, "a/b has a /, which names of HDF5 groups cannot have"),
        (be.Network([EXC]), {"nodes": {}}, "write_sonata: exc is not among nodes"),
        (be.Network([EXC]), {"nodes": {"exc": ("v1", [1, 2])}}, "exc has 3 neurons, but nodes has 2 ids"),
        (
            be.Network([EXC]),
            {"nodes": {"exc": ("v1", [1, 2, 1])}},
            "nodes: node 1 of v1 is there twice: in exc and in exc",
        ),
        (
            be.Network([EXC, EXP]),
            {"nodes": {"exc": ("v1", [0, 1, 2]), "exp": ("v1", [3, 4, 5])}},
            "exc and exp are both iaf_psc_exp in the population v1 of SONATA, and would be read as one",
        ),
        (
            be.Network([EXC, OTHER]),
            {"nodes": {"exc": ("v1", [0, 1, 2]), "other": ("v1", [2, 3])}},
            "node 2 of v1 is there twice: in exc and in other",
        ),
    ],
)
def test_what_sonata_cannot_say_is_named_and_nothing_is_written(tmp_path, network, options, says):
    with pytest.raises(be.NetworkError, match=says):
        be.write_sonata(network, tmp_path / "circuit", **options)
    assert not (tmp_path / "circuit").exists()


@pytest.mark.parametrize("quanta", [[1.0], {"exc.syn": "fine"}, {"exc.syn": True}])
def test_quanta_of_a_config_are_numbers(tmp_path, quanta):
    config = be.write_sonata(be.Network([EXC]), tmp_path)
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "brainevent": {"quanta": quanta}}))
    with pytest.raises(be.NetworkError, match=r"brainevent: quanta is .*; it must be an object of numbers"):
        be.read_sonata(config)
