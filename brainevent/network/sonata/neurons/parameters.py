# SPDX-License-Identifier: Apache-2.0
"""`NestNeuron`: the parameters of a model of NEST, and the population that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....errors import NetworkError, did_you_mean
from ...description.populations import Population

__all__ = ["NestNeuron", "Values", "compact"]

Array = Any
Values = dict[str, Array]  # by name: float64 (neurons,), or (neurons, elements) with NaN where a list is shorter


@dataclass(frozen=True, eq=False)
class NestNeuron:
    """A model of NEST.

    Attributes:
        name: Its name in NEST.
        defaults: Its parameters; those with a list of any length have a tuple.
        make: Returns a population, given a name, its size, all parameters, and the time step.
        receptors: Names of the receptors of positive and of negative weights; none if edges have a `receptor_type`.
        positive: Whether negative weights are delivered as positive ones, into a conductance.
        fixed: Parameters of which only one value is supported.
    """

    name: str
    defaults: Mapping[str, float | tuple[float, ...]]
    make: Callable[[str, int, Values, float], Population]
    receptors: tuple[str, ...] = ()
    positive: bool = False
    fixed: Mapping[str, float] = field(default_factory=dict)

    def check_name(self, where: str, parameter: str) -> None:
        """Raise if the model has no such parameter."""
        if parameter not in self.defaults and parameter not in self.fixed:
            raise NetworkError(
                f"{where}: {self.name} has no parameter {parameter!r}{did_you_mean(parameter, self.defaults)}; "
                f"it has {', '.join(self.defaults)}"
            )

    def check_fixed(self, where: str, parameter: str, values: Array) -> None:
        """Raise if a parameter has a value that is not supported."""
        only = self.fixed[parameter]
        wrong = values[~((values == only) | ((only < -1e300) & (values < -1e300)))]
        if wrong.size:
            raise NetworkError(
                f"{where}: {parameter} of {self.name} is {wrong.flat[0]:g}; only {only:g} is supported, so leave it out"
            )


def compact(values: Array) -> Array:
    """Return one number in place of an array of equal ones."""
    values = np.asarray(values)
    return values.reshape(-1)[0] if values.size and (values == values.reshape(-1)[0]).all() else values
