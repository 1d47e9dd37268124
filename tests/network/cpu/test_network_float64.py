# SPDX-License-Identifier: Apache-2.0
"""Networks in float64: every engine beside the interpreter, and the same bits for every way to run one."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import CheckpointError, NetworkError, NotFiniteError
from brainevent.network import engines

BACKENDS = ("interpreted", "numba", "jax")
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
RECORD = ["a.spikes", "b.counts", "a.rate", "a.v", be.every(3, "b.w", neurons=[5, 0, 5])]


def rule(s, arriving, p, random):
    """Use functions, integers, a bool and random numbers."""
    w = s.w * jnp.exp(-p.dt / 5) + arriving.syn
    noise = 0.1 * random.normal() + 0.3 * random.poisson(p.events)
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + w + noise + 0.01 * jnp.tanh(s.v) + arriving.drive)
    spike = v >= p.threshold
    pause = jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, 0.0, v), w=w, pause=pause, up=v > s.v), spike


def network(size=61, weight=0.1, rule=rule, **changes):
    params = {"decay": 0.9, "threshold": 3.0} | ({} if rule is plain else {"events": 2.5}) | changes
    state = {"v": be.uniform(0, 3), "w": 0, "pause": 0, "up": False}
    a = be.Population("a", size, rule, state, params)
    b = be.Population("b", 23, rule, state, params)
    joined = [
        be.Projection(a, b, be.connect.prob(0.2, weight=weight), into="syn", delay=be.uniform(0.1, 1.0)),
        be.Projection(b, a, be.connect.prob(0.2, weight=be.normal(-0.3, 0.05, high=-0.1)), into="syn", delay=0.4),
        be.Projection(a, a, be.connect.in_degree(3, weight=3 * weight), into="syn", delay=0.1),
    ]
    return be.Network([a, b], joined, dt=0.1)


def built(backend="interpreted", net=None, **options):
    return (net or network()).build(seed=3, backend=backend, dtype="float64", **options)


def given_inputs(steps, dtype=np.float64):
    drive = np.sin(np.arange(steps))[:, None] * np.linspace(0, 0.1, 61)
    return {"a.drive": drive.astype(dtype), "b.drive": np.full((steps, 1), 0.1 / 3)}


def values(result):
    spikes = result["a.spikes"]
    return {
        "times": spikes.times,
        "neurons": spikes.neurons,
        **{key: result[key] for key in result if key != "a.spikes"},
    }


def same_bits(one, other):
    for key, value in values(one).items():
        assert value.dtype == values(other)[key].dtype
        assert value.tobytes() == values(other)[key].tobytes(), key


class Whole(dict):
    """60 steps by each engine, run when it is asked for."""

    def __missing__(self, backend):
        self[backend] = built(backend).run(60, RECORD, inputs=given_inputs(60), chunk=60)
        return self[backend]


@pytest.fixture(scope="module")
def whole():
    return Whole()


# ---- engines agree


@pytest.mark.thorough  # it compiles for ten seconds; others run a plain rule, and test_rule_float64 all functions
@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_an_engine_agrees_with_the_interpreter(whole, backend):
    expected = values(whole["interpreted"])
    assert expected["times"].size > 50
    for key, value in values(whole[backend]).items():
        np.testing.assert_allclose(value, expected[key], **CLOSE, err_msg=key)
    assert {key: value.dtype for key, value in values(whole[backend]).items()} == {
        key: value.dtype for key, value in expected.items()
    }


def plain(s, arriving, p):
    """Use arithmetic alone: then all but the reference have the same bits."""
    v = s.v * p.decay + arriving.syn / 3 + arriving.drive - jnp.sqrt(s.w)
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.1, v), w=s.w * 0.7 + 0.01, pause=s.pause + spike, up=~s.up), spike


@settings(max_examples=4, deadline=None)
@given(st.data())
def test_arithmetic_has_the_bits_of_the_interpreter(data):
    size, threads = data.draw(st.integers(1, 400)), data.draw(st.integers(1, 3))
    weight, threshold = data.draw(st.floats(1e-3, 1.0)), data.draw(st.floats(0.5, 3.0))
    net = network(size, weight, rule=plain, threshold=threshold)
    inputs = {"a.drive": np.full(20, data.draw(st.floats(-1, 1)))}
    found, expected = (
        built(backend, net, threads=threads).run(20, RECORD, inputs=inputs) for backend in ("numba", "interpreted")
    )
    same_bits(found, expected)


def test_more_digits_are_computed_than_in_float32(whole):
    narrow = network().build(seed=3, backend="interpreted").run(60, RECORD, inputs=given_inputs(60, np.float32))
    apart = np.abs(narrow["a.v"] - whole["interpreted"]["a.v"])[:5]
    assert 0 < apart.max() < 1e-5
    plan = built(net=network(weight=0.1)).plan
    alone = be.Population("a", 1, plain, {"v": 0.0, "w": 0, "pause": 0, "up": False}, {"decay": 0.1, "threshold": 1})
    exact = (
        be.Network([alone], [be.Projection(alone, alone, np.array([[0.1]]), into="syn")]).build(dtype="float64").plan
    )
    assert exact.populations[0].params["decay"] == 0.1
    assert exact.populations[0].quanta["syn"] == 0.1
    assert plan.populations[0].quanta["syn"].dtype == np.float64


def test_synapses_first_states_and_counts_are_those_of_float32():
    wide, narrow = built(), network().build(seed=3, backend="interpreted")
    for one, other in zip(wide.plan.synapses, narrow.plan.synapses, strict=True):
        for array in ("starts", "targets", "weights", "delays"):
            np.testing.assert_array_equal(getattr(one, array), getattr(other, array))
    np.testing.assert_array_equal(wide.state.neurons["a"]["v"], narrow.state.neurons["a"]["v"])
    assert {key: array.dtype.name for key, array in wide.state.neurons["a"].items()} == {
        "v": "float64", "w": "float64", "pause": "int32", "up": "bool",
    }  # fmt: skip


MODELS = ("lif_current", "lif_delta", "lif_exponential", "lif_conductance", "adex", "izhikevich", "hodgkin_huxley")


@pytest.mark.parametrize("model", MODELS)
def test_ready_models_are_computed_in_either(model):
    net = be.Network([getattr(be.models, model)("n", 3)], dt=0.1)
    wide, narrow = (net.build(backend="interpreted", dtype=dtype) for dtype in ("float64", "float32"))
    receptor = f"n.{next(iter(wide.plan.populations[0].quanta))}"
    one, other = (sim.run(70, "n.v", inputs={receptor: np.full(70, 0.2)})["n.v"] for sim in (wide, narrow))
    assert (one.dtype, other.dtype) == (np.float64, np.float32)
    assert np.ptp(one) > 1e-3
    np.testing.assert_allclose(one, other, rtol=1e-3)


# ---- the same bits


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [2, 3])
def test_no_bit_depends_on_threads(whole, threads):
    same_bits(built("numba", threads=threads).run(60, RECORD, inputs=given_inputs(60)), whole["numba"])


@pytest.mark.parametrize(("backend", "options"), [("interpreted", {}), ("numba", {"threads": 2}), ("jax", {})])
def test_no_bit_depends_on_chunks_and_on_a_file(backend, options, tmp_path):
    net = network() if backend == "interpreted" else network(rule=plain)  # others compile for long
    whole, first, second = built(backend, net), built(backend, net), built(backend, net, **options)
    inputs, path = given_inputs(60), tmp_path / "day1.npz"
    one = first.run(31, RECORD, inputs={key: value[:31] for key, value in inputs.items()}, chunk=8)
    first.save(path)
    second.load(path)
    two = second.run(29, RECORD, inputs={key: value[31:] for key, value in inputs.items()}, chunk=16)
    same_bits(one + two, whole.run(60, RECORD, inputs=inputs))


@pytest.mark.parametrize(("wrote", "reads"), [("float64", "float32"), ("float32", "float64")])
@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_of_one_dtype(tmp_path, wrote, reads, force):
    path = tmp_path / "day1.npz"
    network().build(seed=3, backend="interpreted", dtype=wrote).save(path)
    words = f"the file is of a network in {wrote}, and this network is in {reads}; build it with dtype='{wrote}'"
    with pytest.raises(CheckpointError, match=re.escape(words)):
        network().build(seed=3, backend="interpreted", dtype=reads).load(path, force=force)
    with np.load(path) as archive:
        assert json.loads(str(archive["header"]))["dtype"] == wrote


# ---- what simulations do


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_and_states_are_set_with_all_digits(backend):
    sim = built(backend, network(rule=plain))
    sim.set("a", threshold=1 + 1e-12, v=np.linspace(0, 1, 61), decay=np.float32(0.5))
    assert sim.params["a"]["threshold"] == 1 + 1e-12
    np.testing.assert_array_equal(sim.state.neurons["a"]["v"], np.linspace(0, 1, 61))
    result = sim.run(1, ["a.v"], inputs={"a.drive": [1e-13]})
    np.testing.assert_allclose(result["a.v"][0], np.linspace(0, 1, 61) / 2 + 1e-13, rtol=1e-15)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_finite_is_named(backend):
    sim = built(backend, network(rule=plain), check_finite=True)
    sim.set("b", w=np.where(np.arange(23) == 17, -1.0, 1e300))  # beyond float32, and its root is NaN
    with pytest.raises(NotFiniteError, match="population b: state v of neuron 17 is nan after step 0"):
        sim.run(3)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_large_finite_number_is_finite(parts):
    sim = built("numba", network(rule=plain), check_finite=True, threads=parts)
    sim.set("b", w=1.7e308)
    assert sim.run(2, ["b.w"])["b.w"].min() > 1e307


def test_a_rule_is_explained_and_reported_in_float64():
    sim = built(net=network(rule=plain))
    assert "state: s_v float64, s_w float64, s_pause int32, s_up bool" in sim.explain()
    assert "s_w * np.float64(0.7)" in sim.explain()
    assert "v float64, w float64, pause int32, up bool" in sim.report()


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("flaot64", "build: unknown dtype 'flaot64'; did you mean 'float64'?; pass one of 'float32', 'float64'"),
        ("float16", "build: unknown dtype 'float16'"),
        (np.float64, "build: unknown dtype <class 'numpy.float64'>"),
    ],
)
def test_an_unknown_dtype_is_refused_with_a_reason(dtype, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        network().build(dtype=dtype)


def test_a_backend_of_float32_alone_refuses_by_name(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "cuda", ("nowhere", "Nothing"))
    with pytest.raises(NetworkError, match="build: backend 'cuda' computes in float32 only; pass dtype='float32'"):
        network().build(backend="cuda", dtype="float64")


# ---- the pure function


def chain(weights=((0.7,),)):
    """Return neurons that drive another one, which never spikes."""

    def leaky(s, arriving, p):
        v = s.v * p.decay + arriving.syn + p.drive
        spike = v >= p.threshold
        return s.replace(v=jnp.where(spike, v - p.threshold, v)), spike

    a = be.Population("a", len(weights), leaky, {"v": 0.0}, {"decay": 0.9, "drive": 0.3, "threshold": 1.0})
    b = be.Population("b", 1, leaky, {"v": 0.0}, {"decay": 0.9, "drive": 0.0, "threshold": 1e9})
    return be.Network([a, b], [be.Projection(a, b, np.array(weights), into="syn")], dt=0.1)


def loss_of(sim):
    state, params = sim.state, sim.params

    def loss(drive, weights):
        changed = params | {"b": params["b"] | {"drive": drive}, "a->b.syn": weights}
        return be.simulate(sim, state, changed, 30, record="b.v")[1]["b.v"].sum()

    return loss


def test_gradients_have_the_digits_of_float64():
    sim = chain().build(backend="jax", dtype="float64")
    with jax.enable_x64(True):
        loss, at = loss_of(sim), (jnp.float64(0.1), jnp.array([0.7]))
        by_drive, by_weight = jax.jit(jax.grad(loss, (0, 1)))(*at)
        step = 1e-5
        differences = (loss(at[0] + step, at[1]) - loss(at[0] - step, at[1])) / (2 * step)
        spikes = be.simulate(sim, sim.state, sim.params, 30, record=["a.spikes"])[1]["a.spikes"]
    assert by_drive.dtype == by_weight.dtype == spikes.dtype == np.float64
    assert float(by_drive) == pytest.approx(float(differences), rel=1e-9)
    arrived = sum((1 - 0.9 ** (30 - t - 1)) / 0.1 for t in np.flatnonzero(np.asarray(spikes)[:, 0]) if t < 29)
    assert float(by_weight[0]) == pytest.approx(arrived, rel=1e-12)


def test_sums_beyond_2_to_the_24_have_derivatives():
    sims = [chain([[1.0], [3e7]]).build(backend="jax", dtype=dtype) for dtype in ("float32", "float64")]
    with jax.enable_x64(True):
        single, double = (np.asarray(jax.grad(loss_of(sim), 1)(0.0, jnp.array([1.0, 3e7]))) for sim in sims)
    assert double[0] == double[1] > 10
    np.testing.assert_allclose(single, double, rtol=1e-6)
    out = be.simulate(sims[1], sims[1].state, sims[1].params, 5, record=["a.spikes", "b.v"])[1]
    first = int(np.argmax(np.asarray(out["a.spikes"])[:, 0]))
    assert np.asarray(out["b.v"])[first + 1, 0] == 3e7 + 1


def test_no_flag_changes_what_a_network_computes():
    sim = chain().build(backend="jax", dtype="float64")
    for flag in (False, True):
        with jax.enable_x64(flag):
            assert be.simulate(sim, sim.state, sim.params, 30, record="b.v")[1]["b.v"].dtype == np.float64
            assert jnp.zeros(()).dtype == (np.float64 if flag else np.float32)


def test_a_transformation_with_32_bits_says_what_to_do():
    sim = chain().build(backend="jax", dtype="float64")
    with jax.enable_x64(False), pytest.raises(NetworkError, match="JAX traces this call with 32-bit floats; transform"):
        jax.grad(loss_of(sim))(0.1, np.array([0.7]))
