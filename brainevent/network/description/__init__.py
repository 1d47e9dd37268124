# SPDX-License-Identifier: Apache-2.0
"""The description of a network: populations, projections, kinds of connections, drawn values."""

from . import connect

__all__ = ["connect"]
