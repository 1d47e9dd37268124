# SPDX-License-Identifier: Apache-2.0
"""Build the hand-written CUDA handler with nvcc."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax

from benchmarks.probes.cpp import build_once

SOURCE = Path(__file__).with_name("add.cu")
TOOLKIT = "BRAINEVENT_BENCH_TOOLKIT"


def build_command(library: Path, capability: str, source: Path = SOURCE) -> list[str]:
    """How the library is built, for one compute capability such as "9.0"."""
    toolkit, number = _find_toolkit(), capability.replace(".", "")
    options = ["-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-w"]  # XLA's headers bring warnings
    options += ["-gencode", f"arch=compute_{number},code=sm_{number}", f"-I{jax.ffi.include_dir()}"]
    options += [f"-I{folder}" for folder in toolkit.include_dirs] + [f"-L{folder}" for folder in toolkit.library_dirs]
    return [toolkit.nvcc, *options, str(source), "-o", str(library)]


def _find_toolkit() -> Any:
    """What our search finds; or found already, for a process where the package of that name is not ours."""
    if found := os.environ.get(TOOLKIT):
        return SimpleNamespace(**json.loads(found))
    from brainevent.toolchain.find import find_cuda_toolkit

    return find_cuda_toolkit()


def toolkit_for_others() -> dict[str, str]:
    """Variables of the environment from which another process knows the toolkit; none if there is none."""
    from brainevent.errors import KernelToolchainError

    try:
        toolkit = _find_toolkit()
    except KernelToolchainError:
        return {}
    known = {name: getattr(toolkit, name) for name in ("nvcc", "include_dirs", "library_dirs")}
    return {TOOLKIT: json.dumps(known, default=str)}


def own_capability() -> str:
    """The compute capability of this machine's first GPU."""
    return str(jax.devices("cuda")[0].compute_capability)


def build_handlers(source: Path = SOURCE) -> Path:
    """The library of `add.cu`, or of another source, for this machine's GPU."""
    return build_once(source, lambda library: build_command(library, own_capability(), source))
