# SPDX-License-Identifier: Apache-2.0
"""One planted mistake: where it is, how the text reads with it, and which tests should notice."""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Mutant"]


@functools.cache
def _test_files(tree: Path) -> dict[str, list[str]]:
    """Return the paths of all test files within a tree, by name."""
    found: dict[str, list[str]] = {}
    for path in sorted((tree / "tests").rglob("test_*.py")):
        found.setdefault(path.stem, []).append(str(path.relative_to(tree)))
    return found


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

    def test_files(self, tree: Path) -> dict[str, str]:
        """Return the path of each of its test files within a tree, by name; without those that are not there once."""
        found = _test_files(tree)
        return {name: found[name][0] for name in self.tests if len(found.get(name, ())) == 1}

    @property
    def fingerprint(self) -> str:
        """Tell this mutant from another of the same name."""
        return hashlib.sha256(repr((self.file, self.old, self.new, self.tests)).encode()).hexdigest()[:16]

    def applied(self, tree: Path) -> str | None:
        """Return the text of the file with the mistake; None if what it replaces is not there exactly once."""
        path = tree / "brainevent" / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None
