# SPDX-License-Identifier: Apache-2.0
"""The tour lists every file of the package, and no file that is not there."""

import re
from pathlib import Path

import brainevent

PACKAGE = Path(brainevent.__file__).parent
TOUR = Path(__file__).parents[2] / "docs" / "tour.md"


def listed(text, package):
    """Return the files that the tables of rooms name, and names of no file.

    A name is one within the package, or within the folder of the first name of its row; a folder stands for its files.
    """
    files, unknown = set(), []
    for first, rest in re.findall(r"^\| `([^`]+)`(.*?) \|", text.partition("## The rooms")[2], re.MULTILINE):
        folder = (package / first).parent
        for name in (first, *re.findall(r"`([^`]+)`", rest)):
            found = [*folder.glob(name)] if "/" not in name else [*package.glob(name.rstrip("/"))]
            files |= {file for each in found for file in (each.rglob("*.py") if each.is_dir() else [each])}
            unknown += [] if found else [name]
    return files, unknown


def test_every_file_is_in_the_tour_and_no_other():
    files, unknown = listed(TOUR.read_text(), PACKAGE)
    own = {file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py"}
    assert (sorted(map(str, own - files)), unknown) == ([], [])


def test_names_that_the_tour_lacks_are_found(tmp_path):
    for name in ("a.py", "room/b.py", "room/c.py", "hall/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    text = "| `z.py` | No. |\n## The rooms\n| `a.py` | A. |\n| `room/b.py`, `d.py` | `B`. |\n| `hall/` | D. |\n"
    files, unknown = listed(text, tmp_path)
    assert {file.name for file in files} == {"a.py", "b.py", "d.py"}
    assert unknown == ["d.py"]
