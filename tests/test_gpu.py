# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: the core's promises, with kernels that JAX itself compiles there."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import brainevent

pytestmark = pytest.mark.gpu


def on_gpu(x):
    return jax.device_put(x, jax.devices("gpu")[0])


@numba.njit
def multiply_on_cpu(a, b, out):
    for i in range(out.size):
        out[i] = a[i] * b[i]


@pytest.fixture
def multiply(unique_name):
    """An operator with a kernel for the CPU and two for the GPU."""
    from jax.experimental import pallas as pl

    operator = brainevent.XLACustomKernel(unique_name("multiply"))

    def pallas(*, outs):
        def kernel(a, b, out):
            out[...] = a[...] * b[...]

        return lambda a, b: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(outs[0].shape, outs[0].dtype))(a, b)

    operator.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(multiply_on_cpu, outs=outs))
    operator.def_kernel("jnp", "gpu", lambda *, outs: lambda a, b: [a * b])
    operator.def_pallas_kernel("gpu", pallas)
    operator.def_reference(lambda a, b: a * b)
    return operator


@pytest.mark.parametrize("backend", ["jnp", "pallas", "reference"])
def test_every_kernel_under_every_transformation(multiply, backend):
    a, b = on_gpu(jnp.arange(64.0)), on_gpu(jnp.arange(64.0) + 1)
    f = lambda a, b: multiply(a, b, backend=backend)
    rows = jnp.stack([a, 2 * a])
    assert f(a, b).devices() == {jax.devices("gpu")[0]}
    np.testing.assert_allclose(jax.jit(f)(a, b), a * b)
    np.testing.assert_allclose(jax.jit(jax.vmap(f, (0, None)))(rows, b), rows * b)
    np.testing.assert_allclose(jax.grad(lambda a: f(a, b).sum())(a), b)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda a, b: f(a, b).sum()), (0, None))(rows, b)[1], b)
    np.testing.assert_allclose(jax.lax.fori_loop(0, 3, lambda _, x: f(x, jnp.full(64, 2.0)), a), 8 * a)


def test_a_jitted_function_follows_the_choice_of_backend(multiply):
    a = on_gpu(jnp.arange(64.0))
    f = jax.jit(lambda a: multiply(a, a))
    assert "__gpu$xla.gpu.triton" not in f.lower(a).as_text()
    multiply.set_default("gpu", "pallas")
    pallas = f.lower(a).as_text()
    assert "custom_call" in pallas
    np.testing.assert_allclose(f(a), a * a)
    with brainevent.use_backend("gpu", "jnp"):
        assert f.lower(a).as_text() != pallas


def test_one_operator_on_two_platforms(multiply):
    a = np.arange(8, dtype=np.float32)
    cpu, gpu = jax.devices("cpu")[0], jax.devices("gpu")[0]
    for device in (cpu, gpu):
        result = jax.jit(multiply)(jax.device_put(a, device), jax.device_put(a, device))
        assert result.devices() == {device}
        np.testing.assert_allclose(result, a * a)


def test_a_missing_backend_is_reported_with_the_kernels_that_exist(multiply):
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=r"no backend 'palas'.*did you mean 'pallas'"):
        multiply(on_gpu(jnp.ones(8)), on_gpu(jnp.ones(8)), backend="palas")


def test_check_passes_on_the_gpu(multiply):
    report = brainevent.check(multiply, on_gpu(jnp.arange(1.0, 9.0)), on_gpu(jnp.arange(2.0, 10.0)))
    assert report.ok, str(report)
