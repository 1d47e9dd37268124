#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the wheel, install it in a fresh environment, and run the README's programs and `brainevent doctor` there.

The environment has the packages that the wheel asks for, and nothing else: neither what tests need nor this checkout.
They are those of the interpreter that runs this script, linked, so that it takes seconds; pip checks their versions.
With --download pip installs them, as it does for users.
"""

import argparse
import doctest
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["Block", "blocks_of", "check_contents", "difference", "needed", "top_level"]

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT = doctest.OutputChecker()
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Runs blocks one after another, and writes what each printed.
_RUNNER = """
import contextlib, io, json, sys
blocks, printed, names = json.load(open(sys.argv[1])), [], {"__name__": "__main__"}
for number, text in blocks:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\\n" * (number - 1) + text, "README.md", "exec"), names)
    printed.append(out.getvalue())
import brainevent
json.dump({"printed": printed, "file": brainevent.__file__}, open(sys.argv[2], "w"))
"""


@dataclass(frozen=True)
class Block:
    """A program on a page, the line where it begins, and what the page says that it prints: None if nothing is said."""

    line: int
    text: str
    output: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--download", action="store_true", help="let pip install what the wheel needs")
    download = parser.parse_args(argv).download
    folder = ROOT / "build" / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    wheel = build(folder)
    check_contents(wheel, ROOT / "brainevent")
    python = install(wheel, folder / "env", download=download)
    print(f"{wheel.name} holds the package, and is installed in a fresh environment")
    run_readme(python, folder)
    run_doctor(python, folder)
    return 0


def build(folder: Path) -> Path:
    """Build the wheel as pip does for users: with the build system that pyproject.toml names."""
    _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT])
    [wheel] = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path, package: Path) -> None:
    """Exit if the wheel holds not all files of the package, or others."""
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(package.parent).as_posix() for path in files}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    for what, names in (("lacks", wanted - found), ("should not hold", found - wanted)):
        if names:
            sys.exit(f"{wheel.name} {what} {', '.join(sorted(names)[:10])}; see [tool.hatch.build] in pyproject.toml")


def install(wheel: Path, folder: Path, *, download: bool) -> Path:
    """Make an environment, install the wheel there, and return its interpreter."""
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    if not download:
        site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        for path in {path for dist in needed(requirements_of(wheel)) for path in top_level(dist)}:
            (site / path.name).symlink_to(path)
    _run([*pip, "install", "--quiet", *([] if download else ["--no-deps", "--no-index"]), wheel])
    _run([*pip, "check"])
    return python


def requirements_of(wheel: Path) -> list[str]:
    """Return what the wheel asks for."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    return re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)


def needed(requirements: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield the installed packages that these ask for, and those that they ask for, extras apart."""
    waiting, seen = list(requirements), set()
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name.lower() not in seen:
            seen.add(requirement.name.lower())
            dist = importlib.metadata.distribution(requirement.name)
            waiting += dist.requires or ()
            yield dist


def top_level(dist: importlib.metadata.Distribution) -> set[Path]:
    """Return the files and folders of a package, without its commands."""
    names = {file.parts[0] for file in dist.files or ()} - {"..", "__pycache__"}
    return {Path(str(dist.locate_file(name))) for name in names}


def blocks_of(page: str) -> list[Block]:
    """Return the programs of a page that run without a GPU."""
    found: list[Block] = []
    fresh = False  # whether the last fence was a program that is found
    for fence in _FENCE.finditer(page):
        language, words, text = fence.groups()
        if language == "output" and fresh:
            found[-1] = Block(found[-1].line, found[-1].text, text)
        fresh = language == "python" and not words.strip()
        if fresh:
            found.append(Block(page.count("\n", 0, fence.start(3)) + 1, text))
    return found


def run_readme(python: Path, folder: Path) -> None:
    """Run the programs of the README one after another, and compare what they print."""
    blocks = blocks_of((ROOT / "README.md").read_text())
    if not blocks:
        sys.exit("README.md has no programs to run")
    texts, said = folder / "blocks.json", folder / "printed.json"
    texts.write_text(json.dumps([(block.line, block.text) for block in blocks]))
    _run([python, "-c", _RUNNER, texts, said], cwd=folder)
    found = json.loads(said.read_text())
    if not Path(found["file"]).is_relative_to(folder):
        sys.exit(f"the README was run with {found['file']}, which the wheel did not bring")
    for block, printed in zip(blocks, found["printed"], strict=True):
        if text := difference(block, printed):
            sys.exit(text)
    print(f"README.md: {len(blocks)} programs print what they should")


def difference(block: Block, printed: str) -> str:
    """Say how what a program printed differs from what the page says, or return an empty text."""
    if block.output is None or _OUTPUT.check_output(block.output, printed, _FLAGS):
        return ""
    return f"README.md:{block.line} printed\n{printed}\nwhere the page says\n{block.output}"


def run_doctor(python: Path, folder: Path) -> None:
    """Run the doctor: a fault of the machine is no fault of the wheel, but the doctor must have looked."""
    command = python.with_name("brainevent")
    result = _run([command, "doctor"], cwd=folder, allowed=(0, 1))
    if result.stderr or not result.stdout.strip():
        sys.exit(f"brainevent doctor wrote\n{result.stdout}{result.stderr}")
    print(f"brainevent doctor: {result.stdout.strip().splitlines()[-1]}")


def _run(
    command: Sequence[str | Path], *, cwd: Path = ROOT, allowed: Sequence[int] = (0,)
) -> subprocess.CompletedProcess[str]:
    """Run a command without what the environment says of Python, or exit with what it wrote."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = {**clean, "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode not in allowed:
        words = " ".join(str(word) for word in command if "\n" not in str(word))
        sys.exit(f"{result.stdout}{result.stderr}\n{words}: exit status {result.returncode}")
    return result


if __name__ == "__main__":
    sys.exit(main())
