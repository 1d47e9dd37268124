# SPDX-License-Identifier: Apache-2.0
"""Compare the results of two kernels, and describe the differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["difference", "nans_in"]


def _number(leaf: Any) -> Any:
    """Return a result as NumPy array of a type in which numbers can be subtracted."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).astype(complex if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else float)


def nans_in(output: Any) -> int:
    """Count the NaN in a pytree of arrays.

    >>> nans_in([jnp.array([1.0, jnp.nan]), jnp.array([1, 2])])
    1
    """
    return sum(int(np.isnan(_number(leaf)).sum()) for leaf in _leaves(output))


def _leaves(output: Any) -> list[Any]:
    return [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in jax.tree.leaves(output)]


def difference(output: Any, other_name: str, other: Any, rtol: float, atol: float) -> str | None:
    """Return how an output differs from that of another kernel; None if they agree. NaN equals NaN.

    >>> difference(jnp.ones(3), "numba", jnp.ones(3).at[1].set(2.0), 1e-3, 1e-3)
    "differs from 'numba' in 1 of 3 elements, most at [1]: 1.0 instead of 2.0"
    """
    trees: list[Any] = [jax.tree.structure(output), jax.tree.structure(other)]
    if trees[0] != trees[1]:
        return f"differs from {other_name!r} in structure"
    pairs = list(zip(_leaves(output), _leaves(other), strict=True))
    for i, (new, old) in enumerate(pairs):
        which = f" in result {i}" if len(pairs) > 1 else ""
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            types = f"{new.dtype}{list(new.shape)} instead of {old.dtype}{list(old.shape)}"
            return f"differs from {other_name!r}{which} in type: {types}"
        mine, theirs = _number(new), _number(old)
        wrong = ~np.isclose(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
        if wrong.any():
            return f"differs from {other_name!r}{which}{_worst(mine, theirs, wrong)}"
    return None


def _worst(mine: Any, theirs: Any, wrong: Any) -> str:
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(wrong, np.nan_to_num(np.abs(mine - theirs), nan=np.inf), -1)
    at = np.unravel_index(int(np.argmax(distance)), mine.shape)
    place = f"[{', '.join(map(str, map(int, at)))}]" if at else "the only one"
    found, expected = mine[at].item(), theirs[at].item()
    return f" in {int(wrong.sum())} of {wrong.size} elements, most at {place}: {found!r} instead of {expected!r}"
