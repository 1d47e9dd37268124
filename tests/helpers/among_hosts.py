# SPDX-License-Identifier: Apache-2.0
"""What each of several processes does that run one network; `between` starts them."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from programs import HELPERS, program_environment

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError
from brainevent.event.room import check_room

PROGRAM = """
import os, sys, jax
number, count, address, file, scenario = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
gpus = os.environ.get("GPUS")  # of each process: "0,1;2,3"
own = [int(one) for one in gpus.split(";")[number].split(",")] if gpus else None
if own and os.environ.get("PRETEND", "1"):
    jax.config.update("jax_num_cpu_devices", len(own))
    own = None
jax.distributed.initialize(address, count, number, local_device_ids=own)
import among_hosts, importlib
try:
    getattr(importlib.import_module(file), scenario)(number, count)
except BaseException:
    among_hosts.leave(1, told=True)
if number == 0:  # the others need its service of JAX, or are aborted
    sys.stdin.read()  # until they have ended
among_hosts.leave()
"""


def leave(status=0, *, told=False):
    """End this process at once, and tell an error: JAX would wait for others, which may have ended."""
    if told:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def between(scenario, count, timeout=120, file="among_hosts", **environment):
    """Run a scenario of a file in some processes, and return their exit statuses and what they printed."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tempfile.mkdtemp()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(number), str(count), address, file, scenario],
            env=program_environment(AMONG_HOSTS=folder, **environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=HELPERS,
        )
        for number in range(count)
    ]
    try:
        said = [process.communicate(timeout=timeout)[0] for process in reversed(running)][::-1]
    finally:
        for process in running:
            process.kill()
    return [process.returncode for process in running], said


def network(weight=0.3):
    """Return a network with synapses in bundles and others, of several delays, in three populations."""
    a = be.models.lif_delta("a", 300, current=be.uniform(100, 400))
    b = be.models.lif_delta("b", 91, current=20.0)
    c = be.models.lif_delta("c", 2, current=30.0)
    projections = [
        be.Projection(
            a, a, be.connect.in_degree(40, weight=be.normal(weight, 0.1)), into="syn", delay=be.uniform(0.5, 2)
        ),
        be.Projection(a, b, be.connect.prob(0.1, weight=be.normal(0.3, 0.1)), into="syn", delay=1.0),
        be.Projection(b, a, be.connect.out_degree(2, weight=-0.2), into="syn", delay=be.uniform(0.4, 9)),
        be.Projection(c, b, np.full((2, 91), 0.1), into="syn", delay=np.linspace(0.4, 2, 182).round(1).reshape(2, 91)),
    ]
    return be.Network([a, b, c], projections, dt=0.1)


RECORD = ["a.spikes", "b.spikes", "c.spikes", "a.counts", "b.rate", "b.v", be.every(3, "a.v", neurons=[5, 200, 3])]


def same(one, other):
    """Compare all arrays of two trees, results or states."""
    for x, y in zip(_leaves(one), _leaves(other), strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert x.tobytes() == y.tobytes()


def _leaves(value):
    if hasattr(value, "events"):
        return [np.asarray(x) for x in value.events]
    if isinstance(value, Mapping):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


def pair(net, **how):
    """Return a simulation in all processes, and the same in this one."""
    how = {"seed": 3, "backend": "numba", **how}
    hosts = how.pop("hosts", "all")
    return net.build(hosts=hosts, threads=1 + jax.process_index() % 2, **how), net.build(**how)


def said(error, act):
    """Return the words of an error that an act raises."""
    try:
        act()
    except error as raised:
        return str(raised)
    raise AssertionError("nothing was raised")


def as_in_one(number, among, alone, reports):
    """Compare runs in pieces, inputs, changes, files and steps with those of one process; find lines in the report."""
    inputs = {"b.syn": np.random.default_rng(1).normal(0, 0.5, (50, 91)), "c.syn": np.full(50, 0.3)}
    for steps, given in ((37, None), (1, None), (50, inputs)):
        found = among.run(steps, RECORD, given)
        same(found, alone.run(steps, RECORD, given))
        assert found["a.spikes"].times.size > 0
        assert not found.interrupted
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
    for line in (*reports, "spikes are exchanged every 4 steps"):
        assert line in report, report


def bits(number, count):
    """Runs, changes and files, and elements side by side: all as in one process."""
    check_room("here", "what a machine has room for", 2**29, on_host=True)  # JAX has no memory of other processes
    among, alone = pair(network())
    assert among.engine._own._memory.deliveries
    assert among.engine._own._memory.bundles
    as_in_one(number, among, alone, [f"{count} processes with "])
    same(among.sweep(5, "a.counts", {"a": {"current": [10.0, 300.0]}})["a.counts"],
         alone.sweep(5, "a.counts", {"a": {"current": [10.0, 300.0]}})["a.counts"])  # fmt: skip


def areas():
    """Return a network of areas with short delays within and long ones between them."""
    sizes = {"A": 90, "B": 60, "C": 80, "D": 50}
    cells = [be.models.lif_delta(name, size, current=be.uniform(100, 400)) for name, size in sizes.items()]
    within = be.connect.in_degree(9, weight=0.3)
    links = [
        be.Projection(one, other, within, into="syn", delay=0.2 if {one.name, other.name} in _NEAR else 1.5)
        for one in cells
        for other in cells
    ]
    return be.Network(cells, links, dt=0.1)


def _areas():
    """Areas that are placed as wholes."""
    among, alone = pair(areas(), hosts="areas")
    report = among.report()
    for line in ("process 0: 150 neurons, synapses take .* kB; all of A, B", "process 1: 130 neurons, .*; all of C, D"):
        assert re.search(line, report), report
    assert "spikes are exchanged every 15 steps" in report, report
    same(among.run(90, ["A.spikes", "D.spikes"]), alone.run(90, ["A.spikes", "D.spikes"]))
    same(among.state, alone.state)


_NEAR = ({"A"}, {"B"}, {"C"}, {"D"}, {"A", "B"}, {"C", "D"})


def goes_on(number, count):
    """Go on with the file of other processes, of another number and with other shares of neurons; each writes one."""
    file, hosts = os.environ["MOVED_FILE"], {"a": 0, "b": 1} if count == 3 else "all"  # which leaves one with little
    sim = network().build(seed=3, backend="numba", hosts=hosts)
    sim.load(file)
    sim.run(31)  # before it ends, all have read the file
    sim.save(f"{file}.{number}")


def kinds(number, count):
    """Whole populations in processes, spikes with values, float64, bursts, and what stops a run."""
    among, alone = pair(network(), hosts={"a": 1, "b": 0}, dtype="float64")
    assert (
        among.engine.shares.own
        == [{"a": (0, 0), "b": (0, 91), "c": (0, 1)}, {"a": (0, 300), "b": (91, 91), "c": (1, 2)}][number]
    )
    same(among.run(90, RECORD), alone.run(90, RECORD))
    same(among.state, alone.state)
    _values()
    _bursts()
    _areas()
    _stops(number)
    _finite(number)


def _values():
    def rule(s, arriving, p):
        v = 0.5 * s.v + arriving.syn + p.drive
        return s.replace(v=v), {"spike": v > 1.0, "value": v}

    cells = be.Population("g", 60, rule, state={"v": 0.0}, params={"drive": be.uniform(0.2, 0.9)}, value_range=(-5, 5))
    links = be.Projection(cells, cells, be.connect.in_degree(9, weight=be.normal(0, 0.05)), into="syn", delay=0.3)
    among, alone = pair(be.Network([cells], [links], dt=0.1))
    found = among.run(50, ["g.spikes", "g.v"])
    same(found, alone.run(50, ["g.spikes", "g.v"]))
    assert found["g.spikes"].times.size > 100
    assert "each step is exchanged because" in among.report()


def _bursts():
    """All neurons at once: more spikes than the first messages have room for."""
    cells = be.Population("many", 6000, lambda s, arriving, p: (s, arriving.syn > 0.5))
    links = be.Projection(cells, cells, be.connect.one_to_one(weight=1.0), into="syn", delay=0.7)
    far = be.Projection(cells, cells, be.connect.in_degree(3, weight=0.1), into="syn", delay=0.4)
    among, alone = pair(be.Network([cells], [links, far], dt=0.1))
    start = np.zeros((60, 6000))
    start[0] = 1.0
    assert _room(among) < 1500
    found = among.run(60, ["many.spikes", "many.rate"], {"many.syn": start})
    same(found, alone.run(60, ["many.spikes", "many.rate"], {"many.syn": start}))
    assert found["many.rate"].max() == 6000
    assert _room(among) > 1500


def _room(among):
    """Return how many spikes a message has room for, about."""
    own = among.engine._own
    return own._room if own.name == "cuda" else own._exchange.room


def _stops(number):
    """A process that is interrupted stops all of them after the same step, and they go on."""

    def act(sim, result):
        if sim.steps == 20 and number == 1:
            raise KeyboardInterrupt

    among, alone = pair(network())
    seen = among.run(100, "a.rate", callback=act, chunk=10)
    assert seen.interrupted
    assert seen.steps == 20 == among.steps
    assert np.array_equal(seen["a.rate"], alone.run(20, "a.rate")["a.rate"])
    same(among.run(30, RECORD), alone.run(30, RECORD))
    many = among.run(40, RECORD, {"b.syn": np.zeros(40)}, progress=number == 1)  # chunks of different lengths
    same(many, alone.run(40, RECORD))


def _finite(number):
    """The first state that is not finite is named in all processes, and is the state."""
    cells = be.Population("x", 40, lambda s, arriving, p: (s.replace(v=s.v * p.k + arriving.syn), s.v > 1e38),
                          state={"v": 1.0}, params={"k": np.where(np.arange(40) == 37, 100.0, 1.0)})  # fmt: skip
    links = be.Projection(cells, cells, be.connect.one_to_one(weight=1.0), into="syn", delay=0.5)
    sims = pair(be.Network([cells], [links], dt=0.1), check_finite=True)
    words = [said(NotFiniteError, lambda sim=sim: sim.run(100)) for sim in sims]
    assert words[0] == words[1]
    assert "state v of neuron 37 is inf" in words[0]
    same(sims[0].state, sims[1].state)
    sims[0].reset()
    sims[0].run(3)


def differs(number, count):
    """Processes that do not do the same are named, and go on when they do."""
    net = network()
    words = said(NetworkError, lambda: net.build(seed=number, backend="numba", hosts="all"))
    assert words == "build: processes 0 and 1 differ in seed; pass the same in all processes"
    words = said(NetworkError, lambda: network(0.3 + number).build(backend="numba", hosts="all"))
    assert words == "build: processes 0 and 1 differ in the network; pass the same in all processes"
    of_other_sizes = be.Network([be.models.lif_delta("a", 40 + number)])
    words = said(NetworkError, lambda: of_other_sizes.build(backend="numba", hosts="all"))
    assert words == "build: processes 0 and 1 differ in the network; pass the same in all processes"
    words = said(NetworkError, lambda: net.build(backend="numba", hosts={"a": number}))
    assert "differ in hosts" in words
    sim = net.build(backend="numba", hosts="all")
    assert "run: processes 0 and 1 differ in steps" in said(NetworkError, lambda: sim.run(10 + number))
    words = said(NetworkError, lambda: sim.run(10, ["a.rate", "a.counts"][number]))
    assert words == "run: processes 0 and 1 differ in record; pass the same in all processes"
    inputs = {"a.syn": np.full(10, 0.1 * number)}
    assert "run: processes 0 and 1 differ in inputs of a.syn" in said(NetworkError, lambda: sim.run(10, inputs=inputs))
    assert "set: processes 0 and 1 differ in b.current" in said(
        NetworkError, lambda: sim.set("b", current=1.0 + number)
    )
    other = (lambda: sim.set("b", current=1.0)) if number else (lambda: sim.run(5))
    words = said(NetworkError, other)
    assert "process 0 calls run, and process 1 calls set; all processes must do the same, in the same order" in words
    assert sim.steps == 0
    sim.run(5)
    if number == 1:
        sim.engine._own._memory.leg = None  # planted: the next leg fails in this process alone
    words = said((NetworkError, TypeError), lambda: sim.run(5))
    assert ("process 1 failed: TypeError" in words) == (number == 0)
    assert "interrupted within a step" in said(NetworkError, lambda: sim.run(5))
    sim.engine._own._memory.leg = 1
    sim.reset()
    assert sim.run(5, "a.rate").steps == 5


def dies(number, count):
    """A process that ends ends the others with an error."""
    sim = network().build(backend="numba", hosts="all")
    sim.run(5)
    if number == 1:
        leave(7)
    words = said(NetworkError, lambda: [sim.run(50) for _ in range(1000)])
    assert "another process ended, or its host cannot be reached" in words
    assert "start all processes again" in words
    assert "another process ended" in said(NetworkError, lambda: sim.run(50))


def never_comes(number, count):
    """A process that does something else for too long is not awaited for ever."""
    sim = network().build(backend="numba", hosts="all")
    file = Path(os.environ["AMONG_HOSTS"]) / "done"
    if number == 1:
        while not file.exists():
            pass
        leave()
    words = said(NetworkError, lambda: sim.run(50))
    file.touch()
    assert "a process did not come within 1.5 seconds (the environment variable BRAINEVENT_PATIENCE)" in words
