# SPDX-License-Identifier: Apache-2.0
"""What each of several processes does that run one network on GPUs, which are pretended unless PRETEND is empty."""

import os
import time
from pathlib import Path

import among_hosts
import jax
import numpy as np
from among_hosts import RECORD, network, said, same

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu import device
from brainevent.network.gpu.owned import OwnedEngine

PRETENDS = bool(os.environ.get("PRETEND", "1"))
BLOCKS = 2 if PRETENDS else None
WAYS = {
    "jax": "by all_gather of JAX among the GPUs",
    "nccl": "by NCCL among the GPUs",
    "hosts": "through the memory of the hosts",
}


def set_up():
    """Let this process have a GPU of its own."""
    if PRETENDS:
        from several_on_cpu import PretendPeer

        own = PretendPeer(0)
        own.of_jax = jax.local_devices(backend="cpu")[0]
        if os.environ.get("WAY") == "hosts":  # as if all processes used the same GPU
            type(own).identity = (1, 2)
        device.local_device = lambda: own


def pair(net, **how):
    """Return a simulation on the GPUs of all processes, and the same on CPUs in this one."""
    set_up()
    hosts, blocks = how.pop("hosts", "all"), how.pop("blocks", BLOCKS)
    how = {"seed": 3, **how}
    return net.build(hosts=hosts, backend="cuda", blocks=blocks, **how), net.build(backend="numba", threads=1, **how)


def bits(number, count):
    """Runs in pieces, inputs, changes, and files: all as in one process on CPUs."""
    among, alone = pair(network(), blocks=BLOCKS and 1 + number % 2)
    inputs = {"b.syn": np.random.default_rng(1).normal(0, 0.5, (50, 91)), "c.syn": np.full(50, 0.3)}
    for steps, given in ((37, None), (1, None), (50, inputs)):
        found = among.run(steps, RECORD, given)
        same(found, alone.run(steps, RECORD, given))
        assert found["a.spikes"].times.size > 0
    same(among.state, alone.state)
    for sim in (among, alone):
        sim.set("b", current=40.0, v=3.0)
        sim.set("b->a.syn", weights=-0.4)
        sim.set("c->b.syn", weights=np.linspace(0.1, 0.2, 182).reshape(2, 91))
    same(among.run(60, RECORD), alone.run(60, RECORD))
    same(among.connections("b->a.syn").weights, alone.connections("b->a.syn").weights)
    files = Path(os.environ["AMONG_HOSTS"])
    among.save(files / f"among{number}.npz")
    alone.save(files / f"alone{number}.npz")
    same(among.run(40, RECORD), alone.run(40, RECORD))
    for sim, file in ((among, "alone"), (alone, "among")):
        sim.reset()
        assert sim.steps == 0
        sim.load(files / f"{file}{number}.npz")
    same(among.run(40, RECORD), alone.run(40, RECORD))
    same(among.state, alone.state)
    step, other = (sim.stepper(record="a.spikes", inputs="a.syn") for sim in (among, alone))
    for strength in (0.0, 50.0):
        same(step({"a.syn": strength}), other({"a.syn": strength}))
    report = among.report()
    assert f"{count} processes with one GPU each" in report, report
    assert "spikes are exchanged every 4 steps" in report, report
    assert f"spikes are exchanged {WAYS[os.environ.get('WAY', 'jax')]}" in report, report


def kinds(number, count):
    """Whole populations in processes, bursts, what stops a run, and what is refused."""
    among_hosts.pair = pair
    among, alone = pair(network(), hosts={"a": 1, "b": 0})
    same(among.run(90, RECORD), alone.run(90, RECORD))
    same(among.state, alone.state)
    among_hosts._areas()
    among_hosts._bursts()
    among_hosts._stops(number)
    among_hosts._finite(number)
    _refused()


def _refused():
    def rule(s, arriving, p):
        return s.replace(v=arriving.syn), {"spike": arriving.syn > 1.0, "value": arriving.syn}

    cells = be.Population("g", 60, rule, state={"v": 0.0}, value_range=(-5, 5))
    links = be.Projection(cells, cells, be.connect.in_degree(9, weight=0.1), into="syn", delay=0.3)
    words = said(NetworkError, lambda: be.Network([cells], [links], dt=0.1).build(backend="cuda", hosts="all"))
    assert "build: spikes of g have values, which GPUs of several processes do not exchange; pass backend=" in words
    words = said(NetworkError, lambda: network().build(backend="cuda", hosts="all", devices=1))
    assert "with hosts=, each process runs one GPU, that of jax.default_device; leave out devices=" in words
    sim = network().build(backend="cuda", hosts="all", blocks=BLOCKS)
    words = said(NetworkError, lambda: be.simulate(sim, sim.state, sim.params, 5))
    assert "simulate: a network on several hosts runs with sim.run" in words
    words = said(NetworkError, lambda: sim.sweep(5, "a.counts", {"a": {"current": [10.0, 300.0]}}))
    assert "sweep: a network on several hosts has no elements side by side" in words


def fails(number, count):
    """What fails on one GPU ends the run in all processes, which go on from a state."""
    set_up()
    among = network().build(backend="cuda", hosts="all", blocks=BLOCKS)
    alone = network().build(backend="numba", threads=1)
    among.run(20)
    launch = OwnedEngine._launch
    if number == 1:
        OwnedEngine._launch = lambda *_: 1 // 0
    words = said((NetworkError, ZeroDivisionError), lambda: among.run(20))
    assert ("process 1 failed: ZeroDivisionError" in words) == (number == 0), words
    assert "interrupted within a step" in said(NetworkError, lambda: among.run(20))
    OwnedEngine._launch = launch
    among.reset()
    same(among.run(60, RECORD), alone.run(60, RECORD))


def dies(number, count):
    """A process that ends ends the others with an error."""
    set_up()
    sim = network().build(backend="cuda", hosts="all", blocks=BLOCKS)
    sim.run(20)
    if number == 1:
        among_hosts.leave(7)
    words = said(NetworkError, lambda: [sim.run(50) for _ in range(1000)])
    assert "another process ended, or its host cannot be reached" in words or "did not come within" in words, words
    assert "start all processes again" in words


def hangs(number, count):
    """A process that does not come to an exchange of spikes is not awaited for ever."""
    set_up()
    sim = network().build(backend="cuda", hosts="all", blocks=BLOCKS)
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
    assert "a process did not come within 3 seconds (the environment variable BRAINEVENT_PATIENCE)" in words
    assert "start all processes again" in said(NetworkError, lambda: sim.run(50))
