# SPDX-License-Identifier: Apache-2.0
"""Loops that run for long end when Ctrl-C is pressed, and show their progress."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endless_loops import HEAD
from forked import run_forked
from jax import lax

from brainevent import config
from brainevent.loops import pulses
from brainevent.loops.lowering import planned

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


INTERRUPTED = """
    SENT = int(signal.SIGUSR1)  # by the loop, when it runs
    press_later = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    signal.signal(signal.SIGUSR1, lambda *_: press_later.start())
    result = jax.jit(lambda v: heavy(v) + endless(v))(v)
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
"""
READ = """
    try:
        print(np.asarray(result))
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_what_an_interrupted_loop_computed_is_an_error():
    found = run_forked(HEAD + INTERRUPTED + READ)
    assert found.splitlines() == [
        "KeyboardInterrupt",
        "JaxRuntimeError INTERNAL: a native loop was interrupted by Ctrl-C",
    ]


HOLDS_PYTHON = """
    sys.setswitchinterval(100)  # the main thread, once it runs, gives Python's lock to no other
    due = time.monotonic() + 0.05
    while time.monotonic() < due:
        pass
"""


@pytest.mark.parametrize("ending", ["", HOLDS_PYTHON], ids=["at once", "holding the lock"])
def test_a_program_that_ctrl_c_ends_does_not_wait_for_its_loops(ending):
    """Nor does it wait for ever: JAX holds Python's lock while it waits for loops, which may be asking Python then."""
    assert run_forked(HEAD + INTERRUPTED + ending, timeout=60) == "KeyboardInterrupt\n"


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


# ---- on a GPU: between launches -------------------------------------------------------------------------------------

ON_GPU = """
    import loops_on_pretended_gpu
    from brainevent.loops import lowering
    from brainevent.loops.gpu import program

    lowering.lowering_platforms = lambda ctx: ("cuda",)
    program.Gpu = loops_on_pretended_gpu.PretendGpu
    program.steps_of_launch = lambda written, shape: 500

    def long(v, steps=10**9):
        return lax.scan(lambda v, _: (jnp.where(v > 1, v - 2, v * 0.5 + 0.75), None), v, None, length=steps)[0]

    v = jnp.linspace(0, 1, 32)
"""
INTERRUPTED_ON_GPU = """
    with be.config.fuse_loops(False):
        wanted = np.asarray(jax.jit(lambda v: long(v, 3000))(v))
    for program in (long, lambda v: heavy(v) + long(v)):
        compiled = jax.jit(program).lower(v).compile()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        print(interrupted(lambda: jax.block_until_ready(compiled(v))))
        np.testing.assert_array_equal(jax.jit(lambda v: long(v, 3000))(v), wanted)
    result = compiled(v)  # in another thread
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    print(interrupted(lambda: time.sleep(60)))
    try:
        print(np.asarray(result))
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_ctrl_c_ends_a_loop_on_a_gpu_between_its_launches():
    assert run_forked(HEAD + ON_GPU + INTERRUPTED_ON_GPU).splitlines() == [
        "KeyboardInterrupt",
        "KeyboardInterrupt",
        "KeyboardInterrupt",
        "JaxRuntimeError INTERNAL: a native loop was interrupted by Ctrl-C",
    ]


SHOWN_ON_GPU = """
    os.dup2(1, 2)  # progress is written to stderr
    with be.config.show_loop_progress():
        jax.block_until_ready(jax.jit(lambda v: long(v, 20_000_000))(v))
"""


def test_a_loop_on_a_gpu_shows_its_progress():
    *lines, last = run_forked(HEAD + ON_GPU + SHOWN_ON_GPU).splitlines()
    assert re.fullmatch(r"loop: 20000000 steps in \d+\.\d s", last)
    assert lines
    assert all(line.startswith("loop: ") and " of 20000000 steps, " in line for line in lines)


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
