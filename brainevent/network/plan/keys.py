# SPDX-License-Identifier: Apache-2.0
"""Keys of random numbers: functions of a seed and a name."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.checks import is_integer

__all__ = ["DRAWING", "checked_seed", "key_of", "key_words", "threefry"]

DRAWING = 1  # which synapses and values a seed gives: the number of the way in which they are drawn

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_MASK = 2**32 - 1

Array = Any


def threefry(key: tuple[int, int], counter: tuple[int, int], rounds: int = 13) -> tuple[int, int]:
    """Return both words of threefry2x32: the same as in rules of neurons and in compiled loops."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x0, x1 = (counter[0] + key[0]) & _MASK, (counter[1] + key[1]) & _MASK
    for k in range(rounds):
        by = _ROTATIONS[k % 8]
        x0 = (x0 + x1) & _MASK
        x1 = ((x1 << by | x1 >> (32 - by)) & _MASK) ^ x0
        if k % 4 == 3:
            turn = k // 4 + 1
            x0, x1 = (x0 + keys[turn % 3]) & _MASK, (x1 + keys[(turn + 1) % 3] + turn) & _MASK
    return x0, x1


def checked_seed(seed: Any) -> int:
    """Return a seed: an integer from 0 to 2**64 - 1."""
    if not is_integer(seed) or not 0 <= int(seed) < 2**64:
        raise NetworkError(f"build: seed is {seed!r}; pass an integer from 0 to 2**64 - 1")
    return int(seed)


def key_of(seed: int, name: str) -> tuple[int, int]:
    """Return the key of a name: the numbers of other names do not depend on it."""
    digest = hashlib.sha256(name.encode()).digest()
    counter = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
    return threefry((seed & _MASK, seed >> 32), counter)


def key_words(seed: int, *names: str) -> Array:
    """Return the keys of names as uint32 (names, 2), for compiled loops."""
    return np.array([key_of(seed, name) for name in names], np.uint32)
