# SPDX-License-Identifier: Apache-2.0
"""The use of a jax.numpy implementation: a kernel, the outputs' types, derivatives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from .._compat import ShapedArray, infer_types
from ..errors import KernelOutputError
from .raised import listed, naming

__all__ = ["Reference"]


@dataclass(frozen=True)
class Reference:
    """A `jax.numpy` implementation `fn(*operands, **kwargs)` of an operator, with the operator's keyword arguments."""

    fn: Callable[..., Any]
    operator: str

    @property
    def __wrapped__(self) -> Callable[..., Any]:  # its parts, for its name by content
        return self.fn

    def generator(self, *, outs: Sequence[ShapedArray], **kwargs: Any) -> Callable[..., Any]:
        """The implementation as a kernel generator."""
        kwargs.pop("backend", None)
        if self.wants_outs:
            kwargs["outs"] = outs
        return lambda *operands: self.fn(*operands, **kwargs)

    @property
    def wants_outs(self) -> bool:
        """Whether the implementation takes `outs` itself, so that `outs` does not follow from it."""
        try:
            return "outs" in inspect.signature(self.fn).parameters
        except (TypeError, ValueError):
            return False

    def flat(self, *, outs: Sequence[ShapedArray], **kwargs: Any) -> Callable[..., list[Any]]:
        """Return the implementation as a function that returns a list of arrays, checked against `outs`."""
        kernel = self.generator(outs=outs, **kwargs)

        def run(*operands: Any) -> list[Any]:
            with naming(self.operator, "reference", lambda: f"operands {listed(operands)}"):
                results = jax.tree.leaves(kernel(*operands))
            expected = [(tuple(out.shape), out.dtype) for out in outs]
            found = [(tuple(x.shape), x.dtype) for x in results]
            if found != expected:
                raise KernelOutputError(
                    f"operator {self.operator!r}: its reference returns {_described(found)}, "
                    f"but outs says {_described(expected)}; change the reference or outs "
                    f"(operands: {listed(operands)})"
                )
            return results

        return run

    def infer_outs(self, operands: Sequence[Any], kwargs: dict[str, Any], remark: Callable[[], str] = str) -> Any:
        """Return the outputs' types if the caller omits `outs`; `remark` is added to errors."""
        if self.wants_outs:
            raise TypeError(
                f"operator {self.operator!r}: outs is missing, and cannot be computed from its reference, which takes "
                "outs itself; pass outs="
            )
        kwargs = {key: value for key, value in kwargs.items() if key != "backend"}
        with naming(self.operator, "reference", lambda: f"operands {listed(operands)}", remark):
            return infer_types(lambda *xs: self.fn(*xs, **kwargs), operands)


def _described(types: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types) or "nothing"
