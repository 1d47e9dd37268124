# SPDX-License-Identifier: Apache-2.0
"""Operators on sparse matrices in Numba, for the CPU: the rows of each format, laws, and walks that know neither."""
