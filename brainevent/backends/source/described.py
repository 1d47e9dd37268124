# SPDX-License-Identifier: Apache-2.0
"""The common parts of builds of C++ and of CUDA."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..._compat import jaxlib_version
from ..._version import __version__
from ...toolchain import cache
from ...toolchain.build import Build
from ...toolchain.find import find_host_compiler
from ...toolchain.signature import resolve_functions
from .texts import Functions, Sources, flags, folders

__all__ = ["described"]


def described(
    sources: Sources,
    functions: Functions,
    *,
    cflags: dict[str, Sequence[str] | None],
    ldflags: Sequence[str] | None,
    include_paths: Sequence[str] | None,
    verbose: bool,
) -> Build:
    """Describe the build of sources; `cflags` are keyed by the name of their option."""
    where = sources.where
    ((option, given),) = cflags.items()
    return Build(
        where=where,
        sources=sources.parts,
        functions=resolve_functions(sources.parts, functions, where),
        cflags=flags(where, option, given),
        ldflags=flags(where, "extra_ldflags", ldflags),
        include_paths=folders(where, include_paths),
        source_folder=sources.folder,
        compiler=find_host_compiler(cache.memo_dir()),
        ffi_include_dir=jax.ffi.include_dir(),
        versions=(__version__, jaxlib_version),
        verbose=verbose,
    )
