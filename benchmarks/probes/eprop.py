# SPDX-License-Identifier: Apache-2.0
"""A step of learning by e-prop of a recurrent network, loss and all gradients, beside a loop by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.training import CLASSES, INPUTS, KEEP, LEAK, SLOPE, Weights, in_turns, leaky, relay, weights_of
from benchmarks.probes.training import samples as drawn_samples

_NAMES = "given->hidden.syn", "hidden->hidden.syn", "readout"

Gradient = Callable[..., tuple[Any, Weights]]


def measure(hidden: int, batch: int, steps: int, rounds: int, ours: list[str]) -> dict[str, dict[str, list[float]]]:
    """Return seconds of each way, in turns, and bytes of temporary arrays and results; `ours` are backends."""
    random = np.random.default_rng(0)
    weights = weights_of(random, hidden)
    data = jax.device_put(drawn_samples(random, batch, steps))
    ways: dict[str, Gradient] = {"a scan by hand": _by_hand}
    ways |= {f"backend {backend}": _ours(hidden, steps, backend) for backend in ours}
    return in_turns(ways, weights, data, rounds)


def _loss(y: Any, classes: Any, steps: int) -> Any:
    """Return the cross-entropy of readouts (..., classes) in a step."""
    scores = jax.nn.log_softmax(y)
    return -jnp.take_along_axis(scores, jnp.asarray(classes)[..., None], -1)[..., 0] / steps


def _reading(s: Any, arriving: Any, p: Any) -> Any:
    return s.replace(v=p.keep * s.v + arriving.syn), False


def _ours(size: int, steps: int, backend: str) -> Gradient:
    import brainevent as be

    given = be.Population("given", INPUTS, relay)
    hidden = be.Population("hidden", size, leaky, state={"v": 0.0}, params={"keep": KEEP})
    out = be.Population("out", CLASSES, _reading, state={"v": 0.0}, params={"keep": LEAK})
    projections = [
        be.Projection(source, target, np.ones((source.size, target.size)), into="syn", name=name)
        for source, target, name in zip((given, hidden, hidden), (hidden, hidden, out), _NAMES, strict=True)
    ]
    sim = be.Network([given, hidden, out], projections, dt=1.0).build(backend=backend)

    def gradient(weights: Weights, spikes: Any, classes: Any) -> tuple[Any, Weights]:
        params = {name: weights[name].ravel() for name in _NAMES}

        def one(x: Any, label: Any) -> tuple[Any, Weights]:
            def loss(step: Any, y: Any) -> Any:
                return _loss(y, label, steps)

            inputs = {"given.given": x.astype(jnp.float32)}
            return be.eprop(sim, sim.state, params, steps, loss, "out.v", inputs)[:2]

        values, slopes = jax.vmap(one, (1, 0))(spikes, classes)
        return values.mean(), {name: slopes[name].mean(0).reshape(weights[name].shape) for name in _NAMES}

    return gradient


def _by_hand(weights: Weights, spikes: Any, classes: Any) -> tuple[Any, Weights]:
    """Follow the traces of all pairs step by step, as dense arrays (samples, sources, neurons)."""
    steps, batch, _ = spikes.shape
    size = len(weights["hidden->hidden.syn"])
    inner = jnp.concatenate([weights["given->hidden.syn"], weights["hidden->hidden.syn"]])

    def step(carry: Any, given: Any) -> Any:
        v, y, came, traces, last, filtered, read, gradient = carry
        margin = KEEP * v + came @ inner - 1
        spike = margin > 0
        sent = came[:, INPUTS:]
        y = LEAK * y + sent @ weights["readout"]
        value, error = jax.value_and_grad(lambda y: _loss(y, classes, steps).mean())(y)
        before = KEEP * traces + came[..., None]
        filtered = LEAK * filtered + last
        last = before / (1 + SLOPE * jnp.abs(margin[:, None])) ** 2
        traces = jnp.where(spike[:, None], 0, before)
        signal = error @ weights["readout"].T
        read = LEAK * read + sent
        gradient = gradient[0] + (filtered * signal[:, None]).sum(0), gradient[1] + read.T @ error
        came = jnp.concatenate([given, spike], 1).astype(v.dtype)
        return (jnp.where(spike, 0, margin + 1), y, came, traces, last, filtered, read, gradient), value

    pairs, none = jnp.zeros((batch, INPUTS + size, size)), jnp.zeros((batch, size))
    start = none, jnp.zeros((batch, CLASSES)), pairs[..., 0], pairs, pairs, pairs, none
    zeros = jnp.zeros_like(inner), jnp.zeros_like(weights["readout"])
    (*_, (inner_slopes, readout)), values = jax.lax.scan(step, (*start, zeros), spikes)
    return values.sum(), dict(zip(_NAMES, (inner_slopes[:INPUTS], inner_slopes[INPUTS:], readout), strict=True))
