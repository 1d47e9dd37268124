# SPDX-License-Identifier: Apache-2.0
"""`config.debug_indices`: what a trace cannot look at is reported when the program runs, and costs nothing else."""

import re
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from meshes import cut, mesh
from platforms import by_platform, every_backend
from programs import program_environment, run_program

import brainevent
from brainevent import COO, CSC, CSR, FixedNumPerPost, FixedNumPerPre, config

SHAPE = (3, 3)
RIGHT = {  # of each format: what its arrays are called, and hold; any is wrong where 7 stands in its last place
    "csr": {"indices": [0, 2, 1, 0], "indptr": [0, 2, 3, 4]},
    "coo": {"row": [0, 0, 1, 2], "col": [0, 2, 1, 0]},
    "fcn": {"indices": [[0, 2], [1, 0], [2, 1]]},
}
MATRICES = {"CSR": "csr", "CSC": "csr", "COO": "coo", "FixedNumPerPre": "fcn", "FixedNumPerPost": "fcn"}
WRONG = [(name, array) for name, arrays in RIGHT.items() for array in arrays if array != "indptr"]
X = jnp.array([1.0, 0.0, 2.0], jnp.float32)
HINT = re.escape(" (reported by config.debug_indices; without it, it is ignored)")


@pytest.fixture
def debugging():
    config.set_backend("cpu", "reference")  # which needs no compiler; what is reported is the same
    with config.debug_indices():
        yield


@pytest.fixture(scope="module", autouse=True)
def devices_go_on():
    """Let each device run one program more: JAX holds how the last one with a callback ended, and waits for it."""
    yield
    m = mesh(d=len(jax.devices()))
    call = jax.shard_map(lambda x: jax.debug.callback(len, x), mesh=m, in_specs=P("d"), out_specs=P())
    jax.jit(call)(jnp.zeros(len(jax.devices())))
    jax.effects_barrier()


@pytest.fixture(autouse=True)
def nothing_is_left_on():
    yield
    assert not config.is_debugging_indices()


def arrays_of(name, wrong=None, value=7):
    """Return the arrays of a format, of which one may be wrong in its last place."""
    arrays = {key: np.array(held, np.int32) for key, held in RIGHT[name].items()}
    if wrong is not None:
        arrays[wrong].flat[-1] = value
    return tuple(map(jnp.asarray, arrays.values()))


def place(name, array):
    return "2, 1" if name == "fcn" else "3"


def product(name, event=True, **options):
    """Return a function of a format's arrays and x."""
    call = getattr(brainevent, f"{'binary_' * event}{name}mv")
    return lambda *operands: call(jnp.ones(1, jnp.float32), *operands, shape=SHAPE, **options)


def raises(words):
    return pytest.raises(jax.errors.JaxRuntimeError, match=words)


def run(function, *operands):
    return jax.block_until_ready(function(*operands))


# ---- what is reported


@pytest.mark.covering(strength=1, most=5)
@pytest.mark.parametrize(("name", "array"), WRONG)
@every_backend
def test_a_wrong_index_is_named_with_its_place(name, array, backend, debugging):
    call = jax.jit(product(name, backend=backend))
    words = rf"binary_{name}mv: {array}\[{place(name, array)}\] is 7, out of range for a size of 3; pass indices"
    with raises(words + " from 0 to 2" + HINT):
        run(call, *arrays_of(name, array), X)
    assert run(call, *arrays_of(name), X).shape == (3,)


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    ("pointers", "words"),
    [
        ([0, 3, 2, 4], r"csrmv: indptr\[2\] is 2, and the one before is 3; pointers must not decrease"),
        ([1, 2, 3, 4], r"csrmv: indptr\[0\] is 1; it must be 0, where the first row begins"),
        ([0, 2, 3, 3], r"csrmv: indptr\[3\] is 3; the last pointer must be 4, the number of stored elements"),
        ([0, 2, 3, 2**31 - 1], r"csrmv: indptr\[3\] is 2147483647; the last pointer must be 4"),
    ],
)
def test_wrong_row_pointers_are_named(pointers, words, debugging):
    indices, _ = arrays_of("csr")
    with raises(words):
        run(jax.jit(product("csr", event=False)), indices, jnp.array(pointers), X)


@pytest.mark.parametrize("value", [-1, -(2**31), 4, 2**31 - 1])
def test_a_wrong_permutation_is_named(value, debugging):
    indices, indptr = arrays_of("csr")
    call = jax.jit(lambda perm: brainevent.csrmv_indexed(jnp.ones(4), indices, indptr, perm, X, shape=SHAPE))
    run(call, jnp.array([0, 3, 2, 1]))
    with raises(rf"csrmv_indexed: perm\[1\] is {value}, out of range for a size of 4"):
        run(call, jnp.array([0, value, 2, 1]))


@given(wrong=st.lists(st.sampled_from([-1, 0, 1, 2, 3, 99]), min_size=4, max_size=4))
def test_the_first_wrong_one_is_reported(wrong):
    call = jax.jit(product("coo"))
    places = [i for i, index in enumerate(wrong) if not 0 <= index < 3]
    with config.debug_indices():
        if not places:
            run(call, *arrays_of("coo")[:1], jnp.array(wrong), X)
            return
        with raises(rf"col\[{places[0]}\] is {wrong[places[0]]}, out of range"):
            run(call, *arrays_of("coo")[:1], jnp.array(wrong), X)


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("promised", [False, True])
def test_matrices_are_looked_at_whatever_they_promise(kind, promised, debugging):
    name = MATRICES[kind]
    array = next(iter(RIGHT[name]))
    how = {"shape": SHAPE, "check_structure": False, "indices_within": promised}
    matrix = getattr(brainevent, kind)((1.0, *arrays_of(name, array)), **how)
    for use, words in (
        (lambda m: m @ X, rf"\w+mv: {array}\[{place(name, array)}\] is 7, out of range"),
        (lambda m: (X > 0) @ m, rf"binary_\w+mv: {array}\[{place(name, array)}\] is 7"),
        (lambda m: m.todense(), rf"{kind}.todense: {array}\[{place(name, array)}\] is 7"),
    ):
        with raises(words):
            run(jax.jit(use), matrix)
        with pytest.raises(ValueError, match=rf"{array} holds 7, out of range for a size of 3"):
            use(matrix)  # outside of a trace it is seen at once


def test_slices_conversions_and_sums_of_matrices_are_checked_too(debugging):
    wrong = CSR((1.0, *arrays_of("csr", "indices")), shape=SHAPE, check_structure=False)
    coo = COO((1.0, *arrays_of("coo", "row")), shape=SHAPE, check_structure=False)
    for matrix, use, words in (
        (wrong, lambda m: m[0], r"csr_slice_rows: indices\[3\]"),
        (wrong, lambda m: m.tocsc().indices, r"csr_to_csc_index: indices\[3\]"),
        (wrong, lambda m: m.tocoo().row, r"CSR.tocoo: indices\[3\]"),
        (wrong, lambda m: m.sum(), r"CSR.sum: indices\[3\]"),
        (wrong, lambda m: (m * jnp.ones(SHAPE)).data, r"CSR \* array: indices\[3\]"),
        (wrong, lambda m: m.diag_add(1.0).data, r"CSR.diag_add: indices\[3\]"),
        (coo, lambda m: m.tocsr().indices, r"coo2csr: row_ids\[3\]"),
    ):
        with raises(words):
            run(jax.jit(use), matrix)


def test_a_matrix_that_is_made_in_a_trace_is_looked_at(debugging):
    make = jax.jit(lambda indices, indptr: X @ CSC(1.0, indices, indptr, shape=SHAPE))
    with raises(r"CSC: indices\[3\] is 7, out of range|csrmv: indices\[3\] is 7, out of range"):
        run(make, *arrays_of("csr", "indices"))


# ---- under every transformation


def of_indices(indices):
    return product("fcn", event=False)(indices, X)


GOOD, BAD = arrays_of("fcn")[0], arrays_of("fcn", "indices")[0]
FOUND = r"fcnmv: indices\[2, 1\] is 7, out of range for a size of 3; pass indices from 0 to 2" + HINT
TRANSFORMED = {
    "grad": lambda i: jax.grad(lambda w: brainevent.fcnmv(w, i, X, shape=SHAPE).sum())(jnp.ones(1)),
    "jvp": lambda i: jax.jvp(lambda x: brainevent.fcnmv(jnp.ones(1, jnp.float32), i, x, shape=SHAPE), (X,), (X,)),
    "linear_transpose": lambda i: jax.linear_transpose(lambda x: product("fcn", event=False)(i, x), X)(X),
    "checkpoint": lambda i: jax.grad(jax.checkpoint(lambda x: product("fcn", event=False)(i, x).sum()))(X),
    "scan": lambda i: jax.lax.scan(lambda x, _: (of_indices(i) + x, None), X, length=2)[0],
    "cond": lambda i: jax.lax.cond(i[0, 0] == 0, of_indices, lambda i: X, i),
    "while": lambda i: jax.lax.fori_loop(0, 2, lambda _, x: x + of_indices(i), X),
    "vmap of x": lambda i: jax.vmap(lambda x: product("fcn", event=False)(i, x))(jnp.stack([X, X])),
}


@by_platform
@pytest.mark.parametrize("how", TRANSFORMED)
def test_under_transformations(how, debugging):
    call = jax.jit(TRANSFORMED[how])
    run(call, GOOD)
    with raises(FOUND):
        run(call, BAD)


def test_branches_that_do_not_run_report_nothing(debugging):
    call = jax.jit(lambda taken, i: jax.lax.cond(taken, of_indices, lambda i: X, i))
    np.testing.assert_array_equal(run(call, False, BAD), X)
    with raises(FOUND):
        run(call, True, BAD)


@pytest.mark.parametrize("jit", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_in_a_batch_the_element_is_named(jit, debugging):
    batch = jnp.stack([jnp.stack([GOOD, GOOD, GOOD]), jnp.stack([GOOD, BAD, GOOD])])
    call = jit(jax.vmap(jax.vmap(of_indices)))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=FOUND + r"\s+in element \[1, 1\] of the batch"):
        run(call, batch)
    assert run(call, batch[:1]).shape == (1, 3, 3)
    assert run(call, batch[:, :0]).shape == (2, 0, 3)


def test_a_batch_of_row_pointers(debugging):
    indices, indptr = arrays_of("csr")
    call = jax.jit(jax.vmap(lambda indptr: product("csr")(indices, indptr, X), in_axes=1))
    run(call, jnp.stack([indptr] * 2, 1))
    with raises(
        r"indptr\[1\] is 9; the last|indptr\[2\] is 3, and the one before is 9(.|\n)*in element \[1\] of the batch"
    ):
        run(call, jnp.stack([indptr, indptr.at[1].set(9)], 1))


# ---- over several devices


every_mesh = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])


@every_mesh
def test_right_operands_that_are_cut_pass(kind, debugging):
    m, x = mesh(kind), jnp.ones(8, bool)
    call = jax.jit(lambda i, p, x: brainevent.binary_csrmv(jnp.ones(1), i, p, x, shape=(8, 8), transpose=True))
    assert "callback" in call.lower(cut(m, jnp.arange(8), "d"), cut(m, jnp.arange(9)), cut(m, x)).as_text()
    found = call(cut(m, jnp.arange(8), "d"), cut(m, jnp.arange(9)), cut(m, x))
    np.testing.assert_array_equal(found, np.ones(8))


@pytest.mark.thorough
def test_wrong_sharded_operands_are_reported_even_if_xla_ends_the_process():
    """A device that fails leaves those alone that wait for it to sum, and XLA may give up."""
    source = """
        import jax, jax.numpy as jnp, brainevent
        from meshes import cut, mesh

        m = mesh()
        call = jax.jit(lambda i, p, x: brainevent.binary_csrmv(jnp.ones(1), i, p, x, shape=(8, 8), transpose=True))
        wrong = cut(m, jnp.arange(8).at[5].set(77), "d"), cut(m, jnp.arange(9)), cut(m, jnp.ones(8, bool))
        jax.block_until_ready(call(*wrong))
    """
    flags = "--xla_force_host_platform_device_count=4 --xla_cpu_collective_call_terminate_timeout_seconds=2"
    environment = program_environment(XLA_FLAGS=flags, BRAINEVENT_DEBUG_INDICES="1")
    command = [sys.executable, "-c", textwrap.dedent(source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "binary_csrmv: indices[5] is 77, out of range for a size of 8" in done.stderr


@every_mesh
@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("axes", [{"d": 4}, {"d": 2, "e": 2}], ids=["all axes", "one of two"])
def test_in_shard_map_each_device_reports_its_own(kind, axes, debugging):
    m = mesh(kind, **axes)
    local = lambda i, x: product("coo")(i, i, x)[None]
    call = jax.jit(jax.shard_map(local, mesh=m, axis_names={"d"}, in_specs=(P("d"), P()), out_specs=P("d")))
    indices = jnp.array([0, 1, 2, 0, 1, 2, 0, 1])
    assert run(call, cut(m, indices, "d"), cut(m, X)).shape == (axes["d"], 3)
    if axes == {"d": 4}:  # else XLA sends something between devices
        with raises(r"binary_coomv: row\[1\] is 55|binary_coomv: col\[1\] is 55"):
            run(call, cut(m, indices.at[7].set(55), "d"), cut(m, X))


# ---- on and off


def test_programs_are_the_same_while_it_is_off():
    call = jax.jit(product("csr"))
    before = call.lower(*arrays_of("csr"), X).as_text()
    with config.debug_indices():
        assert "callback" in call.lower(*arrays_of("csr"), X).as_text()
    assert call.lower(*arrays_of("csr"), X).as_text() == before
    assert "callback" not in before


def test_jitted_functions_follow_and_find_what_was_compiled():
    traces, wrong = [], arrays_of("csr", "indices")

    @jax.jit
    def call(*arrays):
        traces.append(config.is_debugging_indices())
        return product("csr")(*arrays, X)

    for _ in range(2):
        run(call, *wrong)
        config.debug_indices()
        with raises("binary_csrmv: indices"):
            run(call, *wrong)
        config.debug_indices(False)
    with config.debug_indices(), raises("binary_csrmv: indices"):
        run(call, *wrong)
    run(call, *wrong)
    assert traces == [False, True, True]  # the block's own, once


def test_a_block_is_of_one_thread_and_gives_back_what_was():
    seen = []

    def ask():
        thread = threading.Thread(target=lambda: seen.append(config.is_debugging_indices()))
        thread.start()
        thread.join(30)

    with config.debug_indices():
        ask()
        with config.debug_indices(False):
            assert not config.is_debugging_indices()
        assert config.is_debugging_indices()
    config.debug_indices()
    ask()
    with config.debug_indices(False):
        assert not config.is_debugging_indices()
        ask()
    assert config.is_debugging_indices()
    config.debug_indices(False)
    assert seen == [False, True, True]


def test_blocks_that_overlap_leave_nothing_on():
    first, second = config.debug_indices(), config.debug_indices()
    with first, second:
        assert config.is_debugging_indices()
    assert not config.is_debugging_indices()
    for _ in range(200):  # as in a loop of a notebook
        config.debug_indices()
    config.debug_indices(False)
    assert not config.is_debugging_indices()


def test_a_wrong_switch_is_reported():
    with pytest.raises(TypeError, match=r"config\.debug_indices: on must be True or False, found 'yes'"):
        config.debug_indices("yes")


def test_the_environment_switches_it():
    source = """
        import jax, jax.numpy as jnp, brainevent
        call = jax.jit(lambda i: brainevent.coomv(jnp.ones(1), i, i, jnp.ones(3), shape=(3, 3)))
        print(brainevent.config.is_debugging_indices())
        try:
            call(jnp.array([3])).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            print("row[0] is 3" in str(error) or "col[0] is 3" in str(error))
    """
    assert run_program(source, BRAINEVENT_DEBUG_INDICES="1").split() == ["True", "True"]


@pytest.mark.parametrize("kind", [FixedNumPerPre, FixedNumPerPost])
def test_derivatives_of_matrices_are_looked_at(kind, debugging):
    loss = lambda data, indices, x: (x @ kind((data, indices), shape=SHAPE, check_structure=False)).sum()
    with raises(r"mv: indices\[2, 1\] is 7"):
        run(jax.jit(jax.grad(loss)), jnp.ones((3, 2)), BAD, X)
    assert run(jax.jit(jax.grad(loss)), jnp.ones((3, 2)), GOOD, X).shape == (3, 2)
