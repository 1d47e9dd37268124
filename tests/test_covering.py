# SPDX-License-Identifier: Apache-2.0
"""Of a full grid of parameters, what `make test` runs holds every pair of values; the rest is thorough."""

from itertools import combinations, product

import pytest
from covering import covering_rows
from hypothesis import given
from hypothesis import strategies as st

GRID = """
import pytest

@pytest.mark.covering{options}
@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize(("b", "same_as_b"), [(1, 1), (2, 2), pytest.param(3, 3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("c", [True, False])
def test_grid(a, b, same_as_b, c):
    assert b == same_as_b
"""
SHARED = """
import pytest

class Promises:
    @pytest.mark.covering
    @pytest.mark.parametrize("a", range(4))
    @pytest.mark.parametrize("b", range(4))
    def test_promise(self, a, b):
        pass

class TestOne(Promises):
    pass

class TestTwo(Promises):
    pass

@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b", range(4))
def test_in_full(a, b):
    pass
"""


def tuples(rows, strength):
    return {pairs for row in rows for pairs in combinations(sorted(row.items()), min(strength, len(row)))}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 3), st.data())
def test_every_combination_of_the_grid_is_covered(sizes, strength, data):
    rows = [dict(zip("abcde", values, strict=False)) for values in product(*map(range, sizes))]
    rows = [row for row in rows if row == rows[0] or not data.draw(st.booleans())]  # a grid may have holes
    chosen = [rows[i] for i in covering_rows(rows, strength)]
    assert tuples(chosen, strength) == tuples(rows, strength)
    assert covering_rows(rows, strength) == covering_rows(rows, strength)


def test_a_covering_array_is_much_smaller_than_its_grid():
    rows = [dict(enumerate(values)) for values in product(range(3), repeat=4)]
    assert len(rows) == 81
    assert len(covering_rows(rows)) <= 12
    assert len(covering_rows(rows, 1)) == 3
    assert covering_rows(rows, 9) == list(range(81))
    assert covering_rows([]) == []
    twice = [rows[i] for i in covering_rows(rows, 1, times=2)]
    assert len(twice) <= 7
    assert all(sum(row[name] == value for row in twice) >= 2 for name in range(4) for value in range(3))
    assert covering_rows(rows, 2, times=100) == list(range(81))


def collected(pytester, *options):
    printed = pytester.runpytest_inprocess(
        "-p", "covering", "-p", "no:cacheprovider", "-W", "ignore", "--collect-only", "-q", *options
    ).stdout
    return [line for line in printed.lines if "::" in line]


def test_values_left_out_of_a_covering_are_thorough(pytester):
    pytester.makepyfile(GRID.format(options=""))
    everything, some = collected(pytester), collected(pytester, "-m", "not thorough")
    assert len(everything) == 24
    assert len(some) == 8  # of four values by two, each with both of the third parameter in turn
    assert some == collected(pytester, "-m", "not thorough")
    assert sorted(some + collected(pytester, "-m", "thorough")) == sorted(everything)
    assert not any("-3-3" in line for line in some)  # thorough before; what is left holds all that is not


@pytest.mark.parametrize(("options", "count"), [("strength=1", 4), ("strength=0", 1), ("strength=0, times=3", 3)])
def test_a_mark_may_ask_for_a_weaker_covering(pytester, options, count):
    pytester.makepyfile(GRID.format(options=f"({options})"))
    assert len(collected(pytester, "-m", "not thorough")) == count


def test_a_class_that_inherits_a_test_is_one_more_parameter(pytester):
    pytester.makepyfile(SHARED)
    some = collected(pytester, "-m", "not thorough")
    shared = [line for line in some if "test_promise" in line]
    assert len(some) == len(shared) + 16
    assert len(shared) < 20  # of 32
    for name in ("TestOne", "TestTwo"):
        values = [line.partition("[")[2].rstrip("]").split("-") for line in shared if f"::{name}::" in line]
        assert [{value[i] for value in values} for i in (0, 1)] == [set("0123")] * 2
