# SPDX-License-Identifier: Apache-2.0
"""One network in several processes: the bits of one, and what happens when processes differ, fail or do not come."""

from pathlib import Path

import among_hosts
import numpy as np
import pytest
from among_hosts import between, network
from several_on_cpu import several_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.plan.build import build_plan
from brainevent.network.run.simulation import Simulation


def run(scenario, count=2, first_only=(), **environment):
    statuses, said = between(scenario, count, **environment)
    expected = [first_only[number] if number < len(first_only) else 0 for number in range(count)]
    assert statuses == expected, "\n".join(said)


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_the_bits_of_one_process(count):
    """Each process takes seconds to start: all that must agree is in one program."""
    run("bits", count)


@pytest.mark.thorough  # five processes
def test_a_file_moves_between_any_numbers_of_processes(tmp_path):
    """From one to two, to three, and back to one: each writes the bytes that one process writes."""
    moved, stayed = (network().build(seed=3, backend="numba") for _ in range(2))
    for sim in (moved, stayed):
        sim.run(20)
    file = tmp_path / "alone"
    moved.save(file)
    for count in (2, 3):
        run("goes_on", count, MOVED_FILE=str(file))
        stayed.run(31)
        stayed.save(tmp_path / "stayed")
        for number in range(count):
            assert Path(f"{file}.{number}").read_bytes() == (tmp_path / "stayed").read_bytes()
        file = Path(f"{file}.{count - 1}")
    moved.load(file)
    among_hosts.same(moved.run(40, among_hosts.RECORD), stayed.run(40, among_hosts.RECORD))


@pytest.mark.thorough  # three processes
def test_a_file_moves_between_gpus_and_processes(tmp_path):
    """From two pretended GPUs of one process to two processes, and to three GPUs of one."""
    stayed, plan = network().build(seed=3, backend="numba"), build_plan(network(), seed=3)
    moved = Simulation(plan, several_of(plan, 2))
    for sim in (moved, stayed):
        sim.set("b", current=40.0)
        sim.run(20)
    moved.save(tmp_path / "alone")
    run("goes_on", MOVED_FILE=str(tmp_path / "alone"))
    after = Simulation(plan, several_of(plan, 3))
    after.load(tmp_path / "alone.1")
    stayed.run(31)
    among_hosts.same(after.run(40, among_hosts.RECORD), stayed.run(40, among_hosts.RECORD))
    among_hosts.same(after.state, stayed.state)


def test_kinds_of_networks_and_what_stops_runs():
    run("kinds")


def test_processes_that_differ():
    run("differs")


@pytest.mark.thorough
def test_a_process_that_ends():
    run("dies", first_only=(0, 7))


@pytest.mark.thorough
def test_a_process_that_does_not_come():
    run("never_comes", BRAINEVENT_PATIENCE="1.5")


@pytest.mark.parametrize("backend", ["numba", "interpreted"])
def test_one_process_is_enough(backend):
    """Without `jax.distributed` there is one process, in which all is as without `hosts`."""
    if backend != "numba":
        with pytest.raises(NetworkError, match=r"build: hosts is an option of backend='numba' and backend='cuda', but"):
            network().build(backend=backend, hosts="all")
        return
    alone, sim = (network().build(seed=3, backend="numba", hosts=hosts) for hosts in (None, "all"))
    among_hosts.same(sim.run(50, among_hosts.RECORD), alone.run(50, among_hosts.RECORD))
    assert "1 process with 1 thread" in repr(sim)
    assert "no synapse connects neurons of different processes" in sim.report()
    with pytest.raises(NetworkError, match=r"simulate: a network on several hosts runs with sim\.run"):
        be.simulate(sim, sim.state, sim.params, 5)


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (2, r'build: hosts is 2; pass "all", "areas", or the numbers of processes by population'),
        ("two", r"build: hosts is 'two'; pass"),
        ({"d": 0}, r"build: hosts has 'd', and the network has no such population; populations: a, b, c"),
        ({"a": 1}, r"build: hosts has 1 for a, and there is one process of jax\.distributed, numbered from 0"),
        ({"a": True}, r"build: hosts has True for a"),
        ({"a": -1}, r"build: hosts has -1 for a"),
    ],
)
def test_hosts_that_are_refused(hosts, words):
    with pytest.raises(NetworkError, match=words):
        network().build(backend="numba", hosts=hosts)


def test_kinds_that_need_one_process():
    cells = be.models.lif_delta("cells", 20)
    synapses = be.connect.in_degree(3, weight=0.1)
    plastic = be.Projection(cells, cells, synapses, into="syn", plasticity=be.plasticity.stdp(), name="learns")
    carried = be.Coupling(cells, cells, synapses, of="v", into="syn", name="gap")
    for link, words in ((plastic, r"plastic synapses \(learns\)"), (carried, r"couplings \(gap\)")):
        with pytest.raises(NetworkError, match=rf"build: {words} need one process; leave out hosts="):
            be.Network([cells], [link], dt=0.1).build(backend="numba", hosts="all")


def test_patience_must_be_a_number(monkeypatch):
    monkeypatch.setenv("BRAINEVENT_PATIENCE", "long")
    with pytest.raises(NetworkError, match=r"BRAINEVENT_PATIENCE is 'long'; pass a positive number of seconds"):
        network().build(backend="numba", hosts="all")


def test_digests_tell_values_apart():
    from brainevent.network.hosts.processes import digest_of

    values = [
        0,
        0.0,
        "0",
        b"0",
        b"0\0",
        np.float32(0),
        np.zeros(2),
        np.zeros((2, 1)),
        {"a": 1},
        {"b": 1},
        None,
        [],
        ["a"],
    ]
    assert len({digest_of(value) for value in values}) == len(values)
