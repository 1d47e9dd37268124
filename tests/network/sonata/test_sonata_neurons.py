# SPDX-License-Identifier: Apache-2.0
"""Point neurons from SONATA files spike at the times at which those of NEST 3.10 do."""

import json

import numpy as np
import pytest
from sonata_files import write_edges, write_nodes, write_spikes, write_types

import brainevent as be
from brainevent.network.sonata.neurons.current import alpha_gain

# Spikes of NEST 3.10, by hand in PyNEST: two spike generators with delays of 1.0 and 1.5 ms, for 100 ms.
NEST = {
    "iaf_psc_delta": [14.7, 29.0, 43.3, 57.6, 71.9, 86.2],
    "iaf_psc_exp": [16.7, 31.7, 46.3, 60.7, 75.0, 89.3],
    "iaf_psc_alpha": [18.4, 32.8, 47.1, 61.4, 75.6, 89.8],
    "iaf_cond_exp": [22.7, 35.9, 48.9, 60.7, 73.4, 86.5, 99.6],
    "iaf_cond_alpha": [12.7, 18.7, 24.8, 31.1, 37.4, 43.7, 50.0, 56.1, 62.0, 68.0, 74.2, 80.5, 86.8, 93.1, 99.3],
    "glif_lif_psc": [10.5, 18.4, 26.3, 34.2, 42.2, 50.2, 58.2, 66.2, 74.2, 82.2, 90.2, 98.2],
    "glif_lif_r_psc": [
        10.5,
        15.1,
        19.7,
        24.4,
        29.2,
        34.0,
        38.9,
        43.9,
        48.9,
        53.9,
        59.0,
        64.2,
        69.4,
        74.6,
        79.9,
        85.2,
        90.5,
        95.9,
    ],
    "glif_lif_asc_psc": [10.5, 21.1, 33.3, 46.1, 59.2, 72.5, 86.0, 99.8],
    "glif_lif_r_asc_psc": [10.5, 16.5, 25.9, 36.6, 47.6, 59.0, 70.7, 82.8, 95.4],
    "glif_lif_r_asc_a_psc": [10.6, 16.9, 26.9, 38.2, 49.8, 61.8, 74.2, 87.1],
}
WEIGHTS = {"iaf_psc_delta": (2.5, -2.0), "iaf_psc_exp": (300.0, -150.0), "iaf_psc_alpha": (120.0, -100.0)}
WEIGHTS |= {"iaf_cond_exp": (6.0, -4.0), "iaf_cond_alpha": (4.0, -3.0)}


@pytest.fixture
def spikes_of(tmp_path):
    """Return the spike times of one neuron that both trains drive, as a function of its model."""

    def run(name):
        glif = name.startswith("glif")
        params = {"tau_syn": [2.0, 5.0]} if glif else {"I_e": 100.0}
        params |= {"tau_syn_ex": 1.0} if name.startswith("iaf_cond") else {}
        (tmp_path / "neuron.json").write_text(json.dumps(params))
        (tmp_path / "first.json").write_text(json.dumps({"receptor_type": 1} if glif else {}))
        (tmp_path / "second.json").write_text(json.dumps({"receptor_type": 2} if glif else {}))
        write_nodes(tmp_path / "n.h5", "n", [1])
        point = {"model_type": "point_neuron", "model_template": f"nest:{name}", "dynamics_params": "neuron.json"}
        write_types(tmp_path / "n.csv", "node_type_id", {1: point})
        write_nodes(tmp_path / "in.h5", "in", [1, 1])
        write_types(tmp_path / "in.csv", "node_type_id", {1: {"model_type": "virtual"}})
        first, second = WEIGHTS.get(name, (140.0, -30.0))
        edges = {1: {"syn_weight": first, "delay": 1.0, "dynamics_params": "first.json"}}
        edges[2] = {"syn_weight": second, "delay": 1.5, "dynamics_params": "second.json"}
        write_edges(tmp_path / "e.h5", "e", [0, 1], [0, 0], [1, 2], ends=("in", "n"))
        write_types(tmp_path / "e.csv", "edge_type_id", edges)
        trains = [np.round(np.arange(2.0, 100, 1.3), 1), np.round(np.arange(3.0, 100, 7.1), 1)]
        write_spikes(tmp_path / "s.h5", "in", np.concatenate(trains), np.repeat([0, 1], [len(t) for t in trains]))
        nodes = [{"nodes_file": f"{k}.h5", "node_types_file": f"{k}.csv"} for k in ("n", "in")]
        config = {"networks": {"nodes": nodes, "edges": [{"edges_file": "e.h5", "edge_types_file": "e.csv"}]}}
        config["inputs"] = {"s": {"input_type": "spikes", "module": "h5", "input_file": "s.h5", "node_set": "in"}}
        config["components"] = {"point_neuron_models_dir": ".", "synaptic_models_dir": "."}
        (tmp_path / "c.json").write_text(json.dumps(config))
        model = be.read_sonata(tmp_path / "c.json")
        return model.build(threads=1, dtype="float64").run(1000, record="n.spikes")["n.spikes"].times + 0.1

    return run


@pytest.mark.parametrize("name", NEST)
def test_neurons_spike_at_the_times_of_nest(spikes_of, name):
    np.testing.assert_allclose(spikes_of(name), NEST[name], atol=1e-9)


@pytest.mark.parametrize("tau_in", [0.5, 9.0, 9.999999, 10.0, 10.5, 40.0])
def test_the_gain_of_an_alpha_current_is_the_integral_that_it_says(tau_in):
    dt, tau = 0.7, 10.0
    s = (np.arange(200_000) + 0.5) * dt / 200_000
    integral = np.mean(s / tau * np.exp(-s / tau_in - (dt - s) / tau)) * dt
    assert alpha_gain(dt, tau, tau_in) == pytest.approx(integral, rel=1e-9)


def test_after_spike_currents_begin_at_asc_init():
    from brainevent.network.sonata.neurons.table import NEURONS

    neuron = NEURONS["glif_lif_asc_psc"]
    values = {key: np.array([default], float) for key, default in neuron.defaults.items()}
    values["asc_init"] = np.array([[50.0, 0.0]])
    population = neuron.make("n", 1, values, 0.1)
    v = be.Network([population]).build(threads=1, backend="interpreted").run(1, record="n.v")["n.v"]
    mean = 50.0 * -np.expm1(-0.0003) / 0.0003
    assert v[0, 0] + 78.85 == pytest.approx(mean / 9.43 * -np.expm1(-0.1 * 9.43 / 58.72), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"adapting_threshold": [1.0]}, "adapting_threshold needs spike_dependent_threshold and after_spike_currents"),
        ({"asc_amps": [[1.0, 2.0, 3.0]], "after_spike_currents": [1.0]}, "asc_init has 2, .* asc_amps has 3"),
        ({"asc_decay": [[0.0, 1.0]], "after_spike_currents": [1.0]}, "asc_decay must be above 0"),
        ({"C_m": [0.0]}, "C_m is 0.0; it must be above 0"),
    ],
)
def test_parameters_that_make_no_glif_neuron_are_refused(changes, says):
    from brainevent.network.sonata.neurons.table import NEURONS

    neuron = NEURONS["glif_psc"]
    values = {key: np.array([default], float) for key, default in neuron.defaults.items()}
    with pytest.raises(be.NetworkError, match=says):
        neuron.make("n", 1, values | {key: np.array(value) for key, value in changes.items()}, 0.1)
