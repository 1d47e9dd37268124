# SPDX-License-Identifier: Apache-2.0
"""Build the hand-written C++ handlers with g++ -O3, and register handlers with XLA."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import jax

SOURCE = Path(__file__).with_name("add.cc")
# Who times builds begins with an empty one.
FOLDER = Path(os.environ.get("BRAINEVENT_BENCH_BUILD") or SOURCE.parent.parent / ".build")


def build_command(library: Path, scale: float = 1.0) -> list[str]:
    """How the library is built; another `scale` makes another kernel."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise RuntimeError(f"no C++ compiler: {compiler!r} is not on PATH; install g++, or name one in CXX")
    include = f"-I{jax.ffi.include_dir()}"
    options = ["-std=c++17", "-O3", "-fPIC", "-shared", f"-DSCALE={scale}f"]
    return [compiler, *options, include, str(SOURCE), "-o", str(library)]


def build_handlers() -> Path:
    """The library of `add.cc`."""
    return build_once(SOURCE, build_command)


def build_once(source: Path, command: Callable[[Path], list[str]]) -> Path:
    """The library that `command(library)` makes, built once for this source, command and jaxlib."""
    key = " ".join([*command(Path("library")), metadata.version("jaxlib"), source.read_text()])
    library = FOLDER / f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            unfinished = Path(folder, library.name)
            subprocess.run(command(unfinished), check=True)
            # Another process may be building the same library: the last one wins, whole.
            unfinished.rename(library)
    return library


def register_handler(library: Path, symbol: str, target: str, platform: str = "cpu") -> str:
    """Load `symbol` and make it the FFI target `target`, which is returned."""
    handler = getattr(ctypes.CDLL(str(library)), symbol)
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform=platform)
    return target
