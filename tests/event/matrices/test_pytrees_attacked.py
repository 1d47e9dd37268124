# SPDX-License-Identifier: Apache-2.0
"""Matrices and events in pytrees where they are most easily broken: copies, threads, tangents, words of bits."""

import copy
import gc
import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import CSR, BinaryArray, BitPackedBinary, CompactBinary
from brainevent.event import marks

RANDOM = np.random.default_rng(0)
DENSE = jnp.asarray(RANDOM.normal(size=(6, 9)) * (RANDOM.random((6, 9)) < 0.4), jnp.float32)
X = jnp.asarray(RANDOM.normal(size=6), jnp.float32)
EVENTS = jnp.arange(70) % 3 == 0
MAKERS = {
    "csr": lambda: CSR.fromdense(DENSE),
    "per_pre": lambda: brainevent.FixedNumPerPre.fromdense(DENSE, num_conn=9),
    "dense": lambda: brainevent.Dense(DENSE),
    "turned": lambda: brainevent.TCSR.fromdense(DENSE).precompute_weight_indices(),
    "drawn": lambda: brainevent.JITCNormalR((0.5, 0.1, 0.4, 1), shape=(6, 9)),
}
makers = pytest.mark.parametrize("name", MAKERS)


def close(found, wanted):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), found, wanted)


def zeros_of(matrix):
    return jax.tree.map(jnp.zeros_like, matrix)


# ---- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr", "drawn"])
@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copied", "pickled"])
def test_weights_and_state_that_were_copied_are_trained_under_jit(name, way):
    matrix = MAKERS[name]()
    step = jax.jit(lambda p, s: jax.tree.map(lambda a, b: a + b, p, s))
    wanted = step(matrix, jax.tree.map(jnp.ones_like, matrix)).data
    together = way((matrix, jax.tree.map(jnp.ones_like, matrix)))
    close(step(*together).data, wanted)
    alone = way(matrix), way(jax.tree.map(jnp.ones_like, matrix))  # as from two files
    close(step(*alone).data, wanted)


def test_a_layout_that_was_copied_is_trained_under_jit():
    matrix = MAKERS["csr"]()
    layout = matrix.delay_layout(jnp.arange(matrix.nse) % 3 + 1, 5)
    found = jax.jit(lambda p, s: jax.tree.map(jnp.add, p, s))(copy.deepcopy(layout), copy.deepcopy(layout))
    close(found.original_data(), 2 * layout.original_data())


# ---- numbers of structures ------------------------------------------------------------------------------------------


def test_threads_give_different_structures_different_numbers():
    before, found = sys.getswitchinterval(), []
    sys.setswitchinterval(1e-6)

    def made(n):
        return CSR((jnp.ones(2), jnp.array([n % 9, n // 9]), jnp.array([0, 2])), shape=(1, 20))

    def work(seed):
        for turn in range(40):
            one, other = (made(2 * turn + seed + n) for n in (0, 40))
            keep = zeros_of(one), zeros_of(other)
            numbers = [marks.mark_of((m.indices, m.indptr)).number for m in (one, other)]
            found.append((numbers[0] is not None, numbers[0] != numbers[1], len(keep)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 1)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert found == [(True, True, 2)] * 80


def test_structures_that_are_gone_leave_nothing():
    """Before, each size of indices left an entry for the time of the process."""

    def make(size):
        return zeros_of(CSR((jnp.ones(size), jnp.zeros(size, int), jnp.array([0, size])), shape=(1, 9)))

    gc.collect()
    before = len(marks._marks), len(marks._numbered)
    for size in range(100, 140):
        make(size)
    gc.collect()
    assert len(marks._marks) <= before[0]
    assert len(marks._numbered) <= 2 * before[0] + 2


@pytest.mark.parametrize("inner", [lambda m: m, jax.jit(lambda m: jax.tree.map(lambda a: 2 * a, m))])
def test_a_constant_of_a_program_is_never_taken_for_a_later_structure(inner):
    held = [CSR.random((6, 9), num_per_row=3, seed=0)]
    zeros_of(held[0])
    program = jax.jit(lambda x: (inner(held[0]), x))
    wanted = np.asarray(program(1.0)[0].indices)
    held.clear()
    gc.collect()
    later = [CSR.random((6, 9), num_per_row=3, seed=seed) for seed in (1, 2, 3)]
    keep = [zeros_of(m) for m in later]
    np.testing.assert_array_equal(program(1.0)[0].indices, wanted)
    assert len(keep) == 3


def test_a_program_that_changes_the_structure_returns_the_new_one():
    matrix = CSR.random((6, 9), num_per_row=3, seed=0)
    zeros_of(matrix)
    moved = lambda m: CSR((m.data, (m.indices + 1) % 9, m.indptr), shape=m.shape)
    program = jax.jit(lambda m: (m.T, moved(m), m.tocoo(), m))
    for _ in range(2):
        turned, other, listed, same = program(matrix)
        np.testing.assert_array_equal(other.indices, (matrix.indices + 1) % 9)
        close((turned.todense(), listed.todense()), (matrix.todense().T, matrix.todense()))
        assert same.indices is matrix.indices


def test_one_program_serves_all_matrices_of_a_size():
    program = jax.jit(lambda m, more: X @ m + X @ more["a"][0])
    for seed in range(4):
        one, other = (CSR.random((6, 9), num_per_row=3, seed=seed + n) for n in (0, 10))
        close(program(one, {"a": (other,)}), X @ one.todense() + X @ other.todense())
    assert program._cache_size() == 1


# ---- tangents -------------------------------------------------------------------------------------------------------


def product(m):
    return jnp.tanh(X @ m)


def loss(m):
    return (product(m) ** 2).sum()


@makers
def test_tangents_are_matrices(name):
    matrix = MAKERS[name]()
    ones = jax.tree.map(jnp.ones_like, matrix)
    by_data = lambda f: lambda data: f(matrix.with_data(data))
    wanted = jax.jvp(by_data(product), (matrix.data,), (ones.data,))[1]
    close(jax.jvp(product, (matrix,), (ones,))[1], wanted)
    close(jax.jit(lambda m, t: jax.jvp(product, (m,), (t,))[1])(matrix, ones), wanted)
    close(jax.linearize(product, matrix)[1](ones), wanted)
    slope = jax.grad(loss)(matrix)
    close(jax.jvp(loss, (matrix,), (slope,))[1], sum((x**2).sum() for x in jax.tree.leaves(slope)))
    close(jax.vjp(loss, matrix)[1](1.0)[0].data, slope.data)
    twice = jax.jvp(jax.grad(loss), (matrix,), (ones,))[1]
    close(twice.data, jax.jvp(jax.grad(by_data(loss)), (matrix.data,), (ones.data,))[1])


@pytest.mark.parametrize("name", ["csr", "drawn"])
def test_jacobians_are_matrices(name):
    matrix = MAKERS[name]()
    by_data = lambda data: product(matrix.with_data(data))
    wanted = jax.jacrev(by_data)(matrix.data)
    close(jax.jacfwd(product)(matrix).data, wanted)
    close(jax.jacrev(product)(matrix).data, wanted)
    close(
        jax.tree.leaves(jax.hessian(loss)(matrix)),
        jax.tree.leaves(jax.hessian(lambda d: loss(matrix.with_data(d)))(matrix.data)),
    )


def test_tangents_of_another_structure_are_refused():
    matrix, other = MAKERS["csr"](), CSR.fromdense(DENSE[:, ::-1])
    for wrap in (lambda f: f, jax.jit):
        with pytest.raises(TypeError, match="must have the same tree structure"):
            wrap(lambda m, t: jax.jvp(product, (m,), (t,)))(matrix, other)


@makers
def test_matrices_as_cotangents_are_refused(name):
    matrix = MAKERS[name]()
    back = jax.vjp(lambda m: 2 * m, matrix)[1]
    with pytest.raises(TypeError, match="let the function return its data, and pass the cotangent of those"):
        back(matrix)


# ---- events ---------------------------------------------------------------------------------------------------------


WIDE = jnp.eye(70)


@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("make", [BitPackedBinary, CompactBinary.from_array, CompactBinary.compacy_only_vector])
def test_events_whose_words_became_floats_are_refused(make, mode):
    changed = jax.tree.map(lambda a: a * 0.9, make(EVENTS))
    for matrix in (CSR.fromdense(WIDE), WIDE):
        for each in (lambda e, m: e @ m, lambda e, m: m @ e):
            with pytest.raises(TypeError, match="a function over leaves"):
                mode(each)(changed, matrix)


def test_too_few_words_of_bits_are_refused():
    short = jax.tree.map(lambda a: a[:1], BitPackedBinary(EVENTS))
    with pytest.raises(brainevent.ShapeError, match="1 words are given along an axis of 70 events"):
        short @ WIDE


@pytest.mark.parametrize(("shift", "count"), [(-5, 24), (1000, 70), (0, 2**31 - 1), (0, -7)])
def test_listed_events_out_of_range_are_ignored(shift, count):
    events = CompactBinary.compacy_only_vector(EVENTS)
    changed = CompactBinary.from_packed(events.packed, events.active_ids + shift, count, n_orig=70)
    given = np.flatnonzero(EVENTS) + shift
    wanted = np.zeros(70)
    wanted[given[(given >= 0) & (given < 70)][: max(count, 0)]] = 1
    if shift < 0:
        wanted[65] = 0  # the places after the 24 listed neurons hold 70 - 5, and are not counted
    for matrix in (CSR.fromdense(WIDE), WIDE):
        close((changed @ matrix, jax.jit(lambda e, m: m @ e)(changed, matrix)), (wanted, wanted))


@pytest.mark.parametrize(
    "make", [BinaryArray, BitPackedBinary, CompactBinary.from_array, CompactBinary.compacy_only_vector]
)
def test_events_of_a_batch_are_multiplied(make):
    batch = jnp.stack([EVENTS, jnp.arange(70) % 2 == 0])
    matrix = CSR.fromdense(WIDE)
    close(jax.vmap(lambda e: e @ matrix)(jax.vmap(make)(batch)), batch)


def test_the_package_loads_without_flatbuffers():
    code = "import sys; sys.modules['flatbuffers'] = None; import brainevent; print(brainevent.CSR.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "CSR\n", done.stderr
