# SPDX-License-Identifier: Apache-2.0
"""CUBA and COBA: the seconds of some steps, the rate in Hz, and the resident memory, in one of several ways."""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("network.cc")
_DT = 0.1


def measure(
    way: str, model: str, n: int, steps: int, repeats: int, unroll: int = 1, threads: int | None = None
) -> dict[str, Any]:
    """Run one way with several seeds: `seconds` of each, the mean `rate`, and at the end `resident`, in bytes.

    And `on_gpu`, the most bytes that arrays took on a GPU, where the network is on one. `threads` is the number of
    processors to use, all if None.
    """
    limit_processors(threads)
    if way.startswith("cpp"):
        return _by_hand("vector" if way == "cpp_vector" else "plain", model, n, steps, repeats)
    return {"example": _example, "jnp": _plain}[way](model, n, steps, repeats, unroll)


def limit_processors(count: int | None) -> None:
    """Let this process run on so many of its processors: before it starts a thread."""
    if count is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def build_program(source: Path, folder: str) -> str:
    """Compile a C++ program into a folder, for the machine at hand."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise RuntimeError(f"no C++ compiler: {compiler!r} is not on PATH; install g++, or name one in CXX")
    program = str(Path(folder, source.stem))
    subprocess.run([compiler, "-std=c++17", "-O3", "-march=native", str(source), "-o", program], check=True)
    return program


def resident() -> int:
    """The memory of this process that is resident, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _by_hand(loop: str, model: str, n: int, steps: int, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [build_program(SOURCE, folder), model, loop, str(n), str(steps)]
        lines = [subprocess.check_output([*command, str(seed)], text=True).split() for seed in range(repeats)]
    rate = statistics.fmean(float(line[1]) for line in lines)
    return {"seconds": [float(line[0]) for line in lines], "rate": rate, "resident": int(lines[-1][2])}


def _example(model: str, n: int, steps: int, repeats: int, unroll: int) -> dict[str, Any]:
    """Run the network of our examples, as `brainevent.record` does."""
    import jax

    import brainevent
    from benchmarks.operators.coba import COBA
    from benchmarks.operators.cuba import CUBA

    network = {"coba": COBA, "cuba": CUBA}[model]

    def run(seed: int) -> Callable[[], Any]:
        state, synapses = network.prepare(n, seed)
        record = lambda: brainevent.record(network.step, state, steps, synapses, dt=_DT, unroll=unroll)[1]
        return lambda: jax.block_until_ready(record())

    return _timed(map(run, range(repeats)), lambda spikes: float(spikes.rates().mean()))


def _plain(model: str, n: int, steps: int, repeats: int, unroll: int) -> dict[str, Any]:
    """Run what any package of this interface can: neurons in jax.numpy, one product a step, and a scan.

    `unroll` steps are one turn of its loop; `steps` is a multiple.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    import brainevent
    from benchmarks.probes.network_formulas import FORMULAS, start

    formula = FORMULAS[model]

    @jax.jit
    def simulate(state: Any, synapses: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            *neurons, arrived = state
            *neurons, spikes = formula(*neurons, arrived[:n], arrived[n:])
            return (*neurons, brainevent.BinaryArray(spikes) @ synapses), spikes

        def turn(state: Any, _: Any) -> Any:
            state, spikes = jax.lax.scan(step, state, length=unroll, unroll=True)
            return state, jnp.packbits(spikes, axis=1, bitorder="little")  # as our `record` does: the quickest way

        return jax.lax.scan(turn, state, length=steps // unroll)[1]

    # The PyPI package compiles again for other synapses: those of all seeds are the same.
    targets = np.random.default_rng(0).integers(0, n, (n, 80), dtype=np.int32)
    targets[n * 4 // 5 :] += n
    synapses = brainevent.FixedNumPerPre((jnp.ones(1), jnp.asarray(targets)), shape=(n, 2 * n))

    def run(seed: int) -> Callable[[], Any]:
        state = (*start(model, n, seed), jnp.zeros(2 * n))
        return lambda: jax.block_until_ready(simulate(state, synapses))

    def rate(bits: Any) -> float:
        count = sum(int(np.unpackbits(np.asarray(part)).sum()) for part in np.array_split(np.asarray(bits), 100))
        return count / (n * steps * _DT * 1e-3)

    return _timed(map(run, range(repeats)), rate)


def _timed(runs: Iterable[Callable[[], Any]], rate: Callable[[Any], float]) -> dict[str, Any]:
    """Time each run once; before the first, run it to compile."""
    seconds, rates = [], []
    for index, run in enumerate(runs):
        if index == 0:
            run()
        begin = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begin)
        rates.append(rate(result))
    return {"seconds": seconds, "rate": statistics.fmean(rates), **_memory()}


def _memory() -> dict[str, int]:
    import jax

    stats = jax.local_devices()[0].memory_stats()  # None on a CPU
    return {"resident": resident(), **({"on_gpu": stats["peak_bytes_in_use"]} if stats else {})}
