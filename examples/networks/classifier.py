# SPDX-License-Identifier: Apache-2.0
"""A spiking classifier that learns by surrogate gradients.

Each class is a pattern of spikes in time. All inputs spike equally often in every class, so only the spike times
distinguish the classes. In each sample some spikes are missing, others are shifted, and some are noise.
`python -m examples.networks.classifier` trains it.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import brainevent as be

INPUTS, HIDDEN, CLASSES, STEPS = 60, 80, 4, 40
SPIKES_EACH, KEPT, NOISE = 2, 0.8, 0.02


# ---- the network


def relay(s, arriving, p):
    """Spike if there is an input."""
    return s, arriving.given > 0


def leaky(s, arriving, p):
    """Leak, add what arrives, and spike at 1."""
    v = s.v * p.keep + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def readout(s, arriving, p):
    """Leak, add what arrives, and never spike."""
    v = s.v * p.keep + arriving.syn
    return s.replace(v=v), v > jnp.inf


def network(seed=0):
    """Return inputs, each connected to half of the hidden neurons, and an output for each class."""
    random = np.random.default_rng(seed)
    given = be.Population("given", INPUTS, relay)
    hidden = be.Population("hidden", HIDDEN, leaky, state={"v": 0.0}, params={"keep": 0.9})
    out = be.Population("out", CLASSES, readout, state={"v": 0.0}, params={"keep": 0.95})
    half = random.random((INPUTS, HIDDEN)) < 0.5
    projections = [
        be.Projection(given, hidden, half * random.normal(0, 0.4, (INPUTS, HIDDEN)), into="syn"),
        be.Projection(hidden, out, random.normal(0, 0.2, (HIDDEN, CLASSES)), into="syn"),
    ]
    return be.Network([given, hidden, out], projections, dt=1.0)


def built(seed=0):
    """Build the network for `be.simulate`."""
    return network(seed).build(seed=seed, backend="jax")


def first_weights(simulation):
    """Return the weights of each projection, as they were drawn."""
    return {name: simulation.params[name] for name in ("given->hidden.syn", "hidden->out.syn")}


def potentials(simulation, weights, sample):
    """Run the network for a sample (steps, inputs); return the potentials of the outputs, (steps, outputs)."""
    params = simulation.params | weights
    inputs = {"given.given": sample}
    return be.simulate(simulation, simulation.state, params, STEPS, inputs=inputs, record=["out.v"])[1]["out.v"]


def outputs(simulation, weights, spikes):
    """Return the mean potential of each output for each sample of (count, steps, inputs)."""
    return jax.vmap(lambda sample: potentials(simulation, weights, sample).mean(0))(spikes)


# ---- data


def patterns(random):
    """Draw the times of each class, (classes, inputs, spikes)."""
    return random.integers(2, STEPS - 2, (CLASSES, INPUTS, SPIKES_EACH))


def samples(random, times, count):
    """Draw samples, (count, steps, inputs), and the class of each."""
    labels = random.integers(0, CLASSES, count)
    moved = times[labels] + random.integers(-1, 2, (count, INPUTS, SPIKES_EACH))
    kept = random.random(moved.shape) < KEPT
    spikes = ((moved[:, None] == np.arange(STEPS)[:, None, None]) & kept[:, None]).any(-1)
    return (spikes | (random.random(spikes.shape) < NOISE)).astype(np.float32), labels


# ---- training


def loss(weights, simulation, spikes, labels):
    """Return the cross entropy of the outputs."""
    scores = jax.nn.log_softmax(outputs(simulation, weights, spikes))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@partial(jax.jit, static_argnums=0)
def improved(simulation, weights, mean, square, i, spikes, labels):
    """Return the weights after a step of Adam, its two moments, and the loss before the step."""
    found, slope = jax.value_and_grad(loss)(weights, simulation, spikes, labels)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, slope)
    rate = 0.02 * jnp.sqrt(1 - 0.99**i) / (1 - 0.9**i)
    weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
    return weights, mean, square, found


def train(simulation, random, times, rounds=60, batch=64):
    """Return the weights after training, and the loss of each round."""
    weights = first_weights(simulation)
    mean = square = jax.tree.map(jnp.zeros_like, weights)
    losses = []
    for i in range(1, rounds + 1):
        data = samples(random, times, batch)
        weights, mean, square, found = improved(simulation, weights, mean, square, float(i), *data)
        losses.append(float(found))
    return weights, losses


def accuracy(simulation, weights, spikes, labels):
    """Return the share of samples whose class has the highest output."""
    return float((outputs(simulation, weights, spikes).argmax(1) == labels).mean())


def main(seed=0, rounds=60):
    """Train, and return the share of new samples that are classified correctly."""
    random = np.random.default_rng(seed)
    times, simulation = patterns(random), built(seed)
    start = time.perf_counter()
    weights, losses = train(simulation, random, times, rounds)
    right = accuracy(simulation, weights, *samples(random, times, 1000))
    print(f"  loss              {losses[0]:.2f}, after {rounds} rounds {np.mean(losses[-10:]):.2f}")
    print(f"  accuracy          {right:.1%} of 1000 new samples of {CLASSES} classes")
    print(f"  time              {time.perf_counter() - start:.1f} s, including compilation")
    return right


if __name__ == "__main__":
    main()
