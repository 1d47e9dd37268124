# SPDX-License-Identifier: Apache-2.0
"""Functions of drawn matrices that users call: six of each distribution of weights, and of its numbers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Format, Law
from ..laws.products import EVENTS, NUMBERS
from ..laws.whole import WHOLE
from ..matrices.drawn_kinds import JITCNormalR, JITCScalarR, JITCUniformR
from ..table import TABLE
from . import docstrings
from .calls import dense, product
from .format import DRAWN, JITN, JITS, JITU

__all__ = ["EVENT_MM", "EVENT_MV", "MM", "MV", "WHOLE_MATRIX"]
__all__ += ["binary_jitnmm", "binary_jitnmv", "jitn", "jitnmm", "jitnmv", "jitnmv_dt2t"]
__all__ += ["binary_jitsmm", "binary_jitsmv", "jits", "jitsmm", "jitsmv", "jitsmv_dt2t"]
__all__ += ["binary_jitumm", "binary_jitumv", "jitu", "jitumm", "jitumv", "jitumv_dt2t"]

Function = Callable[..., Any]
_TYPES = {
    "seed": "SeedLike",
    "shape": "Shape",
    "transpose": "bool",
    "corder": "bool",
    "backend": "str | None",
}


@dataclass(frozen=True)
class _Family:
    """The functions of a format, whose first arguments are `numbers`, like those of an example."""

    form: Format
    matrix: Any
    numbers: tuple[str, ...]
    example: str
    weights: str

    def functions(self) -> tuple[Function, ...]:
        """Return the matrix as a dense one, products with numbers and with events, and values of synapses."""
        of = self.form.name
        products = (
            self._product(f"{of}mv", docstrings.VECTOR, event=False),
            self._product(f"{of}mm", docstrings.COLUMNS, event=False),
            self._product(f"binary_{of}mv", docstrings.EVENTS, event=True),
            self._product(f"binary_{of}mm", docstrings.COLUMNS, event=True, like=f"binary_{of}"),
        )
        return self._dense(), *products, self._per_synapse()

    def _dense(self) -> Function:
        def call(of: dict[str, Any], prob: Any, seed: Any, shape: Any, **how: Any) -> Any:
            return dense(self.form, of, prob, seed, shape, tuple(how.values()))

        return self._named(self.form.name, docstrings.DENSE, ("prob", "seed"), call)

    def _product(self, name: str, doc: str, *, event: bool, like: str = "") -> Function:
        operand = "B" if name.endswith("mm") else "vector"

        def call(of: dict[str, Any], prob: Any, seed: Any, shape: Any, **rest: Any) -> Any:
            named = operand, rest.pop(operand)
            return product(self.form, of, prob, seed, named, shape, tuple(rest.values()), event=event)

        return self._named(name, doc, ("prob", operand, "seed"), call, optional=True, of=like or self.form.name)

    def _per_synapse(self) -> Function:
        name = f"{self.form.name}mv_dt2t"

        def call(of: dict[str, Any], prob: Any, seed: Any, y: Any, transpose: bool, **how: Any) -> Any:
            if seed is None:
                raise TypeError(f"{name}: seed is None; pass an integer, or a key of jax.random.key")
            return self.matrix(*of.values(), prob, seed, **how)._per_synapse(y, None, of_columns=transpose, where=name)

        return self._named(name, docstrings.PER_SYNAPSE, ("prob", "y", "seed"), call)

    def _named(
        self, name: str, doc: str, arguments: tuple[str, ...], call: Function, *, optional: bool = False, of: str = ""
    ) -> Function:
        """Return a function with these arguments; where it is `optional`, the seed need not be given."""
        either, alone = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        types = _TYPES | dict.fromkeys(("vector", "B"), "EventLike" if name.startswith("binary") else "ArrayLike")
        parameters = [
            inspect.Parameter(each, either, annotation=types.get(each, "ArrayLike"))
            for each in (*self.numbers, *arguments)
        ]
        parameters[-1] = parameters[-1].replace(default=None if optional else inspect.Parameter.empty)
        defaults = {"shape": inspect.Parameter.empty, "transpose": False, "corder": True, "backend": None}
        parameters += [
            inspect.Parameter(each, alone, default=value, annotation=_TYPES[each]) for each, value in defaults.items()
        ]
        signature = inspect.Signature(parameters, return_annotation="jax.Array")

        def function(*args: Any, **kwargs: Any) -> Any:
            if kwargs.pop("matrix_mode", None) is not None:  # of 0.2.0, where B met another matrix
                message = f"{name}: matrix_mode is ignored, as all products are with one matrix; leave it out"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}; it is called as {name}{_without_types(signature)}") from None
            given.apply_defaults()
            return call({each: given.arguments.pop(each) for each in self.numbers}, **given.arguments)

        function.__name__ = function.__qualname__ = name
        words = {"name": name, "of": of or self.form.name, "example": self.example, "weights": self.weights}
        words["columns"] = "The spikes" if words["of"].startswith("binary") else "Real numbers"
        words["quoted"] = " and ".join(f"`{each}`" for each in self.numbers)
        numbers = f"\n{' ' * 8}".join(docstrings.NUMBERS[each] for each in self.numbers)
        function.__doc__ = doc.format(**words, numbers=numbers, matrix=self.matrix.__name__)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Signature.empty
    plain = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return inspect.Signature(plain)


jits, jitsmv, jitsmm, binary_jitsmv, binary_jitsmm, jitsmv_dt2t = _Family(
    JITS, JITCScalarR, ("weight",), "1.5", "in which every element is `weight` or zero"
).functions()
jitn, jitnmv, jitnmm, binary_jitnmv, binary_jitnmm, jitnmv_dt2t = _Family(
    JITN, JITCNormalR, ("w_loc", "w_scale"), "1.5, 0.1", "with normally distributed weights"
).functions()
jitu, jitumv, jitumm, binary_jitumv, binary_jitumm, jitumv_dt2t = _Family(
    JITU, JITCUniformR, ("w_low", "w_high"), "0.5, 1.5", "with uniformly distributed weights"
).functions()


def _operators(law: Law, *, columns: bool = False) -> list[XLACustomKernel]:
    return [TABLE[Description(form, law, columns=columns)] for form in DRAWN]


WHOLE_MATRIX = _operators(WHOLE)  # those of one weight, of a normal and of a uniform distribution, as all that follow
MV, MM = _operators(NUMBERS), _operators(NUMBERS, columns=True)
EVENT_MV, EVENT_MM = _operators(EVENTS), _operators(EVENTS, columns=True)
