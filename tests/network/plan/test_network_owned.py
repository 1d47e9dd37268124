# SPDX-License-Identifier: Apache-2.0
"""Synapses that a process owns: those of the whole network that end on its neurons, and what is known of all."""

import itertools

import numpy as np
import pytest

import brainevent as be
from brainevent.network.plan import owned
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.plan import SynapsePlan

C = be.connect
KINDS = {
    "in degree": C.in_degree(20, weight=be.normal(0.3, 0.1)),
    "in degree, one weight": C.in_degree(20, weight=0.3),
    "in degree, different ones": C.in_degree(20, weight=0.3, replace=False),
    "out degree": C.out_degree(15, weight=0.2),
    "pairs": C.prob(0.05, weight=be.normal(0.3, 0.1)),
    "multapses": C.prob(0.05, weight=0.1, replace=True),
    "total": C.total(5000, weight=0.1),
    "all": C.all_to_all(weight=be.uniform(0.5, 1)),
    "all, one weight": C.all_to_all(weight=0.2),
    "a matrix": np.eye(300, 101) * np.arange(101),
    "none": C.in_degree(0, weight=1.0),
}
SHARES = [{"a": (0, 150), "b": (0, 50)}, {"a": (150, 300), "b": (50, 101)}, {"a": (0, 0), "b": (101, 101)}]


def network():
    a, b = be.models.lif_delta("a", 300), be.models.lif_delta("b", 101)
    delays = (1.0, be.uniform(0.5, 2.0))
    links = [
        be.Projection(a, b, kind, into="syn", delay=delay, name=f"{name} {number}")
        for name, kind in KINDS.items()
        for number, delay in enumerate(delays)
    ]
    return be.Network([a, b], links, dt=0.1)


@pytest.mark.parametrize(("at_once", "parts"), [(2**24, 1), (2000, 2)])
def test_the_own_part_of_all_synapses(monkeypatch, at_once, parts):
    """However many are drawn at a time, each process knows of all synapses what a process alone knows."""
    monkeypatch.setattr(owned, "_AT_ONCE", at_once)
    whole = build_plan(network(), seed=3, warn=False)
    for share in SHARES:
        sharing = owned.Sharing(share, parts)
        plan = build_plan(network(), seed=3, warn=False, measure=sharing)
        assert plan.projections == whole.projections
        assert (plan.loads, plan.rounded, plan.fingerprint) == (whole.loads, whole.rounded, whole.fingerprint)
        own = owned.own_plan(plan, sharing)
        for mine, source, all_ in zip(own.synapses, plan.synapses.sources, whole.synapses, strict=True):
            assert isinstance(source, (SynapsePlan, owned.OwnedDescription))
            _check(mine, all_, own.bounds("b"))
    drawn = [source for source in plan.synapses.sources if isinstance(source, owned.OwnedDescription)]
    assert len(drawn) == 2 * len(KINDS) - 3  # small ones that are not drawn are held whole
    for one, all_ in itertools.islice(zip(plan.synapses, whole.synapses, strict=True), 4):
        assert np.array_equal(one.targets, all_.targets)


def _check(mine, whole, bounds):
    """Compare row by row and part by part with what ends between bounds."""
    parts = bounds.size - 1
    rows = np.repeat(np.arange(300), np.diff(whole.starts))
    chosen = [
        (rows[k], p, k) for k in range(rows.size) for p in range(parts) if bounds[p] <= whole.targets[k] < bounds[p + 1]
    ]
    order = np.array([k for _, _, k in sorted(chosen)], np.int64)
    for name in ("targets", "weights", "delays"):
        array, expected = getattr(mine, name), getattr(whole, name)
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected if expected.size == 1 and array.size == 1 else expected[order])
    counts = np.zeros(300 * parts, np.int64)
    for row, part, _ in chosen:
        counts[row * parts + part] += 1
    assert np.array_equal(np.diff(mine.starts), counts)
