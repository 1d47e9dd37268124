# SPDX-License-Identifier: Apache-2.0
"""What is asked of NCCL for several GPUs of a process: in groups, for each GPU in its context, stream and memory."""

import types

import numpy as np
import pytest

from brainevent.errors import NetworkError
from brainevent.network.gpu import nccl

NAME = np.arange(nccl.ID_BYTES, dtype=np.uint8)
WORDS, UINT32 = 7, 3


class Gpu:
    """A GPU that says when it is the current one."""

    def __init__(self, number, library):
        self.stream, self._number, self._library = 1000 + number, number, library

    def begin(self, act):
        self._library.current = self._number
        try:
            return act()
        finally:
            self._library.current = None

    def memory(self, nbytes, what):
        self._library.asked.append((self._number, nbytes))
        return types.SimpleNamespace(address=7000 + 10 * self._number + len(self._library.asked))

    def wait(self):
        self._library.calls.append(("wait", self._number, []))


class Library:
    """NCCL, as far as it is asked; `statuses` are its answers where they are not 0."""

    def __init__(self):
        self.calls, self.current, self.statuses, self.failing = [], None, {}, ()
        self.launching, self.asked = [], []

    def __getattr__(self, name):
        def call(*arguments):
            values = [getattr(one, "value", one) for one in arguments]
            self.calls.append((name, self.current, values))
            if name == "ncclCommInitRank":
                arguments[0]._obj.value = 500 + self.current
            if name == "ncclCommGetAsyncError":
                arguments[1]._obj.value = 6 if self.current in self.failing else 7
            if name == "ncclGroupEnd":
                self.launching.append(nccl.LAUNCHING._is_owned())
            return self.statuses.get((name, self.current), 0)

        if name == "ncclGetErrorString":
            return _ErrorString()
        return call

    def said(self):
        """Return names of calls and GPUs since this was asked last."""
        found, self.calls = [(name, gpu) for name, gpu, _ in self.calls], []
        return found


class _ErrorString:
    def __call__(self, status):
        return f"error {status}".encode()


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.setattr(nccl, "_library", lambda: found)
    return found


def joined(library, numbers=(0, 1)):
    return nccl.Communicator([Gpu(number, library) for number in numbers], 2, 5, NAME)


def test_ranks_of_a_process_join_in_one_group(library):
    joined(library, (0, 3))
    begin, *inits, end = library.calls
    assert begin[0] == "ncclGroupStart"
    assert end[0] == "ncclGroupEnd"
    assert [(name, gpu, count, rank) for name, gpu, (_, count, _, rank) in inits] == [
        ("ncclCommInitRank", 0, 5, 2),
        ("ncclCommInitRank", 3, 5, 3),
    ]
    assert [bytes(values[2]) for _, _, values in inits] == [NAME.tobytes()] * 2


def test_gatherings_of_a_process_begin_together(library):
    one = joined(library)
    library.said()
    for own, all_ in (([10, 11], [20, 21]), ([10, 11], [20, 21]), ([30, 31], [40, 41])):
        library.launching.clear()
        one.gather(own, all_, WORDS)
        gathers = [(gpu, values) for name, gpu, values in library.calls if name == "ncclAllGather"]
        assert gathers == [(k, [own[k], all_[k], WORDS, UINT32, 500 + k, 1000 + k]) for k in range(2)]
        assert library.launching == [True]
        assert library.said() == [
            ("ncclGroupStart", 0),
            ("ncclAllGather", 0),
            ("ncclAllGather", 1),
            ("ncclGroupEnd", 0),
        ]


@pytest.mark.parametrize("numbers", [(0, 1), (1,)])
def test_gpus_connect_at_a_first_gathering(library, numbers):
    """It is awaited while no lock is held: other processes may never come."""
    one = joined(library, numbers)
    library.said()
    library.launching.clear()
    one.connect()
    assert library.launching == [False]
    assert sorted(library.asked) == sorted((number, 4 * words) for number in numbers for words in (1, 5))
    gathers, waits = [("ncclAllGather", k) for k in numbers], [("wait", k) for k in numbers]
    group = [(f"ncclGroup{which}", numbers[0]) for which in ("Start", "End")]
    assert library.said() == [group[0], *gathers, group[1], *waits]


def test_a_single_gpu_gathers_without_a_group(library):
    one = joined(library, (1,))
    library.said()
    one.gather([10], [20], WORDS)
    assert library.said() == [("ncclAllGather", 1)]


def test_what_fails_in_a_group_ends_it(library):
    one = joined(library)
    library.said()
    library.statuses["ncclAllGather", 1] = 4
    with pytest.raises(NetworkError, match="hosts: ncclAllGather: error 4"):
        one.gather([10, 11], [20, 21], WORDS)
    assert library.said()[-1] == ("ncclGroupEnd", 0)
    assert not nccl.LAUNCHING._is_owned()


def test_all_gpus_are_asked_and_left(library):
    one = joined(library)
    assert not one.has_failed
    library.failing = (1,)
    assert one.has_failed
    library.said()
    one.leave()
    one.leave()
    assert library.said() == [("ncclCommAbort", 0), ("ncclCommAbort", 1)]
    library.said()
    one.gather([10, 11], [20, 21], WORDS)  # which NCCL refuses
    assert [values[4] for name, _, values in library.calls if name == "ncclAllGather"] == [None, None]
