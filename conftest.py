# SPDX-License-Identifier: Apache-2.0
"""Give every pytest run four CPU devices, and let pytest run the examples on Markdown pages and in docstrings."""

import doctest
import importlib.util
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# A file of docstrings that cannot be imported without a package that no extra for tests brings.
collect_ignore = [] if importlib.util.find_spec("jax_triton") else ["brainevent/event/csr/on_triton.py"]
DEVICES = "--xla_force_host_platform_device_count"

if DEVICES not in os.environ.get("XLA_FLAGS", ""):  # read once, when JAX starts: so it is set before any import of JAX
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}=4"


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


@pytest.fixture(scope="session", autouse=True)
def kernels_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build kernels in a cache of the run's own, which all its processes share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRAINEVENT_CACHE_DIR", str(shared / "kernels"))
        yield
