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
        """Set the rule for `jax.vmap`.

        Args:
            fun: `fun(args, axes, **params)` returns the results and their batch axes.

        Raises:
            RegistrationTypeError: If it is not callable.
        """
        self._def_rule("batch", fun)

    def register_general_batching(self) -> None:
        """Batch by a scan over the mapped operands, and not by the batching of the kernels.

        Examples:
            >>> import jax, jax.numpy as jnp, brainevent
            >>> product = brainevent.XLACustomKernel("doc_rules")
            >>> _ = product.def_reference(lambda x, y: x * y)
            >>> product.def_batching_rule(lambda args, axes, **params: ([args[0] * args[1]], [0]))
            >>> jax.vmap(product)(jnp.ones((2, 3)), jnp.ones((2, 3))).shape
            (2, 3)
            >>> product.register_general_batching()
            >>> product.def_jvp_rule2(lambda t, x, y, *, outs: t * y, lambda t, x, y, *, outs: x * t)
            >>> jax.grad(lambda x: product(x, jnp.array(3.0)))(2.0)
            Array(3., dtype=float32)
            >>> product.def_sharding_rule("n, n -> n")
        """
        self._def_rule("batch", functools.partial(general_batching_rule, self.definition.primitive.bind))

    def def_jvp_rule(self, fun: Callable[..., Any]) -> None:
        """Set the rule for forward derivatives.

        Args:
            fun: `fun(primals, tangents, **params)` returns the results and their tangents.

        Raises:
            RegistrationTypeError: If it is not callable.

        Examples:
            >>> import jax, brainevent
            >>> double = brainevent.XLACustomKernel("doc_jvp_rule")
            >>> _ = double.def_reference(lambda x: 2 * x)
            >>> double.def_jvp_rule(lambda primals, tangents, *, outs: (double(*primals), double(*tangents)))
            >>> double.def_transpose_rule(lambda cotangents, x, *, outs: [double(*cotangents)])
            >>> jax.grad(lambda x: double(x))(1.0)
            Array(2., dtype=float32)
        """
        self._def_rule("jvp", fun)

    def def_jvp_rule2(self, *jvp_rules: Callable[..., Any] | None) -> None:
        """Set the rule for forward derivatives as one rule for each operand, as `defjvp` does.

        Args:
            *jvp_rules: `rule(tangent, *primals, **params)` returns the tangent of the result; None for no derivative.

        Raises:
            TypeError: If a rule is neither a function nor None.
        """
        rules.defjvp(self, *jvp_rules)

    def def_transpose_rule(self, fun: Callable[..., Any]) -> None:
        """Set the rule for reverse derivatives of an operator that is linear.

        Args:
            fun: `fun(cotangents, *args, **params)` returns one cotangent for each operand.

        Raises:
            RegistrationTypeError: If it is not callable.
        """
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
        """Declare how operands and results are split over devices.

        Under `jax.jit` with sharded operands, the kernel then runs on each shard, on local shapes.

        Args:
            rule: Names for the dimensions of operands and results, as in "m k, k -> m", or a function `rule(*types,
                **kwargs)` that returns them for a call.
            reduction_factors: Names that do not occur in results, and over which partial results are combined, as in
                `("k",)`; other names that do not occur in results are not split.
            need_replication_factors: Names that are never split.
            permutation_factors: Names along which devices would exchange data; they are not split.
            reduction: How partial results are combined: "sum", "max" or "min".
            of_part: `of_part(places, *operands)` returns the operands of the kernel on one part, if the kernel must
                know its position: `places` gives, for each name, where the part begins and its length.
            **factor_sizes: Sizes of names that are nowhere a whole dimension.

        Raises:
            RegistrationValueError: If the rule cannot be read.
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
