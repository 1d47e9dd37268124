# SPDX-License-Identifier: Apache-2.0
"""Which process whole populations are placed on, by delays between them and by work."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.hosts.areas import Link, links_of, placed_areas
from brainevent.network.hosts.shares import chosen_shares


def grouped(placed):
    """Return the populations of each process."""
    return sorted("".join(name for name in sorted(placed) if placed[name] == k) for k in set(placed.values()))


def of(pairs, delay, synapses=0):
    """Return links of a delay in both directions between pairs of populations."""
    return [Link(a, b, synapses, delay) for pair in pairs.split() for a, b in (pair, pair[::-1])]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["abcdef"]), (2, ["abef", "cd"]), (3, ["ab", "cd", "ef"]), (6, [*"abcdef"])]
)
def test_short_delays_are_within_processes(count, expected):
    """As many processes as there are populations have short delays between them, too; if not, one has all the work."""
    links = of("ab cd ef", 2) + of("bc de", 9) + of("af", 5)
    assert grouped(placed_areas(dict.fromkeys("abcdef", 100), links, count)) == expected


def test_work_is_in_proportion_to_neurons_and_to_synapses_that_end_there():
    links = of("ab bc cd da", 5)
    sizes = dict.fromkeys("abcd", 100)
    assert grouped(placed_areas(sizes, links, 2)) == ["ac", "bd"]
    assert grouped(placed_areas({**sizes, "b": 300}, links, 2)) == ["acd", "b"]
    assert grouped(placed_areas(sizes, [*links, Link("d", "a", 250_000, 7)], 2)) == ["a", "bcd"]


def test_populations_without_links_are_apart():
    assert grouped(placed_areas(dict.fromkeys("abc", 9), [Link("a", "a", 5, 1)], 3)) == [*"abc"]
    assert grouped(placed_areas({"a": 9}, [], 3)) == ["a"]


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 1000), min_size=1),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 10**6), st.integers(1, 5))),
    st.integers(1, 4),
)
def test_any_network_has_a_placement(sizes, found, count):
    """With at most half as much work again for a process as if populations were placed one by one."""
    names = list(sizes)
    links = [Link(names[a % len(names)], names[b % len(names)], n, delay) for a, b, n, delay in found]
    placed = placed_areas(sizes, links, count)
    assert placed.keys() == sizes.keys()
    assert set(placed.values()) <= set(range(count))
    work = {name: 1000.0 * size + sum(x.synapses for x in links if x.target == name) for name, size in sizes.items()}
    loads = [0.0] * count
    for name in sorted(names, key=lambda name: -work[name]):
        loads[loads.index(min(loads))] += work[name]
    most = max(sum(work[name] for name in names if placed[name] == k) for k in range(count))
    assert most <= 1.5 * max(loads) * (1 + 1e-12)


def network():
    a, b = (be.models.lif_delta(name, size) for name, size in (("a", 20), ("b", 30)))
    delays = np.full((20, 30), 0.7)
    delays[3, 4] = 0.4
    links = [
        (a, a, be.connect.in_degree(3, weight=0.1), None),
        (a, b, be.connect.prob(0.5, weight=0.1), 1.5),
        (b, a, be.connect.out_degree(2, weight=0.1), be.uniform(0.5, 2.0)),
        (b, b, be.connect.total(77, weight=0.1), be.normal(1.0, 0.5)),
        (a, b, np.full((20, 30), 0.1), delays),
        (b, b, be.connect.prob(0.0, weight=0.1), 0.1),
    ]
    made = [
        be.Projection(one, other, connect, into="syn", delay=delay, name=str(k))
        for k, (one, other, connect, delay) in enumerate(links)
    ]
    return be.Network([a, b], made, dt=0.1)


def test_what_is_known_of_projections_before_they_are_drawn():
    assert links_of(network(), round_delays=False) == [
        Link("a", "a", 60, 1),
        Link("a", "b", 300, 15),
        Link("b", "a", 60, 5),
        Link("b", "b", 77, 1),
        Link("a", "b", 600, 4),
    ]


def test_processes_own_what_is_placed_there(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    shares = chosen_shares("areas", network())
    assert shares.own == {"a": (0, 20), "b": (30, 30)}
    assert (shares.placed(0), shares.placed(1)) == (["b"], ["a"])
    assert [shares.neurons(k) for k in range(2)] == [30, 20]


def test_one_process_has_all_areas():
    alone, sim = (network().build(seed=3, backend="numba", hosts=hosts) for hosts in (None, "areas"))
    for one in (alone, sim):
        one.run(20)
    np.testing.assert_array_equal(sim.state.neurons["b"]["v"], alone.state.neurons["b"]["v"])


def test_what_is_wrong_raises_as_without_areas():
    cells = be.models.lif_delta("cells", 9)
    connect = be.connect.in_degree(3, weight=0.1)
    for how in ({"into": "wrong"}, {"into": "syn", "delay": 0.25}, {"into": "syn", "delay": 0.01}):
        wrong = be.Network([cells], [be.Projection(cells, cells, connect, **how)], dt=0.1)
        said = []
        for hosts in ("all", "areas"):
            with pytest.raises(NetworkError) as error:
                wrong.build(backend="numba", hosts=hosts)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_shares_of_gpus(monkeypatch):
    """A population that is placed in a process is divided among its GPUs; others among all."""
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    populations = [be.models.lif_delta(name, size) for name, size in (("a", 60), ("b", 10), ("c", 9))]
    shares = chosen_shares({"b": 1, "c": 0}, be.Network(populations, [], dt=0.1), [1, 2])
    assert {name: edges.tolist() for name, edges in shares.edges.items()} == {
        "a": [0, 20, 60],
        "b": [0, 0, 10],
        "c": [0, 9, 9],
    }
    assert (shares.number, shares.count, shares.begins.tolist()) == (1, 2, [0, 1])
    assert [(one.number, one.count) for one in shares.gpus] == [(1, 3), (2, 3)]
    assert [one.own for one in shares.gpus] == [
        {"a": (20, 40), "b": (0, 5), "c": (9, 9)},
        {"a": (40, 60), "b": (5, 10), "c": (9, 9)},
    ]
