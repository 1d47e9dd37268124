# SPDX-License-Identifier: Apache-2.0
"""Layers that are trained, and the same steps by the interpreter and by JAX."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brainevent.network.surrogate import fast_sigmoid
from brainevent.network.training.gpu.layer import Layer, Layers, Link
from brainevent.network.training.gpu.runner import Given, Outputs, Weights, backward, forward
from brainevent.network.training.gpu.weights import in_quanta, largest_of
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


def steep(s, arriving, p):
    v = s.v * p.keep + arriving.syn + p.gain * arriving.other
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
    steep: ({"v": 0.0}, ["other", "syn"], {"keep": 0.9, "gain": 2.0**30}),
    readout: ({"v": 0.0}, ["syn"], {"keep": [0.9]}),
}  # fmt: skip


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Inputs:
    """What layers run with: each one its own, and the weights of each link."""

    layers: list[Any]
    weights: list[Any]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def run_layers(layers, device, inputs):
    """Return what all steps result in, by layer."""
    return forward(layers, device, inputs.layers, _unrounded(inputs))[0]


def _unrounded(inputs):
    return Weights(inputs.weights, [None] * len(inputs.weights))


def _run_forward(layers, device, inputs):
    outputs, saved = forward(layers, device, inputs.layers, _unrounded(inputs))
    return outputs, (saved, _unrounded(inputs), [out.spikes for out in outputs])


def _run_backward(layers, device, stored, cotangents):
    """Of weights, cotangents are products of spikes and of what arrives some steps later."""
    saved, weights, spikes = stored
    found = backward(layers, device, saved, weights, cotangents, spikes[0].shape[1])
    of_links = []
    for link in layers.links:
        arriving = found[link.target].currents[layers.layers[link.target].fed.index(link.into)]
        before = spikes[link.source][:, : arriving.shape[1] - link.delay]
        of_links.append(jnp.einsum("btm,btn->mn", before, arriving[:, link.delay :], precision="highest"))
    of_layers = []
    for layer, one, own in zip(layers.layers, found, saved, strict=True):
        params = [
            None if sums is None else sums.sum((0,) if of_each else (0, 1)).reshape(jnp.shape(x))
            for sums, x, of_each in zip(one.params, own.params, layer.per_neuron, strict=True)
        ]
        of_layers.append(replace(one, params=params))
    return (Inputs(of_layers, of_links),)


run_layers.defvjp(_run_forward, _run_backward)


def layer_of(rule, neurons, *, into="syn", delay=1, **how):
    """Return a population of a rule of `RULES`, with one projection to itself; None: with none."""
    return layers_of([(rule, neurons, how)], [] if into is None else [(0, 0, into, delay)])


def layers_of(populations, links, *, precise=False):
    """Return populations: a rule, neurons and more; and links between them by their places, a receptor and a delay."""
    receptors = [RULES[rule][1] for rule, *_ in populations]
    made = tuple(Link(a, b, receptors[b].index(into), delay) for a, b, into, delay in links)
    layers = []
    for place, (rule, neurons, how) in enumerate(populations):
        into = {link.into for link in made if link.target == place}
        layers.append(_layer(rule, neurons, tuple(sorted(into)), f"p{place}", rounded=not precise, **how))
    return Layers(tuple(layers), made, precise)


def _layer(rule, neurons, into, name, *, rounded, shown=(), wanted=None, surrogate=SURROGATE):
    state, receptors, params = RULES[rule]
    traced = trace(rule, state, receptors, {key: np.ravel(value)[0] for key, value in params.items()})
    return Layer(
        traced,
        adjoint_of(traced, surrogate, wanted, rounded=rounded, name=name),
        neurons,
        fed=tuple(range(len(receptors))),
        into=into,
        shown=tuple(list(state).index(name) for name in shown),
        per_neuron=tuple(isinstance(value, list) for value in params.values()),
        rounded=rounded,
    )


def inputs_of(layers, steps, batch, seed=0, drive=0.35, strength=0.5):
    """Return inputs such that some neurons spike."""
    r = np.random.default_rng(seed)
    found = []
    for layer in layers.layers:
        n = layer.neurons
        currents = [np.float32(r.normal(0.1, drive, (batch, steps, n))) for _ in layer.fed]
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
        found.append(Given(currents, states, values, random))
    sizes = [(layers.layers[link.source].neurons, layers.layers[link.target].neurons) for link in layers.links]
    return Inputs(found, [np.float32(r.normal(0, strength / np.sqrt(n), (n, m))) for n, m in sizes])


def cotangents_of(layers, inputs, seed=1):
    """Return cotangents of outputs: random floats, and none for integers."""
    r = np.random.default_rng(seed)
    batch, steps, _ = inputs.layers[0].currents[0].shape

    def some(dtype, *shape):
        return np.float32(r.normal(0, 1e-3, shape)) if dtype == "float32" else np.zeros(shape, jax.dtypes.float0)

    found = []
    for layer in layers.layers:
        n = layer.neurons
        shown = [some(layer.states[place].dtype, batch, steps, n) for place in layer.shown]
        states = [some(name.dtype, batch, n) for name in layer.states]
        found.append(Outputs(some("float32", batch, steps, n), shown, states))
    return found


def on_grid(layers, weights):
    """Return weights that are whole numbers of their quanta, and these, by link."""
    quanta = [np.float32(x) for x in in_quanta(layers, weights, [None] * len(weights))[1]]
    return [np.round(x / quantum) for x, quantum in zip(weights, quanta, strict=True)], quanta


def _random(layer, given, t):
    """Return what random numbers of all neurons in a step follow from."""
    if given.random is None:
        return []
    batch, n = len(given.random), layer.neurons
    first, *keys = (jnp.repeat(column, n) for column in jnp.asarray(given.random).T)
    return [jnp.tile(jnp.arange(n, dtype=np.uint32), batch), first + t, *keys]


def interpreted(layers, inputs):
    """Run layers by the interpreter, with sums of whole numbers."""
    batch, steps, _ = inputs.layers[0].currents[0].shape
    whole, quanta = on_grid(layers, inputs.weights)
    states = [[np.reshape(x, -1) for x in given.states] for given in inputs.layers]
    spikes = [np.zeros((batch, steps, layer.neurons), np.float32) for layer in layers.layers]
    shown = [[[] for _ in layer.shown] for layer in layers.layers]
    for t in range(steps):
        for place, (c, given) in enumerate(zip(layers.layers, inputs.layers, strict=True)):
            n = c.neurons
            params = [np.broadcast_to(value, (batch, n)).reshape(-1) for value in given.params]
            arriving = [np.zeros(batch * n, np.float32) for _ in c.receptors]
            for k, receptor in enumerate(c.fed):
                arriving[receptor] = np.float32(given.currents[k][:, t]).reshape(-1)
            for receptor in c.into:
                sums = np.zeros((batch, n))
                for link, matrix, q in zip(layers.links, whole, quanta, strict=True):
                    if (link.target, link.into) == (place, receptor):
                        quantum = q
                        if t >= link.delay:
                            sums += np.float64(spikes[link.source][:, t - link.delay]) @ matrix
                arriving[receptor] = arriving[receptor] + np.float32(sums).reshape(-1) * quantum
            random = _random(c, given, np.uint32(t))
            found = interpret(c.adjoint.forward, [*states[place], *arriving, *params, *random])
            states[place] = found[: len(states[place])]
            spikes[place][:, t] = found[len(states[place])].reshape(batch, n)
            for k, of in enumerate(c.shown):
                shown[place][k].append(states[place][of].reshape(batch, n))
    return [
        Outputs(spikes[k], [np.stack(x, 1) for x in shown[k]], [x.reshape(batch, -1) for x in states[k]])
        for k in range(len(spikes))
    ]


def in_jax(layers, inputs, surrogate=SURROGATE):
    """Run layers as a scan, with weights that are on the grid already: what JAX differentiates."""
    batch, steps, _ = inputs.layers[0].currents[0].shape

    def one_of(c):
        flat = flat_rule(c.traced.function, c.traced)

        def one(*scalars):
            if not c.adjoint.spiking:
                *new, spike = flat(*scalars)
                return *new, spike.astype(np.float32)
            (*new, spike), margin, gate = with_margin(flat)(*scalars)
            return *new, as_events(surrogate, spike, margin, gate)

        return jax.vmap(jax.vmap(one))

    def stepped(place, states, before, t, currents):
        c, given = layers.layers[place], inputs.layers[place]
        n = c.neurons
        params = [
            jnp.broadcast_to(value if k in c.wanted else jax.lax.stop_gradient(value), (batch, n))
            for k, value in enumerate(given.params)
        ]
        arriving = [jnp.zeros((batch, n)) for _ in c.receptors]
        for k, receptor in enumerate(c.fed):
            arriving[receptor] = currents[k]
        for link, weights in zip(layers.links, inputs.weights, strict=True):
            if link.target == place:
                sent = jnp.dot(before[link.source][link.delay - 1], weights, precision="highest")
                arriving[link.into] = arriving[link.into] + sent
        drawn = [x.reshape(batch, n) for x in _random(c, given, t)]
        *new, spikes = one_of(c)(*states, *arriving, *params, *drawn)
        return tuple(new), spikes, [new[of] for of in c.shown]

    def step(carry, turn):
        (states, before), (t, currents) = carry, turn
        places = range(len(layers.layers))
        found = [stepped(k, states[k], before, t, currents[k]) for k in places]
        before = tuple((spikes, *past[:-1]) for (_, spikes, _), past in zip(found, before, strict=True))
        return (tuple(new for new, *_ in found), before), [(spikes, shown) for _, spikes, shown in found]

    past = tuple(tuple(jnp.zeros((batch, c.neurons)) for _ in range(layers.delay)) for c in layers.layers)
    start = tuple(tuple(given.states) for given in inputs.layers), past
    currents = [[x.swapaxes(0, 1) for x in given.currents] for given in inputs.layers]
    (states, _), rows = jax.lax.scan(step, start, (jnp.arange(steps, dtype=np.uint32), currents))
    return [
        Outputs(spikes.swapaxes(0, 1), [x.swapaxes(0, 1) for x in shown], list(last))
        for (spikes, shown), last in zip(rows, states, strict=True)
    ]


def differences(layers, device, inputs, cotangents, surrogate=SURROGATE):
    """Run layers, and return outputs and their expected values; and 1 - cosine of cotangents with those of JAX.

    JAX runs on the CPU: on a GPU it would look for the fastest product of each size, which takes longer than all else.
    """
    given = jax.tree.map(jnp.asarray, inputs)
    exact = [jnp.float32(x * q) for x, q in zip(*on_grid(layers, inputs.weights), strict=True)]
    given = replace(given, weights=exact)
    found, pull = jax.vjp(jax.jit(lambda inputs: run_layers(layers, device, inputs)), given)
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu), jax.default_matmul_precision("highest"):
        plain = jax.jit(lambda inputs: in_jax(layers, inputs, surrogate))
        expected, expected_pull = jax.vjp(plain, jax.device_put(given, cpu))
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


def check_largest_sums(device):
    """All neurons spike at once: sums of the largest weights in three planes, and of those at the borders of planes."""
    layer = replace(layer_of(leaky, 640), precise=True)
    most = largest_of(3)
    edges = np.int64([-most, 1 - most, -128, -129, 127, 128, -(2**15), 2**15 + 127, -1, 2**15 + 128])
    whole = np.where(np.arange(640) % 2, -most, np.resize(edges, (640, 640)))
    inputs = inputs_of(layer, 2, 1)
    inputs.weights[0] = np.float32(whole)
    inputs.layers[0].currents[0][:] = np.float32([2, 0])[:, None]  # all spike in the first step
    [found] = run_layers(layer, device, jax.tree.map(jnp.asarray, inputs))
    assert np.all(found.spikes[0, 0] == 1)
    sums = whole.sum(0)
    assert sums.min() < -(2**31)
    below = sums < 0  # others spike, and are reset
    assert below.sum() > 320
    np.testing.assert_array_equal(np.asarray(found.states[0])[0, below], np.float32(sums)[below])


def check_doubtful_samples(device, neurons, batch):
    """Their spikes are NaN, but what they send to each other is as ever, and other samples do not change."""
    layer = layer_of(leaky, neurons)
    inputs = inputs_of(layer, 6, batch)
    [expected] = interpreted(layer, inputs)
    fine = np.arange(batch) % 3 != 1
    inputs.layers[0] = replace(inputs.layers[0], fine=fine)
    [found] = run_layers(replace(layer, doubted=True), device, jax.tree.map(jnp.asarray, inputs))
    assert np.isnan(found.spikes[~fine]).all()
    equal(*([replace(one, spikes=np.asarray(one.spikes)[fine])] for one in (found, expected)))
