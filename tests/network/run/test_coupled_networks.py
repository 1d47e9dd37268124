# SPDX-License-Identifier: Apache-2.0
"""Couplings as a user writes them: descriptions, errors in words, weights, files, sweeps and reports."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.connections import connections


def cell(s, arriving, p):
    v = s.v + 0.1 * (p.drive - s.v + arriving.gap)
    return s.replace(v=jnp.where(v > 1, 0.0, v), n=s.n + 1), v > 1


def follower(s, arriving, p):
    return s.replace(v=0.5 * s.v + arriving.gap + arriving.syn), s.v > 5


A = be.Population("a", 12, cell, state={"v": be.uniform(0, 1), "n": 0}, params={"drive": be.uniform(0.5, 2)})
B = be.Population("b", 5, follower, state={"v": 0.0})
GAP = be.Coupling(A, A, be.connect.prob(0.5, weight=be.uniform(0.1, 0.4), self_connections=False), difference=True)
SYN = be.Projection(A, B, be.connect.all_to_all(weight=0.5), into="syn", delay=0.2)
MATRIX = np.random.default_rng(0).normal(0, 1, (12, 5)).astype(np.float32)
LINK = be.Coupling(A, B, MATRIX, of="v", into="gap")


def network(*links):
    return be.Network([A, B], links or [GAP, SYN, LINK], dt=0.1)


def built(backend="numba", *links, seed=1, **how):
    return network(*links).build(seed=seed, backend=backend, **how)


def states_of(sim, steps=40):
    return sim.run(steps, ["a.v", "b.v"])


def test_a_network_takes_projections_and_couplings_in_one_list():
    net = network()
    assert net.projections == (SYN,)
    assert net.couplings == (GAP, LINK)
    assert net.coupling_names == ("a->a.gap", "a->b.gap")
    assert repr(net) == "Network(17 neurons, 1 projection, 2 couplings, dt=0.1)"
    assert repr(GAP) == "Coupling('a->a.gap', prob(0.5, weight=uniform(0.1, 0.4)), of='v', difference=True)"
    assert repr(LINK) == "Coupling('a->b.gap', ndarray, of='v')"
    other = dataclasses.replace(net, dt=0.05)
    assert (other.projections, other.couplings) == (net.projections, net.couplings)
    assert be.Network([A, B], [SYN], couplings=[LINK]).couplings == (LINK,)
    assert "difference of v" in net._repr_html_()


def test_names_of_couplings_follow_those_of_projections():
    twice = [be.Coupling(A, B, MATRIX, into="syn"), SYN, be.Coupling(A, B, MATRIX, into="syn")]
    net = network(*twice)
    assert (net.projection_names, net.coupling_names) == (("a->b.syn",), ("a->b.syn#2", "a->b.syn#3"))
    named = be.Coupling(A, B, MATRIX, name="a->b.syn")
    with pytest.raises(NetworkError, match="2 projections and couplings are named 'x'"):
        network(be.Coupling(A, B, MATRIX, name="x"), be.Projection(A, B, MATRIX, into="syn", name="x"))
    with pytest.raises(NetworkError, match="2 populations, projections and couplings are named 'a'"):
        network(be.Coupling(A, B, MATRIX, name="a"))
    assert network(SYN, named).projection_names == ("a->b.syn#2",)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: be.Coupling("a", A, MATRIX), "Coupling: source is 'a'; pass a Population"),
        (
            lambda: be.Coupling(A, B, MATRIX, of="w"),
            r"coupling a->b.gap: of is 'w'; a has no such .*states are v, n",
        ),
        (lambda: be.Coupling(A, B, MATRIX, of="V"), "of is 'V'; a has no such state; did you mean 'v'"),
        (lambda: be.Coupling(A, B, MATRIX, of=None), "of is None; a has no such state"),
        (
            lambda: be.Coupling(A, B, MATRIX, of="n", difference=True),
            "of is 'n'; difference=True needs this state of the target, too: b has no such state.*states are v",
        ),
        (lambda: be.Coupling(A, B, MATRIX, difference=1), "coupling a->b.gap: difference is 1; pass True or False"),
        (lambda: be.Coupling(A, B, MATRIX, into=3), "coupling a->b: into is 3; pass the name"),
        (lambda: be.Coupling(A, B, MATRIX, name=""), "Coupling: name is ''; pass a string"),
        (lambda: be.Coupling(A, B, "all"), "coupling a->b.gap: connect is 'all'; pass a description"),
        (lambda: be.Network([A], [LINK]), "coupling a->b.gap: population b is not in the network"),
        (lambda: be.Network([A], [A]), "is among the projections; pass Projection or Coupling"),
        (lambda: be.Network([A], couplings=[SYN]), "is among the couplings; pass Coupling"),
        (
            lambda: built("numba", be.Coupling(A, B, MATRIX, into="gab")),
            "coupling a->b.gab: the rule of b reads no arriving.gab; did you mean 'gap'",
        ),
        (
            lambda: built("numba", be.Coupling(A, B, MATRIX, of="n")),
            r"the state n of a is int32, and couplings carry floats; let .* s.n \* 1.0, .* another one: v",
        ),
        (
            lambda: built("numba", be.Coupling(A, B, MATRIX.T)),
            r"coupling a->b.gap: matrix: has the shape \(5, 12\) \(it is that of the transposed matrix",
        ),
        (lambda: built("numba", be.Coupling(A, B, MATRIX * np.inf)), "coupling a->b.gap: weight: element 0 is -?inf"),
        (
            lambda: built("numba", be.Coupling(A, B, be.connect.one_to_one())),
            "coupling a->b.gap: one_to_one, but there are 12 sources and 5 targets",
        ),
        (
            lambda: built("numba", be.Coupling(A, A, be.connect.in_degree(30, replace=False))),
            "coupling a->a.gap: in_degree.30. needs 30 different neurons, and there are 12",
        ),
    ],
)
def test_what_bad_input_gets(make, said):
    with pytest.raises(NetworkError, match=said):
        make()


@pytest.mark.parametrize(
    "connect",
    [
        MATRIX,
        MATRIX.tolist(),
        scipy.sparse.csr_array(MATRIX),
        be.Dense(jnp.asarray(MATRIX)),
        be.CSR.fromdense(jnp.asarray(MATRIX)),
        be.connect.all_to_all(weight=MATRIX),
    ],
)
def test_matrices_of_any_kind_are_the_same_synapses(connect):
    found = built("numba", be.Coupling(A, B, connect)).connections("a->b.gap")
    assert (found.delays == 0.1).all()
    np.testing.assert_array_equal(found.sources, np.repeat(np.arange(12), 5))
    np.testing.assert_array_equal(found.targets, np.tile(np.arange(5), 12))
    np.testing.assert_array_equal(found.weights, MATRIX.reshape(-1))
    assert found.shape == (12, 5)


@pytest.mark.parametrize(
    "connect",
    [
        be.connect.total(100, weight=be.normal(1.0, 0.2)),
        be.connect.in_degree(7, weight=be.integers(-3, 4)),
        be.connect.out_degree(3, weight=be.lognormal(1.0, 0.5)),
        be.connect.prob(0.3, weight=be.exponential(0.5)),
    ],
)
def test_drawn_synapses_are_those_of_a_projection(connect):
    """But for the rounding of weights; for any number of threads."""
    projected, coupled = (
        build_plan(be.Network([A, B], [make(A, B, connect, into="gap", name="x")]), seed=5, parts=2, **more)
        for make, more in ((be.Projection, {"quantum": 2.0**-20}), (be.Coupling, {}))
    )
    (synapses,), (coupling,) = projected.synapses, coupled.couplings
    assert coupling.entries == synapses.targets.size
    first, second = (connections(plan, "x") for plan in (projected, coupled))
    np.testing.assert_array_equal(first.sources, second.sources)
    np.testing.assert_array_equal(first.targets, second.targets)
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-5, atol=2.0**-20)
    if connect.weight.law.span:
        assert set(second.weights) <= set(range(-3, 4))
    assert second.weights.dtype == np.float32


def test_every_engine_of_a_cpu_has_the_same_bits():
    expected = states_of(built("interpreted"))
    for threads in (1, 3):
        found = states_of(built("numba", threads=threads))
        for label in expected:
            np.testing.assert_array_equal(found[label], expected[label])
    close = states_of(built("jax"))
    for label in expected:
        np.testing.assert_allclose(close[label], expected[label], rtol=1e-4, atol=1e-5)


def test_weights_are_set_saved_and_reset(tmp_path):
    sim = built()
    begun = states_of(sim)
    assert sim.params["a->b.gap"].dtype == np.float32
    sim.set("a->b.gap", weights=sim.params["a->b.gap"])
    assert sim._weights.replaced == {}
    sim.set("a->b.gap", weights=0.1)
    sim.set("a->a.gap", weights=np.linspace(0, 0.3, len(sim.connections("a->a.gap"))))
    assert sim.params["a->b.gap"].tolist() == [np.float32(0.1)]
    assert "replaced weights: a->b.gap, a->a.gap" in sim.report()
    sim.save(tmp_path / "file.npz")
    expected = states_of(sim)
    as_built = be.Coupling(A, B, be.connect.all_to_all(weight=0.1))
    given = be.Coupling(A, A, _matrix(sim.connections("a->a.gap")), difference=True)
    whole = built("numba", given, SYN, as_built)
    assert states_of(whole)["b.v"].shape == (40, 5)
    for other in (built("interpreted"), built("numba", threads=2)):
        other.load(tmp_path / "file.npz")
        for label, values in states_of(other).items():
            np.testing.assert_array_equal(values, expected[label])
        other.reset()
        for label, values in states_of(other).items():
            np.testing.assert_array_equal(values, begun[label])
    sim.reset()
    sim.set("a->b.gap", weights=0.1)
    fresh = states_of(built("numba", GAP, SYN, as_built))
    for label, values in states_of(sim).items():
        np.testing.assert_array_equal(values, fresh[label])


def _matrix(found):
    matrix = np.zeros((12, 12), np.float32)
    matrix[found.sources, found.targets] = found.weights
    return matrix


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda sim: sim.set("a->b.gab", weights=1.0), "nor a projection or coupling; did you mean 'a->b.gap'"),
        (lambda sim: sim.set("a->b.gap", weight=1.0), "has no 'weight'.*only the weights of a coupling can be set"),
        (lambda sim: sim.set("a->b.gap", weights=np.ones(7)), r"shape \(7,\); pass a number, or an array \(60,\)"),
        (lambda sim: sim.set("a->b.gap", weights=1e39), "set: weights of a->b.gap: is 1e.39; pass finite numbers"),
        (lambda sim: sim.connections("a->c.gap"), "there is no projection or coupling 'a->c.gap'.*couplings: a->a.gap"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_changes(change, said):
    sim = built()
    with pytest.raises(NetworkError, match=said):
        change(sim)
    np.testing.assert_array_equal(states_of(sim)["b.v"], states_of(built())["b.v"])


def test_sweeps_over_weights_and_seeds():
    sim = built()
    weights = [0.0, 0.1, 0.2]
    swept = sim.sweep(30, ["b.v"], {"a->b.gap": {"weights": weights}}, threads=2)
    for weight, found in zip(weights, swept["b.v"], strict=True):
        other = built()
        other.set("a->b.gap", weights=weight)
        np.testing.assert_array_equal(found, other.run(30, "b.v")["b.v"])
    for redraw in (True, False):
        swept = sim.sweep(30, ["a.v"], seeds=[1, 2, 2], redraw=redraw)
        np.testing.assert_array_equal(swept["a.v"][0], sim.run(30, "a.v")["a.v"])
        np.testing.assert_array_equal(swept["a.v"][1], swept["a.v"][2])
        again = np.array_equal(swept["a.v"][1], built(seed=2).run(30, "a.v")["a.v"])
        assert again == redraw  # with other synapses only
        sim.reset()


def test_a_stepper_takes_states_that_were_set_between_steps():
    sim, whole = built(), built("interpreted")
    step = sim.stepper("b.v", inputs="b.gap")
    for k in range(5):
        if k == 2:
            for one in (sim, whole):
                one.set("a", v=np.linspace(0, 1, 12))
        expected = whole.run(1, "b.v", {"b.gap": [float(k)]})["b.v"][0]
        np.testing.assert_array_equal(step({"b.gap": float(k)})["b.v"], expected)


def test_fingerprints_tell_couplings_apart():
    kinds = [
        [],
        [LINK],
        [be.Coupling(A, B, MATRIX, difference=True)],
        [be.Coupling(A, B, MATRIX * 2)],
        [be.Coupling(A, B, MATRIX, into="syn")],
        [be.Coupling(B, B, be.connect.all_to_all())],
        [LINK, be.Coupling(A, B, MATRIX)],
    ]
    prints = {build_plan(be.Network([A, B], links), seed=1).fingerprint for links in kinds}
    assert len(prints) == len(kinds)


def test_the_fingerprint_of_a_network_without_couplings_is_what_it_was():
    """So its files are read as before."""
    rule = lambda s, arriving, p: (s.replace(v=arriving.syn), s.v > 1)
    cells = be.Population("cells", 3, rule, state={"v": 0.0})
    plan = build_plan(be.Network([cells], [be.Projection(cells, cells, be.connect.all_to_all(), into="syn")]), seed=1)
    assert plan.fingerprint[:16] == "a66e4838461c7925"


def test_reports_and_explanations_name_couplings():
    sim = built()
    text = str(sim.report())
    assert "coupling  synapses  per target" in text
    assert "difference of v" in text
    assert f"{len(sim.connections('a->a.gap')) + 120} synapses" in repr(sim)
    explained = sim.explain()
    assert "coupling a->b.gap\n  arriving.gap of b += sum of weight * source's v before the step, over 60" in explained
    assert "sum of weight * (source's v - own v) before the step" in explained
    assert "gradients: in plain JAX, because couplings carry states in every step" in explained


def test_units_of_weights_are_those_of_the_receptor_by_those_of_the_state():
    u = pytest.importorskip("brainunit")
    units = {"v": "mV", "gap": "pA", "n": "1", "drive": "mV"}
    cells = be.Population("a", 3, cell, state={"v": 0.0, "n": 0}, params={"drive": 1.0}, units=units)

    def weights(weight, *links):
        return be.Network([cells], [be.Coupling(cells, cells, weight)]).build(backend="numba").params["a->a.gap"]

    assert weights(be.connect.all_to_all(weight=2 * u.nS)).tolist() == [2.0]
    assert weights(be.connect.all_to_all(weight=2 * u.uS)).tolist() == [2000.0]
    assert weights(be.connect.all_to_all(weight=2.0)).tolist() == [2.0]
    with pytest.raises(NetworkError, match=r"coupling a->a\.gap: weight: has the unit"):
        weights(be.connect.all_to_all(weight=2 * u.pA))
    sim = be.Network([cells], [be.Coupling(cells, cells, be.connect.all_to_all())]).build(backend="numba")
    sim.set("a->a.gap", weights=3 * u.nS)
    assert sim.params["a->a.gap"].tolist() == [3.0]
    some = be.Population("a", 3, cell, state={"v": 0.0, "n": 0}, params={"drive": 1.0}, units={"v": "mV"})
    with pytest.raises(NetworkError, match="units= of population a has no 'gap'"):
        be.Network([some], [be.Coupling(some, some, be.connect.all_to_all(weight=2 * u.nS))]).build(backend="numba")
    with pytest.raises(NetworkError, match=r"set: weights of a->a\.gap: has the unit"):
        sim.set("a->a.gap", weights=3 * u.mV)


def ring_error(dt, g=0.05, ms=10.0):
    """Return the largest error of a ring of leaky cells with gap junctions, beside its solution by Fourier modes."""

    def leaky(s, arriving, p):
        return s.replace(v=s.v + p.dt * (arriving.gap - s.v / 20)), s.v > 1e6

    first = np.random.default_rng(0).normal(0, 1, 16).astype(np.float32)
    ring = be.Population("ring", 16, leaky, state={"v": first})
    near = np.eye(16, k=1) + np.eye(16, k=15)
    sim = be.Network([ring], [be.Coupling(ring, ring, g * (near + near.T), difference=True)], dt=dt).build()
    sim.run(round(ms / dt))
    decays = 1 / 20 + 2 * g * (1 - np.cos(2 * np.pi * np.arange(9) / 16))
    exact = np.fft.irfft(np.fft.rfft(first) * np.exp(-decays * ms))
    return np.abs(sim.state.neurons["ring"]["v"] - exact).max()


def test_a_ring_of_cells_converges_to_its_solution():
    """With the first order of its Euler steps."""
    errors = np.array([ring_error(dt) for dt in (0.4, 0.2, 0.1)])
    np.testing.assert_allclose(errors[:-1] / errors[1:], 2, rtol=0.05)
    assert errors[-1] < 5e-3


def test_a_state_that_is_not_finite_is_named():
    def bursting(s, arriving, p):
        return s.replace(v=s.v * 1e20 + arriving.gap), s.v > 1

    cells = be.Population("cells", 4, bursting, state={"v": np.array([0, 0, 1, 0], np.float32)})
    net = be.Network([cells], [be.Coupling(cells, cells, be.connect.all_to_all())], dt=0.1)
    for backend in ("numba", "interpreted", "jax"):
        with pytest.raises(be.NotFiniteError, match="state v of neuron"):
            net.build(backend=backend, check_finite=True).run(5)
