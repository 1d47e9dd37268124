# SPDX-License-Identifier: Apache-2.0
"""What the package knows about a kernel language is one value, which the language's folder in `backends/` registers."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from . import config
from ._content import add_libraries
from ._system import why_not_compiled
from .errors import (
    HeaderNotFoundError,
    HostCompilerNotFoundError,
    KernelNotAvailableError,
    KernelToolchainError,
    NvccNotFoundError,
    RegistrationTypeError,
    RegistrationValueError,
)

__all__ = ["Generator", "Language", "Variants", "in_one_sentence", "known_languages", "language",
           "load_with_packages", "no_device",
           "no_driver", "no_package", "no_tool", "register", "watch", "where_compiled"]  # fmt: skip

_CODE = re.compile(r"^\[E-[A-Z]+\] ")
_INSTALL = {
    HostCompilerNotFoundError: "run: apt install g++, or conda install gxx",
    NvccNotFoundError: "run: pip install 'jax[cuda13]' nvidia-cuda-nvcc nvidia-cuda-cccl, or install the CUDA toolkit",
    HeaderNotFoundError: "run: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
}

Why = Callable[[], str | None]  # None, or one sentence that says what is missing and what to install
Generator = Callable[..., Any]  # of kernels
Variants = Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]]  # keyword arguments of a generator to choose from


@dataclass(frozen=True, eq=False)
class Language:
    """What the package knows about a kernel language.

    Args:
        name: The name, as in `def_<name>_kernel`, in the calls of operators, and in `brainevent doctor`.
        title: The name in sentences.
        platforms: Where its kernels run: "cpu", "gpu", "tpu".
        why_missing: Returns None, or one sentence that says what is missing here and what to install.
        returns: What a kernel generator returns, for the help of `def_<name>_kernel`.
        method: The method `def_<name>_kernel` itself, if it has parameters of its own or an example; else it is made,
            for the last of `platforms`.
        wrappers: The public functions of the language, and the modules that they are in.
        packages: What is installed for it, by the names of packages: their versions are part of what `tune` stores.
        extra: Whether these packages need not be there on a machine where its kernels could run.
        libraries: Modules that its kernels use and that their versions identify: what a kernel uses of them is not part
            of its name.
        batches: How `jax.vmap` runs its kernels, as in the table of languages.
        merges_batches: Whether its own wrapper for JAX passes a whole batch to a kernel as one array, which is wrong
            for most kernels.
        needs: What it needs besides JAX, as in the table of languages.
        derives: Whether it derives gradients from kernels, as in the table of languages.
        compiles: Whether its kernels are compiled, which not every operating system allows.
        emulator: What runs its kernels for GPUs and TPUs on a CPU, if anything does.
        why_not_emulated: Returns None, or why this emulator is missing.
        emulated: Turns a kernel generator into one whose kernels the emulator runs.
        when_emulating: Called with True and False when emulation is switched on and off.
        on_laptop: What happens to its kernels without such a device, as in the table of languages.
        loaders: Of kernels in exported programs, by kind: modules whose `load(header, code)` gives a handler.
        trial: Builds a function that adds one to an array of float32, for `brainevent doctor --try`.
        notes: What else `brainevent doctor` says about emulation in this process: labels and sentences.
    """

    name: str
    title: str
    platforms: tuple[str, ...]
    why_missing: Why
    returns: str = "a function of the operands"
    method: Callable[..., None] | None = None
    wrappers: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    extra: bool = False
    libraries: tuple[str, ...] = ()
    batches: str = "native loop"
    merges_batches: bool = False
    needs: str = "nothing"
    derives: str = "no"
    compiles: bool = True
    emulator: str | None = None
    why_not_emulated: Why = lambda: None
    emulated: Callable[[Generator], Generator] = lambda generator: generator
    when_emulating: Callable[[bool], None] | None = None
    on_laptop: str = "no"
    loaders: Mapping[str, str] = field(default_factory=dict)
    trial: Callable[[], Callable[[Any], Any]] | None = None
    notes: Callable[[], Iterable[tuple[str, str]]] = tuple

    def why_not_compiled(self, *instead: str) -> str | None:
        """Return why kernels in this language do not run on this operating system, with advice, or None."""
        return why_not_compiled(f"a kernel in {self.title}", *instead) if self.compiles else None


LANGUAGES: dict[str, Language] = {}  # by name, in the order of registration
_watchers: list[Callable[[Language], None]] = []


def register(value: Language) -> None:
    """Add a language: its method of operators, its lines of `brainevent doctor`, its versions, its emulator.

    Raises:
        RegistrationTypeError: If it is not a `Language`.
        RegistrationValueError: If its name is not one, or another language has it.
    """
    if not isinstance(value, Language):
        raise RegistrationTypeError(f"languages.register: expected a Language, found {type(value).__name__}")
    if not value.name.isidentifier():
        raise RegistrationValueError(f"languages.register: {value.name!r} cannot be part of def_<name>_kernel")
    if value.name in LANGUAGES:
        if LANGUAGES[value.name] is value:
            return
        raise RegistrationValueError(f"languages.register: there is a language {value.name!r} already")
    LANGUAGES[value.name] = value
    add_libraries(value.libraries)
    if value.when_emulating is not None:
        config.call_when_emulating(value.when_emulating)
    for watcher in _watchers:
        watcher(value)


def watch(watcher: Callable[[Language], None]) -> None:
    """Call a function with each language that is registered, now and later."""
    _watchers.append(watcher)
    for value in LANGUAGES.values():
        watcher(value)


def known_languages() -> tuple[Language, ...]:
    """Return all languages."""
    return tuple(LANGUAGES.values())


def language(name: str) -> Language | None:
    """Return the language of that name, or None."""
    return LANGUAGES.get(name)


# ---- what is missing, in one sentence --------------------------------------------------------------------------------


def where_compiled(title: str, why_missing: Why) -> Why:
    """Check the operating system first: compiled code does not run on all of them."""
    return lambda: why_not_compiled(f"a kernel in {title}") or why_missing()


def no_package(module: str, install: str, package: str | None = None) -> str | None:
    """Search for a package without importing it; `package` is its name, if modules of others begin like this one."""
    try:
        found = importlib.util.find_spec(module)
        is_missing = found is None or getattr(found, "origin", "") is None  # without: a folder of the program's own
    except ModuleNotFoundError:  # the package that it is a part of is missing
        is_missing = True
    if not is_missing:
        return None
    name = package or module.partition(".")[0]
    if _is_installed(name):
        return f"the package {name!r} is installed without its module {module!r}, in part; run: {install}"
    return f"the package {name!r} is not installed; run: {install}"


def _is_installed(package: str) -> bool:
    from importlib import metadata

    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def load_with_packages(where: str, module: str, install: str) -> Any:
    """Import the part of a language that needs its packages, when a wrapper is called."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise KernelNotAvailableError(f"{where}: {error}; run: {install}") from error


def no_device(*platforms: str) -> str | None:
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


def no_driver(what: str, least: tuple[int, int]) -> str | None:
    """Compare the CUDA version of this machine's driver with the one that machine code needs."""
    version = _driver_version()
    if version is None or version >= least:
        return None
    here, needed = (".".join(map(str, pair)) for pair in (version, least))
    return f"the NVIDIA driver here is for CUDA {here}, and {what} needs one for CUDA {needed}; update the driver"


def _driver_version() -> tuple[int, int] | None:
    number = ctypes.c_int(0)
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def no_tool(find: Callable[[], object]) -> str | None:
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
