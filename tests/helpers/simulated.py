# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA in Numba's simulator: tests that `test_emulation.py` runs in a process of their own."""

import dataclasses
import math
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from numba import cuda

import brainevent
from brainevent import numba_cuda_callable, numba_cuda_kernel
from brainevent.backends.numba_cuda import simulated as blocks
from brainevent.errors import KernelArgumentError

N = 64
X = jnp.arange(1.0, N + 1)
VECTOR = jax.ShapeDtypeStruct((N,), jnp.float32)


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


@cuda.jit
def leak(v, decay, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = decay[0] * v[i]


@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


leaky = numba_cuda_kernel(leak, outs=VECTOR, launch_dims=N)


# ---- through an operator --------------------------------------------------------------------------------------------


@pytest.fixture
def operator(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("simulated"))
    operator.def_numba_cuda_kernel(lambda *, outs: numba_cuda_kernel(leak, outs=outs[0], launch_dims=outs[0].shape))
    operator.def_reference(lambda v, decay: decay[0] * v)
    operator.def_sharding_rule("n, k -> n", need_replication_factors=("k",))
    return operator


def test_an_operator_keeps_every_promise(operator):
    report = brainevent.check(operator, X, jnp.array([0.5]))
    assert report.ok, str(report)
    assert {row.backend for row in report.rows} == {"numba_cuda"}
    found = {row.promise: (row.status, row.detail) for row in report.rows}
    assert found["sharded jit"][0] == "ok"
    assert found["export"] == ("skipped", "it is emulated here, and exported for another platform")
    assert found["all"] == ("skipped", "it is for gpu; this process runs on cpu, where it is emulated")


def test_derivatives_come_from_the_reference(operator):
    slope = jax.grad(lambda v: (operator(v, jnp.array([0.5])) ** 2).sum())(X)
    np.testing.assert_allclose(slope, 0.5 * X)


# ---- kernels --------------------------------------------------------------------------------------------------------


def test_batches_of_any_depth():
    rows = jnp.arange(2.0 * 3 * N).reshape(2, 3, N)
    decay = jnp.array([[0.5], [2.0], [3.0]])
    found = jax.jit(jax.vmap(jax.vmap(leaky), (0, None), 1))(rows, decay)
    np.testing.assert_array_equal(found, (rows * decay).swapaxes(0, 1))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"]
)
def test_dtypes(dtype):
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    x = jnp.arange(7).astype(dtype)
    found = numba_cuda_kernel(copy, outs=x, launch_dims=7)(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("dims", [(24,), (4, 6), (2, 3, 4)])
def test_each_thread_of_one_to_three_axes_runs_once(dims):
    @cuda.jit
    def count(out):
        at = cuda.grid(3)
        if at[0] < out.shape[0] and at[1] < out.shape[1] and at[2] < out.shape[2]:
            cuda.atomic.add(out, at, 1)

    shape = (*dims, 1, 1)[:3]
    found = numba_cuda_kernel(count, outs=like(*shape), launch_dims=dims, input_output_aliases={})()
    assert found.shape == shape
    alias = numba_cuda_kernel(increment, outs=like(*shape), launch_dims=dims, input_output_aliases={0: 0})
    np.testing.assert_array_equal(alias(jnp.zeros(shape)), np.ones(shape))


@cuda.jit
def increment(x, out):
    i, j, k = cuda.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        cuda.atomic.add(out, (i, j, k), 1)


def test_arrays_without_axes_and_without_elements():
    @cuda.jit
    def double(x, out):
        out[()] = 2 * x[()]

    assert numba_cuda_kernel(double, outs=like(), grid=1, block=1)(jnp.float32(3)) == 6
    assert numba_cuda_kernel(square, outs=like(0), grid=1, block=4)(jnp.zeros(0)).shape == (0,)


def test_types_of_outputs_are_those_of_the_moment_of_the_call():
    call = numba_cuda_kernel(square, outs=jax.ShapeDtypeStruct((N,), np.float64), launch_dims=N)
    for x64 in (False, True):
        with jax.enable_x64(x64):
            found = call(np.arange(float(N)))
            assert found.dtype == (np.float64 if x64 else np.float32)
            np.testing.assert_array_equal(found, np.arange(float(N)) ** 2)


def test_an_empty_launch_gives_zeros():
    np.testing.assert_array_equal(numba_cuda_kernel(square, outs=VECTOR, launch_dims=0)(X), np.zeros(N))


def test_an_empty_launch_leaves_outputs_that_share_memory_with_inputs():
    rows = jnp.stack([X, 2 * X])
    call = numba_cuda_kernel(square, outs=[VECTOR, VECTOR], launch_dims=0, input_output_aliases={0: 1})
    for function, x in ((call, X), (jax.jit(call), X), (jax.vmap(call), rows)):
        zeros, same = function(x)
        np.testing.assert_array_equal(zeros, np.zeros_like(x))
        np.testing.assert_array_equal(same, x)
    apart = numba_cuda_kernel(square, outs=[VECTOR, VECTOR], launch_dims=0)  # of the same kernel
    np.testing.assert_array_equal(apart(X), np.zeros((2, N)))


# ---- barriers -------------------------------------------------------------------------------------------------------


@cuda.jit
def block_sum(x, out):
    t = cuda.threadIdx.x
    shared = cuda.shared.array(32, numba.float32)
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 16
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = shared[0]


def test_threads_meet_at_barriers():
    found = numba_cuda_kernel(block_sum, outs=like(2), grid=2, block=32)(X)
    np.testing.assert_array_equal(found, X.reshape(2, 32).sum(1))
    batch = jnp.stack([X, 2 * X, 3 * X])
    found = jax.vmap(numba_cuda_kernel(block_sum, outs=like(2), grid=2, block=32))(batch)
    np.testing.assert_array_equal(found, batch.reshape(3, 2, 32).sum(2))


def test_dynamic_shared_memory():
    @cuda.jit
    def reverse(x, out):
        i = cuda.threadIdx.x
        shared = cuda.shared.array(0, numba.float32)
        shared[i] = x[i]
        cuda.syncthreads()
        out[i] = shared[x.size - 1 - i]

    found = numba_cuda_kernel(reverse, outs=VECTOR, grid=1, block=N, shared_mem=4 * N)(X)
    np.testing.assert_array_equal(found, X[::-1])


def test_votes_of_those_that_still_run():
    @cuda.jit
    def vote(x, out):
        i = cuda.threadIdx.x
        if i >= 8:
            return
        out[0, i] = cuda.syncthreads_count(x[i] > 3)
        if i >= 4:
            return
        out[1, i] = cuda.syncthreads_and(x[i] > 0)
        out[2, i] = cuda.syncthreads_or(x[i] > 4)

    found = numba_cuda_kernel(vote, outs=like(3, 8, dtype=jnp.int32), grid=1, block=16)(X)
    np.testing.assert_array_equal(found[0], [5] * 8)
    np.testing.assert_array_equal(found[1:, :4], [[1] * 4, [0] * 4])


@pytest.mark.parametrize("mask", [(), (0xFFFF,)])
def test_threads_of_a_warp_meet(mask):
    @cuda.jit
    def pass_on(x, out):
        t = cuda.threadIdx.x
        shared = cuda.shared.array(N, numba.float32)
        shared[t] = x[t]
        if t < 16:  # half of the first warp; the others wait for the whole block meanwhile
            cuda.syncwarp(*mask)
            received = shared[(t + 1) % 16]
            cuda.syncwarp(*mask)
            shared[t] = -received
        cuda.syncthreads()
        out[t] = shared[N - 1 - t]

    found = numba_cuda_kernel(pass_on, outs=VECTOR, grid=1, block=N)(X)
    half = np.roll(X[:16], -1)
    np.testing.assert_array_equal(found, np.concatenate([-half, X[16:]])[::-1])


def test_threads_run_in_order_and_are_reused():
    @cuda.jit
    def order(out):
        i = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
        for turn in range(3):
            out[turn, i] = cuda.atomic.add(out, (3, 0), 1)
            cuda.syncthreads()

    kernel = numba_cuda_kernel(order, outs=like(4, 6, dtype=jnp.int32), grid=1, block=(3, 2))
    found = np.asarray(kernel())
    np.testing.assert_array_equal(found[0] - found[0, 0], range(6))
    np.testing.assert_array_equal(np.sort(found[:3] - found[0, 0], axis=None), range(18))
    before = threading.active_count()
    for _ in range(5):
        kernel()
    assert threading.active_count() <= before + 1
    assert len(blocks._idle) >= 6


# ---- functions ------------------------------------------------------------------------------------------------------


def hypotenuse(x, y, out, stream):
    squares = cuda.device_array(x.shape, dtype=np.float32)
    more = cuda.device_array_like(squares)
    square[1, N, stream](x, squares)
    square[1, N, stream](y, more)
    stream.synchronize()
    add[1, N, stream](squares[:], more, out)
    root[1, N, stream](out, out)


@cuda.jit
def root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[i])


def test_a_function_that_launches_several_kernels():
    call = numba_cuda_callable(hypotenuse, outs=VECTOR)
    np.testing.assert_allclose(jax.jit(call)(X, 2 * X), jnp.hypot(X, 2 * X), rtol=1e-6)
    rows = jnp.arange(3.0 * N).reshape(3, N)
    found = jax.vmap(call, (0, None))(rows, X)
    np.testing.assert_allclose(found, jnp.hypot(rows, X), rtol=1e-6)


@cuda.jit
def double_rows(x, out):
    out[cuda.blockIdx.x, cuda.threadIdx.x] = 2 * x[cuda.blockIdx.x, cuda.threadIdx.x]


def test_a_function_that_takes_the_whole_batch():
    shapes = []

    def doubled(x, out, stream):
        shapes.append(tuple(x.shape))
        double_rows[x.shape[0], N, stream](x, out)

    call = numba_cuda_callable(doubled, outs=VECTOR, vmap_method="broadcast_all")
    rows = jnp.arange(3.0 * N).reshape(3, N)
    np.testing.assert_array_equal(jax.vmap(call)(rows), 2 * rows)
    assert shapes == [(3, N)]


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_an_error_in_a_kernel_is_reported_and_survived():
    @cuda.jit
    def beyond(x, out):
        i = cuda.grid(1)
        cuda.syncthreads()
        out[i] = x[i + 60]

    call = numba_cuda_kernel(beyond, outs=VECTOR, grid=2, block=32)
    words = (
        r"numba_cuda_kernel\(beyond\) raised IndexError: index 64 is out of bounds .*, in thread \(4, 0, 0\) of block "
        r"\(0, 0, 0\), .*simulated.py:\d+"
    )
    for _ in range(3):
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            call(X).block_until_ready()
    np.testing.assert_array_equal(leaky(X, jnp.array([2.0])), 2 * X)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("3")], ids=lambda error: type(error).__name__)
def test_what_would_end_the_program_is_an_error_of_the_kernel(error):
    @cuda.jit
    def ends(out):
        cuda.syncthreads()
        if cuda.grid(1) == 2:
            raise error

    kind = type(error).__name__
    words = rf"raised RuntimeError: the kernel raised {kind}: 3, in thread \(2, 0, 0\) of block \(0, 0, 0\), .*.py:\d+"
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            jax.block_until_ready(numba_cuda_kernel(ends, outs=VECTOR, grid=1, block=8)())


def test_what_would_end_the_program_is_an_error_of_a_function():
    def ends(out, stream):
        raise SystemExit(3)

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"numba_cuda_callable\(ends\) raised SystemExit: 3"):
        jax.block_until_ready(numba_cuda_callable(ends, outs=VECTOR)())


def test_ctrl_c_ends_a_simulated_launch():
    threads = []

    @cuda.jit
    def waits(out):
        threads.append(cuda.grid(1))
        if cuda.grid(1) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.3)
        cuda.syncthreads()
        out[cuda.grid(1)] = 1

    with pytest.raises(KeyboardInterrupt):
        waits[2, 8](cuda.device_array(16))
    assert threads == [0, 1, 2]
    np.testing.assert_array_equal(leaky(X, jnp.array([2.0])), 2 * X)


def test_an_operand_is_for_reading():
    @cuda.jit
    def writes(x, out):
        x[0] = 1

    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: assignment destination is read-only"):
        numba_cuda_kernel(writes, outs=VECTOR, launch_dims=N)(X).block_until_ready()


def test_an_error_in_a_function_is_reported():
    def fails(x, out, stream):
        raise ZeroDivisionError("mine")

    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"numba_cuda_callable\(fails\) raised ZeroDivisionError: mine"
    ):
        numba_cuda_callable(fails, outs=VECTOR)(X).block_until_ready()


def test_arguments_are_checked_as_on_a_gpu():
    with pytest.raises(KernelArgumentError, match="take no arrays of bfloat16; convert first"):
        numba_cuda_kernel(square, outs=VECTOR, launch_dims=N)(X.astype(jnp.bfloat16))
    with pytest.raises(KernelArgumentError, match="take no arrays of bfloat16; convert first"):
        numba_cuda_callable(hypotenuse, outs=like(N, dtype=jnp.bfloat16))(X, X)
    words = r"the kernel takes \(x, y, out\), but is called with 2 arguments: array\(float32, 1d, C\)"
    with pytest.raises(KernelArgumentError, match=words):
        numba_cuda_kernel(add, outs=VECTOR, launch_dims=N)(X)
    with pytest.raises(KernelArgumentError, match=r"block.x is 2048, and must be from 1 to 1024"):
        numba_cuda_kernel(square, outs=VECTOR, grid=1, block=2048)(X)
    with pytest.raises(TypeError, match=r"found function; decorate it with @numba\.cuda\.jit"):
        numba_cuda_kernel(hypotenuse, outs=VECTOR, launch_dims=N)
    with pytest.raises(ValueError, match="no launch configuration"):
        numba_cuda_kernel(square, outs=VECTOR)


def test_no_gpu_runs_it_and_no_program_carries_it():
    words = r"the kernel 'leak \(simulated\)' runs on CPUs, and is called in a program for cuda"
    traced = jax.jit(leaky).trace(X, jnp.array([0.5]))
    with pytest.raises(NotImplementedError, match=words):
        traced.lower(lowering_platforms=("cuda",))
    with pytest.raises(brainevent.UnsupportedOperationError, match=r"cannot be exported from Numba's simulator"):
        jax.export.export(jax.jit(leaky), disabled_checks=brainevent.export_checks())(X, jnp.array([0.5]))


def test_threads_take_turns():
    sums = numba_cuda_kernel(block_sum, outs=like(2), grid=2, block=32)

    @jax.jit
    def many(x):
        return sum(sums(i * x) for i in range(4)) + leaky(x, x[:1])[:2]

    def work(i):
        return np.asarray(many(i * X))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(1, 17)))
    for i, result in enumerate(found, 1):
        np.testing.assert_allclose(result, 6 * (i * X).reshape(2, 32).sum(1) + i * i * X[:2])


def test_equal_kernels_are_one_target():
    def make(factor):
        @cuda.jit
        def scale(x, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = factor * x[i]

        return numba_cuda_kernel(scale, outs=VECTOR, launch_dims=N)

    def target(call):
        [line] = [line for line in jax.jit(call).lower(X).as_text().splitlines() if "custom_call" in line]
        return line.partition("@")[2].partition("(")[0]

    assert target(make(2)) == target(make(2)) != target(make(3))
    np.testing.assert_array_equal(make(3)(X), 3 * X)


@cuda.jit
def anything(*arrays):
    pass


def test_one_kernel_takes_several_numbers_of_arrays():
    for count in range(3):
        for outs in ([VECTOR], [VECTOR, VECTOR]):
            found = numba_cuda_kernel(anything, outs=outs, launch_dims=0)(*[X] * count)
            np.testing.assert_array_equal(found, np.zeros((len(outs), N)))


def inverse(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = np.float32(1) / x[i]


class Doubled:
    """An extension of Numba's: kernels see twice what they are given."""

    def prepare_args(self, kind, value, **_):
        """Return the argument as kernels see it."""
        return kind, value * 2 if not value.flags.writeable else value


def test_one_function_is_several_kernels():
    zeros = jnp.zeros(N)
    kernels = [cuda.jit(inverse), cuda.jit(debug=True, opt=False)(inverse)]
    call, debugging = (numba_cuda_kernel(kernel, outs=VECTOR, launch_dims=N) for kernel in kernels)
    np.testing.assert_array_equal(call(zeros), np.full(N, np.inf))
    with pytest.raises(jax.errors.JaxRuntimeError, match="FloatingPointError: divide by zero"):
        debugging(zeros).block_until_ready()
    np.testing.assert_array_equal(call(zeros), np.full(N, np.inf))
    extended = cuda.jit(inverse)
    extended.extensions.append(Doubled())
    np.testing.assert_array_equal(numba_cuda_kernel(extended, outs=VECTOR, launch_dims=N)(X), 1 / (2 * X))


@dataclasses.dataclass
class Squares:
    """Cannot be hashed, since it has __eq__."""

    times: int

    def __call__(self, x, out, stream):
        square[1, N, stream](x, out)
        for _ in range(self.times - 1):
            square[1, N, stream](out, out)


def test_a_function_may_be_an_object_that_cannot_be_hashed():
    once, twice = Squares(1), Squares(2)
    for function, power in ((once, 2), (twice, 4), (once, 2)):
        np.testing.assert_array_equal(numba_cuda_callable(function, outs=VECTOR)(X), X**power)


def test_the_simulator_answers_what_programs_ask_of_a_device():
    assert cuda.is_available()
    assert cuda.get_current_device().name == "Numba's simulator"
    assert brainevent.backends.numba_cuda.emulation.is_simulated() is True
