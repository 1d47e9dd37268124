# SPDX-License-Identifier: Apache-2.0
"""Runs, chunks and records by time: a time with a unit is a whole number of steps."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.run.duration import counted_steps

u = pytest.importorskip("brainunit")


def count(s, arriving, p):
    return s.replace(step=s.step + 1), s.step < 0


def built(dt=0.1):
    cells = be.Population("n", 2, count, {"step": 0})
    return be.Network([cells], dt=dt).build(backend="interpreted")


@given(st.integers(1, 2**32 - 1), st.sampled_from([0.1, 0.05, 0.025, 1 / 3, 1e-3, 0.7]))
def test_the_time_of_whole_steps_is_their_number(steps, dt):
    assert counted_steps("run: steps", steps * dt * u.ms, dt) == steps
    assert counted_steps("run: steps", steps * dt / 1000 * u.second, dt) == steps


@pytest.mark.parametrize(
    "time", [2.0 * u.ms, 2000 * u.us, 0.002 * u.second, jnp.float32(2) * u.ms, np.array(2.0) * u.ms]
)
def test_a_run_takes_a_time(time):
    sim = built()
    seen = []
    result = sim.run(
        time, be.every(0.4 * u.ms, "n.step"), callback=lambda sim, _: seen.append(sim.steps), chunk=1 * u.ms
    )
    assert (sim.steps, seen) == (20, [10, 20])
    assert result["n.step"][:, 0].tolist() == [1, 5, 9, 13, 17]
    np.testing.assert_allclose(result.times("n.step"), [0, 0.4, 0.8, 1.2, 1.6])


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (0.55 * u.ms, "run: steps is 0.55 ms, not a multiple of dt=0.1 ms; pass a multiple"),
        (3 * u.mV, "run: steps: has the unit mV; pass ms, or a number, which means ms"),
        (0 * u.ms, r"run: steps is 0 ms \(0 steps\); pass an integer from 1 to"),
        (-1 * u.ms, r"run: steps is -1 ms \(-10 steps\); pass an integer from 1 to"),
        (1e9 * u.second, r"run: steps is .* pass an integer from 1 to 4294967295"),
        (np.nan * u.ms, "run: steps is nan ms; pass one finite time"),
        (np.ones(2) * u.ms, "run: steps is .*; pass one finite time"),
    ],
)
def test_another_time_is_refused(time, words):
    sim = built()
    with pytest.raises(NetworkError, match=words):
        sim.run(time)
    assert sim.steps == 0


def test_a_record_whose_time_is_no_multiple_is_refused():
    with pytest.raises(NetworkError, match=r"every: steps is 0\.25 ms, not a multiple of dt=0\.1 ms"):
        built().run(2, be.every(0.25 * u.ms, "n.step"))


@pytest.mark.parametrize("ms", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), 2.0 * u.ms, 2000 * u.us])
def test_a_run_takes_milliseconds(ms):
    sim = built()
    assert sim.run(ms=ms, record="n.step")["n.step"].shape == (20, 2)
    assert sim.steps == 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, r"run: pass how long to run: a number of steps, as in run\(1000\), or run\(ms=500\)"),
        ({"steps": 5, "ms": 0.5}, "run: steps is 5 and ms is 0.5; pass one of them"),
        ({"ms": 0.55}, "run: ms is 0.55 ms, not a multiple of dt=0.1 ms; pass a multiple"),
        ({"ms": 0}, "run: ms is 0; pass a time from 0.1 ms to 4.29497e"),
        ({"ms": -1.0}, "run: ms is -1.0; pass a time from 0.1 ms"),
        ({"ms": 1e12}, "run: ms is 1000000000000.0; pass a time from"),
        ({"ms": np.nan}, "run: ms is nan; pass one finite time"),
        ({"ms": np.inf}, "run: ms is inf; pass one finite time"),
        ({"ms": True}, "run: ms is True; pass a number of milliseconds, such as 500"),
        ({"ms": "5"}, "run: ms is '5'; pass a number of milliseconds"),
        ({"ms": [1, 2]}, r"run: ms is \[1, 2\]; pass a number of milliseconds"),
        ({"ms": 3 * u.mV}, "run: ms: has the unit mV; pass ms, or a number, which means ms"),
    ],
)
def test_other_milliseconds_are_refused(arguments, words):
    sim = built()
    with pytest.raises(NetworkError, match=words):
        sim.run(**arguments)
    assert sim.steps == 0


def test_a_stepper_takes_a_time():
    assert built().stepper("n.step", steps=0.3 * u.ms)()["n.step"][:, 0].tolist() == [1, 2, 3]


def test_a_long_time_that_is_no_multiple_of_the_step_raises():
    with pytest.raises(NetworkError, match=r"not a multiple of dt=0\.1 ms"):
        built().run(ms=100_000.03)
    assert counted_steps("run", 0.1 * 1_000_001 * u.ms, 0.1) == 1_000_001
