# SPDX-License-Identifier: Apache-2.0
"""Spikes times a sparse matrix, in a compiled loop: beside the PyPI package, JAX, SciPy, and what a machine allows."""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_SHARES = [0.0003, 0.001, 0.01, 0.1]  # of the neurons that are active
_KINDS = {"one": "one weight", "many": "a weight each"}
_OURS, _PEER = "csr", "peer"
_LABELS = {
    "csr": "ours: CSR",
    "fixed": "ours: FixedNumPerPre",
    "peer": "PyPI package: CSR",
    "bcoo": "JAX: BCOO",
    "bcsr": "JAX: BCSR, by target",
    "cusparse": "cuSPARSE, by JAX: CSR",
    "cupy": "cuSPARSE, by CuPy: CSR by target, from Python",
    "dense": "JAX: dense",
    "scipy": "SciPy: CSR, from Python",
    "scipy_rows": "SciPy: rows of who spikes, from Python",
}
# Neurons, and connections of each.
_GRID = [(n, fan_out) for n in (4_000, 77_000, 1_000_000) for fan_out in (80, 1_000, 3_870)]
_LARGE = (100_000, 1_000)
_VAST = 10**9  # synapses, from which on a matrix may be more than the memory holds
_LONG = 1_000  # connections, from which on a row's time is that of its elements
_HALF = Bar(0.5, on="value", at_least=True)


@dataclass(frozen=True)
class _Place:
    """Where products run: their sizes, who else runs them at some, how, and the bars."""

    benchmark: str
    platform: Any
    points: Sequence[tuple[int, int]]
    others: Mapping[tuple[int, int], Sequence[str]]
    how: Mapping[str, Any]
    faster: Bar
    peer: Mapping[str, Any] = field(default_factory=dict)

    def limited(self, n: int, fan_out: int, share: float) -> bool:
        """Whether a product is to take at most twice what the machine allows."""
        if self.platform == "gpu":
            return (n, fan_out) == _LARGE and share >= 0.01
        return fan_out >= _LONG


def measure_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Products on the CPU; a matrix of 1 000 000 by 3 870 connections is left out, for its memory."""
    others, from_python = ["bcoo", "bcsr", "scipy", "scipy_rows"], ["scipy", "scipy_rows"]
    place = _Place(
        benchmark="events",
        platform="cpu",
        points=_GRID[:2] if options.quick else _GRID[:-1],
        others={
            (4_000, 80): [*others, "dense"],
            (4_000, 1_000): [*others, "dense"],
            (4_000, 3_870): [*from_python, "dense"],
            (77_000, 80): others,
            (77_000, 1_000): ["bcoo", *from_python],
            (1_000_000, 80): from_python,
        },
        how={"seconds": 0.05},
        faster=Bar(1.5, at_least=True),
        peer={} if options.peer is None else {"python": options.peer},
    )
    return _measure(options, place)


def measure_gpu_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Products on a GPU, where cuSPARSE is called as JAX does, and as CuPy does."""
    others = ["bcoo", "bcsr", "cusparse"]
    if importlib.util.find_spec("cupy") is None:
        yield Absent(_LABELS["cupy"], "CuPy is not installed here: pip install cupy-cuda13x")
    else:
        others.append("cupy")
    place = _Place(
        benchmark="gpu_events",
        platform="gpu",
        points=[_LARGE] if options.quick else [_LARGE, *_GRID],
        others={
            (4_000, 80): [*others, "dense"],
            (4_000, 1_000): [*others, "dense"],
            **dict.fromkeys([(77_000, 80), (77_000, 1_000), _LARGE, (1_000_000, 80)], others),
        },
        how={"turns": 256},
        faster=Bar(2, at_least=True),
        peer={} if options.peer_packages is None else {"packages": options.peer_packages},
    )
    yield from _measure(options, place)


def _measure(options: Options, place: _Place) -> Iterator[Row | Absent | Failed]:
    points = [point for point in place.points if point in (options.sizes or place.points)]
    for n, fan_out in {*options.sizes} - {*points}:
        yield Failed(f"{n} x {fan_out}", f"pass one of {', '.join(f'{n}x{fan_out}' for n, fan_out in place.points)}")
    if not points:
        return
    limits = run_probe("event_limits", {"sizes": sorted({n for n, _ in points})}, platform=place.platform)
    if not place.peer:
        yield Absent(PEER_NAME, "it is not here, or --no-peers was given")
    for n, fan_out in points:
        vast = n * fan_out >= _VAST
        for kinds in [[kind] for kind in _KINDS] if vast else [[*_KINDS]]:  # apart, if one may be too large
            measured = _Measured(place, n, fan_out, kinds)
            measured.run(options)
            yield from measured.rows(limits)


@dataclass
class _Measured:
    """All products with matrices of one size and some kinds of weights: samples in us by kind, share and way."""

    place: _Place
    n: int
    fan_out: int
    kinds: Sequence[str]
    samples: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    synapses: dict[str, float] = field(default_factory=dict)
    megabytes: dict[tuple[str, str], float] = field(default_factory=dict)  # of a kind in a way
    failed: list[Failed] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The size, for people."""
        return f"{self.n} x {self.fan_out}"

    def run(self, options: Options) -> None:
        """Take turns with the PyPI package, which has our name and needs a process of its own."""
        rounds = options.choose_rounds(full=4, quick=3)
        problem = {"n": self.n, "fan_out": self.fan_out, "kinds": self.kinds, "shares": _SHARES, "rounds": rounds}
        problem |= self.place.how
        runs: list[tuple[dict[str, Any], Mapping[str, Any], str]] = [({"ways": [_OURS, "fixed"]}, {}, "")]
        if self.place.peer:
            runs.append(({"ways": [_OURS]}, self.place.peer, _PEER))
        vast = self.n * self.fan_out >= _VAST
        for turn in range(1 if options.quick or self.place.platform == "gpu" or vast else 2):
            for arguments, where, name in runs if turn % 2 == 0 else reversed(runs):
                self._join({**problem, **arguments}, where, name)
        others = self.place.others.get((self.n, self.fan_out))
        if others and "many" in self.kinds:
            few = {"kinds": ["many"], "shares": [0.01, 0.1], "rounds": 3}
            few |= {"turns": 32} if self.place.platform == "gpu" else {}  # some take 20 ms
            self._join({**problem, **few, "ways": list(others)}, {}, "")

    def _join(self, arguments: dict[str, Any], where: Mapping[str, Any], name: str) -> None:
        try:
            answer = run_probe("event_product", arguments, platform=self.place.platform, **where)
        except ProbeError as error:
            self.failed.append(Failed(f"{self.title}: {name or _OURS}", last_line(error)))
            return
        self.synapses |= answer["synapses"]
        for key, samples in answer["samples"].items():
            kind, share, way = key.split()
            self.samples.setdefault((kind, share, name or way), []).extend(1e6 * sample for sample in samples)
        for key, size in answer["bytes"].items():
            kind, way = key.split()
            self.megabytes[kind, name or way] = size / 1e6
        for key, why in answer["failed"].items():
            self.failed.append(Failed(f"{self.title}: {name} {key}", why))

    def rows(self, limits: Mapping[str, Any]) -> list[Row | Absent | Failed]:
        """One row per way, with its ratio to ours; ours have theirs to the PyPI package and to the limit."""
        found: list[Row | Absent | Failed] = []
        for (kind, share, way), samples in self.samples.items():
            title = f"{self.title}, {100 * float(share):g} %, {_KINDS[kind]}"
            ours, peer = self.samples.get((kind, share, _OURS)), self.samples.get((kind, share, _PEER))
            rate = self.synapses[share] / max(sorted(samples)[len(samples) // 2], 1e-3) / 1e3
            how: dict[str, Any] = {}
            if way == _OURS and peer:
                how = {"baseline": peer, "ratio_to": "faster than PyPI", "inverse": True, "bar": self.place.faster}
            elif way != _OURS and ours:
                how = {"baseline": _as_many(ours, samples), "ratio_to": "slower than ours"}
            size = self.megabytes.get((kind, way))
            note = f"{rate:.2f} G synapses/s" + (f", {size:.3g} MB" if size else "")
            found.append(make_row(self.place.benchmark, f"{title}: {_LABELS[way]}", "us", samples, **how, note=note))
            if way == _OURS:
                found.append(self._limit(title, kind, share, samples, limits))
        return [*found, *self.failed]

    def _limit(self, title: str, kind: str, share: str, samples: Sequence[float], limits: Mapping[str, Any]) -> Row:
        """The share of what bytes, additions and launches allow that a product reaches."""
        adds = self.synapses[share]
        moved = self.n + 32 * adds / self.fan_out + adds * (4 if kind == "one" else 8) + 8 * self.n
        bounds = {
            "bytes": moved / limits["bytes"],
            "additions": adds / limits["adds"][str(self.n)],
            "launch": limits["launch"],
        }
        by = max(bounds, key=lambda name: bounds[name])
        reached = [1e6 * bounds[by] / max(sample, 1e-3) for sample in samples]
        bar = _HALF if self.place.limited(self.n, self.fan_out, float(share)) else None
        note = f"at best {1e6 * bounds[by]:.1f} us, by {by}"
        return make_row(self.place.benchmark, f"{title}: share of the limit", "", reached, bar=bar, note=note)


def _as_many(samples: Sequence[float], others: Sequence[float]) -> list[float]:
    return [samples[i % len(samples)] for i in range(len(others))]
