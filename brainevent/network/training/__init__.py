# SPDX-License-Identifier: Apache-2.0
"""Training: components of networks, forward and backward, as native calls."""
