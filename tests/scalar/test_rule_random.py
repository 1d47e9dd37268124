# SPDX-License-Identifier: Apache-2.0
"""Random numbers of rules: golden draws, distributions, independence, and what a rule must not do, in words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from scipy import stats

from brainevent.errors import RuleError, UnknownNameError
from brainevent.scalar.form import Assign
from brainevent.scalar.interpret import interpret
from brainevent.scalar.lower import called_form, form_of
from brainevent.scalar.poisson_table import poisson_table
from brainevent.scalar.random import METHODS, Random
from brainevent.scalar.threefry import SCHEME, be_turned, threefry
from brainevent.scalar.trace import trace

F, U = np.float32, np.uint32
COUNT = 100_000
NEURONS = np.arange(COUNT, dtype=U)

DRAWS = {
    "bits": lambda random: random.bits(),
    "uniform": lambda random: random.uniform(),
    "uniform_between": lambda random: random.uniform(-2.5, 7.0),
    "normal": lambda random: random.normal(),
    "normal_scaled": lambda random: random.normal(-60.0, 5.0),
    "exponential": lambda random: random.exponential(2.0),
    "bernoulli": lambda random: random.bernoulli(0.3),
    "integers": lambda random: random.integers(-3, 10),
    "poisson": lambda random: random.poisson(1.5),
    "poisson_large": lambda random: random.poisson(200.0),
    "index": lambda random: random.bits(index=7),
    "second": lambda random: (random.bits(), random.bits())[1],
}


@functools.cache
def form_of_draw(name):
    dtype = jax.eval_shape(lambda: DRAWS[name](Random(*U([0, 0, 0, 0])))).dtype
    return trace(
        lambda s, a, p, random: (s.replace(x=DRAWS[name](random)), True), {"x": np.zeros((), dtype)}, [], {}
    ).form


def draws(name, neuron, step=0, key0=1, key1=2):
    """Return what the interpreter draws."""
    form = form_of_draw(name)
    return interpret(form, [np.zeros((), form.inputs[0].dtype), neuron, U(step), U(key0), U(key1)])[0]


# Changed only together with SCHEME: of neurons 0, 1, 2 and 70 000 in step 5, with keys 123 and 456.
GOLDEN = {
    "bits": [1120502994, 665676634, 3618673513, 2357358927],
    "uniform": [0.26088738441467285, 0.15498989820480347, 0.842538058757782, 0.5488653779029846],
    "uniform_between": [-0.02156972885131836, -1.0275959968566895, 5.504111289978027, 2.7142210006713867],
    "normal": [-0.640612006187439, -1.0152642726898193, 1.00494384765625, 0.12279531359672546],
    "normal_scaled": [-63.203060150146484, -65.07632446289062, -54.97528076171875, -59.386024475097656],
    "exponential": [0.6046099662780762, 0.33681339025497437, 3.697143077850342, 1.5919790267944336],
    "bernoulli": [True, True, False, False],
    "integers": [0, -1, 7, 4],
    "poisson": [1, 0, 3, 1],
    "poisson_large": [187, 208, 203, 206],
    "index": [2006496296, 3319762553, 3868969972, 1953518601],
    "second": [1000552833, 3291297887, 3222768123, 223759986],
}  # fmt: skip


def test_draws_stay_the_same():
    assert SCHEME == 1
    found = {name: draws(name, U([0, 1, 2, 70_000]), 5, 123, 456).tolist() for name in DRAWS}
    assert found == GOLDEN


# Of the authors' `kat_vectors`: key, counter, and result by the number of rounds.
PUBLISHED = [
    ((0, 0), (0, 0), {13: (0x9D1C5EC6, 0x8BD50731), 20: (0x6B200159, 0x99BA4EFE)}),
    ((2**32 - 1,) * 2, (2**32 - 1,) * 2, {13: (0xFD36D048, 0x2D17272C), 20: (0x1CB996FC, 0xBB002BE7)}),
    (
        (0x13198A2E, 0x03707344),
        (0x243F6A88, 0x85A308D3),
        {13: (0xBA3E4725, 0xF27D669E), 20: (0xC4923A9C, 0x483DF7A0)},
    ),
]


@pytest.mark.parametrize("rounds", [13, 20])
@pytest.mark.parametrize("case", range(3))
def test_the_cipher_is_the_published_one(case, rounds):
    key, counter, results = PUBLISHED[case]
    words = (U([word]) for word in key + counter)
    assert tuple(int(word[0]) for word in threefry(*words, rounds=rounds)) == results[rounds]


@pytest.mark.parametrize("name", DRAWS)
def test_the_reference_draws_the_same(name):
    """Integers have equal bits in XLA; where it rounds, the last bits may differ."""
    with jax.enable_x64(True):
        keys = (U(1), U(2))
        found = jax.jit(jax.vmap(lambda neuron: DRAWS[name](Random(neuron, U(9), *keys))))(NEURONS[:3000])
    expected = draws(name, NEURONS[:3000], 9)
    assert found.dtype == expected.dtype
    if expected.dtype == F:
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def test_steps_keys_draws_and_indices_give_other_numbers():
    seen = [draws("bits", NEURONS[:100], *k) for k in [(0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3)]]
    seen += [draws(name, NEURONS[:100]) for name in ("second", "index")]
    assert len(np.unique(np.concatenate(seen))) == 600


def along(axis):
    """Return uniform numbers of many neurons, steps, keys, draws or indices."""
    if axis == "neurons":
        return draws("uniform", NEURONS)
    if axis in ("steps", "seeds", "populations"):
        place = {"steps": 1, "seeds": 2, "populations": 3}[axis]
        values = [F(0), U(3), U(9), U(1), U(2)]
        values[place + 1] = NEURONS
        return interpret(form_of_draw("uniform"), values)[0]
    with jax.enable_x64(False):
        if axis == "indices":
            return np.asarray(Random(*U([3, 9, 1, 2])).uniform(index=NEURONS))

        def many(neuron):
            random = Random(neuron, U(9), U(1), U(2))
            return jnp.stack([random.uniform() for _ in range(100)])

        return np.asarray(jax.jit(jax.vmap(many))(NEURONS[: COUNT // 100])).ravel()


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize("axis", ["neurons", "steps", "seeds", "populations", "draws", "indices"])
def test_numbers_are_uniform_and_neighbours_independent(axis):
    u = along(axis).astype(float)
    assert u.shape == (COUNT,)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    for lag in (1, 2, 100):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 4.5 / np.sqrt(COUNT)
    pairs = np.histogram2d(u[:-1:2], u[1::2], bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


CONTINUOUS = {
    "uniform_between": stats.uniform(-2.5, 9.5),
    "normal": stats.norm(),
    "normal_scaled": stats.norm(-60, 5),
    "exponential": stats.expon(scale=2),
}
DISCRETE = {
    "bernoulli": stats.bernoulli(0.3),
    "integers": stats.randint(-3, 10),
    "poisson": stats.poisson(1.5),
    "poisson_large": stats.poisson(200),
}


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_distributions(name):
    x = draws(name, NEURONS, step=77).astype(float)
    exact = (CONTINUOUS | DISCRETE)[name]
    assert abs(x.mean() - exact.mean()) < 4.5 * exact.std() / np.sqrt(COUNT)
    fourth = exact.stats("k") + 3
    assert abs(x.var() / exact.var() - 1) < 4.5 * np.sqrt((fourth - 1) / COUNT)
    if name in CONTINUOUS:
        assert stats.kstest(x, exact.cdf).pvalue > 1e-3
        return
    values, counts = np.unique(x, return_counts=True)
    expected = exact.pmf(values) * COUNT
    usual = expected > 10
    rare = COUNT - counts[usual].sum(), COUNT - expected[usual].sum()
    kept = ([*counts[usual], rare[0]], [*expected[usual], rare[1]]) if rare[1] > 1 else (counts[usual], expected[usual])
    assert stats.chisquare(kept[0], np.array(kept[1]) * sum(kept[0]) / sum(kept[1])).pvalue > 1e-3


def one(method):
    """Return numbers that a method gives to many neurons."""
    with jax.enable_x64(False):
        return np.asarray(jax.jit(jax.vmap(lambda n: method(Random(n, U(0), U(1), U(2)))))(NEURONS[:20_000]))


@pytest.mark.parametrize(
    ("method", "values"),
    [
        (lambda r: r.uniform(3.0, 3.0), {3.0}),
        (lambda r: r.uniform(3.0, 2.0), {3.0}),
        (lambda r: r.uniform(1.0, 1.0 + 2**-22), {1.0, 1 + 2.0**-23}),
        (lambda r: r.bernoulli(1.0), {True}),
        (lambda r: r.bernoulli(0.0), {False}),
        (lambda r: r.bernoulli(-1.0), {False}),
        (lambda r: r.bernoulli(np.nan), {False}),
        (lambda r: r.bernoulli(2.0), {True}),
        (lambda r: r.integers(5, 5), {5}),
        (lambda r: r.integers(5, -5), {5}),
        (lambda r: r.integers(2**31 - 2, 2**31 - 1), {2**31 - 2}),
        (lambda r: r.integers(-1, 2), {-1, 0, 1}),
        (lambda r: r.poisson(0.0), {0}),
        (lambda r: r.poisson(-3.0), {0}),
        (lambda r: r.poisson(np.nan), {0}),
        (lambda r: r.poisson(1e-40), {0}),
        (lambda r: r.exponential(0.0), {0.0}),
    ],
)
def test_limits(method, values):
    assert set(one(method).tolist()) == values


def test_the_widest_integers_are_spread_evenly():
    x = one(lambda r: r.integers(-(2**31), 2**31 - 1)).astype(float)
    assert stats.kstest(x, stats.uniform(-(2.0**31), 2.0**32).cdf).pvalue > 1e-3


def test_a_huge_poisson_mean_is_clipped():
    with jax.enable_x64(False):
        events = jax.jit(lambda mean: Random(*U([1, 2, 3, 4])).poisson(mean))
        found = [int(events(mean)) for mean in (np.inf, 1e30, 2.0**20)]
    assert found[0] == found[1] == found[2]
    assert abs(found[0] - 2**20) < 6 * 2**10


def test_means_up_to_64_have_one_part():
    sums = interpret(called_form("be_poisson_more"), [U(1), U(2), U(3), U(4), F([-1, 1, 64, 64.01, np.nan])])[0]
    assert (sums > 0).tolist() == [False, False, False, True, False]


MEANS = [0.0, 1e-30, 1e-7, 1e-3, 0.1, 0.5, 1.0, 1.5, 4.0, 10.0, 31.7, 63.99, 64.0, 64.01, 100.0, np.nan, -1.0]


def check_table(mean):
    """Compare the table with the loop at each bound, its neighbours, and everyday numbers."""
    table = poisson_table(mean)
    near = np.floor(np.minimum(table, F(1)) * F(2**24))
    tops = np.concatenate([near - 1, near, near + 1, [0, 1, 2**24 - 1], np.arange(0, 2**24, 99_991)])
    u = (np.clip(tops, 0, 2**24 - 1) * 2.0**-24).astype(F)
    loop = interpret(called_form("be_poisson_of"), [u, F(mean)])[0]
    np.testing.assert_array_equal(loop, (u[:, None] >= table).sum(1))
    assert np.all(np.diff(table) > 0)


@pytest.mark.parametrize("mean", MEANS)
def test_the_table_of_a_mean_counts_as_the_loop(mean):
    check_table(mean)


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 64, width=32))
def test_the_table_of_any_mean_counts_as_the_loop(mean):
    check_table(mean)


def test_the_table_is_the_distribution():
    np.testing.assert_allclose(
        poisson_table(12.0), stats.poisson(12).cdf(np.arange(len(poisson_table(12.0)))), rtol=1e-6
    )


def test_an_engine_recognises_the_mean():
    rule = lambda s, a, p, random: (s.replace(k=random.poisson(p.mean)), s.k > 0)
    traced = trace(rule, {"k": 0}, [], {"mean": 2.0})
    lines = {line.op: line for line in traced.form.lines if isinstance(line, Assign)}
    assert lines["poisson_of"].operands[1] == traced.params[0] == lines["poisson_more"].operands[4]


def test_the_form_has_four_further_inputs():
    with_random = trace(lambda s, a, p, random: (s.replace(v=random.normal()), False), {"v": 0.0}, ["syn"], {"q": 1.0})
    assert [name.text for name in with_random.random] == ["r_neuron", "r_step", "r_key0", "r_key1"]
    assert {name.dtype for name in with_random.random} == {"uint32"}
    assert with_random.form.inputs == (
        *with_random.states,
        *with_random.arriving,
        *with_random.params,
        *with_random.random,
    )
    assert trace(lambda s, a, p: (s, False), {"v": 0.0}, [], {}).random == ()


@pytest.mark.parametrize(
    ("rule", "takes"),
    [
        (lambda s, a, p, random=None: (s, False), True),
        (lambda s, a, p, gain=2.0: (s, False), False),
        (lambda s, a, p, random, gain=2.0: (s, False), True),
        (lambda *values: (values[0], False), False),
        (functools.partial(lambda gain, s, a, p, r: (s, False), 2.0), True),
    ],
)
def test_a_fourth_argument_is_random(rule, takes):
    assert bool(trace(rule, {"v": 0.0}, [], {}).random) is takes


@pytest.mark.parametrize("rule", [lambda s, a: (s, False), lambda s, a, p, r, q: (s, False), lambda: None])
def test_other_arguments_are_refused(rule):
    with pytest.raises(RuleError, match=r"takes .*; write rule\(s, arriving, p\) or rule\(s, arriving, p, random\)"):
        trace(rule, {"v": 0.0}, [], {})


def in_branch(random, v):
    return lax.cond(v > 0, lambda: random.uniform(), lambda: 0.0)


def called_twice(random, v):
    noisy = jax.jit(lambda x: x + random.uniform())
    return noisy(v) + noisy(v * 2)


def called_twice_with_one_index(random, v):
    noisy = jax.jit(lambda x: x + random.uniform(index=3))
    return noisy(v) + noisy(v * 2)


WRONG = {
    "fori_loop": (lambda r, v: lax.fori_loop(0, 3, lambda k, c: c + r.uniform(), v), "in a loop or a branch"),
    "scan": (lambda r, v: lax.scan(lambda c, x: (c + r.uniform() * x, c), v, jnp.ones(3))[0], "more than once"),
    "while": (lambda r, v: lax.while_loop(lambda c: c < 1, lambda c: c + r.uniform(), v), "in a loop or a branch"),
    "condition": (lambda r, v: lax.while_loop(lambda c: c < r.uniform(), lambda c: c + 1, v), "in a loop or a branch"),
    "cond": (in_branch, "in a loop or a branch"),
    "switch": (lambda r, v: lax.switch(v.astype(int), [lambda: 1.0, r.uniform, r.normal]), "in a loop or a branch"),
    "constant index": (lambda r, v: lax.fori_loop(0, 3, lambda k, c: c + r.uniform(index=1), v), "more than once"),
    "called twice": (called_twice, "more than once"),
    "one index twice": (called_twice_with_one_index, "more than once"),
    "poisson": (lambda r, v: lax.fori_loop(0, 3, lambda k, c: c + r.poisson(1.0), v), "in a loop or a branch"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_draws_that_would_repeat_are_refused(case):
    draw, words = WRONG[case]
    line = rf"test_rule_random\.py:({'|'.join(str(draw.__code__.co_firstlineno + k) for k in range(3))}): "
    with pytest.raises(RuleError, match=line + rf"draws a random number {words}: .*pass index=, an integer"):
        trace(lambda s, a, p, r: (s.replace(v=draw(r, s.v)), False), {"v": 0.0}, [], {})


def test_draws_with_an_index_may_repeat():
    def rule(s, a, p, random):
        noisy = jax.jit(lambda x, k: x + random.uniform(index=k))
        v = lax.fori_loop(0, 3, lambda k, c: c + random.uniform(index=k), noisy(s.v, 0) + noisy(s.v, 1))
        return s.replace(v=v + lax.cond(v > 0, lambda: random.uniform(index=0), lambda: 0.0)), False

    form = trace(rule, {"v": 0.0}, [], {}).form
    v = interpret(form, [F(0), NEURONS, U(0), U(1), U(2)])[0]
    assert abs(v.mean() - 3) < 4.5 * np.sqrt(0.5 / COUNT)
    assert abs(v.var() / 0.5 - 1) < 0.05


def test_a_gradient_passes_through_draws():
    def drawn(p):
        random = Random(*U([1, 2, 3, 4]))
        return random.normal(p, 2 * p) + random.uniform(0.0, p) + random.exponential(p) + random.poisson(p)

    with jax.enable_x64(False):
        gradient = jax.grad(drawn)(3.0)
        random = Random(*U([1, 2, 3, 4]))
        expected = 1 + 2 * random.normal() + random.uniform() + random.exponential()
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_names_are_guessed():
    random = Random(*U([1, 2, 3, 4]))
    with pytest.raises(
        UnknownNameError, match=r"random has no 'possion'; did you mean 'poisson'\?; names: bits, uniform"
    ):
        _ = random.possion
    with pytest.raises(UnknownNameError, match=r"random has no 'gamma'.*names: "):
        _ = random.gamma
    assert not hasattr(random, "choice")
    assert all(getattr(Random, name).__doc__ for name in METHODS)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (lambda r: r.uniform(index=0.5), r"random\.uniform: index is float32; pass an integer"),
        (lambda r: r.integers(0, 2.5), r"random\.integers: high is float32; pass an integer"),
        (lambda r: r.integers(True, 2), r"random\.integers: low is bool; pass an integer"),
    ],
)
def test_numbers_of_a_wrong_kind_are_refused(method, words):
    with jax.enable_x64(False), pytest.raises(RuleError, match=words):
        method(Random(*U([1, 2, 3, 4])))


@pytest.mark.parametrize("rounds", [1, 20])
def test_rounds_of_the_cipher_as_calls_give_its_words(rounds):
    """As loops have them, which draw the numbers of `jax.random`."""
    words = np.random.default_rng(0).integers(0, 2**32, (4, 50), np.uint32)
    for word, wanted in enumerate(threefry(*words, rounds)):
        form = form_of("word", lambda *x, word=word: threefry(*x, rounds, be_turned)[word], ("uint32",) * 4)
        assert [function.name for function in form.functions] == ["turned"]
        np.testing.assert_array_equal(interpret(form, words)[0], wanted)
