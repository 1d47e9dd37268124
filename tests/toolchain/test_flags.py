# SPDX-License-Identifier: Apache-2.0
"""What a build reads and writes besides its sources: what flags name, and the folder that it is given."""

import os
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import brainevent
from brainevent.errors import CompilationError, KernelError, KernelToolchainError
from brainevent.toolchain import flags as flag_words

pytestmark = pytest.mark.covering

# Writes VALUE.
CONSTANT = """#include "brainevent/common.h"
// @BE f ret
void f(BE::Tensor out) { out.data_ptr<float>()[0] = VALUE; }
"""


def constant(number):
    return CONSTANT.replace("VALUE", str(number))


def value(mod):
    return float(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32))[0])


@pytest.fixture
def name(unique_name):
    return unique_name("flagged")


# ---- flags ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["-I", "a", "-La", "-isystema", "-iquote", "a"], ["-I", "/A", "-L/A", "-isystem/A", "-iquote", "/A"]),
        (["-L", "a", "-la", "a", "-Wl,-rpath,a", "-I=a"], ["-L", "/A", "-la", "a", "-Wl,-rpath,a", "-I=/A"]),
        (["-include", "a.h", "-includea.h", "x.a", "-o", "-I"], ["-include", "a.h", "-includea.h", "x.a", "-o", "-I"]),
        (["-include", "b.h", "l.a", "l.so.1"], ["-include", "/B.h", "/L.a", "l.so.1"]),
        (["-I/opt", "-I", "-DA=a", "--include-path=a"], ["-I/opt", "-I", "/-DA=A", "--include-path=/A"]),
    ],
)
def test_paths_are_made_absolute(tmp_path, monkeypatch, given, made):
    for file in ("b.h", "l.a"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    expected = [
        word.replace("/-DA=A", f"{tmp_path}/-DA=a").replace("/A", f"{tmp_path}/a").replace("/B", f"{tmp_path}/b")
        for word in made
    ]
    assert list(flag_words.absolute_paths(given)) == [word.replace("/L", f"{tmp_path}/l") for word in expected]


def test_flags_end_at_no_zero():
    with pytest.raises(
        KernelError, match=r"extra_cflags has '-DA=\\x00', with a null character, .*; remove that character"
    ):
        brainevent.load_cpp_inline("m", constant(1), extra_cflags=["-DA=\0"])


MORE_FOLDERS = (["-I", "headers"], ["-isystem", "headers"], ["-Xpreprocessor", "-Iheaders"])


@pytest.mark.parametrize(
    "flags", [["-Iheaders"], *(pytest.param(flags, marks=pytest.mark.thorough) for flags in MORE_FOLDERS)]
)
@pytest.mark.thorough
def test_paths_in_flags_are_those_of_the_present_folder(tmp_path, monkeypatch, name, flags):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "value.h").write_text("#define VALUE 5\n")
    monkeypatch.chdir(tmp_path)
    load = lambda: brainevent.load_cpp_inline(name, "#include <value.h>\n" + CONSTANT, extra_cflags=flags, replace=True)
    assert value(load()) == 5
    (tmp_path / "headers" / "value.h").write_text("#define VALUE 6\n")
    assert value(load()) == 6


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("form", ["-include settings.h", "-includesettings.h", "-imacros settings.h"])
@pytest.mark.parametrize("there", [".", "headers"])
def test_a_file_that_a_flag_includes_is_part_of_the_key(tmp_path, monkeypatch, name, form, there):
    (tmp_path / "headers").mkdir()
    monkeypatch.chdir(tmp_path)
    values = []
    for number in (1, 2):
        (tmp_path / there / "settings.h").write_text('#include "more.h"\n')
        (tmp_path / there / "more.h").write_text(f"#define VALUE {number}\n")
        flags = [*form.split(), "-Iheaders"]
        values.append(value(brainevent.load_cpp_inline(name, CONSTANT, extra_cflags=flags, auto_register=False)))
    assert values == [1, 2]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    "flags", [["libseven.a"], ["-L", "./", "-l:libseven.a", "-Wl,libseven.a"], ["PATH/libseven.a"]]
)
@pytest.mark.thorough
def test_an_archive_is_part_of_the_key(tmp_path, monkeypatch, name, flags):
    monkeypatch.chdir(tmp_path)
    flags = [flag.replace("PATH", str(tmp_path)).replace("-Wl,", f"-Wl,{tmp_path}/") for flag in flags]
    source, values = 'extern "C" int seven();\n' + constant("seven()"), []
    for number in (7, 8):
        Path("seven.cpp").write_text(f'extern "C" int seven() {{ return {number}; }}')
        subprocess.run(["g++", "-c", "-fPIC", "seven.cpp", "-o", "seven.o"], check=True)
        subprocess.run(["ar", "rcs", "libseven.a", "seven.o"], check=True)
        values.append(value(brainevent.load_cpp_inline(name, source, extra_ldflags=flags, auto_register=False)))
    assert values == [7, 8]


@pytest.mark.thorough
def test_our_headers_pass_where_every_warning_is_an_error(name):
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    assert value(brainevent.load_cpp_inline(name, constant(3), extra_cflags=strict)) == 3
    with pytest.raises(CompilationError, match="ISO C\\+\\+ forbids"):  # in the user's own text
        brainevent.load_cpp_inline(name, constant(3) + "void g(int n) { int a[n]; (void)a; }", extra_cflags=strict)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("flag", ["-fsyntax-only", "--version"])
def test_a_compiler_that_makes_no_library_is_reported(tmp_path, name, flag):
    brainevent.load_cpp_inline(name, constant(1), build_directory=tmp_path)
    words = rf"the compiler made no library; leave out the flags .*, such as -fsyntax-only\n(.|\n)*command: .* {flag} "
    with pytest.raises(CompilationError, match=words):
        brainevent.load_cpp_inline(name, constant(1), extra_cflags=[flag], build_directory=tmp_path)


# ---- folders --------------------------------------------------------------------------------------------------------


def test_a_build_directory_is_writable_by_its_owner_only(tmp_path, name):
    load = lambda: brainevent.load_cpp_inline(name, constant(1), build_directory=tmp_path, force_rebuild=True)
    load()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == (folder / "generated").stat().st_mode & 0o777 == 0o700
    victim = tmp_path / "victim"
    links = [folder / f"{name}.cpp", folder / "generated" / "handlers.cpp", folder / "generated" / "library.so"]
    for link in links:
        victim.write_text("mine")
        link.unlink()
        link.symlink_to(victim)
    load()
    assert victim.read_text() == "mine"
    assert not any(link.is_symlink() for link in links)
    folder.chmod(0o777)
    with pytest.raises(
        KernelToolchainError, match=rf"\('{name}'\): .*mode 0777, .*chmod 700 .*pass another build_directory"
    ):
        load()
    shutil.rmtree(folder)
    folder.symlink_to(victim.parent)
    with pytest.raises(
        KernelToolchainError, match=r"is a file or a link, not a folder made by brainevent; remove it, or pass anoth"
    ):
        load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_build_folder_of_another_user_is_refused(tmp_path, name, own_cache):
    brainevent.load_cpp_inline(name, constant(1), build_directory=tmp_path / "builds")
    (folder,) = (tmp_path / "builds").iterdir()
    os.chown(folder, 12345, -1)
    with pytest.raises(
        KernelToolchainError, match=r"belongs to user 12345 and has mode 0700, .*pass another build_dir"
    ):
        brainevent.load_cpp_inline(name, constant(1), build_directory=tmp_path / "builds", force_rebuild=True)


def test_a_cache_directory_that_is_no_path_is_refused():
    with pytest.raises(
        TypeError, match=r"set_cache_dir: 3, of type int, is not a path; pass a str or Path of a directory"
    ):
        brainevent.set_cache_dir(3)
