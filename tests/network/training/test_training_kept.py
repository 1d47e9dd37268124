# SPDX-License-Identifier: Apache-2.0
"""What programs of training find again, in a process and in later ones; and that nothing old is found."""

import functools
import os
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.dtypes import float0
from programs import run_program

import brainevent as be
from brainevent._compat import closed_jaxpr, jaxprs_of, tracing_settings
from brainevent.backends.nvrtc import compiler
from brainevent.network.plan.connections import in_one_part
from brainevent.network.plan.pending import largest_load
from brainevent.network.reference.products import products
from brainevent.network.reference.quanta import dtypes_of_sums, loads_of
from brainevent.network.surrogate import fast_sigmoid, triangle
from brainevent.network.training import adjoints
from brainevent.network.training.cpu import engine as on_cpu
from brainevent.network.training.gpu.device import Gpu
from brainevent.scalar.adjoint import adjoint_of
from brainevent.scalar.trace import trace

STEPS = 5
SCALE = 1.0


def with_gain(gain):
    def leaky(s, arriving, p):
        v = s.v * p.keep + arriving.syn * gain
        spike = v > 1
        return s.replace(v=jnp.where(spike, 0.0, v)), spike

    return leaky


def scaled(s, arriving, p):
    v = s.v * p.keep + arriving.syn * SCALE
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def traced(rule, keep="keep"):
    return trace(rule, {"v": 0.0}, ["syn"], {keep: 0.9})


def key(rule, surrogate=None, wanted=("keep",), rounded=False):
    return adjoints._key_of(rule, surrogate or fast_sigmoid(), wanted, rounded)


def network(rule, neurons=12, backend="numba"):
    r = np.random.default_rng(3)
    matrix = np.float32(r.normal(0, 0.5 / np.sqrt(neurons), (neurons, neurons)))
    cells = be.Population("cells", neurons, rule, state={"v": 0.0}, params={"keep": 0.9})
    return be.Network([cells], [be.Projection(cells, cells, matrix, into="syn")], dt=1.0).build(seed=0, backend=backend)


def gradient_of(sim, *, runs=True):
    """Return a function that returns gradients of weights and of a parameter for currents; or only traces them."""
    name = "cells->cells.syn"

    def loss(weights, keep, xs):
        params = sim.params | {name: weights, "cells": sim.params["cells"] | {"keep": keep}}
        run = functools.partial(be.simulate, sim, sim.state, params, STEPS)
        found = jax.vmap(lambda x: run(inputs={"cells.syn": x}, record=["cells.spikes", "cells.v"])[1])(xs)
        return jnp.sum(found["cells.spikes"] ** 2) + jnp.sum(found["cells.v"])

    def gradient(xs):
        program = jax.jit(jax.grad(loss, (0, 1)))
        return (program if runs else program.trace)(jnp.asarray(sim.params[name]), jnp.float32(0.9), xs)

    return gradient


def traced_once(rule, neurons=12, samples=3):
    """Trace a program of training."""
    gradient_of(network(rule, neurons), runs=False)(inputs(neurons, samples))


def inputs(neurons=12, samples=3):
    return jnp.asarray(np.random.default_rng(1).normal(0.5, 0.5, (samples, STEPS, neurons)), jnp.float32)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Return the rules of which adjoints were made; none is kept under the keys of this test."""
    found, ours = [], adjoints._ours()

    def counted(rule, *arguments, **keywords):
        found.append(rule.name)
        return adjoint_of(rule, *arguments, **keywords)

    monkeypatch.setattr(adjoints, "adjoint_of", counted)
    monkeypatch.setattr(adjoints, "_found", {})
    monkeypatch.setattr(adjoints, "_ours", lambda: f"{ours} {tmp_path}")
    return found


def test_an_adjoint_is_made_once_for_all_programs(made):
    traced_once(with_gain(1.0))
    assert made == ["leaky"]
    traced_once(with_gain(1.0), samples=5)
    traced_once(with_gain(1.0), 20)
    assert made == ["leaky"]


def test_an_adjoint_is_kept_for_later_processes(made, monkeypatch):
    traced_once(with_gain(1.0))
    monkeypatch.setattr(adjoints, "_found", {})  # as in another process
    traced_once(with_gain(1.0))
    assert made == ["leaky"]


def test_what_is_kept_is_what_was_made(made, monkeypatch):
    rule, surrogate = traced(with_gain(0.5)), fast_sigmoid(3.0)
    arguments = rule, surrogate, ("keep",), True
    first = adjoints._found_again(*arguments)
    monkeypatch.setattr(adjoints, "_found", {})
    assert adjoints._found_again(*arguments) == first == adjoint_of(rule, surrogate, ["keep"], rounded=True)
    assert made == ["leaky"]


PROGRAM = """
import test_training_kept as t
from brainevent.network.training import adjoints
made, adjoint_of = [], adjoints.adjoint_of
adjoints.adjoint_of = lambda *x, **y: (made.append(x[0].name), adjoint_of(*x, **y))[1]
t.traced_once(t.with_gain({gain}))
print(len(made), *adjoints._found)
"""


def test_another_process_finds_what_one_kept(tmp_path):
    run = functools.partial(run_program, BRAINEVENT_CACHE_DIR=str(tmp_path / "cache"))
    (first, one), (second, same), (third, other) = (run(PROGRAM.format(gain=gain)).split() for gain in (1.0, 1.0, 2.0))
    assert (first, second, third) == ("1", "0", "1")
    assert one == same != other


# ---- nothing old


def _custom(factor):
    @jax.custom_jvp
    def same(x):
        return x * 1.0

    same.defjvp(lambda primals, tangents: (primals[0], factor * tangents[0]))
    return lambda s, arriving, p: (s.replace(v=same(s.v * p.keep + arriving.syn)), s.v > 1)


def _by_helper(helper):
    return lambda s, arriving, p: (s.replace(v=helper(s.v) * p.keep + arriving.syn), s.v > 1)


def _by_default(factor):
    def rule(s, arriving, p, *, factor=factor):
        return s.replace(v=s.v * p.keep * factor + arriving.syn), s.v > 1

    return rule


PAIRS = {
    "a number that is held": (with_gain(1.0), with_gain(2.0)),
    "an array that is held": (with_gain(np.float32(1)), with_gain(np.float32(3))),
    "its own derivative": (_custom(1.0), _custom(2.0)),
    "a helper": (_by_helper(jnp.sin), _by_helper(jnp.cos)),
    "a helper of the user": (_by_helper(lambda x: x + 1), _by_helper(lambda x: x + 2)),
    "a default": (_by_default(1.0), _by_default(2.0)),
    "an argument of a partial": tuple(
        functools.partial(lambda factor, s, a, p: (s.replace(v=s.v * p.keep * factor + a.syn), s.v > 1), factor)
        for factor in (1.0, 2.0)
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_rules_that_differ_have_keys_of_their_own(pair):
    first, second = map(traced, pair)
    assert key(first) is not None
    assert key(first) == key(first)
    # not the form alone tells them apart: so it is the same here
    assert key(first) != key(replace(second, name=first.name, form=first.form))


def test_a_rule_with_its_own_derivative_is_differentiated_with_that_of_now(made):
    for factor in (1.0, 2.0):
        traced_once(_custom(factor))
    assert made == ["<lambda>", "<lambda>"]
    one, other = adjoints._found.values()
    assert one.forward == other.forward
    assert one.backward != other.backward


def test_a_global_that_changed_is_read_anew(monkeypatch, made):
    sims = [network(scaled, backend=backend) for backend in ("numba", "jax")]
    before = float(gradient_of(sims[1])(inputs())[1])
    traced_once(scaled)
    monkeypatch.setitem(globals(), "SCALE", 0.5)
    after, plain = (float(gradient_of(sim)(inputs())[1]) for sim in sims)  # which were built before
    assert made == ["scaled", "scaled"]
    np.testing.assert_allclose(after, plain, rtol=1e-5)
    assert abs(before - after) > 1e-3


@pytest.mark.parametrize(
    "other",
    [
        {"surrogate": fast_sigmoid(5.0)},
        {"surrogate": triangle(25.0)},
        {"surrogate": lambda margin: 1 / (1 + abs(margin))},
        {"wanted": ()},
        {"rounded": True},
    ],
    ids=["slope", "shape", "function", "parameters", "rounded"],
)
def test_what_is_asked_for_is_part_of_the_key(other):
    rule = traced(with_gain(1.0))
    assert None not in (key(rule), key(rule, **other))
    assert key(rule) != key(rule, **other)


def test_what_the_rule_was_when_it_was_built_is_part_of_the_key():
    rule = traced(with_gain(1.0))
    others = [replace(rule, name="other"), replace(rule, form=replace(rule.form, outputs=rule.form.outputs[::-1]))]
    assert len({key(one) for one in (rule, *others)}) == 3


def test_settings_of_jax_are_part_of_the_key():
    rule, before = traced(with_gain(1.0)), tracing_settings()
    usual = key(rule)
    with jax.numpy_dtype_promotion("strict"):
        assert tracing_settings() != before
        assert key(rule) not in (usual, None)
    with jax.default_matmul_precision("highest"):
        assert key(rule) not in (usual, None)
    assert key(rule) == usual


def test_releases_and_our_own_code_are_part_of_the_key(monkeypatch):
    rule = traced(with_gain(1.0))
    keys = [key(rule)]
    monkeypatch.setattr(jax, "__version__", "0.0")
    keys.append(key(rule))
    monkeypatch.setattr(adjoints, "_ours", lambda: "other code")
    keys.append(key(rule))
    assert len({*keys}) == 3


class Scaled:
    """A rule with a state of its own, which has no content."""

    def __init__(self, gain):
        self.gain = gain

    def __call__(self, s, arriving, p):
        return s.replace(v=s.v * p.keep + arriving.syn * self.gain), s.v > 1


def from_environment(s, arriving, p):
    return s.replace(v=s.v * p.keep + arriving.syn * float(os.environ["KEPT_GAIN"])), s.v > 1


def test_a_rule_that_reads_the_environment_is_traced_anew(monkeypatch, made):
    found = []
    for gain in ("1", "2"):
        monkeypatch.setenv("KEPT_GAIN", gain)
        rule = traced(from_environment)
        assert key(rule) is None
        found.append(adjoints._found_again(rule, fast_sigmoid(), (), False))
    assert made == ["from_environment"] * 2
    assert found[0] != found[1]


def test_a_rule_without_content_is_traced_anew_for_each_program(made):
    rule = Scaled(1.0)
    assert key(traced(rule)) is None
    traced_once(rule)
    assert len(made) == 1  # once for the program
    traced_once(rule)
    assert len(made) == 2
    one = adjoints._found_again(traced(rule), fast_sigmoid(), (), False)
    rule.gain = 2.0
    assert adjoints._found_again(traced(rule), fast_sigmoid(), (), False) != one


def test_without_a_cache_that_can_be_used_all_is_made(made, monkeypatch):
    def refused(*_, **__):
        raise be.KernelToolchainError("cache: it cannot be used")

    monkeypatch.setattr(adjoints.cache, "read", refused)
    found = adjoints._found_again(traced(with_gain(1.0)), fast_sigmoid(), ("keep",), False)
    assert found.residuals
    assert made == ["leaky"]


def test_a_process_remembers_so_many_adjoints_at_most(made, monkeypatch):
    monkeypatch.setattr(adjoints, "_MOST", 2)
    for gain in (1.0, 2.0, 3.0):
        adjoints._found_again(traced(with_gain(gain)), fast_sigmoid(), (), False)
    assert len(adjoints._found) == 1


# ---- loops, and what is known of synapses


def test_loops_are_compiled_once_for_networks_of_all_sizes():
    gradient_of(network(with_gain(1.0), 12))(inputs(12))
    before = on_cpu._compiled.cache_info().misses
    sizes = (5, 70)
    for neurons in sizes:
        sims = [network(with_gain(1.0), neurons, way) for way in ("numba", "jax")]
        found, plain = (gradient_of(sim)(inputs(neurons)) for sim in sims)
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    assert on_cpu._compiled.cache_info().misses == before


def test_facts_are_those_of_the_synapses_of_now():
    plan = in_one_part(network(with_gain(1.0)).engine.plan)
    assert plan.fact("what", "name", lambda: 1) == plan.fact("what", "name", lambda: 2) == 1
    assert plan.replaced({}).fact("what", "name", lambda: 3) == 3
    parts = replace(plan, parts=2)
    one = in_one_part(parts)
    assert one.facts is parts.facts
    assert (parts.fact("what", "name", lambda: 4), one.fact("what", "name", lambda: 5)) == (4, 5)


@pytest.mark.parametrize("backend", ["jax", "numba"])
def test_the_largest_sum_is_that_of_all_neurons(backend):
    plan = network(with_gain(1.0), backend=backend).engine.plan
    assert largest_load(plan, "cells", "syn") == loads_of(plan, ("cells", "syn")).max()


# ---- GPUs


def test_code_for_another_card_or_compiler_has_a_key_of_its_own(monkeypatch):
    keys = []

    def kept(where, unit, options, kind, key):
        keys.append(key)
        return compiler.Code(b"", "forward", ())

    monkeypatch.setattr(compiler, "_kept", kept)
    monkeypatch.setattr(compiler, "_codes", {})
    for release in ("13.0", "13.1"):
        monkeypatch.setattr(compiler, "_release", lambda release=release: release)
        for architectures in (("9.0",), ("10.0",), ("9.0", "10.0")):
            for text in ("one", "other"):
                Gpu(architectures).code(text, "forward")
    assert len({*keys}) == len(keys) == 12
    Gpu(("9.0",)).code("one", "forward")  # another object, as in a program for the same card
    assert len(keys) == 12


# ---- what programs are made of


def _jits(jaxpr):
    """Yield the names of functions within a program that `jax.jit` traced on their own."""
    for eqn in jaxpr.eqns:
        inner = list(jaxprs_of(eqn))
        if "jit" in eqn.primitive.name:
            yield eqn.params["name"]
        for one in inner:
            yield from _jits(closed_jaxpr(one).jaxpr)


@pytest.mark.parametrize("samples", [1, 3])
def test_programs_of_training_hold_no_function_of_jax_numpy_that_is_traced_on_its_own(samples):
    """Each one takes some ten times as long to trace as what it does."""
    sim = network(with_gain(1.0))
    name = "cells->cells.syn"

    def last(weights, xs):
        run = lambda x: be.simulate(sim, sim.state, {name: weights}, STEPS, {"cells.syn": x}, ["cells.spikes"])
        return jax.vmap(run)(xs)

    def both(weights, xs, cotangents):
        found, back = jax.vjp(last, weights, xs)
        return found, back(cotangents)

    given = jnp.asarray(sim.params[name]), inputs(samples=samples)
    found = jax.eval_shape(last, *given)
    cotangents = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype if x.dtype == np.float32 else float0), found)
    assert list(_jits(jax.make_jaxpr(functools.partial(both, cotangents=cotangents))(*given).jaxpr)) == []


FULL = np.ones((3, 4), np.float32)
MATRICES = {
    "full": (FULL, True),
    "with a zero": (FULL - np.eye(3, 4, dtype=np.float32), False),
    "listed in order": (sp.csr_matrix(FULL), True),
    "as many, and one of them twice": (
        sp.coo_matrix((np.ones(12), ([0, *np.repeat(range(3), 4)[:-1]], [0, *np.tile(range(4), 3)[:-1]])), (3, 4)),
        False,
    ),
}


@pytest.mark.parametrize("backend", ["jax", "numba"])
@pytest.mark.parametrize("matrix", MATRICES)
def test_full_matrices_are_known_without_their_synapses(matrix, backend):
    given, full = MATRICES[matrix]
    a, b = (
        be.Population(name, n, with_gain(1.0), state={"v": 0.0}, params={"keep": 0.9})
        for name, n in (("a", 3), ("b", 4))
    )
    sim = be.Network([a, b], [be.Projection(a, b, given, into="syn")], dt=1.0).build(seed=0, backend=backend)
    plan = in_one_part(sim.engine.plan)
    assert plan.facts.get(("all to all", "a->b.syn", 1), False) == full
    (one,) = products(plan, ["a->b.syn"], dtypes_of_sums(plan))
    assert one.all_to_all == full == one._all_to_all() if one.about.entries == 12 else not one.all_to_all
