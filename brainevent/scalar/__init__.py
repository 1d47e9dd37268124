# SPDX-License-Identifier: Apache-2.0
"""The rule of one neuron: traced by JAX to typed scalar lines, which every engine runs with the same bits."""
