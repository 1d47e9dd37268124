# SPDX-License-Identifier: Apache-2.0
"""What `doctor` says is missing for languages with compilers of their own: packages, compilers, drivers."""

import ctypes
import importlib.metadata
import shutil

import pytest

import brainevent
from brainevent import languages
from brainevent.backends import cute, cutile


@pytest.mark.parametrize(
    ("number", "least", "words"),
    [
        (12080, (13, 0), "the NVIDIA driver here is for CUDA 12.8, and it needs one for CUDA 13.0; update the driver"),
        (13000, (13, 0), None),
        (13010, (12, 9), None),
        (None, (13, 0), None),
    ],
)
def test_a_driver_that_is_too_old(monkeypatch, number, least, words):
    class Driver:
        @staticmethod
        def cuDriverGetVersion(address):  # noqa: N802 - the driver's own name
            ctypes.cast(address, ctypes.POINTER(ctypes.c_int))[0] = number
            return 0

    def load(name):
        if number is None:
            raise OSError(name)
        return Driver

    monkeypatch.setattr(languages.ctypes, "CDLL", load)
    assert languages.no_driver("it", least) == words


@pytest.mark.parametrize("room", [cutile, cute])
def test_the_first_thing_that_is_missing_is_named(monkeypatch, room):
    monkeypatch.setattr(room, "no_package", lambda *_: None)
    monkeypatch.setattr(room, "no_device", lambda *_: None)
    monkeypatch.setattr(room, "no_driver", lambda what, least: f"{what} needs {least}")
    if room is cutile:
        monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/tileiras")
    assert room._why_missing().endswith(("needs (13, 0)", "needs (12, 9)"))
    monkeypatch.setattr(room, "no_package", lambda module, install, package: f"{package}: {install}")
    assert "pip install" in room._why_missing()


ABSENT = "cuTile's compiler, tileiras of CUDA 13.1 or newer, is not installed; run: pip install 'cuda-tile[tileiras]'"
SEVERAL = (
    "cuTile's compiler is of several releases (nvidia-cuda-tileiras 13.10.37, nvidia-cuda-nvcc 13.4.92, nvidia-nvvm "
    "13.4.92); run: pip install nvidia-cuda-tileiras==13.10.* nvidia-cuda-nvcc==13.10.* nvidia-nvvm==13.10.*"
)


@pytest.mark.parametrize(
    ("tileiras", "nvvm", "words"),
    [("13.4.92", "13.4.1", None), (None, "13.4.92", ABSENT), ("13.10.37", "13.4.92", SEVERAL)],
)
def test_the_compiler_of_cutile_is_of_one_release(monkeypatch, tmp_path, tileiras, nvvm, words):
    versions = {"nvidia-cuda-tileiras": tileiras, "nvidia-cuda-nvcc": "13.4.92", "nvidia-nvvm": nvvm}

    def version(package):
        if versions[package] is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert cutile._why_no_compiler() == words
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tileiras").touch(mode=0o755)
    monkeypatch.undo()
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))  # another one, in a toolkit
    assert cutile._why_no_compiler() is None


@pytest.mark.parametrize("wrapper", ["cutile_kernel", "cute_kernel"])
def test_a_wrapper_without_its_packages(monkeypatch, wrapper):
    def missing(module):
        raise ModuleNotFoundError("No module named 'of_the_language'")

    function = getattr(brainevent, wrapper)
    monkeypatch.setattr(languages.importlib, "import_module", missing)
    words = rf"{wrapper}: No module named 'of_the_language'; run: pip install '"
    with pytest.raises(brainevent.KernelNotAvailableError, match=words):
        function(lambda: None, [], **({"grid": 1} if wrapper == "cutile_kernel" else {}))


def test_a_part_of_a_package_that_is_missing():
    assert (
        languages.no_package("no_such_package.part", "it") == "the package 'no_such_package' is not installed; run: it"
    )
    assert languages.no_package("json.no_such", "it", "its-name") == "the package 'its-name' is not installed; run: it"


def test_a_package_that_is_installed_in_part(tmp_path, monkeypatch):
    """What is left of CuTe DSL where one of its wheels is missing: a package without the modules in it."""
    (tmp_path / "half_a_language" / "_parts").mkdir(parents=True)
    (tmp_path / "half_a_language-1.0.dist-info").mkdir()
    (tmp_path / "half_a_language-1.0.dist-info" / "METADATA").write_text("Name: half-a-language\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert languages.no_package("half_a_language.kernels", "pip install it", "half-a-language") == (
        "the package 'half-a-language' is installed without its module 'half_a_language.kernels', in part; "
        "run: pip install it"
    )
    (tmp_path / "half_a_language" / "_parts" / "__init__.py").touch()
    assert languages.no_package("half_a_language._parts", "it", "half-a-language") is None


def test_a_folder_of_the_program_is_not_a_package(tmp_path, monkeypatch):
    (tmp_path / "a_language_of_nobody").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert languages.no_package("a_language_of_nobody", "it") == (
        "the package 'a_language_of_nobody' is not installed; run: it"
    )
