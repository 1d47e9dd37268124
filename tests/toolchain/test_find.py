# SPDX-License-Identifier: Apache-2.0
"""Find compilers: in which order, what is said of those that do not serve, and how seldom one is asked."""

import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from brainevent import config, errors
from brainevent.toolchain import find, probe
from brainevent.toolchain.architectures import gpu_architectures

VARIABLES = (
    "CXX", "CONDA_PREFIX", "BRAINEVENT_NVCC_PATH", "BRAINEVENT_NVCC_PREFER", "BRAINEVENT_COMPUTE_CAPABILITIES",
    "CUDA_HOME", "CUDA_PATH", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "NVCC_CCBIN",
)  # fmt: skip
REAL_PATH = os.environ["PATH"]
TRIPLET = f"{platform.machine()}-conda-linux-gnu"


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    """Take away every compiler: only PATH/bin, which is empty, and no variable."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(find, "_DEFAULT_CUDA", str(tmp_path / "usr-local-cuda"))
    monkeypatch.setattr(find, "_SYSTEM_INCLUDE", str(tmp_path / "usr-include"))
    monkeypatch.setattr(probe, "_remembered", {})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    yield
    config.prefer_system_nvcc(False)
    config.set_compute_capability(None)


def script(path, body):
    """Write a program that the kernel starts as it starts a binary of any other kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def compiler(path, version="fake++ 1.0"):
    """Make a fake host compiler that writes each call into a file beside it."""
    return script(path, f'echo "$*" >> {path}.log\necho "{version}"\necho "Copyright"')


def new_process(monkeypatch):
    monkeypatch.setattr(probe, "_remembered", {})


def calls(path):
    log = Path(f"{path}.log")
    return log.read_text().splitlines() if log.exists() else []


def toolkit(root, release="13.0.88", *, headers=True, top=None):
    """Make a fake CUDA toolkit, whose nvcc describes itself as the real one does."""
    nvcc, top = root / "bin" / "nvcc", top or f"{root}/bin/.."
    script(
        nvcc,
        f'echo "$@" >> {nvcc}.log\ncase "$1" in\n--version) echo "nvcc: NVIDIA (R) Cuda compiler driver"\n'
        f'echo "Cuda compilation tools, release 1, V{release}"; echo "Build cuda_{release}/compiler.1";;\n*)'
        f' touch left_behind "$TMPDIR/left_behind_too"; echo "#$ _HERE_={root}/bin" >&2; echo "#$ TOP={top}" >&2\n'
        f"""echo '#$ INCLUDES="-I{top}/include"  ' >&2\n"""
        f"""echo '#$ SYSTEM_INCLUDES="-isystem" "{top}/include/cccl"  ' >&2\n"""
        f"""echo '#$ LIBRARIES=  "-L{top}/lib/stubs" "-L{top}/lib"' >&2;;\nesac""",
    )
    (root / "bin" / "nvcc.profile").write_text("TOP = $(_HERE_)/..\n")
    for folder in ("include/cccl", "lib/stubs"):
        (root / folder).mkdir(parents=True)
    if headers:
        (root / "include" / "cuda_runtime.h").touch()
    return nvcc


# The host's compiler.


def test_the_order_of_host_compilers(tmp_path, monkeypatch):
    """Each one added wins over all before it; one for another machine never does."""
    conda = tmp_path / "conda"
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    compiler(conda / "bin" / "sparc-conda-linux-gnu-c++")
    for path, origin in (
        (tmp_path / "bin" / "clang++", "PATH"),
        (tmp_path / "bin" / "c++", "PATH"),
        (tmp_path / "bin" / "g++", "PATH"),
        (conda / "bin" / "clang++", "$CONDA_PREFIX"),
        (conda / "bin" / "c++", "$CONDA_PREFIX"),
        (conda / "bin" / "g++", "$CONDA_PREFIX"),
        (conda / "bin" / f"{TRIPLET}-g++", "$CONDA_PREFIX"),
        (conda / "bin" / f"{TRIPLET}-c++", "$CONDA_PREFIX"),
    ):
        compiler(path, f"version of {path}")
        assert find.find_host_compiler() == find.HostCompiler((str(path),), f"version of {path}", origin)
    named = compiler(tmp_path / "named")
    monkeypatch.setenv("CXX", str(named))
    assert find.find_host_compiler() == find.HostCompiler((str(named),), "fake++ 1.0", "$CXX")


@pytest.mark.parametrize(
    ("text", "words", "version"),
    [
        ("mycxx", (), "fake++ 1.0"),
        ("mycxx -m64 '-DA=b c'", ("-m64", "-DA=b c"), "fake++ 1.0 -m64 '-DA=b c'"),
        ("  mycxx  ", (), "fake++ 1.0"),
    ],
)
def test_cxx_may_be_a_name_with_arguments(tmp_path, monkeypatch, text, words, version):
    path = compiler(tmp_path / "bin" / "mycxx")
    monkeypatch.setenv("CXX", text)
    assert find.find_host_compiler() == find.HostCompiler((str(path), *words), version, "$CXX")
    assert calls(path) == [" ".join([*words, "--version"])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}/absent", "$CXX names {}/absent, which does not exist"),
        ("absent++ -m64", "$CXX names absent++ -m64, which does not exist: no 'absent++' on PATH"),
        ("{}/bin", "$CXX names {}/bin, which is not a file"),
        ("{}/plain", "which is not executable; run: chmod +x {}/plain"),
        ("{}/broken", "which does not run: status 3, it prints: second; third"),
        ("{}/silent", "which does not print its version"),
        ("{}/no-program", "which cannot be run: Exec format error"),
        ("g++ 'oops", "which is not a command: No closing quotation"),
    ],
)
def test_a_named_host_compiler_must_serve(tmp_path, monkeypatch, text, said):
    compiler(tmp_path / "bin" / "g++")
    (tmp_path / "plain").touch()
    script(tmp_path / "broken", "echo first; echo second; echo third >&2; exit 3")
    script(tmp_path / "silent", "exit 0")
    script(tmp_path / "no-program", "").write_bytes(b"\x00\x01")
    monkeypatch.setenv("CXX", text.format(tmp_path))
    with pytest.raises(errors.HostCompilerNotFoundError) as caught:
        find.find_host_compiler()
    assert said.format(tmp_path) in str(caught.value)
    assert "[E-CXX]" in str(caught.value)
    assert "Correct $CXX, or unset it" in str(caught.value)
    monkeypatch.setenv("CXX", "")
    assert find.find_host_compiler().origin == "PATH"


def gone(pid):
    """Wait a little for the end of a process, of which a zombie may remain."""
    for _ in range(500):
        try:
            if not Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_the_search_goes_on_after_a_broken_compiler_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "TIMEOUT", 0.2)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    (tmp_path / "conda" / "bin").mkdir(parents=True)
    script(tmp_path / "bin" / "g++", "exit 1")
    script(tmp_path / "bin" / "c++", f"/bin/sleep 60 &\necho $! > {tmp_path}/sleeper\nwait")
    good = compiler(tmp_path / "bin" / "clang++")
    assert find.find_host_compiler().command == (str(good),)
    assert gone(int((tmp_path / "sleeper").read_text())), "what a hanging compiler started ends with it"
    assert find.host_compiler_candidates() == [
        ("$CXX", "", "not set"),
        ("$CONDA_PREFIX", f"{tmp_path}/conda/bin", f"has none of {TRIPLET}-c++, {TRIPLET}-g++, g++, c++, clang++"),
        ("PATH", f"{tmp_path}/bin/g++", "does not run: status 1"),
        ("PATH", f"{tmp_path}/bin/c++", "does not run: no answer within 0.2 s"),
        ("PATH", f"{tmp_path}/bin/clang++", "found"),
    ]


def test_no_host_compiler(tmp_path):
    script(tmp_path / "bin" / "c++", "exit 1")
    with pytest.raises(errors.HostCompilerNotFoundError) as caught:
        find.find_host_compiler()
    text = str(caught.value)
    assert text.startswith("[E-CXX] no C++ compiler is found here. Tried:\n")
    for line in (
        "  $CXX: not set",
        "  $CONDA_PREFIX: not set",
        "  PATH: g++ is not on PATH",
        f"  PATH: {tmp_path}/bin/c++ does not run: status 1",
        "  PATH: clang++ is not on PATH",
        "  apt:   apt install g++",
        "  conda: conda install gxx",
    ):
        assert line in text.splitlines()
    assert "there is no pip package of a C++ compiler" in text


def test_a_command_that_leaves_something_running_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "TIMEOUT", 5.0)
    script(tmp_path / "bin" / "g++", f"/bin/sleep 30 &\necho $! > {tmp_path}/sleeper\necho fake++ 2")
    try:
        assert find.find_host_compiler().version == "fake++ 2"
    finally:
        os.kill(int((tmp_path / "sleeper").read_text()), 15)


def binary(path):
    """Make a compiler that is no script: a program of the system under another name, with a version of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/ls", path)
    return path


@pytest.fixture
def asked(monkeypatch):
    """Record every command that is run."""
    commands, run = [], probe.run
    monkeypatch.setattr(probe, "run", lambda command: commands.append(list(command)) or run(command))
    return commands


def test_a_host_compiler_is_asked_once_and_again_when_it_changes(tmp_path, monkeypatch, asked):
    path, memo = binary(tmp_path / "bin" / "g++"), tmp_path / "memo" / "deep"
    first = find.find_host_compiler(memo)
    assert find.find_host_compiler(memo) == first
    new_process(monkeypatch)
    assert find.find_host_compiler(memo) == first
    assert asked == [[str(path), "--version"]]
    os.utime(path, ns=(1, 1))
    assert find.find_host_compiler(memo) == first
    assert len(asked) == 2, "a changed compiler is asked again"
    new_process(monkeypatch)
    assert find.find_host_compiler(memo) == first
    assert len(asked) == 2, "what it said then is what the memo holds"
    new_process(monkeypatch)
    assert find.find_host_compiler() == first
    assert len(asked) == 3, "without a memo, each process asks"
    assert [file.suffix for file in memo.iterdir()] == [".json"]


def test_a_failure_is_not_remembered(tmp_path):
    script(tmp_path / "bin" / "g++", f"[ -e {tmp_path}/mended ] && echo fake++ 3")
    with pytest.raises(errors.HostCompilerNotFoundError):
        find.find_host_compiler(tmp_path / "memo")
    (tmp_path / "mended").touch()
    assert find.find_host_compiler(tmp_path / "memo").version == "fake++ 3"


@pytest.mark.parametrize("text", ["g++", "g++ -m64", "ccache g++"])
def test_what_may_run_another_compiler_is_asked_in_each_process(tmp_path, monkeypatch, text):
    compiler(tmp_path / "bin" / "g++")
    script(tmp_path / "bin" / "ccache", 'exec "$@"')
    monkeypatch.setenv("CXX", text)
    for times in (1, 2):
        new_process(monkeypatch)
        for _ in range(3):
            assert find.find_host_compiler(tmp_path / "memo").version.startswith("fake++ 1.0")
        assert len(calls(tmp_path / "bin" / "g++")) == times


def test_a_link_to_a_launcher_is_asked_in_each_process(tmp_path, monkeypatch, asked):
    (tmp_path / "bin" / "g++").symlink_to(binary(tmp_path / "ccache"))
    for times in (1, 2):
        new_process(monkeypatch)
        find.find_host_compiler(tmp_path / "memo")
        assert len(asked) == times


def changed(text, **said):
    record = json.loads(text)
    return json.dumps({**record, "said": {**record["said"], **said}})


BROKEN = {
    "empty": lambda text: "",
    "truncated": lambda text: text[: len(text) // 2],
    "not text": lambda text: b"\xff\xfe\x00",
    "a list": lambda text: "[1, 2]",
    "other fields": lambda text: changed(text, author="me"),
    "wrong types": lambda text: changed(text, library_dirs="ab"),
    "wrong version": lambda text: changed(text, version=1),
    "wrong file": lambda text: changed(text, files=[[]]),
    "other tool": lambda text: json.dumps({**json.loads(text), "key": "other"}),
    "no files": lambda text: json.dumps({**json.loads(text), "signatures": {}}),
    "no signatures": lambda text: json.dumps({**json.loads(text), "signatures": 7}),
    "deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("breakage", BROKEN)
def test_a_broken_memo_is_ignored_and_written_anew(tmp_path, monkeypatch, asked, breakage):
    binary(tmp_path / "bin" / "g++")
    memo = tmp_path / "memo"
    first = find.find_host_compiler(memo)
    (file,) = memo.iterdir()
    sound = file.read_text()
    broken = BROKEN[breakage](sound)
    file.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    new_process(monkeypatch)
    assert find.find_host_compiler(memo) == first
    assert len(asked) == 2
    assert file.read_text() == sound


def test_the_memo_is_what_is_read(tmp_path, monkeypatch):
    """The test above can fail: a sound memo is believed."""
    binary(tmp_path / "bin" / "g++")
    find.find_host_compiler(tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(changed(file.read_text(), version="believed"))
    new_process(monkeypatch)
    assert find.find_host_compiler(tmp_path).version == "believed"


@pytest.mark.parametrize("memo", ["a-file", "a-file/below", "taken"])
def test_a_memo_that_cannot_be_written_is_no_error(tmp_path, asked, memo):
    binary(tmp_path / "bin" / "g++")
    (tmp_path / "a-file").touch()
    find.find_host_compiler(tmp_path / "other")
    (name,) = [file.name for file in (tmp_path / "other").iterdir()]
    (tmp_path / "taken" / name / "full").mkdir(parents=True)
    probe._remembered.clear()
    assert find.find_host_compiler(tmp_path / memo).origin == "PATH"
    assert len(asked) == 2
    assert [file.name for file in (tmp_path / "taken").iterdir()] == [name], "no draft is left"


# CUDA's compiler.


def test_the_order_of_cuda_compilers(tmp_path, monkeypatch):
    """Each one added wins over all before it."""
    site = tmp_path / "site-packages" / "nvidia"
    for root, origin, variable in (
        (tmp_path / "usr-local-cuda", "/usr/local/cuda", None),
        (tmp_path / "system", "PATH", "PATH"),
        (site / "cuda_nvcc", "pip", None),
        (site / "cu9", "pip", None),
        (site / "cu11", "pip", None),
        (site / "cu13", "pip", None),
        (tmp_path / "path", "$CUDA_PATH", "CUDA_PATH"),
        (tmp_path / "home", "$CUDA_HOME", "CUDA_HOME"),
        (tmp_path / "named", "$BRAINEVENT_NVCC_PATH", "BRAINEVENT_NVCC_PATH"),
    ):
        nvcc = toolkit(root)
        if variable:
            monkeypatch.setenv(variable, str(root / "bin") if variable == "PATH" else str(root))
        importlib.invalidate_caches()
        found = find.find_cuda_toolkit()
        assert (found.nvcc, found.origin) == (str(nvcc), origin if origin[0] != "/" else str(root))
    assert [place for place in find.cuda_candidates() if place.outcome != "found"] == []
    for text in (str(nvcc), str(nvcc.parent)):
        monkeypatch.setenv("BRAINEVENT_NVCC_PATH", text)
        assert find.find_cuda_toolkit().nvcc == str(nvcc)


@pytest.mark.parametrize(
    ("setting", "variable", "origin"),
    [(False, None, "pip"), (False, "pip", "pip"), (False, "system", "PATH"), (True, None, "PATH")],
)
def test_the_preference(tmp_path, monkeypatch, setting, variable, origin):
    toolkit(tmp_path / "site-packages" / "nvidia" / "cu13")
    toolkit(tmp_path / "system")
    monkeypatch.setenv("PATH", f"{tmp_path}/system/bin")
    config.prefer_system_nvcc(setting)
    if variable:
        monkeypatch.setenv("BRAINEVENT_NVCC_PREFER", variable)
    assert find.find_cuda_toolkit().origin == origin
    assert sorted(place.origin for place in find.cuda_candidates() if place.outcome == "found") == ["PATH", "pip"]


def test_an_unknown_preference(monkeypatch):
    monkeypatch.setenv("BRAINEVENT_NVCC_PREFER", "conda")
    with pytest.raises(ValueError, match=r"BRAINEVENT_NVCC_PREFER is 'conda'; set it to 'pip' or 'system'"):
        find.find_cuda_toolkit()


def test_nvcc_is_asked_where_its_toolkit_is(tmp_path):
    toolkit(tmp_path / "cuda")
    wrapper = script(tmp_path / "bin" / "nvcc", f'exec {tmp_path}/cuda/bin/nvcc "$@"')
    assert find.find_cuda_toolkit() == find.CudaToolkit(
        nvcc=str(wrapper),
        root=str(tmp_path / "cuda"),
        include_dirs=(f"{tmp_path}/cuda/include", f"{tmp_path}/cuda/include/cccl"),
        library_dirs=(f"{tmp_path}/cuda/lib",),
        version="13.0.88 (cuda_13.0.88/compiler.1)",
        origin="PATH",
    )


def test_a_link_is_followed_unless_the_toolkit_is_linked_too(tmp_path):
    real = toolkit(tmp_path / "cuda")
    link = tmp_path / "bin" / "nvcc"
    link.symlink_to(real)
    assert find.find_cuda_toolkit().nvcc == str(real), "nvcc would look for its toolkit beside the link"
    (tmp_path / "bin" / "nvcc.profile").symlink_to(real.with_name("nvcc.profile"))
    assert find.find_cuda_toolkit().nvcc == str(link)


def test_probing_compilers_leaves_no_file_behind(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    script(tmp_path / "bin" / "touch", f'/bin/touch "$@" && echo {tmp_path} >> {tmp_path}/touched')
    nvcc = toolkit(tmp_path / "usr-local-cuda")
    find.find_cuda_toolkit()
    assert (tmp_path / "touched").exists()
    assert any("--dryrun" in line for line in calls(nvcc))
    assert list((tmp_path / "here").iterdir()) == list((tmp_path / "scratch").iterdir()) == []


def test_nvcc_is_asked_once_and_again_when_anything_of_it_changes(tmp_path, monkeypatch):
    memo, real = tmp_path / "memo", toolkit(tmp_path / "cuda")
    wrapper = script(tmp_path / "bin" / "nvcc", f'exec {real} "$@"')
    first = find.find_cuda_toolkit(memo)
    once = len(calls(real))
    assert once == 2, "the version and the dry run"

    def asks(change):
        before = len(calls(real))
        change()
        new_process(monkeypatch)
        found = find.find_cuda_toolkit(memo)
        return len(calls(real)) - before, found

    assert asks(lambda: None) == (0, first)
    assert asks(lambda: os.utime(wrapper, ns=(1, 1))) == (once, first)
    assert asks(lambda: os.utime(real, ns=(2, 2))) == (once, first)
    assert asks(lambda: os.utime(real.with_name("nvcc.profile"), ns=(3, 3))) == (once, first)
    assert asks(lambda: monkeypatch.setenv("NVCC_APPEND_FLAGS", "-O1")) == (once, first)
    real.write_text(real.read_text().replace("13.0.88", "13.1.2"))
    assert asks(lambda: None)[1].version == "13.1.2 (cuda_13.1.2/compiler.1)"
    assert asks(lambda: None)[0] == 0


def test_another_toolkit_behind_the_same_link_is_noticed(tmp_path, monkeypatch):
    toolkit(tmp_path / "cuda-1", top=f"{tmp_path}/current", release="1.0.0")
    toolkit(tmp_path / "cuda-2", top=f"{tmp_path}/current", release="2.0.0")
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "cuda-1")
    script(tmp_path / "bin" / "nvcc", f'exec {current}/bin/nvcc "$@"')
    assert find.find_cuda_toolkit(tmp_path / "memo").root == str(tmp_path / "cuda-1")
    current.unlink()
    current.symlink_to(tmp_path / "cuda-2")
    for _ in range(2):
        found = find.find_cuda_toolkit(tmp_path / "memo")
        assert (found.root, found.version) == (str(tmp_path / "cuda-2"), "2.0.0 (cuda_2.0.0/compiler.1)")
        new_process(monkeypatch)


NEEDS_HOST = """case "$*" in *-ccbin*) ;; *dryrun*)
echo 'gcc: No such file or directory'; echo 'nvcc fatal : Failed to preprocess host compiler properties.'; exit 1;; esac
[ "$1" = -ccbin ] && { echo "$2" > LOG; shift 2; }
"""


def test_nvcc_is_shown_a_host_compiler_when_it_finds_none(tmp_path, monkeypatch):
    nvcc = toolkit(tmp_path / "usr-local-cuda")
    lines = nvcc.read_text().split("\n", 1)
    nvcc.write_text(f"{lines[0]}\n{NEEDS_HOST.replace('LOG', f'{tmp_path}/shown')}{lines[1]}")
    with pytest.raises(errors.NvccNotFoundError, match=r"host compiler properties\. \(it needs a C\+\+ compiler"):
        find.find_cuda_toolkit()
    host = compiler(tmp_path / "host++")
    monkeypatch.setenv("CXX", f"{host} -m64")
    with pytest.raises(errors.NvccNotFoundError, match="it needs a C"):
        find.find_cuda_toolkit()
    monkeypatch.setenv("CXX", str(host))
    assert find.find_cuda_toolkit().root == str(tmp_path / "usr-local-cuda")
    assert (tmp_path / "shown").read_text().strip() == str(host)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}/absent", "names {}/absent, which does not exist"),
        ("{}/bin", "names {}/bin, which is a directory without nvcc"),
        ("{}/plain", "which is not executable; run: chmod +x {}/plain"),
        ("{}/broken", "which does not run: status 1, it prints: boom"),
        ("{}/liar", "which does not print its version as nvcc does"),
        ("{}/lost", "which does not print where its toolkit is: no TOP="),
    ],
)
def test_a_named_nvcc_must_serve(tmp_path, monkeypatch, text, said):
    toolkit(tmp_path / "usr-local-cuda")
    (tmp_path / "plain").touch()
    script(tmp_path / "broken", "echo boom; exit 1")
    script(tmp_path / "liar", "echo hello")
    script(tmp_path / "lost", "echo 'release 13.0, V13.0.1'")
    monkeypatch.setenv("BRAINEVENT_NVCC_PATH", text.format(tmp_path))
    with pytest.raises(errors.NvccNotFoundError) as caught:
        find.find_cuda_toolkit()
    assert "[E-NVCC] no CUDA compiler (nvcc): $BRAINEVENT_NVCC_PATH names " in str(caught.value)
    assert said.format(tmp_path) in str(caught.value)
    assert "Correct $BRAINEVENT_NVCC_PATH, or unset it" in str(caught.value)
    monkeypatch.delenv("BRAINEVENT_NVCC_PATH")
    assert find.find_cuda_toolkit().origin == find._DEFAULT_CUDA


def test_no_nvcc(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    plain = tmp_path / "site-packages" / "nvidia" / "cu13" / "bin" / "nvcc"
    plain.parent.mkdir(parents=True)
    plain.touch()
    script(tmp_path / "bin" / "nvcc", "echo no driver; exit 1")
    with pytest.raises(errors.NvccNotFoundError) as caught:
        find.find_cuda_toolkit()
    text = str(caught.value)
    assert text.startswith("[E-NVCC] no CUDA compiler (nvcc) is found here. Tried:\n")
    for line in (
        "  $BRAINEVENT_NVCC_PATH: not set",
        f"  $CUDA_HOME: {tmp_path}/home/bin/nvcc does not exist",
        "  $CUDA_PATH: not set",
        f"  pip: {plain} is not executable; run: chmod +x {plain}",
        f"  PATH: {tmp_path}/bin/nvcc does not run: status 1, it prints: no driver",
        f"  {tmp_path}/usr-local-cuda: {tmp_path}/usr-local-cuda/bin/nvcc does not exist",
        '  pip:   pip install "jax[cuda13]" nvidia-cuda-nvcc nvidia-cuda-cccl',
        "  conda: conda install -c nvidia cuda-nvcc cuda-cudart-dev",
        "  apt:   apt install nvidia-cuda-toolkit",
    ):
        assert line in text.splitlines()
    shutil.rmtree(tmp_path / "site-packages")
    (tmp_path / "bin" / "nvcc").unlink()
    importlib.invalidate_caches()
    assert find.cuda_candidates()[3:5] == [
        ("pip", "nvidia/cuNN/bin/nvcc", "no such file among the Python packages"),
        ("PATH", "nvcc", "is not on PATH"),
    ]


def test_an_nvcc_without_headers(tmp_path, monkeypatch):
    nvcc = toolkit(tmp_path / "usr-local-cuda", headers=False)
    with pytest.raises(errors.HeaderNotFoundError) as caught:
        find.find_cuda_toolkit()
    text = str(caught.value)
    assert text.startswith("[E-HDR] no CUDA compiler (nvcc) with cuda_runtime.h is found here. Tried:\n")
    assert f": {nvcc} has no cuda_runtime.h in {tmp_path}/usr-local-cuda/include, " in text
    assert "pip install nvidia-cuda-runtime" in text
    assert "conda install -c nvidia cuda-cudart-dev" in text
    monkeypatch.setenv("BRAINEVENT_NVCC_PATH", str(nvcc))
    with pytest.raises(errors.HeaderNotFoundError, match=r"\$BRAINEVENT_NVCC_PATH names .* which has no cuda_runtime"):
        find.find_cuda_toolkit()
    header = tmp_path / "usr-include" / "cuda_runtime.h"
    header.parent.mkdir()
    header.touch()
    assert str(header.parent) not in find.find_cuda_toolkit().include_dirs, "every compiler looks there by itself"


def test_the_search_goes_on_after_an_nvcc_without_headers(tmp_path):
    toolkit(tmp_path / "site-packages" / "nvidia" / "cu13", headers=False)
    toolkit(tmp_path / "usr-local-cuda")
    assert find.find_cuda_toolkit().root == str(tmp_path / "usr-local-cuda")


@pytest.mark.parametrize("release", ["12.9.1", "13.0.1"])
def test_headers_in_other_pip_packages(tmp_path, release):
    """The parts of CUDA 12 lie side by side, and are no parts of CUDA 13."""
    site = tmp_path / "site-packages" / "nvidia"
    toolkit(site / "cuda_nvcc", release, headers=False)
    for folder in ("cuda_runtime/include", "cuda_cccl/include", "cuda_runtime/lib"):
        (site / folder).mkdir(parents=True)
    (site / "cuda_runtime" / "include" / "cuda_runtime.h").touch()
    if release.startswith("13"):
        with pytest.raises(errors.HeaderNotFoundError):
            find.find_cuda_toolkit()
        (site / "cu13" / "include").mkdir(parents=True)
        (site / "cu13" / "include" / "cuda_runtime.h").touch()
        assert find.find_cuda_toolkit().include_dirs[-1] == str(site / "cu13" / "include")
        return
    found = find.find_cuda_toolkit()
    assert found.include_dirs[-2:] == (f"{site}/cuda_runtime/include", f"{site}/cuda_cccl/include")
    assert found.library_dirs == (f"{site}/cuda_nvcc/lib", f"{site}/cuda_runtime/lib")


def test_the_real_host_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", REAL_PATH)
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        pytest.skip("no C++ compiler on PATH")
    found = find.find_host_compiler(tmp_path / "memo")
    printed = subprocess.run([*found.command, "--version"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[0].split()[-1] in found.version
    assert os.access(found.command[0], os.X_OK)


def test_the_real_nvcc(monkeypatch):
    monkeypatch.setenv("PATH", REAL_PATH)
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    found = find.find_cuda_toolkit()
    assert any(os.path.exists(os.path.join(folder, "cuda_runtime.h")) for folder in found.include_dirs)
    assert any(name.startswith("libcudart") for folder in found.library_dirs for name in os.listdir(folder))
    printed = subprocess.run([found.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"V{found.version.split()[0]}" in printed


# For which GPUs.


def nvidia_smi(folder, answer, status=0):
    script(folder / "nvidia-smi", f'echo "$@" >> {folder}/nvidia-smi.log\nprintf "{answer}"\nexit {status}')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("8.6", ("8.6",)),
        ("86", ("8.6",)),
        (" sm_86 ", ("8.6",)),
        ("compute_90a", ("9.0a",)),
        (8.6, ("8.6",)),
        (12.0, ("12.0",)),
        (90, ("9.0",)),
        ("100,8.0, sm_90a,90", ("8.0", "9.0", "9.0a", "10.0")),
        (["9.0", 8.0, "sm_90"], ("8.0", "9.0")),
        (("12.0f",), ("12.0f",)),
    ],
)
def test_spellings_of_an_architecture(value, expected):
    assert gpu_architectures(value, list) == expected


def test_the_order_of_architectures(tmp_path, monkeypatch):
    """Each source added wins over all before it."""
    nvidia_smi(tmp_path / "bin", "9.0\\n8.0\\n9.0\\n")
    assert gpu_architectures(None, list) == ("8.0", "9.0")
    assert calls(tmp_path / "bin" / "nvidia-smi") == ["--query-gpu=compute_cap --format=csv,noheader"]
    assert gpu_architectures(None, lambda: ["10.0", "7.5", "10.0"]) == ("7.5", "10.0")
    monkeypatch.setenv("BRAINEVENT_COMPUTE_CAPABILITIES", "8.7,sm_89")
    assert gpu_architectures(None, lambda: ["7.5"]) == ("8.7", "8.9")
    config.set_compute_capability("12.0")
    assert gpu_architectures(None, lambda: ["7.5"]) == ("12.0",)
    assert gpu_architectures("9.0", lambda: ["7.5"]) == ("9.0",)
    assert len(calls(tmp_path / "bin" / "nvidia-smi")) == 1
    config.set_compute_capability(None)
    monkeypatch.setenv("BRAINEVENT_COMPUTE_CAPABILITIES", "")
    assert gpu_architectures(None, lambda: ["7.5"]) == ("7.5",)


@pytest.mark.parametrize("value", ["", "sm_", "8", "8.6+PTX", "8.0;9.0", "8.0,", "volta", [], True, ["8.0,9.0"]])
def test_no_architecture(value, monkeypatch):
    with pytest.raises(ValueError, match=r"^compute_capability: .* is not a compute capability; write '8\.6', '86' or"):
        gpu_architectures(value, list)
    with pytest.raises(ValueError, match=r"^config\.set_compute_capability: .* is not a compute capability"):
        config.set_compute_capability(value)
    if isinstance(value, str) and value:
        monkeypatch.setenv("BRAINEVENT_COMPUTE_CAPABILITIES", value)
        with pytest.raises(ValueError, match=r"^\$BRAINEVENT_COMPUTE_CAPABILITIES: .* is not a compute capability"):
            gpu_architectures(None, list)


def test_architectures_too_old():
    with pytest.raises(errors.UnsupportedArchError, match=r"^compute_capability: .* 1\.2; if you mean 12\.0, write"):
        gpu_architectures("12", list)
    with pytest.raises(errors.UnsupportedArchError, match=r"^devices: no CUDA compiler knows .* 1\.3"):
        gpu_architectures(None, lambda: ["1.3"])


def test_architectures_that_are_unknown(tmp_path):
    def fails():
        raise RuntimeError("no plugin for CUDA")

    def error(devices):
        with pytest.raises(errors.GpuArchDetectionError) as caught:
            gpu_architectures(None, devices)
        return str(caught.value).splitlines()

    setter, variable = "brainevent.config.set_compute_capability", "BRAINEVENT_COMPUTE_CAPABILITIES"
    loaders = "the loaders of CUDA C++ take compute_capability='8.6', too"
    assert error(fails) == [
        "[E-ARCH] no GPU to compile for is known. Tried:",
        "  compute_capability, config.set_compute_capability and $BRAINEVENT_COMPUTE_CAPABILITIES: not set",
        "  devices: no plugin for CUDA",
        "  nvidia-smi: not on PATH",
        f"Name it: call {setter}('8.6'), or set the variable {variable}=8.6; {loaders}",
    ]
    nvidia_smi(tmp_path / "bin", "Failed to initialize NVML\\n", status=9)
    assert error(list)[2:4] == [
        "  devices: no GPU",
        "  nvidia-smi: does not run: status 9, it prints: Failed to initialize NVML",
    ]
    nvidia_smi(tmp_path / "bin", "[N/A]\\n")
    assert error(lambda: ["gfx90a"])[2:4] == [
        "  devices: 'gfx90a' is not a compute capability; write '8.6', '86' or 'sm_86'",
        "  nvidia-smi: '[N/A]' is not a compute capability; write '8.6', '86' or 'sm_86'",
    ]
    nvidia_smi(tmp_path / "bin", "")
    assert error(list)[3] == "  nvidia-smi: no GPU"
