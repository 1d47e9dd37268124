# SPDX-License-Identifier: Apache-2.0
"""out = a + b in every language of GPU kernels, as functions of JAX arrays: (n,) + (n,) -> (n,)."""

import functools
import importlib
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes import cuda
from benchmarks.probes.contenders import Contender, keep_last, like, make_jax_add
from benchmarks.probes.cpp import register_handler
from benchmarks.probes.modules import make_module, make_module_ffi_call, make_module_operator, make_module_without_graph
from benchmarks.probes.ways import Way

BLOCK = 256
CUDA_ADD = """
extern "C" __global__ void add(const float* a, const float* b, float* out, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) out[i] = a[i] + b[i];
}
"""


@functools.cache
def _target() -> str:
    return register_handler(cuda.build_handlers(), "Add", "bench_cuda_by_hand", "CUDA")


def make_cuda(vmap_method: str | None = None) -> Contender:
    """The CUDA handler written by hand."""
    target = _target()
    return lambda a, b: jax.ffi.ffi_call(target, like(a), vmap_method=vmap_method)(a, b)


def make_jax_alone() -> Contender:
    """JAX's own addition, one kernel each: XLA may not join what stands before and behind a barrier."""
    return lambda a, b: jax.lax.optimization_barrier(a + b)


def _numba_add(package: str = "numba") -> Any:
    numba_cuda = importlib.import_module(f"{package}.cuda")

    @numba_cuda.jit
    def add(a: Any, b: Any, out: Any) -> None:
        i = numba_cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    return add


def blocks(array: Any) -> int:
    """How many blocks cover an array."""
    return -(-array.size // BLOCK)


def make_numba_cuda(package: str = "numba") -> Contender:
    """`brainevent.numba_cuda_kernel`; ours, or in its process the peer's."""
    import brainevent

    add = _numba_add(package)
    build = keep_last(lambda out: brainevent.numba_cuda_kernel(add, outs=out, launch_dims=out.shape[0]))
    return lambda a, b: build(like(a))(a, b)


def _callable(function: Any) -> Contender:
    import brainevent

    build = keep_last(lambda out: brainevent.numba_cuda_callable(function, outs=out))
    return lambda a, b: build(like(a))(a, b)


def make_callable() -> Contender:
    """A function that launches one kernel."""
    add = _numba_add()

    def launches(a: Any, b: Any, out: Any, stream: Any) -> None:
        add[blocks(out), BLOCK, stream](a, b, out)

    return _callable(launches)


def make_callable_with_temporary() -> Contender:
    """A function that launches two kernels, with a temporary array between them."""
    import numpy as np
    from numba import cuda as numba_cuda

    add = _numba_add()

    @numba_cuda.jit
    def copy(x: Any, out: Any) -> None:
        i = numba_cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    def launches(a: Any, b: Any, out: Any, stream: Any) -> None:
        total = numba_cuda.device_array(out.shape, dtype=np.float32)
        add[blocks(out), BLOCK, stream](a, b, total)
        copy[blocks(out), BLOCK, stream](total, out)

    return _callable(launches)


def make_callable_through_python() -> Contender:
    """A function that waits for the stream: no plan can repeat it, so it is called for every run."""
    add = _numba_add()
    warnings.filterwarnings("ignore", ".*through Python.*")
    warnings.filterwarnings("ignore", ".*under-utilization.*")

    def waits(a: Any, b: Any, out: Any, stream: Any) -> None:
        add[blocks(out), BLOCK, stream](a, b, out)
        stream.synchronize()

    return _callable(waits)


@functools.cache
def _warp_add() -> Any:
    warp = quiet_warp()
    vector: Any = warp.array(dtype=warp.float32)

    def add(a, b, out):  # type: ignore[no-untyped-def]
        i = warp.tid()
        out[i] = a[i] + b[i]

    add.__annotations__ = {"a": vector, "b": vector, "out": vector}
    return warp.kernel(add)


def quiet_warp() -> Any:
    """The package, which by default prints what it does."""
    warp = importlib.import_module("warp")
    warp.config.quiet = True
    return warp


def warp_entry() -> Any:
    """Warp's own `jax_kernel`, which older releases keep elsewhere."""
    warp = quiet_warp()
    return (warp if hasattr(warp, "jax_kernel") else importlib.import_module("warp.jax_experimental")).jax_kernel


def make_warp_kernel() -> Contender:
    """`brainevent.warp_kernel`."""
    import brainevent

    add = _warp_add()
    build = keep_last(lambda out: brainevent.warp_kernel(add, outs=out, launch_dims=out.shape[0]))
    return lambda a, b: build(like(a))(a, b)


def make_warp_jax() -> Contender:
    """Warp's own `jax_kernel`, as it is when nothing more is asked for."""
    call = warp_entry()(_warp_add())
    return lambda a, b: call(a, b)[0]


def make_cuda_kernel() -> Contender:
    """`brainevent.cuda_kernel`: the text of a kernel, compiled by NVRTC."""
    import brainevent

    build = keep_last(lambda out: brainevent.cuda_kernel(CUDA_ADD, "add", outs=out, launch_dims=out.shape[0]))
    return lambda a, b: build(like(a))(a, b, size=a.shape[0])


def make_cubin_kernel() -> Contender:
    """`brainevent.cubin_kernel`: the machine code that nvcc made."""
    import brainevent
    from brainevent.toolchain.find import find_cuda_toolkit

    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "add.cu"), Path(folder, "add.cubin")
        source.write_text(CUDA_ADD)
        subprocess.run([find_cuda_toolkit().nvcc, "--cubin", "-arch=native", str(source), "-o", str(cubin)], check=True)
        code = cubin.read_bytes()
    arguments = {"a": "input", "b": "input", "out": "output", "size": "int32"}
    build = keep_last(
        lambda out: brainevent.cubin_kernel(code, "add", outs=out, arguments=arguments, launch_dims=out.shape[0])
    )
    return lambda a, b: build(like(a))(a, b, size=a.shape[0])


def make_cutile_kernel() -> Contender:
    """`brainevent.cutile_kernel`: tiles of as many elements as blocks of the others have threads."""
    import brainevent

    add = importlib.import_module("benchmarks.probes.cutile_kernels").add
    build = keep_last(lambda out: brainevent.cutile_kernel(add, outs=out, grid=blocks(out)))
    return lambda a, b: build(like(a))(a, b, tile=BLOCK)


def make_cute_kernel() -> Contender:
    """`brainevent.cute_kernel`: a host function that launches one kernel."""
    import brainevent

    add = importlib.import_module("benchmarks.probes.cute_kernels").add
    build = keep_last(lambda out: brainevent.cute_kernel(add, outs=out))
    return lambda a, b: build(like(a))(a, b)


def make_triton() -> Contender:
    """A Triton kernel through jax-triton."""
    jax_triton = importlib.import_module("jax_triton")
    add = importlib.import_module("benchmarks.probes.triton_kernels").add
    return lambda a, b: jax_triton.triton_call(
        a, b, kernel=add, out_shape=like(a), grid=(blocks(a),), size=a.size, block=BLOCK
    )


def make_pallas() -> Contender:
    """A Pallas kernel, which JAX lowers by itself; interpreted where there is no GPU."""
    from jax.experimental import pallas

    def add(a: Any, b: Any, out: Any) -> None:
        out[...] = a[...] + b[...]

    part = pallas.BlockSpec((BLOCK,), lambda i: (i,))
    interpret = jax.default_backend() == "cpu"
    return lambda a, b: pallas.pallas_call(
        add, out_shape=like(a), grid=(blocks(a),), in_specs=[part, part], out_specs=part, interpret=interpret
    )(a, b)


_NUMBA, _WARP = ("brainevent", "numba.cuda"), ("brainevent", "warp")
_MLIR = "numba_cuda_mlir"
WAYS: dict[str, Way] = {
    "jax": Way(make_jax_add),
    "jax_alone": Way(make_jax_alone),
    "cuda": Way(make_cuda),
    "module": Way(lambda: make_module("cuda"), ("brainevent",)),
    "module_ffi_call": Way(lambda: make_module_ffi_call("cuda"), ("brainevent",)),
    "module_operator": Way(lambda: make_module_operator("cuda"), ("brainevent",)),
    "module_without_graph": Way(make_module_without_graph, ("brainevent",)),
    "cuda_kernel": Way(make_cuda_kernel, ("brainevent", "cuda.bindings")),
    "cubin_kernel": Way(make_cubin_kernel, ("brainevent",)),
    "cutile_kernel": Way(make_cutile_kernel, ("brainevent", "cuda.tile")),
    "cute_kernel": Way(make_cute_kernel, ("brainevent", "cutlass.cute", "tvm_ffi")),
    "numba_cuda": Way(make_numba_cuda, _NUMBA),
    "numba_cuda_mlir": Way(lambda: make_numba_cuda(_MLIR), ("brainevent", _MLIR)),
    "callable": Way(make_callable, _NUMBA),
    "callable_with_temporary": Way(make_callable_with_temporary, _NUMBA),
    "callable_through_python": Way(make_callable_through_python, _NUMBA),
    "warp_kernel": Way(make_warp_kernel, _WARP),
    "triton": Way(make_triton, ("triton", "jax_triton")),
    "pallas": Way(make_pallas, ("jax.experimental.pallas",)),
    "warp_jax": Way(make_warp_jax, ("warp",)),
}


def operands(size: int) -> tuple[jax.Array, jax.Array]:
    """The operands of a size: (n,), (n,)."""
    return jnp.arange(size, dtype=jnp.float32), jnp.ones(size, jnp.float32)
