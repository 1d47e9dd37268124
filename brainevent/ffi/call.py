# SPDX-License-Identifier: Apache-2.0
"""One custom call of native code, batched by a native loop."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import (
    ShapedArray,
    abstract_result,
    for_export,
    lowering_platforms,
    match_manual_axes,
    mlir,
    new_primitive,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
)

__all__ = [
    "VMAP_METHODS",
    "NativeTarget",
    "TargetByPlatform",
    "current_operator",
    "declared_aval",
    "native_call",
    "out_aval",
]

VMAP_METHODS = (None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
_context = threading.local()
_DEVICES = {"cpu": "CPUs", "cuda": "NVIDIA GPUs"}


class NativeTarget(Protocol):
    """A registered target of XLA, hashable by content: the result of a kernel language.

    Besides the target's own attributes, the handler reads two: `be.operator`, a name for error messages, and
    `be.batch`, empty or [levels, then per level, innermost first: size, byte stride of each operand and result; then
    for each operand the number of leading batch axes].
    """

    @property
    def name(self) -> str:
        """The target's name in this process."""

    @property
    def title(self) -> str:
        """The kernel's name, for messages.

        A target may also have the texts `owner` and `instead`: what runs on its platform, and what to do where a
        program is for another one.
        """

    @property
    def platform(self) -> str:
        """The platform: "cpu" or "cuda"."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Further attributes, which the handler reads."""

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Return the target's name, and further attributes, for a program that runs in another process."""

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> NativeTarget:
        """Return the target of the same kernel for operands and results of other ranks."""


@runtime_checkable
class TargetByPlatform(Protocol):
    """A kernel for several platforms, hashable by content: it becomes a target when a program is lowered for one.

    It is batched by the native loop, without a `vmap_method`.
    """

    @property
    def title(self) -> str:
        """The kernel's name, for messages."""

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms on which it can run, by JAX's names."""

    def on(self, platform: str) -> NativeTarget:
        """Return the target for one of them."""


@dataclass(frozen=True)
class _Level:
    """One vmap: its size and which operands it maps, on their first axis."""

    size: int
    mapped: tuple[bool, ...]


@contextlib.contextmanager
def current_operator(name: str) -> Iterator[None]:
    """Set the operator whose kernel is being built, for error messages of native code."""
    before, _context.operator = getattr(_context, "operator", ""), name
    try:
        yield
    finally:
        _context.operator = before


def out_aval(where: str, leaf: Any) -> ShapedArray:
    """Return the type that a leaf of `outs` describes, as JAX has it now: of 32 bits at most, unless x64 is enabled."""
    declared = declared_aval(where, leaf)
    return ShapedArray(declared.shape, jax.dtypes.canonicalize_dtype(declared.dtype))


def declared_aval(where: str, leaf: Any) -> ShapedArray:
    """Return the type that a leaf of `outs` describes; anything with shape and dtype does."""
    missing = [name for name in ("shape", "dtype") if isinstance(leaf, type) or not hasattr(leaf, name)]
    if missing:
        raise AttributeError(
            f"{where} is {leaf!r}, which has no {' and no '.join(missing)}; pass jax.ShapeDtypeStruct(shape, dtype)"
        )
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise TypeError(f"{where} is of the extended dtype {leaf.dtype}; pass its data, as jax.random.key_data(key)")
    try:
        shape = tuple(leaf.shape)
    except TypeError:
        raise TypeError(
            f"{where} has the shape {leaf.shape!r}; a shape is a tuple, such as ({leaf.shape!r},)"
        ) from None
    if any(isinstance(extent, int) and extent < 0 for extent in shape):
        raise ValueError(f"{where} has the shape {shape}; extents cannot be negative")
    return ShapedArray(shape, jnp.dtype(leaf.dtype))


def native_call(
    target: NativeTarget | TargetByPlatform,
    operands: Sequence[Any],
    outs: Sequence[ShapedArray],
    aliases: Sequence[tuple[int, int]] = (),
    vmap_method: str | None = None,
) -> list[Any]:
    """Emit the custom call; operands and results are row-major."""
    return _native_call.bind(
        *match_manual_axes(operands),
        target=target,
        outs=tuple(outs),
        aliases=tuple(aliases),
        vmap_method=vmap_method,
        operator=getattr(_context, "operator", ""),
        levels=(),
    )


def _abstract(*operands: Any, outs: Sequence[ShapedArray], levels: Sequence[_Level], **_: Any) -> list[ShapedArray]:
    sizes = tuple(level.size for level in reversed(levels))
    return [abstract_result("native_call", operands, sizes + tuple(out.shape), out.dtype) for out in outs]


def _batch(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
    size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    moved = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(args, axes, strict=True)]
    mapped = [a is not None for a in axes]
    if params["vmap_method"] in (None, "sequential", "sequential_unrolled"):
        for i, _ in params["aliases"]:
            if not mapped[i]:  # The result starts with the content of this operand, in every element.
                moved[i], mapped[i] = jnp.broadcast_to(moved[i], (size, *moved[i].shape)), True
        results = _native_call.bind(*moved, **{**params, "levels": (*params["levels"], _Level(size, tuple(mapped)))})
    else:
        results = _vectorised(moved, mapped, size, **params)
    return results, [0] * len(results)


def _vectorised(args: list[Any], mapped: list[bool], size: int, **params: Any) -> list[Any]:
    """Call the kernel once, on arrays with one more axis."""
    method = params["vmap_method"]
    if method != "legacy_vectorized":
        extent = size if method == "broadcast_all" else 1
        args = [x if m else jnp.broadcast_to(x, (extent, *x.shape)) for x, m in zip(args, mapped, strict=True)]
    outs = tuple(ShapedArray((size, *out.shape), out.dtype) for out in params["outs"])
    target = params["target"].for_types(args, outs)
    return _native_call.bind(*args, **{**params, "target": target, "outs": outs})


def _refuse_derivative(*_: Any, target: NativeTarget | TargetByPlatform, **__: Any) -> Any:
    raise ValueError(
        f"the kernel {target.title!r} cannot be differentiated. Make it the kernel of an XLACustomKernel, and give "
        "that a rule (def_jvp_rule2, def_transpose_rule) or a jax.numpy implementation (def_reference)"
    )


def _lower(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    target: NativeTarget | TargetByPlatform,
    outs: Sequence[ShapedArray],
    levels: Sequence[_Level],
    operator: str,
    aliases: Sequence[tuple[int, int]],
    vmap_method: str | None,
) -> Any:
    platforms = lowering_platforms(ctx)
    if isinstance(target, TargetByPlatform):
        _check_platforms(target, target.platforms, platforms)
        if len(platforms) > 1:
            params = {"outs": outs, "levels": levels, "operator": operator, "aliases": aliases}
            return _lower_by_platform(ctx, operands, target, platforms, {**params, "vmap_method": vmap_method})
        target = target.on(platforms[0])
    _check_platforms(target, (target.platform,), platforms)
    name, more = target.portable() if for_export(ctx) else (target.name, {})
    rule = jax.ffi.ffi_lowering(name, operand_output_aliases=dict(aliases))
    avals: Any = ctx.avals_in
    batch = _batch_attribute(levels, [(x.shape, x.dtype) for x in avals], [(o.shape, o.dtype) for o in outs])
    return rule(ctx, *operands, **{"be.batch": batch, "be.operator": operator, **target.attributes, **more})


def _check_platforms(target: NativeTarget | TargetByPlatform, can: Sequence[str], platforms: Sequence[str]) -> None:
    several = len(can) > 1  # such a target is chosen for each platform; any other must only support one of them
    if not (set(platforms) <= set(can) if several else can[0] in platforms):
        devices = " and ".join(_DEVICES[platform] for platform in can)
        what = getattr(target, "owner", f"the kernel {target.title!r}")
        instead = getattr(
            target, "instead", "put the operands on such a device, or give the operator a kernel for this platform"
        )
        raise NotImplementedError(
            f"{what} runs on {devices}, and is called in a program for {', '.join(platforms)}; {instead}"
        )


def _lower_by_platform(
    ctx: mlir.LoweringRuleContext,
    operands: Sequence[Any],
    target: TargetByPlatform,
    platforms: Sequence[str],
    params: dict[str, Any],
) -> Any:
    """Lower for several platforms at once, as for `jax.export`; the program selects one when it runs."""
    calls: dict[str, Any] = {
        platform: functools.partial(_native_call.bind, target=target.on(platform), **params) for platform in platforms
    }
    return mlir.lower_fun(lambda *xs: jax.lax.platform_dependent(*xs, **calls))(ctx, *operands)


def _batch_attribute(
    levels: Sequence[_Level], operands: Sequence[tuple[Any, Any]], outs: Sequence[tuple[Any, Any]]
) -> np.ndarray:
    """Return the attribute `be.batch` of `NativeTarget`."""
    if not levels:
        return np.zeros(0, np.int64)
    rows = []
    depth = [sum(level.mapped[i] for level in levels) for i in range(len(operands))]
    # The stride of a level in bytes grows with every inner level that maps the same array.
    steps = [math.prod(shape[d:]) * np.dtype(t).itemsize for (shape, t), d in zip(operands, depth, strict=True)]
    out_steps = [math.prod(shape) * np.dtype(t).itemsize for shape, t in outs]
    for level in levels:
        rows += [level.size, *(s if m else 0 for s, m in zip(steps, level.mapped, strict=True)), *out_steps]
        steps = [s * level.size if m else s for s, m in zip(steps, level.mapped, strict=True)]
        out_steps = [s * level.size for s in out_steps]
    return np.array([len(levels), *rows, *depth], np.int64)


_native_call = new_primitive("native_call", _abstract)
primitive_batchers[_native_call] = _batch
primitive_jvps[_native_call] = _refuse_derivative
primitive_transposes[_native_call] = _refuse_derivative
mlir.register_lowering(_native_call, _lower)
