# SPDX-License-Identifier: Apache-2.0
"""Compare results: within a tolerance, or bit for bit."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = [
    "Broken",
    "Skipped",
    "assert_bits",
    "assert_close",
    "assert_types",
    "assert_zero_signs",
    "described",
    "different_bits",
    "during",
    "is_inexact",
    "to_host",
    "tolerance_of",
]


class Broken(Exception):  # noqa: N818 - it is a finding, and never leaves this folder
    """A promise is broken; the message says what was found."""


class Skipped(Exception):  # noqa: N818
    """A promise cannot be checked here; the message says why."""


def to_host(results: Sequence[Any]) -> list[np.ndarray]:
    """Copy arrays to the host."""
    return [np.array(x, copy=True) for x in results]


def is_inexact(x: Any) -> bool:
    """Return whether an array holds real or complex numbers."""
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def tolerance_of(dtype: Any) -> float:
    """Return the relative error that a sum of a few thousand terms may have: 1.4e-5 for float32."""
    return float(jnp.finfo(dtype).eps) ** 0.7 if jnp.issubdtype(dtype, jnp.inexact) else 0.0


def described(error: Exception) -> str:
    """Name an exception, in one line."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" ...")


@contextlib.contextmanager
def during(situation: str) -> Iterator[None]:
    """Add the situation to the message of a finding."""
    try:
        yield
    except Skipped:
        raise
    except Broken as finding:
        raise type(finding)(f"{situation}: {finding}") from None
    except Exception as error:
        raise Broken(f"{situation}: {described(error)}") from error


def assert_types(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compare number, shapes and dtypes."""
    if len(found) != len(wanted):
        raise Broken(f"{len(found)} results, expected {len(wanted)}")
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if tuple(x.shape) != tuple(y.shape) or x.dtype != y.dtype:
            raise Broken(f"output {i} is {_type(x)}, expected {_type(y)}")


def _type(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}"


def assert_close(
    found: Sequence[Any],
    wanted: Sequence[Any],
    tolerance: float | None = None,
    what: str = "output",
    usual: Sequence[np.ndarray] | None = None,
) -> None:
    """Compare values: an error may be `tolerance` times the largest value, here or usually; integers must be equal."""
    assert_types(found, wanted)
    for i, (x, y) in enumerate(zip(to_host(found), to_host(wanted), strict=True)):
        allowed = 0.0 if not is_inexact(y) else tolerance_of(y.dtype) if tolerance is None else tolerance
        wrong = _wrong(x, y, allowed, _largest(usual[i]) if usual is not None else 0.0)
        if wrong.any():
            raise Broken(f"{what} {i}: {_first(wrong, x, y)}")


def assert_zero_signs(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compare the signs of zeros."""
    for i, (x, y) in enumerate(zip(to_host(found), to_host(wanted), strict=True)):
        if is_inexact(y) and (wrong := _other_signs(x, y)).any():
            raise Broken(f"output {i}: {_first(wrong, x, y)}")


def _other_signs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(y):
        return np.asarray(_other_signs(x.real, y.real) | _other_signs(x.imag, y.imag))
    return np.asarray((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))


def _wrong(x: np.ndarray, y: np.ndarray, allowed: float, usual: float) -> np.ndarray:
    if not is_inexact(y):
        return np.asarray(x != y)
    wide = np.complex128 if np.iscomplexobj(y) else np.float64
    x, y = x.astype(wide), y.astype(wide)
    finite = np.isfinite(y)
    scale = max(_largest(y), usual)
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(x - y) <= allowed * scale)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.asarray(np.where(finite, far, ~same))


def _largest(x: np.ndarray) -> float:
    """Return the size of the largest number of an array."""
    if not is_inexact(x):
        return 0.0
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))


def different_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell for each element whether its memory differs."""
    raw = [np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, a.dtype.itemsize) for a in (x, y)]
    return (raw[0] != raw[1]).any(axis=1).reshape(x.shape)


def assert_bits(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], what: str = "output") -> None:
    """Compare bit for bit."""
    assert_types(found, wanted)
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        wrong = different_bits(x, y)
        if wrong.any():
            raise Broken(f"{what} {i}: {_first(wrong, x, y)}")


def _first(wrong: np.ndarray, x: np.ndarray, y: np.ndarray) -> str:
    """Describe the first wrong element."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    others = f" ({int(wrong.sum())} of {wrong.size} elements differ)" if wrong.size > 1 else ""
    place = f"element {list(index)} is" if index else "is"
    return f"{place} {x[index]}, expected {y[index]}{others}"
