# SPDX-License-Identifier: Apache-2.0
"""The loaders of C++: what they take, what they name, and what two loaded sources have in common: nothing."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent
from brainevent.errors import (
    CompilationError,
    KernelError,
    KernelLoadError,
    KernelRegistrationError,
)

ONE = jax.ShapeDtypeStruct((1,), jnp.float32)
INCLUDE = '#include "brainevent/common.h"\n'
# Writes VALUE.
CONSTANT = INCLUDE + "// @BE f ret\nvoid f(BE::Tensor out) { out.data_ptr<float>()[0] = VALUE; }\n"
TWICE = INCLUDE + (
    "void twice(const BE::Tensor x, BE::Tensor out) {\n"
    "  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];\n}\n"
)


def constant(value):
    return CONSTANT.replace("VALUE", str(value))


def value(mod):
    return float(mod.f(outs=ONE)[0])


def plain(target):
    return float(jax.ffi.ffi_call(target, ONE)()[0])


@pytest.fixture
def name(unique_name):
    return unique_name("loaded")


# ---- which functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [["twice"], ("twice",), {"twice": ["arg", "ret"]}, {"twice": ["args", "rets"]}])
def test_functions_are_named_by_a_list_or_a_dict(functions):
    mod = brainevent.load_cpp_inline("twice", TWICE, functions)
    assert mod.function_names == ["twice"]
    np.testing.assert_array_equal(mod.twice(jnp.arange(3.0), outs=jnp.arange(3.0)), [0, 2, 4])


def test_functions_are_found_by_their_annotations():
    assert brainevent.load_cpp_inline("annotated", constant(1)).function_names == ["f"]


@pytest.mark.parametrize("loader", [brainevent.load_cpp_inline, brainevent.load_cuda_inline])
@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ("twice", r"functions is the string 'twice'; pass \['twice'\]"),
        (None, "No '// @BE <function> <tokens>' in the source"),
        ([], "functions is empty"),
        ({}, "functions is empty"),
        (3, "functions is 3; pass a dict, a list of names, or None"),
        (["twices"], "function 'twices' not found.*did you mean 'twice'"),
        (["twice", "twice"], "Duplicate entry for function 'twice'"),
        (["tw;ice"], "'tw;ice' is not an ASCII C identifier"),
        ({"twice": "arg ret"}, r"the value of 'twice' is the string 'arg ret'; pass a list: \['arg', 'ret'\]"),
        ({"twice": ["arg", "out"]}, "Invalid arg_spec token 'out'"),
    ],
    ids=str,
)
def test_invalid_function_lists_are_refused(loader, functions, words):
    with pytest.raises(KernelError, match=words) as caught:
        loader("m", TWICE, functions)
    assert f"{loader.__name__}('m')" in str(caught.value)


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loader", [brainevent.load_cpp_inline, brainevent.load_cuda_inline])
@pytest.mark.parametrize(
    "wrong", ["a/b", "..", "a..b", "/a", 'a"b', "a'b", "a b", "", "-o", ".a", "a\nb", "ä", 3, None]
)
def test_names_that_are_no_file_names_are_refused(loader, wrong):
    with pytest.raises(KernelError, match="is not a valid module name; pass 1 to 100 of the characters"):
        loader(wrong, constant(1))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("prefix", ["other", "a/b;$(c)", "../"])
def test_a_prefix_is_a_name_for_jax_alone(name, prefix):
    mod = brainevent.load_cpp_inline(name, constant(4), target_prefix=prefix + name)
    targets = brainevent.list_registered_targets()
    assert f"{prefix}{name}.f" in targets
    assert f"{name}.f" not in targets
    assert plain(f"{prefix}{name}.f") == value(mod) == 4


@pytest.mark.thorough
def test_targets_are_listed_in_order(name):
    functions = [f"// @BE {each} ret\nvoid {each}(BE::Tensor) {{}}" for each in ("z", "a", "m")]
    brainevent.load_cpp_inline(name, "\n".join([INCLUDE, *functions]))
    targets = brainevent.list_registered_targets()
    assert targets == sorted(targets)
    assert {f"{name}.{each}" for each in ("z", "a", "m")} <= set(targets)


def test_without_registration_the_callables_work():
    name = "never_registered"  # in no test of an earlier run either: what JAX keeps of programs would name its target
    before = brainevent.list_registered_targets()
    mod = brainevent.load_cpp_inline(name, constant(5), auto_register=False)
    assert value(mod) == 5
    assert brainevent.list_registered_targets() == before
    with pytest.raises(jax.errors.JaxRuntimeError, match="No FFI handler registered"):
        plain(f"{name}.f")


def test_a_name_that_is_taken_is_refused_with_advice(name):
    old = brainevent.load_cpp_inline(name, constant(1))
    brainevent.load_cpp_inline(name, constant(1))  # the same content is no conflict
    with pytest.raises(KernelRegistrationError) as caught:
        brainevent.load_cpp_inline(name, constant(2))
    for words in (f"'{name}.f' on cpu is already registered to different content", old.path, "replace=True", "name="):
        assert words in str(caught.value)
    assert "target_prefix=" in str(caught.value)
    assert "auto_register=False" in str(caught.value)
    assert plain(f"{name}.f") == 1
    assert value(brainevent.load_cpp_inline(name, constant(2), target_prefix=f"{name}_2")) == 2
    assert plain(f"{name}_2.f") == 2


def test_replacing_a_source_redirects_what_is_called_by_name(name):
    old = brainevent.load_cpp_inline(name, constant(1))
    jitted = jax.jit(jax.ffi.ffi_call(f"{name}.f", ONE))
    bound = jax.jit(lambda: old.f(outs=ONE))
    assert float(jitted()[0]) == float(bound()[0]) == 1
    new = brainevent.load_cpp_inline(name, constant(2), replace=True)
    assert plain(f"{name}.f") == float(jitted()[0]) == value(new) == 2
    assert value(old) == float(bound()[0]) == 1
    with pytest.raises(KernelRegistrationError, match="already registered to different content"):
        brainevent.load_cpp_inline(name, constant(1))  # the old one is other content now
    brainevent.load_cpp_inline(name, constant(1), replace=True)
    assert plain(f"{name}.f") == float(jitted()[0]) == 1


def test_a_replacement_of_other_arity_is_reported_when_it_is_called(name):
    brainevent.load_cpp_inline(name, constant(1))
    source = INCLUDE + "// @BE f arg ret\nvoid f(const BE::Tensor x, BE::Tensor out) {}\n"
    brainevent.load_cpp_inline(name, source, replace=True)
    with pytest.raises(jax.errors.JaxRuntimeError, match="called with 0 and 1, declared with 1 and 1"):
        plain(f"{name}.f")


# ---- sources --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_several_sources_are_one_text():
    first = INCLUDE + "static float half(float x) { return x / 2; }"
    mod = brainevent.load_cpp_inline("joined", [first, constant("half(5)").replace(INCLUDE, "")])
    assert value(mod) == 2.5


@pytest.mark.parametrize(("wrong", "line"), [(0, 3), (1, 2)])
def test_errors_name_the_source_and_its_line(wrong, line):
    sources = [INCLUDE + "\nstatic int a;\n", "// @BE f ret\nvoid f(BE::Tensor out) {}\n"]
    broken = [source.replace("a;", "a = nonsense;").replace("{}", "{ nonsense; }") for source in sources]
    sources[wrong] = broken[wrong]
    with pytest.raises(CompilationError, match=rf"\npieces_{wrong}\.cpp:{line}:\d+: error: .*nonsense"):
        brainevent.load_cpp_inline("pieces", sources)


@pytest.mark.parametrize("language", ["cpp", "cuda"])
@pytest.mark.parametrize("wrong", [b"void f();", 3, None, Path("kernels.cu"), [INCLUDE, None], (INCLUDE, b"")])
def test_a_source_that_is_no_text_is_refused(wrong, language):
    loader = f"load_{language}_inline"
    words = (
        rf"{loader}\('m'\): a source is a string, found .*; pass the text, .*; for a file, call load_{language}_file"
    )
    with pytest.raises(TypeError, match=words):
        getattr(brainevent, loader)("m", wrong)


def test_no_source_at_all_is_refused():
    with pytest.raises(KernelError, match=r"load_cpp_inline\('m'\): the list of sources is empty; pass the text"):
        brainevent.load_cpp_inline("m", [])


@pytest.mark.parametrize(
    ("functions", "second", "words"),
    [
        (None, "// @BE f ret\n// @BE f ret", r"load_cpp_inline\('two'\), two_1\.cpp:2: Duplicate entry"),
        (None, "\n// @BE f\nvoid f(int n) {}", r"two_1\.cpp:2: No Tensor.*void f\(int n\) of two_1\.cpp:3"),
        (["f"], "void f(BE::Tensor);\nvoid f(BE::Tensor, int);", r"overloaded \(two_1\.cpp:1: .* and two_1\.cpp:2: "),
        (["f"], "\nint f(BE::Tensor x);", r"'f', two_1\.cpp:2, returns 'int'"),
        (["f"], "\n\nint g(", r"the parenthesis of two_1\.cpp:3 is never closed"),
        ({"f": ["arg", "ret"]}, "void f(BE::Tensor x) {}", r"C\+\+, two_1\.cpp:1: void f"),
    ],
)
def test_errors_of_declarations_name_the_source_and_its_line(functions, second, words):
    with pytest.raises(KernelError, match=words):
        brainevent.load_cpp_inline("two", ["#define A\n\nint a;\n", second], functions)
    with pytest.raises(KernelError, match=r"\('one'\).*line \d"):
        brainevent.load_cpp_inline("one", second, functions)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip(),
        lambda text: text + "// ends in a backslash \\",
        lambda text: "#define N 3\n#define T float\n" + text.replace("VALUE", "T(VALUE)"),
        lambda text: text + "#define N 3\n#define T float\n",
        lambda text: "#include <algorithm>\n" + text.replace("// @BE", "using namespace std;\n// @BE"),
        lambda text: text.replace('"', "<", 1).replace('"', ">", 1),
        lambda text: text + "// \udcff \x00 \u2028 ü\n",
    ],
)
def test_texts_may_be_of_many_kinds(change):
    mod = brainevent.load_cpp_inline("kinds", change(CONSTANT), extra_cflags=["-DVALUE=7"], replace=True)
    assert value(mod) == 7


def test_the_header_need_not_be_included():
    source = "// @BE f ret\nvoid f(BE::Tensor out) { out.data_ptr<float>()[0] = 8; }"
    assert value(brainevent.load_cpp_inline("headless", source)) == 8


def test_macros_of_any_name_do_not_reach_the_handlers():
    """One macro for each word of the generated code."""
    words = (
        "arg ret call detail handle attribute attributes frame offsets values signature stream Call Signature Tensor"
    )
    macros = "".join(f"#define {word} broken\n" for word in [*words.split(), "Attribute", "BE", "result0", "x", "i"])
    source = INCLUDE + "// @BE f ret attr.v:int32\nvoid f(BE::Tensor out, int v) { out.data_ptr<float>()[0] = v; }\n"
    mod = brainevent.load_cpp_inline("macros", source + macros)
    assert float(mod.f(outs=ONE, v=9)[0]) == 9


@pytest.mark.thorough
def test_entry_points_may_have_the_names_of_the_generated_code():
    names = ["call", "frame", "values", "offsets", "handle", "be_f", "f", "copy", "path", "result0"]
    source = (
        INCLUDE
        + "#include <algorithm>\nusing namespace std;\n"
        + "".join(
            f"// @BE {each} ret\nvoid {each}(BE::Tensor& out) {{ out.data_ptr<float>()[0] = {i}; }}\n"
            for i, each in enumerate(names)
        )
    )
    mod = brainevent.load_cpp_inline("names", source)
    assert [float(mod.functions[each](outs=ONE)[0]) for each in names] == list(range(len(names)))
    assert mod.path.endswith("names.so")  # an attribute of every module; the function is in `functions`
    assert float(mod.call(outs=ONE)[0]) == 0


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_file_is_named_after_its_stem(tmp_path):
    (tmp_path / "my_kernels.cpp").write_text(constant(3))
    mod = brainevent.load_cpp_file(tmp_path / "my_kernels.cpp")
    assert value(mod) == plain("my_kernels.f") == 3
    assert os.path.basename(mod.path) == "my_kernels.so"
    named = brainevent.load_cpp_file(str(tmp_path / "my_kernels.cpp"), ["f"], name="another_name")
    assert os.path.basename(named.path) == "another_name.so"
    assert plain("another_name.f") == 3


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("file", ['a b/it\'s "ünï" \\ $(x);.cpp', 't??/".cpp', os.fsdecode(b"not\xffutf8.cpp")])
def test_a_path_may_have_any_characters(tmp_path, file, name):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "value.h").write_text("#define VALUE 6\n")
    path.write_text('#include "value.h"\n' + CONSTANT)
    assert value(brainevent.load_cpp_file(path, name=name, extra_include_paths=[path.parent])) == 6
    path.write_text('\n#include "value.h"\nnonsense;\n' + CONSTANT)
    with pytest.raises(CompilationError, match=r":3:1: error: .*nonsense.* does not name a type"):
        brainevent.load_cpp_file(path, name=name)
    with pytest.raises(KernelError, match=r"is not a valid module name.*give the module another name: name='.*'"):
        brainevent.load_cpp_file(path)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(("file", "advised"), [("2d.cpp", "_2d"), ("my kernel.v2.cpp", "my_kernel_v2"), ("ü.cpp", "_")])
def test_a_stem_that_cannot_be_a_name_is_refused_with_another(tmp_path, file, advised):
    (tmp_path / file).write_text(constant(1))
    words = (
        rf"load_cpp_file\('.*{file}'\): '.*' is not a valid module name; .*; or give .* another name: name='{advised}'"
    )
    with pytest.raises(KernelError, match=words):
        brainevent.load_cpp_file(tmp_path / file)
    assert value(brainevent.load_cpp_file(tmp_path / file, name=advised)) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    "title", ["brainevent_handlers.cpp", "generated", "generated.cpp", "handlers.cpp", "library.so"]
)
def test_a_file_may_have_the_names_of_what_is_generated(tmp_path, title, name):
    (tmp_path / title).write_text("nonsense;\n" + constant(1))
    with pytest.raises(CompilationError, match=rf"\n{title}:1:1: error: .*nonsense(.|\n)*\n +1 \| nonsense;") as caught:
        brainevent.load_cpp_file(tmp_path / title, name=name)
    assert caught.value.stage == "compile"
    (tmp_path / title).write_text(constant(1))
    assert value(brainevent.load_cpp_file(tmp_path / title, name=name)) == 1


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(KernelError, match=r"load_cpp_file\('.*'\): .* is a folder; pass the path of one file"):
        brainevent.load_cpp_file(tmp_path)
    with pytest.raises(
        KernelError, match=r"is a folder; call load_cuda_dir for all its .cu files, or pass the path of"
    ):
        brainevent.load_cuda_file(tmp_path)
    with pytest.raises(TypeError, match=r"load_cpp_file: 3, of type int, is not a path; pass a str or Path"):
        brainevent.load_cpp_file(3)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "marked.cpp").write_bytes(b"\xef\xbb\xbf" + constant(2).encode())
    assert value(brainevent.load_cpp_file(tmp_path / "marked.cpp")) == 2


@pytest.mark.thorough
def test_texts_may_begin_with_a_byte_order_mark():
    assert value(brainevent.load_cpp_inline("marked_2", ["\ufeff", "\ufeff" + constant(2)])) == 2


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    (tmp_path / "kernels.cpp").write_text(constant(1))
    with pytest.raises(FileNotFoundError, match=r"load_cpp_file\('.*kernel\.cpp'\).*in that folder: kernels\.cpp"):
        brainevent.load_cpp_file(tmp_path / "kernel.cpp")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*x\.cpp$"):
        brainevent.load_cpp_file(tmp_path / "nowhere" / "x.cpp")
    (tmp_path / "latin.cpp").write_bytes(b"// gr\xfc\xdfe\n")
    with pytest.raises(KernelError, match=r"latin\.cpp is not UTF-8 text \(byte 5\); save it as UTF-8"):
        brainevent.load_cpp_file(tmp_path / "latin.cpp")


FORMS = ["through", "path", "macro"]
FORMS += [pytest.param(form, marks=pytest.mark.thorough) for form in ("beside", "angles", "flag", "absolute")]


@pytest.fixture(params=FORMS)
def including(request, tmp_path):
    """A way to include value.h: the function that loads, and the header's path."""
    folder = tmp_path / ("source" if request.param in ("beside", "through", "macro") else "elsewhere")
    folder.mkdir()
    (tmp_path / "source").mkdir(exist_ok=True)
    header = folder / "value.h"
    line = {
        "through": '#include "outer.h"',
        "angles": "#include <value.h>",
        "macro": '#define HEADER "value.h"\n#include HEADER',
        "absolute": f'#include "{header}"',
    }.get(request.param, '#include "value.h"')
    (tmp_path / "source" / "outer.h").write_text('#include "value.h"\n')
    file = tmp_path / "source" / f"{request.param}.cpp"
    file.write_text(line + "\n" + CONSTANT)
    options = {}
    if request.param in ("path", "angles"):
        options = {"extra_include_paths": [str(folder)]}
    if request.param == "flag":
        options = {"extra_cflags": ["-I", str(folder)]}
    if request.param == "absolute":
        return header, lambda **more: brainevent.load_cpp_inline("absolute", file.read_text(), **more)
    return header, lambda **more: brainevent.load_cpp_file(file, **options, **more)


@pytest.mark.covering(strength=0)
def test_an_edited_header_makes_another_library(including):
    header, load = including
    header.write_text("#define VALUE 1\n")
    old = load(auto_register=False)
    header.write_text("#define VALUE 2\n")
    new = load(auto_register=False)
    assert (value(old), value(new)) == (1, 2)
    assert old.content_hash != new.content_hash
    (header.parent / "other.h").write_text("#define VALUE 3\n")
    if "macro" not in new.path:  # there, any header may be the one
        assert load(auto_register=False).content_hash == new.content_hash


# ---- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["extra_cflags", "extra_ldflags"])
@pytest.mark.parametrize(
    ("wrong", "advised"),
    [
        ("-O2", ["-O2"]),
        (b"-O2", ["-O2"]),
        (["-O2", 3], ["-O2", "3"]),
        ([Path("-O1")], ["-O1"]),
        (Path("-O1"), ["-O1"]),
        (3, ["3"]),
    ],
)
def test_flags_are_a_list(option, wrong, advised):
    words = f"load_cpp_inline('m'): {option} is {wrong!r}; pass a list of strings, such as {option}={advised!r}"
    with pytest.raises(TypeError, match=re.escape(words)):
        brainevent.load_cpp_inline("m", constant(1), **{option: wrong})


def test_folders_must_be_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"extra_include_paths names .*missing, and there is no such folder"):
        brainevent.load_cpp_inline("m", constant(1), extra_include_paths=[str(tmp_path / "missing")])
    with pytest.raises(TypeError, match=r"extra_include_paths is '.*'; pass a list"):
        brainevent.load_cpp_inline("m", constant(1), extra_include_paths=str(tmp_path))


def test_a_flag_reaches_the_source_and_the_key(name):
    modules = [
        brainevent.load_cpp_inline(name, CONSTANT, extra_cflags=[f"-DVALUE={v}"], auto_register=False) for v in (1, 2)
    ]
    assert [value(mod) for mod in modules] == [1, 2]
    assert len({mod.content_hash for mod in modules}) == 2


@pytest.mark.thorough
def test_other_libraries_can_be_linked(tmp_path, name):
    (tmp_path / "seven.cpp").write_text('extern "C" int seven() { return 7; }')
    library = tmp_path / "libseven.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "seven.cpp", "-o", library], check=True)
    source = '#include <cmath>\nextern "C" int seven();\n' + constant("seven() + std::cos(0.0)")
    flags = ["-lm", f"-L{tmp_path}", "-lseven"]
    with pytest.raises(KernelLoadError, match=r"a library that it needs is not found.*-Wl,-rpath,FOLDER"):
        brainevent.load_cpp_inline(name, source, extra_ldflags=flags)
    assert value(brainevent.load_cpp_inline(name, source, extra_ldflags=[*flags, f"-Wl,-rpath,{tmp_path}"])) == 8


def test_an_undefined_symbol_is_explained(name):
    source = 'extern "C" int nowhere_defined();\n' + constant("nowhere_defined()")
    with pytest.raises(KernelLoadError, match=r"undefined symbol: nowhere_defined.*extra_ldflags=\['-lNAME'\]"):
        brainevent.load_cpp_inline(name, source)


@pytest.mark.thorough
def test_a_build_directory_is_kept(tmp_path, name, capsys, own_cache):
    folder = tmp_path / "build here"
    folder.mkdir()
    (folder / f"{name}.cpp").write_text("the user's own")
    mod = brainevent.load_cpp_inline(name, constant(1), build_directory=folder, verbose=True)
    (library,) = folder.rglob("*.so")
    assert library.read_bytes() == Path(mod.path).read_bytes()
    assert not mod.path.startswith(str(folder))
    assert (folder / f"{name}.cpp").read_text() == "the user's own"
    printed = capsys.readouterr().out
    assert "-std=c++17 -shared -fPIC" in printed
    assert "-O3" in printed
    with pytest.raises(CompilationError, match="nonsense"):  # at the line of the new text
        brainevent.load_cpp_inline(name, "\n\n" + constant("nonsense"), build_directory=folder)


@pytest.mark.thorough
def test_one_build_directory_serves_several_builds_at_once(tmp_path, unique_name, own_cache):
    names, modules = [unique_name("together") for _ in range(4)], {}

    def load(i):
        modules[i] = brainevent.load_cpp_inline(names[i], constant(i), build_directory=tmp_path)

    in_threads([lambda i=i: load(i) for i in range(4)])
    assert [value(modules[i]) for i in range(4)] == [0, 1, 2, 3]


@pytest.mark.thorough
def test_verbose_is_silent_about_what_is_built_already(name, capsys, own_cache):
    brainevent.load_cpp_inline(name, constant(1))
    brainevent.load_cpp_inline(name, constant(1), verbose=True)
    assert capsys.readouterr().out == ""
    mod = brainevent.load_cpp_inline(name, constant(1), verbose=True, force_rebuild=True)
    assert capsys.readouterr().out.strip().endswith("-o generated/library.so")
    assert value(mod) == 1


# ---- modules do not meet --------------------------------------------------------------------------------------------

STATEFUL = """
#include "brainevent/common.h"
struct Counter { static Counter& get() { static Counter it; return it; } int count = START; };
inline int next() { static int calls = START; return ++calls; }
template <typename T> T templated() { static T calls = START; return ++calls; }
int global_variable = START;
inline int inline_variable = START;
extern "C" int plain_function() { return START; }
// @BE f ret
void f(BE::Tensor out) {
  float* row = out.data_ptr<float>();
  row[0] = next(), row[1] = templated<int>(), row[2] = ++global_variable, row[3] = ++inline_variable;
  row[4] = ++Counter::get().count, row[5] = plain_function();
}
"""


def test_two_modules_share_no_symbols(unique_name):
    call = lambda mod: mod.f(outs=jax.ShapeDtypeStruct((6,), jnp.float32)).tolist()
    first, second = (
        brainevent.load_cpp_inline(unique_name("state"), STATEFUL.replace("START", start)) for start in ("10", "20")
    )
    assert [call(mod) for mod in (first, second, first)] == [[11] * 5 + [10], [21] * 5 + [20], [12] * 5 + [10]]


def test_a_module_keeps_its_state_when_it_is_loaded_again(name):
    call = lambda mod: float(mod.f(outs=jax.ShapeDtypeStruct((6,), jnp.float32))[0])
    source = STATEFUL.replace("START", "0")
    counts = [call(brainevent.load_cpp_inline(name, source)) for _ in range(3)]
    assert counts == [1, 2, 3]


def in_threads(jobs):
    errors = []

    def run(job):
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.thorough
def test_several_threads_may_load_at_once(unique_name, own_cache):
    same, others, modules = unique_name("same"), [unique_name("own") for _ in range(3)], []
    load = lambda each, number: modules.append((number, brainevent.load_cpp_inline(each, constant(number))))
    in_threads([lambda: load(same, 9)] * 4 + [lambda i=i: load(others[i], i) for i in range(3)])
    assert len(modules) == 7
    assert all(value(mod) == number for number, mod in modules)


# ---- modules as objects ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mod():
    more = "// @BE gain ret\nvoid gain(BE::Tensor out) { out.data_ptr<float>()[0] = 2; }\n"
    return brainevent.load_cpp_inline("objects", constant(1) + more)


@pytest.mark.thorough
def test_a_module_tells_what_it_is(mod):
    assert repr(mod) == f"CompiledModule(path={mod.path!r}, functions=['f', 'gain'])"
    assert os.path.isfile(mod.path)
    assert mod.path.startswith(brainevent.get_cache_dir())
    assert re.fullmatch(r"sha256:[0-9a-f]{16}", mod.content_hash)
    assert mod.content_hash.removeprefix("sha256:") in mod.path
    assert {"f", "gain", "path", "get_handler"} <= set(dir(mod))
    assert list(mod.functions) == mod.function_names == ["f", "gain"]


def test_a_handler_is_a_function_of_ctypes(mod):
    handler = mod.get_handler("gain")
    assert ctypes.cast(handler, ctypes.c_void_p).value
    with pytest.raises(KeyError, match=r"no function 'gian'; did you mean 'gain'\?; it has: f, gain"):
        mod.get_handler("gian")
    with pytest.raises(AttributeError, match=r"no function 'gian'; did you mean 'gain'"):
        mod.gian  # noqa: B018 - to raise


@pytest.fixture
def by_hand(mod, tmp_path, monkeypatch):
    """The same library as a file of the user's."""
    shutil.copy(mod.path, tmp_path / "mine.so")
    monkeypatch.chdir(tmp_path)
    return brainevent.CompiledModule("mine.so", ("f", "gain"))


def test_a_library_can_be_opened_by_hand(by_hand, tmp_path, name):
    assert by_hand.path == str(tmp_path / "mine.so")
    assert by_hand.functions == {}
    with pytest.raises(AttributeError, match="it has: none that can be called so"):
        by_hand.f(outs=ONE)
    content = by_hand.content_hash
    assert content == f"sha256:{hashlib.sha256((tmp_path / 'mine.so').read_bytes()).hexdigest()[:16]}"
    brainevent.register_ffi_target(f"{name}.g", by_hand, "gain", platform="cpu")
    brainevent.register_ffi_target(f"{name}.g", by_hand, "gain", platform="cpu")
    assert plain(f"{name}.g") == 2
    os.unlink("mine.so")
    assert by_hand.content_hash == content
    with pytest.raises(KernelRegistrationError, match="already registered to different content"):
        brainevent.register_ffi_target(f"{name}.g", by_hand, "f", platform="cpu")
    brainevent.register_ffi_target(f"{name}.g", by_hand, "f", platform="cpu", replace=True)
    assert plain(f"{name}.g") == 1
    with pytest.raises(KeyError, match="did you mean 'gain'"):
        brainevent.register_ffi_target(f"{name}.h", by_hand, "gains", platform="cpu")
    assert f"{name}.h" not in brainevent.list_registered_targets()


def test_a_content_id_says_what_is_the_same(by_hand, mod, name):
    brainevent.register_ffi_target(name, by_hand, "f", platform="cpu", content_id="one")
    brainevent.register_ffi_target(name, mod, "f", platform="cpu", content_id="one")
    with pytest.raises(KernelRegistrationError):
        brainevent.register_ffi_target(name, by_hand, "f", platform="cpu", content_id="two")


def test_a_library_without_the_symbol_is_refused(mod):
    with pytest.raises(KernelError, match=r"has no symbol 'be_missing'; was it built from other source"):
        brainevent.CompiledModule(mod.path, ["f", "missing"])


def test_a_library_of_other_making_keeps_its_names(tmp_path, name):
    (tmp_path / "foreign.cpp").write_text('extern "C" void* be_f(void*) { return nullptr; }')
    library = tmp_path / "foreign.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "foreign.cpp", "-o", library], check=True)
    foreign = brainevent.CompiledModule(library, ["f"])
    handler, cell = foreign.redirected("f")
    assert (handler, cell) == (foreign.get_handler("f"), None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no library", "cannot load the library .*(file too short|invalid ELF header).*; build it again with force_r"),
        (b"", "cannot load the library .*file too short"),
        (None, "was removed before it was loaded .*; load the source again"),
    ],
)
def test_what_is_no_library_is_refused(tmp_path, content, words):
    path = tmp_path / "broken.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KernelLoadError, match=words):
        brainevent.CompiledModule(path, ["f"])


# ---- nothing before it is needed ------------------------------------------------------------------------------------


def test_importing_the_package_creates_nothing(tmp_path):
    program = """
        import os, sys, brainevent
        brainevent.load_cpp_inline, brainevent.load_cuda_file, brainevent.get_cache_dir(), brainevent.clear_cache()
        brainevent.list_registered_targets()
        print(sorted(os.listdir(os.environ["HOME"])), "numba" in sys.modules)
    """
    environment = {"HOME": str(tmp_path), "BRAINEVENT_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    assert run_program(program, **environment) == "[] False\n"


@pytest.mark.thorough
def test_of_several_functions_all_are_registered_or_none(unique_name):
    name = unique_name("together")
    two = "// @BE a ret\nvoid a(BE::Tensor) {}\n// @BE b ret\nvoid b(BE::Tensor) {}"
    brainevent.load_cpp_inline(name, f"{INCLUDE}\n// @BE b ret\nvoid b(BE::Tensor) {{}}")
    with pytest.raises(brainevent.KernelRegistrationError, match=rf"'{name}\.b' on cpu is already registered"):
        brainevent.load_cpp_inline(name, f"{INCLUDE}\n{two}")
    assert f"{name}.a" not in brainevent.list_registered_targets()


def test_a_variable_shows_more_of_the_toolchain_with_an_error(monkeypatch):
    monkeypatch.setenv("BRAINEVENT_TOOLCHAIN_DEBUG", "1")
    with pytest.raises(brainevent.CompilationError, match=r"compiler: HostCompiler\(command=") as caught:
        brainevent.load_cpp_inline("debugged", f"{INCLUDE}\n// @BE f ret\nvoid f(BE::Tensor) {{ nonsense; }}")
    assert "search path: " in str(caught.value)
