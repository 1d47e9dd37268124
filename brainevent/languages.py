# SPDX-License-Identifier: Apache-2.0
"""The table of kernel languages: name, platforms, and the reason why one is not available here."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import jax

from ._system import why_not_compiled
from .errors import HeaderNotFoundError, HostCompilerNotFoundError, KernelToolchainError, NvccNotFoundError

__all__ = ["LANGUAGES", "Language", "in_one_sentence", "language", "numba_cuda_is_simulated"]

_CODE = re.compile(r"^\[E-[A-Z]+\] ")
_INSTALL = {
    HostCompilerNotFoundError: "run: apt install g++, or conda install gxx",
    NvccNotFoundError: "run: pip install 'jax[cuda13]' nvidia-cuda-nvcc nvidia-cuda-cccl, or install the CUDA toolkit",
    HeaderNotFoundError: "run: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
}


@dataclass(frozen=True)
class Language:
    """A row of the table; `why_missing()` is None, or one sentence that says what to install.

    An `emulator`, if any, runs the language's kernels for GPUs and TPUs on a CPU, unless `why_not_emulated()` returns
    the reason why not. `merges_batches` means that the language's own wrapper for JAX passes a whole batch to a kernel
    as one array, which is wrong for most kernels.
    """

    name: str
    title: str
    platforms: tuple[str, ...]
    why_missing: Callable[[], str | None]
    emulator: str | None = None
    why_not_emulated: Callable[[], str | None] = lambda: None
    merges_batches: bool = False

    def why_not_compiled(self, *instead: str) -> str | None:
        """Return why kernels in this language do not run on this operating system, with advice, or None."""
        return None if self.name == "pallas" else why_not_compiled(f"a kernel in {self.title}", *instead)


def _package(module: str, install: str) -> str | None:
    """Search for a package without importing it."""
    if importlib.util.find_spec(module) is None:
        return f"the package {module.partition('.')[0]!r} is not installed; run: {install}"
    return None


def _device(*platforms: str) -> str | None:
    """Search for a device that JAX can use."""
    for platform in platforms:
        try:
            if jax.devices(platform):
                return None
        except RuntimeError:
            continue
    if "gpu" in platforms:
        return "JAX sees no GPU; on a machine with one, run: pip install 'jax[cuda13]'"
    return "JAX sees no TPU; on a machine with one, run: pip install 'jax[tpu]'"


def _tool(find: Callable[[], object]) -> str | None:
    """Search for a compiler like the loaders, and run it once."""
    try:
        find()
    except (KernelToolchainError, ValueError) as error:
        return in_one_sentence(error)
    return None


def in_one_sentence(error: Exception) -> str:
    """Return "no C++ compiler is found here; run: ..." for what the search for a compiler raised."""
    first = _CODE.sub("", str(error).partition("\n")[0]).removesuffix(" Tried:").removesuffix(".")
    for kind, install in _INSTALL.items():
        if isinstance(error, kind):
            return f"{first}; {install if first.endswith(' is found here') else 'correct or unset that variable'}"
    return first


def _numba() -> str | None:
    return _package("numba", "pip install numba")


def _cpp() -> str | None:
    from .toolchain.find import find_host_compiler

    return _tool(find_host_compiler)


def _cuda_raw() -> str | None:
    from .toolchain.find import find_cuda_toolkit

    return _device("gpu") or _tool(find_cuda_toolkit)


def _numba_cuda() -> str | None:
    return _package("numba_cuda", "pip install 'numba-cuda[cu13]'") or _device("gpu")


def _nvrtc() -> str | None:
    install = "pip install 'cuda-bindings[all]'"
    return _package("cuda", install) or _package("cuda.bindings", install) or _device("gpu")


def _warp() -> str | None:
    return _package("warp", "pip install warp-lang")


def _triton() -> str | None:
    install = "pip install jax-triton triton"
    return _package("jax_triton", install) or _package("triton", install) or _device("gpu")


def _pallas() -> str | None:
    return _device("gpu", "tpu")


def _numba_simulator() -> str | None:
    if numba_cuda_is_simulated() is False:
        return (
            "numba.cuda was imported before emulation was switched on; start Python with BRAINEVENT_EMULATE=1, or call "
            "brainevent.config.emulate() before anything imports numba.cuda"
        )
    return _numba()


def numba_cuda_is_simulated() -> bool | None:
    """Return whether `numba.cuda` is Numba's simulator in this process; None: it is yet to be imported."""
    module = sys.modules.get("numba.cuda")
    decorator = getattr(module, "jit", None)  # missing during the import
    return None if decorator is None else decorator.__module__.startswith("numba.cuda.simulator")


def _compiled(title: str, why_missing: Callable[[], str | None]) -> Callable[[], str | None]:
    """Check the operating system first: compiled code does not run on all of them."""
    return lambda: why_not_compiled(f"a kernel in {title}") or why_missing()


LANGUAGES = (
    Language("numba", "Numba", ("cpu",), _compiled("Numba", _numba)),
    Language("cpp", "C++", ("cpu",), _compiled("C++", _cpp)),
    Language("cuda_raw", "CUDA C++", ("gpu",), _compiled("CUDA C++", _cuda_raw)),
    Language(
        "numba_cuda",
        "Numba-CUDA",
        ("gpu",),
        _compiled("Numba-CUDA", _numba_cuda),
        "Numba's simulator",
        _compiled("Numba's simulator", _numba_simulator),
    ),
    Language("nvrtc", "Raw CUDA (NVRTC)", ("gpu",), _compiled("CUDA", _nvrtc)),
    Language(
        "warp",
        "NVIDIA Warp",
        ("cpu", "gpu"),
        _compiled("Warp", _warp),
        "Warp's CPU device",
        _compiled("Warp", _warp),
        merges_batches=True,
    ),
    Language("triton", "Triton", ("gpu",), _compiled("Triton", _triton)),
    Language("pallas", "Pallas", ("gpu", "tpu"), _pallas, "Pallas's interpreter"),
)


def language(name: str) -> Language | None:
    """Return the row of that name, or None."""
    return next((row for row in LANGUAGES if row.name == name), None)
