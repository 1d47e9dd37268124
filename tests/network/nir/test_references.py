# SPDX-License-Identifier: Apache-2.0
"""Graphs of drawn weights do what they do in Norse, snnTorch and PyTorch, spike by spike.

`scripts/nir_references.py` makes the references.
"""

from pathlib import Path

import numpy as np
import pytest

import brainevent as be

nir = pytest.importorskip("nir")

FOLDER = Path(__file__).parents[2] / "data" / "nir"
NAMES = sorted(path.stem for path in FOLDER.glob("*.nir"))


def ran(network, x, *, backend, dtype="float32"):
    """Return the output of a graph of one input and one output, in steps of the graph."""
    (receptor,), (recorded,), late = network.inputs.values(), network.outputs.values(), network.latency["output"]
    simulation = network.build(backend=backend, dtype=dtype, threads=1)
    padded = np.concatenate([x, np.zeros((late, x.shape[1]), np.float32)])
    result = simulation.run(len(padded), inputs={receptor: padded}, record=[recorded])[recorded]
    return (result.todense() if recorded.endswith(".spikes") else result)[late:]


def check(name, **how):
    data = np.load(FOLDER / f"{name}.npz")
    x, y = data["x"], data["y"]
    network = be.from_nir(FOLDER / f"{name}.nir", dt=float(data["dt"]), **how)
    found = ran(network, x, backend="interpreted")
    assert len(np.unique(y)) > 1  # else it would show nothing
    if found.dtype == bool:
        np.testing.assert_array_equal(found, y == 1)
    else:
        np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-5)
    return network


def test_there_are_references():
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_does_what_its_reference_does(name):
    check(name)
