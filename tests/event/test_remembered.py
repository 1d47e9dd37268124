# SPDX-License-Identifier: Apache-2.0
"""What is known of arrays is kept as long as they exist, and is gone without a word when a process ends."""

import gc
import subprocess
import sys

import jax.numpy as jnp
import pytest

from brainevent.event.remembered import Remembered

# At the end, Python sets the names of a module to None, and with them goes what was remembered: here one value is the
# only one that holds the arrays of another. `sys` goes last, so these modules are still there.
TURNED = """
rows, pointers, _ = conversions.turned_once(matrix.indptr, matrix.indices, (2, 3))
conversions.turned_once(pointers, rows, (3, 2))
del rows, pointers, _
"""
CHECKED = """
class Check:
    def __init__(self, array):
        self.array = array
    def __call__(self, where, array):
        pass

held = jnp.array([0, 1])
structure.check_once(Check(held), "held", matrix.indices)
structure.check_once(Check(None), "holds", held)
del held
"""


def test_a_value_is_kept_while_all_its_arrays_exist():
    known, one, two = Remembered(), jnp.arange(3), jnp.arange(4)
    assert known.keep("first", (one, two), 5) == "first"
    known.keep("second", (two,), 5)
    assert [known.find((one, two), 5), known.find((two,), 5)] == ["first", "second"]
    assert [known.find((two, one), 5), known.find((one, two), 6), known.find((one,), 5)] == [None] * 3
    del one
    gc.collect()
    assert len(known) == 1
    assert known.find((two,), 5) == "second"


def test_arrays_that_a_value_holds_are_gone_with_it():
    known, first = Remembered(), jnp.arange(3)
    second = known.keep(jnp.arange(4), (first,))
    known.keep("of the second", (second,))
    del first, second
    gc.collect()
    assert len(known) == 0


@pytest.mark.parametrize("program", [TURNED, CHECKED], ids=["turned", "checked"])
def test_a_process_ends_without_a_word(program):
    first = (
        "import sys, brainevent, jax.numpy as jnp\n"
        "from brainevent.event import structure\n"
        "from brainevent.event.csr import conversions\n"
        "matrix = brainevent.CSR.fromdense(jnp.array([[5.0, 0.0, 6.0], [0.0, 7.0, 0.0]]))\n"
    )
    last = "sys.kept = matrix, structure, conversions\nprint('done')"
    done = subprocess.run([sys.executable, "-c", first + program + last], capture_output=True, text=True, check=True)
    assert [done.stdout, done.stderr] == ["done\n", ""]
