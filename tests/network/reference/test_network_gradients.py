# SPDX-License-Identifier: Apache-2.0
"""Training: gradients of many networks equal those of dense programs, and loops have one product for a whole batch."""

import dataclasses
import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from hypothesis import given
from hypothesis import strategies as st
from jaxprs import equations

import brainevent as be
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import Plan
from brainevent.network.reference import passes, products, simulate
from brainevent.network.reference.components import components
from brainevent.network.reference.quanta import dtypes_of_sums
from brainevent.network.run.recorded import Wanted

SLOPE, STEPS = 2.0, 12


# ---- networks, and the same by hand with a matrix for each delay


def gated(s, arriving, p):
    """Leak, and add what arrives at two receptors, of which the second is stronger at low potentials."""
    v = s.v * p.decay + arriving.exc + arriving.inh * (1 - 0.2 * s.v)
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.25 * v, v)), spike


def relay(s, arriving, p):
    """Spike if what arrives is above a threshold."""
    return s, arriving.exc + arriving.inh > p.threshold


class Kind(NamedTuple):
    """What a random network is like. Ends of projections are numbers of populations, and their receptors."""

    ends: str
    delays: str = "1"  # least and largest
    density: float = 1.0
    own: bool = False  # parameters of each neuron
    relays: str = ""  # populations without states
    every: int | None = None  # checkpoints
    pending: bool = False  # input in the initial state
    inputs: bool = True
    frozen: int = 0  # projections whose weights are not given
    visited: bool = False  # synapses are visited, as those of large and sparse projections are


KINDS = {
    "one, recurrent": Kind("00e"),
    "one, with checkpoints": Kind("00e", every=5),
    "one, delay of three": Kind("00e", "3", own=True),
    "one, sparse, delays to five": Kind("00e", "1-5", 0.3, visited=True),
    "one, many delays": Kind("00e", "1-11", 0.5),
    "one, without inputs": Kind("00e", "2-3", inputs=False),
    "one, two projections": Kind("00e 00i", "2", 0.6),
    "feed-forward": Kind("01e"),
    "feed-forward, delays": Kind("01e 01i", "1-5", 0.5, own=True),
    "feed-forward, many delays": Kind("01e", "1-12", 0.7),
    "feed-forward, with checkpoints": Kind("01e", "2-4", relays="0", every=5),
    "relays and recurrent": Kind("01e 11i", relays="0"),
    "relays and recurrent, sparse": Kind("01e 11i", "1-5", 0.4, relays="0", pending=True, visited=True),
    "in a circle": Kind("01e 10i", "1-2", 0.7, every=4),
    "in a circle, pending": Kind("01e 10i", "2-5", pending=True),
    "three, a chain": Kind("01e 12e", "1-2", relays="0"),
    "three, a chain, recurrent": Kind("01e 11i 12e 22i", "1-3", 0.5, relays="0", own=True, pending=True),
    "three, skipping": Kind("01e 12i 02e", "1", 0.8, every=7),
    "three, all to all": Kind("00e 01i 02e 10i 11e 12i 20e 21i 22e", "1-2", 0.5),
    "three, some frozen": Kind("01e 11i 12e 22i", "1-3", relays="0", frozen=2, visited=True),
}
USUALLY = ("one, many delays", "relays and recurrent, sparse", "three, a chain, recurrent", "in a circle")
SIZES = (6, 7, 5)


@functools.cache
def built(kind, seed=0):
    """Return a random network, built, and a state of it."""
    random = np.random.default_rng(seed)
    populations = []
    for k, size in enumerate(SIZES[: int(max(kind.ends.replace("e", "").replace("i", ""))[-1]) + 1]):
        names = {"decay": 0.8, "threshold": 1.0} if str(k) not in kind.relays else {"threshold": 0.6}
        params = {name: random.normal(mean, 0.05, size) if kind.own else mean for name, mean in names.items()}
        states = {} if str(k) in kind.relays else {"v": random.uniform(0, 1.8, size)}
        populations.append(be.Population(f"p{k}", size, gated if states else relay, states, params))
    low, _, high = kind.delays.partition("-")
    projections = []
    for source, target, receptor in kind.ends.split():
        shape = SIZES[int(source)], SIZES[int(target)]
        kept = random.random(shape) < kind.density
        weights = random.normal(0.2, 0.6, shape)
        delays = random.integers(int(low), int(high or low) + 1, shape)
        into = {"e": "exc", "i": "inh"}[receptor]
        ends = populations[int(source)], populations[int(target)]
        projections.append(be.Projection(*ends, kept * weights, into=into, delay=delays * 1.0))
    sim = be.Network(populations, projections, dt=1.0).build(seed=1, backend="jax", quantum=2.0**-12)
    if kind.pending:
        drive = {f"{p.name}.exc": np.full((4, 1), 1.0) for p in populations}
        sim.run(4, inputs=drive)
    return sim, sim.state


def by_hand(sim, state, params, steps, inputs):
    """Run a network with a matrix for each delay: spikes and potentials of each population."""
    plan = sim.plan
    matrices, pending = {}, {}
    for one in plan.projections:
        found = sim.connections(one.name)
        delays = np.rint(found.delays).astype(int)
        shape = max(delays), plan.population(one.source).size, plan.population(one.target).size
        weights = params.get(one.name, found.weights)
        matrices[one.name] = jnp.zeros(shape).at[delays - 1, found.sources, found.targets].add(weights)
    for name, receptor in plan.receptors():
        rows = state.arriving[name][receptor] * plan.population(name).quanta[receptor]
        pending[name, receptor] = jnp.concatenate([rows, jnp.zeros((steps, rows.shape[1]))])
    for label, rows in inputs.items():
        pending[tuple(label.split("."))] = pending[tuple(label.split("."))].at[:steps].add(rows)

    def step(carry, rows):
        past, neurons = carry
        spikes, new, potentials = {}, {}, {}
        for p in plan.populations:
            arriving = {"exc": 0.0, "inh": 0.0} | {r: rows[p.name, r] for r in p.quanta}
            for one in (one for one in plan.projections if one.target == p.name):
                matrix = matrices[one.name]
                arriving[one.receptor] += jnp.einsum("ds,dst->t", past[one.source][: len(matrix)], matrix)
            own, exc, inh = params[p.name], arriving["exc"], arriving["inh"]
            if "v" in neurons[p.name]:
                v = neurons[p.name]["v"]
                v = v * own["decay"] + exc + inh * (1 - 0.2 * v)
                spikes[p.name] = heaviside(v - own["threshold"])
                potentials[p.name] = jnp.where(v >= own["threshold"], 0.25 * v, v)
                new[p.name] = {"v": potentials[p.name]}
            else:
                spikes[p.name], new[p.name] = heaviside(exc + inh - own["threshold"]), {}
        past = {name: jnp.concatenate([spikes[name][None], rows[:-1]]) for name, rows in past.items()}
        return (past, new), [spikes, potentials]

    past = {p.name: jnp.zeros((12, p.size)) for p in plan.populations}
    begin = past, {name: dict(states) for name, states in state.neurons.items()}
    return jax.lax.scan(step, begin, {place: rows[:steps] for place, rows in pending.items()})[1]


@jax.custom_jvp
def heaviside(x):
    return (x >= 0).astype("float32")


heaviside.defjvp(lambda x, dx: (heaviside(*x), dx[0] / (1 + SLOPE * jax.lax.stop_gradient(jnp.abs(x[0]))) ** 2))


def ours(sim, state, params, steps, inputs, **options):
    """Run a network by `simulate`: spikes and potentials of each population."""
    names = [p.name for p in sim.plan.populations]
    asked = [f"{name}.spikes" for name in names]
    asked += [f"{name}.v" for name in names if "v" in sim.plan.population(name).state]
    surrogate = be.surrogate.fast_sigmoid(SLOPE)
    _, out = be.simulate(sim, state, params, steps, inputs, asked, surrogate, **options)
    found = ({name: out[f"{name}.{what}"] for name in names if f"{name}.{what}" in out} for what in ("spikes", "v"))
    return list(found)


def loss_of(run):
    """Return a function of all that can be differentiated: a loss, and the spikes."""

    def loss(sim, params, potentials, inputs, state, **options):
        neurons = {name: {**states, **potentials.get(name, {})} for name, states in state.neurons.items()}
        state = dataclasses.replace(state, neurons=neurons)
        spikes, found = run(sim, state, params, STEPS, inputs, **options)
        terms = [jnp.sin(jnp.arange(x.size)).reshape(x.shape) * x for x in jax.tree.leaves((spikes, found))]
        return sum(x.sum() for x in terms), spikes

    return loss


def arguments(kind, seed=0):
    """Return a network with random weights, potentials and inputs for it."""
    sim, state = built(kind, seed)
    random = np.random.default_rng(seed + 1)
    names = [one.name for one in sim.plan.projections]
    params = {name: value for name, value in sim.params.items() if name not in names}
    for name in names[: len(names) - kind.frozen]:
        params[name] = sim.params[name] + random.normal(0, 0.1, sim.connections(name).weights.shape)
    params = jax.tree.map(lambda x: jnp.asarray(x, "float32"), params)
    potentials = {name: {"v": jnp.asarray(s["v"])} for name, s in state.neurons.items() if "v" in s}
    inputs = {}
    for name, receptor in sim.plan.receptors() if kind.inputs else ():
        rows = random.uniform(0, 1, (STEPS, sim.plan.population(name).size))
        inputs[f"{name}.{receptor}"] = jnp.asarray(rows if receptor == "exc" else rows[:, :1], "float32")
    return sim, (params, potentials, inputs), state


def check_same(found, expected):
    """Compare trees of gradients, each leaf by its own largest number."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for (path, values), here in zip(jax.tree.leaves_with_path(expected), jax.tree.leaves(found), strict=True):
        scale = float(jnp.abs(values).max())
        np.testing.assert_allclose(here, values, rtol=1e-4, atol=1e-5 * max(scale, 1), err_msg=str(path))


@pytest.mark.parametrize(
    "name", [name if name in USUALLY else pytest.param(name, marks=pytest.mark.thorough) for name in KINDS]
)
def test_gradients_equal_those_of_a_program_by_hand(name, monkeypatch):
    kind = KINDS[name]
    if kind.visited:
        monkeypatch.setattr(products, "_SMALL", 0)
        monkeypatch.setattr(products, "_DENSE", 0)
    sim, values, state = arguments(kind)
    every = {"checkpoint_every": kind.every} if kind.every else {}
    slopes = functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
    expected = jax.jit(slopes(lambda *x: loss_of(by_hand)(sim, *x, state)))(*values)
    found = jax.jit(slopes(lambda *x: loss_of(ours)(sim, *x, state, **every)))(*values)
    jax.tree.map(np.testing.assert_array_equal, found[0][1], expected[0][1])
    np.testing.assert_allclose(found[0][0], expected[0][0], rtol=1e-4, atol=1e-4)
    check_same(found[1], expected[1])
    weights = [one.name for one in sim.plan.projections if one.name in values[0]]
    assert all(np.abs(found[1][0][one]).max() > 0 for one in weights)
    assert all(spikes.any() for spikes in found[0][1].values())


def test_training_begins_with_one_weight_for_all():
    sim, (params, _, inputs), state = arguments(KINDS["relays and recurrent"])
    names = [one.name for one in sim.plan.projections]

    def loss(weights, every=None):
        spikes, potentials = ours(sim, state, params | weights, STEPS, inputs, checkpoint_every=every)
        return (potentials["p1"] ** 2).sum() + spikes["p1"].sum()

    one = {name: jnp.array([0.3]) for name in names}
    each = {name: jnp.full(sim.params[name].shape, 0.3) for name in names}
    (found, slope), (expected, slopes) = (jax.jit(jax.value_and_grad(loss))(weights) for weights in (one, each))
    assert found == pytest.approx(float(expected), rel=1e-5)
    for name in names:
        assert slope[name][0] == pytest.approx(float(slopes[name].sum()), rel=1e-4)
        assert slope[name][0] != 0


# ---- transformations


def slopes_of(name):
    """Return a function of weights and inputs that gives spikes and gradients, and arguments for it."""
    sim, (params, _, inputs), state = arguments(KINDS[name])
    weights = {one.name: params.pop(one.name) for one in sim.plan.projections}

    def slopes(weights, inputs):
        loss = lambda weights: loss_of(ours)(sim, params | weights, {}, inputs, state)
        (_, spikes), found = jax.value_and_grad(loss, has_aux=True)(weights)
        return spikes, found

    return slopes, weights, inputs


def test_a_batch_of_batches_is_a_loop_over_its_elements():
    slopes, weights, inputs = slopes_of("relays and recurrent")
    scales = jnp.linspace(0.3, 1.5, 6).reshape(2, 3)
    weights = jax.tree.map(lambda x: jnp.stack([x, 0.5 * x]), weights)
    rows = jax.tree.map(lambda x: scales[..., None, None] * x, inputs)
    found = jax.jit(jax.vmap(jax.vmap(slopes, (None, 0)), (0, 0)))(weights, rows)
    one = jax.jit(slopes)
    for i, j in np.ndindex(2, 3):
        spikes, expected = one(*(jax.tree.map(operator.itemgetter(at), x) for x, at in ((weights, i), (rows, (i, j)))))
        its = jax.tree.map(operator.itemgetter((i, j)), found)
        jax.tree.map(np.testing.assert_array_equal, its[0], spikes)
        check_same(its[1], expected)


def test_the_gradient_of_a_batch_is_the_sum_of_those_of_its_elements():
    slopes, weights, inputs = slopes_of("relays and recurrent")
    rows = jax.tree.map(lambda x: jnp.linspace(0.3, 1.5, 4)[:, None, None] * x, inputs)
    each = jax.jit(jax.vmap(slopes, (None, 0)))(weights, rows)[1]
    sim, (params, _, _), state = arguments(KINDS["relays and recurrent"])

    @jax.jit
    @jax.grad
    def of_all(weights):
        return jax.vmap(lambda rows: loss_of(ours)(sim, params | weights, {}, rows, state)[0])(rows).sum()

    check_same(of_all(weights), jax.tree.map(lambda x: x.sum(0), each))


@pytest.mark.parametrize("name", ["one, recurrent", pytest.param("three, skipping", marks=pytest.mark.thorough)])
def test_derivatives_along_a_direction_agree_and_have_derivatives(name):
    kind = KINDS[name]
    sim, (params, potentials, inputs), state = arguments(kind)
    weights = {one.name: params.pop(one.name) for one in sim.plan.projections}
    along = jax.tree.map(lambda x: jnp.cos(jnp.arange(x.size)).reshape(x.shape), weights)

    def both(run):
        loss = lambda weights: loss_of(run)(sim, params | weights, potentials, inputs, state)[0]
        slope, change = jax.jvp(jax.grad(loss), (weights,), (along,))
        return jax.jvp(loss, (weights,), (along,))[1], slope, change

    (rate, slope, change), (_, expected, expected_change) = (
        jax.jit(functools.partial(both, run))() for run in (ours, by_hand)
    )
    assert rate == pytest.approx(
        sum(float((x * y).sum()) for x, y in zip(*map(jax.tree.leaves, (slope, along)), strict=True)), rel=1e-3
    )
    check_same(slope, expected)
    check_same(change, expected_change)


def products_in_loops(kind):
    """Return the equations in loops of the gradient of a batch of four by weights that it shares."""
    sim, (params, _, inputs), state = arguments(kind)
    rows = jax.tree.map(lambda x: jnp.stack([x] * 4), inputs)

    def loss(params):
        return jax.vmap(lambda rows: loss_of(ours)(sim, params, {}, rows, state)[0])(rows).sum()

    jaxpr = jax.make_jaxpr(jax.grad(loss))(params)
    loops = [eqn for eqn in equations(jaxpr.jaxpr) if eqn.primitive.name == "scan"]
    return [list(equations(loop.params["jaxpr"].jaxpr)) for loop in loops]


def test_loops_have_one_product_for_a_batch():
    forward, backward = products_in_loops(KINDS["relays and recurrent"])
    for loop in (forward, backward):
        assert [x.outvars[0].aval.shape for x in loop if x.primitive.name == "dot_general"] == [(4, SIZES[1])]
    assert not any(x.outvars[0].aval.shape[-2:] == (SIZES[1], SIZES[1]) for x in backward if x.outvars[0].aval.shape)


def test_loops_have_one_product_for_a_batch_of_visited_synapses(monkeypatch):
    monkeypatch.setattr(products, "_SMALL", 0)
    monkeypatch.setattr(products, "_DENSE", 0)
    forward, backward = products_in_loops(KINDS["relays and recurrent"])
    of_ours = [[x for x in loop if "csr" in x.primitive.name] for loop in (forward, backward)]
    assert [[(x.primitive.name, x.outvars[0].aval.shape) for x in found] for found in of_ours] == [
        [("binary_csrmm", (SIZES[1], 4))],
        [("csrmm", (SIZES[1], 4))],
    ]


# ---- what runs together, and sums of whole numbers


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("", [("p0",), ("p1",), ("p2",)]),
        ("01 12", [("p0",), ("p1",), ("p2",)]),
        ("10 21", [("p2",), ("p1",), ("p0",)]),
        ("01 10 12", [("p0", "p1"), ("p2",)]),
        ("20 02 11", [("p1",), ("p0", "p2")]),
        ("12 21 10", [("p1", "p2"), ("p0",)]),
        ("01 12 20", [("p0", "p1", "p2")]),
    ],
)
def test_populations_in_a_circle_run_together_after_those_that_they_hear(ends, expected):
    cells = [small_plans.population(f"p{k}", 3) for k in range(3)]
    joined = tuple(small_plans.synapses(cells[int(a)], cells[int(b)], 4, 1) for a, b in ends.split())
    nothing = small_plans.synapses(cells[2], cells[0], 0, 1, number=2)
    assert components(Plan(tuple(cells), (*joined, nothing), 0.1, 1, 1, "x")) == expected


def many_components():
    """Return a random graph, as sets of ends."""
    ends = st.tuples(st.integers(0, 7), st.integers(0, 7))
    return st.sets(ends, max_size=20)


@given(many_components())
def test_components_are_those_of_reachability(ends):
    cells = [small_plans.population(f"p{k}", 1) for k in range(8)]
    joined = tuple(small_plans.synapses(cells[a], cells[b], 1, 1) for a, b in ends)
    found = components(Plan(tuple(cells), joined, 0.1, 1, 1, "x"))
    reach = np.eye(8, dtype=bool)
    for a, b in ends:
        reach[a, b] = True
    for k in range(8):
        reach |= reach[:, k : k + 1] & reach[k]
    groups = {tuple(f"p{j}" for j in range(8) if reach[k, j] and reach[j, k]) for k in range(8)}
    assert sorted(found) == sorted(groups)
    order = {name: k for k, names in enumerate(found) for name in names}
    assert all(order[f"p{a}"] <= order[f"p{b}"] for a, b in ends)


@pytest.mark.parametrize("visited", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("shift", [0, 20])
def test_sums_of_whole_numbers_are_exact(visited, shift, monkeypatch):
    if visited:
        monkeypatch.setattr(products, "_SMALL", 0)
        monkeypatch.setattr(products, "_DENSE", 0)
    a, b, c = (
        small_plans.population(name, n, k, quantum=2.0**-shift / 4)
        for k, (name, n) in enumerate(zip("abc", (9, 7, 8), strict=True))
    )
    joined = (
        small_plans.synapses(a, b, 40, 2, weight="int32", seed=1),
        small_plans.synapses(b, a, 30, 2, weight="int32", seed=2),
        small_plans.synapses(a, c, 60, 2, weight="int32", seed=3),
        small_plans.synapses(b, c, 20, 2, weight="int32", delay=4, seed=4),
    )
    joined = tuple(dataclasses.replace(s, weights=s.weights.astype("i4") * (1 << shift) + (shift > 0)) for s in joined)
    plan = Plan((a, b, c), joined, 0.1, 1, 2, "heavy")
    exact = Interpreted(plan)
    run = jax.jit(lambda state: simulate(plan, state, {}, 2, record=Wanted(("a", "b", "c"))))
    compared = 0
    for _ in range(20):
        state, out = run(exact.state)
        recorded = exact.run(2, Wanted(("a", "b", "c")), {})
        lists = {name: np.nonzero(out[f"{name}.spikes"]) for name in "abc"}
        if all(
            np.array_equal(lists[n][k] + recorded.first * (k == 0), recorded.spikes[n][k])
            for n in "abc"
            for k in (0, 1)
        ):
            jax.tree.map(np.testing.assert_array_equal, state.arriving, exact.state.arriving)
            compared += 1
    assert compared > 15
    assert {one.whole for one in products.products(plan, (), dtypes_of_sums(plan))} == {"int32" if shift else "float32"}


def test_long_runs_go_in_chunks_without_a_difference(monkeypatch):
    sim, (params, _, inputs), state = arguments(KINDS["three, a chain, recurrent"])
    slopes = jax.value_and_grad(lambda params, every: loss_of(ours)(sim, params, {}, inputs, state)[0])
    expected = jax.jit(slopes, static_argnums=1)(params, 0)
    monkeypatch.setattr(passes, "_MOST", 130)  # numbers, that is five steps
    found = jax.jit(slopes, static_argnums=1)(params, 1)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    check_same(found[1], expected[1])
    loops = [
        eqn
        for eqn in equations(jax.make_jaxpr(slopes, static_argnums=1)(params, 2).jaxpr)
        if "scan" in str(eqn.primitive)
    ]
    assert {loop.params["length"] for loop in loops} >= {2, 5}
