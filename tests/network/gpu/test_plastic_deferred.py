# SPDX-License-Identifier: Apache-2.0
"""Calls for events of targets that wait for the next spike of the source, and synapses that are some steps late."""

import dataclasses

import numpy as np
import pytest
import synapse_rules
from beside_interpreter import compare, compare_after_replacing
from gpu_on_cpu import PretendDevice
from plastic_networks import ALL, network, triplet
from ptx import AS_WRITTEN, ptx_of

import brainevent as be
from brainevent.network.gpu import plastic_deferred
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample


@pytest.fixture(autouse=True)
def _small_networks_defer(monkeypatch):
    monkeypatch.setattr(plastic_deferred, "_INDEX", 10**6)
    monkeypatch.setattr(plastic_deferred, "_LEAST_ROW", 0)


def pairs(where, **more):
    """Return rules whose calls for events of targets read a state, a trace of the source and what its spike carried."""
    return triplet(
        where,
        **{
            "on_pre": lambda w, s, pre, post, p: (
                w - p.eta * post.y * w + 0.01 * pre.u,
                s.replace(e=0.9 * s.e + pre.x),
            ),
            "on_post": lambda w, s, pre, post, p: (
                w + 0.02 * pre.x * w + 0.001 * s.e + 0.001 * pre.u,
                s.replace(e=0.5 * s.e + pre.x),
            ),
            "every": (),
        }
        | more,
    )


def engine_of(plan, blocks=3, **more):
    return CudaEngine(plan, blocks=blocks, device=PretendDevice(8), **more)


def plan_of(plasticity, delay=None, **more):
    return synapse_rules.plan_of(network(plasticity, delay), 1, **more)


SAMPLES = {
    name: Sample("ab", name, every, np.array([5, 0, 70, 5, 121]), of_synapses=True)
    for name, every in (("w", 3), ("e", 4))
}
CASES = [  # where, delays, blocks; whether calls wait, and how late synapses are
    ("axon", None, 3, 0),
    ("axon", 0.6, 5, 0),
    ("axon", be.uniform(0.1, 0.9), 1, 0),
    ("axon", be.uniform(0.5, 0.9), 3, 0),
    ("dendrite", 0.3, 3, 0),
    ("dendrite", be.uniform(0.1, 0.9), 5, 0),
    ("dendrite", 0.5, 5, 5),
    ("dendrite", be.uniform(0.6, 0.9), 3, 6),
    ("dendrite", 1.5, 1, 15),
    ("dendrite", 2.5, 3, 16),
]


@pytest.mark.parametrize(("where", "delay", "blocks", "behind"), CASES)
def test_calls_wait(where, delay, blocks, behind):
    """They do so in launches of any length; samples of synapses are those of their steps."""
    engine = engine_of(plan_of(pairs(where), delay), blocks)
    assert engine.plastic.layouts["ab"].deferred
    assert "into" not in engine.plastic.layouts["ab"].arrays
    assert engine.plastic.text.behind == behind
    before = engine.state.synapses["ab"]
    compare(engine, (1, 2, 17, 150), dataclasses.replace(ALL, samples=SAMPLES))
    after = engine.state.synapses["ab"]
    for name in ("w", "e"):
        assert np.mean(before[name] != after[name]) > 0.5


@pytest.mark.parametrize("delay", [0.6, be.uniform(0.6, 0.9)])
def test_synapses_are_late_whose_calls_do_not_wait(delay):
    """Since they read a trace of the target, or come at intervals."""

    def up(w, s, pre, post, p):
        return w + 0.02 * pre.x - 0.01 * post.y

    every = (0.7, lambda w, s, pre, post, p: w - 0.01 * w * pre.x - 0.001 * post.y)
    rules = pairs("dendrite", on_post={"spike": up, "upstate": up}, every=every)
    engine = engine_of(plan_of(rules, delay), 3)
    assert not engine.plastic.layouts["ab"].deferred
    assert engine.plastic.text.behind == 6
    compare(engine, (1, 2, 17, 60), dataclasses.replace(ALL, samples=SAMPLES))


def test_states_of_targets_are_those_of_the_step():
    """So synapses are not late if a rule reads them, and calls do not wait."""
    rules = pairs("dendrite", on_post=lambda w, s, pre, post, p: w + 0.02 * pre.x * post.v)
    engine = engine_of(plan_of(rules, 0.6), 3)
    assert (engine.plastic.layouts["ab"].deferred, engine.plastic.text.behind) == (False, 0)
    compare(engine, (1, 40), ALL)


def spiking_often(where, size):
    """Return a network whose neurons spike in each second step, all at once."""

    def often(s, arriving, p):
        return s.replace(n=s.n + 1, v=s.v + arriving.syn, u=s.v), s.n % 2 == 1

    cells = be.Population("a", size, often, {"n": 0, "v": 0.0, "u": 0.5})
    connect = be.connect.prob(0.2, weight=be.uniform(0, 0.3))
    links = [be.Projection(cells, cells, connect, "syn", 1.2, "aa", pairs(where))]
    links += [be.Projection(cells, cells, connect, "syn", 0.4, "fixed")]
    return be.Network([cells], links, dt=0.1)


@pytest.mark.parametrize(("where", "lag"), [("axon", 3), ("dendrite", 3)])
def test_a_launch_ends_before_a_list_is_full(where, lag):
    """Warps deal with several spikes together."""
    engine = engine_of(synapse_rules.plan_of(spiking_often(where, 70), 1), 3)
    assert engine.plastic.layouts["aa"].deferred
    assert engine.plastic.text.lag == lag
    engine.device.launches.clear()
    compare(engine, (500,), dataclasses.replace(ALL, spikes=("a",)))
    assert sum(launch[1] >= 768 for launch in engine.device.launches) > 5


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_two_projections_of_which_one_waits(where):
    net = network(pairs(where), 0.6)
    a, b = net.populations
    connect = be.connect.prob(0.2, weight=0.1)
    eager = pairs(where, on_post=lambda w, s, pre, post, p: w + 0.02 * pre.x - 0.01 * post.y)
    more = [
        be.Projection(a, a, connect, "syn", 0.6, "aa", eager),
        be.Projection(b, a, connect, "syn", 0.9, "bb", pairs(where)),
    ]
    engine = engine_of(synapse_rules.plan_of(be.Network([a, b], [*net.projections, *more], dt=0.1), 1), 3)
    assert [engine.plastic.layouts[name].deferred for name in ("ab", "aa", "bb")] == [True, False, True]
    compare(engine, (1, 80), dataclasses.replace(ALL, samples=SAMPLES))


def test_long_rows_come_in_parts():
    """And a rule without a call for spikes of the source."""
    a, b = (synapse_rules.population(name, size, seed) for seed, (name, size) in enumerate((("a", 3), ("b", 400))))
    links = [
        be.Projection(a, b, be.connect.prob(0.9, weight=be.uniform(0.0, 0.3)), "syn", delay, name, rules)
        for name, delay, rules in (
            ("long", 0.7, pairs("axon")),
            ("none", 0.2, pairs("axon", on_pre=None, post={}, params={})),
        )
    ]
    engine = engine_of(synapse_rules.plan_of(be.Network([a, b], links, dt=0.1), 1), 1)
    assert [layout.deferred for layout in engine.plastic.layouts.values()] == [True, True]
    compare(engine, (1, 200), ALL)


def test_parameters_weights_and_states_are_replaced_between_launches():
    plan = plan_of(pairs("dendrite"), 0.6)
    ours, theirs = engine_of(plan, 2), Interpreted(plan)
    compare_after_replacing(ours, theirs, (30, 50), ALL)


@pytest.mark.parametrize("why", ["little shared memory", "synapses are watched"])
def test_calls_do_not_wait(why):
    watched = why == "synapses are watched"
    plan = plan_of(pairs("dendrite"), 0.6, check_finite=watched)
    engine = engine_of(plan, 3, shared_bytes=None if watched else 20_000)
    assert not engine.plastic.layouts["ab"].deferred
    assert engine.plastic.text.behind == (0 if watched else 6)
    compare(engine, (1, 30), ALL)


@pytest.mark.parametrize(("where", "delay"), [("axon", be.uniform(0.4, 0.9)), ("dendrite", 1.5)])
def test_the_text_compiles_for_gpus(where, delay):
    engine = engine_of(plan_of(pairs(where), delay))
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure, None, engine.plastic.text), "--std=c++17", AS_WRITTEN)
    for word in ("fma.", "approx"):
        assert word not in ptx
