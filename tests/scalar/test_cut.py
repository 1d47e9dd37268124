# SPDX-License-Identifier: Apache-2.0
"""The minimum cut of lines, beside a maximum flow of SciPy."""

from collections import deque

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from brainevent.scalar.cut import ENDLESS, _source_side


def by_scipy(nodes, capacities):
    """Return the nodes to which something may still flow from node 0."""
    ends = np.array(list(capacities)).reshape(-1, 2).T
    graph = coo_array((np.array(list(capacities.values()), np.int32), ends), shape=(nodes, nodes)).tocsr()
    left = (graph - maximum_flow(graph, 0, 1).flow).toarray() > 0
    reached, waiting = {0}, deque([0])
    while waiting:
        new = {int(node) for node in np.flatnonzero(left[waiting.popleft()])} - reached
        reached |= new
        waiting += new
    return reached


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_nearest_to_the_source_is_found(seed):
    random = np.random.default_rng(seed)
    nodes = int(random.integers(3, 50))
    pairs = random.integers(0, nodes, (int(random.integers(1, 5 * nodes)), 2)).tolist()
    capacities = {(a, b): int(random.choice([0, 1, 2, 5, 2**12, 2**14, ENDLESS])) for a, b in pairs if a != b}
    capacities[0, 2] = capacities[2, 1] = 3
    assert _source_side(nodes, capacities) == by_scipy(nodes, capacities)


def test_of_two_cuts_with_the_least_cost_the_one_nearer_to_the_source_is_found():
    chain = {(0, 2): 4, (2, 3): 4, (3, 1): 4}
    assert _source_side(4, chain) == {0}
    assert _source_side(4, chain | {(0, 2): 5}) == {0, 2}
    assert _source_side(4, {(2, 3): 1}) == {0}  # nothing flows
