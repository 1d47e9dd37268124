# SPDX-License-Identifier: Apache-2.0
"""Networks of full size without their synapses: what is decided for a real GPU before any is drawn."""

import numpy as np

from brainevent.network.gpu.drawing import same_for_all
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.kinds import kinds_of
from brainevent.network.gpu.several.part import Part
from brainevent.network.gpu.several.placement import placement_for
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.distribution import Distribution
from brainevent.network.plan.drawing import Placed
from brainevent.network.plan.mapped import Mapped
from brainevent.network.plan.projections import ProjectionPlan

BYTES = 227 * 1024  # of shared memory of a block


class Estimate:
    """A `Measure` that draws nothing: weights and delays go from bound to bound, and all neurons have alike inputs.

    Delays that are functions of both neurons have `least` steps at least.
    """

    def __init__(self, least=1):
        self.least = least

    def __call__(self, description):
        wiring, quantum = description.wiring, float(description.quantum)
        source, target = wiring.projection.populations
        entries = int(wiring.expected)
        low, high = (round(x / quantum) for x in bounds(wiring.weights))
        least = self.least if isinstance(wiring.steps, Mapped) else 1
        delays = tuple(max(least, round(x)) for x in bounds(wiring.steps))
        load = np.full(target.size, int(entries / target.size * (abs(low) + abs(high)) / 2), np.int64)
        ends = source.name, target.name, wiring.projection.into
        kinds = "int32", "int16", "int16"
        about = ProjectionPlan(
            wiring.name, *ends, entries, (low, high), min(abs(low), abs(high)), delays, same_for_all(wiring), kinds
        )
        return Placed(description, about, load, 0)

    def plastic(self, *_):
        raise AssertionError("there are no plastic synapses")

    def done(self):
        pass


def bounds(of):
    """Return between which weights or delays are."""
    return of.bounds if isinstance(of, Distribution) else (float(np.min(of)), float(np.max(of)))


def undrawn_plan(network, least=1):
    """Return the plan of a network as if its synapses had been drawn."""
    return build_plan(network, seed=1, measure=Estimate(least))


class Machine:
    """What of a device decides: an H100 or H200, or such a one with fewer multiprocessors."""

    has_clusters, shared_bytes = True, BYTES

    def __init__(self, multiprocessors=132):
        self.multiprocessors = multiprocessors


def shared_out(plan, gpus=1, blocks=None):
    """Return the partition of the first GPU, and what lies in the shared memory of a block."""
    device = Machine()
    engine = object.__new__(Part if gpus > 1 else CudaEngine)
    engine.plan, engine.device, engine.options, engine._beside, engine.plastic = (
        plan,
        device,
        {"blocks": blocks},
        False,
        None,
    )
    engine.number, engine.gpus, engine._placement = 0, gpus, placement_for(plan, gpus) if gpus > 1 else None
    kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
    count = engine._count(sum(p.size for p in plan.populations), blocks, clustered=False)
    engine.partition = engine._partitioned(plan, kinds, numbers, count, BYTES)
    engine._kinds_of_build, engine._most, engine._of_plastic = kinds, BYTES, (0, 0, 0, 0)
    return engine.partition, engine._shared_out(plan)
