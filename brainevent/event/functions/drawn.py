# SPDX-License-Identifier: Apache-2.0
"""Functions of drawn matrices that users call: six of each distribution of weights, and of its numbers."""
# ruff: noqa: N803 - B is a matrix

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Required, TypedDict, TypeVar, Unpack, cast

import jax

from ...operator.custom_kernel import XLACustomKernel
from ...typing import ArrayLike, EventLike, SeedLike, Shape
from ..description import Description, Law
from ..drawn.calls import dense, product
from ..drawn.format import DRAWN, JITN, JITS, JITU
from ..laws.products import EVENTS, NUMBERS
from ..laws.whole import WHOLE
from ..matrices.drawn_kinds import JITCNormalR, JITCScalarR, JITCUniformR
from ..table import TABLE
from . import drawn_docstrings as docstrings

__all__ = ["EVENT_MM", "EVENT_MV", "MM", "MV", "WHOLE_MATRIX"]
__all__ += ["binary_jitnmm", "binary_jitnmv", "jitn", "jitnmm", "jitnmv", "jitnmv_dt2t"]
__all__ += ["binary_jitsmm", "binary_jitsmv", "jits", "jitsmm", "jitsmv", "jitsmv_dt2t"]
__all__ += ["binary_jitumm", "binary_jitumv", "jitu", "jitumm", "jitumv", "jitumv_dt2t"]

F = TypeVar("F", bound=Callable[..., Any])


class _How(TypedDict, total=False):
    """The keywords of every function here, as type checkers know them."""

    shape: Required[Shape]
    transpose: bool
    corder: bool
    backend: str | None


def _how(*, shape: Shape, transpose: bool = False, corder: bool = True, backend: str | None = None) -> None:
    """Have the same keywords, as signatures show them."""


def _public(text: str) -> Callable[[F], F]:
    """Give a function its keywords one by one, and after its first sentence a text that is filled in."""

    def decorate(function: F) -> F:
        name, signature = function.__name__, _with_keywords(inspect.signature(function))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs.pop("matrix_mode", None) is not None:  # of 0.2.0, where B met another matrix
                message = f"{name}: matrix_mode is ignored, as all products are with one matrix; leave it out"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}; it is called as {name}{_without_types(signature)}") from None
            given.apply_defaults()
            return function(**given.arguments)

        call.__doc__ = f"{function.__doc__}\n\n{docstrings.filled(text, name)}"
        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast("F", call)

    return decorate


def _with_keywords(signature: inspect.Signature) -> inspect.Signature:
    *parameters, _ = signature.parameters.values()
    return signature.replace(parameters=[*parameters, *inspect.signature(_how).parameters.values()])


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Signature.empty
    plain = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return inspect.Signature(plain)


def _per_synapse(
    name: str, matrix: Any, numbers: tuple[Any, ...], prob: Any, seed: Any, y: Any, transpose: bool, **how: Any
) -> Any:
    if seed is None:
        raise TypeError(f"{name}: seed is None; pass an integer, or a key of jax.random.key")
    return matrix(*numbers, prob, seed, **how)._per_synapse(y, None, of_columns=transpose, where=name)


@_public(docstrings.DENSE)
def jits(weight: ArrayLike, prob: ArrayLike, seed: SeedLike, **how: Unpack[_How]) -> jax.Array:
    """Return a random matrix as a dense array, in which every element is `weight` or zero."""
    return dense(JITS, {"weight": weight}, prob, seed, **how)


@_public(docstrings.VECTOR)
def jitsmv(
    weight: ArrayLike, prob: ArrayLike, vector: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Multiply a random matrix that is never stored, `jits(...)` of the same arguments, with a vector."""
    return product(JITS, {"weight": weight}, prob, seed, ("vector", vector), event=False, **how)


@_public(docstrings.COLUMNS)
def jitsmm(weight: ArrayLike, prob: ArrayLike, B: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]) -> jax.Array:
    """Do for each column of `B` what `jitsmv` does for a vector, with the same random matrix."""
    return product(JITS, {"weight": weight}, prob, seed, ("B", B), event=False, **how)


@_public(docstrings.EVENTS)
def binary_jitsmv(
    weight: ArrayLike, prob: ArrayLike, vector: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for the random matrix `jits(...)`, which is never stored."""
    return product(JITS, {"weight": weight}, prob, seed, ("vector", vector), event=True, **how)


@_public(docstrings.COLUMNS)
def binary_jitsmm(
    weight: ArrayLike, prob: ArrayLike, B: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Do for each column of `B` what `binary_jitsmv` does for a vector, with the same random matrix."""
    return product(JITS, {"weight": weight}, prob, seed, ("B", B), event=True, **how)


@_public(docstrings.PER_SYNAPSE)
def jitsmv_dt2t(weight: ArrayLike, prob: ArrayLike, y: ArrayLike, seed: SeedLike, **how: Unpack[_How]) -> jax.Array:
    """Multiply the weight of each element with the value of its row or column in `y`."""
    return _per_synapse("jitsmv_dt2t", JITCScalarR, (weight,), prob, seed, y, **how)


@_public(docstrings.DENSE)
def jitn(w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, seed: SeedLike, **how: Unpack[_How]) -> jax.Array:
    """Return a random matrix as a dense array, with normally distributed weights."""
    return dense(JITN, {"w_loc": w_loc, "w_scale": w_scale}, prob, seed, **how)


@_public(docstrings.VECTOR)
def jitnmv(
    w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, vector: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Multiply a random matrix that is never stored, `jitn(...)` of the same arguments, with a vector."""
    return product(JITN, {"w_loc": w_loc, "w_scale": w_scale}, prob, seed, ("vector", vector), event=False, **how)


@_public(docstrings.COLUMNS)
def jitnmm(
    w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, B: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Do for each column of `B` what `jitnmv` does for a vector, with the same random matrix."""
    return product(JITN, {"w_loc": w_loc, "w_scale": w_scale}, prob, seed, ("B", B), event=False, **how)


@_public(docstrings.EVENTS)
def binary_jitnmv(
    w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, vector: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for the random matrix `jitn(...)`, which is never stored."""
    return product(JITN, {"w_loc": w_loc, "w_scale": w_scale}, prob, seed, ("vector", vector), event=True, **how)


@_public(docstrings.COLUMNS)
def binary_jitnmm(
    w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, B: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Do for each column of `B` what `binary_jitnmv` does for a vector, with the same random matrix."""
    return product(JITN, {"w_loc": w_loc, "w_scale": w_scale}, prob, seed, ("B", B), event=True, **how)


@_public(docstrings.PER_SYNAPSE)
def jitnmv_dt2t(
    w_loc: ArrayLike, w_scale: ArrayLike, prob: ArrayLike, y: ArrayLike, seed: SeedLike, **how: Unpack[_How]
) -> jax.Array:
    """Multiply the weight of each element with the value of its row or column in `y`."""
    return _per_synapse("jitnmv_dt2t", JITCNormalR, (w_loc, w_scale), prob, seed, y, **how)


@_public(docstrings.DENSE)
def jitu(w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, seed: SeedLike, **how: Unpack[_How]) -> jax.Array:
    """Return a random matrix as a dense array, with uniformly distributed weights."""
    return dense(JITU, {"w_low": w_low, "w_high": w_high}, prob, seed, **how)


@_public(docstrings.VECTOR)
def jitumv(
    w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, vector: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Multiply a random matrix that is never stored, `jitu(...)` of the same arguments, with a vector."""
    return product(JITU, {"w_low": w_low, "w_high": w_high}, prob, seed, ("vector", vector), event=False, **how)


@_public(docstrings.COLUMNS)
def jitumm(
    w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, B: ArrayLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Do for each column of `B` what `jitumv` does for a vector, with the same random matrix."""
    return product(JITU, {"w_low": w_low, "w_high": w_high}, prob, seed, ("B", B), event=False, **how)


@_public(docstrings.EVENTS)
def binary_jitumv(
    w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, vector: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for the random matrix `jitu(...)`, which is never stored."""
    return product(JITU, {"w_low": w_low, "w_high": w_high}, prob, seed, ("vector", vector), event=True, **how)


@_public(docstrings.COLUMNS)
def binary_jitumm(
    w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, B: EventLike, seed: SeedLike = None, **how: Unpack[_How]
) -> jax.Array:
    """Do for each column of `B` what `binary_jitumv` does for a vector, with the same random matrix."""
    return product(JITU, {"w_low": w_low, "w_high": w_high}, prob, seed, ("B", B), event=True, **how)


@_public(docstrings.PER_SYNAPSE)
def jitumv_dt2t(
    w_low: ArrayLike, w_high: ArrayLike, prob: ArrayLike, y: ArrayLike, seed: SeedLike, **how: Unpack[_How]
) -> jax.Array:
    """Multiply the weight of each element with the value of its row or column in `y`."""
    return _per_synapse("jitumv_dt2t", JITCUniformR, (w_low, w_high), prob, seed, y, **how)


def _operators(law: Law, *, columns: bool = False) -> list[XLACustomKernel]:
    return [TABLE[Description(form, law, columns=columns)] for form in DRAWN]


WHOLE_MATRIX = _operators(WHOLE)  # those of one weight, of a normal and of a uniform distribution, as all that follow
MV, MM = _operators(NUMBERS), _operators(NUMBERS, columns=True)
EVENT_MV, EVENT_MM = _operators(EVENTS), _operators(EVENTS, columns=True)
