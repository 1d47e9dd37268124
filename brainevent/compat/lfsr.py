# SPDX-License-Identifier: Apache-2.0
"""Small random generators for the inside of Pallas kernels: four words of 32 bits, shifts and exclusive ors.

States and drawn numbers can be arrays: then each element is a separate generator.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from .. import config
from ..typing import ArrayLike

__all__ = ["PallasLFSR88RNG", "PallasLFSR113RNG", "PallasLFSR128RNG", "PallasLFSRRNG", "get_pallas_lfsr_rng_class"]

Key = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
Step = tuple[int, int, int, int]


class _LFSR(ABC):
    """A generator that draws by changing its own state; it is a pytree, so that loops may carry it."""

    _least: ClassVar[tuple[int, ...]]  # the smallest allowed value of each word
    _key: Key

    def __init__(self, seed: Any) -> None:
        self._key = self.generate_key(seed)

    @property
    def key(self) -> Key:
        """The state: four arrays of uint32."""
        return self._key

    @key.setter
    def key(self, value: Any) -> None:
        """The state: four arrays of uint32."""
        if not isinstance(value, tuple) or len(value) != 4:
            raise TypeError(f"{type(self).__name__}.key: pass a tuple of four arrays of uint32")
        for word in value:
            if getattr(word, "dtype", None) != jnp.uint32:
                raise ValueError(f"{type(self).__name__}.key: {word!r} is not an array of uint32; pass four of them")
        self._key = value

    @classmethod
    def generate_key(cls, seed: ArrayLike) -> Key:
        """Return the state for a seed; each bit of the state depends on all bits of the seed.

        Args:
            seed: An integer, or an array of integers with one for each generator.

        Returns:
            Four arrays of uint32, in the shape of the seed.

        Raises:
            TypeError: If the seed is not an integer.
        """
        if not hasattr(seed, "dtype") and not isinstance(seed, (float, complex)):
            try:
                seed = np.uint32(operator.index(cast("Any", seed)) % 2**32)
            except TypeError:
                raise TypeError(f"{cls.__name__}: seed is {seed!r}; pass an integer") from None
        seed = jnp.asarray(seed)
        if not jnp.issubdtype(seed.dtype, jnp.integer):
            raise TypeError(f"{cls.__name__}: seed is {seed.dtype}; pass an integer")
        words = (_mixed(seed.astype(jnp.uint32), number) for number in range(4))
        first, second, third, fourth = (
            jnp.where(word < least, word + jnp.uint32(least), word)
            for word, least in zip(words, cls._least, strict=True)
        )
        return first, second, third, fourth

    @abstractmethod
    def generate_next_key(self) -> Key:
        """Return the next state, without changing this one.

        Returns:
            Four arrays of uint32.
        """

    @abstractmethod
    def _drawn(self) -> jax.Array:
        """Return the number of a state."""

    def randint(self) -> jax.Array:
        """Draw an integer of 32 bits.

        Returns:
            uint32, in the shape of the seed.
        """
        self._key = self.generate_next_key()
        return self._drawn()

    def rand(self) -> jax.Array:
        """Draw a number from [0, 1).

        Returns:
            float32, in the shape of the seed.
        """
        return (self.randint() >> 8).astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-24)

    def randn(self, epsilon: float = 1e-10) -> jax.Array:
        """Draw a number from the standard normal distribution, by the sine half of the method of Box and Muller.

        Args:
            epsilon: The smallest number of which the logarithm is taken.

        Returns:
            float32, in the shape of the seed.
        """
        first, second = self.rand(), self.rand()
        radius = jnp.sqrt(-2 * jnp.log(jnp.maximum(first, jnp.float32(epsilon))))
        return radius * jnp.sin(jnp.float32(2 * jnp.pi) * second)

    def uniform(self, low: float | jax.Array, high: float | jax.Array) -> jax.Array:
        """Draw a number from [low, high).

        Args:
            low: The lower bound, a real number.
            high: The upper bound, a real number.

        Returns:
            float32, in the shape of the seed.
        """
        return low + self.rand() * (high - low)

    def normal(self, mu: float | jax.Array, sigma: float | jax.Array, epsilon: float = 1e-10) -> jax.Array:
        """Draw a number from a normal distribution.

        Args:
            mu: The mean, a real number.
            sigma: The standard deviation, a real number.
            epsilon: The smallest number of which the logarithm is taken.

        Returns:
            float32, in the shape of the seed.
        """
        return mu + sigma * self.randn(epsilon)

    def random_integers(self, low: ArrayLike, high: ArrayLike) -> jax.Array:
        """Draw an integer between two bounds, both included.

        Args:
            low: The lower bound, an integer, which may be negative.
            high: The upper bound, an integer.

        Returns:
            int32, in the shape of the seed.

        Raises:
            ValueError: If the bounds are Python integers, and the lower one is above the other.
        """
        if isinstance(low, int) and isinstance(high, int) and low > high:
            raise ValueError(f"{type(self).__name__}.random_integers: low is {low} and high {high}; pass low <= high")
        low, high = jnp.asarray(low, jnp.int32), jnp.asarray(high, jnp.int32)
        count = high.astype(jnp.uint32) - low.astype(jnp.uint32) + jnp.uint32(1)  # zero means all of them
        drawn = self.randint()
        offset = jnp.where(count == 0, drawn, drawn % jnp.maximum(count, jnp.uint32(1)))
        return (low.astype(jnp.uint32) + offset).astype(jnp.int32)

    def tree_flatten(self) -> tuple[Key, None]:
        """Return the state."""
        return self._key, None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Sequence[Any]) -> Self:
        """Make the generator again."""
        made = object.__new__(cls)
        made._key = tuple(children)  # type: ignore[assignment]
        return made


class _Tausworthe(_LFSR):
    """L'Ecuyer's combined generators: each word takes its own step, and the words are combined."""

    _steps: ClassVar[tuple[Step, ...]]  # of each word: shift in, shift out, shift on, and the bits that are dropped

    def generate_next_key(self) -> Key:
        """Return the next state, without changing this one.

        Returns:
            Four arrays of uint32.
        """
        words = list(self._key)
        for i, (into, out, on, least) in enumerate(self._steps):
            word = words[i]
            words[i] = ((word & jnp.uint32(2**32 - least)) << on) ^ (((word << into) ^ word) >> out)
        return tuple(words)  # type: ignore[return-value]

    def _drawn(self) -> jax.Array:
        first, *others = self._key[: len(self._steps)]
        for word in others:
            first = first ^ word
        return first


@jax.tree_util.register_pytree_node_class
class PallasLFSR88RNG(_Tausworthe):
    """L'Ecuyer's generator of period 2^88 (1996), for Pallas kernels; the seed is hashed first.

    It draws by changing its own state, and is a pytree, so it can be carried through loops.

    Args:
        seed: An integer, or an array of integers with one for each generator.

    Raises:
        TypeError: If the seed is not an integer.

    Examples:
        >>> import brainevent
        >>> rng = brainevent.PallasLFSR88RNG(1)
        >>> 0 <= rng.rand() < 1, -3 <= rng.random_integers(-3, 3) <= 3
        (Array(True, dtype=bool), Array(True, dtype=bool))
        >>> 2 <= rng.uniform(2.0, 4.0) < 4, rng.randint().dtype, rng.randn().dtype, rng.normal(1.0, 0.5).dtype
        (Array(True, dtype=bool), dtype('uint32'), dtype('float32'), dtype('float32'))
        >>> rng.key = rng.generate_next_key()
        >>> len(brainevent.PallasLFSR88RNG.generate_key(7))
        4
    """

    _least = (2, 8, 16, 0)
    _steps = ((13, 19, 12, 2), (2, 25, 4, 8), (3, 11, 17, 16))


@jax.tree_util.register_pytree_node_class
class PallasLFSR113RNG(_Tausworthe):
    """L'Ecuyer's generator of period 2^113 (1999); all else is as in `PallasLFSR88RNG`.

    Args:
        seed: An integer, or an array of integers with one for each generator.

    Raises:
        TypeError: If the seed is not an integer.

    Examples:
        >>> import brainevent
        >>> brainevent.PallasLFSR113RNG(1).randint().dtype
        dtype('uint32')
    """

    _least = (2, 8, 16, 128)
    _steps = ((6, 13, 18, 2), (2, 27, 2, 8), (13, 21, 7, 16), (3, 12, 13, 128))


@jax.tree_util.register_pytree_node_class
class PallasLFSR128RNG(_LFSR):
    """Marsaglia's generator of period 2^128 - 1 (2003); all else is as in `PallasLFSR88RNG`.

    Args:
        seed: An integer, or an array of integers with one for each generator.

    Raises:
        TypeError: If the seed is not an integer.

    Examples:
        >>> import brainevent
        >>> brainevent.PallasLFSR128RNG(1).generate_next_key()[0].dtype
        dtype('uint32')
    """

    _least = (1, 0, 0, 0)

    def generate_next_key(self) -> Key:
        """Return the next state, without changing this one.

        Returns:
            Four arrays of uint32.
        """
        x, y, z, w = self._key
        x = x ^ (x << 11)
        return y, z, w, w ^ (w >> 19) ^ x ^ (x >> 8)

    def _drawn(self) -> jax.Array:
        return self._key[3]


_CLASSES: dict[str, type[_LFSR]] = {
    "lfsr88": PallasLFSR88RNG,
    "lfsr113": PallasLFSR113RNG,
    "lfsr128": PallasLFSR128RNG,
}


def get_pallas_lfsr_rng_class() -> type[_LFSR]:
    """Return the class of generators that `config.set_lfsr_algorithm` chooses.

    Returns:
        `PallasLFSR88RNG`, `PallasLFSR113RNG` or `PallasLFSR128RNG`.

    Examples:
        >>> import brainevent
        >>> brainevent.get_pallas_lfsr_rng_class().__name__
        'PallasLFSR88RNG'
    """
    return _CLASSES[config.get_lfsr_algorithm()]


def PallasLFSRRNG(seed: ArrayLike) -> _LFSR:  # noqa: N802 - programs know it by this name
    """Return a generator of the class that `config.set_lfsr_algorithm` chooses.

    Args:
        seed: An integer, or an array of integers with one for each generator.

    Returns:
        The generator.

    Raises:
        TypeError: If the seed is not an integer.

    Examples:
        >>> import brainevent
        >>> type(brainevent.PallasLFSRRNG(1)).__name__
        'PallasLFSR88RNG'
    """
    return get_pallas_lfsr_rng_class()(seed)


def _mixed(seed: jax.Array, number: int) -> jax.Array:
    """Return a word that depends on every bit of a seed: the finalizer of MurmurHash3, twice."""
    word = seed
    for salt in (0x9E3779B9 * (number + 1) % 2**32, 0x7F4A7C15):
        word = word + jnp.uint32(salt)
        word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
        word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
        word = word ^ (word >> 16)
    return word
