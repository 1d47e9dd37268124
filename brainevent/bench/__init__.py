# SPDX-License-Identifier: Apache-2.0
"""Measure functions of arrays, and store the results; without operators."""
