# SPDX-License-Identifier: Apache-2.0
"""Everything of JAX that is private or differs between its releases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src import sharding_impls as _sharding_impls
from jax._src.custom_partitioning_sharding_rule import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    str_to_sdy_sharding_rule,
)
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "Primitive",
    "SdyShardingRule",
    "ShapedArray",
    "Tracer",
    "UndefinedPrimal",
    "Zero",
    "abstract_result",
    "for_export",
    "is_undefined_primal",
    "match_manual_axes",
    "may_partition",
    "mlir",
    "new_primitive",
    "parse_sharding_rule",
    "primitive_batchers",
    "primitive_jvps",
    "primitive_transposes",
    "symbolic_zero_like",
]

ShapedArray = jax.core.ShapedArray
Tracer = jax.core.Tracer
Zero = ad.Zero
UndefinedPrimal = ad.UndefinedPrimal
is_undefined_primal = ad.is_undefined_primal
primitive_jvps = ad.primitive_jvps
primitive_transposes = ad.primitive_transposes
primitive_batchers = batching.primitive_batchers
parse_sharding_rule = str_to_sdy_sharding_rule


class _OperatorPrimitive(Primitive):
    """A primitive of many results, whose operands all vary over the same manual mesh axes."""

    multiple_results = True

    def __init__(self, name: str, complete: Callable[[dict[str, Any]], dict[str, Any]]):
        super().__init__(name)
        self._complete = complete

    def bind(self, *args: Any, **params: Any) -> Any:
        return super().bind(*match_manual_axes(args), **self._complete(params))


def new_primitive(
    name: str,
    abstract_eval: Callable[..., Any],
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params,
) -> Primitive:
    """Make a primitive of many results that runs eagerly by being compiled; `complete` sees the parameters of a bind."""
    primitive = _OperatorPrimitive(name, complete)
    primitive.def_impl(functools.partial(_dispatch.apply_primitive, primitive))
    primitive.def_abstract_eval(abstract_eval)
    # Lowering must learn the mesh's devices, or a sharding rule has nothing to partition over.
    _dispatch.prim_requires_devices_during_lowering.add(primitive)
    return primitive


def symbolic_zero_like(primal: Any) -> Any:
    """Return the symbolic zero tangent of a value (of type float0 for integers)."""
    return Zero(_core.typeof(primal).to_tangent_aval())


def match_manual_axes(operands: Sequence[Any]) -> Sequence[Any]:
    """Let all operands vary over the same mesh axes, as JAX's own primitives do inside `shard_map`."""
    return _core.auto_insert_reshard(*operands)


def abstract_result(
    name: str, operands: Sequence[Any], shape: Sequence[int], dtype: Any, spec: Any = None
) -> ShapedArray:
    """Return a result that varies over the manual mesh axes of the operands, sharded by `spec` over explicit ones."""
    varying = _core.standard_vma_rule(name, *operands)
    sharding = _core.get_cur_mesh_sharding(spec)
    mat = _core.ManualAxisType(varying=varying) if varying else _core.empty_mat
    return ShapedArray(tuple(shape), dtype, sharding=sharding, manual_axis_type=mat)


def for_export(ctx: mlir.LoweringRuleContext) -> bool:
    """Tell whether a lowering is for `jax.export`, that is, for another process."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def may_partition(ctx: mlir.LoweringRuleContext) -> bool:
    """Tell whether XLA may partition what is lowered: more than one device, not all manual, and not for export.

    An exported program may not hold the partitioner's callback, which is an address of this process.
    """
    axes = ctx.module_context.axis_context
    if for_export(ctx) or not jax.config.jax_use_shardy_partitioner:
        return False
    if isinstance(axes, _sharding_impls.SPMDAxisContext):
        return set(axes.manual_axes) != set(axes.mesh.axis_names)
    return isinstance(axes, _sharding_impls.ShardingContext) and axes.num_devices > 1
