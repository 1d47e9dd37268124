# SPDX-License-Identifier: Apache-2.0
"""Loops: Numba functions that Python calls, kept by content, with floats as in the rest of the program."""

import ast
import importlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent
from brainevent.backends.numba.inner import inner
from brainevent.backends.numba.loops import Loop, files_of


@inner
def halved(numbers, room):
    for i in range(numbers.size):
        numbers[i] /= 2
    return np.zeros(room).size


def test_missing_memory_is_an_error_and_denormals_are_flushed_in_loops_alone():
    loop = Loop("halved", lambda: halved, lambda: "of a test")
    smallest = np.finfo(np.float32).tiny
    for room, answer in ((3, 3), (2**50, MemoryError)):
        numbers = np.array([smallest, 4], np.float32)
        if answer is MemoryError:
            with pytest.raises(MemoryError, match="halved: there is not enough memory"):
                loop(numbers, room)
        else:
            assert loop(numbers, room) == answer
        assert numbers.tolist() == [0, 2]
        assert smallest / np.float32(2) > 0


CALLS = {
    "connections are drawn": "brainevent.event.random.fixed_rows(2, 5, 2, seed=3)",
    "coordinates are sorted": "brainevent.coo2csr(np.array([1, 0, 1]), np.array([2, 0, 1]), shape=(2, 3))[1]",
    "rows are turned": "brainevent.CSR.fromdense(jnp.eye(3)).tocsc().indices",
    "a drawn matrix is stored": "brainevent.JITCNormalR((1.5, 0.1, 0.5, 3), shape=(5, 7)).tocsr().indices",
}
AGAIN = """
import jax.numpy as jnp, numpy as np, brainevent, brainevent.event.random
from brainevent.backends.numba import loops
def refuse(*_):
    raise AssertionError("compiled again")
loops.compile_native = refuse
for call in {calls}:
    print(eval(call).tolist())
"""


def test_a_later_process_compiles_no_loop():
    """Nor does it load Numba's functions of a loop from elsewhere: there is one cache."""
    importlib.import_module("brainevent.event.random")
    names = {"brainevent": brainevent, "np": np, "jnp": jnp}
    first = [str(eval(call, names).tolist()) for call in CALLS.values()]
    assert run_program(AGAIN.format(calls=list(CALLS.values()))).splitlines() == first


def test_a_loop_depends_on_the_files_that_its_own_imports():
    event = Path(brainevent.__file__).parent / "event"

    def names(file):
        return [path.relative_to(event).as_posix() for path in files_of(event / file)]

    assert names("csr/on_cpu_sorting.py") == ["csr/on_cpu_sorting.py"]
    assert names("drawn/on_cpu_stored.py") == [
        "drawn/numbers.py", "drawn/on_cpu.py", "drawn/on_cpu_stored.py", "drawn/tables.py", "precision.py",
    ]  # fmt: skip


def test_files_are_parsed_by_one_thread_at_a_time(monkeypatch):
    """Else Python 3.11 raises a SystemError now and then, where the first matrices are drawn in threads."""
    parse, busy = ast.parse, threading.Lock()

    def parsed(text):
        assert busy.acquire(blocking=False), "two threads parse"
        time.sleep(0.002)
        busy.release()
        return parse(text)

    monkeypatch.setattr(ast, "parse", parsed)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: files_of(Path(brainevent.__file__).parent / "scalar/text.py"), range(4)))
    assert len({tuple(files) for files in found}) == 1
