# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: what goes wrong on the device is told, what runs for long does not grow, and tools find nothing."""

import pytest
from language_kernels import LANGUAGE_KERNELS
from programs import run_program
from sanitizer import GPU, TOOLS, sanitized

pytestmark = pytest.mark.gpu
EVERY = pytest.mark.parametrize("name", LANGUAGE_KERNELS)

PRELUDE = """
    import functools, sys, warnings
    warnings.filterwarnings("ignore")
    import jax, jax.numpy as jnp, numpy as np
    from language_kernels import LANGUAGE_KERNELS
    import pytest
    try:
        product, matvec = LANGUAGE_KERNELS[sys.argv[1]].animals(sys.argv[1], "gpu")
    except pytest.skip.Exception as missing:
        print("skipped:", missing)
        sys.exit()
"""

MILLION = """
    import re

    def resident():
        return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

    x, y = jnp.ones(1024), jnp.ones(1024)
    half = jax.jit(lambda x: jax.lax.fori_loop(0, 500_000, lambda _, v: product.call(v, y), x))
    chain = jax.jit(lambda x: functools.reduce(lambda v, _: product.call(v, y), range(50), x))

    def many():
        half(x).block_until_ready()
        for _ in range(10_000):
            result = chain(x)
        return result.block_until_ready()

    chain(x), half(x).block_until_ready()
    before = resident(), jax.devices("gpu")[0].memory_stats()["bytes_in_use"]
    result = many()  # a million launches
    after = resident(), jax.devices("gpu")[0].memory_stats()["bytes_in_use"]
    del result
    assert (chain(x) == 1).all()
    print(*(b - a for a, b in zip(before, after)))
"""


def of_language(name, source, *arguments, timeout=300, **environment):
    printed = run_program(PRELUDE + source, name, *arguments, timeout=timeout, **GPU, **environment).strip()
    if printed.startswith("skipped"):
        pytest.skip(printed)
    return printed


@EVERY
def test_a_million_launches_do_not_grow(name):
    host, device = map(int, of_language(name, MILLION, XLA_PYTHON_CLIENT_ALLOCATOR="default").split())
    assert host < 32 * 2**20
    assert device <= 2**20


WRONG = """
    import brainevent
    n = 1024
    vector = jax.ShapeDtypeStruct((n,), jnp.float32)
    far = 1 << 44

    def numba_cuda():
        from numba import cuda

        @cuda.jit
        def astray(x, out):
            i = cuda.grid(1)
            out[i + far] = x[i]

        return brainevent.numba_cuda_kernel(astray, vector, launch_dims=n)

    def numba_cuda_recorded():
        from numba import cuda

        @cuda.jit
        def astray(x, out):
            i = cuda.grid(1)
            out[i + far] = x[i]

        def run(x, out, stream):
            astray[4, 256, stream](x, out)

        return brainevent.numba_cuda_callable(run, vector)

    def raw_cuda():
        source = "__global__ void astray(const float* x, float* out) { out[threadIdx.x + (1ull << 44)] = x[0]; }"
        return brainevent.cuda_kernel(source, "astray", vector, grid=4, block=256)

    def cuda_cpp():
        return brainevent.load_cuda_inline("astray", '''
            #include <cuda_runtime.h>
            #include "brainevent/common.h"
            __global__ void astray_kernel(const float* x, float* out) { out[threadIdx.x + (1ull << 44)] = x[0]; }
            // @BE astray arg ret stream
            void astray(const BE::Tensor x, BE::Tensor out, int64_t stream) {
              astray_kernel<<<4, 256, 0, (cudaStream_t)stream>>>(
                  static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()));
            }
        ''').astray

    call = locals()[sys.argv[1]]()
    apply = (lambda x: call(x, outs=vector)) if sys.argv[1] == "cuda_cpp" else call
    try:
        jax.jit(lambda x: apply(x) + 1)(jnp.ones(n)).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print("told:", "ILLEGAL_ADDRESS" in str(error) or "illegal memory access" in str(error))
"""


@pytest.mark.parametrize("name", ["cuda_cpp", "numba_cuda", "numba_cuda_recorded", "raw_cuda"])
def test_a_kernel_that_faults_is_an_error_and_a_clean_exit(name):
    assert of_language(name, WRONG) == "told: True"


ONCE = """
    for animal in (product, matvec):
        operands = animal.operands(64)
        batch = [np.stack([x, x]) for x in operands]
        found = jax.jit(jax.vmap(animal.call))(*batch)
        np.testing.assert_allclose(found, jax.vmap(animal.twin)(*batch), rtol=1e-4)
        found = jax.jit(lambda x, y: jax.lax.fori_loop(0, 3, lambda i, v: v + animal.call(x, y), animal.call(x, y)))
        np.testing.assert_allclose(found(*operands), 4 * animal.twin(*operands), rtol=1e-4)
    print("right")
"""


@EVERY
@pytest.mark.parametrize("tool", TOOLS)
def test_compute_sanitizer_finds_nothing(name, tool, tmp_path):
    assert sanitized(tool, tmp_path, PRELUDE + ONCE, name).endswith("right")
