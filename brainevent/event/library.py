# SPDX-License-Identifier: Apache-2.0
"""All operators of the library: to import this is to register them."""

from __future__ import annotations

from .coo import functions as coo
from .csr import functions as csr
from .csr import slices
from .dense import functions as dense
from .fixed import functions as fixed

__all__ = ["coo", "csr", "dense", "fixed", "slices"]
