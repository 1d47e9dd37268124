# SPDX-License-Identifier: Apache-2.0
"""Arrivals: `take(ring, t)` gives row t of a ring of sums, and the ring with that row set to zero.

One operator does both, in place. XLA on the CPU copies the whole ring in each step of a loop that reads one of its rows
and then writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import Zero
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from .delayed import SLOTS
from .rules import linear_in, of_operands

__all__ = ["ARRIVALS", "Arrivals"]


@dataclass(frozen=True, eq=False, repr=False)
class Arrivals(Law):
    """The law, which is linear in the ring: a dense matrix with a row for each step."""

    kind = "arrivals"

    def tags(self, of: Description) -> tuple[str, ...]:
        """Return the tags of the operator, without that of a format."""
        return self.labels

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def taken(ring: Any, t: Any, **_: Any) -> list[Any]:
            slot = _slot(ring, t)
            return [ring[slot], ring.at[slot].set(0)]

        return of_operands(("ring", "t"), taken)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the columns."""
        return {"rule": "s n, o -> n, s n", "need_replication_factors": ("s", "o")}

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        def transposed(cotangents: Any, ring: Any, t: Any, **_: Any) -> list[Any]:
            arrived, rest = map(_as_array, cotangents)
            return [rest.at[_slot(rest, t)].set(arrived), None]

        operator.def_jvp_rule2(linear_in(operator, 0), None)
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make rings of ones."""
        return [
            BenchmarkConfig(
                f"{SLOTS} x {n}",
                (jnp.ones((SLOTS, n)), jnp.zeros(1, jnp.int32)),
                {"outs": [jax.ShapeDtypeStruct((n,), "float32"), jax.ShapeDtypeStruct((SLOTS, n), "float32")]},
                {"n": n},
                bytes=12 * n,
            )
            for n, _ in of.format.sizes
        ]


ARRIVALS = Arrivals(
    "take_arrivals", ("delay",), "Return one row of a ring of sums, and the ring with that row set to zero."
)


def _slot(ring: Any, t: Any) -> jax.Array:
    found: jax.Array = t.reshape(()) % ring.shape[0]
    return found


def _as_array(cotangent: Any) -> jax.Array:
    """Return the cotangent of a result; that of an unused one is a symbolic zero."""
    aval: Any = cotangent.aval
    return jnp.zeros(aval.shape, aval.dtype) if isinstance(cotangent, Zero) else cotangent
