# SPDX-License-Identifier: Apache-2.0
"""Training on the CPU: generated loops over samples, forward and backward, in threads."""
