# SPDX-License-Identifier: Apache-2.0
"""Write `brian.json`: weights of synapses by equations in Brian2, every 20 ms: `python brian_weights.py`.

It runs with an interpreter that has Brian2 (2.10.1 from PyPI). Delays are at the axon, and sources meet targets in the
same step: the pathway "pre" comes first, as it does here.
"""

import json
from pathlib import Path

import brian2 as b2
import numpy as np
from trains import DELAYS, DT, REWARDS, SOURCES, STEPS, TARGETS, WEIGHTS, meeting

EVERY = 40  # steps
TRACES = """
    dfast/dt = -fast / (20 * ms) : 1 (event-driven)
    dback/dt = -back / (20 * ms) : 1 (event-driven)
    dx/dt = -x / tau_plus : 1 (event-driven)
    dx2/dt = -x2 / tau_x : 1 (event-driven)
    dy/dt = -y / tau_minus : 1 (event-driven)
    dy2/dt = -y2 / tau_y : 1 (event-driven)
"""
PRE, POST = "; x += 1; x2 += 1; fast += 1", "; y += 1; y2 += 1; back += 1"
CASES = {
    "additive": ("w = clip(w - 0.055 * y, 0, 1)", "w = clip(w + 0.05 * x, 0, 1)"),
    "triplet": (
        "w = clip(w - y * (0.02 + 0.01 * x2), 0, 1)",
        "w = clip(w + x * (0.01 + 0.03 * y2), 0, 1)",
    ),
    "inhibitory": ("w = clip(w + 0.02 * (back - 0.4), 0, 1)", "w = clip(w + 0.02 * fast, 0, 1)"),
    "oja": ("", "w = clip(w + 0.05 * (fast - back * w), 0, 1)"),
    "bcm": (
        "r = y / (30 * 0.02); slow = y2 / (125 * 0.02); w = clip(w + 0.01 * r * (r - slow**2), 0, 1)",
        "",
    ),
}


def synapses(equations: str, pre: str, post: str) -> tuple[b2.Synapses, b2.Network]:
    """Return synapses between generators of the trains, and their network."""
    spikes = []
    for trains in meeting():
        each = [np.full(steps.size, k) for k, steps in enumerate(trains)]
        times = np.concatenate(trains) * DT * b2.ms
        spikes.append(b2.SpikeGeneratorGroup(len(trains), np.concatenate(each), times))
    namespace = {"tau_plus": 15 * b2.ms, "tau_x": 101 * b2.ms, "tau_minus": 30 * b2.ms, "tau_y": 125 * b2.ms}
    made = b2.Synapses(*spikes, equations, on_pre=pre, on_post=post, namespace=namespace, method="rk4")
    made.pre.order, made.post.order = 0, 1
    made.connect(i=np.repeat(np.arange(SOURCES), TARGETS), j=np.tile(np.arange(TARGETS), SOURCES))
    made.w = WEIGHTS.ravel()
    made.pre.delay = DELAYS.ravel() * DT * b2.ms
    return made, b2.Network(*spikes, made)


def recorded(made: b2.Synapses, network: b2.Network) -> list[list[list[float]]]:
    """Return for each source and target the weights after steps 0, 40, ..."""
    monitor = b2.StateMonitor(made, "w", record=True, dt=EVERY * DT * b2.ms, when="end", order=9)
    network.add(monitor)
    network.run(STEPS * DT * b2.ms)
    rounded = [[float(f"{w:.9g}") for w in row] for row in monitor.w]
    return [rounded[i * TARGETS : (i + 1) * TARGETS] for i in range(SOURCES)]


def by_spikes(pre: str, post: str) -> list[list[list[float]]]:
    """Return the weights of a rule that only spikes call."""
    return recorded(*synapses("w : 1" + TRACES, pre + PRE, post + POST))


def reward() -> list[list[list[float]]]:
    """Return the weights of synapses whose eligibility a signal turns into weights."""
    equations = """
        dw/dt = c * (n - 0.002) / ms : 1 (clock-driven)
        dc/dt = -c / (300 * ms) : 1 (clock-driven)
        dn/dt = -n / (100 * ms) : 1 (clock-driven)
        dx/dt = -x / tau_plus : 1 (event-driven)
        dy/dt = -y / tau_minus : 1 (event-driven)
    """
    made, network = synapses(equations, "c -= 0.15 * y; x += 1", "c += 0.1 * x; y += 1")

    @b2.network_operation(when="end", order=8)
    def rewarded(t):
        if round(t / (DT * b2.ms)) in REWARDS:
            made.n = made.n + 0.01

    network.add(rewarded)
    return recorded(made, network)


def scaling() -> list[list[list[float]]]:
    """Return weights that are scaled each 10 ms, by a rate in units of 20 Hz."""
    made, network = synapses("w : 1\ndr/dt = -r / (200 * ms) : 1 (clock-driven)", "w = w", "r += 1 / (200 * 0.02)")

    @b2.network_operation(when="end", order=8)
    def scaled(t):
        if (round(t / (DT * b2.ms)) + 1) % 20 == 0:
            made.w = np.clip(made.w * (1 + 0.02 * (1 - made.r)), 0, 1)

    network.add(scaled)
    return recorded(made, network)


if __name__ == "__main__":
    b2.prefs.codegen.target = "numpy"
    b2.defaultclock.dt = DT * b2.ms
    table = {"simulator": f"Brian2 {b2.__version__}", "weights": {}}
    for name, rules in CASES.items():
        table["weights"][name] = by_spikes(*rules)
    table["weights"]["reward"] = reward()
    table["weights"]["scaling"] = scaling()
    text = json.dumps(table, separators=(",", ":")).replace("]],", "]],\n")
    Path(__file__).with_name("brian.json").write_text(text)
