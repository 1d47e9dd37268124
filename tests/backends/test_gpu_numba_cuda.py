# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: Numba-CUDA kernels as launch plans."""

import math
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*Grid size.*under-utilization")]
cuda = pytest.importorskip("numba.cuda")
N = 1024
VECTOR = jax.ShapeDtypeStruct((N,), jnp.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def sigmoid(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 1.0 / (1.0 + math.exp(-x[i]))


@cuda.jit
def multiply(a, b, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j] * b[i, j]


@cuda.jit
def split(x, positive, negative):
    i = cuda.grid(1)
    if i < x.size:
        positive[i] = max(x[i], 0.0)
        negative[i] = min(x[i], 0.0)


@cuda.jit
def reverse_blocks(x, out):
    shared = cuda.shared.array(0, np.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    shared[t] = x[i]
    cuda.syncthreads()
    out[i] = shared[cuda.blockDim.x - 1 - t]


@cuda.jit
def affine(x, scale, shift, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = scale * x[i] + (1 if shift else 0)


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


X, Y = jnp.arange(N, dtype=jnp.float32), jnp.ones(N)
added = brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=N)


def test_one_two_and_several_outputs():
    np.testing.assert_array_equal(added(X, Y), X + Y)
    np.testing.assert_allclose(
        brainevent.numba_cuda_kernel(sigmoid, VECTOR, launch_dims=N, threads_per_block=128)(X / N),
        1 / (1 + jnp.exp(-X / N)),
        rtol=1e-6,
    )
    square = jnp.arange(64 * 64.0).reshape(64, 64)
    np.testing.assert_array_equal(
        brainevent.numba_cuda_kernel(multiply, like(square), launch_dims=(64, 64))(square, square), square**2
    )
    parts = brainevent.numba_cuda_kernel(split, {"up": VECTOR, "down": VECTOR}, grid=4, block=256)(X - 500)
    np.testing.assert_array_equal(parts["up"] + parts["down"], X - 500)


def test_nothing_to_launch_gives_zeros():
    np.testing.assert_array_equal(brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=0)(X, Y), np.zeros(N))
    same = brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=0, input_output_aliases={0: 0})
    np.testing.assert_array_equal(jax.jit(same)(X, Y), X)


def test_bounds_of_a_kernel():
    bounded = cuda.jit(max_registers=32, launch_bounds=(256, 2))(add.py_func)
    np.testing.assert_array_equal(brainevent.numba_cuda_kernel(bounded, VECTOR, launch_dims=N)(X, Y), X + Y)


@pytest.mark.parametrize("shared", [4 * N, 100 * 1024, 227 * 1024])
def test_dynamic_shared_memory(shared):
    call = brainevent.numba_cuda_kernel(reverse_blocks, VECTOR, grid=1, block=N, shared_mem=shared)
    np.testing.assert_array_equal(call(X), X[::-1])


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"])
def test_every_dtype_arrives_whole(dtype):
    with jax.enable_x64(True):
        x = jnp.asarray(np.arange(8) % 2).astype(dtype)
        np.testing.assert_array_equal(brainevent.numba_cuda_kernel(copy, like(x), launch_dims=8)(x), x)


def test_operands_without_axes():
    @cuda.jit
    def scale(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor[()] * x[i]

    np.testing.assert_array_equal(brainevent.numba_cuda_kernel(scale, VECTOR, launch_dims=N)(X, jnp.float32(2)), 2 * X)


def test_batches_and_graphs():
    rows = jnp.stack([X, 2 * X, 3 * X])
    nested = jax.jit(jax.vmap(jax.vmap(added, (0, None)), (None, 0)))
    np.testing.assert_array_equal(nested(rows, rows), rows[None] + rows[:, None])
    named = brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=N, vmap_method="broadcast_all")
    np.testing.assert_array_equal(jax.vmap(named)(rows, rows), 2 * rows)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = added(x, Y)
        return x

    for shift in range(5):
        np.testing.assert_array_equal(chain(X + shift), X + shift + 50)
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: added(v, Y), x))(X), X + 100)


def two_steps(x, out, stream):
    halves = cuda.device_array(x.shape, dtype=np.float32)
    affine[(x.size + 255) // 256, 256, stream](x, np.float32(0.5), False, halves)
    affine[(x.size + 255) // 256, 256, stream](halves, np.float32(4), True, out)


def test_a_function_of_several_launches_runs_natively():
    call = brainevent.numba_cuda_callable(two_steps, VECTOR)
    np.testing.assert_array_equal(call(X), 2 * X + 1)
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(jnp.stack([X, Y])), 2 * jnp.stack([X, Y]) + 1)
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, v: call(v), x))(Y), 15 * Y)


@pytest.mark.parametrize("factor", [2 + 1j, np.complex64(2 + 1j), np.complex128(2 + 1j)], ids=lambda x: str(type(x)))
def test_a_function_passes_complex_numbers(factor):
    def scaled(x, out, stream):
        affine[4, 256, stream](x, factor, True, out)

    z = (X + 1j * X[::-1]).astype(jnp.complex64)
    call = brainevent.numba_cuda_callable(scaled, like(z))
    np.testing.assert_allclose(jax.jit(call)(z), factor * z + 1, rtol=1e-6)


def test_an_array_that_a_function_captures_is_passed_through_python():
    weights = np.arange(N, dtype=np.float32)
    there = cuda.to_device(weights)

    def add_captured(x, out, stream):
        add[4, 256, stream](x, there, out)

    call = jax.jit(brainevent.numba_cuda_callable(add_captured, VECTOR))
    with pytest.warns(UserWarning, match="through Python.*passes to 'add' an argument of the type DeviceNDArray"):
        np.testing.assert_array_equal(call(Y), weights + 1)
    np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([X, Y])), weights + jnp.stack([X, Y]))


def test_a_function_that_catches_the_recorders_exception_is_called_through_python():
    def copies(x, out, stream):
        try:
            out.copy_to_device(x, stream=stream)
        except Exception:  # noqa: BLE001 - as programs do
            copy[1, 1, stream](x, out)

    with pytest.warns(UserWarning, match="through Python in each run, because it uses 'copy_to_device' of an array"):
        np.testing.assert_array_equal(brainevent.numba_cuda_callable(copies, VECTOR)(X), X)


def test_a_function_may_take_the_whole_batch():
    def whole(a, b, out, stream):
        shape = (1, *out.shape)[-2:]
        multiply[((shape[0] + 15) // 16, (shape[1] + 15) // 16), (16, 16), stream](
            a.reshape(shape), b.reshape(shape), out.reshape(shape)
        )

    square = jnp.arange(64 * 64.0).reshape(64, 64)
    outs = jax.ShapeDtypeStruct((64,), jnp.float32)
    call = brainevent.numba_cuda_callable(whole, outs, vmap_method="broadcast_all")
    np.testing.assert_array_equal(call(square[1], square[2]), square[1] * square[2])
    np.testing.assert_array_equal(jax.vmap(call)(square, square), square**2)


def test_a_function_that_waits_is_called_through_python():
    def waits(x, out, stream):
        copy[4, 256, stream](x, out)
        stream.synchronize()

    def fails(x, out, stream):
        stream.synchronize()
        raise ValueError("out of paper")

    call = jax.jit(brainevent.numba_cuda_callable(waits, VECTOR))
    with pytest.warns(UserWarning, match=r"called through Python in each run, because it uses 'synchronize'"):
        np.testing.assert_array_equal(call(X), X)
    np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([X, Y])), jnp.stack([X, Y]))
    with (
        pytest.warns(UserWarning, match="through Python"),
        pytest.raises(
            jax.errors.JaxRuntimeError, match=r"numba_cuda_callable\(fails\) raised ValueError: out of paper"
        ),
    ):
        brainevent.numba_cuda_callable(fails, VECTOR)(X).block_until_ready()


def test_an_operator_keeps_its_promises(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("numba_cuda"))
    operator.def_numba_cuda_kernel(
        lambda *, outs: brainevent.numba_cuda_kernel(add, outs[0], launch_dims=outs[0].shape)
    )
    operator.def_reference(lambda x, y: x + y)
    operator.def_sharding_rule("i, i -> i")
    report = brainevent.check(operator, X[:64], Y[:64])
    assert report.ok, str(report)


def test_threads_and_devices():
    call, results = jax.jit(added), {}

    def work(number):
        device = jax.devices("gpu")[number % len(jax.devices("gpu"))]
        x, y = jax.device_put(X + number, device), jax.device_put(Y, device)
        for _ in range(50):
            results[number] = call(x, y)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(16):
        np.testing.assert_array_equal(results[number], X + number + 1)


def test_an_exported_program_carries_its_binaries(tmp_path):
    program = jax.export.export(jax.jit(added), disabled_checks=brainevent.export_checks())(X, Y)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.arange(1024, dtype=jnp.float32), jnp.ones(1024))[-1], "numba.cuda" in sys.modules)
    """
    assert run_program(source, tmp_path / "program", JAX_PLATFORMS="cuda,cpu").strip() == "1024.0 False"


CACHED = """
    import sys, jax, jax.numpy as jnp
    from test_gpu_numba_cuda import added, X, Y
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: "cache_hits" in name and hits.append(name))
    jnp.sin(X).block_until_ready()
    before = len(hits)
    result = jax.jit(added)(X, Y).block_until_ready()
    print(len(hits) - before, result[-1])
"""


def test_the_persistent_compilation_cache_serves_another_process(tmp_path):
    runs = [run_program(CACHED, tmp_path, JAX_PLATFORMS="cuda,cpu").split() for _ in range(2)]
    assert runs == [["0", "1024.0"], ["1", "1024.0"]]
