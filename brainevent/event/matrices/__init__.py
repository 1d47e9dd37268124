# SPDX-License-Identifier: Apache-2.0
"""Matrices whose products with spikes visit only the synapses of neurons that spiked, one file per format."""

from . import coo, csc, csr  # others are converted to them by name

__all__ = ["coo", "csc", "csr"]
