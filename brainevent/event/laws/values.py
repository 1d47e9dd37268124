# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: each element of w times the value in y of its row or column; no sum.

Operators are called as `operator(y, w, *arrays of indices, shape=(m, k), transpose=...)`: the values are those of rows,
or if `transpose` those of columns. The result for an element that is out of range is zero. Only the array of indices
that is needed is read. With `columns`, y and w are matrices with a row for each entry of a batch; a single row serves
all entries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from ..elements import is_in
from ..precision import precise
from .products import NUMBERS
from .rules import has_kernel_for, linear_in, of_operands, of_part

__all__ = ["VALUES", "Values"]

_BATCH = 4


@dataclass(frozen=True, eq=False, repr=False)
class Values(Law):
    """The law, which is linear in y and in w."""

    kind = "values"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def times(y: Any, w: Any, *structure: Any, shape: Any, transpose: bool, **_: Any) -> list[Any]:
            sums = precise(w.dtype)
            elements = of.format.elements(structure, shape)
            place = elements.column if transpose else elements.row
            values = elements.at(place, jnp.moveaxis(y.astype(sums), -1, 0))
            there = is_in(place, y.shape[-1])
            each = jnp.moveaxis(values, -1, 0) if y.ndim > 1 else values
            found = jnp.where(there, w.astype(sums) * each, jnp.zeros((), sums))
            return [found.astype(w.dtype)]

        return of_operands(("y", "w", *of.arrays), times)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the elements, and entries of the batch."""
        cut = of.format.cut
        arrays = "".join(f", {factors}" for factors in cut.arrays)

        def rule(y: Any, w: Any, *_: Any, transpose: bool, **__: Any) -> str:
            place = (cut.column if transpose else cut.row) or "m"
            if not of.columns:
                return f"{place}, {cut.stored}{arrays} -> {cut.stored}"
            of_y, of_w = ("one" if x.shape[0] == 1 != other.shape[0] else "b" for x, other in ((y, w), (w, y)))
            return f"{of_y} {place}, {of_w} {cut.stored}{arrays} -> b {cut.stored}"

        return {"rule": rule, "of_part": of_part(cut, before=2)}

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        rules = _Rules(operator, of, apply)
        operator.def_jvp_rule2(linear_in(operator, 0), linear_in(operator, 1), *[None] * len(of.arrays))
        operator.def_transpose_rule(rules.transposed)
        operator.def_batching_rule(rules.batch)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, values of rows and of columns."""
        batch, configs = (_BATCH,) if of.columns else (), []
        for (n, number), transpose in itertools.product(of.format.sizes, (False, True)):
            structure = of.format.draw(n, number)
            y, w = jnp.ones((*batch, n)), jnp.ones((*batch, *of.format.stored(structure, (n, n))))
            configs.append(
                BenchmarkConfig(
                    f"{n} x {number}{', transpose' * transpose}",
                    (y, w, *structure),
                    {"shape": (n, n), "transpose": transpose},
                    {"n": n, "fan_out": number},
                    bytes=structure[0 if transpose else -1].nbytes + y.nbytes + 2 * w.nbytes,
                    flops=w.size,
                )
            )
        return configs

    def call(self, operator: XLACustomKernel, of: Description) -> Callable[..., Any]:
        """Return what is measured: an operator by its operands, its shape and its direction alone."""

        def call(*operands: Any, shape: tuple[int, int], transpose: bool = False, backend: str | None = None) -> Any:
            return operator(*operands, shape=shape, transpose=transpose, backend=backend)

        return call


VALUES = Values(
    "{format}{mv}_dt2t",
    ("float",),
    "Multiply each value of w with that of its row in y, or if `transpose` of its column.",
)


@dataclass(frozen=True, eq=False, repr=False)
class _Rules:
    """The transpose, and batches: one of vectors is a matrix, and one of matrices has more rows."""

    operator: XLACustomKernel
    of: Description
    apply: Others

    def transposed(self, cotangents: Any, y: Any, w: Any, *structure: Any, **params: Any) -> list[Any]:
        (cotangent,), nothing = cotangents, [None] * len(structure)
        if is_undefined_primal(w):
            out = jax.ShapeDtypeStruct(cotangent.shape, w.aval.dtype)
            (found,) = self.operator(y, cotangent, *structure, **{**params, "outs": [out]})
            return [None, _summed(found, w.aval), *nothing]

        def sum_up(each: Any) -> jax.Array:
            return self._sum_of_each(structure, each, y.aval.shape[-1], params)

        sums, batched = precise(w.dtype), self.of.columns
        terms = cotangent.astype(sums) * w.astype(sums)
        found = jax.vmap(sum_up)(terms) if batched else sum_up(terms)
        return [_summed(found, y.aval), None, *nothing]

    def _sum_of_each(self, structure: Sequence[Any], terms: Any, size: int, params: dict[str, Any]) -> jax.Array:
        """Sum terms of elements for each row, or for each column, without reading the other array of indices."""
        transpose, form = params["transpose"], self.of.format
        shape = (1, size) if transpose else (size, 1)
        one_side = form.one_side(structure, transpose=transpose)
        out = jax.ShapeDtypeStruct((size,), terms.dtype)
        how = {name: value for name, value in params.items() if name == "indices_within"}
        how |= {**form.sized(shape), "transpose": transpose, "outs": [out]}
        (found,) = self.apply(Description(form, NUMBERS), terms, *one_side, jnp.ones(1, terms.dtype), **how)
        return found

    def batch(self, args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        of_matrices = self.of.also(columns=True)
        if any(axis is not None for axis in axes[2:]) or not has_kernel_for(self.apply.operator(of_matrices), params):
            return NotImplemented  # the kernel is called for each entry of the batch
        (out,), (y, w, *rest) = params["outs"], args
        inner = out.shape[:1] if self.of.columns else ()
        number = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
        y, w = (_as_rows(x, axis, number, inner) for x, axis in zip((y, w), axes, strict=False))
        stored = out.shape[len(inner) :]
        flat = jax.ShapeDtypeStruct((number * math.prod(inner), *stored), out.dtype)
        (found,) = self.apply(of_matrices, y, w, *rest, **{**params, "outs": [flat]})
        return [found.reshape(number, *out.shape)], [0]


def _summed(found: jax.Array, wanted: Any) -> jax.Array:
    """Sum over the entries that shared a single row."""
    return (found if found.shape == wanted.shape else found.sum(0, keepdims=True)).astype(wanted.dtype)


def _as_rows(x: Any, axis: int | None, number: int, inner: tuple[int, ...]) -> jax.Array:
    """Return a row for each entry of a batch and of another one within, or a single row."""
    if axis is None:
        rest = x.shape[len(inner) :]
        if math.prod(x.shape[: len(inner)]) == 1:
            return x.reshape(1, *rest)
        x = x[None]
    else:
        x = jnp.moveaxis(x, axis, 0)
        rest = x.shape[1 + len(inner) :]
    return jnp.broadcast_to(x, (number, *inner, *rest)).reshape(-1, *rest)
