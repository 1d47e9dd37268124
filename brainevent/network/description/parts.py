# SPDX-License-Identifier: Apache-2.0
"""`Part`: some neurons of a population, as source, target, and wherever neurons are named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError

__all__ = ["Named", "Part", "neurons_at", "slice_of", "written"]

_OF_ALL = ("rule", "state", "params", "units", "value_range")  # of a population: one for all neurons
_FEW = 4  # numbers that a name spells out
_INSTEAD = "pass a slice, an array of different integers, or a mask of booleans"

Array = Any
Whole = Any  # what has a name and a size: a population, the plan of one, or a part


class Named:
    """What has a name, and is sorted by it among names: JAX sorts the keys of a dictionary."""

    def __lt__(self, other: Any) -> bool:
        return NotImplemented if _sorted_by(other) is None else _sorted_by(self) < _sorted_by(other)

    def __gt__(self, other: Any) -> bool:
        return NotImplemented if _sorted_by(other) is None else _sorted_by(self) > _sorted_by(other)


def _sorted_by(key: Any) -> Any:
    """Return what a name, a population or a part is sorted by; None of anything else."""
    if isinstance(key, str):
        return key, b""
    if not isinstance(key, Named):
        return None
    return key.name, key.numbers.tobytes() if isinstance(key, Part) else b""  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False, repr=False)
class Part(Named):
    """Some neurons of a population: `exc[:100]`, `exc[::2]`, `exc[mask]` or `exc[[5, 3, 8]]`.

    A part is a source or target of projections and couplings, and is named in `record=`, `inputs=`, `params=`,
    `Simulation.set`, `Simulation.at` and the values of a sweep. It does not change, and is equal to another part of the
    same population with the same neurons in the same order. `part[10:]` is a part of the part, and
    `numpy.asarray(part)` its numbers.

    Attributes:
        population: The `Population`.
        numbers: The number of each neuron in the population, in the order of the part: int64, (neurons,).

    Examples:
        >>> import brainevent as be
        >>> cells = be.models.lif_delta("cells", 10)
        >>> cells[:6][::2], cells[[7, 2]].numbers
        (cells[:6:2], array([7, 2]))
        >>> len(cells[5:]), cells[5:] == cells[-5:]
        (5, True)
    """

    population: Any
    numbers: Array

    def __post_init__(self) -> None:
        if isinstance(self.population, Part) or not hasattr(self.population, "rule"):
            raise NetworkError(f"Part: population is {self.population!r}; take a part of a population by exc[...]")
        numbers = neurons_at(self.population, self.numbers)
        numbers.flags.writeable = False
        object.__setattr__(self, "numbers", numbers)

    @cached_property
    def name(self) -> str:
        """Its name in labels: that of the population, and which neurons there are."""
        return f"{self.population.name}[{written(self.numbers, self.population.size)}]"

    @property
    def size(self) -> int:
        """How many neurons there are."""
        return int(self.numbers.size)

    def __len__(self) -> int:
        """Return how many neurons there are."""
        return self.size

    def __iter__(self) -> Iterator[int]:
        """Iterate over the numbers of the neurons in the population."""
        return iter(self.numbers.tolist())

    def __getitem__(self, neurons: Any) -> Part:
        """Return a part of the part: a slice, integers or a mask of its neurons, which count from 0."""
        return Part(self.population, self.numbers[neurons_at(self, neurons)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the numbers of the neurons: where NumPy takes integers, it takes a part."""
        if copy is False and dtype is not None and np.dtype(dtype) != self.numbers.dtype:
            raise ValueError(f"{self.name}: another dtype needs a copy")
        return np.array(self.numbers, dtype) if copy or dtype is not None else self.numbers

    def __getattr__(self, name: str) -> Any:
        """Raise: a rule is that of all neurons of a population."""
        if name in _OF_ALL:
            raise NetworkError(
                f"{self.name}: a part has no {name} of its own; pass the population, with arrays of parameters that "
                "differ between neurons"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        return self.population is other.population and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.population, self.numbers.tobytes()))

    def __repr__(self) -> str:
        return self.name


def neurons_at(owner: Whole, index: Any) -> Array:
    """Return the numbers, int64, of the neurons of a population or part that an index names, all different."""
    where, size = f"{owner.name}[...]", owner.size
    if isinstance(index, slice):
        try:
            return np.arange(size, dtype=np.int64)[index]
        except (TypeError, ValueError):
            raise NetworkError(f"{where}: found {index}; pass integers in a slice, such as {owner.name}[:10]") from None
    if isinstance(index, Part):
        raise NetworkError(
            f"{where}: found {index}, a part; pass numbers, such as those of part.numbers, or a slice of it: part[:10]"
        )
    array = _index_array(where, owner, index)
    if array.dtype == bool:
        if array.shape != (size,):
            raise NetworkError(
                f"{where}: the mask has the shape {array.shape}; pass ({size},), a boolean for each neuron"
            )
        return np.flatnonzero(array)
    return _different(where, owner, array)


def _index_array(where: str, owner: Whole, index: Any) -> Array:
    """Return an index that is no slice as an array of integers or booleans with one axis."""
    if isinstance(index, Tracer):
        raise NetworkError(
            f"{where}: found an array that JAX traces, but which neurons a part has is fixed when it is made; pass "
            "numbers that are known, and make the part outside of jax.jit and jax.vmap"
        )
    if isinstance(index, (str, bytes, tuple)) or index is None or index is Ellipsis:
        hint = f"{owner.name}[{list(index)}]" if isinstance(index, tuple) else _INSTEAD
        raise NetworkError(f"{where}: found {index!r}; {'pass ' if isinstance(index, tuple) else ''}{hint}")
    if np.ma.is_masked(index):
        raise NetworkError(f"{where}: has masked elements; pass numbers (numbers.compressed())")
    try:
        array = np.asarray(index)
    except (TypeError, ValueError):
        array = np.empty(0, object)
        array = array.reshape(1, 0) if array.dtype == object else array
    if not array.ndim:
        one = array.dtype.kind in "iu"
        number = int(array) if one else 0
        start, stop = number or "", "" if number == -1 else number + 1
        hint = f"{owner.name}[{start}:{stop}] is a part of one neuron" if one else _INSTEAD
        raise NetworkError(f"{where}: found {index!r}; {hint}")
    if array.dtype.kind == "f" and not array.size:
        array = array.astype(np.int64)  # an empty list has no type
    if array.ndim != 1 or array.dtype.kind not in "biu":
        shown = f"{type(index).__name__} of {array.dtype}" if array.ndim == 1 else f"the shape {array.shape}"
        raise NetworkError(f"{where}: found {shown}; {_INSTEAD}")
    return array


def _different(where: str, owner: Whole, array: Array) -> Array:
    """Return numbers of neurons that are all there and different; negative ones count from the end."""
    size = owner.size
    wrong = (array >= size) | ((array < -size) if array.dtype.kind == "i" else False)
    if wrong.any():
        there = f"pass 0 to {size - 1}" if size else "it has no neurons"
        raise NetworkError(f"{where}: there is no neuron {array[wrong][0]}; {there}")
    numbers = array.astype(np.int64)
    numbers = np.where(numbers < 0, numbers + size, numbers)
    ordered = np.sort(numbers)
    if (twice := ordered[1:][ordered[1:] == ordered[:-1]]).size:
        raise NetworkError(f"{where}: neuron {twice[0]} is there twice; pass each neuron once (numpy.unique)")
    return numbers


def slice_of(numbers: Array) -> slice | None:
    """Return the slice that gives these numbers, rising or falling; None if there is none."""
    if not numbers.size:
        return slice(0, 0, 1)
    first, last = int(numbers[0]), int(numbers[-1])
    step = int(numbers[1]) - first if numbers.size > 1 else 1
    if numbers.size > 1 and (np.diff(numbers) != step).any():
        return None
    end = last + (1 if step > 0 else -1)
    return slice(first, end if end >= 0 else None, step)


def written(numbers: Array, size: int) -> str:
    """Return numbers of neurons as an index is written: a slice, a few numbers, or how many with a hash."""
    if not numbers.size:
        return ":0"
    found = slice_of(numbers)
    if found is None:
        if numbers.size <= _FEW:
            return ", ".join(map(str, numbers.tolist()))
        return f"{numbers.size} of {size}: {hashlib.sha256(numbers.tobytes()).hexdigest()[:8]}"
    first, step = int(numbers[0]), found.step
    end = int(numbers[-1]) + step
    begin = "" if first == (0 if step > 0 else size - 1) else first
    stop = end if 0 <= end < size else ""
    return f"{begin}:{stop}" + ("" if step == 1 else f":{step}")
