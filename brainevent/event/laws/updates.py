# SPDX-License-Identifier: Apache-2.0
"""Updates: each returns all weights; those of neurons that spike have the trace of the neuron at the other end added.

Operators are called as `operator(weights, *arrays of indices, spikes, trace, after)`, or with trace and spikes the
other way round if the matrix is cut by postsynaptic neurons (`post`). All other weights keep their bits. Out-of-range
indices are ignored. The values of the last operand, `after`, are not used: it is an array, or an empty one, that must
be computed before weights may change in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..description import Description, Law, Others
from ..elements import Elements, taken_at
from ..operands import is_within
from ..precision import precise
from .products import EVENTS
from .rules import of_operands, of_part

__all__ = ["UPDATES", "Updates"]


@dataclass(frozen=True, eq=False, repr=False)
class Updates(Law):
    """The law, which is linear in weights and trace together, and has no derivative with respect to spikes."""

    kind = "updates"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def updated(weights: Any, *rest: Any, **_: Any) -> list[Any]:
            *structure, first, second, _after = rest
            spikes, trace = (second, first) if of.post else (first, second)
            elements, own, other = sides_of(of, structure, weights, spikes, trace)
            touched = elements.there & elements.at(own, is_active(spikes))
            changes = elements.at(other, trace)
            if not of.indexed:
                return [_added(weights, changes, touched)]
            perm = structure[-1]
            touched &= is_within(perm, weights.shape[0])
            found = _added(taken_at(weights, perm), changes, touched)
            return [weights.at[jnp.where(touched, perm, weights.shape[0])].set(found, mode="drop")]

        return of_operands((*operands_of(of), "after"), updated)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the elements."""
        cut = of.format.cut
        row, column = cut.row or "m", cut.column or "k"
        sides = f"{row}, {column}, a"
        if of.indexed:
            arrays = ", ".join((*cut.arrays, cut.stored))
            return {"rule": f"w, {arrays}, {sides} -> w", "need_replication_factors": ("w", *cut.stored.split())}
        arrays = "".join(f"{factors}, " for factors in cut.arrays)
        return {"rule": f"{cut.stored}, {arrays}{sides} -> {cut.stored}", "of_part": of_part(cut, before=1)}

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its derivatives; the cotangent of the trace sums those of weights to which it was added."""
        count = len(of.arrays) + 4
        spikes, trace = (count - 2, count - 3) if of.post else (count - 3, count - 2)

        def by_trace(tangent: Any, weights: Any, *rest: Any, **params: Any) -> Any:
            rest = (*rest[: trace - 1], tangent, *rest[trace:])
            return operator(jnp.zeros_like(weights), *rest, **params)

        def transposed(cotangents: Any, *given: Any, outs: Any, **params: Any) -> list[Any]:
            (cotangent,), found = cotangents, [None] * count
            if is_undefined_primal(given[0]):
                found[0] = cotangent
            if is_undefined_primal(given[trace]):
                wanted = given[trace].aval
                out = jax.ShapeDtypeStruct(wanted.shape, cotangent.dtype)
                how = {name: value for name, value in params.items() if name == "indices_within"}
                how |= of.format.sized((given[spikes].shape[0], wanted.shape[0]))
                by_events = Description(of.format, EVENTS, indexed=of.indexed)
                product = (cotangent, *given[1 : count - 3], given[spikes])
                turned = not (of.post and not of.format.arrays)
                (summed,) = apply(by_events, *product, transpose=turned, outs=[out], **how)
                found[trace] = summed.astype(wanted.dtype)
            return found

        rules: list[Any] = [None] * count
        rules[0], rules[trace] = lambda tangent, *_, **__: [tangent], by_trace
        operator.def_jvp_rule2(*rules)
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, few spikes and many."""
        return [_config(of, n, number, active) for n, number in of.format.sizes for active in (0.01, 0.1)]

    def call(self, operator: XLACustomKernel, of: Description) -> Callable[..., Any]:
        """Return what is measured: an operator, with or without the last operand."""
        count = len(of.arrays) + 4

        def call(*operands: Any, shape: Any = None, backend: str | None = None) -> Any:
            rest = () if len(operands) == count else (jnp.zeros(0, "float32"),)
            return operator(*operands, *rest, backend=backend)

        return call


UPDATES = Updates(
    "update_{format}_on_binary_{side}",
    ("plasticity",),
    "Add to each weight of a {own} that spikes the trace of its {other}.",
)


def operands_of(of: Description) -> tuple[str, ...]:
    """Return the names of the operands but the last."""
    return (of.format.weights, *of.arrays, *(("trace", "spikes") if of.post else ("spikes", "trace")))


def sides_of(
    of: Description, structure: Sequence[Any], weights: Any, spikes: Any, trace: Any
) -> tuple[Elements, Any, Any]:
    """Return the elements, their places among the neurons that spike, and those among the neurons with a trace.

    Arrays of indices are cut by the neurons that spike. A dense matrix has none: presynaptic neurons are its rows.
    """
    turned = of.post and not of.format.arrays
    shape = (trace.shape[0], spikes.shape[0]) if turned else (spikes.shape[0], trace.shape[0])
    elements = of.elements(structure, weights, shape)
    return elements, *((elements.column, elements.row) if turned else (elements.row, elements.column))


def _added(weights: Any, changes: Any, where: Any) -> jax.Array:
    """Add changes where a condition is true; elsewhere weights keep their bits, even the sign of a zero."""
    sums = precise(weights.dtype)
    return jnp.where(where, (weights.astype(sums) + changes.astype(sums)).astype(weights.dtype), weights)


def _config(of: Description, n: int, number: int, active: float) -> BenchmarkConfig:
    random = np.random.default_rng(0)
    structure = of.format.draw(n, number, in_order=True)
    spikes, trace = jnp.asarray(random.random(n) < active), jnp.asarray(random.random(n), jnp.float32)
    if of.indexed:
        structure = of.format.turned(structure, (n, n))
    weights = jnp.ones(of.format.stored(structure, (n, n)))
    sides = (trace, spikes) if of.post else (spikes, trace)
    each = 16 if structure else 64 if of.post else 8  # for each element of a dense column, memory sends a whole line
    return BenchmarkConfig(
        f"{n} x {number}, active={active:g}",
        (weights, *structure, *sides, jnp.zeros(0)),
        {},
        {"n": n, "connections": number, "active": active},
        bytes=n + each * int(spikes.sum()) * number,
        flops=max(int(spikes.sum()), 1) * number,
    )
