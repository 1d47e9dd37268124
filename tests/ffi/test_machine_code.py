# SPDX-License-Identifier: Apache-2.0
"""Handlers are compiled once, and later processes find their machine code; nothing old is found."""

import ctypes

import llvmlite
import llvmlite.binding as llvm
import pytest
from programs import run_program

from brainevent.errors import KernelToolchainError
from brainevent.ffi import machine_code
from brainevent.toolchain import cache

ADDS = "define i64 @run(i64 %x) {{\n  %y = add i64 %x, {}\n  ret i64 %y\n}}\n"
HANDLERS = ("brainevent.ffi.launch.handler", "handler_address"), ("brainevent.ffi.tvm.target", "_handler_address")


def run(number, x):
    """Compile a function that adds a number, or find it, and call it."""
    address = machine_code.address_of("run", "test_machine_code", ADDS.format(number))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(x)


@pytest.fixture(autouse=True)
def compiled(monkeypatch, tmp_path):
    """Return the texts that were compiled; the cache is empty."""
    found, compile_ = [], machine_code._compiled

    def counted(text):
        found.append(text)
        return compile_(text)

    monkeypatch.setattr(machine_code, "_compiled", counted)
    cache.set_cache_dir(tmp_path / "cache")
    yield found
    cache.set_cache_dir(None)


def test_a_text_is_compiled_once(compiled):
    assert [run(1, 2), run(1, 5)] == [3, 6]
    assert len(compiled) == 1


def test_texts_that_differ_have_code_of_their_own(compiled):
    assert [run(1, 2), run(7, 2), run(1, 2)] == [3, 9, 3]
    assert len(compiled) == 2


@pytest.mark.parametrize("changed", ["llvmlite", "LLVM", "machine", "level", "format"])
def test_code_of_another_compiler_or_for_another_machine_is_not_found(compiled, monkeypatch, changed):
    run(1, 2)
    before = machine_code._key(ADDS)
    if changed == "llvmlite":
        monkeypatch.setattr(llvmlite, "__version__", "0.0")
    elif changed == "LLVM":
        monkeypatch.setattr(llvm, "llvm_version_info", (0, 0, 0))
    elif changed == "machine":
        machine = type("Machine", (), {"triple": "other-unknown-linux", "target_data": ""})
        monkeypatch.setattr(machine_code, "_machine", machine)
    else:
        monkeypatch.setattr(machine_code, {"level": "_OPTIMISED", "format": "_FORMAT"}[changed], 0)
    assert machine_code._key(ADDS) != before


def test_damaged_code_is_compiled_again(compiled):
    run(1, 2)
    (entry,) = [one for one in cache.entries() if one.name == "test_machine_code"]
    entry.path.write_bytes(b"damaged")
    assert run(1, 2) == 3
    assert len(compiled) == 2


@pytest.mark.parametrize("error", [KernelToolchainError, PermissionError])
def test_without_a_cache_that_can_be_used_all_is_compiled(compiled, monkeypatch, error):
    def refused(*_, **__):
        raise error("cache: it cannot be used")

    monkeypatch.setattr(cache, "read", refused)
    assert [run(1, 2), run(1, 2)] == [3, 3]
    assert len(compiled) == 2


def test_a_package_without_a_cache_compiles(compiled, monkeypatch):
    monkeypatch.setattr(machine_code, "_caches", [])
    assert run(1, 2) == 3
    assert len(compiled) == 1


PROGRAM = """
import importlib
import brainevent
from brainevent.ffi import machine_code
texts, compile_ = [], machine_code._compiled
machine_code._compiled = lambda text: (texts.append(text), compile_(text))[1]
for module, name in {}:
    assert getattr(importlib.import_module(module), name)()
print(len(texts))
"""


def test_another_process_finds_the_handlers_that_one_compiled(tmp_path):
    """So their texts hold nothing of a process, such as an address."""
    counts = [run_program(PROGRAM.format(HANDLERS), BRAINEVENT_CACHE_DIR=str(tmp_path / "kept")) for _ in range(2)]
    assert counts == ["2\n", "0\n"]
