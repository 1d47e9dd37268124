# SPDX-License-Identifier: Apache-2.0
"""Plasticity: weights of neurons that spike change by the traces of the neurons at the other end."""
