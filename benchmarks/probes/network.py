# SPDX-License-Identifier: Apache-2.0
"""CUBA and COBA: seconds for so many steps, the rate in Hz, and the resident memory, in one of several ways."""

import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("network.cc")
_DT = 0.1


def measure(way: str, model: str, n: int, steps: int, repeats: int, unroll: int = 1) -> dict[str, Any]:
    """Run one way so many times: `seconds`, all of them; `rate`, that of the last; `resident`, in bytes, at the end.

    And `on_gpu`, the most bytes that arrays took on a GPU, where the network is on one.
    """
    ways = {"cpp": _cpp("plain"), "cpp_vector": _cpp("vector")}
    ways |= {name: functools.partial(run, unroll=unroll) for name, run in (("ours", _ours), ("jnp", _plain))}
    return ways[way](model, n, steps, repeats)


def _cpp(loop: str) -> Callable[..., dict[str, Any]]:
    def run(model: str, n: int, steps: int, repeats: int) -> dict[str, Any]:
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise RuntimeError(f"no C++ compiler: {compiler!r} is not on PATH; install g++, or name one in CXX")
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder, "network"))
            subprocess.run([compiler, "-std=c++17", "-O3", "-march=native", str(SOURCE), "-o", program], check=True)
            command = [program, model, loop, str(n), str(steps)]
            lines = [subprocess.check_output([*command, str(seed)], text=True).split() for seed in range(repeats)]
        last = lines[-1]
        return {"seconds": [float(x[0]) for x in lines], "rate": float(last[1]), "resident": int(last[2])}

    return run


def _ours(model: str, n: int, steps: int, repeats: int, unroll: int) -> dict[str, Any]:
    """Run the network of our examples, as `brainevent.record` does."""
    import jax

    import brainevent
    from benchmarks.operators.coba import COBA
    from benchmarks.operators.cuba import CUBA

    network = {"coba": COBA, "cuba": CUBA}[model]
    state, synapses = network.prepare(n)

    def run() -> Any:
        return jax.block_until_ready(brainevent.record(network.step, state, steps, synapses, dt=_DT, unroll=unroll)[1])

    seconds, spikes = _timed(run, repeats)
    return {"seconds": seconds, "rate": float(spikes.rates().mean()), **_memory()}


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
    targets = np.random.default_rng(0).integers(0, n, (n, 80), dtype=np.int32)
    targets[n * 4 // 5 :] += n
    synapses = brainevent.FixedNumPerPre((jnp.ones(1), jnp.asarray(targets)), shape=(n, 2 * n))

    @jax.jit
    def run(state: Any, synapses: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            *neurons, arrived = state
            *neurons, spikes = formula(*neurons, arrived[:n], arrived[n:])
            return (*neurons, brainevent.BinaryArray(spikes) @ synapses), spikes

        def turn(state: Any, _: Any) -> Any:
            state, spikes = jax.lax.scan(step, state, length=unroll, unroll=True)
            return state, jnp.packbits(spikes, axis=1, bitorder="little")  # as our `record` does: the quickest way

        return jax.lax.scan(turn, state, length=steps // unroll)[1]

    state = (*start(model, n), jnp.zeros(2 * n))
    seconds, bits = _timed(lambda: jax.block_until_ready(run(state, synapses)), repeats)
    count = sum(int(np.unpackbits(np.asarray(part)).sum()) for part in np.array_split(np.asarray(bits), 100))
    return {"seconds": seconds, "rate": count / (n * steps * _DT * 1e-3), **_memory()}


def _timed(run: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Return the seconds of each run after the first, which compiles, and the last result."""
    result, seconds = run(), []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def _memory() -> dict[str, int]:
    import jax

    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    stats = jax.local_devices()[0].memory_stats()  # None on a CPU
    return {"resident": resident, **({"on_gpu": stats["peak_bytes_in_use"]} if stats else {})}
