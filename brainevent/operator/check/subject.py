# SPDX-License-Identifier: Apache-2.0
"""One backend of a checked operator: its calls, its operands, and the right results."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _jit_key
from ..compare import assert_close, different_bits, is_inexact, to_host, tolerance_of
from ..custom_kernel import XLACustomKernel
from ..lowering import select
from ..tuning_lookup import CallTypes

__all__ = ["ELEMENTS", "Choice", "Subject", "are_sorted", "levelled", "named", "platform_here", "with_samples"]

ELEMENTS = 3  # of a batch
Choice = tuple[int, ...]  # for each operand, the number of its sample
Call = Callable[..., list[Any]]


def platform_here() -> str:
    """Return the platform of this process, as kernels are lowered for it."""
    platform = jax.default_backend()
    if platform != "gpu":
        return platform
    return "rocm" if "rocm" in jax.devices()[0].client.platform_version else "cuda"


@dataclass(frozen=True)
class Subject:
    """A backend, its operands, and the right results."""

    operator: XLACustomKernel
    backend: str
    outs: Any
    kwargs: Mapping[str, Any]
    samples: tuple[tuple[np.ndarray, ...], ...]  # per operand: the caller's array, then other valid values
    truth: Call | None = None
    tolerance: float | None = None
    signed_zeros: bool = False  # whether the sign of a zero must be right
    _known: dict[Choice, list[np.ndarray]] = field(default_factory=dict, compare=False, repr=False)
    _made: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def of(self, backend: str, truth: Call | None = None) -> Subject:
        """Return the same for a backend, with another oracle."""
        made = self._made if backend == self.backend else {}
        return dataclasses.replace(self, backend=backend, truth=truth, _known={}, _made=made)

    @property
    def params(self) -> dict[str, Any]:
        """The keyword arguments of a call: those of the caller, and `backend` if it is not the default."""
        call = CallTypes.of([samples[0] for samples in self.samples], self.out_types, self.kwargs)
        block = dict(_jit_key.block_choices())
        # A tuned choice applies to calls like this one, not to batches.
        chosen = {select(self.operator.definition, platform_here(), None, block, like).backend for like in (None, call)}
        return {**self.kwargs, **({} if chosen == {self.backend} else {"backend": self.backend})}

    def call(self, *operands: Any, outs: Any = None) -> list[Any]:
        """Call the operator with this backend."""
        return jax.tree.leaves(self.operator(*operands, outs=self.outs if outs is None else outs, **self.params))

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of `make`, which runs once for all promises, because it compiles or takes long."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def compiled(self) -> Any:
        """Return the compiled program of a call."""
        return self.once("compiled", lambda: jax.jit(self.call).lower(*self.operands()).compile())

    def compiled_batch(self) -> Any:
        """Return the compiled program of a batch of all operands, along their first axes."""

        def make() -> Any:
            return jax.jit(jax.vmap(self.call)).lower(*self.stacked(ELEMENTS, [0] * self.count)).compile()

        return self.once("compiled batch", make)

    @property
    def out_types(self) -> list[Any]:
        """The results' types, flat."""
        return [
            jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(x.dtype)) for x in jax.tree.leaves(self.outs)
        ]

    @property
    def count(self) -> int:
        """The number of operands."""
        return len(self.samples)

    def choice(self, element: int, mapped: Sequence[int] | None = None) -> Choice:
        """Return the samples of an element of a batch of the operands `mapped` (None: of all)."""
        return tuple(element % ELEMENTS if mapped is None or i in mapped else 0 for i in range(self.count))

    def operands(self, choice: Choice | None = None) -> list[jax.Array]:
        """Return operands in new memory, to which a kernel can write without effects on others."""
        choice = self.choice(0) if choice is None else choice
        return [jnp.array(samples[k], copy=True) for samples, k in zip(self.samples, choice, strict=True)]

    def stacked(self, elements: int, axes: Sequence[int | None], first: int = 0) -> list[jax.Array]:
        """Return operands of a batch: those with an axis hold one sample per element."""
        return [
            jnp.array(samples[0], copy=True) if axis is None else _stack(samples, first, elements, axis)
            for samples, axis in zip(self.samples, axes, strict=True)
        ]

    def expected(self, choice: Choice | None = None) -> list[np.ndarray]:
        """Return the right results of one call: those of the oracle, or without one those of the kernel."""
        choice = self.choice(0) if choice is None else choice
        if choice not in self._known:
            truth = self.truth or self.compiled()
            self._known[choice] = to_host(truth(*self.operands(choice)))
        return self._known[choice]

    def expected_batch(self, choices: Sequence[Choice]) -> list[np.ndarray]:
        """Return the right results of a batch."""
        if not choices:
            return [np.zeros((0, *out.shape), out.dtype) for out in self.out_types]
        each = [self.expected(choice) for choice in choices]
        return [np.stack(parts) for parts in zip(*each, strict=True)]

    def varies(self, operand: int) -> bool:
        """Return whether there is more than one sample of an operand."""
        first = self.samples[operand][0]
        return any(not np.array_equal(first, other, equal_nan=is_inexact(first)) for other in self.samples[operand][1:])

    def loose(self, arrays: Sequence[Any]) -> float:
        """Return the tolerance for derivatives with respect to these arrays."""
        if self.tolerance is not None:
            return self.tolerance
        return 10 * max(tolerance_of(x.dtype) for x in arrays)

    @property
    def differentiable(self) -> list[int]:
        """The operands that may have a derivative."""
        return [i for i, samples in enumerate(self.samples) if is_inexact(samples[0])]


def named(operands: Sequence[int]) -> str:
    """Return "operand 0", or "operands 0, 1"."""
    return f"operand{'s' * (len(operands) > 1)} {', '.join(map(str, operands))}"


def _stack(samples: Sequence[np.ndarray], first: int, elements: int, axis: int) -> jax.Array:
    rows = [samples[(first + b) % ELEMENTS] for b in range(elements)]
    stacked = np.stack(rows, axis) if rows else np.repeat(np.expand_dims(samples[0], axis), 0, axis)
    return jnp.array(stacked, copy=True)


def with_samples(subject: Subject, given: Sequence[Sequence[Any]]) -> Subject:
    """Add samples to the operands: the caller's, else such as keep an operand valid.

    Floats are scaled down, which keeps signs, order and zeros. If that changes no result, they are permuted, like
    booleans and integers that are not sorted. Sorted integers, which may be the row pointers of a sparse matrix, stay
    sorted, between the same ends: some become equal to the previous one. A sample is used only if the kernel and the
    oracle agree on it.
    """
    if given:
        rows = list(itertools.islice(itertools.cycle(given), ELEMENTS - 1))
        more = zip(*(to_host(row) for row in rows), strict=True)
        samples = tuple((own[0], *others) for own, others in zip(subject.samples, more, strict=True))
    else:
        own = subject.compiled()
        samples = tuple(_samples(subject, own, i) for i in range(subject.count))
    return dataclasses.replace(subject, samples=samples, _known={})


def _samples(subject: Subject, own: Call, operand: int) -> tuple[np.ndarray, ...]:
    first = subject.samples[operand][0]
    for vary in _variations(first):
        more = tuple(vary(k) for k in range(1, ELEMENTS))
        if _are_new_and_valid(subject, own, operand, more):
            return (first, *more)
    return (first,) * ELEMENTS


def _variations(x: np.ndarray) -> list[Callable[[int], np.ndarray]]:
    def shrunk(k: int) -> np.ndarray:
        return (x * (1 - k / 4)).astype(x.dtype)

    def moved(k: int) -> np.ndarray:
        return np.roll(x.reshape(-1), k).reshape(x.shape)

    def flipped(k: int) -> np.ndarray:
        return x ^ (np.arange(x.size).reshape(x.shape) % (k + 1) == 0)

    if is_inexact(x):
        return [shrunk, moved]
    if x.dtype == np.bool_:
        return [moved, flipped]
    return [functools.partial(levelled, x) if are_sorted(x) else moved]


def are_sorted(x: np.ndarray) -> bool:
    """Return whether numbers never decrease, as the row pointers of a sparse matrix."""
    flat = x.reshape(-1)
    return bool((flat[:-1] <= flat[1:]).all())


def levelled(x: np.ndarray, k: int) -> np.ndarray:
    """Make some sorted numbers equal to the previous one, not the last."""
    flat = x.reshape(-1).copy()
    flat[k:-1:3] = flat[k - 1 : -2 : 3]
    return flat.reshape(x.shape)


def _are_new_and_valid(subject: Subject, own: Call, operand: int, samples: Sequence[np.ndarray]) -> bool:
    def with_sample(sample: np.ndarray) -> list[jax.Array]:
        return [jnp.array(sample, copy=True) if i == operand else x for i, x in enumerate(subject.operands())]

    try:
        before = to_host(own(*subject.operands()))
        after = [to_host(own(*with_sample(sample))) for sample in samples]
        if subject.truth is not None:
            for sample, found in zip(samples, after, strict=True):
                assert_close(found, subject.truth(*with_sample(sample)), subject.tolerance)
    except Exception:  # noqa: BLE001 - the samples are not such as this operator takes
        return False
    return any(different_bits(x, y).any() for found in after for x, y in zip(found, before, strict=True))
