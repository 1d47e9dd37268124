# SPDX-License-Identifier: Apache-2.0
"""How messages of GPUs are gathered: by one communicator for the same GPUs of each process, or in other ways."""

import types

import pytest
from joined_threads import JoinedThread

from brainevent.errors import NetworkError
from brainevent.network.gpu.cuda_device import CudaDevice
from brainevent.network.gpu.several.meeting import together
from brainevent.network.hosts import messages


class Gpu(CudaDevice):
    """A GPU by its number, of which JAX may know nothing."""

    def __init__(self, number, known=True, identity=None):
        self.number, self._known = number, known
        self.identity = (7, number) if identity is None else identity

    @property
    def of_jax(self):
        if not self._known:
            raise NetworkError("JAX has no such GPU")
        return types.SimpleNamespace(id=100 + self.number, platform="gpu")


@pytest.fixture
def joins(monkeypatch):
    """Return of each process that joined: its GPUs, the number of the first among all, and how many there are."""
    found = []

    class Communicator:
        def __init__(self, devices, first, count, name):
            assert len(name) == messages.ID_BYTES
            self.about = [device.number for device in devices], first, count

        def connect(self):
            found.append(self.about)

    monkeypatch.setattr(messages, "Communicator", Communicator)
    monkeypatch.setattr(messages, "new_id", lambda: messages.np.ones(messages.ID_BYTES, messages.np.uint8))
    monkeypatch.setattr(messages, "has_nccl", lambda: True)
    monkeypatch.setattr(messages, "_joined", {})
    return found


def asked(layout, **about):
    """Let processes with these GPUs ask for what gathers their messages."""
    processes = [JoinedThread(number, len(layout)) for number in range(len(layout))]

    def act(number, meeting):
        processes[number].meeting = meeting
        processes[number].together = lambda act: act()
        return messages.messages_of([Gpu(one, **about) for one in layout[number]], processes[number])

    return together([str(number) for number in range(len(layout))], act)


def test_gpus_join_once_for_the_gpus_of_each_process(joins):
    """A process whose own GPUs are the same joins again if those of others differ."""
    for layout, expected in (
        ([[0], [1]], [([0], 0, 2), ([1], 1, 2)]),
        ([[0], [1, 2]], [([0], 0, 3), ([1, 2], 1, 3)]),
        ([[0], [1]], []),
        ([[0], [2, 1]], [([0], 0, 3), ([2, 1], 1, 3)]),
        ([[0], [1, 2]], []),
        ([[0, 1], [2]], [([0, 1], 0, 3), ([2], 2, 3)]),
        ([[0, 1]], [([0, 1], 0, 2)]),
    ):
        joins.clear()
        found = asked(layout)
        assert [type(one) for one in found] == [messages.AmongGpus] * len(layout)
        assert sorted(joins) == expected


@pytest.mark.parametrize(
    ("layout", "about"),
    [([[0]], {}), ([[0], [1]], {"known": False}), ([[0], [1]], {"identity": (1, 2)}), ([[0, 1], [1, 0]], {})],
)
def test_messages_that_go_through_the_hosts(joins, layout, about):
    """Of one GPU alone; of those that JAX does not have; of the same one in several processes."""
    assert [type(one) for one in asked(layout, **about)] == [messages.ThroughHosts] * len(layout)
    assert not joins


class Streams(Gpu):
    """A GPU whose stream has ended or not; memory lies where it is asked for."""

    has_ended = True

    def is_done(self):
        return self.has_ended

    def memory(self, nbytes, what):
        return types.SimpleNamespace(address=1000 * (1 + self.number) + nbytes, nbytes=nbytes)


class Communicator:
    """What notes what it is asked for."""

    has_failed = False

    def __init__(self):
        self.calls = []

    def gather(self, own, all_, words):
        self.calls.append(("gather", list(own), list(all_), words))

    def leave(self):
        self.calls.append("leave")


@pytest.fixture
def among():
    """Return messages of two GPUs here, of five in all, and what gathers them."""
    gpus, communicator = [Streams(0), Streams(1)], Communicator()
    process = JoinedThread(0, 2)
    process.patience = 0.3
    found = messages.AmongGpus(gpus, 5, process, communicator)
    found.make_room(10)
    return found, gpus, communicator


def test_one_call_gathers_for_all_gpus_before_any_takes(among):
    found, _, communicator = among
    assert found.addresses == [1040, 2040]
    found.gather(lambda k, where: communicator.calls.append((k, where)))
    assert communicator.calls == [("gather", [1040, 2040], [1200, 2200], 10), (0, 1200), (1, 2200)]
    found.wait()
    assert len(communicator.calls) == 3


@pytest.mark.parametrize("late", [0, 1])
def test_each_gpu_is_awaited_and_then_left(among, late):
    found, gpus, communicator = among
    gpus[late].has_ended = False
    with pytest.raises(NetworkError, match=r"^hosts: a process did not come within 0\.3 seconds"):
        found.wait()
    assert communicator.calls == ["leave"]
    gpus[late].has_ended = True
    with pytest.raises(NetworkError, match="start all processes again"):
        found.wait()


def test_what_the_library_reports_ends_the_wait(among):
    found, gpus, communicator = among
    gpus[1].has_ended, communicator.has_failed = False, True
    with pytest.raises(NetworkError, match="another process ended, or its host cannot be reached"):
        found.wait()
    assert communicator.calls == ["leave"]
