# SPDX-License-Identifier: Apache-2.0
"""Networks from SONATA files: nodes, edges, inputs and configs, and errors that name what is missing."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sonata_files import h5py, write_edges, write_nodes, write_spikes, write_toy, write_types

import brainevent as be
from brainevent.network.sonata.spike_trains import read_trains, steps_of_times

# Spikes of NEST 3.10 of the same network by hand in PyNEST, as (ms, node); its generator of currents, whose connection
# delays them by a step, begins a step before.
NEST = [(3.7, 3), (4.4, 1), (6.9, 2), (6.9, 3), (7.1, 0), (7.2, 1), (9.1, 4), (9.7, 3), (10.3, 1), (11.5, 2)]
NEST += [(12.4, 4), (15.9, 4), (22.8, 3), (38.0, 2), (41.5, 0), (44.7, 4), (53.9, 2), (61.3, 0), (62.6, 2), (63.0, 3)]
NEST += [(63.4, 1), (65.0, 4), (69.2, 4)]


def run_of(config, record=None):
    model = be.read_sonata(config)
    steps = round(model.duration / model.dt)
    return model, model.build(threads=1).run(steps, record=model.spikes if record is None else record)


def written(path, name):
    with h5py.File(path) as file:
        return file[f"spikes/{name}/timestamps"][()].round(6).tolist(), file[f"spikes/{name}/node_ids"][()].tolist()


def rewrite(path, change):
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return path


def test_a_network_has_the_spikes_of_nest_and_writes_them(tmp_path):
    model, result = run_of(write_toy(tmp_path))
    assert repr(model) == "SonataNetwork(cortex (5), lgn (2); 4 projections, dt=0.1, 100 ms)"
    model.write_spikes(tmp_path / "out.h5", result)
    times, ids = written(tmp_path / "out.h5", "cortex")
    assert list(zip(times, ids, strict=True)) == NEST
    with h5py.File(tmp_path / "out.h5") as file:
        group = file["spikes/cortex"]
        sorting = h5py.check_enum_dtype(group.attrs.get_id("sorting").dtype)
        assert sorting == {"none": 0, "by_id": 1, "by_time": 2}
        assert group.attrs["sorting"] == 2
        assert group["timestamps"].attrs["units"] == "ms"


def test_spikes_that_were_written_drive_virtual_nodes_at_the_same_times(tmp_path):
    model, result = run_of(write_toy(tmp_path), ["lgn.spikes"])
    np.testing.assert_allclose(result["lgn.spikes"].times + 0.1, [0.1, 5.0, 5.1, 20.0, 60.0])
    model.write_spikes(tmp_path / "again.h5", result)
    rewrite(tmp_path / "config.json", lambda c: c["inputs"]["lgn"].update(input_file="again.h5"))
    again = run_of(tmp_path / "config.json", ["lgn.spikes"])[1]
    assert (again["lgn.spikes"].times == result["lgn.spikes"].times).all()


def test_a_simulation_names_its_circuit_whose_paths_are_relative_to_it(tmp_path):
    whole = write_toy(tmp_path)
    expected = run_of(whole)[1]["cortex.spikes"]
    config = json.loads(whole.read_text())
    (tmp_path / "sim").mkdir()
    circuit = {key: config.pop(key) for key in ("networks", "components")} | {"manifest": config["manifest"]}
    (tmp_path / "circuit.json").write_text(json.dumps(circuit))
    config["manifest"] = {"$TOP": "$INNER/..", "$INNER": "."}
    config["network"] = "$TOP/circuit.json"
    config["inputs"]["lgn"]["input_file"] = "${TOP}/in.h5"
    (tmp_path / "sim" / "simulation.json").write_text(json.dumps(config))
    found = run_of(tmp_path / "sim" / "simulation.json")[1]["cortex.spikes"]
    assert (found.times == expected.times).all()
    assert (found.neurons == expected.neurons).all()


@pytest.mark.parametrize(
    "text",
    [
        "timestamps population node_ids\n20.0 lgn 0\n5.0 lgn 1\n5.0 lgn 1\n5.1 lgn 0\n60 lgn 1\n0.1 lgn 0\n",
        "timestamps node_ids\n20.0 0\n5.0 1\n5.0 1\n5.1 0\n60 1\n0.1 0\n",
        "gid spike-times\n0 0.1,5.1,20.0\n1 5.0,5.0,60.0\n",
    ],
)
def test_spikes_may_be_in_csv_files(tmp_path, text):
    expected = run_of(write_toy(tmp_path))[1]["cortex.spikes"]
    (tmp_path / "in.csv").write_text(text)
    rewrite(tmp_path / "config.json", lambda c: c["inputs"]["lgn"].update(input_file="in.csv", module="csv"))
    assert (run_of(tmp_path / "config.json")[1]["cortex.spikes"].times == expected.times).all()


def test_trains_of_many_windows_spike_in_the_step_that_has_each_time(tmp_path):
    path = write_toy(tmp_path, run={"tstop": 300.0, "dt": 0.1})
    times = np.unique(np.random.default_rng(1).integers(1, 3000, 900)) / 10
    (tmp_path / "in.h5").unlink()
    write_spikes(tmp_path / "in.h5", "lgn", [*times, 100.01], [0] * times.size + [1])
    spikes = run_of(path, ["lgn.spikes"])[1]["lgn.spikes"]
    np.testing.assert_allclose(spikes.of([0]).times + 0.1, times)
    np.testing.assert_allclose(spikes.of([1]).times + 0.1, [100.1])


def test_groups_come_before_types_and_nodes_of_several_models_become_several_populations(tmp_path):
    types = {1: {"model_type": "point_neuron", "model_template": "nest:iaf_psc_exp", "dynamics_params": "p.json"}}
    types[2] = types[1] | {"model_template": "nest:iaf_psc_delta"}
    (tmp_path / "p.json").write_text('{"V_th": -50.0}')
    write_types(tmp_path / "n.csv", "node_type_id", types)
    groups = ([0, 1, 0, 1], [1, 0, 0, 1])
    write_nodes(tmp_path / "n.h5", "v1", [1, 2, 1, 1], ids=[30, 10, 20, 40], groups=groups, attributes={0: {}, 1: {}})
    with h5py.File(tmp_path / "n.h5", "a") as file:
        file["nodes/v1/0/dynamics_params/V_th"] = [-40.0, -41.0]
    write_types(tmp_path / "e.csv", "edge_type_id", {5: {"syn_weight": 2.0, "delay": 1.0}})
    attributes = {0: {"syn_weight": [7.0, -8.0]}, 1: {"delay": [3.0, 4.0]}}
    ends = {"ends": ("v1", "v1"), "groups": ([1, 0, 1, 0], [1, 1, 0, 0]), "attributes": attributes}
    write_edges(tmp_path / "e.h5", "e", [30, 10, 20, 40], [20, 30, 10, 30], [5, 5, 5, 5], **ends)
    files = {"nodes": [{"nodes_file": "n.h5", "node_types_file": "n.csv"}]}
    files["edges"] = [{"edges_file": "e.h5", "edge_types_file": "e.csv"}]
    (tmp_path / "c.json").write_text(json.dumps({"networks": files, "components": {"point_neuron_models_dir": "."}}))
    model = be.read_sonata(tmp_path / "c.json", dt=0.5)
    assert {name: (of, ids.tolist()) for name, (of, ids) in model.nodes.items()} == {
        "v1:iaf_psc_exp": ("v1", [30, 20, 40]),
        "v1:iaf_psc_delta": ("v1", [10]),
    }
    assert model.populations["v1:iaf_psc_exp"].params["threshold"].tolist() == [-41.0, -40.0, -50.0]
    sim = model.build(threads=1)
    found = {}
    for name in model.network.projection_names:
        one = sim.connections(name)
        parts = name.removeprefix("e:").split("->")
        ids = [model.nodes[part.removesuffix(".exc").removesuffix(".inh").removesuffix(".syn")][1] for part in parts]
        for s, t, w, d in zip(one.sources, one.targets, one.weights, one.delays, strict=True):
            found[int(ids[0][s]), int(ids[1][t])] = (float(w), float(d))
    assert found == {(30, 20): (2.0, 4.0), (10, 30): (-8.0, 1.0), (20, 10): (2.0, 3.0), (40, 30): (7.0, 1.0)}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_edges_come_back_as_they_were_written(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("edges")
    size, count, groups = (data.draw(st.integers(1, most)) for most in (6, 30, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    ids = rng.choice(data.draw(st.sampled_from([size, 50, 2**40])), size, replace=False)
    source, target, of = rng.choice(ids, count), rng.choice(ids, count), rng.integers(0, groups, count)
    weights, delays, nsyns = (rng.integers(1, 60, count) for _ in range(3))
    weights = weights * rng.choice([1, -1], count)
    index, attributes = np.zeros(count, int), {}
    for number in range(groups):
        index[of == number] = rng.permutation((of == number).sum())
        order = np.argsort(index[of == number])
        columns = {"syn_weight": weights, "delay": delays / 2, "nsyns": nsyns}
        attributes[number] = {key: values[of == number][order] for key, values in columns.items()}
    write_nodes(folder / "n.h5", "n", [1] * size, ids=ids)
    write_types(folder / "n.csv", "node_type_id", {1: {"model_template": "nest:iaf_psc_exp"}})
    write_edges(
        folder / "e.h5", "e", source, target, [1] * count, ends=("n", "n"), groups=(of, index), attributes=attributes
    )
    write_types(folder / "e.csv", "edge_type_id", {1: {"syn_weight": 1.0, "delay": 9.0}})
    files = {"nodes": [{"nodes_file": "n.h5", "node_types_file": "n.csv"}]}
    files["edges"] = [{"edges_file": "e.h5", "edge_types_file": "e.csv"}]
    (folder / "c.json").write_text(json.dumps({"networks": files}))
    found = []
    for projection in be.read_sonata(folder / "c.json").network.projections:
        matrix, delay = projection.connect, projection.delay
        w, d = (np.broadcast_to(np.asarray(x), matrix.row.shape) for x in (matrix.data, delay))
        assert projection.into == ("exc" if (w >= 0).all() else "inh")
        found += zip(ids[np.asarray(matrix.row)], ids[np.asarray(matrix.col)], w, d, strict=True)
    assert sorted(found) == sorted(zip(source, target, weights * nsyns, delays / 2, strict=True))


@pytest.mark.parametrize(
    ("given_set", "expected"),
    [
        ("two", [1, 0, 1, 0, 0]),
        ("cortex", [1, 1, 1, 1, 1]),
        (["two", {"ei": "i"}], [1, 0, 1, 0, 1]),
        ({"population": "cortex", "ei": ["i", "x"]}, [0, 0, 0, 0, 1]),
        ({"population": "cortex", "ei": {"$regex": "^e$"}}, [1, 1, 1, 1, 0]),
        ({"population": "cortex", "node_type_id": 101}, [0, 0, 0, 0, 1]),
        ({"population": "cortex", "node_id": {"$gte": 1, "$lt": 4}}, [0, 1, 1, 1, 0]),
    ],
)
def test_a_current_clamp_drives_the_nodes_of_its_set(tmp_path, given_set, expected):
    path = write_toy(tmp_path)
    rewrite(path, lambda c: c["inputs"]["clamp"].update(node_set=given_set))
    amplitude = be.read_sonata(path).populations["cortex"].params["clamp0_amplitude"]
    assert np.broadcast_to(amplitude, 5).tolist() == [600.0 * one for one in expected]


def changed(section, **values):
    return lambda c: c[section].update(values)


def inputs(name, **values):
    return lambda c: c["inputs"][name].update(values)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed("run", tstart=5.0), "tstart is 5.0; only runs that begin at 0"),
        (changed("run", dt=-1), "dt is -1; it must be a positive number of ms"),
        (lambda c: c.update(target_simulator="NEURON"), "target_simulator is 'NEURON'; only point neurons of NEST"),
        (lambda c: c.pop("networks"), "has neither 'networks' nor 'network'"),
        (
            changed("manifest", **{"$MODELS": "$BASE/models"}),
            r"\$BASE is not in the manifest; did you mean '\$BASE_DIR'",
        ),
        (changed("manifest", **{"$BASE_DIR": "$MODELS"}), "refers to itself"),
        (
            changed("components", point_neuron_models_dir="nowhere"),
            r"type 100: .*nowhere/exc.json, which does not exist",
        ),
        (inputs("lgn", input_file="missing.h5"), "inputs lgn: .*missing.h5 does not exist"),
        (inputs("lgn", module="nwb"), "inputs lgn: module 'nwb' cannot be read"),
        (inputs("lgn", node_set="cortex"), "has no spikes of cortex"),
        (inputs("clamp", node_set="lgn"), "nodes of lgn are virtual; a current needs point neurons"),
        (inputs("clamp", node_set={"node_id": [0.7]}), r"node_id \[0.7\]; it must be an integer, or a list of them"),
        (lambda c: c["inputs"].update(lgn="in.h5"), "inputs lgn is 'in.h5'; it must be an object with input_type"),
        (lambda c: c["networks"].update(nodes=["n.h5"]), r"nodes is \['n.h5'\]; it must be a list of objects with"),
        (lambda c: c.update(node_sets=["two"]), r"node_sets is \['two'\]; it must be an object"),
        (inputs("clamp", node_set="tow"), "there is no node set 'tow'; did you mean 'two'"),
        (inputs("clamp", node_set={"layer": 4}), "no node has the attribute 'layer'"),
        (inputs("clamp", amp=None), "amp is None; it must be a number"),
        (inputs("clamp", input_type="voltage_clamp"), "input_type 'voltage_clamp' with module 'IClamp' cannot be read"),
        (lambda c: c.update(node_set="two"), "node_set 'two' leaves out nodes of cortex"),
        (lambda c: (c["networks"]["nodes"].pop(), c["inputs"].pop("lgn")), "source_node_id is of the population 'lgn'"),
    ],
)
def test_errors_of_a_config_name_what_is_wrong(tmp_path, change, says):
    path = rewrite(write_toy(tmp_path), change)
    with pytest.raises(be.NetworkError, match=says):
        be.read_sonata(path)


def replaced(file, old, new):
    def change(folder):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return change


def in_h5(file, change):
    def changes(folder):
        with h5py.File(folder / file, "a") as opened:
            change(opened)

    return changes


def set_to(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            replaced("cortex_types.csv", "point_neuron", "biophysical"),
            "nodes cortex: type 100 has the model_type 'bioph",
        ),
        (
            replaced("cortex_types.csv", "psc_alpha", "psc_alhpa"),
            "'nest:iaf_psc_alhpa'; did you mean 'nest:iaf_psc_alpha'",
        ),
        (
            replaced("cortex_types.csv", "101 ", "102 "),
            "node 4 has the node_type_id 101, which .*cortex_types.csv does not",
        ),
        (replaced("cortex_types.csv", "node_type_id", "id"), "has no column 'node_type_id'"),
        (
            replaced("cc_types.csv", "static_synapse", "stdp_synapse"),
            "edges cc: type 1 has the model_template 'stdp_syn",
        ),
        (
            replaced("cc_types.csv", "delay", "dealy"),
            "edges cc: type 1 has no 'delay'; add it to .*cc_types.csv or to group",
        ),
        (replaced("cc_types.csv", "400.0", "many"), "syn_weight of type 1 is 'many'"),
        (replaced("lc_types.csv", "target_query", "weight_function"), "type 3 has the weight_function \"ei == 'e'\""),
        (
            replaced("models/exc.json", "V_th", "V_thresh"),
            "iaf_psc_alpha has no parameter 'V_thresh'; did you mean 'V_reset'|'V_th'",
        ),
        (replaced("models/exc.json", "-52.0", '"high"'), "V_th is 'high'; it must be a number"),
        (replaced("models/static.json", "{}", '{"tau_psc": 2.0}'), "static.json: has tau_psc = 2.0"),
        (
            replaced("models/static.json", "{}", '{"receptor_type": 1}'),
            "has a receptor_type, but iaf_psc_alpha has none",
        ),
        (replaced("models/inh.json", "150.0", "-1.0"), "C_m is -1.0; it must be above 0"),
        (
            replaced("models/inh.json", "}", ', "V_min": -90.0}'),
            "V_min of iaf_psc_alpha is -90; only -inf is supported",
        ),
        (replaced("models/inh.json", "}", ""), "inh.json is not JSON"),
        (in_h5("cc.h5", set_to("edges/cc/target_node_id", np.arange(6))), "has no attribute node_population"),
        (in_h5("cc.h5", lambda f: f.__delitem__("edges/cc/edge_type_id")), "has no dataset '/edges/cc/edge_type_id'"),
        (
            in_h5("cc.h5", lambda f: f["edges/cc/source_node_id"].write_direct(np.full(6, 9, np.uint64))),
            "node 9, which cor",
        ),
        (in_h5("lc.h5", lambda f: f.__delitem__("edges/lc/0/syn_weight")), "type 3 has no 'syn_weight'"),
        (in_h5("lc.h5", set_to("edges/lc/0/syn_weight", np.ones((8, 2)))), r"has the shape \(8, 2\); it must have one"),
        (in_h5("lc.h5", set_to("edges/lc/0/nsyns", np.arange(8) - 2)), "edge 0 has nsyns -2; it must not be negative"),
        (
            in_h5("lc.h5", lambda f: f["edges/lc/0"].create_dataset("dynamics_params/syn_weight", data=[1.0] * 8)),
            "lc/0/dynamics_params' of .*lc.h5 has syn_weight, which cannot be read there; store",
        ),
        (
            in_h5(
                "cortex_nodes.h5", lambda f: f["nodes/cortex/0"].create_dataset("dynamics_params/V_th", data=[1.0] * 3)
            ),
            r"V_th' of .*cortex_nodes.h5 has the shape \(3,\); it must have an element for each node",
        ),
        (
            in_h5(
                "cortex_nodes.h5", lambda f: f["nodes/cortex/0"].create_dataset("dynamics_params/V_th", data=["a"] * 5)
            ),
            "V_th is .*; it must be a number",
        ),
        (in_h5("lc.h5", set_to("edges/lc/edge_group_index", np.arange(1, 9))), "has 8 elements, but 9 are used"),
        (
            in_h5("lc.h5", set_to("edges/lc/edge_group_id", np.arange(8) // 4)),
            "has no group '/edges/lc/1', which is used",
        ),
        (in_h5("in.h5", set_to("spikes/lgn/timestamps", np.full(6, -1.0))), "spike 0 is at -1.0 ms"),
        (in_h5("in.h5", set_to("spikes/lgn/node_ids", np.full(6, 4))), "node 4, which lgn does not have"),
        (in_h5("in.h5", lambda f: f.move("spikes/lgn", "spikes/lng")), "has spikes of 'lng'; populations: cortex, lgn"),
        (lambda folder: (folder / "cc.h5").write_text("text"), "cc.h5 is not an HDF5 file"),
    ],
)
def test_errors_of_files_name_the_file_and_the_type(tmp_path, change, says):
    path = write_toy(tmp_path)
    change(tmp_path)
    with pytest.raises(be.NetworkError, match=says):
        be.read_sonata(path)


def stored_as(path, name, make):
    """Store a dataset of a file in another way, with its attributes."""
    with h5py.File(path, "r+") as file:
        numbers, attributes = file[name][()], dict(file[name].attrs)
        del file[name]
        file[name] = make(numbers)
        file[name].attrs.update({key: np.array([one], h5py.string_dtype()) for key, one in attributes.items()})


IDS = [("cc.h5", "edges/cc/source_node_id"), ("cc.h5", "edges/cc/edge_type_id"), ("in.h5", "spikes/lgn/node_ids")]
IDS += [("cortex_nodes.h5", "nodes/cortex/node_group_index"), ("cortex_nodes.h5", "nodes/cortex/node_type_id")]


def test_ids_may_be_floats_and_attributes_arrays(tmp_path):
    path = write_toy(tmp_path)
    before = run_of(path)[1]["cortex.spikes"]
    for file, name in IDS:
        stored_as(tmp_path / file, name, lambda numbers: numbers.astype(np.float64))
    after = run_of(path)[1]["cortex.spikes"]
    assert after.times.tolist() == before.times.tolist()
    assert after.neurons.tolist() == before.neurons.tolist()


@pytest.mark.parametrize(("file", "name"), IDS)
def test_ids_that_are_no_integers_raise(tmp_path, file, name):
    path = write_toy(tmp_path)
    stored_as(tmp_path / file, name, lambda numbers: numbers + 0.4)
    with pytest.raises(be.NetworkError, match=f"dataset '/{name}' of .*{file} holds no integers"):
        be.read_sonata(path)


def test_late_spikes_are_in_the_step_in_which_they_are(tmp_path):
    times = np.array([0.04, 60_000.0, 60_000.04, 100_000.01, 100_000.1, 100_000.14])  # at dt = 0.1 ms
    wanted = [0, 599_999, 600_000, 1_000_000, 1_000_000, 1_000_001]
    for dtype, unit in (("float64", "ms"), ("float64", "s"), ("float32", "ms")):
        with h5py.File(tmp_path / "spikes.h5", "w") as file:
            group = file.create_group("spikes/cells")
            group["timestamps"] = (times / (1000 if unit == "s" else 1)).astype(dtype)
            group["timestamps"].attrs["units"] = unit
            group["node_ids"] = np.arange(times.size)
        ((found, _),) = read_trains("here", tmp_path / "spikes.h5").values()
        steps = steps_of_times("here", found, 0.1)
        exact = slice(None) if dtype == "float64" else [0, 1, 2, 4, 5]  # 100000.01 has a float32 0.08 steps away
        assert steps[exact].tolist() == np.array(wanted)[exact].tolist()


def test_delays_that_are_no_multiples_of_the_step_raise_when_it_is_built(tmp_path):
    model = be.read_sonata(write_toy(tmp_path), dt=0.4)
    with pytest.raises(be.NetworkError, match=r"1\.5 ms, not a multiple of dt=0\.4 ms"):
        model.build(threads=1)
    assert model.build(threads=1, round_delays=True).steps == 0


@pytest.mark.parametrize(
    ("spikes", "how", "says"),
    [
        ({"a": 1}, {}, "there are no spikes"),
        ({"a": be.Spikes.from_dense(np.eye(2), dt=1.0)}, {"sorting": "time"}, "sorting is 'time'"),
        (
            {"a": be.Spikes.from_dense(np.eye(2), dt=1.0)},
            {"nodes": {"a": ("b", [1])}},
            "a has 2 neurons, but nodes has 1",
        ),
        ({"a": be.Spikes.from_dense(np.eye(2), dt=1.0)}, {"nodes": {}}, "none of a is among nodes"),
        *(
            (
                {"a": be.Spikes.from_dense(np.eye(2), dt=1.0)},
                {"nodes": {"a": ("b", ids)}},
                "ids of a that are no integers",
            )
            for ids in ([0, -1], [0.0, 1.5])
        ),
    ],
)
def test_what_is_no_file_of_spikes_is_not_written(tmp_path, spikes, how, says):
    with pytest.raises(be.NetworkError, match=says):
        be.write_sonata_spikes(tmp_path / "s.h5", spikes, **how)
    assert not (tmp_path / "s.h5").exists()


def test_spikes_of_parts_are_those_of_their_population(tmp_path):
    model, result = run_of(write_toy(tmp_path), ["cortex[2:4].spikes", "cortex[3:].spikes", "lgn.spikes"])
    model.write_spikes(tmp_path / "out.h5", result)
    times, ids = written(tmp_path / "out.h5", "cortex")
    assert list(zip(times, ids, strict=True)) == [one for one in NEST if one[1] >= 2]


def test_spikes_of_old_files_have_units_too(tmp_path):
    path = write_toy(tmp_path)
    (tmp_path / "in.h5").unlink()
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["spikes/timestamps"], file["spikes/gids"] = [0.02, 0.005], [0, 1]
        file["spikes/timestamps"].attrs["units"] = "s"
    np.testing.assert_allclose(run_of(path, ["lgn.spikes"])[1]["lgn.spikes"].times + 0.1, [5.0, 20.0])


def test_spikes_sorted_by_id(tmp_path):
    spikes = be.Spikes.from_events([0, 1, 3], [2, 0, 0], size=3, dt=0.5, n_steps=4)
    be.write_sonata_spikes(tmp_path / "s.h5", {"a.spikes": spikes, "a.v": np.zeros(3)}, sorting="by_id")
    assert written(tmp_path / "s.h5", "a") == ([1.0, 2.0, 0.5], [0, 0, 2])


def test_importing_brainevent_imports_no_h5py_and_without_it_the_error_says_what_to_install(monkeypatch):
    code = "import brainevent, sys; brainevent.read_sonata; sys.exit('h5py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"read_sonata: needs the package h5py; install it with `pip install h5py"):
        be.read_sonata("config.json")


@pytest.mark.parametrize(
    ("given_path", "says"), [(None, "config is None; pass the path"), ("no.json", "no.json does not")]
)
def test_a_config_is_the_path_of_a_file(given_path, says):
    with pytest.raises(be.NetworkError, match=says):
        be.read_sonata(given_path)


@pytest.mark.parametrize(("receptor", "says"), [(None, "no receptor_type"), (2, "the receptor_type 2")])
def test_edges_into_glif_neurons_need_a_receptor_type_that_they_have(tmp_path, receptor, says):
    path = write_toy(tmp_path, inputs={})
    replaced("cortex_types.csv", "nest:iaf_psc_alpha", "nest:glif_psc")(tmp_path)
    for name in ("exc", "inh"):
        (tmp_path / "models" / f"{name}.json").write_text("{}")
    (tmp_path / "models" / "static.json").write_text(
        json.dumps({} if receptor is None else {"receptor_type": receptor})
    )
    with pytest.raises(
        be.NetworkError, match=f"edges cc: an edge to node 4 has {says}, but its glif_psc has 1 tau_syn"
    ):
        be.read_sonata(path)
