# SPDX-License-Identifier: Apache-2.0
"""Choose a kernel, build it, lower it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from .. import _choices, config
from .._compat import (
    ShapedArray,
    calls_python,
    described_devices,
    hands_over_batches,
    lower_alone,
    may_partition,
    meshes_beside_manual_axes,
    name_partitioning,
    x64_enabled,
)
from .._content import content_name
from ..errors import (
    KernelCompilationError,
    KernelFallbackExhaustedError,
    KernelNotAvailableError,
    KernelOutputError,
    did_you_mean,
)
from ..ffi.call import current_operator
from ..languages import language
from .batch import Levels, batched, scanned
from .emulation import advice, emulated_entries, explained
from .held import held_results
from .tuned import CallTypes, tuned_choice, with_tuned_variant
from .variants import Variant

if TYPE_CHECKING:
    from .custom_kernel import XLACustomKernel

__all__ = ["REFERENCE", "KernelEntry", "candidates", "checked_kernel", "entries", "lower", "meant", "select"]

REFERENCE = "reference"  # the backend name of an operator's jax.numpy implementation
_REFERENCES = (REFERENCE, "jax_raw", "jax")  # it answers to all of these, but for those that kernels have
_GENERAL = {"cuda": "gpu", "rocm": "gpu", "oneapi": "gpu"}


@dataclass(frozen=True)
class KernelEntry:
    """One registered kernel: `kernel_generator(**kwargs)` returns a function of the operands."""

    backend: str
    platform: str
    kernel_generator: Callable[..., Callable[..., Any]]
    variants: tuple[Variant, ...] = ()  # the one to use first
    language: str = ""  # what it is written in, as `brainevent doctor` names it: the backend's name if not another

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", self.language or self.backend)

    def completed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Add the variant's keyword arguments to those of a call, which win."""
        return {**dict(self.variants[0] if self.variants else ()), **params}


def entries(operator: XLACustomKernel, platform: str) -> Mapping[str, KernelEntry]:
    """Return the kernels for a platform of JAX: also those for 'gpu' if it is 'cuda', those emulated if it is 'cpu'."""
    table = operator._kernels
    if platform in _GENERAL:
        return {**table.get(_GENERAL[platform], {}), **table.get(platform, {})}
    if platform == "cpu" and (emulated := emulated_entries(operator)):
        own = table.get(platform, {})
        return {**own, **{name: entry for name, entry in emulated.items() if name not in own}}
    return table.get(platform, {})


def select(
    operator: XLACustomKernel,
    platform: str,
    backend: str | None,
    block: Mapping[str, str],
    call: CallTypes | None = None,
) -> KernelEntry:
    """Choose: the call's backend > the block's > the global one > the tuned one > the operator's default > the first.

    The entry's first variant is the one to use: what was tuned for a `call` like this, or the one declared first.
    """
    preferred = block.get(platform, block.get(_GENERAL.get(platform, "")))
    question = (operator._serial, platform, backend, preferred, call)
    _choices.ask(question, lambda: _find(operator, platform, backend, preferred, call))
    entry = _find(operator, platform, backend, preferred, call)
    if entry is None:
        raise KernelFallbackExhaustedError(_no_kernel(operator, platform, backend))
    _warn_of_ignored(operator, platform, backend, preferred)
    return entry


def candidates(operator: XLACustomKernel, platform: str) -> dict[str, KernelEntry]:
    """Return all kernels for a platform, and then the reference, unless a kernel has its name."""
    table = dict(entries(operator, platform))
    if operator._reference is not None:
        table.setdefault(REFERENCE, KernelEntry(REFERENCE, platform, operator._reference.generator))
    return table


def meant(backend: str, known: Container[str]) -> str | None:
    """Return which of the known backends a name means; any name of the reference means what has one of them."""
    others = _REFERENCES if backend in _REFERENCES else ()
    return next((name for name in (backend, *others) if name in known), None)


def _find(
    operator: XLACustomKernel, platform: str, backend: str | None, preferred: str | None, call: CallTypes | None
) -> KernelEntry | None:
    table = candidates(operator, platform)
    tuned = tuned_choice(operator.name, platform, table, call)
    if backend is not None:
        wishes: tuple[str | None, ...] = (backend,)
    else:
        best = tuned.backend if tuned else None
        wishes = (preferred, _global_backend(platform), best, _default(operator, platform), *table)
    for wish in wishes:
        if wish is not None and (name := meant(wish, table)) is not None:
            return with_tuned_variant(table[name], tuned, call)
    return None


def _global_backend(platform: str) -> str | None:
    return config.get_backend(platform) or config.get_backend(_GENERAL.get(platform, platform))


def _default(operator: XLACustomKernel, platform: str) -> str | None:
    return operator._defaults.get(platform) or operator._defaults.get(_GENERAL.get(platform, platform))


def _warn_of_ignored(operator: XLACustomKernel, platform: str, backend: str | None, preferred: str | None) -> None:
    """Say once that a backend which was asked for in general does not exist for this operator."""
    known = list(candidates(operator, platform))
    for wish, said in ((preferred, "use_backend"), (_global_backend(platform), "config.set_backend")):
        if backend is None and wish is not None and meant(wish, known) is None:
            operator._warn_backend_once(
                f"operator {operator.name!r}: {said} asks for {wish!r} on {platform}, which has no such kernel here; "
                f"ignoring it{did_you_mean(wish, known)}; registered: {', '.join(known) or 'none'}"
            )


def _no_kernel(operator: XLACustomKernel, platform: str, backend: str | None) -> str:
    here = list(entries(operator, platform))
    platforms = sorted(p for p, table in operator._kernels.items() if table)
    others = f"; platforms that have kernels: {', '.join(platforms)}" if platforms else "; it has no kernel at all"
    if backend is None:
        return (
            f"operator {operator.name!r} has no kernel for the platform {platform!r}{others}. "
            f"Register one with def_kernel(backend, {platform!r}, generator), or a jax.numpy one with def_reference(fn)"
            f"{advice(operator, platform, backend)}"
        )
    found = f"registered there: {', '.join(here)}" if here else f"none is registered there{others}"
    return (
        f"operator {operator.name!r} has no backend {backend!r} for the platform {platform!r}"
        f"{did_you_mean(backend, here)}; {found}{advice(operator, platform, backend)}"
    )


def lower(
    operator: XLACustomKernel, platform: str, ctx: Any, /, *operands: Any, outs: Sequence[ShapedArray], **params: Any
) -> Any:
    """Lower one call: the chosen kernel, batched in its own best way, on each shard if there is a sharding rule."""
    block, tree = operator._block_of(params), operator._tree_of(params)
    params, levels = operator._split(params)
    backend = params.pop("backend", None)
    call = None if levels else CallTypes.of(ctx.avals_in, outs, params)
    entry = select(operator, platform, backend, dict(block), call)
    rule = operator._rule("sharding")
    if rule is not None:
        rule = rule.of_call(ctx.avals_in, levels, params)
    params = entry.completed(params)

    def build(outs: tuple[ShapedArray, ...], levels: Levels) -> Callable[..., list[Any]]:
        row = language(entry.language)
        kernel = checked_kernel(operator, platform, entry, outs, params, tree)
        return _batched_or_scanned(kernel, levels, row is not None and row.merges_batches)

    with explained(operator, entry):
        function = build(tuple(outs), levels)
        if rule is None or not may_partition(ctx) or calls_python(function, ctx):
            return lower_alone(function, ctx, *operands)
        function = rule.partitioned(function, build, tuple(outs), levels, meshes_beside_manual_axes(ctx))
        types = [str(x) for x in (*ctx.avals_in, *outs, *levels)]
        where = platform, described_devices(ctx), x64_enabled()
        content = content_name(entry.kernel_generator, params, types, rule.content, *where)
        return name_partitioning(lower_alone(function, ctx, *operands), f"{operator.name}_{content}")


def checked_kernel(
    operator: XLACustomKernel,
    platform: str,
    entry: KernelEntry,
    outs: tuple[ShapedArray, ...],
    params: dict[str, Any],
    tree: Any,
) -> Callable[..., list[Any]]:
    """Return the kernel as a function that builds itself, runs, and is held to `outs`."""

    def run(*operands: Any) -> list[Any]:
        with _explained(operator, platform, entry), jax.named_scope(operator.name), current_operator(operator.name):
            kernel = entry.kernel_generator(outs=outs, **params)
            if not callable(kernel):
                raise TypeError(
                    f"the kernel generator returned {type(kernel).__name__}, not a function of the operands"
                )
            where = f"operator {operator.name!r}, backend {entry.backend!r} on {platform}"
            return held_results(outs, kernel(*operands), where, tree)

    return run


@contextlib.contextmanager
def _explained(operator: XLACustomKernel, platform: str, entry: KernelEntry) -> Iterator[None]:
    """Turn what goes wrong while a kernel is built into an error that names the alternatives."""
    try:
        yield
    except KernelOutputError:
        raise
    except KernelNotAvailableError as error:
        raise KernelNotAvailableError(_failure(operator, platform, entry, error)) from error
    except Exception as error:
        row = language(entry.language)
        missing = row.why_missing() if row is not None and isinstance(error, ImportError) else None
        if missing:
            raise KernelNotAvailableError(_failure(operator, platform, entry, error) + f"\n{missing}") from error
        raise KernelCompilationError(_failure(operator, platform, entry, error)) from error


def _failure(operator: XLACustomKernel, platform: str, entry: KernelEntry, error: Exception) -> str:
    available = entries(operator, platform)
    others = [(other.platform, name) for name, other in available.items() if name != entry.backend]
    if operator._reference is not None and entry.backend != REFERENCE:
        others.append((entry.platform, REFERENCE))
    text = (
        f"operator {operator.name!r}: backend {entry.backend!r} on {platform} failed while its kernel was built:\n"
        f"  {type(error).__name__}: {error}\n"
        f"backends available on {platform}: {list(available)}"
    )
    if not others:
        return text
    where, other = others[0]
    if platform == "cpu":  # an emulated kernel is of another platform, but chosen for this one
        where = platform
    return (
        f"{text}\nto switch: backend={other!r} in the call, {operator.name}.set_default({where!r}, {other!r}), "
        f"or brainevent.set_backend({where!r}, {other!r})"
    )


def _batched_or_scanned(
    kernel: Callable[..., list[Any]], levels: Levels, merges_batches: bool
) -> Callable[..., list[Any]]:
    """Batch the kernel in its own best way; where its language has none, or a wrong one, loop over it with a scan."""
    if not levels:
        return kernel

    if not all(level.size for level in levels):  # Not every language can make an empty batch.
        return scanned(kernel, levels)

    def run(*operands: Any) -> list[Any]:
        function = batched(kernel, levels)
        try:
            if not (merges_batches and hands_over_batches(function, operands)):
                return function(*operands)
        except KernelCompilationError as error:
            if not _lacks_batching(error.__cause__):
                raise
        return scanned(kernel, levels)(*operands)

    return run


def _lacks_batching(error: BaseException | None) -> bool:
    return isinstance(error, NotImplementedError) and any(word in str(error) for word in ("vmap", "Batching rule"))
