# SPDX-License-Identifier: Apache-2.0
"""What `brainevent.check` varies by itself, what it keeps, and how it sees writes and races."""

import ctypes
import signal
import threading
import time

import faults_by_data
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numba
import numpy as np
import pytest
from faults import MATRIX, X, operator, plain, twice
from hypothesis import given
from zoo import like, numba_generator

from brainevent import check
from brainevent.operator.check import concurrency, guards, memory, sizes
from brainevent.operator.check.subject import _variations
from brainevent.operator.compare import Skipped, assert_close


def detail(op, *operands, promise, **options):
    """Return the status and the detail of one promise."""
    return check(op, *operands, promises=[promise], **options).rows[-1][2:]


# ---- values --------------------------------------------------------------------------------------------------------


def test_says_which_values_were_tried():
    op = operator(plain(lambda keep, x, index: [jnp.where(keep, x, 0) + index]), lambda k, x, i: jnp.where(k, x, 0) + i)
    found = detail(op, X > 0, X, np.arange(8)[::-1].astype(np.int32), promise="other values")
    assert found == ("ok", "operand 0: all or none; operand 1: zeros, negative, NaN, infinity; operand 2: duplicates")
    op = operator(plain(lambda i: [2 * i]), twice)
    words = "it has no operand whose values could be varied"
    assert detail(op, np.int32(3), promise="other values") == ("skipped", words)


def test_a_kernel_may_do_anything_where_the_reference_gives_no_number():
    """The reference says for what an operator is defined: here for numbers above zero."""
    op = operator(plain(lambda x: [jnp.where(x <= 0, 7.0, jnp.log(x))]), jnp.log)
    assert detail(op, np.abs(X), promise="other values") == ("ok", "operand 0: NaN, infinity")


def test_nan_need_not_be_noticed_where_the_reference_does_not():
    op = operator(plain(lambda x: [jnp.where(x > 0, 1.0, 0.0)]), lambda x: jnp.where(x <= 0, 0.0, 1.0))
    assert detail(op, X, promise="other values") == ("ok", "operand 0: zeros, negative")


def test_events_stay_zeros_and_ones_and_weights_of_silent_rows_are_left_out():
    """A product of events need be one for zeros and ones only, and not make NaN of zero times NaN."""

    @numba.njit
    def kernel(spikes, weights, out):
        for j in range(out.size):
            out[j] = 0
        for i in range(spikes.size):
            if spikes[i] > 0:
                for j in range(out.size):
                    out[j] += weights[i, j]

    op = operator(numba_generator(kernel), faults_by_data.product_of_events)
    found = detail(op, faults_by_data.EVENTS, faults_by_data.WEIGHTS, promise="other values")
    assert found == ("ok", "operand 0: zeros; operand 1: zeros, negative, NaN, infinity")


def test_results_that_cancel_are_held_to_what_is_usual():
    wanted, found = [np.float32([1e-9])], [np.float32([3e-9])]
    with pytest.raises(Exception, match="expected"):
        assert_close(found, wanted)
    assert_close(found, wanted, usual=[np.float32([1.0])])


# ---- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_says_which_sizes_were_tried():
    op = operator(plain(lambda w, x: [w @ x]), jnp.matmul)
    assert detail(op, MATRIX, X, promise="other sizes") == (
        "ok",
        "size 4: 3, 1, 32, 127, 65539, 0; size 8: 7, 1, 129, 64, 65539, 0",
    )
    op.def_sharding_rule("m k, k -> m", reduction_factors=("k",))
    assert detail(op, MATRIX, X, promise="other sizes") == (
        "ok",
        "m (4): 3, 1, 32, 127, 65539, 0; k (8): 7, 1, 129, 64, 65539, 0",
    )
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_sharding_rule("... -> ...")
    assert detail(op, MATRIX, promise="other sizes") == (
        "ok",
        "axis 0 of ... (4): 3, 1, 32, 127, 65539, 0; axis 1 of ... (8): 7, 1, 129, 64, 65539, 0",
    )


def test_dimensions_that_are_never_split_stay_near_their_size():
    """Such as the ten words that a random matrix is drawn from: a kernel need not take three."""
    op = operator(plain(lambda w, x: [w @ x]), jnp.matmul)
    op.def_sharding_rule("m k, k -> m", need_replication_factors=("k",))
    found = detail(op, MATRIX, X, promise="other sizes")
    assert found == ("ok", "m (4): 3, 1, 32, 127, 65539, 0; k (8): 7, 0")


def test_results_get_the_shape_that_the_reference_gives():
    op = operator(plain(lambda x: [jnp.concatenate([x, x])]), lambda x: jnp.concatenate([x, x]))
    assert detail(op, X, promise="other sizes") == ("ok", "size 8: 7, 1, 32, 127, 65539, 0")


@pytest.mark.parametrize(
    ("reference", "operands", "options", "words"),
    [
        (lambda x, n: x[:n], (X,), {"n": 8}, "size 8 kept: 8 is in the keyword arguments"),
        (
            lambda p, x: x[p],
            (np.arange(8, dtype=np.int32), X),
            {},
            "sizes not varied: operand 0: sorted integers may be pointers",
        ),
        (lambda x: x @ jnp.ones(8), (X,), {}, "size 8 kept: no other size suits the reference or the integers"),
        (lambda x: x.reshape(2, 4), (X,), {}, "size 8 kept: no other size suits the reference or the integers"),
    ],
)
def test_operators_whose_sizes_are_not_varied(reference, operands, options, words):
    op = operator(lambda *, outs, **kwargs: lambda *xs: [reference(*xs, **kwargs)], reference)
    found = detail(op, *operands, promise="other sizes", **options)
    assert found == ("skipped", words)


def test_a_kernel_may_refuse_a_size_while_it_is_built():
    def generator(*, outs):
        def run(x):
            if x.shape[0] % 4:
                raise ValueError("rows in fours")
            return [2 * x]

        return run

    found = detail(operator(generator, twice), X, promise="other sizes")
    assert found == ("ok", "size 8: 32, 128, 65544, 0; the kernel rejects 7 for size 8 (ValueError: rows in fours)")


def test_sizes_that_cannot_change_at_once_change_one_by_one():
    op = operator(plain(lambda x, y: [x * y.sum()]), lambda x, y: x * y.reshape(4).sum())
    found = detail(op, X, X[:4], promise="other sizes")
    assert found == (
        "ok",
        "size 8: 7, 1, 32, 127, 65539, 0; size 4 kept: no other size suits the reference or the integers",
    )


@pytest.mark.parametrize("agreeing", [2, 3, 8])
def test_unordered_sums_that_agree_by_chance_pass_the_check_of_memory(agreeing):
    class Program:
        calls = 0

        def run(self, operands, kind):
            self.calls += 1
            by_chance = kind if self.calls <= agreeing else 5 * self.calls
            return [np.float32([by_chance])], True

    with pytest.raises(Skipped, match="results differ from call to call"):
        guards.assert_written(Program(), list)


def test_without_reference_and_rule_sizes_are_kept():
    found = detail(operator(plain(lambda x: [2 * x])), X, outs=like(X), promise="other sizes")
    assert found == ("skipped", "sizes not varied: no reference and no sharding rule says which are equal")


@given(st.permutations(range(12)), st.integers(1, 12))
def test_indices_stay_within_arrays_that_are_shorter(indices, size):
    found = sizes.resized(np.array(indices, np.int32), (size,), {12: size})
    assert sorted(found.tolist()) == list(range(size))


def test_integers_that_cannot_stay_valid_are_reported():
    index = np.array([3, 1, 7], np.int32)
    assert sizes.resized(index, (3,), {8: 7}) is None  # two are left, and three different ones are needed
    assert sizes.resized(np.array([3, 1, 3], np.int32), (3,), {8: 7}).tolist() == [3, 1, 3]
    assert sizes.resized(index, (3,), {8: 0}) is None
    assert sizes.resized(index, (0,), {8: 0}).size == 0
    assert sizes.resized(np.int32(5), (), {8: 7}) == 5


# ---- samples of batches --------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 20), min_size=2, max_size=12), st.integers(1, 2))
def test_sorted_integers_are_varied_between_the_same_ends(values, k):
    x = np.sort(np.array(values, np.int32))
    (vary,) = _variations(x)
    found = vary(k)
    assert (np.diff(found) >= 0).all()
    assert (found[0], found[-1], found.shape) == (x[0], x[-1], x.shape)
    assert set(found.tolist()) <= set(x.tolist())


# ---- inputs --------------------------------------------------------------------------------------------------------

needs_pages = pytest.mark.skipif(not memory.pages_remember(), reason="this system does not tell of written pages")


@needs_pages
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int8, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("shape", [(8,), (3, 5000), ()])
def test_a_page_remembers_that_it_was_written(dtype, shape):
    x = np.ones(shape, dtype)
    one = memory.WatchedArray(x)
    assert one.is_watched
    np.testing.assert_array_equal(np.asarray(one.array), x)
    jax.block_until_ready(jax.jit(lambda x: (x, ~x if x.dtype == bool else -x))(one.array))
    assert not one.was_written
    last = ctypes.c_ubyte.from_address(one._address + x.nbytes - 1)
    last.value = last.value
    assert one.was_written


@needs_pages
def test_an_array_of_no_element_is_not_watched():
    assert not memory.WatchedArray(np.zeros((0, 3), np.float32)).is_watched


def test_undone_writes_pass_where_pages_are_not_watched(monkeypatch):
    monkeypatch.setattr(memory, "pages_remember", lambda: False)
    fault = faults_by_data.negates_its_input_and_back()
    assert check(fault.operator, *fault.operands, promises=[fault.promise]).ok


def test_a_system_without_such_pages_is_noticed(monkeypatch):
    ask = memory.pages_remember.__wrapped__
    monkeypatch.setattr(memory.os, "memfd_create", lambda name: (_ for _ in ()).throw(OSError("none here")))
    assert ask() is False
    monkeypatch.delattr(memory.os, "memfd_create")
    assert ask() is False


# ---- calls at once -------------------------------------------------------------------------------------------------


def test_says_that_all_calls_have_the_same_operands():
    op = operator(plain(lambda x: [2 * x]), twice)
    found = detail(op, np.zeros(2, np.int32), promise="calls at once")
    assert found == ("ok", "all calls have the same operands (to vary them pass samples=)")
    assert detail(op, X, promise="calls at once") == ("ok", "")


@pytest.mark.skipif(concurrency._stopper() is None, reason="this system cannot stop a thread so")
def test_a_thread_is_stopped_and_goes_on():
    went_on, end = [], time.monotonic() + 0.05
    thread = threading.Thread(target=lambda: [went_on.append(1) for _ in iter(lambda: time.monotonic() < end, False)])
    thread.start()
    concurrency.stall_while_running([thread], end)
    assert not thread.is_alive()
    assert len(went_on) > 1


def test_a_signal_that_has_a_handler_is_left_alone():
    number = signal.SIGRTMIN + 20
    ask = concurrency._stopper.__wrapped__
    before = signal.getsignal(number)
    signal.signal(number, lambda *_: None)
    try:
        assert ask() is None
    finally:
        signal.signal(number, before if before is not None else signal.SIG_IGN)
        concurrency._stopper.cache_clear()


def test_the_author_s_batching_rule_does_not_stand_in_for_the_kernel():
    fault = faults_by_data.quick_kernel_with_shared_scratch_memory()
    fault.operator.def_batching_rule(lambda args, axes, **params: ([2 * jnp.moveaxis(args[0], axes[0], 0)], [0]))
    report = check(fault.operator, *fault.operands, promises=[fault.promise])
    assert fault.words in report.failures[0].detail


def test_differences_are_of_bits():
    differs = concurrency._differs
    for x in (X, X > 0, X.astype(np.int32), X.astype(np.complex64), X.astype(ml_dtypes.bfloat16)):
        assert not differs(jnp.asarray(x), jnp.asarray(x))
        assert differs(jnp.asarray(x), jnp.asarray(x).at[3].set(jnp.asarray(x)[1]))
    nan = jnp.full(3, jnp.nan)
    assert not differs(nan, nan)


# ---- several devices -----------------------------------------------------------------------------------------------


def test_gradients_of_a_batch_over_devices_need_what_they_are_made_of():
    fault = faults_by_data.derivative_calls_an_operator_that_sees_the_whole_shape()
    promises = ["vjp", "grad of vmap", "sharded jit", fault.promise]
    every = check(fault.operator, *fault.operands, promises=promises)
    assert [row.promise for row in every.failures] == [fault.promise]
    fault.operator.def_sharding_rule("i -> i", need_replication_factors=("i",))
    assert detail(fault.operator, X, promise=fault.promise)[0] == "ok"
