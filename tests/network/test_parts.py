# SPDX-License-Identifier: Apache-2.0
"""Parts of populations: the same network as one with explicit synapses; what is recorded, set and given of them."""

import copy
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import ptx_of
from test_network_drawing import both, rows_of

import brainevent as be
from brainevent.errors import NetworkError, ShapeError
from brainevent.network.gpu import drawing
from brainevent.network.gpu.drawing import drawing_text
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.connections import connections
from brainevent.network.plan.drawing import Description


def leaky(s, arriving, p):
    v = 0.9 * s.v + arriving.syn + p.drive
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def cells(name, size, threshold=1.0):
    params = {"threshold": threshold, "drive": np.linspace(0.12, 0.2, size)}
    return be.Population(name, size, leaky, state={"v": be.uniform(0, 1)}, params=params)


EXC, INH = cells("exc", 20, np.full(20, 1.0)), cells("inh", 10)
MASK = np.arange(20) % 3 == 1
LEFT, MIXED = EXC[MASK], EXC[[7, 2, 11]]
INPUTS = {(LEFT, "syn"): np.full(30, 0.25), "exc[:3].syn": np.full((30, 3), 0.125), "exc.syn": np.full(30, 0.0625)}


def network():
    return be.Network(
        [EXC, INH],
        [
            be.Projection(LEFT, INH[:5], be.connect.prob(0.5, weight=0.25), into="syn", delay=1.0),
            be.Projection(INH, MIXED, be.connect.in_degree(3, weight=-0.25), into="syn"),
            be.Projection(MIXED, INH[[0, 1, 2]], np.diag([1.0, 2.0, 3.0]), into="syn"),
        ],
        dt=0.5,
    )


# ---- which neurons a part has


@given(data=st.data(), size=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_a_part_is_what_numpy_takes_of_all_numbers(data, size):
    population, numbers = be.models.lif_delta("cells", size), np.arange(size)
    found = population
    for _ in range(data.draw(st.integers(1, 3))):
        left = numbers.size
        index = data.draw(
            st.one_of(
                st.slices(left),
                st.lists(st.booleans(), min_size=left, max_size=left).map(lambda x: np.array(x, bool)),
                st.lists(st.integers(0, left - 1), unique=True) if left else st.just([]),
            )
        )
        found, numbers = found[index], numbers[np.asarray(index, int) if isinstance(index, list) else index]
    np.testing.assert_array_equal(found.numbers, numbers)
    assert (len(found), list(found), found.population) == (numbers.size, numbers.tolist(), population)
    assert found == population[numbers]
    assert hash(found) == hash(population[numbers])
    if re.fullmatch(r"cells\[[-\d]*:[-\d:]*\]", repr(found)):
        assert eval(repr(found), {"cells": population}) == found


def test_parts_tell_neurons_order_and_populations_apart():
    assert EXC[:3] != EXC[[2, 1, 0]]
    assert EXC[:3] != INH[:3]
    assert EXC[:3] != "exc[:3]"
    assert len({EXC[:3], EXC[[0, 1, 2]], EXC[np.arange(20) < 3], EXC[jnp.arange(3)], EXC[-20:-17]}) == 1
    assert [repr(one) for one in (EXC[:], EXC[::2], EXC[::-1], EXC[[3, 9, 4]], EXC[3:4], EXC[:0])] == [
        "exc[:]",
        "exc[::2]",
        "exc[::-1]",
        "exc[3, 9, 4]",
        "exc[3:4]",
        "exc[:0]",
    ]
    assert repr(LEFT) != repr(EXC[~MASK])
    assert re.fullmatch(r"exc\[13 of 20: [0-9a-f]{8}\]", repr(EXC[~MASK]))
    assert copy.deepcopy({LEFT: 1})[LEFT] == 1 if copy.deepcopy(LEFT).population is EXC else True
    with pytest.raises(ValueError, match="read-only"):
        LEFT.numbers[0] = 5


def test_a_part_does_not_follow_the_array_it_was_made_from():
    numbers = np.array([4, 2])
    part = EXC[numbers]
    numbers[0] = 9
    assert list(part) == [4, 2]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (5, "exc[...]: found 5; exc[5:6] is a part of one neuron"),
        (-1, "exc[...]: found -1; exc[-1:] is a part of one neuron"),
        ("a", "found 'a'; pass a slice, an array of different integers, or a mask of booleans"),
        ((1, 2), "found (1, 2); pass exc[[1, 2]]"),
        ([3, 5, 3], "neuron 3 is there twice; pass each neuron once (numpy.unique)"),
        ([19, -1], "neuron 19 is there twice"),
        ([20], "there is no neuron 20; pass 0 to 19"),
        ([-21], "there is no neuron -21; pass 0 to 19"),
        ([1.0], "found list of float64; pass a slice"),
        ([[1]], "found the shape (1, 1)"),
        (np.ones(19, bool), "the mask has the shape (19,); pass (20,), a boolean for each neuron"),
        (slice(0.5, 2), "pass integers in a slice, such as exc[:10]"),
        (INH[:3], "found inh[:3], a part; pass numbers, such as those of part.numbers"),
        (np.ma.array([1, 2], mask=[0, 1]), "has masked elements"),
        (None, "found None"),
    ],
)
def test_what_names_no_neurons_is_refused(index, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        EXC[index]


def test_a_traced_array_names_no_neurons():
    with pytest.raises(NetworkError, match="JAX traces, but which neurons a part has is fixed when it is made"):
        jax.jit(lambda mask: EXC[mask].numbers)(MASK)


@pytest.mark.parametrize("change", [be.models.poisson_drive, be.models.noise_current])
def test_a_part_has_no_rule_that_a_drive_could_change(change):
    how = {"sd": 1.0} if change is be.models.noise_current else {"rate": 1.0, "weight": 1.0}
    with pytest.raises(NetworkError, match=r"exc\[:5\]: a part has no params of its own; pass the population"):
        change(EXC[:5], **how)
    assert not hasattr(EXC[:5], "other")


# ---- synapses


pytestmark = pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning")
LEARNING = be.Plasticity(
    on_pre=lambda w, s, pre, post, p: w - 0.02 * post.y,
    on_post=lambda w, s, pre, post, p: w + 0.02 * pre.x,
    pre={"x": be.trace(20.0)},
    post={"y": be.trace(20.0)},
    low=0.0,
    high=2.0,
)
KINDS = {
    "total": lambda n, **how: be.connect.total(9 * n, **how),
    "in_degree": be.connect.in_degree,
    "out_degree": be.connect.out_degree,
    "distinct": lambda n, **how: be.connect.in_degree(n, replace=False, **how),
    "prob": lambda n, **how: be.connect.prob(n / 10, **how),
    "all_to_all": lambda n, **how: be.connect.all_to_all(**how),
    "one_to_one": lambda n, weight, self_connections: be.connect.one_to_one(weight=weight),
}
WEIGHTS = [0.5, be.normal(1.0, 0.25, low=0.125)]
DELAYS = [0.3, be.uniform(0.1, 2)]


def some(data, population):
    """Draw a part of a population, in some order; or all of it."""
    numbers = data.draw(st.permutations(range(population.size)))[: data.draw(st.integers(1, population.size))]
    how = data.draw(st.sampled_from(["all", "range", "mask", "mixed"]))
    if how == "all":
        return population, np.arange(population.size)
    if how == "range":
        numbers = np.arange(min(numbers), max(numbers) + 1)
    part = population[sorted(numbers) if how == "mask" else numbers]
    return part, part.numbers


def check_drawn(found, expected, source, target, kind):
    """Check synapses between parts against those of populations that have only their neurons."""
    if kind == "one_to_one":
        order = source.argsort()
        source, target = source[order], target[order]
    else:
        source, target = np.sort(source), np.sort(target)
    np.testing.assert_array_equal(found.sources, source[expected.sources])
    np.testing.assert_array_equal(found.targets, target[expected.targets])
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.delays, expected.delays)


@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)), parts=st.sampled_from([1, 3]))
@settings(max_examples=80, deadline=None)
def test_synapses_of_parts_are_those_of_populations_with_their_neurons(data, kind, parts):
    (one, source), (other, target) = some(data, EXC), some(data, INH)
    if kind == "one_to_one":
        size = min(source.size, target.size)
        one, other, source, target = EXC[source[:size]], INH[target[:size]], source[:size], target[:size]
    most = source.size if kind == "distinct" else 9
    how = KINDS[kind](
        data.draw(st.integers(0, most)), weight=data.draw(st.sampled_from(WEIGHTS)), self_connections=True
    )
    common = {"into": "syn", "delay": data.draw(st.sampled_from(DELAYS)), "name": "p"}
    mine = be.Network([EXC, INH], [be.Projection(one, other, how, **common)])
    ends = cells("exc", source.size), cells("inh", target.size)
    small = be.Network(ends, [be.Projection(*ends, how, **common)])
    found, expected = (connections(build_plan(net, seed=3, parts=parts), "p") for net in (mine, small))
    check_drawn(found, expected, source, target, kind)
    theirs, ours = both(mine, seed=3)
    assert isinstance(ours.synapses.sources[0], Description)
    assert (ours.projections, ours.loads, ours.fingerprint) == (theirs.projections, theirs.loads, theirs.fingerprint)
    (how_ours, in_rows), (how_theirs, expected_rows) = rows_of(ours, 3), rows_of(theirs, 3)
    assert how_ours == how_theirs
    np.testing.assert_array_equal(in_rows, expected_rows)


@given(data=st.data(), kind=st.sampled_from(["in_degree", "out_degree", "distinct", "prob", "all_to_all"]))
@settings(max_examples=60, deadline=None)
def test_no_neuron_connects_to_itself_between_parts_that_overlap(data, kind):
    (one, source), (other, target) = some(data, EXC), some(data, EXC)
    least = source.size - np.isin(target, source).any() if kind == "distinct" else 3
    how = KINDS[kind](min(3, least), weight=data.draw(st.sampled_from(WEIGHTS)), self_connections=False)
    net = be.Network([EXC], [be.Projection(one, other, how, into="syn", name="p")])
    alone = {"in_degree": source, "out_degree": target}.get(kind)
    if alone is not None and alone.size == 1 and np.isin(source, target).any() and np.isin(target, source).any():
        with pytest.raises(NetworkError, match="one neuron can only connect to itself"):
            build_plan(net, seed=1)
        return
    theirs, ours = both(net, seed=1)
    np.testing.assert_array_equal(rows_of(ours, 2)[1], rows_of(theirs, 2)[1])
    found = connections(theirs, "p")
    assert not (found.sources == found.targets).any()
    assert np.isin(found.sources, source).all()
    assert np.isin(found.targets, target).all()
    if kind in ("in_degree", "distinct"):
        np.testing.assert_array_equal(np.bincount(found.targets, minlength=20)[target], how.number)
    if kind == "out_degree":
        np.testing.assert_array_equal(np.bincount(found.sources, minlength=20)[source], 3)
    if kind == "all_to_all":
        assert len(found) == source.size * target.size - np.intersect1d(source, target).size
    if kind == "distinct":
        pairs = found.sources * 20 + found.targets
        assert np.unique(pairs).size == pairs.size


def test_each_pair_of_overlapping_parts_is_as_likely():
    how = be.connect.in_degree(4000, self_connections=False)
    net = be.Network([EXC], [be.Projection(EXC[:4], EXC[2:7], how, into="syn", name="p")])
    counts, found = np.zeros((20, 20), int), connections(build_plan(net, seed=1), "p")
    np.add.at(counts, (found.sources, found.targets), 1)
    assert (abs(counts[:4, 4:7] - 1000) < 150).all()
    assert (abs(counts[[0, 1, 3], 2] - 1333) < 150).all()
    assert (abs(counts[:3, 3] - 1333) < 150).all()
    assert counts[2, 2] == counts[3, 3] == 0


@given(data=st.data(), form=st.sampled_from(["matrix", "all_to_all", "one_to_one"]))
@settings(max_examples=40, deadline=None)
def test_arrays_follow_the_order_of_the_parts(data, form):
    (one, source), (other, target) = some(data, EXC), some(data, INH)
    size = min(source.size, target.size)
    if form == "one_to_one":
        one, other, source, target = EXC[source[:size]], INH[target[:size]], source[:size], target[:size]
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    weights = random.integers(1, 9, (source.size, target.size)) / 4
    delays = random.integers(1, 9, weights.shape) / 10
    whole, late = np.zeros((20, 10)), np.full((20, 10), 0.1)
    if form == "one_to_one":
        whole[source, target], late[source, target] = np.diag(weights), np.diag(delays)
        connect, delay = be.connect.one_to_one(weight=np.diag(weights)), np.diag(delays)
    else:
        whole[np.ix_(source, target)], late[np.ix_(source, target)] = weights, delays
        connect, delay = (weights if form == "matrix" else be.connect.all_to_all(weight=weights)), delays
    how = {"into": "syn", "name": "p"}
    mine, theirs = (
        connections(build_plan(be.Network([EXC, INH], [be.Projection(*ends, **how, delay=late)]), parts=2), "p")
        for *ends, late in ((one, other, connect, delay), (EXC, INH, whole, late))
    )
    for key in ("sources", "targets", "weights", "delays"):
        np.testing.assert_array_equal(getattr(mine, key), getattr(theirs, key))


@pytest.mark.parametrize("difference", [False, True])
def test_couplings_between_parts(difference):
    ends = EXC[[4, 1, 9]], EXC[::4]
    weights = np.arange(1.0, 16.0).reshape(3, 5)
    whole = np.zeros((20, 20))
    whole[np.ix_(*ends)] = weights
    found = []
    for *link, connect in ((*ends, weights), (EXC, EXC, whole)):
        coupling = be.Coupling(*link, connect * 0.001, of="v", into="syn", difference=difference, name="c")
        sim = be.Network([EXC], [coupling]).build(seed=1, backend="interpreted")
        found.append(sim.run(20, "exc.v")["exc.v"])
    np.testing.assert_array_equal(*found)
    assert np.ptp(found[0]) > 0


def test_plastic_synapses_between_parts():
    ends = EXC[[4, 1, 9]], EXC[::4]
    weights = np.arange(1.0, 16.0).reshape(3, 5) / 16
    whole = np.zeros((20, 20))
    whole[np.ix_(*ends)] = weights
    found = []
    for backend in ("interpreted", "numba"):
        for *link, connect in ((*ends, weights), (EXC, EXC, whole)):
            synapses = be.Projection(*link, connect, into="syn", name="p", plasticity=LEARNING)
            sim = be.Network([EXC], [synapses]).build(seed=1, backend=backend, threads=2)
            found.append(sim.run(80, ["exc.v", be.every(1, "p.w")]))
    for one in found[1:]:
        np.testing.assert_array_equal(found[0]["exc.v"], one["exc.v"])
        np.testing.assert_array_equal(found[0]["p.w"], one["p.w"])
    assert (found[0]["p.w"][0] != found[0]["p.w"][-1]).any()


def test_drawn_plastic_synapses_between_parts_are_drawn_on_the_host_for_a_device():
    how = be.connect.prob(0.5, weight=be.uniform(0.5, 1))
    net = be.Network([EXC], [be.Projection(LEFT, MIXED, how, into="syn", name="p", plasticity=LEARNING)])
    theirs, ours = both(net, seed=2)
    assert ours.fingerprint == theirs.fingerprint
    one, other = (plan.plastic_by_name["p"].synapses for plan in (ours, theirs))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert np.isin(one.sources, LEFT).all()
    assert np.isin(one.targets, MIXED).all()
    assert one.entries > 0


@pytest.mark.parametrize(
    ("source", "target", "connect", "words"),
    [
        (
            EXC[:0],
            INH,
            be.connect.in_degree(2),
            "in_degree(2), but the source exc[:0] has no neurons; pass one with some",
        ),
        (EXC, INH[:0], be.connect.out_degree(2), "out_degree(2), but the target inh[:0] has no neurons"),
        (EXC[:0], INH, be.connect.total(2), "total(2), but the source exc[:0] has no neurons"),
        (EXC[:3], INH, be.connect.in_degree(4, replace=False), "needs 4 different neurons, and there are 3"),
        (EXC[:3], INH[:2], be.connect.one_to_one(), "3 sources and 2 targets; pass populations of one size, or parts"),
        (EXC[:3], INH, np.ones((20, 10)), "matrix: has the shape (20, 10); pass (sources, targets), which is (3, 10)"),
        (EXC[:3], EXC[2:], be.connect.total(5, self_connections=False), "share some neurons, but are not the same"),
        (EXC[:1], EXC, be.connect.in_degree(1, self_connections=False), "one neuron can only connect to itself"),
    ],
)
def test_what_parts_cannot_be_connected_by(source, target, connect, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        build_plan(be.Network([EXC, INH], [be.Projection(source, target, connect, into="syn")]))


@pytest.mark.parametrize("connect", [be.connect.prob(0.5, weight=be.normal(1, 0.1)), be.connect.all_to_all()])
@pytest.mark.parametrize(("source", "target"), [(EXC[:0], INH), (EXC, INH[:0]), (EXC[:0], EXC)])
def test_a_part_without_neurons_has_no_synapses(source, target, connect):
    net = be.Network(
        [EXC, INH], [be.Projection(source, target, connect, into="syn", delay=be.uniform(0.1, 1), name="p")]
    )
    assert len(connections(build_plan(net), "p")) == 0
    assert net.build(backend="interpreted").run(2, "exc[:0].spikes")["exc[:0].spikes"].rates().shape == (0,)


def test_a_part_of_another_population_is_not_in_a_network():
    other = cells("exc", 20)
    with pytest.raises(NetworkError, match=r"projection exc\[:3\]->inh.syn: population exc is not in the network"):
        be.Network([EXC, INH], [be.Projection(other[:3], INH, be.connect.prob(0.1), into="syn")])
    with pytest.raises(NetworkError, match=r"exc\[:3\] is among the populations; pass Population"):
        be.Network([EXC[:3]])
    with pytest.raises(NetworkError, match="target is 'inh'; pass a Population, or a part of one such as exc"):
        be.Projection(EXC, "inh", be.connect.prob(0.1), into="syn")
    with pytest.raises(NetworkError, match=re.escape("population is exc[:3]; take a part of a population by exc[...]")):
        be.Part(EXC[:3], [0])


def test_fingerprints_tell_parts_apart():
    prints = set()
    for part in (EXC, EXC[:], EXC[:5], EXC[5:10], EXC[::4], EXC[[0, 1, 2, 3, 5]]):
        for target in (INH, INH[:10:2]):
            net = be.Network([EXC, INH], [be.Projection(part, target, be.connect.prob(0.5), into="syn", name="p")])
            prints.add(build_plan(net).fingerprint)
    assert len(prints) == 12
    twice = [be.Projection(p, INH, be.connect.prob(0.5), into="syn") for p in (EXC[:5], EXC[5:10], EXC[:5])]
    assert build_plan(be.Network([EXC, INH], twice)).repeats == (("exc[:5]->inh.syn", "exc[:5]->inh.syn#2"),)


def test_texts_for_ranges_are_those_for_whole_populations(monkeypatch):
    """Only parts that are no ranges need a text with tables."""
    asked = []
    monkeypatch.setattr(
        drawing, "drawing_text", lambda *a, **how: asked.append(how["parts"]) or drawing_text(*a, **how)
    )
    for part, tables in ((EXC, False), (EXC[3:9], False), (EXC[::2], True), (MIXED, True)):
        net = be.Network([EXC, INH], [be.Projection(part, INH, be.connect.prob(0.5), into="syn")])
        rows_of(both(net, seed=1)[1], 1)
        assert asked[-1] is tables
    static, parts = drawing_text(), drawing_text(parts=True)
    assert "source_numbers" not in static
    assert "drawn.source_numbers[from]" in parts
    assert "#" not in re.sub("#[dep]", "", static[-3000:])


@pytest.mark.parametrize("several", [False, True])
def test_the_text_with_tables_compiles_for_gpus(several):
    assert ".entry draw_rows" in ptx_of(drawing_text(parts=True, several=several), "--std=c++17")


# ---- runs


def records():
    states = [(MIXED, "v"), be.every(5, (MIXED, "v"), label="rare"), be.every(2, "exc.v", neurons=LEFT, label="left")]
    return ["exc.spikes", "exc.counts", "exc.v", *((LEFT, kind) for kind in ("spikes", "counts", "rate")), *states]


@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
def test_records_of_a_part_are_those_of_its_neurons(backend):
    sim, whole = network().build(seed=1, backend=backend), network().build(seed=1, backend=backend)
    found = sim.run(20, records(), {key: x[:20] for key, x in INPUTS.items()})
    found += sim.run(10, records(), {key: x[20:] for key, x in INPUTS.items()})
    dense = np.full((30, 20), 0.0625)
    dense[:, MASK] += 0.25
    dense[:, :3] += 0.125
    expected = whole.run(30, ["exc.spikes", "exc.counts", "exc.v"], {"exc.syn": dense})
    np.testing.assert_array_equal(found["exc.v"], expected["exc.v"])
    spikes, all_ = found[LEFT, "spikes"], expected["exc.spikes"].of(LEFT)
    assert spikes.times.size > 9
    np.testing.assert_array_equal(spikes.times, all_.times)
    np.testing.assert_array_equal(spikes.neurons, all_.neurons)
    np.testing.assert_array_equal(spikes.rates(), all_.rates())
    np.testing.assert_array_equal(found[f"{LEFT}.counts"], expected["exc.counts"][MASK])
    np.testing.assert_array_equal(found[LEFT, "rate"], expected["exc.spikes"].todense()[:, MASK].sum(1))
    np.testing.assert_array_equal(found[MIXED, "v"], expected["exc.v"][:, [7, 2, 11]])
    np.testing.assert_array_equal(found["rare"], expected["exc.v"][::5, [7, 2, 11]])
    np.testing.assert_array_equal(found["left"], expected["exc.v"][::2, MASK])
    assert found.times((MIXED, "v")).shape == (30,)


def test_a_stepper_gives_and_returns_what_a_run_does():
    result = network().build(seed=1, backend="numba").run(30, records()[:7], INPUTS)
    step = network().build(seed=1, backend="numba").stepper(records()[:7], list(INPUTS))
    several = network().build(seed=1, backend="numba").stepper((LEFT, "rate"), list(INPUTS), steps=30)
    values = {(LEFT, "syn"): 0.25, "exc[:3].syn": np.full(3, 0.125), "exc.syn": 0.0625}
    for t in range(30):
        out = step(values)
        assert list(out) == list(result)
        assert (
            out[f"{LEFT}.rate"] == result[LEFT, "rate"][t] == out[f"{LEFT}.spikes"].size == out[f"{LEFT}.counts"].sum()
        )
        assert np.isin(out[f"{LEFT}.spikes"], LEFT).all()
        np.testing.assert_array_equal(out[f"{MIXED}.v"], result[MIXED, "v"][t])
    np.testing.assert_array_equal(several(INPUTS)[LEFT, "rate"], result[LEFT, "rate"])
    with pytest.raises(NetworkError, match=re.escape("step: 'exc[:3].syn' has shape (4,); pass a number")):
        step(values | {"exc[:3].syn": np.ones(4)})
    with pytest.raises(NetworkError, match=re.escape("'exc.syn', added up: element [0, 1] is infinite")):
        step({(LEFT, "syn"): 3e38, "exc[:3].syn": 0.0, "exc.syn": 3e38})
    with pytest.raises(NetworkError, match=re.escape("the input 'exc[:3].syn' is named twice; name it once")):
        network().build(backend="interpreted").stepper("exc.rate", ["exc[:3].syn", (EXC[:3], "syn")])
    with pytest.raises(NetworkError, match=re.escape("step: 'exc[:3].syn' is missing")):
        step({(LEFT, "syn"): 0.25, "exc.syn": 0.0})


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_simulate_takes_and_records_parts(backend):
    sim = network().build(seed=1, backend=backend)
    expected = network().build(seed=1, backend=backend).run(30, records(), INPUTS)
    asked = [*((LEFT, kind) for kind in ("spikes", "counts", "rate")), (MIXED, "v")]
    _, out = be.simulate(sim, sim.state, {}, 30, INPUTS, asked)
    assert list(out) == [f"{part}.{what}" for part, what in asked]
    np.testing.assert_array_equal(out[f"{LEFT}.counts"], expected[LEFT, "counts"])
    np.testing.assert_array_equal(out[f"{LEFT}.rate"], expected[LEFT, "rate"])
    np.testing.assert_array_equal(out[f"{LEFT}.spikes"], expected[LEFT, "spikes"].todense()[:, MASK])
    np.testing.assert_allclose(out[f"{MIXED}.v"], expected[MIXED, "v"], atol=1e-6)  # jax rounds differently in a loop
    with pytest.raises(ShapeError, match=re.escape("has shape (30, 2); pass (30, 7), a row for each step")):
        be.simulate(sim, sim.state, {}, 30, {(LEFT, "syn"): np.ones((30, 2))})


def test_gradients_go_through_inputs_and_spikes_of_parts():
    sim = network().build(seed=1, backend="jax")

    def loss(x, label, what):
        return be.simulate(sim, sim.state, {}, 30, {label: x}, [what])[1][f"{what[0].name}.rate"].sum()

    part = jax.grad(loss)(jnp.full((30, 7), 0.25), (LEFT, "syn"), (LEFT, "rate"))
    whole = jax.grad(loss)(jnp.zeros((30, 20)).at[:, MASK].set(0.25), "exc.syn", (LEFT, "rate"))
    np.testing.assert_allclose(part, whole[:, MASK], rtol=1e-6)
    assert np.abs(part).max() > 0


def test_sweeps_record_parts_and_give_them_input():
    sim = network().build(seed=1, backend="numba")
    swept = sim.sweep(
        30, [(LEFT, "counts"), "exc[:3].spikes"], inputs={(LEFT, "syn"): np.array([[0.0] * 30, [0.5] * 30])}
    )
    for k, drive in enumerate((0.0, 0.5)):
        one = network().build(seed=1, backend="numba").run(30, [(LEFT, "counts")], {(LEFT, "syn"): np.full(30, drive)})
        np.testing.assert_array_equal(swept[LEFT, "counts"][k], one[LEFT, "counts"])
    assert swept["exc[:3].spikes"][0].rates().shape == (3,)


def test_set_changes_the_neurons_of_a_part():
    sim = network().build(seed=1, backend="numba")
    before = sim.state.neurons["exc"]["v"]
    sim.set(MIXED, threshold=[2.0, 3.0, 4.0], v=0.5)
    sim.set("exc[:2]", threshold=5.0)
    expected, v = np.full(20, 1.0, np.float32), before.copy()
    expected[[7, 2, 11]], expected[:2], v[[7, 2, 11]] = (2, 3, 4), 5, 0.5
    np.testing.assert_array_equal(sim.params["exc"]["threshold"], expected)
    np.testing.assert_array_equal(sim.state.neurons["exc"]["v"], v)
    sim.reset()
    assert (sim.params["exc"]["threshold"] == 1).all()


def test_set_takes_a_matrix_of_the_neurons_of_both_parts():
    sim = network().build(seed=1, backend="numba", threads=2)
    name = sim.network.projection_names[2]
    sim.set(name, weights=np.diag([0.5, 0.25, 0.125]))
    found = sim.connections(name)
    assert found.sources.tolist() == [2, 7, 11]
    assert found.targets.tolist() == [1, 0, 2]
    np.testing.assert_array_equal(found.weights, [0.25, 0.5, 0.125])
    with pytest.raises(
        NetworkError, match=re.escape("pass a number, or an array (3,) in the order of connections, or a")
    ):
        sim.set(name, weights=np.ones((20, 10)))
    with pytest.raises(NetworkError, match=re.escape("element (0, 1) is 1, but there is no synapse")):
        sim.set(name, weights=np.ones((3, 3)))


def test_checkpoints_of_networks_with_parts(tmp_path):
    sim, other = (network().build(seed=1, backend=backend) for backend in ("numba", "interpreted"))
    sim.set(LEFT, threshold=1.5)
    sim.set(sim.network.projection_names[2], weights=0.5)
    sim.run(10)
    sim.save(tmp_path / "file.npz")
    other.load(tmp_path / "file.npz")
    one, two = (which.run(20, ["exc.v", "inh.v"]) for which in (sim, other))
    for label in one:
        np.testing.assert_array_equal(one[label], two[label])


def test_pictures_of_parts():
    result = network().build(seed=1, backend="numba").run(30, ["exc.spikes", (LEFT, "spikes"), (LEFT, "v")], INPUTS)
    spikes = result["exc.spikes"]
    assert len(spikes.raster(groups={"left": LEFT, "others": EXC[~MASK]}).axes) == 1
    assert spikes.of(LEFT).members.tolist() == list(LEFT)
    assert len(result.plot().axes) == 2
    assert len(result.plot_traces((LEFT, "v")).axes) == 1


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda sim: sim.run(1, "exc[3].v"),
            "record: 'exc[3].v': [3] is no slice; pass one, such as 'exc[:10]', or the",
        ),
        (lambda sim: sim.run(1, "exc[:3].w"), "record: 'exc[:3].w' is not there; exc has spikes, counts, rate, v"),
        (lambda sim: sim.run(1, (cells("exc", 9)[:3], "v")), "of a population of 9 neurons, but exc has 20 here"),
        (lambda sim: sim.run(1, EXC[:3]), "record: exc[:3] are neurons; add what to record, for example (exc[:3], "),
        (lambda sim: sim.run(1, [EXC]), "record: exc are neurons; add what to record"),
        (lambda sim: sim.run(1, be.every(1, "exc.v", neurons=INH[:3])), "are inh[:3], a part of another population"),
        (lambda sim: sim.run(1, be.every(1, "exc[:3].v", neurons=[1])), "is of a part, and neurons= names some, too"),
        (lambda sim: sim.run(1, [(LEFT, "v")] * 2), "is requested twice; pass every(..., label=...) to one of them"),
        (
            lambda sim: sim.set(INH[:2], threshold=2.0),
            "was built as one number for all neurons of inh; set it for inh, or",
        ),
        (lambda sim: sim.set(LEFT, thresh=2.0), "set: exc has no 'thresh'; did you mean 'threshold'?"),
        (lambda sim: sim.set(LEFT, threshold=[1.0, 2.0]), "has shape (2,); pass a number or an array (7,)"),
        (lambda sim: sim.set("exc[9]", threshold=2.0), "set: [9] is no slice"),
        (lambda sim: sim.set("exc[[9, 2]]", threshold=2.0), "set: [[9, 2]] is no slice; pass one, such as"),
        (
            lambda sim: sim.run(5, inputs={(LEFT, "syn"): np.ones((5, 3))}),
            "has shape (5, 3); pass (5, 7), a row for each",
        ),
        (lambda sim: sim.run(5, inputs={(LEFT, "sy"): np.ones(5)}), "exc has no receptor 'sy'; did you mean 'syn'?"),
        (
            lambda sim: sim.run(1, inputs={(LEFT, "syn"): [3e38], "exc.syn": [3e38]}),
            "added up: element [0, 1] is infinite",
        ),
    ],
)
def test_what_a_part_does_not_have_is_refused(act, words):
    sim = network().build(seed=1, backend="interpreted")
    with pytest.raises(NetworkError, match=re.escape(words)):
        act(sim)
    assert sim.steps == 0
