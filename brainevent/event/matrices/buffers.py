# SPDX-License-Identifier: Apache-2.0
"""Arrays that travel with a matrix: attributes of it, and leaves of its pytree if they are floating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ...errors import UnknownBufferError
from ...typing import PyTree
from .attributes import Attributes

__all__ = ["TURNED", "WithBuffers", "WithWeightIndices"]

TURNED = ("turned_indices", "turned_indptr", "turned_perm")  # the structure cut along the other axis


class WithBuffers(Attributes):
    """A matrix with further arrays of the user, by name."""

    @property
    def buffers(self) -> dict[str, Any]:
        """The registered arrays, by name, in a new dictionary."""
        return dict(self._buffers)

    def register_buffer(self, name: str, value: PyTree = None) -> None:
        """Let an array travel with the matrix, as the attribute `name`; functions over leaves see floating ones.

        Args:
            name: The name of the attribute.
            value: An array, or a tree of arrays.

        Raises:
            ValueError: If the matrix has an attribute of this name.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.eye(2))
            >>> matrix.register_buffer("trace", jnp.zeros(2))
            >>> matrix.trace = jnp.ones(2)
            >>> matrix.T.trace
            Array([1., 1.], dtype=float32)
        """
        if name not in self._buffers and (name in self.__dict__ or hasattr(type(self), name)):
            raise ValueError(f"{type(self).__name__}: {name!r} is an attribute already; choose another name")
        self._buffers[name] = value
        self.indices_within &= name not in TURNED  # these are indices, too, and not checked

    def set_buffer(self, name: str, value: PyTree) -> None:
        """Replace a registered array.

        Args:
            name: The name of the attribute.
            value: An array, or a tree of arrays.

        Raises:
            UnknownBufferError: If no array of this name is registered.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.eye(2))
            >>> matrix.register_buffer("trace", jnp.zeros(2))
            >>> matrix.set_buffer("trace", jnp.ones(2))
            >>> matrix.trace
            Array([1., 1.], dtype=float32)
        """
        if name not in self._buffers:
            known = ", ".join(self._buffers) or "none"
            raise UnknownBufferError(
                f"{type(self).__name__}: no buffer {name!r}; register it first (registered: {known})"
            )
        self.register_buffer(name, value)

    def __getattr__(self, name: str) -> Any:
        """Return a buffer; Python finds all other attributes first."""
        try:
            return self.__dict__["_buffers"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_buffers", ()):
            self.set_buffer(name, value)
        else:
            super().__setattr__(name, value)


class WithWeightIndices(WithBuffers):
    """A matrix that is cut along an axis, and can store the places of its elements along the other one."""

    def precompute_weight_indices(self) -> Self:
        """Store where each element lies when the matrix is cut along the other axis, at 8 bytes an element.

        Then products with events read only the elements of events in both directions, and use the same weights.

        Returns:
            The matrix itself.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]])).precompute_weight_indices()
            >>> matrix @ brainevent.BinaryArray(jnp.array([False, True]))
            Array([0., 3.], dtype=float32)
        """
        self._buffers.update(zip(TURNED, self._sorted_places(), strict=True))
        return self

    def build_weight_indices(self) -> Self:
        """Return the same matrix with what `precompute_weight_indices` stores; this one stays as it is.

        Returns:
            Another matrix, which shares data and indices.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> list(brainevent.CSR.fromdense(jnp.eye(2)).build_weight_indices().buffers)
            ['turned_indices', 'turned_indptr', 'turned_perm']
        """
        copy: Self = self._like(self.data)
        return copy.precompute_weight_indices()

    def _sorted_places(self) -> Sequence[Any]:
        """Return indices, pointers and places of weights of the structure that is cut along the other axis, sorted."""
        raise NotImplementedError
