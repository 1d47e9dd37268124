# SPDX-License-Identifier: Apache-2.0
"""A hundred and forty random rules of synapses as forms, and values for what they read."""

import dataclasses
import functools
import random

import numpy as np
from synapse_rules import EDGES, LEAVES, ONE, TWO, rule_of

from brainevent.scalar.interpret import interpret
from brainevent.scalar.primitives import flush
from brainevent.scalar.synapse import trace_synapse

COUNT = 140
GROUPS = {
    "synapse": {"c": "float32", "e": "float32"},
    "pre": {"x": "float32", "x2": "float32", "u": "float32", "n": "uint32"},
    "post": {"y": "float32", "y2": "float32", "v": "float32", "pause": "int32", "high": "bool"},
    "params": {"eta": "float32", "dt": "float32"},
}
PREFIXES = {"synapse": "s", "pre": "pre", "post": "post", "params": "p"}
DTYPES = {"w": "float32"} | {f"{PREFIXES[k]}_{name}": of for k, group in GROUPS.items() for name, of in group.items()}
RESULTS = ("w", "c", "e")


def expression(draw, depth):
    """Draw an expression as nested tuples of names and numbers."""
    kind = draw.random() if depth < 4 else draw.uniform(0.2, 1)
    if depth == 0 or kind < 0.2:
        leaf = draw.random()
        if leaf < 0.75:
            return draw.choice(list(LEAVES))
        return float(np.float32(draw.uniform(-2, 2))) if leaf < 0.95 else float(draw.choice(EDGES.tolist()))
    if kind < 0.5:
        return (draw.choice(sorted(ONE)), expression(draw, depth - 1))
    return (draw.choice(sorted(TWO)), expression(draw, depth - 1), expression(draw, depth - 1))


@functools.cache
def forms():
    """Return the forms of all rules, by name."""
    found = {}
    for number in range(COUNT):
        draw = random.Random(number)
        states = {name: expression(draw, 2) for name in ("c", "e") if draw.random() < 0.4}
        rule = rule_of(expression(draw, 4), states, number % 5 > 0)
        name = f"rule_{number}"
        found[name] = dataclasses.replace(trace_synapse(rule, GROUPS, (-1.0, 1.0)).form, name=name)
    return found


def values(count, seed=0):
    """Return arrays for all that rules read, hard values among them; floats that are denormal are flushed."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, dtype in DTYPES.items():
        if dtype == "float32":
            array = rng.normal(0, 1.5, count).astype(np.float32)
            chosen = rng.random(count) < 0.1
            array[chosen] = rng.choice(np.append(EDGES, np.float32([np.inf, np.nan])), chosen.sum())
            found[name] = flush(array)
        elif dtype == "bool":
            found[name] = rng.random(count) < 0.5
        else:
            found[name] = rng.integers(0, 9, count).astype(dtype)
    return found


def expected(name, given):
    """Return what the interpreter makes of a rule: the weight, and the states."""
    form = forms()[name]
    return interpret(form, [given[one.text] for one in form.inputs])


def call(name, index="[k]"):
    """Return the call of a rule in text, for arrays by their names."""
    return f"be_{name}({', '.join(one.text + index for one in forms()[name].inputs)})"


def differing(ours, theirs):
    """Return where bits differ; all NaN are one."""
    wrong = ours.view(np.uint32) != theirs.view(np.uint32)
    return np.flatnonzero(wrong & ~(np.isnan(ours) & np.isnan(theirs)))
