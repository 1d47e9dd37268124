# SPDX-License-Identifier: Apache-2.0
"""What our loaders make of a source text, called in each way: (n,) + (n,) -> (n,)."""

import functools
from typing import Any

import jax

from benchmarks.probes.contenders import Contender, keep_last, like
from benchmarks.probes.cpp import FOLDER
from benchmarks.probes.sources import FUNCTION, LOADERS


@functools.cache
def load_module(language: str, name: str = "bench", **options: Any) -> Any:
    """The module of "cpp" or "cuda", built on the first use."""
    import brainevent

    brainevent.set_cache_dir(FOLDER / "cache")
    loader, source = LOADERS[language]
    return getattr(brainevent, loader)(f"{name}_{language}", source, **options)


def make_module(language: str, vmap_method: str | None = None) -> Contender:
    """The module's function, called directly."""
    add = getattr(load_module(language), FUNCTION)
    return lambda a, b: add(a, b, outs=like(a), vmap_method=vmap_method)


def make_module_without_graph() -> Contender:
    """The same, built so that XLA does not record it in a CUDA graph."""
    add = getattr(load_module("cuda", "bench_without_graph", allow_cuda_graph=False), FUNCTION)
    return lambda a, b: add(a, b, outs=like(a))


def make_module_ffi_call(language: str) -> Contender:
    """`jax.ffi.ffi_call` of the target that the loader registered."""
    load_module(language)
    build = keep_last(lambda out: jax.ffi.ffi_call(f"bench_{language}.{FUNCTION}", out))
    return lambda a, b: build(like(a))(a, b)


def make_module_operator(language: str) -> Contender:
    """An `XLACustomKernel` whose kernel is the module's function."""
    import brainevent

    add = getattr(load_module(language), FUNCTION)
    operator = brainevent.XLACustomKernel(f"bench_{language}_operator")
    define = operator.def_cpp_kernel if language == "cpp" else operator.def_cuda_raw_kernel
    define(lambda *, outs, **_: lambda a, b: add(a, b, outs=outs))
    return lambda a, b: operator(a, b, outs=[like(a)])[0]
