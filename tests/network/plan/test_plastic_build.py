# SPDX-License-Identifier: Apache-2.0
"""What is built of plastic projections: synapses, quanta, fingerprints; and what is wrong with a description."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import synapse_rules

import brainevent as be
from brainevent.errors import NetworkError, RuleError, UnknownNameError
from brainevent.network.plan.build import build_plan, reseeded_plan
from brainevent.network.plan.quantum import RoundedWeightsWarning


def down(w, s, pre, post, p):
    return w - 0.01 * post.y


def up(w, s, pre, post, p):
    return w + 0.01 * pre.x


STDP = {"on_pre": down, "on_post": up, "pre": {"x": be.trace(20.0)}, "post": {"y": be.trace(20.0)}, "high": 1.0}
A, B = (synapse_rules.population(name, size, 0) for name, size in (("a", 12), ("b", 9)))


def network(connect=None, *, into="syn", delay=0.3, others=(), **plasticity):
    """Return a network with one plastic projection; what is None is left out of its plasticity."""
    given = {key: value for key, value in {**STDP, **plasticity}.items() if value is not None}
    connect = be.connect.prob(0.5, weight=be.uniform(0, 1)) if connect is None else connect
    projection = be.Projection(A, B, connect, into, delay, "ab", be.Plasticity(**given))
    return be.Network([A, B], [*others, projection], dt=0.1)


def built(*args, **more):
    return build_plan(network(*args, **more), seed=2)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "connect",
    [be.connect.prob(0.5, weight=0.25), be.connect.in_degree(4, weight=be.normal(0.5, 0.1, low=0, high=1))],
)
def test_synapses_are_those_of_a_static_projection_with_float_weights(connect, parts):
    static = be.Network([A, B], [be.Projection(A, B, connect, "syn", be.uniform(0.1, 0.5), "ab")], dt=0.1)
    one = build_plan(static, seed=2, parts=parts)
    other = build_plan(network(connect, delay=be.uniform(0.1, 0.5)), seed=2, parts=parts).plastic[0].synapses
    for name in ("starts", "targets", "delays"):
        np.testing.assert_array_equal(getattr(one.synapses[0], name), getattr(other, name))
    weights = one.synapses[0].weights * float(one.population("b").quanta["syn"])
    np.testing.assert_allclose(other.weights, np.broadcast_to(weights, other.weights.shape), rtol=4e-3)
    assert other.weights.dtype == np.float32
    starts, entries = other.incoming
    for target in range(9):
        np.testing.assert_array_equal(
            entries[starts[target] : starts[target + 1]], np.flatnonzero(other.targets == target)
        )


def test_weights_and_states_of_a_matrix_stay_with_their_elements():
    """They are float32 of what is given, whatever the order of delays."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((12, 9)) < 0.4, rng.random((12, 9)), 0)
    delays, state = 0.1 * rng.integers(1, 6, (12, 9)), rng.random((12, 9))
    rule = {"on_pre": lambda w, s, pre, post, p: (w, s.replace(c=s.c + post.y)), "state": {"c": state}}
    for parts in (1, 3):
        plan = build_plan(network(weights, delay=delays, **rule), seed=2, parts=parts)
        one = plan.plastic[0].synapses
        np.testing.assert_array_equal(one.weights, weights[one.sources, one.targets].astype(np.float32))
        np.testing.assert_array_equal(one.states["c"], state[one.sources, one.targets].astype(np.float32))
        np.testing.assert_array_equal(one.delays, np.rint(delays[one.sources, one.targets] * 10))
        order = one.order
        key = [(one.sources[order][k], one.delays[order][k], one.targets[order][k]) for k in range(one.entries)]
        assert key == sorted(key)


def test_the_quantum_is_as_fine_as_the_bounds_allow():
    quantum = float(built().population("b").quanta["syn"])
    assert np.log2(quantum) == round(np.log2(quantum))
    plan = built(be.connect.all_to_all(weight=0.5), high=0.7, low=-0.2)
    assert 2**29 <= plan.loads["b", "syn"] <= 2**30
    assert plan.loads["b", "syn"] == 12 * plan.plastic[0].bound(plan.population("b").quanta["syn"])
    fixed = be.Projection(A, B, be.connect.prob(0.5, weight=0.3), "syn", name="fixed")
    both = built(others=[fixed])
    parts = 0.3 / float(both.population("b").quanta["syn"])
    assert abs(parts - round(parts)) < 1e-4 * parts  # a fixed weight stays a multiple
    assert both.synapses[0].rounding == 0
    assert 2**26 <= both.loads["b", "syn"] <= 2**30


def test_weights_that_are_small_beside_other_sums_are_warned_of():
    """The quantum of the receptor would round them by more than 2**-9 of the largest one, or to 0."""
    fixed = be.Projection(A, B, be.connect.all_to_all(weight=be.uniform(900, 1000)), "syn", name="fixed")
    small = network(be.connect.all_to_all(weight=0.5e-4), others=[fixed], high=1e-4)
    with pytest.warns(RoundedWeightsWarning, match=r"projection ab: what plastic synapses of ab deliver is rounded to"):
        plan = build_plan(small, seed=2)
    quantum = float(plan.population("b").quanta["syn"])
    build_plan(small, seed=2, quantum={"b.syn": quantum})
    assert "of their largest weight, 0.0001" in build_plan(small, seed=2, warn=False).rounded["ab"]
    other = be.Projection(A, B, be.connect.all_to_all(weight=1e-4), "syn", name="fixed")
    sim = network(be.connect.all_to_all(weight=0.5e-4), others=[other], high=1e-4).build(seed=2, backend="interpreted")
    with pytest.warns(RoundedWeightsWarning, match=r"set: what plastic synapses of ab deliver is rounded to multiples"):
        sim.set("fixed", weights=1000.0)


def test_weights_that_are_small_beside_their_bounds_are_warned_of():
    """Sums that bounds allow leave few bits for the first weights, unless these are 0."""
    large = network(be.connect.all_to_all(weight=be.uniform(0.1, 0.5)), high=1e7)
    match = r"projection ab: .* multiples of 0\.125, .*at the beginning, which are up to 0\.5, since bounds of 1e\+07"
    with pytest.warns(RoundedWeightsWarning, match=match):
        build_plan(large, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_plan(large, seed=2, quantum={"b.syn": 0.125})
        build_plan(network(be.connect.all_to_all(weight=0.0), high=1e7), seed=2)
        build_plan(network(be.connect.all_to_all(weight=0.5), high=1e4), seed=2)


def test_a_trace_that_is_gone_at_once_is_a_number():
    """0 steps times an infinite rate would be NaN."""
    net = network(pre={"x": be.trace(1e-300)}, every=(0.1, lambda w, s, pre, post, p: w + 1e-6 * pre.x))
    assert np.isfinite(build_plan(net, seed=2).plastic[0].rules.pre[0].rate)
    sim = net.build(seed=2, backend="interpreted")
    sim.run(20, inputs={"a.syn": np.full(20, 2.0)})
    assert np.isfinite(sim.connections("ab").weights).all()


def test_what_a_network_is_named_depends_on_its_plasticity():
    names = {
        built().fingerprint,
        built(high=0.9 + 0.2).fingerprint,
        built(delay_at="dendrite").fingerprint,
        built(on_pre=lambda w, s, pre, post, p: w - 0.02 * post.y).fingerprint,
        built(pre={"x": be.trace(21.0)}).fingerprint,
        built(every=(0.5, lambda w, s, pre, post, p: w)).fingerprint,
        built(every=(0.6, lambda w, s, pre, post, p: w)).fingerprint,
    }
    assert len(names) == 7
    assert built().fingerprint == built().fingerprint


def test_another_seed_keeps_synapses_unless_they_are_drawn_anew():
    net = network()
    plan = build_plan(net, seed=2)
    assert reseeded_plan(plan, net, 5).plastic is plan.plastic
    assert not np.array_equal(build_plan(net, seed=5).plastic[0].synapses.starts, plan.plastic[0].synapses.starts)


WRONG = {
    "post state": (
        {"on_pre": lambda w, s, pre, post, p: w * post.vv + post.y},
        r"reads post\.vv, but post has no 'vv'.*declare traces of the target in post=, and states in its population",
    ),
    "guess": (
        {"on_post": lambda w, s, pre, post, p: w + pre.xx},
        r"pre has no 'xx'; did you mean 'x'.*declare traces and states of the source in pre=",
    ),
    "not declared": (
        {"on_post": lambda w, s, pre, post, p: w + pre.u},
        r"reads pre\.u, but pre has no 'u'.*; declare it: pre=dict\(u='u'\)",
    ),
    "receptor": (
        {"on_post": lambda w, s, pre, post, p: w + post.syn},
        r"post has no 'syn'.*syn is a receptor of the target: let its rule store",
    ),
    "parameter": (
        {"on_post": lambda w, s, pre, post, p: w * p.eta},
        r"reads p\.eta, but params has no 'eta'; names: dt; declare parameters in params=",
    ),
    "bound": (
        {"on_post": lambda w, s, pre, post, p: w * (p.high - w)},
        r"params has no 'high'.*; declare it, with the same number: params=dict\(high=\.\.\.\)",
    ),
    "synapse": ({"on_post": lambda w, s, pre, post, p: (w, s.replace(c=1.0))}, r"synapse has no 'c'.*declare states"),
}


@pytest.mark.parametrize("name", WRONG)
def test_rules_that_read_what_is_not_there(name):
    plasticity, words = WRONG[name]
    with pytest.raises(UnknownNameError, match=f"projection ab: rule .*{words}"):
        built(**plasticity)


RETURNS = {
    "takes (w, s)": lambda w, s: w,
    "returns a record of nothing; return w, or": lambda w, s, pre, post, p: s,
    "w is bool; return a float": lambda w, s, pre, post, p: w > 0,
    r"w has shape \(2,\); a rule is of one synapse": lambda w, s, pre, post, p: jnp.stack([w, w]),
    "Python needs the value": lambda w, s, pre, post, p: w if w > 0 else 0.0,
}


@pytest.mark.parametrize("words", RETURNS)
def test_rules_that_are_no_rules(words):
    pattern = words if "\\" in words else words.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(RuleError, match=f"projection ab: rule <lambda>.*{pattern}"):
        built(on_pre=RETURNS[words], post=None)


DESCRIBED = {
    "source state": (
        {"pre": {"x": be.trace(2.0), "q": "uu"}},
        r"pre q is the state 'uu', which a does not have; did you mean",
    ),
    "event": (
        {"on_post": {"upstat": up}},
        r"on_post has the event 'upstat', which the rule of b does not return; did you",
    ),
    "below a step": (
        {"every": (0.05, up)},
        r"every has the interval 0\.05 ms, below one step; pass 0\.1 ms or more",
    ),
    "no multiple": ({"every": (0.25, up)}, r"every has the interval 0\.25 ms, not a multiple of dt=0\.1 ms"),
    "trace of a state": ({"post": {"v": be.trace(2.0)}}, r"post has the trace 'v', which is a state of b"),
    "unused trace": (
        {"pre": {"x": be.trace(2.0), "z": be.trace(2.0)}},
        r"pre has 'z', which no rule of its plasticity reads",
    ),
    "unused state": ({"state": {"c": 0.0}}, r"state has 'c', which no rule of its plasticity reads or changes"),
    "unused parameter": ({"params": {"eta": 0.1}}, r"params has 'eta', which no rule of its plasticity reads"),
    "another dt": ({"params": {"dt": 1.0}}, r"params dt is 1, but p\.dt is the time step of the network, 0\.1 ms"),
    "infinite parameter": (
        {"params": {"eta": 1e39}, "on_pre": lambda w, s, pre, post, p: w - p.eta * post.y},
        r"params eta is 1e\+39, which does not fit in float32",
    ),
    "infinite trace": ({"pre": {"x": be.trace(2.0, 1e39)}}, r"pre x: add is 1e\+39, which does not fit in float32"),
    "infinite bound": ({"high": 1e39}, r"plasticity high is 1e\+39, which does not fit in float32; pass a smaller"),
    "array of a drawn one": (
        {"on_pre": lambda w, s, pre, post, p: w - post.y * s.c, "state": {"c": np.zeros(3)}},
        r"state c has the shape \(3,\), but synapses are drawn",
    ),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_descriptions_that_do_not_fit_the_network(name):
    plasticity, words = DESCRIBED[name]
    with pytest.raises(NetworkError, match=f"projection ab: {words}"):
        built(**plasticity)


GIVEN = {
    r"low is 2 and high is 1; pass low <= high": {"low": 2.0},
    r"high is missing; pass the largest weight": {"high": None},
    r"there is no rule; pass on_pre=": {"on_pre": None, "on_post": None},
    r"on_pre is 3; write rule\(w, s, pre, post, p\)": {"on_pre": 3},
    r"pre x is 20; pass trace\(tau\), or the name": {"pre": {"x": 20}},
    r"post v is 'v'; pass trace\(tau\): rules read the states of the target": {"post": {"v": "v"}},
    r"pre has 5 states of the source.* at most 4": {"pre": list("klmno")},
    r"delay_at is 'axom'; did you mean 'axon'": {"delay_at": "axom"},
    r"every has the interval -1; pass a positive": {"every": (-1, up)},
    r"every is 5; pass \(ms, rule\)": {"every": 5},
    r"state has 'w', which is the weight": {"state": {"w": 1.0}},
    r"params eta is \[1, 2\]; pass a number": {"params": {"eta": [1, 2]}},
    r"params 'a b' is not a valid name": {"params": {"a b": 1}},
}


@pytest.mark.parametrize("words", GIVEN)
def test_descriptions_that_are_none(words):
    with pytest.raises(NetworkError, match=f"Plasticity: {words}"):
        network(**GIVEN[words])


def test_traces_that_are_none():
    for wrong, words in (
        ({"tau": 0}, "tau is 0; pass"),
        ({"tau": 1, "add": "x"}, "add is 'x'"),
        ({"tau": 1, "nearest": 1}, "True"),
    ):
        with pytest.raises(NetworkError, match=f"trace: .*{words}"):
            be.trace(**wrong)
    with pytest.raises(NetworkError, match=r"projection a->b\.syn: plasticity is 3; pass Plasticity"):
        be.Projection(A, B, be.connect.prob(0.1), "syn", plasticity=3)


def test_weights_that_do_not_fit():
    with pytest.raises(
        NetworkError, match=r"weights are from -0\.05 to 1\.05, outside of low=0 to high=1.*normal\(\.\.\., l"
    ):
        built(be.connect.prob(0.5, weight=be.normal(0.5, 0.1)))
    with pytest.raises(
        NetworkError, match=r"projection ab: weights are 1\.5, outside of low=0 to high=1 of its plasticity"
    ):
        built(be.connect.prob(0.5, weight=1.5))
    with pytest.raises(
        NetworkError, match=r"a weight for each synapse, but those of this CSR share one; pass a matrix with"
    ):
        built(be.CSR(jnp.ones(1), np.array([0, 1, 2]), np.array([0, 3, *[3] * 11]), shape=(12, 9)))
    for weight in (0.5, 0.0, 1.0):
        for kind in (be.connect.prob(0.5, weight=weight), be.connect.all_to_all(weight=weight)):
            found = built(kind).plastic[0].synapses
            np.testing.assert_array_equal(found.weights, np.full(found.entries, weight, np.float32))
            assert found.entries > 30


def test_sums_that_bounds_let_leave_32_bits():
    words = (
        r"neuron \d by syn may add up to 1288\d+ times their quantum.*rise to their bounds \(ab to 1\).* 6 times too"
    )
    with pytest.raises(NetworkError, match=words):
        build_plan(network(be.connect.all_to_all(weight=0.5)), seed=2, quantum=12 / 2**31 / 6)
