# SPDX-License-Identifier: Apache-2.0
"""Run one probe in a fresh Python process and bring its samples back."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from benchmarks.options import ROOT

# A probe that takes longer hangs: callbacks into Python are known to.
TIME_LIMIT_S = 300
# What would let one probe find another's compilations, or change what is compiled.
_REMOVED = ("JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS", "NUMBA_DISABLE_JIT", "BRAINEVENT_COMPUTE_CAPABILITIES")
_JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu"}


class ProbeError(RuntimeError):
    """A probe failed; the message holds the end of what it printed."""


def run_probe(
    probe: str, arguments: dict[str, Any], python: Path | None = None, platform: Literal["cpu", "gpu"] = "cpu"
) -> Any:
    """Run `benchmarks.probes.<probe>` with this Python, or isolated with another one: its `measure(**arguments)`."""
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
        answer = Path(folder, "answer.json")
        if python is None:
            launch, start_in = [sys.executable, "-m", "benchmarks.probes"], str(ROOT)
        else:
            # Isolated (-I): the peer has our package's name, and must not find ours.
            launch, start_in = [str(python), "-I", str(ROOT / "benchmarks" / "probes" / "__main__.py")], folder
        _finish(probe, [*launch, probe, json.dumps(arguments), str(answer)], start_in, platform)
        return json.loads(answer.read_text())


def _finish(probe: str, command: list[str], start_in: str, platform: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in _REMOVED}
    environment["JAX_PLATFORMS"] = _JAX_PLATFORMS[platform]
    try:
        done = subprocess.run(
            command,
            cwd=start_in,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{probe}: no answer within {TIME_LIMIT_S} s") from None
    if done.returncode != 0:
        raise ProbeError(f"{probe}: exit status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-25:]))
