# SPDX-License-Identifier: Apache-2.0
"""What `doctor` says is missing for languages with compilers of their own: packages, compilers, drivers."""

import ctypes
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
        monkeypatch.setattr(shutil, "which", lambda *_: None)
        monkeypatch.setattr(cutile.importlib.util, "find_spec", lambda *_: None)
        assert cutile._why_missing() == (
            "cuTile's compiler, tileiras of CUDA 13.1 or newer, is not installed; "
            "run: pip install 'cuda-tile[tileiras]'"
        )
        monkeypatch.setattr(shutil, "which", lambda *_: "/usr/bin/tileiras")
    assert room._why_missing().endswith(("needs (13, 0)", "needs (12, 9)"))
    monkeypatch.setattr(room, "no_package", lambda module, install, package: f"{package}: {install}")
    assert "pip install" in room._why_missing()


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
