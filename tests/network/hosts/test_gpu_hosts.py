# SPDX-License-Identifier: Apache-2.0
"""On real GPUs: one network in some processes, with one GPU or two each; what fails ends the others."""

import pytest
from among_hosts import between

from brainevent.network.gpu.cuda_device import number_of_gpus

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

REAL = {"PRETEND": "", "JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
# The GPUs of each process: their own ones, or the same ones, whose messages go through the hosts.
ONE_EACH, TWO_EACH, TOGETHER, UNEVEN = "0;1", "0,1;2,3", "0,1", "0;1,2"
ONE_SHARED, TWO_SHARED = "0;0", "0,1;1,0"


def run(scenario, gpus, first_only=(), **environment):
    """Run a scenario of `among_gpus` in processes with these GPUs."""
    named, count = gpus.replace(";", ",").split(","), gpus.count(";") + 1
    if number_of_gpus() <= max(map(int, named)):
        pytest.skip(f"needs {1 + max(map(int, named))} GPUs")
    way = "nccl" if len(set(named)) == len(named) else "hosts"
    statuses, said = between(scenario, count, timeout=300, file="among_gpus", GPUS=gpus, WAY=way, **REAL, **environment)
    expected = [first_only[number] if number < len(first_only) else 0 for number in range(count)]
    assert statuses == expected, "\n".join(said)


@pytest.mark.parametrize("gpus", [ONE_EACH, TWO_EACH, TOGETHER, UNEVEN, ONE_SHARED, TWO_SHARED])
def test_the_bits_of_one_process_on_cpus(gpus):
    run("bits", gpus)


@pytest.mark.parametrize("gpus", [ONE_EACH, TWO_EACH, ONE_SHARED])
def test_kinds_of_networks_and_what_stops_runs(gpus):
    run("kinds", gpus)


@pytest.mark.parametrize("gpus", [ONE_EACH, TWO_EACH])
def test_what_fails_on_one_gpu(gpus):
    run("fails", gpus)


@pytest.mark.parametrize("gpus", [ONE_EACH, TWO_EACH])
def test_a_process_that_ends(gpus):
    run("dies", gpus, first_only=(0, 7), BRAINEVENT_PATIENCE="20")


@pytest.mark.parametrize("gpus", [ONE_EACH, TWO_EACH])
def test_a_process_that_does_not_come(gpus):
    run("hangs", gpus, BRAINEVENT_PATIENCE="3")
