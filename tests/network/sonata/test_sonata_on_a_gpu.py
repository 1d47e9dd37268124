# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: a network of SONATA files has the spikes of NEST, and those of a CPU to the last bit."""

import numpy as np
import pytest
from sonata_files import write_toy
from test_sonata_files import NEST, written

import brainevent as be

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")


def test_a_network_of_files_has_the_spikes_of_nest(tmp_path):
    model = be.read_sonata(write_toy(tmp_path))
    record = [*model.spikes, "cortex.v"]
    cpu, gpu = (model.build(backend=name).run(ms=model.duration, record=record) for name in ("numba", "cuda"))
    model.write_spikes(tmp_path / "out.h5", gpu)
    times, ids = written(tmp_path / "out.h5", "cortex")
    assert list(zip(times, ids, strict=True)) == NEST
    for name in model.spikes:
        np.testing.assert_array_equal(gpu[name].times, cpu[name].times)
        np.testing.assert_array_equal(gpu[name].neurons, cpu[name].neurons)
    np.testing.assert_array_equal(gpu["cortex.v"], cpu["cortex.v"])
