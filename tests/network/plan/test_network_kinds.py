# SPDX-License-Identifier: Apache-2.0
"""What is neither numbers nor a description is refused where it is written; projections given twice are reported."""

import re

import described
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from described import cells

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.description import connect
from brainevent.network.description.populations import Population, Projection
from brainevent.network.plan.build import build_plan

A, B = cells("a", 5), cells("b", 4)
CSR = be.CSR.fromdense(np.ones((5, 4), np.float32))


def ones(s, arriving, p):
    return s.replace(v=s.v + arriving.syn * p.gain), s.v < -1e30


PLACES = {
    **{
        f"connect.{make.__name__}: weight": lambda x, make=make: make(3, weight=x)
        for make in (connect.total, connect.in_degree, connect.out_degree)
    },
    "connect.prob: weight": lambda x: connect.prob(0.1, weight=x),
    "connect.all_to_all: weight": lambda x: connect.all_to_all(weight=x),
    "connect.one_to_one: weight": lambda x: connect.one_to_one(weight=x),
    "projection a->b.syn: delay": lambda x: Projection(A, B, connect.prob(0.1), into="syn", delay=x),
    "projection a->b.syn: connect": lambda x: Projection(A, B, x, into="syn"),
    "population c: state v": lambda x: Population("c", 5, ones, {"v": x}, {"gain": 1.0}),
    "population c: params gain": lambda x: Population("c", 5, ones, {"v": 0.0}, {"gain": x}),
}

WRONG = [
    (lambda: 1, "is <function"),
    (connect.prob, "is <function prob at"),
    (Population, "is <class"),
    (object(), "is <object object at"),
    ("0.5", "is '0.5'; pass"),
    (b"1", "is b'1'; pass"),
    (1j, "is 1j; pass"),
    ({"a": 1}, "is {'a': 1}; pass"),
    ({1.0}, "is {1.0}; pass"),
    (np.array(["1", "2"]), "is ndarray of <U1; pass"),
    ([1, "a"], "is list of <U21; pass"),
    (np.ones(2) * 1j, "is ndarray of complex128; pass"),
    (10**400, "is 1000"),
    ([[1, 2], [3]], ": parts of this list have different shapes; pass one array of numbers"),
    (np.datetime64(1, "s"), "is np.datetime64"),
]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_neither_numbers_nor_a_description_is_refused_at_once(place):
    for value, words in WRONG:
        with pytest.raises(NetworkError, match=re.escape(place) + ":? ?" + re.escape(words)):
            PLACES[place](value)
    if place != "projection a->b.syn: delay":
        with pytest.raises(NetworkError, match=f"{place} is None; pass"):
            PLACES[place](None)


@pytest.mark.parametrize("place", [place for place in PLACES if "weight" in place or "delay" in place])
def test_one_boolean_is_no_number(place):
    with pytest.raises(NetworkError, match=f"{place} is True; pass"):
        PLACES[place](True)


RIGHT = [2, 2.0, np.float32(2), np.int64(2), np.full(5, 2.0), jnp.full(5, 2), [2] * 5, (2.0,) * 5, be.uniform(1, 2)]


@pytest.mark.parametrize("place", [place for place in PLACES if place != "projection a->b.syn: connect"])
def test_numbers_arrays_and_drawn_values_are_taken(place):
    """Whether their shapes fit is known when the network is built."""
    units = pytest.importorskip("brainunit")
    for value in [*RIGHT, 2 * units.ms, np.ones(5) * units.mV]:
        assert PLACES[place](value) is not None


def test_matrices_of_all_kinds_are_taken():
    dense = np.ones((5, 4))
    for matrix in (dense, dense.tolist(), dense > 0, jnp.ones((5, 4)), CSR, be.Dense(dense), CSR.tocoo()):
        plan = build_plan(be.Network([A, B], [Projection(A, B, matrix, into="syn")]))
        assert plan.projections[0].entries == 20
    Projection(A, B, scipy.sparse.csr_array(dense), into="syn")


# ---- projections that are given twice

REPEATED = "{} projections from {} by syn are identical: their synapses add up"


def built(*projections, **how):
    network = be.Network([A, B], projections)
    return network.build(seed=1, backend="interpreted", **how)


def repeated(sim):
    return [line for line in sim.report().splitlines() if "identical" in line]


def test_projections_that_are_the_same_are_reported():
    def make(**changed):
        given = {"connect": connect.prob(0.5, weight=be.normal(1, 0.1)), "delay": 0.2, "into": "syn"} | changed
        return Projection(A, B, **given)

    assert repeated(built(make(), make())) == [REPEATED.format(2, "a to b")]
    same = make()
    assert repeated(built(same, same, make(name="other"))) == [REPEATED.format(3, "a to b")]
    matrices = [make(connect=np.ones((5, 4))) for _ in range(2)]
    assert repeated(built(*matrices)) == [REPEATED.format(2, "a to b")]
    loop = Projection(A, A, connect.one_to_one(), into="syn")
    both = built(make(), loop, loop, make())
    assert repeated(both) == [REPEATED.format(2, "a to b"), REPEATED.format(2, "a to a")]
    html = both.report()._repr_html_()
    assert REPEATED.format(2, "a to a") in html
    assert repeated(built(make(), make(connect=connect.prob(0.5, weight=be.normal(1, 0.2))))) == []
    assert repeated(built(make(), make(delay=0.3))) == []
    assert repeated(built(make(connect=np.ones((5, 4))), make(connect=np.full((5, 4), 2.0)))) == []
    assert repeated(built(make())) == []


def test_the_synapses_of_both_are_there():
    source = cells("a", 5, described.forward)
    pair = [Projection(source, B, np.ones((5, 4)), into="syn")] * 2
    sim = be.Network([source, B], pair).build(backend="interpreted")
    sim.run(2, inputs={"a.syn": [1, 0]})
    assert sim.state.neurons["b"]["v"].tolist() == [10.0] * 4


def test_weights_that_are_replaced_make_a_projection_another_one():
    one, two = (Projection(A, B, np.ones((5, 4)), into="syn") for _ in range(2))
    sim = built(one, two)
    sim.set("a->b.syn#2", weights=2.0)
    assert repeated(sim) == []
    sim.reset()
    assert repeated(sim) == [REPEATED.format(2, "a to b")]
