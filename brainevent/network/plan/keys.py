# SPDX-License-Identifier: Apache-2.0
"""Keys of random numbers: functions of a seed and a name."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...scalar.threefry import threefry
from ..description.checks import is_integer

__all__ = ["DRAWING", "checked_seed", "key_of", "key_words", "words_of"]

DRAWING = 1  # which synapses and values a seed gives: the number of the way in which they are drawn

_MASK = 2**32 - 1

Array = Any


def words_of(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Return both random words of a counter, as compiled loops and rules of neurons draw them."""
    words: list[Any] = [np.array([word], np.uint32) for word in (*key, *counter)]
    x0, x1 = threefry(*words)
    return int(x0[0]), int(x1[0])


def checked_seed(seed: Any) -> int:
    """Return a seed: an integer from 0 to 2**64 - 1."""
    if not is_integer(seed) or not 0 <= int(seed) < 2**64:
        raise NetworkError(f"build: seed is {seed!r}; pass an integer from 0 to 2**64 - 1")
    return int(seed)


def key_of(seed: int, name: str) -> tuple[int, int]:
    """Return the key of a name: the numbers of other names do not depend on it."""
    digest = hashlib.sha256(name.encode()).digest()
    counter = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
    return words_of((seed & _MASK, seed >> 32), counter)


def key_words(seed: int, *names: str) -> Array:
    """Return the keys of names as uint32 (names, 2), for compiled loops."""
    return np.array([key_of(seed, name) for name in names], np.uint32)
