# SPDX-License-Identifier: Apache-2.0
"""Operators on sparse matrices in Numba, for the CPU: rows of formats, terms of laws, and walks of any of both."""
