# SPDX-License-Identifier: Apache-2.0
"""The native handler of launch plans, compiled when the first plan is loaded."""

from __future__ import annotations

import functools
from pathlib import Path

from .. import pulse
from ..elements import HEAD, OWN, compile_handler
from .plan import MAX_PARAMETER_BYTES, MAX_PARAMETERS, ZEROING

__all__ = ["handler_address"]

# The words of a plan behind those of every handler (see `target.load`), and of a launch behind its kernel, grid, block
# and shared memory.
_PLAN = (
    *("LAUNCH_KERNEL", "LAUNCH_TOGETHER", "MEMSET", "WAIT", "PULSE", "INTERRUPTED", "STEPS"),
    *("N_ZEROED", "N_LAUNCHES", "FIRST"),
)
_LAUNCH = {"TOGETHER": 64, "DONE": 72, "N_WORDS": 80, "N_PARAMETERS": 88, "N_SLOTS": 96, "WORDS": 104}
_ADDRESSES = OWN + MAX_PARAMETER_BYTES + 4 + 16 * MAX_PARAMETERS  # parameters are aligned, which takes some bytes more


@functools.cache
def handler_address() -> int:
    """Return the address of `run(frame, plan)`."""
    words = {
        **{name: 8 * (HEAD + word) for word, name in enumerate(_PLAN)},
        **_LAUNCH,
        "MISALIGNED": 0,  # over words that XLA has already read
        "PARAMETERS": OWN,
        "ADDRESSES": _ADDRESSES,
        "ZEROING": ZEROING,
        "STOPPED": -1 << 40,  # no error of CUDA, and no slot
        "PULSE_WORDS": pulse.WORDS,
    }
    return compile_handler(Path(__file__).with_suffix(".ll"), words, _ADDRESSES + 8 * MAX_PARAMETERS)
