# SPDX-License-Identifier: Apache-2.0
"""`SweepResult`: what the runs of a sweep recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from ..._html import document, table
from ...errors import NetworkError
from .neurons import Label
from .result import Result

__all__ = ["SweepResult"]

Array = Any


class SweepResult(Sequence[Result]):
    """The results of a sweep, one for each element.

    | Index | Value |
    | --- | --- |
    | `swept[3]` | what element 3 recorded: a `Result` |
    | `swept[2:4]` | the results of some elements |
    | `swept["exc.counts"]` | an array whose first axis is over elements: of counts, rates and states |
    | `swept["exc.spikes"]` | a tuple of the spikes of each element |

    Attributes:
        results: The results.
        interrupted: Whether some elements did not run to their end.

    Examples:
        >>> import brainevent as be
        >>> sim = be.Network([be.models.lif_delta("cells", 5)], dt=0.1).build(seed=1)
        >>> swept = sim.sweep(200, "cells.counts", {"cells": {"current": [0.0, 40.0, 80.0]}})
        >>> len(swept), swept["cells.counts"].shape
        (3, (3, 5))
        >>> bool(swept[2]["cells.counts"].sum() > swept[1]["cells.counts"].sum() > 0)
        True
    """

    def __init__(self, results: Sequence[Result]):
        self.results = tuple(results)

    @property
    def interrupted(self) -> bool:
        """Whether some elements did not run to their end."""
        return any(result.interrupted for result in self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> SweepResult: ...
    @overload
    def __getitem__(self, index: str | tuple[Any, str]) -> Any: ...
    def __getitem__(self, index: int | slice | str | tuple[Any, str]) -> Any:
        """Return the result of an element, those of some, or what all recorded under a label."""
        if isinstance(index, slice):
            return SweepResult(self.results[index])
        if isinstance(index, (str, tuple)):
            return self._stacked(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"sweep: there is no element {index}; there are {len(self)}, numbered from 0")
        return self.results[index]

    def __len__(self) -> int:
        """Return how many elements there are."""
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        """Iterate over the results."""
        return iter(self.results)

    def _stacked(self, label: Label) -> Any:
        found = [result[label] for result in self.results]
        if not all(isinstance(one, np.ndarray) for one in found):
            return tuple(found)
        if len({one.shape for one in found}) > 1:
            ran, synapses = [one.steps for one in self.results], [one.shape[-1] for one in found]
            why = f"ran {min(ran)} to {max(ran)} steps"
            if min(ran) == max(ran):
                why = f"have {min(synapses)} to {max(synapses)} synapses, which seeds= draws anew"
            raise NetworkError(
                f"sweep: {label!r} differs in shape, since elements {why}; take those of single elements: "
                f"swept[0][{label!r}]"
            )
        return np.stack(found) if found else np.empty(0)

    def _ran(self) -> str:
        ran = [result.steps for result in self.results] or [0]
        steps = f"{ran[0]}" if len(set(ran)) == 1 else f"{min(ran)} to {max(ran)}"
        return f"{len(self)} elements of {steps} steps{', interrupted' * self.interrupted}"

    def __repr__(self) -> str:
        return f"SweepResult({self._ran()}; recorded: {', '.join(self._labels()) or 'nothing'})"

    def _labels(self) -> list[str]:
        return list(self.results[0]) if self.results else []

    def _repr_html_(self) -> str:
        """Return what notebooks show: a row for each label."""
        rows = [(label, f"{type(self.results[0][label]).__name__} of each element") for label in self._labels()]
        return document(f"sweep of {self._ran()}", table(("label", "recorded"), rows))
