# SPDX-License-Identifier: Apache-2.0
"""One network on the GPUs of several processes, which are pretended here: the bits of one process, and what fails."""

import pytest
from among_hosts import between


def run(scenario, count=2, first_only=(), **environment):
    statuses, said = between(scenario, count, file="among_gpus", **environment)
    expected = [first_only[number] if number < len(first_only) else 0 for number in range(count)]
    assert statuses == expected, "\n".join(said)


TWO_EACH = "0,1;0,1"


@pytest.mark.parametrize(
    ("gpus", "way"),
    [
        ("0;0", "jax"),
        (TWO_EACH, "jax"),
        pytest.param("0,1", "jax", marks=pytest.mark.thorough),
        pytest.param("0;0;0", "jax", marks=pytest.mark.thorough),
        pytest.param("0;0,1", "jax", marks=pytest.mark.thorough),
        pytest.param("0;0", "hosts", marks=pytest.mark.thorough),
        pytest.param("0,1;0", "hosts", marks=pytest.mark.thorough),
    ],
)
def test_the_bits_of_one_process_on_cpus(gpus, way):
    """Each process takes seconds to start: all that must agree is in one program."""
    run("bits", gpus.count(";") + 1, GPUS=gpus, WAY=way)


@pytest.mark.parametrize("gpus", [pytest.param("0;0", marks=pytest.mark.thorough), TWO_EACH])
def test_kinds_of_networks_and_what_stops_runs(gpus):
    run("kinds", GPUS=gpus)


@pytest.mark.parametrize("gpus", ["0;0", pytest.param(TWO_EACH, marks=pytest.mark.thorough)])
def test_what_fails_on_one_gpu(gpus):
    run("fails", GPUS=gpus)


@pytest.mark.thorough
@pytest.mark.parametrize("gpus", ["0;0", TWO_EACH])
def test_a_process_that_ends(gpus):
    run("dies", GPUS=gpus, first_only=(0, 7), BRAINEVENT_PATIENCE="20")


@pytest.mark.thorough
@pytest.mark.parametrize("gpus", ["0;0", TWO_EACH])
def test_a_process_that_does_not_come(gpus):
    run("hangs", GPUS=gpus, BRAINEVENT_PATIENCE="3")
