# SPDX-License-Identifier: Apache-2.0
"""The promise about other sizes, from zero to more than 65 536, for dimensions that belong together."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import KernelCompilationError
from ..compare import Broken, Skipped, described, is_inexact, to_host
from .concurrency import seconds_of_a_call
from .guards import assert_right, prepared
from .sharding import rule_of
from .subject import Subject, named

__all__ = ["check_sizes", "resized"]

EVERY = 4099  # of the elements that are added to a sparse array, one of so many is kept
Shapes = list[tuple[int, ...]]  # of the operands, then of the results
MOST = 4  # groups of dimensions that are varied
# Sizes of the groups in one trial: odd ones, and multiples of blocks of 8 to 64; more than 64 elements, in each group.
MIDDLE = ((32, 129, 17, 9), (127, 64, 9, 17))
LARGE, FEW = 65_539, 3  # more than 16 bits can count, for one group; the others are small
BYTES, SECONDS, START = 1 << 26, 1.5, 5e-5  # of a trial; of a call, without regard to its size


@dataclass(frozen=True)
class _Group:
    """Dimensions that have one size: (which array, operands first and then results; which axis)."""

    name: str
    size: int
    dims: tuple[tuple[int, int], ...]
    is_whole: bool = False  # whether the sharding rule never splits it, as what has a fixed number of elements


def check_sizes(subject: Subject) -> str:
    """Results are right for dimensions one shorter, of size 1, of 32 to 129, and large, and for an empty group."""
    if any(_may_be_pointers(samples[0]) for samples in subject.samples):
        which = [i for i, samples in enumerate(subject.samples) if _may_be_pointers(samples[0])]
        raise Skipped(f"sizes not varied: {named(which)}: sorted integers may be pointers")
    if subject.operator.definition.reference is None and rule_of(subject) is None:
        raise Skipped("sizes not varied: no reference and no sharding rule says which are equal")
    trials = _Trials(subject, _groups(subject))
    shorter = {group.name: group.size - 1 for group in trials.groups if group.size > 2}
    if not trials.run(shorter) and len(shorter) > 1:  # all at once; otherwise one by one
        for name, size in shorter.items():
            trials.run({name: size})
    varied = trials.varied()
    trials.run({group.name: 1 for group in varied if trials.step(group) == 1})
    for sizes in MIDDLE:
        trials.run({group.name: trials.rounded(group, size) for group, size in zip(varied, sizes, strict=False)})
    for group in varied:
        few = {other.name: trials.rounded(other, min(other.size, FEW)) for other in varied}
        trials.run(few | {group.name: trials.rounded(group, LARGE)}, sparse=True, noted=[group.name])
    for group in trials.groups:
        trials.run({group.name: 0})
    notes = "; ".join(trials.notes())
    if not any(trials.tried.values()):
        raise Skipped(notes or "it has no dimension that could be varied")
    return notes


class _RefusedError(Exception):
    """The kernel raises while it is built for such sizes."""


class _Trials:
    """The sizes that were tried, and the reasons against others."""

    def __init__(self, subject: Subject, groups: Sequence[_Group]):
        self.fixed = set(_integers(subject.kwargs))
        self.subject = subject
        self.kept = [group for group in groups if group.size in self.fixed]
        self.groups = [group for group in groups if group.size not in self.fixed][:MOST]
        self.tried: dict[str, list[int]] = {group.name: [] for group in self.groups}
        self.omitted: dict[int, None] = {}  # sizes, in order
        self.refused: dict[tuple[str, str], list[int]] = {}  # by group and reason

    def varied(self) -> list[_Group]:
        """Return the groups that the operator takes in other sizes, or may take in multiples of their size."""
        return [
            group
            for group in self.groups
            if not group.is_whole and (group.size <= 2 or self.tried[group.name] or self.step(group) > 1)
        ]

    def step(self, group: _Group) -> int:
        """Return of what the sizes of a group must be multiples: its size, if the kernel rejects one less."""
        return group.size if any(name == group.name for name, _ in self.refused) else 1

    def rounded(self, group: _Group, size: int) -> int:
        """Return the next size that a group may have."""
        return -(-size // self.step(group)) * self.step(group)

    def run(self, sizes: Mapping[str, int], sparse: bool = False, noted: Collection[str] | None = None) -> bool:
        """Try new sizes by group; return whether the operator accepts them; note those of some groups."""
        noted = sizes if noted is None else noted
        if sizes and not self._is_feasible(sizes):
            self.omitted |= {sizes[name]: None for name in noted}
            return False
        try:
            if not sizes or not _is_tried(self.subject, self.groups, sizes, self.fixed, sparse):
                return False
        except _RefusedError as error:
            for name in noted:
                self.refused.setdefault((name, str(error)), []).append(sizes[name])
            return False
        for name in noted:
            self.tried[name].append(sizes[name])
        return True

    def _is_feasible(self, sizes: Mapping[str, int]) -> bool:
        """Return whether operands and results of such sizes are not too many for the memory, or for the kernel."""
        before, after = (
            sum(math.prod(shape) for shape in shapes)
            for shapes in (_shapes(self.subject), _new_shapes(self.subject, self.groups, sizes))
        )
        seconds = self.subject.once("seconds", lambda: seconds_of_a_call(self.subject)) - START
        return 16 * after <= BYTES and seconds * after / max(before, 1) < SECONDS

    def notes(self) -> list[str]:
        """Return notes on what was tried, and what was not."""
        said = [f"{name}: {', '.join(map(str, sizes))}" for name, sizes in self.tried.items() if sizes]
        said += [f"{group.name} kept: {group.size} is in the keyword arguments" for group in self.kept]
        said += [
            f"the kernel rejects {', '.join(map(str, dict.fromkeys(sizes)))} for {name} ({error})"
            for (name, error), sizes in self.refused.items()
        ]
        if self.omitted:
            said.append(f"{', '.join(map(str, self.omitted))} would take too long, or too much memory")
        others = [name for name, sizes in self.tried.items() if not sizes]
        if others and not self.refused and not self.omitted:
            said.append(f"{', '.join(others)} kept: no other size suits the reference or the integers")
        return said


def _may_be_pointers(x: np.ndarray) -> bool:
    """Return whether integers are sorted, like the row pointers of a sparse matrix, which determine other sizes."""
    flat = x.reshape(-1)
    return bool(jnp.issubdtype(x.dtype, jnp.integer) and x.size > 1 and (flat[:-1] <= flat[1:]).all())


def _groups(subject: Subject) -> list[_Group]:
    """Group the dimensions by the sharding rule, or without one by size, which is then their name."""
    shapes = _shapes(subject)
    rule = rule_of(subject)
    names: list[Sequence[Any]] = [*rule.operands, *rule.results] if rule is not None else [*shapes]
    found: dict[Any, list[tuple[int, int]]] = {}
    for i, (shape, dims) in enumerate(zip(shapes, names, strict=True)):
        for axis in range(len(shape)):
            found.setdefault(dims[axis], []).append((i, axis))
    groups = []
    for name, dims in found.items():
        i, axis = dims[0]
        size = shapes[i][axis]
        same = all(shapes[k][a] == size for k, a in dims)
        if i < subject.count and same and size > 1 and not isinstance(name, tuple):
            title = f"size {size}" if rule is None else f"{_readable(name)} ({size})"
            groups.append(_Group(title, size, tuple(dims), rule is not None and name in rule.replicated))
    return groups


def _readable(factor: str) -> str:
    """Return the name of a factor for messages: those of an ellipsis are numbered."""
    return f"axis {factor.rpartition('_')[2]} of ..." if factor.startswith("ellipsis") else factor


def _shapes(subject: Subject) -> Shapes:
    return [x[0].shape for x in subject.samples] + [tuple(out.shape) for out in subject.out_types]


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list, set, frozenset)):
        for part in value:
            yield from _integers(part)
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        yield int(value)


def _new_shapes(subject: Subject, groups: Sequence[_Group], sizes: Mapping[str, int]) -> list[list[int]]:
    shapes = [list(shape) for shape in _shapes(subject)]
    for group in groups:
        for i, axis in group.dims:
            shapes[i][axis] = sizes.get(group.name, group.size)
    return shapes


def _operands(
    subject: Subject, groups: Sequence[_Group], sizes: Mapping[str, int], fixed: Collection[int], sparse: bool
) -> list[jax.Array] | None:
    """Return operands of other sizes; None if the integers do not allow them."""
    new = {group.size: sizes[group.name] for group in groups if group.name in sizes}
    kept = {size for shape in _shapes(subject) for size in shape if size not in new}
    operands = []
    for samples, shape in zip(subject.samples, _new_shapes(subject, groups, sizes), strict=False):
        x = resized(samples[0], shape, new, {*fixed, *kept}, sparse)
        if x is None:
            return None
        operands.append(jnp.asarray(x))
    return operands


def _is_tried(
    subject: Subject, groups: Sequence[_Group], sizes: Mapping[str, int], fixed: Collection[int], sparse: bool
) -> bool:
    """Run the kernel on operands of other sizes, if the operator accepts these."""
    operands = _operands(subject, groups, sizes, fixed, sparse)
    if operands is None:
        return False
    types = _results(subject, operands, _new_shapes(subject, groups, sizes)[subject.count :])
    if types is not None and sum(math.prod(x.shape) * x.dtype.itemsize for x in types) > BYTES:
        return False
    wanted = None if types is None else _wanted(subject, operands, types)
    if types is None or (wanted is None and subject.operator.definition.reference is not None):
        return False
    outs = jax.tree.unflatten(jax.tree.structure(subject.outs), types)
    try:
        program = prepared(lambda *xs: subject.call(*xs, outs=outs), operands, types)
    except Exception as error:
        raise _RefusedError(textwrap.shorten(_root(error), 80, placeholder=" ...")) from error
    where = f"with operands {', '.join(f'{x.dtype}{list(x.shape)}' for x in operands)}"
    try:
        assert_right(program, operands, wanted if subject.truth is not None else None, subject.tolerance)
    except Skipped:
        return False
    except Broken as finding:
        raise type(finding)(f"{where}: {finding}") from None
    except Exception as error:
        raise Broken(f"{where}: {described(error)}") from error
    return True


def _root(error: BaseException) -> str:
    """Return the message of the exception of the kernel or its generator."""
    while isinstance(error, KernelCompilationError) and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def _results(subject: Subject, operands: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[Any] | None:
    """Return the types of results: those of the reference, if their number is the same, or those by the rule."""
    types: list[Any] = [
        jax.ShapeDtypeStruct(tuple(s), out.dtype) for s, out in zip(shapes, subject.out_types, strict=True)
    ]
    reference = subject.operator.definition.reference
    if reference is None:
        return types
    try:
        found = jax.tree.leaves(jax.eval_shape(reference.generator(outs=types, **subject.kwargs), *operands))
    except Exception:  # noqa: BLE001 - such sizes are none that this operator takes
        return None
    if [(len(x.shape), x.dtype) for x in found] != [(len(x.shape), x.dtype) for x in types]:
        return None
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in found]


def _wanted(subject: Subject, operands: Sequence[Any], types: Sequence[Any]) -> list[np.ndarray] | None:
    """Return the results of the reference; None without one, or if they are not finite."""
    reference = subject.operator.definition.reference
    if reference is None:
        return None
    function = jax.jit(reference.generator(outs=types, **subject.kwargs))
    try:
        with jax.default_matmul_precision("highest"):
            compiled = function.lower(*operands).compile()
        memory = compiled.memory_analysis()
        if memory is not None and memory.temp_size_in_bytes > 4 * BYTES:
            return None
        wanted = to_host(jax.tree.leaves(compiled(*operands)))
    except Exception:  # noqa: BLE001 - as above
        return None
    finite = all(np.isfinite(np.asarray(x, np.complex128)).all() for x in wanted if is_inexact(x))
    return wanted if finite else None


def resized(
    x: np.ndarray, shape: Sequence[int], sizes: Mapping[int, int], fixed: Collection[int] = (), sparse: bool = False
) -> np.ndarray | None:
    """Shorten and extend an array; integers stay valid indices, and distinct if they were. None if impossible.

    Args:
        x: The array.
        shape: Its new shape.
        sizes: For each size that changes, the new one. Integers may be indices along such dimensions.
        fixed: The sizes that do not change. Integers may be indices along such dimensions, too.
        sparse: Whether most of the added numbers are zero, so that rounding errors of long sums stay small.
    """
    least = [min(old, new) for old, new in zip(x.shape, shape, strict=True)]
    cut = _shortened(x, least, {old: new for old, new in sizes.items() if new < old})
    if cut is None or cut.shape == tuple(shape):
        return cut
    extents = list(zip(shape, cut.shape, strict=True))
    longer = cut[np.ix_(*(np.arange(new) % old for new, old in extents))]
    if jnp.issubdtype(x.dtype, jnp.integer):
        return _spread(cut, longer, {min(old, new): new for old, new in sizes.items()}, fixed)
    if is_inexact(x) and not np.isin(np.asarray(x, np.complex128), (0, 1)).all():  # not events
        turns = sum(np.meshgrid(*(np.arange(new) // old for new, old in extents), indexing="ij", sparse=True))
        longer = (longer * (1 - turns % 3 / 4)).astype(x.dtype)  # no two neighbouring repetitions are equal
    if sparse and (is_inexact(x) or x.dtype == np.bool_):
        axes = np.meshgrid(*(_kept(*extent) for extent in extents), indexing="ij", sparse=True)
        kept: np.ndarray = functools.reduce(np.logical_and, axes)
        longer = np.where(kept, longer, np.zeros_like(longer))
    return longer


def _shortened(x: np.ndarray, shape: Sequence[int], limits: Mapping[int, int]) -> np.ndarray | None:
    cut = x[tuple(slice(size) for size in shape)] if x.ndim else x
    if not cut.size or not jnp.issubdtype(x.dtype, jnp.integer):
        return cut
    values, before = x.reshape(-1), x.size
    for size, limit in limits.items():
        if values.max() < size:  # they may be indices along this dimension
            values = values[values < limit]
        if not values.size:
            return None
    if values.size < cut.size and np.unique(x).size == before:
        return None
    return cut if values.size == before else np.resize(values, cut.shape)


def _spread(cut: np.ndarray, longer: np.ndarray, sizes: Mapping[int, int], fixed: Collection[int]) -> np.ndarray:
    """Extend repeated integers to the end of the dimensions along which they may be indices."""
    largest = int(cut.max())
    limits = [new for old, new in sizes.items() if largest < old]
    if cut.min() < 0 or not limits or any(largest < size for size in fixed):
        return longer
    limit, flat = min(limits), longer.reshape(-1)
    if np.unique(cut).size == cut.size and flat.size <= limit:
        others = np.setdiff1d(np.arange(limit), cut)[::-1]
        flat = np.concatenate([cut.reshape(-1), others[: flat.size - cut.size]])
    else:
        turns = max((limit - 1 - largest) // (largest + 1), 0) + 1
        flat = flat + np.arange(flat.size) // cut.size % turns * (largest + 1)
    return np.asarray(flat, cut.dtype).reshape(longer.shape)


def _kept(new: int, old: int) -> np.ndarray:
    places = np.arange(new)
    return np.asarray((places < old) | (places >= new - old) | (places % EVERY == 0))
