# SPDX-License-Identifier: Apache-2.0
"""The network of `training` in PyTorch on a GPU, with the same weights and samples: seconds of a step, and bytes.

A loop by hand, with its step compiled and all steps, forward and back, in one CUDA graph; and SpikingJelly's container
of recurrent neurons. JAX runs on the CPU here.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.probes.progress import tell
from benchmarks.probes.training import KEEP, LEAK, SLOPE, by_hand, samples, weights_of

__all__ = ["measure"]

_ENOUGH = 0.1  # seconds
_SMALL = (32, 4, 20)  # neurons, samples and steps with which gradients are compared with those of JAX
Run = Callable[[], tuple[Any, list[Any]]]  # returns a loss, and the gradients of all weights


def measure(hidden: int, batch: int, steps: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Return seconds of each way, bytes of all that it needs besides weights and samples, and why some are absent."""
    found: dict[str, dict[str, Any]] = {"seconds": {}, "bytes": {}, "absent": {}}
    try:
        import torch
    except ImportError as error:
        return found | {"absent": {"torch": f"it cannot be imported: {error}"}}
    torch.backends.cuda.matmul.allow_tf32 = True  # as many digits as JAX keeps
    _check_loop()
    for package, ways in {"torch": _loop, "spikingjelly": _jelly}.items():
        try:
            name = f"{package} {metadata.version(package)}"
            tell(f"{name}: compile")
            given = _given(hidden, batch, steps)
            before = _reset()
            run = ways(*given)
        except ImportError as error:
            found["absent"][package] = f"it cannot be imported: {error}"
            continue
        loss, slopes = run()
        torch.cuda.synchronize()
        assert all(torch.isfinite(x).all() and x.any() for x in [loss, *slopes]), name
        found["bytes"][name] = [torch.cuda.max_memory_allocated() - before]
        calls = max(1, round(_ENOUGH / _timed(run, 1)))
        found["seconds"][name] = [_timed(run, calls) for _ in range(rounds)]
    return found


def _reset() -> int:
    """Forget the memory that was needed before; return how many bytes are allocated."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _timed(run: Run, calls: int) -> float:
    """Return the seconds of a call, of several in a row as in training."""
    import torch

    begin = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def _given(hidden: int, batch: int, steps: int) -> tuple[list[Any], Any, Any]:
    """Return weights, spikes (steps, samples, inputs) as uint8, and classes, on the GPU."""
    import torch

    random = np.random.default_rng(0)
    weights = [
        torch.tensor(np.asarray(x), device="cuda", requires_grad=True) for x in weights_of(random, hidden).values()
    ]
    spikes, classes = samples(random, batch, steps)
    return weights, torch.tensor(spikes, device="cuda"), torch.tensor(classes, device="cuda")


@functools.cache  # a graph cannot copy from the CPU
def _share(steps: int) -> Any:
    """Return the share of a step's spikes in the mean of potentials."""
    import torch

    share = (1 - LEAK ** (steps - np.arange(steps))) / (1 - LEAK) / steps
    return torch.tensor(share, dtype=torch.float32, device="cuda")


def _cross_entropy(spikes: Any, readout: Any, classes: Any) -> Any:
    """Return the loss of leaky readouts of spikes (steps, samples, hidden): the mean of their potentials counts."""
    import torch

    scores = torch.einsum("t,tbo->bo", _share(len(spikes)), spikes @ readout)
    return torch.nn.functional.cross_entropy(scores, classes)


def _arriving(spikes: Any, weights: Any) -> Any:
    """Return what arrives of inputs, one step later."""
    import torch

    return torch.nn.functional.pad(spikes[:-1].float() @ weights, (0, 0, 0, 0, 1, 0))


# ---- by hand


def _step(compiled: bool) -> Callable[..., Any]:
    """Return a step of all neurons: potentials and spikes."""
    import torch

    class Spike(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, margin: Any) -> Any:
            ctx.save_for_backward(margin)
            return (margin > 0).to(margin.dtype)

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            (margin,) = ctx.saved_tensors
            return slope / (1 + SLOPE * margin.abs()) ** 2

    def step(v: Any, recurrent: Any, current: Any) -> Any:
        margin = KEEP * v + current + recurrent - 1
        return torch.where(margin > 0, 0, margin + 1), Spike.apply(margin)

    return torch.compile(step, dynamic=False) if compiled else step


def _once(step: Callable[..., Any], weights: list[Any], spikes: Any, classes: Any) -> Any:
    """Compute the loss, and the gradients of weights."""
    import torch

    into, recurrent, readout = weights
    currents = _arriving(spikes, into)
    v = sent = torch.zeros_like(currents[0])
    rows = []
    for current in currents.unbind():
        v, sent = step(v, sent @ recurrent, current)
        rows.append(sent)
    loss = _cross_entropy(torch.stack(rows), readout, classes)
    loss.backward()
    return loss.detach()


def _loop(weights: list[Any], spikes: Any, classes: Any) -> Run:
    """Compile a step, and record all that a step of training runs in a CUDA graph."""
    import torch

    step, stream = _step(compiled=True), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):  # compiles, and chooses how to multiply
            _forget(weights)
            _once(step, weights, spikes, classes)
    torch.cuda.synchronize()
    _forget(weights)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = _once(step, weights, spikes, classes)

    def run() -> tuple[Any, list[Any]]:
        graph.replay()
        return loss, [x.grad for x in weights]

    return run


def _forget(weights: list[Any]) -> None:
    for x in weights:
        x.grad = None


def _check_loop() -> None:
    """Raise unless a small network has the loss and the gradients of the loop by hand in JAX."""
    import jax

    weights, spikes, classes = _given(*_SMALL)
    loss = _once(_step(compiled=False), weights, spikes, classes)
    random = np.random.default_rng(0)
    ours = weights_of(random, _SMALL[0])
    expected, slopes = jax.value_and_grad(by_hand(1))(ours, *samples(random, *_SMALL[1:]))
    assert abs(float(loss) - float(expected)) < 1e-2 * float(expected), (loss, expected)
    for name, x in zip(ours, weights, strict=True):
        a, b = (np.asarray(y, np.float64).ravel() for y in (slopes[name], x.grad.cpu()))
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert cosine > 0.9, (name, cosine)  # with fewer digits some spikes differ


# ---- SpikingJelly: its neurons and its container, which adds what its own spikes of the step before send


def _jelly(weights: list[Any], spikes: Any, classes: Any) -> Run:
    """Use its surrogate, too, which is half as high times the slope, so gradients differ by factors."""
    import torch
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.recurrent, self.readout = (torch.nn.Parameter(x.detach().clone()) for x in weights)
            cells = neuron.LIFNode(tau=1 / (1 - KEEP), decay_input=False, surrogate_function=surrogate.SoftSign(SLOPE))
            self.cells = layer.ElementWiseRecurrentContainer(cells, lambda y, x: x + y @ self.recurrent, step_mode="m")

    network = Network().to(spikes.device)

    def run() -> tuple[Any, list[Any]]:
        functional.reset_net(network)
        network.zero_grad()
        loss = _cross_entropy(network.cells(_arriving(spikes, network.into)), network.readout, classes)
        loss.backward()
        return loss.detach(), [x.grad for x in network.parameters()]

    return run
