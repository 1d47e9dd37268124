# SPDX-License-Identifier: Apache-2.0
"""Plasticity: what happens to weights where neurons spike, by the traces of the neurons at the other end."""
