# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of networks on several GPUs: small forms of the networks on the CPU, and what rows say."""

import numpy as np
import pytest

from benchmarks import gpu_several
from benchmarks.options import Options
from benchmarks.probes import areas_of_a_gpu, network_large
from benchmarks.process import ProbeError
from benchmarks.row import Failed, Row
from examples.networks import areas


@pytest.mark.parametrize(
    ("model", "scale", "neurons", "synapses"),
    [
        ("areas", 0.002, 8_266, 97_000),
        pytest.param("pd14_four", 0.01, 3_088, 119_500, marks=pytest.mark.thorough),
        ("cuba_late", 0.001, 4_000, 320_000),
        ("cuba_16", 0.00025, 4_000, 320_000),
    ],
)
def test_small_forms_run_on_the_cpu(model, scale, neurons, synapses):
    found = network_large.measure(model, scale, steps=200, repeats=1, discard=200)
    assert found["neurons"] == pytest.approx(neurons, rel=0.01)
    assert found["synapses"] == pytest.approx(synapses, rel=0.03)
    assert found["bytes"] > found["synapses"]
    assert 0.1 < found["rate"] < 30
    assert (len(found["nothing"]), len(found["rates"]), len(found["building"])) == (1, 1, 2)


def test_some_areas_have_as_many_inputs_as_among_all():
    every, found = areas.made(), areas_of_a_gpu.some(range(12, 20))
    np.testing.assert_allclose(found.inputs.sum((2, 3)), every.inputs[12:20].sum((2, 3)))
    np.testing.assert_array_equal(found.inputs[3, :, 3], every.inputs[15, :, 15])
    assert (found.sizes * found.inputs.sum((2, 3))).sum() == pytest.approx(6.04e9, rel=0.01)


def answered(rate=5.6, digest="a"):
    one = {"described": 0.1, "building": [9.0, 4.0], "neurons": 100, "synapses": 1000, "bytes": 8000}
    return one | {"nothing": [0.04], "rates": [0.4], "rate": rate, "of": {"exc": rate}, "digest": digest}


def test_rows_of_several_gpus(monkeypatch):
    asked = []

    def probe(name, arguments, platform):
        assert (name, platform) == ("network_large", "gpu")
        asked.append((arguments["model"], arguments["devices"]))
        if arguments["devices"] == 2:
            raise ProbeError("network_large: exit status 1\nMemoryError: no room")
        areas = arguments["model"].startswith(("areas", "pd14"))
        return answered(3.2 if areas else 5.6, digest="b" if asked[-1] == ("cuba_16", 4) else "a")

    monkeypatch.setattr(gpu_several, "run_probe", probe)
    found = list(gpu_several.measure_rows(Options()))
    rows = {row.name: row for row in found if isinstance(row, Row)}
    failed = [str(one) for one in found if isinstance(one, Failed)]
    assert len(asked) == 14
    assert failed[1] == "32 areas, 2 GPUs FAILED: network_large: exit status 1: MemoryError: no room"
    assert failed[-1].startswith("CUBA, 16 million: numbers of spikes FAILED: they differ between numbers of GPUs")
    four = rows["PD14, four times, 4 GPUs: a step, nothing recorded"]
    assert (four.samples, four.met) == (pytest.approx((4,)), True)
    assert rows["32 areas, 4 GPUs: rates recorded"].met is True
    assert rows["32 areas, 4 GPUs: building, compiled before"].samples == (4.0,)
    assert rows["32 areas, 4 GPUs: memory of synapses"].samples == (8.0,)


def test_another_network_is_refused():
    large = gpu_several.RUNS["cuba_16", 1.0]
    (found,) = gpu_several.rows_of("t", large, 1, answered(rate=60))
    assert str(found) == "t FAILED: it fires at 60.00 Hz, not at 5.2 to 6.1 Hz: another network"
