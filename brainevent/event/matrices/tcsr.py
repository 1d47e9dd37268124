# SPDX-License-Identifier: Apache-2.0
"""`TCSR`: compressed sparse rows with a separate backend for events, and a choice of the gradient of weights."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from ... import _units as units
from ...typing import ArrayLike, DTypeLike, IndexLike
from ..saved import register_pair
from .base import TURNED
from .compressed import Compressed
from .csc import CSC
from .csr import CSR

__all__ = ["TCSR"]

_ALGORITHMS = ("bptt", "pp_prop")


class _WithOptions(Compressed):
    """A matrix with the options of a `TCSR`, which are static."""

    backward_algorithm: str = "bptt"
    binary_backend: str | None = None
    _plain_class: ClassVar[Any]

    def _with(self, options: tuple[str, str | None]) -> Self:
        if options[0] not in _ALGORITHMS:
            raise ValueError(f"TCSR: backward_algorithm is {options[0]!r}; pass one of {', '.join(_ALGORITHMS)}")
        self.backward_algorithm, self.binary_backend = options
        return self

    @property
    def _options(self) -> tuple[str, str | None]:
        return self.backward_algorithm, self.binary_backend

    def _like(self, data: Any) -> Self:
        return super()._like(data)._with(self._options)

    @property
    def _facts(self) -> Any:
        return self._options

    def _recall(self, facts: Any) -> None:
        self._with(facts)

    def _transposed(self) -> Any:
        return super()._transposed()._with(self._options)

    def _without(self, data: Any, backend: str | None) -> Any:
        """Return the matrix as a `CSR` or `CSC`."""
        structure = (self.indices, self.indptr)
        return self._plain_class._of(data, structure, self.shape, **{**self._shared, "backend": backend})

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        if not event:
            return super()._multiply(x, transpose=transpose, event=False)
        (weights, unit), (x, unit_of_x) = units.split(self.data), units.split(x)
        plain = self._without(weights, self.binary_backend or self.backend)
        if self.backward_algorithm == "pp_prop" and jnp.issubdtype(x.dtype, jnp.inexact):
            found = _by_values(plain, self._without(weights, self.backend), transpose)(weights, x)
        else:
            found = plain._multiply(x, transpose=transpose, event=True)
        return units.join(found, units.product(unit, unit_of_x))


def _by_values(of_events: Any, of_numbers: Any, transpose: bool) -> Any:
    """Return a product with events whose derivatives are those of the product with their values."""

    @jax.custom_jvp
    def product(weights: Any, x: Any) -> Any:
        return of_events._like(weights)._multiply(x, transpose=transpose, event=True)

    @product.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        weights, x = primals
        by_weights = of_numbers._like(tangents[0])._multiply_values(x, transpose=transpose)
        by_x = of_numbers._like(weights)._multiply_values(tangents[1], transpose=transpose)  # zeros, if x does not vary
        return product(weights, x), (by_weights + by_x).astype(weights.dtype)

    return product


@register_pair
class TCSR(_WithOptions, CSR):
    """A `CSR` that takes the options of tiled matrices; kernels here need no tiles.

    `.T` shares all arrays, and keeps the options.

    Args:
        source: A `CSR`, or the first argument of `CSR`.
        *arrays: The other positional arguments of `CSR`.
        backend: The name of the kernel for products with numbers; None for the default.
        binary_backend: The name of the kernel for products with events; None for `backend`.
        backward_algorithm: The gradient of the weights with events that are floating numbers: with "bptt" an event
            counts as one, and with "pp_prop" as its value, as eligibility traces need it.
        **how: The keywords of `CSR`.

    Raises:
        ValueError: If `backward_algorithm` has another value.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> matrix = brainevent.TCSR(brainevent.CSR.fromdense(jnp.eye(2)), backward_algorithm="pp_prop")
        >>> events = brainevent.BinaryArray(jnp.array([0.5, 0.0]))
        >>> events @ matrix, jax.grad(lambda w: (events @ matrix.with_data(w)).sum())(matrix.data)
        (Array([1., 0.], dtype=float32), Array([0.5, 0. ], dtype=float32))
        >>> brainevent.TCSR.fromcsr(matrix.tocsr()).materialize_tcsc_mirror().has_tcsc_mirror
        True
        >>> brainevent.TCSR.fromcsc(matrix.tocsc()), brainevent.TCSR.fromdense(jnp.eye(3)).slice_rows([1])
        (TCSR(float32[2, 2], nse=2), TCSR(float32[1, 3], nse=1))
    """

    _plain_class = CSR

    def __init__(
        self,
        source: Any,
        *arrays: Any,
        backend: str | None = None,
        binary_backend: str | None = None,
        backward_algorithm: str = "bptt",
        **how: Any,
    ) -> None:
        made = source if isinstance(source, CSR) and not (arrays or how) else CSR(source, *arrays, **how)
        known = {"in_order": made.indices_sorted, "within": made.indices_within}
        structure = (made.indices, made.indptr)
        self._hold(made.data, structure, made.shape, backend or made.backend, made.buffers, **known)
        self._with((backward_algorithm, binary_backend))

    @classmethod
    def fromcsr(cls, csr: CSR, **options: Any) -> TCSR:
        """Make a matrix from a `CSR`, whose rows may have any order; `from_sorted_csr` is another name.

        Args:
            csr: The matrix.
            **options: The keywords of `TCSR`.

        Returns:
            The matrix, which shares all arrays.

        Raises:
            TypeError: If `csr` is not a `CSR`.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.TCSR.from_sorted_csr(brainevent.CSR.fromdense(jnp.eye(2)))
            TCSR(float32[2, 2], nse=2)
        """
        if not isinstance(csr, CSR):
            raise TypeError(f"TCSR.fromcsr: {type(csr).__name__} is not a CSR; call its tocsr()")
        return cls(csr, **options)

    from_sorted_csr = fromcsr

    @classmethod
    def fromcsc(cls, csc: CSC, **options: Any) -> TCSR:
        """Make a matrix from a `CSC`.

        Args:
            csc: The matrix.
            **options: The keywords of `TCSR`.

        Returns:
            The matrix.

        Raises:
            TypeError: If `csc` is not a `CSC`.
        """
        if not isinstance(csc, CSC):
            raise TypeError(f"TCSR.fromcsc: {type(csc).__name__} is not a CSC; call its tocsc()")
        return cls(csc.tocsr(), **options)

    @classmethod
    def fromdense(
        cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = "auto", **options: Any
    ) -> TCSR:
        """Store the nonzero elements of a dense matrix.

        Args:
            mat: A dense matrix, (m, k), or a quantity of one.
            nse: How many elements to store; needed under `jax.jit`.
            index_dtype: int32, int64, or "auto" for the smaller one that is large enough.
            **options: The keywords of `TCSR`.

        Returns:
            The matrix.

        Raises:
            TypeError: If the matrix is not floating.
        """
        return cls(CSR.fromdense(mat, nse=nse, index_dtype=index_dtype), **options)

    def tocsr(self) -> CSR:
        return self._without(self.data, self.backend)

    def slice_rows(self, index: IndexLike | slice) -> TCSR:
        return TCSR(self.tocsr().slice_rows(index))._with(self._options)

    @property
    def has_tcsc_mirror(self) -> bool:
        """Whether the places of elements in columns are stored."""
        return TURNED[0] in self._buffers

    def materialize_tcsc_mirror(self) -> TCSR:
        """Store the places of elements in columns: another name of `precompute_weight_indices`.

        Returns:
            The matrix itself.
        """
        return self.precompute_weight_indices()


@register_pair
class TCSC(_WithOptions, CSC):
    """The transpose of a `TCSR`, with its options."""

    _plain_class = CSC

    def tocsc(self) -> CSC:
        return self._without(self.data, self.backend)


TCSR._turned_class, TCSC._turned_class = TCSC, TCSR
