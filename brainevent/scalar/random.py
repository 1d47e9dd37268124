# SPDX-License-Identifier: Apache-2.0
"""`Random`: the random numbers of one neuron in one step, as the fourth argument of a rule."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import RuleError, UnknownNameError, did_you_mean
from .poisson import be_poisson_more, be_poisson_of
from .threefry import be_bits, be_keys, be_more_bits, gaussian, unit, unit_of_53_bits

__all__ = ["METHODS", "Random"]

METHODS = ("bits", "uniform", "normal", "exponential", "bernoulli", "integers", "poisson")

Scalar = Any  # a number or a traced scalar; an array where index is one


class Random:
    """Random numbers of one neuron in one step: functions of seed, population, neuron, step and draw, without a state.

    A rule takes it as its fourth argument. Each call is an independent draw; draws are numbered in the order in which
    JAX traces them. Within a loop or a branch, and within a function of `jax.jit` that is called twice, a draw needs
    `index=`, an integer or an array of integers that differs between repetitions.

    In float64, `uniform` has 53 bits, of which the first 24 are the number that it is in float32, and `normal`,
    `exponential` and `bernoulli` are made of it; `bits`, `integers` and `poisson` are the same in both.

    Args:
        neuron: Number of the neuron in its population: uint32 scalar.
        step: Number of the step: uint32 scalar.
        key0: First key, of the seed: uint32 scalar.
        key1: Second key, of the population: uint32 scalar.
        dtype: Of the floats that are drawn: float32 or float64; below, "float" is one of these.

    Examples:
        >>> import brainevent as be
        >>> def rule(s, arriving, p, random):
        ...     return s, random.bernoulli(0.1)
        >>> sim = be.Network([be.Population("cells", 1000, rule)], dt=1.0).build(seed=0)
        >>> len(sim.run(1, record=["cells.spikes"])["cells.spikes"].neurons)
        99
    """

    __slots__ = ("_count", "_counter", "_dtype", "_keys")

    def __init__(self, neuron: Scalar, step: Scalar, key0: Scalar, key1: Scalar, dtype: str = "float32"):
        self._dtype = np.dtype(dtype)
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
            low: Smallest number: float.
            high: Bound: float; where it is not above low, low is returned.
            index: As in `bits`.

        Returns:
            float: one of 2^24 (2^53) equally likely numbers, rounded; where rounding leads to high, low.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(-1 <= random.uniform(-1, 1) < 1)
            True
        """
        u = self._unit("uniform", index)
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
            return u
        low, high = self._float(low), self._float(high)
        value = low + (high - low) * u
        return jnp.where(value < high, value, low)

    def normal(self, mean: Scalar = 0.0, sd: Scalar = 1.0, index: Scalar | None = None) -> Scalar:
        """Draw a number of the normal distribution.

        Args:
            mean: Mean: float.
            sd: Standard deviation: float.
            index: As in `bits`.

        Returns:
            float, at most 5.5 standard deviations from the mean; in float64 8.3.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(abs(random.normal()) < 6)
            True
        """
        if self._dtype == np.float32:
            z = gaussian(self._bits("normal", index))
        else:
            u = self._unit("normal", index)
            x = lax.erf_inv((u - np.float64(0.5)) * np.float64(2) + np.float64(2**-53))  # all exact; never 0
            z = x * np.float64(np.sqrt(2))
        return self._float(mean) + self._float(sd) * z

    def exponential(self, mean: Scalar = 1.0, index: Scalar | None = None) -> Scalar:
        """Draw a number of the exponential distribution.

        Args:
            mean: Mean: float.
            index: As in `bits`.

        Returns:
            float, at most 16.7 means; in float64 36.8.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(random.exponential(2.0) >= 0)
            True
        """
        u = self._unit("exponential", index)
        log = lax.log(np.float32(1) - u) if self._dtype == np.float32 else lax.log1p(-u)
        return self._float(mean) * (self._dtype.type(0) - log)

    def bernoulli(self, p: Scalar, index: Scalar | None = None) -> Scalar:
        """Draw True with a given probability.

        Args:
            p: Probability: float; never where it is NaN or not above 0, always from 1 on.
            index: As in `bits`.

        Returns:
            bool.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> bool(random.bernoulli(1.0))
            True
        """
        p = lax.stop_gradient(self._float(p))
        if self._dtype == np.float32:
            return be_happens(self._bits("bernoulli", index), p)
        return be_is_below(self._unit("bernoulli", index), p)

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
        return low + lax.mulhi(bits, span).astype(np.int32)

    def poisson(self, mean: Scalar, index: Scalar | None = None) -> Scalar:
        """Draw a number of events.

        Args:
            mean: Mean, rounded to float32; 0 events where it is NaN or not above 0; above 2^20 it counts as 2^20.
            index: As in `bits`.

        Returns:
            int32.

        Examples:
            >>> import numpy as np
            >>> random = Random(np.uint32(3), np.uint32(0), np.uint32(1), np.uint32(2))
            >>> int(random.poisson(0.0))
            0
        """
        mean = lax.stop_gradient(jnp.asarray(mean, np.float32))
        keys = self._draw("poisson", index)
        first = be_poisson_of(unit(be_bits(*self._counter, *keys)), mean)
        return first + be_poisson_more(*self._counter, *keys, mean)

    def _bits(self, method: str, index: Scalar | None) -> Scalar:
        return be_bits(*self._counter, *self._draw(method, index))

    def _unit(self, method: str, index: Scalar | None) -> Scalar:
        """Draw a number from 0 to 1, without 1."""
        words = (*self._counter, *self._draw(method, index))
        if self._dtype == np.float32:
            return unit(be_bits(*words))
        return unit_of_53_bits(be_bits(*words), be_more_bits(*words))

    def _float(self, value: Scalar) -> Scalar:
        return jnp.asarray(value, self._dtype)

    def _draw(self, method: str, index: Scalar | None) -> tuple[Scalar, Scalar]:
        """Number one more draw, and return its keys."""
        draw = np.uint32(self._count)
        self._count += 1
        if index is None:
            return be_keys(*self._keys, draw)
        return be_keys(*self._keys, draw, _integer(f"{method}: index", index).astype(np.uint32))


@jax.jit
def be_happens(bits: Scalar, p: Scalar) -> Scalar:
    """Say whether random bits are below a probability."""
    below = lax.clamp(np.float32(0), p, np.float32(1 - 2**-24)) * np.float32(2**32)
    below = jnp.where(p > 0, below, np.float32(0))  # of NaN too
    return (bits < lax.convert_element_type(below, np.uint32)) | (p >= 1)


@jax.jit
def be_is_below(u: Scalar, p: Scalar) -> Scalar:
    """Say whether a uniform number is below a probability."""
    return u < p


def _integer(what: str, value: Scalar) -> Scalar:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuleError(f"random.{what} is {array.dtype}; pass an integer, or .astype('int32')")
    return array.astype(np.int32)
