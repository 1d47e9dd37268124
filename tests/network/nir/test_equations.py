# SPDX-License-Identifier: Apache-2.0
"""Graphs of any nodes and edges follow the equations of NIR, which plain NumPy integrates beside them."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import brainevent as be

pytest.importorskip("nir")
from nir_equations import NEURONS, SIZE, Connection, as_graph, drawn_node, integrate

STEPS, DT = 20, 1.0
LINKS = st.tuples(
    st.integers(0, 3),  # from: the input, or a node
    st.integers(0, 3),
    st.sampled_from(["none", "scale", "linear", "affine"]),
    st.sampled_from(["none", "before", "after"]),
)


def drawn_connection(random, names, link):
    source, target, kind, delay = link
    weight = {"none": None, "scale": random.integers(-64, 128, SIZE) / 64}.get(
        kind, random.integers(-64, 128, (SIZE, SIZE)) / 64
    )
    return Connection(
        source=["input", *names][source % (len(names) + 1)],
        target=names[target % len(names)],
        weight=weight,
        bias=random.normal(0, 0.2, SIZE) if kind == "affine" else None,
        delay=random.integers(0, 4, SIZE) if delay != "none" else None,
        delayed_first=delay == "before",
    )


@settings(max_examples=10, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(NEURONS), min_size=1, max_size=3),
    links=st.lists(LINKS, min_size=1, max_size=6),
    method=st.sampled_from(["euler", "exact"]),
    events=st.booleans(),
    seed=st.integers(0, 2**32),
)
@example(["LIF", "CubaLI", "IF"], [(0, 0, "linear", "none"), (1, 1, "affine", "after"), (2, 2, "scale", "before"),
         (3, 0, "linear", "none"), (3, 2, "linear", "after")], "euler", True, 1)  # fmt: skip
@example(
    ["CubaLIF", "LI"],
    [(0, 1, "linear", "after"), (2, 0, "none", "before"), (1, 0, "affine", "none")],
    "exact",
    False,
    2,
)
def test_a_graph_follows_its_equations(kinds, links, method, events, seed):
    random = np.random.default_rng(seed)
    nodes = {f"n{k}": drawn_node(kind, random) for k, kind in enumerate(kinds)}
    connections, plain = [], set()
    for link in links:
        one = drawn_connection(random, list(nodes), link)
        ends = one.source, one.target
        if one.weight is None and one.delay is None and ends in plain:
            continue  # an edge can be there once
        plain |= {ends} if one.weight is None and one.delay is None else set()
        connections.append(one)
    x = random.integers(-1, 3, (STEPS, SIZE)) / 2
    wanted, margin = integrate(nodes, connections, x, DT, method)
    assume(margin > 1e-9)

    graph = as_graph(nodes, connections, DT)
    network = be.from_nir(graph, dt=DT, method=method, input_range=(-0.5, 1) if events else None)
    late = max(network.latency.values())
    simulation = network.build(backend="interpreted", dtype="float64")
    padded = np.concatenate([x, np.zeros((late, SIZE))])
    sent = {
        name: f"{name}.{'v' if kind in ('I', 'LI', 'CubaLI') else 'spikes'}"
        for name, kind in zip(nodes, kinds, strict=True)
    }
    result = simulation.run(len(padded), inputs={"input.x": padded}, record=[*sent.values()])
    for name, recorded in sent.items():
        found = result[recorded]
        found = found if recorded.endswith(".v") else found.todense()
        first = network.latency[name]
        np.testing.assert_allclose(found[first : first + STEPS], wanted[name], rtol=1e-9, atol=1e-9, err_msg=name)
