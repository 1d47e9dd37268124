# SPDX-License-Identifier: Apache-2.0
"""The network of `training` in other packages: a loss of the same weights and samples, in the rule of each package."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["loss_of"]


def loss_of(package: str, **how: Any) -> Callable[..., Any]:
    """Return a function of weights, spikes (steps, samples, inputs) and classes; raise `ImportError` without it."""
    return {"spyx": _spyx}[package](**how)


def _spyx(inputs: int, hidden: int, classes: int, keep: float, leak: float, slope: float) -> Callable[..., Any]:
    """Use spyx's recurrent neurons, which are reset by subtraction, and its leaky readouts, as its `run` runs them."""
    import spyx
    from flax import nnx

    rngs = nnx.Rngs(0)
    neurons = spyx.nn.RLIF((hidden,), beta=keep, threshold=1, activation=spyx.axn.superspike(slope), rngs=rngs)
    model = spyx.nn.Sequential(
        nnx.Linear(inputs, hidden, use_bias=False, rngs=rngs),
        neurons,
        nnx.Linear(hidden, classes, use_bias=False, rngs=rngs),
        spyx.nn.LI((classes,), beta=leak, rngs=rngs),
    )
    graph, others = nnx.split(model)

    def loss(weights: dict[str, Any], spikes: Any, labels: Any) -> Any:
        of_layers = nnx.to_pure_dict(others)["layers"]
        of_layers[0] |= {"kernel": weights["given->hidden.syn"]}
        of_layers[1] |= {"recurrent_w": weights["hidden->hidden.syn"]}
        of_layers[2] |= {"kernel": weights["readout"]}
        potentials, _ = spyx.nn.run(nnx.merge(graph, {"layers": of_layers}), spikes.astype(jnp.float32))
        scores = jax.nn.log_softmax(potentials.mean(0))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    return loss
