# SPDX-License-Identifier: Apache-2.0
"""Drawn connectivity: matrices that are drawn from a seed whenever they are needed, and never stored."""
