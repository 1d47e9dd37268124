# SPDX-License-Identifier: Apache-2.0
"""Loops that run for long end when Ctrl-C is pressed, and show their progress."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked
from jax import lax

from brainevent import config
from brainevent.loops import pulses
from brainevent.loops.lowering import planned

# Loops that would run for hours, and a kernel that presses Ctrl-C in their first step.
HEAD = """
    import ctypes, os, re, signal, sys, threading, time, traceback
    import jax, jax.numpy as jnp, numba, numpy as np
    from jax import lax
    import brainevent as be

    send = numba.types.ExternalFunction("raise", numba.types.int32(numba.types.int32))

    @numba.njit
    def press(step, v, out):
        if step[0] == 2:
            send(2)
        for k in range(v.size):
            out[k] = v[k]

    pressed = be.XLACustomKernel("pressed")
    pressed.def_numba_kernel(lambda *, outs: be.numba_kernel(press, outs=outs))

    def endless(v, steps=2 * 10**9, presses=True):
        def step(carry, _):
            count, v = carry
            v = jnp.where(v > 1, v - 2, v * 0.5 + 0.75)
            if presses:
                [v] = pressed(count[None], v, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return (jnp.minimum(count + 1, 10), v), None

        start = jnp.where(v[0] == 0, 0, 10).astype(jnp.int32)  # one element of a batch presses, and one device
        return lax.scan(step, (start, v), None, length=steps)[0][1]

    def heavy(v):
        large = jnp.outer(v, v)
        return jnp.cos(v @ large) @ large  # so that XLA runs the program on a thread of its own

    v = jnp.linspace(0, 1, 256)
    be.config.fuse_loops()

    def interrupted(run, *args):
        try:
            try:
                run(*args)
            except KeyboardInterrupt:
                return "KeyboardInterrupt"
            return "nothing was raised"
        except KeyboardInterrupt:
            return "KeyboardInterrupt, late"
"""
WAYS = """
    def short(v):
        return endless(v, 2000, False)

    def block(run):
        return lambda *args: jax.block_until_ready(run(*args))

    with be.config.fuse_loops(False):
        wanted = np.asarray(jax.jit(short)(v))

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    split = jax.device_put(v, jax.sharding.NamedSharding(mesh, spec))
    donated = jnp.array(v)
    asynchronous = jax.jit(lambda v: heavy(v) + endless(v))
    exported = jax.export.export(jax.jit(lambda v: endless(v)), disabled_checks=be.export_checks())(v).serialize()
    ways = {
        "jit": (jax.jit(endless), v),
        "eager": (endless, v),
        "as an array of NumPy": (lambda v: np.asarray(asynchronous(v)), v),
        "asynchronous": (block(asynchronous), v),
        "vmap": (block(jax.jit(jax.vmap(endless))), jnp.stack([v, v + 1])),
        "sharded": (block(jax.jit(jax.shard_map(endless, mesh=mesh, in_specs=spec, out_specs=spec))), split),
        "donated": (block(jax.jit(endless, donate_argnums=0)), donated),
        "exported": (block(jax.jit(jax.export.deserialize(exported).call)), v),
    }
    for name, (run, x) in ways.items():
        print(name, interrupted(run, x))
        np.testing.assert_array_equal(jax.jit(short)(v), wanted)
    print(donated.is_deleted(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_ends_a_loop_and_the_process_goes_on():
    found = run_forked(HEAD + WAYS, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    *lines, last = found.splitlines()
    assert len(lines) == 8
    assert all(line.endswith(" KeyboardInterrupt") for line in lines), found
    assert last == "True True"


HANDLERS = """
    def few(v):
        return endless(v, 10**5)

    with be.config.fuse_loops(False):
        wanted = np.asarray(jax.jit(lambda v: endless(v, 10**5, False))(v))

    seen = []
    signal.signal(signal.SIGINT, lambda *given: seen.append(given[0]))
    for run in (few, lambda v: 0 * heavy(v) + few(v)):
        np.testing.assert_array_equal(jax.jit(run)(v), wanted)
        print(len(seen))

    class Stopped(Exception):
        pass

    def stop(*given):
        raise Stopped("by a handler", 3)

    signal.signal(signal.SIGINT, stop)
    try:
        try:
            jax.jit(endless)(v)
        except jax.errors.JaxRuntimeError as error:
            print("an error before it:", error)
            time.sleep(0)
    except Stopped as error:
        print(error.args)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    np.testing.assert_array_equal(jax.jit(few)(v), wanted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(interrupted(jax.jit(endless), v))
"""


def test_a_handler_of_the_program_decides():
    found = run_forked(HEAD + HANDLERS).splitlines()
    assert found[:2] == ["1", "2"]
    assert found[-2:] == ["('by a handler', 3)", "KeyboardInterrupt"], found


def test_what_an_interrupted_loop_computed_is_an_error():
    found = run_forked(
        HEAD
        + """
    result = jax.jit(lambda v: heavy(v) + endless(v, presses=False))(v)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    try:
        print(np.asarray(result))
    except Exception as error:
        print(type(error).__name__, error)
    """
    )
    assert found.splitlines() == [
        "KeyboardInterrupt",
        "JaxRuntimeError INTERNAL: a native loop was interrupted by Ctrl-C",
    ]


def test_a_program_that_ctrl_c_ends_does_not_wait_for_its_loops():
    found = run_forked(
        HEAD
        + """
    result = jax.jit(lambda v: heavy(v) + endless(v, presses=False))(v)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    """
    )
    assert found == "KeyboardInterrupt\n"


@pytest.mark.parametrize("inner", [pytest.param("scan", marks=pytest.mark.thorough), "while_loop"])
def test_ctrl_c_ends_loops_within_loops(inner):
    program = """
    def within(v):
        def step(v, _):
            if INNER == "scan":
                return endless(v, 10**8), None
            more = lambda pair: pair[1][0] < 5
            return lax.while_loop(more, lambda pair: (pair[0] + 1, pressed_in(*pair)), (jnp.int32(0), v))[1], None

        return lax.scan(step, v, None, length=100)[0]

    def pressed_in(count, v):
        [v] = pressed(count[None], jnp.where(v > 1, v - 2, v * 0.5 + 0.75), outs=[v])
        return v

    print(be.explain_loops(within, v)[0].is_fused)
    print(interrupted(jax.jit(within), v))
    """.replace("INNER", repr(inner))
    assert run_forked(HEAD + program).splitlines() == ["True", "KeyboardInterrupt"]


# ---- progress -------------------------------------------------------------------------------------------------------

SLOW = """
    sleep = ctypes.CDLL(None).usleep
    sleep.argtypes, sleep.restype = [ctypes.c_uint], ctypes.c_int

    @numba.njit
    def sleeps(v, out):
        sleep(25000)
        for k in range(v.size):
            out[k] = v[k]

    slow = be.XLACustomKernel("slow")
    slow.def_numba_kernel(lambda *, outs: be.numba_kernel(sleeps, outs=outs))

    @jax.jit
    def run(v):
        return lax.scan(lambda v, _: (slow(v, outs=[v])[0], None), v, None, length=40)[0]

    def written(run):
        sys.stderr.flush()
        file, before = os.open("written", os.O_CREAT | os.O_TRUNC | os.O_RDWR), os.dup(2)
        os.dup2(file, 2)
        run(v).block_until_ready()
        os.dup2(before, 2)
        return open("written").read()

    os.chdir(sys.argv[1])
    print(repr(written(run)))
    with be.config.show_loop_progress():
        print(written(run), end="")
    print(repr(written(run)))
"""


def test_progress_is_shown_without_another_compilation(tmp_path):
    """In a file, there is a line for each tenth; nothing within the first half second."""
    first, *lines, last, again = run_forked(HEAD + SLOW, tmp_path).splitlines()
    assert (first, again) == ("''", "''")
    assert re.fullmatch(r"loop: 40 steps in \d+\.\d s", last)
    shape = re.compile(r"loop: (\d+) of 40 steps, (\d+) % in \d+\.\d s, about \d+ s left")
    found = [tuple(map(int, shape.fullmatch(line).groups())) for line in lines]
    assert found
    assert all(step * 100 // 40 == share for step, share in found)
    assert len({share // 10 for _, share in found}) == len(found)


def test_progress_is_a_setting():
    assert config.loop_progress_cell.value == 0
    with config.show_loop_progress():
        with config.show_loop_progress(False):
            assert config.loop_progress_cell.value == 0
        assert config.loop_progress_cell.value == 1
    config.show_loop_progress()
    assert config.loop_progress_cell.value == 1
    config.show_loop_progress(False)
    assert config.loop_progress_cell.value == 0
    with pytest.raises(TypeError, match=r"config.show_loop_progress: on must be True or False, found 1"):
        config.show_loop_progress(1)


# ---- which steps ----------------------------------------------------------------------------------------------------


def text_of(function, *args):
    [eqn] = [eqn for eqn in jax.make_jaxpr(function)(*args).jaxpr.eqns if eqn.primitive.name == "scan"]
    plan = planned(eqn.params, "cpu")
    return plan, "\n".join(pulses.steps_of(plan, ["step_here"], shows=True))


@pytest.mark.parametrize(("neurons", "steps", "first"), [(16, 4096, None), (16, 4097, 4096), (2**17, 32, 1)])
def test_short_loops_have_no_pulse(neurons, steps, first):
    def run(v):
        return lax.scan(lambda v, _: (v * 0.5, None), v, None, length=steps)[0]

    _, text = text_of(run, jax.ShapeDtypeStruct((neurons,), "float32"))
    begin = re.search(r"ahead = pulse_memory\(\), 0, (\d+)", text)
    assert (None if begin is None else int(begin[1])) == first


def test_every_step_runs_once_whatever_the_time_of_a_step():
    """The pulse cuts the steps into pieces: rows, carries and the order of steps are those of XLA's loop."""
    steps = 100_000

    def run(v):
        def step(carry, x):
            count, v = carry
            return (count + 1, v + x), count * 2 + x

        return lax.scan(step, (jnp.int32(0), v), jnp.arange(steps, dtype=jnp.int32) % 7, reverse=True)

    assert "next_pulse" in text_of(run, jnp.int32(3))[1]
    wanted = jax.jit(run)(jnp.int32(3))
    with config.fuse_loops():
        found = jax.jit(run)(jnp.int32(3))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
