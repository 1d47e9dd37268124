# SPDX-License-Identifier: Apache-2.0
"""Choose a kernel, build it, lower it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from .. import _jit_key, config
from .._compat import (
    ShapedArray,
    call_site_last,
    calls_python,
    described_devices,
    hands_over_batches,
    lower_alone,
    may_partition,
    meshes_beside_manual_axes,
    mlir,
    name_partitioning,
    x64_enabled,
)
from .._content import content_name
from .._system import why_not_compiled
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
from .bind import Carried, split
from .definition import Definition
from .emulation import advice, explained
from .entry import GENERAL, REFERENCE, KernelEntry, meant
from .raised import listed, without_inner_frames
from .tuning_lookup import CallTypes, tuned_choice, with_tuned_variant
from .validation import checked_results

__all__ = ["checked_kernel", "chosen_kernel", "install", "lower", "operator_of", "select"]

_installed: dict[Any, Definition] = {}  # by primitive: JAX keeps these as well, as long as the process lives


def select(
    definition: Definition,
    platform: str,
    backend: str | None,
    block: Mapping[str, str],
    call: CallTypes | None = None,
) -> KernelEntry:
    """Choose: the call's backend > the block's > the global one > the tuned one > the operator's default > the first.

    The entry's first variant is used: the one tuned for a `call` like this, or the one declared first.
    """
    preferred = block.get(platform, block.get(GENERAL.get(platform, "")))
    question = (definition.serial, platform, backend, preferred, call)
    _jit_key.ask(question, lambda: _find(definition, platform, backend, preferred, call))
    entry = _find(definition, platform, backend, preferred, call)
    if entry is None:
        raise KernelFallbackExhaustedError(_no_kernel(definition, platform, backend))
    row = language(entry.language)
    instead = () if definition.reference is not None else ("give it a jax.numpy implementation with def_reference(fn)",)
    if row is not None and (why := row.why_not_compiled(*instead)):
        raise KernelNotAvailableError(f"operator {definition.name!r}: {why}")
    _warn_of_ignored(definition, platform, backend, preferred)
    return entry


def _find(
    definition: Definition, platform: str, backend: str | None, preferred: str | None, call: CallTypes | None
) -> KernelEntry | None:
    table = definition.candidates(platform)
    tuned = None if why_not_compiled() else tuned_choice(definition.name, platform, table, call)
    if backend is not None:
        wishes: tuple[str | None, ...] = (backend,)
    else:
        best = tuned.backend if tuned else None
        wishes = (preferred, _global_backend(platform), best, definition.default(platform), *table)
        if why_not_compiled():
            wishes = (preferred, _global_backend(platform), REFERENCE, *table)
    for wish in wishes:
        if wish is not None and (name := meant(wish, table)) is not None:
            return with_tuned_variant(table[name], tuned, call)
    return None


def _global_backend(platform: str) -> str | None:
    return config.get_backend(platform) or config.get_backend(GENERAL.get(platform, platform))


def _warn_of_ignored(definition: Definition, platform: str, backend: str | None, preferred: str | None) -> None:
    """Warn once about a backend that `set_backend` or `use_backend` requests and this operator does not have."""
    known = list(definition.candidates(platform))
    for wish, said in ((preferred, "use_backend"), (_global_backend(platform), "config.set_backend")):
        if backend is None and wish is not None and meant(wish, known) is None:
            definition.warn_once(
                f"operator {definition.name!r}: {said} asks for {wish!r}, but the operator has no such kernel for "
                f"{platform}{did_you_mean(wish, known)}; using its next choice; registered: "
                f"{', '.join(known) or 'none'}"
            )


def _no_kernel(definition: Definition, platform: str, backend: str | None) -> str:
    here = list(definition.entries(platform))
    platforms = definition.platforms()
    others = f"; platforms that have kernels: {', '.join(platforms)}" if platforms else "; it has no kernel at all"
    if backend is None:
        return (
            f"operator {definition.name!r} has no kernel for the platform {platform!r}{others}. "
            f"Register one with def_kernel(backend, {platform!r}, generator), or a jax.numpy one with def_reference(fn)"
            f"{advice(definition.kernels, definition.defaults, platform, backend)}"
        )
    found = f"registered there: {', '.join(here)}" if here else f"none is registered there{others}"
    return (
        f"operator {definition.name!r} has no backend {backend!r} for the platform {platform!r}"
        f"{did_you_mean(backend, here)}; {found}{advice(definition.kernels, definition.defaults, platform, backend)}"
    )


def install(definition: Definition) -> None:
    """Register the operator's lowering with JAX, for all platforms."""
    _installed[definition.primitive] = definition
    for platform in ("cpu", "cuda", "rocm", "tpu", "oneapi"):
        mlir.register_lowering(definition.primitive, functools.partial(lower, definition, platform), platform=platform)


def operator_of(primitive: Any) -> Definition | None:
    """Return the operator whose primitive this is, or None."""
    return _installed.get(primitive)


@dataclass(frozen=True)
class ChosenKernel:
    """The kernel for one bind: `build` makes a function of JAX arrays of it, for results and levels of `vmap`."""

    definition: Definition
    platform: str
    entry: KernelEntry
    params: dict[str, Any]  # keyword arguments of the call
    carried: Carried

    def build(self, outs: Sequence[ShapedArray], levels: Levels) -> Callable[..., list[Any]]:
        """Return the kernel as a function, which builds it when it is traced."""
        row, params = language(self.entry.language), self.entry.completed(self.params)
        tree = self.carried.structure
        kernel = checked_kernel(self.definition, self.platform, self.entry, tuple(outs), params, tree)
        return _batched_or_scanned(kernel, levels, row is not None and row.merges_batches)


def chosen_kernel(
    definition: Definition, platform: str, operands: Sequence[Any], outs: Sequence[ShapedArray], params: dict[str, Any]
) -> ChosenKernel:
    """Choose the kernel for a bind with operands of these types."""
    params, carried = split(params)
    backend = params.pop("backend", None)
    call = None if carried.levels else CallTypes.of(operands, outs, params)
    entry = select(definition, platform, backend, dict(carried.block), call)
    return ChosenKernel(definition, platform, entry, params, carried)


def lower(
    definition: Definition, platform: str, ctx: Any, /, *operands: Any, outs: Sequence[ShapedArray], **params: Any
) -> Any:
    """Lower one call: the chosen kernel, batched by its language, on each shard if there is a sharding rule."""
    chosen = chosen_kernel(definition, platform, ctx.avals_in, outs, params)
    entry, levels, build = chosen.entry, chosen.carried.levels, chosen.build
    rule = definition.rule("sharding")
    if rule is not None:
        rule = rule.of_call(ctx.avals_in, levels, chosen.params)
    params = entry.completed(chosen.params)

    with call_site_last(KernelCompilationError), explained(definition.name, entry):
        function = build(tuple(outs), levels)
        if rule is None or not may_partition(ctx) or calls_python(function, ctx):
            return lower_alone(function, ctx, *operands)
        function = rule.partitioned(function, build, tuple(outs), levels, meshes_beside_manual_axes(ctx))
        types = [str(x) for x in (*ctx.avals_in, *outs, *levels)]
        where = platform, described_devices(ctx), x64_enabled()
        content = content_name(entry.kernel_generator, params, types, rule.content, *where)
        return name_partitioning(lower_alone(function, ctx, *operands), f"{definition.name}_{content}")


def checked_kernel(
    definition: Definition,
    platform: str,
    entry: KernelEntry,
    outs: tuple[ShapedArray, ...],
    params: dict[str, Any],
    tree: Any,
) -> Callable[..., list[Any]]:
    """Return the kernel as a function that builds itself, runs, and is checked against `outs`."""
    name = definition.name

    def run(*operands: Any) -> list[Any]:
        with _explained(definition, platform, entry, operands, outs), jax.named_scope(name), current_operator(name):
            kernel = entry.kernel_generator(outs=outs, **params)
            if not callable(kernel):
                raise TypeError(
                    f"the kernel generator returned {type(kernel).__name__}, not a function of the operands"
                )
            where = f"operator {name!r}, backend {entry.backend!r} on {platform}"
            return checked_results(outs, kernel(*operands), where, tree, operands)

    return run


@contextlib.contextmanager
def _explained(
    definition: Definition, platform: str, entry: KernelEntry, operands: Sequence[Any], outs: Sequence[Any]
) -> Iterator[None]:
    """Turn an error while a kernel is built into one that names the operands, and the alternatives."""

    def failure(error: Exception) -> str:
        about_types = isinstance(error, (TypeError, ValueError))
        types = f"operands: {listed(operands)}; outs: {listed(outs)}\n" if about_types else ""
        return _failure(definition, platform, entry, error, types)

    try:
        yield
    except KernelOutputError:
        raise
    except KernelNotAvailableError as error:
        raise KernelNotAvailableError(failure(error)) from error
    except Exception as error:
        row = language(entry.language)
        missing = row.why_missing() if row is not None and isinstance(error, ImportError) else None
        if missing:
            raise KernelNotAvailableError(failure(error) + f"\n{missing}") from error
        raise KernelCompilationError(failure(error)) from without_inner_frames(error)


def _failure(definition: Definition, platform: str, entry: KernelEntry, error: Exception, types: str) -> str:
    available = definition.entries(platform)
    others = [(other.platform, name) for name, other in available.items() if name != entry.backend]
    if definition.reference is not None and entry.backend != REFERENCE:
        others.append((entry.platform, REFERENCE))
    text = (
        f"operator {definition.name!r}: backend {entry.backend!r} on {platform} failed while its kernel was built:\n"
        f"  {type(error).__name__}: {error}\n{types}"
        f"backends available on {platform}: {list(available)}"
    )
    if not others:
        return text
    where, other = others[0]
    if platform == "cpu":  # an emulated kernel is of another platform, but chosen for this one
        where = platform
    return (
        f"{text}\nto switch: backend={other!r} in the call, {definition.name}.set_default({where!r}, {other!r}), "
        f"or brainevent.set_backend({where!r}, {other!r})"
    )


def _batched_or_scanned(
    kernel: Callable[..., list[Any]], levels: Levels, merges_batches: bool
) -> Callable[..., list[Any]]:
    """Batch the kernel by its language; if this has no way, or a wrong one, loop with a scan."""
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
