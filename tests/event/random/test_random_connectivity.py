# SPDX-License-Identifier: Apache-2.0
"""Random connectivity: as likely as it should be, reproducible, and of the form that was asked for."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from brainevent import COO, CSC, CSR, FixedNumPerPost, FixedNumPerPre
from brainevent.event import random as connectivity
from brainevent.event.random import bernoulli_rows, checked_seed, fixed_columns, fixed_rows

SUSPICIOUS = 1e-3  # a p-value below this; seeds are fixed, so that none is found by chance


def p_value(counts, expected):
    """Return how likely counts as far from the expected ones are, if these are right."""
    return scipy.stats.chisquare(counts, np.broadcast_to(expected, np.shape(counts))).pvalue


def dense_of(indices, columns):
    found = np.zeros((len(indices), columns), int)
    np.add.at(found, (np.arange(len(indices))[:, None], indices), 1)
    return found


# ---- with a fixed probability


@pytest.mark.parametrize("prob", [0.003, 0.1, 0.5, 0.9])
def test_each_pair_is_as_likely(prob):
    rows, columns = 3000, 400
    indices, indptr = bernoulli_rows(rows, columns, prob, seed=5)
    lengths = np.diff(indptr)
    total = rows * columns * prob
    assert abs(indices.size - total) < 4 * np.sqrt(total * (1 - prob))
    assert p_value(np.bincount(indices, minlength=columns), indices.size / columns) > SUSPICIOUS
    bins = scipy.stats.binom(columns, prob).ppf(np.linspace(0, 1, 7)[1:-1])  # lengths of rows are binomial
    observed = np.bincount(np.searchsorted(bins, lengths), minlength=6)
    below = np.diff(scipy.stats.binom(columns, prob).cdf([-1, *bins, columns]))
    assert p_value(observed[below > 0], below[below > 0] * rows) > SUSPICIOUS


def test_pairs_are_independent():
    """Whether a column is taken says nothing on the next, nor on the same in the next row or with another seed."""
    prob, shape = 0.3, (400, 500)
    taken = np.asarray(CSR.random(shape, prob=prob, seed=1).todense()) > 0
    other = np.asarray(CSR.random(shape, prob=prob, seed=2).todense()) > 0
    for one, two in ((taken[:, :-1], taken[:, 1:]), (taken[:-1], taken[1:]), (taken, other)):
        both = (one & two).sum()
        expected = one.size * prob**2
        assert abs(both - expected) < 4 * np.sqrt(expected * (1 - prob**2))


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_rows_are_sorted_without_duplicates(rows, columns, prob, seed):
    indices, indptr = bernoulli_rows(rows, columns, prob, seed)
    assert indptr.shape == (rows + 1,)
    assert (indptr[0], indptr[-1]) == (0, indices.size)
    for start, stop in itertools.pairwise(indptr):
        row = indices[start:stop].tolist()
        assert row == sorted(set(row))
        assert not row or 0 <= row[0] <= row[-1] < columns


def test_probabilities_of_zero_and_one():
    assert bernoulli_rows(50, 60, 0.0, seed=1)[0].size == 0
    assert bernoulli_rows(50, 60, 1.0, seed=1)[0].tolist() == list(range(60)) * 50
    assert bernoulli_rows(50, 60, 1e-300, seed=1)[0].size == 0
    assert CSR.random((0, 5), prob=0.5, seed=1).nse == CSR.random((5, 0), prob=0.5, seed=1).nse == 0


# ---- with a fixed number


@pytest.mark.parametrize(("columns", "number"), [(50, 5), (50, 45), (64, 32), (5000, 3), (130, 129)])
def test_each_column_is_as_likely(columns, number):
    rows = 4000
    indices = fixed_rows(rows, columns, number, seed=9)
    assert indices.shape == (rows, number)
    assert (np.diff(indices, axis=1) > 0).all()  # sorted, none twice
    assert 0 <= indices.min() <= indices.max() < columns
    taken = np.bincount(indices.reshape(-1), minlength=columns)
    # Of each row a column is taken at most once: counts vary less than if they were independent, by this factor.
    spread = 1 - number / columns
    statistic = ((taken - rows * number / columns) ** 2).sum() / (rows * number / columns) / spread
    statistic *= (columns - 1) / columns
    assert SUSPICIOUS < scipy.stats.chi2(columns - 1).sf(statistic) < 1 - SUSPICIOUS


def test_each_set_of_columns_is_as_likely():
    """All 20 sets of 3 columns of 6 appear as often, whichever way they are drawn."""
    for number in (3, 2, 4):
        indices = fixed_rows(30_000, 6, number, seed=3)
        _, counts = np.unique(indices, axis=0, return_counts=True)
        assert counts.size == {3: 20, 2: 15, 4: 15}[number]
        assert p_value(counts, 30_000 / counts.size) > SUSPICIOUS


@given(st.integers(0, 20), st.integers(0, 200), st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_fixed_numbers(rows, columns, number, seed):
    if number > columns:
        with pytest.raises(ValueError, match=rf"random: {number} different connections of {columns}; pass a number"):
            fixed_rows(rows, columns, number, seed)
        return
    indices = fixed_rows(rows, columns, number, seed)
    assert indices.shape == (rows, number)
    assert dense_of(indices, columns).max(initial=0) <= 1


# ---- reproducible


def test_threads_change_nothing(monkeypatch):
    def draw(threads):
        monkeypatch.setattr(connectivity.os, "sched_getaffinity", lambda _: range(threads))
        return *bernoulli_rows(101, 70, 0.2, seed=7), fixed_rows(101, 70, 9, seed=7)

    for one, many in zip(draw(1), draw(5), strict=True):
        np.testing.assert_array_equal(one, many)


def test_seeds_give_the_same_in_every_process_and_release():
    assert bernoulli_rows(2, 10, 0.3, seed=42)[0].tolist() == DRAWN["bernoulli"]
    assert fixed_rows(2, 100, 3, seed=42).tolist() == DRAWN["fixed"]


DRAWN = {"bernoulli": [0, 3, 4, 6, 1, 7], "fixed": [[38, 70, 77], [11, 15, 53]]}


def test_no_seed_is_a_new_one_each_time():
    assert checked_seed(None) != checked_seed(None)
    assert checked_seed(-1) == 2**64 - 1
    assert checked_seed(np.int32(3)) == 3
    with pytest.raises(TypeError, match=r"random: seed is 0.5; pass an integer, or None for a new one each time"):
        CSR.random((2, 3), prob=0.5, seed=0.5)


# ---- matrices


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize("kind", [CSR, CSC, COO])
def test_matrices_are_drawn_in_every_way(kind):
    by_prob = kind.random((300, 200), prob=0.1, seed=3)
    assert type(by_prob) is kind
    assert by_prob.shape == (300, 200)
    assert 5500 < by_prob.nse < 6500
    assert by_prob.data.size == 1  # one weight of all
    by_row = np.asarray(kind.random((30, 20), num_per_row=4, seed=3).todense())
    by_column = np.asarray(kind.random((30, 20), num_per_column=4, weights=0.5, seed=3).todense())
    assert (by_row.sum(1) == 4).all()
    assert (by_column.sum(0) == 2).all()
    assert {*np.unique(by_row)} == {0, 1}


@pytest.mark.parametrize(("kind", "shape"), [(FixedNumPerPre, (30, 4)), (FixedNumPerPost, (20, 4))])
def test_fixed_numbers_of_connections(kind, shape):
    made = kind.random((30, 20), 4, seed=1)
    assert made.indices.shape == shape
    assert (np.asarray(made.todense()).sum(1 if kind is FixedNumPerPre else 0) == 4).all()


def test_weights_are_drawn_by_a_function():
    made = CSR.random((100, 100), prob=0.2, weights=jax.random.normal, seed=1)
    assert made.data.shape == (made.nse,)
    assert abs(float(made.data.mean())) < 0.1
    again = CSR.random((100, 100), prob=0.2, weights=jax.random.normal, seed=1)
    np.testing.assert_array_equal(made.data, again.data)
    fixed = FixedNumPerPre.random((5, 9), 3, weights=lambda key, shape: jax.random.uniform(key, shape, jnp.bfloat16))
    assert (fixed.data.shape, fixed.dtype) == ((5, 3), jnp.bfloat16)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: CSR.random((2, 3)), TypeError, "pass one of prob, num_per_row and num_per_column"),
        (lambda: CSC.random((2, 3), prob=0.1, num_per_row=1), TypeError, "pass one of prob, num_per_row"),
        (lambda: CSR.random((2, 3), prob=1.5), ValueError, r"random: prob is 1.5; pass a probability from 0 to 1"),
        (lambda: CSR.random((2, 3), prob=float("nan")), ValueError, r"random: prob is nan"),
        (lambda: CSR.random((2, 3), num_per_row=-1), ValueError, r"random: -1 different connections of 3"),
        (lambda: CSR.random((2, 3), num_per_column=3), ValueError, r"random: 3 different connections of 2; .* 0 to 2"),
        (lambda: CSR.random((1, 2**31 + 1), num_per_row=1), ValueError, r"columns; draw at most 2147483648, whose ind"),
        (lambda: FixedNumPerPre.random((2,), 1), ValueError, r"FixedNumPerPre.random: shape is \(2,\); pass two sizes"),
    ],
)
def test_what_cannot_be_drawn(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("number", [0, 3, 17])
def test_columns_drawn_in_several_goes_are_the_same(monkeypatch, number):
    at_once = fixed_columns(20, 50, number, 5)
    for most in (1, 40, 51):
        monkeypatch.setattr(connectivity, "_AT_ONCE", most)
        for one, other in zip(fixed_columns(20, 50, number, 5), at_once, strict=True):
            np.testing.assert_array_equal(one, other)
