# SPDX-License-Identifier: Apache-2.0
"""`Random`: the random numbers of one neuron in one step, as the fourth argument of a rule."""

from __future__ import annotations

from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...errors import RuleError, UnknownNameError, did_you_mean
from .circular import be_high_product
from .poisson import be_poisson_more, be_poisson_of
from .threefry import be_bits, be_keys, unit

__all__ = ["METHODS", "Random"]

METHODS = ("bits", "uniform", "normal", "exponential", "bernoulli", "integers", "poisson")
_ROOT_TWO = np.float32(np.sqrt(2))

Scalar = Any  # a number or a traced scalar; an array where index is one


class Random:
    """Random numbers of one neuron in one step: functions of seed, population, neuron, step and draw, without a state.

    A rule takes it as its fourth argument. Each call is a draw of its own: draws are numbered in the order in which
    JAX traces them. Within a loop or a branch, and within a function of `jax.jit` that is called twice, a draw needs
    `index=`, an integer or an array of integers that tells its repetitions apart.

    Args:
        neuron: Number of the neuron in its population: uint32 scalar.
        step: Number of the step: uint32 scalar.
        key0: First key, of the seed: uint32 scalar.
        key1: Second key, of the population: uint32 scalar.

    Examples:
        >>> import numpy as np
        >>> from brainevent.network.rule.random import Random
        >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
        >>> bool(0 <= random.uniform() < 1)
        True
    """

    __slots__ = ("_count", "_counter", "_keys")

    def __init__(self, neuron: Scalar, step: Scalar, key0: Scalar, key1: Scalar):
        self._counter, self._keys, self._count = (neuron, step), (key0, key1), 0

    def __getattr__(self, name: str) -> NoReturn:
        """Raise: there is no such distribution."""
        if name.startswith("__"):
            raise AttributeError(name)
        guess = did_you_mean(name, METHODS)
        raise UnknownNameError(f"random has no {name!r}{guess}; names: {', '.join(METHODS)}")

    def bits(self, index: Scalar | None = None) -> Scalar:
        """Draw 32 random bits.

        Args:
            index: Which of several numbers of this draw: an integer, or an array of integers; needed in loops.

        Returns:
            uint32 in the shape of `index`.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> random.bits().dtype
            dtype('uint32')
        """
        return be_bits(*self._counter, *self._draw("bits", index))

    def uniform(self, low: Scalar = 0.0, high: Scalar = 1.0, index: Scalar | None = None) -> Scalar:
        """Draw a number from low to high, without high.

        Args:
            low: Smallest number: float32.
            high: Bound: float32; where it is not above low, low is returned.
            index: As in `bits`.

        Returns:
            float32: one of 2^24 equally likely numbers, rounded; where rounding leads to high, low.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(-1 <= random.uniform(-1, 1) < 1)
            True
        """
        u = self._unit("uniform", index)
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
            return u
        low, high = _float(low), _float(high)
        value = low + (high - low) * u
        return jnp.where(value < high, value, low)

    def normal(self, mean: Scalar = 0.0, sd: Scalar = 1.0, index: Scalar | None = None) -> Scalar:
        """Draw a number of the normal distribution.

        Args:
            mean: Mean: float32.
            sd: Standard deviation: float32.
            index: As in `bits`.

        Returns:
            float32, at most 5.5 standard deviations from the mean.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(abs(random.normal()) < 6)
            True
        """
        top = lax.convert_element_type(lax.shift_right_logical(self._bits("normal", index), np.uint32(8)), np.int32)
        odd = top + top + np.int32(1 - 2**24)  # from -(2^24 - 1) to 2^24 - 1
        x = lax.erf_inv(lax.convert_element_type(odd, np.float32) * np.float32(2**-24))
        return _float(mean) + _float(sd) * (x * _ROOT_TWO)

    def exponential(self, mean: Scalar = 1.0, index: Scalar | None = None) -> Scalar:
        """Draw a number of the exponential distribution.

        Args:
            mean: Mean: float32.
            index: As in `bits`.

        Returns:
            float32, at most 16.7 means.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(random.exponential(2.0) >= 0)
            True
        """
        return _float(mean) * (np.float32(0) - lax.log(np.float32(1) - self._unit("exponential", index)))

    def bernoulli(self, p: Scalar, index: Scalar | None = None) -> Scalar:
        """Draw whether something happens that has a probability.

        Args:
            p: Probability: float32; never where it is NaN or not above 0, always from 1 on.
            index: As in `bits`.

        Returns:
            bool.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(random.bernoulli(1.0))
            True
        """
        p = lax.stop_gradient(_float(p))
        below = lax.clamp(np.float32(0), p, np.float32(1 - 2**-24)) * np.float32(2**32)
        below = jnp.where(p > 0, below, np.float32(0))  # of NaN too
        return (self._bits("bernoulli", index) < lax.convert_element_type(below, np.uint32)) | (p >= 1)

    def integers(self, low: Scalar, high: Scalar, index: Scalar | None = None) -> Scalar:
        """Draw an integer from low to high, without high.

        Args:
            low: Smallest integer: int32.
            high: Bound: int32; where it is not above low, low is returned.
            index: As in `bits`.

        Returns:
            int32; no two integers' probabilities differ by more than 2^-32.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> int(random.integers(0, 6)) in range(6)
            True
        """
        low, high = _integer("integers: low", low), _integer("integers: high", high)
        bits = self._bits("integers", index)
        span = jnp.where(high > low, high - low, np.int32(0)).astype(np.uint32)
        return low + be_high_product(bits, span).astype(np.int32)

    def poisson(self, mean: Scalar, index: Scalar | None = None) -> Scalar:
        """Draw a number of events.

        Args:
            mean: Mean: float32; 0 events where it is NaN or not above 0; above 2^20 it counts as 2^20.
            index: As in `bits`.

        Returns:
            int32.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> int(random.poisson(0.0))
            0
        """
        mean = lax.stop_gradient(_float(mean))
        keys = self._draw("poisson", index)
        first = be_poisson_of(unit(be_bits(*self._counter, *keys)), mean)
        return first + be_poisson_more(*self._counter, *keys, mean)

    def _bits(self, method: str, index: Scalar | None) -> Scalar:
        return be_bits(*self._counter, *self._draw(method, index))

    def _unit(self, method: str, index: Scalar | None) -> Scalar:
        return unit(self._bits(method, index))

    def _draw(self, method: str, index: Scalar | None) -> tuple[Scalar, Scalar]:
        """Number one more draw, and return its keys."""
        draw = np.uint32(self._count)
        self._count += 1
        if index is None:
            return be_keys(*self._keys, draw)
        return be_keys(*self._keys, draw, _integer(f"{method}: index", index).astype(np.uint32))


def _float(value: Scalar) -> Scalar:
    return jnp.asarray(value, np.float32)


def _integer(what: str, value: Scalar) -> Scalar:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuleError(f"random.{what} is {array.dtype}; pass an integer, or .astype('int32')")
    return array.astype(np.int32)
