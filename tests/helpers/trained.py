# SPDX-License-Identifier: Apache-2.0
"""Layers that are trained, and the same steps by the interpreter and by JAX."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from brainevent.network.surrogate import fast_sigmoid
from brainevent.network.training.gpu.layer import Layer
from brainevent.network.training.gpu.runner import Inputs, Outputs, run_layer
from brainevent.network.training.gpu.weights import quantum_of
from brainevent.scalar.adjoint import adjoint_of
from brainevent.scalar.interpret import interpret
from brainevent.scalar.margin import as_events, with_margin
from brainevent.scalar.trace import flat_rule, trace

SURROGATE = fast_sigmoid(5.0)


def leaky(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def adaptive(s, arriving, p):
    v = s.v * p.keep + arriving.syn - s.a
    spike = v > p.threshold + p.beta * s.a
    return s.replace(v=jnp.where(spike, 0.0, v), a=s.a * p.slow + jnp.where(spike, p.jump, 0.0)), spike


def synapse(s, arriving, p):
    i = s.i * jnp.exp(-1 / p.tau_s) + arriving.syn
    v = jnp.where(s.pause > 0, s.v, s.v + (i + arriving.other - s.v) / p.tau)
    spike = (v >= 1.0) & (s.pause == 0)
    pause = jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, 0.0, v), i=i, pause=pause), spike


def noisy(s, arriving, p, random):
    v = s.v * p.keep + arriving.syn + 0.2 * random.normal()
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def readout(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    return s.replace(v=v), v > jnp.inf


RULES = {  # states, receptors, parameters: arrays are each neuron's own
    leaky: ({"v": 0.0}, ["syn"], {"keep": 0.95}),
    adaptive: ({"v": 0.0, "a": 0.0}, ["syn"],
               {"keep": 0.9, "threshold": [1.0], "beta": 0.5, "slow": [0.97], "jump": 0.1}),
    synapse: ({"v": 0.0, "i": 0.0, "pause": 0}, ["other", "syn"], {"tau_s": 5.0, "tau": [4.0]}),
    noisy: ({"v": 0.0}, ["syn"], {"keep": 0.9}),
    readout: ({"v": 0.0}, ["syn"], {"keep": [0.9]}),
}  # fmt: skip


def layer_of(rule, neurons, *, into="syn", delay=1, shown=(), wanted=None, surrogate=SURROGATE):
    """Return a layer of a rule of `RULES`."""
    state, receptors, params = RULES[rule]
    traced = trace(rule, state, receptors, {key: np.ravel(value)[0] for key, value in params.items()})
    return Layer(
        traced,
        adjoint_of(traced, surrogate, wanted, rounded=True),
        neurons,
        fed=tuple(range(len(receptors))),
        into=None if into is None else receptors.index(into),
        delay=delay,
        shown=tuple(list(state).index(name) for name in shown),
        per_neuron=tuple(isinstance(value, list) for value in params.values()),
        rounded=True,
    )


def inputs_of(layer, steps, batch, seed=0, drive=0.35, strength=0.5):
    """Return inputs such that some neurons spike."""
    r = np.random.default_rng(seed)
    n = layer.neurons
    currents = [np.float32(r.normal(0.1, drive, (batch, steps, n))) for _ in layer.fed]
    weights = np.float32(r.normal(0, strength / np.sqrt(n), (n, n))) if layer.has_product else None
    _, _, params = RULES[layer.traced.function]
    states = [
        r.integers(0, 2, (batch, n)).astype(np.int32)
        if name.dtype == "int32"
        else np.float32(r.random((batch, n)) * 0.5)
        for name in layer.states
    ]
    values = [
        np.float32(np.ravel(value)[0] * (r.uniform(0.95, 1.02, n) if own else 1))
        for value, own in zip(params.values(), layer.per_neuron, strict=True)
    ]
    random = np.uint32(r.integers(0, 2**32, (batch, 3))) if layer.traced.random else None
    return Inputs(currents, weights, states, values, random)


def cotangents_of(layer, inputs, seed=1):
    """Return cotangents of outputs: random floats, and none for integers."""
    r = np.random.default_rng(seed)
    batch, steps, n = inputs.currents[0].shape

    def some(dtype, *shape):
        return np.float32(r.normal(0, 1e-3, shape)) if dtype == "float32" else np.zeros(shape, jax.dtypes.float0)

    shown = [some(layer.states[place].dtype, batch, steps, n) for place in layer.shown]
    states = [some(name.dtype, batch, n) for name in layer.states]
    return Outputs(some("float32", batch, steps, n), shown, states)


def on_grid(weights):
    """Return weights that are whole numbers of their quantum."""
    quantum = np.float32(quantum_of(weights))
    return np.round(weights / quantum), quantum


def _random(layer, inputs, t):
    """Return what random numbers of all neurons in a step follow from."""
    if inputs.random is None:
        return []
    batch, n = len(inputs.random), layer.neurons
    first, *keys = (jnp.repeat(column, n) for column in jnp.asarray(inputs.random).T)
    return [jnp.tile(jnp.arange(n, dtype=np.uint32), batch), first + t, *keys]


def interpreted(layer, inputs):
    """Run a layer by the interpreter, with sums of whole numbers."""
    c = layer
    batch, steps, n = inputs.currents[0].shape
    params = [np.broadcast_to(value, (batch, n)).reshape(-1) for value in inputs.params]
    states = [np.reshape(x, -1) for x in inputs.states]
    whole, quantum = on_grid(inputs.weights) if c.has_product else (None, None)
    spikes, shown = np.zeros((batch, steps, n), np.float32), [[] for _ in c.shown]
    for t in range(steps):
        arriving = [np.zeros(batch * n, np.float32) for _ in c.receptors]
        for k, place in enumerate(c.fed):
            arriving[place] = np.float32(inputs.currents[k][:, t]).reshape(-1)
        if c.has_product and t >= c.delay:
            sums = np.float32(np.float64(spikes[:, t - c.delay]) @ whole).reshape(-1)
            arriving[c.into] = arriving[c.into] + sums * quantum
        found = interpret(c.adjoint.forward, [*states, *arriving, *params, *_random(c, inputs, np.uint32(t))])
        states = found[: len(states)]
        spikes[:, t] = found[len(states)].reshape(batch, n)
        for k, place in enumerate(c.shown):
            shown[k].append(states[place].reshape(batch, n))
    return Outputs(spikes, [np.stack(x, 1) for x in shown], [x.reshape(batch, n) for x in states])


def in_jax(layer, inputs, surrogate=SURROGATE):
    """Run a layer as a scan, with weights that are on the grid already: what JAX differentiates."""
    c = layer
    flat = flat_rule(c.traced.function, c.traced)
    batch, steps, n = inputs.currents[0].shape
    params = [
        jnp.broadcast_to(value if k in c.wanted else jax.lax.stop_gradient(value), (batch, n))
        for k, value in enumerate(inputs.params)
    ]

    def one(*scalars):
        if not c.adjoint.spiking:
            *new, spike = flat(*scalars)
            return *new, spike.astype(np.float32)
        (*new, spike), margin, gate = with_margin(flat)(*scalars)
        return *new, as_events(surrogate, spike, margin, gate)

    def step(carry, turn):
        (states, before), (t, currents) = carry, turn
        arriving = [jnp.zeros((batch, n)) for _ in c.receptors]
        for k, place in enumerate(c.fed):
            arriving[place] = currents[k]
        if c.has_product:
            arriving[c.into] = arriving[c.into] + jnp.dot(before[0], inputs.weights, precision="highest")
        drawn = [x.reshape(batch, n) for x in _random(c, inputs, t)]
        *new, spikes = jax.vmap(jax.vmap(one))(*states, *arriving, *params, *drawn)
        before = (*before[1:], spikes) if c.has_product else before
        return (tuple(new), before), (spikes, [new[place] for place in c.shown])

    start = tuple(inputs.states), tuple(jnp.zeros((batch, n)) for _ in range(c.delay if c.has_product else 0))
    (states, _), (spikes, shown) = jax.lax.scan(
        step, start, (jnp.arange(steps, dtype=np.uint32), [x.swapaxes(0, 1) for x in inputs.currents])
    )
    return Outputs(spikes.swapaxes(0, 1), [x.swapaxes(0, 1) for x in shown], list(states))


def differences(layer, device, inputs, cotangents, surrogate=SURROGATE):
    """Run a layer, and return outputs and their expected values; and 1 - cosine of its cotangents with those of JAX."""
    given = jax.tree.map(jnp.asarray, inputs)
    if layer.has_product:
        whole, quantum = on_grid(inputs.weights)
        given = replace(given, weights=jnp.float32(whole * quantum))
    found, pull = jax.vjp(jax.jit(lambda inputs: run_layer(layer, device, inputs)), given)
    with jax.default_matmul_precision("highest"):
        expected, expected_pull = jax.vjp(jax.jit(lambda inputs: in_jax(layer, inputs, surrogate)), given)
        wanted = expected_pull(cotangents)[0]
    angles = {
        jax.tree_util.keystr(path): one_minus_cosine(a, b)
        for (path, a), b in zip(
            jax.tree_util.tree_leaves_with_path(pull(cotangents)[0]), jax.tree.leaves(wanted), strict=True
        )
        if b.dtype == np.float32 and np.any(b)
    }
    return found, expected, angles


def one_minus_cosine(a, b):
    """Return 1 - the cosine of the angle between two arrays; NaN if any number is not finite."""
    a, b = (np.asarray(x, np.float64).ravel() for x in (a, b))
    return 1 - a @ b / np.sqrt((a @ a) * (b @ b))


def equal(found, expected):
    """Compare all arrays, bit for bit."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))
