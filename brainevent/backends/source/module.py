# SPDX-License-Identifier: Apache-2.0
"""Libraries of compiled entry points, loaded and registered, as functions of JAX arrays."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..._compat import unsigned_attribute
from ...errors import KernelArgumentError, KernelError, did_you_mean
from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.portable import GRAPH_TARGET, PAYLOAD, TARGET
from ...ffi.scalars import HALVES, number_bytes
from ...ffi.targets import register_ffi_targets, register_once
from ...toolchain import cache
from ...toolchain.build import Build
from ...toolchain.signature import FunctionSpec
from ...toolchain.wrap import alias_symbol, cell_symbol, handler_symbol
from . import portable
from .library import Library, load_library, load_library_file

__all__ = ["CompiledFunction", "CompiledModule", "CompiledTarget", "load"]

_OPTIONS = ("vmap_method", "input_output_aliases")


class CompiledModule:
    r"""A loaded library, whose entry points are attributes: `module.add(x, y, outs=...)`.

    `load_cpp_inline`, `load_cuda_inline` and the other loaders return it. Inputs are arrays, attributes are keywords,
    and `outs` are the types of the results.

    Args:
        so_path: The path of the library.
        function_names: The names of the entry points.
        functions: The declarations of those that can be called.
        platform: "cpu" or "CUDA".
        key: What identifies the content; None for a hash of the file.
        in_graphs: Whether XLA may record calls in CUDA graphs.
        library: The library, if it is loaded already.

    Raises:
        KernelLoadError: If the library cannot be loaded.
        KernelError: If it has no such entry point.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> module = brainevent.load_cpp_inline(
        ...     "doc_module",
        ...     '#include "brainevent/common.h"\n'
        ...     "// @BE fill ret\n"
        ...     "void fill(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }",
        ... )
        >>> module.function_names, module.fill(outs=jnp.zeros(1))
        (['fill'], Array([7.], dtype=float32))
        >>> module.read_bytes()[:4], module.content_hash[:7]
        (b'\x7fELF', 'sha256:')
        >>> handler, (passed_on, cell) = module.get_handler("fill"), module.redirected("fill")
    """

    def __init__(
        self,
        so_path: str | Path,
        function_names: Sequence[str],
        *,
        functions: Sequence[FunctionSpec] = (),
        platform: str = "cpu",
        key: str | None = None,
        in_graphs: bool = False,
        library: Library | None = None,
    ):
        self.path = os.path.abspath(so_path)
        self.function_names = list(function_names)
        self.platform = platform
        self.in_graphs = in_graphs  # whether XLA may record its calls in CUDA graphs
        self._library = library or load_library_file(self.path)
        self._key = key or hashlib.sha256(self.read_bytes()).hexdigest()[:16]
        self._handlers = {name: self._symbol(handler_symbol(name)) for name in self.function_names}
        self.functions = {spec.name: CompiledFunction(self, spec) for spec in functions}

    def __repr__(self) -> str:
        return f"CompiledModule(path={self.path!r}, functions={self.function_names})"

    def __getattr__(self, name: str) -> CompiledFunction:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(
            f"{self!r} has no function {name!r}{did_you_mean(name, functions)}; "
            f"it has: {', '.join(functions) or 'none that can be called so'}"
        )

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.functions])

    @property
    def content_hash(self) -> str:
        """A hash of the library's sources, or of its bytes if these are unknown."""
        return f"sha256:{self._key}"

    def read_bytes(self) -> bytes:
        """Return the content of the library's file, which may have been removed since.

        Returns:
            The bytes.
        """
        return self._library.read_bytes()

    def get_handler(self, name: str) -> Callable[..., int]:
        """Return the XLA handler of an entry point.

        Args:
            name: The name of the entry point.

        Returns:
            A function of `ctypes`.

        Raises:
            KeyError: If there is no such entry point.
        """
        if name not in self._handlers:
            raise KeyError(
                f"{self!r} has no function {name!r}{did_you_mean(name, self._handlers)}; "
                f"it has: {', '.join(self._handlers) or 'none'}"
            )
        return self._handlers[name]

    def redirected(self, func_name: str) -> tuple[Any, ctypes.c_void_p | None]:
        """Return a handler that forwards calls, and the cell with the address to which it forwards them.

        Args:
            func_name: The name of the entry point.

        Returns:
            The handler, and the cell; None for a library that something else built.
        """
        try:
            cell = ctypes.c_void_p.in_dll(self._library.handle, cell_symbol(func_name))
            return getattr(self._library.handle, alias_symbol(func_name)), cell
        except (AttributeError, ValueError):  # a library that was not built by this package
            return self.get_handler(func_name), None

    def _symbol(self, symbol: str) -> Any:
        try:
            return getattr(self._library.handle, symbol)
        except AttributeError:
            raise KernelError(
                f"the library {self.path} has no symbol {symbol!r}; was it built from other source? Load the "
                "source again with force_rebuild=True"
            ) from None


@dataclass(frozen=True)
class CompiledTarget:
    """An entry point with its attributes; the name is made of the library's content."""

    name: str
    title: str
    platform: str
    module: CompiledModule = field(compare=False, repr=False)
    encoded: tuple[tuple[str, str, bytes], ...] = ()  # name, declared type and value of each attribute

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that the handler reads."""
        return {name: attribute_value(kind, data) for name, kind, data in self.encoded}

    @property
    def address(self) -> int | None:
        """The address of the handler; None if this package did not build it."""
        handler, cell = self.module.redirected(self.title)
        return None if cell is None else ctypes.cast(handler, ctypes.c_void_p).value

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Return the target that carries the library."""
        payload = portable.carry(self.module.read_bytes(), handler_symbol(self.title), self.platform)
        return GRAPH_TARGET if self.module.in_graphs else TARGET, {PAYLOAD: payload}

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> CompiledTarget:
        """Return itself: shapes and dtypes are read at run time."""
        return self


@dataclass(frozen=True)
class CompiledFunction:
    """An entry point as a function of JAX arrays: `function(*operands, outs=..., **attributes)`.

    Results have the structure of `outs`. Under `vmap` a native loop calls the entry point for each element; with a
    `vmap_method` of `jax.ffi.ffi_call` such as "broadcast_all" it is called once, with the whole batch.
    `input_output_aliases={input: output}` lets an output start as an input's content, in its memory.
    """

    module: CompiledModule = field(repr=False)
    spec: FunctionSpec

    def __post_init__(self) -> None:
        register_once(self._target_name, self.module.platform, self._address)

    @property
    def _target_name(self) -> str:
        return f"brainevent_{self.module.content_hash.removeprefix('sha256:')}_{self.spec.name}"

    @property
    def content_hash(self) -> str:
        """A hash of the library's sources, with the function's name."""
        return f"{self.module.content_hash} {self.spec.name}"

    def _address(self) -> int:
        handler: Any = self.module.get_handler(self.spec.name)
        return ctypes.cast(handler, ctypes.c_void_p).value or 0

    def __call__(self, /, *operands: Any, outs: Any, **keywords: Any) -> Any:
        """Call it; Python numbers become attributes of the declared types."""
        declared = {attribute.name: attribute.type for attribute in self.spec.attributes}
        options = {name: keywords.pop(name) for name in _OPTIONS if name in keywords and name not in declared}
        where = f"{self.spec.name}"
        declared_outs, tree = flat_outs(where, outs)
        avals = canonical_outs(declared_outs)
        check_operands(where, operands)
        self._check_counts(where, len(operands), len(avals))
        method = options.get("vmap_method")
        check_vmap_method(where, method)
        aliases = checked_aliases(where, options.get("input_output_aliases") or {}, operands, avals)
        self._check_names(where, declared, keywords)
        encoded = tuple(
            (name, kind, number_bytes(f"{where}: the attribute {name}", kind, keywords[name]))
            for name, kind in sorted(declared.items())
        )
        platform = {"CUDA": "cuda"}.get(self.module.platform, self.module.platform)
        target = CompiledTarget(self._target_name, self.spec.name, platform, self.module, encoded)
        return tree.unflatten(native_call(target, operands, avals, aliases, method))

    def _check_counts(self, where: str, operands: int, outs: int) -> None:
        wanted = len(self.spec.operands), len(self.spec.results)
        if (operands, outs) != wanted:
            raise KernelArgumentError(
                f"{where} takes {wanted[0]} operands and writes {wanted[1]} results ({' '.join(self.spec.tokens)}), "
                f"but is called with {operands} operands and {outs} outs; change the call or the declaration"
            )

    def _check_names(self, where: str, declared: Mapping[str, str], given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in declared:
                known = [*declared, *_OPTIONS]
                raise KernelArgumentError(
                    f"{where} has no attribute {name!r}{did_you_mean(name, known)}; "
                    f"attributes: {', '.join(declared) or 'none'}; options: {', '.join(_OPTIONS)}"
                )
        missing = [f"{name} ({kind})" for name, kind in declared.items() if name not in given]
        if missing:
            raise KernelArgumentError(f"{where}: missing attributes: {', '.join(missing)}; pass them as keywords")


def load(
    build: Build,
    name: str,
    *,
    platform: str,
    directory: str | os.PathLike[str] | None,
    force: bool,
    auto_register: bool,
    target_prefix: str | None,
    replace: bool,
) -> CompiledModule:
    """Find or build the library, load it, and register its functions."""
    key = build.key()
    folder = None if directory is None else Path(directory)
    names = [spec.name for spec in build.functions]

    with cache.opened(name, key, build.run, force=force, directory=folder) as kept:
        library = load_library(str(kept.path), kept.descriptor)
    # A rebuild with replace= means that something changed that is not part of the key.
    identity = f"{key}{kept.sha256[:16]}" if force and replace else key
    options: dict[str, Any] = {"platform": platform, "in_graphs": build.in_graphs, "library": library}
    module = CompiledModule(kept.path, names, functions=build.functions, key=identity, **options)
    if auto_register:
        targets = {f"{target_prefix or name}.{function}": function for function in names}
        register_ffi_targets(targets, module, platform=platform, replace=replace, content_id=module.content_hash)
    return module


CompiledModule.__module__ = "brainevent"


def attribute_value(kind: str, data: bytes) -> Any:
    """Return an attribute for `jax.ffi`; half precision is passed as its bits."""
    value = np.frombuffer(data, "uint16" if kind in HALVES else kind)[0]
    return unsigned_attribute(int(value)) if kind == "uint64" else value
