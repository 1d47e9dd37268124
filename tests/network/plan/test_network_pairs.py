# SPDX-License-Identifier: Apache-2.0
"""Probabilities, weights and delays by the attributes of both neurons: those of a plain oracle, on every engine."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_rows import rows_of
from pairs_oracle import LAWS, drawn_attributes, pairs_of_oracle
from ptx import AS_WRITTEN, ptx_of

import brainevent as be
from brainevent.network.gpu.drawing import Drawing, drawing_text, functions_of
from brainevent.network.plan.build import build_plan, wirings_of
from brainevent.network.plan.connections import connections
from brainevent.network.plan.drawing import Description, placed_synapses

NAME = "pre->post.syn"
UNIT = {"x": be.uniform(0, 1), "y": be.uniform(0, 1)}


def cell(s, arriving, p):
    return s.replace(v=arriving.syn), s.v > 1


def population(name, size, at=None):
    return be.Population(name, size, cell, state={"v": 0.0}, at=UNIT if at is None else at)


def between(pre, post, how, **more):
    populations = [pre] if pre is post else [pre, post]
    return be.Network(populations, [be.Projection(pre, post, how, into="syn", name=NAME, **more)], dt=0.1)


def made(network, **how):
    plan = build_plan(network, **how)
    return connections(plan, NAME)


def squared(pre, post):
    return (pre.x - post.x) ** 2 + (pre.y - post.y) ** 2


@given(
    law=st.sampled_from(sorted(LAWS)),
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    alone=st.booleans(),
    skip=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
    parts=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_pairs_are_those_of_the_oracle(law, sizes, alone, skip, seed, parts):
    chance = LAWS[law]
    pre = population("pre", sizes[0])
    post = pre if alone else population("post", sizes[1])
    how = be.connect.prob(lambda a, b: chance(a, b, jnp), weight=0.5, self_connections=not skip)
    found = made(between(pre, post, how), seed=seed, parts=parts)
    ends = (drawn_attributes(one.name, one.size, seed) for one in (pre, post))
    sources, targets = pairs_of_oracle(NAME, chance, *ends, seed, skip=skip and alone)
    assert found.sources.tolist() == sources.tolist()
    assert found.targets.tolist() == targets.tolist()
    assert (found.weights == 0.5).all()


CHANCES = {
    "near": lambda a, b: jnp.where(squared(a, b) < 0.1, 0.5 * jnp.exp(-squared(a, b) / 0.05), 0),
    "far": lambda a, b: 0.3 * jnp.exp(-squared(a, b) / 0.5),
}
WEIGHTS = [0.5, be.normal(1, 0.1), lambda a, b: jnp.exp(-squared(a, b)), lambda a, b: a.x - b.y]
DELAYS = [None, be.normal(1.5, 0.5), lambda a, b: 1 + jnp.sqrt(squared(a, b)) / 0.1]
KINDS = {
    **{name: lambda chance=chance, **how: be.connect.prob(chance, **how) for name, chance in CHANCES.items()},
    "total": lambda **how: be.connect.total(500, **how),
    "in_degree": lambda **how: be.connect.in_degree(7, replace=False, **how),
    "out_degree": lambda **how: be.connect.out_degree(5, **how),
    "one number": lambda **how: be.connect.prob(0.1, **how),
    "all_to_all": lambda **how: be.connect.all_to_all(**how),
    "one_to_one": lambda weight, self_connections: be.connect.one_to_one(weight=weight),
}


def on_device(network, **how):
    """Return the plan that a pretend GPU measures."""
    return build_plan(network, measure=Drawing(PretendDevice()), **how)


@given(
    kind=st.sampled_from(sorted(KINDS)),
    weight=st.sampled_from(WEIGHTS),
    delay=st.sampled_from(DELAYS),
    skip=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
    size=st.integers(8, 90),
)
@settings(max_examples=24, deadline=None)
@pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning")
def test_a_device_and_any_number_of_threads_draw_the_same(kind, weight, delay, skip, seed, size):
    cells = population("cells", size)
    how = KINDS[kind](weight=weight, self_connections=not skip)
    network = between(cells, cells, how, delay=delay)
    host, other, device = (
        build_plan(network, seed=seed),
        build_plan(network, seed=seed, parts=3),
        on_device(network, seed=seed),
    )
    assert host.fingerprint == other.fingerprint == device.fingerprint
    assert host.projections == device.projections
    np.testing.assert_array_equal(rows_of(device, 3)[1], rows_of(host, 3)[1])
    ours, theirs = connections(host, NAME), connections(other, NAME)
    for field in ("sources", "targets", "weights", "delays"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_a_device_draws_one_wiring_for_several_seeds():
    cells = population("cells", 400)
    network = between(cells, cells, be.connect.prob(lambda a, b: jnp.where(squared(a, b) < 0.01, 0.9, 0), weight=0.5))
    plan = build_plan(network)
    [wiring], quantum = wirings_of(network, plan), plan.population("cells").quanta["syn"]
    drawing = Drawing(PretendDevice())
    found = [drawing(Description(wiring, quantum, seed, 1)).about for seed in (1, 2, 1)]
    assert found == [placed_synapses(wiring, quantum, seed, 1).about for seed in (1, 2, 1)]
    assert found[0] != found[1]


def failing(network, measure=None, **how):
    with pytest.raises(be.errors.NetworkError) as error:
        build_plan(network, measure=measure, **how)
    return str(error.value)


WRONG = {
    "p > 1": ({"p": lambda a, b: 2 * a.x + 0 * b.x}, "the probability from neuron 51 to neuron 0 is 1.02"),
    "p < 0": ({"p": lambda a, b: -1.0 * (a.x > 0.985)}, "the probability from neuron 99 to neuron 0 is -1, with pre.x"),
    "NaN": ({"p": lambda a, b: 0 / (a.x - b.x)}, "the probability from neuron 0 to neuron 0 is nan, with pre.x=0,"),
    "late": ({"delay": lambda a, b: 1e5 * a.x}, "the delay from neuron 7 to neuron 0 is 7000, with pre.x=0.07; pass"),
    "early": ({"delay": lambda a, b: a.x - b.x}, "the delay from neuron 0 to neuron 1 is -0.01, with pre.x=0, post.x"),
    "weight": ({"weight": lambda a, b: 1 / (a.x - b.x)}, "weight: its values cannot be bounded from the ranges"),
    "delay": ({"delay": lambda a, b: jnp.log(a.x)}, "delay: its values cannot be bounded from the ranges"),
    "NaN weight": (
        {"weight": lambda a, b: jnp.clip(jnp.sqrt(b.x - a.x), 0, 1)},
        "the weight from neuron 1 to neuron 0 is nan, with pre.x=0.01, post.x=0; return one within bounds",
    ),
    "NaN delay": (
        {"delay": lambda a, b: jnp.clip(jnp.sqrt(b.x - a.x), 0, 1)},
        "the delay from neuron 1 to neuron 0 is nan, with",
    ),
    "after NaN": (
        {"weight": lambda a, b: jnp.where(jnp.clip(jnp.sqrt(b.x - a.x), 0, 1) < 2, 1.0, 9.0)},
        "the weight from neuron 1 to neuron 0 is 9, with",
    ),
    "unknown integers": ({"weight": lambda a, b: (a.x * 9).astype(int) ^ 1}, "weight: its values cannot be bounded"),
    "always late": ({"delay": lambda a, b: 1e4 + a.x}, "delay: values are from 10000 to 10001 ms; pass values from 0"),
}


def wrong_network(given):
    cells = population("cells", 100, {"x": np.arange(100) / 100})
    how = be.connect.prob(given.get("p", 1.0), weight=given.get("weight", 1.0))
    return between(cells, cells, how, delay=given.get("delay"))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_values_that_are_wrong_name_the_pair_on_every_engine(name):
    given, message = WRONG[name]
    network = wrong_network(given)
    found = failing(network)
    assert message in found
    assert found.startswith(f"projection {NAME}: ")
    assert found == failing(network, Drawing(PretendDevice()))


def test_a_pair_that_is_left_out_may_have_no_probability():
    cells = population("cells", 90, {"x": np.arange(90) / 90})

    def chance(a, b):
        return jnp.minimum(1, 1e-4 / (a.x - b.x) ** 2)

    there = between(cells, cells, be.connect.prob(lambda a, b: chance(a, b) * 0.5 + 0 / (a.x - b.x)))
    assert "from neuron 0 to neuron 0 is nan" in failing(there)
    without = be.connect.prob(lambda a, b: chance(a, b) * 0.5 + 0 / (a.x - b.x), self_connections=False)
    assert len(made(between(cells, cells, without))) > 30


def test_a_delay_of_a_matrix_is_a_function_too():
    cells = population("cells", 3, {"x": [0.0, 0.1, 0.3]})
    matrix = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]])
    found = made(between(cells, cells, matrix, delay=lambda a, b: 10 * jnp.abs(a.x - b.x)))
    assert dict(zip(found.weights.tolist(), found.delays.round(9).tolist(), strict=True)) == {
        1: 1.0,
        2: 3.0,
        3: 1.0,
        4: 2.0,
        5: 3.0,
        6: 2.0,
    }
    late = between(cells, cells, matrix, delay=lambda a, b: a.x - b.x)
    assert "the delay from neuron 0 to neuron 1 is -0.1" in failing(late)


def test_a_distance_of_zero_is_one_step():
    cells = population("cells", 4, {"x": 0.5})
    found = made(between(cells, cells, be.connect.all_to_all(), delay=lambda a, b: jnp.abs(a.x - b.x)))
    assert set(found.delays.tolist()) == {0.1}


def test_weights_of_a_function_are_rounded_to_quanta():
    cells = population("cells", 60)
    found = made(between(cells, cells, be.connect.all_to_all(weight=lambda a, b: 1 + a.x * b.y)), seed=5)
    places = drawn_attributes("cells", 60, 5)
    expected = 1 + places.x[found.sources].astype(float) * places.y[found.targets]
    assert np.abs(found.weights / expected - 1).max() < 2**-9
    assert len(np.unique(found.weights)) > 100


@pytest.mark.parametrize(
    "weight",
    [
        lambda a, b: jnp.clip(1 / jnp.hypot(a.x - b.x, a.y - b.y), 0, 2),
        lambda a, b: jnp.minimum(2, jnp.maximum(0.1, jnp.abs(a.x - b.x) ** -1.5)),
        lambda a, b: 1 + (a.layer.astype(int) % 3) + (b.layer.astype(int) // 2) + (a.layer.astype(int) & 1),
    ],
)
@pytest.mark.filterwarnings("error::brainevent.network.plan.quantum.RoundedWeightsWarning")
def test_a_weight_within_bounds_is_one_of_which_nothing_is_known(weight):
    at = UNIT | {"layer": np.arange(40) % 5}
    cells = population("cells", 40, at)
    network = between(cells, cells, be.connect.all_to_all(weight=weight, self_connections=False))
    found, at = made(network), network.build().at("cells")
    pre, post = ({key: array[ends] for key, array in at.items()} for ends in (found.sources, found.targets))
    np.testing.assert_allclose(found.weights, weight(SimpleNamespace(**pre), SimpleNamespace(**post)), rtol=2**-9)


def test_couplings_and_plastic_synapses_refuse_nan():
    cells = population("cells", 9, {"x": np.arange(9) / 9})
    how = be.connect.all_to_all(weight=lambda a, b: jnp.clip(jnp.sqrt(b.x - a.x), 0, 1))
    learning = be.Plasticity(on_pre=lambda w, s, pre, post, p: w, low=0.0, high=1.0)
    message = "the weight from neuron 1 to neuron 0 is nan"
    assert message in failing(between(cells, cells, how, plasticity=learning))
    assert message in failing(be.Network([cells], [be.Coupling(cells, cells, how, of="v", into="syn")]))


def test_couplings_and_plastic_synapses_take_functions():
    cells = population("cells", 80)
    how = be.connect.prob(CHANCES["near"], weight=lambda a, b: 0.5 + 0.1 * a.x, self_connections=False)
    coupling = be.Coupling(cells, cells, how, of="v", into="syn", name=NAME)
    plain = made(between(cells, cells, how), seed=2)
    coupled = build_plan(be.Network([cells], [coupling]), seed=2).couplings[0]
    assert coupled.sources.tolist() == plain.sources.tolist()
    assert coupled.targets.tolist() == plain.targets.tolist()
    places = drawn_attributes("cells", 80, 2)
    np.testing.assert_allclose(coupled.weights, 0.5 + 0.1 * places.x[coupled.sources], rtol=1e-6)
    learning = be.Plasticity(on_pre=lambda w, s, pre, post, p: w, low=0.0, high=1.0)
    network = between(cells, cells, how, plasticity=learning, delay=DELAYS[2])
    plastic = build_plan(network, seed=2).plastic[0].synapses
    assert plastic.targets.tolist() == made(between(cells, cells, how, delay=DELAYS[2]), seed=2).targets.tolist()
    assert 0.5 <= plastic.weights.min() < plastic.weights.max() <= 0.6
    device = on_device(network, seed=2).plastic[0]
    assert device.degrees.tolist() == build_plan(network, seed=2).plastic[0].degrees.tolist()


def test_engines_run_the_same_spikes():
    cells = be.Population("cells", 60, cell, state={"v": be.uniform(0, 2)}, at=UNIT)
    how = be.connect.prob(CHANCES["near"], weight=lambda a, b: 0.3 + a.x)
    network = between(cells, cells, how, delay=DELAYS[2])
    kick = np.full((1, 60), 2.0, np.float32)
    found = []
    for backend in ("numba", "interpreted", "jax"):
        sim = network.build(seed=4, backend=backend)
        sim.run(1, inputs={"cells.syn": kick})
        found.append(sim.run(100, record=["cells.spikes"])["cells.spikes"])
    assert len(found[0].neurons) > 100
    for other in found[1:]:
        assert other.neurons.tolist() == found[0].neurons.tolist()
        assert other.times.tolist() == found[0].times.tolist()


def test_synapses_are_as_many_as_their_probability_says():
    cells = population("cells", 1000)
    found = made(between(cells, cells, be.connect.prob(lambda a, b: 0.2 * a.x + 0 * b.x)), seed=1)
    x = drawn_attributes("cells", 1000, 1).x.astype(float)
    counts, mean = np.bincount(found.sources, minlength=1000), 200 * x
    z = (counts - mean) / np.sqrt(mean * (1 - 0.2 * x) + 1e-9)
    assert abs(z.mean()) < 0.15
    assert 0.9 < z.std() < 1.1


# ---- attributes


def test_attributes_are_returned_and_follow_from_the_seed():
    given = np.arange(5.0)
    cells = population("cells", 5, {"x": be.uniform(0, 1), "y": given, "layer": 2})
    given[:] = 9  # a copy was kept
    network = be.Network([cells])
    first, again, other = (network.build(seed=seed).at("cells") for seed in (1, 1, 2))
    assert {name: str(array.dtype) for name, array in first.items()} == dict.fromkeys(("x", "y", "layer"), "float32")
    assert first["y"].tolist() == [0, 1, 2, 3, 4]
    assert first["layer"].tolist() == [2] * 5
    assert first["x"].tolist() == again["x"].tolist() == drawn_attributes("cells", 5, 1).x.tolist()
    assert first["x"].tolist() != other["x"].tolist()
    with pytest.raises(be.errors.NetworkError, match=r"at: there is no population 'cell'; did you mean 'cells'"):
        network.build().at("cell")


def test_attributes_and_functions_are_part_of_the_fingerprint():
    def print_of(at, p, delay=None):
        cells = population("cells", 5, {"x": at})
        return build_plan(between(cells, cells, be.connect.prob(p), delay=delay)).fingerprint

    half, near = (lambda a, b: 0.5 * a.x), (lambda a, b: 0.5 * b.x)
    prints = [print_of(1.0, half), print_of(0.5, half), print_of(1.0, near), print_of(1.0, half, lambda a, b: a.x)]
    prints.append(print_of(be.uniform(0, 1), half))
    assert len(set(prints)) == 5
    assert prints[0] == print_of(1.0, lambda pre, post: 0.5 * pre.x)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"x": [1.0, 2.0]}, r"at x: has the shape \(2,\); pass a number, or an array \(5,\)"),
        ({"x": np.nan}, "at x: is nan; pass finite numbers that fit in float32"),
        ({"x": [0, 1, np.inf, 3, 4]}, "at x: is inf at neuron 2; pass finite numbers"),
        (
            {"x": np.array([1, 2**24 + 1, 3, 4, 5])},
            "at x: is 16777217 at neuron 1; float32 rounds it: pass integers up to 16777216, such as",
        ),
        ({"x": 2**53 + 1}, "at x: is 9007199254740993; float32 rounds it"),
        ({"x": "here"}, "at x is 'here'; pass a number, values such as"),
        ({"two words": 1}, "at 'two words' is not a valid name"),
        ({"replace": 1}, "at 'replace' is a reserved name"),
        ([1, 2], r"at is \[1, 2\]; pass dict\(name=value\)"),
    ],
)
def test_attributes_that_are_none(at, message):
    with pytest.raises(be.errors.NetworkError, match=message):
        population("cells", 5, at)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda a, b: a.z,
            "reads pre.z, but population cells has no attribute 'z'; its attributes are x, y; give it one",
        ),
        (lambda a, b: 1.0 if a.x > 0 else 0.0, "Python needs the value of a number"),
        (lambda a, b: {"p": a.x}, "the value is dict; return a scalar"),
        (lambda a, b: jnp.array([a.x, b.x]), r"the value has shape \(2,\)"),
        (lambda a, b: 1j * a.x, "no engine supports|returns complex"),
    ],
)
def test_functions_that_are_none(function, message):
    cells = population("cells", 5)
    with pytest.raises(be.errors.RuleError, match=message) as error:
        made(between(cells, cells, be.connect.prob(function)))
    assert str(error.value).startswith(f"projection {NAME}: the probability")


def test_descriptions_that_take_no_function():
    for name in ("total", "in_degree", "out_degree"):
        with pytest.raises(be.errors.NetworkError, match=f"connect.{name}: number is a function; pass an integer"):
            getattr(be.connect, name)(lambda a, b: 1)
    with pytest.raises(
        be.errors.NetworkError, match=r"p is <function .*; pass a probability from 0 to 1, or a function"
    ):
        be.connect.prob(lambda a: 0.5)
    with pytest.raises(be.errors.NetworkError, match="p is a function, with replace=True; pass replace=False"):
        be.connect.prob(lambda a, b: 0.5, replace=True)
    assert repr(be.connect.prob(squared, weight=squared)) == "prob(squared, weight=squared)"


def test_the_text_with_functions_compiles_for_gpus():
    cells = population("cells", 5)
    network = between(cells, cells, be.connect.prob(CHANCES["near"], weight=WEIGHTS[2]), delay=DELAYS[2])
    (wiring,) = wirings_of(network, build_plan(network))
    for several in (False, True):
        ptx = ptx_of(drawing_text(functions=functions_of(wiring), several=several), "--std=c++17", AS_WRITTEN)
        assert ".entry draw_rows" in ptx
        assert "fma." not in ptx
        assert "approx" not in ptx
        assert ".local" not in ptx


def test_the_report_says_for_how_many_pairs_a_probability_was_computed():
    def line(chance, size):
        cells = population("cells", size)
        sim = between(cells, cells, be.connect.prob(chance)).build(seed=1)
        return [line for line in str(sim.report()).splitlines() if line.startswith(f"{NAME}: ")]

    near = lambda pre, post: jnp.where(squared(pre, post) < 0.01, 0.1, 0)
    everywhere = lambda pre, post: 0.1 * jnp.exp(-squared(pre, post))
    [of_all] = line(everywhere, 2000)
    assert of_all == (
        f"{NAME}: the probability was computed for 4000000 pairs of neurons, all; a cut-off would save some"
    )
    [of_some] = line(near, 2000)
    share = float(of_some.partition("neurons, ")[2].removesuffix(" % of all"))
    assert 100 * np.pi * 0.01 < share < 25
    cells = population("cells", 300)
    network = between(cells, cells, be.connect.prob(near))
    on_device = build_plan(network, seed=1, measure=Drawing(PretendDevice())).looked
    assert on_device == build_plan(network, seed=1).looked == {NAME: (on_device[NAME][0], 90_000)}
    assert "the probability" not in str(between(cells, cells, be.connect.prob(0.1)).build(seed=1).report())
