# SPDX-License-Identifier: Apache-2.0
"""Spikes that arrive later: weights of active rows are added to a ring of sums, at the slot given by their delay."""
