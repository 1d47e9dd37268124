# SPDX-License-Identifier: Apache-2.0
"""The power that a GPU takes, as nvidia-smi tells it, and its integral over time."""

import itertools
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType

# Newer drivers know the first; the second may be a mean over the last second.
_FIELDS = ("power.draw.instant", "power.draw")
_BETWEEN = 0.02  # seconds from one sample to the next question


class PowerError(RuntimeError):
    """nvidia-smi does not tell the power; the message holds what it says instead."""


class Meter:
    """Samples the power in a thread: (time of `time.perf_counter`, watts)."""

    def __init__(self, device: str | None = None):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
        self.device = device if device is not None else visible or "0"
        self.field = next((field for field in _FIELDS if _is_known(field, self.device)), _FIELDS[-1])
        self.samples: list[tuple[float, float]] = []
        self._failed: PowerError | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample_on, daemon=True)

    def __enter__(self) -> "Meter":
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()
        if error is None and self._failed:
            raise self._failed
        if error is None:
            self._sample()

    def joules(self, begin: float, end: float) -> float:
        """The energy from one time to another, which are within the samples."""
        return joules(self.samples, begin, end)

    def _sample_on(self) -> None:
        try:
            while not self._ends.wait(_BETWEEN):
                self._sample()
        except PowerError as failed:
            self._failed = failed

    def _sample(self) -> None:
        before = time.perf_counter()
        watts = read_watts(self.field, self.device)
        self.samples.append(((before + time.perf_counter()) / 2, watts))


def read_watts(field: str, device: str) -> float:
    """Ask nvidia-smi once."""
    said = _ask(field, device)
    try:
        return float(said)
    except ValueError:
        raise PowerError(f"nvidia-smi says {said!r} for {field} of GPU {device}, which is no number of watts") from None


def joules(samples: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Integrate samples of (seconds, watts), in order of time, from `begin` to `end`, as lines between them."""
    if not samples or not samples[0][0] <= begin <= end <= samples[-1][0]:
        raise PowerError(f"the power was not sampled from {begin:.3f} to {end:.3f} s")
    total = 0.0
    for (start, low), (stop, high) in itertools.pairwise(samples):
        first, last = max(start, begin), min(stop, end)
        if first < last:
            middle = low + (high - low) * ((first + last) / 2 - start) / (stop - start)
            total += middle * (last - first)
    return total


def _is_known(field: str, device: str) -> bool:
    try:
        read_watts(field, device)
    except PowerError:
        return False
    return True


def _ask(field: str, device: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", f"--id={device}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PowerError(f"nvidia-smi cannot be run: {error.strerror}") from None
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise PowerError(f"nvidia-smi ended with status {done.returncode}: {said}")
    return said
