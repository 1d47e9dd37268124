# SPDX-License-Identifier: Apache-2.0
"""The promise about other sizes, zero and one less, for dimensions that belong together."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import KernelCompilationError
from ..compare import Broken, Skipped, described, is_inexact, to_host
from .poison import Poisoned, assert_right
from .sharding import rule_of
from .subject import Subject, named

__all__ = ["check_sizes"]

Shapes = list[tuple[int, ...]]  # of the operands, then of the results
MOST = 4  # groups of dimensions that are varied


@dataclass(frozen=True)
class _Group:
    """Dimensions that have one size: (which array, operands first and then results; which axis)."""

    name: str
    size: int
    dims: tuple[tuple[int, int], ...]


def check_sizes(subject: Subject) -> str:
    """Results are right if dimensions are one shorter, and if one group of them is empty."""
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
        fixed = set(_integers(subject.kwargs))
        self.subject = subject
        self.kept = [group for group in groups if group.size in fixed]
        self.groups = [group for group in groups if group.size not in fixed][:MOST]
        self.tried: dict[str, list[int]] = {group.name: [] for group in self.groups}
        self.refused: list[str] = []

    def run(self, sizes: Mapping[str, int]) -> bool:
        """Try new sizes by group; return whether the operator accepts them."""
        try:
            if not sizes or not _is_tried(self.subject, self.groups, sizes):
                return False
        except _RefusedError as error:
            self.refused.append(f"{_listed(sizes)} ({error})")
            return False
        for name, size in sizes.items():
            self.tried[name].append(size)
        return True

    def notes(self) -> list[str]:
        """Return notes on what was tried, and what was not."""
        said = [f"{name}: {', '.join(map(str, sizes))}" for name, sizes in self.tried.items() if sizes]
        said += [f"{group.name} kept: {group.size} is in the keyword arguments" for group in self.kept]
        said += [f"the kernel rejects {what}" for what in self.refused]
        others = [name for name, sizes in self.tried.items() if not sizes]
        if others and not self.refused:
            said.append(f"{', '.join(others)} kept: no other size suits the reference or the integers")
        return said


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{size} for {name}" for name, size in sizes.items())


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
            groups.append(_Group(f"size {size}" if rule is None else f"{_readable(name)} ({size})", size, tuple(dims)))
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


def _is_tried(subject: Subject, groups: Sequence[_Group], sizes: Mapping[str, int]) -> bool:
    """Run the kernel on operands of other sizes, if the operator accepts these."""
    shapes = [list(shape) for shape in _shapes(subject)]
    varied = [group for group in groups if group.name in sizes]
    for group in varied:
        for i, axis in group.dims:
            shapes[i][axis] = sizes[group.name]
    limits = {group.size: sizes[group.name] for group in varied}
    resized = [_resized(x[0], shape, limits) for x, shape in zip(subject.samples, shapes, strict=False)]
    operands = [jnp.asarray(x) for x in resized if x is not None]
    if len(operands) < subject.count:
        return False
    types = _results(subject, operands, shapes[subject.count :])
    wanted = None if types is None else _wanted(subject, operands, types)
    if types is None or (wanted is None and subject.operator.definition.reference is not None):
        return False
    outs = jax.tree.unflatten(jax.tree.structure(subject.outs), types)
    try:
        program = Poisoned.of(lambda *xs: subject.call(*xs, outs=outs), None, types).compiled(operands)
    except Exception as error:
        raise _RefusedError(textwrap.shorten(_root(error), 80, placeholder=" ...")) from error
    where = f"with operands {', '.join(f'{x.dtype}{list(x.shape)}' for x in operands)}"
    try:
        assert_right(program, operands, wanted if subject.truth is not None else None, subject.tolerance)
    except Skipped:
        return False
    except Broken as finding:
        raise Broken(f"{where}: {finding}") from None
    except Exception as error:
        raise Broken(f"{where}: {described(error)}") from error
    return True


def _root(error: BaseException) -> str:
    """Return the message of the exception of the kernel or its generator."""
    while isinstance(error, KernelCompilationError) and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def _resized(x: np.ndarray, shape: Sequence[int], limits: Mapping[int, int]) -> np.ndarray | None:
    """Shorten an array; integers stay valid indices, and distinct if they were. None if impossible."""
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
            wanted = to_host(jax.tree.leaves(function(*operands)))
    except Exception:  # noqa: BLE001 - as above
        return None
    finite = all(np.isfinite(np.asarray(x, np.complex128)).all() for x in wanted if is_inexact(x))
    return wanted if finite else None
