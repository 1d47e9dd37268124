# SPDX-License-Identifier: Apache-2.0
"""Event-driven operators: products of sparse matrices with spikes visit only the synapses of neurons that spiked."""
