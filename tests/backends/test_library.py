# SPDX-License-Identifier: Apache-2.0
"""Loaded libraries: what a load takes from the process, and what it gives back."""

import ctypes
import gc
import os
import platform
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import brainevent
from brainevent.backends.source import portable

CONSTANT = """#ifdef VIA
#include VIA
#endif
#include "brainevent/common.h"
// @BE f ret
void f(BE::Tensor out) { out.data_ptr<float>()[0] = VALUE; }
"""


@pytest.fixture
def load(unique_name):
    """Return a loader of sources that differ in a number."""
    name = unique_name("library")
    return lambda number, **options: brainevent.load_cpp_inline(
        name, CONSTANT.replace("VALUE", str(number)), replace=True, **options
    )


def value(mod):
    return float(mod.f(outs=jax.ShapeDtypeStruct((1,), jnp.float32))[0])


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def mappings(path):
    gc.collect()
    return Path("/proc/self/maps").read_text().count(f" {path}\n")


@pytest.mark.thorough
def test_no_load_keeps_a_descriptor(load):
    mod = load(1)
    before = descriptors()
    for _ in range(50):
        mod = load(1)
    assert value(mod) == 1
    assert [value(load(1, force_rebuild=True)), value(load(2)), value(load(1)), value(load(2))] == [1, 2, 1, 2]
    assert descriptors() == before


def test_an_exported_program_keeps_no_descriptor(load):
    code = load(3).read_bytes()
    header = {"symbol": "be_f", "machine": platform.machine(), "system": platform.system()}
    before = descriptors()
    addresses = {portable.load(header, code) for _ in range(3)}
    assert descriptors() == before
    assert len(addresses) == 3
    assert 0 not in addresses


@pytest.mark.thorough
def test_a_dropped_module_gives_back_what_it_exports_from(load):
    """Its code stays, for XLA may call it; its file's content is mapped while a module can be exported."""
    mod = load(4, auto_register=False)
    path = mod.path
    with_content = mappings(path)
    twin = brainevent.CompiledModule(path, ["f"])
    assert mappings(path) == with_content
    del mod
    assert mappings(path) == with_content
    assert twin.read_bytes() == Path(path).read_bytes()
    del twin
    assert mappings(path) == with_content - 1
    assert value(load(4, auto_register=False)) == 4


def test_a_module_outlives_a_cleared_cache(load):
    mod = load(5)
    content = Path(mod.path).read_bytes()
    brainevent.clear_cache(Path(mod.path).stem)
    assert not os.path.exists(mod.path)
    assert mod.read_bytes() == content
    assert value(mod) == 5


def test_a_rebuilt_library_runs_under_the_old_name(load, tmp_path, monkeypatch):
    """Neither the library that was loaded from the same path nor its registered entry point is taken for it."""
    monkeypatch.setenv("CPATH", str(tmp_path))  # whose files' content is no part of the key
    values = []
    for number in (8, 9):
        (tmp_path / "unseen.h").write_text(f"#define UNSEEN {number}\n")
        mod = load("UNSEEN", extra_cflags=["-DVIA=<unseen.h>"], force_rebuild=True, auto_register=False)
        values.append(value(mod))
    assert values == [8, 9]


def test_debuggers_and_sanitizers_know_a_library_by_its_path(load):
    mod = load(6)
    address = ctypes.cast(mod.get_handler("f"), ctypes.c_void_p)

    class Found(ctypes.Structure):
        _fields_ = [(name, ctypes.c_char_p) for name in ("path", "base", "symbol", "address")]

    found = Found()
    assert ctypes.CDLL(None).dladdr(address, ctypes.byref(found))
    assert os.fsdecode(found.path) == mod.path
