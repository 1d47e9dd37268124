# SPDX-License-Identifier: Apache-2.0
"""Training: components of a network that run forward and backward as two native calls."""
