# SPDX-License-Identifier: Apache-2.0
"""Name the machine, the versions and the revision that a result belongs to."""

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.options import ROOT

PACKAGES = (
    "jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin", "numba", "llvmlite", "numpy", "warp-lang", "numba-cuda",
    "cuda-bindings", "nvidia-cuda-nvrtc", "triton", "jax-triton",
)  # fmt: skip


def describe_machine() -> dict[str, Any]:
    """What a reader needs in order to compare this result with another one."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "os": _operating_system(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "compiler": _first_line([os.environ.get("CXX", "g++"), "--version"]),
        "nvcc": _nvcc_version(),
        "gpu": _gpus(),
        "packages": {name: _version(name) for name in PACKAGES},
        "revision": _revision(),
    }


def machine_slug(machine: dict[str, Any], gpu: bool = False) -> str:
    """A file name for the machine: `amd-epyc-2-cores`, or `nvidia-h200` by its GPU."""
    name = machine["gpu"].split(",")[0] if gpu and machine["gpu"] else f"{machine['cpu']} {machine['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        if found:
            return found.group(1)
    return platform.processor() or platform.machine()


def _gpus() -> str | None:
    """`NVIDIA H200, driver 580.1, compute capability 9.0`, and how many there are if more than one."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    first = _first_line(command)
    if first is None or first.count(", ") != 2:
        return None
    name, driver, capability = first.split(", ")
    count = len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    several = f", {count} GPUs" if count > 1 else ""
    return f"{name}, driver {driver}, compute capability {capability}{several}"


def _nvcc_version() -> str | None:
    from brainevent.errors import KernelToolchainError
    from brainevent.toolchain.find import find_cuda_toolkit

    try:
        return find_cuda_toolkit().version
    except KernelToolchainError:
        return None


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    revision = _first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    if revision is None:
        return None
    # The results themselves do not count as a change.
    changed = _first_line(["git", "-C", str(ROOT), "status", "--porcelain", "--", ".", ":!benchmarks/results"])
    return f"{revision} with uncommitted changes" if changed else revision


def _first_line(command: list[str]) -> str | None:
    """The first line that a command prints; None when it fails or prints nothing."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return output.splitlines()[0].strip() if output.strip() else None
