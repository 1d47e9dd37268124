# SPDX-License-Identifier: Apache-2.0
"""Build the hand-written CUDA handler with nvcc."""

from pathlib import Path

import jax

from benchmarks.probes.cpp import build_once

SOURCE = Path(__file__).with_name("add.cu")


def build_command(library: Path, capability: str) -> list[str]:
    """How the library is built, for one compute capability such as "9.0"."""
    from brainevent.toolchain.find import find_cuda_toolkit

    toolkit, number = find_cuda_toolkit(), capability.replace(".", "")
    options = ["-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-w"]  # XLA's headers bring warnings
    options += ["-gencode", f"arch=compute_{number},code=sm_{number}", f"-I{jax.ffi.include_dir()}"]
    options += [f"-I{folder}" for folder in toolkit.include_dirs] + [f"-L{folder}" for folder in toolkit.library_dirs]
    return [toolkit.nvcc, *options, str(SOURCE), "-o", str(library)]


def own_capability() -> str:
    """The compute capability of this machine's first GPU."""
    return str(jax.devices("cuda")[0].compute_capability)


def build_handlers() -> Path:
    """The library of `add.cu` for this machine's GPU."""
    return build_once(SOURCE, lambda library: build_command(library, own_capability()))
