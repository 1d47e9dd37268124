# SPDX-License-Identifier: Apache-2.0
"""Networks: the rule of one neuron, written once, for every engine."""
