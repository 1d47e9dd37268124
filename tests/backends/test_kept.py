# SPDX-License-Identifier: Apache-2.0
"""Compiled Numba kernels are kept by content, and loaded by the next process; what cannot be kept still works."""

import contextlib
import gc
import json

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from forked import run_forked
from programs import run_program

import brainevent
from brainevent.backends.numba import internals, kept
from brainevent.backends.numba import kernel as numba_kernels
from brainevent.errors import KernelCompilationError
from brainevent.toolchain import cache

X = jnp.arange(1.0, 4.0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel_by(factor):
    @numba.njit
    def scaled(x, out):
        for i in range(x.size):
            out[i] = x[i] * factor

    return scaled


def run(kernel, x=X):
    return np.asarray(brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))


def kept_names():
    return [entry.name for entry in cache.entries()]


OPS = """
import brainevent, jax, jax.numpy as jnp, json, numba, numpy as np, sys
from brainevent.backends.numba import handler, kernel
from factors import times

compiled = []
real = handler.compile_handler
kernel.compile_handler = lambda *args: compiled.append(args[0].__name__) or real(*args)

@numba.njit
def scaled(x, out):
    for i in range(x.size):
        out[i] = times(x[i])

@numba.njit
def wary(x, out):
    if x[0] > 1:
        raise ValueError("the first element is", x[0], x)
    for i in range(x.size):
        out[i] = x[x.size - 1 - i]

def call(kernel, x):
    return brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

x = jnp.array([1.0, 3.0, 2.0])
said = {"scaled": call(scaled, x).tolist(), "wary": call(wary, x).tolist()}
said["vmap"] = jax.vmap(lambda x: call(wary, x))(x[:, None] * 0 + x).tolist()
try:
    call(wary, x + 1).block_until_ready()
except Exception as error:
    said["error"] = str(error)
csr = brainevent.CSR.fromdense(jnp.eye(3) * 2)
said["product"] = (csr @ brainevent.BinaryArray(x > 1)).tolist()
print(json.dumps({"said": said, "compiled": compiled}))
"""


def test_the_next_process_compiles_nothing_until_something_changes(tmp_path):
    def process(factor, first_lines=""):
        (tmp_path / "factors.py").write_text(f"import numba\n@numba.njit\ndef times(x):\n    return x * {factor}\n")
        (tmp_path / "ops.py").write_text(first_lines + OPS)
        source = f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(tmp_path)!r}); import ops"
        return json.loads(run_forked(source))

    first = process(2)
    assert first["compiled"] == ["scaled", "wary", "gather"]
    assert first["said"]["scaled"] == [2, 6, 4]
    assert first["said"]["wary"] == [2, 3, 1]
    assert first["said"]["vmap"] == [[2, 3, 1]] * 3
    assert first["said"]["product"] == [0, 2, 2]
    assert (
        "('the first element is', 2.0, array([2., 4., 3.], dtype=float32)) (ops.py:18, in wary)"
        in first["said"]["error"]
    )
    assert process(2) == {"said": first["said"], "compiled": []}
    changed = process(3, "# a line more\n")  # a helper in another file, and where an exception is raised
    assert changed["compiled"] == ["scaled", "wary"]
    assert changed["said"]["scaled"] == [3, 9, 6]
    assert "(ops.py:19, in wary)" in changed["said"]["error"]


def test_what_was_compiled_is_in_the_cache_and_can_be_turned_off():
    np.testing.assert_array_equal(run(kernel_by(2.5)), X * 2.5)
    assert kept_names() == ["numba_scaled"]
    brainevent.config.set_numba_cache(False)
    try:
        assert not brainevent.config.get_numba_cache()
        np.testing.assert_array_equal(run(kernel_by(3.5)), X * 3.5)
    finally:
        brainevent.config.set_numba_cache(True)
    assert kept_names() == ["numba_scaled"]
    assert brainevent.clear_cache("numba_scaled") == 1


@pytest.mark.thorough
def test_what_this_process_alone_can_run_is_not_kept():
    table = np.arange(300_000.0, dtype=np.float32)  # Numba holds large ones by address

    @numba.njit
    def looked_up(x, out):
        for i in range(x.size):
            out[i] = table[i] + x[i]

    @numba.njit
    def with_python(x, out):
        with numba.objmode():
            seen.append(x.size)
        out[:] = x

    np.testing.assert_array_equal(run(looked_up), X + table[:3])
    np.testing.assert_array_equal(run(with_python), X)
    assert seen == [3]
    assert kept_names() == []


seen = []


def test_opaque_kernels_are_neither_kept_nor_exported():
    class Opaque:
        pass

    held = Opaque()

    @numba.njit
    def opaque(x, out):
        for i in range(x.size):
            out[i] = x[i] + looked_at()

    numba.extending.overload(looked_at)(lambda: (lambda: 1.0) if held else None)
    np.testing.assert_array_equal(run(opaque), X + 1)
    assert kept_names() == []
    program = jax.jit(lambda x: brainevent.numba_kernel(opaque, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    with pytest.raises(
        Exception,
        match=r"'opaque' cannot be exported: it uses an object of type .*Opaque, whose content another process cannot",
    ):
        jax.export.export(program, disabled_checks=brainevent.export_checks())(X)


def looked_at():
    pass


def test_an_overload_that_reads_the_environment_is_asked_in_every_process(tmp_path):
    source = f"""
import os
os.environ["FACTOR"] = "FACTOR_OF_THE_PROCESS"
import jax.numpy as jnp, numba, brainevent
brainevent.set_cache_dir({str(tmp_path)!r})

def times(value): pass

@numba.extending.overload(times)
def overloading(value):
    factor = int(os.environ["FACTOR"])
    return lambda value: value * factor

@numba.njit
def kernel(x, out):
    out[0] = times(x[0])

x = jnp.full(1, 3.0)
print(brainevent.numba_kernel(kernel, outs=x)(x)[0])
"""
    found = [float(run_forked(source.replace("FACTOR_OF_THE_PROCESS", factor))) for factor in "56"]
    assert found == [15, 18]


def test_a_broken_entry_is_compiled_again():
    code = kept.ObjectCode("name", kept.Boxing({"name_a": [], "name_b": [np.dtype("int8")]}), b"code")
    assert kept.ObjectCode.unpacked(code.packed()) == code
    content, made = brainevent._content.content_of("a test of broken entries"), []
    for name in ("test_broken_0", "test_broken_1"):  # equal code under two names, as one process loads a name once
        for _ in range(2):
            assert kept.address_of(name, "broken", content, lambda name=name: made.append(name) or module(name))
    assert made == ["test_broken_0", "test_broken_1"]
    for entry in cache.entries():
        entry.path.write_bytes(b"{}\n")
    assert kept.address_of("test_broken_0", "broken", content, lambda: made.append("again") or module("test_broken_0"))
    assert made[2:] == ["again"]


def module(name):
    spec = kept_spec()
    return numba_kernels.compile_handler(kernel_by(1.0), [spec], [spec], name)


def kept_spec():
    return numba_kernels.ArraySpec(np.dtype("float32"), 1)


def test_a_cache_that_cannot_be_used_is_no_obstacle(folder, monkeypatch):
    def refused(*_args, **_keywords):
        raise brainevent.errors.KernelToolchainError("the cache cannot be used")

    monkeypatch.setattr(cache, "read", refused)
    with pytest.warns(RuntimeWarning, match="compiled Numba kernels are not stored: the cache cannot be used"):
        np.testing.assert_array_equal(run(kernel_by(5.5)), X * 5.5)
    np.testing.assert_array_equal(run(kernel_by(6.5)), X * 6.5)  # said once


def test_code_that_calls_what_this_process_lacks_is_not_loaded(monkeypatch):
    real = kept._undefined
    monkeypatch.setattr(kept, "_undefined", lambda reference: [*real(reference), "no_such_function"])
    code = kept.ObjectCode.of(module("test_missing"), "test_missing")
    with pytest.raises(kept.MissingSymbolsError, match="no_such_function"):
        code.load()


@pytest.mark.parametrize(
    ("setting", "value"), [("OPT", 0), ("BOUNDSCHECK", 1), ("LOOP_VECTORIZE", 0), ("LLVM_REFPRUNE_PASS", 0)]
)
def test_numbas_settings_are_part_of_the_key(setting, value, monkeypatch):
    before = kept._environment()
    monkeypatch.setattr(internals.config, setting, value)
    assert kept._environment() != before


def test_the_environment_can_turn_it_off():
    said = "import brainevent; print(brainevent.config.get_numba_cache())"
    assert run_program(said, BRAINEVENT_NUMBA_CACHE="0") == "False\n"


@pytest.mark.thorough
def test_ctrl_c_in_the_first_compilation_leaves_numba_whole():
    """Where Numba's tables are half filled, it never fills them again."""
    out = run_program(
        """
        import signal, jax, jax.numpy as jnp, numba, brainevent
        from numba.core.typing.context import BaseContext

        @numba.njit
        def double(x, out):
            for i in range(x.size):
                out[i] = 2 * x[i]

        real = BaseContext.insert_attributes

        def pressed(self, attributes):
            if "ArrayAttribute" in str(attributes):
                signal.raise_signal(signal.SIGINT)
            return real(self, attributes)

        BaseContext.insert_attributes = pressed
        x = jnp.arange(3.0)
        call = brainevent.numba_kernel(double, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))
        try:
            call(x)
        except KeyboardInterrupt:
            print("interrupted")
        print(call(x).tolist())
        """
    )
    assert out == "interrupted\n[0.0, 2.0, 4.0]\n"


THREADED = """
import jax, jax.numpy as jnp, numba, numpy as np, sys
import brainevent
from brainevent.backends.numba import handler, kernel

compiled = []
real = handler.compile_handler
kernel.compile_handler = lambda *args: compiled.append(args[0].__name__) or real(*args)

@numba.njit(parallel=True)
def counted(x, out):
    threads = numba.get_num_threads()
    for i in numba.prange(x.size):
        out[i] = x[i] + (0 <= numba.get_thread_id() < threads)

@numba.njit
def alone(x, out):
    for i in range(x.size):
        out[i] = x[i] + numba.get_num_threads() * 0

for kernel in (counted, alone):
    f = lambda x: brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    print(f(jnp.arange(3.0)).tolist())
saved = jax.export.export(jax.jit(f), disabled_checks=brainevent.export_checks())(jnp.arange(3.0))
print(saved.call(jnp.arange(3.0)).tolist())
print(compiled)
"""


@pytest.mark.thorough
def test_code_that_asks_for_threads_is_kept_and_exported():
    said = "[1.0, 2.0, 3.0]\n[0.0, 1.0, 2.0]\n[0.0, 1.0, 2.0]\n"
    assert run_forked(THREADED) == said + "['counted', 'alone', 'alone']\n"
    assert run_forked(THREADED) == said + "[]\n"


@pytest.mark.parametrize("fails", [False, True])
def test_full_collections_wait_until_a_kernel_is_compiled(fails):
    seen, factor = [], 2.0 + fails  # kernels of different content: each is compiled

    def value():
        raise NotImplementedError

    @numba.extending.overload(value)
    def typed():
        seen.append(gc.get_threshold())
        return None if fails else lambda: 2.0

    @numba.njit
    def scaled(x, out):
        for i in range(x.size):
            out[i] = x[i] * factor * value()

    young, middle, old = gc.get_threshold()
    with pytest.raises(KernelCompilationError, match="value") if fails else contextlib.nullcontext():
        np.testing.assert_array_equal(run(scaled), X * factor * 2)
    assert gc.get_threshold() == (young, middle, old)
    assert seen
    assert all(found[:2] == (young, middle) and found[2] > 1e6 for found in seen)


def test_a_collection_takes_nothing_away_from_a_compiled_kernel():
    @numba.njit
    def wary(x):
        if x[0] > 1:
            raise ValueError("the first element is", x[0], x)

    compiled = numba_kernels.compile_handler(wary, [kept_spec()], [], "test_wary")
    gc.collect()
    assert any(kept.Boxing.of(compiled, "test_wary").values())
