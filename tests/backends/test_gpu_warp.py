# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: Warp kernels as launch plans."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent
from brainevent.errors import KernelArgumentError

pytestmark = pytest.mark.gpu
wp = pytest.importorskip("warp")
import warp_kernels as wk  # noqa: E402
from test_warp_adjoint import sine  # noqa: E402
from warp_kernels import added, like, scattered  # noqa: E402

N = 1024
X, Y = jnp.arange(N, dtype=jnp.float32), jnp.ones(N)
VECTOR = jax.ShapeDtypeStruct((N,), jnp.float32)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def test_tiles():
    outs = jax.ShapeDtypeStruct((N // 8,), jnp.float32)
    call = brainevent.warp_kernel(wk.tile_squares, outs, launch_dims=(N // 8, 32), block_dim=32, zeroed=True)
    np.testing.assert_allclose(call(X), (X**2).reshape(-1, 8).sum(1), rtol=1e-6)


@wp.kernel(grid_stride=False)
def lean(x: wk.FLOATS, out: wk.FLOATS):
    i = wp.tid()
    out[i] = x[i] + 1.0


def test_a_grid_of_several_axes():
    x = jnp.zeros(2**24 + 513)
    assert (brainevent.warp_kernel(lean, like(x), launch_dims=x.shape, block_dim=64)(x) == 1).all()


def test_batches_and_graphs():
    rows = jnp.stack([X, 2 * X, 3 * X])
    nested = jax.jit(jax.vmap(jax.vmap(added, (0, None)), (None, 0)))
    np.testing.assert_array_equal(nested(rows, rows), rows[None] + rows[:, None])
    where = jnp.arange(N, dtype=jnp.int32) % 5
    batched = jax.jit(jax.vmap(lambda x: scattered(x, where, 5)))
    np.testing.assert_allclose(batched(rows), jax.vmap(lambda x: jnp.zeros(5).at[where].add(x))(rows))

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = added(x, Y)
        return x

    for shift in range(5):
        np.testing.assert_array_equal(chain(X + shift), X + shift + 50)
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: added(v, Y), x))(X), X + 100)


def test_gradients_of_batches():
    x = jnp.linspace(-1.0, 2.0, 3 * N).reshape(3, N)
    loss = lambda x: (sine(x) ** 2).sum()
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(loss)))(x), jnp.sin(2 * x), atol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jax.vmap(loss)(x).sum())(x), jnp.sin(2 * x), atol=1e-5)


def csr_generator(*, outs, neurons):
    call = brainevent.warp_kernel(wk.csr, outs[0], launch_dims=neurons, zeroed=True)
    return lambda weights, indices, indptr, spikes: call(weights, indices, indptr, spikes)


def own_csr_generator(*, outs, neurons):
    """The same by Warp's own wrapper."""
    run = wp.jax_kernel(wk.csr, launch_dims=[neurons], num_outputs=1, in_out_argnames=["posts"])
    return lambda *operands: run(*operands, jnp.zeros(outs[0].shape, outs[0].dtype))


@pytest.mark.parametrize("generator", [csr_generator, own_csr_generator])
def test_sparse_synapses(generator, unique_name):
    rng = np.random.default_rng(42)
    dense = (rng.random((1000, 500)) < 0.05).astype(np.float32) * np.float32(0.1)
    indptr = jnp.asarray(np.concatenate([[0], np.cumsum((dense != 0).sum(1))]), jnp.int32)
    indices, spikes = jnp.asarray(np.nonzero(dense)[1], jnp.int32), jnp.asarray(rng.random(1000) < 0.1)
    operator = brainevent.XLACustomKernel(unique_name("csr"))
    operator.def_warp_kernel(generator)
    outs = [jax.ShapeDtypeStruct((500,), jnp.float32)]
    run = jax.jit(lambda spikes: operator(jnp.array([0.1]), indices, indptr, spikes, outs=outs, neurons=1000)[0])
    np.testing.assert_allclose(run(spikes), np.asarray(spikes) @ dense, atol=1e-5)
    both = jnp.stack([spikes, ~spikes])
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(both), np.asarray(both) @ dense, atol=1e-4)


def test_an_operator_keeps_its_promises(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_warp_kernel(lambda *, outs: brainevent.warp_kernel(wk.add, outs[0], launch_dims=outs[0].shape))
    operator.def_reference(lambda x, y: x + y)
    operator.def_sharding_rule("i, i -> i")
    report = brainevent.check(operator, X[:64], Y[:64])
    assert report.ok, str(report)


def test_over_devices():
    devices = jax.devices("gpu")
    mesh = jax.make_mesh((len(devices),), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices)
    cut = jax.sharding.PartitionSpec("d")
    sharded = jax.jit(jax.shard_map(added, mesh=mesh, in_specs=(cut, cut), out_specs=cut))
    np.testing.assert_array_equal(sharded(X, Y), X + Y)


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


def test_one_function_runs_on_the_cpu_and_on_the_gpu():
    wk.need_compiler_for_cpus()
    call = jax.jit(added)
    x, y = (jax.device_put(x, jax.devices("cpu")[0]) for x in (X, Y))
    assert call(x, y).devices() == {jax.devices("cpu")[0]}
    np.testing.assert_array_equal(call(x, y), call(X, Y))


def test_an_exported_program_carries_its_binaries(tmp_path):
    wk.need_compiler_for_cpus()
    checks = brainevent.export_checks()
    program = jax.export.export(jax.jit(added), platforms=["cpu", "cuda"], disabled_checks=checks)(X, Y)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.arange(1024, dtype=jnp.float32), jnp.ones(1024))[-1], "warp" in sys.modules)
    """
    for platforms in ("cuda,cpu", "cpu"):
        assert run_program(source, tmp_path / "program", JAX_PLATFORMS=platforms).strip() == "1024.0 False"


CACHED = """
    import sys, jax, jax.numpy as jnp
    from warp_kernels import added
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: "cache_hits" in name and hits.append(name))
    x = jnp.arange(1024, dtype=jnp.float32)
    jnp.sin(x).block_until_ready()
    before = len(hits)
    result = jax.jit(added)(x, x).block_until_ready()
    print(len(hits) - before, result[-1])
"""


def test_the_persistent_compilation_cache_serves_another_process(tmp_path):
    runs = [run_program(CACHED, tmp_path, JAX_PLATFORMS="cuda,cpu").split() for _ in range(2)]
    assert runs == [["0", "2046.0"], ["1", "2046.0"]]


def test_ptx_runs_as_cubins_do():
    """For a lesser architecture than the device's there is PTX, which the driver finishes."""
    brainevent.config.set_compute_capability("8.0")
    try:
        np.testing.assert_array_equal(jax.jit(lambda x, y: added(x, y) * 2)(X, Y), 2 * (X + Y))
    except jax.errors.JaxRuntimeError as error:
        if "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" not in str(error):
            raise
        pytest.skip("the driver is older than Warp's compiler, whose PTX it does not know")
    finally:
        brainevent.config.set_compute_capability(None)


@wp.kernel
def much_shared_memory(x: wk.FLOATS, out: wk.FLOATS):
    tile = wp.tile_load(x, shape=40_000, storage="shared")
    wp.tile_atomic_add(out, wp.tile_sum(tile))


def test_errors():
    with pytest.raises(KernelArgumentError, match="'y' is declared as an array of float32"):
        added(X, Y.astype(jnp.int32))
    call = brainevent.warp_kernel(much_shared_memory, like(X[:1]), launch_dims=(1, 32), block_dim=32, zeroed=True)
    x = jnp.ones(40_000)
    np.testing.assert_allclose(call(x), [40_000])  # 160 KB: allowed on this device
    brainevent.config.set_compute_capability("7.5")
    try:
        with pytest.raises(KernelArgumentError, match="bytes of dynamic shared memory; use at most 65536"):
            jax.jit(lambda x: call(x) * 2)(x)
    finally:
        brainevent.config.set_compute_capability(None)
