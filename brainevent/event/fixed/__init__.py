# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of equally long rows with vectors and matrices of events or numbers."""
