# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that set its rules: for derivatives, `vmap` and sharding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import RegistrationTypeError
from . import rules
from .batch import general_batching_rule
from .definition import Definition
from .sharding import sharding_rule

__all__ = ["RuleMethods"]


class RuleMethods:
    """The methods of an operator that set its rules."""

    definition: Definition

    def _def_rule(self, kind: str, fun: Callable[..., Any]) -> None:
        if not callable(fun):
            raise RegistrationTypeError(
                f"operator {self.definition.name!r}: the {kind} rule must be callable, found {type(fun).__name__}"
            )
        self.definition.set_rule(kind, fun)

    def def_batching_rule(self, fun: Callable[..., Any]) -> None:
        """Set the vmap rule: `fun(args, axes, **params) -> (outputs, output axes)`."""
        self._def_rule("batch", fun)

    def register_general_batching(self) -> None:
        """Batch by a scan over the mapped operands, instead of the kernels' own batching."""
        self._def_rule("batch", functools.partial(general_batching_rule, self.definition.primitive))

    def def_jvp_rule(self, fun: Callable[..., Any]) -> None:
        """Set the forward rule: `fun(primals, tangents, **params) -> (outputs, output tangents)`."""
        self._def_rule("jvp", fun)

    def def_jvp_rule2(self, *jvp_rules: Callable[..., Any] | None) -> None:
        """Set the forward rule as one rule per input: `rule(tangent, *primals, **params)`; None: no derivative."""
        rules.defjvp(self, *jvp_rules)

    def def_transpose_rule(self, fun: Callable[..., Any]) -> None:
        """Set the reverse rule: `fun(cotangents, *args, **params) -> one cotangent per input`."""
        self._def_rule("transpose", fun)

    def def_sharding_rule(
        self,
        rule: str | Callable[..., str],
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        reduction: str = "sum",
        of_part: Callable[..., Sequence[Any]] | None = None,
        **factor_sizes: int,
    ) -> None:
        """Say how operands and results are cut over devices, as in "m k, k -> m" with `reduction_factors=("k",)`.

        Under `jit` with sharded operands the kernel then runs on each shard, on local shapes. A factor that results
        lack is reduced over the devices if it is named so (by "sum", "max" or "min"), else it is not cut. A function
        `rule(*types of operands, **kwargs)` returns the rule of each call, for example by a keyword argument.
        `of_part(places, *operands)` returns what the kernel gets for the operands of a part, if it must know which part
        that is: `places` says of each factor where the part begins, and how long it is.
        """
        read = sharding_rule(
            rule,
            self.definition.name,
            reduction_factors=reduction_factors,
            need_replication_factors=need_replication_factors,
            permutation_factors=permutation_factors,
            reduction=reduction,
            of_part=of_part,
            **factor_sizes,
        )
        self.definition.set_rule("sharding", read)
