# SPDX-License-Identifier: Apache-2.0
"""The version, where every room can read it."""

__version__ = "0.4.0"
