# SPDX-License-Identifier: Apache-2.0
"""Measuring: every call that is paid for is made, and `benchmark` tells the truth about each backend."""

import dataclasses
import io
import math
import re
import sys

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import brainevent
from brainevent import BenchmarkConfig
from brainevent.bench import measure as measuring
from brainevent.bench import progress
from brainevent.bench.chain import Chain
from brainevent.bench.compare import difference, nans_in
from brainevent.bench.measure import Timing, loop_seconds, measure, measured_bandwidth, time_chained
from brainevent.bench.record import failed
from brainevent.bench.tune import Candidate, Trial, try_all


def counting():
    """Return a call whose kernel counts how often it runs, and that counter."""
    counter = np.zeros(1, np.int64)
    address = counter.ctypes.data

    @numba.extending.intrinsic
    def pointer(typing_context, number):
        def build(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return numba.types.CPointer(numba.types.int64)(numba.types.int64), build

    @numba.njit
    def kernel(x, out):
        pointer(address)[0] += 1
        for i in range(x.size):
            out[i] = 2 * x[i]

    def call(x):
        return brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return call, counter


# ---- chained loops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [1, 7, 50])
def test_every_call_of_a_loop_is_made(calls):
    """A pure kernel with the same operands in each turn could be hoisted, or dropped: it is not."""
    call, counter = counting()
    chain = Chain.of(call, (jnp.arange(3.0),), calls)
    state = jax.block_until_ready(chain.run(*chain.state))
    assert counter[0] == calls
    jax.block_until_ready(chain.run(*state))
    assert counter[0] == 2 * calls


def test_a_plain_loop_would_be_hoisted():
    """What the chain prevents does happen: XLA makes the call of a plain loop less often than it says."""
    call, counter = counting()
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, out: call(x), x))
    jax.block_until_ready(loop(jnp.arange(3.0)))
    assert counter[0] < 50


def test_unused_calls_are_not_optimized_away():
    call, counter = counting()
    chain = Chain.of(lambda x: (x[0], call(x)), (jnp.arange(3.0),), 9)
    jax.block_until_ready(chain.run(*chain.state))
    assert counter[0] == 9


def test_calls_without_operands_are_made():
    call, counter = counting()
    chain = Chain.of(lambda: call(jnp.arange(3.0)), (), 9)
    jax.block_until_ready(chain.run(*chain.state))
    assert counter[0] == 9


def test_no_part_of_a_call_is_hoisted():
    """What depends on one operand alone, and is the same in each turn, is computed in each turn."""
    call, counter = counting()
    chain = Chain.of(lambda x, y: call(x).sum() + y, (jnp.arange(3.0), jnp.ones(3)), 20)
    jax.block_until_ready(chain.run(*chain.state))
    assert counter[0] == 20


def test_xla_s_own_operations_are_made_in_every_turn():
    """The compiled loop, not what comes before it, has the sine of an operand that never changes."""
    chain = Chain.of(lambda x, y: jnp.sin(x).sum() + y, (jnp.ones(1000), jnp.ones(3)), 5)
    text = chain.run.lower(*chain.state).compile().as_text()
    sines = [line for line in text.splitlines() if re.search(r"= \S+ sine\(", line)]
    assert sines
    assert all("while/body" in line for line in sines)


@pytest.mark.parametrize(
    "operands",
    [
        (jnp.array([jnp.nan, 1.0, -jnp.inf]),),
        (jnp.array([3, 4], jnp.int8), jnp.array([True, False])),
        (jnp.array([1 + 2j, 3]), jnp.ones((2, 2), jnp.bfloat16)),
        ({"a": jnp.ones(2), "b": (np.float32(3), jnp.zeros((0, 3)))},),
        (jax.random.key(3), 7, "text"),
    ],
    ids=["nan", "integers", "complex", "pytree", "key and statics"],
)
def test_a_loop_passes_operands_unchanged(operands):
    """What ties the calls together alters no operand, and the caller keeps the arrays."""
    arrays = [leaf for leaf in jax.tree.leaves(operands) if hasattr(leaf, "dtype")]
    chain = Chain.of(lambda *operands: [x for x in jax.tree.leaves(operands) if hasattr(x, "dtype")], operands, 5)
    for found in chain.run(*chain.state)[:2]:
        for result, expected in zip(found, arrays, strict=True):
            assert result.dtype == expected.dtype
            assert difference(result, "the operand", jnp.asarray(expected), 0, 0) is None


def test_a_loop_copies_nothing():
    """The state goes around in place: what a run takes is used up, what it returns is new."""
    chain = Chain.of(lambda x: 2 * x, (jnp.ones(1000),), 3)
    arrays, results, _ = chain.run(*chain.state)
    assert chain.state[0][0].is_deleted()
    assert chain.state[1][0].is_deleted()
    assert not arrays[0].is_deleted()
    np.testing.assert_array_equal(results[0], 2 * np.ones(1000))


# ---- functions -------------------------------------------------------------------------------------------------------


def test_benchmark_function_returns_statistics_and_the_first_output():
    calls = []

    def function(x):
        calls.append(x)
        return {"n": len(calls)}

    mean, std, least, most, output = brainevent.benchmark_function(function, 0, 4, data=(3,))
    assert calls == [3] * 5
    assert output == {"n": 1}
    assert 0 < least <= mean <= most
    assert 0 <= std <= most - least


def test_warm_up_goes_on_while_runs_get_faster(monkeypatch):
    durations = iter([9.0, 5.0, 1.02, 1.0, 1.0, 1.05, 1.0, 2.0, 3.0])
    monkeypatch.setattr("brainevent.bench.measure._timed", lambda run, between: next(durations))
    found = measure(lambda: None, n_warmup=1, n_runs=2)
    assert found.samples == (2.0, 3.0)
    assert next(durations, None) is None


def test_n_batch_per_run_is_the_number_of_calls_per_run():
    call, counter = counting()
    found = measure(call, (jnp.ones(3),), n_warmup=0, n_runs=4, n_batch_per_run=25)
    assert counter[0] == 1 + 25 + 4 * 25  # the output, one run that compiles, four that count
    assert len(found.samples) == 4
    assert found.loop > 0


def test_time_per_call_is_that_of_one_call():
    """Batched and single calls of the same work agree, with margins as wide as a busy machine needs."""
    x = jnp.ones((200, 200))
    function = jax.jit(lambda x: x @ x @ x @ x)
    single = measure(function, (x,), n_warmup=3, n_runs=15)
    batched = measure(function, (x,), n_warmup=1, n_runs=15, n_batch_per_run=20)
    assert min(single.samples) / 8 < min(batched.samples) < 8 * min(single.samples)


def test_a_kernel_that_does_nothing_is_not_reported_as_fast():
    """It costs at least a share of the loop around it, which is measured and told."""
    found = measure(lambda x: x[0], (jnp.ones(3),), n_warmup=2, n_runs=20, n_batch_per_run=5000)
    assert found.loop > 0
    assert max(found.samples) > found.loop / 10


def test_time_chained_finds_how_many_calls_a_run_needs():
    call, counter = counting()
    timing = time_chained(call, [jnp.ones(3)], runs=3, seconds=0.03)
    assert 0 < timing.low <= timing.median <= timing.high
    assert counter[0] > 100  # one call of a microsecond would be no run


@pytest.mark.parametrize(
    ("samples", "expected"),
    [([2.0], (2.0, 2.0, 2.0)), ([1.0, 2.0, 3.0, 4.0, 100.0], (3.0, 2.0, 4.0))],
)
def test_timings_are_medians_with_quartiles(samples, expected):
    assert dataclasses.astuple(Timing.of(samples)) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_runs": 0}, "benchmark_function: n_runs must be an integer of at least 1, found 0"),
        ({"n_warmup": -1}, "benchmark_function: n_warmup must be an integer of at least 0, found -1"),
        ({"n_batch_per_run": 1.5}, "benchmark_function: n_batch_per_run must be an integer of at least 1, found 1.5"),
    ],
)
def test_invalid_numbers_of_runs_are_refused(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        brainevent.benchmark_function(lambda: 1, **{"n_warmup": 1, "n_runs": 1, **arguments})


def test_time_chained_refuses_what_is_no_time():
    with pytest.raises(ValueError, match="seconds must be a number above 0, found -1"):
        time_chained(lambda: 1, [], runs=1, seconds=-1)
    with pytest.raises(ValueError, match="time_chained: runs must be an integer of at least 1, found True"):
        time_chained(lambda: 1, [], runs=True, seconds=1)


# ---- caches and bandwidth --------------------------------------------------------------------------------------------


def test_the_largest_cache_is_found(tmp_path):
    for i, size in enumerate(["48K\n", "2048K\n", "32M\n", "?"]):
        (tmp_path / f"index{i}").mkdir()
        (tmp_path / f"index{i}" / "size").write_text(size)
    assert measuring.cache_bytes(tmp_path) == 32 << 20
    assert measuring.cache_bytes(tmp_path / "none") is None


def test_a_cold_run_writes_more_than_the_caches_hold(monkeypatch):
    monkeypatch.setattr(measuring, "cache_bytes", lambda: 1000)
    flush = measuring.Flush.of([jnp.ones(3)])
    assert flush.buffer.nbytes == 2000
    flush.run()
    flush.run()
    np.testing.assert_array_equal(flush.buffer, np.full(2000, 2))


@pytest.mark.thorough
def test_cold_runs_flush_before_each_run(monkeypatch):
    flushed = []
    monkeypatch.setattr(measuring.Flush, "run", lambda flush: flushed.append(flush))
    measure(lambda: 1, n_warmup=0, n_runs=4, cold=True)
    assert len(flushed) == 4
    with pytest.raises(ValueError, match="the second call in a run finds warm caches; leave n_batch_per_run at 1"):
        measure(lambda: 1, n_warmup=0, n_runs=4, n_batch_per_run=2, cold=True)


def test_bandwidth_is_measured_once(monkeypatch):
    monkeypatch.setattr(measuring, "cache_bytes", lambda: 1 << 16)
    measured_bandwidth.cache_clear()
    device = jax.devices()[0]
    found = measured_bandwidth(device)
    assert 1e6 < found < 1e14
    assert measured_bandwidth(device) == found
    measured_bandwidth.cache_clear()


# ---- comparing results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (jnp.ones(2), jnp.ones(2), None),
        (jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]), None),
        (
            jnp.array([1.0, jnp.nan]),
            jnp.ones(2),
            "differs from 'a' in 1 of 2 elements, most at [1]: nan instead of 1.0",
        ),
        (jnp.array(1), jnp.array(3), "differs from 'a' in 1 of 1 elements, most at the only one: 1.0 instead of 3.0"),
        (jnp.ones(2), jnp.ones(3), "differs from 'a' in type: float32[2] instead of float32[3]"),
        ((jnp.ones(2),), jnp.ones(2), "differs from 'a' in structure"),
        (
            (jnp.ones(1), jnp.array([1j])),
            (jnp.ones(1), jnp.array([2j])),
            "differs from 'a' in result 1 in 1 of 1 elements, most at [0]: 1j instead of 2j",
        ),
        (jax.random.key(1), jax.random.key(1), None),
    ],
)
def test_differences_are_reported_in_words(mine, theirs, words):
    assert difference(mine, "a", theirs, 1e-3, 1e-3) == words


def test_nans_are_counted():
    assert nans_in({"a": jnp.array([jnp.nan, 1.0]), "b": jnp.array([complex("nan"), 1])}) == 2


# ---- progress --------------------------------------------------------------------------------------------------------


def test_progress_is_quiet_unless_on_a_terminal(monkeypatch, capsys):
    assert list(progress.shown([1, 2], "what")) == [1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("installed", [True, False])
def test_progress_uses_tqdm_if_it_is_there(monkeypatch, installed):
    class Bars:
        class tqdm:  # noqa: N801 - as the package names it
            def __init__(self, total, bar_format, leave):
                shown.append((total, leave))

            def set_description_str(self, words):
                shown.append(words)

            def refresh(self):
                shown.append(self.n)

            def close(self):
                shown.append("closed")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = []
    monkeypatch.setitem(sys.modules, "tqdm", Bars if installed else None)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    assert list(progress.shown([1, 2], "what")) == [1, 2]
    assert list(progress.shown([1, 2], "what", quiet=True)) == [1, 2]
    assert shown == ([(1, False), "what", 0, 0.5, 1, "closed"] if installed else [])
    assert re.findall(r"what: (\d+) % in", screen.getvalue()) == ([] if installed else ["0", "50", "100"])


def test_nan_is_what_failed_records_have():
    record = failed(BenchmarkConfig("a", ()), "cpu", "b", KeyError("no"))
    assert (record.success, record.error) == (False, "KeyError: 'no'")
    assert all(map(math.isnan, (record.mean_ms, record.std_ms, record.min_ms)))


@pytest.mark.parametrize(
    ("medians", "highs", "order"),
    [
        ([1.1, 1.0, 3.0], [1.2, 1.15, 3.1], "abc"),  # b is faster, but not for sure
        ([1.1, 1.0, 3.0], [1.2, 1.05, 3.1], "bac"),
        ([2.0, None, 1.0], [9.0, None, 1.0], "cab"),
        ([3.0, 1.0, 1.0], [3.0, 1.0, 1.0], "bca"),
    ],
)
def test_of_candidates_that_their_spread_does_not_tell_apart_the_earliest_comes_first(
    monkeypatch, medians, highs, order
):
    trials = {name: Trial(name, "", m, m, high) for name, m, high in zip("abc", medians, highs, strict=True)}
    monkeypatch.setattr("brainevent.bench.tune._trial", lambda candidate, *_: trials[candidate.backend])
    found = try_all([Candidate(name, "", abs) for name in "abc"], (), lambda *_: None, 1.0, "what")
    assert "".join(trial.backend for trial in found) == order


def test_calls_shorter_than_the_loop_are_not_compared(monkeypatch):
    """No kernel takes 0.0791 ns: the measurement says that it is shorter than the loop, which takes 2 ns."""
    times = {"a": 1.5e-9, "b": 7.91e-11, "c": 1e-6}
    trials = {name: Trial(name, "", time, time, time, loop=2e-9) for name, time in times.items()}
    monkeypatch.setattr("brainevent.bench.tune._trial", lambda candidate, *_: trials[candidate.backend])
    found = try_all([Candidate(name, "", abs) for name in "abc"], (), lambda *_: None, 1.0, "what")
    assert "".join(trial.backend for trial in found) == "abc"
    lines = str(brainevent.TuneResult("op", "cpu", "cpu", "float32[3]", tuple(found), True)).splitlines()
    assert [line.split()[1:] for line in lines[3:5]] == [["<", "2", "ns", "below", "the", "loop's", "own", "time"]] * 2
    assert lines[5].split() == ["c", "1", "us", "1", "us", "to", "1", "us"]


def test_the_loop_itself_takes_time():
    assert 1e-11 < loop_seconds(jax.devices("cpu")[0]) < 1e-3
