# SPDX-License-Identifier: Apache-2.0
"""`chunks`: the steps of a run, a few at a time, so that it shows its progress and can be stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..engine import Engine, Joined
from .pace import Pace, Stop
from .recorded import Recorded, Wanted
from .requests import Request

__all__ = ["chunks", "needs_no_chunks"]

Array = Any


def needs_no_chunks(engine: Engine, requests: Sequence[Request], given: Mapping[tuple[str, str], Array]) -> bool:
    """Say whether an engine needs no chunks for these records and inputs."""
    return engine.paces_itself and not given and all(request.kind != "sample" for request in requests)


def chunks(
    engine: Engine,
    pace: Pace,
    total: int,
    fixed: int | None,
    asked: Wanted,
    given: Mapping[tuple[str, str], Array],
    stop: Stop,
) -> Iterator[Recorded]:
    """Run steps, and yield what each chunk recorded, until the run is to end; None as `fixed` is what the pace says."""
    done, joined = 0, isinstance(engine, Joined)
    while done < total and (joined or not stop.pressed):  # `stop.asked` tells the other processes
        count = min(total - done, fixed or pace.steps)
        began = time.perf_counter()
        inputs = {key: values[done : done + count] for key, values in given.items()}
        part = engine.run(count, asked, inputs, stop.asked)
        pace.took(part.steps, time.perf_counter() - began)
        done += part.steps
        if part.steps:
            yield part
        if joined and part.full:
            stop.pressed = True
            break
