# SPDX-License-Identifier: Apache-2.0
"""Train a recurrent network on spikes of spoken digits: `python -m examples.networks.digits`.

It has the shape of those for the Spiking Heidelberg Digits: 700 inputs, 256 hidden neurons with connections
among them, and an output for each of 20 classes. The recordings are drawn; `--file shd_train.h5` reads real ones.
With `--delays`, inputs reach each hidden neuron after 1 to 20 steps, and connections among hidden neurons are sparse.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import brainevent as be

INPUTS, CLASSES, STEPS, DT = 700, 20, 100, 10.0


def relay(s, arriving, p):
    """Spike if there is an input."""
    return s, arriving.given > 0


def adaptive(s, arriving, p):
    """Leak, add what arrives, and spike at a threshold that rises with each spike of the neuron."""
    v = p.keep * s.v + arriving.syn
    spike = v > 1 + s.a
    a = p.slow * s.a + jnp.where(spike, p.jump, 0.0)
    return s.replace(v=jnp.where(spike, 0.0, v), a=a), spike


def readout(s, arriving, p):
    """Leak, add what arrives, and never spike."""
    v = p.keep * s.v + arriving.syn
    return s.replace(v=v), False


def network(hidden=256, delays=False):
    """Describe the network."""
    given = be.Population("given", INPUTS, relay)
    middle = be.Population(
        "hidden", hidden, adaptive, state={"v": 0.0, "a": 0.0}, params={"keep": 0.9, "slow": 0.95, "jump": 0.1}
    )
    out = be.Population("out", CLASSES, readout, state={"v": 0.0}, params={"keep": 0.9})

    def drawn(scale):
        return be.uniform(-scale, scale)

    inputs, among = be.connect.all_to_all(weight=drawn(0.15)), be.connect.all_to_all(weight=drawn(1 / hidden**0.5))
    if delays:
        inputs = be.connect.prob(0.2, weight=drawn(0.35))
        among = be.connect.prob(0.1, weight=drawn(3 / hidden**0.5))
    late = be.uniform(DT, 20 * DT) if delays else DT
    projections = [
        be.Projection(given, middle, inputs, into="syn", delay=late),
        be.Projection(middle, middle, among, into="syn", delay=2 * DT if delays else DT),
        be.Projection(middle, out, be.connect.all_to_all(weight=drawn(1 / hidden**0.5)), into="syn"),
    ]
    return be.Network([given, middle, out], projections, dt=DT)


def recordings(count=1200, seed=0, file=None):
    """Return recordings with classes, in random order."""
    return be.LabelledSpikes.from_hdf5(file) if file else be.LabelledSpikes.synthetic(count, seed=seed)


def scores(simulation, weights, x):
    """Return the mean potential of each output, and the rate of hidden neurons, for spikes (samples, steps, inputs)."""

    def one(sample):
        params = simulation.params | weights
        record = ["out.v", "hidden.counts"]
        _, found = be.simulate(simulation, simulation.state, params, STEPS, {"given.given": sample}, record)
        return found["out.v"].mean(0), found["hidden.counts"].mean() / STEPS

    return jax.vmap(one)(x)


def training(simulation, rate=0.005):
    """Return a step of Adam as a function of weights, moments, its number and a batch; it returns the loss, too."""

    def loss(weights, x, y):
        answers, rates = scores(simulation, weights, x)
        wrong = -jnp.take_along_axis(jax.nn.log_softmax(answers), y[:, None], 1).mean()
        return wrong + 0.1 * jnp.maximum(rates - 0.2, 0).mean()  # a price for hidden neurons that spike too often

    def step(weights, moments, k, x, y):
        value, gradient = jax.value_and_grad(loss)(weights, x, y)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, moments[1], gradient)
        size = rate * jnp.sqrt(1 - 0.999**k) / (1 - 0.9**k)
        weights = jax.tree.map(lambda w, m, s: w - size * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
        return weights, (mean, square), value

    return jax.jit(step)


def trained(simulation, train, test, epochs=8, batch=64, progress=print):
    """Train; return the weights, the loss of each step, and the accuracy of the test recordings after each epoch."""
    weights = {name: jnp.asarray(simulation.params[name]) for name in simulation.params if "->" in name}
    moments = (jax.tree.map(jnp.zeros_like, weights),) * 2
    step, judged = training(simulation), jax.jit(lambda weights, x: scores(simulation, weights, x)[0].argmax(1))
    losses, right = [], []
    for epoch in range(epochs):
        for x, y in train.batches(batch, STEPS, DT, seed=epoch):
            weights, moments, value = step(weights, moments, float(len(losses) + 1), x, y)
            losses.append(float(value))
        found = [np.mean(judged(weights, x) == y) for x, y in test.batches(min(batch, len(test)), STEPS, DT)]
        right.append(float(np.mean(found)))
        mean = np.mean(losses[-(len(train) // batch) :])
        progress(f"  epoch {epoch + 1:2}          loss {mean:.2f}, accuracy {right[-1]:.1%}")
    return weights, losses, right


def main(hidden=256, delays=False, epochs=6, count=1200, seed=0, file=None, backend="jax", curves=None):
    """Train, and return the accuracy of the test recordings; `curves` is a file for all losses and accuracies."""
    simulation = network(hidden, delays).build(seed=seed, backend=backend, round_delays=True)
    all_ = recordings(count, seed, file)
    cut = len(all_) * 4 // 5
    start = time.perf_counter()
    _, losses, right = trained(simulation, all_[:cut], all_[cut:], epochs)
    seconds = time.perf_counter() - start
    print(f"  time              {seconds:.1f} s, including compilation, for {len(losses)} steps")
    if curves:
        device = jax.devices()[0].device_kind
        about = {"device": device, "backend": backend, "hidden": hidden, "delays": delays, "seconds": seconds}
        Path(curves).write_text(json.dumps({**about, "losses": losses, "accuracies": right}) + "\n", encoding="utf-8")
    return right[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delays", action="store_true")
    for name, default in (("hidden", 256), ("epochs", 6), ("count", 1200), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--backend", default="jax")
    parser.add_argument("--file")
    parser.add_argument("--curves")
    main(**vars(parser.parse_args()))
