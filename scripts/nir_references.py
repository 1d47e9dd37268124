# SPDX-License-Identifier: Apache-2.0
"""Make the references of NIR graphs: small graphs of drawn weights, and what Norse, snnTorch and PyTorch return.

Needs Python 3.12 with torch, nir, norse and snntorch, which the tests of the package do not:

    python scripts/nir_references.py tests/data/nir

Each graph becomes a file of NIR, beside a file of arrays: its input, (steps, elements), and its output.
"""

import sys
from pathlib import Path

import nir
import norse.torch as norse
import numpy as np
import snntorch
import torch
from snntorch.import_nir import import_from_nir

STEPS = 60


def full(value, *shape):
    return np.full(shape, value, np.float32)


class Draw:
    """Weights and inputs, drawn by a seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def weights(self, *shape, mean=0.2, sd=1.0):
        return self.random.normal(mean, sd, shape).astype(np.float32)

    def events(self, *shape, p=0.4):
        return (self.random.random((STEPS, *shape)) < p).astype(np.float32)

    def values(self, *shape):
        return self.random.normal(0.4, 1.0, (STEPS, *shape)).astype(np.float32)


def chain(*nodes):
    return nir.NIRGraph.from_list(*nodes)


def norse_lif():
    draw = Draw(1)
    layer = [
        nir.LIF(draw.random.uniform(0.005, 0.02, n).astype("f"), *(full(v, n) for v in (1, 0, 0.15))) for n in (6, 5)
    ]
    graph = chain(
        nir.Affine(draw.weights(6, 4), draw.weights(6)), layer[0], nir.Linear(draw.weights(5, 6, mean=1)), layer[1]
    )
    return graph, draw.values(4), 1.0, in_norse


def norse_cuba_lif():
    draw = Draw(2)
    neurons = nir.CubaLIF(
        tau_syn=full(0.004, 5), tau_mem=full(0.009, 5), r=full(1.5, 5), v_leak=full(0, 5), v_threshold=full(0.3, 5),
        w_in=draw.random.uniform(0.5, 2, 5).astype("f"),
    )  # fmt: skip
    return chain(nir.Affine(draw.weights(5, 4), draw.weights(5, sd=0.1)), neurons), draw.events(4), 1.0, in_norse


def norse_if():
    draw = Draw(3)
    neurons = nir.IF(r=full(1000, 5), v_threshold=full(2.5, 5))  # Norse adds what arrives: r times the step is 1
    return chain(nir.Linear(draw.weights(5, 5)), neurons), draw.events(5), 1.0, in_norse


def norse_conv():
    draw = Draw(4)
    conv = nir.Conv2d((8, 9), draw.weights(4, 2, 3, 3), (2, 1), (1, 0), (1, 2), 1, draw.weights(4, sd=0.1))
    hidden = nir.IF(r=full(1000, 4, 4, 5), v_threshold=full(1.7, 4, 4, 5))
    pool = nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0]))
    flat = nir.Flatten({"input": np.array([4, 2, 2])}, start_dim=0)
    readout = nir.LIF(full(0.01, 3), full(1, 3), full(0, 3), full(0.2, 3))
    nodes = (conv, hidden, pool, flat, nir.Affine(draw.weights(3, 16, mean=0), draw.weights(3)), readout)
    return chain(nir.Input(np.array([2, 8, 9])), *nodes), draw.events(2, 8, 9, p=0.2), 1.0, in_norse


def norse_integrators():
    draw = Draw(5)
    first = nir.CubaLI(
        tau_syn=full(0.003, 4), tau_mem=full(0.008, 4), r=full(2, 4), v_leak=full(0, 4), w_in=full(1.2, 4)
    )
    second = nir.LI(full(0.02, 3), full(1, 3), full(0, 3))
    graph = chain(
        nir.Linear(draw.weights(4, 3)), first, nir.Scale(full(1.5, 4)), nir.Linear(draw.weights(3, 4)), second
    )

    def run(graph, x, dt):
        synapse, membrane, last = (
            norse.LIBoxCell(norse.LIBoxParameters(tau_mem_inv=torch.tensor(1 / tau)), dt=dt / 1000)
            for tau in (0.003, 0.008, 0.02)
        )
        states, out = [None] * 3, []
        for now in x:
            current, states[0] = synapse(1.2 * (torch.tensor(graph.nodes["linear"].weight) @ now), states[0])
            v, states[1] = membrane(2 * current, states[1])
            v, states[2] = last(torch.tensor(graph.nodes["linear_1"].weight) @ (1.5 * v), states[2])
            out.append(v)
        return out

    return graph, draw.values(3), 1.0, run


def torch_stateless():
    draw = Draw(6)
    conv = nir.Conv1d(9, draw.weights(4, 1, 3), 1, "same", 2, 2, draw.weights(4))
    delays = np.arange(4 * 9).reshape(4, 9) % 4 * np.float32(0.001)
    graph = nir.NIRGraph(
        {
            "input": nir.Input(np.array([2, 9])),
            "conv": conv,
            "threshold": nir.Threshold(full(0.7, 4, 9)),
            "delay": nir.Delay(delays),
            "integrator": nir.I(full(30, 4, 9)),
            "output": nir.Output(np.array([4, 9])),
        },
        [
            ("input", "conv"),
            ("conv", "threshold"),
            ("threshold", "delay"),
            ("delay", "integrator"),
            ("integrator", "output"),
        ],
        type_check=False,  # which does not know groups
    )

    def run(graph, x, dt):
        weight, bias = torch.tensor(conv.weight), torch.tensor(conv.bias)
        sent = torch.nn.functional.conv1d(x, weight, bias, padding="same", dilation=2, groups=2) > 0.7
        late = [torch.cat([torch.zeros(k, 4, 9), sent[: STEPS - k].float()]) for k in range(4)]
        shifted = sum(one * torch.tensor(np.rint(delays * 1000) == k) for k, one in enumerate(late))
        return list(torch.cumsum(30 * dt / 1000 * shifted, 0))

    return graph, draw.values(2, 9), 1.0, run


def snntorch_leaky():
    draw = Draw(7)
    layers = [nir.LIF(full(0.0008, n), full(8, n), full(0, n), full(1.3, n)) for n in (6, 4)]
    graph = chain(nir.Affine(draw.weights(6, 4), draw.weights(6)), layers[0], nir.Linear(draw.weights(4, 6)), layers[1])
    return graph, draw.events(4), 0.1, in_snntorch


def snntorch_conv():
    draw = Draw(8)
    conv = nir.Conv2d((6, 6), draw.weights(3, 1, 3, 3), 1, 0, 1, 1, draw.weights(3, sd=0.1))
    pool = nir.AvgPool2d(np.array([2, 2]), np.array([1, 1]), np.array([1, 1]))
    neurons = nir.LIF(full(0.001, 3, 5, 5), full(10, 3, 5, 5), full(0, 3, 5, 5), full(1, 3, 5, 5))
    return chain(nir.Input(np.array([1, 6, 6])), conv, pool, neurons), draw.events(1, 6, 6), 0.1, in_snntorch


def snntorch_recurrent(seed, neurons, cells):
    draw = Draw(seed)
    size = neurons.v_threshold.size
    graph = nir.NIRGraph(
        {
            "input": nir.Input(np.array([4])),
            "into": nir.Linear(draw.weights(size, 4)),
            "cells.lif": neurons,
            "cells.w_rec": nir.Affine(draw.weights(size, size, mean=0), draw.weights(size, sd=0.1)),
            "output": nir.Output(np.array([size])),
        },
        [("input", "into"), ("into", "cells.lif"), ("cells.lif", "cells.w_rec"), ("cells.w_rec", "cells.lif"),
         ("cells.lif", "output")],
    )  # fmt: skip

    def run(graph, x, dt):  # the import of snnTorch 1.0.0 leaves the feedback out, and RSynaptic the reset
        feedback, recurrent = graph.nodes["cells.w_rec"], getattr(cells, "recurrent", torch.nn.Linear(5, 5))
        recurrent.weight.data, recurrent.bias.data = torch.tensor(feedback.weight), torch.tensor(feedback.bias)
        spike, out = torch.zeros(5), []
        state = [torch.zeros(5)] * (1 if isinstance(neurons, nir.LIF) else 2)
        for now in x @ torch.tensor(graph.nodes["into"].weight).T:
            if isinstance(cells, snntorch.RLeaky):
                spike, *state = cells(now, spike, *state)
            else:
                spike, *state = cells(now + recurrent(spike), *state)
            out.append(spike)
        return out

    return graph, draw.events(4), 0.1, run


TO_ZERO = {"reset_mechanism": "zero", "reset_delay": False}


def snntorch_rleaky():
    neurons = nir.LIF(full(0.0005, 5), full(5, 5), full(0, 5), full(1.5, 5))
    return snntorch_recurrent(9, neurons, snntorch.RLeaky(beta=0.8, threshold=1.5, linear_features=5, **TO_ZERO))


def snntorch_synaptic():
    values = {"tau_syn": 0.0004, "tau_mem": 0.0007, "r": 7, "v_leak": 0, "v_threshold": 2.5, "w_in": 4}
    cells = snntorch.Synaptic(alpha=0.75, beta=1 - 1 / 7, threshold=2.5, **TO_ZERO)
    return snntorch_recurrent(10, nir.CubaLIF(**{name: full(value, 5) for name, value in values.items()}), cells)


def in_norse(graph, x, dt):
    module, state, out = norse.from_nir(graph, ignore_warnings=True, dt=dt / 1000), None, []
    for now in x:
        y, state = module(now[None], state)
        out.append(y)
    return out


def in_snntorch(graph, x, dt):
    assert dt == 0.1  # its own, in each module
    module, state, out = import_from_nir(graph), None, []
    for now in x:
        y, state = module(now[None], state)
        out.append(y)
    return out


CASES = [norse_lif, norse_cuba_lif, norse_if, norse_conv, norse_integrators, torch_stateless]
CASES += [snntorch_leaky, snntorch_conv, snntorch_rleaky, snntorch_synaptic]


def main(folder):
    for case in CASES:
        graph, x, dt, run = case()
        nir.write(folder / f"{case.__name__}.nir", graph, compression=None)  # before it runs: snnTorch changes a graph
        with torch.no_grad():
            y = torch.stack([one.reshape(-1) for one in run(graph, torch.tensor(x), dt)]).numpy()
        np.savez_compressed(folder / f"{case.__name__}.npz", x=x.reshape(STEPS, -1), y=y, dt=dt)
        print(f"{case.__name__}: output {y.shape}, mean {y.mean():.3f}, {len(np.unique(y))} values")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
