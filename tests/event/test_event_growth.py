# SPDX-License-Identifier: Apache-2.0
"""The library of operators grows by one value: a law, a format or a language, in no other file than this one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from meshes import cut, mesh, sent
from product_promises import both_ways

import brainevent
from brainevent.event import table
from brainevent.event.activity import weighted
from brainevent.event.coo.format import COORDINATES
from brainevent.event.csr.format import CSR
from brainevent.event.dense.format import DENSE
from brainevent.event.description import Description, Language
from brainevent.event.fixed.format import FIXED
from brainevent.event.laws.products import EVENTS, Product

FORMATS = (COORDINATES, CSR, DENSE, FIXED)
every_format = pytest.mark.parametrize(  # those with rows of any length, and without indices
    "form",
    [form if form in (CSR, DENSE) else pytest.param(form, marks=pytest.mark.thorough) for form in FORMATS],
    ids=lambda form: form.name,
)


def operands(form, *, transpose, columns=None, n=6, number=3):
    """Return weights, the arrays of a square matrix, its dense values, and which rows or columns have an event."""
    random = np.random.default_rng(0)
    structure = form.draw(n, number)
    elements = form.elements(structure, (n, n))
    weights = jnp.asarray(random.uniform(0.5, 2, elements.stored), jnp.float32)
    places = [np.asarray(elements.numbers(place)) for place in (elements.row, elements.column)]
    events = random.random(n if columns is None else (n, columns)) < 0.5
    return weights, structure, places[::-1] if transpose else places, jnp.asarray(events)


# ---- a law: out[j] = max(out[j], w) where there is an event ------------------------------------------------------

LARGEST = Product("largest_{format}{mv}{indexed}", ("largest",), terms=weighted, event=True, linear=False, merge="max")


@pytest.fixture(scope="module", autouse=True)
def in_the_table():
    """Make the operators of this file, which are in the table for as long as its tests run."""
    before = dict(table.TABLE)
    for form in FORMATS:
        for of in table.descriptions(form, LARGEST):
            table.define(of)
    yield
    table.TABLE.clear()
    table.TABLE.update(before)


def largest(weights, places, events):
    """Return the largest weight of the events that each result has, or zero."""
    found = np.zeros(events.shape)
    for weight, into, out_of in zip(np.asarray(weights).reshape(-1), *places, strict=True):
        found[into] = np.maximum(found[into], np.where(events[out_of], weight, 0))
    return found


@pytest.mark.covering(strength=0)
@every_format
@both_ways
@pytest.mark.parametrize("columns", [None, 3])
def test_a_law_gets_every_format(form, transpose, columns):
    of = Description(form, LARGEST)
    weights, structure, places, x = operands(form, transpose=transpose, columns=columns)
    how = {"transpose": transpose, **form.sized((6, 6))}
    product = lambda x: table.apply(of.also(columns=x.ndim == 2), weights, *structure, x, **how)[0]
    wanted = largest(weights, places, x)
    np.testing.assert_array_equal(product(x), np.float32(wanted))
    batch = jnp.stack([x, ~x])
    np.testing.assert_array_equal(jax.vmap(product)(batch), np.stack([product(x), product(~x)]))
    operator = table.TABLE[of.also(columns=columns is not None)]
    assert operator.name == f"largest_{form.name}{'mv' if columns is None else 'mm'}"
    promises = ["outputs written", "sharded jit"]
    brainevent.check(operator, weights, *structure, x, promises=promises, **how).raise_if_failed()
    assert all(config.bytes > 0 and config.flops > 0 for config in of.law.data(of))


def test_devices_share_elements_and_find_the_largest_of_all():
    of = Description(COORDINATES, LARGEST)
    weights, structure, places, x = operands(COORDINATES, transpose=True, n=8)
    call = jax.jit(lambda w, *rest: table.apply(of, w, *rest, shape=(8, 8), transpose=True)[0])
    given = [cut(mesh(), array, "d") for array in (weights, *structure)]
    assert sent(call, *given, x) == {"all-reduce": 1}
    np.testing.assert_array_equal(call(*given, x), np.float32(largest(weights, places, x)))


def test_a_law_without_derivatives_says_so():
    of = Description(CSR, LARGEST)
    weights, structure, _, x = operands(CSR, transpose=True)
    loss = lambda weights: table.apply(of, weights, *structure, x, shape=(6, 6), transpose=True)[0].sum()
    with pytest.raises(TypeError, match=r"operator 'largest_csrmv' has no derivatives: its law, .*, names none"):
        jax.grad(loss)(weights)


# ---- a language, for one walk -----------------------------------------------------------------------------------


def toy(of):
    """Return a generator for vectors of events, whose rows are scattered: it multiplies all that is stored."""

    def generator(*, outs, shape, transpose, **_):
        if not transpose:
            raise NotImplementedError("the toy language only scatters")

        def run(weights, indices, indptr, x):
            rows = jnp.repeat(jnp.arange(shape[0]), jnp.diff(indptr), total_repeat_length=indices.size)
            terms = jnp.where(x[rows] != 0, jnp.broadcast_to(weights, indices.shape), 0)
            return [jnp.zeros(shape[1], weights.dtype).at[indices].add(terms)]

        return run

    return generator if of == Description(CSR, EVENTS) else None


@pytest.fixture
def language():
    """Add a language for as long as the test runs."""
    table.add_language(Language("toy", "cpu", toy))
    yield
    table.LANGUAGES.pop()
    brainevent.binary_csrmv_p.definition.kernels["cpu"].pop("toy")


def test_a_language_has_kernels_for_one_walk(language):
    having = {name for name, op in brainevent.get_registry().items() if "toy" in op.available_backends("cpu")}
    assert having == {"binary_csrmv"}
    assert brainevent.binary_csrmv_p.get_default("cpu") == "numba"
    weights, structure, _, x = operands(CSR, transpose=True)
    how = {"shape": (6, 6), "transpose": True}
    found = brainevent.binary_csrmv(weights, *structure, x, **how, backend="toy")
    np.testing.assert_allclose(found, brainevent.binary_csrmv(weights, *structure, x, **how), rtol=1e-6)
    report = brainevent.check(brainevent.binary_csrmv_p, weights, *structure, x, **how, promises=["jit", "vjp"])
    assert {row.backend for row in report.rows if row.status == "ok"} >= {"toy", "numba"}
    with pytest.raises(brainevent.KernelError, match="the toy language only scatters"):
        brainevent.binary_csrmv(weights, *structure, x, shape=(6, 6), backend="toy")
