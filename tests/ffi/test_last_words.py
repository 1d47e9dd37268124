# SPDX-License-Identifier: Apache-2.0
"""What kernels raise is told, also where XLA aborts the process; and Ctrl-C in a native call comes after it."""

import ctypes
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numba
import pytest
from cpp_sources import basics
from programs import program_environment, run_program

import brainevent
from brainevent.backends.source import library as libraries
from brainevent.backends.source import portable as carrying
from brainevent.ffi import last_words
from brainevent.ffi.callbacks import native_address

ABORTED = """
    import sys
    import jax, jax.numpy as jnp, numba, brainevent
    from jax.sharding import PartitionSpec as P

    @numba.njit
    def picky(x, out):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("negative")
            out[i] = x[i]

    module = brainevent.load_cpp_inline("picky", '''
    #include "brainevent/common.h"
    // @BE checked arg ret
    void checked(const BE::Tensor x, BE::Tensor out) {
      for (int64_t i = 0; i < x.numel(); ++i) {
        BE_CHECK(x.data_ptr<float>()[i] < 5) << "too large";
        out.data_ptr<float>()[i] = x.data_ptr<float>()[i];
      }
    }
    ''')

    def total(x):
        return jax.lax.psum(module.checked(brainevent.numba_kernel(picky, outs=x)(x), outs=x), "d")

    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    summed = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False))
    x = jnp.arange(4.0)
    print(summed(x))
    try:
        brainevent.numba_kernel(picky, outs=x)(-x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print(error)
    print("so far", file=sys.stderr)
    summed(jnp.array([0.0, 1.0, 9.0, -1.0])).block_until_ready()
"""


@pytest.mark.thorough
def test_an_error_on_one_device_is_reported_before_xla_aborts_the_collective():
    flags = (
        "--xla_force_host_platform_device_count=4 --xla_cpu_collective_call_warn_stuck_timeout_seconds=1 "
        "--xla_cpu_collective_call_terminate_timeout_seconds=1 --xla_backend_optimization_level=0"
    )
    command = [sys.executable, "-c", textwrap.dedent(ABORTED)]
    environment = program_environment(XLA_FLAGS=flags, PYTHONFAULTHANDLER="1")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGABRT, ended.stderr
    assert ended.stdout.startswith("[6.]\nINTERNAL: Numba kernel 'picky' raised ValueError: negative")
    before, _, after = ended.stderr.partition("so far")
    assert "brainevent" not in before
    assert after.count("brainevent: before this process was aborted, kernels had raised:") == 1
    assert after.count("Numba kernel 'picky' raised ValueError: negative (<string>:") == 1
    assert after.count("be_checked: [be] CHECK FAILED at picky.cpp:") == 1
    assert "the device of such a kernel did not reach it" in after
    assert "Fatal Python error: Aborted" in after  # who handled the signal before handles it after


@numba.njit
def too_large(x, out):
    for i in range(x.size):
        out[i] = x[i]
    if x[0] > 1:
        raise ValueError("too large")


def test_an_error_that_comes_again_is_noted_once(unique_name):
    x, name = jnp.full(1, 2.0), unique_name("noted")
    operator = brainevent.XLACustomKernel(name)
    operator.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(too_large, outs=outs))
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="too large"):
            operator(x, outs=x).block_until_ready()
        last_words.note("another")
    [text] = [text for text in last_words._said if name in text]
    assert text.startswith(f"operator '{name}': Numba kernel 'too_large' raised ValueError: too large")
    assert [name in text for text in last_words._said][-2:] == [True, False]


def test_libraries_tell_of_their_errors_also_where_they_were_carried():
    module = basics()
    with pytest.raises(jax.errors.JaxRuntimeError, match="how is 1"):
        module.fail(jnp.ones(3), outs=jnp.ones(3), how=1).block_until_ready()
    assert any("be_fail: [be] CHECK FAILED" in text for text in last_words._said)
    library = carrying._loaded(module.read_bytes())
    assert ctypes.c_void_p.in_dll(library, "BE_REPORT").value == libraries._report_address()


def test_the_latest_errors_are_kept_and_cut():
    for i in range(20):
        last_words.note(f"error {i} {'x' * 5000}")
    assert len(last_words._said) == 8
    text = ctypes.string_at(last_words._words.value + 8, ctypes.c_int64.from_address(last_words._words.value).value)
    assert text.count(b"error ") == 8 + text.count(b"kernel's error ")
    assert b" error 19 xxx" in text
    assert len(text) < 8 * 2100 + 500


def test_a_note_that_fails_costs_no_error(monkeypatch):
    monkeypatch.setattr(last_words, "_install", lambda: 1 / 0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: too large"):
        brainevent.numba_kernel(too_large, outs=jnp.ones(1))(jnp.full(1, 2.0)).block_until_ready()


# ---- interrupts -----------------------------------------------------------------------------------------------------

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class Frame:
    """A call frame with XLA's function that makes errors, which notes their texts."""

    def __init__(self):
        self.texts = []
        create = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        self.create = create(lambda args: self.texts.append(ctypes.string_at(args_text(args)).decode()) or 99)
        self.api, self.words = (ctypes.c_int64 * 64)(), (ctypes.c_int64 * 64)()
        self.api[6] = ctypes.cast(self.create, ctypes.c_void_p).value
        self.words[2] = ctypes.addressof(self.api)

    def __call__(self, address):
        return CALL(address)(ctypes.addressof(self.words))


def args_text(args):
    return ctypes.c_int64.from_address(args + 16).value


def test_an_answer_passes_and_an_exception_becomes_an_error():
    frame = Frame()
    assert frame(native_address(lambda call_frame: 7, repr)) == 7
    assert frame(native_address(lambda call_frame: 1 // 0, repr)) == 99
    assert frame.texts == ["ZeroDivisionError('integer division or modulo by zero')"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeyboardInterrupt("mine")], ids=repr)
def test_ctrl_c_is_raised_after_the_call(error):
    frame = Frame()

    def handle(call_frame):
        raise error

    address = native_address(handle, repr)
    with pytest.raises(KeyboardInterrupt) as caught:
        frame(address)
    assert caught.value.args == error.args
    assert frame.texts == [repr(error)]


# Get a signal, and then call: with no moment for Python in between.
SIGNALLED = """
declare i32 @raise(i32)
define i64 @signalled(ptr %address, ptr %frame) {{
  %sent = call i32 @raise(i32 {signal})
  %answer = call i64 %address(ptr %frame)
  ret i64 %answer
}}
"""


@pytest.fixture(scope="module")
def signalled():
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(SIGNALLED.format(signal=int(signal.SIGUSR1))), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return call(engine.get_function_address("signalled")), engine


class AlarmError(Exception):
    """What the handler of a signal raises."""


@pytest.mark.parametrize("error", [AlarmError("late"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_a_signal_raised_before_the_call_is_raised_after_it(signalled, error):
    call, _ = signalled

    def raise_it(*_):
        raise error

    frame, calls = Frame(), []
    address = native_address(calls.append, repr)
    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        with pytest.raises(type(error)) as caught:
            call(address, ctypes.addressof(frame.words))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught.value.args == error.args
    assert (frame.texts, calls) == ([repr(error)], [])


AFTER_THE_END = """
    import ctypes
    from brainevent.ffi import last_words

    last_words.note("a kernel raised")
    ctypes.pythonapi.Py_AtExit.argtypes = [ctypes.c_void_p]
    ctypes.pythonapi.Py_AtExit(ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p))  # called when Python has ended
"""


@pytest.mark.thorough
def test_the_last_words_outlive_python():
    """XLA aborts 40 seconds after a kernel raised; a program may have come to its end by then."""
    command = [sys.executable, "-c", textwrap.dedent(AFTER_THE_END)]
    ended = subprocess.run(command, env=program_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGABRT
    assert "before this process was aborted, kernels had raised:" in ended.stderr
    assert "a kernel raised\n" in ended.stderr


INTERRUPTED = """
    import ctypes
    import jax, jax.numpy as jnp, numba, brainevent

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # so that the kernel runs in this thread
    send = ctypes.CDLL(None)["raise"]
    send.argtypes, send.restype = [ctypes.c_int], ctypes.c_int

    @numba.njit
    def long(x, out):
        send(2)
        if x[0] < 0:
            raise ValueError("mine")
        for i in range(x.size):
            out[i] = x[i]

    x = jnp.ones(3)
    call = brainevent.numba_kernel(long, x)
    for given in (x, -x, jnp.stack([x, -x, x])):
        try:
            (call if given.ndim == 1 else jax.vmap(call))(given).block_until_ready()
        except KeyboardInterrupt:
            print("interrupted")
    @numba.njit
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]
    print(brainevent.numba_kernel(double, x)(x))
"""


@pytest.mark.thorough
def test_ctrl_c_during_a_kernel_comes_after_it_also_if_it_raises():
    """It crashed the process: Python raised before the first line of the report, and XLA freed what was no error."""
    assert run_program(INTERRUPTED) == "interrupted\n" * 3 + "[2. 2. 2.]\n"
