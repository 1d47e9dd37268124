# SPDX-License-Identifier: Apache-2.0
"""All point neurons, by the names in model templates."""

from __future__ import annotations

from .conductance import IAF_COND_ALPHA, IAF_COND_EXP
from .current import IAF_PSC_ALPHA, IAF_PSC_DELTA, IAF_PSC_EXP
from .glif import GLIF

__all__ = ["NEURONS"]

NEURONS = {one.name: one for one in (IAF_PSC_ALPHA, IAF_PSC_EXP, IAF_PSC_DELTA, IAF_COND_ALPHA, IAF_COND_EXP, *GLIF)}
