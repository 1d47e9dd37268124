# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of equally long rows with vectors and matrices of events or numbers."""

from . import functions  # with which the operators are called and measured

__all__ = ["functions"]
