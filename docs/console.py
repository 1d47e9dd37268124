# SPDX-License-Identifier: Apache-2.0
"""The console blocks of a page that show the command `brainevent`: run, with what they print compared.

Only blocks with a line `$ brainevent ...` or `$ python -c ...` are run, in a folder of the page's own. It holds the
cache, and each Python block that begins with a comment such as `# my_ops.py` as a file of that name.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docs.blocks import difference

__all__ = ["Console", "commands", "is_run", "named_files"]

_FILE = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_COLUMNS = "100"


def is_run(block: str) -> bool:
    """Say whether a console block shows the command."""
    return any(line.startswith(("$ brainevent ", "$ python -c ")) for line in block.splitlines())


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block, continued lines joined, with the output that the page shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield " ".join(re.sub(r"\s+#.*", "", command).split()), output


def named_files(page: str) -> dict[str, str]:
    """Return the files that a page shows, by their names."""
    return {name: source for source, name in _FILE.findall(page)}


@dataclass
class Console:
    """A terminal in a folder; it remembers the status of the last command."""

    folder: Path
    files: Mapping[str, str]
    status: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name, source in self.files.items():
            (self.folder / name).write_text(source)

    def failures(self, block: str) -> list[str]:
        """Run the commands of a block, and return how their outputs differ from what is shown."""
        found = []
        for command, expected in commands(block):
            printed = self.printed_by(command)
            if expected.strip() and (differs := difference(expected, printed)):
                found.append(f"$ {command}\n{differs}")
            elif not expected.strip() and self.status not in (0, 3):
                found.append(f"$ {command}\nexit status {self.status}: {printed}")
        return found

    def printed_by(self, command: str) -> str:
        """Return what a command prints to stdout, then stderr."""
        if command == "echo $?":
            return f"{self.status}\n"
        if not command.startswith("brainevent "):
            command = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", command)
            finished = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, check=True)
            return finished.stdout
        from brainevent.cli import main

        out, err = io.StringIO(), io.StringIO()
        words = shlex.split(command)[1:]
        with self._inside(), contextlib.redirect_stderr(err):
            if len(words) > 2 and words[-2] == ">":
                with (self.folder / words[-1]).open("w") as file, contextlib.redirect_stdout(file):
                    self.status = main(words[:-2])
            else:
                with contextlib.redirect_stdout(out):
                    self.status = main(words)
        return out.getvalue() + err.getvalue()

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Be in the folder, as a new process is: without operators, modules of the page, or a cache of others."""
        from brainevent.operator import custom_kernel

        here, path, environment, loaded = Path.cwd(), list(sys.path), dict(os.environ), sys.dont_write_bytecode
        os.chdir(self.folder)
        os.environ.update(COLUMNS=_COLUMNS, BRAINEVENT_CACHE_DIR=str(self.folder / "cache"))
        sys.dont_write_bytecode = True
        operators = dict(custom_kernel._newest)
        custom_kernel._newest.clear()
        for name in self.files:
            sys.modules.pop(name.removesuffix(".py"), None)
        try:
            yield
        finally:
            custom_kernel._newest.clear()
            custom_kernel._newest.update(operators)
            os.chdir(here)
            sys.path[:] = path
            sys.dont_write_bytecode = loaded
            os.environ.clear()
            os.environ.update(environment)
