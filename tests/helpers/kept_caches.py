# SPDX-License-Identifier: Apache-2.0
"""Keep under build/ what tests and pages compile: kernels by the package's cache, programs by JAX's.

Both caches know what they hold by its content, so that a change of a kernel or of a program finds nothing old. What
asserts that something is built uses a cache of its own. Programs for several devices are not kept: while XLA partitions
one, it calls the package, and what that answers is no part of the program's text. What was not used for a week is
removed.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "clean", "is_safe", "use"]

FOLDER = Path(__file__).resolve().parents[2] / "build" / "kept"
DAY = 24 * 3600.0
LIMIT = 2**30  # bytes


def use(folder: Path, *, programs: bool = True) -> None:
    """Let this process keep compiled kernels and, if asked to, programs in a folder, and its children the kernels."""
    os.environ["BRAINEVENT_CACHE_DIR"] = str(folder / "kernels")
    if not programs:
        return
    import jax
    from jax._src import compilation_cache, lru_cache

    jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    lru_cache.LRUCache.put = _put  # JAX's own writes in place: a killed run leaves a part, another may read one
    if compilation_cache.get_executable_and_time.__name__ != "get_of_one_device":
        _keep_what_one_device_runs(compilation_cache)


def _keep_what_one_device_runs(cache: Any) -> None:
    """Let JAX neither look up nor keep programs for several devices."""
    get, put = cache.get_executable_and_time, cache.put_executable_and_time

    def get_of_one_device(key: str, options: object, backend: object, devices: Any, *others: object) -> Any:
        return get(key, options, backend, devices, *others) if len(devices) == 1 else (None, None)

    def put_of_one_device(key: str, name: str, executable: Any, *others: object) -> None:
        if len(executable.local_devices()) == 1:
            put(key, name, executable, *others)

    cache.get_executable_and_time, cache.put_executable_and_time = get_of_one_device, put_of_one_device


def _put(cache: object, key: str, value: bytes) -> None:
    """Write an entry of JAX's cache in one piece."""
    path = Path(str(cache._path)) / f"{key}-cache"
    if not path.exists():
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        with open(handle, "wb") as file:
            file.write(value)
        os.replace(name, path)


def is_safe(folder: Path) -> bool:
    """Say whether nobody else can put something in a folder's place: or the package refuses to load from it."""
    for parent in folder.parents:
        with suppress(FileNotFoundError):
            status = parent.stat()
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
                return False
    return True


def clean(folder: Path, limit: int = LIMIT, age: float = 7 * DAY) -> None:
    """Forget the kernels that an earlier run chose; once a day, remove what is old and what is more than fits."""
    shutil.rmtree(folder / "kernels" / "tuning", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    cleaned = folder / "cleaned"
    if cleaned.exists() and cleaned.stat().st_mtime > time.time() - DAY:
        return
    cleaned.touch()
    total = 0
    for used, size, entry in sorted(_entries(folder), reverse=True):
        total += size
        if total > limit or used < time.time() - age:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def _entries(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when an entry was last used, its size, and its path."""
    for entry in [*folder.glob("kernels/[!.]*_*"), *folder.glob("programs/*")]:
        with suppress(FileNotFoundError):
            files = [path.stat() for path in entry.rglob("*") if path.is_file()] or [entry.stat()]
            yield max(max(s.st_atime, s.st_mtime) for s in files), sum(s.st_size for s in files), entry
