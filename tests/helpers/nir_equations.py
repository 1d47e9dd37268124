# SPDX-License-Identifier: Apache-2.0
"""The equations of NIR in plain NumPy: a graph of neurons, all of one size, and connections between them."""

import dataclasses
import itertools

import nir
import numpy as np
from scipy.linalg import expm

SIZE = 3
NEURONS = ("I", "LI", "IF", "LIF", "CubaLI", "CubaLIF", "Threshold")
FIELDS = {"I": "r", "LI": "tau r v_leak", "IF": "r v_threshold v_reset", "LIF": "tau r v_leak v_threshold v_reset"}
FIELDS |= {"CubaLI": "tau_syn tau_mem r v_leak w_in", "CubaLIF": "tau_syn tau_mem r v_leak v_threshold v_reset w_in"}
FIELDS |= {"Threshold": "threshold"}
RANGES = {"tau": (0.002, 0.02), "tau_syn": (0.002, 0.02), "tau_mem": (0.002, 0.02), "v_threshold": (0.1, 1)}
RANGES |= {"threshold": (0.1, 1), "v_reset": (-0.5, 0.05), "v_leak": (-0.3, 0.08), "w_in": (0.5, 2), "r": (0.5, 3)}


@dataclasses.dataclass
class Connection:
    """What carries the output of one node to another: a linear map and a delay, before or after it."""

    source: str
    target: str
    weight: np.ndarray | None  # (targets, sources), or of a scale (elements,)
    bias: np.ndarray | None
    delay: np.ndarray | None  # steps
    delayed_first: bool

    def nodes(self, dt):
        """Return the nodes of NIR, in order."""
        delays = [] if self.delay is None else [nir.Delay(self.delay * dt / 1000)]
        if self.weight is None:
            return delays
        if self.weight.ndim == 1:
            maps = [nir.Scale(self.weight)]
        else:
            maps = [nir.Linear(self.weight) if self.bias is None else nir.Affine(self.weight, self.bias)]
        return delays + maps if self.delayed_first else maps + delays

    def carried(self, sent, step, least):
        """Return what arrives in a step: `sent(k)` is what leaves the source in step k."""
        delay = np.maximum(np.zeros(SIZE, int) if self.delay is None else self.delay, least)
        if self.weight is None or self.delayed_first:
            return self._mapped(np.array([sent(step - d)[k] for k, d in enumerate(delay)]))
        return np.array([self._mapped(sent(step - d))[k] for k, d in enumerate(delay)])

    def _mapped(self, x):
        if self.weight is None:
            return x
        return self.weight * x if self.weight.ndim == 1 else self.weight @ x + (0 if self.bias is None else self.bias)


def drawn_node(kind, random):
    values = {name: random.uniform(*RANGES[name], SIZE) for name in FIELDS[kind].split()}
    if kind in ("I", "IF"):
        values["r"] *= 100
    return getattr(nir, kind)(**values)


def as_graph(nodes, connections, dt):
    """Return the graph of an input, nodes by name, and connections."""
    found, edges = {"input": nir.Input(np.array([SIZE])), **nodes}, []
    for number, connection in enumerate(connections):
        between = {f"c{number}_{k}": node for k, node in enumerate(connection.nodes(dt))}
        found |= between
        way = [connection.source, *between, connection.target]
        edges += itertools.pairwise(way)
    return nir.NIRGraph(found, edges, type_check=False)


def integrate(nodes, connections, x, dt, method):
    """Return what each node sends in each step, and the smallest distance of a potential from its threshold."""
    neurons = {name: Neuron(node, dt / 1000, method) for name, node in nodes.items()}
    after = {name: _reached(name, connections) for name in ["input", *nodes]}
    order = sorted(nodes, key=lambda name: sum(name in others and name != one for one, others in after.items()))
    order = sorted(order, key=lambda name: len([one for one in after if name in after[one] and one not in after[name]]))
    sent = {"input": list(x), **{name: [] for name in nodes}}
    start = {"input": np.zeros(SIZE)} | {name: neuron.before for name, neuron in neurons.items()}
    margin = np.inf
    for step in range(len(x)):
        for name in order:
            arriving = np.zeros(SIZE)
            for one in connections:
                if one.target == name:
                    loop = one.source in after[name] | {name}

                    def then(k, source=one.source):
                        return sent[source][k] if k >= 0 else start[source]

                    arriving = arriving + one.carried(then, step, int(loop))
            sent[name].append(neurons[name].step(arriving))
        margin = min(margin, *(neuron.margin for neuron in neurons.values()))
    return {name: np.array(values) for name, values in sent.items()}, margin


def _reached(name, connections):
    """Return the nodes to which connections lead from a node."""
    found, new = set(), {name}
    while new:
        new = {one.target for one in connections if one.source in new} - found
        found |= new
    return found


class Neuron:
    """One node: its state, and what it sends."""

    def __init__(self, node, dt, method):
        self.node, self.dt, self.method, self.kind = node, dt, method, type(node).__name__
        self.v = np.array(getattr(node, "v_leak", np.zeros(SIZE)))
        self.i = np.zeros(SIZE)
        self.before = self.v.copy() if self.kind in ("I", "LI", "CubaLI") else np.zeros(SIZE)
        self.margin = np.inf

    def step(self, x):
        """Return what the node sends after a step with this input."""
        node = self.node
        if self.kind == "Threshold":
            self.margin = np.abs(x - node.threshold).min()
            return (x > node.threshold).astype(float)
        if self.method == "euler":
            self._euler(node, x)
        else:
            self._exact(node, x)
        if not hasattr(node, "v_threshold"):
            return self.v.copy()
        self.margin = np.abs(self.v - node.v_threshold).min()
        spike = self.v > node.v_threshold
        self.v = np.where(spike, node.v_reset, self.v)
        return spike.astype(float)

    def _euler(self, node, x):
        if self.kind in ("I", "IF"):
            self.v = self.v + self.dt * node.r * x
        elif self.kind in ("LI", "LIF"):
            self.v = self.v + self.dt / node.tau * (node.v_leak - self.v + node.r * x)
        else:
            self.i = self.i + self.dt / node.tau_syn * (node.w_in * x - self.i)
            self.v = self.v + self.dt / node.tau_mem * (node.v_leak - self.v + node.r * self.i)

    def _exact(self, node, x):
        """Solve d(i, v, 1)/dt = matrix (i, v, 1)."""
        for k in range(SIZE):
            matrix = np.zeros((3, 3))
            if self.kind in ("I", "IF"):
                matrix[1, 2] = node.r[k] * x[k]
            elif self.kind in ("LI", "LIF"):
                matrix[1, 1:] = [-1 / node.tau[k], (node.v_leak[k] + node.r[k] * x[k]) / node.tau[k]]
            else:
                matrix[0, ::2] = [-1 / node.tau_syn[k], node.w_in[k] * x[k] / node.tau_syn[k]]
                matrix[1] = np.array([node.r[k], -1, node.v_leak[k]]) / node.tau_mem[k]
            self.i[k], self.v[k], _ = expm(self.dt * matrix) @ [self.i[k], self.v[k], 1]
