# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that only change how an array is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .values import Array, UnfitError, View, as_scalar, packed_strides

__all__ = ["VIEWS"]

Shape = tuple[int, ...]


class Packs(Protocol):
    """The body, as far as views need it."""

    barred: set[Array]

    def packed(self, view: View) -> View: ...


def _broadcast(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View, *_: View) -> list[View]:
    shape = shapes[0]
    strides = [0] * len(shape)
    for axis, to in enumerate(p["broadcast_dimensions"]):
        strides[to] = x.strides[axis] if x.shape[axis] == shape[to] else 0
    return [View(x.base, shape, x.offset, tuple(strides))]


def _reshape(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View, *_: View) -> list[View]:
    if p.get("dimensions") is not None:
        raise UnfitError("a reshape with dimensions")
    if x.is_uniform:
        return [as_scalar(x.base, shapes[0])]
    x = body.packed(x)
    return [View(x.base, shapes[0], x.offset, packed_strides(shapes[0]))]


def _squeeze(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    kept = [stride for axis, stride in enumerate(x.strides) if axis not in p["dimensions"]]
    return [View(x.base, shapes[0], x.offset, tuple(kept))]


def _expand(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    rest = iter(x.strides)
    strides = [0 if axis in p["dimensions"] else next(rest) for axis in range(len(shapes[0]))]
    return [View(x.base, shapes[0], x.offset, tuple(strides))]


def _slice(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    steps = p["strides"] or (1,) * len(x.shape)
    offset = x.offset + sum(map(int.__mul__, x.strides, map(int, p["start_indices"])))
    return [View(x.base, shapes[0], offset, tuple(map(int.__mul__, x.strides, map(int, steps))))]


def _transpose(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    return [View(x.base, shapes[0], x.offset, tuple(x.strides[axis] for axis in p["permutation"]))]


def _rev(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    turned = set(p["dimensions"])
    offset = x.offset + sum(x.strides[axis] * (x.shape[axis] - 1) for axis in turned)
    strides = tuple(-stride if axis in turned else stride for axis, stride in enumerate(x.strides))
    return [View(x.base, x.shape, offset, strides)]


def _split(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    starts = itertools.accumulate(p["sizes"], initial=0)
    step = x.strides[p["axis"]]
    return [View(x.base, shape, x.offset + start * step, x.strides) for shape, start in zip(shapes, starts)]  # noqa: B905


def _unstack(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], x: View) -> list[View]:
    axis = p["axis"]
    strides = x.strides[:axis] + x.strides[axis + 1 :]
    return [View(x.base, shape, x.offset + place * x.strides[axis], strides) for place, shape in enumerate(shapes)]


def _barrier(body: Packs, p: dict[str, Any], shapes: Sequence[Shape], *x: View) -> list[View]:
    body.barred |= {view.base for view in x if isinstance(view.base, Array)}
    return list(x)


# By primitive of JAX: functions of the body, parameters, shapes of the results, and operands.
VIEWS: dict[str, Callable[..., list[View]]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expand_dims": _expand,
    "slice": _slice,
    "transpose": _transpose,
    "rev": _rev,
    "split": _split,
    "unstack": _unstack,
    "optimization_barrier": _barrier,
}
