# SPDX-License-Identifier: Apache-2.0
"""The version, in a module that every room can import."""

__version__ = "0.4.0"
