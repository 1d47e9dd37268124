# SPDX-License-Identifier: Apache-2.0
"""`Record`: named scalars of one neuron, frozen, that a rule reads and replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax

from ..errors import RuleError, UnknownNameError, did_you_mean

__all__ = ["Record"]


@jax.tree_util.register_pytree_node_class
class Record:
    """Named values with a name for what they are, such as "state": `s.v`, `s.replace(v=0.0)`."""

    __slots__ = ("_read", "_values", "_what")
    _what: str
    _values: dict[str, Any]
    _read: set[str]

    def __init__(self, what: str, values: Mapping[str, Any], read: set[str] | None = None):
        """Name values, and note in `read` which of them a rule reads."""
        object.__setattr__(self, "_what", what)
        object.__setattr__(self, "_values", dict(values))
        object.__setattr__(self, "_read", set() if read is None else read)

    def __getattr__(self, name: str) -> Any:
        """Return the value of a name."""
        if name.startswith("__"):
            raise AttributeError(name)
        self._check(name)
        self._read.add(name)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise: a record does not change."""
        raise RuleError(f"{self._what}.{name} = ...: a record is frozen; return {self._what}.replace({name}=...)")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._values)

    def __repr__(self) -> str:
        return f"{self._what}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def replace(self, **values: Any) -> Record:
        """Return a record with some values replaced."""
        for name in values:
            try:
                self._check(name)
            except UnknownNameError as error:
                error.obj = self  # as Python does where a name is read
                raise
        return Record(self._what, {**self._values, **values}, self._read)

    def _check(self, name: str) -> None:
        if name not in self._values:
            guess = did_you_mean(name, self._values)
            raise UnknownNameError(f"{self._what} has no {name!r}{guess}; names: {', '.join(self._values) or 'none'}")

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[str, tuple[str, ...]]]:
        """Return values and names, for JAX, which hands on all of them."""
        self._read.update(self._values)
        return tuple(self._values.values()), (self._what, tuple(self._values))

    @classmethod
    def tree_unflatten(cls, names: tuple[str, tuple[str, ...]], values: tuple[Any, ...]) -> Record:
        """Return the record of names and values, for JAX."""
        return cls(names[0], dict(zip(names[1], values, strict=True)))
