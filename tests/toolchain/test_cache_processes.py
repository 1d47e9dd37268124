# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled libraries, asked by several processes, of which some are killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import ROOT, run_program

import brainevent
from brainevent.toolchain import cache

KEY = "0123456789abcdef"

# The package without its __init__, which imports JAX: a process that starts quickly, and a proof that none is needed.
PRELUDE = f"""
import os, pathlib, resource, signal, subprocess, sys, time, types
package = sys.modules["brainevent"] = types.ModuleType("brainevent")
package.__path__ = [{str(ROOT / "brainevent")!r}]
from brainevent.toolchain import cache
assert "jax" not in sys.modules
key = {KEY!r}
"""
ASK = """
print(cache.get_cache_dir(), cache.entries(), cache.clear_cache())
"""
RACE = """
base, meeting, log = map(pathlib.Path, sys.argv[1:])
cache.set_cache_dir(base)
(meeting / str(os.getpid())).touch()
while len(list(meeting.iterdir())) < 8:
    time.sleep(0.01)

def build(folder):
    with open(log, "a") as file:
        print(os.getpid(), file=file)
    library = folder / "made.so"
    library.write_text("half")
    time.sleep(0.5)
    library.write_text("whole")
    return library

print(cache.get_or_build("m", key, build).read_text())
"""
KILLED = """
cache.set_cache_dir(sys.argv[1])
started = pathlib.Path(sys.argv[2])

def build(folder):
    (folder / "made.so").write_text("half")
    compiler = subprocess.Popen(["sleep", "100"])  # survives us, as a compiler would
    started.with_suffix(".new").write_text(f"{compiler.pid} {folder}")
    started.with_suffix(".new").rename(started)
    time.sleep(100)

cache.get_or_build("m", key, build)
"""
WAITING = """
cache.set_cache_dir(sys.argv[1])

def build(folder):
    (folder / "made.so").write_text("whole")
    return folder / "made.so"

pathlib.Path(sys.argv[2]).touch()
print(cache.get_or_build("m", key, build).read_text())
"""
FORKING = """
cache.set_cache_dir(sys.argv[1])
children = []

def build(folder):
    child = os.fork()
    if not child:
        signal.alarm(100)  # ends it, if nobody does
        signal.pause()
    children.append(child)
    (folder / "made.so").write_text(str(len(children)))
    return folder / "made.so"

for force in False, True:
    path = cache.get_or_build("m", key, build, force=force)
for child in children:
    os.kill(child, signal.SIGKILL)
print(path.read_text())
"""
STOPPED_BY_HALF = """
cache.set_cache_dir(sys.argv[1])

def build(folder):
    (folder / "made.so").write_text("library" * 100)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
    return folder / "made.so"

try:
    cache.get_or_build("m", key, build)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def base(tmp_path):
    cache.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    cache.set_cache_dir(None)


def left_over(base):
    return sorted(path.name for path in base.glob(".build-*"))


def test_a_process_imports_no_jax_and_creates_nothing(tmp_path):
    printed = run_program(PRELUDE + ASK, HOME=str(tmp_path), BRAINEVENT_CACHE_DIR="", XDG_CACHE_HOME="")
    assert printed == f"{tmp_path}/.cache/brainevent/{brainevent.__version__} [] 0\n"
    assert list(tmp_path.iterdir()) == []


def test_eight_processes_build_once(base, tmp_path):
    (tmp_path / "meeting").mkdir()
    with ThreadPoolExecutor(8) as threads:
        ask = lambda _: run_program(PRELUDE + RACE, base, tmp_path / "meeting", tmp_path / "log")
        assert list(threads.map(ask, range(8))) == ["whole\n"] * 8
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert left_over(base) == []


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.01)


def test_a_waiting_process_builds_after_the_builder_is_killed(base, tmp_path):
    started, waiting = tmp_path / "started", tmp_path / "waiting"
    builder = subprocess.Popen([sys.executable, "-c", PRELUDE + KILLED, base, started])
    wait_for(started)
    compiler, folder = started.read_text().split()
    try:
        with ThreadPoolExecutor() as threads:
            waiter = threads.submit(run_program, PRELUDE + WAITING, base, waiting)
            wait_for(waiting)
            time.sleep(0.2)
            waits, listed = not waiter.done(), cache.entries()
            builder.kill()
            assert builder.wait() == -signal.SIGKILL
            assert waiter.result() == "whole\n"
    finally:
        builder.kill()
        builder.wait()
        os.kill(int(compiler), signal.SIGKILL)
    assert waits
    assert listed == []
    assert [entry.name for entry in cache.entries()] == ["m"]
    assert left_over(base) == [Path(folder).name]  # young: another machine may have a process of this number
    assert cache.clear_cache() == 1
    assert left_over(base) == []


def test_a_forked_child_keeps_no_lock(base):
    assert run_program(PRELUDE + FORKING, base, timeout=60) == "2\n"


def test_a_library_that_is_written_by_half_is_not_published(base, tmp_path):
    """Neither here nor in the temporary directory: the kernel stops every file at ten bytes."""
    (tmp_path / "temporary").mkdir()
    printed = run_program(PRELUDE + STOPPED_BY_HALF, base, TMPDIR=str(tmp_path / "temporary"))
    assert printed.startswith("UnwritableError cache: ")
    assert "cannot be written (File too large); choose another directory with set_cache_dir" in printed
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"m_{KEY}.lock"]
    assert left_over(base) == []
