# SPDX-License-Identifier: Apache-2.0
"""Products: each element multiplies its weight with a value of one side, and adds to the result of the other.

Operators are called as `operator(weights, *arrays of indices, x, shape=(m, k), transpose=...)`: `A @ x` with x of k
rows, or `A.T @ x` with x of m rows. `indices_sorted=True` promises that the indices of each row ascend, and
`indices_within=True` that all are in range; without that promise, out-of-range indices are ignored.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..activity import weighted
from ..description import Description, Law, Others
from ..precision import precise
from .pairs import Pairs
from .rules import has_kernel_for, linear_in, of_operands, of_part, without_unreached

__all__ = ["EVENTS", "EVENT_PAIRS", "NUMBERS", "PAIRS", "VALUED", "VALUED_PAIRS", "Product"]

_ACTIVE = (0.01, 0.1)
_COLUMNS = 16


@dataclass(frozen=True, eq=False, repr=False)
class Product(Law):
    """A product in which an element adds `terms(weight, x)`, in `jax.numpy`.

    `merge` says how terms become one result, beginning with `start`. `by_x` is the law of the derivative with respect
    to x, or None, and `by_weights` that of the derivative with respect to each weight, unless x counts as events or as
    numbers. With `event`, x counts only as zero or not zero. `in_numba(dtype, homogeneous=...)` makes the `Terms` of
    Numba kernels, with one weight or many of a dtype: see `event/on_cpu/terms.py`.
    """

    terms: Callable[[Any, Any], Any] = weighted
    event: bool = False  # type: ignore[misc]
    by_x: Product | None = None
    by_weights: Pairs | None = None
    linear: bool = True  # in the weights
    merge: str = "add"
    start: float = 0
    in_numba: Callable[..., Any] | None = None  # type: ignore[misc]
    kind = "product"

    def tags(self, of: Description) -> tuple[str, ...]:
        return (*super().tags(of), *(("indexed",) if of.indexed else ()))

    def doc(self, of: Description) -> str:
        """Return the docstring of an operator without a public function, such as those of drawn matrices."""
        if of.format.drawn is None:
            return super().doc(of)
        x, kind = ("matrix" if of.columns else "vector"), ("events" if self.event else "numbers")
        return f"Multiply a drawn matrix, or if `transpose` its transpose, with a {x} of {kind}."

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def product(weights: Any, *rest: Any, shape: Any = None, transpose: bool, **_: Any) -> list[Any]:
            *structure, x = rest
            if of.indexed and weights.size != 1:
                weights = weights[jnp.clip(structure[-1], 0, max(0, weights.size - 1))]
            elements = of.elements(structure, weights, shape)
            source, target, size = elements.directed(transpose=transpose)
            each = weights.reshape(() if weights.size == 1 else elements.stored).astype(precise(weights.dtype))
            each = jnp.broadcast_to(each, elements.stored)
            each = jnp.expand_dims(each, range(each.ndim, each.ndim + x.ndim - 1))
            terms = self.terms(each, elements.at(source, x))
            found = elements.merged(target, terms, size, merge=self.merge, start=self.start)
            return [found.astype(weights.dtype)]

        return of_operands((of.format.weights, *of.arrays, "x"), product)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the elements, and the columns of x."""
        factors = of.format.cut

        def rule(weights: Any, *rest: Any, shape: Any = None, transpose: bool, **_: Any) -> str:
            *structure, x = rest
            whole = weights.shape == of.stored(structure, weights, shape) and not of.indexed
            each = factors.stored if whole else " ".join(f"w{i}" for i in range(weights.ndim))
            arrays = (*factors.arrays, *((factors.stored,) if of.indexed else ()))
            taken, result = factors.directed(transpose=transpose)
            columns = " n" * (x.ndim - 1)
            return f"{', '.join((each, *arrays))}, {taken}{columns} -> {result}{columns}"

        reduction = "sum" if self.merge == "add" else self.merge
        return {
            "rule": rule,
            "reduction_factors": factors.reduced,
            "need_replication_factors": factors.whole,
            "reduction": reduction,
            "of_part": of_part(factors, before=1),
        }

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give a product its derivatives, and a batching rule: batches are products with matrices."""
        rules = _Rules(operator, of, apply)
        between = [None] * len(of.arrays)
        if self.linear:
            operator.def_jvp_rule2(linear_in(operator, 0), *between, rules.by_x)
            operator.def_transpose_rule(rules.transpose)
        else:
            operator.def_jvp_rule2(rules.refused, *between, rules.refused)
        operator.def_batching_rule(rules.batch)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, one weight and many, both directions, few events and many."""
        points = itertools.product(of.format.sizes, _ACTIVE if self.event else (1.0,))
        return [config for (n, number), active in points for config in _configs(of, n, number, active, self.event)]


def _without_zeros(values: Any, x: Any) -> Any:
    """Return the products where x is not zero, and zero elsewhere, even where a value is NaN."""
    return jnp.where(x != 0, values * x.astype(values.dtype), 0)


_SUMMARY = (
    "Multiply, for each stored element, its row in `of_rows` with its column in `of_columns`, and sum",
    "{format}_per_element{indexed}",
)
PAIRS = Pairs(_SUMMARY[1], ("float",), f"{_SUMMARY[0]}.", product=lambda: NUMBERS)
EVENT_PAIRS = Pairs(
    f"binary_{_SUMMARY[1]}",
    ("gradient",),
    "Sum, for each stored element, the values of its column where its row has events, or the other way round.",
    product=lambda: EVENTS,
    terms=weighted,
    event=True,
    by_x=PAIRS,
)
VALUED_PAIRS = Pairs(
    f"weighted_{_SUMMARY[1]}",
    ("gradient",),
    f"{_SUMMARY[0]}; zeros of one side are left out.",
    product=lambda: VALUED,
    terms=_without_zeros,
    silent=True,
)
NUMBERS: Product = Product(
    "{format}{mv}{indexed}", ("float",), terms=lambda weights, x: weights * x.astype(weights.dtype)
)
VALUED: Product = Product(
    "weighted_{format}{mv}{indexed}",
    ("weighted",),
    "Sum the weights where the other operand is not zero, times its numbers.",
    terms=_without_zeros,
    by_weights=VALUED_PAIRS,
)
EVENTS: Product = Product("binary_{format}{mv}{indexed}", ("binary",), terms=weighted, event=True, by_x=NUMBERS)


def _configs(of: Description, n: int, number: int, active: float, event: bool) -> list[BenchmarkConfig]:
    structure = of.format.draw(n, number)
    drawn = np.random.default_rng(1).random((n, _COLUMNS) if of.columns else n) < active
    x = jnp.asarray(drawn, bool if event else jnp.float32)
    many = jnp.ones(of.format.stored(structure, (n, n)))
    perm = [jnp.asarray(np.random.default_rng(2).permutation(many.size), jnp.int32)] if of.indexed else []
    configs = []
    kinds = ((jnp.ones(1), "one", "one weight"), (many, "many", "weights"))[not structure :]
    if of.format.drawn is not None:
        kinds = ((many, "drawn", "drawn"),)
    additions = max(int(drawn.sum()), 1) * number
    for weights, kind, words in kinds:
        for transpose in (True, False):
            few = of.format.by_rows and (transpose or not structure)
            rows = int(drawn.reshape(n, -1).any(1).sum()) if few else n
            each = of.format.bytes + 4 * (weights.size > 1 and of.format.drawn is None) * (1 + of.indexed)
            configs.append(
                BenchmarkConfig(
                    f"{n} x {number} active={active:g} {words}{', transpose' * transpose}",
                    (weights, *structure, *perm, x),
                    {**of.format.sized((n, n)), "transpose": transpose},
                    {"n": n, "fan_out": number, "active": active, "weights": kind},
                    bytes=x.nbytes + 32 * rows * of.format.by_rows + rows * number * each + 8 * x.size,
                    flops=additions if event else 2 * additions,
                )
            )
    return configs


@dataclass(frozen=True, eq=False, repr=False)
class _Rules:
    """The rules of a product, which is linear in the weights, and in x unless that holds events."""

    operator: XLACustomKernel
    of: Description
    apply: Others

    @property
    def _law(self) -> Product:
        law = self.of.law
        if not isinstance(law, Product):
            raise TypeError(f"{self.of.name}: {law!r} is not a law of products")
        return law

    def refused(self, *_: Any, **__: Any) -> Any:
        """Raise: the law has no derivatives."""
        raise TypeError(
            f"operator {self.operator.name!r} has no derivatives: its law, {self._law.title!r}, names none; "
            "use jax.lax.stop_gradient on its operands"
        )

    def by_x(self, tangent: Any, *operands: Any, **params: Any) -> Any:
        if not self._law.event:
            return linear_in(self.operator, -1)(tangent, *operands, **params)
        if self._law.by_x is None:
            return self.refused()
        of_numbers = self.of.also(law=self._law.by_x)
        if not has_kernel_for(self.apply.operator(of_numbers), params):
            params = {**params, "backend": None}
        # Straight through: the derivative is that of the product with numbers.
        return self.apply(of_numbers, *operands[:-1], tangent, **params)

    def transpose(self, cotangents: Any, weights: Any, *rest: Any, **params: Any) -> Any:
        (cotangent,), (*where, x) = cotangents, rest
        nothing = [None] * len(where)
        if not is_undefined_primal(x):
            few = weights.aval.size == 1 or self.of.format.drawn is not None
            of_weights = self._for_few_weights if few else self._for_each_weight
            found = of_weights(cotangent, weights.aval, where, x, params)
            return [found.reshape(weights.aval.shape).astype(weights.aval.dtype), *nothing, None]
        outs = [jax.ShapeDtypeStruct(x.aval.shape, cotangent.dtype)]
        turned = {**params, "transpose": not params["transpose"], "outs": outs}
        (found,) = self.operator(weights, *where, cotangent, **turned)
        return [None, *nothing, found.astype(x.aval.dtype)]

    def _for_few_weights(
        self, cotangent: Any, weights: Any, where: Sequence[Any], x: Any, params: Mapping[str, Any]
    ) -> Any:
        # A product with a weight of one visits only events; the products of pairs would visit all elements.
        sums = precise(weights.dtype)
        outs = [jax.ShapeDtypeStruct(cotangent.shape, sums)]
        ones = jnp.eye(weights.size, dtype=sums).reshape(weights.size, *weights.shape)

        def summed(operator: Any, one: Any, x: Any, **how: Any) -> jax.Array:
            found: jax.Array = operator(one, *where, x, **{**params, "outs": outs, **how})[0]
            return found

        def reached() -> jax.Array:
            """Say of each result whether an event is part of it."""
            counts = functools.partial(self.apply, self.of.also(law=EVENTS))
            return summed(counts, ones[0], x, backend=None) != 0

        found, cotangent = [summed(self.operator, one, x) for one in ones], cotangent.astype(sums)
        if self._law.event:  # the first number is part of each weight, so the first product counts events
            cotangent = jnp.where(found[0] != 0, cotangent, 0)
        elif self._law is VALUED:  # whose sums may be zero
            cotangent = without_unreached(cotangent, found[0], reached)
        return jnp.stack([jnp.vdot(each, cotangent) for each in found])

    def _for_each_weight(
        self, cotangent: Any, weights: Any, where: Sequence[Any], x: Any, params: Mapping[str, Any]
    ) -> Any:
        """Return, for each weight, the product of its row's and its column's values, summed over further axes."""
        sums, law = precise(weights.dtype), self._law.by_weights or (EVENT_PAIRS if self._law.event else PAIRS)
        of, transpose = self.of.also(law=law, columns=False), params["transpose"]
        values = cotangent.astype(sums), x if law.event else x.astype(sums)
        both = values[::-1] if transpose else values
        sides = (side if side.ndim == 2 else side[:, None] for side in both)
        out = jax.ShapeDtypeStruct(self.of.stored(where, weights, params.get("shape")), sums)
        how = {name: params[name] for name in ("backend", "indices_within") if name in params}
        if not has_kernel_for(self.apply.operator(of), params):
            how["backend"] = None
        (found,) = self.apply(of, *where, *sides, outs=[out], transpose=transpose, **how)
        return found

    def batch(self, args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        *structure, x = args
        of_matrices = self.of.also(columns=True)
        if any(axis is not None for axis in axes[:-1]) or not has_kernel_for(self.apply.operator(of_matrices), params):
            return NotImplemented  # the kernel is called for each entry of the batch
        x = jnp.moveaxis(x, axes[-1], -1)
        (out,) = params["outs"]
        flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        outs = [jax.ShapeDtypeStruct((out.shape[0], flat.shape[1]), out.dtype)]
        (found,) = self.apply(of_matrices, *structure, flat, **{**params, "outs": outs})
        return [found.reshape(*out.shape, x.shape[-1])], [len(out.shape)]
