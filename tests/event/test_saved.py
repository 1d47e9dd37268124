# SPDX-License-Identifier: Apache-2.0
"""Programs that take matrices and events, and return spikes, are saved and run in another process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked

import brainevent

pytest.importorskip("flatbuffers")

MATRICES = {
    "CSR": lambda: brainevent.CSR.fromdense(jnp.eye(4, 6), precompute_weight_indices=True),
    "CSC": lambda: brainevent.CSC.fromdense(jnp.eye(4, 6)),
    "COO": lambda: brainevent.COO.fromdense(jnp.eye(4, 6)),
    "Dense": lambda: brainevent.Dense(jnp.eye(4, 6), backend="dot"),
    "FixedNumPerPre": lambda: brainevent.FixedNumPerPre.fromdense(jnp.eye(4, 6)),
    "FixedNumPerPost": lambda: brainevent.FixedNumPerPost.fromdense(jnp.eye(4, 6), num_conn=1),
}
EVENTS = {
    "BinaryArray": brainevent.BinaryArray,
    "BitPackedBinary": brainevent.BitPackedBinary,
    "CompactBinary": brainevent.CompactBinary.from_array,
}


def saved(function, *operands):
    exported = jax.export.export(jax.jit(function), disabled_checks=brainevent.export_checks())(*operands)
    return exported.serialize()


FEW = ("CSR", "Dense", "FixedNumPerPost")  # one of each kind of structure


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.thorough) for name in MATRICES]
)
def test_matrices_are_operands_and_results_of_saved_programs(name):
    matrix = MATRICES[name]()
    program = jax.export.deserialize(saved(lambda m, x: (x @ m, 2 * m), matrix, jnp.ones(4, bool)))
    product, twice = program.call(matrix, jnp.array([True, False, True, True]))
    np.testing.assert_array_equal(product, [1, 0, 1, 1, 0, 0])
    assert jax.tree.structure(twice) == jax.tree.structure(matrix)
    np.testing.assert_array_equal(twice.todense(), 2 * np.eye(4, 6))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_events_are_operands_and_results_of_saved_programs(name, shape):
    events = EVENTS[name](jnp.arange(np.prod(shape)).reshape(shape) % 2)
    program = jax.export.deserialize(saved(lambda x: (x, x @ jnp.ones((4, 2))), events))
    same, product = program.call(events)
    assert jax.tree.structure(same) == jax.tree.structure(events)
    np.testing.assert_array_equal(same.value, events.value)
    np.testing.assert_array_equal(product, np.full((*shape[:-1], 2), 2.0))


READER = """
import pathlib, sys
import jax
import brainevent
brainevent.CSR, brainevent.Spikes  # the classes that the program takes and returns
program = jax.export.deserialize(pathlib.Path(sys.argv[1]).read_bytes())
spikes = program.call(brainevent.CSR.fromdense(jax.numpy.eye(3)))
print(spikes, spikes.counts.tolist())
"""


@pytest.mark.thorough
def test_a_network_is_saved_and_runs_in_another_process(tmp_path):
    def step(v, i, matrix):
        spikes = v >= 1
        return jnp.where(spikes, 0, v + 0.25) + spikes @ matrix, spikes

    def run(matrix):
        return brainevent.record(step, jnp.array([0.0, 0.5, -9.0]), 8, matrix, dt=0.1)[1]

    matrix = brainevent.CSR.fromdense(jnp.eye(3))
    (tmp_path / "network").write_bytes(saved(run, matrix))
    assert run_forked(READER, tmp_path / "network").strip() == f"{run(matrix)} {run(matrix).counts.tolist()}"
