# SPDX-License-Identifier: Apache-2.0
"""The definition of an operator: kernels, defaults and rules, and its primitive in programs."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _jit_key
from .._compat import Primitive, ShapedArray, abstract_result, new_primitive
from ..config import PLATFORMS
from ..errors import OperandError
from .bind import completed, split
from .emulation import emulated_entries
from .entry import GENERAL, REFERENCE, KernelEntry
from .raised import listed
from .reference import Reference
from .sharding import clash

__all__ = ["Definition"]

_serials = itertools.count()


class Definition:
    """The definition that an author has given by the methods `def_...` of `XLACustomKernel`."""

    def __init__(self, name: str):
        self.name = name
        self.serial = next(_serials)  # the prefix of questions about this operator
        self.kernels: dict[str, dict[str, KernelEntry]] = {}  # by platform and backend
        self.defaults: dict[str, str] = {}  # by platform
        self.rules: dict[str, Any] = {}  # by kind; the reference is one
        self.tags: set[str] = set()
        self.call: Callable[..., Any] | None = None  # the function that users call: the operator, or def_call's
        self.benchmark_data: Callable[..., Any] | None = None
        self.primitive: Primitive = new_primitive(name, self._abstract_eval, completed)
        self._lock = threading.RLock()
        self._warned: set[str] = set()

    # ---- stored values; changes apply to functions that are already jitted

    def add_kernel(self, entry: KernelEntry, asdefault: bool) -> None:
        """Register a kernel; the first of a platform is its default."""
        platform, backend = entry.platform, entry.backend
        with self._lock:
            self.kernels.setdefault(platform, {})[backend] = entry
            if asdefault or platform not in self.defaults:
                self.defaults[platform] = backend
        _jit_key.refresh(self.serial)

    def set_default(self, platform: str, backend: str) -> None:
        """Make a backend the default of a platform."""
        with self._lock:
            self.defaults[platform] = backend
        _jit_key.refresh(self.serial)

    def set_rule(self, kind: str, rule: Any) -> None:
        """Set the rule of a kind, or replace it."""
        self.rules[kind] = rule
        _jit_key.refresh(self.serial)

    # ---- what is found

    def rule(self, kind: str) -> Any:
        """Return the rule of a kind, or None; functions that were traced with it are traced again if it is replaced."""
        _jit_key.ask((self.serial, kind), lambda: self.rules.get(kind))
        return self.rules.get(kind)

    @property
    def reference(self) -> Reference | None:
        """The `jax.numpy` implementation, for use outside of traces."""
        return self.rules.get("reference")

    def entries(self, platform: str) -> Mapping[str, KernelEntry]:
        """Return the kernels for a platform of JAX: also those for 'gpu' if 'cuda', those emulated if 'cpu'."""
        own = self.kernels.get(platform, {})
        if platform in GENERAL:
            return {**self.kernels.get(GENERAL[platform], {}), **own}
        if platform == "cpu" and (emulated := emulated_entries(self.kernels, self.defaults)):
            return {**own, **{name: entry for name, entry in emulated.items() if name not in own}}
        return own

    def candidates(self, platform: str) -> dict[str, KernelEntry]:
        """Return all kernels for a platform, and then the reference, unless a kernel has its name."""
        table = dict(self.entries(platform))
        if self.reference is not None:
            table.setdefault(REFERENCE, KernelEntry(REFERENCE, platform, self.reference.generator))
        return table

    def registered(self, platform: str) -> list[str]:
        """Return the backends registered for a platform, in order of registration; then those emulated on the CPU."""
        return list(self.entries(platform) if platform == "cpu" else self.kernels.get(platform, {}))

    def backends(self, platform: str) -> list[str]:
        """Return the backends that a call can name on a platform, the reference last."""
        found = self.registered(platform)
        if self.reference is not None and platform in PLATFORMS and REFERENCE not in found:
            found.append(REFERENCE)
        return found

    def platforms(self) -> list[str]:
        """Return the platforms that have kernels, sorted."""
        return sorted(platform for platform, table in self.kernels.items() if table)

    def default(self, platform: str) -> str | None:
        """Return the default for a platform of JAX: that for 'gpu' if 'cuda' has none of its own."""
        return self.defaults.get(platform) or self.defaults.get(GENERAL.get(platform, platform))

    def warn_once(self, message: str) -> None:
        """Give a warning once per operator."""
        with self._lock:
            if message in self._warned:
                return
            self._warned.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)

    def _abstract_eval(self, /, *operands: Any, outs: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
        mine, carried = split(params)
        levels = carried.levels
        sizes = tuple(level.size for level in reversed(levels))
        specs = [None] * len(outs)
        if (rule := self.rule("sharding")) is not None:
            mine.pop("backend", None)
            rule = rule.of_call(operands, levels, mine)
            specs = rule.result_specs(operands, levels, [len(out.shape) for out in outs])
            if said := clash(rule, operands, levels):
                raise OperandError(f"{said} (operands: {listed(operands)})")
        return [
            abstract_result(self.name, operands, sizes + tuple(out.shape), out.dtype, spec)
            for out, spec in zip(outs, specs, strict=True)
        ]
