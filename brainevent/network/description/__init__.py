# SPDX-License-Identifier: Apache-2.0
"""What a user writes: populations, projections, kinds of connections, drawn values."""

from . import connect

__all__ = ["connect"]
