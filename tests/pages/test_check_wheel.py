# SPDX-License-Identifier: Apache-2.0
"""What `make wheel` holds the wheel to."""

import importlib.metadata
import sys
import zipfile

import pytest
from programs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from check_wheel import Block, blocks_of, check_contents, difference, needed, top_level

PAGE = """# Title

```console
$ make
```

```python
print(1)
```

```output
1
```

Words.

```python gpu
print("on a GPU")
```

```output
on a GPU
```

```python
x = 2
```
"""


def test_the_programs_of_a_page_are_those_that_need_no_gpu():
    assert blocks_of(PAGE) == [Block(8, "print(1)\n", "1\n"), Block(26, "x = 2\n", None)]


@pytest.mark.parametrize(
    ("output", "printed", "same"),
    [("1 ...\n", "1  2\n", True), (None, "whatever", True), ("1\n", "2\n", False), ("1\n", "", False)],
)
def test_what_a_program_prints_is_compared(output, printed, same):
    said = difference(Block(8, "", output), printed)
    assert said == "" if same else said.startswith("README.md:8 printed")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("__init__.py", "sums.cu"), None),
        (("__init__.py",), "lacks brainevent/sums.cu"),
        (("__init__.py", "sums.cu", "tests.py"), "should not hold brainevent/tests.py"),
    ],
)
def test_the_wheel_holds_the_package_and_nothing_else(tmp_path, names, words):
    package = tmp_path / "brainevent"
    (package / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "sums.cu", "__pycache__/x.pyc"):
        (package / name).touch()
    wheel = tmp_path / "brainevent-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (*(f"brainevent/{name}" for name in names), "brainevent-1.dist-info/METADATA"):
            archive.writestr(name, "")
    if words is None:
        check_contents(wheel, package)
        return
    with pytest.raises(SystemExit, match=words):
        check_contents(wheel, package)


def test_only_what_is_asked_for_is_linked():
    found = {dist.name.lower(): dist for dist in needed(["numba>=0.60", "pytest; extra == 'test'"])}
    assert {"numba", "llvmlite", "numpy"} <= found.keys()
    assert not {"pytest", "hypothesis", "brainevent"} & found.keys()
    places = top_level(found["numba"])
    assert {path.name for path in places} == {"numba", f"numba-{importlib.metadata.version('numba')}.dist-info"}
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        list(needed(["no-such-package-here"]))
