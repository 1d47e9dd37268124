# SPDX-License-Identifier: Apache-2.0
"""What every test shares: the platform, names of its own, and no choice left behind."""

import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import jax
import pytest

import brainevent
from brainevent.config import compiling

pytest_plugins = ["costs", "covering", "platforms", "pretend_cuda", "pytester"]

# XLA is quick with the code that it writes around kernels: a quarter of a run's time.
QUICK = "--xla_backend_optimization_level=0"
if jax.__version_info__ < (0, 11):  # XLA ends a process that gives it a flag which it does not know
    QUICK += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"

hypothesis.settings.register_profile(
    "brainevent",
    deadline=None,
    max_examples=10,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("brainevent")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of a run that saves no time where programs of users would do otherwise."""
    words = "optimize, lower and collect garbage as in programs of users, which takes longer"
    parser.getgroup("brainevent").addoption("--like-users", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Run on the CPU, unless the environment says otherwise or the GPU tests are asked for."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: tests need their Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.markexpr == "gpu":
        return
    if "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")
    if config.option.like_users:
        return
    # JAX and Numba keep all that they compile, and looking through that for garbage takes a twentieth of a run's time.
    gc.set_threshold(100_000, 20, 100)
    flags = os.environ.get("XLA_FLAGS", "")
    if QUICK not in flags:  # JAX reads them when it starts, at the first test
        os.environ["XLA_FLAGS"] = f"{flags} {QUICK}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files of GPU tests, a fifth of all text, in a run that leaves these out."""
    return True if collection_path.name.startswith("test_gpu") and "not gpu" in config.option.markexpr else None


class FromTheEnd(pytest.Dir):
    """A folder whose files are imported from the last to the first."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        yield from reversed(list(super().collect()))


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Let each of two workers compile half of the files that both import; `costs` puts the items into one order."""
    odd = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:] in "13579"
    return FromTheEnd.from_parent(parent, path=path) if odd else None


def pytest_collection_finish() -> None:
    """Let the search for garbage pass over what was imported: it stays."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Let it pass over all the rest when pytest looks for garbage in the end, five times."""
    gc.freeze()


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Return a function that makes an operator's name which no other test has."""
    numbers = itertools.count()
    return lambda stem="operator": f"{stem}_{next(numbers)}"


@pytest.fixture
def own_cache(tmp_path: Path) -> Iterator[Path]:
    """Build in a cache that holds nothing: for a test that something is built."""
    brainevent.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    brainevent.set_cache_dir(None)


@pytest.fixture(autouse=True)
def no_choice_left_behind() -> Iterator[None]:
    """Take back, after each test, every setting that it made."""
    yield
    brainevent.config.clear_backends()
    brainevent.config.set_numba_parallel(False)
    compiling._numba_num_threads, compiling.numba_thread_limit.value = None, 0
    brainevent.config.set_lfsr_algorithm("lfsr88")
