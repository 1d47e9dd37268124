# SPDX-License-Identifier: Apache-2.0
"""Time the same kernel where it is the default, where the call names it, and where `tune` has chosen it."""

import difflib
import itertools
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import brainevent
from benchmarks.probes.contenders import Contender, like, make_numba_add
from benchmarks.probes.gpu_contenders import operands
from benchmarks.probes.modules import load_module
from benchmarks.probes.rounds import interleave, time_calls
from benchmarks.probes.sources import FUNCTION

_SIZES = {"cpu": 64, "gpu": 1024}
_SLOW_TURNS = 1_000


def measure(
    platform: str, loop: int, copies: int, eager_calls: int, jitted_calls: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per call, as `loop_WAY`, `jitted_WAY` and `eager_WAY`; fails unless all compile to the same program.

    Loops are compiled `copies` times and take turns, since where a program lies in memory is worth some per cent.
    """
    a, b = operands(_SIZES[platform])
    with tempfile.TemporaryDirectory() as folder:
        ways = _make_ways(platform, a, b, folder)
        jitted = {way: jax.jit(call) for way, call in ways.items()}
        loops = [{way: jax.jit(_looped(call, loop)) for way, call in ways.items()} for _ in range(copies)]
        for same in (jitted, *loops):
            _check_programs(same, a, b)
        timers = {f"loop_{way}": _in_turn([_timer(copy[way], a, b, loop, 1) for copy in loops]) for way in ways}
        timers |= {f"jitted_{way}": _timer(call, a, b, 1, jitted_calls) for way, call in jitted.items()}
        timers |= {f"eager_{way}": _timer(call, a, b, 1, eager_calls) for way, call in ways.items()}
        return interleave(timers, rounds)


def _make_ways(platform: str, a: jax.Array, b: jax.Array, folder: str) -> dict[str, Contender]:
    """Calls that run the same kernel; only one operator has it as its default."""
    fast = _fast_kernel(platform)
    brainevent.set_cache_dir(folder)  # what is tuned here is for this process alone
    first = _make_operator("bench_operator_first", platform, {"fast": fast, "slow": _slow_kernel})
    last = _make_operator("bench_operator_last", platform, {"slow": _slow_kernel, "fast": fast})
    tuned = _make_operator("bench_operator_tuned", platform, {"slow": _slow_kernel, "fast": fast})
    found = tuned.tune(a, b, outs=[like(a)])
    assert found.backend == "fast", f"tune did not choose the fast kernel:\n{found}"
    return {
        "default": lambda a, b: first(a, b, outs=[like(a)])[0],
        "named": lambda a, b: last(a, b, outs=[like(a)], backend="fast")[0],
        "tuned": lambda a, b: tuned(a, b, outs=[like(a)])[0],
    }


def _make_operator(name: str, platform: str, kernels: dict[str, Callable[..., Any]]) -> Any:
    operator = brainevent.XLACustomKernel(name)
    for backend, generator in kernels.items():
        operator.def_kernel(backend, platform, generator)
    return operator


def _fast_kernel(platform: str) -> Callable[..., Any]:
    if platform == "cpu":
        add = make_numba_add()
        return lambda *, outs: brainevent.numba_kernel(add, outs=outs)
    vector_add = getattr(load_module("cuda"), FUNCTION)
    return lambda *, outs: lambda a, b: vector_add(a, b, outs=outs)


def _slow_kernel(*, outs: Any) -> Callable[..., list[jax.Array]]:
    """The same sum, again and again."""

    def add(a: jax.Array, b: jax.Array) -> list[jax.Array]:
        return [jax.lax.fori_loop(0, _SLOW_TURNS, lambda _, total: a + b + 0 * total, a)]

    return add


def _looped(call: Contender, calls: int) -> Contender:
    return lambda a, b: jax.lax.fori_loop(0, calls, lambda _, total: call(total, b), a)


def _in_turn(timers: Sequence[Callable[[], float]]) -> Callable[[], float]:
    turn = itertools.cycle(timers)
    return lambda: next(turn)()


def _timer(call: Contender, a: jax.Array, b: jax.Array, sums: int, repeats: int) -> Callable[[], float]:
    """Time a call that adds so often, after a look at what it computes."""
    np.testing.assert_array_equal(call(a, b), np.asarray(a) + sums * np.asarray(b))
    return time_calls(lambda: call(a, b).block_until_ready(), repeats=repeats, calls=sums)


def _check_programs(calls: dict[str, Any], a: jax.Array, b: jax.Array) -> None:
    programs = {way: program_of(call.lower(a, b).compile().as_text()) for way, call in calls.items()}
    default = programs["default"]
    for way, program in programs.items():
        difference = difflib.unified_diff(default.splitlines(), program.splitlines(), "default", way, lineterm="")
        assert program == default, "\n".join(["not the same program:", *difference])


def program_of(text: str) -> str:
    """The computations of a compiled module's text, without what says where in the source, and for whom, they are."""
    computations = text[re.search(r"^(%|ENTRY)", text, re.MULTILINE).start() :]  # type: ignore[union-attr]
    return re.sub(r"bench_operator_\w+", "", re.sub(r",? metadata=\{[^}]*\}", "", computations))
