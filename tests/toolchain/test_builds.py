# SPDX-License-Identifier: Apache-2.0
"""Builds: what their errors say, what decides whether one is needed, and that no process disturbs another."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from forked import run_forked
from hypothesis import given
from hypothesis import strategies as st
from programs import ROOT, run_program

import brainevent
from brainevent.errors import CompilationError, HostCompilerNotFoundError, KernelError
from brainevent.toolchain import build as builds
from brainevent.toolchain import cache, directory, probe
from brainevent.toolchain.build import Build
from brainevent.toolchain.find import CudaToolkit, HostCompiler, find_host_compiler
from brainevent.toolchain.signature import resolve_functions
from brainevent.toolchain.wrap import Source, translation_unit

INCLUDE = '#include "brainevent/common.h"\n'
SOURCE = INCLUDE + "// @BE f ret\nvoid f(BE::Tensor out) { out.data_ptr<float>()[0] = 1; }\n"


def wrapper(path, body):
    """Write a compiler of a few lines of shell, which tells its version as g++ does."""
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec g++ --version;; esac\n{body}\n')
    path.chmod(0o755)
    return str(path)


# ---- errors ---------------------------------------------------------------------------------------------------------

BROKEN = """
#include "brainevent/common.h"

// @BE f ret
void f(BE::Tensor out) {
  int n = missing;
  out.data_ptr<float>()[0] = n;
}
"""


def test_a_compile_error_shows_the_lines_of_the_user():
    with pytest.raises(CompilationError) as caught:
        brainevent.load_cpp_inline("broken", BROKEN)
    error, text = caught.value, str(caught.value)
    assert text.startswith("load_cpp_inline('broken'): compilation failed\n")
    assert BROKEN.splitlines()[5] == "  int n = missing;"
    assert re.search(r"^broken\.cpp:6:11: error: .*missing.*declared", text, re.MULTILINE)
    assert re.search(r"^ +6 \|   int n = missing;$", text, re.MULTILINE)
    assert f"\ncommand: {error.command}" in text
    assert " -std=c++17 " in error.command
    assert error.stage == "compile"
    assert "broken.cpp:6:" in error.compiler_output
    assert str(brainevent.get_cache_dir()) not in text.partition("command:")[0]


def test_a_wrong_type_is_shown_at_the_function():
    """The parser cannot know an alias: the compiler judges, and shows where it was declared."""
    source = f"using Other = int*;\n{INCLUDE}void f(Other x, BE::Tensor out) {{}}\n"
    with pytest.raises(CompilationError, match=r"aliased\.cpp:3:14: note: +initializing argument 1 of"):
        brainevent.load_cpp_inline("aliased", source, {"f": ["attr.x:int32", "ret"]})


def test_long_outputs_are_cut_in_the_message_alone():
    with pytest.raises(CompilationError) as caught:
        brainevent.load_cpp_inline("long", SOURCE + "".join(f"nonsense_{i};\n" for i in range(100)))
    assert "nonsense_2" in str(caught.value)
    assert "nonsense_99" not in str(caught.value)
    assert "nonsense_99" in caught.value.compiler_output
    lines = sum(bool(line.strip()) for line in caught.value.compiler_output.splitlines())
    assert f"... {lines - 60} more lines in the error's compiler_output\ncommand: " in str(caught.value)


def test_a_link_error_is_shown_with_the_command():
    with pytest.raises(CompilationError, match=r"compilation failed\n.*cannot find -lnowhere") as caught:
        brainevent.load_cpp_inline("unlinked", SOURCE, extra_ldflags=["-lnowhere"])
    assert caught.value.command.endswith("-lnowhere")


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    with pytest.raises(HostCompilerNotFoundError, match=r"\$CXX names /nonexistent/g\+\+, which does not exist"):
        brainevent.load_cpp_inline("nothing", SOURCE)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo out of paper; exit 3", "compilation failed\nout of paper\ncommand: "),
        ("exit 3", r"compilation failed\n\(the compiler printed nothing; exit status 3\)"),
        ("kill -9 $$", r"compilation failed\n\(the compiler printed nothing; exit status -9\)"),
        (r"printf 'caf\351\n'; exit 1", "compilation failed\ncaf\ufffd\n"),
        ("exit 0", r"the compiler made no library; .*\n\(the compiler printed nothing\)\ncommand: "),
    ],
)
def test_a_compiler_that_fails_is_quoted(tmp_path, monkeypatch, body, words):
    monkeypatch.setenv("CXX", wrapper(tmp_path / "cxx", body))
    with pytest.raises(KernelError, match=words):
        brainevent.load_cpp_inline("failing", SOURCE)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@pytest.mark.thorough
def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", wrapper(tmp_path / "cxx", f"sleep 1000 & echo $! > {tmp_path}/child; wait"))
    monkeypatch.setenv("BRAINEVENT_COMPILE_TIMEOUT", "1")
    with pytest.raises(
        CompilationError, match="it took more than 1 s; set BRAINEVENT_COMPILE_TIMEOUT to more"
    ) as caught:
        brainevent.load_cpp_inline("hanging", SOURCE)
    assert caught.value.command.startswith(f"{tmp_path}/cxx ")
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_running(child))


def test_what_a_compiler_leaves_running_is_not_awaited(tmp_path, monkeypatch, own_cache):
    """A compiler cache may start a server; it holds the compiler's output open."""
    monkeypatch.setenv("CXX", wrapper(tmp_path / "cxx", f'sleep 1000 & echo $! > {tmp_path}/child; exec g++ "$@"'))
    monkeypatch.setenv("BRAINEVENT_COMPILE_TIMEOUT", "60")
    mod = brainevent.load_cpp_inline("served", SOURCE)
    server = int((tmp_path / "child").read_text())
    try:
        assert is_running(server)
        assert mod.function_names == ["f"]
    finally:
        os.kill(server, signal.SIGKILL)


@pytest.mark.parametrize("text", ["soon", "", "0", "-1", "nan"])
def test_an_invalid_time_limit_is_refused(monkeypatch, text, own_cache):
    monkeypatch.setenv("BRAINEVENT_COMPILE_TIMEOUT", text)
    with pytest.raises(ValueError, match=f"BRAINEVENT_COMPILE_TIMEOUT is '{text}'; set it to a number of seconds"):
        brainevent.load_cpp_inline("limited", SOURCE)


def test_there_may_be_no_time_limit(monkeypatch, own_cache):
    monkeypatch.setenv("BRAINEVENT_COMPILE_TIMEOUT", "inf")
    assert brainevent.load_cpp_inline("unlimited", SOURCE).function_names == ["f"]


# ---- the key --------------------------------------------------------------------------------------------------------


def a_build(**changes):
    fields = {
        "where": "here",
        "sources": (Source("m.cpp", SOURCE),),
        "functions": resolve_functions(SOURCE, None, "here"),
        "compiler": HostCompiler(("/usr/bin/g++",), "g++ 1", "PATH"),
        "ffi_include_dir": jax.ffi.include_dir(),
        "versions": ("1.0", "0.10"),
    }
    return Build(**{**fields, **changes})


TOOLKIT = CudaToolkit("/cuda/bin/nvcc", "/cuda", ("/cuda/include",), ("/cuda/lib",), "13.0", "PATH")
CUDA = {"toolkit": TOOLKIT, "architectures": ("9.0",), "optimization_level": 3, "in_graphs": True}


def renamed(functions, **changes):
    return tuple(dataclasses.replace(spec, **changes) for spec in functions)


@pytest.mark.parametrize("base", [{}, CUDA], ids=["c++", "cuda"])
@pytest.mark.parametrize(
    "change",
    [
        {"sources": (Source("m.cpp", SOURCE + " "),)},
        {"sources": (Source("m.cpp", SOURCE), Source("", ""))},
        {"sources": (Source("other.cpp", SOURCE),)},
        {"functions": renamed(a_build().functions, name="g")},
        {"functions": a_build().functions * 2},
        {"functions": renamed(a_build().functions, parameters=())},
        {"cflags": ("-Da", "-Db")},
        {"cflags": ("-Db", "-Da")},
        {"cflags": ("-Da -Db",)},
        {"ldflags": ("-lm",)},
        {"include_paths": ("/a", "/b")},
        {"include_paths": ("/b", "/a")},
        {"source_folder": "/a"},
        {"compiler": HostCompiler(("/usr/bin/g++",), "g++ 2", "PATH")},
        {"versions": ("1.1", "0.10")},
        {"versions": ("1.0", "0.11")},
        {"in_graphs": None},
        {"optimization_level": 0},
    ],
    ids=str,
)
def test_the_key_changes_with_everything(base, change):
    before = a_build(**base)
    if "in_graphs" in change:
        change = {"in_graphs": not before.in_graphs}
    after = dataclasses.replace(before, **change)
    assert before.key() != after.key()
    assert re.fullmatch("[0-9a-f]{16}", after.key())


def test_different_changes_have_different_keys():
    changes = [{"cflags": ("-Da", "-Db")}, {"cflags": ("-Db", "-Da")}, {"cflags": ("-Da -Db",)}, {"ldflags": ("-Da",)}]
    changes += [{"include_paths": ("/a",)}, {"source_folder": "/a"}, {}, CUDA]
    assert len({a_build(**change).key() for change in changes}) == len(changes)


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ("9.0", "10.0")},
        {"architectures": ("9.0a",)},
        {"use_fast_math": True},
        {"toolkit": dataclasses.replace(TOOLKIT, version="13.1")},
        {"toolkit": dataclasses.replace(TOOLKIT, library_dirs=())},
        {"toolkit": None},
    ],
    ids=str,
)
def test_the_key_changes_with_the_options_of_cuda(change):
    before = a_build(**CUDA)
    assert before.key() != dataclasses.replace(before, **change).key()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "1"), ("NVCC_APPEND_FLAGS", "-G"), ("NVCC_PREPEND_FLAGS", "-G")],
)
def test_the_key_changes_with_the_variables_of_nvcc(monkeypatch, variable, value):
    monkeypatch.delenv(variable, raising=False)
    cpp, cuda = a_build().key(), a_build(**CUDA).key()
    monkeypatch.setenv(variable, value)
    assert a_build(**CUDA).key() != cuda
    assert a_build().key() == cpp


@pytest.mark.parametrize(
    "change",
    [
        {"where": "there"},
        {"verbose": True},
        {"compiler": HostCompiler(("/opt/bin/g++",), "g++ 1", "$CXX")},  # the same compiler, installed elsewhere
        {},
    ],
    ids=str,
)
def test_the_key_is_the_same_otherwise(monkeypatch, change):
    monkeypatch.setenv("BRAINEVENT_COMPILE_TIMEOUT", "7")
    assert a_build(**change).key() == dataclasses.replace(a_build()).key()


def test_the_key_tells_what_the_toolkit_is_and_not_where():
    elsewhere = dataclasses.replace(TOOLKIT, nvcc="/opt/nvcc", include_dirs=("/opt/include",))
    assert a_build(**{**CUDA, "toolkit": elsewhere}).key() == a_build(**CUDA).key()


@pytest.mark.parametrize(
    ("body", "asked_again"),
    [('exec {real} "$@"', False), ('exec {real} -m64 "$@"', False), ('exec "$REAL" "$@"', True), ("{real} $*", True)],
)
def test_a_script_that_always_runs_the_same_compiler_is_remembered(tmp_path, monkeypatch, body, asked_again):
    real = find_host_compiler().command[0]
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "g++"
    wrapper.write_text("#!/bin/sh\n" + body.format(real=real) + "\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    monkeypatch.setenv("REAL", real)
    commands, run = [], probe.run
    monkeypatch.setattr(probe, "run", lambda command: commands.append(command) or run(command))
    for _ in range(2):
        monkeypatch.setattr(probe, "_remembered", {})  # as in a new process
        assert find_host_compiler(tmp_path / "memo").command == (str(wrapper),)
    assert commands.count([str(wrapper), "--version"]) == 1 + asked_again


@pytest.mark.thorough
def test_the_key_is_the_same_in_another_process():
    program = """
        from test_builds import CUDA, a_build
        print(a_build().key(), a_build(**CUDA).key())
    """
    found = run_program(program, PYTHONHASHSEED="1")  # this process has another
    assert found == f"{a_build().key()} {a_build(**CUDA).key()}\n"


def test_the_key_changes_with_our_own_headers(tmp_path, monkeypatch):
    own = tmp_path / "include" / "brainevent"
    own.mkdir(parents=True)
    (own / "common.h").write_text("// one")
    monkeypatch.setattr(builds, "INCLUDE_DIR", tmp_path / "include")
    keys = set()
    for text in ("// one", "// two", "// one"):
        (own / "common.h").write_text(text)
        builds._headers_digest.cache_clear()
        keys.add(a_build().key())
    builds._headers_digest.cache_clear()
    assert len(keys) == 2


@pytest.mark.parametrize(
    "native",
    [
        {"cflags": ("-march=native",)},
        {"cflags": ("-Xcompiler", "-fPIC,-mtune=native,-O2"), **CUDA},
        {"compiler": HostCompiler(("/usr/bin/g++", "-mcpu=native"), "g++ 1", "$CXX")},
    ],
    ids=str,
)
def test_code_for_this_processor_is_not_for_another(monkeypatch, native):
    keys = {}
    for processor in ("one", "two"):
        monkeypatch.setattr(builds, "_processor", lambda processor=processor: processor)
        keys[processor] = a_build(**native).key(), a_build().key()
    assert keys["one"][0] != keys["two"][0]
    assert keys["one"][1] == keys["two"][1]


def test_a_processor_is_known_by_what_it_can():
    assert builds._processor() == builds._processor.__wrapped__()
    assert len(builds._processor()) > 0


# ---- several processes ----------------------------------------------------------------------------------------------

LOAD = """
    import pathlib, sys, time, jax, jax.numpy as jnp, brainevent
    source, meeting, number = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    (meeting / str(time.time_ns())).touch()
    while len(list(meeting.iterdir())) < number:
        time.sleep(0.01)
    mod = brainevent.load_cpp_inline("shared", source)
    print(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32)))
"""


@pytest.fixture
def logging(tmp_path, own_cache):
    """A compiler that counts, as the environment of a process, and the lines of its log."""
    compiler = wrapper(tmp_path / "cxx", f'echo $$ >> {tmp_path}/log\nexec g++ "$@"')
    (tmp_path / "meeting").mkdir()
    log = lambda: (tmp_path / "log").read_text().splitlines()
    return {"CXX": compiler, "BRAINEVENT_CACHE_DIR": str(own_cache)}, tmp_path / "meeting", log


@pytest.mark.thorough  # test_cache_processes.py has them without a compiler
def test_eight_processes_compile_once(logging):
    environment, meeting, log = logging
    with ThreadPoolExecutor(8) as threads:
        ask = lambda _: run_program(LOAD, SOURCE, meeting, 8, timeout=300, **environment)
        assert list(threads.map(ask, range(8))) == ["[1.]\n"] * 8
    assert len(log()) == 1


@pytest.mark.thorough
def test_a_truncated_library_is_built_again(logging, own_cache):
    environment, meeting, log = logging
    load = lambda: run_forked(LOAD, SOURCE, meeting, 0, **environment)
    assert [load(), load()] == ["[1.]\n"] * 2
    assert len(log()) == 1
    (library,) = own_cache.glob("shared_*/shared.so")
    library.write_bytes(library.read_bytes()[:5000])
    assert load() == "[1.]\n"
    assert len(log()) == 2
    assert library.stat().st_size > 5000


@pytest.mark.thorough
def test_a_killed_build_leaves_nothing_that_blocks(tmp_path, own_cache):
    started = tmp_path / "started"
    body = f'[ -e {started} ] && exec g++ "$@"\necho partly > library.so\necho $$ > {started}\nexec sleep 1000'
    environment = {"CXX": wrapper(tmp_path / "cxx", body), "BRAINEVENT_CACHE_DIR": str(own_cache)}
    program = f"import brainevent; brainevent.load_cpp_inline('shared', {SOURCE!r})"
    builder = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **environment},
    )
    try:
        wait_until(lambda: started.exists() and started.read_text().endswith("\n"))
        assert list(own_cache.glob("shared_*")) == []
        builder.kill()
        assert builder.wait() == -signal.SIGKILL
        (tmp_path / "meeting").mkdir()
        assert run_forked(LOAD, SOURCE, tmp_path / "meeting", 0, **environment) == "[1.]\n"
    finally:
        builder.kill()
        builder.wait()
        os.kill(int(started.read_text()), signal.SIGKILL)


def test_a_cache_that_cannot_be_written_is_reported_once(tmp_path, monkeypatch):
    """Permission bits would not stop root: the calls are made to fail."""
    real, base = os.mkdir, tmp_path / "read-only"

    def refused(path, *arguments, **keywords):
        if str(path).startswith(str(base)):
            raise OSError(30, "Read-only file system", str(path))
        return real(path, *arguments, **keywords)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(os, "mkdir", refused)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(directory, "_given_up", {})
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(base))
    with pytest.warns(UserWarning, match=r"read-only cannot be written \(Read-only file system\)") as caught:
        first = brainevent.load_cpp_inline("fallen", SOURCE, auto_register=False)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = brainevent.load_cpp_inline("fallen", SOURCE, auto_register=False)
        other = brainevent.load_cpp_inline("fallen", SOURCE + "\n", auto_register=False)
    assert first.path == again.path != other.path
    for mod in (first, other):
        assert mod.path.startswith(str(tmp_path / "temporary"))
        assert float(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32))[0]) == 1


# ---- nothing is injected --------------------------------------------------------------------------------------------

LITERAL = re.compile(r'#line 1 "((?:[^"\\\n]|\\["\\])*)"')


@given(title=st.text() | st.text('"\\\n\r?/ab$`;\0\u2028'))
def test_a_title_stays_within_its_quotes(title):
    unit = translation_unit([Source(title, "int user;")], a_build().functions, in_graphs=False)
    lines = unit.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("#line 1 "))
    assert lines[at + 1] == "int user;"
    literal = LITERAL.fullmatch(lines[at])
    assert literal
    assert re.sub(r"\\(.)", r"\1", literal[1]) == "".join(c if c.isprintable() else "?" for c in title)
    assert all(line.isprintable() for line in lines)


@given(name=st.text() | st.text("./-_aZ0 ;$(`'\"\n"), loader=st.sampled_from(["load_cpp_inline", "load_cuda_inline"]))
def test_names_that_are_refused_reach_nothing(name, loader):
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}", name) and ".." not in name:
        assert cache.check_name(name, "here") == name
        return
    touched = []
    with pytest.MonkeyPatch.context() as patch:
        for module, function in ((subprocess, "Popen"), (os, "mkdir"), (os, "open"), (os, "rename")):
            patch.setattr(module, function, lambda *_, **__: touched.append(_))
        with pytest.raises(KernelError, match="is not a valid module name"):
            getattr(brainevent, loader)(name, SOURCE)
        with pytest.raises(KernelError, match="is not a valid module name"):
            brainevent.clear_cache(name)
    assert touched == []


@given(name=st.text() | st.text("ab(){};\n\"'#/*"))
def test_names_of_functions_and_attributes_are_identifiers(name):
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return
    for functions in ({name: ["ret"]}, [name], {"f": ["ret", f"attr.{name}:int32"]}):
        with pytest.raises(KernelError):
            resolve_functions(SOURCE, functions, "here")


def test_the_folder_of_a_file_is_an_argument_of_its_own(tmp_path):
    """Nothing is run by a shell, whatever the path says."""
    folder = tmp_path / "$(touch ran) ; touch ran `touch ran` -DVALUE=2"
    folder.mkdir()
    (folder / "k.cpp").write_text(SOURCE.replace("= 1", "= VALUE"))
    mod = brainevent.load_cpp_file(folder / "k.cpp", extra_cflags=["-DVALUE=3"], extra_include_paths=[folder])
    assert float(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32))[0]) == 3
    assert sorted(os.listdir(tmp_path)) == [folder.name]
