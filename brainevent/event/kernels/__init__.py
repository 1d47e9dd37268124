# SPDX-License-Identifier: Apache-2.0
"""The kernel languages: the kernels of each of them, by operator."""
