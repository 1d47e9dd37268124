# SPDX-License-Identifier: Apache-2.0
"""The networks of the benchmarks as descriptions: CUBA, COBA, PD14, a connectome, and one that does next to nothing."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import brainevent as be
from benchmarks.probes.flywire import build_flywire

DT = 0.1  # ms
FAN_OUT = 80


def ours(name: str, neurons: int, threads: int, seed: int = 1) -> Any:
    """Build one of `NETWORKS` for some threads; of PD14, `neurons` says how many per cent there are, all for 0."""
    return NETWORKS[name](neurons).build(seed=seed, threads=threads)


# ---- CUBA and COBA


def _cuba(s: Any, arriving: Any, p: Any) -> Any:
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    v = p.rest + (s.v - p.rest) * p.decay_v + exc * p.exc_to_v + inh * p.inh_to_v
    return _fire(s, v, exc, inh, p)


def _coba(s: Any, arriving: Any, p: Any) -> Any:
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    a = p.rate * (1 + exc + inh)
    push = p.rest + p.drive - s.v + exc * (p.e_exc - s.v) + inh * (p.e_inh - s.v)
    # (1 - exp(-a)) / a is 12 / (12 + 6 a + a^2), to a millionth for a < 0.15.
    return _fire(s, s.v + push * (12 * p.rate / (12 + a * (6 + a))), exc, inh, p)


def _fire(s: Any, v: Any, exc: Any, inh: Any, p: Any) -> Any:
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v > p.threshold
    pause = jnp.where(spike, 49, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), exc=exc * p.decay_e, inh=inh * p.decay_i, pause=pause), spike


_DECAY = {tau: math.exp(-DT / tau) for tau in (20, 10, 5)}
_FIRING = {"threshold": -50.0, "reset": -60.0, "decay_e": _DECAY[5], "decay_i": _DECAY[10]}
_CUBA = {"rest": -49.0, "decay_v": _DECAY[20], "exc_to_v": 5 / 15 * (_DECAY[20] - _DECAY[5])}
_CUBA |= {"inh_to_v": _DECAY[20] - _DECAY[10]}
_COBA = {"rest": -60.0, "drive": 20.0, "e_exc": 0.0, "e_inh": -80.0, "rate": DT / 20}


def _two_kinds(n: int, rule: Callable[..., Any], state: Any, params: Any, w_e: float, w_i: float) -> Any:
    """Four fifths of the neurons are excitatory; every pair is connected with a probability of 80 / n."""
    sizes = {"exc": n * 4 // 5, "inh": n - n * 4 // 5}
    kinds = [
        be.Population(name, size, rule, state=state | {"pause": 0}, params=params | _FIRING)
        for name, size in sizes.items()
    ]
    return be.Network(
        kinds,
        [
            be.Projection(source, target, be.connect.prob(FAN_OUT / n, weight=weight), into=source.name, delay=DT)
            for source, weight in zip(kinds, (w_e, w_i), strict=True)
            for target in kinds
        ],
        dt=DT,
    )


def _build_cuba(n: int) -> Any:
    return _two_kinds(n, _cuba, {"v": be.uniform(-60, -50), "exc": 0.0, "inh": 0.0}, _CUBA, 1.62, -9.0)


def _build_coba(n: int) -> Any:
    state = {"v": be.normal(-55, 5), "exc": be.normal(4, 1.5), "inh": be.normal(20, 12)}
    return _two_kinds(n, _coba, state, _COBA, 0.6, 6.7)


# ---- PD14

LAYERS = ("L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")
SIZES = (20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948)
_EXTERNAL = (1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100)  # Poisson inputs of each neuron, of 8 Hz
_PROBABILITY = (  # rows are targets
    (0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0, 0.0076, 0),
    (0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0, 0.0042, 0),
    (0.0077, 0.0059, 0.0497, 0.135, 0.0067, 0.0003, 0.0453, 0),
    (0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0, 0.1057, 0),
    (0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0),
    (0.0548, 0.0269, 0.0257, 0.0022, 0.06, 0.3158, 0.0086, 0),
    (0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252),
    (0.0364, 0.001, 0.0034, 0.0005, 0.0277, 0.008, 0.0658, 0.1443),
)
_RATES = (0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829)  # Hz, as published for the full scale
_V_MEAN = (-68.28, -63.16, -63.33, -63.45, -63.11, -61.66, -66.72, -61.43)
_V_SD = (5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48)
_WEIGHT = 87.81  # pA
_TAU_M, _TAU_S, _CAPACITY = 10, 0.5, 250
_FALL, _LEAK = math.exp(-DT / _TAU_S), math.exp(-DT / _TAU_M)
_MEMBRANE = {"rest": -65.0, "threshold": -50.0, "leak": _LEAK, "fall": _FALL}
_MEMBRANE |= {"gain": _TAU_M * _TAU_S / (_CAPACITY * (_TAU_M - _TAU_S)) * (_LEAK - _FALL)}


def _poisson_driven(s: Any, arriving: Any, p: Any, random: Any) -> Any:
    return _integrate(s, arriving.syn + p.w_ext * random.poisson(p.mean_ext), 0.0, p)


def _scaled_poisson(s: Any, arriving: Any, p: Any, random: Any) -> Any:
    return _integrate(s, arriving.syn + p.w_ext * random.poisson(p.mean_ext), p.push, p)


def _dc_driven(s: Any, arriving: Any, p: Any) -> Any:
    return _integrate(s, arriving.syn, p.push, p)


def _integrate(s: Any, arrived: Any, push: Any, p: Any) -> Any:
    v = jnp.where(s.pause > 0, s.v, p.rest + (s.v - p.rest) * p.leak + s.current * p.gain + push)
    spike = v >= p.threshold
    pause = jnp.where(spike, 20, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.rest, v), current=s.current * p.fall + arrived, pause=pause), spike


def synapses_of_pd14(target: int, source: int, scale: float = 1) -> int:
    """How many synapses lead from one population to another."""
    return round(scale**2 * _full_synapses(target, source))


def _full_synapses(target: int, source: int) -> float:
    pairs = 1 / SIZES[target] / SIZES[source]
    return math.log1p(-_PROBABILITY[target][source]) / math.log1p(-pairs)


def _build_pd14(drive: str, scale: float) -> Any:
    """PD14, or with Poisson drive as its authors scale it down: neurons and the inputs of each are so much fewer.

    Weights are larger by the root of the scale, which keeps variances, and a constant current makes up for the mean.
    """
    rule = {"dc": _dc_driven, "poisson": _poisson_driven if scale == 1 else _scaled_poisson}[drive]
    layers = [
        be.Population(
            name,
            round(SIZES[k] * scale),
            rule,
            state={"v": be.normal(_V_MEAN[k], _V_SD[k]), "current": 0.0, "pause": 0},
            params=_MEMBRANE | _drive(drive, k, scale),
        )
        for k, name in enumerate(LAYERS)
    ]
    projections = [
        _project(layers, source, target, scale)
        for target in range(8)
        for source in range(8)
        if _PROBABILITY[target][source]
    ]
    return be.Network(layers, projections, dt=DT)


def _drive(drive: str, layer: int, scale: float) -> dict[str, float]:
    events = _EXTERNAL[layer] * 8.0  # a second
    if drive == "dc":
        return {"push": _push(events * _WEIGHT)}
    found = {"w_ext": _WEIGHT / math.sqrt(scale), "mean_ext": scale * events * 1e-3 * DT}
    if scale == 1:
        return found
    inputs = [_full_synapses(layer, source) / SIZES[layer] for source in range(8)]
    recurrent = sum(inputs[k] * _RATES[k] * _mean_weight(layer, k) for k in range(8))
    return found | {"push": _push((1 - math.sqrt(scale)) * (recurrent + events * _WEIGHT))}


def _push(charge: float) -> float:
    """Change of the potential in a step by synaptic events whose weights (pA) have this sum in a second."""
    return 1e-3 * charge * _TAU_S * _TAU_M / _CAPACITY * (1 - _LEAK)


def _mean_weight(target: int, source: int) -> float:
    return _WEIGHT * (2 if (target, source) == (0, 2) else 1) * (-4 if source % 2 else 1)


def _project(layers: Any, source: int, target: int, scale: float) -> Any:
    excitatory = source % 2 == 0
    mean = _mean_weight(target, source) / math.sqrt(scale)
    sign: dict[str, Any] = {"low": 0} if excitatory else {"high": 0}
    weight = be.normal(mean, 0.1 * abs(mean), **sign)
    connections = be.connect.total(synapses_of_pd14(target, source, scale), weight=weight)
    delay = be.normal(1.5, 0.75) if excitatory else be.normal(0.75, 0.375)
    return be.Projection(layers[source], layers[target], connections, into="syn", delay=delay)


# ---- next to nothing


def _idle(s: Any, arriving: Any, p: Any) -> Any:
    return s, s.v > 0


def _build_idle(n: int) -> Any:
    return be.Network([be.Population("idle", n, _idle, state={"v": np.float32(0)}, params={})], [], dt=DT)


NETWORKS: dict[str, Callable[[int], Any]] = {
    "cuba": _build_cuba,
    "coba": _build_coba,
    "pd14_poisson": lambda percent: _build_pd14("poisson", percent / 100 if percent else 1),
    "pd14_dc": lambda _: _build_pd14("dc", 1),
    "flywire": build_flywire,
    "idle": _build_idle,
}


def populations(simulation_name: str) -> tuple[str, ...]:
    """The populations of a network."""
    if simulation_name == "idle":
        return ("idle",)
    if simulation_name == "flywire":
        return ("driven", "others")
    return LAYERS if simulation_name.startswith("pd14") else ("exc", "inh")
