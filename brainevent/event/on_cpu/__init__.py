# SPDX-License-Identifier: Apache-2.0
"""Operators on sparse matrices in Numba, for the CPU: rows of formats, laws, and walks that are independent of both."""
