# SPDX-License-Identifier: Apache-2.0
"""Write small networks as files of SONATA, as its documents describe them."""

import json

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

CLAMP = {"input_type": "current_clamp", "module": "IClamp", "node_set": "two"}
CLAMP |= {"amp": 600.0, "delay": 30.0, "duration": 40.0}


def write_types(path, key, rows):
    """Write a csv file of types: a dictionary for each, by id."""
    names = sorted({name for row in rows.values() for name in row})
    quoted = lambda value: f'"{value}"' if " " in str(value) else str(value)
    lines = [" ".join([key, *names])]
    lines += [" ".join([str(id_), *(quoted(row.get(name, "NULL")) for name in names)]) for id_, row in rows.items()]
    path.write_text("\n".join(lines) + "\n")


def write_nodes(path, name, type_ids, *, ids=None, groups=None, attributes=None):
    """Write a population of nodes; `groups` has (group, index) of each, `attributes` those of each group."""
    _write(path, f"nodes/{name}", "node", type_ids, groups, attributes, {} if ids is None else {"node_id": ids})


def write_edges(path, name, source, target, type_ids, *, ends, groups=None, attributes=None):
    """Write a population of edges between two populations of nodes."""
    more = {"source_node_id": source, "target_node_id": target}
    _write(path, f"edges/{name}", "edge", type_ids, groups, attributes, more)
    with h5py.File(path, "a") as file:
        for end, population in zip(("source", "target"), ends, strict=True):
            file[f"edges/{name}/{end}_node_id"].attrs["node_population"] = population


def _write(path, where, kind, type_ids, groups, attributes, more):
    count = len(type_ids)
    group_ids, places = groups or (np.zeros(count, int), np.arange(count))
    with h5py.File(path, "a") as file:
        group = file.create_group(where)
        given = {f"{kind}_type_id": type_ids, f"{kind}_group_id": group_ids, f"{kind}_group_index": places}
        for key, values in {**given, **more}.items():
            group[key] = np.asarray(values, np.uint64)
        for number, columns in (attributes or {0: {}}).items():
            inner = group.create_group(str(number))
            for key, values in columns.items():
                inner[key] = values


def write_spikes(path, name, times, ids):
    with h5py.File(path, "a") as file:
        file[f"spikes/{name}/timestamps"] = np.asarray(times, float)
        file[f"spikes/{name}/node_ids"] = np.asarray(ids, np.uint64)


def write_toy(folder, **config):
    """Write a cortex of four exc and one inh neuron that two virtual nodes drive; return the path of its config.

    Sections in `config` replace those of the config; None removes one.
    """
    write_nodes(folder / "cortex_nodes.h5", "cortex", [100] * 4 + [101])
    point = {"model_type": "point_neuron", "model_template": "nest:iaf_psc_alpha"}
    types = {
        100: point | {"ei": "e", "dynamics_params": "exc.json"},
        101: point | {"ei": "i", "dynamics_params": "inh.json"},
    }
    write_types(folder / "cortex_types.csv", "node_type_id", types)
    write_nodes(folder / "lgn_nodes.h5", "lgn", [7, 7])
    write_types(folder / "lgn_types.csv", "node_type_id", {7: {"model_type": "virtual"}})
    source, target = [0, 1, 2, 3, 4, 4], [4, 4, 4, 4, 0, 1]
    write_edges(folder / "cc.h5", "cc", source, target, [1, 1, 1, 1, 2, 2], ends=("cortex", "cortex"))
    static = {"model_template": "static_synapse", "dynamics_params": "static.json"}
    types = {1: static | {"syn_weight": 400.0, "delay": 1.5}, 2: static | {"syn_weight": -300.0, "delay": 2.0}}
    write_types(folder / "cc_types.csv", "edge_type_id", types)
    attributes = {0: {"syn_weight": np.linspace(900, 1600, 8), "nsyns": [1, 2] * 4}}
    source, target = np.divmod(np.arange(8), 4)
    write_edges(folder / "lc.h5", "lc", source, target, [3] * 8, ends=("lgn", "cortex"), attributes=attributes)
    write_types(folder / "lc_types.csv", "edge_type_id", {3: static | {"delay": 1.0, "target_query": "ei == 'e'"}})
    write_spikes(folder / "in.h5", "lgn", [20.0, 5.0, 5.0, 5.1, 60.0, 0.1], [0, 1, 1, 0, 1, 0])
    (folder / "models").mkdir()
    for name, values in (("exc", {"tau_syn_ex": 1.5, "V_th": -52.0}), ("inh", {"C_m": 150.0}), ("static", {})):
        (folder / "models" / f"{name}.json").write_text(json.dumps(values))
    whole = {
        "manifest": {"$BASE_DIR": "${configdir}", "$MODELS": "$BASE_DIR/models"},
        "run": {"tstop": 100.0, "dt": 0.1},
        "target_simulator": "NEST",
        "components": {"point_neuron_models_dir": "$MODELS", "synaptic_models_dir": "$MODELS"},
        "node_sets": {"two": {"population": "cortex", "node_id": [0, 2]}},
        "inputs": {
            "lgn": {"input_type": "spikes", "module": "h5", "input_file": "$BASE_DIR/in.h5", "node_set": "lgn"},
            "clamp": CLAMP,
        },
        "networks": {
            "nodes": [
                _files("node", "cortex_nodes.h5", "cortex_types.csv"),
                _files("node", "lgn_nodes.h5", "lgn_types.csv"),
            ],
            "edges": [_files("edge", "cc.h5", "cc_types.csv"), _files("edge", "lc.h5", "lc_types.csv")],
        },
    }
    whole = {key: value for key, value in {**whole, **config}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(whole))
    return folder / "config.json"


def _files(kind, h5, csv):
    return {f"{kind}s_file": f"$BASE_DIR/{h5}", f"{kind}_types_file": f"$BASE_DIR/{csv}"}
