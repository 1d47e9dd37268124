# SPDX-License-Identifier: Apache-2.0
"""One planted mistake: where it is, how the text reads with it, and which tests should notice."""

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Mutant"]


@dataclass(frozen=True)
class Mutant:
    """Put `new` in the place of `old`, which occurs once in a file of the package."""

    name: str
    file: str  # within brainevent/
    old: str
    new: str
    tests: tuple[str, ...]  # names of test files, the cheapest first

    @property
    def room(self) -> str:
        """Return the folder of the file, or the name of a file that is a room of its own."""
        path = PurePosixPath(self.file)
        folder = str(path.parent).removesuffix("/brainevent")
        return path.stem if folder == "." else folder

    @property
    def test_files(self) -> list[str]:
        return [f"tests/{name}.py" for name in self.tests]

    @property
    def fingerprint(self) -> str:
        """Tell this mutant from another of the same name."""
        return hashlib.sha256(repr((self.file, self.old, self.new, self.tests)).encode()).hexdigest()[:16]

    def applied(self, tree: Path) -> str | None:
        """Return the text of the file with the mistake; None if what it replaces is not there exactly once."""
        path = tree / "brainevent" / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None
