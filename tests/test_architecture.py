# SPDX-License-Identifier: Apache-2.0
"""Imports point down and in no circle, private JAX stays in one room, and functions stay short."""

import ast
import functools
import sys
from pathlib import Path

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
    {"errors", "_capabilities", "_compat", "_content", "_documented", "_html", "_names", "_pieces"}
    | {"_system", "_units", "_version", "_warned", "typing"},
    {"_jit_key"},
    {"config"},
    {"ffi"},
    {"toolchain"},
    {"languages"},
    {"bench"},
    {"operator", "backends"},
    {"scalar"},
    {"event", "loops", "doctor", "compat"},
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
        "ffi/launch/host",
        "ffi/machine_code",
        "ffi/portable",
        "ffi/pulse",
    },
    "tvm_ffi": {"ffi/tvm"},
    "warp": {"backends/warp"},
    "triton": {"backends/triton"},
    "jax_triton": {"backends/triton"},
    "cuda": {"backends/cutile", "backends/numba_cuda", "backends/nvrtc"},
    "cutlass": {"backends/cute"},
    "matplotlib": {"bench/plot", "spikes/pictures"},
    "tqdm": {"bench/progress"},
}


def holds_kernels(path):
    """Say whether this is a file of kernels in one language, or in a folder of them, which may import that language."""
    top, *rest = path.relative_to(PACKAGE).parts
    return top in ("event", "loops", "network", "scalar") and any(part.startswith("on_") for part in rest)


def room_of(path):
    """Return the room of a file, None for the package's own __init__ and __main__."""
    top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return None if top in ("__init__", "__main__") else top


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def modules_imported(path):
    """Return (line, module) for every import of a file, those within functions and for types included."""
    return list(_modules_imported(path))


def _modules_imported(path):
    here = ("brainevent", *path.relative_to(PACKAGE).with_suffix("").parts)
    package = here[:-1]  # of a module; and of an __init__, whose name is the last part
    for node in ast.walk(parsed(path)):
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


def name_of(path):
    """Return the name by which the module in a file is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def files_needed(path, modules):
    """Return which files of `modules`, by name, a file imports, and in which packages these lie, its own aside."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    own = {".".join(parts[:length]) for length in range(1, len(parts))}
    found = set()
    for _, module in modules_imported(path):
        parts = module.split(".")
        known = [name for length in range(1, len(parts) + 1) if (name := ".".join(parts[:length])) in modules]
        found |= set(known) - own
        if known and known[-1] != module:  # a name that a package defines: also if it is the file's own
            found.add(known[-1])
    return {modules[name] for name in found} - {path}


def circles(needs):
    """Return the groups of files that reach one another by their imports."""

    @functools.cache
    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = needs[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    inner = {file for file in needs if file in reached(file)}
    return {frozenset(other for other in inner if other in reached(file) and file in reached(other)) for file in inner}


def private_uses(path):
    """Yield the private attributes of other things than itself that a file uses, unless it sets them somewhere."""
    nodes = list(ast.walk(parsed(path)))
    own = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    own |= {"_asdict", "_field_defaults", "_fields", "_replace"}  # which a NamedTuple offers
    modules = {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) and not n.module for a in n.names}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of_module = isinstance(node.value, ast.Name) and node.value.id in modules
            if node.attr not in own and not of_module:
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"


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


def test_imports_point_down():
    assert {name_of(path): wrong for path in FILES if (wrong := list(wrong_directions(path)))} == {}


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


def test_no_files_import_one_another_in_a_circle():
    """Imports within functions and those for types count: a file that cannot be read alone is part of another."""
    modules = {name_of(path): path for path in FILES}
    found = circles({path: files_needed(path, modules) for path in FILES})
    names = {" ".join(sorted(str(p.relative_to(PACKAGE).with_suffix("")) for p in circle)) for circle in found}
    assert names == set()


def test_circles_are_found(tmp_path, monkeypatch):
    """The test above can fail: within functions, for types, and by way of a package."""
    package = tmp_path / "brainevent"
    texts = {
        "one.py": "def f():\n    from .two import x\n",
        "two.py": "if TYPE_CHECKING:\n    from . import one\n",
        "three.py": "from .room.inner import x\n",
        "room/__init__.py": "from .. import three\nfrom .inner import x\n",
        "room/inner.py": "from .other import x\n",
        "room/other.py": "from . import inner\n",
        "room/asks.py": "from . import x\n",
        "down.py": "from . import one\nfrom .room import asks\n",
    }
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", package)
    modules = {name_of(package / name): package / name for name in texts}
    found = circles({path: files_needed(path, modules) for path in modules.values()})
    names = {" ".join(sorted(str(path.relative_to(package)) for path in circle)) for circle in found}
    assert names == {"one.py two.py", "room/__init__.py three.py", "room/inner.py room/other.py"}
    assert files_needed(package / "room" / "asks.py", modules) == {package / "room" / "__init__.py"}


def test_a_file_of_operators_uses_nothing_that_is_private_in_another(tmp_path):
    folder = PACKAGE / "operator"
    assert [use for path in FILES if folder in path.parents for use in private_uses(path)] == []
    bad = tmp_path / "bad.py"
    lines = ("from . import config", "self._own = other._own", "config._of_a_module", "other._theirs", "other.__doc__")
    bad.write_text("\n".join(lines))
    assert list(private_uses(bad)) == ["bad.py:4: other._theirs"]


def test_a_backend_knows_no_other_backend():
    for path in FILES:
        relative = path.relative_to(PACKAGE).parts
        if relative[0] == "backends" and len(relative) > 1:
            me = relative[1].removesuffix(".py")
            others = {m.split(".")[2] for _, m in modules_imported(path) if m.startswith("brainevent.backends.")}
            assert others <= {me}, path


def private_jax(path):
    """Return where a file imports, or reaches into, what is private in JAX."""
    imports = [
        f"{line}: {m}" for line, m in modules_imported(path) if m.startswith(("jax._", "jaxlib")) or "._src" in m
    ]
    return imports + [
        f"{node.lineno}: .{node.attr}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr == "_src"
    ]


def test_private_jax_is_imported_in_one_room():
    found = {name_of(path): uses for path in FILES if (uses := private_jax(path))}
    assert found.pop("brainevent._compat")
    assert found == {}


NUMBA_OWN = {"core", "cpython", "misc", "np", "parfors", "stencils"}  # packages of Numba that are no interface
NUMBA_EXCEPTIONS = {  # with what they use of the packages beside those above
    "backends/numba/internals": "all of it",
    "backends/numba_cuda/record": "the class of kernels, which Numba-CUDA does not export",
    "backends/numba_cuda/simulated": "the simulator, whose parts it replaces",
}


def internals_of_numba(path):
    """Return where a file imports what is internal in Numba, or uses a private attribute beside Numba's code."""
    imports = [(line, m.split(".")) for line, m in modules_imported(path)]
    numba = [(line, parts) for line, parts in imports if parts[0] in ("numba", "llvmlite")]
    found = [
        f"{line}: {'.'.join(parts)}"
        for line, parts in numba
        if parts[:1] == ["numba"] and ((parts[1:2] and parts[1] in NUMBA_OWN) or (parts[1:2] == ["cuda"] and parts[2:]))
    ]
    return found + (list(private_uses(path)) if numba else [])


def test_internals_of_numba_are_used_in_one_room(tmp_path, monkeypatch):
    found = {
        str(path.relative_to(PACKAGE).with_suffix("")): uses for path in FILES if (uses := internals_of_numba(path))
    }
    assert found.keys() == NUMBA_EXCEPTIONS.keys(), found
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "bad.py").write_text(
        "import numba\nfrom numba import types\nfrom numba.core import cgutils\nfrom numba.extending import intrinsic\n"
        "def f():\n    from numba.cuda.dispatcher import CUDADispatcher\n    return numba.njit(f)._compiler\n"
    )
    lines = [int(use.removeprefix("bad.py:").split(":")[0]) for use in internals_of_numba(tmp_path / "bad.py")]
    assert set(lines) == {3, 6, 7}


def test_optional_packages_load_in_their_own_rooms():
    for path in FILES:
        relative = str(path.relative_to(PACKAGE).with_suffix(""))
        for line, module in modules_imported(path):
            rooms = OPTIONAL.get(module.split(".")[0])
            if rooms is not None and not holds_kernels(path):
                own = any(relative == room or relative.startswith(f"{room}/") for room in rooms)
                assert own, f"{relative}:{line}: {module}"


def test_at_the_top_of_a_file_only_backends_import_optional_packages():
    loaded_when_used = {PACKAGE / "ffi" / "launch" / name for name in ("handler.py", "host.py")}
    loaded_when_used |= {*(PACKAGE / "bench" / "plot").iterdir(), *(PACKAGE / "spikes" / "pictures").iterdir()}
    for path in FILES:
        if not (holds_kernels(path) or "backends" in path.relative_to(PACKAGE).parts or path in loaded_when_used):
            top = [n for n in parsed(path).body if isinstance(n, (ast.Import, ast.ImportFrom))]
            names = {a.name.split(".")[0] for n in top if isinstance(n, ast.Import) for a in n.names}
            names |= {n.module.split(".")[0] for n in top if isinstance(n, ast.ImportFrom) and n.module and not n.level}
            assert not names & set(OPTIONAL), path


def test_files_say_their_licence():
    def first_line(path):
        lines = path.read_text().splitlines()
        return next((line for line in lines[:2] if not line.startswith("#!")), "# SPDX-License-Identifier: Apache-2.0")

    assert [str(p) for p in OURS if first_line(p) != "# SPDX-License-Identifier: Apache-2.0"] == []
    assert len(OURS) > 30


def test_tests_lie_in_rooms():
    """A folder of tests is named as the room that they test; and no two files have one name."""
    tests = [
        path.relative_to(ROOT / "tests")
        for path in OURS
        if path.is_relative_to(ROOT / "tests") and path.name.startswith("test_")
    ]
    rooms = {str(path.parent.relative_to(PACKAGE)).removeprefix("_") for path in FILES}
    assert {str(path.parent) for path in tests} - rooms == {"benchmarks", "pages"}
    assert len({path.name for path in tests}) == len(tests) > 100


def function_lengths(path):
    """Yield (name, lines) of each function: from `def` to its end, without its docstring."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = node.body[0] if ast.get_docstring(node) is not None else None
            yield node.name, node.end_lineno - node.lineno + 1 - (text.end_lineno - text.lineno + 1 if text else 0)


def test_functions_are_short():
    """Fewer than 50 lines each. A docstring does not count, as that of a public function is a page of its own."""
    lengths = {f"{path.relative_to(ROOT)}: {name}": lines for path in OURS for name, lines in function_lengths(path)}
    assert {name: lines for name, lines in lengths.items() if lines >= 50} == {}
    assert max(lengths.values()) > 40


def test_long_functions_are_found(tmp_path):
    """The test above can fail: for lines of code, and not for those of a docstring."""
    lines = ["    x = 1\n"] * 49
    (tmp_path / "long.py").write_text("def f():\n" + "".join(lines))
    (tmp_path / "said.py").write_text('def f():\n    """Say\n\n    it.\n    """\n' + "".join(lines[1:]))
    assert [list(function_lengths(tmp_path / f"{name}.py")) for name in ("long", "said")] == [[("f", 50)], [("f", 49)]]


def test_every_room_says_what_it_is_for():
    def first_line(path):
        return (ast.get_docstring(parsed(path)) or "").partition("\n")[0]

    assert [name_of(path) for path in FILES if not first_line(path).endswith((".", "?"))] == []


def test_user_input_is_never_guarded_by_assert():
    """An assert is gone under python -O: it may say what we know, never what a user did."""
    for path in FILES:
        found = [n.lineno for n in ast.walk(parsed(path)) if isinstance(n, ast.Assert)]
        assert len(found) <= 3, f"{path}: {found}"
