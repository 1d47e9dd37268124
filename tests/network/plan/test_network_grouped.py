# SPDX-License-Identifier: Apache-2.0
"""`in_degree` with a table: synapses between groups of neurons, in one projection."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_network_drawing import both, rows_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.plan import owned
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.connections import connections

TABLE = np.array([[3, 0, 5], [40, 7, 0]])  # two groups of targets, three of sources
pytestmark = pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning")
SOURCES, TARGETS = np.array([2, 0, 1, 0, 2, 1, 1, 0, 2, 2]), np.array([1, 0, 0, 1, 0, 1, 1])


def population(name, **at):
    size = len(next(iter(at.values())))
    return be.Population(name, size, lambda s, arriving, p: (s, arriving.syn > 1), at=at)


def joined(table=TABLE, sources=SOURCES, targets=TARGETS, part=None, delay=0.3, **how):
    """Return a network of one projection between groups, and the two populations."""
    a, b = population("a", area=sources, x=np.arange(len(sources))), population("b", area=targets)
    connect = be.connect.in_degree(table, by="area", **how)
    ends = (a if part is None else a[part], b)
    return be.Network([a, b], [be.Projection(*ends, connect, into="syn", delay=delay, name="p")], dt=0.1)


def found(plan):
    one = connections(plan, "p")
    return np.asarray(one.sources), np.asarray(one.targets)


def numbers(plan, table, sources=SOURCES, targets=TARGETS):
    """Return how many synapses each target has from each group."""
    counts = np.zeros((len(targets), table.shape[1]), int)
    ends = found(plan)
    np.add.at(counts, (ends[1], sources[ends[0]]), 1)
    return counts


@pytest.mark.parametrize("weight", [0.5, be.normal(1, 0.1)])
@pytest.mark.parametrize("delay", [0.3, be.normal(1.5, 0.75), lambda pre, post: 0.1 * pre.x])
def test_each_neuron_has_what_the_table_says(weight, delay):
    plan = build_plan(joined(weight=weight, delay=delay), seed=5)
    np.testing.assert_array_equal(numbers(plan, TABLE), TABLE[TARGETS])
    assert plan.projections[0].entries == TABLE[TARGETS].sum()
    again = build_plan(joined(weight=weight, delay=delay), seed=5, parts=3)
    assert sorted(zip(*found(plan), strict=True)) == sorted(zip(*found(again), strict=True))
    other = build_plan(joined(weight=weight, delay=delay), seed=6)
    assert sorted(zip(*found(plan), strict=True)) != sorted(zip(*found(other), strict=True))


def test_all_sources_of_a_group_are_as_likely():
    sources, targets = np.arange(60) % 3, np.zeros(2000, int)
    plan = build_plan(joined(np.array([[6, 0, 3]]), sources, targets), seed=1)
    counts = np.bincount(found(plan)[0], minlength=60)
    assert not counts[sources == 1].any()
    for group, number in ((0, 6), (2, 3)):
        own, mean = counts[sources == group], 2000 * number / 20
        assert own.sum() == 2000 * number
        assert abs(own - mean).max() < 5 * mean**0.5
        assert own.var() > 0.2 * mean


@given(data=st.data(), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=12, deadline=None)
def test_a_device_draws_what_the_host_draws(data, seed):
    groups = data.draw(st.integers(1, 9))
    table = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 40), min_size=groups, max_size=groups), min_size=1, max_size=4))
    )
    sources = np.arange(data.draw(st.integers(groups, 120)))[::-1] % groups
    targets = np.arange(data.draw(st.integers(1, 60))) % len(table)
    part = data.draw(st.sampled_from([None, slice(None, None, -1)]))
    how = {"weight": data.draw(st.sampled_from([-0.3, be.normal(87.8, 8.78, low=0)])), "part": part}
    how["delay"] = data.draw(st.sampled_from([0.7, be.normal(1.5, 0.75), lambda pre, post: 0.1 + pre.x / 9]))
    theirs, ours = both(joined(table, sources, targets, **how), seed=seed, round_delays=True)
    np.testing.assert_array_equal(numbers(theirs, table, sources, targets), table[targets])
    assert ours.projections == theirs.projections
    assert ours.fingerprint == theirs.fingerprint
    (how_ours, mine), (how_theirs, expected) = rows_of(ours, 3), rows_of(theirs, 3)
    assert how_ours == how_theirs
    np.testing.assert_array_equal(mine, expected)


def test_processes_own_parts_of_them():
    whole = build_plan(joined(weight=be.normal(1, 0.1)), seed=3)
    kept = 0
    for share in ((0, 3), (3, 7)):
        sharing = owned.Sharing({"a": (0, 10), "b": share}, 1)
        plan = build_plan(joined(weight=be.normal(1, 0.1)), seed=3, measure=sharing)
        assert plan.projections == whole.projections
        assert (plan.loads, plan.fingerprint) == (whole.loads, whole.fingerprint)
        mine = owned.own_plan(plan, sharing).synapses[0]
        assert isinstance(plan.synapses.sources[0], owned.OwnedDescription)
        chosen = (whole.synapses[0].targets >= share[0]) & (whole.synapses[0].targets < share[1])
        np.testing.assert_array_equal(mine.targets, whole.synapses[0].targets[chosen])
        np.testing.assert_array_equal(mine.weights, whole.synapses[0].weights[chosen])
        kept += mine.targets.size
    assert kept == whole.projections[0].entries


def test_between_parts_groups_are_those_of_the_parts():
    part = SOURCES != 1
    table = np.where(np.arange(3) == 1, 0, TABLE)
    plan = build_plan(joined(table, part=part), seed=2)
    np.testing.assert_array_equal(numbers(plan, table), table[TARGETS])
    with pytest.raises(NetworkError, match=r"draws 7 synapses into each target of group 1 from sources of group 1"):
        build_plan(joined(part=part))


def test_plastic_synapses_and_couplings_of_groups():
    cells = be.models.lif_delta("cells", 30)
    cells = dataclasses.replace(cells, at={"area": np.arange(30) % 2})
    table = [[2, 3], [0, 4]]
    stdp = be.plasticity.stdp(w_max=1.0)
    plastic = be.Projection(
        cells, cells, be.connect.in_degree(table, by="area", weight=0.1), "syn", 1.0, "plastic", stdp
    )
    carry = be.Coupling(cells, cells, be.connect.in_degree(table, by="area", weight=0.1), of="v", into="syn", name="c")
    sim = be.Network([cells], [plastic, carry], dt=0.1).build(seed=1, backend="numba")
    for name in ("plastic", "c"):
        one = sim.connections(name)
        groups = np.zeros((30, 2), int)
        np.add.at(groups, (one.targets, np.asarray(one.sources) % 2), 1)
        np.testing.assert_array_equal(groups, np.array(table)[np.arange(30) % 2])


def test_the_table_is_part_of_the_description():
    names = {build_plan(joined(table), seed=1).fingerprint for table in (TABLE, TABLE + 1)}
    assert len(names) == 2
    table = TABLE.copy()
    network = joined(table)
    table[:] = 0
    assert build_plan(network).projections[0].entries == TABLE[TARGETS].sum()
    assert build_plan(joined(0 * TABLE)).projections[0].entries == 0


@pytest.mark.parametrize(
    ("number", "how", "words"),
    [
        (5, {}, r"number, with by='area', is 5; pass integers that are not negative, \(groups of targets"),
        ([[1.5]], {}, r"is float64 \(1, 1\)"),
        ([[True]], {}, r"is bool \(1, 1\)"),
        ([[1, 2], [3]], {}, "is not one array"),
        (np.zeros((0, 2), int), {}, r"is int64 \(0, 2\)"),
        ([[1, -2]], {}, r"has -2 at \(0, 1\)"),
        ([[2**31]], {}, "has 2147483648 at"),
        ([[1]], {"replace": False}, "replace is False with by='area'; pass replace=True"),
        ([[1]], {"self_connections": False}, "self_connections is False with by='area'"),
        ([[1]], {"by": 3}, "by is 3; pass the name of an attribute"),
        ([[1]], {"by": ""}, "by is ''"),
    ],
)
def test_wrong_tables(number, how, words):
    with pytest.raises(NetworkError, match=words):
        be.connect.in_degree(number, **{"by": "area", **how})


def test_groups_that_are_not_there():
    table = [[1, 1], [1, 1]]
    with pytest.raises(NetworkError, match=r"the attribute area of neuron 0 of a is 2, but the table has 2 groups"):
        build_plan(joined(table))
    with pytest.raises(NetworkError, match=r"the attribute area of neuron 1 of b is 0.5; in_degree.* needs integers"):
        build_plan(joined(targets=np.array([1, 0.5])))
    with pytest.raises(NetworkError, match=r"from sources of group 1, but a has none; pass 0 at \(0, 1\)"):
        build_plan(joined(table, sources=np.zeros(4)))
    a = population("a", aera=SOURCES)
    link = be.Projection(a, a, be.connect.in_degree(table, by="area"), into="syn")
    with pytest.raises(NetworkError, match=r"a has no attribute 'area'.*did you mean 'aera'"):
        build_plan(be.Network([a], [link]))
    a = be.Population("a", 9, lambda s, arriving, p: (s, arriving.syn > 1), at={"area": be.uniform(0, 1)})
    link = be.Projection(a, a, be.connect.in_degree(table, by="area"), into="syn")
    with pytest.raises(NetworkError, match="the attribute area of a is drawn"):
        build_plan(be.Network([a], [link]))
    assert repr(be.connect.in_degree(TABLE, by="area")) == "in_degree(a table (2, 3), by='area', weight=1.0)"
    empty = be.Projection(a[:0], a, be.connect.in_degree(table, by="area"), into="syn")
    with pytest.raises(NetworkError, match=r"but the source .* has no neurons"):
        build_plan(be.Network([a], [empty]))
