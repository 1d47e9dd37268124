# SPDX-License-Identifier: Apache-2.0
"""Keep the PyPI package of the same name in a virtual environment of its own; on a GPU, in a folder of its own."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.options import HERE, ROOT

PEER = "brainevent==0.2.1"
PEER_NAME = "PyPI " + PEER.replace("==", " ")
PEER_FOLDER = "BRAINEVENT_PEER_PATH"  # of the environment: a machine with a GPU may have no network to install from
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


def find_peer_packages() -> tuple[Path, str]:
    """The folder that the peer was installed in (`pip install --target`), and its name and version."""
    folder, version = find_packages(PEER_FOLDER, "brainevent")
    return folder, f"PyPI brainevent {version}"


def find_packages(variable: str, name: str) -> tuple[Path, str]:
    """The folder that a variable of the environment names, and the version of the package that is installed there."""
    folder = Path(os.environ.get(variable, ""))
    if not os.environ.get(variable):
        raise PeerError(f"{variable} names no folder with the PyPI package {name}, as pip install --target makes it")
    found = [one for one in metadata.distributions(path=[str(folder)]) if one.metadata["Name"].lower() == name]
    if not found:
        raise PeerError(f"{variable} is {folder}, where no package {name} is installed")
    return folder.resolve(), found[0].version


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)}\n{done.stderr}\npass --no-peers to run without {PEER_NAME}")
