# SPDX-License-Identifier: Apache-2.0
"""A network in which spike timing changes all synapses, and the same one in which nothing does: seconds and memory."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import brainevent as be
from brainevent.network.run.simulation import Simulation

_DT = 0.1  # ms
_DELAY = 1.5
_TAU = 20.0  # of the traces
_WEIGHT = 0.004  # the mean of the drawn ones: they may become twice as large
_DISCARD = 2_000  # steps before the clock starts


def cell(s: Any, arriving: Any, p: Any, random: Any) -> Any:
    """A leaky integrator with exponential currents, driven by Poisson numbers."""
    resting = s.pause == 0
    v = jnp.where(resting, s.v * p.decay + s.i * p.gain, s.v)
    i = s.i * p.fall + (random.poisson(p.events) * p.drive + arriving.syn)
    spike = v >= 15.0
    pause = jnp.where(spike, 20, jnp.where(resting, 0, s.pause - 1))
    return s.replace(v=jnp.where(spike, 0.0, v), i=i, pause=pause), spike


def depress(w: Any, s: Any, pre: Any, post: Any, p: Any) -> Any:
    """A spike of the source that comes after spikes of the target."""
    return w - p.minus * post.y


def potentiate(w: Any, s: Any, pre: Any, post: Any, p: Any) -> Any:
    """A spike of the target that comes after spikes of the source."""
    return w + p.plus * pre.x


def network(n: int, fan: int, *, plastic: bool) -> be.Network:
    """Return n neurons with `fan` targets each."""
    decay, fall = np.exp(-_DT / np.array([10.0, 2.0]))
    weight = _WEIGHT * 1000 / fan
    params = {"decay": decay, "fall": fall, "gain": _DT, "events": 0.1, "drive": 0.525}
    state = {"v": be.uniform(0.0, 15.0), "i": 0.0, "pause": 0}
    cells = be.Population("cells", n, cell, state, {name: float(value) for name, value in params.items()})
    rules = be.Plasticity(
        on_pre=depress,
        on_post=potentiate,
        params={"plus": 0.01 * weight, "minus": 0.0105 * weight},
        pre={"x": be.trace(_TAU)},
        post={"y": be.trace(_TAU)},
        high=2 * weight,
    )
    connect = be.connect.out_degree(fan, weight=be.uniform(0.5 * weight, 1.5 * weight))
    more = {"plasticity": rules} if plastic else {}
    return be.Network([cells], [be.Projection(cells, cells, connect, "syn", _DELAY, "cc", **more)], dt=_DT)


def measure(n: int, fan: int, steps: int, rounds: int) -> dict[str, Any]:
    """Run both in turn; `seconds` are those of each round, and `rates` in Hz.

    `bytes` is what a plastic synapse takes on a GPU, None elsewhere, and `changed` the part of weights that changed.
    """
    sims: dict[str, Simulation] = {}
    for name in ("static", "plastic"):
        sims[name] = network(n, fan, plastic=name == "plastic").build(seed=1)
        sims[name].run(_DISCARD)
    seconds: dict[str, list[float]] = {name: [] for name in sims}
    counts = dict.fromkeys(sims, 0)
    for _ in range(rounds):
        for name, sim in sims.items():
            begin = time.perf_counter()
            result = sim.run(steps, record="cells.counts")
            seconds[name].append(time.perf_counter() - begin)
            counts[name] += int(result["cells.counts"].sum())
    sim = sims["plastic"]
    before = np.concatenate([one.weights for one in sim.plan.plastic])
    after = sim.connections("cc").weights
    memory = getattr(sim.engine, "plastic", None)
    return {
        "seconds": seconds,
        "rates": {name: count / (n * rounds * steps * _DT * 1e-3) for name, count in counts.items()},
        "bytes": memory.nbytes / memory.entries if memory else None,
        "changed": float(np.mean(np.sort(before) != np.sort(after))),
    }
