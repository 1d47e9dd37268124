# SPDX-License-Identifier: Apache-2.0
"""How synapses are drawn: who is connected, how often, with which weights and delays; the same for all parts."""

import warnings

import described
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainevent.network.description import connect
from brainevent.network.description.network import Network, Population, Projection
from brainevent.network.description.values import exponential, integers, lognormal, normal, uniform
from brainevent.network.plan import keys
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.distribution import EXPONENTIAL, LOGNORMAL, NORMAL, UNIFORM, Distribution
from brainevent.network.plan.grouped import NO_GROUPS
from brainevent.network.plan.loop_arguments import GAPS, Entries, Recipe, scratch_for
from brainevent.network.plan.loops import draw_rows, draw_words, values_of
from brainevent.network.plan.plan import part_bounds
from brainevent.scalar.interpret import interpret
from brainevent.scalar.threefry import threefry
from brainevent.scalar.trace import trace

KINDS = {
    "total": lambda n, replace, own: connect.total(3 * n, self_connections=own),
    "in_degree": lambda n, replace, own: connect.in_degree(n, replace=replace, self_connections=own),
    "out_degree": lambda n, replace, own: connect.out_degree(n, replace=replace, self_connections=own),
    "prob": lambda n, replace, own: connect.prob(n / 40, replace=replace, self_connections=own),
    "all_to_all": lambda n, replace, own: connect.all_to_all(self_connections=own),
}
uint32 = st.integers(0, 2**32 - 1)


def edges(how, sources, targets=None, **others):
    found, _, _ = described.synapses(how, sources, targets, **others)
    return described.listed(found, parts=others.get("parts", 1))


# ---- random words and values


@given(key=st.tuples(uint32, uint32), counter=st.tuples(uint32, st.integers(0, 2**32 - 4)))
@settings(max_examples=30)
def test_words_are_those_of_rules(key, counter):
    words, more = np.zeros(3, np.uint32), np.zeros(3, np.uint32)
    draw_words(np.array(key, np.uint32), counter[0], counter[1], 3, words, more)
    for k in range(3):
        with jax.disable_jit(), np.errstate(over="ignore"):
            expected = threefry(*(jnp.uint32(x) for x in (*key, counter[0], counter[1] + k)))
        assert (int(words[k]), int(more[k])) == tuple(map(int, expected))
        assert keys.words_of(key, (counter[0], counter[1] + k)) == (int(words[k]), int(more[k]))


HARD = np.array([0, 1, 255, 256, 2**31 - 1, 2**31, 2**31 + 256, 2**32 - 257, 2**32 - 256, 2**32 - 1], np.uint32)
DRAWS = {
    NORMAL: (Distribution(NORMAL, 3.0, 0.7), lambda random: random.normal(3.0, 0.7)),
    UNIFORM: (Distribution(UNIFORM, 0.0, 1.0), lambda random: random.uniform()),
    EXPONENTIAL: (Distribution(EXPONENTIAL, 2.5, 0.0), lambda random: random.exponential(2.5)),
    LOGNORMAL: (Distribution(LOGNORMAL, -0.5, 0.8), lambda random: jnp.exp(random.normal(-0.5, 0.8))),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_values_are_those_of_rules(kind):
    law, draw = DRAWS[kind]
    words, more = np.zeros(100_000, np.uint32), np.zeros(100_000, np.uint32)
    draw_words(np.array([1, 2], np.uint32), 7, 0, words.size, words, more)
    traced = trace(lambda s, arriving, p, random: (s.replace(x=draw(random)), False & (s.x > 0)), {"x": 0.0}, [], {})
    steps = np.arange(words.size, dtype=np.uint32)
    expected, _ = interpret(traced.form, [np.zeros(words.size, np.float32), *np.array([[7]], np.uint32), steps, 1, 2])
    found = np.zeros(words.size, np.float32)
    values_of(law.numbers(-np.inf, np.inf), words, words.size, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("values", [uniform(-2, 5), normal(1, 0.3), lognormal(2, 1), exponential(-3), integers(-4, 9)])
def test_values_are_within_their_bounds(values):
    found = np.zeros(HARD.size, np.float32)
    values_of(values.law.numbers(-np.inf, np.inf), HARD, HARD.size, found)
    low, high = values.law.bounds
    assert np.isfinite(found).all()
    assert low - 1e-6 <= found.min() < found.max() <= high + 1e-6


MOMENTS = [
    (uniform(-2, 5), 1.5, 7 / 12**0.5),
    (normal(1, 0.3), 1, 0.3),
    (normal(0, 1, low=0), 1 / (2 * np.pi) ** 0.5, (0.5 - 1 / (2 * np.pi)) ** 0.5),
    (lognormal(2, 1), 2, 1),
    (exponential(-3), -3, 3),
    (integers(-4, 9), 2, (168 / 12) ** 0.5),
]


@pytest.mark.parametrize(("values", "mean", "sd"), MOMENTS, ids=[str(i) for i in range(len(MOMENTS))])
def test_values_have_the_moments_of_their_law(values, mean, sd):
    plan = described.build_plan(described.Network([described.cells("a", 200_000, v=values)]), seed=3)
    found = plan.populations[0].state["v"].astype(np.float64)
    assert abs(found.mean() - mean) < 4 * sd / found.size**0.5
    assert abs(found.std() - sd) < 0.02 * sd


# ---- who is connected


def test_rows_without_synapses_write_nothing():
    """A row of probability 0 has as much room as it has synapses: none."""
    none, nothing = np.zeros(0, np.float32), [np.zeros(0, kind) for kind in ("u2", "i4", "i2", "i4", "u1", "u2")]
    drawn = Recipe(
        GAPS, 50, 0, np.zeros(0, np.int64), np.float32(0), np.zeros((2, 2), np.uint32), none, none, 0, *NO_GROUPS
    )
    entries = Entries(0, 0, np.ones(3, np.int64), np.array([50]), np.array([49, 0]), *nothing)
    scratch = scratch_for(50, 0)
    draw_rows(0, 3, drawn, np.zeros(4, np.int64), scratch, entries, np.zeros(50, np.int64))
    assert not scratch.ends.any()
    assert not entries.starts.any()


@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)), sources=st.integers(2, 90), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_degrees_multapses_and_self_connections(data, kind, sources, seed):
    targets = data.draw(st.none() | st.integers(2, 90))
    replace, own = data.draw(st.booleans()), data.draw(st.booleans())
    ends = sources if targets is None else targets
    n = data.draw(st.integers(0, min(sources, ends) - 1 if not replace else 30))
    at, to, _, _ = edges(KINDS[kind](min(n, 39), replace, own), sources, targets, seed=seed)
    assert ((at >= 0) & (at < sources) & (to >= 0) & (to < ends)).all()
    if targets is None and not own:
        assert (at != to).all()
    if kind == "all_to_all" or (kind != "total" and not replace):
        assert np.unique(at * ends + to).size == at.size
    fixed = {"in_degree": (to, ends), "out_degree": (at, sources)}.get(kind)
    if fixed is not None:
        assert (np.bincount(fixed[0], minlength=fixed[1]) == min(n, 39)).all()
    if kind == "total":
        assert at.size == 3 * min(n, 39)
    if kind == "all_to_all":
        assert at.size == sources * ends - (sources if targets is None and not own else 0)


PAIRS = [
    (connect.total(400_000), 1),
    (connect.in_degree(400), 1),
    (connect.in_degree(400, replace=False), 0.6),
    (connect.out_degree(400), 1),
    (connect.out_degree(400, replace=False), 0.6),
    (connect.prob(0.4), 0.6),
    (connect.prob(0.4, replace=True), 1),
]


@pytest.mark.parametrize(("how", "spread"), PAIRS, ids=lambda x: repr(x))
def test_all_pairs_are_as_likely(how, spread):
    """Counts of blocks of pairs vary as those of independent synapses do: `spread` times their mean."""
    at, to, _, _ = edges(how, 1000, 1000)
    counts = np.zeros((50, 50))
    np.add.at(counts, (at // 20, to // 20), 1)
    mean = at.size / counts.size
    assert abs(mean - 160) < (50 if how.replace and how.kind == "prob" else 3)
    statistic = ((counts - mean) ** 2).sum() / (spread * mean)
    assert abs(statistic - counts.size) < 6 * (2 * counts.size) ** 0.5


def test_a_probability_with_multapses_is_that_of_at_least_one():
    at, to, _, _ = edges(connect.prob(0.3, replace=True), 400, 400)
    assert abs(np.unique(at * 400 + to).size / 400**2 - 0.3) < 0.005
    assert at.size == round(np.log(0.7) / np.log1p(-1 / 400**2))


@pytest.mark.parametrize("p", [1e-4, 0.02, 0.5, 0.97, 1.0])
def test_gaps_between_targets_are_geometric(p):
    size = 3000 if p < 0.5 else 800
    at, to, _, _ = edges(connect.prob(p), size, size)
    assert abs(at.size - size**2 * p) <= 4.5 * (size**2 * p * (1 - p)) ** 0.5
    same = np.diff(at) == 0
    gaps = np.diff(to)[same]
    assert gaps.size == 0 or gaps.min() >= 1
    if 0.01 < p < 1:
        for gap in (1, 2, 5):
            expected = p * (1 - p) ** (gap - 1)
            assert abs((gaps == gap).mean() - expected) < 5 * (expected / gaps.size) ** 0.5 + p / size


def test_numbers_that_no_block_of_words_divides():
    for number in (0, 1, 2, 63, 64, 127, 128, 129, 301):
        at, *_ = edges(connect.total(number), 5, 3)
        assert at.size == number


# ---- nothing depends on parts, threads or others


@given(kind=st.sampled_from(sorted(KINDS)), parts=st.integers(2, 5), seed=st.integers(0, 99), own=st.booleans())
@settings(max_examples=30, deadline=None)
def test_parts_change_the_order_alone(kind, parts, seed, own):
    how = KINDS[kind](12, True, own)
    how = type(how)(how.kind, how.number, normal(1, 0.2), how.replace, how.self_connections)
    one, quantum, _ = described.synapses(how, 70, delay=normal(1.5, 0.75), seed=seed)
    many, same, _ = described.synapses(how, 70, delay=normal(1.5, 0.75), seed=seed, parts=parts)
    assert quantum == same
    for a, b in zip(described.listed(one), described.listed(many, parts=parts), strict=True):
        np.testing.assert_array_equal(a, b)
    check_order(many, 70, parts)


def check_order(found, targets, parts):
    """Each row and part has its targets, by delay and then by target."""
    bounds = part_bounds(targets, parts)
    assert found.starts[0] == 0
    assert found.starts[-1] == found.targets.size
    delays = np.broadcast_to(found.delays, found.targets.shape)
    for row in range(found.starts.size - 1):
        entries = slice(found.starts[row], found.starts[row + 1])
        part, to = row % parts, found.targets[entries].astype(int)
        assert ((to >= bounds[part]) & (to < bounds[part + 1])).all()
        key = delays[entries].astype(int) * targets + to
        assert (np.diff(key) >= 0).all()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_threads_and_chunks_change_nothing(kind, monkeypatch):
    how = KINDS[kind](20, False, True)
    one, _, _ = described.synapses(how, 40, 60)
    monkeypatch.setattr("brainevent.network.plan.threads._FEW", 1)
    monkeypatch.setattr("brainevent.network.plan.threads.cores", lambda: 3)
    many, _, _ = described.synapses(how, 40, 60)
    np.testing.assert_array_equal(one.starts, many.starts)
    np.testing.assert_array_equal(one.targets, many.targets)


@pytest.mark.parametrize("size", [20, pytest.param(900, marks=pytest.mark.thorough), 5000])
def test_rows_of_all_lengths_are_in_order(size):
    """Rows are sorted by insertion, by small digits or by large ones."""
    found, _, _ = described.synapses(connect.out_degree(size), 3, 100_000, delay=uniform(1, 400), parts=3)
    assert found.targets.dtype == np.int32
    assert found.delays.dtype == np.uint16
    check_order(found, 100_000, 3)


def test_a_projection_draws_the_same_numbers_beside_others():
    a, b = described.cells("a", 40), described.cells("b", 30)
    one = described.Projection(a, b, connect.prob(0.3, weight=normal(1, 0.1)), into="syn", delay=normal(1, 0.5))
    other = described.Projection(b, a, connect.total(99), into="syn")
    alone = described.build_plan(described.Network([a, b], [one]), seed=5)
    both = described.build_plan(described.Network([described.cells("c", 3), b, a], [other, one]), seed=5)
    for name in ("starts", "targets", "weights", "delays"):
        np.testing.assert_array_equal(getattr(alone.synapses[0], name), getattr(both.synapses[1], name))
    assert alone.population("a").key == both.population("a").key != both.population("b").key


def test_seeds_and_names_change_all():
    drawn = [
        described.listed(described.synapses(connect.total(500), 50, seed=seed, name=name)[0])
        for seed, name in ((1, None), (2, None), (1 + 2**32, None), (1, "other"))
    ]
    for i in range(4):
        for j in range(i):
            assert (drawn[i][1] != drawn[j][1]).mean() > 0.8


# ---- weights and delays


@pytest.mark.parametrize(
    "text", ["uniform(-60, -50)", "normal(1.5, 0.75, low=0)", "lognormal(1, 0.5)", "exponential(2)", "integers(0, 20)"]
)
def test_values_say_how_they_were_made(text):
    made = {make.__name__: make for make in (uniform, normal, lognormal, exponential, integers)}
    assert repr(eval(text, made)) == text


def test_a_probability_below_the_smallest_float_connects_nothing():
    cells = Population("cells", 10, lambda s, arriving, p: (s, arriving.syn > 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = build_plan(Network([cells], [Projection(cells, cells, connect.prob(1e-39), into="syn")]))
    assert plan.projections[0].entries == 0


def test_weights_and_delays_follow_their_laws():
    how = connect.total(300_000, weight=normal(87.81, 8.781, low=0))
    found, quantum, _ = described.synapses(how, 500, 700, delay=normal(1.5, 0.75))
    _, _, weights, delays = described.listed(found, quantum)
    assert (found.weights.dtype, found.delays.dtype, found.targets.dtype) == (np.int16, np.uint8, np.uint16)
    assert abs(weights.mean() - 87.81) < 0.1
    assert abs(weights.std() - 8.781) < 0.05
    assert delays.min() == 1
    assert abs(np.median(delays) - 15) < 0.5
    assert abs((delays == 1).mean() - 0.0359) < 0.002  # P(delay < 0.15 ms)
    assert abs(np.corrcoef(weights, delays)[0, 1]) < 0.01
    assert abs(np.corrcoef(described.listed(found)[1], weights)[0, 1]) < 0.01


GOLDEN = [
    [0, 2, 2, 5, 7],
    [0, 1, 3, 0, 4],
    [575, 591, 494, 647, 573],
    [9, 7, 11, 12, 10],
]


def test_synapses_of_a_seed_are_these():
    """Golden draws: another number of `DRAWING` is due when they change."""
    found, _, _ = described.synapses(connect.total(5, weight=normal(1, 0.1)), 9, 9, delay=normal(1, 0.3))
    at, to, weights, delays = described.listed(found)
    assert keys.DRAWING == 1
    assert np.array([at, to, weights, delays]).tolist() == GOLDEN
