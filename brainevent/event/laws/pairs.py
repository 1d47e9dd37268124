# SPDX-License-Identifier: Apache-2.0
"""Products of pairs: each element gets the product of its row's and its column's values, as in gradients of weights.

Operators are called as `operator(*arrays of indices, of_rows, of_columns)` with matrices (m, n) and (k, n), whose
columns are summed over. An element whose row or column is out of range gets zero. With `perm`, element j adds to the
result `perm[j]`.

In the gradient of a product with events, one side holds the events: that of rows if `transpose`, else that of columns.
The other values are chosen where there is an event, and not multiplied by zero elsewhere, where they may be NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from ..precision import precise
from .rules import linear_in, of_operands, of_part

__all__ = ["Pairs"]

_COLUMNS = 16
_ACTIVE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Law):
    """The law of the gradient of a product with respect to each weight.

    `product()` is the law of that product, which is the transpose. An element adds `terms(value, x)`, in `jax.numpy`.
    With `event`, x counts only as zero or not zero, and `by_x` is the law of the derivative with respect to x. Zeros of
    x are left out if there is an `event`, or if the law is `silent`.
    """

    product: Callable[[], Law | None] = lambda: None
    terms: Callable[[Any, Any], Any] = lambda values, x: values * x
    event: bool = False  # type: ignore[misc]
    silent: bool = False
    by_x: Pairs | None = None
    kind = "pairs"

    @property
    def leaves_out(self) -> bool:
        """Whether zeros of x are left out, so that kernels visit no others."""
        return self.event or self.silent

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def pairs(*operands: Any, transpose: bool = True, **_: Any) -> list[Any]:
            *structure, of_rows, of_columns = operands
            elements = of.elements(structure, None, (of_rows.shape[0], of_columns.shape[0]))
            sides = elements.at(elements.row, of_rows), elements.at(elements.column, of_columns)
            x, values = sides if transpose else sides[::-1]
            found = self.terms(values.astype(precise(values.dtype)), x).sum(-1)
            found = jnp.where(elements.there, found, 0).astype(values.dtype)
            if of.indexed:
                found = jnp.zeros_like(found).at[jnp.clip(structure[-1], 0, max(0, found.size - 1))].add(found)
            return [found]

        return of_operands((*of.arrays, "of_rows", "of_columns"), pairs)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the elements, and the columns that are summed over."""
        cut = of.format.cut
        arrays = "".join(f"{factors}, " for factors in (*cut.arrays, *((cut.stored,) if of.indexed else ())))
        return {
            "rule": f"{arrays}{cut.row or 'm'} n, {cut.column or 'k'} n -> {cut.stored}",
            "reduction_factors": ("n",),
            "need_replication_factors": tuple(cut.stored.split()) if of.indexed else (),
            "of_part": None if of.indexed else of_part(cut, before=0),
        }

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its rules: it is linear in both sides, but for events; its transposes are products."""
        product = of.also(law=self.product(), columns=True)

        def by_side(place: int) -> Callable[..., Any]:
            linear = linear_in(operator, place)

            def rule(tangent: Any, *operands: Any, transpose: bool = True, **params: Any) -> Any:
                if self.by_x is None or transpose != (place == -2):
                    return linear(tangent, *operands, transpose=transpose, **params)
                # Straight through: the derivative is that of the product with numbers.
                *structure, of_rows, of_columns = operands
                values = of_columns if transpose else of_rows
                sides = (tangent, values) if transpose else (values, tangent)
                sides = tuple(side.astype(values.dtype) for side in sides)
                return apply(of.also(law=self.by_x), *structure, *sides, transpose=transpose, **params)

            return rule

        def transposed(cotangents: Any, *operands: Any, transpose: bool = True, **_: Any) -> list[Any]:
            """Return cotangents of values: that of the elements is a matrix of the same structure."""
            (cotangent,), (*structure, of_rows, of_columns) = cotangents, operands
            by_rows = is_undefined_primal(of_rows)
            wanted, x = (of_rows.aval, of_columns) if by_rows else (of_columns.aval, of_rows)
            shape = (wanted.shape[0], x.shape[0]) if by_rows else (x.shape[0], wanted.shape[0])
            out = jax.ShapeDtypeStruct(wanted.shape, cotangent.dtype)
            how = {**of.format.sized(shape), "transpose": not by_rows, "outs": [out]}
            (found,) = apply(product, cotangent, *structure, x, **how)
            found = found.astype(wanted.dtype)
            return [*[None] * len(structure), *((found, None) if by_rows else (None, found))]

        operator.def_jvp_rule2(*[None] * len(of.arrays), by_side(-2), by_side(-1))
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, and vectors or matrices of a value for each row and column."""
        configs = []
        for (n, number), columns in itertools.product(of.format.sizes, (1, _COLUMNS)):
            structure, values = of.format.draw(n, number), jnp.ones((n, columns))
            if of.indexed:
                structure = (*structure, jnp.asarray(np.random.default_rng(2).permutation(n * number), jnp.int32))
            drawn = np.random.default_rng(1).random((n, columns)) < _ACTIVE
            x = jnp.asarray(drawn, bool if self.event else jnp.float32) if self.leaves_out else values
            visited = int(drawn.any(1).sum()) * number if self.leaves_out else n * number
            read = sum(array.nbytes for array in structure) * visited // max(1, n * number)
            configs.append(
                BenchmarkConfig(
                    f"{n} x {number} columns={columns}",
                    (*structure, x, values),
                    {},
                    {"n": n, "fan_out": number, "columns": columns},
                    bytes=4 * n * number + read + x.nbytes + values.nbytes,
                    flops=(1 if self.event else 2) * columns * max(1, visited),
                )
            )
        return configs
