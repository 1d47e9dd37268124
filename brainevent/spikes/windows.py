# SPDX-License-Identifier: Apache-2.0
"""Spikes counted in windows of time: the counts, smoothed, and how they go together."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["binned_counts", "correlations_of", "smoothed", "whole_steps"]

_REACH = 4  # standard deviations, beyond which a Gaussian is nothing


def whole_steps(length: float, dt: float) -> int | None:
    """Return how many steps a length has; None if they are not a whole number above zero.

    >>> whole_steps(2.0, 0.5), whole_steps(0.7, 0.5)
    (4, None)
    """
    steps = round(length / dt) if math.isfinite(length / dt) else 0
    return steps if steps >= 1 and math.isclose(steps * dt, length, rel_tol=1e-6) else None


def smoothed(values: np.ndarray, width: float) -> np.ndarray:
    """Return values summed under a Gaussian of this standard deviation: (bins,) -> (bins,)."""
    reach = min(math.ceil(_REACH * width), values.size)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(values, kernel / kernel.sum())[reach : reach + values.size]


def binned_counts(neurons: np.ndarray, bins: np.ndarray, n: int, n_bins: int) -> np.ndarray:
    """Return how often each neuron spiked in each bin: (n, n_bins); what is after the last bin does not count."""
    inside = bins < n_bins
    counts = np.zeros((n, n_bins), np.float32)
    np.add.at(counts, (neurons[inside], bins[inside]), 1)
    return counts


def correlations_of(counts: np.ndarray) -> np.ndarray:
    """Return Pearson's coefficient of each pair of rows: (n, bins) -> (n, n); NaN where a row is constant."""
    counts = counts - counts.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    length = np.sqrt(np.einsum("ij,ij->i", counts, counts, dtype=np.float64))
    constant = np.ptp(counts, axis=1) == 0 if counts.size else np.zeros(len(counts), bool)
    counts /= np.where(constant, 1, length)[:, None].astype(np.float32)
    counts[constant] = np.nan
    found = np.clip(counts @ counts.T, -1, 1)
    np.fill_diagonal(found, np.where(constant, np.nan, 1))
    return found
