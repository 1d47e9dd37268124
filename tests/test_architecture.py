# SPDX-License-Identifier: Apache-2.0
"""Imports point down, private JAX stays in one room, and files stay small."""

import ast
import sys
from pathlib import Path

import pytest

import brainevent

PACKAGE = Path(brainevent.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
OURS = [
    path
    for folder in ("brainevent", "tests", "docs", "examples", "benchmarks", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]

# From the ground up: a room may import those of lower floors, and of its own floor only itself.
FLOORS = [
    {"errors", "_capabilities", "_compat", "_content", "_names", "_version"},
    {"_jit_key"},
    {"config"},
    {"ffi"},
    {"toolchain"},
    {"languages"},
    {"bench"},
    {"operator", "backends"},
    {"event", "doctor"},
    {"spikes"},
    {"network"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Packages that need not be there, with the rooms that may import them.
OPTIONAL = {
    "numba": {"backends/numba", "backends/numba_cuda", "config"},
    "llvmlite": {
        "backends/numba",
        "ffi/callbacks",
        "ffi/last_words",
        "ffi/launch/handler",
        "ffi/launch/host",
        "ffi/portable",
    },
    "warp": {"backends/warp"},
    "triton": {"backends/triton"},
    "jax_triton": {"backends/triton"},
    "cuda": {"backends/numba_cuda", "backends/nvrtc"},
    "matplotlib": {"bench/plot"},
    "tqdm": {"bench/progress"},
}


def holds_kernels(path):
    """Say whether this is a file of kernels in one language, which may import that language."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] in ("event", "network") and relative.name.startswith("on_")


def room_of(path):
    """Return the room of a file, None for the package's own __init__ and __main__."""
    top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return None if top in ("__init__", "__main__") else top


def modules_imported(path):
    """Return (line, module) for every import of a file, those within functions and for types included."""
    here = ("brainevent", *path.relative_to(PACKAGE).with_suffix("").parts)
    package = here[:-1]  # of a module; and of an __init__, whose name is the last part
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module", "__import__",
        ):  # fmt: skip
            yield from ((node.lineno, a.value) for a in node.args[:1] if isinstance(a, ast.Constant))


def wrong_directions(path):
    room = room_of(path)
    for line, module in modules_imported(path):
        parts = module.split(".")
        if room is None or parts[0] != "brainevent" or len(parts) < 2 or parts[1] == room:
            continue
        if parts[1] not in FLOOR:
            known = (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file()
            if known:
                yield f"{path.name}:{line}: {module} is a room that has no floor here"
            elif room != "cli":
                yield f"{path.name}:{line}: {module}: import a name from its own room, not from the package"
        elif FLOOR[parts[1]] >= FLOOR[room]:
            yield f"{path.name}:{line}: {room} imports {module}, which is no floor below"


def test_every_room_has_a_floor():
    rooms = {room for path in FILES if (room := room_of(path))}
    assert rooms <= set(FLOOR)
    assert {"errors", "_compat", "_jit_key", "config", "languages", "ffi", "operator", "backends"} <= rooms


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    assert list(wrong_directions(path)) == []


def test_upward_imports_are_found(tmp_path, monkeypatch):
    """The test above can fail: whatever the form of the import."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "bad.py").write_text(
        "from ..backends import numba\n"
        "from .. import backends\n"
        "import brainevent.backends.numba\n"
        "def f():\n"
        "    from ..event.csr import x\n"
        "    import importlib\n"
        "    importlib.import_module('brainevent.cli')\n"
        "    from brainevent import XLACustomKernel\n"
        "from ..errors import KernelError\n"
        "from . import lowering\n"
    )
    lines = {int(wrong.split(":")[1]) for wrong in wrong_directions(tmp_path / "operator" / "bad.py")}
    assert lines == {1, 2, 3, 5, 7, 8}


def test_a_backend_knows_no_other_backend():
    for path in FILES:
        relative = path.relative_to(PACKAGE).parts
        if relative[0] == "backends" and len(relative) > 1:
            me = relative[1].removesuffix(".py")
            others = {m.split(".")[2] for _, m in modules_imported(path) if m.startswith("brainevent.backends.")}
            assert others <= {me}, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_private_jax_is_imported_in_one_room(path):
    private = [
        f"{line}: {m}" for line, m in modules_imported(path) if m.startswith(("jax._", "jaxlib")) or "._src" in m
    ]
    attributes = [
        f"{node.lineno}: .{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "_src"
    ]
    if path.name != "_compat.py":
        assert private + attributes == []
    else:
        assert private


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_optional_packages_load_in_their_own_rooms(path):
    relative = str(path.relative_to(PACKAGE).with_suffix(""))
    for line, module in modules_imported(path):
        rooms = OPTIONAL.get(module.split(".")[0])
        if rooms is not None and not holds_kernels(path):
            assert any(relative == room or relative.startswith(f"{room}/") for room in rooms), f"line {line}: {module}"


def test_at_the_top_of_a_file_only_backends_import_optional_packages():
    loaded_when_used = {PACKAGE / "ffi" / "launch" / name for name in ("handler.py", "host.py")}
    loaded_when_used |= set((PACKAGE / "bench" / "plot").iterdir())
    for path in FILES:
        if not (holds_kernels(path) or "backends" in path.relative_to(PACKAGE).parts or path in loaded_when_used):
            top = [n for n in ast.parse(path.read_text()).body if isinstance(n, (ast.Import, ast.ImportFrom))]
            names = {a.name.split(".")[0] for n in top if isinstance(n, ast.Import) for a in n.names}
            names |= {n.module.split(".")[0] for n in top if isinstance(n, ast.ImportFrom) and n.module and not n.level}
            assert not names & set(OPTIONAL), path


def test_files_say_their_licence():
    def first_line(path):
        lines = path.read_text().splitlines()
        return next((line for line in lines[:2] if not line.startswith("#!")), "# SPDX-License-Identifier: Apache-2.0")

    assert [str(p) for p in OURS if first_line(p) != "# SPDX-License-Identifier: Apache-2.0"] == []
    assert len(OURS) > 30


def test_files_are_short():
    """350 lines for a room, and 400 for all of private JAX; tables of tests may be longer."""
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in OURS}
    limits = {name: 700 if name.startswith("tests/") else 350 for name in lengths} | {"brainevent/_compat.py": 400}
    assert {name: length for name, length in lengths.items() if length > limits[name]} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_room_says_what_it_is_for(path):
    tree = ast.parse(path.read_text())
    sentence = (ast.get_docstring(tree) or "").splitlines()[:1]
    assert sentence
    assert sentence[0].endswith((".", "?"))


def test_user_input_is_never_guarded_by_assert():
    """An assert is gone under python -O: it may say what we know, never what a user did."""
    for path in FILES:
        found = [n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
        assert len(found) <= 3, f"{path}: {found}"
