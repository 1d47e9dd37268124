# SPDX-License-Identifier: Apache-2.0
"""Long arrays are made piece by piece, with the same bits, so that Python answers signals during a build."""

import signal

import numpy as np
import pytest

import brainevent as be
from brainevent import _pieces as pieces
from brainevent.network.plan import drawn_values, fingerprint
from brainevent.scalar import primitives


def build(size, gain=1.0):
    rule = lambda s, arriving, p: (s.replace(v=s.v + p.gain + arriving.syn), s.v > 1)
    cells = be.Population("c", size, rule, {"v": be.normal(0, 1)}, {"gain": gain})
    return be.Network([cells]).build(seed=3, backend="numba", threads=2)


@pytest.mark.parametrize("length", [1, 7, 100, 101])
def test_pieces_change_no_bit(monkeypatch, length):
    whole = build(100, np.linspace(-1, 1, 100))
    for room in (pieces, drawn_values, primitives):
        monkeypatch.setattr(room, "PIECE", length)
    cut = build(100, np.linspace(-1, 1, 100))
    assert cut.plan.fingerprint == whole.plan.fingerprint
    np.testing.assert_array_equal(cut.state.neurons["c"]["v"], whole.state.neurons["c"]["v"])
    np.testing.assert_array_equal(cut.params["c"]["gain"], whole.params["c"]["gain"])
    tiny = np.array([1e-40, -1e-40, 1, np.nan] * 30, np.float32)
    np.testing.assert_array_equal(primitives.flushed(tiny), primitives.flush(tiny))
    assert fingerprint.pieces is pieces.pieces


def test_a_build_answers_signals(monkeypatch):
    """Each piece ends in Python, where a handler runs: so the build ends before all pieces of its first array."""
    build(100)  # compiled
    monkeypatch.setattr(drawn_values, "PIECE", 2**16)
    monkeypatch.setattr(pieces, "PIECE", 2**16)
    drawn = []
    real = drawn_values.pieces

    def counted(size):
        for piece in real(size):
            drawn.append(piece)
            yield piece

    monkeypatch.setattr(drawn_values, "pieces", counted)

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            build(2**26)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0 < len(drawn) < 2**10
