# SPDX-License-Identifier: Apache-2.0
"""Networks are written as graphs that do the same when they are read; what NIR does not have is named."""

from pathlib import Path

import numpy as np
import pytest
from test_references import NAMES, ran

import brainevent as be
from brainevent.errors import NetworkError

nir = pytest.importorskip("nir")

FOLDER = Path(__file__).parents[2] / "data" / "nir"


@pytest.mark.parametrize(("name", "method"), [(name, ("euler", "exact")[k % 2]) for k, name in enumerate(NAMES)])
def test_a_graph_that_was_read_is_written_and_read_again(name, method, tmp_path):
    data = np.load(FOLDER / f"{name}.npz")
    how = {"dt": float(data["dt"]), "method": method}
    once = be.from_nir(FOLDER / f"{name}.nir", **how)
    nir.write(tmp_path / "again.nir", be.to_nir(once))
    again = be.from_nir(tmp_path / "again.nir", **how)
    assert [*again.latency.values()] == [*once.latency.values()]
    x = data["x"][:15]
    np.testing.assert_array_equal(ran(again, x, backend="interpreted"), ran(once, x, backend="interpreted"))


def test_ready_models_do_the_same_from_a_graph():
    cells = be.models.lif_delta("cells", 4, tau=np.array([5.0, 10, 15, 20]), refractory=0, current=50.0)
    copies = be.models.relay("copies", 4)
    network = be.Network(
        [cells, copies],
        [
            be.Projection(cells, copies, be.connect.one_to_one(), into="spikes", delay=0.3),
            be.Projection(copies, cells, be.connect.all_to_all(weight=be.uniform(-1, 0)), into="syn", delay=0.2),
            be.Projection(cells, cells, np.roll(np.eye(4), 1, 1) * 0.5, into="syn"),
        ],
    )
    spikes = network.build(3, backend="interpreted").run(400, record=["cells.spikes", "copies.spikes"])
    read = be.from_nir(be.to_nir(network, seed=3), method="exact")
    again = read.build(backend="interpreted").run(401, record=["cells.spikes", "copies.spikes"])
    for name in ("cells", "copies"):
        assert read.latency[name] == 1  # after its input
        assert spikes[f"{name}.spikes"].counts.min() > 0
        np.testing.assert_array_equal(again[f"{name}.spikes"].todense()[1:], spikes[f"{name}.spikes"].todense())


def test_synapses_of_parts_are_in_the_matrices_of_their_populations():
    cells = be.models.lif_delta("cells", 4, refractory=0)
    copies = be.models.relay("copies", 3)
    synapses = be.Projection(copies[[2, 0]], cells[1:3], np.array([[1.0, 2], [3, 4]]), into="syn")
    graph = be.to_nir(be.Network([cells, copies], [synapses]))
    (weight,) = (node.weight for name, node in graph.nodes.items() if name.startswith("copies_to"))
    expected = np.zeros((4, 3))
    expected[1:3, [2, 0]] = np.array([[1, 3], [2, 4]])
    np.testing.assert_allclose(weight * (1 - np.exp(-0.1 / 20)), expected, rtol=1e-6)


def test_an_input_of_a_ready_model_has_the_same_effect():
    cells = be.models.lif_delta("cells", 2, refractory=0)
    kick = np.zeros((50, 2), np.float32)
    kick[::5] = [6.0, 9.0]
    network = be.Network([cells])
    spikes = network.build(backend="interpreted").run(50, inputs={"cells.syn": kick}, record="cells.spikes")
    read = be.from_nir(be.to_nir(network), method="exact").build(backend="interpreted")
    again = read.run(51, inputs={"input_cells.x": np.concatenate([kick, kick[:1]])}, record="cells.spikes")
    np.testing.assert_array_equal(again["cells.spikes"].todense()[1:], spikes["cells.spikes"].todense())
    assert spikes["cells.spikes"].counts.tolist() == [4, 4]


def test_a_simulation_is_written_as_it_is_now():
    lif = nir.LIF(*(np.full(2, value) for value in (0.01, 1.0, 0.0, 0.5)))
    network = be.from_nir(nir.NIRGraph.from_list(nir.Linear(np.eye(2)), lif), dt=1)
    simulation = network.build(backend="interpreted")
    simulation.set("lif", v_threshold=0.25, gain=0.2)
    simulation.set("input->lif.input", weights=[2.0, 3.0])
    graph = be.to_nir(simulation)
    np.testing.assert_allclose(graph.nodes["lif"].v_threshold, 0.25)
    np.testing.assert_allclose(graph.nodes["lif"].tau, 0.005, rtol=1e-6)
    np.testing.assert_array_equal(graph.nodes["input_to_lif"].weight, [[2, 0], [0, 3]])


def plain(name="cells", **how):
    return be.models.lif_delta(name, 2, **{"refractory": 0, **how})


def self_connected(cells, **how):
    return be.Network([cells], [be.Projection(cells, cells, np.eye(2), into="syn", **how)])


def node(kind):
    values = dict.fromkeys(("tau_syn", "tau_mem", "r", "v_leak", "v_threshold"), np.ones(2))
    neurons = getattr(nir, kind)(**{name: values[name] for name in values if kind == "CubaLIF" or name in ("r",)})
    return be.from_nir(nir.NIRGraph({"n": neurons}, [], type_check=False))


REFUSED = {
    "rule": (
        lambda: be.Network([be.models.adex("x", 2)]),
        "population x: its rule adex_rule has no node in NIR; those",
    ),
    "refractory": (lambda: be.Network([plain(refractory=1)]), "population cells: refractory is not 0, and NIR has no"),
    "start": (lambda: be.Network([plain(v=5.0)]), "population cells: state v begins at 5.0, and NIR has no initial"),
    "drawn": (lambda: be.Network([plain(v=be.uniform(0, 1))]), "population cells: state v begins at uniform"),
    "plastic": (
        lambda: self_connected(plain(), plasticity=be.plasticity.stdp(w_max=1.0)),
        "projection cells->cells.syn: is plastic, and weights of NIR do not change",
    ),
    "gap": (
        lambda: be.Network([c := plain()], [be.Coupling(c, c, np.eye(2), into="syn", difference=True)]),
        "coupling cells->cells.syn: carries a difference",
    ),
    "state": (
        lambda: be.Network([c := plain()], [be.Coupling(c, c, np.eye(2), into="syn")]),
        "coupling cells->cells.syn: carries the state v of cells, whose node sends spikes alone",
    ),
    "methods": (
        lambda: be.Network([plain(), *node("I").populations]),
        "population cells: lif_delta is the exact solution, but other populations take Euler steps",
    ),
    "no network": (lambda: 3, "network is 3; pass a Network, or a Simulation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_does_not_have_is_named(name):
    make, words = REFUSED[name]
    with pytest.raises(NetworkError, match=f"to_nir: {words}"):
        be.to_nir(make())


def test_factors_that_belong_to_no_time_constant_are_named():
    simulation = node("CubaLIF").build(backend="interpreted")
    simulation.set("n", gain_x=0.5)
    with pytest.raises(NetworkError, match="population n: gain_x does not belong to the time constants"):
        be.to_nir(simulation)
    simulation.set("n", gain=1.5)
    with pytest.raises(NetworkError, match=r"population n: gain is from .* to 1\.5, so that no time constant has this"):
        be.to_nir(simulation)
