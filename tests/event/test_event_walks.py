# SPDX-License-Identifier: Apache-2.0
"""Numba walks through a format that they do not know, and with a law that they do not know, defined in this file."""

import dataclasses

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from product_promises import both_ways

import brainevent
from brainevent.backends.numba.inner import inner
from brainevent.event import table
from brainevent.event.coo.format import COORDINATES
from brainevent.event.csr.format import CSR
from brainevent.event.description import Cut, Description, Format
from brainevent.event.elements import Elements
from brainevent.event.fixed.format import FIXED
from brainevent.event.laws.copies import ADDED, COPIED
from brainevent.event.laws.products import EVENTS, NUMBERS, PAIRS, Product
from brainevent.event.laws.updates import UPDATES
from brainevent.event.on_cpu import terms, visits
from brainevent.event.on_cpu.rows import Rows, compressed, is_there

N, WIDTH = 12, 3

# ---- a format: row i has its elements in the columns starts[i] + offset, for a few offsets --------------------------


@inner
def bounds(structure, row):
    begin, width = np.int64(row) * structure[0].shape[0], structure[0].shape[0]
    return np.uint64(begin), np.uint64(begin + width)


@inner
def column(structure, row, j):
    return structure[1][row] + structure[0][j - np.uint64(row) * np.uint64(structure[0].shape[0])]


@inner
def wrong_column(structure, row, j):
    return column(structure, row, j) + (row == 3)


def banded_rows(*, within, column=column):
    return Rows(
        number=inner(lambda structure: structure[1].shape[0]),
        stored=inner(lambda structure: structure[0].shape[0] * structure[1].shape[0]),
        bounds=bounds,
        column=column,
        place=inner(lambda structure, j, weights: j),
        holds=inner(lambda structure, j, size: True),
        fetch=inner(lambda structure, j: None),
        has=is_there(within=within),
        within=within,
    )


def banded(name, rows):
    return Format(
        name=name,
        tag=name,
        arrays=("offsets", "starts"),
        elements=lambda structure, shape: Elements(
            (shape[0], structure[0].size), shape, 0, structure[1][:, None] + structure[0]
        ),
        stored=lambda structure, shape: (shape[0], structure[0].size),
        checked=lambda where, structure, shape, within: (list(structure), False),
        draw=lambda n, number, **_: (jnp.arange(-1, number - 1), jnp.arange(n)),
        cut=Cut(arrays=("b", "pre"), stored="pre b", row="pre", column="post", reduced=("pre", "b")),
        rows=rows,
    )


BANDED = banded("banded", banded_rows)
FAULTY = banded("faulty", lambda *, within: banded_rows(within=within, column=wrong_column))

# ---- a law: out[j] = max(out[j], w) where there is an event --------------------------------------------------------


def largest(dtype, *, homogeneous):
    merge = inner(lambda found, weight: max(found, weight))
    law = terms.product(dtype, event=True, homogeneous=homogeneous)
    add = inner(lambda found, weight, x: max(found, weight))
    return dataclasses.replace(law, merge=merge, add=add, gathered=None)


LARGEST = Product("most_{format}{mv}", ("most",), event=True, linear=False, merge="max", in_numba=largest)


@pytest.fixture(scope="module", autouse=True)
def in_the_table():
    """Make the operators of this file, which are in the table for as long as its tests run."""
    before = dict(table.TABLE)
    for of in (
        *table.descriptions(BANDED, NUMBERS, EVENTS, LARGEST),
        *table.descriptions(BANDED, PAIRS, COPIED, ADDED, UPDATES, columns=False),
        Description(FAULTY, EVENTS),
        *(of for form in (COORDINATES, CSR, FIXED) for of in table.descriptions(form, LARGEST)),
    ):
        table.define(of)
    yield
    table.TABLE.clear()
    table.TABLE.update(before)


def drawn(form, *, columns=None, homogeneous=False):
    """Return weights, arrays, the row and the column of each element, and an x."""
    random, structure = np.random.default_rng(0), form.draw(N, WIDTH)
    elements = form.elements(structure, (N, N))
    weights = jnp.asarray(random.integers(1, 9, 1 if homogeneous else elements.stored), jnp.float32)
    places = [np.asarray(elements.numbers(place)) for place in (elements.row, elements.column)]
    x = jnp.asarray(random.random(N if columns is None else (N, columns)) < 0.4)
    return weights, structure, places, x


def merged(weights, places, x, merge, *, transpose):
    """Return what NumPy makes of the elements, one after another."""
    (into, out_of), found = places[::-1] if transpose else places, np.zeros(x.shape, np.float32)
    for i, j, weight in zip(into, out_of, np.broadcast_to(np.asarray(weights).reshape(-1), into.shape), strict=True):
        if 0 <= i < N and 0 <= j < N:
            found[i] = merge(found[i], weight * x[j])
    return found


@pytest.mark.covering(strength=0)
@both_ways
@pytest.mark.parametrize("law", [NUMBERS, EVENTS], ids=["numbers", "events"])
@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_a_format_gets_every_product(law, transpose, columns, homogeneous):
    of = Description(BANDED, law, columns=columns is not None)
    weights, structure, places, x = drawn(BANDED, columns=columns, homogeneous=homogeneous)
    x = x if law is EVENTS else x.astype(jnp.float32)
    how = {"shape": (N, N), "transpose": transpose}
    product = lambda weights, x: table.apply(of.also(columns=x.ndim == 2), weights, *structure, x, **how)[0]
    wanted = merged(weights, places, np.asarray(x, np.float32), np.add, transpose=transpose)
    np.testing.assert_array_equal(product(weights, x), wanted)
    assert "custom_call @brainevent_numba" in jax.jit(product).lower(weights, x).as_text()
    promises = ("outputs written", "vjp", "sharded jit")
    operator = table.TABLE[of]
    brainevent.check(operator, weights, *structure, x, promises=promises, **how).raise_if_failed()
    assert all(config.bytes > 0 for config in of.law.data(of))


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize("law", [PAIRS, COPIED, ADDED, UPDATES], ids=lambda law: type(law).__name__ + law.title[:9])
def test_a_format_gets_what_is_no_product(law):
    weights, structure, _, x = drawn(BANDED)
    chosen, dense = jnp.array([3, 0, 3, 99]), jnp.ones((4, N))
    numbers = jnp.arange(N, dtype=jnp.float32)
    given, how = {
        PAIRS: ((*structure, numbers[:, None], 2 * numbers[:, None]), {}),
        COPIED: ((weights, *structure, chosen), {}),
        ADDED: ((*structure, chosen, dense), {"outs": [weights]}),
        UPDATES: ((weights, *structure, x, numbers, jnp.zeros(0)), {}),
    }[law]
    how |= {} if law is UPDATES else {"shape": (N, N)}
    operator = table.TABLE[Description(BANDED, law)]
    assert "numba" in operator.available_backends("cpu")
    brainevent.check(operator, *given, promises=["values", "outputs written"], **how).raise_if_failed()


def test_a_fault_in_the_rows_of_a_format_is_found():
    weights, structure, _, x = drawn(FAULTY)
    operator, how = table.TABLE[Description(FAULTY, EVENTS)], {"shape": (N, N), "transpose": False}
    report = brainevent.check(operator, weights, *structure, x, promises=["values"], **how)
    assert {(row.backend, row.promise) for row in report.failures} == {("numba", "values")}


@pytest.mark.thorough
def test_a_tenth_of_the_events_takes_a_tenth_of_the_visits():
    """Elements are counted in a further array of the structure."""

    @inner
    def counted_column(structure, row, j):
        structure[2][0] += 1
        return structure[0][j]

    n, number, random = 2000, 40, np.random.default_rng(0)
    rows = dataclasses.replace(compressed(within=True), column=counted_column)
    walk = numba.njit(
        visits.scatter_event_columns(terms.product("float32", event=True, homogeneous=True), rows).py_func
    )
    structure = random.integers(0, n, n * number), np.arange(n + 1) * number, np.zeros(1, np.int64)
    seen = []
    for events in (20, 200):
        x, out = np.zeros((n, 2), bool), np.empty((n, 2), np.float32)
        x[random.permutation(n)[:events], 1] = True
        structure[2][:] = 0
        walk(np.ones(1, np.float32), structure, x, 0, n, out)
        assert out.sum() == events * number
        seen.append(structure[2][0])
    assert 0 < seen[0] <= 0.3 * seen[1]


@pytest.mark.covering(strength=1, most=2)
@both_ways
@pytest.mark.parametrize("form", [COORDINATES, CSR, FIXED, BANDED], ids=lambda form: form.name)
@pytest.mark.parametrize("columns", [None, 3])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_a_law_gets_the_walks_of_every_format(form, transpose, columns, homogeneous):
    of = Description(form, LARGEST, columns=columns is not None)
    weights, structure, places, x = drawn(form, columns=columns, homogeneous=homogeneous)
    operator, how = table.TABLE[of], {"shape": (N, N), "transpose": transpose}
    assert "numba" in operator.available_backends("cpu")
    found = operator(weights, *structure, x, **how)[0]
    np.testing.assert_array_equal(found, merged(weights, places, x, np.maximum, transpose=transpose))
