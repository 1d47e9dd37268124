# SPDX-License-Identifier: Apache-2.0
"""Graded spikes in the kernel for GPUs, on a pretended one: the bits of the interpreter for every layout and packet."""

import dataclasses

import jax
import numpy as np
import pytest
import small_plans
import test_network_gpu as pretended
import test_network_in_jax as in_jax
from beside_interpreter import ALL, compare, plans, stop_alike, wishes
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import ptx_of
from small_plans import graded

import brainevent as be
from brainevent.network.gpu import partition
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT, SLOTS
from brainevent.network.gpu.text import step_text
from brainevent.network.run.recorded import Wanted

engine_of, SMALL = pretended.engine_of, pretended.SMALL


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = graded(data.draw(plans(data.draw(st.integers(1, 2)))), *data.draw(st.sampled_from(["", "a", "b"])))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    engine = engine_of(plan, data.draw(st.sampled_from([1, 5])), data.draw(st.sampled_from([None, SMALL])))
    compare(engine, [cut, 24 - cut], wanted, inputs)


@pytest.mark.parametrize(("blocks", "shared_bytes"), [(1, None), (8, None), (3, SMALL)])
def test_a_busy_network_equals_the_interpreter(blocks, shared_bytes):
    engine = engine_of(graded(small_plans.plan(2)), blocks, shared_bytes)
    assert engine.shape.structure.cluster == 0  # values travel through memory
    (record,) = compare(engine, [100], ALL)
    assert record.spikes["a"][0].size > 100


@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(("edges", "blocks", "layout"), [(1500, 2, PADDED), (150, 3, SHORT), (130_000, 1, COMPACT)])
def test_every_layout_of_rows(weight, edges, blocks, layout):
    engine = engine_of(graded(pretended.dense(edges, weight=weight)), blocks)
    assert engine.rows.layout == layout
    compare(engine, [60], Wanted(("a",)))


def test_rows_in_slots():
    plan = pretended.dense(400)
    (synapses,) = plan.synapses
    weights = np.where(synapses.weights > 0, np.int16(2), np.int16(-1))
    engine = engine_of(
        graded(dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))), 5, SMALL
    )
    assert engine.rows.layout == SLOTS
    compare(engine, [60], Wanted(("a",)))


@pytest.mark.parametrize(("most", "blocks"), [(one[0], one[1]) for one in pretended.PACKETS])
def test_any_number_of_spikes_in_a_packet(most, blocks):
    engine = engine_of(graded(pretended.one_after_another(most, blocks, 10_000)), blocks)
    (record,) = compare(engine, [most + 12], Wanted(("a",)))
    assert record.spikes["a"][0].size


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
def test_all_neurons_at_once(shared_bytes):
    compare(engine_of(graded(pretended.bursting(2600)), 2, shared_bytes), [20, 7], Wanted(("a",), ("a",), ("a",)))


@pytest.mark.parametrize("names", [(), ("a",), ("c",)])
@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, names, most):
    """In registers, several a thread, or in memory, where blocks push; with spikes without values beside them."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = pretended.crowded()
    engine = engine_of(graded(plan, *names), 2)
    assert (engine.rows.layout == PUSHED) == (most == 0)
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


def test_populations_of_several_kinds():
    compare(engine_of(graded(pretended.of_several_kinds(), "z")), [40], Wanted(("x", "y", "z"), ("y",)))


def test_weights_above_what_a_float_holds_are_exact_without_values():
    """Spikes without values deliver the integer, beside a population whose spikes have values."""
    plan = small_plans.plan(1)
    synapses = list(plan.synapses)
    heavy = dataclasses.replace(synapses[3], weights=np.array([2**24 + 1], np.int32))  # from b, which has no values
    plan = dataclasses.replace(plan, synapses=(*synapses[:3], heavy, *synapses[4:]))
    engine = engine_of(graded(plan, "a"))
    compare(engine, [30], ALL)
    assert (engine.state.arriving["b"]["syn"] % 2).any()


@pytest.mark.parametrize("check_finite", [False, True])
def test_a_value_out_of_range_stops_the_run_after_its_step(check_finite):
    plan = dataclasses.replace(graded(small_plans.plan(1), "a", clip=False), check_finite=check_finite)
    stop_alike(plan, engine_of(plan), "value_range")


def test_infinite_states_are_fine_unless_all_are_checked():
    engine = engine_of(graded(small_plans.plan(1), "a"))
    state = engine.state
    state.neurons["a"]["v"][3] = -np.inf
    engine.load(state)
    engine.run(5, ALL, {})
    assert engine.step == 5


def test_programs_of_jax():
    """Alone, and side by side under `vmap`."""
    in_jax.compare(in_jax.built(graded(small_plans.plan(2))), [7, 20], ALL)
    plan, decays = graded(small_plans.plan(1)), np.array([0.9, 0.5, 0.99], np.float32)
    sim = in_jax.built(plan)

    def run(decay):
        return be.simulate(sim, sim.state, {"a": {"decay": decay}}, 12, record=ALL)

    found = jax.jit(jax.vmap(run))(decays)
    for k, decay in enumerate(decays):
        one = jax.tree.map(lambda x: x[k], found)  # noqa: B023 - called at once
        in_jax.check(plan, in_jax.interpreted(plan, {"a": {"decay": decay}}), 12, ALL, {}, *one)


def test_the_text_compiles_for_gpus():
    engine = engine_of(graded(small_plans.plan(1)))
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure))
    assert "cvt.rni.s32.f32" in ptx or "cvt.rni.f32.f32" in ptx  # rounded to the nearest whole number, ties to even
    plain = engine_of(small_plans.plan(1))
    assert "cvt.rni" not in ptx_of(step_text(plain.kinds, dataclasses.replace(plain.shape.structure, cluster=0)))
