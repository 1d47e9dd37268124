# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX in rules: with every release those of the table work, and those of other packages' primitives."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from brainevent.errors import RuleError
from brainevent.scalar.interpret import interpret
from brainevent.scalar.margin import with_margin
from brainevent.scalar.trace import flat_rule, trace

F = np.float32
# By module and kinds of arguments: x, y, z float32, i, j int32, b bool, v a vector of the first, w one of numbers.
WORK = {
    ("jax.numpy", "x"): """
        abs all any angle arccos arccosh arcsin arcsinh arctan arctanh argmax argmin around atleast_1d average
        block broadcast_arrays cbrt ceil clip copy cos cosh count_nonzero cumprod cumsum deg2rad diagflat empty_like exp
        exp2 expm1 fabs flip floor frexp i0 isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not
        max mean min modf nan_to_num nanmax nanmean nansum negative ones_like positive prod ptp rad2deg ravel reciprocal
        rint round sign signbit sin sinc sinh spacing sqrt square squeeze std sum tan tanh trunc var zeros_like""",
    ("jax.numpy", "xy"): """
        add allclose append arctan2 array_equal copysign divide divmod equal float_power floor_divide fmax fmin fmod
        full_like greater greater_equal heaviside hypot inner isclose isin less less_equal linspace logaddexp logaddexp2
        logical_and logical_or logical_xor logspace maximum minimum mod multiply nextafter not_equal outer pow power
        remainder roll subtract true_divide vdot""",
    ("jax.numpy", "bxy"): "where",
    ("jax.numpy", "i"): "bitwise_not invert abs sign",
    ("jax.numpy", "ij"): """
        bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd lcm ldexp left_shift right_shift
        maximum mod floor_divide""",
    ("jax.numpy", "xi"): "ldexp power",
    ("jax.numpy", "v"): """
        column_stack cumulative_prod cumulative_sum diff flipud gradient hstack polyder polyint stack trapezoid unstack
        vander vstack max argmin mean std""",
    ("jax.numpy", "vw"): "cross matmul dot polyadd polysub polyval vecdot",
    ("jax.numpy", "xw"): "digitize",
    ("jax.numpy", "wx"): "searchsorted polyval",
    ("jax.numpy", "xww"): "interp",
    ("jax.scipy.special", "x"): """
        dawsn entr erf erfc erfcx erfinv expit i0 i0e log_ndtr logit logsumexp ndtr ndtri softmax spence""",
    ("jax.scipy.special", "xy"): "boxcox boxcox1p kl_div owens_t rel_entr xlog1py xlogy",
    ("jax.lax", "x"): """
        abs acos acosh asin asinh atan atanh bessel_i0e cbrt ceil cos cosh erf erf_inv erfc exp exp2 expm1 floor
        is_finite log log1p logistic neg optimization_barrier reciprocal round rsqrt sign sin sinh sqrt square
        stop_gradient tan tanh""",
    ("jax.lax", "xy"): "add atan2 div eq ge gt le lt max min mul ne nextafter pow rem sub",
    ("jax.lax", "i"): "bitwise_not clz population_count neg",
    ("jax.lax", "ij"): """
        bitwise_and bitwise_or bitwise_xor rem shift_left shift_right_arithmetic shift_right_logical""",
    ("jax.lax", "bxy"): "select",
    ("jax.lax", "xyz"): "clamp",
    ("jax.lax", "v"): "cummax cummin cumprod cumsum",
    ("jax.nn", "x"): """
        celu elu gelu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid silu
        soft_sign softplus sparse_plus sparse_sigmoid squareplus swish""",
    ("jax.nn", "v"): "log_softmax softmax standardize logsumexp",
}  # fmt: skip
VALUES = {
    "x": F([0.3, 0.7, 1.5, -0.4, 2.0]),
    "y": F([0.6, 0.2, 1.1, 0.9, 0.5]),
    "z": F([0.9, 0.8, 1.3, 0.95, 0.9]),
    "i": np.int32([3, 1, 2, 5, 4]),
    "j": np.int32([2, 2, 1, 3, 1]),
    "b": np.array([True, False, True, True, False]),
}


def of_scalars(module, name, kinds):
    """Return a function of JAX as one of the scalars above, whose results are added as floats."""
    function = getattr(importlib.import_module(module), name)

    def call(**given):
        more = {"v": jnp.stack([given[k] for k in "xyz"]), "w": jnp.array([0.25, 0.5, 4.0])}
        results = jax.tree.leaves(function(*((given | more)[kind] for kind in kinds)))
        return sum(jnp.asarray(x).astype(F).sum() for x in results)

    return call


def form_of(call):
    zeros = {key: value.dtype.type(0) for key, value in VALUES.items()} | {"out": F(0)}

    def rule(s, arriving, p):
        return s.replace(out=call(**{key: getattr(s, key) for key in VALUES})), s.b

    return trace(rule, zeros, [], {}).form


@pytest.mark.covering(strength=1, most=10)
@pytest.mark.parametrize(("module", "kinds"), WORK)
def test_functions_of_jax_work_in_rules(module, kinds):
    calls = {name: of_scalars(module, name, kinds) for name in WORK[module, kinds].split()}
    theirs = jax.jit(jax.vmap(lambda given: {name: call(**given) for name, call in calls.items()}))(VALUES)
    for name, call in calls.items():
        ours = interpret(form_of(call), [*VALUES.values(), F(np.zeros(5))])[len(VALUES)]
        np.testing.assert_allclose(ours, theirs[name], rtol=2e-5, atol=1e-5, err_msg=name)


def heaviside(x, width):
    return [(x >= 0).astype(x.dtype)]


def surrogate(name, **registered):
    """Return a primitive of one result as another package may define it, with a gradient of its own."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x, **_: [x.update(weak_type=False)])
    if "impl" in registered:
        primitive.def_impl(registered["impl"])
    if "lowered" in registered:
        mlir.register_lowering(primitive, mlir.lower_fun(registered["lowered"], multiple_results=True))
    slope = lambda dx, x, width: [dx * jnp.maximum(1 - jnp.abs(x) / width, 0)]
    ad.primitive_jvps[primitive] = lambda p, t, **k: (primitive.bind(*p, **k), slope(t[0], p[0], **k))
    return lambda x, width=2.0: primitive.bind(x, width=width)[0]


def computed(function):
    """Return a rule that computes a function of its state v, as traced, and the results for some values."""
    traced = trace(lambda s, arriving, p: (s.replace(out=function(s.v)), s.v > 1), {"v": 0.0, "out": 0.0}, [], {})
    values = F([-1, -0.0, 2, np.nan])
    return traced, interpret(traced.form, [values, F(np.zeros(4))])[1]


@pytest.mark.parametrize(
    "registered",
    [{"impl": heaviside}, {"lowered": heaviside}, {"impl": jax.jit(heaviside, static_argnames="width")},
     {"impl": lambda x, width: [jnp.where(x < 0, 0.0, heaviside(x, width)[0])]},
     {"lowered": heaviside, "impl": lambda x, width: [x * np.nan]}],  # compiled programs run what is lowered
    ids=["impl", "lowered", "jit", "jax.numpy", "both"],
)  # fmt: skip
def test_primitives_of_other_packages_are_what_they_run(registered):
    step = surrogate("step", **registered)
    traced, out = computed(step)
    np.testing.assert_array_equal(out, [0, 1, 1, 0])
    if "lowered" in registered:
        flat = flat_rule(traced.function, traced)
        assert jax.jit(jax.grad(lambda v: flat(v, F(0))[1]))(F(0.5)) == 0.75  # the reference keeps the gradient


def test_functions_that_call_a_jaxpr_of_theirs_are_opened():
    doubled = jax.custom_batching.custom_vmap(lambda x: 2 * x)
    doubled.def_vmap(lambda size, batched, x: (2 * x, True))
    named = lax.composite(lambda x: x - 3, "ours.minus_three")
    np.testing.assert_array_equal(computed(lambda v: named(doubled(jnp.hypot(v, 0.0))))[1], [-1, -3, 1, np.nan])


def test_the_margin_passes_functions_that_newer_jax_does_not_open():
    both = with_margin(lambda v: [jnp.hypot(v, 3.0), jnp.hypot(v, 3.0) > jnp.interp(v, jnp.arange(3.0), jnp.ones(3))])
    (_, spike), margin, gate = both(F(4))
    assert (bool(spike), float(margin), bool(gate)) == (True, 4.0, True)
    assert jax.grad(lambda v: both(v)[1])(F(4)) == pytest.approx(0.8)


def endless():
    primitive = Primitive("endless")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x: [x])
    primitive.def_impl(lambda x: primitive.bind(x))
    return lambda x: primitive.bind(x)[0]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda v: jnp.sort(jnp.stack([v, 1.0]))[0], "the JAX primitive sort; use other functions"),
        (surrogate("nothing"), "the JAX primitive nothing; use other functions"),
        (surrogate("by_numpy", impl=lambda x, width: [np.heaviside(x, 1)]),
         r"the JAX primitive by_numpy: its function cannot be traced \(TracerArrayConversionError: .*\); use other"),
        (surrogate("wide", impl=lambda x, width: [jnp.stack([x, x])]),
         r"primitive wide: its function returns float32\[2\], but its type is float32\[\]; use other"),
        (surrogate("sorts", impl=lambda x, width: [jnp.sort(jnp.stack([x, 0]))[0]]), r"sort \(within sorts\)"),
        (endless(), r"primitive endless \(within endless\); use other functions"),
        (lambda v: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), F), v), "JAX primitive pure_callback;"),
        (lambda v: jax.vmap(lambda k: lax.while_loop(lambda c: c < k, lambda c: c + 1, v))(jnp.arange(3.0)).sum(),
         "a while_loop under vmap whose number of steps differs; unroll it"),
    ],
)  # fmt: skip
def test_the_rest_is_refused_with_the_line_of_the_rule(function, words):
    with pytest.raises(RuleError, match=rf"rule <lambda>, .*test_rule_jax.py:\d+: no engine supports .*{words}"):
        computed(function)
