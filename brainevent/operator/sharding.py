# SPDX-License-Identifier: Apache-2.0
"""The Shardy rule: run the kernel on each shard, gather nothing, reduce what is partial."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from .._compat import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    ShapedArray,
    alone,
    parse_sharding_rule,
    spec_over,
    x64_enabled,
)
from ..errors import RegistrationTypeError, RegistrationValueError, did_you_mean
from .batch import Level, Levels, without_levels

__all__ = ["REDUCTIONS", "ShardingRule", "ShardingRuleOfCall", "clash", "clash_of_call", "major", "sharding_rule"]

Dims = tuple[Any, ...]  # per dimension: a factor's name, or a tuple of names
Build = Callable[[tuple[ShapedArray, ...], Levels], Callable[..., list[Any]]]
OfPart = Callable[..., Sequence[Any]]  # (where the part is, *its operands) -> operands

REDUCTIONS = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}


@dataclass(frozen=True)
class ShardingRule:
    """The dimensions of operands and results that are split together: factors, named as in einsum."""

    where: str  # the operator and its rule, for messages
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    reduced: tuple[str, ...] = ()  # split; results without it are reduced over the devices
    replicated: tuple[str, ...] = ()  # never split
    sizes: tuple[tuple[str, int], ...] = ()
    reduction: str = "sum"
    of_part: OfPart | None = None  # adds the position to the operands of a part

    @classmethod
    def parse(
        cls,
        rule: str,
        operator: str,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        reduction: str = "sum",
        of_part: OfPart | None = None,
        **factor_sizes: int,
    ) -> ShardingRule:
        """Read the notation; a factor that results lack, and that is not declared as reduced, is never split."""
        where = f"operator {operator!r}: sharding rule {rule!r}"
        if not isinstance(rule, str):
            raise RegistrationTypeError(f"{where}: pass a string such as 'm k, k -> m', or a function")
        kinds = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        _check_keywords(where, kinds, reduction, factor_sizes)
        try:
            factors: dict[str, Any] = {name: tuple(value) for name, value in kinds.items()}
            parsed = parse_sharding_rule(rule, **{**factors, **factor_sizes})
        except (TypeError, ValueError) as error:
            raise RegistrationValueError(f"{where}: {error}") from error
        operands, results = map(_plain, (parsed.operand_mappings, parsed.result_mappings))
        # Of a dimension of several factors, "(b s)", only the major one is split.
        minor = [f for dims in operands + results for d in dims if isinstance(d, tuple) for f in d[1:]]
        if both := sorted(set(minor) & set(reduction_factors)):
            raise RegistrationValueError(
                f"{where}: factor {both[0]!r} is reduced, so it must be the first one in its brackets"
            )
        lacking = [f for f in _factors(operands) if any(f not in _factors([dims]) for dims in results)]
        partial = [f for f in lacking if f not in reduction_factors]
        return cls(
            where,
            operands,
            results,
            tuple(f for f in reduction_factors if f in lacking),
            # A kernel does not move data between devices, so factors that it permutes are not split either.
            tuple(dict.fromkeys([*need_replication_factors, *permutation_factors, *partial, *minor])),
            tuple(sorted(factor_sizes.items())),
            reduction,
            of_part,
        )

    def of_call(self, operands: Sequence[Any], levels: Levels, params: Mapping[str, Any]) -> ShardingRule:
        """Return the rule of a call: itself."""
        return self

    @property
    def content(self) -> tuple[Any, ...]:
        """The content of the rule."""
        return dataclasses.astuple(self)

    def written_out(self, operands: Sequence[int], results: Sequence[int], levels: Levels = ()) -> ShardingRule:
        """Return the rule for arrays of these ranks: an ellipsis becomes factors, a level of vmap one more."""
        if (len(operands), len(results)) != (len(self.operands), len(self.results)):
            raise ValueError(
                f"{self.where} is for {len(self.operands)} operands and {len(self.results)} results; "
                f"the operator was called with {len(operands)} operands and {len(results)} results; change either"
            )
        own = [rank - sum(level.axes[i] is not None for level in levels) for i, rank in enumerate(operands)]
        operand_dims = self.of_ranks("operand", self.operands, own)
        result_dims = self.of_ranks("result", self.results, results)
        for k, level in enumerate(levels):
            for dims, axis in zip(operand_dims, level.axes, strict=True):
                if axis is not None:
                    dims.insert(axis, _level_factor(k))
            for dims in result_dims:
                dims.insert(0, _level_factor(k))
        return dataclasses.replace(
            self, operands=tuple(map(tuple, operand_dims)), results=tuple(map(tuple, result_dims))
        )

    def of_ranks(self, what: str, sides: Sequence[Dims], ranks: Sequence[int]) -> list[list[Any]]:
        """Return the factors of each dimension of arrays of these ranks."""
        pairs = zip(sides, ranks, strict=True)
        return [self._of_rank(dims, rank, f"{what} {i}") for i, (dims, rank) in enumerate(pairs)]

    def _of_rank(self, dims: Dims, rank: int, what: str) -> list[Any]:
        ellipsis = bool(dims) and isinstance(dims[0], str) and dims[0].startswith(BATCHING)
        spare = rank - (len(dims) - ellipsis)
        if spare < 0 or (spare > 0 and not ellipsis):
            raise ValueError(
                f"{self.where}: {what} has {len(dims) - ellipsis} dimensions there, "
                f"but the operator was called with one of rank {rank}; change the rule or the call"
            )
        return [*(f"ellipsis{dims[0][1:]}_{i}" for i in range(spare)), *dims[1:]] if ellipsis else list(dims)

    def to_shardy(self) -> SdyShardingRule:
        """Return a written-out rule in JAX's form."""
        used, in_results = _factors(self.operands + self.results), _factors(self.results)
        sizes: Any = dict(self.sizes)

        def in_order(factors: Sequence[str]) -> tuple[str, ...]:  # Shardy requires the order of appearance.
            return tuple(sorted(factors, key=used.index))

        def mapping(dims: Dims) -> ArrayMapping:
            return ArrayMapping(*(CompoundFactor(*d) if isinstance(d, tuple) else d for d in dims))

        return SdyShardingRule(
            tuple(map(mapping, self.operands)),
            tuple(map(mapping, self.results)),
            # Shardy accepts a factor as reduced only if no result has it.
            reduction_factors=in_order([f for f in self.reduced if f not in in_results]),
            need_replication_factors=in_order([f for f in self.replicated if f in used]),
            **sizes,
        )

    def axes_of_factors(self, values: Sequence[tuple[Dims, Any]]) -> dict[str, tuple[str, ...]]:
        """Return the mesh axes that split each factor, one factor each, from (dimensions, spec) of arrays."""
        cut: dict[str, tuple[str, ...]] = {}
        taken: set[str] = set()
        for dims, spec in values:
            for factor, entry in zip(map(major, dims), spec, strict=False):
                axes = _axes(entry)
                if axes and factor not in (*cut, *self.replicated) and not taken & set(axes):
                    cut[factor] = axes
                    taken |= set(axes)
        return cut

    def result_specs(self, operands: Sequence[Any], levels: Levels, ranks: Sequence[int]) -> list[Any]:
        """Return how results are split over a mesh with explicit axes, given the operands' types."""
        rule = self.written_out([x.ndim for x in operands], ranks, levels)
        if not jax.sharding.get_abstract_mesh().explicit_axes:
            return [None] * len(ranks)
        cut = rule.axes_of_factors([(d, x.sharding.spec) for d, x in zip(rule.operands, operands, strict=True)])
        for factor in rule.reduced:
            cut.pop(factor, None)
        return [_spec(dims, cut) for dims in rule.results]

    def partitioned(
        self,
        function: Callable[..., list[Any]],
        build: Build,
        outs: tuple[ShapedArray, ...],
        levels: Levels,
        manual: Any = None,
    ) -> Callable[..., list[Any]]:
        """Return `function` for partitioning by XLA: `build(local outs, local levels)` runs on each shard.

        If some mesh axes are manual, XLA partitions over the others: `manual` is the whole mesh, and theirs.
        """

        def run(*operands: Any) -> list[Any]:
            rule = self.written_out([x.ndim for x in operands], [len(out.shape) for out in outs], levels)
            x64 = x64_enabled()
            whole = custom_partitioning(function)
            whole.def_partition(
                partition=lambda mesh, args, results: rule.on_shards(
                    manual or (mesh, mesh), args, results, build, outs, levels, x64
                ),
                sharding_rule=rule.to_shardy(),
            )
            return whole(*operands)

        return run

    def _cut(
        self, mesh: Any, arrays: Sequence[tuple[Dims, Any]], sizes: Mapping[str, int]
    ) -> dict[str, tuple[str, ...]]:
        """Return the mesh axes that split each factor that a kernel can be split along."""
        cut = self.axes_of_factors([(dims, spec_over(mesh, x)) for dims, x in arrays])
        made_here = set(_factors(self.results)) - set(_factors(self.operands))
        # A kernel does not know which part of a new dimension it computes, nor that its shard is padded.
        whole = {factor for factor in cut if factor in made_here or sizes[factor] % _count(mesh, cut[factor])}
        return {factor: axes for factor, axes in cut.items() if factor not in whole}

    def on_shards(
        self,
        meshes: tuple[Any, Any],
        args: Sequence[Any],
        results: Sequence[Any],
        build: Build,
        outs: tuple[ShapedArray, ...],
        levels: Levels,
        x64: bool,
    ) -> tuple[Any, ...]:
        """Decide, for XLA, how each array is split, and return the function that runs on the shards.

        `meshes` are the whole mesh and that of the axes that are not manual.
        """
        whole, mesh = meshes
        arrays = [*zip(self.operands, args, strict=True), *zip(self.results, results, strict=True)]
        sizes = dict(self.sizes) | {
            d: size for dims, x in arrays for d, size in zip(dims, x.shape, strict=True) if isinstance(d, str)
        }
        cut = self._cut(mesh, arrays, sizes)
        arg_specs = [_spec(dims, cut) for dims in self.operands]
        result_specs = [_spec(dims, cut) for dims in self.results]
        local_levels = tuple(
            Level(level.size // _count(mesh, cut.get(_level_factor(k), ())), level.axes)
            for k, level in enumerate(levels)
        )
        local_outs = tuple(
            ShapedArray(_local(mesh, x.shape, spec)[len(levels) :], out.dtype)
            for x, spec, out in zip(results, result_specs, outs, strict=True)
        )
        partial = [
            tuple(axis for factor in self.reduced if factor not in dims for axis in cut.get(factor, ()))
            for dims in self.results
        ]

        def on_shard(*shards: Any) -> list[Any]:
            if self.of_part is not None:
                places = {factor: _place(mesh, cut.get(factor, ()), size) for factor, size in sizes.items()}
                shards = tuple(self.of_part(places, *shards))
            values = build(local_outs, local_levels)(*shards)
            reduce = REDUCTIONS[self.reduction]
            return [reduce(x, axes) if axes else x for x, axes in zip(values, partial, strict=True)]

        shardings = ([NamedSharding(mesh, spec) for spec in specs] for specs in (result_specs, arg_specs))
        result_types = [
            ShapedArray(_local(mesh, x.shape, spec), x.dtype) for x, spec in zip(results, result_specs, strict=True)
        ]
        return whole, alone(on_shard, result_types, x64), next(shardings), tuple(next(shardings))


@dataclass(frozen=True)
class ShardingRuleOfCall:
    """A rule that depends on the call: `write(*types of operands, **kwargs)` returns it, and `parse` reads it."""

    write: Callable[..., str]
    parse: Callable[[str], ShardingRule]

    def of_call(self, operands: Sequence[Any], levels: Levels, params: Mapping[str, Any]) -> ShardingRule:
        """Return the rule of a call with operands of these types, without levels of vmap."""
        types = (without_levels(x, i, levels) for i, x in enumerate(operands))
        return self.parse(self.write(*types, **params))


def sharding_rule(rule: Any, operator: str, **factors: Any) -> ShardingRule | ShardingRuleOfCall:
    """Read a rule, or take a function that writes that of each call; `factors` are what `ShardingRule.parse` takes."""
    if not callable(rule):
        return ShardingRule.parse(rule, operator, **factors)
    parse = functools.partial(ShardingRule.parse, operator=operator, **factors)
    return ShardingRuleOfCall(rule, functools.cache(parse))


def _check_keywords(
    where: str, kinds: Mapping[str, Sequence[str]], reduction: str, factor_sizes: Mapping[str, Any]
) -> None:
    """Raise if a keyword of a rule is invalid."""
    if reduction not in REDUCTIONS:
        raise RegistrationValueError(f"{where}: reduction is {reduction!r}; pass 'sum', 'max' or 'min'")
    for name, value in kinds.items():
        if isinstance(value, str):
            raise RegistrationTypeError(f"{where}: {name} is the string {value!r}; pass a tuple ({value!r},)")
    for name, size in factor_sizes.items():
        if not isinstance(size, int):
            raise RegistrationTypeError(
                f"{where}: unknown keyword {name!r}{did_you_mean(name, [*kinds, 'reduction', 'of_part'])}; "
                f"the size of a factor would be an integer, found {size!r}"
            )


def _plain(mappings: Sequence[Any]) -> tuple[Dims, ...]:
    """Return a parsed side of a rule as tuples and strings."""
    return tuple(tuple(tuple(d) if isinstance(d, tuple) else d for d in dims) for dims in mappings)


def major(dim: Any) -> str:
    """Return the factor by which a dimension is split."""
    return dim[0] if isinstance(dim, tuple) else dim


def _level_factor(k: int) -> str:
    return f"vmap{k}_"


def _factors(mappings: Sequence[Dims]) -> list[str]:
    """Return the names of all factors, without repeats."""
    flat = (f for dims in mappings for d in dims for f in (d if isinstance(d, tuple) else (d,)))
    return list(dict.fromkeys(flat))


def _spec(dims: Dims, cut: dict[str, tuple[str, ...]]) -> PartitionSpec:
    return PartitionSpec(*(cut.get(major(d)) for d in dims))


def _count(mesh: Any, axes: Sequence[str]) -> int:
    return math.prod(mesh.shape[axis] for axis in axes)


def _place(mesh: Any, axes: tuple[str, ...], size: int) -> tuple[jax.Array, int]:
    """Return where a device's part of a factor begins, and how long it is."""
    part = size // _count(mesh, axes)
    index = jax.lax.axis_index(axes) if axes else jnp.int32(0)
    return (index if size < 2**31 else index.astype(jnp.int64)) * part, part


def _axes(entry: Any) -> tuple[str, ...]:
    """Return the mesh axes that an entry of a PartitionSpec names: a name, a tuple of names, or nothing."""
    return entry if isinstance(entry, tuple) else (entry,) if isinstance(entry, str) else ()


def _local(mesh: Any, shape: Sequence[int], spec: PartitionSpec) -> tuple[int, ...]:
    return tuple(size // _count(mesh, _axes(entry)) for size, entry in zip(shape, spec, strict=True))


def clash(rule: ShardingRule, operands: Sequence[Any], levels: Levels = ()) -> str:
    """Return a note on a factor with two sizes in operands of these types; a size of 1 matches any other."""
    types = [without_levels(x, i, levels) for i, x in enumerate(operands)]
    seen: dict[str, tuple[int, int]] = {}  # of each factor: its size, and the first operand that has it
    sides = rule.of_ranks("operand", rule.operands, [len(x.shape) for x in types])
    for i, (dims, x) in enumerate(zip(sides, types, strict=True)):
        for factor, size in zip(dims, x.shape, strict=True):
            if not isinstance(factor, str) or size == 1:
                continue
            before, first = seen.setdefault(factor, (size, i))
            if before != size:
                return f"{rule.where}: {factor} is {before} in operand {first}, but {size} in operand {i}"
    return ""


def clash_of_call(
    rule: ShardingRule | ShardingRuleOfCall | None, operands: Sequence[Any], params: Mapping[str, Any]
) -> str:
    """Return this note for a call; nothing if there is no rule, or another number of operands."""
    if rule is None:
        return ""
    try:
        written = rule.of_call(operands, (), params)
        return clash(written, operands) if len(operands) == len(written.operands) else ""
    except ValueError as error:  # the ranks are wrong, too
        return str(error)
