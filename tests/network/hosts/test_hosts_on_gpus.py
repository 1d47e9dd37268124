# SPDX-License-Identifier: Apache-2.0
"""One network on the GPUs of several processes, which are pretended here: the bits of one process, and what fails."""

import pytest
from among_hosts import between


def run(scenario, count=2, first_only=(), **environment):
    statuses, said = between(scenario, count, file="among_gpus", **environment)
    expected = [first_only[number] if number < len(first_only) else 0 for number in range(count)]
    assert statuses == expected, "\n".join(said)


@pytest.mark.parametrize(
    ("count", "way"),
    [
        (2, "jax"),
        pytest.param(3, "jax", marks=pytest.mark.thorough),
        pytest.param(2, "hosts", marks=pytest.mark.thorough),
    ],
)
def test_the_bits_of_one_process_on_cpus(count, way):
    """Each process takes seconds to start: all that must agree is in one program."""
    run("bits", count, WAY=way)


@pytest.mark.thorough
def test_kinds_of_networks_and_what_stops_runs():
    run("kinds")


def test_what_fails_on_one_gpu():
    run("fails")


@pytest.mark.thorough
def test_a_process_that_ends():
    run("dies", first_only=(0, 7), BRAINEVENT_PATIENCE="20")


@pytest.mark.thorough
def test_a_process_that_does_not_come():
    run("hangs", BRAINEVENT_PATIENCE="3")
