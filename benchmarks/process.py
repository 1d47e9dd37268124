# SPDX-License-Identifier: Apache-2.0
"""Run one probe in a fresh Python process and bring its samples back."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from benchmarks.options import ROOT
from benchmarks.probes.progress import MARK

# A probe that takes longer hangs: callbacks into Python are known to.
TIME_LIMIT_S = 600
# What would let one probe find another's compilations, change what is compiled, or compile modules at each import.
_REMOVED = (
    "JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS", "NUMBA_DISABLE_JIT", "NUMBA_ENABLE_CUDASIM", "BRAINEVENT_EMULATE",
    "BRAINEVENT_COMPUTE_CAPABILITIES", "BRAINEVENT_NUMBA_CUDA", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
_JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu"}
_START = time.monotonic()


class ProbeError(RuntimeError):
    """A probe failed; the message holds the end of what it printed, `doing` what it said last that it would do."""

    def __init__(self, message: str, doing: str = ""):
        super().__init__(message)
        self.doing = doing


def run_probe(
    probe: str,
    arguments: dict[str, Any],
    python: Path | None = None,
    platform: Literal["cpu", "gpu"] = "cpu",
    packages: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Run `benchmarks.probes.<probe>`, its `measure(**arguments)`, with this Python.

    Or isolated with another one, `python`; or with this one, but a folder of `packages` before all others.
    """
    variables = {key: value for key, value in os.environ.items() if key not in _REMOVED}
    variables |= {"JAX_PLATFORMS": _JAX_PLATFORMS[platform], **(environment or {})}
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
        answer = Path(folder, "answer.json")
        program = str(ROOT / "benchmarks" / "probes" / "__main__.py")
        if python is not None:
            # Isolated (-I): the peer has our package's name, and must not find ours.
            launch, start_in = [str(python), "-I", program], folder
        elif packages is not None:
            # The folder of the program (-P) is not searched: it has modules with the names of packages.
            launch, start_in = [sys.executable, "-P", program], folder
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), variables.get("PYTHONPATH")]))
        else:
            launch, start_in = [sys.executable, "-m", "benchmarks.probes"], str(ROOT)
        _finish(probe, [*launch, probe, json.dumps(arguments), str(answer)], start_in, variables)
        return json.loads(answer.read_text())


def _finish(probe: str, command: list[str], start_in: str, environment: dict[str, str]) -> None:
    """Run a probe to its end, and show what it says of its progress."""
    process = subprocess.Popen(
        command, cwd=start_in, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    late = threading.Event()
    limit = threading.Timer(TIME_LIMIT_S, lambda: (late.set(), process.kill()))
    limit.start()
    printed: list[str] = []
    doing = ""
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(MARK):
                doing = line.removeprefix(MARK).strip()
                print(f"  {time.monotonic() - _START:5.0f} s  {probe}: {doing}", file=sys.stderr, flush=True)
            else:
                printed.append(line)
    limit.cancel()
    if late.is_set():
        raise ProbeError(f"{probe}: no answer within {TIME_LIMIT_S} s", doing)
    if process.returncode != 0:
        raise ProbeError(f"{probe}: exit status {process.returncode}\n{''.join(printed[-25:]).rstrip()}", doing)
