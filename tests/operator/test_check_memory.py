# SPDX-License-Identifier: Apache-2.0
"""How `brainevent.check` sees what native code does beside its arrays, and what a call leaves behind."""

import ctypes

import faults_at_edges
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from faults import X, good_twice, operator, plain, twice
from hypothesis import given
from zoo import like

from brainevent import check
from brainevent.ffi import float_mode, guarded
from brainevent.operator.check import leaks
from brainevent.operator.check.sizes import resized


def row(op, *operands, promise, **options):
    """Return the status and the detail of one promise."""
    found = check(op, *operands, promises=[promise], **options).rows
    return next(each[2:] for each in found if each.promise == promise)


@pytest.mark.parametrize("promise", ["within bounds", "floating-point mode"])
def test_what_cannot_be_watched_is_skipped(promise):
    op = operator(plain(lambda x: [2 * x]), twice)
    assert row(op, X, promise=promise) == ("skipped", "it has no native code: XLA compiles it")
    op = operator(plain(lambda x: [jax.pure_callback(lambda x: 2 * np.asarray(x), like(X)[0], x)]), twice)
    words = "native code can be watched only without Python callbacks"
    assert row(op, X, promise=promise) == ("skipped", words)


def test_after_a_write_outside_of_an_array_nothing_else_is_called():
    fault = faults_at_edges.writes_before_the_beginning()
    report = check(fault.operator, X)
    assert [(each.promise, each.status) for each in report.rows] == [
        ("within bounds", "failed"),
        ("all others", "skipped"),
    ]
    assert report.rows[1].detail == "'within bounds' failed: calls could end this process"


def test_targets_that_others_registered_are_watched():
    module = faults_at_edges.compiled()
    address = ctypes.cast(module.get_handler("writes_before"), ctypes.c_void_p).value
    jax.ffi.register_ffi_target("of_somebody_else", jax.ffi.pycapsule(address), platform="cpu")
    call = jax.ffi.ffi_call("of_somebody_else", like(X)[0])
    status, detail = row(operator(plain(lambda x: [call(x)]), twice), X, promise="within bounds")
    assert status == "failed"
    assert detail.startswith("output 0: 4 bytes were written before the beginning of its memory")


def test_targets_of_jax_are_left_alone():
    assert guarded.guard_of("lapack_sgetrf_ffi") is None
    assert guarded.guard_of("nobody_registered_this") is None


def test_a_mode_that_cannot_be_read_is_said(monkeypatch):
    monkeypatch.setattr(float_mode, "_functions", lambda: None)
    words = "on this system the floating-point mode cannot be read"
    assert row(good_twice(), X, promise="floating-point mode", outs=like(X)) == ("skipped", words)
    with float_mode.watched(True) as changed:
        pass
    assert changed == []


def test_systems_whose_mode_is_unknown_are_known(monkeypatch):
    monkeypatch.setattr(float_mode.platform, "machine", lambda: "riscv64")
    assert float_mode._functions.__wrapped__() is None


@pytest.mark.skipif(not float_mode.is_known(), reason="this system does not tell its floating-point mode")
def test_the_mode_is_restored():
    library = ctypes.CDLL("libm.so.6")
    before = library.fegetround()
    with float_mode.watched(False) as changed:
        library.fesetround(0x400 if before != 0x400 else 0x800)
    assert changed == ["rounding"]
    assert library.fegetround() == before


def test_unknown_memory_use_is_reported_as_skipped(monkeypatch):
    monkeypatch.setattr(leaks, "_used", lambda: None)
    words = "this system does not report how much memory is in use"
    assert row(good_twice(), X, promise="memory released", outs=like(X)) == ("skipped", words)


def test_memory_that_grows_in_some_rounds_is_no_leak():
    sizes = iter([0, 5000, 5000, 9000, 9000, 9000])
    assert leaks._least_growth(lambda: None, 2, lambda: next(sizes)) == 0
    sizes = iter(range(0, 6000, 1000))
    assert leaks._least_growth(lambda: None, 2, lambda: next(sizes)) == 1000


def test_zeros_have_no_sign_unless_it_is_asked_for():
    fault = faults_at_edges.loses_the_sign_of_zero()
    assert check(fault.operator, X, promises=["other values"]).ok
    assert not check(fault.operator, X, promises=["other values"], signed_zeros=True).ok


@pytest.mark.parametrize("options", [{}, {"unique_indices": True}])
def test_duplicates_are_left_out_where_the_reference_wants_distinct_indices(options):
    def set_there(values, index):
        return jnp.zeros(8).at[index].set(values) if not options else jnp.zeros(8).at[index].add(values, **options)

    op = operator(plain(lambda values, index: [jnp.zeros(8).at[index[::-1]].set(values[::-1])]), set_there)
    status, detail = row(op, X, faults_at_edges.INDEX, promise="other values")
    assert (status, detail.rpartition("; ")[2]) == ("ok", "operand 1 kept")


@given(st.permutations(range(6)), st.integers(7, 40))
def test_indices_of_longer_arrays_stay_valid_and_distinct(indices, size):
    found = resized(np.array(indices, np.int32), (size,), {6: size})
    assert sorted(found.tolist()) == list(range(size))
    assert found[:6].tolist() == indices


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), st.integers(10, 50), st.integers(7, 60))
def test_indices_reach_the_end_of_longer_dimensions(indices, size, limit):
    x = np.array([*indices, 5], np.int32)
    found = resized(x, (size,), {6: limit})
    assert 0 <= found.min() <= found.max() < limit
    assert resized(x, (size,), {6: limit}, fixed=[8]).max() == 5  # they may be indices along what stays


def test_large_arrays_are_sparse_and_end_with_numbers():
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    found = resized(x, (3, 65539), {4: 65539}, sparse=True)
    np.testing.assert_array_equal(found[:, :4], x)
    assert (found[:, -4:] != 0).all()
    assert 0 < np.count_nonzero(found) < 200
    events = jnp.asarray(resized(np.float32([0, 1, 1]), (9,), {3: 9}))
    assert set(events.tolist()) == {0.0, 1.0}
