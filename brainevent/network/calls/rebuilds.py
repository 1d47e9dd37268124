# SPDX-License-Identifier: Apache-2.0
"""`Rebuilds`: what programs of `simulate` need for other weights than those of an engine, cached by their content."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..plan.plan import Plan
from ..plan.replaced import Weights

__all__ = ["Places", "Rebuilds", "Rebuilt", "Resident"]

Array = Any
_MOST, _BYTES = 16, 2**32  # of weights that are cached: how many, and what they take; the last ones always are
_FORMS = 2  # of the same weights, in other quanta, or with rows as operands


class Resident(Protocol):
    """What programs share with the weights of a plan."""

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take."""

    def of_operands(self) -> Any:
        """Return the same with synapses as operands, so that no program keeps their memory."""


class Places(Protocol):
    """An engine, which puts the synapses of a plan on its device."""

    def resident_of(self, plan: Plan) -> Any:
        """Return what programs share for a plan that differs in weights and quanta alone."""


@dataclass(eq=False)
class Rebuilt:
    """Weights, and what programs share with them: by the parts of their quanta, and whether rows are operands."""

    weights: Weights
    residents: dict[Hashable, tuple[Weights, Resident]] = field(default_factory=dict)

    def in_quanta(self, quanta: Any) -> Weights:
        """Return the weights in the given quanta, if programs were made of these, else in their own."""
        return next((weights for weights, _ in self.residents.values() if weights.plan.quanta == quanta), self.weights)

    @property
    def nbytes(self) -> int:
        """How much memory this takes, on the host and on the device."""
        replaced = sum(int(one.nbytes) for one in self.weights.replaced.values())
        return replaced + sum(resident.nbytes for _, resident in self.residents.values())


class Rebuilds:
    """The last weights that `simulate` was given, for one engine."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rebuilt: OrderedDict[bytes, Rebuilt] = OrderedDict()

    def of(self, now: Weights, replaced: Mapping[str, Array], make: Callable[[], Weights]) -> Rebuilt:
        """Return the weights of now with others in their place, float64 () or (entries,), made unless they are here."""
        key = _content({**now.replaced, **replaced})
        with self._lock:
            if key not in self._rebuilt:
                self._rebuilt[key] = Rebuilt(make())
            self._rebuilt.move_to_end(key)
            self._forget()
            return self._rebuilt[key]

    def resident(self, engine: Places, rebuilt: Rebuilt, weights: Weights, *, as_operands: bool) -> Any:
        """Return what programs share with weights, which are the rebuilt ones in quanta that may be finer.

        With `as_operands`, these programs do not keep rows in memory.
        """
        with self._lock:
            key = tuple(weights.parts.items()), as_operands
            found = rebuilt.residents.pop(key, None)
            while found is None and len(rebuilt.residents) >= _FORMS:  # given back before more is taken
                del rebuilt.residents[next(iter(rebuilt.residents))]
            if found is None:
                resident = engine.resident_of(weights.plan)
                found = weights, resident.of_operands() if as_operands else resident
            rebuilt.residents[key] = found  # the last one
            self._forget()
            return found[1]

    def _forget(self) -> None:
        """Forget the weights that were not given for longest, but none of the last ones."""
        while len(self._rebuilt) > 1 and (
            len(self._rebuilt) > _MOST or sum(one.nbytes for one in self._rebuilt.values()) > _BYTES
        ):
            self._rebuilt.popitem(last=False)


def _content(weights: Mapping[str, Array]) -> bytes:
    """Return a hash of weights by projection, which is the same for the same bits in any order of names."""
    found = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], np.float64)
        found.update(f"{name!r} {array.size} ".encode())
        found.update(array.data)
    return found.digest()
