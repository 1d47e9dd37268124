# SPDX-License-Identifier: Apache-2.0
"""Loops: Numba functions that Python calls, kept by content, with floats as in the rest of the program."""

import numpy as np
import pytest
from programs import run_program

from brainevent.backends.numba import inner
from brainevent.backends.numba.loops import Loop
from brainevent.event.random import fixed_rows


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


AGAIN = """
from brainevent.backends.numba import loops
from brainevent.event.random import fixed_rows
def refuse(*_):
    raise AssertionError("compiled again")
loops.compile_native = refuse
print(fixed_rows(2, 5, 2, seed=3).tolist())
"""


def test_a_later_process_compiles_no_random_connections():
    drawn = fixed_rows(2, 5, 2, seed=3).tolist()
    assert run_program(AGAIN).strip() == str(drawn)
