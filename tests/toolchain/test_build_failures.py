# SPDX-License-Identifier: Apache-2.0
"""What users are told of a disk that is full, of flags that are refused, and of the command that failed."""

import errno
import os
import pickle
import re
import subprocess
import tempfile
import traceback

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent
from brainevent.errors import CompilationError, KernelCompilationError, KernelError, UnsupportedArchError
from brainevent.toolchain import build as builds
from brainevent.toolchain import cache, directory, process
from brainevent.toolchain.refused import refuse_flags

KEY = "0123456789abcdef"
SOURCE = """#include "brainevent/common.h"
// @BE f ret
void f(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }
"""


@pytest.fixture
def base(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(directory, "_given_up", {})
    cache.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    cache.set_cache_dir(None)


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of its own, with room for less than a build."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


def value(mod):
    return float(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32))[0])


# ---- a full disk ----------------------------------------------------------------------------------------------------


def test_a_full_disk_is_named_and_libraries_go_elsewhere(small_disk, base, tmp_path):
    cache.set_cache_dir(small_disk / "cache")
    said = (
        rf"{small_disk}/cache cannot be written \(No space left on device\), .* go to {tmp_path}/temporary.*; free some"
    )
    with pytest.warns(UserWarning, match=said):
        mod = brainevent.load_cpp_inline("full", SOURCE, auto_register=False)
    assert value(mod) == 7
    assert mod.path.startswith(str(tmp_path / "temporary"))
    assert list((small_disk / "cache").glob("full_*")) == []


def test_what_a_tool_says_is_kept_without_files_in_memory(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    finished = process.run(["sh", "-c", "echo said; exit 3"], tmp_path, 60)
    assert finished == process.Finished(3, "said\n", late=False)
    assert list(tmp_path.iterdir()) == []


def test_a_full_build_directory_is_named(small_disk, base):
    with pytest.raises(CompilationError) as caught:
        brainevent.load_cpp_inline("full", SOURCE, build_directory=small_disk / "build")
    text = str(caught.value)
    assert text.startswith(f"load_cpp_inline('full'): compilation failed: the disk that holds {small_disk}/build")
    assert "is full; free some space there, or choose another directory with set_cache_dir(...) or build_dir" in text
    assert "No space left on device" in text
    assert text.endswith(f"command: {caught.value.command}")
    assert "No space left on device" in caught.value.compiler_output


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_cannot_be_written_for_lack_of_room_is_built_elsewhere(base, number):
    folders = []

    def build(folder):
        folders.append(folder)
        if folder.parent == base:
            raise OSError(number, os.strerror(number))
        (folder / "made").write_bytes(b"good")
        return folder / "made"

    with pytest.warns(UserWarning, match=rf"{base} cannot be written \({os.strerror(number)}\).*free some space, or"):
        assert cache.read("m", KEY, build) == b"good"
    assert cache.read("m", KEY, build) == b"good"
    assert len(folders) == 2


def test_no_room_anywhere_is_an_error(base, monkeypatch):
    real = builds._write

    def full(path, *arguments):
        if path.name == "handlers.cpp":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, *arguments)

    monkeypatch.setattr(builds, "_write", full)
    with pytest.warns(UserWarning, match="free some space"), pytest.raises(KernelError) as caught:
        brainevent.load_cpp_inline("full", SOURCE, auto_register=False)
    assert "temporary/brainevent-" in str(caught.value)
    assert "cannot be written (No space left on device); choose another directory" in str(caught.value)
    assert "compilation failed: the disk that holds " in str(caught.value.__cause__)


# ---- flags that are refused -----------------------------------------------------------------------------------------


REFUSED = {
    "reads more flags from a file": ["@FILE", "-optf FILE", "--options-file=FILE"],
    "sets the path of the library": ["-o x", "-ox", "--output=x", "--output-file x", "-odir x", "--output-directory=x"],
    "writes a list": [
        "-M",
        "-MM",
        "-MD",
        "-MMD",
        "-MF x",
        "-MJ x",
        "--dependencies",
        "--generate-dependencies-with-compile",
    ],
    "keeps intermediate files": ["-save-temps", "-save-temps=obj", "--save-temps", "--keep", "-keep-dir x"],
    "lets a file choose": ["-specs=FILE", "--specs=FILE", "--config=FILE"],
    "runs another program": [
        "-wrapper gdb,--args",
        "-fplugin=x.so",
        "-fpass-plugin=x.so",
        "-Xclang -load",
        "-B/opt/bin",
        "-B x",
        "--prefix=x",
        "-ccbin x",
        "--compiler-bindir=x",
        "-fuse-ld=/opt/ld",
        "--ld-path=x",
        "-fmodule-mapper=|x",
        "-run",
        "--run-args x",
    ],
    "writes files of its own": [
        "-aux-info x",
        "-fdump-tree-all=x",
        "-fdump-go-spec=x",
        "-dumpdir x",
        "-dD",
        "--coverage",
        "-ftest-coverage",
        "-fprofile-dir=x",
        "-fcallgraph-info",
        "-fopt-info=x",
        "-fopt-info-all=x",
        "-fopt-info-vec-missed=x",
        "-fstack-usage",
        "-fsave-optimization-record",
        "-foptimization-record-file=x",
        "-ftime-trace=x",
        "-fdevice-time-trace x",
        "--time x",
        "-time=x",
        "-a=x",
        "-adhln=x",
        "-fdiagnostics-format=sarif-file",
        "-fdiagnostics-add-output=sarif:file=x",
        "-coverage",
        "-fmodule-header",
        "-fmodules-ts",
        "-gsplit-dwarf",
        "-diagnostic-log-file x",
        "-fproc-stat-report=x",
        "-save-stats=obj",
        "-Xclang -stats-file=x",
        "-mllvm -info-output-file=x",
        "-fmemory-profile=x",
        "--host-linker-script=gen-lcs",
        "-aug-hls",
    ],
    "deletes what was built": ["-clean", "--clean-targets"],
}
PASSED_ON = {
    "reads more flags from a file": [
        "-Wl,@FILE",
        "-Wp,-DA,@FILE",
        "-Wa,@FILE",
        "-Xlinker @FILE",
        "-Xcompiler @FILE",
    ],
    "sets the path of the library": ["-Wl,-o,x", "-Wl,--outp=x", "-Xcompiler=-o,x", "--linker-options --output,x"],
    "writes a list": [
        "-Wp,-MD,x",
        "-Wl,-Map,x",
        "-Wl,--Map=x",
        "-Xcompiler -Wp,-MD,x",
        "-Wl,--dependency-file=x",
        "-Xcudafe -Lx",
        "-Xcudafe=-O1,-Xx",
    ],
    "keeps intermediate files": ["-Xcompiler -O2,-save-temps", "--compiler-options=-save-temps"],
    "writes files of its own": [
        "-Wa,-a=x",
        "-Wa,-adhlns=x",
        "-Xassembler -al=x",
        "-Wa,--MD=x",
        "-Xcompiler -fopt-info-all=x",
        "-Xcompiler=-Wa,-a=x",
        "-Xcudafe --error_output=x",
        "-Xcudafe --gen_c_file_name=x",
        "-Wl,--reproduce=x",
        "-Wl,--time-trace=x",
        "-Wl,--out-implib=x",
        "-Wl,--print-archive-stats=x",
    ],
    "runs another program": [
        "-Wl,--error-handling-script=x",
        "-Wl,-plugin,x.so",
        "-Xcompiler -wrapper",
        "-Xlinker --plugin=x.so",
    ],
}
KEPT = [
    *(
        "-I /@x",
        "-I/opt",
        "-L/opt",
        "-lm",
        "-l:a.a",
        "-include a.h",
        "-imacros a.h",
        "--pre-include a.h",
        "-DA=@b",
        "-D A",
    ),
    *("-march=native", "-mavx2", "-Ofast", "-O2", "-pie", "-fopenmp", "-static-libgcc", "-Wl,-rpath,/opt"),
    *("-Wl,-Bstatic", "-Wl,-Bsymbolic", "-fuse-ld=gold", "-fdiagnostics-color=never", "-dc", "-dlink"),
    *("-fopt-info-vec", "-arch=sm_90", "-ansi", "-Wa,-al", "-ftime-report", "-Xcudafe --diag_suppress=177"),
    *("-Wl,--wrap=malloc", "-Wl,--orphan-handling=warn", "-Xlinker -z -Xlinker now", "-Xcompiler -Wall,-O3"),
    *("-dryrun", "-default-stream per-thread", "-diag-suppress 177", "-device-debug", "-dlto", "-dopt=on", "-gdwarf-4"),
    *("-Xnvlink --dump-callgraph", "-Xcompiler -L/opt", "-flto", "-Wl,--print-map", "-keep-device-functions"),
    *("-opt-info inline", "-maxrregcount=32", "-Xptxas -v", "--ptxas-options=-v"),
]


@pytest.mark.parametrize("option", ["extra_cflags", "extra_cuda_cflags", "extra_ldflags"])
def test_a_flag_that_reaches_files_or_programs_is_refused(option):
    wrong = {}
    for reason, texts in [*REFUSED.items(), *PASSED_ON.items()]:
        for text in texts:
            try:
                refuse_flags("here", option, ["-O2", *text.split()])
                wrong[text] = "kept"
            except KernelError as error:
                if not re.match(rf"here: {option} has ['\"].*; this {reason}", str(error)):
                    wrong[text] = str(error)
    assert wrong == {}


@given(st.lists(st.sampled_from(KEPT)), st.sampled_from(["extra_cflags", "extra_cuda_cflags", "extra_ldflags"]))
def test_other_flags_are_kept(texts, option):
    words = [word for text in texts for word in text.split()]
    assert refuse_flags("here", option, words) is None


def test_no_flag_shows_a_file_of_the_users(tmp_path):
    (tmp_path / "secret").write_text("password")
    for option in ({"extra_cflags": [f"@{tmp_path}/secret"]}, {"extra_ldflags": [f"-Wl,@{tmp_path}/secret"]}):
        with pytest.raises(
            KernelError, match=r"load_cpp_inline\('leaky'\): extra_.* has .*@.*secret.*; this reads"
        ) as caught:
            brainevent.load_cpp_inline("leaky", SOURCE, **option)
        assert "password" not in str(caught.value)


# ---- what an error holds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CompilationError, brainevent.HostCompilerIncompatibleError, UnsupportedArchError])
def test_the_command_is_part_of_the_text(kind):
    error = kind("it failed", compiler_output="nonsense", command="g++ a.cpp")
    assert str(error) == "it failed\nnonsense\ncommand: g++ a.cpp"
    assert (error.compiler_output, error.command) == ("nonsense", "g++ a.cpp")
    assert str(kind("g++ a.cpp failed", command="g++ a.cpp")) == "g++ a.cpp failed"
    assert str(kind("it failed")) == "it failed"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_errors_of_unsupported_architectures_have_no_stage():
    assert (CompilationError("a").stage, UnsupportedArchError("a").stage) == ("compile", "")
    with pytest.raises(UnsupportedArchError) as caught:
        brainevent.load_cuda_inline("ancient", SOURCE, compute_capability="1.3")
    assert caught.value.stage == ""


def raises_of_its_own(*, outs):
    try:
        raise KeyError("deeper")
    except KeyError:
        raise LookupError("of its own") from ValueError("before")


@pytest.mark.parametrize("filtering", ["off", "tracebackhide", "remove_frames", "quiet_remove_frames"])
@pytest.mark.parametrize("transforms", [(), (jax.jit,), (jax.vmap, jax.jit)])
def test_the_cause_is_the_generators_own_error(unique_name, filtering, transforms):
    """In a transformed function, JAX's stack trace of where the operator was called comes before it."""
    operator = brainevent.XLACustomKernel(unique_name("causes"))
    operator.def_kernel("broken", "cpu", raises_of_its_own)
    call = lambda x: operator(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))
    for transform in transforms:
        call = transform(call)
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", filtering)
    try:
        with pytest.raises(KernelCompilationError) as caught:
            call(jnp.ones((2, 3)))
    finally:
        jax.config.update("jax_traceback_filtering", before)
    cause = caught.value.__cause__
    assert (type(cause), cause.args) == (LookupError, ("of its own",))
    assert type(cause.__cause__) is ValueError
    text = "".join(traceback.format_exception(caught.value))
    traces = re.findall(r"^[\w.]*?(\w+)(?=: )", text, re.MULTILINE)
    found = [name for name in traces if name.endswith(("Error", "Transformation"))]
    assert found[-3:] == ["ValueError", "LookupError", "KernelCompilationError"]
    assert found[:-3] == ["JaxStackTraceBeforeTransformation"] * bool(transforms)
