# SPDX-License-Identifier: Apache-2.0
"""The command `brainevent`: its words, its exit statuses, and a doctor who survives every patient."""

import importlib
import io
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from types import SimpleNamespace

import jax
import pytest
from programs import ROOT, run_program

import brainevent
from brainevent import config, doctor, languages
from brainevent.backends.source import trials
from brainevent.cli import main
from brainevent.toolchain import cache, directory, find, probe

SECTIONS = [
    "Versions", "Devices", "C++ compiler", "CUDA compiler", "Environment", "Cache", "Registered targets",
    "Kernel languages", "Emulation on the CPU", "Loops as native calls",
]  # fmt: skip
NVCC_PLACES = find.nvcc_places
KEYS, BYTES = {"alpha": "a" * 16, "beta": "b" * 16}, {"alpha": b"x" * 1536, "beta": b"y" * 10}
NO_SUCH_CXX = "no C++ compiler: $CXX names /nonexistent/c++, which does not exist; correct or unset that variable"
HEADERS = "run: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"
REAL_DEVICES = jax.devices


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch, request):
    """Run on a machine without GPU, nvcc or variables, with a cache of its own."""
    for name in {*doctor._OURS, *doctor._OTHERS} - {"JAX_PLATFORMS", "XLA_FLAGS"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(directory, "_chosen", [])
    monkeypatch.setattr(directory, "_given_up", {})
    if not request.node.get_closest_marker("gpu"):
        absent = find.Place("PATH", ("nvcc",), "is not on PATH")
        monkeypatch.setattr(find, "nvcc_places", lambda: iter([absent]))
        monkeypatch.setattr(jax, "devices", cpu_alone)
        monkeypatch.setattr("brainevent.toolchain.architectures._nvidia_smi", list)
    yield
    config.set_compute_capability(None)


def cpu_alone(platform=None):
    if platform in ("gpu", "cuda", "tpu"):
        raise RuntimeError(f"Unknown backend: {platform!r} requested")
    return REAL_DEVICES(platform)


def two_gpus(platform=None):
    if platform in ("gpu", "cuda"):
        return [SimpleNamespace(device_kind="NVIDIA Test", compute_capability="9.0")] * 2
    return cpu_alone(platform)


@pytest.fixture
def run(capsys):
    """Run the command in this process: (exit status, stdout, stderr)."""

    def run(*words):
        status = main(list(words))
        return status, *capsys.readouterr()

    return run


def fill(*names):
    """Put libraries into the cache."""
    for name in names:

        def build(folder, name=name):
            (folder / "built.so").write_bytes(BYTES[name])
            return folder / "built.so"

        cache.get_or_build(name, KEYS[name], build)


def section(text, title):
    """Return the rows of a section as {label: (mark, text)}; continued rows are joined."""
    found, label = {}, None
    rows = (
        re.split(rf"^{re.escape(title)}: .*\n", text, maxsplit=1, flags=re.MULTILINE)[1]
        .split("\n\n", 1)[0]
        .splitlines()
    )
    width = min((m.start(1) for row in rows if (m := re.match(r"..\s*\S.*?\s{2,}(\S)", row))), default=0)
    for row in rows:
        if row[2:width].strip():
            label = row[2:width].strip()
            found[label] = (row[0], row[width:])
        elif label is not None:
            found[label] = (found[label][0], f"{found[label][1]} {row.strip()}")
    return found


def as_process(*words, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [sys.executable, "-m", "brainevent", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


# The words of the command.


def test_no_command_prints_the_help(run):
    status, out, err = run()
    assert (status, err) == (0, "")
    assert out.startswith("usage: brainevent")
    assert {"doctor", "cache"} <= set(out.split())


def test_the_cache_without_a_command_prints_its_own_help(run):
    status, out, _ = run("cache")
    assert status == 0
    assert out.startswith("usage: brainevent cache")
    assert {"dir", "list", "clear"} <= set(out.split())


def test_the_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"brainevent {brainevent.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["--nonsense"],
        ["--vers"],
        ["doctor", "--nonsense"],
        ["doctor", "--tr"],
        ["doctor", "now"],
        ["cache", "nonsense"],
        ["cache", "list", "alpha"],
        ["cache", "clear", "alpha", "beta"],
        ["cache", "clear", "--y"],
    ],
    ids=" ".join,
)
def test_bad_usage(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("usage: brainevent")


def test_the_installed_script_is_this_command(monkeypatch):
    [(name, target)] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items()
    module, _, function = target.partition(":")
    monkeypatch.setattr("brainevent.cli.main", lambda: 7)
    assert (name, getattr(importlib.import_module(module), function)()) == ("brainevent", 7)


@pytest.mark.thorough
def test_python_m():
    """The arguments and the exit status go through."""
    assert as_process("--version").stdout == f"brainevent {brainevent.__version__}\n"
    failed = as_process("cache", "clear", "absent")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("brainevent: ")


@pytest.mark.parametrize(
    "words",
    ["cache list", *(pytest.param(word, marks=pytest.mark.thorough) for word in ("doctor", "--help", "--version"))],
)
@pytest.mark.thorough
def test_a_closed_pipe_leaves_no_traceback(words):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        finished = as_process(*words.split(), stdout=writer, PYTHONUNBUFFERED="")
    finally:
        os.close(writer)
    assert (finished.returncode, finished.stderr) == (1, "")


# What the doctor says.


def test_a_sound_machine(run, tmp_path):
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    verdicts = dict(row.split(": ") for row in out.splitlines()[:-1] if row and row[0] not in " !")
    assert list(verdicts) == SECTIONS
    assert out.splitlines()[-1] == "no faults"
    assert "ERROR" not in out
    assert {name: verdicts[name] for name in SECTIONS[:5]} == {
        "Versions": "ok",
        "Devices": "ok, without a GPU",
        "C++ compiler": "ok",
        "CUDA compiler": "not needed here, as JAX sees no GPU",
        "Environment": "ok",
    }
    assert not (tmp_path / "cache").exists()


def test_versions(run):
    rows = section(run("doctor")[1], "Versions")
    assert rows["brainevent"] == (" ", brainevent.__version__)
    assert rows["Python"][1].startswith(sys.version.split()[0])
    assert {name: rows[name][1] for name in doctor._REQUIRED} == {name: version(name) for name in doctor._REQUIRED}
    assert rows["XLA FFI headers"][1].replace(" ", "") == jax.ffi.include_dir().replace(" ", "")
    assert re.fullmatch(r"\d+\.\d+", rows["XLA FFI version"][1])


def test_packages_are_asked_for_their_versions_without_an_import(run, monkeypatch):
    installed = {**dict.fromkeys(doctor._REQUIRED[:-1], "1.0"), "triton": "9.9"}

    def asked(name):
        if name not in installed:
            raise doctor.importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(doctor.importlib.metadata, "version", asked)
    status, out, _ = run("doctor")
    rows = section(out, "Versions")
    assert rows["triton"] == (" ", "9.9")
    assert "warp-lang" not in rows
    assert rows["numba"] == ("!", "not installed; run: pip install numba")
    assert status == 1


@pytest.mark.thorough
def test_nothing_heavy_is_imported():
    program = "import sys, io, brainevent\nbrainevent.print_diagnostics(io.StringIO())\nprint(*sys.modules)"
    assert not {"warp", "triton", "jax_triton", "numba_cuda"} & set(run_program(program).split())


def test_devices(run, monkeypatch):
    rows = section(run("doctor")[1], "Devices")
    cpus = len(jax.devices("cpu"))
    hidden = f": JAX_PLATFORMS is {os.environ['JAX_PLATFORMS']}" if os.environ.get("JAX_PLATFORMS") else ""
    assert rows == {
        "cpu": (" ", f"{cpus} x cpu"),
        "gpu": (" ", f"none{hidden}"),
        "default": (" ", jax.default_backend()),
    }
    monkeypatch.setattr(jax, "devices", two_gpus)
    rows = section(run("doctor")[1], "Devices")
    assert rows["gpu"] == (" ", "2 x NVIDIA Test, compute capability 9.0")


def test_why_jax_sees_no_gpu(run, monkeypatch):
    def devices(platform=None):
        if platform == "cuda":
            raise RuntimeError("Backend 'cuda' failed to initialize: no driver")
        return cpu_alone(platform)

    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(jax, "devices", devices)
    rows = section(run("doctor")[1], "Devices")
    assert rows["gpu"] == (" ", "none: Backend 'cuda' failed to initialize: no driver")


def test_jax_without_any_device_is_a_fault(run, monkeypatch):
    def fail(platform=None):
        raise RuntimeError("Unable to initialize backend 'nonsense'")

    monkeypatch.setattr(jax, "devices", fail)
    monkeypatch.setattr(jax, "default_backend", fail)
    status, out, _ = run("doctor")
    rows = section(out, "Devices")
    assert rows["default"] == ("!", "ERROR (RuntimeError): Unable to initialize backend 'nonsense'")
    assert (status, out.splitlines()[-1]) == (1, "1 fault, marked with !")


def test_compilers_that_are_found(run, monkeypatch):
    compiler = find.HostCompiler(("/x/g++", "-m64"), "g++ 1.0", "$CXX")
    toolkit = find.CudaToolkit("/x/nvcc", "/x", ("/x/include", "/x/cccl"), (), "13.0.88", "pip")
    monkeypatch.setattr(doctor, "find_host_compiler", lambda: compiler)
    monkeypatch.setattr(doctor, "find_cuda_toolkit", lambda: toolkit)
    monkeypatch.setenv("BRAINEVENT_COMPUTE_CAPABILITIES", "sm_90,8.6")
    out = run("doctor")[1]
    assert section(out, "C++ compiler") == {
        "command": (" ", "/x/g++ -m64"), "version": (" ", "g++ 1.0"), "found in": (" ", "$CXX"),
    }  # fmt: skip
    assert section(out, "CUDA compiler") == {
        "nvcc": (" ", "/x/nvcc"),
        "version": (" ", "13.0.88"),
        "found in": (" ", "pip"),
        "toolkit": (" ", "/x"),
        "include dirs": (" ", "/x/include /x/cccl"),
        "compiles for": (" ", "8.6, 9.0"),
    }


def test_without_a_gpu_its_tools_are_not_missed(run):
    status, out, _ = run("doctor")
    rows = section(out, "CUDA compiler")
    assert status == 0
    assert rows["nvcc"][0] == " "
    assert rows["nvcc"][1].startswith("no CUDA compiler (nvcc) is found here; run: pip")
    assert rows["PATH"] == (" ", "nvcc is not on PATH")
    assert rows["compiles for"][0] == " "
    assert rows["compiles for"][1].startswith(
        "no GPU on this machine; to compile for another, set BRAINEVENT_COMPUTE_CAPABILITIES"
    )
    assert section(out, "Kernel languages")["cuda_raw"][1].startswith("not here: JAX sees no GPU")


def test_with_a_gpu_its_tools_are_missed(run, monkeypatch):
    monkeypatch.setattr(jax, "devices", two_gpus)
    status, out, _ = run("doctor")
    rows = section(out, "CUDA compiler")
    assert rows["nvcc"][0] == "!"
    assert rows["compiles for"] == (" ", "9.0")
    assert section(out, "Kernel languages")["cuda_raw"][0] == "!"
    assert (status, out.splitlines()[-1]) == (1, "2 faults, marked with !")


@pytest.mark.parametrize(
    ("variables", "title", "label", "mark", "said"),
    [
        (
            {"CXX": "/nonexistent/c++"}, "C++ compiler", "command", "!",
            f"ERROR (HostCompilerNotFoundError): {NO_SUCH_CXX}",
        ),
        ({"CXX": "/nonexistent/c++"}, "C++ compiler", "$CXX", " ", "/nonexistent/c++ does not exist"),
        ({"CXX": "/nonexistent/c++"}, "C++ compiler", "$CONDA_PREFIX", " ", "not set"),
        ({"CXX": "/nonexistent/c++"}, "Kernel languages", "cpp", "!", f"not here: {NO_SUCH_CXX}"),
        (
            {"BRAINEVENT_COMPUTE_CAPABILITIES": "nonsense"}, "CUDA compiler", "compiles for", "!",
            "ERROR (ValueError): $BRAINEVENT_COMPUTE_CAPABILITIES: 'nonsense' is not a compute capability",
        ),
        (
            {"BRAINEVENT_COMPUTE_CAPABILITIES": "1.0"}, "CUDA compiler", "compiles for", "!",
            "ERROR (UnsupportedArchError): $BRAINEVENT_COMPUTE_CAPABILITIES: no CUDA compiler knows",
        ),
        ({"BRAINEVENT_NVCC_PREFER": "pip"}, "Environment", "BRAINEVENT_NVCC_PREFER", " ", "pip"),
        (
            {"BRAINEVENT_CACHEDIR": "/x"}, "Environment", "BRAINEVENT_CACHEDIR", " ",
            "/x (not read by anything; did you mean 'BRAINEVENT_CACHE_DIR'?)",
        ),
        ({"CUDA_VISIBLE_DEVICES": ""}, "Environment", "CUDA_VISIBLE_DEVICES", " ", "(set, but empty)"),
    ],
)  # fmt: skip
def test_a_broken_environment_is_reported(run, monkeypatch, variables, title, label, mark, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    status, out, _ = run("doctor")
    found_mark, found = section(out, title)[label]
    assert (found_mark, found[: len(said)]) == (mark, said)
    assert status == (1 if re.search("^!", out, re.MULTILINE) else 0)


def test_a_setting_that_cannot_be_is_a_fault_without_a_gpu_too(run, monkeypatch):
    monkeypatch.setattr(find, "nvcc_places", NVCC_PLACES)
    monkeypatch.setenv("BRAINEVENT_NVCC_PREFER", "apt")
    status, out, _ = run("doctor")
    mark, said = section(out, "CUDA compiler")["nvcc"]
    assert (status, mark) == (1, "!")
    assert said.startswith("ERROR (ValueError): $BRAINEVENT_NVCC_PREFER is 'apt'; set it to 'pip' or 'system'")
    assert "compiles for" in section(out, "CUDA compiler")


# The cache, as the doctor sees it.


def test_a_cache_that_is_not_there_yet(run, tmp_path):
    rows = section(run("doctor")[1], "Cache")
    assert rows["directory"][1].replace(" ", "") == f"{tmp_path}/cache"
    assert rows["entries"] == (" ", "0, 0 bytes")
    assert rows["state"] == (" ", "not created yet: the first build creates it")


def test_a_cache_with_entries(run):
    fill("alpha", "beta")
    rows = section(run("doctor")[1], "Cache")
    assert rows["entries"] == (" ", "2, 1.5 KiB")
    assert rows["state"] == (" ", "writable, and by this user alone")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: (path.mkdir(), path.chmod(0o777)), "has mode 0777, so other users could put code there"),
        (lambda path: path.write_text(""), "is a file, not a directory"),
    ],
)
def test_a_cache_that_is_refused(run, tmp_path, damage, said):
    damage(tmp_path / "cache")
    status, out, _ = run("doctor")
    mark, text = section(out, "Cache")["state"]
    assert (status, mark) == (1, "!")
    assert text.startswith("ERROR (KernelToolchainError): cache: ")
    assert said in text


@pytest.mark.parametrize("made", [True, False])
def test_a_cache_that_cannot_be_written(run, tmp_path, monkeypatch, made):
    if made:
        fill("beta")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and real(path, mode))
    status, out, _ = run("doctor")
    mark, text = section(out, "Cache")["state"]
    assert (status, mark) == (0, " ")
    assert "is not writable: compiled libraries go to the directory for temporary files" in text


def test_a_cache_that_cannot_be_read(run, tmp_path, monkeypatch):
    def refuse():
        raise directory.UnwritableError(tmp_path, PermissionError(13, "Permission denied"))

    monkeypatch.setattr(cache, "entries", refuse)
    status, out, _ = run("doctor")
    assert (status, section(out, "Cache")["state"][1].split(":")[0]) == (0, "not readable (Permission denied)")


# How the report is written.


def test_print_diagnostics_is_what_the_command_prints(run, capsys):
    printed = run("doctor")[1]
    brainevent.print_diagnostics()
    assert capsys.readouterr().out == printed
    file = io.StringIO()
    brainevent.print_diagnostics(file)
    assert file.getvalue() == printed
    assert capsys.readouterr().out == ""


def test_the_report_as_data():
    found = doctor.report()
    assert [part.title for part in found.sections] == SECTIONS
    assert doctor.Line("brainevent", brainevent.__version__) in found.sections[0].lines
    assert found.faults == ()
    with pytest.raises(AttributeError):
        found.sections = ()


@pytest.mark.parametrize("name", ["list_registered_targets", "api_version", "find_host_compiler", "find_cuda_toolkit"])
def test_a_probe_that_fails_is_a_line(run, monkeypatch, name):
    def fail():
        raise RuntimeError("broken in a way nobody thought of")

    monkeypatch.setattr(doctor, name, fail)
    status, out, _ = run("doctor")
    assert (status, out.splitlines()[-1]) == (1, "1 fault, marked with !")
    assert "ERROR (RuntimeError): broken in a way nobody thought of" in out
    assert re.findall(rf"^({'|'.join(map(re.escape, SECTIONS))}): ", out, re.MULTILINE) == SECTIONS


def test_a_language_that_cannot_be_asked_is_a_line(run, monkeypatch):
    def fail():
        raise ValueError("numba.__spec__ is None")

    numba = languages.Language("numba", "Numba", ("cpu",), fail)
    warp = languages.Language("warp", "Warp", ("cpu",), fail, extra=True)
    monkeypatch.setattr(languages, "LANGUAGES", {"numba": numba, "warp": warp})
    status, out, _ = run("doctor")
    said = "ERROR (ValueError): numba.__spec__ is None"
    assert section(out, "Kernel languages") == {
        "numba": ("!", said),
        "warp": (" ", "not here: ValueError: numba.__spec__ is None"),
    }
    assert status == 1


def test_targets_are_named(run, monkeypatch):
    monkeypatch.setattr(doctor, "list_registered_targets", lambda: ["one.f", "two.g"])
    assert section(run("doctor")[1], "Registered targets") == {"number": (" ", "2"), "names": (" ", "one.f, two.g")}


def test_lines_are_short_and_printable(run, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/long" * 100)
    monkeypatch.setenv("CUDA_HOME", "\x1b[31mred\nsecond\udc80")
    monkeypatch.setenv(f"BRAINEVENT_{'X' * 200}", "1")
    monkeypatch.setattr(doctor, "list_registered_targets", lambda: [f"target_{i}" for i in range(100)])
    _, out, _ = run("doctor")
    assert max(map(len, out.splitlines())) == 120
    assert out.replace("\n", "").isprintable()
    assert r"\x1b[31mred" in out
    assert r"second\udc80" in out
    assert "/long" * 100 in re.sub(r"\s", "", out)
    assert not [row for row in out.splitlines() if row != row.rstrip()]


def test_a_stream_that_lacks_characters(monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/opt/café")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    brainevent.print_diagnostics(stream)
    stream.flush()
    assert rb"/opt/caf\xe9" in raw.getvalue()


# The doctor tries.


def trial(out):
    return section(out, "Trial")


def test_a_trial_compiles_and_runs_cpp(run, tmp_path):
    cache.set_cache_dir(tmp_path / "chosen")
    targets = brainevent.list_registered_targets()
    status, out, err = run("doctor", "--try")
    assert (status, err) == (0, "")
    mark, said = trial(out)["cpp"]
    assert mark == " "
    assert re.fullmatch(r"compiled and loaded in \d+\.\d s, ran in \d+\.\d\d s", said)
    assert trial(out)["cuda_raw"][1].startswith("not here: JAX sees no GPU")
    assert cache.get_cache_dir() == str(tmp_path / "chosen")
    assert brainevent.list_registered_targets() == targets
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
def test_a_trial_compiles_and_runs_cuda(run):
    if why := languages.language("cuda_raw").why_missing():
        pytest.skip(why)
    status, out, _ = run("doctor", "--try")
    assert status == 0
    assert re.fullmatch(r"compiled and loaded in \d+\.\d s, ran in \d+\.\d\d s", trial(out)["cuda_raw"][1])


def test_a_trial_shows_what_the_compiler_says(run, tmp_path, monkeypatch):
    broken = tmp_path / "broken++"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken++ 1.0 || { echo "all is lost"; exit 3; }\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert run("doctor")[0] == 0
    status, out, _ = run("doctor", "--try")
    mark, said = trial(out)["cpp"]
    assert (status, mark) == (1, "!")
    assert said.startswith("ERROR (CompilationError): ")
    assert "all is lost" in said


def test_a_trial_with_a_wrong_result(run, monkeypatch):
    monkeypatch.setattr(trials, "_CPP", trials._CPP.replace("+ 1", "+ 2"))
    status, out, _ = run("doctor", "--try")
    assert status == 1
    said = "the kernel adds 1 to [0, 1, 2] and returns [2.0, 3.0, 4.0]; the compiler may be broken"
    assert trial(out)["cpp"] == ("!", f"ERROR (KernelExecutionError): {said}")


def test_a_trial_without_a_compiler(run, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    status, out, _ = run("doctor", "--try")
    assert (status, trial(out)["cpp"][0]) == (1, "!")
    assert "which does not exist" in trial(out)["cpp"][1]


# Why a language is missing.


def test_a_missing_host_compiler_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(probe, "_remembered", {})
    sentence = "no C++ compiler is found here; run: apt install g++, or conda install gxx"
    assert languages.language("cpp").why_missing() == sentence


def test_cxx_makes_cpp_available(monkeypatch, tmp_path):
    compiler = tmp_path / "mycxx"
    compiler.write_text("#!/bin/sh\necho mycxx 1.0\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CXX", str(compiler))
    assert languages.language("cpp").why_missing() is None
    compiler.write_text("#!/bin/sh\nexit 1\n")
    assert languages.language("cpp").why_missing().endswith("; correct or unset that variable")


def test_a_missing_nvcc_in_one_sentence(monkeypatch):
    row = languages.language("cuda_raw")
    assert row.why_missing().startswith("JAX sees no GPU")
    monkeypatch.setattr(jax, "devices", two_gpus)
    assert row.why_missing().startswith("no CUDA compiler (nvcc) is found here; run: pip install 'jax[cuda13]'")
    monkeypatch.setattr(find, "find_cuda_toolkit", lambda: None)
    assert row.why_missing() is None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            brainevent.HeaderNotFoundError("[E-HDR] no nvcc with cuda_runtime.h is found here. Tried:\n  x\nInstall"),
            f"no nvcc with cuda_runtime.h is found here; {HEADERS}",
        ),
        (
            brainevent.NvccNotFoundError("[E-NVCC] no nvcc: $X names /x, which does not exist\nCorrect $X"),
            "no nvcc: $X names /x, which does not exist; correct or unset that variable",
        ),
        (ValueError("$X is 'x'; set it to 'pip'"), "$X is 'x'; set it to 'pip'"),
    ],
)
def test_what_a_search_raises_in_one_sentence(error, sentence):
    assert languages.in_one_sentence(error) == sentence
