# SPDX-License-Identifier: Apache-2.0
"""Drawn matrices as formats: one for each distribution of weights; no elements are stored.

Operators take one weight, or two numbers: a weight is the first, plus the second times a number that is drawn, normally
distributed or from 0 to 1. Their arrays are `drawn`, which follows from probability and seed (`drawn_of` in
`numbers.py`) and holds the first row and column within a larger matrix, and `tables`, which are the same for all
matrices. Devices share rows and columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ShapeError
from ..description import Checked, Cut, Description, Format, Shape
from ..elements import Elements
from ..precision import precise
from . import in_jax
from .numbers import DRAWN_FROM, NORMAL, SCALAR, UNIFORM, cut_tables, drawn_of, sums
from .tables import both_tables

__all__ = ["DRAWN", "JITN", "JITS", "JITU", "given", "tables"]


def _elements(structure: Sequence[Any], shape: Shape) -> Elements:
    raise NotImplementedError("the elements of a drawn matrix are not stored")


def _checked(where: str, structure: Sequence[Any], shape: Shape, within: bool | None) -> Checked:
    drawn, tables = structure
    for problem in _unfit(drawn, tables):
        raise ShapeError(f"{where}: {problem}")
    return [drawn, tables], True


def _unfit(drawn: Any, tables: Any) -> Iterator[str]:
    """Yield what is wrong with the size or dtype of arrays, of which kernels read all elements that they expect."""
    expected = ("drawn", drawn, jnp.uint32, len(DRAWN_FROM)), ("tables", tables, jnp.int32, both_tables().size)
    for name, array, dtype, size in expected:
        if array.shape != (size,) or array.dtype != dtype:
            yield f"{name} is {array.dtype}{array.shape}; pass {jnp.dtype(dtype)} ({size},)"


def _check_operands(kind: int, weights: Any, drawn: Any, tables: Any) -> None:
    """Raise unless operators are given as many words and weights as they read."""
    for problem in _unfit(drawn, tables):
        raise ShapeError(problem)
    numbers = _numbers(kind)
    if weights.shape != (numbers,):
        raise ShapeError(f"weights has the shape {weights.shape}; pass ({numbers},)")


def _numbers(kind: int) -> int:
    """Return of how many numbers the weights are made."""
    return 1 if kind == SCALAR else 2


def _draw(n: int, number: int, *, in_order: bool = False) -> tuple[Any, ...]:
    prob = np.float32(min(1, number / max(1, n))).view(np.uint32)
    return drawn_of(prob, np.uint32(1), np.uint32(0)), tables()


def _reference(kind: int, of: Description) -> Any:
    run = in_jax.whole(of, kind) if of.law.kind == "whole" else in_jax.product(of, kind)

    @functools.wraps(run)
    def checked(weights: Any, drawn: Any, tables: Any, *rest: Any, **keywords: Any) -> Any:
        _check_operands(kind, weights, drawn, tables)
        return run(weights, drawn, tables, *rest, **keywords)

    return checked


def _of_part(places: Mapping[str, tuple[Any, int]], weights: Any, drawn: Any, *rest: Any) -> tuple[Any, ...]:
    """Let a part begin with its own rows and columns."""
    begin = [places[factor][0] if factor in places else 0 for factor in "mk"]
    return weights, drawn.at[5:7].add(jnp.stack([jnp.asarray(x, jnp.uint32) for x in begin])), *rest


_CUT = Cut(
    arrays=("d", "t"), stored="w", row="m", column="k", reduced=("m", "k"), moved=_of_part, whole=("w", "d", "t")
)


def _format(name: str, kind: int) -> Format:
    numbers = _numbers(kind)
    return Format(
        name=name,
        tag="jitc",
        arrays=("drawn", "tables"),
        weights="weight" if numbers == 1 else "weights",
        elements=_elements,
        checked=_checked,
        draw=_draw,
        stored=lambda structure, shape: (numbers,),
        cut=_CUT,
        reference=functools.partial(_reference, kind),
        drawn=kind,
        sizes=((4000, 80), (20_000, 200)),
        bytes=0,
    )


JITS, JITN, JITU = _format("jits", SCALAR), _format("jitn", NORMAL), _format("jitu", UNIFORM)
DRAWN = (JITS, JITN, JITU)


def given(kind: int, weights: Any, drawn: Any, tables: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    """Return the operands of kernels: the parts of weights; and `drawn` and the tables."""
    _check_operands(kind, weights, drawn, tables)
    logarithms, quantiles = cut_tables(tables)
    return sums(kind, weights, precise(weights.dtype)), (drawn, logarithms.reshape(-1), quantiles)


def tables() -> jax.Array:
    """Return the tables as operators take them."""
    return jnp.asarray(both_tables())
