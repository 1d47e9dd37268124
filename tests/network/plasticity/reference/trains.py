# SPDX-License-Identifier: Apache-2.0
"""The spike trains that other simulators and the tests of ready rules impose on sources and targets."""

import numpy as np

DT = 0.5
STEPS = 800
SOURCES, TARGETS = 4, 3
DELAYS = np.array([[2, 4, 6], [8, 2, 4], [2, 2, 10], [6, 4, 2]])  # steps; even, see `trains`
WEIGHTS = np.linspace(0.2, 0.8, SOURCES * TARGETS).reshape(SOURCES, TARGETS)


def trains() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the steps in which each source and each target spikes: sources in even steps, targets in odd ones.

    So, after an even delay, no source and target meet in one step, for which simulators have different conventions.
    The rates are 45 Hz, and each neuron spikes three times in 6 ms once. Each source spikes before all targets: NEST's
    nearest neighbours take the start of time for a spike of the source.
    """
    random = np.random.default_rng(2026)

    def steps(odd: int, burst: int) -> np.ndarray:
        found = 2 * np.flatnonzero(random.random((STEPS - 60) // 2) < 0.04) + 30
        return np.unique(np.append(found, [burst, burst + 6, burst + 12])) + odd

    sources = [np.append(4 + 2 * k, steps(0, 100 + 140 * k)) for k in range(SOURCES)]
    return sources, [steps(1, 180 + 210 * k) for k in range(TARGETS)]


def meeting() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return such trains in which sources, after their delays, often meet targets in one step."""
    random = np.random.default_rng(2028)
    targets = [np.sort(random.choice(np.arange(30, STEPS - 20), 20, replace=False)) for _ in range(TARGETS)]
    sources = []
    for i in range(SOURCES):
        met = [random.choice(targets[j], 4, replace=False) - DELAYS[i, j] for j in range(TARGETS)]
        sources.append(np.unique(np.concatenate([*met, random.choice(np.arange(10, STEPS - 20), 8, replace=False)])))
    return sources, targets


REWARDS = [151, 333, 341, 601]  # steps
