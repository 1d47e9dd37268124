# SPDX-License-Identifier: Apache-2.0
"""Synapses of several projections, merged by delay, and taken apart again."""

import dataclasses

import numpy as np
import pytest
import small_plans
from hypothesis import given
from hypothesis import strategies as st

from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan import bundles
from brainevent.network.plan.bundles import bundled_anyhow, bundles_of
from brainevent.network.plan.plan import Plan, part_bounds
from brainevent.network.plan.projections import projection_of
from brainevent.network.run.recorded import Wanted

WEIGHTS, DELAYS, TARGETS = ("int16", "int32", 7), ("uint8", "uint16", 3, 300), ("uint16", "int32")


@st.composite
def networks(draw):
    """Return populations and projections between them, of all dtypes, with one or several to a receptor."""
    parts = draw(st.integers(1, 3))
    cells = [small_plans.population("a", 48, 1), small_plans.population("b", 300, 2, quantum=0.5)]
    joined = []
    for k in range(draw(st.integers(2, 5))):
        ends = [cells[draw(st.integers(0, 1))] for _ in range(2)]
        kinds = {"weight": WEIGHTS, "delay": DELAYS, "targets": TARGETS}
        chosen = {key: draw(st.sampled_from(values)) for key, values in kinds.items()}
        synapses = small_plans.synapses(*ends, draw(st.sampled_from([2000, 1, 2000, 0])), parts, seed=k, **chosen)
        joined.append(dataclasses.replace(synapses, name=f"{k}"))
    return cells, parts, joined


def bundled(cells, parts, joined):
    return bundled_anyhow(Plan(tuple(cells), joined, 0.1, 1, parts, ""))


def same(ours, theirs):
    for field in dataclasses.fields(theirs):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        np.testing.assert_array_equal(a, b)
        if field.name in ("targets", "weights", "delays"):
            assert a.dtype == b.dtype


@given(networks(), st.sampled_from([0, 4, 10**9]), st.booleans())
def test_projections_are_taken_out_as_they_were_given(network, long, few):
    """By NumPy if they are few, and else by native code, whose bundles are the same."""
    cells, parts, joined = network
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "_LONG", long)
        patch.setattr(bundles, "FEW", bundles.FEW if few else -1)
        _are_as_given(cells, parts, joined, long)
        of_bundles = bundles_of(bundled(cells, parts, joined))
        patch.setattr(bundles, "FEW", bundles.FEW if not few else -1)
        for ours, theirs in zip(of_bundles, bundles_of(bundled(cells, parts, joined)), strict=True):
            same(ours, theirs)
            assert ours.places.dtype == theirs.places.dtype


def _are_as_given(cells, parts, joined, long):
    found = bundled(cells, parts, joined)
    assert len(found) == len(joined)
    assert list(found.projections) == [projection_of(synapses) for synapses in joined]
    merged = {place for bundle in bundles_of(found) for place in bundle.members}
    assert merged | found.held.keys() == set(range(len(joined)))
    assert not merged & found.held.keys()
    if long == 0:
        assert found.held.keys() == {k for k, synapses in enumerate(joined) if not synapses.targets.size}
    for ours, theirs in zip(found, joined, strict=True):
        same(ours, theirs)
    for ours, theirs in zip(found[1:], joined[1:], strict=True):
        same(ours, theirs)


@given(networks(), st.integers(0, 100))
def test_the_synapses_of_a_projection_are_replaced(network, seed):
    cells, parts, joined = network
    found = bundled(cells, parts, joined)
    place = seed % len(joined)
    old = joined[place]
    source, target = (next(p for p in cells if p.name == name) for name in (old.source, old.target))
    joined[place] = dataclasses.replace(
        small_plans.synapses(source, target, 500, parts, seed=seed, weight="int32"), name=old.name
    )
    found = found.replaced({place: (joined[place], projection_of(joined[place]))})
    assert list(found.projections) == [projection_of(synapses) for synapses in joined]
    for ours, theirs in zip(found, joined, strict=True):
        same(ours, theirs)


def test_stretches_that_are_too_short_are_not_bundled():
    cells = small_plans.population("a", 37, 1)
    few, many = (small_plans.synapses(cells, cells, edges, 1) for edges in (100, 5000))
    assert not bundles_of(bundled([cells], 1, [few]))
    (bundle,) = bundles_of(bundled([cells], 1, [many]))
    assert bundle.delays.tolist() == list(range(1, 9))
    assert bundle.nbytes == bundle.starts.nbytes + 5000 * 4
    with_one = bundled([cells], 1, [few, small_plans.synapses(cells, cells, 100, 1, delay=5)])
    assert [list(with_one.held), [bundle.members for bundle in bundles_of(with_one)]] == [[0], [(1,)]]
    other = small_plans.population("b", 20, 1)
    apart = bundled([cells, other], 1, [few, small_plans.synapses(cells, other, 100, 1, delay=5)])
    assert [list(apart.held), [bundle.members for bundle in bundles_of(apart)]] == [[0], [(1,)]]


@pytest.mark.parametrize(("weights", "least"), [([-3, 5, 0], 3), ([-5, 4, 0], 4), ([-7], 7), ([0, 0], 0)])
def test_the_smallest_weight_of_a_projection_is_that_of_either_sign(weights, least):
    cells = small_plans.population("a", 37, 1)
    synapses = small_plans.synapses(cells, cells, len(weights), 1)
    assert projection_of(dataclasses.replace(synapses, weights=np.int16(weights))).least == least


@given(st.integers(1, 50_000), st.integers(1, 5))
def test_large_parts_begin_with_a_line_of_cache(size, parts):
    bounds = part_bounds(size, parts)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, size, parts + 1)
    assert (np.diff(bounds) >= 0).all()
    assert size < 256 * parts or (bounds[:-1] % 16 == 0).all()


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_was_on_its_way_arrives_once(parts):
    """A state that is loaded waits in the ring, which then has but one slot again; a saved one has both."""
    a, b = small_plans.population("a", 37, 1), small_plans.population("b", 300, 2, quantum=0.5)
    joined = [
        small_plans.synapses(a, b, 5000, parts, delay="uint8", seed=1),
        small_plans.synapses(b, a, 900, parts, delay=60, seed=2),
    ]
    plan = Plan((a, b), tuple(joined), 0.1, 1, parts, "")
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    assert ours.memory.ring.slots == 1
    for steps in (1, 5, 70, 3, 40):
        for engine in (ours, theirs):
            engine.run(steps, Wanted(("a",)), {})
        state = theirs.state
        for name, receptors in state.arriving.items():
            np.testing.assert_array_equal(ours.state.arriving[name]["syn"], receptors["syn"])
        np.testing.assert_array_equal(ours.state.neurons["a"]["v"], state.neurons["a"]["v"])
        if steps > 1:
            ours.load(state)
            assert ours.memory.ring.slots == 64
    ours.run(70, Wanted(), {})
    theirs.run(70, Wanted(), {})
    assert ours.memory.ring.slots == 1
    np.testing.assert_array_equal(ours.state.neurons["b"]["v"], theirs.state.neurons["b"]["v"])
    assert theirs.state.arriving["a"]["syn"].any()
