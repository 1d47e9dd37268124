# SPDX-License-Identifier: Apache-2.0
"""Promises on several devices: sharded jit and shard_map give the same results, without gathering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..compare import Broken, Skipped, assert_close, during
from ..sharding import REDUCTIONS, ShardingRule, major
from .subject import Subject

__all__ = [
    "BATCH",
    "check_shard_map",
    "check_sharded_jit",
    "factors_of_operands",
    "mesh_of_batch",
    "need_devices",
    "rule_of",
    "run_sharded",
    "size_of",
]

AXIS, BATCH = "devices", "batch"


def check_sharded_jit(subject: Subject) -> str:
    """Results are right for every split of one operand; a split by the factors of the rule gathers nothing."""
    need_devices()
    wanted = subject.expected()
    for i, samples in enumerate(subject.samples):
        for dim, size in enumerate(samples[0].shape):
            if count := _parts(size):
                specs = [_cut(x[0].ndim, [dim] if k == i else []) for k, x in enumerate(subject.samples)]
                with during(f"operand {i} split along axis {dim}"):
                    found, _ = run_sharded(subject.call, subject.operands(), specs, _mesh(count))
                    assert_close(found, wanted, subject.tolerance)
    _check_batch_cut(subject)
    return _check_factors(subject)


def _check_factors(subject: Subject) -> str:
    rule = rule_of(subject)
    if rule is None:
        return "no sharding rule: XLA gathers operands"
    whole, tried = [], False
    for factor in factors_of_operands(rule):
        if factor in rule.replicated:
            continue
        count = _parts(size_of(subject, rule, factor))
        if not count:
            whole.append(factor)
            continue
        specs, tried = [_cut_by(dims, factor) for dims in rule.operands], True
        with during(f"factor {factor!r} split in {count}"):
            found, text = run_sharded(subject.call, subject.operands(), specs, _mesh(count))
            assert_close(found, subject.expected(), subject.tolerance)
            if "all-gather" in text:
                raise Broken("XLA gathers an array")
    if whole and not tried:
        raise Skipped(
            f"no factor that the rule splits ({', '.join(whole)}) has a size that {len(jax.devices())} devices share"
        )
    notes = [f"the sizes of {', '.join(whole)} cannot be split evenly"] if whole else []
    never = [factor for factor in factors_of_operands(rule) if factor in rule.replicated]
    notes += [f"never split by the rule: {', '.join(never)}"] if never else []
    return "; ".join(notes)


def _check_batch_cut(subject: Subject) -> None:
    if not subject.count:
        return
    count = len(jax.devices())
    for axes in ([0] * subject.count, [0] + [None] * (subject.count - 1)):
        mapped = [i for i, axis in enumerate(axes) if axis is not None]
        specs = [PartitionSpec(AXIS) if axis is not None else PartitionSpec() for axis in axes]
        wanted = subject.expected_batch([subject.choice(b, mapped) for b in range(count)])
        with during(f"a batch of operand {_listed(mapped)}, split"):
            function = jax.vmap(subject.call, in_axes=tuple(axes))
            found, text = run_sharded(function, subject.stacked(count, axes), specs, _mesh(count))
            assert_close(found, wanted, subject.tolerance)
            if rule_of(subject) is not None and "all-gather" in text:
                raise Broken("XLA gathers an array")


def check_shard_map(subject: Subject) -> None:
    """In `shard_map`: replicated, on parts of a batch, and on the shards that the rule allows."""
    need_devices()
    count, wanted = len(jax.devices()), subject.expected()
    whole = [PartitionSpec()] * subject.count
    with during("operands replicated"):
        found = _run_shard_map(subject.call, subject.operands(), whole, [PartitionSpec()] * len(wanted), count)
        assert_close(found, wanted, subject.tolerance)
    for axes in ([0] * subject.count, [0] + [None] * (subject.count - 1))[: subject.count]:
        mapped = [i for i, axis in enumerate(axes) if axis is not None]
        specs = [PartitionSpec(AXIS) if axis is not None else PartitionSpec() for axis in axes]
        batch = subject.expected_batch([subject.choice(b, mapped) for b in range(2 * count)])
        with during(f"a batch of operand {_listed(mapped)}, split"):
            function = jax.vmap(subject.call, in_axes=tuple(axes))
            operands, cut = subject.stacked(2 * count, axes), [PartitionSpec(AXIS)] * len(wanted)
            found = _run_shard_map(function, operands, specs, cut, count)
            assert_close(found, batch, subject.tolerance)
    rule = rule_of(subject)
    if rule is None:
        return
    for factor in factors_of_operands(rule):
        _check_factor_in_shard_map(subject, rule, factor)


def _check_factor_in_shard_map(subject: Subject, rule: ShardingRule, factor: str) -> None:
    count = _parts(size_of(subject, rule, factor))
    if factor in rule.replicated or not count:
        return
    specs, out_specs = ([_cut_by(dims, factor) for dims in side] for side in (rule.operands, rule.results))
    local = [
        jax.ShapeDtypeStruct(_local(out.shape, spec, count), out.dtype)
        for out, spec in zip(subject.out_types, out_specs, strict=True)
    ]

    def on_shard(*operands: Any) -> list[Any]:
        reduce = REDUCTIONS[rule.reduction]
        if rule.of_part is not None:
            operands = tuple(rule.of_part(_places(subject, rule, factor, count), *operands))
        results = subject.call(*operands, outs=local)
        return [x if AXIS in spec else reduce(x, AXIS) for x, spec in zip(results, out_specs, strict=True)]

    with during(f"factor {factor!r} split in {count}"):
        found = _run_shard_map(on_shard, subject.operands(), specs, out_specs, count)
        assert_close(found, subject.expected(), subject.tolerance)


def _places(subject: Subject, rule: ShardingRule, cut: str, count: int) -> dict[str, tuple[jax.Array, int]]:
    """Return where a device's part of each factor begins, and its length, if one is split."""
    sizes = {factor: size_of(subject, rule, factor) for factor in factors_of_operands(rule)}
    whole = {factor: (jnp.int32(0), size) for factor, size in sizes.items()}
    part = sizes[cut] // count
    return {**whole, cut: (jax.lax.axis_index(AXIS) * part, part)}


def _listed(operands: Sequence[int]) -> str:
    return ", ".join(map(str, operands))


def _run_shard_map(
    function: Callable[..., Any], operands: Sequence[Any], specs: Sequence[Any], out_specs: Sequence[Any], count: int
) -> list[Any]:
    # Operands without elements are made inside: with JAX 0.11, XLA ends the process if they come from outside.
    given = [i for i, x in enumerate(operands) if jnp.size(x)]
    kinds = [
        jax.ShapeDtypeStruct(_local(jnp.shape(x), spec, count), jnp.result_type(x))
        for x, spec in zip(operands, specs, strict=True)
    ]

    def within(*own: Any) -> Any:
        parts = dict(zip(given, own, strict=True))
        return function(*(parts[i] if i in parts else jnp.zeros(x.shape, x.dtype) for i, x in enumerate(kinds)))

    chosen = tuple(specs[i] for i in given)
    mapped = jax.shard_map(within, mesh=_mesh(count), in_specs=chosen, out_specs=list(out_specs))
    return jax.jit(mapped)(*(operands[i] for i in given))


def run_sharded(
    function: Callable[..., Any], operands: Sequence[Any], specs: Sequence[PartitionSpec], mesh: Mesh
) -> tuple[Any, str]:
    """Return the results of a jitted function of operands split over devices, and the compiled program's text."""
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(operands, specs, strict=True)]
    compiled = jax.jit(function).lower(*placed).compile()
    return compiled(*placed), compiled.as_text() or ""


def need_devices() -> None:
    """Skip a promise about several devices if there is only one."""
    if len(jax.devices()) < 2:
        raise Skipped("one device; XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four of a CPU")


def _mesh(count: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:count]), (AXIS,), axis_types=(AxisType.Auto,))


def mesh_of_batch(subject: Subject, axes: Sequence[int | None], factor: str | None) -> tuple[Mesh, list[PartitionSpec]]:
    """Return a mesh for a batch of the operands with an axis (0), and for a factor of the rule, and the shardings."""
    rule, count = rule_of(subject), len(jax.devices())
    shape = (count, 1) if factor is None else (count // 2, 2)
    devices = np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape)
    specs = []
    for i, axis in enumerate(axes):
        own = _cut_by(rule.operands[i], factor) if rule is not None and factor is not None else ()
        specs.append(PartitionSpec(BATCH, *own) if axis is not None else PartitionSpec(*own))
    return Mesh(devices, (BATCH, AXIS), axis_types=(AxisType.Auto, AxisType.Auto)), specs


def _parts(size: int) -> int:
    """Return the largest number of devices that can share a dimension evenly, or 0."""
    return next((count for count in range(len(jax.devices()), 1, -1) if size and size % count == 0), 0)


def rule_of(subject: Subject) -> ShardingRule | None:
    """Return the sharding rule of these operands, with a name for each dimension."""
    rule = subject.operator.definition.rules.get("sharding")
    if rule is None:
        return None
    rule = rule.of_call([x[0] for x in subject.samples], (), subject.kwargs)
    return rule.written_out([x[0].ndim for x in subject.samples], [len(out.shape) for out in subject.out_types])


def factors_of_operands(rule: ShardingRule) -> list[str]:
    """Return the factors by which operands can be split."""
    return list(dict.fromkeys(major(dim) for dims in rule.operands for dim in dims))


def size_of(subject: Subject, rule: ShardingRule, factor: str) -> int:
    """Return a number by which all arrays of the factor can be split: its size, if no dimension is compound."""
    sizes = dict(rule.sizes)
    for dims, samples in zip(rule.operands, subject.samples, strict=True):
        for dim, size in zip(dims, samples[0].shape, strict=True):
            if dim == factor:
                sizes[factor] = size
    return sizes.get(factor, 0)


def _cut(rank: int, dims: Sequence[int]) -> PartitionSpec:
    return PartitionSpec(*(AXIS if dim in dims else None for dim in range(rank)))


def _cut_by(dims: Sequence[Any], factor: str) -> PartitionSpec:
    return PartitionSpec(*(AXIS if major(dim) == factor else None for dim in dims))


def _local(shape: Sequence[int], spec: PartitionSpec, count: int) -> tuple[int, ...]:
    entries = [*spec, *[None] * (len(shape) - len(spec))]
    return tuple(size // count if entry == AXIS else size for size, entry in zip(shape, entries, strict=True))
