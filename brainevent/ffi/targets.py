# SPDX-License-Identifier: Apache-2.0
"""Names of native targets, their registration with XLA, and their lifetime: that of the process."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from ..errors import KernelRegistrationError, did_you_mean
from .portable import GRAPH_TARGET, TARGET

__all__ = ["export_checks", "list_registered_targets", "register_ffi_target", "register_ffi_targets", "register_once"]

_OF_JAX = ("__gpu$xla.gpu.triton", "mosaic_gpu_v2", "triton_kernel_call")  # targets of Pallas and Triton
_NAME = re.compile(r"[!#-&(-~]{1,500}")  # printable characters, except blanks and quotes
_XLA_PLATFORMS = {"gpu": "CUDA", "cuda": "CUDA", "cpu": "cpu"}
_registered: dict[tuple[str, str], None] = {}  # in order
_lock = threading.RLock()


class Module(Protocol):
    """The part of a loaded library that `register_ffi_target` needs."""

    @property
    def content_hash(self) -> str:
        """A hash of the library's sources."""

    def get_handler(self, func_name: str) -> Any:
        """Return a handler as a `ctypes` function."""


@dataclass
class _Named:
    """A name that users chose: its content, and the cell through which its calls go."""

    content: tuple[str, str]
    module: Module
    cell: ctypes.c_void_p | None


_named: dict[tuple[str, str], _Named] = {}  # by target name and platform


def register_once(name: str, platform: str, address: Callable[[], int]) -> None:
    """Register `address()` as the target `name`, unless that was done; the code must stay valid."""
    with _lock:
        if (name, platform) in _registered:
            return
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address()), platform=platform)
        _registered[name, platform] = None


def register_ffi_target(
    target_name: str,
    module: Module,
    func_name: str,
    *,
    platform: str = "CUDA",
    replace: bool = False,
    content_id: str | None = None,
) -> None:
    r"""Register a function of a loaded library as a target of `jax.ffi.ffi_call`.

    Registering the same content under the same name again does nothing.

    Args:
        target_name: The name for `jax.ffi.ffi_call`.
        module: A loaded library, such as a `CompiledModule`.
        func_name: The function of the library.
        platform: "cpu" or "CUDA".
        replace: Whether other content under this name is replaced: calls then go to the new function, also those of
            compiled programs, except for CUDA graphs that XLA has recorded.
        content_id: What identifies the content; None for the `content_hash` of the library.

    Raises:
        KernelRegistrationError: If the name is taken by other content and `replace` is False, or is not a name of a
            target, or the platform is unknown or not that of the library.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> module = brainevent.load_cpp_inline(
        ...     "doc_register",
        ...     '#include "brainevent/common.h"\n'
        ...     "// @BE fill ret\n"
        ...     "void fill(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }",
        ...     auto_register=False,
        ... )
        >>> brainevent.register_ffi_target("doc_register.seven", module, "fill", platform="cpu")
        >>> jax.ffi.ffi_call("doc_register.seven", jax.ShapeDtypeStruct((1,), jnp.float32))()
        Array([7.], dtype=float32)
    """
    register_ffi_targets({target_name: func_name}, module, platform=platform, replace=replace, content_id=content_id)


def register_ffi_targets(
    functions: Mapping[str, str], module: Module, *, platform: str, replace: bool, content_id: str | None
) -> None:
    """Register functions by the names of their targets: all of them, or none."""
    platform = _checked_platform(platform, module, list(functions))
    content = content_id or module.content_hash
    with _lock:
        new = {
            name: function for name, function in functions.items() if not _is_known(name, platform, content, function)
        }
        for name in new:
            if (known := _named.get((name, platform))) is not None:
                _check_replaceable(name, platform, known, module, replace)
        for name, function in new.items():
            if (known := _named.get((name, platform))) is None:
                handler, cell = _entry(module, function)
                register_once(name, platform, functools.partial(_address, handler))
                _named[name, platform] = _Named((content, function), module, cell)
            elif known.cell is not None:
                known.cell.value = _address(module.get_handler(function))
                known.content, known.module = (content, function), module


def _checked_platform(platform: str, module: Module, names: Sequence[str]) -> str:
    """Return XLA's name of the platform, after checks that XLA does not make."""
    for name in names:
        if not _NAME.fullmatch(str(name)):
            raise KernelRegistrationError(
                f"{name!r:.200} is not a valid name of an FFI target; use letters, digits, '.' and '_', without blanks"
            )
    known = _XLA_PLATFORMS.get(str(platform).lower())
    if known is None:
        meant = did_you_mean(str(platform).lower(), _XLA_PLATFORMS)
        raise KernelRegistrationError(
            f"FFI target {names[0]!r}: unknown platform {platform!r}{meant}; known: cpu, CUDA"
        )
    own = getattr(module, "platform", known)
    if own != known:
        raise KernelRegistrationError(
            f"FFI target {names[0]!r}: {module!r} was built for {own}, not for {known}; pass platform={own!r}"
        )
    return known


def _is_known(name: str, platform: str, content: str, function: str) -> bool:
    known = _named.get((name, platform))
    return known is not None and known.content == (content, function)


def _check_replaceable(name: str, platform: str, known: _Named, module: Module, replace: bool) -> None:
    if not replace or known.cell is None:
        raise KernelRegistrationError(_taken(name, platform, known))
    if getattr(known.module, "in_graphs", False) and not getattr(module, "in_graphs", False):
        raise KernelRegistrationError(
            f"the FFI target {name!r} on {platform} was registered with allow_cuda_graph=True, which cannot change; "
            "the new source has allow_cuda_graph=False: give it another name (name=, target_prefix=)"
        )


def _entry(module: Module, func_name: str) -> tuple[Any, ctypes.c_void_p | None]:
    """Return the handler to register, and the cell that redirects it, if the library has one."""
    handler = module.get_handler(func_name)
    redirected = getattr(module, "redirected", None)
    return redirected(func_name) if redirected else (handler, None)


def _address(handler: Any) -> int:
    return ctypes.cast(handler, ctypes.c_void_p).value or 0


def _taken(target_name: str, platform: str, known: _Named) -> str:
    advice = "" if known.cell is None else "; pass replace=True to send its calls to the new source"
    return (
        f"the FFI target {target_name!r} on {platform} is already registered to different content "
        f"({known.module!r}){advice}; or give the new one another name (name=, target_prefix=); or call it through the "
        "module alone, as in mod.function(x, outs=...), which needs no name: auto_register=False"
    )


def list_registered_targets() -> list[str]:
    """Return the names that `jax.ffi.ffi_call` knows from `register_ffi_target` and the loaders.

    Returns:
        The names, sorted.

    Examples:
        >>> import brainevent
        >>> isinstance(brainevent.list_registered_targets(), list)
        True
    """
    with _lock:
        return sorted({name for name, _ in _named})


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Return the checks that `jax.export.export` must skip for programs with kernels of this package.

    JAX promises stability only for some of its own custom calls, and rejects others unless they are named: those of our
    kernels, and those of Pallas and Triton on a GPU.

    Returns:
        The checks, for the argument `disabled_checks`.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> double = brainevent.XLACustomKernel("doc_exported")
        >>> _ = double.def_reference(lambda x: 2 * x)
        >>> program = jax.export.export(jax.jit(double), disabled_checks=brainevent.export_checks())(jnp.ones(2))
        >>> program.call(jnp.arange(2.0))
        Array([0., 2.], dtype=float32)
    """
    with _lock:
        names = [TARGET, GRAPH_TARGET, *_OF_JAX, *dict.fromkeys(name for name, _ in _registered)]
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]
