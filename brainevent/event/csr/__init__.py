# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in compressed sparse rows, and columns, with vectors and matrices of events or numbers."""
