# SPDX-License-Identifier: Apache-2.0
"""What graphs become: names, times, nested graphs, convolutions, events; and errors that name the node."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError

nir = pytest.importorskip("nir")


def lif(n=3, tau=0.01, threshold=0.5, **values):
    return nir.LIF(*(np.full(n, value, np.float32) for value in (tau, 1.0, 0.0, threshold)), **values)


def graph(edges, **nodes):
    return nir.NIRGraph(nodes, edges, type_check=False)


def inputs(*shape):
    return nir.Input(np.array(shape))


def outputs(*shape):
    return nir.Output(np.array(shape))


def test_the_package_nir_is_loaded_for_files_alone(tmp_path):
    program = """
import sys, types
sys.modules["nir"] = None
import brainevent, numpy
Input = type("Input", (), {"input_type": {"input": numpy.array([2])}})
NIRGraph = type("NIRGraph", (), {"nodes": {"input": Input()}, "edges": []})
print(brainevent.from_nir(NIRGraph()))
for call in (lambda: brainevent.from_nir("graph.nir"), lambda: brainevent.to_nir(None)):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "Network(2 neurons, 0 projections, dt=0.1)"
    for call, line in zip(("from_nir", "to_nir"), done.stdout.splitlines()[1:], strict=True):
        assert re.fullmatch(rf"{call} needs the package nir, which does not load: .*; run: pip install nir", line)


def test_a_folder_that_is_called_nir_is_not_the_package(tmp_path):
    (tmp_path / "nir").mkdir()
    program = """
import sys, sysconfig
import h5py, brainevent
sys.path = [path for path in sys.path if not path.endswith("site-packages")]
brainevent.from_nir(__file__)
"""
    (tmp_path / "run.py").write_text(program)
    done = subprocess.run([sys.executable, "run.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: from_nir needs the package nir, which does not load: the folder {tmp_path / 'nir'} has "
        "its name; run: pip install nir"
    )


def test_nested_graphs_are_part_of_the_whole(tmp_path):
    inner = graph(
        [("input", "scale"), ("scale", "lif.0"), ("lif.0", "output")],
        input=inputs(3), scale=nir.Scale(np.full(3, 2.0)), **{"lif.0": lif()}, output=outputs(3),
    )  # fmt: skip
    whole = graph([("input", "a"), ("a", "b"), ("b", "output")], input=inputs(3), a=inner, b=inner, output=outputs(3))
    network = be.from_nir(whole, dt=1)
    assert [population.name for population in network.populations] == ["input", "a_lif_0", "b_lif_0"]
    assert network.latency == {"input": 0, "a.lif.0": 1, "b.lif.0": 2, "output": 2}
    assert network.outputs == {"output": "b_lif_0.spikes"}
    nir.write(tmp_path / "nested.nir", whole)
    read = be.from_nir(str(tmp_path / "nested.nir"), dt=1)
    x = {"input.x": np.full((40, 3), [3, 2, 0.2], np.float32)}
    counts = [n.build(backend="interpreted").run(40, inputs=x, record="b_lif_0.counts") for n in (network, read)]
    np.testing.assert_array_equal(*(one["b_lif_0.counts"] for one in counts))
    assert counts[0]["b_lif_0.counts"].tolist() != [0, 0, 0]


def test_all_backends_and_events_do_the_same():
    random = np.random.default_rng(0)
    nodes = {
        "input": inputs(4), "w": nir.Affine(random.normal(0.3, 1, (5, 4)), random.normal(0, 0.1, 5)),
        "cells": lif(5, 0.003, 0.3),
        "back": nir.Linear(random.normal(0, 0.5, (5, 5))), "late": nir.Delay(np.arange(5) * 0.001),
        "last": nir.CubaLI(*(np.full(5, value) for value in (0.003, 0.01, 1.0, 0.1))), "output": outputs(5),
    }  # fmt: skip
    edges = [
        *itertools.pairwise(["input", "w", "cells", "late", "last", "output"]),
        ("cells", "back"),
        ("back", "cells"),
    ]
    x = random.integers(0, 2, (50, 4)).astype(np.float32)
    found = {}
    for backend, events in (("interpreted", None), ("interpreted", (0, 1)), ("numba", None), ("jax", None)):
        network = be.from_nir(graph(edges, **nodes), dt=1, input_range=events)
        result = network.build(backend=backend, threads=1).run(
            50, inputs={"input.x": x}, record=["cells.spikes", "last.v"]
        )
        found[backend, events] = result["cells.spikes"].todense(), result["last.v"]
    spikes, v = found["interpreted", None]
    assert 20 < spikes.sum() < 230
    np.testing.assert_array_equal(found["numba", None][1], v)
    for other, values in found.values():
        np.testing.assert_array_equal(other, spikes)
        np.testing.assert_allclose(values, v, rtol=1e-5, atol=1e-6)


def test_an_event_outside_the_range_raises():
    network = be.from_nir(graph([("input", "cells")], input=inputs(3), cells=lif()), input_range=(0, 1))
    simulation = network.build(backend="interpreted")
    with pytest.raises(NotFiniteError, match="input"):
        simulation.run(2, inputs={"input.x": np.full((2, 3), 1.5, np.float32)})


def test_weights_of_spikes_are_rounded_less_than_floats():
    weight = np.random.default_rng(1).normal(size=(50, 40)).astype(np.float32)
    network = be.from_nir(graph([("a", "w"), ("w", "b")], a=lif(40), w=nir.Linear(weight), b=lif(50)))
    built = network.build(backend="interpreted")
    connections = built.connections("a->b.input")
    dense = np.zeros((50, 40))
    dense[connections.targets, connections.sources] = connections.weights
    np.testing.assert_allclose(dense, weight, atol=np.abs(weight).sum(1).max() * 2**-26)
    coarse = network.build(backend="interpreted", quantum=0.125).connections("a->b.input").weights
    assert (coarse % 0.125 == 0).all()


def test_equal_values_are_one_parameter_and_gradients_pass():
    import jax

    network = be.from_nir(graph([("input", "w"), ("w", "b")], input=inputs(2), w=nir.Linear(np.eye(2)), b=lif(2)), dt=1)
    (cells,) = (p for p in network.populations if p.name == "b")
    assert all(np.ndim(value) == 0 for value in cells.params.values())
    simulation = network.build(backend="jax")
    x = np.full((10, 2), 0.9, np.float32)

    def spikes(threshold):
        params = {"b": {"v_threshold": threshold}}
        _, out = be.simulate(simulation, simulation.state, params, 10, inputs={"input.x": x}, record=["b.spikes"])
        return out["b.spikes"].sum()

    assert jax.grad(spikes)(0.5) < 0


REFUSED = {
    "kind": ({"a": type("LIFE", (), {})()}, [], r"node a is a LIFE; did you mean 'LIF'\?; kinds that can be run: I,"),
    "algebraic": (
        {"input": inputs(3), "s": nir.Scale(np.ones(3)), "t": nir.Scale(np.ones(3)), "lif": lif()},
        [("input", "s"), ("s", "t"), ("t", "s"), ("t", "lif")],
        r"node [st] \(Scale\): is in a loop of nodes that have no state",
    ),
    "shapes": (
        {"input": inputs(4), "lif": lif()},
        [("input", "lif")],
        r"edge \(input, lif\): what leaves input \(Input\) has shape \(4,\), but lif \(LIF\) takes \(3,\)",
    ),
    "unknown shape": ({"p": nir.SumPool2d(*[np.array([2, 2])] * 3), "l": lif()}, [], r"p \(SumPool2d\): its shape"),
    "no node": ({"lif": lif()}, [("lif", "lift")], r"edge \(lif, lift\): there is no node 'lift'; did you mean"),
    "twice": ({"a": lif(), "b": lif()}, [("a", "b"), ("a", "b")], r"edge \(a, b\) is there twice"),
    "empty": ({}, [], "the graph has no neurons and no inputs"),
    "tau": ({"lif": lif(tau=0)}, [], r"node lif \(LIF\): tau is 0 s; pass numbers above 0"),
    "short": ({"lif": lif(tau=0.00001)}, [], r"node lif \(LIF\): tau is 1e-05 s, shorter than the time step, 0.1 ms"),
    "complex": (
        {"input": inputs(3), "w": nir.Linear(np.eye(3) * 1j), "lif": lif()},
        [("input", "w"), ("w", "lif")],
        r"(?s)node w \(Linear\): weight is array.*; pass an array of real numbers",
    ),
    "nan": ({"lif": lif(threshold=np.nan)}, [], r"node lif \(LIF\): v_threshold is infinite or NaN"),
    "delay": (
        {"a": lif(), "d": nir.Delay(np.full(3, 0.00025)), "b": lif()},
        [("a", "d"), ("d", "b")],
        r"node d \(Delay\): a delay of 0.25 ms is no multiple of the time step, 0.1 ms; .* round_delays=True",
    ),
    "negative": (
        {"a": lif(), "d": nir.Delay(np.full(3, -1.0)), "b": lif()}, [("a", "d"), ("d", "b")], "delay is -1 s; pass 0"
    ),
    "history": (
        {"a": inputs(3), "d": nir.Delay(np.full(3, 0.01)), "b": lif()},
        [("a", "d"), ("d", "b")],
        r"node a \(Input\): sends values, which arrive at b 100 steps later, .* at most 65 steps; .* input_range=",
    ),
    "into input": ({"a": lif(), "i": inputs(3)}, [("a", "i")], r"node i \(Input\): has an edge from another node"),
    "from output": ({"o": outputs(3), "b": lif()}, [("o", "b")], r"node o \(Output\): has an edge to another node"),
    "nested": (
        {"a": lif(), "g": graph([], x=inputs(3), y=inputs(3), b=lif())}, [("a", "g")], "graph g has 2 nodes of kind"
    ),
    "channels": (
        {"input": inputs(2, 5), "c": nir.Conv1d(5, np.ones((1, 3, 2)), 1, 0, 1, 1, np.zeros(1)), "l": lif(4)},
        [("input", "c")], "groups is 1, but 2 channels arrive",
    ),
    "same": (
        {"input": inputs(1, 5), "c": nir.Conv1d(5, np.ones((1, 1, 2)), 2, "same", 1, 1, np.zeros(1)), "l": lif(4)},
        [("input", "c")], r"padding is 'same' and stride is \(2,\); pass stride 1",
    ),
    "window": (
        {"input": inputs(1, 5), "c": nir.Conv1d(5, np.ones((1, 1, 7)), 1, 0, 1, 1, np.zeros(1)), "l": lif(4)},
        [("input", "c")], "a window of 7 elements does not fit in 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_is_named(name):
    nodes, edges, words = REFUSED[name]
    with pytest.raises(NetworkError, match=words):
        be.from_nir(graph(edges, **nodes))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"dt": 0}, "dt is 0; pass a positive number of ms"),
        ({"method": "Euler"}, "method is 'Euler'; did you mean 'euler'"),
        ({"round_delays": 1}, "round_delays is 1; pass True or False"),
        ({"input_range": (1, 0)}, "value_range is"),
        ({"input_range": 1}, "value_range is 1; pass"),
    ],
)
def test_wrong_arguments_are_named(how, words):
    with pytest.raises(NetworkError, match=words):
        be.from_nir(graph([("input", "cells")], input=inputs(3), cells=lif()), **how)
    with pytest.raises(NetworkError, match="graph is a dict; pass a "):
        be.from_nir({})


def test_delays_are_rounded_if_asked_and_flat_shapes_need_no_dimensions():
    nodes = {"a": lif(6), "d": nir.Delay(np.array(0.00026)), "b": lif(6)}
    network = be.from_nir(graph([("a", "d"), ("d", "b")], **nodes), round_delays=True)
    assert network.build(backend="interpreted").connections("a->b.input").delays.tolist() == [pytest.approx(0.3)] * 6
    flat = nir.Flatten({"input": np.array([1, 2, 3])})  # of dimensions after the first one, as PyTorch counts them
    network = be.from_nir(
        graph([("i", "f"), ("f", "w"), ("w", "b")], i=inputs(1, 2, 3), f=flat, w=nir.Linear(np.ones((6, 6))), b=lif(6))
    )
    assert network.populations[0].size == 6


@pytest.mark.parametrize("kind", ["missing", "folder", "text", "hdf5"])
def test_what_is_no_file_of_nir_is_named(tmp_path, kind):
    path = tmp_path / "some.nir"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("nodes")
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        h5py.File(path, "w").close()
    words = "is no file;" if kind in ("missing", "folder") else "is no file of NIR: "
    with pytest.raises(NetworkError, match=rf"from_nir: .*some\.nir {words}"):
        be.from_nir(path)
