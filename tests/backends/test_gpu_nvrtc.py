# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: raw CUDA kernels, compiled by NVRTC, as launch plans."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

N = 1024
VECTOR = jax.ShapeDtypeStruct((N,), jnp.float32)
X, Y = jnp.arange(N, dtype=jnp.float32), jnp.ones(N)

ADD = """
__global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
"""
COPY = "__global__ void copy(const T* x, T* out) { out[threadIdx.x] = x[threadIdx.x]; }"


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def over_outputs(*arrays):
    return arrays[-1].shape


def added(x, y):
    return brainevent.cuda_kernel(ADD, "add", like(x), launch_dims=over_outputs)(x, y, n=x.size)


def test_configurations():
    for configuration in ({"launch_dims": N}, {"grid": 4, "block": 256}, {"launch_dims": over_outputs}):
        call = brainevent.cuda_kernel(ADD, "add", VECTOR, **configuration)
        np.testing.assert_array_equal(call(X, Y, n=N), X + Y)
    fewer = brainevent.cuda_kernel(ADD, "add", VECTOR, grid=lambda x, y, out: 1, block=lambda *_: 64, zeroed=True)
    np.testing.assert_array_equal(fewer(X, Y, n=N), jnp.where(X < 64, X + Y, 0))
    nothing = brainevent.cuda_kernel(ADD, "add", VECTOR, launch_dims=0)
    np.testing.assert_array_equal(nothing(X, Y, n=N), np.zeros(N))


def test_two_axes_and_a_tree_of_outputs():
    source = """
    __global__ void split(const float* x, float* low, float* high, int rows, int columns) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
      if (i >= rows || j >= columns) return;
      low[i * columns + j] = fminf(x[i * columns + j], 0.f);
      high[i * columns + j] = fmaxf(x[i * columns + j], 0.f);
    }"""
    x = jnp.arange(60 * 70.0).reshape(60, 70) - 2000
    outs = {"high": like(x), "low": like(x)}
    found = brainevent.cuda_kernel(source, "split", [like(x)] * 2, launch_dims=over_outputs)(x, rows=60, columns=70)
    np.testing.assert_array_equal(found[0], jnp.minimum(x, 0))
    np.testing.assert_array_equal(found[1], jnp.maximum(x, 0))
    named = brainevent.cuda_kernel(source, "split", outs, launch_dims=over_outputs)(x, rows=60, columns=70)
    np.testing.assert_array_equal(named["high"], jnp.minimum(x, 0))  # outputs are in the order of jax.tree.leaves


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_every_dtype_arrives_whole(dtype):
    with jax.enable_x64(True):
        x = jnp.asarray(np.arange(8) % 2 + (1j if dtype.startswith("complex") else 0)).astype(dtype)
        call = brainevent.cuda_kernel(COPY, "copy", like(x), launch_dims=8, types={"T": x.dtype})
        np.testing.assert_array_equal(call(x), x)


@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float32"])
def test_types_compute(dtype):
    source = "__global__ void triple(const T* x, T* out) { out[threadIdx.x] = x[threadIdx.x] * T(3); }"
    x = jnp.arange(8).astype(dtype)
    np.testing.assert_array_equal(
        brainevent.cuda_kernel(source, "triple", like(x), launch_dims=8, types={"T": x.dtype})(x), 3 * x
    )


def test_complex_numbers_compute():
    x = jnp.arange(8) * (1 + 2j)
    squares = "__global__ void square(const T* x, T* out) { out[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x]; }"
    np.testing.assert_allclose(
        brainevent.cuda_kernel(squares, "square", like(x), launch_dims=8, types={"T": x.dtype})(x), x * x
    )
    pairs = "__global__ void swap(const float2* x, float2* out) { float2 v = *x; *out = make_float2(v.y, v.x); }"
    np.testing.assert_array_equal(brainevent.cuda_kernel(pairs, "swap", like(x[:1]), launch_dims=1)(x[3:4]), [6 + 3j])


NUMBERS = [
    ("bool", True), ("signed char", -3), ("unsigned char", 200), ("short", -300), ("unsigned short", 60_000),
    ("int", -70_000), ("unsigned int", 2**32 - 1), ("long", -(2**40)), ("long long", 2**40), ("size_t", 2**41),
    ("int8_t", -1), ("uint16_t", 2), ("int32_t", 3), ("int64_t", 4), ("uint64_t", 5), ("float", 0.5), ("double", 0.25),
    ("__half", 1.5), ("__nv_bfloat16", -2.5),
]  # fmt: skip


def test_numbers_of_every_type_arrive_between_pointers():
    names = [f"a{i}" for i in range(len(NUMBERS))]
    declared = ", ".join(f"{kind} {name}" for (kind, _), name in zip(NUMBERS, names, strict=True))
    writes = "".join(f"out[{i}] = (float){name};" for i, name in enumerate(names))
    source = f"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void numbers(const float* x, {declared}, float* out, int last) {{
      {writes}
      out[{len(names)}] = x[last];
    }}"""
    out = jax.ShapeDtypeStruct((len(names) + 1,), jnp.float32)
    values = {name: value for name, (_, value) in zip(names, NUMBERS, strict=True)}
    found = brainevent.cuda_kernel(source, "numbers", out, launch_dims=1)(X, last=77, **values)
    np.testing.assert_array_equal(found, np.array([*(value for _, value in NUMBERS), 77], np.float32))


def test_templates_namespaces_and_constants():
    source = """
    namespace mine {
    __constant__ float steps[3] = {1.f, 2.f, 4.f};
    template <typename T, int n>
    __global__ void shift(const T* x, T* out) { out[threadIdx.x] = x[threadIdx.x] + steps[n]; }
    }"""
    for n, step in enumerate((1, 2, 4)):
        call = brainevent.cuda_kernel(source, f"mine::shift<float, {n}>", VECTOR, grid=1, block=N)
        np.testing.assert_array_equal(call(X), X + step)


@pytest.mark.parametrize("shared", [4 * N, 100 * 1024, 227 * 1024])
def test_dynamic_shared_memory(shared):
    source = """
    extern "C" __global__ void reversed(const float* x, float* out) {
      extern __shared__ float row[];
      row[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      out[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
    }"""
    call = brainevent.cuda_kernel(source, "reversed", VECTOR, grid=1, block=N, shared_mem=lambda x, out: shared)
    np.testing.assert_array_equal(call(X), X[::-1])


def test_a_histogram_begins_with_zeros():
    source = """
    __global__ void histogram(const int* x, int* bins, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) atomicAdd(&bins[x[i]], 1);
    }"""
    bins = jax.ShapeDtypeStruct((10,), jnp.int32)
    call = brainevent.cuda_kernel(source, "histogram", bins, launch_dims=lambda x, bins: x.shape, zeroed=("bins",))
    x = jnp.asarray(np.random.default_rng(0).integers(0, 10, (7, 5000)), jnp.int32)
    for _ in range(3):
        np.testing.assert_array_equal(call(x[0], n=5000), np.bincount(x[0], minlength=10))
    every = jax.jit(jax.vmap(lambda x: call(x, n=5000)))(x)
    np.testing.assert_array_equal(every, [np.bincount(row, minlength=10) for row in x])


def test_an_output_in_an_inputs_memory():
    source = (
        "__global__ void more(const float* x, const float* start, float* out) { out[threadIdx.x] += x[threadIdx.x]; }"
    )
    call = brainevent.cuda_kernel(source, "more", VECTOR, grid=1, block=N, input_output_aliases={1: 0})
    np.testing.assert_array_equal(jax.jit(call)(X, Y), X + Y)
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(call, (0, None)))(jnp.stack([X, 2 * X]), Y), jnp.stack([X, 2 * X]) + 1
    )


def test_an_output_in_an_inputs_memory_keeps_it_where_nothing_runs():
    call = brainevent.cuda_kernel(
        COPY, "copy", VECTOR, launch_dims=0, types={"T": X.dtype}, input_output_aliases={0: 0}
    )
    np.testing.assert_array_equal(jax.jit(call)(X), X)


def test_plans_of_one_kernel_with_more_and_less_shared_memory():
    source = """
    __global__ void reverse(const float* x, float* out, int n) {
      extern __shared__ float row[];
      row[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      out[threadIdx.x] = row[n - 1 - threadIdx.x];
    }"""
    for kilobytes in (100, 60, 101, 100):
        call = brainevent.cuda_kernel(source, "reverse", VECTOR, grid=1, block=N, shared_mem=kilobytes * 1024)
        np.testing.assert_array_equal(call(X, n=N), X[::-1])
        np.testing.assert_array_equal(call(Y, n=N), Y)


def test_a_batch_whose_elements_are_misaligned_is_refused_and_nothing_breaks():
    source = "__global__ void quads(const float4* x, float4* out) { out[threadIdx.x] = x[threadIdx.x]; }"

    def copied(rows):
        out = jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype)
        return jax.vmap(brainevent.cuda_kernel(source, "quads", out, launch_dims=rows.shape[1] // 4))(rows)

    np.testing.assert_array_equal(copied(X.reshape(128, 8)), X.reshape(128, 8))
    with pytest.raises(jax.errors.JaxRuntimeError, match="begins at an address that is not a multiple of 16"):
        jax.block_until_ready(copied(X[:60].reshape(10, 6)))
    np.testing.assert_array_equal(copied(X.reshape(64, 16)), X.reshape(64, 16))


def test_operands_without_axes():
    source = (
        "__global__ void scale(const float* x, const float* a, float* out) { out[threadIdx.x] = *a * x[threadIdx.x]; }"
    )
    call = brainevent.cuda_kernel(source, "scale", VECTOR, grid=1, block=N)
    np.testing.assert_array_equal(call(X, jnp.float32(2)), 2 * X)
    np.testing.assert_array_equal(jax.vmap(call, (None, 0))(X, jnp.arange(3.0)), jnp.arange(3.0)[:, None] * X)


def test_batches_and_graphs():
    rows = jnp.stack([X, 2 * X, 3 * X])
    nested = jax.jit(jax.vmap(jax.vmap(added, (0, None)), (None, 0)))
    np.testing.assert_array_equal(nested(rows, rows), rows[None] + rows[:, None])
    deep = jnp.arange(2 * 3 * 4 * 5 * N, dtype=jnp.float32).reshape(2, 3, 4, 5, N)
    four = jax.jit(jax.vmap(jax.vmap(jax.vmap(jax.vmap(added, (0, None)), (0, None)), (1, None)), (0, None)))
    np.testing.assert_array_equal(four(deep, Y), jnp.swapaxes(deep, 1, 2) + 1)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = added(x, Y)
        return x

    for shift in range(5):
        np.testing.assert_array_equal(chain(X + shift), X + shift + 50)
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: added(v, Y), x))(X), X + 100)


@pytest.fixture
def operator(unique_name):
    source = """
    __global__ void blend(const float* x, const float* y, float* out, int n, float a) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = a * x[i] * y[i];
    }"""

    def generator(*, outs, a):
        kernel = brainevent.cuda_kernel(source, "blend", outs, launch_dims=over_outputs)
        return lambda x, y: kernel(x, y, n=x.size, a=a)

    made = brainevent.XLACustomKernel(unique_name("nvrtc"))
    made.def_kernel("nvrtc", "gpu", generator)
    made.def_reference(lambda x, y, *, a: a * x * y)
    made.def_sharding_rule("i, i -> i")
    return made


def test_an_operator_keeps_its_promises(operator):
    report = brainevent.check(operator, X[:64], Y[:64], a=3.0)
    assert report.ok, str(report)


def test_an_operator_has_derivatives(operator):
    gradient = jax.jit(jax.grad(lambda x, y: (operator(x, y, a=2.0) ** 2).sum(), (0, 1)))
    by_x, by_y = gradient(X, Y + 1)
    np.testing.assert_allclose(by_x, 8 * X * (Y + 1) ** 2)
    np.testing.assert_allclose(by_y, 8 * X**2 * (Y + 1))


def test_shards(operator):
    devices = jax.devices("gpu")
    mesh = jax.make_mesh((len(devices),), ("d",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.P("d")))
    mapped = jax.jit(jax.shard_map(added, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))
    np.testing.assert_array_equal(mapped(x, x), 2 * X)
    np.testing.assert_array_equal(jax.jit(lambda x: operator(x, x, a=2.0))(x), 2 * X * X)


def test_an_exported_program_carries_its_binaries(tmp_path):
    program = jax.export.export(jax.jit(added), disabled_checks=brainevent.export_checks())(X, Y)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.arange(1024, dtype=jnp.float32), jnp.ones(1024))[-1], "cuda.bindings" in sys.modules)
    """
    empty = str(tmp_path / "empty")
    printed = run_program(source, tmp_path / "program", JAX_PLATFORMS="cuda,cpu", BRAINEVENT_CACHE_DIR=empty)
    assert printed.strip() == "1024.0 False"


def test_code_for_an_older_gpu_runs_too():
    brainevent.config.set_compute_capability(["8.0", "9.0"])  # PTX, which the driver finishes
    try:
        np.testing.assert_array_equal(added(X, Y), X + Y)
    finally:
        brainevent.config.set_compute_capability(None)


FAULT = """
    import jax, jax.numpy as jnp, brainevent
    source = "__global__ void astray(const float* x, float* out) { out[(1ll << 40) + threadIdx.x] = x[threadIdx.x]; }"
    x = jnp.ones(64)
    call = brainevent.cuda_kernel(source, "astray", x, launch_dims=64)
    try:
        jax.jit(call)(x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print("told:", "illegal" in str(error).lower())
"""


def test_a_kernel_that_faults_is_an_error_and_a_clean_exit():
    assert run_program(FAULT, JAX_PLATFORMS="cuda,cpu").strip() == "told: True"


def test_an_option_that_the_own_cache_of_nvrtc_ignores_is_followed():
    """A denormal product is kept or flushed as asked, whichever was compiled before."""
    source = """
    __global__ void product(const float* x, const float* y, float* out) { out[0] = x[0] * y[0]; }"""
    x, y = jnp.full(1, 0.5, jnp.float32), jnp.full(1, 2.0**-126, jnp.float32)
    for options, expected in ((("--ftz=true",), 0.0), (("--ftz=false",), 2.0**-127), ((), 2.0**-127)):
        product = brainevent.cuda_kernel(source, "product", like(x), launch_dims=1, options=options)
        assert float(np.asarray(product(x, y))[0]) == expected, options
