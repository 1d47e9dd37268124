# SPDX-License-Identifier: Apache-2.0
"""A sweep is many runs of their own, bit for bit, whatever runs them; what does not fit is said in words."""

import dataclasses
import os
import re
import signal
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from recorded import equal, values

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.plan.quantum import RoundedWeightsWarning
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import initial_state

RECORD = ["E.spikes", "I.counts", "E.rate", be.every(3, "E.v", neurons=[5, 1, 30])]
STEPS = 40
RANDOM = np.random.default_rng(0)


def neuron(s, arriving, p, random):
    """Leak, and add noise and drives, of which each neuron has one of its own."""
    v = s.v * p.keep + arriving.syn + p.drive + p.own + 0.05 * random.uniform()
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def network(**delays):
    params = {"keep": 0.95, "drive": 0.06, "threshold": 1.0}
    cells = [
        be.Population(name, size, neuron, {"v": be.uniform(0, 1)}, {**params, "own": be.uniform(0, 0.02)})
        for name, size in (("E", 40), ("I", 10))
    ]
    matrix = np.where(np.arange(400).reshape(10, 40) % 3 == 0, -0.1, 0.0)
    drawn = be.connect.prob(0.2, weight=0.05)
    return be.Network(
        cells,
        [
            be.Projection(cells[0], cells[1], drawn, "syn", name="EI", delay=be.uniform(0.1, 0.9)),
            be.Projection(cells[1], cells[0], matrix, "syn", name="IE", delay=0.3),
        ],
        dt=0.1,
    )


def built(backend="numba", seed=3, **options):
    return network().build(seed=seed, backend=backend, **options)


def synapses():
    return len(built("interpreted").connections("EI"))


DRIVES = np.float32([0.03, 0.06, 0.09])
EACH = RANDOM.uniform(0, 0.1, (3, 40)).astype(np.float32)
INPUT = RANDOM.normal(0, 0.1, (3, STEPS, 40)).astype(np.float32)
WEIGHTS = RANDOM.uniform(-0.2, 0.2, (3, 134)).astype(np.float32)
CASES = {
    "a number": {"values": {"E": {"drive": DRIVES}}},
    "one of each neuron": {"values": {"E": {"own": EACH}}},
    "states": {"values": {"E": {"v": EACH * 9}, "I": {"v": [0.0, 0.5, 0.9]}}},
    "one weight": {"values": {"IE": {"weights": [-0.1, -0.2, -0.31]}}},
    "weights": {"values": {"IE": {"weights": WEIGHTS}, "EI": {"weights": [0.05, 0.05, 0.07]}}},
    "inputs": {"inputs": {"E.syn": INPUT, "I.syn": INPUT[:1, :, 0]}},
    "seeds": {"seeds": [3, 4, 2**63]},
    "all": {
        "values": {"E": {"drive": DRIVES, "v": [0.1, 0.2, 0.3]}, "EI": {"weights": [0.02, 0.05, 0.3]}},
        "inputs": {"I.syn": INPUT[:, :, :10]},
        "seeds": np.arange(3),
    },
}


def separate(backend, case, k):
    """Return element k of a case by a build of its own."""
    seeds = case.get("seeds")
    sim = built(backend, 3 if seeds is None else int(seeds[k]), **({"threads": 1} if backend == "numba" else {}))
    own = {name: {key: x[min(k, len(x) - 1)] for key, x in v.items()} for name, v in case.get("values", {}).items()}
    for name, given in own.items():
        sim.set(name, **given)
    return sim.run(STEPS, RECORD, {key: x[min(k, len(x) - 1)] for key, x in case.get("inputs", {}).items()})


def check(swept, expected):
    assert len(swept) == len(expected)
    for one, other in zip(swept, expected, strict=True):
        equal(values(one), values(other))
        assert (one.first, one.steps, one.interrupted) == (other.first, other.steps, False)


@pytest.mark.parametrize("case", CASES)
def test_every_swept_value_is_that_of_a_build_of_its_own(case):
    """On one thread and on two, of a plan in one part and in two, and in the engine that defines the results."""
    expected = [separate("numba", CASES[case], k) for k in range(3)]
    counts = [one["E.rate"].sum() for one in expected]
    assert len(set(counts)) > 1, "elements must differ"
    for threads, parts in ((1, 1), (2, 1), (2, 2)):
        check(built(threads=parts).sweep(STEPS, RECORD, **CASES[case], threads=threads), expected)
    check(built("interpreted").sweep(STEPS, RECORD, **CASES[case]), expected)


def test_the_reference_sweeps_too():
    sim = built("jax")
    swept = sim.sweep(STEPS, RECORD, {"E": {"drive": DRIVES[:2]}, "EI": {"weights": [0.05, 0.0625]}})
    for one, drive, weight in zip(swept, DRIVES, [0.05, 0.0625], strict=False):
        sim.reset()
        sim.set("E", drive=drive)
        sim.set("EI", weights=weight)
        equal(values(one), values(sim.run(STEPS, RECORD)))


def test_trials_of_one_network_keep_its_synapses():
    sim = built()
    swept = sim.sweep(STEPS, RECORD, seeds=[3, 8], redraw=False)
    for seed, one in zip((3, 8), swept, strict=True):
        other = built(seed=seed)
        plan = dataclasses.replace(other.plan, synapses=sim.plan.synapses)
        equal(values(one), values(Simulation(plan, NumbaEngine(plan)).run(STEPS, RECORD)))


def test_elements_begin_with_what_was_set_and_is_on_its_way():
    """And the simulation itself does not change."""
    sims = [built() for _ in range(4)]
    for sim in sims:
        sim.set("E", threshold=0.9, own=0.01)
        sim.set("IE", weights=-0.2)
        sim.run(25)
    before = sims[0].state
    swept = sims[0].sweep(STEPS, RECORD, {"E": {"drive": DRIVES}, "EI": {"weights": [0.05, 0.06, 0.0625]}})
    equal(sims[0].state.arriving, before.arriving)
    for k, sim in enumerate(sims[1:]):
        sim.set("EI", weights=[0.05, 0.06, 0.0625][k])
        sim.set("E", drive=DRIVES[k])
        equal(values(swept[k]), values(sim.run(STEPS, RECORD)))
    assert (swept[0].first, sims[0].steps) == (25, 25)
    equal(values(sims[0].run(9, RECORD)), values(expected_from(before).run(9, RECORD)))


def expected_from(state):
    sim = built()
    sim.set("E", threshold=0.9, own=0.01)
    sim.set("IE", weights=-0.2)
    sim.state = state
    return sim


def test_seeds_keep_what_was_set_but_begin_anew():
    sim, other = built(), built(seed=5)
    for one in (sim, other):
        one.set("E", threshold=0.8)
        one.set("EI", weights=0.11)
    sim.run(7)
    equal(values(sim.sweep(STEPS, RECORD, seeds=[5])[0]), values(other.run(STEPS, RECORD)))


def test_results_are_indexed_by_element_and_by_label():
    swept = built().sweep(ms=4, record=RECORD, values={"E": {"drive": DRIVES}})
    assert swept["I.counts"].shape == (3, 10)
    assert swept["E.rate"].shape == (3, STEPS)
    assert swept["E.v"].shape == (3, 14, 3)
    np.testing.assert_array_equal(swept["E.rate"][1], swept[1]["E.rate"])
    assert [one.size for one in swept["E.spikes"]] == [40] * 3
    assert len(swept[1:]) == 2
    assert swept[-1] is swept[2]
    assert list(swept) == list(swept.results)
    assert repr(swept) == "SweepResult(3 elements of 40 steps; recorded: E.spikes, I.counts, E.rate, E.v)"
    assert "E.rate" in swept._repr_html_()
    with pytest.raises(NetworkError, match=re.escape("result: 'E.rates' was not recorded; did you mean 'E.rate'?")):
        swept["E.rates"]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"sweep: there is no element {index}; there are 3, numbered from 0"):
            swept[index]


REFUSED = {
    "nothing": ({}, "sweep: nothing differs between elements; pass values=, seeds= or inputs="),
    "lengths": (
        {"values": {"E": {"drive": DRIVES}, "I": {"drive": [1.0, 2.0]}}},
        "sweep: drive of I has 2 elements, but drive of E has 3 elements; pass arrays whose first axis is over the",
    ),
    "seeds of another length": (
        {"values": {"E": {"drive": DRIVES}}, "seeds": [1]},
        "sweep: seeds has 1 element, but drive of E has 3 elements",
    ),
    "no elements": ({"seeds": []}, "sweep: seeds has 0 elements; pass at least one"),
    "a number": ({"values": {"E": {"drive": 0.1}}}, "sweep: drive of E is 0.1; pass an array whose first axis"),
    "a list": ({"values": [1]}, "sweep: values is list; pass a dictionary of arrays by name"),
    "no names": ({"values": {"E": [1.0]}}, "sweep: values['E'] is list; pass a dictionary, such as"),
    "a population": (
        {"values": {"EE": {"drive": DRIVES}}},
        "sweep: element 0: there is no population 'EE', nor a projection; did you mean 'E'?",
    ),
    "a parameter": (
        {"values": {"E": {"driv": DRIVES}}},
        "sweep: element 0: E has no 'driv'; did you mean 'drive'?; parameters: keep, drive",
    ),
    "a shape": (
        {"values": {"E": {"own": EACH[:, :7]}}},
        "sweep: element 0: own of E has shape (7,); pass a number or an array (40,)",
    ),
    "not a number": ({"values": {"E": {"drive": [0.1, np.nan]}}}, "sweep: element 1: drive of E: is NaN; pass numbers"),
    "weights": (
        {"values": {"IE": {"weights": WEIGHTS[:, :9]}}},
        "sweep: element 0: weights of IE have the shape (9,); pass a number, or an array (134,)",
    ),
    "another of a projection": (
        {"values": {"IE": {"delay": DRIVES}}},
        "sweep: element 0: IE has no 'delay'; only the weights of a projection can be set",
    ),
    "an input": (
        {"inputs": {"E.sym": INPUT}},
        "inputs: E has no receptor 'sym'; did you mean 'syn'?; receptors: syn",
    ),
    "an input of other steps": (
        {"inputs": {"E.syn": INPUT[:, 1:]}},
        "inputs: 'E.syn' has shape (39, 40); pass (40, 40)",
    ),
    "a seed": ({"seeds": [1, -1]}, "build: seed is -1; pass an integer from 0 to 2**64 - 1"),
    "a list of lists": ({"seeds": [[1]]}, "sweep: seeds is [[1]]; pass a list of integers, or range(10)"),
    "threads": ({"seeds": [1], "threads": 0}, "sweep: threads is 0; pass an integer from 1 to 1024"),
    "redraw": ({"seeds": [1], "redraw": 1}, "sweep: redraw is 1; pass True or False"),
    "two durations": ({"seeds": [1], "ms": 3}, "sweep: steps is 40 and ms is 3; pass one of them"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_said(case):
    given, message = REFUSED[case]
    sim = built()
    with pytest.raises(NetworkError, match=re.escape(message)):
        sim.sweep(STEPS, RECORD, **given)
    assert sim.steps == 0


def test_threads_are_an_option_of_the_cpu():
    with pytest.raises(NetworkError, match=re.escape("sweep: threads is an option of backend='numba', but the")):
        built("interpreted").sweep(1, values={"E": {"drive": DRIVES}}, threads=2)


def test_seeds_need_the_description():
    plan = built().plan
    with pytest.raises(NetworkError, match="sweep: seeds need the description of the network; build it by"):
        Simulation(plan, NumbaEngine(plan)).sweep(1, seeds=[1])


def test_what_cannot_be_recorded_is_said_before_anything_runs(monkeypatch):
    monkeypatch.setattr("brainevent.event.room._available", lambda: 10**8)
    message = "sweep: what 40000 steps of 100 elements record (E.v 640 MB) would take 640 MB, but the host has 100 MB"
    with pytest.raises(MemoryError, match=re.escape(message) + ".*; 15 elements fit: record fewer neurons"):
        built().sweep(40_000, "E.v", {"E": {"drive": [0.1] * 100}})


def test_synapses_of_elements_that_do_not_fit_are_said(monkeypatch):
    sim = built(threads=1)
    monkeypatch.setattr("brainevent.event.room._available", lambda: 1000)
    monkeypatch.setattr("brainevent.event.room._SMALL", 0)
    message = r"sweep: the synapses of 3 elements at once would take .* the host has 1 kB .* pass fewer threads="
    with pytest.raises(MemoryError, match=message):
        sim.sweep(5, values=CASES["one weight"]["values"], threads=3)


def test_weights_that_are_rounded_warn():
    weights = np.full((2, 134), 0.1)
    weights[1, 0] = 1e-12
    with pytest.warns(RoundedWeightsWarning, match="sweep: element 1: weights of IE: 1 of 134 were rounded"):
        built().sweep(1, values={"IE": {"weights": weights}})


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_all_elements_after_a_whole_step(threads):
    sim = built()
    press = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    press.start()
    swept = sim.sweep(10**8, ["E.rate"], seeds=range(5), redraw=False, threads=threads)
    press.join()
    assert swept.interrupted
    assert swept[0].steps > 0
    assert swept[4].steps == 0
    assert all(one.interrupted and len(one["E.rate"]) == one.steps for one in swept)
    ran = swept[0].steps
    equal(values(swept[0]), values(sim.sweep(ran, ["E.rate"], seeds=[0], redraw=False)[0]))
    most = max(one.steps for one in swept)
    with pytest.raises(NetworkError, match=f"sweep: 'E.rate' differs in shape, since elements ran 0 to {most} steps"):
        swept["E.rate"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("threads", [1, 2])
def test_an_element_that_fails_names_itself(threads):
    sim = built(check_finite=True)
    keep = np.full(6, 0.9, np.float32)
    keep[4] = 1e30
    with pytest.raises(NotFiniteError) as error:
        sim.sweep(STEPS, RECORD, {"E": {"keep": keep}}, threads=threads)
    assert error.value.__notes__ == ["in element 4 of the sweep"]


def test_the_number_of_threads_follows_the_environment(monkeypatch):
    began = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: began.append(self.name) or start(self))
    for variable, count in (("3", 2), ("1", 0)):
        began.clear()
        monkeypatch.setenv("BRAINEVENT_THREADS", variable)
        built(threads=1).sweep(5, values={"E": {"drive": [0.1] * 9}})
        assert len(began) == count
    began.clear()
    monkeypatch.setenv("BRAINEVENT_THREADS", "9")
    built(threads=1).sweep(5, values={"E": {"drive": [0.1, 0.2]}})
    assert len(began) == 1, "no more threads than elements"


@pytest.mark.parametrize(
    ("backend", "how"),
    [("numba", "side by side, one a thread"), ("jax", "one after another in a sweep, as one batch under jax.vmap")],
)
def test_the_report_says_how_elements_run(backend, how):
    sim = built(backend)
    assert f"elements of sweeps and batches run {how}" in sim.report().splitlines()
    assert sim.explain().splitlines()[-1] == f"elements of sweeps and batches run {how}"


def test_initial_states_are_those_of_seeds():
    still = {"keep": [1.0], "drive": [0.0], "own": [0.0], "threshold": [9.0]}
    swept = built().sweep(1, "E.v", {"E": still}, seeds=[11])
    moved = swept[0]["E.v"][0] - initial_state(built(seed=11).plan).neurons["E"]["v"]
    assert 0 < moved.min() < moved.max() < 0.06
