# SPDX-License-Identifier: Apache-2.0
"""What does not fit is told before work begins: how much it would take, and what there is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import brainevent
from brainevent import COO, CSC, CSR, Dense, FixedNumPerPost, FixedNumPerPre, Spikes
from brainevent.event import room

HUGE = (2**20, 2**20)
FEW = {"num_per_row": 1, "seed": 1}


@pytest.fixture
def small_machine(monkeypatch):
    """Let the machine have a gigabyte left."""
    monkeypatch.setattr(room, "_available", lambda: 10**9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CSR.random(HUGE, prob=1.0),
         r"random: .* 1099511627776 connections of 1048576 rows would take 4.4 TB, but the host has 1 GB"),
        (lambda: COO.random(HUGE, prob=1), r"random: indices of 1099511627776 connections"),
        (lambda: CSC.random(HUGE, prob=np.float32(0.5)), r"random: indices of 549755813888 connections"),
        (lambda: CSR.random(HUGE, num_per_row=2**20), r"random: .* would take 4.4 TB"),
        (lambda: CSR.random(HUGE, num_per_column=2**19), r"random: .* would take 2.2 TB"),
        (lambda: CSR.random((2**60, 4), prob=0.0), r"random: indices of 0 connections of 1152921504606846976 rows"),
        (lambda: FixedNumPerPre.random(HUGE, 2**10), r"random: indices of 1073741824 connections would take 4.29 GB"),
        (lambda: FixedNumPerPost.random(HUGE, 2**19), r"random: indices of 549755813888 connections would take 2.2 TB"),
        (lambda: Dense(2.0, shape=HUGE),
         r"Dense: an array of shape \(1048576, 1048576\), 1099511627776 elements, would take 4.4 TB, but the"),
        (lambda: Dense(scipy.sparse.coo_array(HUGE)), r"Dense: an array of shape .* would take 8.8 TB"),
        (lambda: FixedNumPerPre.fromsparse(CSR.fromdense(jnp.eye(3)), num_conn=10**12),
         r"FixedNumPerPre: 3 x 1000000000000 elements would take 24 TB"),
        (lambda: CSR.fromdense(jnp.eye(3), nse=10**12), r"CSR.fromdense: nse=1000000000000 elements would take 20 TB"),
        (lambda: COO((1.0, [0], [0]), shape=(2**31 - 1, 3)).tocsr(),
         r"coo2csr: pointers of 2147483647 slices, and 1 indices, would take 8.59 GB"),
        (lambda: Spikes(jnp.zeros((30_000, 5000), jnp.uint8), 40_000, 0.1).todense(), r"Spikes.todense: .* 1.2 GB"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported_at_once(call, words, small_machine):
    with pytest.raises(MemoryError, match=words):
        call()


def test_a_large_matrix_that_fits_is_not_dense(small_machine):
    matrix = CSR.random((2**17, 2**17), **FEW)
    for call in (matrix.todense, lambda: matrix + 1, lambda: matrix.T.todense(), lambda: matrix.tocoo().todense()):
        with pytest.raises(MemoryError, match=r"C\w\w.todense: an array of shape \(131072, 131072\), 17179869184 elem"):
            call()
    with pytest.raises(MemoryError, match=r"csr_slice_rows: an array of shape \(131072, 131072\)"):
        matrix[:]
    assert jax.eval_shape(lambda matrix: matrix.todense(), matrix).shape == matrix.shape  # for another machine
    assert matrix[3].sum() == 1


def test_pointers_that_need_int64_are_reported_before_they_are_drawn(monkeypatch):
    monkeypatch.setattr(room, "_available", lambda: 10**15)
    with pytest.raises(ValueError, match=r"random: 1099511627776 connections are 2147483648 or more, which"):
        CSR.random(HUGE, prob=1.0)


@pytest.mark.parametrize("prob", ["0.1", None, [0.1, 0.2], np.ones(3), -1e-9, float("inf")])
def test_what_is_no_probability(prob):
    with pytest.raises((ValueError, TypeError), match=r"random: prob is|CSR.random: pass one of"):
        CSR.random((2, 3), prob=prob)


@pytest.mark.parametrize("shape", [(-1, 3), (3, -1), (2.5, 3), (float("nan"), 3), (1, 2, 3)])
def test_invalid_shapes_are_refused(shape):
    for call in (lambda: CSR.random(shape, prob=0.1), lambda: FixedNumPerPost.random(shape, 1)):
        with pytest.raises((ValueError, TypeError), match=r"random: shape is .*; pass two"):
            call()


def test_a_negative_number_of_connections_for_no_rows():
    with pytest.raises(ValueError, match=r"FixedNumPerPre: num_conn is -1, but there are up to 0 elements"):
        FixedNumPerPre.fromsparse(CSR(jnp.ones(0), [], [0], shape=(0, 3)), num_conn=-1)


# ---- how much there is


def test_memory_is_read_where_it_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(room, "_GROUP", tmp_path)
    monkeypatch.setattr(room, "_OLD_GROUP", (tmp_path / "none", "most", "used"))
    assert room._available() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   3000 kB\n")
    assert room._available() == 3_072_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("500\n")
    assert room._available() == 3_072_000
    (tmp_path / "memory.max").write_text("800\n")
    assert room._available() == 300
    (tmp_path / "memory.stat").write_text("anon 400\ninactive_file 90\nslab_reclaimable 7\n")
    assert room._available() == 397  # what files hold of memory is given back
    old = tmp_path / "old"
    old.mkdir()
    monkeypatch.setattr(room, "_OLD_GROUP", (old, "memory.limit_in_bytes", "memory.usage_in_bytes"))
    (old / "memory.limit_in_bytes").write_text("700\n")
    (old / "memory.usage_in_bytes").write_text("600\n")
    assert room._available() == 100


def test_a_device_of_its_own_memory_is_asked(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 10**9}

        def __str__(self):
            return "cuda:0"

    monkeypatch.setattr(room.jax, "local_devices", lambda backend=None: [Device()])
    monkeypatch.setattr(room, "_available", lambda: 10**8)
    words = r"f: an array would take 2 GB, but cuda:0 has 1 GB of memory in all; ask for less"
    with pytest.raises(MemoryError, match=words):
        room.check_room("f", "an array", 2 * 10**9)
    room.check_room("f", "an array", 5 * 10**8)
    with pytest.raises(MemoryError, match="the host has 100 MB of memory left"):
        room.check_room("f", "an array", 5 * 10**8, on_host=True)


def test_nothing_is_refused_where_free_memory_is_unknown(monkeypatch):
    monkeypatch.setattr(room, "_available", lambda: 10**6)
    with pytest.raises(MemoryError, match="f: an array"):
        room.check_room("f", "an array", 10**18)
    monkeypatch.setattr(room, "_available", lambda: None)
    assert room.check_room("f", "an array", 10**18) is None


@given(st.integers(0, 10**30))
def test_bytes_in_words(size):
    number, unit = room.in_bytes(size).split()
    power = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB").index(unit)
    assert abs(float(number) * 1000**power - size) <= size * 0.006


# ---- runs


def test_long_runs_report_what_they_would_keep(small_machine):
    words = r"record: 2000000000 steps of 3 neurons would take 10 GB, but the host has 1 GB of memory left"
    with pytest.raises(MemoryError, match=words):
        brainevent.record(lambda s, i: (s, jnp.zeros(3, bool)), 0, 2 * 10**9, dt=0.1)
