# SPDX-License-Identifier: Apache-2.0
"""What is told where NVRTC is missing, and how its releases are told apart."""

import sys
from unittest import mock

import numpy as np
import pytest
from test_nvrtc import ADD, VECTOR, X

import brainevent
from brainevent.backends.nvrtc import compiler


def test_a_missing_package_is_reported(monkeypatch):
    compiler._nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    brainevent.config.set_compute_capability("9.0")
    try:
        with pytest.raises(ImportError, match=r"the package 'cuda-bindings' is not installed; run: pip install 'cuda-"):
            brainevent.cuda_kernel(ADD + "// never kept", "add", VECTOR, launch_dims=64)(X, X, n=64)
    finally:
        brainevent.config.set_compute_capability(None)
        compiler._nvrtc.cache_clear()


def test_the_release_of_nvrtc_is_that_of_its_package_or_else_its_own(monkeypatch):
    monkeypatch.setattr(compiler, "_PACKAGES", ("numpy", "no-package-has-this-name"))
    assert compiler._release.__wrapped__() == f"numpy {np.__version__}"
    monkeypatch.setattr(compiler, "_PACKAGES", ("no-package-has-this-name",))
    assert compiler._release.__wrapped__() == str(compiler._nvrtc()[1])


def test_a_missing_library_is_reported(monkeypatch):
    compiler._nvrtc.cache_clear()

    def version():
        raise RuntimeError("libnvrtc.so.13: cannot open shared object file")

    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", mock.Mock(nvrtcVersion=version))
    with pytest.raises(ImportError, match="the library NVRTC is not found; run: pip install 'cuda-bindings"):
        compiler._nvrtc()
    compiler._nvrtc.cache_clear()
