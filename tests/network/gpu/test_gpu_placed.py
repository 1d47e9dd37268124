# SPDX-License-Identifier: Apache-2.0
"""Parts of a network that are placed on real GPUs, and on one as if it were several: the bits of one GPU."""

import numpy as np
import pytest
import test_several_placed as pretended
from beside_interpreter import as_tree, equal
from test_gpu_several import devices_of

from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several import part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.structs import PARTED
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning"),
]
pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch):
    """Also networks whose rows are short are placed."""
    monkeypatch.setattr(part, "_LONG_ROW", 0)
    monkeypatch.setattr(part, "_BETWEEN", 1)


ROOM = 80 * 1024  # of a block: sums of few steps have room there
WHERE = pytest.mark.parametrize(("where", "count"), [("in_streams", 2), ("on_gpus", 2), ("on_gpus", 4)])


def placed(plan, where, count, blocks, shared_bytes=None):
    engine = SeveralEngine(plan, devices=devices_of(where, count), blocks=blocks, shared_bytes=shared_bytes)
    assert engine._parts[0].partition.placement is not None
    return engine


def check_runs(ours, theirs, last):
    """Check that two engines record the same in runs, of which the last has so many steps, and go on from one state."""
    wanted = Wanted(("exc", "inh"), ("inh",), ("exc",), {"v": Sample("inh", "v", 7, np.array([7, 0, 3900]))})
    for steps in (1, 2, 3, last):
        equal(*(as_tree(engine.run(steps, wanted, {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)
    state = ours.state
    for engine in (theirs, ours):
        engine.load(state)
        engine.run(50, Wanted(), {})
    equal(ours.state, theirs.state)


@WHERE
@pytest.mark.parametrize(
    ("blocks", "inputs", "weight", "current"),
    [(40, 300, 0.001, (-2000, 205)), (40, 300, 0.8, (300, 900)), (6, 5, 0.8, (100, 420))],
)
def test_areas_have_the_bits_of_one_gpu(where, count, blocks, inputs, weight, current):
    """Messages of few spikes, and of more than they have room for; packets of all blocks."""
    sizes = (2900, 3100, 3000, 2800)
    network = pretended.areas(sizes=sizes, inputs=inputs, weight=weight, current=current)
    plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
    ours, theirs = placed(plan, where, count, blocks), CudaEngine(plan, blocks=120)
    structure = ours._parts[0].shape.structure
    assert (structure.message, structure.extra) == (32 if blocks > 32 else 0, 3)
    assert structure.apart == (blocks > 32)
    check_runs(ours, theirs, 2000)


@WHERE
@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, where, count, most):
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    network = pretended.areas(sizes=(5300, 5200, 4900, 5000), inputs=60)
    plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
    ours, theirs = placed(plan, where, count, 2), NumbaEngine(plan)
    assert bool(ours._parts[0].shape.structure.cells) == (most > 0)
    for steps in (4, 300):
        equal(*(as_tree(engine.run(steps, Wanted(("exc",)), {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)


@WHERE
def test_populations_have_the_bits_of_a_cpu(where, count):
    network = pretended.ring(sizes=(900,) * 4, inputs=40)
    ours, theirs = placed(build_plan(network, seed=3), where, count, 3), NumbaEngine(build_plan(network, seed=3))
    wanted = pretended.spikes_of(network)
    for steps in (1, 700):
        equal(*(as_tree(engine.run(steps, wanted, {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)


@WHERE
@pytest.mark.parametrize("blocks", [3, 40])
@pytest.mark.parametrize("fault", ["never", "ended"])
def test_a_gpu_that_is_missing_ends_the_others(monkeypatch, where, count, blocks, fault):
    monkeypatch.setattr(part, "PATIENCE", 300_000_000)
    plan = build_plan(pretended.areas(sizes=(900,) * 4), seed=3, measure=Drawing(cuda_device(0)))
    engine = placed(plan, where, count, blocks)
    begun = engine.state
    engine.run(5, Wanted(), {})
    engine.devices[1].fault = fault
    with pytest.raises(NetworkError, match=r"the state is not valid: call sim\.reset"):
        engine.run(40, Wanted(), {})
    engine.load(begun)
    engine.run(9, Wanted(), {})


@WHERE
@pytest.mark.parametrize(("late", "current"), [(0.5, (100, 420)), (0.5, (2000, 9000)), (2.0, (100, 420))])
def test_areas_with_blocks_of_their_own(monkeypatch, where, count, late, current):
    """Rows that are listed until they are due, and more of them than lists have room for."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    network = pretended.areas(
        late=late, sizes=(9000, 8900, 8800, 9000), inputs=300, weight=0.05, current=current, spread=0
    )
    plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
    ours, theirs = placed(plan, where, count, 8, ROOM), CudaEngine(plan, blocks=64)
    assert ours._parts[0].rows.layout == PARTED
    assert ours._parts[0].shape.structure.groups_apart
    check_runs(ours, theirs, 1000)
