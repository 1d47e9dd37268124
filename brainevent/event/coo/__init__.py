# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in coordinates with vectors and matrices of events or numbers."""
