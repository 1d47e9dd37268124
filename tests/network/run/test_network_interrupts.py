# SPDX-License-Identifier: Apache-2.0
"""A run that Ctrl-C or an error ends: what was recorded and the state agree, and the simulation goes on from there."""

import os
import signal
import threading

import jax
import numpy as np
import pytest
from recorded import ALL, ON_CPU, PLAN, equal, simulation, values

from brainevent.network.engines import make_engine
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.requests import parsed, wanted
from brainevent.network.run.result import result_of
from brainevent.network.run.simulation import Simulation


class Pressed(Interpreted):
    """An engine in which Ctrl-C is pressed after the 40th step."""

    def after(self, inputs):
        if self.step == 39:
            os.kill(os.getpid(), signal.SIGINT)
        return super().after(inputs)


@pytest.mark.parametrize("chunk", [20, 90])
def test_ctrl_c_returns_what_ran(chunk):
    sim = simulation(engine=Pressed)
    result = sim.run(90, ALL, chunk=chunk)
    assert (result.interrupted, result.steps, sim.steps) == (True, 40, 40)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    equal(values(result + sim.run(50, ALL)), values(simulation().run(90, ALL)))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("seconds", [0.0, 0.03])
@pytest.mark.parametrize("backend", ON_CPU)
def test_ctrl_c_at_any_moment_loses_nothing(backend, seconds):
    """What ran is returned, and the run goes on with the same bits."""
    sim, alone = (Simulation(PLAN, make_engine(PLAN, backend)) for _ in range(2))
    press = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    result = sim.run(10**7, ALL, callback=lambda *_: press.ident or press.start())
    press.join()
    assert result.interrupted
    assert 0 < result.steps == sim.steps < 10**7
    result = result + sim.run(20, ALL)
    equal(values(result), values(alone.run(result.steps, ALL)))
    jax.tree.map(np.testing.assert_array_equal, sim.state.neurons, alone.state.neurons)


@pytest.mark.parametrize("backend", ON_CPU)
def test_an_engine_that_is_stopped_within_a_chunk_returns_what_ran(backend):
    requests = parsed(PLAN, ALL)
    engine, alone = (make_engine(PLAN, backend) for _ in range(2))
    asked = iter([False, False, False])
    part = engine.run(5000, wanted(requests), {}, lambda: next(asked, True))
    assert 0 < part.steps == engine.step < 5000
    whole = alone.run(part.steps, wanted(requests), {})
    equal(*(values(result_of(PLAN, requests, [recorded], 0)) for recorded in (part, whole)))
    jax.tree.map(np.testing.assert_array_equal, engine.state, alone.state)


def test_ctrl_c_in_the_last_step_is_not_forgotten():
    """A program that runs a simulation again and again ends its loop by `interrupted`."""
    result = simulation(engine=Pressed).run(40, ALL)
    assert (result.interrupted, result.steps) == (True, 40)


def test_a_second_ctrl_c_where_the_engine_hangs_raises_and_leaves_a_whole_step(monkeypatch):
    class Hanging(Pressed):
        def run(self, *given):
            recorded = super().run(*given)
            if self.step == 40:
                os.kill(os.getpid(), signal.SIGINT)
            return recorded

    assert simulation(engine=Hanging).run(90, chunk=20).steps == 40  # pressed twice at once
    monkeypatch.setattr("brainevent.network.run.pace._PATIENCE", 0)
    sim = simulation(engine=Hanging)
    with pytest.raises(KeyboardInterrupt):
        sim.run(90, chunk=20)
    assert (sim.steps, int(sim.state.step)) == (40, 40)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sim.run(50).steps == 50


@pytest.mark.parametrize("backend", ON_CPU)
def test_an_error_of_the_callback_leaves_the_state_after_its_chunk(backend):
    sim, alone = (Simulation(PLAN, make_engine(PLAN, backend)) for _ in range(2))
    with pytest.raises(ZeroDivisionError):
        sim.run(40, chunk=10, callback=lambda sim, result: 1 / (20 - sim.steps))
    assert sim.steps == 20
    alone.run(20)
    equal(values(sim.run(20, ALL)), values(alone.run(20, ALL)))


def test_a_handler_of_the_program_and_other_threads_are_left_alone():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        result = simulation(engine=Pressed).run(60, chunk=20)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (len(pressed), result.steps, result.interrupted) == (1, 60, False)
    steps = []
    thread = threading.Thread(target=lambda: steps.append(simulation().run(5).steps))
    thread.start()
    thread.join()
    assert steps == [5]
