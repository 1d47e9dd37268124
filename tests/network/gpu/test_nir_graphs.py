# SPDX-License-Identifier: Apache-2.0
"""Graphs of NIR on a GPU, a pretended one and a real one: the bits of the interpreter, with values and with events."""

from pathlib import Path

import numpy as np
import pytest
from beside_interpreter import compare
from test_network_gpu import engine_of

import brainevent as be
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.run.recorded import Wanted

pytest.importorskip("nir")

FOLDER = Path(__file__).parents[2] / "data" / "nir"
CASES = [("norse_lif", None), ("snntorch_synaptic", None), ("torch_stateless", None), ("snntorch_rleaky", (0, 1))]


def checked(name, events, make):
    data = np.load(FOLDER / f"{name}.npz")
    network = be.from_nir(FOLDER / f"{name}.nir", dt=float(data["dt"]), input_range=events)
    engine = make(network.build(backend="interpreted").plan)
    names = tuple(population.name for population in network.populations)
    compare(engine, [7, 33], Wanted(names[1:]), {("input", "x"): data["x"][:40]})


@pytest.mark.parametrize(("name", "events"), CASES[1:])
def test_a_graph_equals_the_interpreter_on_a_pretended_gpu(name, events):
    checked(name, events, lambda plan: engine_of(plan, 2))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "events"), CASES)
def test_a_graph_equals_the_interpreter(name, events):
    checked(name, events, lambda plan: CudaEngine(plan, blocks=4))
