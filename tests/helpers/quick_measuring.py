# SPDX-License-Identifier: Apache-2.0
"""Measure how fast memory is with little of it: an array that fills no cache of 300 MB takes most of a minute.

What is measured so is not true, and nothing that tests and pages say depends on it.
"""

from pathlib import Path

__all__ = ["with_little_memory"]

MOST = 1 << 20  # bytes


def with_little_memory() -> None:
    """Let arrays that are to be larger than the caches of this machine be of two megabytes at most from now on."""
    from brainevent.bench import measure

    cache_bytes = measure.cache_bytes
    if cache_bytes.__name__ == "cache_bytes":
        measure.cache_bytes = _limited(cache_bytes)


def _limited(cache_bytes):
    def limited(folder: Path | None = None) -> int | None:
        return min(cache_bytes() or MOST, MOST) if folder is None else cache_bytes(folder)

    return limited
