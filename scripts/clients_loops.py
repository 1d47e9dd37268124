# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for clients.sh: how many loops become native calls, and why others do not.

It writes lines of a number and what it counts to the file that LOOPS names. With FUSED=all, each loop of two steps or
more becomes a native call if it can be one, whatever the cost model says: most loops of tests are short.
"""

import dataclasses
import os
from collections import Counter
from pathlib import Path

from brainevent.loops import cost, lowering
from brainevent.loops.values import UnfitError

SEEN, NATIVE = "seen", "native"

count = Counter()
_planned, _call_of = lowering.planned, lowering.call_of


def planned(*args):
    """Plan a loop, and count what becomes of it."""
    count[SEEN] += 1
    try:
        return _planned(*args)
    except UnfitError as error:
        count[error.problem] += 1
        raise
    except Exception as error:
        count[f"{type(error).__name__}: {error}".partition("\n")[0]] += 1
        raise


def call_of(*args):
    """Make a native call, and count it."""
    call = _call_of(*args)
    count[NATIVE] += 1
    return call


def pytest_configure(config):
    lowering.planned, lowering.call_of = planned, call_of
    if os.environ.get("FUSED") == "all":
        short = dataclasses.replace(cost.CALIBRATION, least_steps=2)
        lowering.why_too_short = lambda length: cost.why_too_short(length, short)
        lowering._why_not_faster = lambda plan, platform: None


def pytest_unconfigure(config):
    if file := os.environ.get("LOOPS"):
        Path(file).write_text("".join(f"{number} {what}\n" for what, number in count.most_common()))
