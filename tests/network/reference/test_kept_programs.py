# SPDX-License-Identifier: Apache-2.0
"""Programs of `backend="jax"`, and of `simulate` outside of programs: other weights compile nothing."""

import contextlib
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.network.run.recorded import Wanted

NAME = "cells->cells.syn"
pytestmark = pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning")


@contextlib.contextmanager
def programs():
    """Collect the traces and compilations within a block."""
    found = []

    def heard(event, _, **others):
        if "compile_duration" in event or "trace_duration" in event:
            found.append((event, others))

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)


def leaky(s, arriving, p):
    v = p.keep * s.v + arriving.syn + p.drive
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def made(size=6, probability=1.0, delay=1.0, backend="jax"):
    params, state = {"keep": 0.9, "drive": 0.2}, {"v": be.uniform(0, 1)}
    cells = be.Population("cells", size, leaky, state=state, params=params)
    rule = be.connect.all_to_all if probability == 1 else be.connect.prob
    own = {} if probability == 1 else {"p": probability}
    synapses = be.Projection(cells, cells, rule(weight=be.uniform(-0.2, 0.2), **own), into="syn", delay=delay)
    return be.Network([cells], [synapses], dt=1.0).build(seed=2, backend=backend)


def changed(sim, k):
    """Set weights of another quantum, with nothing on its way."""
    sim.reset()
    sim.set(NAME, weights=np.random.default_rng(k).integers(-50, 99, len(sim.params[NAME])) * 0.003 * (1 + k))


@pytest.mark.parametrize(("probability", "size"), [(1.0, 6), (0.1, 700)])
def test_other_weights_compile_nothing(probability, size):
    sim = made(size, probability, be.uniform(1.0, 4.0))
    changed(sim, 9)
    with programs() as compiled:
        be.simulate(sim, sim.state, {}, 40, record="cells.counts")
        sim.engine.run(40, Wanted((), ("cells",)), {})
    assert compiled
    quanta, spikes = set(), []
    for k in range(4):
        changed(sim, k)
        quanta.add(sim.engine.plan.quanta)
        start = sim.state
        with programs() as compiled:
            _, out = be.simulate(sim, start, {}, 40, record="cells.counts")
            ran = sim.engine.run(40, Wanted((), ("cells",)), {})
        assert not compiled
        np.testing.assert_array_equal(ran.counts["cells"], out["cells.counts"])
        spikes.append(ran.counts["cells"].sum())
    assert len(quanta) == 4
    assert len(set(spikes)) > 1


def test_a_program_does_what_the_weights_of_now_do():
    """Also with pending input in other quanta, and where sums become integers."""
    sim = made(delay=3.0)
    for weights in (0.25, np.linspace(-1, 1, 36), np.linspace(1e-5, 1, 36), np.linspace(0.1, 1, 36)):
        sim.set(NAME, weights=weights)
        fresh = made(delay=3.0)
        fresh.set(NAME, weights=weights)
        fresh.state = sim.state
        after, out = be.simulate(sim, sim.state, {}, 9, record=["cells.v", "cells.spikes"])
        again, expected = jax.jit(lambda s, of=fresh: be.simulate(of, s, {}, 9, record=["cells.v", "cells.spikes"]))(
            sim.state
        )
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), (after, out), (again, expected))
        assert after.quanta == sim.state.quanta
        np.testing.assert_allclose(sim.run(9, record="cells.v")["cells.v"], out["cells.v"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fresh.run(9, record="cells.v")["cells.v"], out["cells.v"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["jax", pytest.param("numba", marks=pytest.mark.thorough)])
def test_training_that_sets_weights_between_steps_compiles_nothing(backend):
    """Gradients outside of `jax.jit`: with weights, and by a parameter with the weights of the simulation."""
    sim = made(backend=backend)
    start = sim.state

    def loss(params):
        return be.simulate(sim, sim.state, params, 20, record="cells.counts")[1]["cells.counts"].sum()

    slopes = []
    for k in range(4):
        changed(sim, k)
        with programs() as compiled:
            by_weights = jax.grad(loss)({NAME: sim.params[NAME]})[NAME]
            by_drive = jax.grad(loss)({"cells": {"drive": np.float32(0.2)}})["cells"]["drive"]
        assert bool(compiled) == (k == 0)
        own = jax.jit(jax.grad(lambda x, s=sim: loss({"cells": {"drive": x}})))(np.float32(0.2))
        np.testing.assert_allclose(by_drive, own, rtol=1e-4)
        slopes.append((float(by_drive), float(np.abs(by_weights).sum())))
    assert len(set(slopes)) == 4
    assert all(any(pair) for pair in slopes)
    assert start.quanta != sim.state.quanta


def test_other_calls_have_programs_of_their_own():
    sim = made()

    def counts(**options):
        return jax.tree.map(np.asarray, be.simulate(sim, sim.state, {}, 12, **options)[1])

    both = counts(record=["cells.counts", "cells.v"])
    assert set(counts(record="cells.counts")) == {"cells.counts"}
    assert set(both) == {"cells.counts", "cells.v"}
    given = counts(record="cells.v", inputs={"cells.syn": np.full(12, 0.5, "f4")})
    assert np.any(given["cells.v"] != both["cells.v"])
    few = counts(record=be.every(2, "cells.v", neurons=[1, 3]))
    np.testing.assert_array_equal(few["cells.v"], both["cells.v"][::2, [1, 3]])
    slow, fast = (jax.grad(lambda x, s=s: sum_of(sim, x, s))(np.float32(0.2)) for s in (1.0, 25.0))
    assert slow != fast


def sum_of(sim, drive, slope):
    out = be.simulate(
        sim,
        sim.state,
        {"cells": {"drive": drive}},
        12,
        record="cells.counts",
        surrogate=be.surrogate.fast_sigmoid(slope),
    )[1]
    return out["cells.counts"].sum()


def test_a_surrogate_of_the_user_is_read_in_each_call():
    sim, slope = made(), {"of": 1.0}

    def loss(drive):
        own = {"record": "cells.counts", "surrogate": lambda margin: slope["of"] * jnp.exp(-jnp.abs(margin))}
        return be.simulate(sim, sim.state, {"cells": {"drive": drive}}, 12, **own)[1]["cells.counts"].sum()

    one = jax.grad(loss)(np.float32(0.2))
    slope["of"] = 2.0
    assert jax.grad(loss)(np.float32(0.2)) > 1.5 * one > 0


def test_programs_go_with_their_simulation():
    sim = made()
    be.simulate(sim, sim.state, {}, 3)
    engine = weakref.ref(sim.engine)
    del sim
    gc.collect()
    assert engine() is None
