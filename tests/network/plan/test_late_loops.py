# SPDX-License-Identifier: Apache-2.0
"""Numba, whose import takes longer than the build of a small network, is imported when a loop is called."""

from programs import run_program

PROGRAM = """
import sys
import numpy as np
import brainevent as be
import brainevent.network.gpu.engine
import brainevent.network.training.gpu.engine

cells = be.models.lif_current("cells", 4, current=300.0)
be.Network([cells], [be.Projection(cells, cells, np.eye(4), into="syn")], dt=0.1).build(backend="jax")
print("numba" in sys.modules)

from brainevent.network.plan.loops import draw_words
words = np.zeros(3, np.uint32)
draw_words(np.array([1, 2], np.uint32), 7, 0, 3, words, np.zeros(3, np.uint32))
print("numba" in sys.modules, words.any())
"""


def test_a_small_network_is_built_without_numba():
    assert run_program(PROGRAM).split() == ["False", "True", "True"]
