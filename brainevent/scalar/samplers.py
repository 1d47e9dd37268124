# SPDX-License-Identifier: Apache-2.0
"""Drawn numbers as functions of a random word: the values of distributions, and the gaps between random places."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from jax import lax

from .form import Form
from .lower import form_of
from .threefry import gaussian, threefry, unit

__all__ = ["portion_form", "sampler_forms"]

F = np.float32
_LARGEST_GAP = F(2**30)
_LARGEST_UNIT = F(1 - 2**-24)
_LARGEST_EXPONENT = F(87)

Scalar = Any


def _float(x: Scalar) -> Scalar:
    return lax.convert_element_type(x, np.float32)


def uniform(word: Scalar, low: Scalar, width: Scalar) -> Scalar:
    """Return a number from `low` on, less than `width` above it."""
    return low + width * unit(word)


def normal(word: Scalar, mean: Scalar, deviation: Scalar) -> Scalar:
    """Return a number of a normal distribution."""
    return mean + deviation * gaussian(word)


def lognormal(word: Scalar, mean: Scalar, deviation: Scalar) -> Scalar:
    """Return a positive number whose logarithm is normally distributed."""
    exponent = normal(word, mean, deviation)
    return lax.exp(lax.min(lax.max(exponent, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))


def exponential(word: Scalar, mean: Scalar) -> Scalar:
    """Return a number of an exponential distribution."""
    return mean * -lax.log(F(1) - unit(word))


def integer(word: Scalar, first: Scalar, step: Scalar, number: Scalar) -> Scalar:
    """Return one of a number of integers, all as likely: the first one and those some steps behind it."""
    return first + step * _float(lax.mulhi(word, number))


def portion(word: Scalar) -> Scalar:
    """Return a number from 0 to 1, without 1: it is below a probability that often."""
    return lax.min(_float(word) * F(2**-32), _LARGEST_UNIT)


def gap(word: Scalar, scale: Scalar) -> Scalar:
    """Return how many places are skipped if each is taken with probability p: scale is -1 / log(1 - p)."""
    return lax.convert_element_type(lax.min(-lax.log1p(-portion(word)) * scale, _LARGEST_GAP), np.int32)


_NUMBERS: dict[Any, int] = {uniform: 2, normal: 2, lognormal: 2, exponential: 1, gap: 1}  # float32, after the word


@functools.cache
def sampler_forms() -> tuple[Form, ...]:
    """Return `threefry` and all samplers above as forms."""
    samplers = [form_of(one.__name__, one, ("uint32", *("float32",) * count)) for one, count in _NUMBERS.items()]
    integers = form_of("integer", integer, ("uint32", "float32", "float32", "uint32"))
    return form_of("threefry", threefry, ("uint32",) * 4), *samplers, integers


@functools.cache
def portion_form() -> Form:
    """Return `portion` as a form."""
    return form_of("portion", portion, ("uint32",))
