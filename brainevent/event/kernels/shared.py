# SPDX-License-Identifier: Apache-2.0
"""What kernels of several languages share: the choice by the kind of law, and operands as kernels take them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import is_active
from ..description import Description, Generator
from ..laws.updates import operands_of
from ..precision import precise

__all__ = ["by_kind", "sides_as_added", "with_batch"]


def by_kind(
    made: Mapping[str, tuple[Callable[..., Any], Callable[[Description], bool]]],
) -> Callable[[Description], Generator | None]:
    """Return `Language.make`: for each kind of law, a generator, called with a description that passes the test."""

    def make(of: Description) -> Generator | None:
        generator, has = made.get(of.law.kind, (None, None))
        return functools.partial(generator, of) if generator and has and has(of) else None

    return make


def with_batch(outs: Sequence[Any], multiply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel of values: `multiply` gets matrices in the dtype of sums, and the arrays of indices."""
    (out,) = outs
    sums = precise(out.dtype)
    wanted = jax.ShapeDtypeStruct((math.prod(out.shape[:-1]), out.shape[-1]), sums)

    def run(y: Any, w: Any, *structure: Any) -> list[Any]:
        y, w = (jnp.atleast_2d(x.astype(sums)) for x in (y, w))
        found = multiply(y, w, structure, wanted)
        return [found.reshape(out.shape).astype(out.dtype)]

    return run


def sides_as_added(of: Description, weights: Any, operands: Sequence[Any]) -> list[Any]:
    """Return the operands of an update, with spikes as booleans and the trace in the dtype of sums."""
    as_is = {"spikes": is_active, "trace": lambda trace: trace.astype(precise(weights.dtype))}
    names = (*operands_of(of)[1:], "after")
    return [as_is.get(name, lambda x: x)(x) for name, x in zip(names, operands, strict=True)]
