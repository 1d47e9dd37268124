# SPDX-License-Identifier: Apache-2.0
"""On real GPUs: one network in two processes, on a GPU each or on one together; what fails ends the others."""

import pytest
from among_hosts import between

from brainevent.network.gpu.device import number_of_gpus

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

REAL = {"PRETEND": "", "JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def run(scenario, first_only=(), own=True, **environment):
    """Run a scenario of `among_gpus` in two processes, with GPUs of their own or with the first one."""
    if own and number_of_gpus() < 2:
        pytest.skip("needs two GPUs")
    ways = {"LOCAL_DEVICE": "number" if own else "0", "WAY": "nccl" if own else "hosts"}
    statuses, said = between(scenario, 2, timeout=300, file="among_gpus", **REAL, **ways, **environment)
    expected = [first_only[number] if number < len(first_only) else 0 for number in range(2)]
    assert statuses == expected, "\n".join(said)


@pytest.mark.parametrize("own", [True, False])
def test_the_bits_of_one_process_on_cpus(own):
    run("bits", own=own)


@pytest.mark.parametrize("own", [True, False])
def test_kinds_of_networks_and_what_stops_runs(own):
    run("kinds", own=own)


def test_what_fails_on_one_gpu():
    run("fails")


def test_a_process_that_ends():
    run("dies", first_only=(0, 7), BRAINEVENT_PATIENCE="20")


def test_a_process_that_does_not_come():
    run("hangs", BRAINEVENT_PATIENCE="3")
