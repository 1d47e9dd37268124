# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices with vectors and matrices of events."""

from . import functions  # with which the operators are called and measured

__all__ = ["functions"]
