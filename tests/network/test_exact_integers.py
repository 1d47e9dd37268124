# SPDX-License-Identifier: Apache-2.0
"""Integers that a float does not have: an error wherever they are given, or NaN where only a program knows them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import brainevent as be
from brainevent.network.description.exact import rounded_integers

MANY = 2**24 + 1  # which float32 rounds to 2**24
NAME = "cells->cells.syn"


def neuron(s, arriving, p):
    v = 0.5 * s.v + arriving.syn
    return s.replace(v=v), v >= p.threshold


def network(v=0.0, threshold=5.0, weight=1.0, connect=None, **how):
    cells = be.Population("cells", 3, neuron, {"v": v}, {"threshold": threshold})
    synapses = be.connect.one_to_one(weight=weight) if connect is None else connect
    return be.Network([cells], [be.Projection(cells, cells, synapses, into="syn", **how)], dt=1.0)


def built(backend="interpreted", **values):
    return network(**values).build(backend=backend)


def grow(w, s, pre, post, p):
    return w + p.rate


def learning(**how):
    return network(plasticity=be.Plasticity(on_pre=grow, **{"params": {"rate": 0.1}, "low": 0.0, "high": 9.0, **how}))


def ran(sim, **given):
    return be.simulate(sim, sim.state, given.pop("params", {}), 2, record="cells.v", **given)


def with_state(sim, v):
    return dataclasses.replace(sim.state, neurons={"cells": {"v": v}})


MATRIX = np.diag([1, MANY, 3])
ENTRIES = {
    "state": (lambda: built(v=MANY), "state v: is 16777217;"),
    "attribute": (lambda: be.Population("a", 3, neuron, {"v": 0.0}, at={"x": MANY}), "at x: is 16777217;"),
    "weight": (lambda: built(weight=MANY), f"projection {NAME}: weight: is 16777217;"),
    "weights": (lambda: built(weight=[1, 2, MANY]), "weight: is 16777217 at element 2;"),
    "array": (lambda: built(connect=MATRIX), r"weight: is 16777217 at element \(1, 1\);"),
    "sparse": (lambda: built(connect=scipy.sparse.csr_array(MATRIX)), "weight: is 16777217 at element 1;"),
    "quantum": (lambda: network().build(backend="interpreted", quantum=MANY), "quantum of cells.syn: is 16777217;"),
    "coupling": (
        lambda: be.Network(
            [cells := be.Population("cells", 3, neuron, {"v": 0.0}, {"threshold": 1.0})],
            [be.Coupling(cells, cells, be.connect.one_to_one(weight=MANY), of="v", into="syn")],
        ).build(backend="interpreted"),
        "coupling .*: weight: is 16777217;",
    ),
    "value_range": (
        lambda: be.Population("a", 3, neuron, {"v": 0.0}, value_range=(0, MANY)),
        r"value_range is \(0, 16777217\): is 16777217;",
    ),
    "plastic high": (lambda: learning(high=MANY).build(backend="interpreted"), "plasticity high: is 16777217;"),
    "plastic parameter": (
        lambda: learning(params={"rate": MANY}).build(backend="interpreted"),
        "params rate: is 16777217;",
    ),
    "plastic set": (
        lambda: learning().build(backend="interpreted").set(NAME, rate=MANY),
        f"rate of {NAME}: is 16777217;",
    ),
    "parameter": (lambda: built(threshold=MANY), "params threshold: is 16777217;"),
    "parameters": (lambda: built(threshold=[1, MANY, 2]), "params threshold: is 16777217 at neuron 1;"),
    "ready model": (
        lambda: be.Network([be.models.lif_delta("a", 2, current=MANY)]).build(backend="interpreted"),
        "params current: is 16777217;",
    ),
    "set of an integer": (lambda: built(threshold=1).set("cells", threshold=MANY), "threshold of cells: is 16777217;"),
    "set of an integer of a part": (
        lambda: built(threshold=[1, 2, 3]).set("cells[:2]", threshold=MANY),
        r"threshold of cells\[:2\]: is 16777217;",
    ),
    "set": (lambda: built().set("cells", threshold=MANY), "set: threshold of cells: is 16777217;"),
    "set state": (lambda: built().set("cells", v=[1, MANY, 2]), "set: v of cells: is 16777217 at element 1;"),
    "set part": (
        lambda: built(threshold=[1.0, 2.0, 3.0]).set("cells[:2]", threshold=MANY),
        r"set: threshold of cells\[:2\]: is 16777217;",
    ),
    "set weights": (lambda: built().set(NAME, weights=MANY), f"set: weights of {NAME}: is 16777217;"),
    "sweep": (
        lambda: built().sweep(1, "cells.v", {"cells": {"threshold": [1, MANY]}}),
        "sweep: element 1: threshold of cells: is 16777217;",
    ),
    "sweep weights": (
        lambda: built().sweep(1, "cells.v", {NAME: {"weights": [MANY, 1]}}),
        f"sweep: element 0: weights of {NAME}: is 16777217;",
    ),
    "inputs": (
        lambda: built().run(2, inputs={"cells.syn": np.array([[0], [MANY]])}),
        r"inputs: 'cells.syn': is 16777217 at element \(1, 0\);",
    ),
    "stepper": (
        lambda: built("numba").stepper(inputs="cells.syn")({"cells.syn": MANY}),
        "step: 'cells.syn': is 16777217;",
    ),
    "stepper array": (
        lambda: built("numba").stepper(inputs="cells.syn")({"cells.syn": np.array([0, 0, MANY])}),
        "step: 'cells.syn': is 16777217 at element 2;",
    ),
}
CALLS = {
    "parameter": (lambda sim: ran(sim, params={"cells": {"threshold": MANY}}), r"params\['cells'\]\['threshold'\]: is"),
    "weights": (lambda sim: ran(sim, params={NAME: np.array([1, MANY, 1])}), "is 16777217 at element 1;"),
    "inputs": (lambda sim: ran(sim, inputs={"cells.syn": np.array([0, MANY])}), r"inputs\['cells.syn'\]: is"),
    "two inputs": (
        lambda sim: ran(sim, inputs={"cells.syn": np.array([0, MANY]), "cells[:1].syn": np.zeros(2)}),
        r"inputs\['cells.syn'\]: is 16777217 at element 1;",
    ),
    "wide input of a part": (
        lambda sim: ran(sim, inputs={"cells[:1].syn": np.array([0, 2**40 + 1])}),
        r"inputs\['cells\[:1\].syn'\]: is 1099511627777 at element 1;",
    ),
    "state": (
        lambda sim: be.simulate(sim, with_state(sim, np.array([0, MANY, 0])), {}, 2),
        r"state.neurons\['cells'\]\['v'\]: is 16777217 at element 1;",
    ),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_integers_that_floats_round_are_refused(entry):
    call, message = ENTRIES[entry]
    with pytest.raises(be.errors.NetworkError, match=f"{message}.* float32 rounds it: pass integers up to 16777216"):
        call()


@pytest.mark.parametrize("backend", ["jax", "numba"])
@pytest.mark.parametrize("call", CALLS)
def test_simulate_refuses_them(backend, call):
    of, message = CALLS[call]
    with pytest.raises(be.errors.NetworkError, match=message):
        of(built(backend))


@pytest.mark.parametrize("backend", ["jax", "numba"])
def test_integers_that_a_rule_reads_as_floats(backend):
    sim = built(backend, threshold=[1, 2, 3])
    for params in ({"cells": {"threshold": MANY}}, {"cells[:2]": {"threshold": np.array([MANY, 1])}}):
        with pytest.raises(be.errors.NetworkError, match=r"threshold'\]: is 16777217.* float32 rounds it"):
            ran(sim, params=params)
    called = jax.jit(lambda n: ran(sim, params={"cells": {"threshold": n}})[1]["cells.v"])
    assert np.isfinite(called(2**24)).all()
    assert np.isnan(called(MANY)).all()


def test_integers_that_a_rule_reads_as_such_have_32_bits():
    def masked(s, arriving, p):
        bits = jnp.bitwise_and(s.bits + 1, p.mask)
        limit = jax.lax.cond(s.v > 0, lambda: p.limit, lambda: 0)
        return s.replace(bits=bits, v=s.v + 0.5 * p.mask, limit=limit), arriving.syn > 1

    cells = be.Population("cells", 2, masked, {"bits": 0, "v": 1.0, "limit": 0}, {"mask": 2**31 - 1, "limit": MANY})
    sim = be.Network([cells]).build(backend="interpreted")
    assert sim.plan.populations[0].rule.as_floats == {}
    sim.set("cells", mask=MANY)
    assert sim.run(1, "cells.limit")["cells.limit"].tolist() == [[MANY, MANY]]


def test_exact_integers_and_floats_are_taken():
    sim = built(v=2**30, weight=2**25)
    assert sim.state.neurons["cells"]["v"].tolist() == [2**30] * 3
    assert sim.connections(NAME).weights.tolist() == [2**25] * 3
    sim.set("cells", threshold=float(MANY), v=np.array([1, 2**24, -(2**24)]))
    assert float(sim.params["cells"]["threshold"]) == 2**24
    assert sim.state.neurons["cells"]["v"].tolist() == [1, 2**24, -(2**24)]
    wide = network(v=MANY, weight=MANY).build(backend="interpreted", dtype="float64")
    assert wide.state.neurons["cells"]["v"].tolist() == [MANY] * 3
    assert wide.connections(NAME).weights.tolist() == [MANY] * 3
    with pytest.raises(be.errors.NetworkError, match="is 9007199254740993; float64 rounds it: pass integers up to 9"):
        network(v=2**53 + 1).build(backend="interpreted", dtype="float64")


@pytest.mark.parametrize("backend", ["jax", "numba"])
@pytest.mark.parametrize(
    "given",
    [
        lambda n: {"params": {"cells": {"threshold": n}}},
        lambda n: {"params": {"cells[:2]": {"threshold": n}}},
        lambda n: {"params": {NAME: n}},
        lambda n: {"inputs": {"cells.syn": jnp.stack([n, n])}},
        lambda n: {"inputs": {"cells[:1].syn": jnp.stack([n, n])}},
        lambda n: {"state": n},
    ],
)
def test_of_traced_integers_floats_are_nan(backend, given):
    sim = built(backend, threshold=[5.0, 6.0, 7.0])

    def run(n):
        found = given(n)
        state = with_state(sim, jnp.broadcast_to(n, 3)) if "state" in found else sim.state
        found.pop("state", None)
        _, out = be.simulate(sim, state, found.pop("params", {}), 2, record=["cells.v", "cells.rate"], **found)
        return out["cells.v"], out["cells.rate"]

    for n in (7, 2**24, 2**30):
        known, traced = (jax.tree.map(np.asarray, one(np.int32(n))) for one in (run, jax.jit(run)))
        np.testing.assert_array_equal(known[0], traced[0])
        assert np.isfinite(traced[0]).all()
    for n in (MANY, 2**31 - 1, -MANY):
        assert all(np.isnan(one).all() for one in jax.jit(run)(n))
    batch = jax.jit(jax.vmap(run))(jnp.array([7, MANY]))
    assert [bool(np.isnan(one[k]).all()) for k in (0, 1) for one in batch] == [False, False, True, True]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_traced_integers_with_64_bits(dtype):
    sim = network(threshold=5.0).build(backend="jax", dtype=dtype)
    digits = 24 if dtype == "float32" else 53
    with jax.enable_x64(True):
        run = jax.jit(lambda n: ran(sim, inputs={"cells.syn": jnp.stack([n, n])})[1]["cells.v"])
        for n in (7, 2**digits, 2**digits + 2, 2**40, 2**62):
            assert np.isfinite(run(jnp.int64(n))).all()
        for n in (2**digits + 1, 2**62 + 1, 2**63 - 1, 1 - 2**digits - 2):
            assert np.isnan(run(jnp.int64(n))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("of", ["int32", "uint32", "int64", "uint64"])
def test_which_integers_floats_have(dtype, of):
    numbers, info = [0, 1, 2**24 - 1, 2**24, MANY, 2**24 + 2, 2**31 - 1, 2**31 - 128], np.iinfo(of)
    numbers += [x for e in (53, 62, 63) for x in (2**e - 1, 2**e, 2**e + 1, 2**e + 2**40)] + [info.max]
    numbers += [-x for x in numbers] + [info.min]
    array = np.array([x for x in numbers if info.min <= x <= info.max], of)
    exact = [int(np.dtype(dtype).type(x)) == int(x) for x in array]
    assert (~rounded_integers(array, dtype)).tolist() == exact
