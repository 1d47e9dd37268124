# SPDX-License-Identifier: Apache-2.0
"""A step of training of a recurrent network, loss and all gradients, beside a loop by hand: seconds, and bytes."""

import functools
import time
from collections.abc import Callable, Container
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.progress import tell
from benchmarks.probes.training_peers import loss_of

INPUTS, CLASSES = 700, 20  # as many as the Spiking Heidelberg Digits have
_ENOUGH = 0.1  # seconds
KEEP, LEAK, SLOPE = 0.95, 0.9, 25.0

Weights = dict[str, Any]


def measure(
    hidden: int, batch: int, steps: int, rounds: int, ours: list[str], unrolled: list[int], peers: list[str]
) -> dict[str, dict[str, Any]]:
    """Return seconds of each way, in turns, and bytes of temporary arrays and results; `ours` are backends.

    `peers` are packages; "absent" says why those that cannot be imported have no samples.
    """
    random = np.random.default_rng(0)
    weights = weights_of(random, hidden)
    data = jax.device_put(samples(random, batch, steps))
    ways: dict[str, Callable[..., Any]] = {
        f"backend {backend}": backend_loss(weights, steps, backend) for backend in ours
    }
    for turns in unrolled:
        ways[f"a scan by hand, unrolled {turns}"] = by_hand(turns)
    others, absent = _peers(peers, hidden)
    gradients = {name: jax.value_and_grad(loss) for name, loss in (ways | others).items()}
    return {**in_turns(gradients, weights, data, rounds, unlike=others), "absent": absent}


def in_turns(
    ways: dict[str, Callable[..., Any]], weights: Weights, data: Any, rounds: int, unlike: Container[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return seconds and bytes of functions of weights and data that return a loss and gradients.

    All but those `unlike` the others agree.
    """
    runs, found, taken = {}, {}, {}
    for name, way in ways.items():
        tell(f"{name}: compile")
        runs[name] = jax.jit(way).lower(weights, *data).compile()
        memory = runs[name].memory_analysis()
        taken[name] = [memory.temp_size_in_bytes + memory.output_size_in_bytes]
        found[name] = jax.block_until_ready(runs[name](weights, *data))
    _check({name: one for name, one in found.items() if name not in unlike})
    for name, one in found.items():
        assert name not in unlike or all(np.isfinite(x).all() and np.any(x) for x in jax.tree.leaves(one)), name
    timed = {name: functools.partial(_timed, run, weights, data) for name, run in runs.items()}
    calls = max(1, round(_ENOUGH / min(run(1) for run in timed.values())))
    taken_in: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(rounds):  # in turns: a machine is not as fast all the time
        tell(f"round {k + 1} of {rounds}")
        for name, run in timed.items():
            taken_in[name].append(run(calls))
    return {"seconds": taken_in, "bytes": taken}


def _peers(packages: list[str], hidden: int) -> tuple[dict[str, Callable[..., Any]], dict[str, str]]:
    """Return the losses of packages by name and version, and why others are absent."""
    losses, absent = dict[str, Callable[..., Any]](), dict[str, str]()
    how = {"inputs": INPUTS, "hidden": hidden, "classes": CLASSES, "keep": KEEP, "leak": LEAK, "slope": SLOPE}
    for name in packages:
        try:
            losses[f"{name} {metadata.version(name)}"] = loss_of(name, **how)
        except ImportError as error:
            absent[name] = f"{name} is not installed here" if error.name == name else f"it cannot be imported: {error}"
    return losses, absent


def _timed(run: Callable[..., Any], weights: Weights, data: Any, calls: int) -> float:
    """Return the seconds of a call, of several in a row as in training."""
    begin = time.perf_counter()
    for _ in range(calls):
        found = run(weights, *data)
    jax.block_until_ready(found)
    return (time.perf_counter() - begin) / calls


def _check(found: dict[str, Any]) -> None:
    """Raise unless all ways have the same loss and gradients, but for rounding."""
    loss, slopes = next(iter(found.values()))
    for name, (other, others) in found.items():
        assert abs(float(loss) - float(other)) < 1e-2 * float(loss), (name, loss, other)
        for key, x in slopes.items():
            a, b = (np.asarray(y, np.float64).ravel() for y in (x, others[key]))
            cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            # GPUs multiply with fewer digits, each way with others: some spikes differ, and all that follows from them
            least = 0.99 if jax.default_backend() == "cpu" else 0.9
            assert cosine > least, (name, key, cosine)


# ---- data of the shape of the Spiking Heidelberg Digits


def samples(random: np.random.Generator, batch: int, steps: int) -> tuple[Any, Any]:
    """Return spikes (steps, batch, inputs) as uint8, 1 in 100 on average, and classes (batch,).

    In each class each input has a time at which it is most active.
    """
    classes = random.integers(0, CLASSES, batch)
    peaks = random.random((CLASSES, INPUTS), np.float32)[classes]
    times = (np.arange(steps, dtype=np.float32) / steps)[:, None, None]
    rates = np.exp(-(((times - peaks) / 0.1) ** 2) / 2)
    return (random.random(rates.shape, np.float32) < 0.01 * rates / rates.mean()).astype(np.uint8), classes


def weights_of(random: np.random.Generator, hidden: int) -> Weights:
    """Return weights with which some 5 % of the hidden neurons spike in a step."""
    drawn = {
        "given->hidden.syn": random.normal(0.01, 0.05, (INPUTS, hidden)),
        "hidden->hidden.syn": random.normal(0, 0.5 / np.sqrt(hidden), (hidden, hidden)),
        "readout": random.normal(0, 1 / np.sqrt(hidden), (hidden, CLASSES)),
    }
    return {name: jnp.asarray(x, jnp.float32) for name, x in drawn.items()}


def _cross_entropy(spikes: Any, readout: Any, classes: Any, axes: str = "tb") -> Any:
    """Return the loss of leaky readouts of spikes (steps, batch, hidden): the mean of their potentials counts.

    With `axes="bt"`, spikes are (batch, steps, hidden), as `jax.vmap` returns them.
    """
    steps = spikes.shape[axes.index("t")]
    share = ((1 - LEAK ** (steps - np.arange(steps))) / (1 - LEAK) / steps).astype(np.float32)
    scores = jax.nn.log_softmax(jnp.einsum(f"t,{axes}o->bo", share, spikes @ readout))
    return -jnp.take_along_axis(scores, classes[:, None], 1).mean()


# ---- ours


def relay(s: Any, arriving: Any, p: Any) -> Any:
    return s, arriving.given > 0


def leaky(s: Any, arriving: Any, p: Any) -> Any:
    v = s.v * p.keep + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def backend_loss(weights: Weights, steps: int, backend: str) -> Callable[..., Any]:
    import brainevent as be

    names = "given->hidden.syn", "hidden->hidden.syn"
    given = be.Population("given", INPUTS, relay)
    hidden = be.Population("hidden", len(weights[names[1]]), leaky, state={"v": 0.0}, params={"keep": KEEP})
    sources = [(given, weights[names[0]].shape), (hidden, weights[names[1]].shape)]
    projections = [be.Projection(source, hidden, np.ones(shape), into="syn") for source, shape in sources]
    sim = be.Network([given, hidden], projections, dt=1.0).build(backend=backend)
    axes = "tb" if backend == "jax" else "bt"  # as the loop has them; native code has the steps of a sample together

    def loss(weights: Weights, spikes: Any, classes: Any) -> Any:
        params = {name: weights[name].ravel() for name in names}
        run = lambda x: be.simulate(sim, sim.state, params, steps, {"given.given": x}, "hidden.spikes")[1]
        found = jax.vmap(run, in_axes=1, out_axes=axes.index("b"))(spikes)["hidden.spikes"]
        return _cross_entropy(found, weights["readout"], classes, axes)

    return loss


# ---- by hand: the gradients of weights are products after the loop


@jax.custom_jvp
def _spike(margin: Any) -> Any:
    return (margin > 0).astype(margin.dtype)


@_spike.defjvp
def _spike_jvp(primals: Any, tangents: Any) -> Any:
    return _spike(*primals), tangents[0] / (1 + SLOPE * jnp.abs(primals[0])) ** 2


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _hidden(unrolled: int, currents: Any, weights: Any) -> Any:
    def step(carry: Any, current: Any) -> Any:
        v, spikes = carry
        margin = KEEP * v + current + spikes @ weights - 1
        spikes = _spike(margin)
        return (jnp.where(margin > 0, 0, margin + 1), spikes), spikes

    start = jnp.zeros(currents.shape[1:])
    return jax.lax.scan(step, (start, start), currents, unroll=unrolled)[1]


def _hidden_forward(unrolled: int, currents: Any, weights: Any) -> Any:
    spikes, back = jax.vjp(lambda currents: _hidden.fun(unrolled, currents, weights), currents)
    return spikes, (spikes, back)


def _hidden_backward(unrolled: int, kept: Any, slope: Any) -> Any:
    spikes, back = kept
    (of_currents,) = back(slope)
    return of_currents, jnp.einsum("tbi,tbh->ih", spikes[:-1], of_currents[1:])


_hidden.defvjp(_hidden_forward, _hidden_backward)


def by_hand(unrolled: int) -> Callable[..., Any]:
    def loss(weights: Weights, spikes: Any, classes: Any) -> Any:
        floats = spikes[:-1].astype(jnp.float32)  # a spike arrives in the next step
        currents = jnp.pad(jnp.einsum("tbi,ih->tbh", floats, weights["given->hidden.syn"]), ((1, 0), (0, 0), (0, 0)))
        return _cross_entropy(_hidden(unrolled, currents, weights["hidden->hidden.syn"]), weights["readout"], classes)

    return loss
