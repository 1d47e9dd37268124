# SPDX-License-Identifier: Apache-2.0
"""Calls of functions with TVM FFI's calling convention, made by a native handler; for several languages."""

from __future__ import annotations

from .layout import Function, call_of
from .library import INSTALL, Source, found, kept

__all__ = ["INSTALL", "Function", "Source", "call_of", "found", "kept"]
