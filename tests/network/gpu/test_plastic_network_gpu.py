# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in the engine for GPUs, on a pretend one, beside the interpreter, bit for bit."""

import dataclasses

import numpy as np
import pytest
import synapse_rules
from beside_interpreter import compare, equal
from gpu_on_cpu import PretendDevice
from plastic_networks import ALL, network, triplet

from brainevent.network.gpu.engine import CudaEngine
import brainevent as be
from brainevent.network.run.recorded import Sample, Wanted


def engine_of(plan, blocks=3, shared_bytes=None):
    return CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes, device=PretendDevice(8))


@pytest.mark.parametrize(
    ("where", "delay", "blocks"),
    [("axon", None, 1), ("axon", be.uniform(0.1, 0.9), 3), ("dendrite", 0.3, 2), ("dendrite", be.uniform(0.1, 0.9), 5)],
)
def test_all_that_rules_may_use(where, delay, blocks):
    engine = engine_of(synapse_rules.plan_of(network(triplet(where), delay), 1), blocks)
    before = engine.state.synapses["ab"]
    samples = {"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5]), of_synapses=True)}
    records = compare(engine, (1, 9, 40), dataclasses.replace(ALL, samples=samples))
    after = engine.state.synapses["ab"]
    assert sum(record.spikes["b"][0].size for record in records) > 20
    assert np.count_nonzero(before["w"] != after["w"]) > 0.5 * before["w"].size
    assert np.ptp(records[-1].samples["w"][:, 0]) > 0
