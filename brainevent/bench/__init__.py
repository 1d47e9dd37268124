# SPDX-License-Identifier: Apache-2.0
"""Measure functions of arrays, and keep what was measured; knows no operator."""
