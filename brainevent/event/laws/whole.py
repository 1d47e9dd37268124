# SPDX-License-Identifier: Apache-2.0
"""A drawn matrix as a dense one: `operator(weights, *arrays, shape=(m, k))` gives (m, k)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from ..precision import precise
from .rules import linear_in

__all__ = ["WHOLE", "Whole"]

_SIZES = ((300, 30), (1000, 100))


@dataclass(frozen=True, eq=False, repr=False)
class Whole(Law):
    """The law, which is linear in the weights."""

    kind = "whole"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        """Raise: formats of drawn matrices have their own reference."""
        raise NotImplementedError(f"{of.name}: the format has no reference for it")

    def cut(self, of: Description) -> dict[str, Any]:
        """Share nothing: each device makes all of it."""
        cut = of.format.cut
        return {"rule": f"{cut.stored}, {', '.join(cut.arrays)} -> m k", "need_replication_factors": cut.whole}

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        def transposed(cotangents: Any, weights: Any, *structure: Any, outs: Any, **params: Any) -> list[Any]:
            (cotangent,), wanted = cotangents, weights.aval
            sums = precise(wanted.dtype)
            outs = [jax.ShapeDtypeStruct(cotangent.shape, sums)]
            ones = [operator(one, *structure, outs=outs, **params)[0] for one in jnp.eye(wanted.size, dtype=sums)]
            # The first number is part of each weight; elsewhere the cotangent may be NaN or infinite.
            cotangent = jnp.where(ones[0] != 0, cotangent.astype(sums), 0)
            found = jnp.stack([jnp.vdot(one, cotangent) for one in ones])
            return [found.reshape(wanted.shape).astype(wanted.dtype), *[None] * len(structure)]

        operator.def_jvp_rule2(linear_in(operator, 0), *[None] * len(of.arrays))
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections."""
        configs = []
        for n, number in _SIZES:
            structure = of.format.draw(n, number)
            operands = (jnp.ones(of.format.stored(structure, (n, n))), *structure)
            labels = {"n": n, "fan_out": number}
            configs.append(BenchmarkConfig(f"{n} x {number}", operands, {"shape": (n, n)}, labels, bytes=4 * n * n))
        return configs


WHOLE = Whole("{format}", ("float",), "Return the matrix as a dense one.")
