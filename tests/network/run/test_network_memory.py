# SPDX-License-Identifier: Apache-2.0
"""What does not fit in memory is refused before a run; memory that becomes full ends a run, and loses nothing."""

import math
import re
import types

import numpy as np
import pytest
from forked import run_forked
from gpu_on_cpu import PretendDevice
from recorded import ALL, equal, simulation, values

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.recording import Recording
from brainevent.network.engines import make_engine
from brainevent.network.gpu import spikes
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.pages import aligned
from brainevent.network.run import collected
from brainevent.network.run.requests import every
from brainevent.network.run.simulation import Simulation


def test_what_cannot_be_recorded_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("brainevent.event.room._available", lambda: 10**9)
    cells = be.Population("b", 200_000, lambda s, arriving, p: (s.replace(v=s.v + 1), s.v < 0), {"v": 0.0})
    sim = be.Network([cells]).build(backend="interpreted")
    words = (
        "run: what 1000000 steps record (b.v 800 GB, b.rate 4 MB) would take 800 GB, but the host has 1 GB of memory "
        "left; record fewer neurons, every(n, ..., neurons=...), or run in pieces and keep of each what you need"
    )
    with pytest.raises(MemoryError, match=re.escape(words)):
        sim.run(10**6, ["b.v", "b.rate"])
    with pytest.raises(MemoryError, match=r"\(b\.v 8 GB\) would take 8 GB"):
        sim.run(10**6, every(100, "b.v"))
    assert sim.steps == 0
    assert sim.run(3, every(1, "b.v", neurons=[5]))["b.v"].tolist() == [[1], [2], [3]]


def test_the_limit_of_a_process_counts():
    run_forked(
        """
        import pathlib, resource
        import brainevent as be
        from brainevent.event.room import _available

        cells = be.Population("b", 1000, lambda s, arriving, p: (s.replace(v=s.v + 1), s.v < 0), {"v": 0.0})
        sim = be.Network([cells]).build(backend="interpreted")
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
        assert 0 < _available() <= 2**28, _available()
        try:
            sim.run(10**5, "b.v")
        except MemoryError as error:
            words = "run: what 100000 steps record (b.v 400 MB) would take 400 MB, but the host"
            assert str(error).startswith(words), error
        else:
            raise AssertionError("not refused")
        assert sim.steps == 0
        """
    )


class Failing(Interpreted):
    """An engine that gets no memory for its third chunk."""

    chunks = 0

    def run(self, *arguments):
        self.chunks += 1
        if self.chunks == 3:
            raise MemoryError("Unable to allocate 8 GiB")
        return super().run(*arguments)


def test_memory_that_is_full_ends_a_run_with_what_was_recorded():
    sim = simulation(engine=Failing)
    result = sim.run(90, ALL, chunk=20)
    assert (result.interrupted, result.steps, sim.steps) == (True, 40, 40)
    assert result.reason == "memory is full (Unable to allocate 8 GiB)"
    assert repr(result).startswith(
        "Result(40 steps of 0.1 ms from step 0, interrupted: memory is full (Unable to allocate 8 GiB))"
    )
    assert "interrupted: memory is full" in result._repr_html_()
    equal(values(result + sim.run(50, ALL)), values(simulation().run(90, ALL)))
    assert (result + sim.run(50, ALL) if sim.steps == 40 else result).reason == result.reason


def test_steps_that_ran_and_are_not_recorded_are_said():
    class Late(Failing):
        def run(self, *arguments):
            super(Failing, self).run(*arguments) if self.chunks == 2 else None
            return super().run(*arguments)

    sim = simulation(engine=Late)
    result = sim.run(90, ALL, chunk=20)
    assert (result.steps, sim.steps) == (40, 60)
    assert result.reason.endswith("; 20 steps ran after the last one that is recorded")
    equal(values(result), values(simulation().run(40, ALL)))


def test_nothing_recorded_is_an_error():
    sim = simulation(engine=Failing)
    sim.engine.chunks = 2
    with pytest.raises(MemoryError, match="Unable to allocate 8 GiB"):
        sim.run(90, ALL, chunk=20)
    assert sim.steps == 0


@pytest.mark.parametrize("parts", [1, 2])
def test_spikes_for_which_there_is_no_room_end_a_chunk(monkeypatch, parts):
    """The native engine then returns the steps that ran."""
    import small_plans

    plan, calls = small_plans.plan(parts), []
    make_room = Recording.make_room

    def failing(self):
        calls.append(self)
        if len(calls) == 3:
            raise MemoryError
        make_room(self)

    monkeypatch.setattr(Recording, "make_room", failing)
    sim, alone = (Simulation(plan, make_engine(plan, "numba")) for _ in range(2))
    result = sim.run(10**6, ALL, chunk=10**6)
    assert result.reason == "memory is full: there is no room for more spikes"
    assert 0 < result.steps == sim.steps < 10**6
    equal(values(result), values(alone.run(result.steps, ALL)))
    assert not alone.run(5, ALL).interrupted


def on_gpu(plan):
    return Simulation(plan, CudaEngine(plan, blocks=2, device=PretendDevice(4)))


def short_launches(monkeypatch, steps=7):
    """Let the kernel run few steps at a time."""
    monkeypatch.setattr("brainevent.network.gpu.run.STEPS", steps)


def test_spikes_for_which_there_is_no_room_end_a_run_on_a_gpu(monkeypatch):
    """Before steps whose spikes may find no room: nothing that ran is lost."""
    import small_plans

    plan = small_plans.plan()
    sim, alone = on_gpu(plan), on_gpu(plan)
    short_launches(monkeypatch)

    def limited(shape, dtype):
        if math.prod(shape) > 17_000:  # two launches need 2 x 8192, so this is full soon
            raise MemoryError
        return aligned(shape, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(spikes, "aligned", limited)
        result = sim.run(5000, ALL, chunk=5000)
        assert result.reason == "memory is full: there is no room for more spikes"
        assert result.interrupted
        assert 0 < result.steps == sim.steps < 5000
        patch.setattr(spikes, "aligned", lambda *_: limited((10**6,), np.uint8))
        with pytest.raises(MemoryError):
            alone.run(100, ALL)
        assert alone.steps == 0
    assert sum(result[f"{name}.spikes"].times.size for name in "ab") > 500
    equal(values(result), values(alone.run(result.steps, ALL)))
    equal(values(sim.run(50, ALL)), values(alone.run(50, ALL)))


@pytest.mark.parametrize("name", ["a", "b"])
def test_memory_that_is_full_while_spikes_are_taken_loses_none(monkeypatch, name):
    """Also in the middle of a launch, of which one population was taken before."""
    import small_plans

    plan, calls = small_plans.plan(), []
    sim, alone = on_gpu(plan), on_gpu(plan)
    short_launches(monkeypatch)
    order = spikes._order_bursts

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2 * 5 + "ab".index(name):
            raise MemoryError("Unable to allocate 2 MiB")
        order(*arguments)

    monkeypatch.setattr(spikes, "_order_bursts", failing)
    result = sim.run(500, ALL, chunk=500)
    assert (result.reason, result.interrupted) == ("memory is full: there is no room for more spikes", True)
    assert 20 < result.steps == sim.steps < 100
    equal(values(result), values(alone.run(result.steps, ALL)))


def test_a_gpu_without_memory_for_larger_launches_goes_on_with_small_ones(monkeypatch):
    """Launches then end when their memory is full; nothing is lost."""
    import test_network_gpu as pretended

    plan = pretended.bursting(2600)
    sim, alone = on_gpu(plan), Simulation(plan, Interpreted(plan))
    sim.run(1, "a.spikes")
    alone.run(1, "a.spikes")
    memory, refused = PretendDevice.memory, []

    def full(self, nbytes, what):
        if what == "spikes that are recorded":
            refused.append(nbytes)
            if nbytes > 8 * 4096 * 2:
                raise NetworkError("build: spikes that are recorded take too much")
        return memory(self, nbytes, what)

    monkeypatch.setattr(PretendDevice, "memory", full)
    result, expected = (one.run(40, ["a.spikes", "a.counts"]) for one in (sim, alone))
    assert refused
    assert not result.interrupted
    np.testing.assert_array_equal(result["a.spikes"].neurons, expected["a.spikes"].neurons)
    np.testing.assert_array_equal(result["a.counts"], expected["a.counts"])


def test_memory_to_join_spikes_is_kept_free(monkeypatch):
    """A run ends before there is no room to join the spikes of its chunks."""

    def empty(shape, dtype):
        if dtype == np.uint32 and np.prod(shape) > 300:
            raise MemoryError
        return np.empty(shape, dtype)

    sim = simulation()
    with monkeypatch.context() as patch:
        patch.setattr(collected, "np", types.SimpleNamespace(**{**vars(np), "empty": empty}))
        result = sim.run(2000, ALL, chunk=10)
    assert result.reason == "memory is full: there is no room to join more spikes"
    assert 0 < result.steps == sim.steps < 2000
    assert 100 < max(result[f"{name}.spikes"].times.size for name in "ab") <= 300
    equal(values(result), values(simulation().run(result.steps, ALL)))


@pytest.mark.parametrize("chunk", [1, 7, 45, 89, 90])
def test_chunks_are_joined_as_one_run_records(chunk):
    equal(values(simulation().run(90, ALL, chunk=chunk)), values(simulation().run(90, ALL, chunk=90)))


def test_samples_are_written_in_place():
    """The rows of all chunks lie in one array, which is made once."""
    result = simulation().run(90, ALL, chunk=7)
    assert result["a.pause"].base.shape == (90, 37)
    assert result["b.v"].base.shape == (13, 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_in_little_memory_returns_its_spikes(threads):
    """All neurons spike in each step, until a limit of the process is reached."""
    run_forked(
        f"""
        import pathlib, resource
        import numpy as np
        import brainevent as be

        cells = be.Population("b", 20_000, lambda s, arriving, p: (s.replace(v=s.v + 1), s.v > -1), {{"v": 0.0}})
        sim = be.Network([cells]).build(backend="numba", threads={threads})
        sim.run(20, ["b.spikes", "b.rate"])  # compiled
        first = sim.steps
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 2**27, resource.RLIM_INFINITY))
        result = sim.run(10**6, ["b.spikes", "b.rate"])
        assert result.interrupted and "memory is full" in result.reason, result
        steps = result.steps
        assert 100 < steps < 10_000 and sim.steps == first + steps, (steps, sim.steps, result.reason)
        assert (result["b.rate"] == 20_000).all() and result["b.rate"].size == steps
        when, who = result["b.spikes"].events
        assert when.size == who.size == 20_000 * steps
        assert (when[:: 20_000] == np.arange(first, first + steps)).all() and (who[-20_000:] == np.arange(20_000)).all()
        """
    )
