# SPDX-License-Identifier: Apache-2.0
"""Record the calls of an operator that its call function makes: their operands, types of results and keywords."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...bench.record import BenchmarkConfig
from ..bind import split
from ..custom_kernel import XLACustomKernel
from ..entry import REFERENCE
from ..raised import listed

__all__ = ["RecordedCall", "recorded_calls"]

_lock = threading.Lock()


@dataclass(frozen=True)
class RecordedCall:
    """One call of an operator, without batches: `operator(*operands, outs=outs, **keywords)`."""

    label: str
    operands: tuple[jax.Array, ...]
    outs: Any
    keywords: Mapping[str, Any]

    @property
    def types(self) -> str:
        """The types of the operands, the keyword arguments, and the types of the results."""
        words = [listed(self.operands), *(f"{name}={value!r}" for name, value in self.keywords.items())]
        return f"{', '.join(filter(None, words))} -> {listed(jax.tree.leaves(self.outs))}"

    def of(self, operator: XLACustomKernel) -> functools.partial[Any]:
        """Return the operator with the keywords of this call."""
        return functools.partial(operator, **self.keywords)


def recorded_calls(operator: XLACustomKernel, config: BenchmarkConfig) -> list[RecordedCall]:
    """Call the call function with benchmark data, and return what reaches the operator, each combination of types once.

    Nothing is compiled around the operator, so its operands are arrays wherever it is called: in `jax.jit`, in a loop,
    or under `jax.vmap`, where the first element of the batch is recorded.
    """
    call: Any = operator.definition.call
    backend = REFERENCE if operator.definition.reference is not None else None
    with _recording(operator) as (found, failed), jax.disable_jit():
        try:
            jax.block_until_ready(call(*config.args, backend=backend, **config.kernel_kwargs))
        except Exception:
            if not failed:  # the operator's own errors are found, and named, by the check
                raise
    calls: dict[str, RecordedCall] = {}
    for operands, outs, params in found:
        if (one := _unbatched(config.name, operands, outs, params)) is not None:
            calls.setdefault(one.types, one)
    if not calls:
        raise ValueError(
            f"with the data {config.name!r}, the call function does not call the operator; call it in the function "
            "that def_call stores, or pass operands to brainevent.check"
        )
    several = len(calls) > 1
    return [
        dataclasses.replace(one, label=f"{one.label}, call {i}") if several else one
        for i, one in enumerate(calls.values(), 1)
    ]


@contextlib.contextmanager
def _recording(operator: XLACustomKernel) -> Iterator[tuple[list[Any], list[Exception]]]:
    """Record what is evaluated of an operator on this thread, and the errors of its evaluation."""
    primitive, here = operator.primitive, threading.get_ident()
    found: list[Any] = []
    failed: list[Exception] = []
    with _lock:
        evaluate: Any = primitive.impl

        def recording(*operands: Any, outs: Sequence[Any], **params: Any) -> Any:
            if threading.get_ident() != here:
                return evaluate(*operands, outs=outs, **params)
            found.append((operands, outs, params))
            try:
                return jax.block_until_ready(evaluate(*operands, outs=outs, **params))
            except Exception as error:
                failed.append(error)
                raise

        primitive.def_impl(recording)
        try:
            yield found, failed
        finally:
            primitive.def_impl(evaluate)


def _unbatched(label: str, operands: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> RecordedCall | None:
    """Return the call of the first element of a batch; None if the batch is empty."""
    mine, carried = split(params)
    mine.pop("backend", None)
    arrays = [jnp.asarray(x) for x in operands]
    for level in reversed(carried.levels):
        if level.size == 0:
            return None
        axes = level.axes
        arrays = [x if axis is None else jnp.take(x, 0, axis) for x, axis in zip(arrays, axes, strict=True)]
    types = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs]
    tree = carried.structure
    return RecordedCall(label, tuple(arrays), types if tree is None else tree.unflatten(types), mine)
