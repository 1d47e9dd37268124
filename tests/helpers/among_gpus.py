# SPDX-License-Identifier: Apache-2.0
"""What each of several processes does that run one network on GPUs, which are pretended unless PRETEND is empty."""

import os
import time
from pathlib import Path

import among_hosts
import jax
from among_hosts import RECORD, as_in_one, network, said, same

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu.owned import OwnedEngine
from brainevent.network.gpu.several import devices

PRETENDS = bool(os.environ.get("PRETEND", "1"))
BLOCKS = 2 if PRETENDS else None
GPUS = [own.split(",") for own in os.environ.get("GPUS", "0;0;0").split(";")]  # of each process
EACH = {len(own) for own in GPUS}
WAYS = {
    "jax": "by all_gather of JAX among the GPUs",
    "nccl": "by NCCL among the GPUs",
    "hosts": "through the memory of the hosts",
}


def set_up():
    """Let this process have GPUs of its own; return what `build(devices=)` takes for all of them."""
    own = GPUS[jax.process_index()]
    if PRETENDS:
        from several_on_cpu import PretendPeer

        found = [PretendPeer(number) for number in range(len(own))]
        for one, there in zip(found, jax.local_devices(backend="cpu"), strict=True):
            one.of_jax = there
        if os.environ.get("WAY") == "hosts":  # as if all processes used the same GPU
            PretendPeer.identity = (1, 2)
        devices.devices_of_process = lambda devices: found if devices == "all" else found[:1]
    return "all" if len(own) > 1 else None


def build(net, **how):
    """Return a simulation on the GPUs of all processes."""
    return net.build(**{"hosts": "all", "backend": "cuda", "blocks": BLOCKS, "devices": set_up(), **how})


def pair(net, **how):
    """Return a simulation on the GPUs of all processes, and the same on CPUs in this one."""
    of_gpus = {key: how.pop(key) for key in ("hosts", "blocks") if key in how}
    how = {"seed": 3, **how}
    return build(net, **of_gpus, **how), net.build(backend="numba", threads=1, **how)


def bits(number, count):
    """Runs, changes and files: all as in one process on CPUs."""
    among, alone = pair(network(), blocks=BLOCKS and 1 + number % 2)
    each = "one GPU" if max(EACH) == 1 else f"{'1 to ' if min(EACH) < max(EACH) else ''}{max(EACH)} GPUs"
    sharers = "processes" if max(EACH) == 1 else "GPUs"
    reports = [
        f"{count} process{'es' * (count > 1)} with {each} each",
        f"the least delay between {sharers} is 4 steps",
        f"spikes are exchanged {WAYS[os.environ.get('WAY', 'jax')]}",
    ]
    as_in_one(number, among, alone, reports)
    _sweeps(among, alone)


def _sweeps(among, alone):
    """Elements that differ in parameters, in weights, and in seeds; the network goes on as before."""
    before = among.state
    for values, seeds in (
        ({"a": {"current": [10.0, 300.0, 80.0]}}, None),
        ({"b->a.syn": {"weights": [-0.2, 0.1]}}, None),
        (None, [5, 6]),
    ):
        found, expected = (sim.sweep(20, ["a.spikes", "b.v"], values, seeds=seeds) for sim in (among, alone))
        assert len(found) == len(expected) == (3 if values and "a" in values else 2)
        for k in range(len(found)):
            same(found[k], expected[k])
        assert found[0]["a.spikes"].times.size + found[1]["a.spikes"].times.size > 0
    same(among.state, before)
    same(among.run(20, RECORD), alone.run(20, RECORD))


def kinds(number, count):
    """Whole populations in processes, bursts, what stops a run, and what is refused."""
    among_hosts.pair = pair
    among, alone = pair(network(), hosts={"a": 1, "b": 0})
    same(among.run(90, RECORD), alone.run(90, RECORD))
    same(among.state, alone.state)
    _areas()
    among_hosts._bursts()
    among_hosts._values()
    among_hosts._stops(number)
    among_hosts._finite(number)
    _refused()


def _areas():
    """Areas that are placed as wholes, on GPUs of their own where there are four."""
    if max(EACH) == 1:
        among_hosts._areas()
        return
    among, alone = pair(among_hosts.areas(), hosts="areas")
    report = among.report()
    assert "spikes are exchanged every 2 steps" in report, report
    sizes = {"A": 90, "B": 60, "C": 80, "D": 50}
    own = [name for name in sizes if f": {sizes[name]} neurons, all of {name};" in report]
    assert len(own) == 2, report
    assert f"process {jax.process_index()}: {sum(sizes[name] for name in own)} neurons, synapses take" in report
    same(among.run(90, ["A.spikes", "D.spikes"]), alone.run(90, ["A.spikes", "D.spikes"]))
    same(among.state, alone.state)


def _refused():
    """What one process cannot have is said in all."""
    sim, found = build(network()), devices.devices_of_process

    def refusing(devices):
        raise NetworkError("build: devices is 'seven'")

    if jax.process_index() == 1:
        devices.devices_of_process = refusing
    words = said(NetworkError, lambda: network().build(backend="cuda", hosts="all", blocks=BLOCKS, devices="all"))
    refused = "build: devices is 'seven'"
    assert words == (refused if jax.process_index() == 1 else f"build: process 1 failed: NetworkError: {refused}")
    devices.devices_of_process = found
    words = said(NetworkError, lambda: be.simulate(sim, sim.state, sim.params, 5))
    assert "simulate: a network on several hosts runs with sim.run" in words


def fails(number, count):
    """What fails on one GPU ends the run in all processes, which go on from a state."""
    among = build(network())
    alone = network().build(backend="numba", threads=1)
    among.run(20)
    launch, last = OwnedEngine._launch, among.engine._own.gpus[-1].engine
    if number == 1:
        OwnedEngine._launch = lambda engine, *given: 1 // 0 if engine is last else launch(engine, *given)
    words = said((NetworkError, ZeroDivisionError), lambda: among.run(20))
    assert ("process 1 failed: ZeroDivisionError" in words) == (number == 0), words
    assert "interrupted within a step" in said(NetworkError, lambda: among.run(20))
    OwnedEngine._launch = launch
    among.reset()
    same(among.run(60, RECORD), alone.run(60, RECORD))


def dies(number, count):
    """A process that ends ends the others with an error."""
    sim = build(network())
    sim.run(20)
    if number == 1:
        among_hosts.leave(7)
    words = said(NetworkError, lambda: [sim.run(50) for _ in range(1000)])
    assert "another process ended, or its host cannot be reached" in words or "did not come within" in words, words
    assert "start all processes again" in words


def hangs(number, count):
    """A process that does not come to an exchange of spikes is not awaited for ever."""
    sim = build(network())
    sim.run(20)
    file = Path(os.environ["AMONG_HOSTS"]) / "done"
    if number == 1:

        def waits(*_):
            while not file.exists():
                time.sleep(0.01)
            among_hosts.leave()

        OwnedEngine._launch = waits
    words = said(NetworkError, lambda: sim.run(50))
    file.touch()
    patience = os.environ["BRAINEVENT_PATIENCE"]
    assert f"a process did not come within {patience} seconds (the environment variable BRAINEVENT_PATIENCE)" in words
    assert "start all processes again" in said(NetworkError, lambda: sim.run(50))
