# SPDX-License-Identifier: Apache-2.0
"""Give every run four CPU devices and a share of a GPU; let pytest run the examples of pages and docstrings."""

import doctest
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests" / "helpers"))
import kept_caches
import programs
import quick_eager
import quick_lowering
import quick_measuring


def _is_there(package: str) -> bool:
    """Say whether a package can be imported; of `cuda.tile`, packages of others may have `cuda`."""
    above = package.rpartition(".")[0]
    return (not above or _is_there(above)) and importlib.util.find_spec(package) is not None


sys.path[:0] = map(str, programs.ROOMS)  # tests import from those of other rooms
if getattr(importlib.util.find_spec("nir"), "origin", None) is None:
    sys.modules["nir"] = None  # type: ignore[assignment] # the folder tests/network/nir is not the package of that name

# Files of docstrings that cannot be imported without a package that no extra for tests brings.
_NEEDS = {
    "brainevent/event/csr/on_triton.py": "jax_triton",
    "brainevent/backends/cute/compiler.py": "cutlass.cute",
    "brainevent/backends/cutile/compiler.py": "cuda.tile",
    "brainevent/backends/cutile/plan.py": "cuda.tile",
}
collect_ignore = [file for file, package in _NEEDS.items() if not _is_there(package)]
DEVICES = "--xla_force_host_platform_device_count"

if DEVICES not in os.environ.get("XLA_FLAGS", ""):  # read once, when JAX starts: so it is set before any import of JAX
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}=4"
# Workers, and programs that tests start, share a GPU: each takes what it needs, and not most of the memory at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if "PYTEST_XDIST_WORKER" in os.environ:  # and gives back what it no longer needs
    os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a Markdown page that the command line names: `pytest docs/sharding.md`."""
    if file_path.suffix != ".md" or not parent.session.isinitpath(file_path):
        return None
    from docs.pages import collect_page  # needs the extra 'docs'

    return collect_page(file_path, parent)


_is_from = doctest.DocTestFinder._from_module


def _is_written_in(finder: doctest.DocTestFinder, module: ModuleType, value: object) -> bool:
    """Say whether an object is a module's: a class that calls the package its module is that of its methods."""
    if inspect.isclass(value) and value.__module__ == "brainevent":
        return any(inspect.isfunction(part) and part.__module__ == module.__name__ for part in vars(value).values())
    return _is_from(finder, module, value)


doctest.DocTestFinder._from_module = _is_written_in  # or it skips the methods of such a class, if not the class
_find = doctest.DocTestFinder._find


def _find_once(
    finder: doctest.DocTestFinder, tests: list[doctest.DocTest], value: object, name: str, *rest: Any
) -> None:
    """Pass over a class that an attribute of another one holds: its examples are collected where it is defined."""
    if not inspect.isclass(value) or name.endswith(f".{value.__name__}"):
        _find(finder, tests, value, name, *rest)


doctest.DocTestFinder._find = _find_once


def pytest_sessionstart(session: pytest.Session) -> None:
    """Clean what earlier runs kept, before any worker starts; keep what this one compiles, also while it collects."""
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        kept_caches.clean(kept_caches.FOLDER)
    if _keeps(session.config):
        like_users = session.config.getoption("like_users", default=False)
        kept_caches.use(kept_caches.FOLDER, programs=not like_users)
        if not like_users:
            quick_lowering.share_contexts()
            quick_measuring.with_little_memory()
            quick_eager.move_with_numpy()


def _keeps(config: pytest.Config) -> bool:
    """Say whether what is compiled is kept for later runs: not that for a GPU."""
    return config.option.markexpr != "gpu" and kept_caches.is_safe(kept_caches.FOLDER)


@pytest.fixture(scope="session", autouse=True)
def kernels_of_the_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is compiled for the processes of this run alone, if it is not kept for later ones."""
    base = tmp_path_factory.getbasetemp()
    in_parallel = bool(os.environ.get("PYTEST_XDIST_WORKER"))
    with pytest.MonkeyPatch.context() as patch:
        if not _keeps(request.config):
            patch.setenv("BRAINEVENT_CACHE_DIR", str((base.parent if in_parallel else base) / "kernels"))
        yield
