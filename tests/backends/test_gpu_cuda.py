# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: CUDA C++ entry points as functions of JAX arrays."""

import ctypes
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_sources import COUNTING, basics
from programs import run_program

import brainevent
from brainevent.ffi import last_words

pytestmark = pytest.mark.gpu


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.fixture(scope="module")
def mod():
    return basics()


@pytest.fixture
def gpu():
    return jax.devices("gpu")[0]


VECTOR_ADD = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void sum_of_two(const float* left, const float* right, float* total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) total[i] = left[i] + right[i];
}

// @BE vector_sum arg arg ret stream
void vector_sum(const BE::Tensor left, const BE::Tensor right, BE::Tensor total, int64_t stream) {
  int n = left.numel();
  sum_of_two<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
      static_cast<const float*>(left.data_ptr()), static_cast<const float*>(right.data_ptr()),
      static_cast<float*>(total.data_ptr()), n);
}
"""


def test_from_a_string_or_a_file_to_a_call(tmp_path):
    a, b = jnp.ones(1024), jnp.full(1024, 2.0)
    module = brainevent.load_cuda_inline(name="gpu_vectors", cuda_sources=VECTOR_ADD, functions=None)
    call = jax.ffi.ffi_call("gpu_vectors.vector_sum", like(a))
    np.testing.assert_array_equal(call(a, b), np.full(1024, 3.0))
    np.testing.assert_array_equal(jax.jit(call)(a, b), np.full(1024, 3.0))
    np.testing.assert_array_equal(module.vector_sum(a, b, outs=like(a)), np.full(1024, 3.0))
    path = tmp_path / "from_file.cu"
    path.write_text(VECTOR_ADD)
    by_list = brainevent.load_cuda_file(path, ["vector_sum"], use_fast_math=True, optimization_level=2)
    np.testing.assert_array_equal(by_list.vector_sum(a, b, outs=like(a)), np.full(1024, 3.0))
    by_dict = brainevent.load_cuda_dir(tmp_path, {"vector_sum": ["args", "args", "rets", "ctx.stream"]}, name="gpu_dir")
    np.testing.assert_array_equal(by_dict.vector_sum(a, b, outs=like(a)), np.full(1024, 3.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dispatch_chooses_the_type(mod, dtype):
    with jax.enable_x64(True):
        x = jnp.arange(8.0).astype(dtype)
        np.testing.assert_array_equal(mod.add(x, x, outs=like(x)), 2 * x)
    i = jnp.arange(8)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"FLOATING_AND_HALF: dtype int32 is not one of float16"):
        mod.add(i, i, outs=like(i)).block_until_ready()


def test_a_wrong_attribute_is_reported(mod):
    x = jnp.ones(4)
    call = jax.ffi.ffi_call("cuda_basics.affine", like(x))
    np.testing.assert_array_equal(call(x, scale=np.float32(2), offset=np.float32(1)), 2 * x + 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="'scale' is int32, but was declared float32"):
        call(x, scale=np.int32(7), offset=np.float32(1)).block_until_ready()
    np.testing.assert_array_equal(mod.affine(x, outs=like(x), scale=3, offset=0.5), 3 * x + 0.5)


def test_tensors_go_to_the_device_by_value(mod):
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(mod.sum_rows(x, outs=jax.ShapeDtypeStruct((3,), jnp.float32)), x.sum(1))


# ---- CUDA graphs ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["recorded", "not recorded"])
def counting(request):
    """A module that counts its calls, the list of counts, and whether its calls may be recorded."""
    name = f"cuda_counting_{request.param}"
    module = brainevent.load_cuda_inline(name, COUNTING, allow_cuda_graph=request.param)
    counts = (ctypes.c_long * 2).in_dll(ctypes.CDLL(module.path), "calls")
    counts[0] = counts[1] = 0
    return module, counts, request.param


def test_a_chain_of_fifty_calls_is_recorded_in_a_graph(counting):
    module, counts, recorded = counting

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = module.count(x, outs=like(x))
        return x

    x = jnp.arange(1024.0)
    for _ in range(20):
        np.testing.assert_array_equal(chain(x), x + 50)
    if recorded:
        assert counts[1] > 0
        assert counts[0] < 20 * 50  # what is replayed is not called
    else:
        assert list(counts) == [20 * 50, 0]
    for shift in range(5):  # with other buffers
        np.testing.assert_array_equal(chain(x + shift), x + shift + 50)


def test_a_batch_is_a_loop_in_the_handler_also_in_graphs(counting):
    module, counts, recorded = counting

    @jax.jit
    def chain(rows):
        for _ in range(20):
            rows = jax.vmap(lambda x: module.count(x, outs=like(x)))(rows)
        return rows

    rows = jnp.arange(40.0).reshape(10, 4)
    for _ in range(10):
        np.testing.assert_array_equal(chain(rows), rows + 20)
    assert chain.lower(rows).as_text().count("custom_call @") == 20
    if recorded:
        assert counts[1] > 0
        assert counts[1] % 10 == 0
    else:
        assert list(counts) == [10 * 20 * 10, 0]


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (1, r"be_fail: \[be\] CHECK FAILED at cuda_basics.cu:\d+: how != 1 - how is 1"),
        (2, "be_fail: out of paper"),
        (3, r"CUDA ERROR at cuda_basics.cu:\d+: kernel launch - cudaErrorInvalid\w+: "),
        (4, r"CUDA ERROR at cuda_basics.cu:\d+: cudaSetDevice\(4096\) - cudaErrorInvalidDevice"),
    ],
)
def test_what_is_thrown_becomes_an_error_of_jax(mod, how, words):
    x = jnp.ones(3)
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        jax.jit(lambda x: mod.fail(x, outs=like(x), how=how))(x).block_until_ready()
    np.testing.assert_array_equal(mod.fail(x, outs=like(x), how=0), np.zeros(3))
    np.testing.assert_array_equal(mod.add(x, x, outs=like(x)), 2 * x)  # the process and the GPU live on
    assert any(re.search(words, said) for said in last_words._said)


def test_a_check_in_device_code_prints_and_stops_the_program():
    """It ends the use of the GPU by its process: so it has one of its own."""
    printed = run_program(
        """
        import jax, jax.numpy as jnp
        from cuda_sources import basics
        mod = basics()
        print(mod.checked(jnp.ones(3), outs=jnp.ones(3)))
        try:
            mod.checked(jnp.array([1.0, -1.0]), outs=jnp.ones(2)).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            print("refused")
        import os, sys
        sys.stdout.flush()
        os._exit(0)
        """,
        JAX_PLATFORMS="cuda,cpu",
    )
    assert "[1. 1. 1.]" in printed
    assert "refused" in printed
    assert "CHECK FAILED" in printed
    assert "negative 1" in printed


# ---- operators ------------------------------------------------------------------------------------------------------


@pytest.fixture
def scaled(mod, unique_name):
    from cpp_sources import basics as cpp_basics

    operator = brainevent.XLACustomKernel(unique_name("gpu_scaled"))
    operator.def_cuda_raw_kernel(lambda *, outs: lambda x: mod.affine(x, outs=outs, scale=3, offset=1))
    operator.def_cpp_kernel(lambda *, outs: lambda x: cpp_basics().affine(x, outs=outs, scale=3, offset=1))
    operator.def_reference(lambda x: 3 * x + 1)
    operator.def_sharding_rule("i -> i")
    return operator


def test_check_passes_on_the_gpu(scaled, gpu):
    report = brainevent.check(scaled, jax.device_put(jnp.arange(1.0, 9.0), gpu))
    assert report.ok, str(report)


def test_one_operator_on_both_platforms(scaled, gpu):
    x = np.arange(8, dtype=np.float32)
    for device in (jax.devices("cpu")[0], gpu):
        there = jax.device_put(x, device)
        np.testing.assert_array_equal(jax.jit(scaled)(there), 3 * x + 1)
        np.testing.assert_array_equal(jax.grad(lambda x: (scaled(x) ** 2).sum())(there), 6 * (3 * x + 1))
        np.testing.assert_array_equal(jax.vmap(scaled)(there.reshape(2, 4)), (3 * x + 1).reshape(2, 4))


def test_loops_run_it(scaled, gpu):
    x = jax.device_put(jnp.arange(64.0), gpu)
    np.testing.assert_allclose(jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: scaled(y), x))(x), 27 * x + 13)


def test_changed_source_under_a_taken_name():
    old = brainevent.load_cuda_inline("gpu_changing", VECTOR_ADD)
    changed = VECTOR_ADD.replace("left[i] + right[i]", "left[i] - right[i]")
    with pytest.raises(brainevent.KernelRegistrationError, match="already registered to different content"):
        brainevent.load_cuda_inline("gpu_changing", changed)
    new = brainevent.load_cuda_inline("gpu_changing", changed, replace=True)
    a, b = jnp.full(8, 5.0), jnp.ones(8)
    assert float(old.vector_sum(a, b, outs=like(a))[0]) == 6
    assert float(new.vector_sum(a, b, outs=like(a))[0]) == 4
    assert float(jax.ffi.ffi_call("gpu_changing.vector_sum", like(a))(a, b)[0]) == 4


@pytest.mark.skipif("len(jax.devices('gpu')) < 2", reason="needs two GPUs")
def test_two_devices(mod, scaled):
    first, second = jax.devices("gpu")[:2]
    x = np.arange(1024, dtype=np.float32)
    call = jax.jit(lambda x: mod.affine(x, outs=like(x), scale=2, offset=1))
    for device in (second, first, second):
        result = call(jax.device_put(x, device))
        assert result.devices() == {device}
        np.testing.assert_array_equal(result, 2 * x + 1)
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=[first, second])
    sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.P("d")))
    jitted = jax.jit(scaled)
    np.testing.assert_array_equal(jitted(sharded), 3 * x + 1)
    assert jitted(sharded).sharding.spec == jax.P("d")
    assert "all-gather" not in jitted.lower(sharded).compile().as_text()
    mapped = jax.jit(jax.shard_map(scaled, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))
    np.testing.assert_array_equal(mapped(sharded), 3 * x + 1)

    def chain(x):
        for _ in range(20):
            x = mod.affine(x, outs=like(x), scale=1, offset=1)
        return x

    both = jax.jit(jax.shard_map(chain, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))
    for shift in range(3):
        np.testing.assert_array_equal(both(sharded + shift), x + shift + 20)


def test_the_library_brings_its_own_runtime(mod):
    """No libcudart is looked up when it is loaded."""
    assert ctypes.CDLL(mod.path)
    with open(mod.path, "rb") as file:
        assert b"libcudart.so" not in file.read()


def test_an_exported_program_carries_the_library(scaled, gpu, tmp_path):
    x = jax.device_put(jnp.arange(6.0).reshape(2, 3), gpu)
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda _, y: scaled(scaled(scaled(y))), x[0]))
    for name, function in {"program": jax.jit(jax.vmap(scaled)), "chain": chain}.items():
        program = jax.export.export(function, disabled_checks=brainevent.export_checks())(x)
        (tmp_path / name).write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        program, chain = (jax.export.deserialize(open(path, "rb").read()) for path in sys.argv[1:])
        result = program.call(jnp.arange(6.0).reshape(2, 3))
        print(result.tolist(), result.devices(), chain.call(jnp.ones((2, 3))).tolist())
    """
    empty = str(tmp_path / "empty")
    files = tmp_path / "program", tmp_path / "chain"
    printed = run_program(source, *files, JAX_PLATFORMS="cuda,cpu", BRAINEVENT_CACHE_DIR=empty)
    assert printed.startswith("[[1.0, 4.0, 7.0], [10.0, 13.0, 16.0]]")
    assert "cuda" in printed.lower()
    value = 1
    for _ in range(6):
        value = 3 * value + 1
    assert f"[{value}.0, {value}.0, {value}.0]" in printed


def test_a_name_that_graphs_may_record_is_not_given_to_one_that_they_must_not():
    brainevent.load_cuda_inline("gpu_recordable", VECTOR_ADD)
    with pytest.raises(
        brainevent.KernelRegistrationError, match="the new source has allow_cuda_graph=False: give it an"
    ):
        brainevent.load_cuda_inline("gpu_recordable", VECTOR_ADD, allow_cuda_graph=False, replace=True)
