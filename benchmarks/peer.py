# SPDX-License-Identifier: Apache-2.0
"""Keep the PyPI package of the same name in a virtual environment of its own."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.options import HERE, ROOT

PEER = "brainevent==0.2.1"
PEER_NAME = "PyPI " + PEER.replace("==", " ")
_FOLDER = HERE / ".peer-venv"


class PeerError(RuntimeError):
    """The peer could not be installed."""


def find_peer() -> Path:
    """The Python of the peer's environment, made on the first use with our versions of JAX and Numba."""
    wanted = [PEER, *(f"{name}=={metadata.version(name)}" for name in ("jax", "jaxlib", "numba"))]
    stamp, python = _FOLDER / "installed", _FOLDER / "bin" / "python"
    receipt = "\n".join([sys.version, *wanted])
    if not (stamp.exists() and stamp.read_text() == receipt):
        print(f"installing {PEER} in {_FOLDER.relative_to(ROOT)} ...", flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(_FOLDER)])
        _run([str(python), "-m", "pip", "install", "--quiet", *wanted])
        stamp.write_text(receipt)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)}\n{done.stderr}\npass --no-peers to run without {PEER_NAME}")
