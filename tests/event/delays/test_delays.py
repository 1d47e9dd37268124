# SPDX-License-Identifier: Apache-2.0
"""Deliveries into a ring of sums: what they add, beside a loop in NumPy; derivatives, batches, units, and bad input."""

import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from platforms import by_platform
from product_promises import ninety  # noqa: F401 - a fixture

import brainevent as be
from brainevent.backends.numba import kept
from brainevent.errors import MathError, ShapeError
from brainevent.event.on_cpu import deliveries
from brainevent.event.on_cpu.rows import compressed

DTYPES = ("float32", "float16", "bfloat16")


def drawn(seed, rows=7, columns=9, slots=5, one_weight=False, one_delay=False):
    """Return the arrays of a matrix with delays: duplicates, and rows without elements."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(2 * rows, np.full(rows, 1 / rows))  # programs are compiled for a number of elements
    indptr = np.concatenate([[0], counts.cumsum()]).astype(np.int32)
    indices = rng.integers(0, columns, indptr[-1], np.int32)
    data = rng.normal(size=1 if one_weight else indices.size).astype(np.float32)
    delays = np.int32(rng.integers(1, slots)) if one_delay else rng.integers(1, slots, indices.size, np.int32)
    ring = rng.normal(size=(slots, columns)).astype(np.float32)
    x = ((rng.random(rows) < 0.5) * rng.normal(size=rows)).astype(np.float32)
    return ring, x, data, indices, indptr, delays


def by_hand(ring, x, data, indices, indptr, delays, t, weighted):
    ring = np.array(ring, np.float64)
    data, delays = np.broadcast_to(data, indices.shape), np.broadcast_to(delays, indices.shape)
    for i in np.flatnonzero(x):
        for j in range(indptr[i], indptr[i + 1]):
            ring[(int(t) + int(delays[j])) % ring.shape[0], indices[j]] += data[j] * (x[i] if weighted else 1)
    return ring


TIMES = [0, 3, -8, 10**30, jnp.int32(2**31 - 1)]
# Whether there is one weight, one delay, and whether events count as their values: kernels are compiled for each.
KINDS = [(False, False, True), (True, False, False), (False, True, False)]


@settings(max_examples=3)
@given(st.integers(0, 99), st.sampled_from(KINDS), st.sampled_from(TIMES))
def test_a_delivery_equals_a_loop_in_numpy(seed, kind, t):
    one_weight, one_delay, weighted = kind
    arrays = drawn(seed, one_weight=one_weight, one_delay=one_delay)
    expected = by_hand(*arrays, t, weighted)
    how = {"shape": (7, 9), "weighted": weighted}
    for backend in (None, "jax"):
        found = be.csr_delay_deliver(*map(jnp.asarray, arrays), t, **how, backend=backend)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    ring, x, data, indices, indptr, delays = arrays
    layout = be.CSRDelayLayout.build(data, indices, indptr, delays, n_slots=5, shape=(7, 9))
    for backend in (None, "jax"):
        found = be.csr_delay_deliver_layout(ring, x, layout, t, weighted=weighted, backend=backend)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("backend", [None, "jax"])
@pytest.mark.parametrize("weighted", [False, True])
def test_matrices_deliver_along_their_rows(weighted, backend):
    ring, x, data, indices, indptr, delays = drawn(3)
    csr = be.CSR(jnp.asarray(data), jnp.asarray(indices), jnp.asarray(indptr), shape=(7, 9))
    expected = by_hand(ring, x, data, indices, indptr, delays, 4, weighted)
    rows = np.repeat(np.arange(7), np.diff(indptr))
    order = np.lexsort((rows, indices))
    csc = be.CSC(
        data[order],
        rows[order].astype(np.int32),
        np.searchsorted(indices[order], np.arange(10)).astype(np.int32),
        shape=(7, 9),
    )
    coo = be.COO((data, rows.astype(np.int32), indices), shape=(7, 9))
    for matrix, steps in (
        (csr, delays),
        (csc, delays[order]),
        (csc.precompute_weight_indices(), delays[order]),
        (coo, delays),
    ):
        found = matrix.delay_deliver(ring, x, steps, 4, weighted=weighted, backend=backend)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for matrix in (csr, csc.precompute_weight_indices()):  # one delay for all, then one weight too
        for one in (matrix, matrix.with_data(jnp.float32(3.0))):
            found = one.delay_deliver(ring, x, 2, 4, weighted=weighted, backend=backend)
            of_all = data if one is matrix else np.float32(3)
            expected = by_hand(ring, x, of_all, indices, indptr, 2, 4, weighted)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("backend", [None, "jax"])
def test_one_weight_and_one_delay_need_no_places(backend):
    ring, x, _, indices, indptr, _ = drawn(3)
    rows = np.repeat(np.arange(7), np.diff(indptr))

    @jax.jit
    def delivered(columns, starts):  # which are not known to be within range
        csc = be.CSC(jnp.ones(1), columns, starts, shape=(7, 9))
        return csc.delay_deliver(ring, x, 2, 4, backend=backend)

    starts = np.searchsorted(np.sort(indices), np.arange(10))
    found = delivered(rows[np.argsort(indices, kind="stable")].astype(np.int32), starts.astype(np.int32))
    expected = by_hand(ring, x, np.float32(1), indices, indptr, 2, 4, False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_of_equal_length_and_dense_rows(weighted):
    rng = np.random.default_rng(0)
    indices, steps = rng.integers(0, 9, (7, 3), np.int32), rng.integers(1, 5, (7, 3), np.int32)
    data, ring, x = rng.normal(size=(7, 3)), rng.normal(size=(5, 9)), (rng.random(7) < 0.5) * rng.normal(size=7)
    data, ring, x = (a.astype(np.float32) for a in (data, ring, x))
    indptr = np.arange(8) * 3
    expected = by_hand(ring, x, data.reshape(-1), indices.reshape(-1), indptr, steps.reshape(-1), 1, weighted)
    found = be.FixedNumPerPre((data, indices), shape=(7, 9)).delay_deliver(ring, x, steps, 1, weighted=weighted)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    post = be.FixedNumPerPost((data, rng.integers(0, 9, (7, 3), np.int32)), shape=(9, 7))
    events = rng.random(9) < 0.5
    dense = np.zeros((5, 7))
    for j in range(7):
        for k in range(3):
            if events[post.indices[j, k]]:
                dense[(1 + steps[j, k]) % 5, j] += data[j, k]
    np.testing.assert_allclose(post.delay_deliver(np.zeros((5, 7), np.float32), events, steps, 1), dense, rtol=1e-5)
    full = rng.normal(size=(7, 9)).astype(np.float32)
    delays = rng.integers(1, 5, (7, 9), np.int32)
    everywhere = by_hand(
        ring, x, full.reshape(-1), np.tile(np.arange(9), 7), np.arange(8) * 9, delays.reshape(-1), 1, weighted
    )
    np.testing.assert_allclose(
        be.Dense(full).delay_deliver(ring, x, delays, 1, weighted=weighted), everywhere, rtol=1e-4
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "dtype", [dtype if dtype == "bfloat16" else pytest.param(dtype, marks=pytest.mark.thorough) for dtype in DTYPES]
)
def test_rings_of_other_dtypes(dtype):
    ring, x, data, indices, indptr, delays = drawn(5)
    expected = by_hand(ring, x, data, indices, indptr, delays, 2, False)
    layout = be.CSRDelayLayout.build(data, indices, indptr, delays, n_slots=5, shape=(7, 9))
    for found in (
        be.csr_delay_deliver(jnp.asarray(ring, dtype), x, data, indices, indptr, delays, 2, shape=(7, 9)),
        layout.deliver(jnp.asarray(ring, dtype), x, 2),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.astype("float32"), expected, atol={"float32": 1e-5, "float16": 0.02}.get(dtype, 0.1)
        )


@pytest.mark.parametrize("laid", [False, True])
def test_derivatives_are_those_of_the_formula(laid):
    ring, x, data, indices, indptr, delays = map(jnp.asarray, drawn(8))
    layout = be.CSRDelayLayout.build(data, indices, indptr, delays, n_slots=5, shape=(7, 9))
    rows = np.repeat(np.arange(7), np.diff(indptr))

    def ours(ring, data, x):
        if laid:
            found = layout.with_data(data).deliver(ring, x, 3, weighted=True)
        else:
            found = be.csr_delay_deliver(ring, x, data, indices, indptr, delays, 3, shape=(7, 9), weighted=True)
        return jnp.sin(found).sum()

    def formula(ring, data, x):
        return jnp.sin(ring.at[(3 + delays) % 5, indices].add(data * x[rows])).sum()

    assert all(np.asarray(x) != 0) is False
    expected, found_each = (jax.jit(jax.grad(f, (0, 1, 2)))(ring, data, x) for f in (formula, ours))
    for found, wanted in zip(found_each, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    tangents = ring * 0.1, data * 0.2, x + 0.3
    np.testing.assert_allclose(
        jax.jvp(ours, (ring, data, x), tangents)[1], jax.jvp(formula, (ring, data, x), tangents)[1], rtol=1e-4
    )
    one = jax.grad(lambda w: be.csr_delay_deliver(ring, x, w, indices, indptr, 2, 3, shape=(7, 9)).sum())(jnp.ones(1))
    np.testing.assert_allclose(one, [np.diff(indptr)[np.asarray(x) != 0].sum()])


def test_events_have_the_derivative_of_numbers():
    ring, x, data, indices, indptr, delays = map(jnp.asarray, drawn(8))
    rows = np.repeat(np.arange(7), np.diff(indptr))
    found = jax.grad(lambda x: be.csr_delay_deliver(ring, x, data, indices, indptr, delays, 0, shape=(7, 9)).sum())(x)
    np.testing.assert_allclose(found, np.bincount(rows, data, 7), rtol=1e-5, atol=1e-6)


def test_a_compiled_loop_and_a_batch():
    ring, _, data, indices, indptr, delays = map(jnp.asarray, drawn(2))
    trains = jnp.asarray(np.random.default_rng(1).random((20, 7)) < 0.3)
    layout = be.CSRDelayLayout.build(data, indices, indptr, delays, n_slots=5, shape=(7, 9))

    def step(ring, now):
        t, spikes = now
        arrived = ring[t % 5]
        ring = ring.at[t % 5].set(0)
        return layout.deliver(ring, be.BinaryArray(spikes), t), arrived

    loop = jax.jit(lambda ring: jax.lax.scan(step, ring, (jnp.arange(20), trains)), donate_argnums=0)
    expected, by_step = np.array(ring, np.float64), []
    for t in range(20):
        by_step.append(expected[t % 5].copy())
        expected[t % 5] = 0
        expected = by_hand(expected, trains[t], data, indices, indptr, delays, t, False)
    found, arrived = loop(ring + 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(arrived, by_step, rtol=1e-4, atol=1e-5)
    batch = jax.vmap(lambda x, t: layout.deliver(ring, x, t))(trains, jnp.arange(20))
    for k in (0, 7, 19):
        np.testing.assert_allclose(batch[k], layout.deliver(ring, trains[k], k), rtol=1e-6)


def test_delays_that_are_not_known_wrap_around_the_ring():
    ring, x, data, indices, indptr, delays = map(jnp.asarray, drawn(4))
    far = delays + 5 * jnp.arange(delays.size) - 10
    call = jax.jit(lambda delays: be.csr_delay_deliver(ring, x, data, indices, indptr, delays, 1, shape=(7, 9)))
    np.testing.assert_allclose(call(far), call(delays), rtol=1e-6)


@by_platform
def test_what_arrives_is_taken_from_the_ring():
    ring = jax.random.normal(jax.random.key(4), (5, 3001))
    for backend in (None, "jax"):
        for t in (0, 3, -8, 10**30, jnp.int32(2**31 - 1), jnp.uint32(2**32 - 1), np.int8(-3), np.array(2**40)):
            arrived, rest = be.take_arrivals(ring, t, backend=backend)
            np.testing.assert_array_equal(arrived, ring[int(t) % 5])
            np.testing.assert_array_equal(rest, ring.at[int(t) % 5].set(0))
    for dtype in DTYPES:
        arrived, rest = be.take_arrivals(ring.astype(dtype), 1)
        assert (arrived.dtype, rest.dtype) == (dtype, dtype)
        np.testing.assert_array_equal(arrived, ring[1].astype(dtype))
        np.testing.assert_array_equal(rest, ring.astype(dtype).at[1].set(0))

    def both(ring):
        arrived, rest = be.take_arrivals(ring, 2)
        return (arrived**2).sum() + (rest**3).sum()

    np.testing.assert_allclose(jax.grad(both)(ring), (3 * ring**2).at[2].set(2 * ring[2]), rtol=1e-5)
    of_one = [jax.grad(lambda ring, at=at: (be.take_arrivals(ring, 2)[at] ** 2).sum())(ring) for at in (0, 1)]
    np.testing.assert_allclose(of_one[0], jnp.zeros_like(ring).at[2].set(2 * ring[2]), rtol=1e-6)
    np.testing.assert_allclose(of_one[1], (2 * ring).at[2].set(0), rtol=1e-6)
    arrived, rest = jax.vmap(be.take_arrivals, (None, 0))(ring, jnp.arange(4))
    np.testing.assert_array_equal(arrived, ring[:4])
    np.testing.assert_array_equal(rest, jnp.stack([ring.at[t].set(0) for t in range(4)]))
    with pytest.raises(TypeError, match="take_arrivals: ring is int32; pass one of float16"):
        be.take_arrivals(ring.astype(int), 1)
    with pytest.raises(ShapeError, match=r"ring has shape \(3001,\); pass \(slots, columns\)"):
        be.take_arrivals(ring[0], 1)


def taken_and_delivered(layout, carry, trains):
    """Run a loop whose steps take what arrives from the ring, add it to `v`, and deliver spikes."""

    def step(carry, now):
        (ring, v), (t, x) = carry, now
        arrived, ring = be.take_arrivals(ring, t)
        return (layout.deliver(ring, x, t), 0.9 * v + arrived), None

    return jax.lax.scan(step, carry, (jnp.arange(len(trains)), trains))[0]


def test_a_loop_that_takes_and_delivers_copies_no_ring(platform):
    ring, _, *arrays = drawn(2)
    spikes, v, layout = (
        np.random.default_rng(0).random((20, 7)) < 0.3,
        0,
        be.CSRDelayLayout.build(*map(jnp.asarray, arrays), n_slots=5, shape=(7, 9)),
    )
    loop = jax.jit(lambda carry, x: taken_and_delivered(layout, carry, x), donate_argnums=0)
    given = (jnp.asarray(ring), jnp.zeros(9)), jnp.asarray(spikes)
    compiled = loop.lower(*given).compile()
    assert "custom-call" in compiled.as_text()
    assert platform == "gpu" or not re.search(r"f32\[5,9\]\S* copy\(", compiled.as_text())
    for t, x in enumerate(spikes):
        v = 0.9 * v + ring[t % 5]
        ring[t % 5] = 0
        ring = by_hand(ring, x, *arrays, t, False)
    for found, wanted in zip(compiled(*given), (ring, v), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_layouts_hold_both_orders():
    _, _, data, indices, indptr, delays = drawn(6)
    layout = be.CSRDelayLayout.build(data, indices, indptr, delays, n_slots=5, shape=(7, 9))
    assert (layout.nse, layout.n_slots, layout.shape) == (indices.size, 5, (7, 9))
    assert repr(layout) == f"CSRDelayLayout((7, 9), nse={indices.size}, n_slots=5)"
    np.testing.assert_array_equal(layout.original_data(), data)
    np.testing.assert_array_equal(layout.data, data[layout.perm])
    np.testing.assert_array_equal(layout.delays, delays[layout.perm])
    for i in range(7):
        for delay in range(1, 5):
            begin, end = layout.delay_ptr[i, delay - 1], layout.delay_ptr[i, delay]
            assert (layout.delays[begin:end] == delay).all()
        assert layout.delay_ptr[i, 0] == indptr[i]
        assert layout.delay_ptr[i, 4] == indptr[i + 1]
    again = layout.with_data(jnp.arange(indices.size, dtype=jnp.float32))
    np.testing.assert_array_equal(again.original_data(), np.arange(indices.size))
    one = layout.with_data(2.0)
    assert one.original_data().size == 1
    leaves, tree = jax.tree.flatten(layout)
    np.testing.assert_array_equal(jax.tree.unflatten(tree, leaves).data, layout.data)


def test_units():
    u = pytest.importorskip("brainunit")
    with pytest.raises(TypeError, match=r"csr_delay_deliver: delays are Quantity.*; pass whole numbers of steps"):
        be.csr_delay_deliver(**{**GIVEN, "shape": (7, 9), "delays": 2 * u.ms})
    taken = be.take_arrivals(jnp.ones((5, 9)) * u.mV, 1)
    assert [u.get_unit(part) for part in taken] == [u.mV, u.mV]
    ring, x, data, indices, indptr, delays = drawn(1)
    call = lambda ring, data: be.csr_delay_deliver(ring, x, data, indices, indptr, delays, 0, shape=(7, 9))
    found = call(ring * u.nS, data * u.uS)
    np.testing.assert_allclose(found.to_decimal(u.nS), call(ring, 1000 * data), rtol=1e-5)
    layout = be.CSRDelayLayout.build(data * u.nS, indices, indptr, delays, n_slots=5, shape=(7, 9))
    np.testing.assert_allclose(layout.deliver(ring * u.nS, x, 0).to_decimal(u.nS), call(ring, data), rtol=1e-6)
    assert layout.original_data().unit == u.nS
    with pytest.raises(u.UnitMismatchError):
        call(ring * u.mV, data * u.nS)


@pytest.mark.parametrize("shape", [(0, 9), (7, 0), (0, 0)])
def test_matrices_without_rows_or_columns(shape):
    rows, columns = shape
    indptr, ring = jnp.zeros(rows + 1, jnp.int32), jnp.ones((3, columns))
    arrays = jnp.ones(rows, bool), jnp.zeros(0), jnp.zeros(0, jnp.int32), indptr, jnp.zeros(0, jnp.int32)
    found = be.csr_delay_deliver(ring, *arrays, 0, shape=shape)
    np.testing.assert_array_equal(found, ring)
    layout = be.CSRDelayLayout.build(*arrays[1:], n_slots=3, shape=shape)
    np.testing.assert_array_equal(layout.deliver(ring, arrays[0], 0), ring)


GIVEN = dict(zip(("ring", "events", "data", "indices", "indptr", "delays"), drawn(3), strict=True)) | {"t": 0}


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        (
            {"delays": np.int32(0)},
            ValueError,
            "delays are from 0 to 0; with a ring of 5 slots, pass delays from 1 to 4",
        ),
        ({"delays": np.int32(5)}, ValueError, "delays are from 5 to 5; with a ring of 5 slots"),
        ({"delays": np.float32(1)}, TypeError, r"delays are float32; pass whole numbers of steps \(delays.astype"),
        ({"delays": np.ones(2, np.int32)}, ShapeError, r"delays have shape \(2,\); pass one number, or one for each"),
        ({"delays": np.array(2**32 + 1)}, ValueError, "delays are from 4294967297 to 4294967297; with a ring of 5"),
        ({"delays": None}, TypeError, "delays are None; pass whole numbers of steps"),
        ({"delays": ["1"]}, TypeError, r"delays are \['1'\]; pass whole numbers of steps"),
        (
            {"ring": np.ones((1, 9), np.float32)},
            ValueError,
            "delays are from 1 to 4; with a ring of 1 slots, no delay is possible; pass a ring of at least 5 slots",
        ),
        ({"ring": None}, TypeError, "ring is None; pass an array, "),
        ({"t": 1.5}, TypeError, "t is 1.5; pass one integer, the number of the step"),
        ({"t": jnp.arange(2)}, TypeError, r"t is int32 of shape \(2,\); pass one integer"),
        (
            {"ring": np.ones((5, 9), np.int32)},
            TypeError,
            "ring is int32; pass one of float16, bfloat16, float32, float64",
        ),
        ({"ring": np.ones((5, 8), np.float32)}, ShapeError, r"ring has shape \(5, 8\); pass \(slots, 9\)"),
        ({"ring": np.ones((0, 9), np.float32)}, ShapeError, r"ring has shape \(0, 9\); pass \(slots, 9\), with at"),
        ({"events": np.ones(6, bool)}, ShapeError, r"events have shape \(6,\); pass one for each of 7 rows"),
        (
            {"events": np.ones((7, 2), bool)},
            MathError,
            r"events have shape \(7, 2\); their rank must be 1, and jax.vmap",
        ),
        (
            {"events": np.ones(7, np.complex64)},
            TypeError,
            "events are complex64; pass booleans, integers or real numbers",
        ),
        (
            {"events": be.BinaryArray(np.ones(7)), "weighted": True},
            ValueError,
            (
                r"weighted is True, but each event of a BinaryArray counts as 1; to count values, pass "
                r"brainevent.WeightedArray\(x\); otherwise leave weighted out$"
            ),
        ),
        (
            {"events": be.WeightedArray(np.ones(7)), "weighted": False},
            ValueError,
            (
                r"weighted is False, but the values of a WeightedArray always count; to count each event as 1, pass "
                r"brainevent.BinaryArray\(x\); otherwise leave weighted out$"
            ),
        ),
        ({"data": np.ones(3, np.float32)}, ValueError, "data has shape"),
    ],
)
def test_bad_input_is_reported(changed, error, words):
    with pytest.raises(error, match=f"csr_delay_deliver: {words}"):
        be.csr_delay_deliver(**{**GIVEN, "shape": (7, 9), **changed})


def test_bad_layouts_are_reported():
    arrays = [GIVEN[name] for name in ("data", "indices", "indptr", "delays")]
    with pytest.raises(ValueError, match=r"CSRDelayLayout.build: n_slots is 1; pass at least 2"):
        be.CSRDelayLayout.build(*arrays, n_slots=1, shape=(7, 9))
    with pytest.raises(ValueError, match="with a ring of 3 slots, pass delays from 1 to 2"):
        be.CSRDelayLayout.build(*arrays, n_slots=3, shape=(7, 9))
    with pytest.raises(TypeError, match="must be known; build the layout outside of jit"):
        jax.jit(lambda d: be.CSRDelayLayout.build(*arrays[:3], d, n_slots=5, shape=(7, 9)).data)(arrays[3])
    layout = be.CSR(*map(jnp.asarray, arrays[:3]), shape=(7, 9)).delay_layout(arrays[3], 5)
    with pytest.raises(ShapeError, match=r"CSRDelayLayout.deliver: ring has 4 slots; this layout is for 5"):
        layout.deliver(np.zeros((4, 9), np.float32), GIVEN["events"], 0)
    with pytest.raises(TypeError, match=r"csr_delay_deliver_layout: layout is a CSR; pass what CSRDelayLayout.build"):
        be.csr_delay_deliver_layout(GIVEN["ring"], GIVEN["events"], be.CSR.fromdense(np.eye(2)), 0)


@pytest.mark.covering(strength=1, most=4)
@pytest.mark.usefixtures("ninety")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["csr", "csc", "fixed", "laid", "taken"])
def test_kernels_for_gpus_compile(kind, weighted):
    ring, x, data, indices, indptr, delays = map(jnp.asarray, drawn(3))
    csr = be.CSR(data, indices, indptr, shape=(7, 9))
    call = {
        "csr": lambda x: csr.delay_deliver(ring, x, delays, 0, weighted=weighted),
        "csc": lambda x: be.CSC(data, indices, indptr, shape=(9, 7)).delay_deliver(
            jnp.zeros((5, 7)), jnp.ones(9), delays, x[0].astype(int), weighted=weighted
        ),
        "fixed": lambda x: be.FixedNumPerPre(
            (jnp.ones((7, 2)), jnp.ones((7, 2), jnp.int32)), shape=(7, 9)
        ).delay_deliver(ring, x, 1, 0, weighted=weighted),
        "laid": lambda x: csr.delay_layout(delays, 5).deliver(ring, x, 0, weighted=weighted),
        "taken": lambda x: be.take_arrivals(ring, x[0].astype(int)),
    }[kind]
    text = jax.jit(call).trace(x).lower(lowering_platforms=("cuda",)).as_text()
    assert "brainevent" in text
    assert "custom_call" in text


def test_parts_of_the_ring_are_all_of_it():
    """Threads add to a part each."""
    ring, x, data, indices, indptr, delays = drawn(9, rows=60, columns=40, slots=6)
    of = {"weighted": False, "one_weight": False, "one_delay": False, "whole": False}
    part = numba.njit(deliveries._part("float32", compressed(within=True), **of).py_func)
    out, t = ring.copy(), np.ones(1, np.int32)
    for k in range(7):
        part(data, (indices, indptr), delays, x != 0, x, t, out, out.size * k // 7, out.size * (k + 1) // 7)
    np.testing.assert_allclose(out, by_hand(ring, x, data, indices, indptr, delays, 1, False), rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_threads_share_the_ring(monkeypatch):
    be.config.set_numba_parallel()
    gates, prepare = [], kept.runtime.prepare_parallel
    monkeypatch.setattr(kept.runtime, "prepare_parallel", lambda: gates.append(prepare()))
    rng = np.random.default_rng(0)
    indices, delays = rng.integers(0, 900, 300_000, np.int32), rng.integers(1, 9, 300_000, np.int32)
    indptr, data = np.arange(301, dtype=np.int32) * 1000, rng.integers(1, 5, 300_000).astype(np.float32)
    csr = be.CSR(*map(jnp.asarray, (data, indices, indptr)), shape=(300, 900))
    layout, ring = csr.delay_layout(delays, 9), jnp.zeros((9, 900))
    for deliver in (lambda x: csr.delay_deliver(ring, x, delays, 1), lambda x: layout.deliver(ring, x, 1)):
        gates.clear()
        for active in (0.9, 0.01):  # several threads add the first, and one the other
            x = rng.random(300) < active
            found = jax.jit(deliver)(jnp.asarray(x))
            expected = np.zeros((9, 900))
            there = np.repeat(x, 1000)
            np.add.at(expected, ((1 + delays[there]) % 9, indices[there]), data[there])
            np.testing.assert_array_equal(found, expected)
        assert gates  # only parallel code passes it


@pytest.mark.thorough
@pytest.mark.parametrize("delay", [1, 8, None])
def test_threads_share_delays_of_any_frequency(delay):
    """One thread has nothing to do where all delays are the same, or too few elements have another one."""
    be.config.set_numba_parallel()
    rng = np.random.default_rng(1)
    steps = np.where(rng.random(120_000) < 0.001, 3, 5) if delay is None else np.full(120_000, delay)
    csr = be.CSR(
        jnp.ones(1), jnp.asarray(rng.integers(0, 50, 120_000, np.int32)), jnp.arange(41) * 3000, shape=(40, 50)
    )
    found = csr.delay_layout(jnp.asarray(steps, jnp.int32), 9).deliver(jnp.zeros((9, 50)), jnp.ones(40, bool), 4)
    expected = np.zeros((9, 50))
    np.add.at(expected, ((4 + steps) % 9, np.asarray(csr.indices)), 1)
    np.testing.assert_array_equal(found, expected)
