# SPDX-License-Identifier: Apache-2.0
"""Products of pairs: each element gets the product of its row's and its column's values, as in gradients of weights.

Operators are called as `operator(*arrays of indices, of_rows, of_columns)` with matrices (m, n) and (k, n), whose
columns are summed over. An element whose row or column is out of range gets zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from ..precision import precise
from .rules import linear_in, of_operands, of_part

__all__ = ["Pairs"]

_COLUMNS = 16


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Law):
    """The law; `numbers()` is the law of products with numbers, which are its transposes."""

    numbers: Callable[[], Law | None] = lambda: None
    kind = "pairs"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def pairs(*operands: Any, **_: Any) -> list[Any]:
            *structure, of_rows, of_columns = operands
            elements = of.elements(structure, None, (of_rows.shape[0], of_columns.shape[0]))
            sides = elements.at(elements.row, of_rows), elements.at(elements.column, of_columns)
            found = (sides[0].astype(precise(of_rows.dtype)) * sides[1]).sum(-1)
            return [jnp.where(elements.there, found, 0).astype(of_rows.dtype)]

        return of_operands((*of.arrays, "of_rows", "of_columns"), pairs)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the elements, and the columns that are summed over."""
        cut = of.format.cut
        arrays = "".join(f"{factors}, " for factors in cut.arrays)
        return {
            "rule": f"{arrays}{cut.row or 'm'} n, {cut.column or 'k'} n -> {cut.stored}",
            "reduction_factors": ("n",),
            "of_part": of_part(cut, before=0),
        }

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its rules: it is linear in both sides, and its transposes are products with matrices."""
        numbers = of.also(law=self.numbers(), columns=True)

        def transposed(cotangents: Any, *operands: Any, **_: Any) -> list[Any]:
            """Return cotangents of values: that of the elements is a matrix of the same structure."""
            (cotangent,), (*structure, of_rows, of_columns) = cotangents, operands
            by_rows = is_undefined_primal(of_rows)
            wanted, x = (of_rows.aval, of_columns) if by_rows else (of_columns.aval, of_rows)
            shape = (wanted.shape[0], x.shape[0]) if by_rows else (x.shape[0], wanted.shape[0])
            out = jax.ShapeDtypeStruct(wanted.shape, wanted.dtype)
            how = {**of.format.sized(shape), "transpose": not by_rows, "outs": [out]}
            (found,) = apply(numbers, cotangent, *structure, x, **how)
            return [*[None] * len(structure), *((found, None) if by_rows else (None, found))]

        operator.def_jvp_rule2(*[None] * len(of.arrays), linear_in(operator, -2), linear_in(operator, -1))
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, and vectors or matrices of a value for each row and column."""
        configs = []
        for (n, number), columns in itertools.product(of.format.sizes, (1, _COLUMNS)):
            structure, sides = of.format.draw(n, number), (jnp.ones((n, columns)), jnp.ones((n, columns)))
            configs.append(
                BenchmarkConfig(
                    f"{n} x {number} columns={columns}",
                    (*structure, *sides),
                    {},
                    {"n": n, "fan_out": number, "columns": columns},
                    bytes=4 * n * number + sum(x.nbytes for x in (*structure, *sides)),
                    flops=2 * columns * n * number,
                )
            )
        return configs
