# SPDX-License-Identifier: Apache-2.0
"""The adjoint of a rule: `jax.vjp` of the rule, the fewest residuals, and the same bits from every engine."""

import ctypes
import functools
import subprocess

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from ptx import ptx_of
from trained_rules import (
    RULES,
    SURROGATES,
    adaptive,
    leaky_readout,
    lif,
    noisy,
    own_reset,
    subtractive,
    synapse,
    traced,
)

from brainevent.backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from brainevent.errors import RuleError
from brainevent.network import models
from brainevent.network.description.network import Network
from brainevent.network.plan.build import build_plan
from brainevent.network.surrogate import fast_sigmoid
from brainevent.scalar.adjoint import adjoint_of
from brainevent.scalar.cuda_text import FLUSHING, SHIM, TYPES, cuda_text
from brainevent.scalar.form import Assign, Name
from brainevent.scalar.interpret import interpret
from brainevent.scalar.margin import as_events, with_margin
from brainevent.scalar.on_numba import compiled_forms
from brainevent.scalar.primitives import flush
from brainevent.scalar.trace import flat_rule, trace

F = np.float32
COUNT = 300


def drawn(names, count=COUNT, seed=0, centres=None):
    """Draw values of the names' dtypes, floats around their centres."""
    rng = np.random.default_rng(seed)
    centre = lambda name: (centres or {}).get(name.text, 0.5) or 0.5
    spread = lambda name: 0.1 * min(1, abs(centre(name))) if name.text in (centres or {}) else 0.8
    made = {
        "float32": lambda name: (centre(name) + rng.normal(0, spread(name), count)).astype(F),
        "int32": lambda _: rng.integers(0, 4, count).astype(np.int32),
        "uint32": lambda _: rng.integers(0, 2**32, count).astype(np.uint32),
        "bool": lambda _: rng.random(count) < 0.5,
    }
    return [made[name.dtype](name) for name in names]


def inputs_of(rule):
    return (*rule.states, *rule.arriving, *rule.params, *rule.random)


def by_jax(rule, surrogate, adjoint, given, cotangents, *, compiled=True):
    """Return the cotangents that JAX computes for the plain rule in its own arithmetic."""
    names = inputs_of(rule)
    params = {name for name in rule.params if name in adjoint.params}
    wanted = [k for k, n in enumerate(names) if n.dtype == "float32" and (n not in rule.params or n in params)]
    new = [k for k, name in enumerate(rule.states) if name.dtype == "float32"]

    def back(values, cotangents):
        def step(*chosen):
            all_values = list(values)
            for place, value in zip(wanted, chosen, strict=True):
                all_values[place] = value
            flat = flat_rule(rule.function, rule)
            if not adjoint.spiking:
                states = flat(*all_values)[:-1]
                return [*(states[k] for k in new), jnp.float32(0)]
            (*states, spike), margin, gate = with_margin(flat)(*all_values)
            return [*(states[k] for k in new), as_events(surrogate, spike, margin, gate)]

        return jax.vjp(step, *(values[k] for k in wanted))[1](cotangents)

    with jax.enable_x64(False):
        if compiled:
            return jax.jit(jax.vmap(back))(given, cotangents)
        with jax.disable_jit():  # no operation is rearranged
            return jax.vmap(back)([*map(jnp.asarray, given)], [*map(jnp.asarray, cotangents)])


def run_both(adjoint, rule, given, cotangents):
    """Return the outputs of both forms by the interpreter, the second one from the residuals of the first one."""
    forward = interpret(adjoint.forward, given)
    count = len(rule.states) + 1
    known = given[len(rule.states) + len(rule.arriving) :]
    return forward, interpret(adjoint.backward, [*forward[count:], forward[count - 1], *known, *cotangents])


def check(rule, surrogate, *, centres=None, rounded=False):
    adjoint = adjoint_of(rule, surrogate, rounded=rounded)
    given, cotangents = drawn(inputs_of(rule), centres=centres), drawn(adjoint.cotangents, seed=1)
    forward, backward = run_both(adjoint, rule, given, cotangents)
    for ours, plain in zip(forward, interpret(rule.form, given), strict=False):
        assert ours.tobytes() == plain.tobytes()
    expected = by_jax(rule, surrogate, adjoint, given, cotangents)
    assert len(backward) == len(expected)
    for ours, theirs in zip(backward, expected, strict=True):
        assert np.isfinite(theirs).all()
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5 * (1 + np.abs(theirs).max()))
    assert max(np.abs(one).max() for one in backward) > 0
    return forward


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda one: one.name)
@pytest.mark.parametrize("rule", RULES, ids=lambda one: one.__name__)
def test_the_adjoint_is_the_vjp_of_the_rule(rule, surrogate, rounded):
    centres = {f"p_{name}": value for name, value in RULES[rule][1].items()}
    forward = check(traced(rule), surrogate, centres=centres, rounded=rounded)
    if rule is not leaky_readout:
        assert 0 < np.count_nonzero(forward[len(traced(rule).states)]) < COUNT


def quotient(s, arriving, p):
    v = s.v / arriving.syn
    return s.replace(v=jnp.where(v > p.top, 0.0, v)), v > p.top


def power(s, arriving, p):
    v = jnp.abs(s.v) ** arriving.syn
    return s.replace(v=jnp.where(v > p.top, 0.0, v)), v > p.top


def angle(s, arriving, p):
    v = jnp.arctan2(s.v, arriving.syn) + jnp.hypot(s.v, p.top)
    return s.replace(v=v), v > p.top


def likelihood(s, arriving, p):
    v = jnp.logaddexp(s.v, arriving.syn) * jax.nn.sigmoid(s.v)
    return s.replace(v=v), v > p.top


# of which products and squares overflow and vanish
LIMITS = np.array([0, -0.0, 1, -1, 0.5, 3, 1e-30, -1e-30, 1e30, -1e30, 1e19, 1e-19, np.inf, -np.inf, np.nan], F)


@pytest.mark.parametrize("rule", [quotient, power, angle, likelihood], ids=lambda one: one.__name__)
def test_at_the_limits_of_float32_it_is_what_jax_computes_operation_by_operation(rule):
    """Overflow, and denormals, which are zeros, go the same way; under `jit` XLA may rearrange operations."""
    one = trace(rule, {"v": 0.0}, ["syn"], {"top": 1.0})
    adjoint = adjoint_of(one, fast_sigmoid(2.0))
    v, syn = (x.ravel() for x in np.meshgrid(LIMITS, LIMITS))
    top = np.where(np.arange(v.size) % 2, F(1), F(2))
    for cotangent in (F(0.75), F(1e30)):
        cotangents = [np.full(v.size, cotangent), np.full(v.size, F(0.25))]
        _, ours = run_both(adjoint, one, [v, syn, top], cotangents)
        theirs = by_jax(one, fast_sigmoid(2.0), adjoint, [v, syn, top], cotangents, compiled=False)
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4)


def test_a_derivative_of_a_quotient_vanishes_with_the_inverse_square():
    """As in JAX: for a divisor of 1e30 the derivative is 0, though 1e30 times the numerator 1e30 is not."""
    one = trace(quotient, {"v": 0.0}, ["syn"], {"top": 10.0})
    adjoint = adjoint_of(one, fast_sigmoid(2.0), [])
    given, cotangents = [np.array([x], F) for x in (1e30, 1e30, 10)], [np.array([x], F) for x in (1e30, 0)]
    _, (dv, dsyn) = run_both(adjoint, one, given, cotangents)
    assert dv == pytest.approx(1.0)
    assert dsyn == jax.grad(lambda y: 1e30 * (F(1e30) / y))(F(1e30)) == 0


MODELS = [
    *(models.lif_delta, models.lif_current, models.lif_exponential, models.lif_conductance),
    *(models.adex, models.izhikevich, models.hodgkin_huxley),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda one: one.__name__)
def test_every_model_of_a_neuron_has_an_adjoint(model):
    plan = build_plan(Network([model("n", 1)], dt=0.1), seed=0)
    [population] = plan.populations
    rule = population.rule
    own = [*population.state.values(), *population.params.values()]
    centres = {n.text: float(np.ravel(x)[0]) for n, x in zip((*rule.states, *rule.params), own, strict=True)}
    check(rule, fast_sigmoid(1.0), centres=centres)


def test_sources_have_adjoints():
    rules = {}
    for source in (models.poisson_source("n", 1, rate=5.0), models.relay("n", 1)):
        [population] = build_plan(Network([source], dt=0.1), seed=0).populations
        rules[population.rule.name] = adjoint_of(population.rule, fast_sigmoid(1.0))
    drawn_spikes, relayed = rules.values()
    assert (drawn_spikes.residuals, drawn_spikes.spiking) == ((), False)
    assert relayed.spiking
    assert len(relayed.residuals) == 1


# What the forward step stores, if no parameter is differentiated: exactly, and in fewer bits.
RESIDUALS = {
    lif: (["float32"], ["float32"]),
    subtractive: (["float32"], ["float32"]),
    adaptive: (["float32"], ["float32"]),
    synapse: (["bool", "float32"], ["bool", "float32"]),
    leaky_readout: (["float32"], ["float32"]),
}


@pytest.mark.parametrize("rule", RESIDUALS, ids=lambda one: one.__name__)
def test_the_fewest_bytes_are_stored(rule):
    exact, rounded = (adjoint_of(traced(rule), fast_sigmoid(), [], rounded=r) for r in (False, True))
    assert ([name.dtype for name in exact.residuals], [name.dtype for name in rounded.residuals]) == RESIDUALS[rule]


def test_steps_back_from_rounded_residuals_decide_as_the_forward_step():
    """The margin is stored, not the potential; and whether it spiked comes from the spike."""
    exact, rounded = (adjoint_of(traced(lif), fast_sigmoid(), [], rounded=r) for r in (False, True))
    assert exact.margin is None
    assert exact.spike not in exact.reads
    assert rounded.residuals == (rounded.margin,)
    assert rounded.spike in rounded.reads
    v = np.array([0.9999, 1.0001], F)
    both = [run_both(one, traced(lif), [v, F(0), F(1)], [F(1), F(0)])[1][0] for one in (exact, rounded)]
    assert [list(one) for one in both] == [[1, 0], [1, 0]]


def test_parameters_that_are_differentiated_are_chosen():
    every, one, none = (adjoint_of(traced(adaptive), fast_sigmoid(), names) for names in (None, ["beta"], []))
    assert [name.text for name in every.params] == ["p_keep", "p_slow", "p_beta", "p_jump"]
    assert [name.text for name in one.params] == ["p_beta"]
    assert [len(found.backward.outputs) for found in (every, one, none)] == [7, 4, 3]
    assert len(every.residuals) > len(none.residuals)


def test_the_adjoint_of_a_leaky_neuron_line_by_line():
    found = adjoint_of(traced(lif), lambda margin: 1 / (1 + jnp.abs(margin)), [])
    ops = [line.op for line in found.backward.lines if isinstance(line, Assign)]
    assert sorted(ops) == sorted(["gt", "sub", "abs", "add", "div", "mul", "select", "add", "mul"])
    assert [line.op for line in found.forward.lines] == ["mul", "add", "gt", "select"]


def test_without_a_surrogate_spikes_have_no_derivative():
    found = adjoint_of(traced(lif), None, [])
    assert (found.spiking, found.residuals) == (False, ())
    assert found.cotangents[-1] not in found.reads
    back = interpret(found.backward, [np.array([False, True]), F(0.5), F(1), F(1)])
    assert [list(one) for one in back] == [[0.5, 0.0], [1.0, 0.0]]


# Engines

FORMS = [(rule, SURROGATES[place % len(SURROGATES)]) for place, rule in enumerate(RULES)]


@functools.cache
def forms():
    """Return the forms of all rules, by name, each with a name of its own."""
    found = [adjoint_of(traced(rule), surrogate, name=rule.__name__) for rule, surrogate in FORMS]
    return [form for one in found for form in (one.forward, one.backward)]


def values_of(form, count):
    return [flush(x) if x.dtype == F else x for x in drawn(form.inputs, count, seed=len(form.lines))]


def dtypes_of(form):
    return [output.dtype for output in form.outputs]


def check_engine(run, count=500):
    """Run a function of a form and its arrays beside the interpreter."""
    for form in forms():
        given = values_of(form, count)
        outs = [np.empty(count, dtype) for dtype in dtypes_of(form)]
        run(form, given, outs)
        for ours, exact in zip(outs, interpret(form, given), strict=True):
            np.testing.assert_array_equal(ours.view(np.uint8), np.ascontiguousarray(exact).view(np.uint8), form.name)


def by_numba(form):
    arrays = [name.text for name in form.inputs]
    outs = [f"o{place}" for place in range(len(form.outputs))]
    scope = {"rule": compiled_forms([form])[form.name], "flush": flush_floats, "restore": restore_floats}
    text = f"""
def run({", ".join([*arrays, *outs])}):
    before = flush()
    for k in range(o0.size):
        {", ".join(f"{out}[k]" for out in outs)} = rule({", ".join(f"{name}[k]" for name in arrays)})
    restore(before)
"""
    exec(text, scope)
    return numba.njit(error_model="numpy")(scope["run"])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("rule", [noisy, own_reset], ids=lambda one: one.__name__)
def test_numba_gives_the_bits_of_the_interpreter(rule, place):
    form = forms()[2 * list(RULES).index(rule) + place]
    given = values_of(form, 500)
    outs = [np.empty(500, dtype) for dtype in dtypes_of(form)]
    by_numba(form)(*given, *outs)
    for ours, exact in zip(outs, interpret(form, given), strict=True):
        assert ours.tobytes() == exact.tobytes()


def cpp_function(form):
    inputs = [f"const {TYPES[name.dtype]}* i{place}" for place, name in enumerate(form.inputs)]
    outs = [f"{TYPES[dtype]}* o{place}" for place, dtype in enumerate(dtypes_of(form))]
    given = ", ".join([f"i{place}[k]" for place in range(len(inputs))])
    results = ", ".join(f"o{place}[k]" for place in range(len(outs)))
    call = f"be_{form.name}({given}, {results})" if len(outs) > 1 else f"{results} = be_{form.name}({given})"
    head = f'extern "C" void run_{form.name}({", ".join([*inputs, *outs])}, long n)'
    return f"{head} {{ {FLUSHING} for (long k = 0; k < n; k++) {call}; }}\n"


@pytest.mark.skipif(not HARDWARE_FLUSHES, reason="the processor flushes otherwise than GPUs")
def test_the_text_for_gpus_gives_the_bits_of_the_interpreter(tmp_path):
    source = tmp_path / "adjoints.cpp"
    source.write_text(SHIM + cuda_text(forms()) + "".join(map(cpp_function, forms())))
    library = source.with_suffix(".so")
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))

    def run(form, given, outs):
        pointers = (ctypes.c_void_p(x.ctypes.data) for x in (*given, *outs))
        getattr(loaded, f"run_{form.name}")(*pointers, ctypes.c_long(outs[0].size))

    check_engine(run)


def test_the_text_compiles_for_gpus():
    found = adjoint_of(traced(synapse), fast_sigmoid(), name="synapse")
    names = ", ".join(f"float(k + {place})" for place in range(len(found.backward.inputs)))
    outs = [f"o{place}" for place in range(len(found.backward.outputs))]
    body = f"int k = threadIdx.x; float {', '.join(outs)}; be_synapse_backward({names}, {', '.join(outs)});"
    text = f'extern "C" __global__ void run(float* out) {{ {body} out[k] = {" + ".join(outs)}; }}'
    assert ".entry run" in ptx_of(cuda_text([found.backward]) + text)


# Rules without an adjoint


def repeated(s, arriving, p, random):
    v = lax.while_loop(lambda v: v > 1, lambda v: v * 0.5, s.v + arriving.syn)
    return s.replace(v=v), v > p.threshold


def chance(s, arriving, p, random):
    return s.replace(v=s.v + arriving.syn), random.bernoulli(s.v)


def counted(s, arriving, p, random):
    many = lax.fori_loop(0, 2, lambda k, n: n + random.poisson(arriving.syn, index=k), 0)
    return s.replace(v=s.v + many), s.v > p.threshold


def in_a_branch(s, arriving, p, random):
    v = lax.cond(s.v > 0, lambda: jnp.where(random.bernoulli(s.v, index=1), 1.0, s.v), lambda: s.v)
    return s.replace(v=v), s.v > p.threshold


REFUSED = {
    repeated: r"^rule repeated: differentiated values pass through a while_loop, .* has no adjoint; use fori_loop",
    chance: r"^rule chance, .*: random\.bernoulli depends on a state .* no adjoint; let it depend on parameters alone",
    counted: r"^rule counted, .*: random\.poisson depends on",
    in_a_branch: r"^rule in_a_branch, .*: random\.bernoulli depends on",
}


@pytest.mark.parametrize("rule", REFUSED, ids=lambda one: one.__name__)
def test_a_rule_without_an_adjoint_is_refused(rule):
    with pytest.raises(RuleError, match=REFUSED[rule]):
        adjoint_of(trace(rule, {"v": 0.0}, ["syn"], {"threshold": 1.0}), fast_sigmoid())


def drawing(s, arriving, p, random):
    drive = random.bernoulli(p.rate) + random.poisson(p.rate) + random.normal(arriving.syn, s.v)
    v = s.v * 0.9 + drive
    return s.replace(v=v), v > 1


def test_a_probability_may_depend_on_parameters():
    check(trace(drawing, {"v": 0.0}, ["syn"], {"rate": 0.5}), fast_sigmoid())


def test_float64_is_refused():
    with pytest.raises(RuleError, match=r"^rule lif: is of float64, which has no adjoint; build .* dtype='float32'"):
        adjoint_of(trace(lif, {"v": 0.0}, ["syn"], {"keep": 0.9}, dtype="float64"), fast_sigmoid())


def test_a_surrogate_with_a_primitive_that_no_engine_has_is_refused():
    with pytest.raises(RuleError, match=r"^rule lif, .*no engine supports the JAX primitive lgamma"):
        adjoint_of(traced(lif), lambda margin: lax.lgamma(margin))


halved = Primitive("halved")
halved.def_impl(lambda x: x * F(0.5))
halved.def_abstract_eval(lambda x: x)


def without_a_derivative(s, arriving, p):
    v = halved.bind(s.v)
    return s.replace(v=v), v > 1


def test_a_primitive_without_a_derivative_is_refused():
    with pytest.raises(RuleError, match=r"^rule without_a_derivative: JAX cannot differentiate it.*'halved'"):
        adjoint_of(trace(without_a_derivative, {"v": 0.0}, [], {}), fast_sigmoid())


def test_names_are_unique_inputs():
    for form in forms():
        names = [name.text for name in form.inputs]
        assert len(set(names)) == len(names)
        assert not {line.target for line in form.lines if isinstance(line, Assign)} & set(form.inputs)
        assert all(isinstance(name, Name) for name in form.inputs)


def test_noise_is_drawn_again_rather_than_stored():
    found = adjoint_of(traced(noisy), fast_sigmoid(), [])
    assert {name.text for name in found.reads} >= {"r_neuron", "r_step"}
